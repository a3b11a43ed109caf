//! Batches made by hand, from a probe that answers as it is told to.

use crate::residency::events::{ClockFold, CpuFold, CpuInvalid, CpuPoint, EndCause};
use crate::residency::facts::BatchFacts;
use crate::residency::moment::Length;
use crate::residency::plot::{Curve, CurveFold, Facts, Iteration, Process};
use crate::residency::sample::{DeviceMemory, Fields, ProcessMemory, Reading, Sample, Status};
use crate::residency::settings::Settings;
use crate::residency::tally::{Ending, Tally};
use crate::residency::timeline::{Point, Window};
use crate::residency::verdict::{Backend, BackendReason, Verdict};
use crate::unit::{BootNs, GpuUuid, Pid};

pub(super) const MS: u64 = 1_000_000;
pub(super) const MIB: u64 = 1 << 20;
/// When the first probe begins.
pub(super) const BOOT: u64 = 8_000_000 * MS;

/// What a probe reads at a moment since the first one, in ms.
#[derive(Clone, Default)]
pub(super) struct Read {
    pub(super) used_mib: u64,
    pub(super) utilization: Option<u32>,
    pub(super) power_mw: Option<u32>,
    pub(super) celsius: i32,
    /// pid and MiB; `None`: the driver does not say who holds the device.
    pub(super) processes: Option<Vec<(u32, Option<u64>)>>,
}

/// A recorded iteration: how long, how long each probe takes, what it reads.
pub(super) struct Made<'made> {
    pub(super) settings: Settings,
    pub(super) duration_ms: u64,
    pub(super) latency_ms: &'made dyn Fn(u64) -> u64,
    pub(super) read: &'made dyn Fn(u64) -> Read,
    pub(super) processes: Vec<Process>,
    pub(super) phases: Vec<(u64, String)>,
}

impl Default for Made<'_> {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            duration_ms: 2_000,
            latency_ms: &|_| 4,
            read: &|_| Read { used_mib: 1_024, ..Read::default() },
            processes: Vec::new(),
            phases: Vec::new(),
        }
    }
}

fn reading<T>(at: u64, value: Option<T>) -> Reading<T> {
    let status = match value {
        Some(_) => Status::Ok,
        None => Status::InvalidValue,
    };
    let (before_ns, after_ns) = (BootNs(at), BootNs(at));
    Reading { before_ns, after_ns, value, status, code: None, driver_timestamp_us: None }
}

impl Made<'_> {
    fn sample(&self, k: u64, recovery: bool, begin: u64) -> Sample {
        let ms = (begin - BOOT) / MS;
        let (read, end) = ((self.read)(ms), begin + (self.latency_ms)(ms) * MS);
        let list = read.processes.map(|list| {
            let one = |(pid, mib): (u32, Option<u64>)| ProcessMemory {
                pid: Pid(pid),
                memory_bytes: mib.map(|mib| mib * MIB),
                compute: true,
                graphics: false,
            };
            list.into_iter().map(one).collect::<Vec<_>>()
        });
        let memory = DeviceMemory {
            used_bytes: read.used_mib * MIB,
            total_bytes: 81_559 * MIB,
            reserved_bytes: None,
        };
        // All of the latency in what is asked for before memory.
        let fields = Fields {
            utilization: Some(reading(end, read.utilization)),
            power: Some(reading(end, read.power_mw)),
            temperature: Some(reading(end, Some(read.celsius))),
            process_utilization: None,
            processes: Some(reading(end, list)),
            memory: reading(end, Some(memory)),
        };
        Sample::new(k, recovery, BootNs(begin), fields)
    }

    /// Every sample of it, by the rules of catch-up.
    pub(super) fn each_sample(&self, mut give: impl FnMut(Sample)) {
        let mut schedule =
            crate::residency::schedule::Schedule::new(BootNs(BOOT), self.settings.period);
        let (mut now, mut end) = (BOOT, u64::MAX);
        loop {
            let due = schedule.due();
            if !due.recovery {
                now = now.max(due.deadline.0);
            }
            if now > end {
                return;
            }
            let sample = self.sample(due.k, due.recovery, now);
            schedule.begun();
            schedule.completed(sample.completed());
            now = sample.completed().0;
            end = end.min(now + self.duration_ms * MS);
            give(sample);
        }
    }

    /// The curve, with figures and what it is void for.
    pub(super) fn curve(&self) -> (Curve, Iteration) {
        let duration = Length::of_ms(self.duration_ms);
        let t0 = BootNs(BOOT + (self.latency_ms)(0) * MS);
        let window = Window { t0, timeline_period: self.settings.timeline_period, duration };
        let mut fold = CurveFold::new(window, &self.settings);
        for process in &self.processes {
            fold.process(process.clone());
        }
        for (ms, name) in &self.phases {
            fold.phase(t0.plus_ns(ms * MS), name.clone());
        }
        let mut tally = Tally::new(&self.settings, Some(duration));
        let mut cpu = CpuFold::default();
        let share = |fold: &mut CurveFold, cpu: &mut CpuFold, point: &Point<'_>| {
            let busy = point.j * 3 + (point.j / 7) % 3;
            let shown = cpu.row(point.j, false, busy, point.j * 10);
            fold.point(point, shown);
        };
        self.each_sample(|sample| {
            fold.sample(&sample);
            tally.sample(sample, |point| share(&mut fold, &mut cpu, point));
        });
        let at = window.end();
        let ending =
            Ending { cause: EndCause::Duration, at, in_flight_since: None, rows_not_written: 0 };
        let (figures, voids) = tally.finish(Some(ending), &ClockFold::default(), |point| {
            share(&mut fold, &mut cpu, point);
        });
        let labels = [("config", "a100-fp16"), ("context", "4096"), ("round", "3")];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let t0_wall = Some("2026-07-27T19:25:31.204Z".to_owned());
        (fold.finish(), Iteration { number: 1, labels, t0_wall, figures, voids, notes: Vec::new() })
    }

    pub(super) fn facts(&self, iteration: &Iteration, backend: Backend) -> Facts {
        let failed = backend == Backend::Simulated;
        let batch = BatchFacts {
            batch_id: "20260727T192531Z-1f0c9a52".to_owned(),
            schema_version: 1,
            created_wall: None,
            version: "0.0.0".to_owned(),
            gpu_uuid: GpuUuid("GPU-5fd4f087-86f3-7a43-b711-4771313afc50".into()),
            gpu_name: Some("NVIDIA H200".to_owned()),
            driver: Some("570.172.08".to_owned()),
            kernel: None,
            backend,
            cli_subprocess_used: false,
            exec_denied: false,
            settings: self.settings.clone(),
            field_order: Vec::new(),
            power_limit_mw: None,
            harness_verified: !failed,
            clock_sync: None,
            command: None,
            iterations_planned: 1,
            fingerprint: Some("00".repeat(32)),
        };
        Facts {
            batch,
            verdict: Verdict {
                backend: if failed { vec![BackendReason::Simulated] } else { Vec::new() },
                data: iteration.voids.clone(),
            },
            iterations: 3,
            sha256: Some("3b1f0c".repeat(10) + "9a52"),
        }
    }
}

