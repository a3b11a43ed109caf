//! Journals against their bills: what closes, what is never free, and what a part of a journal says.
#![expect(clippy::arithmetic_side_effects, reason = "the tests count small numbers the plain way")]

mod closing;
mod hosts;
mod left_out;
mod memory;
mod named;
mod priced;

use super::{Ledger, PENDING_MS_MAX};
use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, gpu, program};
use crate::bill::period::Period;
use crate::bill::report::{Account, Ask, Head, Outside, Report, Tree, report};
use crate::bill::{By, SharePolicy};
use crate::journal::entry::{CoverageEdge, OpenKind};
use crate::journal::{Digest, Figures};
use crate::unit::{Bytes, Ms, Span};
use crate::unknown::{DisputeReason, GapCause};

fn ledger(journal: &Journal) -> Ledger {
    let mut ledger = Ledger::for_bill_by(By::Process);
    journal.entries.iter().for_each(|entry| ledger.take(entry).unwrap());
    ledger.finish(&journal.end).unwrap();
    ledger
}

fn span(from_ms: u64, to_ms: u64) -> Span {
    Span::new(DAY_MS + from_ms, DAY_MS + to_ms).unwrap()
}

fn ask(span: Span, by: By, share: SharePolicy) -> Ask {
    let period = Period {
        span,
        begins_with_journal: false,
        is_open_ended: false,
        beyond_now: None,
        zone: jiff::tz::TimeZone::UTC,
    };
    Ask { period, by, share, gpus: Vec::new(), accounts: Vec::new(), prices: None }
}

fn head(journal: &Journal) -> Head {
    let tree = Tree::Root(Digest([7; 32]));
    Head { seq: journal.end.head.seq, hash: journal.end.head.hash, tree }
}

fn made(journal: &Journal, ledger: &Ledger, span: Span) -> Report {
    made_by(journal, ledger, span, By::Account)
}

fn made_by(journal: &Journal, ledger: &Ledger, span: Span, by: By) -> Report {
    let ask = ask(span, by, SharePolicy::None);
    report(ledger, &ask, head(journal), &Outside::default()).unwrap()
}

fn line<'a>(report: &'a Report, name: &str) -> &'a Account {
    report.accounts.iter().find(|line| line.account == name).expect("the line is there")
}

#[test]
fn a_journal_whose_sums_are_not_what_was_booked_makes_no_bill() {
    let mut journal = Journal::began(0, 1);
    journal.settle(90, Row::of("ollama", 1, 10, 50));
    let mut more = Ledger::for_bill_by(By::Process);
    journal.entries.iter().for_each(|entry| more.take(entry).unwrap());
    let mut end = journal.end.clone();
    end.head.booked.values_mut().for_each(|sum| sum.held_ms -= 1);
    let refused = more.finish(&end).unwrap_err().to_string();
    assert!(refused.contains("1 settlements of 49 ms, the lines say 1 of 50 ms"), "{refused}");
    assert!(more.finish(&crate::journal::Recovered::default()).is_err());
    let again = more.take(&journal.entries[0]).unwrap_err().to_string();
    assert!(again.contains("entry 1 was handed over after entry 3"), "{again}");
}

#[test]
fn a_process_of_forty_days_is_billed_by_month() {
    const DAY: u64 = 86_400_000;
    let mut journal = Journal::began(0, 1);
    journal.settle(50 * DAY, Row::of("train.py", 1, 5 * DAY + 7, 40 * DAY));
    journal.mark(60 * DAY, 1);
    let ledger = ledger(&journal);
    // The last day of November, December, January.
    let months = [span(0, DAY), span(DAY, 32 * DAY), span(32 * DAY, 63 * DAY)];
    let reports = months.map(|month| made(&journal, &ledger, month));
    assert!(reports[0].accounts.is_empty());
    let held = [&reports[1], &reports[2]].map(|report| line(report, "train.py").held_ms.0);
    assert_eq!(held, [27 * DAY - 7, 13 * DAY + 7]);
    assert_eq!(reports[2].settlements_total, 1);
    // Nothing was seen after the last good read, on the 60th day.
    assert_eq!(reports[2].gpus[0].uncovered_ms, Ms(3 * DAY));
}

