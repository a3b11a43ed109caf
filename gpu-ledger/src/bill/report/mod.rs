//! A bill as a value: what `--format json` writes, field for field.
//!
//! Every field is always there; one that does not apply, or that nobody could know, is null. The schema is
//! `gpu-ledger/schema/bill.v1.schema.json`.

mod assemble;
mod closed;
mod coverage;
mod evidence;
mod left_out;
mod lifetimes;
mod memory;
mod priced;
mod reading;

use assemble::UNATTRIBUTED;
pub use assemble::{Ask, Head, Outside, Tree, report};
pub use closed::{
    AdjustedPeriod, AdjustedTotal, Adjustment, AdjustmentKind, Adjustments, ClosedLine,
};
pub use lifetimes::{Class, LifetimeClass};
pub use memory::{MemoryGpu, MemoryHeld, MemoryLine, MemoryProcess, MemoryVoid};
pub use priced::{Priced, PricedLine, State, Sum, Total, Unpriced};
pub use reading::{Proven, Reading, ReadingLine, Through};

use jiff::tz::TimeZone;
use serde::Serialize;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bill::{LineKey, Shown};
use crate::identity::Basis;
use crate::settlement::NamedBy;
use crate::unit::{Bytes, GpuUuid, Ms, Pid, Span, WallUs};
use crate::unknown::{DisputeReason, Flag, GapCause, NamelessReason};

/// The word in the `format` field.
pub const FORMAT: &str = "gpu-ledger-bill";
/// The number in the `version` field; raised when a field changes its meaning or goes.
pub const VERSION: u32 = 1;

/// A bill.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// The first 16 hex digits of the SHA-256 over the journal's head, the period, the as-of time and
    /// the options: two bills with one id are one bill.
    pub bill_id: String,
    /// Up to when the journal speaks (RFC 3339); null where it has no entry.
    pub as_of: Option<String>,
    /// Where the journal ended.
    pub journal_head: JournalHead,
    /// How the entries came to whoever made this bill.
    pub reading: ReadingLine,
    /// From when to when.
    pub period: PeriodLine,
    /// The period holds moments later than now, as the journal speaks of such: the clock was set back since, or is
    /// behind the one that the journal was written by. Null where it does not.
    pub clock_behind: Option<ClockBehind>,
    /// The host; null where no entry names one.
    pub host: Option<String>,
    /// `real` or `simulated`; null where no entry says.
    pub driver: Option<String>,
    /// Driver version; null where no entry says.
    pub driver_version: Option<String>,
    /// What a line stands for.
    pub by: &'static str,
    /// How shared time is divided.
    pub share: &'static str,
    /// The statement of every GPU: its four parts add up to the period.
    pub gpus: Vec<Gpu>,
    /// One line each, largest first. Called accounts whatever the bill is made by.
    pub accounts: Vec<Account>,
    /// Settled milliseconds without a name, by GPU and reason.
    pub unattributed: Vec<Unattributed>,
    /// Rows that still run: accrued within the period, not booked.
    pub open: Vec<Open>,
    /// What could not be known, and why.
    pub unknown: Vec<UnknownLine>,
    /// What cannot be priced, as the driver gave it, by GPU, line and reason.
    pub disputed: Vec<Disputed>,
    /// Processes that hold or held a GPU and never get a row.
    pub no_driver_row: Vec<NoDriverRow>,
    /// How the held time of the lines that are shown spreads over spans short and long.
    pub lifetime_classes: Vec<LifetimeClass>,
    /// Every settlement that the reader may see; null unless the bill is made by process.
    pub settlements: Option<Vec<Settled>>,
    /// Settlements that meet the period.
    pub settlements_total: u64,
    /// Their milliseconds: spans within the period, and the driver's figures of those that have no
    /// interval to trust.
    pub span_ms_total: u128,
    /// Shared time that the policy could not divide, or that fell on a holder who is on no line (disputed,
    /// or open without a name); null where no policy was asked for.
    pub undivided_ms: Option<Ms>,
    /// Memory held over time: sampled, in no total of any other meter.
    pub memory: MemoryHeld,
    /// What it costs; null where no prices were given.
    pub priced: Option<Priced>,
    /// When and what could be seen.
    pub coverage: CoverageLines,
    /// What a filter left out; null without one.
    pub left_out: Option<LeftOut>,
    /// Closed periods that this one meets.
    pub closed_periods: Vec<ClosedLine>,
    /// What came to closed periods since; null where it is not this bill that tells it.
    pub adjustments: Option<Adjustments>,
    /// How names are told apart on a page.
    #[serde(skip)]
    pub shown: Shown,
}

