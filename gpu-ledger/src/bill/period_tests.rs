//! Words of people, and the periods that they mean.

use super::*;

const HOUR_MS: u64 = 3_600_000;

/// The rule of central Europe, so that no zone file of this machine is needed.
fn berlin() -> TimeZone {
    TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
}

fn at(now: &str, zone: TimeZone) -> Standpoint {
    Standpoint { now: now.parse().unwrap(), latest_ms: None, zone }
}

fn asked(since: &str, until: &str) -> Asked {
    let word = |word: &str| (!word.is_empty()).then(|| word.to_owned());
    Asked { since: word(since), until: word(until), period: None }
}

fn whole(word: &str) -> Asked {
    Asked { period: Some(word.to_owned()), ..Asked::default() }
}

fn shown(standpoint: &Standpoint, asked: &Asked) -> (String, String, u64) {
    let period = standpoint.period(asked).unwrap();
    let show = |ms| moment_of(ms).to_string();
    let span = period.span;
    (show(span.from_ms()), show(span.to_ms()), span.length().0)
}

#[test]
fn without_a_word_it_is_today_until_now() {
    let here = at("2026-11-30T05:38:50Z", berlin());
    let (since, until, _) = shown(&here, &Asked::default());
    assert_eq!((&*since, &*until), ("2026-11-29T23:00:00Z", "2026-11-30T05:38:50Z"));
    assert!(here.period(&Asked::default()).unwrap().is_open_ended);
}

#[test]
fn every_word_for_a_moment_is_understood() {
    let here = at("2026-11-30T05:38:50Z", berlin());
    let cases = [
        ("2026-10-01T12:00:00Z", "2026-10-01T12:00:00Z"),
        ("2026-10-01T12:00:00+02:00", "2026-10-01T10:00:00Z"),
        ("2026-10-01T12:00", "2026-10-01T10:00:00Z"),
        ("2026-10-01 12:00:30", "2026-10-01T10:00:30Z"),
        ("2026-10-01", "2026-09-30T22:00:00Z"),
        ("2026-10", "2026-09-30T22:00:00Z"),
        ("2026", "2025-12-31T23:00:00Z"),
        ("yesterday", "2026-11-28T23:00:00Z"),
        ("24h", "2026-11-29T05:38:50Z"),
        ("1h30m", "2026-11-30T04:08:50Z"),
        ("7d", "2026-11-23T05:38:50Z"),
    ];
    for (word, expected) in cases {
        assert_eq!(shown(&here, &asked(word, "")).0, expected, "{word}");
    }
    // Seven days of the calendar: one of them had 25 hours.
    let later = at("2026-10-28T05:00:00Z", berlin());
    assert_eq!(shown(&later, &asked("7d", "")).0, "2026-10-21T04:00:00Z");
}

#[test]
fn a_day_on_which_the_clock_changes_has_its_true_length() {
    let here = at("2026-11-30T05:38:50Z", berlin());
    for (since, until, hours) in [
        ("2026-03-29", "2026-03-30", 23),
        ("2026-10-25", "2026-10-26", 25),
        ("2026-10-24", "2026-10-25", 24),
    ] {
        assert_eq!(shown(&here, &asked(since, until)).2, hours * HOUR_MS, "{since}");
        assert_eq!(shown(&here, &whole(since)).2, hours * HOUR_MS, "{since}");
    }
    assert_eq!(shown(&here, &whole("2026-10")).2, (31 * 24 + 1) * HOUR_MS);
    assert_eq!(shown(&here, &whole("2025")).2, 365 * 24 * HOUR_MS);
}

#[test]
fn a_midnight_that_does_not_exist_begins_when_the_clock_goes_on() {
    // Springs forward at midnight on the last Sunday of March.
    let zone = TimeZone::posix("EET-2EEST,M3.5.0/0,M10.5.0/0").unwrap();
    let here = at("2026-11-30T05:38:50Z", zone);
    assert_eq!(shown(&here, &whole("2026-03-29")).2, 23 * HOUR_MS);
}

