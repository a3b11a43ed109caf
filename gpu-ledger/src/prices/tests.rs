//! Price files: what they mean, and every way in which one is refused.

use jiff::tz::TimeZone;

use super::*;
use crate::unit::Span;

const DOCUMENTED: &str = include_str!("../../units/prices.toml");
/// 2026-01-01T00:00:00Z.
const YEAR_MS: u64 = 1_767_225_600_000;
const DAY_MS: u64 = 86_400_000;

fn parsed(text: &str) -> PriceList {
    parse(text, &TimeZone::UTC).unwrap_or_else(|faults| panic!("{}", faults.told("x.toml")))
}

fn faults(text: &str) -> Vec<String> {
    let faults = parse(text, &TimeZone::UTC).unwrap_err();
    faults.shown().iter().map(ToString::to_string).collect()
}

fn gpu(uuid: &str) -> GpuUuid {
    GpuUuid(uuid.into())
}

/// A file with one price, of which one line is another.
fn with(key: &str, line: &str) -> String {
    let lines = ["gpu = \"NVIDIA H200\"", "meter = \"held\"", "per_hour = \"1.25\""];
    let lines = lines.map(|known| if known.starts_with(key) { line } else { known });
    let more = if lines.contains(&line) { "" } else { line };
    format!("currency = \"EUR\"\n[[price]]\n{}\n{more}\n", lines.join("\n"))
}

#[test]
fn the_documented_file_is_a_list_of_prices_and_names_every_key_and_meter() {
    let list = parsed(DOCUMENTED);
    assert_eq!(list.currency(), "EUR");
    assert_eq!(list.prices().len(), 4);
    for word in ["gpu", "meter", "per_hour", "from", "until"] {
        assert!(DOCUMENTED.contains(&format!("\n# {word:<10}")), "{word}");
    }
    for meter in Meter::ALL {
        assert!(DOCUMENTED.contains(&format!(" {meter:<8}")), "{meter}");
    }
    let h200 = Some("NVIDIA H200");
    let price = |uuid: &str, at_ms| {
        let found = list.in_force(&gpu(uuid), h200, Meter::Held, at_ms);
        found.map(|(number, price)| (number, price.per_hour.to_string()))
    };
    let july_ms = YEAR_MS + 181 * DAY_MS;
    assert_eq!(price("GPU-1", YEAR_MS - 1), None);
    assert_eq!(price("GPU-1", YEAR_MS), Some((0, "2.8".to_owned())));
    assert_eq!(price("GPU-1", july_ms - 1), Some((0, "2.8".to_owned())));
    assert_eq!(price("GPU-1", july_ms), Some((1, "2.55".to_owned())));
    assert_eq!(price("GPU-4a1b2c3d-0000", july_ms), Some((2, "1.9995".to_owned())));
    assert_eq!(price("GPU-4a1b2c3d-0000", 0), Some((2, "1.9995".to_owned())));
}

#[test]
fn a_day_begins_where_the_bills_time_zone_says_and_a_moment_is_one_everywhere() {
    let text = with("from", "from = 2026-01-01");
    let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let from = |text: &str, zone: &TimeZone| parse(text, zone).unwrap().prices()[0].from_ms;
    assert_eq!(from(&text, &TimeZone::UTC), YEAR_MS);
    assert_eq!(from(&text, &berlin), YEAR_MS - 3_600_000);
    assert_eq!(from(&with("from", "from = \"2026-01-01\""), &berlin), YEAR_MS - 3_600_000);
    for moment in ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00Z"] {
        assert_eq!(from(&with("from", &format!("from = {moment}")), &berlin), YEAR_MS, "{moment}");
    }
    assert_eq!(from(&with("from", "from = 1969-12-31"), &TimeZone::UTC), 0);
}

#[test]
fn a_whole_number_and_text_are_prices_and_zero_is_one() {
    for (written, meant) in
        [("2", "2"), ("\"2\"", "2"), ("\"0\"", "0"), ("0", "0"), ("\"0.000000001\"", "0.000000001")]
    {
        let list = parsed(&with("per_hour", &format!("per_hour = {written}")));
        assert_eq!(list.prices()[0].per_hour.to_string(), meant, "{written}");
    }
}

