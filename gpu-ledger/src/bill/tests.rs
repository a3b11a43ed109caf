//! Random histories against a reference that looks at every millisecond.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "the reference counts small numbers the plain way"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::clock::{BootPlace, ClockHistory, Stamp, Timeline};
use crate::random::{Random, histories};
use crate::settlement::{Account, Balance, Ground};
use crate::unit::{BootNs, WallUs};
use crate::unknown::{DisputeReason, NamelessReason, Observed};

const KINDS: [Kind; 4] = [Kind::Settled, Kind::Open, Kind::Disputed, Kind::NoDriverRow];

fn span(from_ms: u64, to_ms: u64) -> Span {
    Span::new(from_ms, to_ms).unwrap()
}

fn random_span(random: &mut Random, end_ms: u64) -> Span {
    let (one, other) = (random.below(end_ms + 1), random.below(end_ms + 1));
    span(one.min(other), one.max(other))
}

fn random_holding<A>(random: &mut Random, end_ms: u64, account: impl Fn(u64) -> A) -> Holding<A> {
    let pid = random.below(4);
    // Now and then a process's account differs between its rows, as after an exec.
    let account = account(if random.one_in(4) { random.below(3) } else { pid % 3 });
    let kind = KINDS[usize::try_from(random.below(4)).unwrap()];
    let pid = Pid(u32::try_from(pid).unwrap());
    Holding { span: random_span(random, end_ms), pid, account, kind }
}

/// A set of the milliseconds 0..32.
type Grid = u32;

fn grid(span: Span) -> Grid {
    let below = |ms: u64| if ms >= 32 { Grid::MAX } else { (1 << ms) - 1 };
    below(span.to_ms()) & !below(span.from_ms())
}

fn ms(grid: Grid) -> Ms {
    Ms(u64::from(grid.count_ones()))
}

fn union<'a>(holdings: &'a [Holding<u64>], wanted: impl Fn(&Holding<u64>) -> bool + 'a) -> Grid {
    holdings.iter().filter(|holding| wanted(holding)).fold(0, |all, next| all | grid(next.span))
}

fn parts(held: Grid, others: Grid, uncovered: Grid) -> Parts {
    Parts {
        alone: ms(held & !others & !uncovered),
        shared: ms(held & others),
        uncovered: ms(held & !others & uncovered),
    }
}

/// Milliseconds in at least one, and in at least two, of the given sets.
fn at_least_one_and_two(sets: impl Iterator<Item = Grid>) -> (Grid, Grid) {
    sets.fold((0, 0), |(one, two), set| (one | set, two | (one & set)))
}

fn compare_with_reference(period: Span, holdings: &[Holding<u64>], uncovered: &[Span]) {
    let found = statement(period, holdings, uncovered).unwrap();
    let unseen = uncovered.iter().fold(0, |all, span| all | grid(*span));
    let all = grid(period);

    let pids = (0..4).map(|pid| union(holdings, move |holding| holding.pid == Pid(pid)));
    let (one, two) = at_least_one_and_two(pids);
    assert_eq!(found.alone, ms(all & one & !two & !unseen));
    assert_eq!(found.shared, ms(all & two));
    assert_eq!(found.free, ms(all & !one & !unseen));
    assert_eq!(found.uncovered, ms(all & !two & unseen));

    for (holding, got) in holdings.iter().zip(&found.holdings) {
        let others = union(holdings, |other| other.pid != holding.pid);
        assert_eq!(*got, parts(all & grid(holding.span), others, unseen));
    }
    let mut shared_between = BTreeMap::new();
    let accounts = [0, 1, 2].map(|account| all & union(holdings, move |h| h.account == account));
    for set in [vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]] {
        let exactly = (0_u64..).zip(accounts).fold(all, |now, (account, held)| {
            now & if set.contains(&account) { held } else { !held }
        });
        if exactly != 0 {
            shared_between.insert(set, ms(exactly));
        }
    }
    assert_eq!(found.shared_between, shared_between);
    for got in &found.accounts {
        let others = union(holdings, |other| other.account != got.account);
        let of = |kinds: &[Kind]| {
            let own = union(holdings, |h| h.account == got.account && kinds.contains(&h.kind));
            parts(all & own, others, unseen)
        };
        assert_eq!(got.settled, of(&[Kind::Settled]));
        assert_eq!(got.open, of(&[Kind::Open]));
        assert_eq!(got.disputed, of(&[Kind::Disputed]));
        assert_eq!(got.no_driver_row, of(&[Kind::NoDriverRow]));
        assert_eq!(got.settled_or_open, of(&[Kind::Settled, Kind::Open]));
    }
}

