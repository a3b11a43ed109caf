//! A queue that is too short, between a made host and a journal.

use std::sync::Arc;

use super::{Backlog, Hand, Overflow};
use crate::coverage::Gap;
use crate::host::News;
use crate::host::tests::made::{World, gpu, stamp};
use crate::journal::draft::{Drafter, Pending};
use crate::journal::entry::{AgentFacts, BootId, Change, Correction, Figures, Mark};
use crate::journal::{CommitmentKey, Digest};
use crate::unknown::GapCause;

/// A host, and what is kept of its notes.
struct Keeping {
    world: World,
    drafter: Drafter,
    backlog: Backlog,
    overflow: Overflow,
    /// Notes that were drafted.
    drafted: usize,
    /// Everything that the writer took.
    written: Vec<Pending>,
}

impl Keeping {
    fn with_room_for(rows: usize) -> Self {
        let facts =
            AgentFacts { version: Arc::from("0"), object: Digest::NONE, kernel: "6".into() };
        let key = CommitmentKey::new([7; 32]);
        let mut world = World::daemon();
        world.acknowledges = false;
        Self {
            world,
            drafter: Drafter::new(BootId(1), Arc::from("made"), facts, key),
            backlog: Backlog::new(rows),
            overflow: Overflow::default(),
            drafted: 0,
            written: Vec::new(),
        }
    }

    fn keep(&mut self) -> u64 {
        let news = self.world.notes[self.drafted..].to_vec();
        self.drafted = self.world.notes.len();
        let drafts = news.into_iter().flat_map(|note| self.drafter.draft(note)).collect();
        self.put(drafts)
    }

    fn put(&mut self, drafts: Vec<Pending>) -> u64 {
        let Self { overflow, backlog, drafter, world, .. } = self;
        let refused = overflow.keep(drafts, backlog, drafter, &mut world.host);
        assert_eq!(refused.for_good, 0);
        refused.count
    }

    fn read(&mut self, at: u64) -> u64 {
        self.world.read(at);
        self.keep()
    }

    fn mark(&mut self) -> Mark {
        let mut mark = self.drafter.mark(&self.world.host, None);
        self.overflow.hold_back(&mut mark);
        match mark.draft.figures {
            Figures::Mark(mark) => mark,
            other => panic!("{other:?}"),
        }
    }

    /// The writer takes everything, and it is on the disk.
    fn write(&mut self) {
        let taken = self.backlog.take(usize::MAX);
        self.backlog.entered(taken.len(), taken.iter().map(Pending::bytes).sum());
        self.written.extend(taken);
    }

    /// As the daemon does it when there is room.
    fn ask_again(&mut self, now: u64) {
        let asked = self.overflow.to_ask(stamp(now)).unwrap();
        for (_, again) in asked.rows {
            self.world.hand_out_again(again);
        }
        let gap = self.drafter.gap(asked.gap, stamp(now));
        self.overflow.asked(stamp(now).boot);
        self.put(vec![gap]);
    }

    fn settle(&mut self) {
        let drafts = self.overflow.settle(&mut self.drafter, &self.world.host, |_| false);
        self.put(drafts);
    }

    fn gaps(&self) -> Vec<Gap> {
        let gaps = self.written.iter().filter_map(|one| match &one.draft.figures {
            Figures::Gap(gap) if gap.cause == GapCause::QueueOverflow => Some(gap.clone()),
            _ => None,
        });
        gaps.collect()
    }

    fn booked(&self) -> Vec<u32> {
        let rows = self.written.iter().filter_map(|one| match &one.draft.figures {
            Figures::Settlement(row) => Some(row.pid.0),
            _ => None,
        });
        rows.collect()
    }
}

