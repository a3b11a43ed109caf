//! A virtual clock, a driver of given latencies, and the samplers that the catch-up replaced.

use std::cell::Cell;
use std::rc::Rc;

use crate::residency::counts::DeadlineCounts;
use crate::residency::events::{ClockFold, EndCause};
use crate::residency::moment::Length;
use crate::residency::probe::{self, Instrument, Ran, Ticker, Wanted};
use crate::residency::sample::{DeviceMemory, Fields, Reading, Sample, Status};
use crate::residency::settings::Settings;
use crate::residency::tally::{Ending, Figures, Tally};
use crate::residency::verdict::Void;
use crate::unit::BootNs;

pub(in crate::residency) const MS: u64 = 1_000_000;

/// Where the virtual clock begins: not at 0, which hides sums that forget it.
pub(in crate::residency) const BOOT: u64 = 1_000_000 * MS;

/// Time that passes where it is told to.
#[derive(Clone, Debug)]
pub(in crate::residency) struct VirtualClock {
    now: Rc<Cell<u64>>,
    /// How late the n-th wake-up is, in ns; the last one for all that follow.
    wake: Vec<u64>,
    waits: usize,
    pub(in crate::residency) stop_at: Option<u64>,
}

impl VirtualClock {
    pub(in crate::residency) fn new(wake_ms: &[u64]) -> Self {
        let wake = wake_ms.iter().map(|ms| ms * MS).collect();
        Self { now: Rc::new(Cell::new(BOOT)), wake, waits: 0, stop_at: None }
    }

    fn pass(&self, ns: u64) {
        self.now.set(self.now.get() + ns);
    }
}

impl Ticker for VirtualClock {
    fn now(&self) -> BootNs {
        BootNs(self.now.get())
    }

    fn sleep_until(&mut self, at: BootNs) {
        // The first element is for the very first probe, which nobody waits for.
        self.waits += 1;
        let late = self.wake.get(self.waits).or(self.wake.last()).copied().unwrap_or(0);
        self.now.set(self.now.get().max(at.0) + late);
    }

    fn is_stopped(&self) -> bool {
        self.stop_at.is_some_and(|stop| self.now.get() >= stop)
    }
}

/// In which order fields are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::residency) enum Order {
    MemoryLast,
    MemoryFirst,
}

/// How long each call takes: utilization, power, temperature, memory.
pub(in crate::residency) type Latencies = [u64; 4];

/// A driver that takes as long as it is told to.
#[derive(Debug)]
pub(in crate::residency) struct Paced {
    pub(in crate::residency) clock: VirtualClock,
    /// Of the n-th pass, in ns; the last one for all that follow.
    pub(in crate::residency) latencies: Vec<Latencies>,
    pub(in crate::residency) order: Order,
    passes: usize,
    /// Which calls were made, in order.
    pub(in crate::residency) calls: Vec<&'static str>,
    /// How memory answers in the n-th pass; ok where it says nothing.
    pub(in crate::residency) memory_status: Vec<Status>,
}

impl Paced {
    pub(in crate::residency) fn new(
        clock: &VirtualClock,
        latencies_ms: &[Latencies],
        order: Order,
    ) -> Self {
        let latencies = latencies_ms.iter().map(|pass| pass.map(|ms| ms * MS)).collect();
        let clock = clock.clone();
        Self { clock, latencies, order, passes: 0, calls: Vec::new(), memory_status: Vec::new() }
    }

    fn ask<T>(&mut self, call: &'static str, latency: u64, value: T) -> Reading<T> {
        self.calls.push(call);
        let before_ns = self.clock.now();
        self.clock.pass(latency);
        let after_ns = self.clock.now();
        let (value, status) = (Some(value), Status::Ok);
        Reading { before_ns, after_ns, value, status, code: None, driver_timestamp_us: None }
    }

    fn memory(&mut self, latency: u64) -> Reading<DeviceMemory> {
        let value =
            DeviceMemory { used_bytes: 1 << 30, total_bytes: 8 << 30, reserved_bytes: None };
        let mut reading = self.ask("memory", latency, value);
        let status = self.memory_status.get(self.passes).copied().unwrap_or(Status::Ok);
        if status != Status::Ok {
            reading = Reading { value: None, status, code: Some(999), ..reading };
        }
        reading
    }
}

