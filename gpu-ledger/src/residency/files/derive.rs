//! From raw rows to points, figures and reasons: one pass, in constant memory.
//!
//! The recorder calls this when a window has ended, whoever verifies or draws it at any later time.

use std::path::Path;

use serde::Serialize;

use super::error::FilesError;
use super::recorded::Recorded;
use super::rows::{BesidePoints, Rows, RowsRead, last};
use super::seed::Seed;
use super::{EVENTS, Labels, SAMPLES, WallAnchor};
use crate::residency::events::{
    ClockFold, CpuFold, CpuInvalid, CpuPoint, EndCause, Event, MarksSeen,
};
use crate::residency::moment::Length;
use crate::residency::sample::Sample;
use crate::residency::settings::{DURATION_MAX, Settings};
use crate::residency::tally::{Ending, Figures, Tally};
use crate::residency::timeline::Point;
use crate::residency::verdict::{Backend, Verdict, Void, VoidReason};
use crate::unit::{BootNs, WallUs};

/// A point with everything that stands beside it.
#[derive(Clone, Copy, Debug)]
pub struct CurvePoint<'point> {
    /// The GPU's side.
    pub point: &'point Point<'point>,
    /// The processor's.
    pub cpu: CpuPoint,
}

/// How the command that was recorded ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CommandStatus {
    /// Its exit status; null where a signal ended it.
    pub status: Option<i32>,
    /// The signal; null where it exited.
    pub signal: Option<i32>,
}

/// How the processor's ticks were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CpuFigures {
    /// Points at which they were.
    pub cpu_samples_total: u64,
    /// Points whose share is known: the first never is.
    pub cpu_samples_aggregated: u64,
    /// Points at which they were read later than the next point.
    pub cpu_samples_late: u64,
}

/// How a window ended, beside its figures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowEnd {
    /// When that was decided.
    pub at: BootNs,
    /// Why.
    pub cause: EndCause,
    /// Whether somebody asked for it, or that nothing more be recorded.
    pub is_asked_for: bool,
    /// The phases that were marked until then; `None` where they could not be read.
    pub marks: Option<MarksSeen>,
}

/// Everything that follows from the raw rows of a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Derived {
    /// Its number, as its first row says.
    pub number: Option<u64>,
    /// What it is of.
    pub labels: Option<Labels>,
    /// What its batch was opened with.
    pub recorded_with: Option<Recorded>,
    /// How it ended; `None`: it has no end.
    pub end: Option<WindowEnd>,
    /// The three keys.
    pub seed: Seed,
    /// Its figures.
    pub figures: Figures,
    /// The processor's.
    pub cpu: CpuFigures,
    /// How the command ended, where one was run and did.
    pub command: Option<CommandStatus>,
    /// Whether the kernel denied its probing threads to start a program.
    pub exec_denied: bool,
    /// When its recording began: the first reading of the clocks.
    pub began_at: Option<BootNs>,
    /// What the clocks showed last.
    pub last_anchor: Option<WallAnchor>,
    /// What the wall clock showed at T0, by the last reading of the clocks before it.
    pub t0_wall: Option<WallUs>,
    /// What the window is void for; empty: nothing.
    pub voids: Vec<Void>,
    /// The file of samples.
    pub samples: RowsRead,
    /// The file of events.
    pub events: RowsRead,
}

/// What a walk over raw rows comes by.
#[derive(Clone, Copy, Debug)]
pub enum Walked<'walk> {
    /// A sample, before the points that it decides.
    Sample(&'walk Sample),
    /// A point.
    Point(&'walk CurvePoint<'walk>),
}