#[test]
fn a_wrong_price_is_refused_with_its_place_and_what_to_do() {
    let cases = [
        ("\"-1\"", "is negative; give 0 or more"),
        ("-1", "is negative; give 0 or more"),
        ("-0.5", "is negative; give 0 or more"),
        ("\"NaN\"", "is no number; write the price as text"),
        ("nan", "is no number; write the price as text"),
        ("-nan", "is no number"),
        ("inf", "is no number"),
        ("\"-Infinity\"", "is no number"),
        ("1.25", "is a floating-point number; write the price as text: per_hour = \"1.25\""),
        ("\"1e3\"", "has an exponent; write all of its digits"),
        ("1e3", "has an exponent; write all of its digits"),
        ("\"1,25\"", "has a comma; write a point"),
        ("\"1_000\"", "is no decimal number"),
        ("\"+1\"", "is no decimal number"),
        ("\".5\"", "is no decimal number"),
        ("\"5.\"", "is no decimal number"),
        ("\"\"", "is no decimal number"),
        ("\"1.25 EUR\"", "is no decimal number"),
        ("\"٣\"", "is no decimal number"),
        ("\"0.0000000001\"", "has too many digits; give at most 9"),
        ("\"1000000000.1\"", "is too large; give at most 1000000000 an hour"),
        ("\"99999999999999999999999999999999\"", "is too large"),
        ("0x10", "is no price"),
        ("true", "is no price"),
        ("[]", "is no price"),
    ];
    for (written, wanted) in cases {
        let told = faults(&with("per_hour", &format!("per_hour = {written}")));
        let [told] = told.as_slice() else { panic!("{written}: {told:?}") };
        assert!(told.contains(wanted), "{written}: {told}");
        assert!(told.starts_with("5:12: ") && told.contains("; "), "{written}: {told}");
    }
}

#[test]
fn every_other_wrong_value_is_refused_likewise() {
    let cases = [
        ("meter", "meter = \"hled\"", "\"hled\" is no meter; did you mean \"held\"?"),
        ("meter", "meter = 5", "5 is no meter; give \"held\", \"alone\", \"busy\" or \"memory\""),
        ("gpu", "gpu = 0", "0 is no GPU; give a UUID"),
        ("gpu", "gpu = \"0\"", "is an index, and may be another GPU tomorrow; give a UUID"),
        ("gpu", "gpu = \"GPU-1a2\"", "is no UUID with its first 8 digits"),
        ("gpu", "gpu = \"\"", "is no GPU"),
        ("from", "from = 2026-13-01", "write `key = value`"),
        ("from", "from = \"2026-02-30\"", "is no day and no moment with its offset; give a day"),
        ("from", "from = 2026-01-01T00:00:00", "no moment with its offset"),
        ("from", "from = 07:00:00", "no moment with its offset"),
        ("from", "from = 2026", "no moment with its offset"),
        ("form", "form = 2026-01-01", "unknown key `form`; did you mean `from`?"),
        ("perhour", "perhour = 1", "unknown key `perhour`; did you mean `per_hour`?"),
        ("zzz", "zzz = 1", "unknown key `zzz`; the known ones here are gpu, meter"),
        ("currency", "currency = \"USD\"", "a bill has one currency, and a file too"),
        ("until", "until = 1970-01-01", "ends before it begins, or as it begins; give `until`"),
    ];
    for (key, line, wanted) in cases {
        let told = faults(&with(key, line));
        assert!(told.iter().any(|told| told.contains(wanted)), "{line}: {told:?}");
    }
    let told = faults("[[price]]\n");
    assert!(told.iter().any(|told| told.starts_with("1:1: no currency; ")), "{told:?}");
    for key in ["gpu", "meter", "per_hour"] {
        let wanted = format!("1:1: a price without `{key}`; give ");
        let wanted = if key == "per_hour" { wanted.replace("; give ", "; write ") } else { wanted };
        assert!(told.iter().any(|told| told.starts_with(&wanted)), "{wanted}: {told:?}");
    }
    for wrong in ["\"eur\"", "\"EURO\"", "5", "\"€\""] {
        let told = faults(&format!("currency = {wrong}\nprice = []"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("1:12: ") && told[0].contains("\"EUR\""), "{told:?}");
    }
    let twice = faults("currency = \"EUR\"\ncurrency = \"USD\"\nprice = []");
    assert!(twice[0].starts_with("2:1: "), "{twice:?}");
    assert!(faults("currency = \"EUR\"\nprice = 5")[0].contains("write [[price]]"));
    assert!(faults("currency = \"EUR\"\nprice = [5]")[0].contains("write [[price]]"));
    assert!(faults("currency = \"EUR\"")[0].contains("no prices; write [[price]]"));
    assert!(
        faults("currenzy = \"EUR\"\nprice = []").iter().any(|told| told.contains("`currency`?"))
    );
}

#[test]
fn all_faults_are_told_at_once_in_the_order_of_the_file_and_many_are_counted() {
    let text = with("per_hour", "per_hour = -1").replace("held", "hold");
    let told = faults(&text);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("4:9: \"hold\"") && told[1].starts_with("5:12: -1"), "{told:?}");
    let many = "zz = 1\n".replace("zz", "[[price]]\nzz").repeat(30);
    let refused = parse(&format!("currency = \"EUR\"\n{many}"), &TimeZone::UTC).unwrap_err();
    assert_eq!(refused.shown().len(), FAULTS_SHOWN_MAX);
    let told = refused.told("/etc/p.toml");
    assert!(told.starts_with("/etc/p.toml:2:1: "), "{told}");
    assert!(told.ends_with("/etc/p.toml: and 100 more"), "{told}");
}

