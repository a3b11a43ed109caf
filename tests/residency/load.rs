//! What `cargo xtask bench residency` measures: a batch of many points is written, then proven, each in a
//! process of its own; and a loop that sleeps after each pass, beside which the recorder is measured. Prints `name value` lines; times are nanoseconds.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark's program: it times, and stops where it cannot go on"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use gpu_ledger::accounting::calls::{CallWatch, Calls};
use gpu_ledger::accounting::driver::CALL_DEADLINE;
use gpu_ledger::accounting::nvml::Library;
use gpu_ledger::clock::{Clock, Stamp};
use gpu_ledger::residency::events::{EndCause, Event, Labels};
use gpu_ledger::residency::files::{Batch, Manifest, ManifestGpu, verify};
use gpu_ledger::residency::probe::Instrument as _;
use gpu_ledger::residency::recorder::gauges::Gauges;
use gpu_ledger::residency::sample::{
    DeviceMemory, Fields, ProcessMemory, ProcessUtilization, Reading, Sample, Status,
};
use gpu_ledger::residency::settings::Settings;
use gpu_ledger::residency::verdict::{Backend, DataVerdict};
use gpu_ledger::unit::{BootNs, GpuUuid, Pid, WallUs};

const MS: u64 = 1_000_000;
/// The window begins so long after boot.
const BEGIN_NS: u64 = 3_600_000 * MS;
/// Processes on the GPU.
const PROCESSES: u32 = 4;
/// An anchor of the clocks once a second.
const ANCHOR_POINTS: u64 = 20;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["fill", folder, points] => fill(Path::new(folder), points.parse().unwrap()),
        ["verify", folder] => prove(Path::new(folder)),
        ["loop", library, seconds] => naive(Path::new(library), seconds.parse().unwrap()),
        _ => panic!("fill DIR POINTS, verify DIR, or loop LIBRARY SECONDS"),
    }
    println!("peak_kib {}", peak_kib());
}

/// The most memory that this process held, in KiB.
fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn told(name: &str, from: Instant) {
    println!("{name} {}", from.elapsed().as_nanos());
}

/// Writes a window of so many points as a recorder would, and ends it.
fn fill(folder: &Path, points: u64) {
    let settings = Settings::default();
    let (period, step) = (settings.period.0, settings.timeline_period.0);
    let duration = (points - 1) * step;
    let now = Stamp { boot: BootNs(BEGIN_NS), mono_ns: BEGIN_NS, wall: wall(BootNs(BEGIN_NS)) };
    let gpu = ManifestGpu::new(GpuUuid("GPU-00000000-0000-0000-0000-000000000000".into()));
    let mut manifest = Manifest::new(now, gpu, settings);
    "load".clone_into(&mut manifest.batch_id);
    manifest.seed.gpu_telemetry_backend = Some(Backend::Simulated);
    let began = Instant::now();
    let mut batch = Batch::create(folder, manifest).unwrap();
    let mut writer = batch.begin(Labels::default()).unwrap();
    writer.event(&anchor(BEGIN_NS)).unwrap();
    let mut probes = 0;
    let t0 = sample(0, period).landed_at_ns.unwrap().0;
    for j in 0..points {
        let at = t0 + j * step;
        while BEGIN_NS + probes * period <= at {
            writer.sample(&sample(probes, period)).unwrap();
            probes += 1;
        }
        let at_ns = BootNs(at + MS / 10);
        if j % ANCHOR_POINTS == 0 {
            writer.event(&anchor(at_ns.0)).unwrap();
        }
        let (busy_ticks, total_ticks) = (j * 3, j * 10);
        writer.event(&Event::Cpu { j, at_ns, busy_ticks, total_ticks }).unwrap();
    }
    let end = BootNs(t0 + duration + MS);
    writer.event(&anchor(end.0)).unwrap();
    let backend = Backend::Simulated;
    writer
        .event(&Event::Backend { at_ns: end, backend, subprocesses: 0, exec_denied: false })
        .unwrap();
    told("write_ns", began);
    let began = Instant::now();
    let duration_ns = Some(duration);
    let (cause, in_flight_since_ns) = (EndCause::Duration, None);
    let end = Event::End {
        at_ns: end,
        cause,
        duration_ns,
        in_flight_since_ns,
        rows_not_written: 0,
        interrupted: false,
        marks: None,
    };
    let window = writer.end(end).unwrap();
    let report = batch.finish().unwrap();
    told("end_ns", began);
    assert!(window.troubles.is_empty() && report.troubles.is_empty(), "{report:?}");
    println!("probes {probes}");
    let bytes: u64 = ["samples.jsonl", "events.jsonl", "timeline.csv"]
        .iter()
        .map(|name| std::fs::metadata(report.iterations[0].path(name)).unwrap().len())
        .sum();
    println!("bytes {bytes}");
}