/// The end of the journal that a bill was made from.
#[derive(Clone, Debug, Serialize)]
pub struct JournalHead {
    /// Number of the last entry.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
    /// Root of the RFC 6962 tree over all entries up to it, in hex; null where it is not known.
    pub tree: Option<String>,
    /// Why it is not.
    pub tree_unknown: Option<&'static str>,
}

/// A period.
#[derive(Clone, Debug, Serialize)]
pub struct PeriodLine {
    /// Its first moment, RFC 3339 in UTC.
    pub since: String,
    /// The first moment after it, RFC 3339 in UTC.
    pub until: String,
    /// The time zone in which it was asked for.
    pub zone: String,
    /// Both as milliseconds since 1970.
    #[serde(skip)]
    pub span: Span,
    /// Beginning and end in that zone, as people read them.
    #[serde(skip)]
    pub local: [String; 2],
    /// The zone itself: what else a page says of moments is told in it.
    #[serde(skip)]
    pub time_zone: TimeZone,
    /// As-of in that zone; `None` of an empty journal.
    #[serde(skip)]
    pub local_as_of: Option<String>,
    /// Its length.
    pub length_ms: Ms,
}

/// A clock that is behind the journal.
#[derive(Clone, Debug, Serialize)]
pub struct ClockBehind {
    /// What it shows (RFC 3339).
    pub now: String,
    /// The latest moment that the journal speaks of (RFC 3339).
    pub latest: String,
    /// Both in the period's zone, as people read them.
    #[serde(skip)]
    pub local: [String; 2],
}

/// The statement of one GPU.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// Which.
    pub gpu_uuid: GpuUuid,
    /// Where it enumerated last; null where no entry says.
    pub gpu_index: Option<u32>,
    /// Its product name; null where no entry says.
    pub gpu_name: Option<String>,
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
    /// The end of the period that the next read will tell of, after the last good one: none of it is
    /// called free, and what of it no holder is known to share stands in `uncovered_ms`.
    pub unread_ms: Ms,
    /// Dead rows in the driver's store at the last read that the journal notes; null where that lies
    /// outside of the period. At 128 the driver evicts.
    pub dead_rows_last: Option<u64>,
    /// Rows that may have been lost unread within the period; null where even the number is not known, as
    /// where an empty list was not believed.
    pub possibly_lost: Option<u64>,
}

/// One line: an account, or what else the bill is made by.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// Its place among the lines.
    #[serde(skip)]
    pub line: LineKey,
    /// Its name.
    pub account: String,
    /// Named by a rule; null where the line is no account.
    pub classified: Option<bool>,
    /// What gave it its name: lines of one name are several where it differs. Null where the line is neither an
    /// account nor a service.
    pub named_by: Option<NamedBy>,
    /// The real user id that the line stands for; null where it stands for none.
    pub uid: Option<u32>,
    /// That user's name, where this system knows it and is the one that the journal is of.
    pub user: Option<String>,
    /// Settlements that meet the period.
    pub settlements: u64,
    /// Union of its settled spans over each GPU within the period, summed over the GPUs.
    pub held_ms: Ms,
    /// Of that, no other line held the same GPU; where the line is a GPU, no other process did.
    pub alone_ms: Ms,
    /// Of that, another line held it too; where the line is a GPU, another process did.
    pub shared_ms: Ms,
    /// Of that, held where nobody could see who else did.
    pub uncovered_ms: Ms,
    /// Plain sum of its settled spans within the period: may exceed wall time.
    pub span_ms_total: Ms,
    /// Union of its open spans: accrued, not booked.
    pub open_ms: Ms,
    /// Of that, held where nobody could see who else did.
    pub open_uncovered_ms: Ms,
    /// Union of settled and open: unchanged when an open row settles.
    pub settled_or_open_ms: Ms,
    /// Union of its spans without a driver row: shown, never billed.
    pub no_driver_row_ms: Ms,
    /// What the share policy gave it of shared time; null without one.
    pub share_ms: Option<Ms>,
    /// Busy at least this long; null where nothing was sampled. Settlements without samples may
    /// have been idle or busy throughout, which widens the range.
    pub busy_ms_low: Option<Ms>,
    /// Busy at most this long.
    pub busy_ms_high: Option<Ms>,
    /// Of its spans, how much was never sampled.
    pub busy_unsampled_ms: Ms,
    /// The largest peak of device memory; null where that of one settlement is unknown.
    pub max_memory_bytes: Option<Bytes>,
    /// Memory held over time, in whole GiB·s, cut, as far as it is known; null where nothing of it is.
    pub memory_held_gib_s: Option<String>,
    /// The same in bytes × milliseconds, as text: more than 64 bits.
    pub memory_held_byte_ms: Option<String>,
    /// The time that its processes were listed without a figure: in void hours, in quarters that the period cuts,
    /// where the driver did not say. Null where some of the period was not sampled, or is not entered yet: how much of
    /// that it held memory nobody knows; `memory.gpus` has its size.
    pub memory_unknown_ms: Option<Ms>,
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
    /// The union of their spans.
    pub held_ms: Ms,
    /// The sum of their spans.
    pub span_ms_total: Ms,
    /// What the share policy gave it of shared time; null without one.
    pub share_ms: Option<Ms>,
}

