//! The statistics of one iteration, folded over its points.
//!
//! One pass in constant memory, for the window and for each of its phases at once. What a phase is told
//! is what the window is told, cut at its edges to the nanosecond, so that integrals of phases add up to
//! the window's.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Sound;
use super::bounds::{Bounds, Frame, Range, Ranges};
use super::fixed::Fixed;
use super::people::{People, Person, PersonId};
use super::phases::Phases;
use super::series::{Series, SeriesFold};
use crate::residency::events::CpuPoint;
use crate::residency::moment::Length;
use crate::residency::sample::{FieldName, ProcessMemory, Reading, Sample};
use crate::residency::settings::Settings;
use crate::residency::timeline::{Point, Window};
use crate::unit::BootNs;

/// How many distinct values of a quantity are told apart exactly, of a window.
const CLASSES_OF_WINDOW: usize = 8_192;
/// And of each phase.
const CLASSES_OF_PHASE: usize = 1_024;

/// GiB·s are 2³⁰ · 10⁹ byte·ns.
const BYTE_NS_PER_GIB_S: u128 = (1 << 30) * 1_000_000_000;

/// Above which values time is counted; `None`: of that quantity none is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thresholds {
    /// Of device memory, in bytes.
    pub memory_bytes: Option<i64>,
    /// Of utilization, in %.
    pub utilization_percent: Option<i64>,
    /// Of power, in mW.
    pub power_mw: Option<i64>,
    /// Of temperature, in °C.
    pub temperature_c: Option<i64>,
}

/// What one process held.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ProcessHeld {
    /// Who.
    #[serde(flatten)]
    pub person: Person,
    /// How long the driver listed it.
    pub listed_ms: Length,
    /// How much of that without saying how much memory it had.
    pub memory_unknown_ms: Length,
    /// The most it had; null where the driver never said.
    pub peak_bytes: Option<u64>,
    /// Over the time in which it is known, in bytes.
    pub mean_bytes: Option<Fixed>,
    /// Memory held, over the time in which it is known.
    pub residency_gib_s: Option<Fixed>,
    /// The least that it may have been, where what changed between two samples went from the one to the other; null
    /// where the driver did not always say.
    pub residency_lower_gib_s: Option<Fixed>,
    /// The most.
    pub residency_upper_gib_s: Option<Fixed>,
    /// What was held, in byte·ns.
    #[serde(skip)]
    pub byte_ns: u128,
}

/// Device memory that no listed process accounts for: used − the sum of the processes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unattributed {
    /// In bytes; known where the driver listed all processes with their memory.
    #[serde(flatten)]
    pub bytes: Series,
    /// How long it was below nothing: the two are not read in the same moment.
    pub negative_ms: Length,
}

/// The statistics of a stretch of time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stretch {
    /// How long it is.
    pub length_ms: Length,
    /// Device memory in bytes.
    pub memory: Series,
    /// Its integral over the time in which it is known.
    pub residency_gib_s: Option<Fixed>,
    /// The least that it may have been, where what changed between two samples went from the one to the other.
    pub residency_lower_gib_s: Option<Fixed>,
    /// The most.
    pub residency_upper_gib_s: Option<Fixed>,
    /// Utilization in %.
    pub utilization: Series,
    /// Power in mW. No energy is made of it: the driver does not say over what time it has measured.
    pub power: Series,
    /// Temperature in °C.
    pub temperature: Series,
    /// The share of all processors in hundredths of a %, over the time *before* each point.
    pub cpu: Series,
    /// What no process accounts for.
    pub unattributed: Unattributed,
    /// Every process that the driver listed, the greatest integral first.
    pub processes: Vec<ProcessHeld>,
}

/// A phase with its statistics.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PhaseStretch {
    /// What the user calls it; null: before any mark.
    pub name: Option<String>,
    /// The how many-th of its name.
    pub occurrence: u64,
    /// From T0 to its beginning.
    pub from_ms: Length,
    /// What happened in it.
    #[serde(flatten)]
    pub stretch: Stretch,
}

