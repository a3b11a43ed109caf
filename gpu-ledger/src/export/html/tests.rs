//! The page: its areas are the bill's figures, its size is bounded, and a name in it is text.

use std::collections::BTreeMap;

use super::columns::{COLUMNS, Part, WHOLE, columns};
use super::look::Looks;
use super::page;
use crate::bill::By;
use crate::bill::made::{Journal, Row, program};
use crate::bill::report::Report;
use crate::escape::printable;
use crate::export::made::{HOSTILE, HOUR, billed, of};
use crate::journal::entry::OpenKind;

fn report() -> Report {
    billed(By::Process, &[], true)
}

#[test]
fn the_areas_of_a_lane_are_the_figures_of_its_gpu() {
    let report = report();
    let looks = Looks::of(&report);
    for (gpu, lane) in report.gpus.iter().zip(&report.lanes) {
        let columns = columns(lane, report.period.span, &looks);
        assert_eq!(u64::try_from(columns.len()).unwrap(), COLUMNS);
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (part, area) in columns.iter().flatten() {
            let word = match part {
                Part::Alone(_) => "alone",
                Part::Shared(_) => "shared",
                Part::Unseen(_) | Part::Uncovered => "uncovered",
                Part::Free => "free",
            };
            *sums.entry(word).or_default() += area;
        }
        let ms = |word: &str| sums.get(word).copied().unwrap_or(0);
        for (word, figure) in [
            ("alone", gpu.alone_ms),
            ("shared", gpu.shared_ms),
            ("free", gpu.free_ms),
            ("uncovered", gpu.uncovered_ms),
        ] {
            assert_eq!(ms(word), figure.0 * WHOLE, "{word}");
        }
    }
}

#[test]
fn a_name_is_text_and_nothing_is_asked_for_or_run() {
    let page = page(&report());
    for name in HOSTILE {
        let shown = printable(name.as_bytes()).to_string();
        let shown = super::markup::safe(&shown);
        assert!(page.contains(&shown), "{shown}");
    }
    let policy = "default-src 'none'; style-src 'sha256-";
    assert!(page.contains(policy) && !page.contains("unsafe-inline"), "{page}");
    for never in [
        "<script",
        "<img",
        "<svg onload",
        "<iframe",
        "<link",
        "http:",
        "https:",
        " style=",
        "@import",
    ] {
        assert!(!page.contains(never), "{never}");
    }
    // Addresses are of the page itself alone.
    assert_eq!(page.matches("url(").count(), page.matches("url(#").count());
    assert_eq!(page.matches("href=").count(), page.matches("href=\"#").count());
}

#[test]
fn every_element_ends_and_what_opens_has_a_name_for_it() {
    let page = page(&report());
    for element in
        ["section", "table", "details", "svg", "g", "dl", "ul", "tbody", "div", "td", "pattern"]
    {
        let begun = page.matches(&format!("<{element}>")).count()
            + page.matches(&format!("<{element} ")).count();
        assert_eq!(begun, page.matches(&format!("</{element}>")).count(), "{element}");
    }
    assert_eq!(page.matches("<details>").count(), page.matches("<summary>").count());
    let pictures = page.matches("role=\"img\"").count();
    assert_eq!(pictures, page.matches("role=\"img\" aria-label=\"").count());
    assert!(pictures >= 3 && page.contains("href=\"#lanes\""), "{pictures}");
    let heads = page.matches("<th ").count();
    assert_eq!(heads, page.matches("<th scope=").count(), "each says what it is the head of");
}

#[test]
fn settled_stands_beside_open_and_every_reason_says_what_it_means() {
    let page = page(&report());
    for wanted in [
        "SIMULATED DRIVER",
        "llama-server: open",
        "ollama: settled",
        "event-lost",
        "counted as lost.",
        "rows-possibly-evicted",
        "clock-step",
        "voice-daemon",
        "Held time by hour",
        "booked, EUR",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert_eq!(page, super::page(&report()), "the same report gives the same bytes");
}

#[test]
fn a_hundred_thousand_settlements_are_a_page_of_bounded_size_that_says_what_it_leaves_out() {
    let mut journal = Journal::began(0, 2);
    for number in 0..100_000_u32 {
        let start = u64::from(number) * 5 * HOUR / 100_000;
        let name = format!("job {}", number % 500);
        let row = Row { gpu: u64::from(number % 2), ..Row::of(&name, 10_000 + number, start, 250) };
        journal.settle(start + 400, row);
    }
    journal.open(5 * HOUR, OpenKind::Row, 0, 7, 5 * HOUR, program("job 3"));
    journal.mark(6 * HOUR, 2);
    let page = page(&of(&journal, By::Process, &[], false));
    assert!(page.len() < 4 << 20, "{}", page.len());
    assert!(page.contains("and 200 more accounts"), "beyond those that are shown");
    assert!(page.contains("more: gpu-ledger export --format csv has all."));
    assert!(
        page.contains("its share of the column's height") || page.contains("share of the column")
    );
}
