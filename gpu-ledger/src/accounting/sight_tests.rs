//! Random histories of reads, against what each of them can have seen.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::accounting::harvest::Harvest;
use crate::accounting::reading::{Finding, GpuRead, Listing, ReadContent};
use crate::bill::blind_spans;
use crate::clock::{ClockHistory, Timeline};
use crate::unit::{Span, WallUs};
use crate::unknown::Unknown;

fn stamp(ms: u64) -> Stamp {
    Stamp { boot: BootNs(ms * 1_000_000), mono_ns: ms * 1_000_000, wall: WallUs(ms * 1_000) }
}

fn window(ms: u64) -> Window {
    Window { began: stamp(ms), ended: stamp(ms + 1) }
}

fn gpu() -> GpuUuid {
    GpuUuid(Arc::from("GPU-a"))
}

fn timeline() -> Timeline {
    let mut history = ClockHistory::default();
    history.observe(stamp(0));
    history.timeline().unwrap()
}

/// What one read of the history comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Read {
    Listed,
    Off,
    Changed,
    Fails(UnknownReason),
    /// Does not come back.
    Hangs,
}

impl Read {
    fn content(self) -> Option<ReadContent> {
        Some(match self {
            Self::Listed => ReadContent::Listed(Listing::default()),
            Self::Off => ReadContent::AccountingOff,
            Self::Changed => ReadContent::ModeChanged { on: false },
            Self::Fails(reason) => ReadContent::Failed(Unknown::of(reason)),
            Self::Hangs => return None,
        })
    }
}

/// Every reason for which a mode or a list can fail to come.
fn reason() -> impl Strategy<Value = UnknownReason> {
    prop::sample::select(UnknownReason::ALL)
}

fn read() -> impl Strategy<Value = Read> {
    prop_oneof![
        5 => Just(Read::Listed),
        1 => Just(Read::Off),
        1 => Just(Read::Changed),
        3 => reason().prop_map(Read::Fails),
        1 => Just(Read::Hangs),
    ]
}

/// Reads at these moments. One that hangs is the last. Whether the last was asked for as such.
fn played(reads: &[(u64, Read)], finished: bool) -> Sight {
    let (mut sight, mut harvest) = (Sight::new(gpu()), Harvest::new(gpu(), false));
    for (place, (at_ms, read)) in reads.iter().enumerate() {
        let Some(content) = read.content() else {
            sight.stalls();
            break;
        };
        let window = window(*at_ms);
        let listing = ListingState::of(&content);
        let seen = harvest.observe(&GpuRead { window, touching_exits: Some(0), content });
        let mut unknowns = seen.unknowns.iter();
        let is_empty_in_doubt =
            unknowns.any(|unknown| unknown.reason == UnknownReason::EmptyAccountedList);
        let mut gaps: Vec<Gap> = seen.findings.into_iter().filter_map(Finding::into_gap).collect();
        let in_doubt = harvest.in_doubt(window.ended).into_iter();
        let mut in_doubt: Vec<Gap> = in_doubt.filter_map(Finding::into_gap).collect();
        if finished && place + 1 == reads.len() {
            in_doubt.clear();
            let left = harvest.left(window.ended).into_iter();
            gaps.extend(left.filter_map(Finding::into_gap));
        }
        let exits_unwitnessed = 0;
        let look = Look { window, listing, is_empty_in_doubt, gaps, in_doubt, exits_unwitnessed };
        sight.take(look);
    }
    sight
}

/// From 100 ms to `to_ms`, watched for 50 ms longer.
fn asked(to_ms: u64) -> Asked {
    let (from, to, until) = (stamp(100), stamp(to_ms), stamp(to_ms + 50));
    Asked { from, to, until, opens_watched: true }
}

fn uncovered(gaps: &[Gap], asked: &Asked) -> Vec<Span> {
    let coverage = Coverage { start: asked.from, end: asked.until, gaps: gaps.to_vec() };
    let period = timeline().span(asked.from.boot, asked.to.boot);
    blind_spans(period, timeline(), &coverage, &gpu())
}