#[test]
fn what_had_no_room_is_booked_when_it_is_told_again_and_nothing_is_uncovered() {
    let mut keeping = Keeping::with_room_for(4);
    keeping.read(10_100);
    keeping.write();
    for pid in 1..=6 {
        keeping.world.dead_row(pid, 10_110, 5);
    }
    assert_eq!(keeping.read(10_200), 2);
    let last = keeping.world.host.last_note();
    assert_eq!(keeping.overflow.acknowledged(u64::MAX), last - 2, "the last two are not kept");
    assert_eq!(keeping.mark().gpus[0].last_good.unwrap().began, stamp(10_100), "not 10,200");
    keeping.write();
    keeping.ask_again(10_300);
    assert_eq!(keeping.read(10_400), 0);
    keeping.settle();
    keeping.write();
    assert_eq!(keeping.booked(), [1, 2, 3, 4, 5, 6]);
    let gaps = keeping.gaps();
    let [gap] = gaps.as_slice() else { panic!("{gaps:?}") };
    assert_eq!((gap.gpu.as_ref(), gap.size, gap.hides_rows()), (None, Some(2), false));
    assert_eq!(keeping.mark().gpus[0].last_good.unwrap().began, stamp(10_400));
    let until = keeping.world.host.last_note();
    assert!(!keeping.overflow.is_well());
    assert_eq!(keeping.overflow.acknowledged(until), until);
    assert!(keeping.overflow.is_well());
}

#[test]
fn a_row_that_the_driver_has_no_more_leaves_its_gpu_unseen_since_the_last_read_that_was_kept() {
    let mut keeping = Keeping::with_room_for(3);
    keeping.world.opens(9, 10_050);
    keeping.read(10_100);
    keeping.write();
    keeping.world.closes(9, 10_150);
    for pid in 1..=3 {
        keeping.world.dead_row(pid, 10_110, 5);
    }
    // Three have room: pid 9, whose open entry stands in the journal, is first.
    assert_eq!(keeping.read(10_200), 1);
    keeping.world.dead_row(4, 10_210, 5);
    keeping.world.dead_row(5, 10_220, 5);
    assert_eq!(keeping.read(10_250), 2);
    // One of those without room is replaced by a later row of its pid.
    let lost = keeping.world.dead.iter().position(|row| row.pid.0 == 5).unwrap();
    keeping.world.dead.remove(lost);
    keeping.write();
    keeping.ask_again(10_300);
    keeping.read(10_400);
    keeping.settle();
    keeping.write();
    let gaps = keeping.gaps();
    let [told, lost] = gaps.as_slice() else { panic!("{gaps:?}") };
    assert_eq!((told.gpu.as_ref(), told.size), (None, Some(3)));
    assert_eq!((lost.gpu.as_ref(), lost.size), (Some(&gpu()), Some(1)));
    assert_eq!((lost.from, lost.hides_rows()), (stamp(10_100), true));
    assert_eq!(keeping.booked(), [9, 1, 2, 3, 4]);
}

#[test]
fn an_open_entry_whose_settlement_had_no_room_and_never_came_again_is_over() {
    let mut keeping = Keeping::with_room_for(1);
    keeping.read(10_040);
    keeping.write();
    keeping.world.opens(9, 10_050);
    assert_eq!(keeping.read(10_100), 0);
    keeping.world.closes(9, 10_150);
    assert_eq!(keeping.read(10_200), 1, "its open entry still waits");
    keeping.write();
    keeping.world.dead.clear();
    keeping.ask_again(10_300);
    keeping.read(10_400);
    keeping.settle();
    keeping.write();
    let mut ends = keeping.written.iter().filter_map(|one| match &one.draft.figures {
        Figures::Correction(Correction { change: Change::Ended { last_seen, cause }, .. }) => {
            Some((*last_seen, *cause))
        }
        _ => None,
    });
    assert_eq!(ends.next(), Some((stamp(10_102), Some(GapCause::QueueOverflow))));
    assert_eq!(ends.next(), None);
}

#[test]
fn more_rows_than_the_queue_is_long_are_booked_in_rounds_that_come_to_an_end() {
    let mut keeping = Keeping::with_room_for(4);
    keeping.read(10_100);
    for pid in 1..=60 {
        keeping.world.dead_row(pid, 10_110, 5);
    }
    for pid in 61..=90 {
        keeping.world.opens(pid, 10_120);
    }
    let mut at = 10_200;
    keeping.read(at);
    let mut rounds = 0;
    while keeping.overflow.is_to_ask() {
        rounds += 1;
        assert!(rounds <= 90, "it never ends");
        keeping.write();
        keeping.ask_again(at + 50);
        at += 100;
        keeping.read(at);
        keeping.settle();
    }
    keeping.write();
    assert_eq!(keeping.booked(), (1..=60).collect::<Vec<_>>());
    let opened = keeping.written.iter().filter(|one| matches!(one.draft.figures, Figures::Open(_)));
    assert_eq!(opened.count(), 30);
    assert!(keeping.gaps().iter().all(|gap| gap.gpu.is_none()), "nothing was lost");
}

