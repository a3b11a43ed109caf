//! The report of a trace as a value: what `--json` writes, field for field.
//!
//! Every field is always there; one that does not apply, or that nobody could know, is null, and
//! then `unknown` says why. The schema is `gpu-ledger/schema/trace.v1.schema.json`.
//!
//! Clocks: `start_time_us` is the driver's own stamp of the wall clock, and `held_ms` of a settlement the
//! difference of two of them. Everything else goes by the boot clock: periods and their parts, what lies
//! in which, the order of settlements and gaps. The moments of coverage and gaps are printed as the wall
//! clock showed them then, for people; after a step they need not ascend.

use serde::Serialize;

use crate::identity::Basis;
use crate::settlement::NamedBy;
use crate::unit::{Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{DisputeReason, Flag, GapCause, NamelessReason};

/// The word in the `format` field.
pub const FORMAT: &str = "gpu-ledger-trace";
/// The number in the `version` field; raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;
/// The account of those whose name nobody knows.
pub const UNATTRIBUTED: &str = "unattributed";

/// Everything one trace has to say.
#[cfg_attr(test, derive(Default))]
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// `real` or `simulated`; null where no driver answered.
    pub driver: Option<&'static str>,
    /// Driver version; null where no driver answered.
    pub driver_version: Option<String>,
    /// A test shifted the wall clock.
    pub test_clock: bool,
    /// What was run and what it and its descendants held; null for `--for`.
    pub command: Option<Command>,
    /// What the rest of the host held.
    pub host: Block,
    /// The statement of every GPU: its four parts add up to the period.
    pub gpus: Vec<Gpu>,
    /// Settled milliseconds without a name, by reason.
    pub unattributed: Vec<Unattributed>,
    /// What cannot be priced, as the driver gave it, by GPU, account and reason.
    pub disputed: Vec<Disputed>,
    /// Rows that still run: accrued, not booked.
    pub open: Vec<Open>,
    /// Processes that hold a GPU and can never have a row, and those whose row was lost.
    pub no_driver_row: Vec<NoDriverRow>,
    /// What could not be known, and why.
    pub unknown: Vec<UnknownLine>,
    /// Kernel events; null where none could be had.
    pub events: Option<Events>,
    /// Which processes were seen to open a GPU.
    pub device_touch: DeviceTouch,
    /// Final rows that coverage should have named and did not: anything but 0 is a bug. Null without
    /// process events or without a driver: then there was nothing to miss.
    pub missed_in_coverage: Option<u64>,
    /// When and what could be seen.
    pub coverage: CoverageLines,
}

/// The traced command.
#[derive(Clone, Debug, Serialize)]
pub struct Command {
    /// Its arguments as given.
    pub argv: Vec<String>,
    /// The same in one line, safe to print.
    #[serde(skip)]
    pub line: String,
    /// Its exit status, 128 + n after signal n; null where it could not be had.
    pub exit_status: Option<i32>,
    /// Every process it was, GPU or not, by the program it ran last; null without process events.
    pub processes: Option<Vec<Processes>>,
    /// Its settlements and accounts.
    #[serde(flatten)]
    pub block: Block,
}

/// The processes of the command that ran one program.
#[derive(Clone, Debug, Serialize)]
pub struct Processes {
    /// The program.
    pub program: String,
    /// How many ended.
    pub ended: u64,
    /// How many outlive the trace.
    pub running: u64,
}

/// Settlements of one part of the host, and their sum by account.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Block {
    /// Per account, largest first.
    pub accounts: Vec<Account>,
    /// Per process and span, by start on the boot clock.
    pub settlements: Vec<Settled>,
}

/// One account's line.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// Its name.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Settlements.
    pub settlements: u64,
    /// Union of its spans over each GPU within the period, summed over the GPUs.
    pub held_ms: Ms,
    /// Of that, no other account held the same GPU.
    pub alone_ms: Ms,
    /// Of that, another account held it too.
    pub shared_ms: Ms,
    /// Of that, held where nobody could see who else did.
    pub uncovered_ms: Ms,
    /// Plain sum of the driver's `time` of its rows: may exceed wall time.
    pub span_ms_total: Ms,
}