fn history() -> impl Strategy<Value = Vec<(u64, Read)>> {
    prop::collection::vec((3_u64..60, read()), 0..12).prop_map(|steps| {
        let mut at_ms = 90;
        let reads = steps.into_iter().map(|(wait_ms, read)| {
            at_ms += wait_ms;
            (at_ms, read)
        });
        reads.collect()
    })
}

fn within(spans: &[Span], ms: u64) -> bool {
    spans.iter().any(|span| span.from_ms() <= ms && ms < span.to_ms())
}

proptest! {
    #[test]
    fn what_is_uncovered_is_in_a_gap_and_what_no_read_vouches_for_is_uncovered(
        reads in history(), finished: bool, more_ms in 0_u64..80,
    ) {
        let hangs = reads.iter().position(|(_, read)| *read == Read::Hangs);
        let answered = reads.get(..hangs.unwrap_or(reads.len())).unwrap();
        let good = |read: &(u64, Read)| matches!(read.1, Read::Listed | Read::Off);
        let first_ms = answered.iter().copied().find(good).map(|read| read.0);
        let last_ms = answered.iter().copied().rfind(good).map(|read| read.0);
        let end_ms = reads.last().map_or(100, |read| read.0).max(100) + more_ms;
        let asked = asked(end_ms);
        let gaps = played(&reads, finished).gaps(&asked);
        let uncovered = uncovered(&gaps, &asked);
        for ms in 100..end_ms {
            let explained = gaps.iter().any(|gap| {
                gap.hides_rows()
                    && gap.gpu == Some(gpu())
                    && gap.from.boot <= BootNs(ms * 1_000_000 + 999_999)
                    && BootNs(ms * 1_000_000) <= gap.to.boot
            });
            prop_assert_eq!(within(&uncovered, ms), explained, "{} ms of {:?}", ms, gaps);
            let outside = first_ms.is_none_or(|first| ms < first)
                || last_ms.is_none_or(|last| last <= ms);
            // Between two lists the harvest judges; where accounting was off, nobody saw.
            let off = answered.windows(2).any(|pair| {
                pair[1].1 == Read::Off && pair[0].0 < ms && ms < pair[1].0
            });
            if outside || off {
                prop_assert!(explained, "{} ms is in none of {:?}", ms, gaps);
            }
        }
        // Nobody calls a loss none that nobody could see.
        let sight = played(&reads, finished);
        let events = Coverage { start: stamp(0), end: asked.until, gaps: Vec::new() };
        if !uncovered.is_empty() {
            prop_assert_eq!(sight.possibly_lost(&asked, &events), None, "{:?}", gaps);
        }
    }

    #[test]
    fn reads_that_all_succeed_leave_no_gap_and_count_no_loss(waits in prop::collection::vec(1_u64..40, 1..9)) {
        let mut at_ms = 99;
        let later = waits.into_iter().map(|wait_ms| { at_ms += wait_ms; (at_ms, Read::Listed) });
        let reads: Vec<_> = std::iter::once((99, Read::Listed)).chain(later).collect();
        let (last_ms, _) = *reads.last().unwrap();
        let (sight, asked) = (played(&reads, true), asked(last_ms.max(100)));
        let gaps = sight.gaps(&asked);
        if last_ms >= 100 {
            prop_assert_eq!(&gaps, &[]);
            let events = Coverage { start: stamp(0), end: asked.until, gaps: Vec::new() };
            prop_assert_eq!(sight.possibly_lost(&asked, &events), Some(0));
        }
    }
}

/// The causes of the gaps that a last read like this leaves.
fn tail_after(last: Read) -> Vec<(GapCause, Option<u64>)> {
    let sight = played(&[(90, Read::Listed), (150, Read::Listed), (200, last)], true);
    let gaps = sight.gaps(&asked(300));
    assert!(gaps.iter().all(|gap| gap.from == stamp(150) && gap.gpu == Some(gpu())), "{gaps:?}");
    gaps.iter().map(|gap| (gap.cause, gap.size)).collect()
}

