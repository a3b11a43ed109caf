//! The figures and reasons of one iteration, computed from its raw rows.
//!
//! One pass in constant memory. The recorder computes them when a window has ended and a verifier at any
//! later time, by the same function and from the same files, so that they must agree to the byte.

use std::collections::BTreeMap;

use serde::Serialize;

use super::counts::DeadlineCounts;
use super::events::{ClockFold, EndCause};
use super::moment::Length;
use super::sample::{FieldName, Sample};
use super::schedule::Schedule;
use super::settings::{AgeGate, Settings};
use super::spread::{Spread, SpreadFold};
use super::timeline::{Missing, Point, Supremum, Timeline, Window};
use super::verdict::{Void, VoidReason};
use crate::unit::BootNs;

/// How an iteration ended, as its last event says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending {
    /// Why.
    pub cause: EndCause,
    /// When it was decided.
    pub at: BootNs,
    /// When the probe began that was then in flight.
    pub in_flight_since: Option<BootNs>,
    /// Rows that could not be written.
    pub rows_not_written: u64,
}

impl Ending {
    /// How long the probe had been in flight that was then waited for no longer.
    fn in_flight(self) -> Option<Length> {
        self.in_flight_since.and_then(|since| self.at.since(since)).map(Length)
    }
}

/// What asking for one field cost.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FieldCost {
    /// How often it was asked for.
    pub count: u64,
    /// How long the call took.
    pub duration_ms: Spread,
}

/// The figures of one iteration, under the names of `iteration.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Figures {
    /// T0; null: no sample landed.
    pub t0_boottime_ns: Option<BootNs>,
    /// D.
    pub duration_ms: Option<Length>,
    /// N; null where the window never began.
    pub points_required: Option<u64>,
    /// Points that may be used.
    pub points_available: u64,
    /// The greatest age at a point; null: no point held a sample.
    pub max_sample_age_ms: Option<Length>,
    /// The supremum between them.
    pub max_sample_age_sup_ms: Option<Length>,
    /// The mean age at points.
    pub mean_sample_age_ms: Option<Length>,
    /// Points over the cap.
    pub stale_point_count: u64,
    /// Points before any sample.
    pub no_sample_point_count: u64,
    /// Samples that landed.
    pub gpu_sample_count: u64,
    /// Passes over the fields, landed or not.
    pub gpu_probe_count: u64,
    /// How the deadlines fared.
    #[serde(flatten)]
    pub deadlines: DeadlineCounts,
    /// Fields without a value, by status and code.
    pub gpu_query_error_count: BTreeMap<String, u64>,
    /// From the beginning of a pass to its last field.
    pub probe_duration_ms: Spread,
    /// What of the window passes took, one in flight at its end included, in millionths: what the probe takes of the
    /// driver's time.
    pub probe_duty_cycle_ppm: Option<u64>,
    /// Passes that were catch-ups, in millionths.
    pub recovery_rate_ppm: Option<u64>,
    /// What each field cost.
    pub field_duration_ms: BTreeMap<FieldName, FieldCost>,
    /// From one pass's beginning to the next.
    pub effective_interval_ms: Spread,
    /// How late a pass began that was no catch-up.
    pub wake_late_ms: Spread,
    /// CPU time of the process that records, of one core, in millionths; null where it was not told at both
    /// ends of the window.
    pub recorder_cpu_ppm: Option<u64>,
    /// How far the wall clock was moved; null where no readings of the clocks enclose the window.
    pub wall_clock_step_ms: Option<Length>,
    /// How long the machine slept; null as above.
    pub suspend_ms: Option<Length>,
    /// How long the probe had been in flight that had not come back when the window was given up; null: none was.
    pub probe_in_flight_at_end_ms: Option<Length>,
    /// Whether the window is shorter than it was meant to be, by somebody's wish.
    pub stopped_early: bool,
}

