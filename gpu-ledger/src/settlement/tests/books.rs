//! Sum in = sum out, accounts, and what a second reading of a row changes.

use std::sync::Arc;

use super::made::{Known, OFFSET_US, boot, lifetime, row, seen_at, stamp};
use crate::accounting::FinalRow;
use crate::accounting::Window;
use crate::bill::{Booked, GpuBooks, bill, booked};
use crate::clock::Stamp;
use crate::random::histories;
use crate::settlement::{Account, Attribution, Balance, Books, SettlementError, settle_all};
use crate::unit::{Bytes, GpuUuid, Ms, Span, WallUs};
use crate::unknown::{DisputeReason, Observed};

fn known() -> Known {
    Known::of([lifetime("job", 2_000_000, Some(9_000_000))])
}

#[test]
fn every_row_comes_out_once_and_the_books_say_so() {
    let known = known();
    let rows = [row(3_000_000, 100), row(4_000_000, 23), row(500_000, 7)];
    let mut books = Books::default();
    let settlements = settle_all(&rows, |_| known.evidence(), &mut books).unwrap();
    assert_eq!(settlements.len(), 3);
    let gpu = &rows[0].row.gpu;
    assert_eq!(books.balance(gpu), Balance { count: 3, held_ms: 130 });
    let next = books.book(&rows[0], &settlements[0]).unwrap();
    assert_eq!(next, Balance { count: 4, held_ms: 230 });
}

#[test]
fn two_wrapped_times_do_not_make_the_books_unreadable() {
    let known = known();
    let rows = [seen_at(3_000_000, u64::MAX, 4_000_000), seen_at(5_000_000, u64::MAX, 6_000_000)];
    let mut books = Books::default();
    settle_all(&rows, |_| known.evidence(), &mut books).unwrap();
    assert_eq!(books.balance(&rows[0].row.gpu).held_ms, 2 * u128::from(u64::MAX));
}

#[test]
fn a_row_that_is_handed_in_twice_books_nothing() {
    let known = known();
    let rows = [row(3_000_000, 100), row(3_000_000, 100)];
    let mut books = Books::default();
    let refused = settle_all(&rows, |_| known.evidence(), &mut books).unwrap_err();
    assert!(matches!(refused, SettlementError::Twice { .. }));
    assert_eq!(books.balance(&rows[0].row.gpu), Balance::default());
}

#[test]
fn a_settlement_that_is_not_of_its_row_does_not_balance() {
    let known = known();
    let other = known.settle(&row(3_000_000, 101));
    let mut books = Books::default();
    let refused = books.book(&row(3_000_000, 100), &other).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("1 rows of 100 ms") && text.contains("settlements of 101 ms"), "{text}");
    let mut elsewhere = row(3_000_000, 100);
    elsewhere.row.gpu = GpuUuid(Arc::from("GPU-ffffffff"));
    assert!(books.book(&elsewhere, &known.settle(&row(3_000_000, 100))).is_err());
    assert!(books.balances().is_empty());
}

#[test]
fn conflict_where_the_same_key_is_read_again_with_other_contents() {
    let first = row(3_000_000, 100);
    let mut settlement = known().settle(&first);
    assert!(!settlement.reread(&first.row));
    assert_eq!(settlement.dispute, None);

    let mut fuller = first.row.clone();
    fuller.memory_peak = Observed::Known(Bytes(1));
    assert!(!settlement.reread(&fuller), "where nothing was said nothing is contradicted");
    let another = row(3_000_001, 200);
    assert!(!settlement.reread(&another.row), "another key is another row");

    let longer = row(3_000_000, 101);
    assert!(settlement.reread(&longer.row));
    assert_eq!(settlement.dispute, Some(DisputeReason::Conflict));
    assert_eq!(settlement.row.held, Ms(100), "what was booked stays booked");
}

/// On the line of its program, or of the reason why nobody knows it.
fn account_of(attribution: &Attribution) -> Account {
    match attribution {
        Attribution::Named(named) => {
            let name = String::from_utf8_lossy(&named.image.content.filename);
            Account::by(crate::settlement::Ground::Program, name)
        }
        Attribution::Nameless(nameless) => Account::Unattributed(nameless.reason),
    }
}

