//! Samples of memory and the processes that they are of.

use std::time::Duration;

use super::made::{World, gpu, process, shell, stamp};
use crate::accounting::calls::ReadCost;
use crate::accounting::driver::Report;
use crate::accounting::sampler::MemorySample;
use crate::host::{HostSettings, News, Resumed};
use crate::identity::made::{MS, exec, fork};
use crate::memory::{Pace, Stretch};
use crate::residency::sample::{DeviceMemory, Fields, ProcessMemory, Reading, Sample, Status};
use crate::settlement::Account;
use crate::unit::{BootNs, Pid};
use crate::unknown::NamelessReason;

const GIB: u64 = 1 << 30;

fn world(memory: Option<Pace>) -> World {
    let settings = HostSettings { memory, ..HostSettings::of_daemon(true, true) };
    World::begun(settings, Resumed::default(), super::made::BEGAN, Vec::new())
}

fn reading<T>(at: u64, value: T) -> Reading<T> {
    let (before_ns, after_ns) = (BootNs((at - 1) * MS), BootNs(at * MS));
    let (status, code, driver_timestamp_us) = (Status::Ok, None, None);
    Reading { before_ns, after_ns, value: Some(value), status, code, driver_timestamp_us }
}

/// A sample that lands at `at`, in which each of these pids holds a GiB.
fn sample(at: u64, pids: &[u32]) -> Report {
    let used = GIB * u64::try_from(pids.len()).unwrap();
    let list = pids.iter().map(|pid| ProcessMemory {
        pid: Pid(*pid),
        memory_bytes: Some(GIB),
        compute: true,
        graphics: false,
    });
    let memory = DeviceMemory { used_bytes: used, total_bytes: 80 * GIB, reserved_bytes: Some(0) };
    let fields = Fields {
        utilization: None,
        power: None,
        temperature: None,
        process_utilization: None,
        processes: Some(reading(at, list.collect())),
        memory: reading(at, memory),
    };
    let sample = Sample::new(0, false, BootNs((at - 1) * MS), fields);
    let (gpu, stamp, cost) = (gpu(), stamp(at), ReadCost::default());
    Report::Memory(Box::new(MemorySample { gpu, sample, stamp, cost }))
}

fn stretches(world: &World) -> Vec<Stretch> {
    let notes = world.notes.iter().filter_map(|note| match &note.news {
        News::MemoryHeld(stretch) => Some(Stretch::clone(stretch)),
        _ => None,
    });
    notes.collect()
}

#[test]
fn each_holder_is_whoever_bore_the_pid_at_the_sample_on_the_line_of_its_row() {
    let mut world = world(Some(Pace::of(Duration::from_secs(5))));
    let server = world.starts(100, 10_100, "python3 serve.py");
    world.opens(100, 10_110);
    let first = world.starts(200, 10_200, "first");
    world.read(10_300);
    world.host.reported(sample(12_000, &[100, 200, 300]));
    world.advance();
    assert_eq!(world.host.memory_of(&gpu()).map(|meter| meter.tallied().samples), None);
    // Only now every event up to its landing is in hand.
    world.drain(12_001, &[]);
    world.advance();
    assert_eq!(world.host.memory_of(&gpu()).unwrap().tallied().samples, 1);
    world.ends(first, 13_000);
    let second = process(200, 14_000);
    world.event(fork(second, shell()));
    world.event(exec(second, shell(), 14_000 * MS + 1, "second"));
    world.drain(17_001, &[]);
    world.host.reported(sample(17_000, &[100, 200, 300]));
    world.advance();
    world.host.released(&gpu(), stamp(19_000));
    world.advance();
    let found = stretches(&world);
    let [stretch] = found.as_slice() else { panic!("{found:?}") };
    assert!(stretch.closes() && stretch.voids.is_empty());
    let told: Vec<_> = stretch
        .holders
        .iter()
        .map(|one| (one.holder.account.title(), one.holder.start, one.held.known_ms))
        .collect();
    let start = |key: crate::kernel::ProcessKey| Some(key.start);
    let nameless = Account::Unattributed(NamelessReason::AgentDown).title();
    assert_eq!(
        told,
        [
            ("serve.py".to_owned(), start(server), 7_000),
            ("first".to_owned(), start(first), 5_000),
            (nameless, None, 7_000),
            ("second".to_owned(), start(second), 2_000),
        ]
    );
    assert!(stretch.holders[0].holder.labels.iter().any(|(_, value)| **value == *"compute"));
}

#[test]
fn a_stall_is_told_without_any_sample_and_nothing_is_where_none_was_asked_for() {
    let mut world = world(Some(Pace::of(Duration::from_secs(5))));
    world.drain(12_001, &[]);
    world.host.reported(sample(12_000, &[]));
    world.advance();
    world.drain(30_000, &[]);
    world.advance();
    let found = stretches(&world);
    let [stretch] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(stretch.to.ms() - stretch.from.ms(), 5_549);
    assert!(!stretch.voids.is_empty());
    let mut without = self::world(None);
    without.drain(12_001, &[]);
    without.host.reported(sample(12_000, &[7]));
    without.advance();
    without.host.end(stamp(13_000));
    without.advance();
    assert!(stretches(&without).is_empty() && without.host.memory_of(&gpu()).is_none());
}
