//! Memory held: the third meter, in bytes times milliseconds.
//!
//! ```text
//! sampler (a thread per GPU) ─► host names who ─► meter ─► stretches ─► journal ─► bill
//! ```
//!
//! Purpose: the integral of each process's device memory over samples whose age is gated, on the grid of
//! milliseconds that bills are drawn on, in stretches that never cross a quarter of an hour of UTC. May touch:
//! nothing. May not: read a clock or a driver; interpolate; carry a number beyond its cap; spread what no
//! process explains.
//!
//! # Words
//! - **held**: from the landing of one sample to that of the next a process holds what the first one showed; so
//!   the figure is as near to the truth as the period, and what lives for less may never be seen.
//! - **cap**: the period and [`BEYOND_PERIOD`]. A sample that gets older is over its age: what it showed counts
//!   up to the cap, and the time until the next landing is not covered.
//! - **batch**: one GPU × one clock hour of UTC. One over-age sample voids it, and every hour that the stall
//!   touches: what was held in it is UNKNOWN, of the size of the time that each holder was seen.
//! - **stretch**: what is journaled: a quarter of such an hour, or the part of it that was covered. So days of
//!   every time zone add up to the byte, and a crash loses a quarter at most.
//! - **unattributed**: used memory that no process of the list explains, the driver's own included. Where the list
//!   says more than is used, that is the **excess**. Used + excess = processes + unattributed, in every stretch.
//!
//! # Clocks
//! Ages and lengths are of `CLOCK_BOOTTIME`; hours are of the wall clock as it showed them. A step of the wall
//! clock ends a stretch: the next one begins where the clock stands then, so an hour that comes twice has both,
//! and one that was jumped over is not covered. A step voids nothing, as no age rests on that clock.

mod hours;
mod meter;
#[cfg(test)]
mod tests;

pub use hours::Hours;
pub use meter::{Meter, Seen, Tallied};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::attribution::Labels;
use crate::identity::Basis;
use crate::residency::moment::Length;
use crate::residency::verdict::VoidReason;
use crate::settlement::Account;
use crate::unit::{BootNs, GpuUuid, Pid, WallUs};

/// Milliseconds of a batch: an hour of UTC.
pub const HOUR_MS: u64 = 3_600_000;
/// Milliseconds of a stretch at most: time zones differ by quarters of an hour.
pub const SLOT_MS: u64 = HOUR_MS / 4;
/// By how much a sample may be older than the period: the longest lone stall of the driver that voids nothing, as
/// long as that of a curve (`residency::settings`).
pub const BEYOND_PERIOD: Length = Length::of_ms(550);
/// How often memory is sampled unless something else is configured.
pub const PERIOD_DEFAULT: Duration = Duration::from_secs(5);
/// The longest period: a sample older than that says little of a moment.
pub const PERIOD_MAX: Duration = Duration::from_mins(1);
/// Holders of one GPU in one stretch that are kept apart. What further ones held stands in one sum.
pub const HOLDERS_MAX: usize = 256;

/// The hour in which a millisecond since 1970 lies, as its first one.
#[must_use]
pub const fn hour_of(ms: u64) -> u64 {
    ms.saturating_sub(ms % HOUR_MS)
}

/// Bytes of device memory × milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteMs(pub u128);

impl ByteMs {
    /// In GiB × seconds.
    const PER_GIB_S: u128 = (1 << 30) * 1_000;

    /// So many bytes for so many milliseconds.
    #[must_use]
    pub fn of(bytes: u64, ms: u64) -> Self {
        // Two 64-bit factors never leave 128 bits.
        Self(u128::from(bytes).saturating_mul(u128::from(ms)))
    }

    /// The sum. Saturates where no sum of real GPUs gets in the age of the universe.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// In whole GiB·s, and thousandths of one, both cut.
    #[must_use]
    pub const fn gib_s(self) -> (u128, u128) {
        let thousandths = self.0 / (Self::PER_GIB_S / 1_000);
        (thousandths / 1_000, thousandths % 1_000)
    }
}

impl std::fmt::Display for ByteMs {
    /// `12.345`: GiB·s, cut to three digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, thousandths) = self.gib_s();
        f.pad(&format!("{whole}.{thousandths:03}"))
    }
}

/// Why hours are void, each reason with how often.
pub type Voids = BTreeMap<VoidReason, u64>;

/// Adds further reasons.
pub fn add_voids(sum: &mut Voids, more: impl IntoIterator<Item = (VoidReason, u64)>) {
    for (reason, count) in more {
        let counted = sum.entry(reason).or_insert(0);
        *counted = counted.saturating_add(count);
    }
}

