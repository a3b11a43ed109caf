//! The product's meters in Prometheus' text format.
//!
//! Purpose: one name per meter, exact values, and what is not known said as such. May touch: the text
//! file and the loopback socket, in `textfile` and `listener` alone. May not: book, guess, or use a
//! pid or an argument as a label.
//! Invariants: counters never fall; a value that is not known is absent, and a gauge of the same name with
//! `_unknown` and the reason is 1; at most [`held::ACCOUNT_LABELS_MAX`] accounts have a label.

pub mod health;
pub mod held;
mod intervals;
pub mod listener;
mod page;
mod render;
mod resumed;
pub mod textfile;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::calls::ReadCost;
use crate::unit::{GpuUuid, Ms, WallUs};
use crate::unknown::{GapCause, NamelessReason, Observed, UnknownReason};
use health::Health;
use held::HeldCount;
pub use resumed::{HeldGpu, HeldPage};

/// Everything that is shown at one moment.
#[derive(Clone, Debug)]
pub struct Meters {
    /// When all this was so.
    pub made_at: WallUs,
    /// The counters of [`held::HeldMeter`], by GPU and account label.
    pub held: BTreeMap<(GpuUuid, Arc<str>), HeldCount>,
    /// Up to when they count, by GPU.
    pub held_until: BTreeMap<GpuUuid, WallUs>,
    /// Number of the last journal entry that is in them.
    pub held_journal_head: u64,
    /// Accounts that share a label.
    pub folded_accounts: usize,
    /// Settled time without a name, since the journal began.
    pub unattributed: BTreeMap<(GpuUuid, NamelessReason), Ms>,
    /// Gaps, since the journal began.
    pub gaps: BTreeMap<GapCause, GapCount>,
    /// Process events, since the daemon started.
    pub events: Observed<EventCount>,
    /// What driver calls cost, since the daemon started.
    pub driver: ReadCost,
    /// Each GPU.
    pub gpus: BTreeMap<GpuUuid, GpuMeters>,
    /// The product's own queues, by name.
    pub queues: BTreeMap<&'static str, QueueMeters>,
    /// Number of the journal's last entry that is on the disk.
    pub journal_head: u64,
    /// Settlements in the journal.
    pub settlements: u64,
    /// What is unknown in the present state, by reason.
    pub unknown: BTreeSet<UnknownReason>,
    /// Whether all is well.
    pub health: Health,
    /// `real` or `simulated`; `None` where no driver answers.
    pub driver_kind: Option<&'static str>,
}

/// Gaps of one cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GapCount {
    /// How many.
    pub count: u64,
    /// How long together.
    pub length: Ms,
}

/// What became of process events: produced = received + lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventCount {
    /// By the kernel's side.
    pub produced: u64,
    /// By this side.
    pub received: u64,
    /// Counted by the kernel as lost.
    pub lost: u64,
}

/// The state of one GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuMeters {
    /// Dead rows that the driver could still have taken before it evicted one that was not read, when it came
    /// closest to that in the last minute.
    pub eviction_margin_rows: Observed<u64>,
    /// How long ago the last good read ended.
    pub good_read_age: Observed<Ms>,
    /// Whether accounting is on.
    pub accounting_on: Observed<bool>,
    /// Rows that run.
    pub open_rows: Observed<u64>,
}

/// A bounded queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueMeters {
    /// What waits in it.
    pub length: u64,
    /// What fits into it.
    pub capacity: u64,
    /// What did not fit, since the daemon started. Each is in a gap.
    pub overflowed: u64,
}

impl Meters {
    /// The text that a scraper reads, format version 0.0.4.
    ///
    /// # Errors
    /// Never in practice: only where writing to a string fails.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        render::text(self)
    }
}

/// The `Content-Type` of [`Meters::text`].
pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