fn wall(at: BootNs) -> WallUs {
    WallUs(1_790_000_000_000_000 + at.0 / 1_000)
}

fn anchor(at: u64) -> Event {
    Event::Anchor { boot_ns: BootNs(at), mono_ns: at, wall_us: wall(BootNs(at)) }
}

fn reading<T>((before_ns, after_ns): (BootNs, BootNs), value: T) -> Reading<T> {
    let (value, status) = (Some(value), Status::Ok);
    Reading { before_ns, after_ns, value, status, code: None, driver_timestamp_us: None }
}

/// A pass of two milliseconds, of which each field takes some.
fn sample(k: u64, period: u64) -> Sample {
    let begin = BootNs(BEGIN_NS + k * period);
    let mut at = begin;
    let mut span = || {
        let before_ns = at;
        at = at.plus_ns(2 * MS / 6 + k % 1_000);
        (before_ns, at)
    };
    let share = u32::try_from(k % 101).unwrap();
    let used_bytes = (8 + k % 64) << 30;
    let pids = (0..PROCESSES).map(|number| Pid(4_000 + number));
    let driver_timestamp_us = wall(begin).0;
    let busy = pids.clone().map(|pid| ProcessUtilization {
        pid,
        sm_percent: share / PROCESSES,
        driver_timestamp_us,
    });
    let memory_bytes = Some(used_bytes / u64::from(PROCESSES + 1));
    let holding =
        pids.map(|pid| ProcessMemory { pid, memory_bytes, compute: true, graphics: false });
    let fields = Fields {
        utilization: Some(reading(span(), share)),
        power: Some(reading(span(), 100_000 + share)),
        temperature: Some(reading(span(), 40)),
        process_utilization: Some(reading(span(), busy.collect())),
        processes: Some(reading(span(), holding.collect())),
        memory: reading(
            span(),
            DeviceMemory { used_bytes, total_bytes: 144 << 30, reserved_bytes: None },
        ),
    };
    Sample::new(k, false, begin, fields)
}

/// Proves it. A simulated batch fails its backend verdict, whatever its data are.
fn prove(folder: &Path) {
    let began = Instant::now();
    let report = verify(&folder.join("load"));
    told("verify_ns", began);
    assert_eq!(report.as_recorded, Some(true), "{report}");
    assert_eq!((report.data_verdict, report.exit_status()), (DataVerdict::Valid, 3), "{report}");
    println!("points {}", report.iterations[0].points_available.unwrap());
    println!("rows {}", report.iterations[0].rows);
}

/// What everybody writes first: ask, sleep, ask again. Its interval is a period and a pass.
fn naive(library: &Path, seconds: u64) {
    let (clock, watch) = (Clock::system(), CallWatch::default());
    let mut calls = Calls::new(clock.clone(), CALL_DEADLINE, watch);
    let library = Library::open(Some(library), &mut calls).unwrap();
    let gpu = library.gpu_at(0, &mut calls).unwrap();
    let mut gauges = Gauges::new(gpu, calls, clock);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut passes: u64 = 0;
    while Instant::now() < end {
        let fields = gauges.fields();
        assert!(fields.memory.known().is_some());
        passes += 1;
        std::thread::sleep(Duration::from_nanos(Settings::default().period.0));
    }
    println!("passes {passes}");
}