impl Instrument for Paced {
    fn fields(&mut self) -> Fields {
        let latencies = self.latencies.get(self.passes).or(self.latencies.last());
        let [utilization, power, temperature, memory] = *latencies.unwrap();
        let first = (self.order == Order::MemoryFirst).then(|| self.memory(memory));
        let utilization = Some(self.ask("utilization", utilization, 50));
        let power = Some(self.ask("power", power, 100_000));
        let temperature = Some(self.ask("temperature", temperature, 40));
        let memory = first.unwrap_or_else(|| self.memory(memory));
        self.passes += 1;
        Fields {
            utilization,
            power,
            temperature,
            process_utilization: None,
            processes: None,
            memory,
        }
    }

    fn is_lost(&self, _: &Fields) -> bool {
        false
    }
}

/// Which loop is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::residency) enum Sampler {
    /// The product's own.
    CatchUp,
    /// Waits for the next grid point after every pass.
    Naive,
    /// Makes up for every deadline it missed, one after another.
    Burst,
}

/// What a run on the virtual clock gave.
#[derive(Debug)]
pub(in crate::residency) struct Outcome {
    pub(in crate::residency) samples: Vec<Sample>,
    pub(in crate::residency) counts: DeadlineCounts,
    pub(in crate::residency) ran: Option<Ran>,
}

impl Outcome {
    /// From one beginning to the next, in ms.
    pub(in crate::residency) fn gaps(&self) -> Vec<u64> {
        let begins: Vec<u64> = self.samples.iter().map(|sample| sample.begin_ns.0).collect();
        begins.windows(2).map(|pair| (pair[1] - pair[0]) / MS).collect()
    }

    /// From one landing to the next, in ms.
    pub(in crate::residency) fn stamps(&self) -> Vec<u64> {
        let stamps: Vec<u64> =
            self.samples.iter().map(|sample| sample.sample_timestamp_ns.0).collect();
        stamps.windows(2).map(|pair| (pair[1] - pair[0]) / MS).collect()
    }
}

/// Runs one of them for `duration_ms` from T0.
pub(in crate::residency) fn run(
    sampler: Sampler,
    period_ms: u64,
    duration_ms: u64,
    clock: &VirtualClock,
    paced: &mut Paced,
) -> Outcome {
    let mut taken = Vec::new();
    let mut ticker = paced.clock.clone();
    ticker.stop_at = clock.stop_at;
    let wanted = Wanted {
        duration: Some(Length::of_ms(duration_ms)),
        period: Length::of_ms(period_ms),
        start_timeout: Length::of_ms(10_000),
    };
    if sampler == Sampler::CatchUp {
        let ran = probe::run(&mut ticker, paced, wanted, |sample| taken.push(sample));
        return Outcome { samples: taken, counts: ran.counts, ran: Some(ran) };
    }
    let period = period_ms * MS;
    let origin = ticker.now();
    let (mut k, mut t0) = (0, None);
    loop {
        let begin = ticker.now();
        if t0.is_some_and(|t0| begin > BootNs(t0 + duration_ms * MS)) {
            return Outcome { samples: taken, counts: DeadlineCounts::default(), ran: None };
        }
        let sample = Sample::new(k, false, begin, paced.fields());
        t0 = t0.or(sample.landed_at_ns.map(|landed| landed.0));
        let completed = sample.completed().0;
        taken.push(sample);
        k = match sampler {
            Sampler::Naive => ((completed - origin.0) / period).max(k) + 1,
            Sampler::Burst | Sampler::CatchUp => k + 1,
        };
        if origin.0 + k * period > completed {
            ticker.sleep_until(BootNs(origin.0 + k * period));
        }
    }
}

/// The figures of samples, as a batch of one iteration.
pub(in crate::residency) fn figures(
    samples: &[Sample],
    settings: &Settings,
    duration_ms: u64,
) -> (Figures, Vec<Void>) {
    let mut tally = Tally::new(settings, Some(Length::of_ms(duration_ms)));
    for sample in samples {
        tally.sample(sample.clone(), |_| {});
    }
    let at = samples.last().map_or(BootNs(BOOT), Sample::completed);
    let ending =
        Ending { cause: EndCause::Duration, at, in_flight_since: None, rows_not_written: 0 };
    tally.finish(Some(ending), &ClockFold::default(), |_| {})
}