/// `age_sup_over_cap 1, device_lost 3`.
#[must_use]
pub fn voids_said(voids: impl IntoIterator<Item = (VoidReason, u64)>) -> String {
    let each = voids.into_iter().map(|(reason, count)| format!("{reason} {count}"));
    each.collect::<Vec<_>>().join(", ")
}

/// How memory is sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// From one deadline to the next.
    pub period: Length,
    /// The greatest age.
    pub cap: Length,
}

impl Pace {
    /// At this period.
    #[must_use]
    pub fn of(period: Duration) -> Self {
        let period = Length(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX));
        Self { period, cap: period.plus(BEYOND_PERIOD) }
    }
}

/// Who held memory, as it was known when it was sampled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The driver's pid.
    pub pid: Pid,
    /// When the process started; `None` where nobody knows which it is.
    pub start: Option<BootNs>,
    /// On whose line it stands; the reason where nobody can say.
    pub account: Account,
    /// The program, where it is known.
    pub program: Option<Arc<str>>,
    /// The real user id, where it is known.
    pub uid: Option<u32>,
    /// What the name rests on; `None` where there is no name.
    pub basis: Option<Basis>,
    /// Further lines it can be billed by, as (dimension, value), ascending.
    pub labels: Labels,
}

/// What one holder held in a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Memory over the time for which the driver told it.
    pub memory: ByteMs,
    /// That time.
    pub known_ms: u64,
    /// Time in which it was listed and the driver did not say with how much.
    pub unsaid_ms: u64,
}

impl Held {
    fn add(&mut self, bytes: Option<u64>, ms: u64) {
        match bytes {
            Some(bytes) => {
                self.memory = self.memory.plus(ByteMs::of(bytes, ms));
                self.known_ms = self.known_ms.saturating_add(ms);
            }
            None => self.unsaid_ms = self.unsaid_ms.saturating_add(ms),
        }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory.plus(other.memory),
            known_ms: self.known_ms.saturating_add(other.known_ms),
            unsaid_ms: self.unsaid_ms.saturating_add(other.unsaid_ms),
        }
    }

    /// For how long it was listed.
    #[must_use]
    pub const fn listed_ms(self) -> u64 {
        self.known_ms.saturating_add(self.unsaid_ms)
    }
}

/// A holder and what it held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Who.
    pub holder: Holder,
    /// How much, and for how long.
    pub held: Held,
}

/// Holders beyond [`HOLDERS_MAX`], in one sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beyond {
    /// The most of them that one sample showed.
    pub holders: u64,
    /// What they held: the times are those of each, added up.
    pub held: Held,
}

/// The device's own figures in a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// Memory in use.
    pub used: ByteMs,
    /// Of it, what no process of the list explains.
    pub unattributed: ByteMs,
    /// What the list said beyond what is in use.
    pub excess: ByteMs,
}

/// How the samples of a stretch came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sampling {
    /// Samples that landed in it.
    pub samples: u64,
    /// Passes that brought none.
    pub failed: u64,
    /// Samples that were taken at once after an overrun.
    pub recoveries: u64,
    /// The greatest age that any sample had in it, at any instant: no point of any grid has a greater one.
    pub age_max: Length,
}

/// A covered part of a quarter of an hour of one GPU: what is journaled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// From when, a whole millisecond of the wall clock.
    pub from: WallUs,
    /// To when.
    pub to: WallUs,
    /// How it was sampled.
    pub pace: Pace,
    /// How the samples came.
    pub sampling: Sampling,
    /// The device.
    pub device: Device,
    /// Who held it, in the order they were first seen.
    pub holders: Vec<Holding>,
    /// Those without room.
    pub beyond: Option<Beyond>,
    /// What voids the hour that it lies in, each with how often; empty: nothing here.
    pub voids: Vec<(VoidReason, u64)>,
    /// The wall clock was set at its end.
    pub is_cut_by_step: bool,
}

impl Stretch {
    /// The hour that it belongs to, in ms since 1970.
    #[must_use]
    pub const fn hour_ms(&self) -> u64 {
        hour_of(self.from.ms())
    }

    /// What all processes held together, those without room included.
    #[must_use]
    pub fn processes(&self) -> ByteMs {
        let beyond = self.beyond.iter().map(|beyond| beyond.held.memory);
        let all = self.holders.iter().map(|holding| holding.held.memory).chain(beyond);
        all.fold(ByteMs::default(), ByteMs::plus)
    }

    /// Whether used + excess = processes + unattributed.
    #[must_use]
    pub fn closes(&self) -> bool {
        let Device { used, unattributed, excess } = self.device;
        used.plus(excess) == self.processes().plus(unattributed)
    }
}
