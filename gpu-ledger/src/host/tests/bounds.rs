//! What is kept, and for how long.

use std::collections::BTreeMap;

use super::made::{World, gpu, process, row_key, shell, stamp};
use crate::host::{
    AWAITING_ROW_MAX, Forgotten, GAPS_MAX, HostSettings, JOURNALED_MAX, News, Resumed,
    UNACKNOWLEDGED_MAX, UNKNOWNS_MAX,
};
use crate::identity::Basis;
use crate::identity::made::{MS, exit, fork, touch};
use crate::unknown::{Unknown, UnknownReason};

#[test]
fn the_dead_are_kept_until_their_rows_are_booked_and_acknowledged() {
    let mut world = World::daemon();
    world.acknowledges = false;
    let key = world.starts(100, 10_100, "train");
    world.opens(100, 10_110);
    world.read(10_200);
    world.ends(key, 10_300);
    world.read(10_400);
    world.read(10_500);
    assert!(world.host.lifetimes().get(&key).is_some(), "its row is open");
    world.closes(100, 10_510);
    world.read(10_600);
    world.read(10_700);
    assert_eq!(world.settled().len(), 1);
    assert_eq!(world.host.unacknowledged(), 1);
    assert!(world.host.lifetimes().get(&key).is_some(), "its settlement is nowhere kept");
    let settled = world.notes.iter().find(|note| matches!(note.news, News::Settled(_))).unwrap();
    let number = settled.number;
    world.host.acknowledged(number - 1);
    world.read(10_800);
    assert!(world.host.lifetimes().get(&key).is_some(), "an earlier note is not it");
    world.host.acknowledged(number);
    world.read(10_900);
    assert!(world.host.lifetimes().get(&key).is_none());
    assert_eq!(world.host.unacknowledged(), 0);
}

#[test]
fn of_a_gpu_that_was_found_without_accounting_old_rows_keep_their_names() {
    let mut world = World::daemon();
    let (old, new) = (world.starts(100, 10_010, "train"), process(101, 10_120));
    world.dead_row(100, 10_020, 30);
    world.ends(old, 10_060);
    world.read_off(10_100);
    world.event(fork(new, shell()));
    world.event(exit(new, shell(), 10_130 * MS));
    world.read_off(10_200);
    world.read_off(10_300);
    assert!(world.host.lifetimes().get(&new).is_none(), "it can have no row");
    // Accounting is turned on, and shows what ended before it was turned off.
    world.read(10_400);
    assert_eq!(world.answer(100), Ok(("train".to_owned(), Basis::Exec)));
    world.read(10_500);
    world.read(10_600);
    assert!(world.host.lifetimes().get(&old).is_none());
}

#[test]
fn one_who_was_never_near_a_gpu_is_forgotten_with_the_next_read() {
    let mut world = World::daemon();
    world.acknowledges = false;
    let key = process(100, 10_100);
    world.event(fork(key, shell()));
    world.event(exit(key, shell(), 10_110 * MS));
    world.read(10_200);
    assert!(world.host.lifetimes().get(&key).is_none());
}

#[test]
fn gaps_beyond_their_bound_become_fewer_that_cover_them_all() {
    let mut world = World::daemon();
    let count = u64::try_from(GAPS_MAX).unwrap() + 10;
    let mut at = 10_010;
    for _ in 0..count {
        world.loses(at, at + 1, 2);
        world.drain(at + 5, &[]);
        world.advance();
        at += 10;
    }
    let gaps = &world.host.coverage().gaps;
    assert!(gaps.len() <= GAPS_MAX, "{}", gaps.len());
    let sizes: u64 = gaps.iter().map(|gap| gap.size.unwrap()).sum();
    assert_eq!(sizes, 2 * count);
    let told = world.notes.iter().filter(|note| matches!(note.news, News::Gap(_)));
    assert_eq!(u64::try_from(told.count()).unwrap(), count, "each was told by itself");
    // Nothing that was not seen is seen now.
    let covered =
        |ms: u64| world.host.coverage().event_gap_at(crate::unit::BootNs(ms * MS)).is_some();
    assert!((0..count).all(|place| covered(10_010 + place * 10)));
    let merged = world.host.forgotten()[&Forgotten::Gaps];
    assert_eq!(merged + u64::try_from(gaps.len()).unwrap(), count);
}