#[test]
fn two_prices_at_one_time_are_refused_with_both_places_and_neighbours_are_none() {
    let two = |first: &str, second: &str| {
        format!(
            "currency = \"EUR\"\n[[price]]\nmeter = \"held\"\nper_hour = 1\n{first}\n\
             [[price]]\nmeter = \"held\"\nper_hour = 2\n{second}\n"
        )
    };
    let h200 = "gpu = \"NVIDIA H200\"";
    let overlapping = [
        (h200.to_owned(), h200.to_owned()),
        (h200.to_owned(), "gpu = \"nvidia h200\"".to_owned()),
        ("gpu = \"GPU-4a1b2c3d\"".to_owned(), "gpu = \"GPU-4a1b2c3d-55\"".to_owned()),
        (format!("{h200}\nuntil = 2026-01-01T00:00:00.001Z"), format!("{h200}\nfrom = 2026-01-01")),
    ];
    for (first, second) in &overlapping {
        let told = faults(&two(first, second));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("at the same time as the one at 2:1; let the earlier"),
            "{told:?}"
        );
    }
    let neighbours = [
        (format!("{h200}\nuntil = 2026-01-01"), format!("{h200}\nfrom = 2026-01-01")),
        (h200.to_owned(), "gpu = \"GPU-4a1b2c3d\"".to_owned()),
        (h200.to_owned(), "gpu = \"NVIDIA H100\"".to_owned()),
        ("gpu = \"GPU-4a1b2c3d\"".to_owned(), "gpu = \"GPU-4a1b2c3e\"".to_owned()),
    ];
    for (first, second) in &neighbours {
        assert_eq!(parsed(&two(first, second)).prices().len(), 2);
    }
}

#[test]
fn a_line_of_a_mebibyte_is_refused_with_its_place_and_so_are_too_many_prices() {
    let long = format!("currency = \"EUR\"\n# {}\n", "x".repeat(1 << 20));
    let told = faults(&long);
    assert_eq!(
        told,
        ["2:4097: a line of 1048578 bytes; break it: no line of prices is longer than 4096 bytes"]
    );
    let price =
        |number: usize| format!("[[price]]\ngpu = \"m{number}\"\nmeter = \"held\"\nper_hour = 1\n");
    let all = |count| format!("currency = \"EUR\"\n{}", (0..count).map(price).collect::<String>());
    assert_eq!(parsed(&all(PRICES_MAX)).prices().len(), PRICES_MAX);
    let told = faults(&all(PRICES_MAX + 1));
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("4002:1: more than 1000 prices; "), "{told:?}");
}

#[test]
fn no_byte_of_a_file_reaches_the_terminal_raw() {
    for text in ["\u{1b}[2J", "currency = \"\u{202e}\"\nprice = []", "x = \"\u{1b}\""] {
        for told in faults(text) {
            assert!(!told.contains(['\u{1b}', '\u{202e}']), "{told:?}");
        }
    }
}

#[test]
fn changes_are_those_within_a_period() {
    let list = parsed(DOCUMENTED);
    let period = Span::new(YEAR_MS, YEAR_MS + 365 * DAY_MS).unwrap();
    let july_ms = YEAR_MS + 181 * DAY_MS;
    assert_eq!(list.changes(period).into_iter().collect::<Vec<_>>(), [july_ms]);
    assert!(list.charges(&gpu("GPU-1"), Some("nvidia h200"), Meter::Busy));
    assert!(!list.charges(&gpu("GPU-1"), Some("NVIDIA H200"), Meter::Alone));
    assert!(!list.charges(&gpu("GPU-1"), None, Meter::Held));
}

/// What somebody took for a name and is none would price nothing.
#[test]
fn what_is_no_gpus_name_is_refused_with_what_to_write() {
    for (written, what) in [
        ("51d00000", "GPU-51d00000"),
        ("4a1b2c3d-0000-1111-2222-333344445555", "GPU-4a1b2c3d-0000"),
        ("0000:3b:00.0", "place on the bus"),
        ("3B:00.0", "place on the bus"),
        ("MIG-4a1b2c3d", "part of a GPU"),
    ] {
        let told = faults(&with("gpu", &format!("gpu = \"{written}\"")));
        assert!(
            told.len() == 1 && told[0].starts_with("3:7: ") && told[0].contains(what),
            "{told:?}"
        );
    }
    for right in ["NVIDIA H200", "A100", "Tesla T4", "GPU-4a1b2c3d", "NVIDIA GB10"] {
        parsed(&with("gpu", &format!("gpu = \"{right}\"")));
    }
}