#[test]
fn what_is_open_today_and_settles_tomorrow_has_the_same_total() {
    let mut journal = Journal::began(0, 1);
    let opened = journal.open(1_010, OpenKind::Row, 0, 7, 1_000, program("ollama"));
    journal.settle(2_000, Row::of("whisper", 8, 1_500, 400));
    journal.mark(10_000, 1);
    let today = made(&journal, &ledger(&journal), span(0, 9_000));
    let row = Row { opened: Some(opened), ..Row::of("ollama", 7, 1_000, 19_000) };
    journal.settle(20_001, row);
    journal.mark(21_000, 1);
    let later = made(&journal, &ledger(&journal), span(0, 9_000));
    let (open, settled) = (line(&today, "ollama"), line(&later, "ollama"));
    assert_eq!((open.held_ms, open.open_ms), (Ms(0), Ms(8_000)));
    assert_eq!((settled.held_ms, settled.open_ms), (Ms(8_000), Ms(0)));
    assert_eq!(open.settled_or_open_ms, settled.settled_or_open_ms);
    assert_eq!(today.open[0].accrued_ms, Some(Ms(8_000)));
    assert!(later.open.is_empty());
    assert_eq!(today.gpus[0].shared_ms, later.gpus[0].shared_ms);
}

#[test]
fn an_open_row_says_how_much_of_it_nobody_saw() {
    let mut journal = Journal::began(0, 1);
    journal.open(1_000, OpenKind::Row, 0, 7, 1_000, program("ollama"));
    journal.settle(2_000, Row::of("whisper", 8, 1_500, 400));
    journal.gap(GapCause::NvmlCallTimeout, Some(0), 4_000, 6_499, None);
    journal.mark(10_000, 1);
    let report = made(&journal, &ledger(&journal), span(0, 10_000));
    let open = &report.open[0];
    let parts = [open.accrued_ms, open.alone_ms, open.shared_ms, open.uncovered_ms];
    assert_eq!(parts, [9_000, 6_100, 400, 2_500].map(|ms| Some(Ms(ms))));
    let ollama = line(&report, "ollama");
    assert_eq!((ollama.open_ms, ollama.open_uncovered_ms), (Ms(9_000), Ms(2_500)));
    let page = crate::bill::text::render(&report);
    assert!(page.contains("\n    of open, 2.500 s where nobody saw who shared it\n"), "{page}");
    assert!(page.contains("\n      of it 2.500 s where nobody saw who shared it\n"), "{page}");
}

#[test]
fn a_gpu_that_was_never_seen_in_the_period_is_uncovered_and_never_free() {
    let mut journal = Journal::began(50_000, 1);
    journal.mark(60_000, 1);
    // One that the agent knows of and whose accounting was never on.
    journal.mark_of(61_000, &[(0, 61_000), (1, 61_000)]);
    let report = made(&journal, &ledger(&journal), span(0, 50_000));
    for gpu in &report.gpus {
        assert_eq!((gpu.uncovered_ms, gpu.free_ms), (Ms(50_000), Ms(0)), "{}", gpu.gpu_uuid);
    }
    let report = made(&journal, &ledger(&journal), span(50_000, 61_000));
    assert_eq!((report.gpus[0].free_ms, report.gpus[0].uncovered_ms), (Ms(11_000), Ms(0)));
    assert_eq!((report.gpus[1].free_ms, report.gpus[1].uncovered_ms), (Ms(0), Ms(11_000)));
    assert!(!report.is_known());
}

