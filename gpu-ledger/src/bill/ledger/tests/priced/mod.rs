//! Bills in money: exact over every split, divided as the policy says, and UNKNOWN where no price is.

mod properties;

pub(super) use properties::random_prices;

use jiff::tz::TimeZone;

use super::{ask, head, ledger, span};
use crate::bill::ledger::Ledger;
use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, gpu, program};
use crate::bill::report::{Outside, Priced, PricedLine, Report, Unpriced, report};
use crate::bill::{By, SharePolicy, text};
use crate::journal::entry::OpenKind;
use crate::prices::{Exact, Meter, MeterBasis, PriceList, parse};
use crate::unit::Span;
use crate::unknown::{DisputeReason, GapCause};

const HOUR: u64 = 3_600_000;

fn prices(text: &str) -> PriceList {
    parse(&format!("currency = \"EUR\"\n{text}"), &TimeZone::UTC)
        .unwrap_or_else(|faults| panic!("{}", faults.told("prices")))
}

/// A price of every GPU there is.
fn price(meter: &str, per_hour: &str) -> String {
    format!("[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"{meter}\"\nper_hour = \"{per_hour}\"\n")
}

/// A moment of the day, for a price file.
fn moment(ms: u64) -> String {
    crate::bill::period::moment_of(DAY_MS + ms).to_string()
}

fn made(
    (journal, ledger): (&Journal, &Ledger),
    span: Span,
    (by, share): (By, SharePolicy),
    list: &PriceList,
) -> Report {
    let mut ask = ask(span, by, share);
    ask.prices = Some(list.clone());
    report(ledger, &ask, head(journal), &Outside::default()).unwrap()
}

fn priced(journal: &Journal, span: Span, share: SharePolicy, list: &PriceList) -> Priced {
    made((journal, &ledger(journal)), span, (By::Account, share), list).priced.unwrap()
}

/// Every line in a few words.
fn told(priced: &Priced) -> Vec<String> {
    let line = |line: &PricedLine| {
        let amount = line.amount.map_or_else(
            || line.reason.map_or("?", Unpriced::as_str).to_owned(),
            |amount| amount.to_string(),
        );
        let (whose, quantity) = (line.account.as_deref().unwrap_or("-"), line.quantity_ms);
        let state = line.state.as_str();
        let quantity = quantity.map_or_else(|| "?".to_owned(), |ms| ms.to_string());
        format!("{} {state} {whose} {quantity} {amount}", line.meter)
    };
    priced.lines.iter().map(line).collect()
}

/// A morning on one GPU: five hours, of which ollama and whisper share one.
fn morning() -> Journal {
    let mut journal = Journal::began(0, 1);
    journal.settle(2 * HOUR, Row::of("ollama", 1, 0, 2 * HOUR));
    journal.settle(3 * HOUR, Row::of("whisper", 2, HOUR, 2 * HOUR));
    journal.settle(4 * HOUR, Row { account: NAMELESS, ..Row::of("", 3, 3 * HOUR, HOUR / 2) });
    journal.open(4 * HOUR, OpenKind::Row, 0, 4, 4 * HOUR, program("train"));
    journal.mark(5 * HOUR, 1);
    journal
}

#[test]
fn every_state_has_its_line_and_only_what_settled_is_booked() {
    let list = prices(&price("held", "1.20"));
    let found = priced(&morning(), span(0, 5 * HOUR), SharePolicy::None, &list);
    assert_eq!(
        told(&found),
        [
            "held settled ollama 7200000 2.4000",
            "held settled whisper 7200000 2.4000",
            "held unattributed unattributed 1800000 0.6000",
            "held open train 3600000 1.2000",
            "held free - 1800000 0.6000",
        ]
    );
    assert_eq!(found.booked.amount.unwrap().to_string(), "5.4000");
    assert_eq!((found.booked.lines, found.booked.unknown_lines), (3, 0));
    let booked: Vec<bool> = found.lines.iter().map(|line| line.is_booked).collect();
    assert_eq!(booked, [true, true, true, false, false]);
}

