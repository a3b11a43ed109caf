//! The device's utilization samples.
//!
//! The power microcontroller fills a ring of 72 samples in about ten seconds
//! (`ctrl2080perf.h` of 595.45.04); the driver reads what is new in it once a second. Each sample
//! has the engine's busy share over the whole sample interval and **one** pid: that of the process
//! that was active when it was taken.

use std::collections::VecDeque;

use super::{Moment, Pid};
use crate::random::Random;

/// Samples that the ring keeps.
pub const RING_SAMPLES: usize = 72;
/// Microseconds from sample to sample.
pub const SAMPLE_US: u64 = 139_000;
/// Microseconds between the driver's readings of the ring.
pub const TICK_US: u64 = 1_000_000;

/// One sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When, on the monotonic clock.
    pub mono_us: u64,
    /// When, since the epoch.
    pub wall_us: u64,
    /// Whose kernels were running; none while the engine idles.
    pub pid: Option<Pid>,
    /// The engine's busy share over the interval, in hundredths of a percent.
    pub gpu_hundredths: u32,
    /// The memory interface's.
    pub fb_hundredths: u32,
}

/// How much one process asks of the engine at an instant, in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) pid: Pid,
    pub(super) gpu_percent: u32,
    pub(super) fb_percent: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Ring {
    samples: VecDeque<Sample>,
    /// Samples newer than the last tick, not yet folded into entries.
    fresh: usize,
    /// Up to when the device's life has been played, on the monotonic clock.
    played_us: u64,
    /// Busy time since the last sample, in hundredths of a percent times microseconds.
    gpu_busy: u64,
    fb_busy: u64,
    chance: Random,
}

/// What [`Ring::play`] came to.
pub(super) enum Step {
    /// Nothing more to do up to the moment asked for.
    Reached,
    /// A tick: fold these samples into the entries and play on.
    Tick(Vec<Sample>),
}

impl Ring {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            samples: VecDeque::with_capacity(RING_SAMPLES),
            fresh: 0,
            played_us: 0,
            gpu_busy: 0,
            fb_busy: 0,
            chance: Random::seeded(seed),
        }
    }

    /// Plays the device's life up to `now`, or to the next tick before it. Demands have been as
    /// given ever since the last call. `watched` says whether any entry or object exists: a device
    /// that nobody watched is played only as far back as the ring reaches.
    pub(super) fn play(&mut self, now: Moment, demands: &[Demand], watched: bool) -> Step {
        if self.played_us == 0 {
            self.played_us = now.mono_us;
        }
        let ring_us = SAMPLE_US * 73;
        if !watched && now.mono_us.saturating_sub(self.played_us) > ring_us {
            self.played_us = now.mono_us - ring_us;
        }
        let gpu_rate = total_hundredths(demands.iter().map(|demand| demand.gpu_percent));
        let fb_rate = total_hundredths(demands.iter().map(|demand| demand.fb_percent));
        while self.played_us < now.mono_us {
            let sample_at = next_multiple(self.played_us, SAMPLE_US);
            let tick_at = next_multiple(self.played_us, TICK_US);
            let to = sample_at.min(tick_at).min(now.mono_us);
            self.gpu_busy += (to - self.played_us) * gpu_rate;
            self.fb_busy += (to - self.played_us) * fb_rate;
            self.played_us = to;
            if to == sample_at {
                self.take_sample(now, demands);
            }
            if to == tick_at {
                return Step::Tick(self.take_fresh());
            }
        }
        Step::Reached
    }

    fn take_sample(&mut self, now: Moment, demands: &[Demand]) {
        let wall_us = now.wall_us.saturating_sub(now.mono_us.saturating_sub(self.played_us));
        let sample = Sample {
            mono_us: self.played_us,
            wall_us,
            pid: self.active(demands),
            gpu_hundredths: u32::try_from(self.gpu_busy / SAMPLE_US).unwrap_or(u32::MAX),
            fb_hundredths: u32::try_from(self.fb_busy / SAMPLE_US).unwrap_or(u32::MAX),
        };
        (self.gpu_busy, self.fb_busy) = (0, 0);
        if self.samples.len() == RING_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.fresh = (self.fresh + 1).min(RING_SAMPLES);
    }

    /// Which of the busy processes the engine works for at this instant: each in proportion to
    /// what it asks.
    fn active(&mut self, demands: &[Demand]) -> Option<Pid> {
        let total: u64 = demands.iter().map(|demand| u64::from(demand.gpu_percent)).sum();
        if total == 0 {
            return None;
        }
        let mut drawn = self.chance.below(total);
        for demand in demands {
            let share = u64::from(demand.gpu_percent);
            if drawn < share {
                return Some(demand.pid);
            }
            drawn -= share;
        }
        None
    }

    fn take_fresh(&mut self) -> Vec<Sample> {
        let known = self.samples.len().saturating_sub(self.fresh);
        self.fresh = 0;
        self.samples.iter().skip(known).copied().collect()
    }

    pub(super) fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }
}

/// An engine cannot be busier than always.
fn total_hundredths(percents: impl Iterator<Item = u32>) -> u64 {
    percents.map(u64::from).sum::<u64>().min(100) * 100
}

const fn next_multiple(after: u64, step: u64) -> u64 {
    (after / step + 1) * step
}