/// A sample that was taken in no time, of so much memory and nothing else.
pub(super) fn made_sample(k: u64, at: u64, used_mib: u64) -> Sample {
    let memory = DeviceMemory {
        used_bytes: used_mib * MIB,
        total_bytes: 81_559 * MIB,
        reserved_bytes: None,
    };
    let fields = Fields {
        utilization: None,
        power: None,
        temperature: None,
        process_utilization: None,
        processes: None,
        memory: reading(at, Some(memory)),
    };
    Sample::new(k, false, BootNs(at), fields)
}

/// A point's share of the processor that says nothing.
pub(super) const NO_CPU: CpuPoint =
    CpuPoint { centipercent: None, invalid: Some(CpuInvalid::NotRead) };

pub(super) fn process(pid: u32, start_ms: u64, program: Option<&str>) -> Process {
    let start = Some(BootNs(start_ms * MS));
    Process { at: BootNs(start_ms * MS), pid: Pid(pid), start, program: program.map(str::to_owned) }
}

/// Three processes that come and go in phases, over two minutes.
pub(super) fn busy(ms: u64) -> Read {
    let second = ms / 1_000;
    let llama = if second < 4 { second * 4_600 } else { 18_400 + (second / 5) % 3 * 64 };
    let mut list = vec![(4_242, Some(llama))];
    let burst = second % 30 >= 12 && second % 30 < 21;
    if burst {
        list.push((5_100 + u32::try_from(second / 30).unwrap(), Some(9_200 + second % 7 * 310)));
    }
    if second > 50 {
        list.push((777, Some(1_900)));
    }
    let sum: u64 = list.iter().filter_map(|(_, mib)| *mib).sum();
    Read {
        used_mib: sum + 623,
        utilization: Some(if burst { 88 + u32::try_from(ms / 200 % 12).unwrap() } else { 7 }),
        power_mw: Some(if burst { 512_000 } else { 118_400 }),
        celsius: if burst { 61 } else { 44 },
        processes: Some(list),
    }
}

/// Who they are.
pub(super) fn busy_processes() -> Vec<Process> {
    let sdxl = "python3 -m diffusers.serve";
    vec![
        process(4_242, 7_999_120, Some("llama-server")),
        process(5_100, 8_011_900, Some(sdxl)),
        process(5_101, 8_041_900, Some(sdxl)),
        process(5_102, 8_071_900, Some(sdxl)),
        process(5_103, 8_101_900, Some(sdxl)),
        process(777, 8_050_000, None),
    ]
}
