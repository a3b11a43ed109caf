//! Names and amounts of which a section has no room for all.
#![expect(clippy::arithmetic_side_effects, reason = "made moments are small numbers")]

use unicode_width::UnicodeWidthStr as _;

use super::LINES_SHOWN_MAX;
use super::tests::{ask, made_as};
use crate::bill::made::{Journal, Row, program};
use crate::bill::{By, SharePolicy};
use crate::journal::entry::OpenKind;
use crate::prices::PriceList;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const JOBS: u32 = 60;

/// Two containers of almost one id.
fn docker(end: &str) -> String {
    format!("docker 3f2a9c0d1e4b{end}{}", "0".repeat(52 - end.len()))
}

fn prices() -> PriceList {
    let text = "currency = \"EUR\"\n[[price]]\ngpu = \"GPU-0a2b3c4d\"\nmeter = \"held\"\nper_hour = \"1\"\n";
    crate::prices::parse(text, &jiff::tz::TimeZone::UTC).unwrap()
}

/// More accounts than a section has lines, the largest last by name, and two containers of which one is among the
/// largest and one has no line.
fn crowded() -> Journal {
    let mut journal = Journal::began(0, 1);
    for job in 1..=JOBS {
        let row = Row::of(&format!("job {job:02}"), job, 0, u64::from(job) * MINUTE);
        journal.settle(2 * HOUR, row);
    }
    journal.settle(2 * HOUR, Row::of(&docker("aaaa"), 100, 0, 90 * MINUTE));
    journal.settle(2 * HOUR, Row::of(&docker("aabb"), 101, 0, MINUTE / 2));
    journal.open(4 * HOUR, OpenKind::Row, 0, 102, 4 * HOUR, program(&docker("aabb")));
    journal.mark(5 * HOUR, 1);
    journal
}

#[test]
fn one_map_of_names_is_that_of_every_section_and_of_what_has_no_line_and_each_is_taken() {
    let journal = crowded();
    for by in [By::Account, By::Process] {
        let page = super::render(
            &made_as(&journal, &ask(by, SharePolicy::None, &[], Some(prices()))).unwrap(),
        );
        let named = page.lines().filter_map(|line| {
            let (_, id) = line.split_once("docker ")?;
            Some(format!("docker {}", id.split(' ').next()?))
        });
        let named: Vec<String> = named.collect();
        // Accounts, sampled, two lines in money, open.
        assert!(named.len() >= 5, "{page}");
        for word in named {
            assert!(!word.ends_with('…'), "no column has enough of it: {word}");
            let mut ask = ask(By::Account, SharePolicy::None, &[], None);
            ask.accounts = vec![word.clone()];
            let meant = made_as(&journal, &ask).map_err(|error| error.to_string());
            let meant: Vec<String> =
                meant.unwrap().accounts.into_iter().map(|line| line.account).collect();
            let end = if word.contains("4baaaa") { "aaaa" } else { "aabb" };
            assert_eq!(meant, [docker(end)], "{word}");
        }
    }
}

/// An amount in its last digits.
fn digits(amount: &str) -> u64 {
    amount.replace('.', "").parse().unwrap()
}

#[test]
fn money_is_cut_by_amount_and_what_is_folded_is_summed_beside_the_total() {
    let ask = ask(By::Account, SharePolicy::None, &[], Some(prices()));
    let report = made_as(&crowded(), &ask).unwrap();
    let page = super::render(&report);
    let (_, money) = page.split_once("\npriced in EUR").unwrap();
    let (lines, _) = money.split_once("\n  held settled: ").unwrap();
    let amounts = |state: &str| -> Vec<u64> {
        let is = |line: &&str| line.contains(&format!(" held   {state} "));
        let last = |line: &str| digits(line.split(' ').next_back().unwrap());
        lines.lines().filter(is).map(last).collect()
    };
    let (settled, open, free) = (amounts("settled"), amounts("open"), amounts("free"));
    assert_eq!(settled.len() + open.len() + free.len(), LINES_SHOWN_MAX, "{page}");
    assert!(settled.is_sorted_by(|a, b| a >= b) && settled[0] == 15_000, "{settled:?}");
    // Of sixty jobs by size those stay that are named last.
    assert!(lines.contains("job 60 ") && !lines.contains("job 01 "), "{lines}");
    assert!((open[0], open.len(), free.len()) == (10_000, 1, 1), "{page}");
    // Of 62 settled lines 38 stand there: jobs 1 to 23 and a container do not.
    let folded = "\n  … 24 more held settled: 4.6083 EUR; all of them in --format json";
    assert!(lines.contains(folded), "{lines}");
    let shown: u64 = settled.iter().sum();
    let (_, total) = money.split_once("\n  held settled: ").unwrap();
    assert_eq!(shown + 46_083, digits(total.split(' ').next().unwrap()));
    let is_for_people = |line: &&str| !line.starts_with("GPU_LEDGER_UNKNOWN ");
    assert!(page.lines().filter(is_for_people).all(|line| line.width() <= 80), "{page}");
}