#[test]
fn what_ends_the_reads_is_the_cause_of_the_gap_that_is_left() {
    let expected = [
        (UnknownReason::NvmlUnknownError, GapCause::RowsPossiblyEvicted),
        (UnknownReason::NoPermission, GapCause::RowsPossiblyEvicted),
        (UnknownReason::AccountingNotSupportedOrDisabled, GapCause::AccountingOff),
        (UnknownReason::DriverNotLoaded, GapCause::EpochBroken),
    ];
    for (reason, cause) in expected {
        assert_eq!(tail_after(Read::Fails(reason)), [(cause, None)], "{reason}");
    }
    assert_eq!(tail_after(Read::Hangs), [(GapCause::NvmlCallTimeout, None)]);
}

#[test]
fn a_gpu_that_is_lost_to_the_end_has_one_gap_without_a_hole() {
    let reads = [(90, Read::Listed), (150, Read::Fails(UnknownReason::GpuLost))];
    let gaps = played(&reads, true).gaps(&asked(300));
    // As far as the last read saw, and from there to the end.
    let causes: Vec<_> = gaps.iter().map(|gap| (gap.cause, gap.from, gap.to)).collect();
    let broken = GapCause::EpochBroken;
    assert_eq!(causes, [(broken, stamp(90), stamp(151)), (broken, stamp(151), stamp(350))]);
}

#[test]
fn a_gpu_that_could_be_read_only_later_has_a_gap_at_its_beginning() {
    let reads = [
        (90, Read::Fails(UnknownReason::DriverNotReady)),
        (150, Read::Listed),
        (310, Read::Listed),
    ];
    let gaps = played(&reads, true).gaps(&asked(300));
    let expected = Gap {
        cause: GapCause::EpochBroken,
        gpu: Some(gpu()),
        from: stamp(100),
        to: stamp(150),
        size: None,
    };
    assert_eq!(gaps, [expected]);
}

#[test]
fn a_loss_is_a_number_only_where_opens_were_watched_and_no_event_was_lost() {
    let sight = played(&[(90, Read::Listed), (310, Read::Listed)], true);
    let lost = |from_ms: u64| Gap {
        cause: GapCause::EventLost,
        gpu: None,
        from: stamp(from_ms),
        to: stamp(from_ms + 10),
        size: Some(1),
    };
    let events = |gaps: Vec<Gap>| Coverage { start: stamp(50), end: stamp(350), gaps };
    let of = |opens_watched: bool, events: Coverage| {
        sight.possibly_lost(&Asked { opens_watched, ..asked(300) }, &events)
    };
    assert_eq!(of(true, events(vec![])), Some(0));
    assert_eq!(of(false, events(vec![])), None);
    assert_eq!(of(true, events(vec![lost(200)])), None);
    // What was lost before the first read is over: its rows are in that one, or were never ours.
    assert_eq!(of(true, events(vec![lost(60)])), Some(0));
    let late = Coverage { start: stamp(95), end: stamp(350), gaps: Vec::new() };
    assert_eq!(of(true, late), None, "exits between the first read and the first event");
    assert_eq!(Sight::new(gpu()).possibly_lost(&asked(300), &events(vec![])), None);
}

#[test]
fn a_hang_is_made_good_by_the_list_after_it_and_by_nothing_else() {
    let hang = Gap {
        cause: GapCause::NvmlCallTimeout,
        gpu: Some(gpu()),
        from: stamp(200),
        to: stamp(250),
        size: None,
    };
    let events = Coverage { start: stamp(50), end: stamp(350), gaps: Vec::new() };
    let look = |at_ms: u64, listing, gaps: Vec<Gap>| Look {
        window: window(at_ms),
        listing,
        is_empty_in_doubt: false,
        gaps,
        in_doubt: Vec::new(),
        exits_unwitnessed: 0,
    };
    let mut sight = Sight::new(gpu());
    sight.take(look(90, ListingState::Listed, vec![]));
    let missing = ListingState::Missing(UnknownReason::NvmlUnknownError);
    sight.take(look(251, missing, vec![hang]));
    let of = |sight: &Sight| sight.possibly_lost(&asked(251), &events);
    assert_eq!(of(&sight), None);
    sight.take(look(300, ListingState::Listed, vec![]));
    assert_eq!(of(&sight), Some(0));
}