#[test]
fn a_million_random_histories_close_and_agree_with_every_single_millisecond() {
    histories(1_000_000, |_, random| {
        let count = random.below(5);
        let holdings: Vec<_> = (0..count).map(|_| random_holding(random, 32, |a| a)).collect();
        let gaps = random.below(3);
        let uncovered: Vec<_> = (0..gaps).map(|_| random_span(random, 32)).collect();
        compare_with_reference(random_span(random, 32), &holdings, &uncovered);
    });
}

/// Like [`Parts`], but for sums of several statements.
fn plus(a: Parts, b: Parts) -> Parts {
    a.checked_add(b).unwrap()
}

fn random_period(random: &mut Random, end_ms: u64) -> (Span, u64) {
    let mut cuts = [(); 3].map(|()| random.below(end_ms + 1));
    cuts.sort_unstable();
    (span(cuts[0], cuts[2]), cuts[1])
}

#[test]
fn statements_of_adjacent_periods_add_up_to_that_of_both_in_every_figure() {
    // Forty days: long against every holding that a small grid could test.
    let end_ms = 40 * 86_400_000;
    histories(20_000, |_, random| {
        let count = random.below(12);
        let holdings: Vec<_> = (0..count).map(|_| random_holding(random, end_ms, |a| a)).collect();
        let uncovered: Vec<_> = (0..random.below(4)).map(|_| random_span(random, end_ms)).collect();
        let (both, cut) = random_period(random, end_ms);
        let of = |period| statement(period, &holdings, &uncovered).unwrap();
        let (whole, first) = (of(both), of(span(both.from_ms(), cut)));
        let second = of(span(cut, both.to_ms()));

        assert_eq!(whole.alone, Ms(first.alone.0 + second.alone.0));
        assert_eq!(whole.shared, Ms(first.shared.0 + second.shared.0));
        assert_eq!(whole.free, Ms(first.free.0 + second.free.0));
        assert_eq!(whole.uncovered, Ms(first.uncovered.0 + second.uncovered.0));
        for (index, parts) in whole.holdings.iter().enumerate() {
            assert_eq!(*parts, plus(first.holdings[index], second.holdings[index]));
        }
        for (index, account) in whole.accounts.iter().enumerate() {
            let (a, b) = (&first.accounts[index], &second.accounts[index]);
            assert_eq!(account.settled, plus(a.settled, b.settled));
            assert_eq!(account.open, plus(a.open, b.open));
            assert_eq!(account.disputed, plus(a.disputed, b.disputed));
            assert_eq!(account.no_driver_row, plus(a.no_driver_row, b.no_driver_row));
            assert_eq!(account.settled_or_open, plus(a.settled_or_open, b.settled_or_open));
        }
        let mut shared_between = first.shared_between.clone();
        for (set, ms) in second.shared_between {
            let sum = shared_between.entry(set).or_insert(Ms::ZERO);
            *sum = Ms(sum.0 + ms.0);
        }
        assert_eq!(whole.shared_between, shared_between);
    });
}

#[test]
fn an_open_span_and_its_settlement_have_the_same_total() {
    histories(5_000, |_, random| {
        let others: Vec<_> =
            (0..random.below(6)).map(|_| random_holding(random, 1_000, |a| a)).collect();
        let mut open = random_holding(random, 1_000, |a| a);
        let of = |kind, open: &mut Holding<u64>| {
            open.kind = kind;
            let all: Vec<_> = others.iter().chain([&*open]).cloned().collect();
            statement(span(0, 1_000), &all, &[]).unwrap()
        };
        let (before, after) = (of(Kind::Open, &mut open), of(Kind::Settled, &mut open));
        assert_eq!((before.alone, before.shared), (after.alone, after.shared));
        assert_eq!(before.holdings, after.holdings);
        for (before, after) in before.accounts.iter().zip(&after.accounts) {
            assert_eq!(before.settled_or_open, after.settled_or_open);
        }
    });
}

fn account(number: u64) -> Account {
    match number {
        0 => Account::by(Ground::Program, "ollama"),
        1 => Account::Ruled { name: Arc::from("speech"), rule: crate::settlement::RuleId(7) },
        _ => Account::Unattributed(NamelessReason::EventLost),
    }
}