#[test]
fn a_holder_without_a_row_that_had_no_room_is_told_again() {
    let mut keeping = Keeping::with_room_for(1);
    keeping.world.starts(100, 10_050, "Xorg");
    keeping.world.holders = vec![100];
    keeping.read(10_100);
    keeping.write();
    keeping.world.dead_row(1, 10_110, 5);
    assert_eq!(keeping.read(10_200), 1, "the row took the room");
    keeping.write();
    keeping.ask_again(10_250);
    keeping.write();
    assert_eq!(keeping.read(10_300), 0);
    keeping.write();
    keeping.read(10_400);
    keeping.settle();
    keeping.write();
    let holders =
        keeping.written.iter().filter(|one| matches!(one.draft.figures, Figures::Open(_)));
    assert_eq!(holders.count(), 1);
    assert_eq!(keeping.gaps().len(), 1, "it was made good");
}

#[test]
fn where_accounting_ends_while_rows_have_no_room_the_time_before_is_unseen() {
    let mut keeping = Keeping::with_room_for(1);
    keeping.read(10_100);
    keeping.write();
    keeping.world.dead_row(1, 10_110, 5);
    keeping.world.dead_row(2, 10_110, 5);
    assert_eq!(keeping.read(10_200), 1);
    let note = keeping.world.notes[0].clone();
    let news = News::EpochEnded { gpu: gpu(), at: stamp(10_250), cause: GapCause::AccountingOff };
    let ended = keeping.drafter.draft(crate::host::Note { news, ..note });
    keeping.put(ended);
    keeping.write();
    let words: Vec<&str> = keeping.written.iter().map(|one| one.draft.figures.kind()).collect();
    assert_eq!(words[words.len() - 2..], ["gap", "epoch"]);
    assert_eq!(keeping.gaps()[0].from, stamp(10_100));
}

#[test]
fn marks_are_dropped_where_there_is_no_room_and_nothing_else_that_is_said_once_is() {
    let mut keeping = Keeping::with_room_for(1);
    keeping.read(10_100);
    for _ in 0..5 {
        let mark = keeping.drafter.mark(&keeping.world.host, None);
        keeping.put(vec![mark]);
    }
    let gap = Gap {
        cause: GapCause::EpochBroken,
        gpu: Some(gpu()),
        from: stamp(1),
        to: stamp(2),
        size: None,
    };
    let gap = keeping.drafter.gap(gap, stamp(10_200));
    let noted = keeping.drafter.mark(&keeping.world.host, Some(Arc::from("lunch")));
    keeping.put(vec![gap, noted]);
    keeping.write();
    let words: Vec<&str> = keeping.written.iter().map(|one| one.draft.figures.kind()).collect();
    assert_eq!(words, ["coverage", "epoch", "gap", "mark"]);
}

#[test]
fn a_full_disk_is_told_once_and_the_rest_when_there_is_room() {
    let mut hand = Hand::new(BootId(1));
    let interval = |draft: &crate::journal::Draft| match &draft.figures {
        Figures::Gap(gap) => (gap.from, gap.to),
        other => panic!("{other:?}"),
    };
    let first = hand.is_full(stamp(100)).unwrap();
    assert_eq!(interval(&first), (stamp(100), stamp(100)));
    assert!(hand.is_full(stamp(200)).is_some(), "the reserve was not enough");
    hand.full_told(stamp(200));
    assert!(hand.is_full(stamp(300)).is_none());
    assert_eq!(hand.full_since(), Some(stamp(100)));
    assert_eq!(interval(&hand.has_room(stamp(400)).unwrap()), (stamp(200), stamp(400)));
    hand.room_told();
    assert!(hand.has_room(stamp(500)).is_none() && hand.full_since().is_none());
}