/// Walks the raw rows of a window's folder, and gives each point to `emit`.
pub fn derive(
    folder: &Path,
    settings: &Settings,
    mut emit: impl FnMut(&CurvePoint<'_>) -> Result<(), FilesError>,
) -> Result<Derived, FilesError> {
    walk(folder, settings, (Rows::open, Rows::open), |walked| match walked {
        Walked::Sample(_) => Ok(()),
        Walked::Point(point) => emit(point),
    })
}

/// Walks the raw rows of a window of a batch that was proven, for whoever draws it or computes with it.
pub fn walk_proven(
    folder: &Path,
    settings: &Settings,
    emit: impl FnMut(Walked<'_>) -> Result<(), FilesError>,
) -> Result<(), FilesError> {
    walk(folder, settings, (Rows::of_proven, Rows::of_proven), emit).map(drop)
}

/// Events of a window of a batch that was proven, but for those of its points.
pub fn events_beside_points(folder: &Path, mut emit: impl FnMut(&Event)) -> Result<(), FilesError> {
    let mut rows = Rows::<BesidePoints>::of_proven(&folder.join(EVENTS))?;
    while let Some(BesidePoints(event)) = rows.row()? {
        event.iter().for_each(&mut emit);
    }
    Ok(())
}

/// How a file of rows is opened.
type Open<T> = fn(&Path) -> Result<Rows<T>, FilesError>;

fn walk(
    folder: &Path,
    settings: &Settings,
    (open_samples, open_events): (Open<Sample>, Open<Event>),
    mut emit: impl FnMut(Walked<'_>) -> Result<(), FilesError>,
) -> Result<Derived, FilesError> {
    let (samples, events) = (folder.join(SAMPLES), folder.join(EVENTS));
    let end = match last::<Event>(&events)? {
        Some(Event::End {
            at_ns,
            cause,
            duration_ns,
            in_flight_since_ns,
            rows_not_written,
            ..
        }) => {
            let in_flight_since = in_flight_since_ns;
            let ending = Ending { cause, at: at_ns, in_flight_since, rows_not_written };
            Some((ending, duration_ns.map(Length)))
        }
        _ => None,
    };
    let duration = match end {
        Some((_, duration)) => duration,
        None => until_the_last_sample(&samples)?,
    };
    let mut beside =
        Beside::new(open_events(&events)?, settings, duration, end.map(|(ending, _)| ending.at));
    let mut tally = Tally::new(settings, duration);
    let mut failure = None;
    let mut rows = open_samples(&samples)?;
    while let Some(sample) = rows.row()? {
        emit(Walked::Sample(&sample))?;
        tally.sample(sample, |point| step(point, &mut beside, &mut emit, &mut failure));
        failure.take().map_or(Ok(()), Err)?;
    }
    tally.rest(|point| step(point, &mut beside, &mut emit, &mut failure));
    failure.map_or(Ok(()), Err)?;
    let samples = rows.finish()?;
    let beside = beside.finish()?;
    let ending = end.map(|(ending, _)| ending);
    let (figures, voids) = tally.finish(ending, &beside.clocks, |_| {});
    Ok(beside.derived(figures, voids, samples))
}

/// The next point, unless an earlier one failed.
fn step(
    point: &Point<'_>,
    beside: &mut Beside<'_>,
    emit: &mut impl FnMut(Walked<'_>) -> Result<(), FilesError>,
    failure: &mut Option<FilesError>,
) {
    if failure.is_none() {
        let stepped =
            beside.at(point).and_then(|cpu| emit(Walked::Point(&CurvePoint { point, cpu })));
        *failure = stepped.err();
    }
}

/// How long a window was that has no end: as far as samples reach.
fn until_the_last_sample(path: &Path) -> Result<Option<Length>, FilesError> {
    let Some(end) = last::<Sample>(path)?.map(|sample| sample.completed()) else { return Ok(None) };
    for sample in Rows::<Sample>::open(path)? {
        if let Some(t0) = sample?.landed_at_ns {
            return Ok(end.since(t0).map(Length));
        }
    }
    Ok(None)
}

#[derive(Clone, Copy, Debug)]
struct CpuRow {
    j: u64,
    at: BootNs,
    busy: u64,
    total: u64,
}

/// The events of a window, read beside its points.
struct Beside<'settings> {
    rows: Rows<Event>,
    settings: &'settings Settings,
    duration: Option<Length>,
    decided: Option<BootNs>,
    /// T0 and the end of the window, from its first point on.
    window: Option<(BootNs, BootNs)>,
    cpu: CpuFold,
    next: Option<CpuRow>,
    last_j: Option<u64>,
    facts: Facts,
}

/// What events say.
#[derive(Default)]
struct Facts {
    begin: Option<(u64, Labels, Recorded)>,
    end: Option<WindowEnd>,
    /// Who was asked, children beside the command, and whether probing threads were denied to start programs.
    backend: Option<(Backend, u64, bool)>,
    command: Option<CommandStatus>,
    clocks: ClockFold,
    /// The last anchor not after T0, until one comes after it.
    before: Option<(BootNs, u64, WallUs)>,
    began_at: Option<BootNs>,
    last_anchor: Option<WallAnchor>,
    t0_wall: Option<WallUs>,
    /// CPU time of the recorder when it was told first, and last.
    recorder_cpu: Option<((BootNs, u64), (BootNs, u64))>,
    is_beginning_covered: bool,
    is_end_covered: bool,
    is_over: bool,
    figures: CpuFigures,
    late: Option<(u64, u64)>,
    unknown: Option<(u64, u64)>,
}

/// The facts, when all events are read.
struct Told {
    facts: Facts,
    clocks: ClockFold,
    events: RowsRead,
    cpu_required: bool,
    has_window: bool,
}

impl<'settings> Beside<'settings> {
    fn new(
        rows: Rows<Event>,
        settings: &'settings Settings,
        duration: Option<Length>,
        decided: Option<BootNs>,
    ) -> Self {
        let (cpu, facts) = (CpuFold::default(), Facts::default());
        let (window, next, last_j) = (None, None, None);
        Self { rows, settings, duration, decided, window, cpu, next, last_j, facts }
    }

    /// The processor's share at a point; points come in their order.
    fn at(&mut self, point: &Point<'_>) -> Result<CpuPoint, FilesError> {
        self.begin(point)?;
        while self.next.is_none_or(|row| row.j < point.j) {
            self.next = self.read_cpu()?;
            if self.next.is_none() {
                break;
            }
        }
        let row = self.next.take_if(|row| row.j == point.j);
        let share = match row {
            Some(row) => {
                let is_late = row.at > point.t.plus_ns(self.settings.timeline_period.0);
                self.cpu.row(row.j, is_late, row.busy, row.total)
            }
            None => self.cpu.none(),
        };
        self.facts.share(point.j, row.is_some(), share);
        Ok(share)
    }

    /// The first point is T0.
    fn begin(&mut self, point: &Point<'_>) -> Result<(), FilesError> {
        let (None, Some(duration)) = (self.window, self.duration) else { return Ok(()) };
        let end = point.t.plus_ns(duration.0);
        if duration > DURATION_MAX || self.decided.is_some_and(|decided| end > decided) {
            return Err(self.rows.wrong("the window is longer than it was recorded"));
        }
        self.window = Some((point.t, end));
        Ok(())
    }

    fn read_cpu(&mut self) -> Result<Option<CpuRow>, FilesError> {
        while let Some(event) = self.rows.row()? {
            if self.facts.is_over {
                return Err(self.rows.wrong("a row after the end"));
            }
            if let Event::Cpu { j, at_ns, busy_ticks, total_ticks } = event {
                if self.last_j.replace(j).is_some_and(|last| j <= last) {
                    return Err(self.rows.wrong("points out of their order"));
                }
                return Ok(Some(CpuRow { j, at: at_ns, busy: busy_ticks, total: total_ticks }));
            }
            let is_begin = matches!(event, Event::Begin { .. });
            if is_begin == self.facts.begin.is_some() {
                return Err(self.rows.wrong("a window has one beginning, and it is the first row"));
            }
            self.facts.event(event, self.window);
        }
        Ok(None)
    }

    fn finish(mut self) -> Result<Told, FilesError> {
        while self.read_cpu()?.is_some() {}
        let cpu_required = self.settings.cpu_required;
        let (has_window, clocks) = (self.window.is_some(), self.facts.clocks);
        let events = self.rows.finish()?;
        Ok(Told { facts: self.facts, clocks, events, cpu_required, has_window })
    }
}

impl Facts {
    fn event(&mut self, event: Event, window: Option<(BootNs, BootNs)>) {
        match event {
            Event::Begin { iteration, labels, recorded_with } => {
                self.begin = Some((iteration, labels, recorded_with));
            }
            Event::Backend { backend, subprocesses, exec_denied, .. } => {
                self.backend = Some((backend, subprocesses, exec_denied));
            }
            Event::CommandEnded { status, signal, .. } => {
                self.command = Some(CommandStatus { status, signal });
            }
            Event::Anchor { boot_ns, mono_ns, wall_us } => {
                self.anchor((boot_ns, mono_ns, wall_us), window);
            }
            Event::RecorderCpu { at_ns, cpu_ns } => {
                let told = (at_ns, cpu_ns);
                self.recorder_cpu =
                    Some((self.recorder_cpu.map_or(told, |(first, _)| first), told));
            }
            Event::End { at_ns, cause, interrupted, marks, .. } => {
                let is_asked_for = interrupted || cause == EndCause::Stopped;
                self.end = Some(WindowEnd { at: at_ns, cause, is_asked_for, marks });
                self.is_over = true;
            }
            // Rows of processes and phases are for those who draw; a stuck probe is in the last row.
            Event::Cpu { .. }
            | Event::Process { .. }
            | Event::Mark { .. }
            | Event::Stuck { .. } => {}
        }
    }

    /// What the clocks did outside the window is not the curve's business; from the last anchor before T0 to
    /// the first after its end it may have been inside.
    fn anchor(&mut self, anchor: (BootNs, u64, WallUs), window: Option<(BootNs, BootNs)>) {
        let (boottime_ns, _, realtime_us) = anchor;
        if self.last_anchor.is_some_and(|last| boottime_ns < last.boottime_ns) {
            self.clocks.went_back = true;
        }
        self.began_at.get_or_insert(boottime_ns);
        self.last_anchor = Some(WallAnchor { boottime_ns, realtime_us });
        let mut fold = |(boot, mono, wall)| self.clocks.anchor(boot, mono, wall);
        match window {
            Some((t0, end)) if boottime_ns > t0 => {
                if let Some(before) = self.before.take() {
                    let (boot, _, wall) = before;
                    self.t0_wall =
                        t0.since(boot).map(|ns| WallUs(wall.0.saturating_add(ns / 1_000)));
                    fold(before);
                    self.is_beginning_covered = true;
                }
                if !self.is_end_covered {
                    fold(anchor);
                }
                self.is_end_covered |= boottime_ns >= end;
            }
            _ => self.before = Some(anchor),
        }
    }

    /// What recording took of one core, in millionths.
    fn recorder_cpu_ppm(&self) -> Option<u64> {
        let ((from, before), (to, after)) = self.recorder_cpu?;
        let (passed, used) = (to.since(from)?, after.checked_sub(before)?);
        let ppm = u128::from(used).saturating_mul(1_000_000).checked_div(u128::from(passed))?;
        u64::try_from(ppm).ok()
    }

    fn share(&mut self, j: u64, is_read: bool, share: CpuPoint) {
        let count = |noted: &mut Option<(u64, u64)>| {
            let (number, first) = noted.unwrap_or((0, j));
            *noted = Some((number.saturating_add(1), first));
        };
        let figures = &mut self.figures;
        figures.cpu_samples_total = figures.cpu_samples_total.saturating_add(u64::from(is_read));
        match share.invalid {
            None => {
                figures.cpu_samples_aggregated = figures.cpu_samples_aggregated.saturating_add(1);
            }
            Some(CpuInvalid::Late) => {
                figures.cpu_samples_late = figures.cpu_samples_late.saturating_add(1);
                count(&mut self.late);
            }
            Some(CpuInvalid::NotRead | CpuInvalid::NoTick) => count(&mut self.unknown),
            // Nothing was there to compare with: the window's beginning, or what already counted.
            Some(CpuInvalid::FirstSampleNoBaseline) => {}
        }
    }
}

impl Told {
    fn derived(self, mut figures: Figures, mut voids: Vec<Void>, samples: RowsRead) -> Derived {
        let Self { facts, events, .. } = self;
        let mut note = |reason, noted: Option<(u64, u64)>| {
            if let Some((count, first)) = noted {
                voids.push(Void { reason, count, first_point: Some(first) });
            }
        };
        if self.cpu_required {
            note(VoidReason::TimelineLate, facts.late);
            note(VoidReason::RequiredFieldMissing, facts.unknown);
        }
        // Nobody can say of a window outside the anchors whether the machine slept in it.
        let is_covered = facts.is_beginning_covered && facts.is_end_covered;
        let is_uncovered = self.has_window && !is_covered;
        figures.wall_clock_step_ms = figures.wall_clock_step_ms.filter(|_| is_covered);
        figures.suspend_ms = figures.suspend_ms.filter(|_| is_covered);
        figures.recorder_cpu_ppm = facts.recorder_cpu_ppm();
        let torn = [&samples.torn, &events.torn].into_iter().flatten().count();
        let holes = [is_uncovered, facts.begin.is_none()].into_iter().filter(|hole| *hole).count();
        let count = u64::try_from(torn.saturating_add(holes)).unwrap_or(u64::MAX);
        if count > 0 {
            voids.push(Void { reason: VoidReason::Incomplete, count, first_point: None });
        }
        let (number, labels, recorded_with) = match facts.begin {
            Some((number, labels, recorded)) => (Some(number), Some(labels), Some(recorded)),
            None => (None, None, None),
        };
        let seed = Seed {
            gpu_telemetry_backend: facts.backend.map(|(backend, ..)| backend),
            gpu_cli_subprocess_used: facts.backend.map(|(_, count, _)| count > 0),
            gpu_deadline_recovery_count: Some(figures.deadlines.recovery),
        };
        Derived {
            number,
            labels,
            recorded_with,
            end: facts.end,
            seed,
            figures,
            cpu: facts.figures,
            command: facts.command,
            exec_denied: facts.backend.is_some_and(|(_, _, is_denied)| is_denied),
            began_at: facts.began_at,
            last_anchor: facts.last_anchor,
            t0_wall: facts.t0_wall,
            voids: Verdict::merged([voids]),
            samples,
            events,
        }
    }
}