#[test]
fn a_whole_that_is_not_over_ends_now() {
    let here = at("2026-11-30T05:38:50Z", TimeZone::UTC);
    let period = here.period(&whole("2026-11")).unwrap();
    assert!(period.is_open_ended);
    assert_eq!(period.span.to_ms(), milliseconds(here.now));
    assert!(!here.period(&whole("yesterday")).unwrap().is_open_ended);
    assert!(here.period(&whole("all")).unwrap().begins_with_journal);
}

/// The same, with a journal that reaches beyond now.
fn reaching_to(now: &str, latest: &str) -> Standpoint {
    let latest: Timestamp = latest.parse().unwrap();
    Standpoint { latest_ms: Some(milliseconds(latest)), ..at(now, TimeZone::UTC) }
}

#[test]
fn after_the_clock_was_set_back_an_open_end_is_where_the_journal_ends() {
    let here = reaching_to("2026-11-30T05:00:00Z", "2026-12-01T07:00:00Z");
    let until = |asked: &Asked| shown(&here, asked).1;
    let after = "2026-12-01T07:00:00.001Z";
    assert_eq!(until(&whole("all")), after);
    assert_eq!(until(&asked("2026-11-01", "")), after);
    assert_eq!(until(&whole("2026-12")), after, "it begins later than now, and is spoken of");
    assert_eq!(until(&asked("2026-12-01T06:00:00Z", "")), after);
    // What is a whole ends with itself.
    assert_eq!(until(&whole("today")), "2026-12-01T00:00:00Z");
    assert_eq!(until(&whole("yesterday")), "2026-11-30T00:00:00Z");
    let beyond = Beyond {
        now_ms: milliseconds(here.now),
        latest_ms: milliseconds("2026-12-01T07:00:00Z".parse().unwrap()),
    };
    for (asked, expected) in [
        (whole("all"), Some(beyond)),
        (whole("today"), Some(beyond)),
        (whole("yesterday"), None),
        (asked("2026-11-01", "now"), None),
    ] {
        assert_eq!(here.period(&asked).unwrap().beyond_now, expected, "{asked:?}");
    }
}

#[test]
fn an_end_in_the_future_is_taken_as_far_as_the_journal_reaches_and_no_further() {
    let here = reaching_to("2026-11-30T05:00:00Z", "2026-12-01T07:00:00Z");
    let period = here.period(&asked("2026-11-30", "2026-12-01T07:00:00Z")).unwrap();
    assert!(!period.is_open_ended && period.beyond_now.is_some());
    for (asked, option) in [
        (asked("2026-11-30", "2026-12-01T07:00:01Z"), "--until 2026-12-01 07:00:01 UTC"),
        (asked("2026-12-02", ""), "--since 2026-12-02 00:00:00 UTC"),
        (whole("2027"), "the period from 2027-01-01 00:00:00 UTC"),
    ] {
        let refused = here.period(&asked).unwrap_err().to_string();
        let why = "lies in the future (it is 2026-11-30 05:00:00 UTC, and the journal reaches to \
                   2026-12-01 07:00:00 UTC); ";
        assert!(refused.starts_with(&format!("{option} {why}")), "{refused}");
    }
}

#[test]
fn all_that_a_journal_says_since_is_read_unless_the_period_is_over() {
    let here = at("2026-11-30T05:00:00Z", TimeZone::UTC);
    let read = |asked: &Asked| here.reading(asked).unwrap();
    let span = |asked: &Asked| here.period(asked).unwrap().span;
    let over = [whole("yesterday"), asked("2026-11-01", "2026-11-02"), asked("7d", "now")];
    for asked in over {
        assert_eq!(read(&asked), span(&asked), "{asked:?}");
    }
    for asked in [whole("all"), whole("today"), asked("24h", "")] {
        assert_eq!(read(&asked).from_ms(), span(&asked).from_ms(), "{asked:?}");
        assert_eq!(read(&asked).to_ms(), u64::MAX, "{asked:?}");
    }
    // Whether they are spoken of only the journal says.
    for asked in [asked("2027", ""), asked("", "2026-12-24"), whole("2026-12")] {
        assert_eq!(read(&asked).to_ms(), u64::MAX, "{asked:?}");
        assert!(here.period(&asked).is_err(), "{asked:?}");
    }
    assert!(here.reading(&asked("2026-10-02", "2026-10-01")).is_err());
}

