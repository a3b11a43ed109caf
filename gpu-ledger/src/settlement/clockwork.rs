//! A row against the clocks: where its end lies, and whether it contradicts them.

use super::Evidence;
use crate::accounting::FinalRow;
use crate::clock::BootPlace;
use crate::unit::{BootNs, Ms, Span, WallUs};
use crate::unknown::{DisputeReason, Observed, UnknownReason};

/// A row's two edges on the boot clock.
#[derive(Clone, Copy)]
pub(super) struct Edges {
    /// The bill's interval, where there is one.
    pub(super) span: Option<Span>,
    /// Where the start lies.
    pub(super) start: Option<BootPlace>,
    /// Where the proven end lies: `time` is floored to the millisecond, so the true one is up to
    /// 1 ms later.
    end: Option<BootPlace>,
}

impl Edges {
    pub(super) fn of(row: &FinalRow, evidence: &Evidence<'_>) -> Self {
        // After a step back the same time lies ahead as well, where no row that is final can reach.
        let place = |wall| match evidence.clock.boot_of(wall)? {
            BootPlace::Twice(first, second) if second > row.seen.ended.boot => {
                Some(BootPlace::Once(first))
            }
            place => Some(place),
        };
        Self {
            span: row.row.start.and_then(|start| Span::of_row(start, row.row.held)),
            start: row.row.start.and_then(place),
            end: wall_end(row).and_then(place),
        }
    }

    /// Both edges, where each lies at exactly one moment.
    pub(super) fn moments(&self) -> Option<(BootNs, BootNs)> {
        match (self.start, self.end) {
            (Some(BootPlace::Once(start)), Some(BootPlace::Once(end))) => Some((start, end)),
            _ => None,
        }
    }

    /// Whether the row contradicts the wall clock. The driver stamps both edges on it
    /// (open-gpu-kernel-modules 595.45.04, `kernel-open/nvidia/os-interface.c`), so a step in between
    /// makes `time` wrong by the step, or wraps it.
    pub(super) fn dispute(&self, row: &FinalRow, evidence: &Evidence<'_>) -> Option<DisputeReason> {
        let start = row.row.start?;
        let read_end = row.seen.ended.wall;
        // Both sides are readings of one clock: no conversion, hence no tolerance.
        let in_future = wall_end(row).is_none_or(|end| end > read_end) || start > read_end;
        let stepped = match self.moments() {
            Some((from, to)) => to < from || evidence.clock.stepped_between(from, to),
            None => true,
        };
        (in_future || stepped).then_some(DisputeReason::ClockStep)
    }

    /// How long the machine slept inside the span.
    pub(super) fn asleep(&self, evidence: &Evidence<'_>) -> Observed<Ms> {
        if self.start.is_none() {
            return Observed::Unknown(UnknownReason::NoStartTime);
        }
        let Some((from, to)) = self.moments() else {
            return Observed::Unknown(UnknownReason::ClockStep);
        };
        match evidence.clock.asleep_between(from, to) {
            Some(asleep) => Observed::Known(asleep),
            None => Observed::Unknown(UnknownReason::SleepNotObserved),
        }
    }
}

fn wall_end(row: &FinalRow) -> Option<WallUs> {
    let held_us = row.row.held.0.checked_mul(1_000)?;
    row.row.start?.0.checked_add(held_us).map(WallUs)
}
