//! When the next probe begins: a grid of deadlines, and one catch-up after an overrun.
//!
//! Deadlines lie at G + k·P, where G is the beginning of the first probe. A probe that is still in flight
//! when the next deadline comes is followed at once by another, not at the following grid point: waiting
//! for that would stretch a stall of 512 ms into an interval of 756. All deadlines it overran become that
//! one catch-up, and the grid keeps its phase. Pure: the moments are given.

use super::counts::DeadlineCounts;
use super::moment::Length;
use crate::unit::BootNs;

/// The deadlines of one iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Schedule {
    origin: BootNs,
    period: Length,
    /// The deadline that the next probe serves.
    k: u64,
    /// The next probe begins at once.
    recovery: bool,
    counts: DeadlineCounts,
}

/// Which probe is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// The deadline it serves.
    pub k: u64,
    /// When that is; a catch-up's has passed.
    pub deadline: BootNs,
    /// Whether it is a catch-up, which does not wait.
    pub recovery: bool,
}

impl Schedule {
    /// A grid that begins with a probe at `origin`.
    #[must_use]
    pub const fn new(origin: BootNs, period: Length) -> Self {
        let counts = DeadlineCounts { recovery: 0, missed: 0, coalesced: 0, cut: 0 };
        Self { origin, period, k: 0, recovery: false, counts }
    }

    /// The probe to make next.
    #[must_use]
    pub const fn due(&self) -> Due {
        let deadline = self.origin.plus_ns(self.k.saturating_mul(self.period.0));
        Due { k: self.k, deadline, recovery: self.recovery }
    }

    /// It really begins: only now a catch-up counts.
    pub const fn begun(&mut self) {
        if self.recovery {
            self.counts.recovery = self.counts.recovery.saturating_add(1);
        }
    }

    /// Its last field was read at `completed`. Exactly on the next deadline is on time.
    pub const fn completed(&mut self, completed: BootNs) {
        let next = self.k.saturating_add(1);
        let since_origin = completed.0.saturating_sub(self.origin.0);
        if since_origin <= next.saturating_mul(self.period.0) {
            self.k = next;
            self.recovery = false;
            return;
        }
        // Deadlines in (d_k, completed]: at least one. A period is never 0 (settings.rs).
        let passed = match since_origin.checked_div(self.period.0) {
            Some(passed) => passed.saturating_sub(self.k),
            None => 1,
        };
        self.counts.missed = self.counts.missed.saturating_add(passed);
        self.counts.coalesced = self.counts.coalesced.saturating_add(passed.saturating_sub(1));
        self.k = self.k.saturating_add(passed);
        self.recovery = true;
    }

    /// The window ended before the probe that was due.
    pub const fn ended(&mut self) {
        if self.recovery {
            self.counts.cut = 1;
        }
    }

    /// How the deadlines fared so far.
    #[must_use]
    pub const fn counts(&self) -> DeadlineCounts {
        self.counts
    }
}