#[test]
fn shared_time_is_priced_as_the_named_policy_divides_it() {
    let list = prices(&price("held", "1.20"));
    let found = priced(&morning(), span(0, 5 * HOUR), SharePolicy::Equal, &list);
    assert_eq!(
        told(&found)[..2],
        ["held settled ollama 5400000 1.8000", "held settled whisper 5400000 1.8000"]
    );
    // By memory nothing can be divided: it is nobody's, and not free.
    let found = priced(&morning(), span(0, 5 * HOUR), SharePolicy::Memory, &list);
    assert_eq!(
        told(&found),
        [
            "held settled ollama 3600000 1.2000",
            "held settled whisper 3600000 1.2000",
            "held unattributed unattributed 1800000 0.6000",
            "held open train 3600000 1.2000",
            "held free - 1800000 0.6000",
            "held undivided - 3600000 undivided",
        ]
    );
    assert_eq!(found.booked.amount.unwrap().to_string(), "3.0000");
}

#[test]
fn meters_are_never_added_to_each_other_and_alone_is_booked_where_held_is_not_charged() {
    let both = prices(&format!("{}{}", price("held", "1.20"), price("alone", "2")));
    let found = priced(&morning(), span(0, 3 * HOUR), SharePolicy::None, &both);
    assert_eq!(
        told(&found),
        [
            "held settled ollama 7200000 2.4000",
            "held settled whisper 7200000 2.4000",
            "alone settled ollama 3600000 2.0000",
            "alone settled whisper 3600000 2.0000",
        ]
    );
    assert_eq!(found.booked.amount.unwrap().to_string(), "4.8000");
    let alone = prices(&price("alone", "2"));
    let found = priced(&morning(), span(0, 5 * HOUR), SharePolicy::None, &alone);
    assert_eq!(found.booked.amount.unwrap().to_string(), "5.0000");
    assert!(found.lines.iter().all(|line| line.meter == Meter::Alone));
    assert!(told(&found).contains(&"alone free - 1800000 1.0000".to_owned()), "{found:?}");
}

#[test]
fn what_is_sampled_is_marked_a_range_and_in_no_booked_total() {
    let list =
        prices(&format!("{}{}{}", price("held", "0"), price("busy", "3"), price("memory", "1")));
    let found = priced(&morning(), span(0, 5 * HOUR), SharePolicy::None, &list);
    let sampled: Vec<_> =
        found.lines.iter().filter(|line| line.basis == MeterBasis::Sampled).collect();
    assert_eq!(sampled.len(), 4);
    let ollama = sampled[0];
    assert_eq!((ollama.meter, ollama.quantity_ms), (Meter::Busy, Some(720_000)));
    assert_eq!(ollama.quantity_ms_high, Some(1_440_000));
    assert_eq!(ollama.amount.unwrap().to_string(), "0.6000");
    assert_eq!(ollama.amount_high.unwrap().to_string(), "1.2000");
    // Nobody sampled memory: it is UNKNOWN, and nobody's figure.
    let memory = sampled[3];
    assert_eq!((memory.meter, memory.quantity_ms, &memory.account), (Meter::Memory, None, &None));
    assert_eq!((memory.amount, memory.reason), (None, Some(Unpriced::NoSamples)));
    assert!(sampled.iter().all(|line| !line.is_booked));
    // A price of 0 is a price.
    assert_eq!(found.booked.amount.unwrap().to_string(), "0.0000");
    assert_eq!(found.booked.unknown_lines, 0);
    let unsampled = {
        let mut journal = Journal::began(0, 1);
        journal.settle(HOUR, Row { busy: None, ..Row::of("ollama", 1, 0, HOUR) });
        journal.mark(HOUR, 1);
        priced(&journal, span(0, HOUR), SharePolicy::None, &list)
    };
    let busy = unsampled.lines.iter().find(|line| line.meter == Meter::Busy).unwrap();
    assert_eq!((busy.amount, busy.reason), (None, Some(Unpriced::NoSamples)));
}

