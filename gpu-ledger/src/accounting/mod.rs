//! What the driver said.
//!
//! Purpose: mode, epochs and rows, exactly as read; each final row handed on exactly once, and
//! every way of losing one detected and counted. May touch: NVML, in `nvml/` alone. May not: name a
//! process, set anything but the mode (and that only on an explicit command), clear the driver's store.
//! Invariant: a row is booked by its key (GPU UUID, pid, `startTime`), never by epoch or boot.
//!
//! ```text
//! nvml (the library) ─► worker (a thread per GPU, deadlines) ─► driver (what the session holds)
//!                          │ schedule: when to read (pure)
//!                          │ harvest:  each final row once, continuity (pure)
//!                          └ busy:     how busy, as a range (pure)
//! sampler (a thread per GPU): who holds how much memory, at a period
//! sight: when a GPU's rows were in sight, from its reads (pure)
//! ```

pub mod busy;
pub mod calls;
pub mod driver;
pub mod harvest;
pub mod nvml;
pub mod reading;
pub mod sampler;
pub mod schedule;
pub mod sight;
pub mod worker;

use crate::clock::Stamp;
use crate::unit::{Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::Observed;

/// The booking key of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RowKey {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// Whose.
    pub pid: Pid,
    /// The driver's `startTime`.
    pub start: WallUs,
}

/// One accounting row as the driver gave it (`nvmlAccountingStats_t` and, where the library has
/// it, `nvmlAccountingStats_v2_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// Whose, in the initial pid namespace.
    pub pid: Pid,
    /// `startTime`; `None` where the driver gave 0 (it then has none).
    pub start: Option<WallUs>,
    /// `time`: the span's length once final, 0 while it runs.
    pub held: Ms,
    /// `isRunning`.
    pub running: bool,
    /// `maxMemoryUsage`, peak device memory of the process.
    pub memory_peak: Observed<Bytes>,
    /// `gpuUtilization`: percent of the span, floored, averaged over one sample a second.
    pub utilization: Observed<u32>,
    /// The numerators of version 2, where the library has the call.
    pub sums: Option<UtilizationSums>,
}

/// `nvmlAccountingStats_v2_t`: what `gpuUtilization` was averaged from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UtilizationSums {
    /// Samples drawn during the span, other processes' included.
    pub sample_count: u64,
    /// Sum of the GPU utilization of this process's samples, in 1/100 %.
    pub gpu_centipercent: u64,
}

impl Row {
    /// The booking key, where the driver gave a start time.
    #[must_use]
    pub fn key(&self) -> Option<RowKey> {
        self.start.map(|start| RowKey { gpu: self.gpu.clone(), pid: self.pid, start })
    }
}

/// The two moments between which a reading was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Before the first call.
    pub began: Stamp,
    /// After the last.
    pub ended: Stamp,
}

/// A final row, with the first read that showed it so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinalRow {
    /// The row.
    pub row: Row,
    /// The read that first showed it final.
    pub seen: Window,
    /// What its process's utilization samples said, where they were collected.
    pub busy: Option<Busy>,
}

/// How busy a GPU was for a process: a range, never one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Busy {
    /// At least this long.
    pub low: Ms,
    /// At most this long.
    pub high: Ms,
    /// From how many samples; `None` where the source does not say.
    pub samples: Option<u64>,
    /// Which of the three sources.
    pub source: BusySource,
}

/// Where a busy range comes from, best first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BusySource {
    /// Version 2 sums of the row.
    StatsV2,
    /// The utilization samples of `nvmlDeviceGetProcessUtilization`.
    ProcessSamples,
    /// The floored percentage of version 1.
    StatsV1,
}

impl BusySource {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StatsV2 => "stats_v2",
            Self::ProcessSamples => "process_samples",
            Self::StatsV1 => "stats_v1",
        }
    }
}