/// One settlement.
#[derive(Clone, Debug, Serialize)]
pub struct Settled {
    /// `<first 8 of the GPU's UUID>-<pid>-<startTime µs>`.
    pub id: String,
    /// Host name.
    pub host: String,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Its index when it was read.
    pub gpu_index: u32,
    /// Its product name.
    pub gpu_name: String,
    /// The driver's pid.
    pub pid: Pid,
    /// The driver's `startTime`; null where it gave none.
    pub start_time_us: Option<WallUs>,
    /// The driver's `time`.
    pub held_ms: Ms,
    /// Nobody else held the GPU.
    pub alone_ms: Ms,
    /// Somebody else did.
    pub shared_ms: Ms,
    /// Outside what was seen: before coverage, or in a gap.
    pub uncovered_ms: Ms,
    /// Asleep inside the span; null where not observed.
    pub asleep_ms: Option<Ms>,
    /// Busy at least this long.
    pub busy_ms_low: Option<Ms>,
    /// Busy at most this long.
    pub busy_ms_high: Option<Ms>,
    /// From how many samples.
    pub busy_samples: Option<u64>,
    /// `stats_v2`, `process_samples` or `stats_v1`.
    pub busy_source: Option<&'static str>,
    /// Peak device memory.
    pub max_memory_bytes: Option<Bytes>,
    /// The account it is billed to; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// The program; null where nobody knows.
    pub program: Option<String>,
    /// Its arguments; of one that is no UTF-8, what is not as `\xHH`. Null where nobody knows.
    pub argv: Option<Vec<String>>,
    /// The argument bytes in base64, only where they are not UTF-8.
    pub argv_b64: Option<String>,
    /// True length of the arguments in bytes.
    pub argv_length: Option<u64>,
    /// Whether `argv` is cut.
    pub argv_truncated: Option<bool>,
    /// What the name rests on.
    pub basis: Option<Basis>,
    /// Why there is no name.
    pub reason: Option<NamelessReason>,
    /// Why the milliseconds are in doubt.
    pub dispute: Option<DisputeReason>,
    /// What a reader should know.
    pub flags: Vec<Flag>,
}

/// The statement of one GPU.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// Which.
    pub gpu_uuid: GpuUuid,
    /// Its index.
    pub gpu_index: u32,
    /// Its product name.
    pub gpu_name: String,
    /// Length of the period.
    pub period_ms: Ms,
    /// Held by exactly one process.
    pub alone_ms: Ms,
    /// Held by several.
    pub shared_ms: Ms,
    /// Held by none.
    pub free_ms: Ms,
    /// Not seen.
    pub uncovered_ms: Ms,
    /// Most dead rows seen in one read; null where none was read. At 128 the driver evicts.
    pub dead_rows_seen_max: Option<u64>,
    /// Rows that may have been lost unread, each once; null where even the number is not known: a gap
    /// without a size, device opens that were not all watched, process events that were lost, or exits
    /// after which rows may have been cleared before any was seen.
    pub possibly_lost: Option<u64>,
    /// What reading it cost, and what came of its utilization samples.
    pub reading: Reading,
}

/// What it cost to read one GPU: the observer's own share.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reading {
    /// Reads.
    pub reads: u64,
    /// Driver calls.
    pub calls: u64,
    /// CPU time inside them.
    pub cpu_us: u64,
    /// The slowest one.
    pub call_latency_us_max: u64,
    /// Utilization samples that could not be used: stale, impossible, or collected too late.
    pub samples_unused: u64,
    /// Reads in which the processes' samples and the device's own contradicted each other.
    pub busy_disagreements: u64,
}

/// One reason's line.
#[derive(Clone, Debug, Serialize)]
pub struct Unattributed {
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Why.
    pub reason: NamelessReason,
    /// Settlements.
    pub count: u64,
    /// Their milliseconds.
    pub held_ms: Ms,
}

/// Settlements whose milliseconds are in doubt: in no account's priced sum.
#[derive(Clone, Debug, Serialize)]
pub struct Disputed {
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Whose; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Belongs to the traced command.
    pub of_command: bool,
    /// Why.
    pub reason: DisputeReason,
    /// Settlements.
    pub count: u64,
    /// The driver's `time` of them, added up as it is.
    pub raw_ms: u128,
}

