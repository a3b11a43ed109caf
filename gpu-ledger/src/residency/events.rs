//! What happened beside the samples of an iteration: the rows of `events.jsonl`.
//!
//! Everything a verdict rests on that is in no sample: what the clocks showed, the processor's ticks, who
//! the processes were, phases, and how the window ended. Times are ns of `CLOCK_BOOTTIME`.

use serde::{Deserialize, Serialize};

use super::files::Recorded;
use super::moment::Length;
use super::verdict::Backend;
use crate::unit::{BootNs, Pid, WallUs};

/// What a window is of: windows of two batches are compared where all three are the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// What was configured; null where nobody said.
    pub config: Option<String>,
    /// Under what it ran.
    pub context: Option<String>,
    /// Which repetition it is.
    pub round: Option<String>,
}

/// Why a window ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// It was as long as it was asked to be.
    Duration,
    /// The command it was recorded for ended.
    CommandEnded,
    /// Somebody asked for its end.
    Stopped,
    /// No sample landed in time.
    NoFirstSample,
    /// The GPU was lost, or wants a reset.
    DeviceLost,
    /// Rows could not be written any more.
    NotWritten,
}

/// One row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// The first row: which window this is.
    Begin {
        /// Its number in the batch, as its folder is called.
        iteration: u64,
        /// What it is of.
        labels: Labels,
        /// What the batch was opened with, of how many windows: what its manifest must still say.
        recorded_with: Recorded,
    },
    /// What was asked in this window, and whether programs were run to ask it: told at the end. Without
    /// this row nobody knows, and the backend verdict fails.
    Backend {
        /// When.
        at_ns: BootNs,
        /// Who was asked.
        backend: Backend,
        /// Children that the recorder has made, the user's command aside.
        subprocesses: u64,
        /// Whether the kernel denied its probing threads to start a program (`--deny-exec`).
        exec_denied: bool,
    },
    /// What the three clocks showed at one moment: at the start, once a second, at the end.
    Anchor {
        /// `CLOCK_BOOTTIME`.
        boot_ns: BootNs,
        /// `CLOCK_MONOTONIC`: stands still while the machine sleeps.
        mono_ns: u64,
        /// `CLOCK_REALTIME`.
        wall_us: WallUs,
    },
    /// What recording itself took: told when a window begins and when it is over. It is the process that
    /// records, of all GPUs of its together, and no program that it was asked to run.
    RecorderCpu {
        /// When.
        at_ns: BootNs,
        /// CPU time of that process since it started.
        cpu_ns: u64,
    },
    /// `/proc/stat` at a point, in clock ticks of all processors together.
    Cpu {
        /// Which point.
        j: u64,
        /// When it was read.
        at_ns: BootNs,
        /// Ticks neither idle nor waiting for a disk, since boot.
        busy_ticks: u64,
        /// All ticks since boot.
        total_ticks: u64,
    },
    /// A process of the GPU's, when its pid was first seen or had become another.
    Process {
        /// When it was seen.
        at_ns: BootNs,
        /// Its pid.
        pid: Pid,
        /// When it started, in ns since boot; null where procfs did not tell.
        start_ns: Option<BootNs>,
        /// Its program; null where nobody could tell.
        program: Option<String>,
        /// What that rests on: `exec`, `fork`, `procfs`; null without a name.
        basis: Option<String>,
        /// Whose it is.
        uid: Option<u32>,
    },
    /// A phase begins.
    Mark {
        /// When.
        at_ns: BootNs,
        /// What the user calls it.
        name: String,
    },
    /// A probe whose call had not returned: told once, when it had taken as long as a call may.
    Stuck {
        /// When that was seen.
        at_ns: BootNs,
        /// When the probe began.
        begin_ns: BootNs,
    },
    /// The command that was recorded ended.
    CommandEnded {
        /// When.
        at_ns: BootNs,
        /// Its exit status; null where a signal ended it.
        status: Option<i32>,
        /// The signal; null where it exited.
        signal: Option<i32>,
    },
    /// The last row.
    End {
        /// When it was decided.
        at_ns: BootNs,
        /// Why.
        cause: EndCause,
        /// How long the window is; null where it never began.
        duration_ns: Option<u64>,
        /// When the probe began that was then in flight.
        in_flight_since_ns: Option<BootNs>,
        /// Rows that could not be written.
        rows_not_written: u64,
        /// Whether somebody asked for the end of all that was to be recorded: no other window follows.
        interrupted: bool,
        /// The phases that were marked until then; null where they could not be read.
        marks: Option<MarksSeen>,
    },
}

