//! Units as types.
//!
//! Purpose: a millisecond cannot be added to a microsecond, a pid is not a count, and no sum
//! overflows in silence. May touch: nothing. May not: read a clock, round for display.
//!
//! The bill's grid is the **millisecond**: the driver reports a span's length in whole milliseconds
//! and its start in microseconds, so every edge is floored to the grid once, when a [`Span`] is made, and
//! all arithmetic after that is exact. What numbers the milliseconds is the boot clock
//! ([`crate::clock::Timeline`]): the wall clock is what the driver stamps rows with and what people
//! read, and orders nothing.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Process id (thread group id) in the **initial** pid namespace, as kernel and driver use it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pid(pub u32);

impl Pid {
    /// The first number that no process can have (`include/linux/threads.h`, `PID_MAX_LIMIT`).
    const ALIASES_FROM: u32 = 1 << 22;

    /// Stands for a process whose pid the reader may not see: so many holders of a GPU stay as many.
    #[must_use]
    pub const fn alias(number: u32) -> Self {
        Self(Self::ALIASES_FROM.saturating_add(number))
    }

    /// Whether it is such a stand-in, and no pid.
    #[must_use]
    pub const fn is_alias(self) -> bool {
        self.0 >= Self::ALIASES_FROM
    }

    /// The pid; `None` of a stand-in.
    #[must_use]
    pub const fn shown(self) -> Option<Self> {
        if self.is_alias() { None } else { Some(self) }
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Nanoseconds of `CLOCK_BOOTTIME`: since boot, time asleep included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootNs(pub u64);

impl BootNs {
    /// Nanoseconds in one clock tick of `/proc/PID/stat` (`USER_HZ` is 100 on every Linux that
    /// the kernel object loads on; `fs/proc/array.c`, `nsec_to_clock_t`).
    pub const PER_TICK: u64 = 10_000_000;

    /// The start time as procfs prints it: whole ticks since boot, floored.
    #[must_use]
    pub const fn ticks(self) -> u64 {
        self.0 / Self::PER_TICK
    }

    /// This instant, `ns` later; saturates at the end of time.
    #[must_use]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// This instant, `ns` earlier; saturates at boot.
    #[must_use]
    pub const fn minus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_sub(ns))
    }

    /// Nanoseconds from `earlier` to here, or `None` where `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

/// Microseconds of `CLOCK_REALTIME` since 1970, the clock of the driver's `startTime`
/// (open-gpu-kernel-modules 595.45.04, `kernel-open/nvidia/os-interface.c`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WallUs(pub u64);

impl WallUs {
    /// The millisecond this instant lies in (floored): its place on the bill's grid.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0 / 1_000
    }
}

/// An amount of time in milliseconds, the unit of every booked meter.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Ms(pub u64);

impl Ms {
    /// No time at all. A *result* of arithmetic, never a stand-in for what was not read.
    pub const ZERO: Self = Self(0);

    /// Sum, or `None` past 2⁶⁴ − 1 ms.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(ms) => Some(Self(ms)),
            None => None,
        }
    }
}

impl fmt::Display for Ms {
    /// `h:mm:ss` from one minute on, `s.mmm` below: the form for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, milli) = (self.0 / 1_000, self.0 % 1_000);
        let text = if seconds < 60 {
            format!("{seconds}.{milli:03} s")
        } else {
            format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
        };
        f.pad(&text)
    }
}

/// Bytes of device memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        let tenths_of_gib = self.0 / (MIB * 1_024 / 10);
        let text = if self.0 >= 1_024 * MIB {
            format!("{}.{} GiB", tenths_of_gib / 10, tenths_of_gib % 10)
        } else {
            format!("{} MiB", self.0 / MIB)
        };
        f.pad(&text)
    }
}

/// A GPU's UUID as NVML prints it (`GPU-…`). The only name of a GPU that survives a re-enumeration.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuUuid(pub Arc<str>);

impl GpuUuid {
    /// The first eight hex digits after the `GPU-` prefix, as they stand in a settlement's id.
    #[must_use]
    pub fn short(&self) -> &str {
        let bare = self.0.strip_prefix("GPU-").unwrap_or(&self.0);
        bare.get(..8).unwrap_or(bare)
    }
}

impl fmt::Display for GpuUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A half-open interval `[from, to)` of milliseconds, all of one grid: on a bill of its
/// [`crate::clock::Timeline`], in a driver's row of the wall clock since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Span {
    from: u64,
    to: u64,
}

impl Span {
    /// The interval between two milliseconds; `None` where it would run backwards.
    #[must_use]
    pub const fn new(from_ms: u64, to_ms: u64) -> Option<Self> {
        if from_ms <= to_ms { Some(Self { from: from_ms, to: to_ms }) } else { None }
    }

    /// The empty interval at a millisecond.
    #[must_use]
    pub const fn at(ms: u64) -> Self {
        Self { from: ms, to: ms }
    }

    /// The span of a driver row, on the wall clock: its start floored to the grid, its length exactly
    /// `held`.
    /// `None` where the end lies past the end of time (a wrapped `time`).
    #[must_use]
    pub const fn of_row(start: WallUs, held: Ms) -> Option<Self> {
        match start.ms().checked_add(held.0) {
            Some(to) => Some(Self { from: start.ms(), to }),
            None => None,
        }
    }

    /// First millisecond inside.
    #[must_use]
    pub const fn from_ms(self) -> u64 {
        self.from
    }

    /// First millisecond after.
    #[must_use]
    pub const fn to_ms(self) -> u64 {
        self.to
    }

    /// Length.
    #[must_use]
    pub const fn length(self) -> Ms {
        Ms(self.to.saturating_sub(self.from))
    }

    /// What both have in common; `None` where they do not meet in at least one millisecond.
    #[must_use]
    pub fn overlap(self, other: Self) -> Option<Self> {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        (from < to).then_some(Self { from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_its_length_on_the_grid() {
        let span = Span::of_row(WallUs(1_999), Ms(3)).unwrap();
        assert_eq!((span.from_ms(), span.to_ms(), span.length()), (1, 4, Ms(3)));
    }

    #[test]
    fn a_wrapped_time_is_no_span() {
        assert_eq!(Span::of_row(WallUs(1_000_000), Ms(u64::MAX)), None);
    }

    #[test]
    fn people_read_short_and_long_times() {
        assert_eq!(Ms(7).to_string(), "0.007 s");
        assert_eq!(Ms(3_661_000).to_string(), "1:01:01");
        assert_eq!(format!("{:>10}", Ms(7)), "   0.007 s");
    }

    #[test]
    fn procfs_ticks_are_floored() {
        assert_eq!(BootNs(19_999_999).ticks(), 1);
    }
}