fn books_of(rows: &[FinalRow], known: &Known, books: &mut Books) -> GpuBooks {
    let settlements = settle_all(rows, |_| known.evidence(), books).unwrap();
    let timeline = known.clock.timeline().unwrap();
    let booked = settlements
        .iter()
        .map(|settlement| booked(settlement, account_of(&settlement.attribution), timeline));
    let gpu = rows[0].row.gpu.clone();
    GpuBooks { gpu, settlements: booked.collect(), running: Vec::new(), uncovered: Vec::new() }
}

#[test]
fn from_rows_to_the_bill_no_millisecond_is_lost_or_made() {
    let known = known();
    let ever = Span::new(0, u64::MAX).unwrap();
    histories(5_000, |_, random| {
        let rows: Vec<FinalRow> = (1..=random.between(1, 12))
            .map(|place| {
                let start_us = place * 700_000 + random.below(600_000);
                let held_ms = if random.one_in(9) { u64::MAX } else { random.below(900) };
                let mut row = seen_at(start_us, held_ms, start_us + random.below(2_000_000));
                if random.one_in(9) {
                    row.row.start = None;
                    row.row.held = Ms(random.below(900));
                }
                row
            })
            .collect();
        let mut books = Books::default();
        let gpu_books = books_of(&rows, &known, &mut books);
        let bill = bill(ever, std::slice::from_ref(&gpu_books)).unwrap();
        bill.agrees_with(books.balances()).unwrap();
        let held: u128 = rows.iter().map(|row| u128::from(row.row.held.0)).sum();
        assert_eq!(bill.span_ms_total, held);
    });
}

#[test]
fn a_disputed_row_holds_the_gpu_no_longer_than_until_it_was_read() {
    let known = known();
    // It says it will end a minute after the read that showed it final.
    let rows = [seen_at(3_000_000, 61_000, 4_000_000)];
    let gpu_books = books_of(&rows, &known, &mut Books::default());
    let Booked::Disputed { raw, likely: Some(likely), .. } = &gpu_books.settlements[0] else {
        unreachable!()
    };
    assert_eq!((*raw, likely.span.length()), (Ms(61_000), Ms(1_000)));
}

/// The wall clock goes back by an hour at 5 s, while one job runs and before another one begins.
fn stepped_back() -> (Known, [FinalRow; 3]) {
    let mut known = known();
    let step_us = 3_600_000_000;
    let back = |us: u64| Stamp { wall: WallUs(OFFSET_US + us - step_us), ..stamp(us) };
    known.clock.observe(back(5_000_000));
    let before = seen_at(2_000_000, 1_000, 3_500_000);
    let mut across = seen_at(4_000_000, u64::MAX - 3_598_999, 6_200_000);
    let mut after = seen_at(7_000_000, 500, 8_000_000);
    after.row.start = Some(WallUs(OFFSET_US + 7_000_000 - step_us));
    for row in [&mut across, &mut after] {
        row.seen = Window {
            began: back(row.seen.began.boot.0 / 1_000),
            ended: back(row.seen.ended.boot.0 / 1_000),
        };
    }
    (known, [before, across, after])
}

#[test]
fn a_bill_goes_by_the_boot_clock_however_the_wall_clock_is_stepped() {
    let (known, rows) = stepped_back();
    let books = books_of(&rows, &known, &mut Books::default());
    let timeline = known.clock.timeline().unwrap();
    let period = |from_us: u64, to_us: u64| timeline.span(boot(from_us), boot(to_us));
    // The row that was read within the hour that the clock shows twice is disputed where it was read.
    let whole = bill(period(1_000_000, 9_000_000), std::slice::from_ref(&books)).unwrap();
    assert_eq!((whole.settlements_total, whole.disputed[0].count), (3, 1));
    let statement = &whole.gpus[0].statement;
    // Two jobs as the driver says, and the one in between from its start until it was read.
    assert_eq!(statement.alone, Ms(1_000 + 2_200 + 500));
    assert_eq!((statement.shared, statement.uncovered), (Ms::ZERO, Ms::ZERO));
    let count = |from_us, to_us| {
        let part = bill(period(from_us, to_us), std::slice::from_ref(&books)).unwrap();
        (part.settlements_total, part.disputed.len())
    };
    assert_eq!(count(1_000_000, 6_000_000), (1, 0));
    assert_eq!(count(6_000_000, 6_500_000), (1, 1));
    assert_eq!(count(6_500_000, 9_000_000), (1, 0));
}
