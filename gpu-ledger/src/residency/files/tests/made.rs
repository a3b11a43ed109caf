//! Makes batches of a driver on the virtual clock: the only place where a batch of `direct_nvml` comes from
//! without a GPU. Everything in them is fixed, so that they are the same bytes whenever they are made.

use std::path::Path;

use crate::clock::Stamp;
use crate::residency::events::{EndCause, Event, Labels};
use crate::residency::files::{
    Batch, BatchReport, FilesError, IterationWriter, Manifest, ManifestGpu, mark,
};
use crate::residency::moment::Length;
use crate::residency::probe::Ticker as _;
use crate::residency::sample::{
    DeviceMemory, Fields, ProcessMemory, ProcessUtilization, Reading, Sample, Status,
};
use crate::residency::settings::{OnVoid, Settings};
use crate::residency::tests::bench::{BOOT, MS, Order, Paced, Sampler, VirtualClock, run};
use crate::residency::verdict::Backend;
use crate::unit::{BootNs, GpuUuid, Pid, WallUs};

const MIB: u64 = 1 << 20;
/// What the wall clock shows at boot.
const WALL_AT_BOOT_US: u64 = 1_790_000_000_000_000;

/// A batch to make.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// The batch's name.
    pub(crate) id: &'static str,
    pub(crate) backend: Backend,
    /// Programs that the recorder says it ran.
    pub(crate) subprocesses: u64,
    pub(crate) settings: Settings,
    pub(crate) duration_ms: u64,
    /// For each window, how long the calls of its n-th pass take, in ms.
    pub(crate) windows: Vec<Vec<[u64; 4]>>,
    /// Points whose ticks are read this late, in ms.
    pub(crate) cpu_late: Option<(u64, u64)>,
    /// How late the n-th wake-up of the probe is, in ms.
    pub(crate) wake_ms: Vec<u64>,
    /// What the recorder was when it woke up more than a second late.
    pub(crate) halted: Halted,
}

/// What keeps a whole recorder from running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Halted {
    /// Its process stood still: SIGSTOP, or the freezer of its control group.
    Stopped,
    /// The machine slept, and `CLOCK_MONOTONIC` with it.
    Asleep,
}

/// A wake-up that is later than this is a halt.
const HALT_MS: u64 = 1_000;

/// From when to when nothing of the recorder ran.
fn halt(samples: &[Sample], period: Length) -> Option<(BootNs, BootNs)> {
    let halted = samples
        .windows(2)
        .find(|pair| pair[1].begin_ns.0 - pair[0].completed().0 > HALT_MS * MS + period.0)?;
    let due = halted[0].begin_ns.plus_ns(period.0);
    Some((due, halted[1].begin_ns))
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            id: "20260922T000000Z-00000000",
            backend: Backend::DirectNvml,
            subprocesses: 0,
            settings: Settings::default(),
            duration_ms: 2_000,
            windows: vec![vec![[1, 1, 1, 1]]],
            cpu_late: None,
            wake_ms: vec![0],
            halted: Halted::Stopped,
        }
    }
}

pub(crate) fn wall(boot: BootNs) -> WallUs {
    WallUs(WALL_AT_BOOT_US + boot.0 / 1_000)
}

pub(crate) fn manifest(recipe: &Recipe) -> Manifest {
    let now = Stamp { boot: BootNs(BOOT), mono_ns: BOOT, wall: wall(BootNs(BOOT)) };
    let gpu = ManifestGpu {
        name: Some("NVIDIA H200".to_owned()),
        index: Some(0),
        pci: Some("00000000:3B:00.0".to_owned()),
        mig: Some(false),
        persistence_mode: Some(true),
        accounting_mode: Some(true),
        power_limit_mw: Some(700_000),
        ..ManifestGpu::new(GpuUuid("GPU-11111111-2222-3333-4444-555555555555".into()))
    };
    let mut manifest = Manifest::new(now, gpu, recipe.settings.clone());
    recipe.id.clone_into(&mut manifest.batch_id);
    manifest.seed.gpu_telemetry_backend = Some(recipe.backend);
    "0.0.0".clone_into(&mut manifest.gpu_ledger_version);
    manifest.boot_id = Some("00000000-0000-4000-8000-000000000000".to_owned());
    manifest.kernel = Some("6.12.0".to_owned());
    manifest.binary_sha256 = Some("00".repeat(32));
    manifest.driver_version = Some("595.45.04".to_owned());
    manifest.iterations_planned = u64::try_from(recipe.windows.len()).unwrap();
    manifest.on_void = OnVoid::Continue;
    manifest.requested_duration_ms = Some(Length::of_ms(recipe.duration_ms));
    manifest
}

fn reading<T>(at: BootNs, value: T) -> Reading<T> {
    let (value, status) = (Some(value), Status::Ok);
    Reading { before_ns: at, after_ns: at, value, status, code: None, driver_timestamp_us: None }
}

/// Memory grows by 64 MiB a pass up to 8 GiB, all there is, nearly all of it of one process.
pub(crate) fn lively(sample: &Sample) -> Sample {
    let used_bytes = (1_024 + sample.k.min(112) * 64) * MIB;
    let memory = &sample.fields.memory;
    let at = memory.before_ns;
    let (pid, memory_bytes) = (Pid(4_242), Some(used_bytes - 512 * MIB));
    let driver_timestamp_us = wall(at).0;
    let busy = ProcessUtilization { pid, sm_percent: 50, driver_timestamp_us };
    let holder = ProcessMemory { pid, memory_bytes, compute: true, graphics: false };
    let fields = Fields {
        process_utilization: Some(reading(at, vec![busy])),
        processes: Some(reading(at, vec![holder])),
        memory: Reading {
            value: memory.value.map(|value| DeviceMemory { used_bytes, ..value }),
            ..memory.clone()
        },
        ..sample.fields.clone()
    };
    Sample::new(sample.k, sample.recovery, sample.begin_ns, fields)
}