#[test]
fn a_gpu_whose_empty_list_was_not_believed_is_uncovered_until_a_list_proves_more() {
    let parts = |report: &Report| {
        let gpu = &report.gpus[0];
        [gpu.alone_ms, gpu.shared_ms, gpu.free_ms, gpu.uncovered_ms].map(|ms| ms.0)
    };
    let of = |journal: &Journal, to_ms| made(journal, &ledger(journal), span(0, to_ms));
    let mut journal = Journal::began(0, 1);
    journal.mark(10_000, 1);
    journal.mark_in_doubt(50_000, 10_000);
    let doubted = of(&journal, 50_000);
    assert_eq!(parts(&doubted), [0, 0, 10_000, 40_000]);
    assert_eq!((doubted.gpus[0].unread_ms, doubted.gpus[0].possibly_lost), (Ms(0), None));
    let unknown = &doubted.unknown[0];
    assert_eq!(unknown.reason, "empty-accounted-list");
    assert!(unknown.gpu == Some(gpu(0)) && !unknown.is_evidence && !doubted.is_known());
    // Before the doubt nothing is in doubt.
    let before = of(&journal, 10_000);
    assert!(before.unknown.is_empty() && before.is_known(), "{:?}", before.unknown);
    // A gap that ends with such a list proves nothing, nor does a mode that is off then.
    journal.gap(GapCause::NvmlCallTimeout, Some(0), 51_000, 52_000, None);
    assert_eq!(parts(&of(&journal, 52_000)), [0, 0, 10_000, 42_000]);
    let mut off = Journal::began(0, 1);
    off.mark_in_doubt(50_000, 10_000);
    off.epoch_ended(52_000, 0);
    assert_eq!(parts(&of(&off, 52_000)), [0, 0, 10_000, 42_000]);
    assert_eq!(of(&off, 52_000).unknown[0].reason, "empty-accounted-list");
    // An agent that goes in the middle of it leaves it as it is.
    let mut down = Journal::began(0, 1);
    down.mark_in_doubt(50_000, 10_000);
    down.agent_began(60_000);
    down.epoch_began(60_000, 0);
    down.mark(70_000, 1);
    assert_eq!(parts(&of(&down, 70_000)), [0, 0, 20_000, 50_000]);
    // A row that is listed proves that nothing was reset, and so that nobody held it before.
    journal.settle(60_000, Row::of("x", 1, 55_000, 4_000));
    journal.mark(61_000, 1);
    let proven = of(&journal, 61_000);
    // The gap's own second, and the millisecond in which it ended.
    assert_eq!(parts(&proven), [4_000, 0, 55_999, 1_001]);
    assert!(proven.unknown.iter().all(|line| line.reason != "empty-accounted-list"));
}

#[test]
fn who_holds_a_gpu_without_a_row_is_seen_while_its_list_is_not_believed() {
    let mut journal = Journal::began(0, 1);
    journal.open(1_000, OpenKind::NoDriverRow, 0, 7, 0, program("voice-daemon"));
    journal.mark_in_doubt(50_000, 10_000);
    let report = made(&journal, &ledger(&journal), span(0, 50_000));
    let holder = &report.no_driver_row[0];
    assert_eq!((holder.seen_ms, holder.memory_bytes), (Some(Ms(49_000)), Some(Bytes(3 << 30))));
    let gpu = &report.gpus[0];
    // That it held it alone nobody can say then.
    assert_eq!((gpu.alone_ms, gpu.uncovered_ms, gpu.free_ms), (Ms(9_000), Ms(40_000), Ms(1_000)));
}

#[test]
fn nothing_is_free_while_nobody_looked() {
    let uncovered = |journal: &Journal| {
        let report = made(journal, &ledger(journal), span(0, 100_000));
        (report.gpus[0].uncovered_ms.0, report.gpus[0].free_ms.0)
    };
    let mut ended_in_order = Journal::began(0, 1);
    ended_in_order.mark(30_000, 1);
    ended_in_order.agent_ended(30_000);
    ended_in_order.agent_began(70_000);
    ended_in_order.epoch_began(71_000, 0);
    ended_in_order.mark(100_000, 1);
    assert_eq!(uncovered(&ended_in_order), (41_000, 59_000));

    let mut killed = Journal::began(0, 1);
    killed.mark(30_000, 1);
    killed.agent_began(70_000);
    killed.epoch_began(71_000, 0);
    killed.mark(100_000, 1);
    assert_eq!(uncovered(&killed), (41_000, 59_000));

    let mut lost = Journal::began(0, 1);
    lost.epoch_ended(40_000, 0);
    lost.epoch_began(90_000, 0);
    lost.mark(100_000, 1);
    assert_eq!(uncovered(&lost), (50_000, 50_000));

    let mut overflowed = Journal::began(0, 2);
    overflowed.gap(GapCause::QueueOverflow, Some(0), 10_000, 29_999, Some(3));
    overflowed.gap(GapCause::QueueOverflow, None, 40_000, 50_000, Some(9));
    overflowed.mark(100_000, 2);
    assert_eq!(uncovered(&overflowed), (20_000, 80_000), "rows of this GPU were lost");
    let report = made(&overflowed, &ledger(&overflowed), span(0, 100_000));
    assert_eq!((report.gpus[1].uncovered_ms, report.gpus[1].free_ms), (Ms(0), Ms(100_000)));
    assert_eq!(report.coverage.covered_ms, Ms(90_000), "names may have gone with the second");

    let mut with_gaps = Journal::began(0, 1);
    with_gaps.gap(GapCause::RowsPossiblyEvicted, Some(0), 10_000, 19_999, Some(3));
    with_gaps.gap(GapCause::EventLost, None, 20_000, 40_000, Some(9));
    with_gaps.mark(100_000, 1);
    // A loss of process events costs names; the rows were seen.
    assert_eq!(uncovered(&with_gaps), (10_000, 90_000));
    let report = made(&with_gaps, &ledger(&with_gaps), span(0, 100_000));
    assert_eq!(report.coverage.covered_ms, Ms(80_000));
    assert_eq!(report.gpus[0].possibly_lost, Some(3));
    assert!(!report.is_known());
}