/// The statistics of one iteration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct IterationStatistics {
    /// The whole window.
    pub window: Stretch,
    /// Its phases; empty where nobody marked any.
    pub phases: Vec<PhaseStretch>,
    /// The longest time from one sample to the next: every edge, of a plateau, of time above a threshold, of a
    /// process, may be off by so much.
    pub sample_gap_max_ms: Length,
    /// How long the last sample was held after which none came.
    pub held_at_end_ms: Length,
    /// Marks beyond the bound on phases.
    pub marks_beyond_bound: u64,
    /// Points at which the processors' share was to be read.
    pub cpu_samples_total: u64,
    /// Those with a share: at most all but the first, which is a difference to nothing.
    pub cpu_samples_aggregated: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct HeldFold {
    listed_ns: u64,
    unknown_ns: u64,
    byte_ns: u128,
    peak: Option<u64>,
}

impl HeldFold {
    fn hold(&mut self, bytes: Option<u64>, ns: u64) {
        self.listed_ns = self.listed_ns.saturating_add(ns);
        let Some(bytes) = bytes else {
            self.unknown_ns = self.unknown_ns.saturating_add(ns);
            return;
        };
        self.peak = Some(self.peak.map_or(bytes, |peak| peak.max(bytes)));
        let held = u128::from(bytes).saturating_mul(u128::from(ns));
        self.byte_ns = self.byte_ns.saturating_add(held);
    }

    fn finish(&self, person: Person, range: Range) -> ProcessHeld {
        let known_ns = self.listed_ns.saturating_sub(self.unknown_ns);
        let sum = i128::try_from(self.byte_ns).unwrap_or(i128::MAX);
        ProcessHeld {
            person,
            listed_ms: Length(self.listed_ns),
            memory_unknown_ms: Length(self.unknown_ns),
            peak_bytes: self.peak,
            mean_bytes: Fixed::quotient(sum, u128::from(known_ns), 3),
            residency_gib_s: self.peak.and_then(|_| gib_s(self.byte_ns)),
            residency_lower_gib_s: range.and_then(|(low, _)| gib_s(low)),
            residency_upper_gib_s: range.and_then(|(_, high)| gib_s(high)),
            byte_ns: self.byte_ns,
        }
    }
}

/// byte·ns as GiB·s, to six digits.
#[must_use]
pub fn gib_s(byte_ns: u128) -> Option<Fixed> {
    Fixed::quotient(i128::try_from(byte_ns).ok()?, BYTE_NS_PER_GIB_S, 6)
}

/// What a sample says at a point, ready to be held.
#[derive(Clone, Debug, Default)]
struct Values {
    memory: Option<i64>,
    utilization: Option<i64>,
    power: Option<i64>,
    temperature: Option<i64>,
    unattributed: Option<i64>,
    processes: Vec<(PersonId, Option<u64>)>,
}

impl Values {
    fn of(sample: &Sample, people: &mut People) -> Self {
        let fields = &sample.fields;
        let number = |reading: Option<&Reading<u32>>| reading?.known().copied().map(i64::from);
        let used = fields.memory.known().and_then(|memory| i64::try_from(memory.used_bytes).ok());
        let listed = fields.processes.as_ref();
        let list = listed.and_then(|reading| Some((reading.after_ns, reading.known()?)));
        let residual = |list: &[ProcessMemory]| {
            list.iter().try_fold(used?, |rest, process| {
                rest.checked_sub(i64::try_from(process.memory_bytes?).ok()?)
            })
        };
        Self {
            memory: used,
            utilization: number(fields.utilization.as_ref()),
            power: number(fields.power.as_ref()),
            temperature: fields
                .temperature
                .as_ref()
                .and_then(|reading| reading.known().copied().map(i64::from)),
            unattributed: list.and_then(|(_, list)| residual(list)),
            processes: list.map_or_else(Vec::new, |(at, list)| {
                let held = list.iter();
                held.map(|one| (people.holder(one.pid, at), one.memory_bytes)).collect()
            }),
        }
    }
}

#[derive(Clone, Debug)]
struct StretchFold {
    length_ns: u64,
    memory: SeriesFold,
    utilization: SeriesFold,
    power: SeriesFold,
    temperature: SeriesFold,
    cpu: SeriesFold,
    unattributed: SeriesFold,
    negative_ns: u64,
    processes: BTreeMap<PersonId, HeldFold>,
}