/// Settlements whose milliseconds are in doubt: in no line's priced sum.
#[derive(Clone, Debug, Serialize)]
pub struct Disputed {
    /// On which line.
    #[serde(skip)]
    pub line: LineKey,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Whose; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
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
    /// On which line.
    #[serde(skip)]
    pub line: LineKey,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Whose; null where it is another user's.
    pub pid: Option<Pid>,
    /// Since when; null where a dead row of the same pid hides it.
    pub start_time_us: Option<WallUs>,
    /// When it was first seen, RFC 3339.
    pub first_seen: String,
    /// Held within the period so far; null where its start is not known.
    pub accrued_ms: Option<Ms>,
    /// Of that, nobody else held the GPU.
    pub alone_ms: Option<Ms>,
    /// Somebody else did.
    pub shared_ms: Option<Ms>,
    /// Nobody saw who else did.
    pub uncovered_ms: Option<Ms>,
    /// Device memory it holds; null, as a journal does not note it.
    pub memory_bytes: Option<Bytes>,
    /// Its account; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Its program, where that is known.
    pub program: Option<String>,
    /// Its real user id, where that is known.
    pub uid: Option<u32>,
    /// What the name rests on.
    pub basis: Option<Basis>,
    /// Why it has no name.
    pub nameless: Option<NamelessReason>,
    /// Why something about it is unknown.
    pub reason: Option<String>,
}

/// A process that holds or held a GPU and gets no row.
#[derive(Clone, Debug, Serialize)]
pub struct NoDriverRow {
    /// On which line.
    #[serde(skip)]
    pub line: LineKey,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// Who; null where it is another user's.
    pub pid: Option<Pid>,
    /// Its account; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Its program, where that is known.
    pub program: Option<String>,
    /// Its real user id, where that is known.
    pub uid: Option<u32>,
    /// When it was first seen, RFC 3339.
    pub first_seen: String,
    /// Age of the process when it was last seen; null where its start is not known.
    pub age_ms: Option<Ms>,
    /// For how long of the period it was seen to hold the GPU; null where the clock contradicts itself.
    pub seen_ms: Option<Ms>,
    /// Whether it holds it no more.
    pub ended: bool,
    /// How its row was lost; null where it never had one.
    pub lost: Option<GapCause>,
    /// Device memory that it held when it was first seen; null where that was not told, or not noted.
    pub memory_bytes: Option<Bytes>,
}

/// One UNKNOWN.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownLine {
    /// The word.
    pub reason: String,
    /// What is not known.
    pub subject: String,
    /// About which GPU.
    pub gpu: Option<GpuUuid>,
    /// Which call would have told; null, as a journal does not note it.
    pub call: Option<String>,
    /// Its return code; likewise.
    pub code: Option<u32>,
    /// What would make it known; null where nothing does any more.
    pub remedy: Option<String>,
    /// About evidence beside the bill: such a line alone leaves the exit status 0.
    #[serde(rename = "evidence")]
    pub is_evidence: bool,
}