#[test]
fn what_the_next_read_will_tell_is_not_yet_unknown() {
    let mut journal = Journal::began(0, 2);
    journal.mark(50_000, 2);
    journal.settle(80_000, Row::of("ollama", 1, 60_000, 20_000));
    let ledger = ledger(&journal);
    let report = made(&journal, &ledger, span(0, 80_000));
    let unread = report.gpus.iter().map(|gpu| (gpu.unread_ms.0, gpu.uncovered_ms.0));
    assert_eq!(unread.collect::<Vec<_>>(), [(30_000, 30_000), (30_000, 30_000)]);
    assert!(report.is_known());
    // No read is awaited for ever.
    let later = made(&journal, &ledger, span(0, 800_000));
    assert_eq!(later.gpus[0].unread_ms, Ms(30_000 + PENDING_MS_MAX));
    assert!(!later.is_known());
    // Without an end that was asked for, it ends where the journal does.
    let mut ask = ask(span(0, 81_000), By::Account, SharePolicy::None);
    ask.period.is_open_ended = true;
    assert_eq!(report_ms(&journal, &ledger, &ask), 80_000);
    // Of a journal that nobody writes any more, the time since is unseen.
    ask.period.span = span(0, 800_000);
    assert_eq!(report_ms(&journal, &ledger, &ask), 800_000);
}

#[test]
fn a_row_that_came_since_the_last_mark_says_nothing_of_others_that_its_read_showed() {
    let parts = |report: &Report| {
        let gpu = &report.gpus[0];
        [gpu.alone_ms, gpu.shared_ms, gpu.free_ms, gpu.uncovered_ms].map(|ms| ms.0)
    };
    let mut journal = Journal::began(0, 1);
    journal.mark(50_000, 1);
    journal.settle(80_000, Row::of("ollama", 1, 60_000, 20_000));
    let before = made(&journal, &ledger(&journal), span(0, 80_000));
    assert_eq!(parts(&before), [0, 0, 50_000, 30_000]);
    assert_eq!(line(&before, "ollama").uncovered_ms, Ms(20_000));
    // Another one of the same read had no room at once.
    journal.settle(82_000, Row::of("whisper", 2, 55_000, 15_000));
    journal.mark(83_000, 1);
    let after = made(&journal, &ledger(&journal), span(0, 80_000));
    assert_eq!(parts(&after), [15_000, 10_000, 55_000, 0]);
    assert!(before.gpus[0].free_ms <= after.gpus[0].free_ms, "nothing is taken back");
}