/// A row that still runs.
#[derive(Clone, Debug, Serialize)]
pub struct Open {
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Whose.
    pub pid: Pid,
    /// Since when; null where a dead row of the same pid hides it.
    pub start_time_us: Option<WallUs>,
    /// Held until the end of the trace.
    pub accrued_ms: Option<Ms>,
    /// Device memory it holds now.
    pub memory_bytes: Option<Bytes>,
    /// Its account; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Belongs to the traced command.
    pub of_command: bool,
    /// Why something about it is unknown.
    pub reason: Option<String>,
}

/// A process that holds a GPU, or held it, and of which no row could be read.
#[derive(Clone, Debug, Serialize)]
pub struct NoDriverRow {
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Who.
    pub pid: Pid,
    /// Its account; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Since when its row said that it held the GPU; null where no row of it was seen.
    pub start_time_us: Option<WallUs>,
    /// Age of the process, when it was last seen; null where its start is not known.
    pub age_ms: Option<Ms>,
    /// For how long of the period it is known to have held the GPU; null where the clock contradicts
    /// itself.
    pub seen_ms: Option<Ms>,
    /// Whether it is over, or was when it was last seen.
    pub ended: bool,
    /// How its row was lost; null where none of it was seen.
    pub lost: Option<GapCause>,
    /// Device memory it holds.
    pub memory_bytes: Option<Bytes>,
}

/// One UNKNOWN.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownLine {
    /// The word.
    pub reason: String,
    /// About which GPU.
    pub gpu: Option<GpuUuid>,
    /// Which call would have told.
    pub call: Option<&'static str>,
    /// Its return code.
    pub code: Option<u32>,
    /// About evidence beside the bill (how busy, how much memory, who opened a device), not about what
    /// is on it: such a line alone leaves the exit status 0.
    #[serde(rename = "evidence")]
    pub is_evidence: bool,
}

impl Report {
    /// Whether everything on the bill is known: no gap, no row without a name, no figure missing.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let nameless = |open: &Open| open.account == UNATTRIBUTED;
        !self.open.iter().any(nameless)
            && self.unknown.iter().all(|line| line.is_evidence)
            && self.unattributed.is_empty()
            && self.disputed.is_empty()
            && self.missed_in_coverage == Some(0)
            && self.coverage.gaps.is_empty()
            && self.gpus.iter().all(|gpu| gpu.uncovered_ms == Ms::ZERO)
    }
}

/// Kernel events, counted on both sides.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Events {
    /// By the kernel programs.
    pub produced: u64,
    /// By us.
    pub received: u64,
    /// For want of room in the ring, or because whom they are about could not be read.
    pub lost: u64,
}

/// What watching device opens found.
#[cfg_attr(test, derive(Default))]
#[derive(Clone, Debug, Serialize)]
pub struct DeviceTouch {
    /// Whether opens were watched.
    pub on: bool,
    /// Why not; null while on.
    pub off_because: Option<String>,
    /// Processes seen to open a GPU; null while off.
    pub touched: Option<u64>,
    /// Of those that ended, how many never had a row; null while off.
    pub without_row: Option<u64>,
    /// Settled processes that were never seen to open one; null while off.
    pub rows_untouched: Option<u64>,
}

/// When and what could be seen.
#[cfg_attr(test, derive(Default))]
#[derive(Clone, Debug, Serialize)]
pub struct CoverageLines {
    /// RFC 3339.
    pub start: String,
    /// RFC 3339.
    pub end: String,
    /// The time between, less the gaps in process events.
    pub covered_ms: Ms,
    /// Every interval not seen.
    pub gaps: Vec<GapLine>,
}

/// One gap.
#[derive(Clone, Debug, Serialize)]
pub struct GapLine {
    /// RFC 3339.
    pub from: String,
    /// RFC 3339.
    pub to: String,
    /// Why.
    pub cause: GapCause,
    /// Which GPU's rows; null where it is about process events.
    pub gpu: Option<GpuUuid>,
    /// How many events or rows; null where not known.
    pub size: Option<u64>,
}
