//! What a restart knows of the time before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::made::{World, process, row_key, stamp};
use crate::coverage::Coverage;
use crate::host::{Drained, Host, HostSettings, Lost, News, Resumed};
use crate::identity::Basis;
use crate::identity::made::{MS, seen, snapshot};
use crate::settlement::{Named, missed_in_coverage};
use crate::unknown::{GapCause, NamelessReason};

/// What a first run, from 10 s to 20 s, left of a row opened at `start_ms`.
fn left_open(pid: u32, start_ms: u64, line: &str) -> (crate::accounting::RowKey, Named) {
    let mut first = World::daemon();
    first.starts(pid, start_ms - 10, line);
    first.opens(pid, start_ms);
    first.read(start_ms + 50);
    let named = first.notes.into_iter().find_map(|note| match note.news {
        News::Opened(opened) => opened.attribution.named().cloned(),
        _ => None,
    });
    (row_key(pid, start_ms), named.unwrap())
}

fn resumed(open: impl IntoIterator<Item = (crate::accounting::RowKey, Named)>) -> Resumed {
    let coverage = Coverage { start: stamp(10_000), end: stamp(20_000), gaps: Vec::new() };
    Resumed { coverage: Some(coverage), open: open.into_iter().collect::<BTreeMap<_, _>>() }
}

fn second_run(resumed: Resumed, living: Vec<crate::identity::SeenProcess>) -> World {
    World::begun(HostSettings::of_daemon(true, true), resumed, 30_000, living)
}

#[test]
fn the_time_between_two_runs_is_one_gap() {
    let world = second_run(resumed([]), Vec::new());
    let mut world = world;
    world.drain(30_010, &[]);
    world.advance();
    let gaps: Vec<_> = world
        .notes
        .iter()
        .filter_map(|note| match &note.news {
            News::Gap(gap) => Some((gap.cause, gap.from, gap.to)),
            _ => None,
        })
        .collect();
    assert_eq!(gaps, vec![(GapCause::AgentDown, stamp(20_000), stamp(30_000))]);
    assert_eq!(world.host.coverage().start, stamp(10_000));
}

#[test]
fn the_time_between_two_runs_is_told_before_everything_else() {
    let words = |host: &mut Host| {
        let notes = host.take_notes().into_iter();
        let words = notes.filter_map(|note| match note.news {
            News::Gap(gap) => Some((gap.cause.as_str(), gap.from, gap.to)),
            News::CoverageBegan { at, .. } => Some(("begins", at, at)),
            _ => None,
        });
        words.collect::<Vec<_>>()
    };
    let down = (GapCause::AgentDown.as_str(), stamp(20_000), stamp(30_000));
    let begins = ("begins", stamp(30_000), stamp(30_000));
    for events in [true, false] {
        let settings = HostSettings::of_daemon(events, events);
        let mut host = Host::new(Arc::from("made"), stamp(29_980), settings, resumed([]));
        let mut lost = Vec::new();
        if events {
            // A loss while it starts is closed by the first look, before coverage begins.
            let losses = vec![Lost::SinceLastDrain { size: Some(3) }];
            host.drained(Drained { began: stamp(29_985), events: Vec::new(), losses });
            lost.push((GapCause::EventLost.as_str(), stamp(29_980), stamp(29_990)));
        }
        host.look(&snapshot(29_986 * MS, 29_989 * MS, Vec::new()), stamp(29_990));
        host.begin(stamp(30_000));
        assert_eq!(words(&mut host), [vec![down], lost, vec![begins]].concat());
    }
}

#[test]
fn a_row_left_open_is_not_the_one_behind_a_younger_dead_row_of_its_pid() {
    for (dead_from, is_lost) in [(16_000, true), (14_000, false)] {
        let mut world = second_run(resumed([left_open(100, 15_000, "train")]), Vec::new());
        world.dead_row(100, dead_from, 500);
        world.opens(100, 25_000);
        world.read(30_100);
        let open = world.host.gpus().values().flat_map(|gpu| &gpu.open);
        let behind: Vec<_> = open.map(|open| (open.start, open.behind)).collect();
        assert_eq!(behind, vec![(None, Some(stamp(dead_from).wall))]);
        let mut notes = world.notes.iter();
        let lost = notes.any(|note| matches!(note.news, News::OpenUnresolved { .. }));
        assert_eq!(lost, is_lost, "behind a row that began at {dead_from}");
    }
}