impl StretchFold {
    const fn new(classes: usize, thresholds: Thresholds) -> Self {
        Self {
            length_ns: 0,
            memory: SeriesFold::new(classes, thresholds.memory_bytes),
            utilization: SeriesFold::new(classes, thresholds.utilization_percent),
            power: SeriesFold::new(classes, thresholds.power_mw),
            temperature: SeriesFold::new(classes, thresholds.temperature_c),
            cpu: SeriesFold::new(classes, None),
            unattributed: SeriesFold::new(classes, None),
            negative_ns: 0,
            processes: BTreeMap::new(),
        }
    }

    fn hold(&mut self, values: &Values, ns: u64) {
        self.length_ns = self.length_ns.saturating_add(ns);
        self.memory.hold(values.memory, ns);
        self.utilization.hold(values.utilization, ns);
        self.power.hold(values.power, ns);
        self.temperature.hold(values.temperature, ns);
        self.unattributed.hold(values.unattributed, ns);
        if values.unattributed.is_some_and(|bytes| bytes < 0) {
            self.negative_ns = self.negative_ns.saturating_add(ns);
        }
        for (id, bytes) in &values.processes {
            self.processes.entry(*id).or_default().hold(*bytes, ns);
        }
    }

    fn finish(&self, people: &People, device: &Ranges<()>, holders: &Ranges<PersonId>) -> Stretch {
        let window = FieldName::source_window_ms;
        let memory = self.memory.finish(window(FieldName::Memory));
        let range = u128::try_from(memory.value_ns).ok().and_then(|held| device.of((), held));
        let held = |(id, fold): (&PersonId, &HeldFold)| {
            let range = holders.of(*id, fold.byte_ns).filter(|_| fold.unknown_ns == 0);
            Some(fold.finish(people.person(*id)?.clone(), range))
        };
        let mut processes: Vec<ProcessHeld> = self.processes.iter().filter_map(held).collect();
        processes.sort_by_key(|held| std::cmp::Reverse(held.byte_ns));
        Stretch {
            length_ms: Length(self.length_ns),
            residency_gib_s: memory.mean.and_then(|_| gib_s(u128::try_from(memory.value_ns).ok()?)),
            residency_lower_gib_s: range.and_then(|(low, _)| gib_s(low)),
            residency_upper_gib_s: range.and_then(|(_, high)| gib_s(high)),
            memory,
            utilization: self.utilization.finish(window(FieldName::Utilization)),
            power: self.power.finish(window(FieldName::Power)),
            temperature: self.temperature.finish(window(FieldName::Temperature)),
            cpu: self.cpu.finish(None),
            unattributed: Unattributed {
                bytes: self.unattributed.finish(window(FieldName::Memory)),
                negative_ms: Length(self.negative_ns),
            },
            processes,
        }
    }
}

/// Folds the points of one iteration of a batch that is valid.
#[derive(Debug)]
pub struct IterationFold {
    window: Window,
    cap: Length,
    phases: Phases,
    people: People,
    whole: StretchFold,
    parts: Vec<StretchFold>,
    /// The last sample that landed: before its memory was asked for, when it landed, what it showed.
    held: Option<(BootNs, BootNs, Values)>,
    device: Bounds<()>,
    holders: Bounds<PersonId>,
    cpu_total: u64,
    cpu_aggregated: u64,
}

impl IterationFold {
    /// Of a window, cut into phases.
    #[must_use]
    pub fn new(
        _sound: Sound,
        window: Window,
        settings: &Settings,
        phases: Phases,
        people: People,
        thresholds: Thresholds,
    ) -> Self {
        let part = StretchFold::new(CLASSES_OF_PHASE, thresholds);
        Self {
            window,
            cap: settings.cap,
            whole: StretchFold::new(CLASSES_OF_WINDOW, thresholds),
            parts: vec![part; phases.list().len()],
            held: None,
            device: Bounds::new(window, &phases),
            holders: Bounds::new(window, &phases),
            phases,
            people,
            cpu_total: 0,
            cpu_aggregated: 0,
        }
    }