/// One settlement.
#[derive(Clone, Debug, Serialize)]
pub struct Settled {
    /// On which line.
    #[serde(skip)]
    pub line: LineKey,
    /// `<first 8 of the GPU's UUID>-<pid>-<startTime µs>`.
    pub id: String,
    /// Number of its entry in the journal.
    pub seq: u64,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// The driver's pid.
    pub pid: Pid,
    /// The driver's `startTime`; null where it gave none.
    pub start_time_us: Option<WallUs>,
    /// The driver's `time`: the whole row, whatever the period.
    pub held_ms: Ms,
    /// Its overlap with the period; null where it has no interval to trust.
    pub in_period_ms: Option<Ms>,
    /// Of that, nobody else held the GPU.
    pub alone_ms: Option<Ms>,
    /// Somebody else did.
    pub shared_ms: Option<Ms>,
    /// Nobody saw who else did.
    pub uncovered_ms: Option<Ms>,
    /// Asleep inside the whole row; null where not observed. Before anybody looked it is known where the
    /// host had not slept since it booted, which its clocks say.
    pub asleep_ms: Option<Ms>,
    /// Busy at least this long, of the whole row.
    pub busy_ms_low: Option<Ms>,
    /// Busy at most this long.
    pub busy_ms_high: Option<Ms>,
    /// From how many samples.
    pub busy_samples: Option<u64>,
    /// `stats_v2`, `process_samples` or `stats_v1`.
    pub busy_source: Option<&'static str>,
    /// Peak device memory.
    pub max_memory_bytes: Option<Bytes>,
    /// Its account; `unattributed` where nobody knows.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Its program; null where nobody knows.
    pub program: Option<String>,
    /// Its real user id; null where nobody knows.
    pub uid: Option<u32>,
    /// What the name rests on.
    pub basis: Option<Basis>,
    /// Why there is no name.
    pub reason: Option<NamelessReason>,
    /// Why the milliseconds are in doubt.
    pub dispute: Option<DisputeReason>,
    /// What a reader should know.
    pub flags: Vec<Flag>,
    /// By what else it can be billed: container, unit, job and the like, by dimension.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
}

/// When and what could be seen.
#[derive(Clone, Debug, Serialize)]
pub struct CoverageLines {
    /// RFC 3339; null where no process event was received in the period.
    pub start: Option<String>,
    /// RFC 3339; null likewise.
    pub end: Option<String>,
    /// The time between, less what lies outside of the agent's runs and in gaps of process events.
    pub covered_ms: Ms,
    /// Every interval not seen that meets the period.
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
    /// Which GPU's rows; null where it is about process events or the agent itself.
    pub gpu: Option<GpuUuid>,
    /// How many events or rows; null where not known.
    pub size: Option<u64>,
}

/// What a filter left out of the lines. The statements of the GPUs that are shown, the totals, what was not
/// seen and what is unknown are whole all the same.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// GPUs.
    pub gpus: u64,
    /// Lines.
    pub accounts: u64,
    /// Their settlements that meet the period, those without a name included.
    pub settlements: u64,
    /// Their milliseconds.
    pub span_ms_total: u128,
    /// Of those settlements, the ones without a name.
    pub unattributed: u64,
    /// Of those settlements, the ones in dispute.
    pub disputed: u64,
    /// Rows that still run.
    pub open: u64,
    /// What they have accrued within the period, where that is known: the plain sum of their spans.
    pub open_ms: Ms,
    /// Processes that hold or held a GPU and get no row.
    pub no_driver_row: u64,
}

impl Account {
    /// Its name for people: a user's with the id, where the system knows one.
    #[must_use]
    pub fn title(&self) -> String {
        match (&self.user, self.uid) {
            (Some(user), Some(uid)) => format!("{user} ({uid})"),
            _ => self.account.clone(),
        }
    }
}

impl Report {
    /// Whether everything on the bill is known: no gap, no row without a name, no figure missing. What was
    /// left out as asked may be part of the answer all the same where nobody knows whose it is.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let unseen = |gpu: &Gpu| gpu.uncovered_ms.0.saturating_sub(gpu.unread_ms.0) > 0;
        self.unknown.iter().all(|line| line.is_evidence)
            && self.unattributed.is_empty()
            && self.disputed.is_empty()
            && self
                .left_out
                .as_ref()
                .is_none_or(|left| (left.unattributed, left.disputed) == (0, 0))
            && self.coverage.gaps.is_empty()
            && self.reading.end_witnessed
            && !self.gpus.is_empty()
            && !self.gpus.iter().any(unseen)
    }
}