#[test]
fn a_missing_price_is_unknown_and_the_rest_is_priced() {
    let mut journal = Journal::began(0, 2);
    journal.settle(HOUR, Row::of("ollama", 1, 0, HOUR));
    journal.settle(HOUR, Row { gpu: 1, ..Row::of("whisper", 2, 0, HOUR) });
    journal.mark(HOUR, 2);
    let one = "[[price]]\ngpu = \"GPU-0a2b3c4d\"\nmeter = \"held\"\nper_hour = \"2\"\n";
    let (known, list) = (ledger(&journal), prices(one));
    let said = made((&journal, &known), span(0, HOUR), (By::Account, SharePolicy::None), &list);
    let found = said.priced.as_ref().unwrap();
    assert_eq!(
        told(found),
        ["held settled ollama 3600000 2.0000", "held settled whisper 3600000 no-price"]
    );
    assert_eq!(found.booked.amount.unwrap().to_string(), "2.0000");
    assert_eq!((found.booked.lines, found.booked.unknown_lines), (2, 1));
    assert!(!said.is_known());
    let unknown = said.unknown.iter().find(|line| line.reason == "no-price").unwrap();
    assert_eq!(unknown.gpu, Some(gpu(1)));
    let page = text::render(&said);
    assert!(page.contains("booked: 2.0000 EUR, and 1 of 2 lines UNKNOWN\n"), "{page}");
    assert!(page.contains("GPU_LEDGER_UNKNOWN reason=no-price gpu=GPU-1a2b3c4d"), "{page}");
    // With both there is nothing that is not known.
    let list = prices(&price("held", "2"));
    let said = made((&journal, &known), span(0, HOUR), (By::Account, SharePolicy::None), &list);
    assert!(said.is_known(), "{:?}", said.unknown);
    // Where nothing is known the sum is not 0.
    let list = prices(&one.replace("0a2b3c4d", "ffffffff"));
    let said = made((&journal, &known), span(0, HOUR), (By::Account, SharePolicy::None), &list);
    assert_eq!(said.priced.as_ref().unwrap().booked.amount, None);
    assert!(text::render(&said).contains("\n  booked: UNKNOWN\n"));
}

#[test]
fn a_price_of_no_gpu_is_said_with_the_gpu_that_was_meant_and_a_missing_one_with_what_to_add() {
    let mut journal = Journal::began(0, 2);
    journal.settle(HOUR, Row::of("ollama", 1, 0, HOUR));
    journal.mark(HOUR, 2);
    let list = prices(
        "[[price]]\ngpu = \"NVIDIA H20O\"\nmeter = \"held\"\nper_hour = \"2\"\n\
         [[price]]\ngpu = \"NVIDIA H20O\"\nmeter = \"alone\"\nper_hour = \"2\"\n\
         [[price]]\ngpu = \"Tesla K80\"\nmeter = \"held\"\nper_hour = \"2\"\n\
         [[price]]\ngpu = \"GPU-1a2b3c4d\"\nmeter = \"memory\"\nper_hour = \"1\"\n",
    );
    let mut ask = ask(span(0, HOUR), By::Account, SharePolicy::None);
    ask.prices = Some(list);
    // What is left out as asked is there all the same.
    ask.gpus = vec![gpu(0)];
    let said = report(&ledger(&journal), &ask, head(&journal), &Outside::default()).unwrap();
    let unmatched = &said.priced.as_ref().unwrap().unmatched;
    let told: Vec<_> =
        unmatched.iter().map(|one| (&*one.gpu, one.line, one.nearest.as_deref())).collect();
    assert_eq!(told, [("NVIDIA H20O", 2, Some("NVIDIA H200")), ("Tesla K80", 10, None)]);
    let page = text::render(&said);
    assert!(
        page.contains(
            "\n  prices of no GPU in this journal: \"NVIDIA H20O\" (line 2, and there is \"NVIDIA\n  H200\"), \
             \"Tesla K80\" (line 10)\n"
        ),
        "{page}"
    );
    assert!(
        page.contains(
            "\n  1 amounts by held hours\n  no held price of \"NVIDIA H200\" is in force for all of that time; add to \
             the\n  prices, each on a line of its own: [[price]] gpu = \"NVIDIA H200\" meter =\n  \"held\" per_hour = \
             \"…\"\n"
        ),
        "{page}"
    );
    let known = prices(&price("held", "2"));
    let all = priced(&journal, span(0, HOUR), SharePolicy::None, &known);
    assert!(all.unmatched.is_empty());
}

#[test]
fn a_price_of_memory_is_unknown_and_says_that_nothing_samples_it() {
    let mut journal = Journal::began(0, 1);
    journal.settle(HOUR, Row::of("ollama", 1, 0, HOUR));
    journal.mark(HOUR, 1);
    let list = prices(&format!("{}{}", price("held", "2"), price("memory", "1")));
    let ledger = ledger(&journal);
    let said = made((&journal, &ledger), span(0, HOUR), (By::Account, SharePolicy::None), &list);
    // All but that is known, and the bill is not.
    let unknown: Vec<_> = said.unknown.iter().filter(|line| !line.is_evidence).collect();
    let [memory] = unknown.as_slice() else { panic!("{unknown:?}") };
    assert_eq!((&*memory.reason, &*memory.subject), ("no-samples", "1 amounts by memory hours"));
    let remedy = memory.remedy.as_deref().unwrap();
    assert!(
        remedy.contains("memory was not sampled") && remedy.contains("memory_period"),
        "{remedy}"
    );
    assert!(!said.is_known());
}

