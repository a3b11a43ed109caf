#![expect(clippy::arithmetic_side_effects, reason = "made moments are small numbers")]

use jiff::tz::TimeZone;

use super::*;
use crate::bill::figures::{Figure, Place};
use crate::bill::made::{DAY_MS, Journal, NAMELESS, Row, gpu, program};
use crate::bill::period::Period;
use crate::bill::report::Tree;
use crate::bill::{By, SharePolicy};
use crate::journal::Recovered;
use crate::journal::entry::OpenKind;
use crate::prices::parse;
use crate::random::Random;
use crate::unknown::GapCause;

/// The closed period, in ms after the made day began.
const FROM: u64 = 1_000;
const TO: u64 = 60_000;

fn ask(by: By, share: SharePolicy, is_priced: bool) -> Ask {
    let prices = "currency = \"EUR\"\n[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"held\"\nper_hour = \"3.6\"\n\
                  [[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"alone\"\nper_hour = \"1.8\"\n";
    Ask {
        period: Period {
            span: Span::new(DAY_MS + FROM, DAY_MS + TO).unwrap(),
            begins_with_journal: false,
            is_open_ended: false,
            beyond_now: None,
            zone: TimeZone::UTC,
        },
        by,
        share,
        gpus: Vec::new(),
        accounts: Vec::new(),
        prices: is_priced.then(|| parse(prices, &TimeZone::UTC).unwrap()),
    }
}

/// The ledger of the first entries, as a reader of the journal at that head has it.
fn ledger(journal: &Journal, head: usize) -> Ledger {
    let (mut ledger, mut end) = (Ledger::new(), Recovered::default());
    for entry in &journal.entries[..head] {
        end.follow_read(entry).unwrap();
        ledger.take(entry).unwrap();
    }
    ledger.finish(&end).unwrap();
    ledger
}

fn head(journal: &Journal, head: usize) -> Head {
    let last = &journal.entries[head - 1];
    Head { seq: last.seq, hash: last.hash, tree: Tree::Unknown("made") }
}

fn between(journal: &Journal, from: usize, to: usize, ask: &Ask) -> Vec<Adjustment> {
    let (base, fresh) = (ledger(journal, from), ledger(journal, to));
    let outside = Outside::default();
    let late = &journal.entries[from..to];
    adjusted(&base, late, &fresh, (ask, head(journal, to), &outside)).unwrap()
}

/// What all changes of a place come to. Money that is UNKNOWN on the way cannot be added up.
fn summed<'d>(changes: impl Iterator<Item = &'d Difference>) -> BTreeMap<Place, Option<Figure>> {
    let mut sums: BTreeMap<Place, Option<Figure>> = BTreeMap::new();
    for change in changes {
        let zero = Some(change.difference.nothing());
        let sum = sums.entry(change.place.clone()).or_insert(zero);
        *sum = match (*sum, change.difference) {
            (Some(Figure::Whole(sum)), Figure::Whole(more)) => Some(Figure::Whole(sum + more)),
            (Some(Figure::Money(Some(sum))), Figure::Money(Some(more))) => {
                Some(Figure::Money(Some(sum + more)))
            }
            _ => None,
        };
    }
    sums.retain(|_, sum| sum.is_none_or(|sum| sum != sum.nothing()));
    sums
}

/// What the two bills differ in, made by GPU as adjustments are.
fn direct(journal: &Journal, from: usize, to: usize, ask: &Ask) -> Vec<Difference> {
    let figures = |at: usize, number: u64| {
        let ask = Ask { gpus: vec![gpu(number)], ..ask.clone() };
        let made = report(&ledger(journal, at), &ask, head(journal, at), &Outside::default());
        Figures::of(&made.unwrap(), Some(&gpu(number).0))
    };
    let of = |number| figures(from, number).differences(&figures(to, number));
    (0..2).flat_map(of).collect()
}

/// A journal of an hour, of everything that can come late.
fn random(seed: u64) -> Journal {
    let mut random = Random::seeded(seed);
    let mut journal = Journal::began(0, 2);
    let mut open: Vec<(u64, u64, u32, u64)> = Vec::new();
    let mut settled: Vec<u64> = Vec::new();
    let mut now = 500;
    for pid in 1..60_u32 {
        now += random.below(4_000);
        let index = random.below(2);
        let name = ["a", "b", "c"][usize::try_from(random.below(3)).unwrap()];
        let start = now.saturating_sub(random.below(70_000));
        let held = random.below(30_000).min(now - start);
        match random.below(10) {
            0..=3 => {
                let account = if random.one_in(5) { NAMELESS } else { program(name) };
                let row = Row { gpu: index, account, ..Row::of(name, pid, start, held) };
                settled.push(journal.settle(now, row));
            }
            4 => {
                let seq = journal.open(now, OpenKind::Row, index, pid, start, program(name));
                open.push((seq, index, pid, start));
            }
            5 => {
                if let Some((seq, index, pid, start)) = open.pop() {
                    let row = Row {
                        gpu: index,
                        opened: Some(seq),
                        ..Row::of(name, pid, start, now - start)
                    };
                    settled.push(journal.settle(now, row));
                }
            }
            6 => {
                if let Some((seq, ..)) = open.pop() {
                    journal.ended(now, seq, Some(GapCause::AccountingOff));
                }
            }
            7 => {
                if let Some(of) = settled.last().copied() {
                    if random.one_in(2) {
                        journal.conflict(now, of);
                    } else {
                        journal.moved(now, of, program("moved"));
                    }
                }
            }
            8 => journal.gap(GapCause::NvmlCallTimeout, Some(index), start, now, None),
            _ => journal.mark(now, 2),
        }
    }
    journal.mark(now + 1, 2);
    journal
}