#[test]
fn exits_that_nothing_vouches_for_leave_the_loss_unknown() {
    let mut sight = Sight::new(gpu());
    for (at_ms, exits_unwitnessed) in [(90, 0), (200, 1), (310, 1)] {
        let (gaps, in_doubt) = (Vec::new(), Vec::new());
        let window = window(at_ms);
        let listing = ListingState::Listed;
        let is_empty_in_doubt = false;
        sight.take(Look { window, listing, is_empty_in_doubt, gaps, in_doubt, exits_unwitnessed });
    }
    let events = Coverage { start: stamp(50), end: stamp(350), gaps: Vec::new() };
    assert_eq!(sight.possibly_lost(&asked(300), &events), None);
}

#[test]
fn sizes_that_were_told_by_exits_are_unknown_where_opens_were_not_watched() {
    let mut sight = Sight::new(gpu());
    let gap = |cause, size| Gap {
        cause,
        gpu: Some(gpu()),
        from: stamp(150),
        to: stamp(160),
        size: Some(size),
    };
    let look = |at_ms: u64, gaps| Look {
        window: window(at_ms),
        listing: ListingState::Listed,
        is_empty_in_doubt: false,
        gaps,
        in_doubt: Vec::new(),
        exits_unwitnessed: 0,
    };
    sight.take(look(90, vec![]));
    let told_by_exits = [
        gap(GapCause::RowsPossiblyEvicted, 3),
        gap(GapCause::ClearedOrReset, 2),
        gap(GapCause::RowOverwritten, 0),
    ];
    let by_key = [gap(GapCause::RowOverwritten, 1), gap(GapCause::RowVanished, 4)];
    sight.take(look(310, [&told_by_exits[..], &by_key[..]].concat()));
    let sizes = |opens_watched| {
        let gaps = sight.gaps(&Asked { opens_watched, ..asked(300) });
        gaps.iter().map(|gap| gap.size).collect::<Vec<_>>()
    };
    assert_eq!(sizes(true), [Some(3), Some(2), Some(0), Some(1), Some(4)]);
    assert_eq!(sizes(false), [None, None, None, Some(1), Some(4)]);
}

#[test]
fn an_empty_list_that_nobody_could_believe_is_a_gap_until_a_list_proves_more() {
    let look = |at_ms: u64, is_empty_in_doubt| Look {
        window: window(at_ms),
        listing: ListingState::Listed,
        is_empty_in_doubt,
        gaps: Vec::new(),
        in_doubt: Vec::new(),
        exits_unwitnessed: 0,
    };
    let mut sight = Sight::new(gpu());
    sight.take(look(90, false));
    sight.take(look(200, true));
    sight.take(look(310, true));
    let gap = Gap {
        cause: GapCause::RowsPossiblyEvicted,
        gpu: Some(gpu()),
        from: stamp(100),
        to: stamp(350),
        size: None,
    };
    assert_eq!(sight.gaps(&asked(300)), std::slice::from_ref(&gap));
    let events = Coverage { start: stamp(50), end: stamp(350), gaps: Vec::new() };
    assert_eq!(sight.possibly_lost(&asked(300), &events), None);
    // Where the reads end early, what ended them is the cause of the rest.
    let mut silent = sight.clone();
    silent.stalls();
    let causes: Vec<_> =
        silent.gaps(&asked(400)).into_iter().map(|gap| (gap.cause, gap.from, gap.to)).collect();
    let tail = (GapCause::NvmlCallTimeout, stamp(310), stamp(450));
    assert_eq!(causes, [(gap.cause, stamp(100), stamp(310)), tail]);
    sight.take(look(320, false));
    assert_eq!(sight.gaps(&asked(300)), []);
}