#[test]
fn a_row_that_ran_when_accounting_was_lost_is_over_and_where_it_returns_the_entries_decide() {
    let of = |journal: &Journal, to_ms| made(journal, &ledger(journal), span(0, to_ms));
    let mut journal = Journal::began(0, 1);
    let row = journal.open(1_010, OpenKind::Row, 0, 7, 1_000, program("serve"));
    journal.open(2_000, OpenKind::Masked, 0, 8, 0, program("xtts"));
    journal.open(2_000, OpenKind::NoDriverRow, 0, 9, 0, program("voice"));
    journal.mark(50_000, 1);
    assert_eq!(of(&journal, 50_000).open.len(), 2);
    journal.gap(GapCause::AccountingOff, Some(0), 51_000, 52_000, None);
    journal.epoch_ended(52_000, 0);
    // Answers that accounting is off go on, and show who holds it without a row.
    journal.mark(90_000, 1);
    let off = of(&journal, 90_000);
    assert!(off.open.is_empty(), "{:?}", off.open);
    let seen = off.no_driver_row.iter().map(|one| (one.pid.unwrap().0, one.seen_ms, one.lost));
    let cause = Some(GapCause::AccountingOff);
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [(7, Some(Ms(50_000)), cause), (8, Some(Ms(49_000)), cause), (9, Some(Ms(88_000)), None)]
    );
    assert_eq!((off.gpus[0].free_ms, off.gpus[0].uncovered_ms), (Ms(1_000), Ms(39_000)));
    assert_eq!(line(&off, "serve").open_ms, Ms(0));
    // An agent that comes while it is off sees no row either.
    let mut restarted = Journal::began(0, 1);
    restarted.open(1_010, OpenKind::Row, 0, 7, 1_000, program("serve"));
    restarted.mark(50_000, 1);
    restarted.agent_began(60_000);
    restarted.mark(90_000, 1);
    assert_eq!(of(&restarted, 90_000).open[0].accrued_ms, Some(Ms(49_000)));
    // It was final in time, and comes back.
    journal.epoch_began(95_000, 0);
    journal.settle(95_000, Row { opened: Some(row), ..Row::of("serve", 7, 1_000, 50_500) });
    journal.mark(96_000, 1);
    let on = of(&journal, 96_000);
    assert_eq!(line(&on, "serve").held_ms, Ms(50_500));
    assert!(on.no_driver_row.iter().all(|one| one.pid.unwrap().0 != 7), "{:?}", on.no_driver_row);
}

#[test]
fn a_bill_of_all_begins_with_the_first_moment_the_journal_is_about() {
    let mut journal = Journal::began(50_000, 1);
    journal.settle(60_000, Row::of("ollama", 1, 40_000, 20_000));
    journal.mark(70_000, 1);
    let mut ask = ask(Span::new(0, DAY_MS + 70_000).unwrap(), By::Account, SharePolicy::None);
    ask.period.begins_with_journal = true;
    assert_eq!(report_ms(&journal, &ledger(&journal), &ask), 30_000);
}

fn report_ms(journal: &Journal, ledger: &Ledger, ask: &Ask) -> u64 {
    report(ledger, ask, head(journal), &Outside::default()).unwrap().period.length_ms.0
}

#[test]
fn a_resident_holder_without_a_row_shares_and_is_never_billed() {
    let mut journal = Journal::began(0, 1);
    let resident = journal.open(5, OpenKind::NoDriverRow, 0, 9, 0, program("voice-daemon"));
    journal.settle(50, Row::of("ollama", 1, 20, 20));
    journal.mark(100, 1);
    let report = made(&journal, &ledger(&journal), span(0, 100));
    let gpu = &report.gpus[0];
    assert_eq!((gpu.alone_ms, gpu.shared_ms, gpu.free_ms), (Ms(75), Ms(20), Ms(5)));
    let voice = line(&report, "voice-daemon");
    assert_eq!((voice.held_ms, voice.no_driver_row_ms), (Ms(0), Ms(95)));
    assert_eq!(line(&report, "ollama").shared_ms, Ms(20));
    let rowless = &report.no_driver_row[0];
    assert_eq!((rowless.seen_ms, rowless.ended, rowless.lost), (Some(Ms(95)), false, None));

    journal.ended(60, resident, None);
    let report = made(&journal, &ledger(&journal), span(0, 100));
    assert_eq!(report.no_driver_row[0].seen_ms, Some(Ms(55)));
    assert!(report.no_driver_row[0].ended);
}

#[test]
fn a_row_that_was_lost_keeps_its_place_beside_the_others_and_names_its_cause() {
    let mut journal = Journal::began(0, 1);
    let lost = journal.open(12, OpenKind::Row, 0, 3, 10, program("whisper"));
    journal.mark(50, 1);
    journal.ended(40, lost, Some(GapCause::RowOverwritten));
    journal.gap(GapCause::RowOverwritten, Some(0), 40, 49, Some(1));
    journal.mark(100, 1);
    let report = made(&journal, &ledger(&journal), span(0, 100));
    assert!(report.open.is_empty());
    assert_eq!(report.no_driver_row[0].lost, Some(GapCause::RowOverwritten));
    let gpu = &report.gpus[0];
    assert_eq!((gpu.alone_ms, gpu.uncovered_ms, gpu.free_ms), (Ms(30), Ms(10), Ms(60)));
}