#[test]
fn a_change_of_price_splits_the_time_at_that_very_millisecond() {
    let change = HOUR + 1;
    let list = prices(&format!(
        "{}until = {}\n{}from = {}\nuntil = {}\n",
        price("held", "1"),
        moment(change),
        price("held", "10"),
        moment(change),
        moment(2 * HOUR - 1)
    ));
    let mut journal = Journal::began(0, 1);
    journal.settle(2 * HOUR, Row::of("ollama", 1, 0, 2 * HOUR));
    journal.mark(2 * HOUR, 1);
    let found = priced(&journal, span(0, 2 * HOUR), SharePolicy::None, &list);
    assert_eq!(
        told(&found),
        [
            "held settled ollama 3600001 1.0000",
            "held settled ollama 3599998 10.0000",
            "held settled ollama 1 no-price",
        ]
    );
    let spans: Vec<Span> = found.lines.iter().map(|line| line.span).collect();
    assert_eq!(spans, [span(0, change), span(change, 2 * HOUR - 1), span(2 * HOUR - 1, 2 * HOUR)]);
    assert_eq!(found.lines[1].exact, Exact::of(3_599_998, found.lines[1].per_hour.unwrap()));
}

#[test]
fn a_gpus_own_price_goes_before_its_models_and_a_price_of_another_gpu_splits_nothing() {
    let list = prices(&format!(
        "{}[[price]]\ngpu = \"GPU-0a2b3c4d\"\nmeter = \"held\"\nper_hour = \"5\"\nfrom = {}\nuntil = {}\n\
         [[price]]\ngpu = \"GPU-9a2b3c4d\"\nmeter = \"held\"\nper_hour = \"7\"\nfrom = {}\n",
        price("held", "1"),
        moment(HOUR),
        moment(2 * HOUR),
        moment(HOUR / 2),
    ));
    let mut journal = Journal::began(0, 1);
    journal.settle(3 * HOUR, Row::of("ollama", 1, 0, 3 * HOUR));
    journal.mark(3 * HOUR, 1);
    let found = priced(&journal, span(0, 3 * HOUR), SharePolicy::None, &list);
    assert_eq!(
        told(&found),
        [
            "held settled ollama 3600000 1.0000",
            "held settled ollama 3600000 5.0000",
            "held settled ollama 3600000 1.0000",
        ]
    );
}

#[test]
fn what_is_in_dispute_or_was_not_seen_has_no_price() {
    let mut journal = Journal::began(HOUR, 1);
    let step = Some(DisputeReason::ClockStep);
    journal.settle(2 * HOUR, Row { dispute: step, ..Row::of("ollama", 1, HOUR, HOUR / 2) });
    journal.open(2 * HOUR, OpenKind::NoDriverRow, 0, 9, 0, program("voice"));
    journal.mark(3 * HOUR, 1);
    let list = prices(&price("held", "1"));
    let found = priced(&journal, span(0, 3 * HOUR), SharePolicy::None, &list);
    assert_eq!(
        told(&found),
        [
            "held free - 1800000 0.5000",
            "held uncovered - 3600000 uncovered",
            // Nobody is billed for it, and free it was not.
            "held unbilled - 5400000 1.5000",
            "held disputed ollama 1800000 disputed",
        ]
    );
    assert_eq!(found.booked.amount.unwrap().to_string(), "0.0000");
}

#[test]
fn what_one_held_while_nobody_saw_is_on_its_line_and_on_no_other() {
    let mut journal = Journal::began(0, 1);
    journal.settle(4 * HOUR, Row::of("ollama", 1, HOUR, 2 * HOUR));
    journal.settle(4 * HOUR, Row { account: NAMELESS, ..Row::of("", 2, HOUR, HOUR) });
    journal.gap(GapCause::NvmlCallTimeout, Some(0), 0, 5 * HOUR, None);
    journal.mark(6 * HOUR, 1);
    let list = prices(&price("held", "1"));
    let found = priced(&journal, span(0, 5 * HOUR), SharePolicy::Equal, &list);
    assert_eq!(
        told(&found),
        [
            "held settled ollama 5400000 1.5000",
            "held unattributed unattributed 1800000 0.5000",
            "held uncovered - 10800000 uncovered",
        ]
    );
}

