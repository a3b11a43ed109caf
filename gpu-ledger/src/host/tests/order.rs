//! What comes before what.

use super::made::{World, gpu, process, shell, stamp};
use crate::accounting::driver::Report;
use crate::accounting::schedule::{Awaited, INTERVAL_SWEEP_NS};
use crate::host::{HostSettings, News, Resumed};
use crate::identity::made::{MS, exit, fork, touch};
use crate::unknown::GapCause;

#[test]
fn notes_are_numbered_without_a_hole_and_come_as_things_were_learnt() {
    let mut world = World::daemon();
    let key = world.starts(100, 10_100, "train");
    world.opens(100, 10_110);
    world.read(10_200);
    world.ends(key, 10_300);
    world.closes(100, 10_301);
    world.read(10_400);
    world.host.end(stamp(10_500));
    world.notes.extend(world.host.take_notes());
    let numbers: Vec<u64> = world.notes.iter().map(|note| note.number).collect();
    assert_eq!(numbers, (1..=u64::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
    assert!(world.notes.is_sorted_by_key(|note| note.at));
    let words: Vec<&str> = world
        .notes
        .iter()
        .map(|note| match &note.news {
            News::CoverageBegan { .. } => "begins",
            News::GpuFound(_) => "gpu",
            News::EpochBegan { .. } => "epoch",
            News::Opened(_) => "opened",
            News::Settled(_) => "settled",
            News::CoverageEnded { .. } => "ends",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(words, vec!["begins", "gpu", "epoch", "opened", "settled", "ends"]);
}

#[test]
fn exits_after_a_reads_end_are_not_weighed_against_it() {
    let mut world = World::daemon();
    for pid in 1_000..1_128 {
        world.dead_row(pid, 9_010, 5);
    }
    world.read(10_100);
    // 130 processes open, close and end; 128 of their rows are left, and nothing of the old ones.
    world.dead.clear();
    for pid in 2_000..2_130 {
        let key = process(pid, 10_120);
        world.event(fork(key, shell()));
        world.event(touch(key, shell(), 10_121 * MS));
        world.event(exit(key, shell(), 10_150 * MS));
        world.dead_row(pid, 10_122, 10);
    }
    world.dead.drain(..2);
    let outcome = world.outcome(10_200);
    // Seven more end while the report waits.
    for pid in 3_000..3_007 {
        let key = process(pid, 10_190);
        world.event(fork(key, shell()));
        world.event(touch(key, shell(), 10_191 * MS));
        world.event(exit(key, shell(), 10_210 * MS));
    }
    world.drain(10_220, &[]);
    world.host.reported(Report::Read(Box::new(outcome)));
    world.advance();
    let gaps: Vec<_> = world
        .notes
        .iter()
        .filter_map(|note| match &note.news {
            News::Gap(gap) => Some((gap.cause, gap.size)),
            _ => None,
        })
        .collect();
    assert_eq!(gaps, vec![(GapCause::RowsPossiblyEvicted, Some(2))]);
}

#[test]
fn a_read_that_ends_later_than_the_events_in_hand_waits_for_them() {
    let mut world = World::daemon();
    world.opens(100, 10_110);
    let key = world.starts(100, 10_100, "train");
    world.read(10_200);
    world.ends(key, 10_300);
    world.closes(100, 10_301);
    let outcome = world.outcome(10_400);
    world.host.reported(Report::Read(Box::new(outcome)));
    world.advance();
    assert!(world.settled().is_empty(), "the exit is not drained yet");
    world.drain(10_401, &[]);
    world.advance();
    assert!(world.settled().is_empty(), "the drain began before the read ended");
    world.drain(10_500, &[]);
    world.advance();
    assert_eq!(world.settled().len(), 1);
}

#[test]
fn the_exit_of_one_who_touched_wants_a_read_quickly_until_its_row_is_final() {
    let mut world =
        World::begun(HostSettings::of_trace(true, true), Resumed::default(), 10_000, Vec::new());
    let key = world.starts(100, 10_100, "train");
    let bystander = process(101, 10_120);
    world.event(fork(bystander, shell()));
    world.opens(100, 10_110);
    world.read(10_200);
    let pace = |world: &mut World| {
        let wanted = world.host.take_wanted();
        let read = wanted.iter().find_map(|one| one.read);
        (wanted.into_iter().find_map(|one| one.pace), read.map(|read| read.touching_exits))
    };
    assert_eq!(pace(&mut world), (Some(Awaited::Open), None));
    world.event(exit(bystander, shell(), 10_250 * MS));
    world.drain(10_260, &[]);
    world.advance();
    assert_eq!(pace(&mut world), (None, None), "it touched nothing");
    world.ends(key, 10_300);
    world.drain(10_310, &[]);
    world.advance();
    assert_eq!(pace(&mut world), (Some(Awaited::Dead), Some(Some(1))));
    world.read(10_320);
    assert_eq!(pace(&mut world).0, None, "its row is still open");
    world.closes(100, 10_330);
    world.read(10_400);
    assert_eq!(pace(&mut world).0, Some(Awaited::Open));
}

#[test]
fn who_holds_the_device_is_asked_with_every_sweep() {
    let mut world = World::daemon();
    let asks = |world: &mut World| {
        world.advance();
        let wanted = world.host.take_wanted();
        wanted
            .iter()
            .filter(|one| one.gpu == gpu())
            .any(|one| one.read.is_some_and(|read| read.processes))
    };
    world.drain(10_001, &[]);
    assert!(asks(&mut world));
    world.drain(10_020, &[]);
    assert!(!asks(&mut world));
    world.drain(10_001 + INTERVAL_SWEEP_NS / MS, &[]);
    assert!(asks(&mut world));
}