#[test]
fn a_masked_row_is_listed_without_a_figure_and_shares() {
    let mut journal = Journal::began(0, 1);
    journal.open(10, OpenKind::Masked, 0, 3, 0, program("whisper"));
    journal.settle(30, Row::of("ollama", 4, 10, 10));
    journal.mark(50, 1);
    let report = made(&journal, &ledger(&journal), span(0, 50));
    assert_eq!(report.open[0].accrued_ms, None);
    assert_eq!(report.open[0].reason.as_deref(), Some("masked-by-dead-row"));
    assert_eq!(line(&report, "ollama").alone_ms, Ms(0));
    assert!(report.unknown.iter().any(|line| line.reason == "masked-by-dead-row"));
    assert!(!report.is_known());
}

#[test]
fn when_a_row_that_is_hidden_began_is_not_called_free() {
    let mut journal = Journal::began(0, 1);
    let hidden = journal.open(20, OpenKind::Masked, 0, 3, 12, program("whisper"));
    journal.mark(50, 1);
    journal.ended(40, hidden, Some(GapCause::EpochBroken));
    journal.gap(GapCause::EpochBroken, Some(0), 40, 49, Some(1));
    journal.mark(100, 1);
    let report = made(&journal, &ledger(&journal), span(0, 100));
    let gpu = &report.gpus[0];
    assert_eq!((gpu.alone_ms, gpu.uncovered_ms, gpu.free_ms), (Ms(20), Ms(18), Ms(62)));
}

#[test]
fn a_conflict_takes_a_settlement_off_its_account_and_leaves_it_in_the_total() {
    let mut journal = Journal::began(0, 1);
    let of = journal.settle(50, Row::of("ollama", 1, 10, 30));
    journal.mark(60, 1);
    let before = made(&journal, &ledger(&journal), span(0, 60));
    journal.conflict(70, of);
    let after = made(&journal, &ledger(&journal), span(0, 60));
    assert_eq!((before.span_ms_total, after.span_ms_total), (30, 30));
    assert!(after.accounts.is_empty());
    let disputed = &after.disputed[0];
    assert_eq!((disputed.reason, disputed.raw_ms), (DisputeReason::Conflict, 30));
    assert_eq!(disputed.account, "ollama");
    // It held the GPU all the same.
    assert_eq!(after.gpus[0].alone_ms, Ms(30));
}

#[test]
fn a_corrected_account_is_the_one_that_is_billed() {
    let mut journal = Journal::began(0, 1);
    let settled = journal.settle(50, Row::of("python", 1, 10, 30));
    let open = journal.open(55, OpenKind::Row, 0, 2, 50, program("python"));
    journal.moved(60, settled, program("train.py"));
    journal.moved(61, open, program("serve.py"));
    journal.mark(70, 1);
    let report = made(&journal, &ledger(&journal), span(0, 70));
    assert_eq!(line(&report, "train.py").held_ms, Ms(30));
    assert_eq!(line(&report, "serve.py").open_ms, Ms(20));
    assert_eq!(report.accounts.len(), 2);
}

#[test]
fn lines_are_what_the_bill_is_made_by_and_nameless_ones_stay_apart() {
    let mut journal = Journal::began(0, 2);
    journal.settle(50, Row::of("ollama", 1, 10, 30));
    journal.settle(51, Row { gpu: 1, uid: None, ..Row::of("ollama", 2, 10, 40) });
    journal.settle(52, Row { account: NAMELESS, ..Row::of("", 3, 10, 5) });
    journal.mark(60, 2);
    let ledger = ledger(&journal);
    let names = |by| {
        let report = made_by(&journal, &ledger, span(0, 60), by);
        assert_eq!(report.unattributed.len(), 1, "{by}");
        let lines = report.accounts.iter().map(|line| (line.account.clone(), line.held_ms.0));
        lines.collect::<Vec<_>>()
    };
    let of = |name: &str, ms| (name.to_owned(), ms);
    assert_eq!(names(By::Account), [of("ollama", 70)]);
    assert_eq!(names(By::Program), [of("ollama", 70)]);
    assert_eq!(names(By::User), [of("user unknown", 40), of("uid 1000", 30)]);
    assert_eq!(names(By::Gpu), [of("GPU 1 NVIDIA H200", 40), of("GPU 0 NVIDIA H200", 30)]);
    let by_user = made_by(&journal, &ledger, span(0, 60), By::User);
    assert!(by_user.unknown.iter().any(|line| line.subject == "user of 1 settlements"));
    let by_process = made_by(&journal, &ledger, span(0, 60), By::Process);
    assert_eq!(by_process.settlements.unwrap().len(), 3);
}

