//! The timeline: points on a grid from the first landing, and the sample each of them holds.
//!
//! A pure, streaming function of the raw samples, T0, Q and D: constant memory whatever the length. Never
//! a later sample, never something in between.

use super::moment::Length;
use super::sample::{FieldName, Sample};
use super::settings::Settings;
use crate::unit::BootNs;

/// The points of one iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The landing of the first sample, where the timeline starts.
    pub t0: BootNs,
    /// From point to point; never 0.
    pub timeline_period: Length,
    /// How long it lasts.
    pub duration: Length,
}

impl Window {
    /// N: both ends are points.
    #[must_use]
    pub const fn points(&self) -> u64 {
        match self.duration.0.checked_div(self.timeline_period.0) {
            Some(whole) => whole.saturating_add(1),
            None => 0,
        }
    }

    /// t of a point.
    #[must_use]
    pub const fn at(&self, j: u64) -> BootNs {
        self.t0.plus_ns(j.saturating_mul(self.timeline_period.0))
    }

    /// Where it ends, which is a point only where D is a multiple of Q.
    #[must_use]
    pub const fn end(&self) -> BootNs {
        self.t0.plus_ns(self.duration.0)
    }
}

/// Why a point is not available.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// No sample had landed.
    NoSample,
    /// The held one is over the cap.
    AgeOverCap,
    /// The held one lacks a required field.
    Required(FieldName),
}

impl Missing {
    /// The word in `timeline.csv`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSample => "no_sample",
            Self::AgeOverCap => "age_over_cap",
            Self::Required(_) => "required_field_missing",
        }
    }
}

/// One point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point<'samples> {
    /// Its number.
    pub j: u64,
    /// Its moment.
    pub t: BootNs,
    /// The sample it holds, whether or not it may be used.
    pub held: Option<&'samples Sample>,
    /// From before the held memory was asked for: the upper bound of the distance.
    pub age: Option<Length>,
    /// From after it: the lower bound.
    pub age_lower: Option<Length>,
    /// Why it is not available; `None`: it is.
    pub missing: Option<Missing>,
}

/// Walks points over samples, given in the order they were taken.
#[derive(Debug)]
pub struct Timeline<'settings> {
    window: Window,
    settings: &'settings Settings,
    held: Option<Sample>,
    j: u64,
}

impl<'settings> Timeline<'settings> {
    /// The points of `window`.
    #[must_use]
    pub const fn new(window: Window, settings: &'settings Settings) -> Self {
        Self { window, settings, held: None, j: 0 }
    }

    /// The next sample. Points before its landing hold the one before it, and are given to `emit`.
    pub fn push(&mut self, sample: Sample, mut emit: impl FnMut(&Point<'_>)) {
        let Some(landed) = sample.landed_at_ns else { return };
        while self.j < self.window.points() && self.window.at(self.j) < landed {
            self.emit(&mut emit);
        }
        self.held = Some(sample);
    }

    /// No sample is left: the points that are hold the last one.
    pub fn finish(mut self, mut emit: impl FnMut(&Point<'_>)) {
        while self.j < self.window.points() {
            self.emit(&mut emit);
        }
    }

    fn emit(&mut self, emit: &mut impl FnMut(&Point<'_>)) {
        emit(&point(self.j, self.window.at(self.j), self.held.as_ref(), self.settings));
        self.j = self.j.saturating_add(1);
    }
}

fn point<'held>(
    j: u64,
    t: BootNs,
    held: Option<&'held Sample>,
    settings: &Settings,
) -> Point<'held> {
    let Some(sample) = held else {
        let missing = Some(Missing::NoSample);
        return Point { j, t, held, age: None, age_lower: None, missing };
    };
    let memory = &sample.fields.memory;
    let age = Length(t.0.saturating_sub(memory.before_ns.0));
    let age_lower = Length(t.0.saturating_sub(memory.after_ns.0));
    let required = settings.required_fields.iter().find(|name| !sample.fields.has(**name));
    let missing = if age > settings.cap {
        Some(Missing::AgeOverCap)
    } else {
        required.copied().map(Missing::Required)
    };
    Point { j, t, held, age: Some(age), age_lower: Some(age_lower), missing }
}

/// The supremum of the age over a window, learned sample by sample.
///
/// An instant before the next sample lands, or the window ends, the held one is as old as it gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Supremum {
    window: Window,
    held_before: Option<BootNs>,
    greatest: Option<Length>,
}

impl Supremum {
    /// Of no sample yet.
    #[must_use]
    pub const fn new(window: Window) -> Self {
        Self { window, held_before: None, greatest: None }
    }

    /// The next sample that landed.
    pub fn landed(&mut self, before_memory: BootNs, landed: BootNs) {
        self.reach(landed.min(self.window.end()));
        if landed <= self.window.end() {
            self.held_before = Some(before_memory);
        }
    }

    /// The supremum, where any sample landed in the window.
    #[must_use]
    pub fn finish(mut self) -> Option<Length> {
        self.reach(self.window.end());
        self.greatest
    }

    fn reach(&mut self, at: BootNs) {
        let Some(before) = self.held_before else { return };
        let age = Length(at.0.saturating_sub(before.0));
        self.greatest = Some(self.greatest.map_or(age, |greatest| greatest.max(age)));
    }
}