/// The beginning of `marks.jsonl`, which is appended to while windows are recorded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarksSeen {
    /// How long it was.
    pub bytes: u64,
    /// What it was.
    pub sha256: String,
}

/// What the clocks did in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockFold {
    last: Option<(BootNs, u64, WallUs)>,
    /// How far the wall clock was moved, back and forth added up, in µs.
    pub wall_step_us: u64,
    /// How long the machine slept.
    pub suspend: Length,
    /// Whether the clock of all ages went backwards.
    pub went_back: bool,
}

/// Anchors differ by scheduling up to this much without any step (see `clock::STEP_US_MIN`).
const WALL_STEP_US_MIN: u64 = crate::clock::STEP_US_MIN;
/// More sleep than this is sleep: two clocks read one after another lie apart.
const SUSPEND_MIN: Length = Length::of_ms(1);

impl ClockFold {
    /// The next anchor.
    pub fn anchor(&mut self, boot: BootNs, mono_ns: u64, wall: WallUs) {
        if let Some((last_boot, last_mono, last_wall)) = self.last {
            let (Some(boot_passed), true) = (boot.since(last_boot), mono_ns >= last_mono) else {
                self.went_back = true;
                return;
            };
            let asleep = Length(boot_passed.saturating_sub(mono_ns.saturating_sub(last_mono)));
            if asleep > SUSPEND_MIN {
                self.suspend = self.suspend.plus(asleep);
            }
            let expected = last_wall.0.saturating_add(boot_passed / 1_000);
            let step = expected.abs_diff(wall.0);
            if step >= WALL_STEP_US_MIN {
                self.wall_step_us = self.wall_step_us.saturating_add(step);
            }
        }
        self.last = Some((boot, mono_ns, wall));
    }
}

/// The processor's share at a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuPoint {
    /// In hundredths of a percent of all processors; `None`: invalid.
    pub centipercent: Option<u64>,
    /// Why it is invalid.
    pub invalid: Option<CpuInvalid>,
}

/// Why the processor's share is not known at a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuInvalid {
    /// It is a difference, and nothing was read before it.
    FirstSampleNoBaseline,
    /// It was read later than the next point.
    Late,
    /// It was not read.
    NotRead,
    /// No tick passed.
    NoTick,
}

impl CpuInvalid {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstSampleNoBaseline => "first_sample_no_baseline",
            Self::Late => "late",
            Self::NotRead => "not_read",
            Self::NoTick => "no_tick",
        }
    }
}

/// The processor's shares along the points, from rows that come in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuFold {
    last: Option<(u64, u64, u64)>,
}

impl CpuFold {
    /// What the row of a point says. One that is late is no baseline either, nor is one before a gap.
    pub fn row(&mut self, j: u64, late: bool, busy: u64, total: u64) -> CpuPoint {
        let invalid = |reason| CpuPoint { centipercent: None, invalid: Some(reason) };
        if late {
            self.last = None;
            return invalid(CpuInvalid::Late);
        }
        let Some((last_j, last_busy, last_total)) = self.last.replace((j, busy, total)) else {
            return invalid(CpuInvalid::FirstSampleNoBaseline);
        };
        if last_j.checked_add(1) != Some(j) {
            return invalid(CpuInvalid::FirstSampleNoBaseline);
        }
        let (Some(busy), Some(total)) =
            (busy.checked_sub(last_busy), total.checked_sub(last_total))
        else {
            // The kernel lets idle and iowait run back by a tick (Documentation/filesystems/proc.rst).
            return invalid(CpuInvalid::NoTick);
        };
        let share = busy.saturating_mul(10_000).checked_div(total);
        share.map_or_else(
            || invalid(CpuInvalid::NoTick),
            |centipercent| CpuPoint { centipercent: Some(centipercent), invalid: None },
        )
    }

    /// No row of the point was written.
    pub fn none(&mut self) -> CpuPoint {
        self.last = None;
        CpuPoint { centipercent: None, invalid: Some(CpuInvalid::NotRead) }
    }
}