#[test]
fn what_ended_while_nobody_looked_has_a_reason_by_where_it_began() {
    let mut world = second_run(resumed([]), Vec::new());
    world.dead_row(100, 5_000, 1_000);
    world.dead_row(101, 15_000, 1_000);
    world.dead_row(102, 25_000, 1_000);
    world.read(30_100);
    assert_eq!(world.answer(100), Err(NamelessReason::PredatesCoverage));
    assert_eq!(world.answer(101), Err(NamelessReason::AgentDown), "seen, and forgotten since");
    assert_eq!(world.answer(102), Err(NamelessReason::AgentDown));
    assert!(world.settled().iter().all(|one| one.already_dead));
    let settlements = world.settled();
    let settlements = settlements.iter().map(|one| &one.settlement);
    assert_eq!(missed_in_coverage(settlements, world.host.coverage()), 0);
}

#[test]
fn without_an_earlier_run_what_was_dead_before_predates_coverage() {
    let mut world =
        World::begun(HostSettings::of_daemon(true, true), Resumed::default(), 30_000, Vec::new());
    world.dead_row(102, 25_000, 1_000);
    world.read(30_100);
    assert_eq!(world.answer(102), Err(NamelessReason::PredatesCoverage));
}

#[test]
fn a_trace_leaves_out_what_was_over_before_it_began() {
    let mut world =
        World::begun(HostSettings::of_trace(true, true), Resumed::default(), 30_000, Vec::new());
    world.dead_row(102, 25_000, 1_000);
    world.dead_row(103, 29_500, 520);
    world.read(30_100);
    let pids: Vec<u32> = world.settled().iter().map(|one| one.row.row.pid.0).collect();
    assert_eq!(pids, vec![103], "the one that reaches into it");
}

#[test]
fn a_row_that_was_left_open_keeps_its_name_when_it_ended_while_nobody_looked() {
    let mut world = second_run(resumed([left_open(100, 15_000, "python3 train.py")]), Vec::new());
    world.dead_row(100, 15_000, 9_000);
    // Another row of the same pid is another row.
    world.read(30_100);
    assert_eq!(world.answer(100), Ok(("train.py".to_owned(), Basis::Journal)));
    assert!(world.host.journaled().is_empty());
}

#[test]
fn another_row_of_the_same_pid_is_not_named_by_what_was_left_open() {
    let mut world = second_run(resumed([left_open(100, 15_000, "train")]), Vec::new());
    world.dead_row(100, 25_000, 1_000);
    world.read(30_100);
    assert_eq!(world.answer(100), Err(NamelessReason::AgentDown));
    let lost = world.notes.iter().filter_map(|note| match &note.news {
        News::OpenUnresolved { key, named, .. } => Some((key.clone(), named.key.pid.0)),
        _ => None,
    });
    let lost: Vec<_> = lost.collect();
    assert_eq!(lost, vec![(row_key(100, 15_000), 100)], "its own row is not to be had any more");
}

#[test]
fn a_row_that_runs_on_over_the_restart_keeps_the_image_it_began_under() {
    let living = seen(process(100, 14_990), 7, "other-image");
    let mut world = second_run(resumed([left_open(100, 15_000, "train")]), vec![living]);
    world.opens(100, 15_000);
    world.read(30_100);
    assert_eq!(world.host.journaled().len(), 1, "it is still open");
    world.closes(100, 31_000);
    world.read(31_100);
    assert_eq!(world.answer(100), Ok(("train".to_owned(), Basis::Journal)));
}

#[test]
fn what_lived_on_and_was_not_left_open_is_named_by_procfs() {
    let living = seen(process(100, 14_990), 7, "train");
    let mut world = second_run(resumed([]), vec![living]);
    world.opens(100, 25_000);
    world.read(30_100);
    world.closes(100, 31_000);
    world.read(31_100);
    assert_eq!(world.answer(100), Ok(("train".to_owned(), Basis::Procfs)));
}

#[test]
fn a_clock_that_was_set_while_nobody_looked_disputes_the_rows_that_span_it() {
    let coverage = Coverage {
        start: stamp(10_000),
        // The wall clock was an hour behind then.
        end: crate::clock::Stamp {
            wall: crate::unit::WallUs(stamp(20_000).wall.0 - 3_600_000_000),
            ..stamp(20_000)
        },
        gaps: Vec::new(),
    };
    let resumed = Resumed { coverage: Some(coverage), open: BTreeMap::new() };
    let mut world = second_run(resumed, Vec::new());
    world.dead_row(100, 29_000, 500);
    world.read(30_100);
    assert!(
        world
            .host
            .clock_history()
            .stepped_between(crate::unit::BootNs(20_000 * MS), crate::unit::BootNs(30_000 * MS))
    );
}