#[test]
fn rows_are_not_awaited_without_a_bound() {
    let mut world = World::daemon();
    let count = u32::try_from(AWAITING_ROW_MAX).unwrap() + 1;
    for pid in 0..count {
        let key = process(100_000 + pid, 10_100);
        world.event(fork(key, shell()));
        world.event(touch(key, shell(), 10_101 * MS));
        world.event(exit(key, shell(), 10_102 * MS));
    }
    world.drain(10_200, &[]);
    world.advance();
    assert!(world.host.awaiting_row() <= AWAITING_ROW_MAX);
    let dropped = usize::try_from(world.host.forgotten()[&Forgotten::AwaitedRows]).unwrap();
    assert_eq!(world.host.awaiting_row() + dropped, AWAITING_ROW_MAX + 1);
}

#[test]
fn a_writer_that_never_acknowledges_does_not_make_the_host_grow_without_bound() {
    let mut world = World::daemon();
    world.acknowledges = false;
    let mut pid = 100_000;
    let mut at = 10_100;
    let mut settled = 0;
    while settled <= UNACKNOWLEDGED_MAX {
        world.notes.clear();
        world.dead.clear();
        for _ in 0..127 {
            world.dead_row(pid, at, 1);
            pid += 1;
        }
        at += 10;
        world.read(at);
        settled += world.settled().len();
        at += 10;
    }
    assert_eq!(world.host.unacknowledged(), UNACKNOWLEDGED_MAX);
    let dropped = usize::try_from(world.host.forgotten()[&Forgotten::Unacknowledged]).unwrap();
    assert_eq!(dropped, settled - UNACKNOWLEDGED_MAX);
}

#[test]
fn unknowns_of_every_kind_are_told_once_and_bounded() {
    let mut world = World::daemon();
    for number in 0..=UNKNOWNS_MAX {
        let detail = Some(number.to_string());
        let unknown = Unknown { detail, ..Unknown::of(UnknownReason::NvmlUnmappedCode) };
        world.host.note_unknown(&unknown);
        world.host.note_unknown(&unknown);
    }
    world.advance();
    let told = world.notes.iter().filter(|note| matches!(note.news, News::Unknown(_)));
    assert_eq!(told.count(), UNKNOWNS_MAX);
    assert_eq!(world.host.forgotten()[&Forgotten::Unknowns], 2);
}

#[test]
fn of_too_many_rows_left_open_the_oldest_are_dropped() {
    let mut first = World::daemon();
    first.starts(100, 10_100, "train");
    first.opens(100, 10_110);
    first.read(10_200);
    let named = first.notes.into_iter().find_map(|note| match note.news {
        News::Opened(opened) => opened.attribution.named().cloned(),
        _ => None,
    });
    let named = named.unwrap();
    let count = u64::try_from(JOURNALED_MAX).unwrap() + 3;
    let open: BTreeMap<_, _> =
        (0..count).map(|place| (row_key(100, 20_000 + place), named.clone())).collect();
    let resumed = Resumed { coverage: None, open };
    let world = World::begun(HostSettings::of_daemon(true, true), resumed, 900_000, Vec::new());
    assert_eq!(world.host.journaled().len(), JOURNALED_MAX);
    assert_eq!(world.host.journaled().keys().next(), Some(&row_key(100, 20_003)));
    assert_eq!(world.host.forgotten()[&Forgotten::Journaled], 3);
    assert_eq!(world.host.now(), stamp(900_000));
}

#[test]
fn how_many_rows_died_while_events_were_lost_is_not_taken_for_none() {
    let mut world = World::daemon();
    let margin = |world: &World, touches| world.host.gpus()[&gpu()].eviction_margin_rows(touches);
    world.read(10_100);
    assert!(margin(&world, true).is_some());
    world.loses(10_150, 10_160, 3);
    world.drain(10_200, &[]);
    world.advance();
    assert_eq!(margin(&world, true), None);
    assert!(margin(&world, false).is_some(), "there lists alone say");
    world.read(10_300);
    assert!(margin(&world, true).is_some(), "the next list says it");
}