fn random_books(random: &mut Random, gpu: &str, end_ms: u64) -> GpuBooks {
    let settlements = (0..random.below(8)).map(|_| {
        let holding = random_holding(random, end_ms, account);
        match random.below(8) {
            0 => Booked::NoStartTime { raw: Ms(random.below(99)), at_ms: random.below(end_ms) },
            1 => Booked::Disputed {
                reason: DisputeReason::ClockStep,
                account: holding.account.clone(),
                raw: Ms(u64::MAX - random.below(9)),
                at_ms: random.below(end_ms),
                likely: (!random.one_in(3)).then_some(Holding { kind: Kind::Disputed, ..holding }),
            },
            _ => Booked::Placed(Holding { kind: Kind::Settled, ..holding }),
        }
    });
    let settlements: Vec<_> = settlements.collect();
    let running = (0..random.below(3)).map(|_| {
        let kind = if random.one_in(2) { Kind::Open } else { Kind::NoDriverRow };
        Holding { kind, ..random_holding(random, end_ms, account) }
    });
    let running: Vec<_> = running.collect();
    let uncovered = (0..random.below(3)).map(|_| random_span(random, end_ms)).collect();
    GpuBooks { gpu: GpuUuid(Arc::from(gpu)), settlements, running, uncovered }
}

#[test]
fn bills_of_adjacent_periods_add_up_by_gpu_account_reason_and_dispute() {
    let end_ms = 3_600_000;
    histories(20_000, |_, random| {
        let gpus = [random_books(random, "GPU-a", end_ms), random_books(random, "GPU-b", end_ms)];
        let (both, cut) = random_period(random, end_ms);
        let whole = bill(both, &gpus).unwrap();
        let split = [span(both.from_ms(), cut), span(cut, both.to_ms())];
        let halves = split.map(|half| bill(half, &gpus).unwrap());

        assert_eq!(whole.span_ms_total, halves[0].span_ms_total + halves[1].span_ms_total);
        for line in &whole.accounts {
            let own = |half: &Bill| {
                half.accounts.iter().find(|other| other.account == line.account).cloned()
            };
            let found: Vec<AccountLine> = halves.iter().filter_map(own).collect();
            let sum = |of: fn(&AccountLine) -> Parts| found.iter().map(of).fold(Parts::NONE, plus);
            assert_eq!(line.settled, sum(|line| line.settled));
            assert_eq!(line.open, sum(|line| line.open));
            assert_eq!(line.settled_or_open, sum(|line| line.settled_or_open));
            assert_eq!(line.no_driver_row, sum(|line| line.no_driver_row));
            assert_eq!(line.span_total.0, found.iter().map(|line| line.span_total.0).sum::<u64>());
        }
        for line in &whole.unattributed {
            let halves = halves.iter().flat_map(|half| &half.unattributed);
            let same =
                halves.filter(|other| (&other.gpu, other.reason) == (&line.gpu, line.reason));
            let (held, total) = same.fold((0, 0), |(held, total), half| {
                (held + half.held.0, total + half.span_total.0)
            });
            assert_eq!((line.held, line.span_total), (Ms(held), Ms(total)));
        }
        let raw = |bill: &Bill| bill.disputed.iter().map(|line| line.raw_ms).sum::<u128>();
        assert_eq!(raw(&whole), raw(&halves[0]) + raw(&halves[1]));
    });
}

#[test]
fn the_worked_example_of_a_shared_afternoon() {
    let hold = |from, to, pid, account, kind| Holding {
        span: span(from, to),
        pid: Pid(pid),
        account,
        kind,
    };
    let holdings = [
        hold(0, 100, 1, "ollama", Kind::Settled),
        hold(20, 60, 2, "ollama", Kind::Settled),
        hold(50, 80, 3, "speech", Kind::Settled),
        hold(90, 120, 4, "desktop", Kind::NoDriverRow),
    ];
    let found = statement(span(0, 200), &holdings, &[span(110, 150)]).unwrap();
    // 0-20 and 80-90 alone, and the desktop at 100-110; its 110-120 was not seen.
    assert_eq!((found.alone, found.shared), (Ms(20 + 10 + 10), Ms(60 + 10)));
    assert_eq!((found.uncovered, found.free), (Ms(40), Ms(50)));
    let ollama = found.accounts.iter().find(|account| account.account == "ollama").unwrap();
    let expected = Parts { alone: Ms(60), shared: Ms(40), uncovered: Ms::ZERO };
    assert_eq!((ollama.settled, ollama.settled.held()), (expected, Ms(100)));
    assert_eq!(found.shared_between[&vec!["ollama", "speech"]], Ms(30));
    assert_eq!(found.shared_between[&vec!["desktop", "ollama"]], Ms(10));
    let with: Vec<_> = sharers(span(0, 200), &holdings, 0).into_iter().collect();
    assert_eq!(
        with,
        [(("desktop", Pid(4)), Ms(10)), (("ollama", Pid(2)), Ms(40)), (("speech", Pid(3)), Ms(30))]
    );
}

