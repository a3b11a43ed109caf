//! From samples and points, given one after another, to what a picture shows of them.

use super::column::{COLUMNS, Frame, Marks, Series, Stretch};
use super::processes::{Process, Processes, signed};
use crate::residency::events::{CpuInvalid, CpuPoint, Event};
use crate::residency::moment::Length;
use crate::residency::sample::{FieldName, Reading, Sample, Status};
use crate::residency::settings::Settings;
use crate::residency::tally::Figures;
use crate::residency::timeline::{Missing, Point, Window};
use crate::unit::BootNs;

/// Phases that are drawn; of later ones it is said how many they are.
pub const PHASES_MAX: usize = 100;

/// A field that may or may not be asked for, and may or may not answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Field {
    pub(super) series: Series,
    /// Whether it was ever asked for.
    pub(super) asked: bool,
    /// How asking went when it first gave no value.
    pub(super) refused: Option<Status>,
}

impl Field {
    fn point<T>(
        &mut self,
        reading: Option<&Reading<T>>,
        stretch: Stretch,
        value: impl Fn(&T) -> i64,
    ) {
        let Some(reading) = reading else { return };
        self.asked = true;
        let known = reading.known().map(value);
        if known.is_none() && self.refused.is_none() {
            self.refused = Some(reading.status);
        }
        self.series.hold(stretch, known);
    }
}

/// A phase, from its mark to the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Phase {
    pub(super) from: BootNs,
    pub(super) name: String,
}

/// What a picture shows of one iteration, in constant memory.
#[derive(Debug)]
pub struct Curve {
    pub(super) frame: Frame,
    /// Device memory in use, in bytes.
    pub(super) memory: Series,
    /// The most there is of it.
    pub(super) memory_total: Option<i64>,
    pub(super) processes: Processes,
    pub(super) utilization: Field,
    pub(super) power: Field,
    pub(super) temperature: Field,
    /// Share of all processors, in hundredths of a percent.
    pub(super) cpu: Series,
    /// Ages at points, in ns.
    pub(super) age: Series,
    /// Ages an instant before a landing.
    pub(super) age_sup: Series,
    /// From one probe's beginning to the next, in ns.
    pub(super) interval: Series,
    pub(super) recoveries: Marks,
    /// Over the cap: at points, and between them.
    pub(super) stale: Marks,
    /// Not available for another reason.
    pub(super) missing: Marks,
    pub(super) phases: Vec<Phase>,
    pub(super) phases_beyond: u64,
}

/// Takes an iteration's rows in the order of their times. A sample that no point holds is no part of the
/// timeline: only its interval and the age before it are drawn.
///
/// ```text
/// let mut fold = CurveFold::of(&figures, &settings)?;   // None: no window ever began
/// fold.event(&event);                                   // every row of events.jsonl, first
/// fold.phase(at, name);                                 // every mark, in their order
/// fold.sample(&sample);                                 // every row of samples.jsonl
/// fold.point(&point, cpu);                              // every point, before, between or after samples
/// let curve = fold.finish();
/// ```
#[derive(Debug)]
pub struct CurveFold {
    curve: Curve,
    window: Window,
    period: Length,
    cap: Length,
    last_begin: Option<BootNs>,
    held_before: Option<BootNs>,
}

impl CurveFold {
    /// Of one window, recorded with these settings.
    #[must_use]
    pub fn new(window: Window, settings: &Settings) -> Self {
        let curve = Curve {
            frame: Frame::new(window.t0, window.duration),
            memory: Series::default(),
            memory_total: None,
            processes: Processes::default(),
            utilization: Field::default(),
            power: Field::default(),
            temperature: Field::default(),
            cpu: Series::default(),
            age: Series::default(),
            age_sup: Series::default(),
            interval: Series::default(),
            recoveries: Marks::default(),
            stale: Marks::default(),
            missing: Marks::default(),
            phases: Vec::new(),
            phases_beyond: 0,
        };
        let (period, cap) = (settings.period, settings.cap);
        Self { curve, window, period, cap, last_begin: None, held_before: None }
    }

    /// Of the window that an iteration's figures are of; `None`: none ever began.
    #[must_use]
    pub fn of(figures: &Figures, settings: &Settings) -> Option<Self> {
        let (t0, duration) = (figures.t0_boottime_ns?, figures.duration_ms?);
        let timeline_period = settings.timeline_period;
        Some(Self::new(Window { t0, timeline_period, duration }, settings))
    }