#[test]
fn an_open_row_adds_what_settling_it_would_and_nothing_twice() {
    let mut journal = Journal::began(0, 1);
    journal.settle(2 * HOUR, Row::of("ollama", 1, 0, 2 * HOUR));
    let open = journal.open(HOUR, OpenKind::Row, 0, 2, HOUR, program("ollama"));
    journal.mark(3 * HOUR, 1);
    let list = prices(&price("held", "1"));
    let before = priced(&journal, span(0, 3 * HOUR), SharePolicy::None, &list);
    assert_eq!(
        told(&before),
        ["held settled ollama 7200000 2.0000", "held open ollama 3600000 1.0000"]
    );
    journal.settle(3 * HOUR, Row { opened: Some(open), ..Row::of("ollama", 2, HOUR, 2 * HOUR) });
    journal.mark(3 * HOUR + 1, 1);
    let after = priced(&journal, span(0, 3 * HOUR), SharePolicy::None, &list);
    assert_eq!(told(&after), ["held settled ollama 10800000 3.0000"]);
}

#[test]
fn a_filter_prices_the_lines_that_it_shows_and_none_else() {
    let journal = morning();
    let mut ask = ask(span(0, 5 * HOUR), By::Account, SharePolicy::None);
    ask.prices = Some(prices(&price("held", "1.20")));
    ask.accounts = vec!["whisper".to_owned()];
    let said = report(&ledger(&journal), &ask, head(&journal), &Outside::default()).unwrap();
    let found = said.priced.unwrap();
    assert_eq!(told(&found), ["held settled whisper 7200000 2.4000"]);
    assert_eq!(found.booked.amount.unwrap().to_string(), "2.4000");
    assert_eq!(found.totals.len(), 1);
}

#[test]
fn time_asleep_is_not_priced_and_what_of_it_fell_where_is_unknown_and_not_guessed() {
    let slept = |rows: Vec<Row>, span: Span, share: SharePolicy| {
        let mut journal = Journal::began(0, 1);
        for row in rows {
            journal.settle(3 * HOUR, row);
        }
        journal.mark(3 * HOUR, 1);
        let list = prices(&format!("{}{}", price("held", "1"), price("alone", "2")));
        told(&priced(&journal, span, share, &list))
            .into_iter()
            .filter(|line| line.contains("settled"))
            .collect::<Vec<_>>()
    };
    let row = |name: &str, pid: u32, from: u64, asleep_ms: Option<u64>| Row {
        asleep_ms,
        ..Row::of(name, pid, from, HOUR)
    };
    let (whole, none) = (span(0, 3 * HOUR), SharePolicy::None);
    let half = || row("ollama", 1, 0, Some(HOUR / 2));
    assert_eq!(
        slept(vec![half()], whole, none),
        ["held settled ollama 1800000 0.5000", "alone settled ollama 1800000 1.0000"]
    );
    // The period cuts the span: the sleep was in it, or was not.
    let unknown = ["held settled ollama ? asleep", "alone settled ollama ? asleep"];
    assert_eq!(slept(vec![half()], span(0, HOUR - 1), none), unknown);
    // How long it slept was not observed.
    assert_eq!(slept(vec![row("ollama", 1, 0, None)], whole, none), unknown);
    // Two of one account at once slept once.
    assert_eq!(slept(vec![half(), row("ollama", 2, 1, Some(HOUR / 2))], whole, none), unknown);
    assert_eq!(
        slept(vec![half(), row("ollama", 2, HOUR, Some(0))], whole, none),
        ["held settled ollama 5400000 1.5000", "alone settled ollama 5400000 3.0000"]
    );
    // Beside another account for a part of it: all of it is known, and not what of it was alone.
    let beside = || vec![half(), row("whisper", 2, HOUR / 2, Some(0))];
    assert_eq!(
        slept(beside(), whole, none),
        [
            "held settled ollama 1800000 0.5000",
            "held settled whisper 3600000 1.0000",
            "alone settled ollama ? asleep",
            "alone settled whisper 1800000 1.0000",
        ]
    );
    assert_eq!(
        slept(beside(), whole, SharePolicy::Equal)[..2],
        ["held settled ollama ? asleep", "held settled whisper 2700000 0.7500"]
    );
}