#[test]
fn a_filter_says_what_it_left_out_and_changes_no_statement() {
    let mut journal = Journal::began(0, 2);
    journal.settle(50, Row::of("ollama", 1, 10, 30));
    journal.settle(51, Row::of("whisper", 2, 20, 30));
    journal.settle(52, Row { gpu: 1, ..Row::of("ollama", 3, 10, 7) });
    journal.mark(60, 2);
    let ledger = ledger(&journal);
    let mut ask = ask(span(0, 60), By::Account, SharePolicy::None);
    ask.accounts = vec!["ollama".to_owned()];
    ask.gpus = vec![gpu(0)];
    let found = report(&ledger, &ask, head(&journal), &Outside::default()).unwrap();
    assert_eq!(found.accounts.len(), 1);
    assert_eq!((found.accounts[0].held_ms, found.accounts[0].shared_ms), (Ms(30), Ms(20)));
    let left_out = found.left_out.unwrap();
    assert_eq!((left_out.gpus, left_out.accounts), (1, 1));
    assert_eq!((left_out.settlements, left_out.span_ms_total), (1, 30));
    assert_eq!((found.settlements_total, found.span_ms_total), (2, 60));
}

#[test]
fn the_classes_of_lifetimes_show_whom_the_picture_favours() {
    let mut journal = Journal::began(0, 1);
    journal.settle(2_000, Row::of("whisper", 1, 500, 900));
    journal.settle(90_000, Row::of("whisper", 2, 10_000, 70_000));
    journal.open(91_000, OpenKind::Row, 0, 3, 1_000, program("ollama"));
    journal.open(92_000, OpenKind::NoDriverRow, 0, 4, 0, program("voice"));
    journal.mark(100_000, 1);
    let report = made(&journal, &ledger(&journal), span(0, 100_000));
    let classes = report.lifetime_classes.iter().filter(|class| class.count > 0);
    let classes: Vec<_> = classes.map(|class| (class.class, class.span_ms_total.0)).collect();
    assert_eq!(
        classes,
        [("below-1s", 900), ("below-1h", 70_000), ("open", 99_000), ("no-driver-row", 8_000)]
    );
}

#[test]
fn an_empty_journal_has_a_bill_that_knows_nothing() {
    let journal = Journal::default();
    let report = made(&journal, &ledger(&journal), span(0, 100));
    assert!(report.gpus.is_empty() && !report.is_known());
    assert_eq!((report.as_of, report.coverage.start), (None, None));
    assert!(report.unknown.iter().any(|line| line.reason == "no-gpu-found"));
}

#[test]
fn the_same_journal_and_question_have_the_same_id_and_another_has_another() {
    let mut journal = Journal::began(0, 1);
    journal.mark(60, 1);
    let ledger = ledger(&journal);
    let id = |span, by| made_by(&journal, &ledger, span, by).bill_id;
    assert_eq!(id(span(0, 60), By::Account), id(span(0, 60), By::Account));
    assert_ne!(id(span(0, 60), By::Account), id(span(0, 59), By::Account));
    assert_ne!(id(span(0, 60), By::Account), id(span(0, 60), By::User));
    assert_eq!(id(span(0, 60), By::Account).len(), 16);
}

#[test]
fn the_agents_edges_are_told_apart_from_rows() {
    let mut journal = Journal::began(10, 1);
    journal.mark(60, 1);
    assert!(ledger(&journal).is_running());
    journal.agent_ended(70);
    let ended = ledger(&journal);
    assert!(!ended.is_running());
    assert_eq!(ended.as_of_ms(), Some(DAY_MS + 70));
    let last = &journal.entries[journal.entries.len() - 1].figures;
    assert!(matches!(last, Figures::Coverage(CoverageEdge::Ended { .. })));
}
