//! GPUs that are given back, holders that no row is kept of, and a host without events.

use super::made::{World, gpu, process, shell, stamp};
use crate::accounting::driver::Stall;
use crate::host::{HostSettings, News, Report, Resumed};
use crate::identity::made::{MS, exit, fork};
use crate::unit::Pid;
use crate::unknown::{GapCause, NamelessReason, UnknownReason};

#[test]
fn a_released_gpu_is_asked_nothing_and_its_time_is_a_gap_until_a_list_comes_again() {
    let mut world = World::daemon();
    world.read(10_100);
    world.host.take_wanted();
    world.host.released(&gpu(), stamp(10_200));
    world.drain(20_000, &[]);
    world.advance();
    assert!(world.host.take_wanted().is_empty());
    let facts = world.host.gpus()[&gpu()].facts.clone();
    world.host.found(facts);
    world.drain(20_100, &[]);
    world.advance();
    let wanted = world.host.take_wanted();
    assert!(wanted.iter().any(|one| one.read.is_some_and(|read| read.sweep && read.processes)));
    assert!(world.host.gpus()[&gpu()].released().is_some(), "found, but not read");
    world.read(20_200);
    let gaps: Vec<_> = world
        .notes
        .iter()
        .filter_map(|note| match &note.news {
            News::Gap(gap) => Some((gap.cause, gap.gpu.clone(), gap.from, gap.to)),
            _ => None,
        })
        .collect();
    let released = (GapCause::Released, Some(gpu()), stamp(10_100), stamp(20_202));
    assert_eq!(gaps, vec![released]);
    assert!(world.notes.iter().any(|note| matches!(note.news, News::Released { .. })));
}

#[test]
fn a_gpu_that_is_never_found_again_is_a_gap_to_the_end() {
    let mut world = World::daemon();
    world.read(10_100);
    world.host.released(&gpu(), stamp(10_200));
    world.host.end(stamp(11_000));
    let notes = world.host.take_notes();
    let ended = notes.iter().any(|note| {
        matches!(&note.news, News::Gap(gap) if gap.cause == GapCause::Released && gap.to == stamp(11_000))
    });
    assert!(ended, "{notes:?}");
}

#[test]
fn a_holder_without_a_row_is_told_once_and_when_it_goes() {
    let mut world = World::daemon();
    world.starts(100, 10_050, "Xorg");
    world.holders = vec![100];
    world.read(10_100);
    assert!(!world.notes.iter().any(|note| matches!(note.news, News::RowlessSeen { .. })));
    world.read(10_200);
    world.read(10_300);
    let seen: Vec<_> = world
        .notes
        .iter()
        .filter_map(|note| match &note.news {
            News::RowlessSeen { holder, bearer, since, .. } => {
                Some((holder.pid, bearer.account.to_string(), *since))
            }
            _ => None,
        })
        .collect();
    assert_eq!(seen, vec![(Pid(100), "desktop".to_owned(), stamp(10_102))]);
    world.holders.clear();
    world.read(10_400);
    let gone: Vec<_> = world
        .notes
        .iter()
        .filter_map(|note| match &note.news {
            News::RowlessGone { pid, key, since, at, .. } => Some((*pid, *key, *since, *at)),
            _ => None,
        })
        .collect();
    assert_eq!(gone, vec![(Pid(100), Some(process(100, 10_050)), stamp(10_102), stamp(10_402))]);
}

#[test]
fn a_read_that_asked_nobody_who_holds_the_gpu_is_no_full_read() {
    let mut world = World::daemon();
    let was_read = |world: &World| world.host.gpus()[&gpu()].was_read_after(stamp(10_000).boot);
    let mut by_itself = world.outcome(10_100);
    by_itself.holders = None;
    world.drain(10_103, &[]);
    world.host.reported(Report::Read(Box::new(by_itself)));
    world.advance();
    assert!(!was_read(&world), "who waits for holders would go on without them");
    world.read(10_200);
    assert!(was_read(&world));
}

