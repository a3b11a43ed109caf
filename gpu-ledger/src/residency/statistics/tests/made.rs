//! Made iterations.

use crate::residency::events::{ClockFold, CpuPoint, EndCause, Event};
use crate::residency::facts::{BatchFacts, Labels};
use crate::residency::moment::Length;
use crate::residency::sample::{
    DeviceMemory, FieldName, Fields, ProcessMemory, Reading, Sample, Status,
};
use crate::residency::settings::Settings;
use crate::residency::statistics::Sound;
use crate::residency::statistics::people::People;
use crate::residency::statistics::phases::Phases;
use crate::residency::statistics::window::{IterationFold, IterationStatistics, Thresholds};
use crate::residency::tally::{Ending, Figures, Tally};
use crate::residency::timeline::{Timeline, Window};
use crate::residency::verdict::{Backend, BackendReason, Verdict, Void, VoidReason};
use crate::unit::{BootNs, GpuUuid, Pid};

pub(in crate::residency) const MS: u64 = 1_000_000;
pub(in crate::residency) const MIB: u64 = 1 << 20;
/// When the first sample lands.
pub(in crate::residency) const T0: u64 = 1_000_000 * MS;

pub(in crate::residency) fn valid() -> Verdict {
    Verdict { backend: vec![], data: vec![] }
}

pub(in crate::residency) fn void() -> Verdict {
    let void = Void { reason: VoidReason::AgeOverCap, count: 3, first_point: Some(17) };
    Verdict { backend: vec![BackendReason::Simulated], data: vec![void] }
}

pub(in crate::residency) fn process(pid: u32, memory_bytes: Option<u64>) -> ProcessMemory {
    ProcessMemory { pid: Pid(pid), memory_bytes, compute: true, graphics: false }
}

/// One iteration: passes that land at the given ms, their memory asked for 1 ms before.
#[derive(Clone, Debug)]
pub(in crate::residency) struct Made {
    pub(in crate::residency) duration_ms: u64,
    pub(in crate::residency) rows: Vec<(u64, u64)>,
    pub(in crate::residency) processes: Vec<Vec<ProcessMemory>>,
    pub(in crate::residency) utilization: u32,
    pub(in crate::residency) cpu: Vec<CpuPoint>,
    pub(in crate::residency) events: Vec<Event>,
    pub(in crate::residency) marks: Vec<(BootNs, String)>,
    pub(in crate::residency) thresholds: Thresholds,
    pub(in crate::residency) settings: Settings,
}

impl Made {
    pub(in crate::residency) fn of(duration_ms: u64, rows: &[(u64, u64)]) -> Self {
        Self {
            duration_ms,
            rows: rows.to_vec(),
            processes: vec![],
            utilization: 40,
            cpu: vec![],
            events: vec![],
            marks: vec![],
            thresholds: Thresholds::default(),
            settings: Settings::default(),
        }
    }

    fn samples(&self) -> Vec<Sample> {
        let sample = |(k, (at, used)): (usize, &(u64, u64))| {
            let landed = T0 + at * MS;
            Sample::new(
                k.try_into().unwrap(),
                false,
                BootNs(landed - 3 * MS),
                Fields {
                    utilization: Some(reading(landed - 2 * MS, self.utilization)),
                    power: Some(reading(landed - 2 * MS, 300_000)),
                    temperature: None,
                    process_utilization: None,
                    processes: self.processes.get(k).map(|list| reading(landed - MS, list.clone())),
                    memory: reading(
                        landed,
                        DeviceMemory {
                            used_bytes: *used,
                            total_bytes: 1 << 37,
                            reserved_bytes: None,
                        },
                    ),
                },
            )
        };
        self.rows.iter().enumerate().map(sample).collect()
    }

    fn window(&self) -> Window {
        Window {
            t0: BootNs(T0),
            timeline_period: self.settings.timeline_period,
            duration: Length::of_ms(self.duration_ms),
        }
    }

    pub(in crate::residency) fn statistics(&self) -> IterationStatistics {
        let window = self.window();
        let mut fold = IterationFold::new(
            Sound::of_batch(&valid()).unwrap(),
            window,
            &self.settings,
            Phases::of(&self.marks, window),
            People::of(&self.events),
            self.thresholds,
        );
        let none = CpuPoint { centipercent: None, invalid: None };
        let mut cpu = self.cpu.iter().copied();
        let mut timeline = Timeline::new(window, &self.settings);
        for sample in self.samples() {
            fold.sample(&sample);
            timeline.push(sample, |point| fold.point(point, cpu.next().unwrap_or(none)));
        }
        timeline.finish(|point| fold.point(point, cpu.next().unwrap_or(none)));
        fold.finish()
    }

    pub(in crate::residency) fn figures(&self) -> Figures {
        let duration = Some(Length::of_ms(self.duration_ms));
        let mut tally = Tally::new(&self.settings, duration);
        self.samples().into_iter().for_each(|sample| tally.sample(sample, |_| {}));
        let at = BootNs(T0 + self.duration_ms * MS);
        let ending =
            Ending { cause: EndCause::Duration, at, in_flight_since: None, rows_not_written: 0 };
        tally.finish(Some(ending), &ClockFold::default(), |_| {}).0
    }
}

fn reading<T>(after: u64, value: T) -> Reading<T> {
    Reading {
        before_ns: BootNs(after - MS),
        after_ns: BootNs(after),
        value: Some(value),
        status: Status::Ok,
        code: None,
        driver_timestamp_us: None,
    }
}

/// What a made batch was recorded with.
pub(in crate::residency) fn facts(batch_id: &str) -> BatchFacts {
    BatchFacts {
        batch_id: batch_id.to_owned(),
        schema_version: 1,
        created_wall: Some("2026-11-30T19:00:00Z".to_owned()),
        version: "0.1.0".to_owned(),
        gpu_uuid: GpuUuid("GPU-11111111-2222-3333-4444-555555555555".into()),
        gpu_name: Some("NVIDIA H200".to_owned()),
        driver: Some("595.45.04".to_owned()),
        kernel: Some("6.18.5".to_owned()),
        backend: Backend::DirectNvml,
        cli_subprocess_used: false,
        exec_denied: false,
        settings: Settings::default(),
        field_order: vec![FieldName::Utilization, FieldName::Power, FieldName::Memory],
        power_limit_mw: Some(700_000),
        harness_verified: true,
        clock_sync: Some("synchronized".to_owned()),
        command: Some("python3 serve.py".to_owned()),
        iterations_planned: 1,
        fingerprint: Some("00".repeat(32)),
    }
}

pub(in crate::residency) fn labels(config: &str, round: u64) -> Labels {
    let round = Some(format!("{round:02}"));
    Labels { config: Some(config.to_owned()), context: Some("4096".to_owned()), round }
}