    /// A row of events: who a pid is, or that a phase begins. All of them go before the first point.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Process { at_ns, pid, start_ns, program, .. } => self.process(Process {
                at: *at_ns,
                pid: *pid,
                start: *start_ns,
                program: program.clone(),
            }),
            Event::Mark { at_ns, name } => self.phase(*at_ns, name.clone()),
            _ => {}
        }
    }

    /// Who a pid is. All of them go before the first point.
    pub fn process(&mut self, process: Process) {
        self.curve.processes.name(process);
    }

    /// A phase begins. One that began before the window is in force from its start on, and only the last
    /// of those; none begins after it.
    pub fn phase(&mut self, from: BootNs, name: String) {
        let phases = &mut self.curve.phases;
        if from > self.window.end() {
            return;
        }
        if from <= self.window.t0 {
            phases.clear();
        }
        if phases.len() < PHASES_MAX {
            phases.push(Phase { from: from.max(self.window.t0), name });
        } else {
            self.curve.phases_beyond = self.curve.phases_beyond.saturating_add(1);
        }
    }

    /// The next sample, landed or not.
    pub fn sample(&mut self, sample: &Sample) {
        let frame = self.curve.frame;
        if sample.begin_ns > self.window.end() {
            return;
        }
        let begin = frame.column(sample.begin_ns);
        if let Some(last) = self.last_begin.replace(sample.begin_ns) {
            let interval = signed(sample.begin_ns.0.saturating_sub(last.0));
            self.curve.interval.hold(Stretch::new(frame.column(last), begin, 0), Some(interval));
        }
        if sample.recovery {
            self.curve.recoveries.set(Stretch::moment(begin));
        }
        if let Some(landed) = sample.landed_at_ns {
            self.landing(landed.min(self.window.end()));
            if landed <= self.window.end() {
                self.held_before = Some(sample.fields.memory.before_ns);
            }
        }
    }

    /// The next point, with the processor's share at it.
    pub fn point(&mut self, point: &Point<'_>, cpu: CpuPoint) {
        let curve = &mut self.curve;
        let next = point.t.plus_ns(self.window.timeline_period.0).min(self.window.end());
        let (from, to) = (curve.frame.column(point.t), curve.frame.column(next));
        // The last point is the window's end, and holds for no time.
        let stretch = Stretch::new(from, to, next.0.saturating_sub(point.t.0));
        if cpu.invalid != Some(CpuInvalid::FirstSampleNoBaseline) {
            curve.cpu.hold(stretch, cpu.centipercent.map(signed));
        }
        if let Some(age) = point.age {
            curve.age.hold(stretch, Some(signed(age.0)));
        }
        match (point.held, point.missing) {
            (Some(held), None) => {
                let memory = held.fields.memory.known();
                curve.memory.hold(stretch, memory.map(|memory| signed(memory.used_bytes)));
                curve.memory_total =
                    curve.memory_total.max(memory.map(|memory| signed(memory.total_bytes)));
                curve.processes.point(held, stretch);
                let fields = &held.fields;
                let percent = |value: &u32| i64::from(*value);
                curve.utilization.point(fields.utilization.as_ref(), stretch, percent);
                curve.power.point(fields.power.as_ref(), stretch, percent);
                let celsius = |value: &i32| i64::from(*value);
                curve.temperature.point(fields.temperature.as_ref(), stretch, celsius);
            }
            (_, missing) => {
                curve.memory.hold(stretch, None);
                curve.processes.gap(stretch);
                for field in [&mut curve.utilization, &mut curve.power, &mut curve.temperature] {
                    field.series.hold(stretch, None);
                }
                let over = missing == Some(Missing::AgeOverCap);
                let marks = if over { &mut curve.stale } else { &mut curve.missing };
                marks.set(stretch);
            }
        }
    }

    /// All of it.
    #[must_use]
    pub fn finish(mut self) -> Curve {
        let end = self.window.end();
        self.landing(end);
        let frame = self.curve.frame;
        if let Some(last) = self.last_begin
            && let Some(open) = end.since(last)
            && open > self.period.0
        {
            // No probe began any more: at least so long.
            let stretch = Stretch::new(frame.column(last), COLUMNS, 0);
            self.curve.interval.hold(stretch, Some(signed(open)));
        }
        self.curve
    }

    /// An instant before something lands, or the window ends, the held sample is as old as it gets.
    fn landing(&mut self, at: BootNs) {
        let Some(before) = self.held_before else { return };
        let (frame, age) = (self.curve.frame, at.0.saturating_sub(before.0));
        let column = frame.column(at);
        self.curve.age_sup.hold(Stretch::moment(column), Some(signed(age)));
        if age > self.cap.0 {
            let from = frame.column(before.plus_ns(self.cap.0));
            self.curve.stale.set(Stretch::new(from, column.saturating_add(1), 0));
        }
    }
}

impl Curve {
    /// How often device memory has no value for a while.
    #[cfg(test)]
    pub(in crate::residency) fn gaps_of_memory(&self) -> usize {
        super::column::runs(self.memory.columns().iter().map(|column| column.gap)).len()
    }

    /// Fields that were not read in this iteration.
    pub(super) fn not_read(&self) -> Vec<&'static str> {
        let fields = [
            (FieldName::Utilization.as_str(), self.utilization.asked),
            (FieldName::Power.as_str(), self.power.asked),
            (FieldName::Temperature.as_str(), self.temperature.asked),
            (FieldName::Processes.as_str(), self.processes.asked),
            ("cpu", self.cpu.whole().is_some()),
        ];
        fields.into_iter().filter(|(_, read)| !read).map(|(name, _)| name).collect()
    }
}
