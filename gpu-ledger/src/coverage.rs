//! When and what could be seen.
//!
//! Purpose: the interval in which process events were received, and every gap in it, as values.
//! May touch: nothing. May not: forget a gap or merge two of different cause.

use crate::clock::Stamp;
use crate::unit::{BootNs, GpuUuid};
use crate::unknown::GapCause;

/// An interval that could not be seen, with its cause and what is known of its size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Why.
    pub cause: GapCause,
    /// Which GPU's rows are in doubt; `None` where it is about process events, hence every GPU.
    pub gpu: Option<GpuUuid>,
    /// Last moment that was still seen.
    pub from: Stamp,
    /// First moment that was seen again. Of a gap in process events that is the end of the procfs scan
    /// which it provoked: by then everything that lives on is known again, with its image.
    pub to: Stamp,
    /// How many events or rows: `None` where even that is not known.
    pub size: Option<u64>,
}

impl Gap {
    /// Whether rows, and so holders, may be missing in it.
    #[must_use]
    pub const fn hides_rows(&self) -> bool {
        match self.cause {
            GapCause::AgentDown
            | GapCause::RowsPossiblyEvicted
            | GapCause::ClearedOrReset
            | GapCause::RowOverwritten
            | GapCause::RowVanished
            | GapCause::AccountingOff
            | GapCause::EpochBroken
            | GapCause::Released
            | GapCause::DiskFull
            | GapCause::NvmlCallTimeout => true,
            // Of a GPU: rows of it had no room, and never came again. Of none: only names went.
            GapCause::QueueOverflow => self.gpu.is_some(),
            GapCause::EventLost => false,
        }
    }

    /// Whether process events, or what was known by them, may be missing in it (and not driver rows, which are
    /// a GPU's).
    #[must_use]
    pub const fn blinds_processes(&self) -> bool {
        match self.cause {
            GapCause::AgentDown | GapCause::EventLost | GapCause::QueueOverflow => {
                self.gpu.is_none()
            }
            GapCause::RowsPossiblyEvicted
            | GapCause::ClearedOrReset
            | GapCause::RowOverwritten
            | GapCause::RowVanished
            | GapCause::AccountingOff
            | GapCause::EpochBroken
            | GapCause::Released
            | GapCause::DiskFull
            | GapCause::NvmlCallTimeout => false,
        }
    }
}

/// The interval in which process events were received.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// From this moment every exec, fork and exit was received, but for the gaps, and what lived then
    /// had been read from procfs: the end of the first scan, not the moment of attaching.
    pub start: Stamp,
    /// Up to this moment.
    pub end: Stamp,
    /// Everything in between that was not seen, in the order it was found.
    pub gaps: Vec<Gap>,
}

impl Coverage {
    /// Whether a process event at `at` would have been received: inside, and in no gap of events.
    #[must_use]
    pub fn sees_processes_at(&self, at: BootNs) -> bool {
        self.start.boot <= at && at <= self.end.boot && self.event_gap_at(at).is_none()
    }

    /// The gap in process events that contains `at`.
    #[must_use]
    pub fn event_gap_at(&self, at: BootNs) -> Option<&Gap> {
        self.event_gap_between(at, at)
    }

    /// The first time after `at` at which no agent ran: what was known at `at` was forgotten then.
    #[must_use]
    pub fn agent_down_after(&self, at: BootNs) -> Option<&Gap> {
        let down = self.gaps.iter().filter(|gap| gap.cause == GapCause::AgentDown);
        down.filter(|gap| at <= gap.to.boot).min_by_key(|gap| gap.from.boot)
    }

    /// The first gap in process events that meets `[from, to]`.
    #[must_use]
    pub fn event_gap_between(&self, from: BootNs, to: BootNs) -> Option<&Gap> {
        self.gaps
            .iter()
            .find(|gap| gap.blinds_processes() && gap.from.boot <= to && from <= gap.to.boot)
    }
}