#[test]
fn a_pid_that_passes_from_one_holder_to_the_next_is_two_holders() {
    let mut world = World::daemon();
    let first = world.starts(100, 10_050, "first");
    world.holders = vec![100];
    world.read(10_100);
    world.read(10_200);
    world.event(exit(first, shell(), 10_210 * MS));
    world.event(fork(process(100, 10_220), shell()));
    world.read(10_300);
    let told: Vec<_> = world
        .notes
        .iter()
        .filter_map(|note| match &note.news {
            News::RowlessSeen { bearer, since, .. } => Some((true, bearer.key, *since)),
            News::RowlessGone { key, at, .. } => Some((false, *key, *at)),
            _ => None,
        })
        .collect();
    let expected = vec![
        (true, Some(first), stamp(10_102)),
        (false, Some(first), stamp(10_302)),
        (true, Some(process(100, 10_220)), stamp(10_302)),
    ];
    assert_eq!(told, expected);
}

#[test]
fn without_events_all_time_is_one_gap_and_nobody_is_named() {
    let settings = HostSettings::of_daemon(false, false);
    let mut world = World::begun(settings, Resumed::default(), 10_000, Vec::new());
    world.opens(100, 10_110);
    world.read(10_200);
    assert_eq!(world.host.bearers_unknown(), [Pid(100)].into());
    world.host.bearers_gone([Pid(100)].into());
    world.closes(100, 10_300);
    world.read(10_400);
    assert_eq!(world.answer(100), Err(NamelessReason::AgentDown));
    world.host.end(stamp(10_500));
    let notes = world.host.take_notes();
    let gap = notes.iter().find_map(|note| match &note.news {
        News::Gap(gap) => Some((gap.cause, gap.from, gap.to)),
        _ => None,
    });
    assert_eq!(gap, Some((GapCause::AgentDown, stamp(10_000), stamp(10_403))));
}

#[test]
fn a_call_that_hangs_is_told_and_is_an_unknown() {
    let mut world = World::daemon();
    let stall = Stall { gpu: gpu(), call: "nvmlDeviceGetAccountingPids", since: stamp(10_100) };
    world.host.reported(Report::Stalled(stall.clone()));
    world.advance();
    assert!(world.host.gpus()[&gpu()].is_stalled());
    assert!(world.notes.iter().any(|note| note.news == News::Stalled(stall.clone())));
    let mut unknowns = world.host.unknowns().iter();
    assert!(unknowns.any(|unknown| unknown.reason == UnknownReason::NvmlCallTimeout));
    world.read(12_000);
    assert!(!world.host.gpus()[&gpu()].is_stalled());
}

#[test]
fn a_row_that_is_lost_is_told_with_its_process_and_who_holds_the_device_is_asked() {
    let mut world = World::daemon();
    let key = world.starts(100, 10_050, "server");
    world.opens(100, 10_060);
    world.read(10_100);
    world.host.take_wanted();
    world.throws_away(100);
    world.read(10_200);
    let lost: Vec<_> = world
        .notes
        .iter()
        .filter_map(|note| match &note.news {
            News::OpenLost { row, process, of_command, .. } => {
                Some((row.last_seen.began, *process, *of_command))
            }
            _ => None,
        })
        .collect();
    assert_eq!(lost, vec![(stamp(10_100), Some(key), false)]);
    let wanted = world.host.take_wanted();
    assert!(wanted.iter().any(|one| one.read.is_some_and(|read| read.processes)), "{wanted:?}");
}

#[test]
fn a_holder_without_a_row_is_told_gone_with_its_end_and_when_it_was_last_seen() {
    for ends in [true, false] {
        let mut world = World::daemon();
        let key = world.starts(100, 10_050, "Xorg");
        world.holders = vec![100];
        world.read(10_100);
        world.read(10_200);
        world.read(10_300);
        world.holders.clear();
        if ends {
            world.ends(key, 10_350);
        }
        world.read(10_400);
        let gone = world.notes.iter().find_map(|note| match &note.news {
            News::RowlessGone { last_seen, exit, .. } => Some((*last_seen, *exit)),
            _ => None,
        });
        let exit = ends.then(|| stamp(10_350));
        assert_eq!(gone, Some((stamp(10_302), exit)));
    }
}
