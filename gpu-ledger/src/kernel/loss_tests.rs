//! Made-up streams of records, with every kind of hole.

use proptest::prelude::*;

use super::*;

fn head(cpu: u32, seq: u64) -> RecordHead {
    RecordHead::new(kind::FORK, cpu, seq, BootNs(1_000 + seq))
}

/// One CPU on which `produced` numbers were given out and `lost` of them refused.
fn counts(produced: u64, lost: u64) -> Counts {
    let of = |count| {
        let mut counts = [0; kind::COUNT];
        counts[usize::from(kind::FORK)] = count;
        PerKind::new(counts)
    };
    let cpu = CpuCounts {
        next_seq: produced,
        produced: of(produced),
        lost: of(lost),
        ..CpuCounts::default()
    };
    Counts { cpus: vec![cpu] }
}

fn fed(numbers: &[u64]) -> SequenceTracker {
    let mut tracker = SequenceTracker::default();
    for seq in numbers {
        tracker.observe(&head(0, *seq));
    }
    tracker
}

#[test]
fn a_whole_stream_has_no_losses_and_balances() {
    let mut tracker = fed(&[0, 1, 2, 3]);
    assert_eq!(tracker.confirm(&counts(4, 0)), []);
    assert_eq!(tracker.balance(&counts(4, 0)), Ok(()));
}

#[test]
fn a_hole_is_a_loss_between_the_records_around_it() {
    let mut tracker = fed(&[0, 1, 5]);
    let losses = tracker.confirm(&counts(6, 3));
    let (after, before) = (Some(BootNs(1_001)), Some(BootNs(1_005)));
    assert_eq!(losses, [Loss { cpu: 0, count: 3, after, before }]);
    assert_eq!(tracker.confirm(&counts(6, 3)), [], "reported once");
    assert_eq!(tracker.balance(&counts(6, 3)), Ok(()));
}

#[test]
fn what_is_lost_at_the_end_is_known_from_the_counters_alone() {
    let mut tracker = fed(&[0]);
    let losses = tracker.confirm(&counts(3, 2));
    assert_eq!(losses, [Loss { cpu: 0, count: 2, after: Some(BootNs(1_000)), before: None }]);
    tracker.observe(&head(0, 3));
    assert_eq!(tracker.confirm(&counts(4, 2)), []);
    assert_eq!(tracker.balance(&counts(4, 2)), Ok(()));
}

#[test]
fn a_cpu_that_lost_everything_is_not_forgotten() {
    let mut tracker = SequenceTracker::default();
    let losses = tracker.confirm(&counts(2, 2));
    assert_eq!(losses, [Loss { cpu: 0, count: 2, after: None, before: None }]);
}

#[test]
fn a_number_that_comes_late_is_no_loss() {
    let mut tracker = fed(&[0, 2]);
    assert_eq!(tracker.confirm(&counts(3, 0)), [], "the kernel counted none");
    tracker.observe(&head(0, 1));
    assert_eq!((tracker.missing_on(0), tracker.repeated()), (0, 0));
    assert_eq!(tracker.balance(&counts(3, 0)), Ok(()));
}

#[test]
fn a_record_that_vanished_uncounted_is_an_imbalance() {
    let tracker = fed(&[0, 2]);
    let expected = Imbalance { cpu: 0, produced: 3, received: 2, lost: 0 };
    assert_eq!(tracker.balance(&counts(3, 0)), Err(expected));
}

#[test]
fn a_number_that_comes_twice_is_counted_as_repeated() {
    assert_eq!(fed(&[0, 1, 1]).repeated(), 1);
}

proptest! {
    #[test]
    fn whatever_is_lost_produced_is_received_and_lost(
        kept in proptest::collection::vec(any::<bool>(), 0..200),
        every in 1_usize..20,
    ) {
        let mut tracker = SequenceTracker::default();
        let mut reported = 0;
        let (mut produced, mut lost) = (0, 0);
        for chunk in kept.chunks(every) {
            for keep in chunk {
                if *keep {
                    tracker.observe(&head(0, produced));
                } else {
                    lost += 1;
                }
                produced += 1;
            }
            let losses = tracker.confirm(&counts(produced, lost));
            reported += losses.iter().map(|loss| loss.count).sum::<u64>();
            prop_assert_eq!(reported, lost);
        }
        prop_assert_eq!(tracker.balance(&counts(produced, lost)), Ok(()));
        prop_assert_eq!(tracker.repeated(), 0);
        prop_assert_eq!(tracker.received().total(), produced - lost);
    }
}