pub(crate) fn anchor(at: BootNs) -> Event {
    Event::Anchor { boot_ns: at, mono_ns: at.0, wall_us: wall(at) }
}

/// Writes a window's rows, and ends it.
fn window(
    writer: &mut IterationWriter,
    recipe: &Recipe,
    latencies: &[[u64; 4]],
    begin: BootNs,
) -> Result<Event, FilesError> {
    let clock = VirtualClock::new(&recipe.wake_ms);
    clock.clone().sleep_until(begin);
    let mut paced = Paced::new(&clock, latencies, Order::MemoryLast);
    let period_ms = recipe.settings.period.0 / MS;
    let outcome = run(Sampler::CatchUp, period_ms, recipe.duration_ms, &clock, &mut paced);
    for sample in &outcome.samples {
        writer.sample(&lively(sample))?;
    }
    let ran = outcome.ran.unwrap();
    let halt = halt(&outcome.samples, recipe.settings.period);
    let anchor = |at: BootNs| match halt {
        Some((from, to)) if at >= to && recipe.halted == Halted::Asleep => {
            let mono_ns = at.0 - (to.0 - from.0);
            Event::Anchor { boot_ns: at, mono_ns, wall_us: wall(at) }
        }
        _ => anchor(at),
    };
    let cost = |at_ns, ms| Event::RecorderCpu { at_ns, cpu_ns: ms * MS };
    writer.event(&anchor(begin))?;
    writer.event(&cost(begin, 40))?;
    let (program, basis) = (Some("serve".to_owned()), Some("procfs".to_owned()));
    let (at_ns, pid, start_ns, uid) = (begin, Pid(4_242), Some(BootNs(7 * MS)), Some(1_000));
    writer.event(&Event::Process { at_ns, pid, start_ns, program, basis, uid })?;
    if let Some(t0) = ran.t0 {
        let step = recipe.settings.timeline_period;
        for j in 0..=recipe.duration_ms * MS / step.0 {
            let late_ms = recipe.cpu_late.filter(|(point, _)| *point == j).map_or(1, |(_, ms)| ms);
            let at_ns = t0.plus_ns(j * step.0 + late_ms * MS);
            if halt.is_some_and(|(from, to)| (from..to).contains(&at_ns)) {
                continue;
            }
            if j % 20 == 0 {
                writer.event(&anchor(at_ns))?;
            }
            writer.event(&Event::Cpu { j, at_ns, busy_ticks: j, total_ticks: 4 * j })?;
        }
    }
    let (backend, subprocesses) = (recipe.backend, recipe.subprocesses);
    writer.event(&anchor(ran.at))?;
    writer.event(&cost(ran.at, 50))?;
    writer.event(&Event::Backend { at_ns: ran.at, backend, subprocesses, exec_denied: false })?;
    Ok(Event::End {
        at_ns: ran.at,
        cause: EndCause::Duration,
        duration_ns: ran.t0.map(|_| recipe.duration_ms * MS),
        in_flight_since_ns: None,
        rows_not_written: 0,
        interrupted: false,
        marks: None,
    })
}

/// Makes a batch in `out`, as far as it can be written; all that could not be is in its troubles.
pub(crate) fn try_batch(out: &Path, recipe: &Recipe) -> Result<BatchReport, FilesError> {
    let mut batch = Batch::create(out, manifest(recipe))?;
    mark(batch.folder(), BootNs(BOOT), "warm-up")?;
    let mut troubles = Vec::new();
    for (round, latencies) in (1_u64..).zip(&recipe.windows) {
        let labels = Labels {
            config: Some("fp8".to_owned()),
            context: None,
            round: Some(round.to_string()),
        };
        // A window that cannot begin leaves a batch that can be ended.
        let mut writer = match batch.begin(labels) {
            Ok(writer) => writer,
            Err(error) => {
                troubles.push(error);
                break;
            }
        };
        let begin = BootNs(BOOT + (round - 1) * 60_000 * MS);
        let end = window(&mut writer, recipe, latencies, begin).unwrap_or(Event::End {
            at_ns: begin,
            cause: EndCause::NotWritten,
            duration_ns: None,
            in_flight_since_ns: None,
            rows_not_written: 0,
            interrupted: false,
            marks: None,
        });
        troubles.extend(writer.end(end)?.troubles);
    }
    let mut report = batch.finish()?;
    report.troubles.splice(..0, troubles);
    Ok(report)
}

/// Makes a batch in `out`.
pub(crate) fn batch(out: &Path, recipe: &Recipe) -> BatchReport {
    let report = try_batch(out, recipe).unwrap();
    assert!(report.troubles.is_empty(), "{:?}", report.troubles);
    report
}

/// Every file under a folder, by its path within it.
pub(crate) fn files(folder: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Hashes of what is there now: what somebody would write who changed a file and knows of them.
pub(crate) fn sum_again(batch: &Path) {
    let sums = files(batch).into_iter().filter(|(name, _)| name != super::super::SUMS);
    let hashes = sums.map(|(name, bytes)| (name, super::super::whole::sha256(&bytes))).collect();
    std::fs::write(batch.join(super::super::SUMS), super::super::sums::text(&hashes)).unwrap();
}