/// Folds samples and points.
#[derive(Debug)]
pub struct Tally<'settings> {
    settings: &'settings Settings,
    duration: Option<Length>,
    curve: Option<Curve<'settings>>,
    closed: Option<(Window, Option<Length>)>,
    replay: Option<Replay>,
    points: PointFold,
    samples: u64,
    probes: u64,
    errors: BTreeMap<String, u64>,
    lost: u64,
    went_back: bool,
    last_moment: Option<BootNs>,
    durations: SpreadFold,
    /// What of passes lies in the window.
    within_ns: u64,
    fields: BTreeMap<FieldName, SpreadFold>,
    intervals: SpreadFold,
    wake: SpreadFold,
    last_begin: Option<BootNs>,
}

#[derive(Debug)]
struct Curve<'settings> {
    timeline: Timeline<'settings>,
    supremum: Supremum,
    window: Window,
}

/// The schedule over again, from when the probes began and ended.
#[derive(Debug)]
struct Replay {
    schedule: Schedule,
    agrees: bool,
}

impl Replay {
    fn sample(&mut self, sample: &Sample) {
        let due = self.schedule.due();
        let on_grid = sample.recovery || sample.begin_ns >= due.deadline;
        self.agrees &= (sample.k, sample.recovery) == (due.k, due.recovery) && on_grid;
        self.schedule.begun();
        self.schedule.completed(sample.completed());
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct PointFold {
    available: u64,
    fresh: u64,
    ages: u64,
    age_sum_ns: u128,
    age_max: Option<Length>,
    stale: Voids,
    none: Voids,
    required: Voids,
    missing: Voids,
}

/// How many points, and the first.
#[derive(Clone, Copy, Debug, Default)]
struct Voids {
    count: u64,
    first: Option<u64>,
}

impl Voids {
    const fn at(&mut self, j: u64) {
        self.count = self.count.saturating_add(1);
        if self.first.is_none() {
            self.first = Some(j);
        }
    }

    fn say(self, reason: VoidReason, voids: &mut Vec<Void>) {
        if self.count > 0 {
            voids.push(Void { reason, count: self.count, first_point: self.first });
        }
    }
}

impl PointFold {
    fn point(&mut self, point: &Point<'_>) {
        if let Some(age) = point.age {
            self.ages = self.ages.saturating_add(1);
            self.age_sum_ns = self.age_sum_ns.saturating_add(u128::from(age.0));
            self.age_max = Some(self.age_max.map_or(age, |max| max.max(age)));
        }
        match point.missing {
            None => {
                self.available = self.available.saturating_add(1);
                self.fresh = self.fresh.saturating_add(1);
                return;
            }
            Some(Missing::AgeOverCap) => self.stale.at(point.j),
            Some(Missing::NoSample) => self.none.at(point.j),
            Some(Missing::Required(_)) => {
                self.fresh = self.fresh.saturating_add(1);
                self.required.at(point.j);
            }
        }
        self.missing.at(point.j);
    }
}

/// How much of `[from, to)` lies in a window, in ns.
fn within(window: Window, from: BootNs, to: BootNs) -> u64 {
    let (from, to) = (from.max(window.t0), to.min(window.end()));
    to.0.saturating_sub(from.0)
}

impl<'settings> Tally<'settings> {
    /// Of an iteration whose window is so long; `None` where it never began.
    #[must_use]
    pub fn new(settings: &'settings Settings, duration: Option<Length>) -> Self {
        Self {
            settings,
            duration,
            curve: None,
            closed: None,
            replay: None,
            points: PointFold::default(),
            samples: 0,
            probes: 0,
            errors: BTreeMap::new(),
            lost: 0,
            went_back: false,
            last_moment: None,
            durations: SpreadFold::default(),
            within_ns: 0,
            fields: BTreeMap::new(),
            intervals: SpreadFold::default(),
            wake: SpreadFold::default(),
            last_begin: None,
        }
    }

    /// The next sample. Points that are decided by it are given to `emit`.
    pub fn sample(&mut self, sample: Sample, mut emit: impl FnMut(&Point<'_>)) {
        self.cost(&sample);
        let replay = self.replay.get_or_insert_with(|| Replay {
            schedule: Schedule::new(sample.begin_ns, self.settings.period),
            agrees: true,
        });
        let deadline = replay.schedule.due().deadline;
        if !sample.recovery {
            self.wake.add(Length(sample.begin_ns.0.saturating_sub(deadline.0)));
        }
        replay.sample(&sample);
        replay.agrees &= sample.is_consistent();
        let Some(landed) = sample.landed_at_ns else { return };
        self.samples = self.samples.saturating_add(1);
        if self.curve.is_none()
            && self.closed.is_none()
            && let Some(duration) = self.duration
        {
            let timeline_period = self.settings.timeline_period;
            let window = Window { t0: landed, timeline_period, duration };
            let timeline = Timeline::new(window, self.settings);
            self.curve = Some(Curve { timeline, supremum: Supremum::new(window), window });
        }
        if let Some(curve) = &mut self.curve {
            curve.supremum.landed(sample.fields.memory.before_ns, landed);
            let points = &mut self.points;
            curve.timeline.push(sample, |point| {
                points.point(point);
                emit(point);
            });
        }
    }

    fn cost(&mut self, sample: &Sample) {
        self.probes = self.probes.saturating_add(1);
        for asked in sample.fields.asked() {
            self.fields.entry(asked.name).or_default().add(Length(asked.duration_ns));
            if asked.known {
                continue;
            }
            let code = asked.code.map(|code| format!("/{code}")).unwrap_or_default();
            let word = format!("{}:{}{code}", asked.name, asked.status.as_str());
            let count = self.errors.entry(word).or_insert(0);
            *count = count.saturating_add(1);
            if asked.is_device_gone() {
                self.lost = self.lost.saturating_add(1);
            }
        }
        if let Some(last) = self.last_begin.replace(sample.begin_ns) {
            self.intervals.add(Length(sample.begin_ns.0.saturating_sub(last.0)));
        }
        let duration = sample.completed().0.saturating_sub(sample.begin_ns.0);
        self.durations.add(Length(duration));
        if let Some(curve) = &self.curve {
            // The first that landed ends where the window begins.
            let within = within(curve.window, sample.begin_ns, sample.completed());
            self.within_ns = self.within_ns.saturating_add(within);
        }
        let backwards = |last: BootNs| sample.begin_ns < last;
        self.went_back |= self.last_moment.is_some_and(backwards);
        self.went_back |= sample.completed() < sample.begin_ns;
        self.last_moment = Some(sample.completed());
    }

    /// No sample is left: the points that are hold the last one, and are given to `emit`.
    pub fn rest(&mut self, mut emit: impl FnMut(&Point<'_>)) {
        let Some(curve) = self.curve.take() else { return };
        let points = &mut self.points;
        curve.timeline.finish(|point| {
            points.point(point);
            emit(point);
        });
        self.closed = Some((curve.window, curve.supremum.finish()));
    }

    /// All figures, and what the iteration is void for. Points that [`Self::rest`] was not asked for are
    /// given to `emit`.
    pub fn finish(
        mut self,
        ending: Option<Ending>,
        clocks: &ClockFold,
        emit: impl FnMut(&Point<'_>),
    ) -> (Figures, Vec<Void>) {
        self.rest(emit);
        let window = self.closed.map(|(window, _)| window);
        let supremum = self.closed.and_then(|(_, supremum)| supremum);
        let mut agrees = true;
        let mut deadlines = DeadlineCounts::default();
        if let Some(mut replay) = self.replay.take() {
            replay.schedule.ended();
            agrees = replay.agrees;
            deadlines = replay.schedule.counts();
        }
        let voids = self.voids(window, supremum, ending, clocks, agrees && deadlines.balance());
        let ppm = |part: u128, whole: u128| {
            let ppm = part.saturating_mul(1_000_000).checked_div(whole)?;
            u64::try_from(ppm).ok()
        };
        let points = self.points;
        let figures = Figures {
            t0_boottime_ns: window.map(|window| window.t0),
            duration_ms: window.map(|window| window.duration),
            points_required: window.map(|window| window.points()),
            points_available: points.available,
            max_sample_age_ms: points.age_max,
            max_sample_age_sup_ms: supremum,
            mean_sample_age_ms: points
                .age_sum_ns
                .checked_div(u128::from(points.ages))
                .and_then(|mean| u64::try_from(mean).ok())
                .map(Length),
            stale_point_count: points.stale.count,
            no_sample_point_count: points.none.count,
            gpu_sample_count: self.samples,
            gpu_probe_count: self.probes,
            deadlines,
            gpu_query_error_count: self.errors,
            probe_duration_ms: self.durations.spread(),
            probe_duty_cycle_ppm: window.and_then(|window| {
                let flight = ending.and_then(|ending| Some((ending.in_flight_since?, ending.at)));
                let flight = flight.map_or(0, |(since, at)| within(window, since, at));
                let taken = u128::from(self.within_ns.saturating_add(flight));
                ppm(taken, u128::from(window.duration.0))
            }),
            recovery_rate_ppm: ppm(u128::from(deadlines.recovery), u128::from(self.probes)),
            field_duration_ms: self
                .fields
                .iter()
                .map(|(name, fold)| {
                    (*name, FieldCost { count: fold.count(), duration_ms: fold.spread() })
                })
                .collect(),
            effective_interval_ms: self.intervals.spread(),
            wake_late_ms: self.wake.spread(),
            recorder_cpu_ppm: None,
            wall_clock_step_ms: Some(Length(clocks.wall_step_us.saturating_mul(1_000))),
            suspend_ms: Some(clocks.suspend),
            probe_in_flight_at_end_ms: ending.and_then(Ending::in_flight),
            stopped_early: ending.is_some_and(|ending| ending.cause == EndCause::Stopped),
        };
        (figures, voids)
    }

    fn voids(
        &self,
        window: Option<Window>,
        supremum: Option<Length>,
        ending: Option<Ending>,
        clocks: &ClockFold,
        agrees: bool,
    ) -> Vec<Void> {
        let mut voids = Vec::new();
        let mut once = |condition: bool, reason| {
            if condition {
                voids.push(Void { reason, count: 1, first_point: None });
            }
        };
        let cap = self.settings.cap;
        let both = self.settings.age_gate == AgeGate::Both;
        once(both && supremum.is_some_and(|age| age > cap), VoidReason::AgeSupOverCap);
        once(window.is_none(), VoidReason::NoFirstSample);
        once(window.is_some() && self.points.fresh == 0, VoidReason::AllSamplesStale);
        let is_stuck = |ending: Ending| {
            ending.in_flight().is_some_and(|flight| flight > self.settings.hard_timeout)
        };
        once(ending.is_some_and(is_stuck), VoidReason::ProbeStuck);
        once(clocks.suspend > Length::default(), VoidReason::SuspendDetected);
        once(clocks.went_back || self.went_back, VoidReason::ClockUnusable);
        once(!agrees, VoidReason::SampleAccountingMismatch);
        once(ending.is_none(), VoidReason::Incomplete);
        let ended_by = |cause| ending.is_some_and(|ending: Ending| ending.cause == cause);
        if ended_by(EndCause::DeviceLost) || self.lost > 0 {
            let count = self.lost.max(1);
            voids.push(Void { reason: VoidReason::DeviceLost, count, first_point: None });
        }
        if let Some(ending) = ending.filter(|ending| ending.rows_not_written > 0) {
            let count = ending.rows_not_written;
            voids.push(Void { reason: VoidReason::Incomplete, count, first_point: None });
        }
        self.points.stale.say(VoidReason::AgeOverCap, &mut voids);
        self.points.missing.say(VoidReason::PointsMissing, &mut voids);
        self.points.required.say(VoidReason::RequiredFieldMissing, &mut voids);
        voids.sort_unstable_by_key(|void| void.reason);
        voids
    }
}