#[test]
fn a_time_that_wrapped_stays_in_the_total_and_out_of_the_statement() {
    let wrapped = Booked::Disputed {
        reason: DisputeReason::ClockStep,
        account: account(0),
        raw: Ms(u64::MAX),
        at_ms: 50,
        likely: None,
    };
    let books = GpuBooks {
        gpu: GpuUuid(Arc::from("GPU-a")),
        settlements: vec![wrapped.clone(), wrapped],
        running: Vec::new(),
        uncovered: Vec::new(),
    };
    let found = bill(span(0, 100), std::slice::from_ref(&books)).unwrap();
    assert_eq!(found.span_ms_total, 2 * u128::from(u64::MAX));
    assert_eq!(found.gpus[0].statement.free, Ms(100));
    assert_eq!((found.disputed[0].count, found.disputed.len()), (2, 1));
}

#[test]
fn a_bill_that_differs_from_its_books_names_both_sides() {
    let holding =
        Holding { span: span(5, 30), pid: Pid(1), account: account(0), kind: Kind::Settled };
    let books = GpuBooks {
        gpu: GpuUuid(Arc::from("GPU-a")),
        settlements: vec![Booked::Placed(holding)],
        running: Vec::new(),
        uncovered: Vec::new(),
    };
    let found = bill(span(0, 100), std::slice::from_ref(&books)).unwrap();
    let balance = Balance { count: 1, held_ms: 25 };
    found.agrees_with(&BTreeMap::from([(books.gpu.clone(), balance)])).unwrap();

    let lost = Balance { count: 2, held_ms: 40 };
    let refused = found.agrees_with(&BTreeMap::from([(books.gpu.clone(), lost)])).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("2 settlements of 40 ms") && text.contains("1 of 25 ms"), "{text}");
    let unknown = GpuUuid(Arc::from("GPU-b"));
    assert!(found.agrees_with(&BTreeMap::from([(unknown, balance)])).is_err());
    assert!(found.agrees_with(&BTreeMap::new()).is_err());
}

#[test]
fn a_statement_that_does_not_close_is_an_error_that_names_its_parts() {
    let error = BillError::Statement {
        period: span(0, 10),
        alone: Ms(1),
        shared: Ms(2),
        free: Ms(3),
        uncovered: Ms(5),
    };
    assert!(error.to_string().contains("alone 1 + shared 2 + free 3 + uncovered 5"));
}

fn boot_ms(ms: u64) -> BootNs {
    BootNs(ms * 1_000_000)
}

/// The wall clock was a million milliseconds ahead of the boot clock when it was first read.
fn timeline() -> Timeline {
    let stamp = Stamp { boot: boot_ms(0), mono_ns: 0, wall: WallUs(1_000_000_000) };
    let mut history = ClockHistory::default();
    history.observe(stamp);
    history.timeline().unwrap()
}

#[test]
fn a_running_row_accrues_and_one_without_one_place_in_the_past_is_unknown() {
    let of = |started, now| accrued(started, boot_ms(now), timeline());
    let known = Observed::Known(span(1_000_001, 1_000_005));
    let start = BootNs(1_999_000);
    assert_eq!(of(Some(BootPlace::Once(start)), 5), known);
    assert_eq!(of(Some(BootPlace::Twice(start, boot_ms(9))), 5), known);
    let places = [Some(BootPlace::Twice(start, boot_ms(4))), Some(BootPlace::Skipped), None];
    for unplaced in places.into_iter().chain([Some(BootPlace::Once(boot_ms(6)))]) {
        assert!(of(unplaced, 5).known().is_none(), "{unplaced:?}");
    }
}

#[test]
fn a_row_is_over_with_its_process_unless_a_read_after_that_shows_it_running() {
    let of =
        |exit: Option<u64>, last_seen| over_at(exit.map(boot_ms), boot_ms(last_seen), boot_ms(9));
    // It lives; its reads came to an end or did not.
    assert_eq!((of(None, 2), of(None, 9)), (None, None));
    // It ended, and no read tells more.
    assert_eq!(of(Some(5), 2), Some(boot_ms(5)));
    // The driver counted on for a while, as where a child keeps the device.
    assert_eq!(of(Some(5), 7), Some(boot_ms(7)));
    // It counts still, or the end came later than was asked.
    assert_eq!((of(Some(5), 9), of(Some(9), 2)), (None, None));
}

#[test]
fn a_settlement_shorter_than_a_millisecond_counts_in_the_period_it_begins_in() {
    let instant =
        Holding { span: span(10, 10), pid: Pid(1), account: account(0), kind: Kind::Settled };
    let books = [GpuBooks {
        gpu: GpuUuid(Arc::from("GPU-a")),
        settlements: vec![Booked::Placed(instant)],
        running: Vec::new(),
        uncovered: Vec::new(),
    }];
    let count = |from, to| bill(span(from, to), &books).unwrap().settlements_total;
    assert_eq!((count(0, 10), count(10, 20), count(0, 20)), (0, 1, 1));
}