#[test]
fn the_closed_bill_and_its_adjustments_are_the_bill_made_afresh_wherever_it_was_closed() {
    let mut told = BTreeMap::new();
    for seed in 0..40 {
        let journal = random(seed);
        let mut random = Random::seeded(seed + 1_000);
        let last = journal.entries.len();
        let first = usize::try_from(random.between(4, 30)).unwrap();
        let middle = first + usize::try_from(random.below(10)).unwrap();
        let share = if random.one_in(2) { SharePolicy::Equal } else { SharePolicy::None };
        let ask = ask(By::Account, share, true);
        let once = between(&journal, first, last, &ask);
        for one in &once {
            *told.entry(one.kind).or_insert(0) += 1;
        }
        let changes =
            |all: &[Adjustment]| all.iter().flat_map(|one| one.changes.clone()).collect::<Vec<_>>();
        let wanted = summed(direct(&journal, first, last, &ask).iter());
        let found = summed(changes(&once).iter());
        let unknown = |sums: &BTreeMap<Place, Option<Figure>>, place: &Place| {
            sums.get(place).is_some_and(Option::is_none)
        };
        let agrees = |found: &BTreeMap<Place, Option<Figure>>| {
            for place in wanted.keys().chain(found.keys()) {
                if !unknown(&wanted, place) && !unknown(found, place) {
                    assert_eq!(wanted.get(place), found.get(place), "{seed}: {place:?}");
                }
            }
        };
        agrees(&found);
        // Told by two bills, each up to its own head: no entry twice, none lost.
        let mut twice = between(&journal, first, middle, &ask);
        twice.extend(between(&journal, middle, last, &ask));
        agrees(&summed(changes(&twice).iter()));
    }
    for kind in [
        AdjustmentKind::SettledLate,
        AdjustmentKind::OpenSettled,
        AdjustmentKind::OpenEnded,
        AdjustmentKind::AccountCorrected,
        AdjustmentKind::Conflict,
        AdjustmentKind::GapTold,
        AdjustmentKind::Seen,
    ] {
        assert!(told.contains_key(&kind), "no history had {kind:?}: {told:?}");
    }
}

#[test]
fn each_entry_is_told_with_what_it_changes_and_nothing_that_changes_nothing_is() {
    let mut journal = Journal::began(0, 1);
    let open = journal.open(5_000, OpenKind::Row, 0, 7, 4_000, program("train"));
    journal.mark(70_000, 1);
    let closed = journal.entries.len();
    // In the period, on its edge, and after it.
    let late = journal.settle(71_000, Row::of("late", 8, 10_000, 5_000));
    journal.settle(72_000, Row::of("after", 9, 65_000, 5_000));
    let train = Row { opened: Some(open), ..Row::of("train", 7, 4_000, 66_000) };
    let train = journal.settle(73_000, train);
    journal.moved(74_000, late, program("team"));
    journal.mark(75_000, 1);
    let all = between(
        &journal,
        closed,
        journal.entries.len(),
        &ask(By::Account, SharePolicy::None, true),
    );
    let told: Vec<_> = all.iter().map(|one| (one.seq, one.kind, one.of)).collect();
    assert_eq!(
        told,
        [
            (Some(late), AdjustmentKind::SettledLate, None),
            (Some(train), AdjustmentKind::OpenSettled, Some(open)),
            (Some(late + 3), AdjustmentKind::AccountCorrected, Some(late)),
        ]
    );
    let of = |one: &Adjustment, line: &str, figure: &str| {
        let mut found = one.changes.iter().filter(|change| {
            change.place.line.as_deref() == Some(line) && change.place.figure == figure
        });
        found.next().map(|change| change.difference)
    };
    assert_eq!(of(&all[0], "late", "held_ms"), Some(Figure::Whole(5_000)));
    assert_eq!(of(&all[0], "train", "held_ms"), None);
    assert_eq!(of(&all[1], "train", "held_ms"), Some(Figure::Whole(56_000)));
    assert_eq!(of(&all[1], "train", "open_ms"), Some(Figure::Whole(-56_000)));
    assert_eq!(of(&all[2], "late", "held_ms"), Some(Figure::Whole(-5_000)));
    assert_eq!(of(&all[2], "team", "held_ms"), Some(Figure::Whole(5_000)));
    let total =
        crate::bill::report::AdjustedTotal::of(all.iter().flat_map(|one| &one.changes), true);
    assert_eq!((total.held_ms, total.settlements), (61_000, 2));
    // 61 s at 3.6 an hour.
    assert_eq!(serde_json::to_value(total.booked).unwrap(), "0.0610");
}

#[test]
fn what_is_beyond_the_bound_is_told_together_and_still_adds_up() {
    let mut journal = Journal::began(0, 1);
    journal.mark(70_000, 1);
    let closed = journal.entries.len();
    let many = u32::try_from(ADJUSTMENTS_TOLD_MAX).unwrap() + 5;
    for pid in 1..=many {
        journal.settle(71_000, Row::of("late", pid, 2_000 + u64::from(pid) * 100, 100));
    }
    let all = between(
        &journal,
        closed,
        journal.entries.len(),
        &ask(By::Account, SharePolicy::None, false),
    );
    assert_eq!(all.len(), ADJUSTMENTS_TOLD_MAX + 1);
    let last = all.last().unwrap();
    assert_eq!((last.seq, last.kind), (None, AdjustmentKind::Several));
    let total =
        crate::bill::report::AdjustedTotal::of(all.iter().flat_map(|one| &one.changes), false);
    assert_eq!(total.held_ms, i128::from(many) * 100);
    assert_eq!(total.booked, None);
}