    /// The next sample, before the points that it decides.
    pub fn sample(&mut self, sample: &Sample) {
        let memory = &sample.fields.memory;
        let shown = Values::of(sample, &mut self.people);
        if let Some(list) = sample.fields.processes.as_ref().filter(|list| list.known().is_some()) {
            // Several rows may be one holder's.
            let mut values: BTreeMap<PersonId, Option<u64>> = BTreeMap::new();
            for (id, bytes) in &shown.processes {
                let sum = values.entry(*id).or_insert(Some(0));
                *sum = sum.zip(*bytes).and_then(|(sum, more)| sum.checked_add(more));
            }
            let frame = Frame { before: list.before_ns, after: list.after_ns, values };
            self.holders.push(frame, &self.phases);
        }
        if let (Some(value), Some(_)) = (memory.known(), sample.landed_at_ns) {
            let values = BTreeMap::from([((), Some(value.used_bytes))]);
            let frame = Frame { before: memory.before_ns, after: memory.after_ns, values };
            self.device.push(frame, &self.phases);
        }
        if let Some(landed) = sample.landed_at_ns {
            self.hold_until(landed);
            self.held = Some((memory.before_ns, landed, shown));
        }
    }

    /// The next point: what the processors did is known of points alone. The share at a point is that of the time
    /// since the one before it. Before the first there is none, whatever was read there.
    pub fn point(&mut self, point: &Point<'_>, cpu: CpuPoint) {
        self.cpu_total = self.cpu_total.saturating_add(1);
        let Some(before) = point.j.checked_sub(1) else { return };
        let value = cpu.centipercent.and_then(|share| i64::try_from(share).ok());
        if value.is_some() {
            self.cpu_aggregated = self.cpu_aggregated.saturating_add(1);
        }
        self.hold_cpu(value, self.window.at(before), point.t);
    }

    /// What the last sample showed holds from its landing to that of the next, and never past the cap.
    fn hold_until(&mut self, next: BootNs) {
        let (t0, end) = (self.window.t0, self.window.end());
        let clip = |at: BootNs| at.max(t0).min(end);
        let Some((before, landed, values)) = self.held.take() else { return };
        if landed > end {
            return;
        }
        let over = before.plus_ns(self.cap.0).max(landed).min(next);
        let (from, until, to) = (clip(landed), clip(over), clip(next));
        self.hold(&values, from, until);
        if until < to {
            self.hold(&Values::default(), until, to);
        }
    }

    fn hold(&mut self, values: &Values, from: BootNs, to: BootNs) {
        self.whole.hold(values, to.0.saturating_sub(from.0));
        for (index, ns) in self.phases.cut(from, to) {
            if let Some(part) = self.parts.get_mut(index) {
                part.hold(values, ns);
            }
        }
    }

    fn hold_cpu(&mut self, value: Option<i64>, from: BootNs, to: BootNs) {
        self.whole.cpu.hold(value, to.0.saturating_sub(from.0));
        for (index, ns) in self.phases.cut(from, to) {
            if let Some(part) = self.parts.get_mut(index) {
                part.cpu.hold(value, ns);
            }
        }
    }

    /// All of it.
    #[must_use]
    pub fn finish(mut self) -> IterationStatistics {
        self.hold_until(self.window.end());
        // After the last point nobody read the processors.
        let last = self.window.at(self.window.points().saturating_sub(1));
        if last < self.window.end() {
            self.hold_cpu(None, last, self.window.end());
        }
        let (device, holders) =
            (self.device.finish(&self.phases), self.holders.finish(&self.phases));
        let is_marked = self.phases.list().iter().any(|phase| phase.name.is_some());
        let ranges = device.parts.iter().zip(&holders.parts);
        let told = self.phases.list().iter().zip(&self.parts).zip(ranges).filter(|_| is_marked);
        let phases = told.map(|((phase, part), (device, holders))| PhaseStretch {
            name: phase.name.clone(),
            occurrence: phase.occurrence,
            from_ms: Length(phase.from.0.saturating_sub(self.window.t0.0)),
            stretch: part.finish(&self.people, device, holders),
        });
        IterationStatistics {
            phases: phases.collect(),
            window: self.whole.finish(&self.people, &device.whole, &holders.whole),
            sample_gap_max_ms: device.gap_max,
            held_at_end_ms: device.open,
            marks_beyond_bound: self.phases.beyond(),
            cpu_samples_total: self.cpu_total,
            cpu_samples_aggregated: self.cpu_aggregated,
        }
    }
}