#[test]
fn what_is_no_period_is_refused_with_what_to_type() {
    let here = at("2026-11-30T05:38:50Z", TimeZone::UTC);
    let refused = |asked: &Asked| here.period(asked).unwrap_err().to_string();
    let cases = [
        (asked("soon", ""), "--since \"soon\" is no moment; give a moment such as"),
        (asked("2026-13", ""), "is no moment"),
        (asked("2026-02-30", ""), "is no moment"),
        (asked("-1h", ""), "is no moment"),
        (asked("", "tomorrow"), "--until \"tomorrow\" is no moment"),
        (asked("2026-10-02", "2026-10-01"), "is reversed; give --until a moment after --since"),
        (asked("2026-10-02", "2026-10-02"), "is empty"),
        (asked("now", ""), "is empty; give --since an earlier moment, such as 1h or yesterday"),
        (
            asked("", "yesterday"),
            "is reversed; give --since too: without it the period begins with today",
        ),
        (asked("2027", ""), "lies in the future (it is 2026-11-30 05:38:50 UTC); give a moment"),
        (asked("", "2026-12-01"), "leave it out to bill everything up to now"),
        (whole("7d"), "--period \"7d\" is no period"),
        (whole("0000"), "ends before 1970-01-01T00:00:00Z, where the calendar of a journal"),
        (whole("1969-12"), "where the calendar of a journal begins; give a later one"),
        (asked("1960", "1961"), "where the calendar of a journal begins"),
        (asked("1961", "1960"), "is reversed"),
        (whole("2026-12"), "the period from 2026-12-01 00:00:00 UTC lies in the future"),
        (whole("2027"), "; give one that has begun"),
    ];
    for (asked, expected) in cases {
        let text = refused(&asked);
        assert!(text.contains(expected), "{asked:?}: {text}");
    }
    let both = Asked { period: Some("2026".to_owned()), ..asked("today", "") };
    assert_eq!(here.period(&both), Err(PeriodError::Both));
}

#[test]
fn a_clock_that_shows_an_hour_twice_needs_its_offset() {
    let here = at("2026-11-30T05:38:50Z", berlin());
    let refused = here.period(&asked("2026-10-25T02:30", "")).unwrap_err().to_string();
    assert!(refused.contains("twice or never; give its offset"), "{refused}");
    assert!(here.period(&asked("2026-10-25T02:30+01:00", "")).is_ok());
}

#[test]
fn the_zone_is_named() {
    assert_eq!(zone_name(&TimeZone::UTC), "UTC");
    assert_eq!(
        show("2026-07-01T00:00:00.25Z".parse().unwrap(), &berlin()),
        "2026-07-01 02:00:00.250 CEST"
    );
}

#[test]
fn a_moment_with_a_zone_of_its_own_is_in_that_zone_or_refused() {
    let here = at("2026-11-30T05:38:50Z", TimeZone::posix("JST-9").unwrap());
    let since = |word: &str| here.period(&asked(word, "")).map(|period| period.span.from_ms());
    let expected = since("2026-11-29T23:00:00Z");
    assert!(expected.is_ok());
    for word in ["2026-11-30T00:00:00[+01:00]", "2026-11-30T00:00+01:00[+01:00]"] {
        assert_eq!(since(word), expected, "{word}");
    }
    for word in [
        "2026-11-30T00:00:00[Nonsense/Zone]",
        "2026-11-30T00:00:00[u-ca=hebrew]",
        "2026-11-30T00:00:00+01:00[+05:00]",
    ] {
        let refused = since(word).unwrap_err().to_string();
        assert!(refused.contains("is no moment ("), "{refused}");
    }
}
