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
pub mod memory;
mod page;
mod render;
mod resumed;
pub mod textfile;

use std::collections::{BTreeMap, BTreeSet};

use crate::accounting::calls::ReadCost;
use crate::coverage::Gap;
use crate::memory::ByteMs;
use crate::unit::{GpuUuid, Ms, WallUs};
use crate::unknown::{GapCause, NamelessReason, Observed, UnknownReason};
use health::Health;
use held::{AccountLabel, HeldCount};
pub use resumed::{HeldGpu, HeldPage};

/// Everything that is shown at one moment.
#[derive(Clone, Debug)]
pub struct Meters {
    /// When all this was so.
    pub made_at: WallUs,
    /// The counters of [`held::HeldMeter`], by GPU and account label.
    pub held: BTreeMap<(GpuUuid, AccountLabel), HeldCount>,
    /// Up to when they count, by GPU.
    pub held_until: BTreeMap<GpuUuid, WallUs>,
    /// Number of the last journal entry that is in them.
    pub held_journal_head: u64,
    /// Accounts that share a label.
    pub folded_accounts: usize,
    /// Memory held in hours that are over and valid, since the daemon started, by GPU and account label.
    pub memory: BTreeMap<(GpuUuid, AccountLabel), ByteMs>,
    /// Hours of each GPU in which memory is not known, as they are void.
    pub memory_void_hours: BTreeMap<GpuUuid, u64>,
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
    /// What accounts are made by.
    pub rules: RulesMeters,
    /// How far the journal's tree is signed.
    pub checkpoint: CheckpointMeters,
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
    /// How many events or rows were lost in them; unknown where that is not known of one of them.
    pub size: Option<u64>,
    /// The last one.
    pub last: Option<LastGap>,
}

/// A gap among others of its cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastGap {
    /// From when.
    pub from: WallUs,
    /// Until when.
    pub to: WallUs,
    /// How many events or rows were lost in it; `None` where nobody knows.
    pub size: Option<u64>,
}

impl GapCount {
    /// Counts one more.
    pub fn add(&mut self, gap: &Gap) {
        let (from, to, size) = (gap.from.wall, gap.to.wall, gap.size);
        let sum = if self.count == 0 { Some(0) } else { self.size };
        self.size = sum.zip(size).map(|(sum, size)| sum.saturating_add(size));
        self.count = self.count.saturating_add(1);
        self.length = Ms(self.length.0.saturating_add(to.ms().saturating_sub(from.ms())));
        // Entries of one cause are not always in the order of their ends.
        if self.last.is_none_or(|last| last.to <= to) {
            self.last = Some(LastGap { from, to, size });
        }
    }
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

/// The rules in force, and what came of reading them anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RulesMeters {
    /// How many there are.
    pub rules: u64,
    /// How many of them never match.
    pub shadowed: u64,
    /// Reloads that were taken whole, since the daemon started.
    pub reloads_taken: u64,
    /// Reloads that were refused, whole or of the rules, since the daemon started.
    pub reloads_refused: u64,
    /// The last one was: the files say something else than what is in force.
    pub is_refused: bool,
}

/// How far the journal's tree is signed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckpointMeters {
    /// Id of the key that signs; `None` where it is not known, as the next ones.
    pub key_id: Option<String>,
    /// Entries that the last checkpoint is of.
    pub size: Option<u64>,
    /// When it was signed.
    pub at: Option<WallUs>,
    /// Entries that no checkpoint is of.
    pub uncovered: Option<u64>,
    /// The places outside: by name, whether checkpoints get there (`None` before the first), and how many of this run did
    /// not.
    pub anchors: Vec<(&'static str, Option<bool>, u64)>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stamp;
    use crate::unit::BootNs;

    #[test]
    fn gaps_of_a_cause_are_summed_and_a_size_that_is_not_known_makes_the_sum_unknown() {
        let stamp =
            |ms: u64| Stamp { boot: BootNs(0), mono_ns: 0, wall: WallUs(ms.saturating_mul(1_000)) };
        let gap = |from: u64, to: u64, size| Gap {
            cause: GapCause::EventLost,
            gpu: None,
            from: stamp(from),
            to: stamp(to),
            size,
        };
        let mut sum = GapCount::default();
        sum.add(&gap(100, 130, Some(2)));
        sum.add(&gap(50, 60, Some(3)));
        assert_eq!((sum.count, sum.length, sum.size), (2, Ms(40), Some(5)));
        assert_eq!(sum.last.unwrap().from, WallUs(100_000), "not the one entered last");
        sum.add(&gap(200, 201, None));
        sum.add(&gap(300, 302, Some(1)));
        assert_eq!((sum.count, sum.length, sum.size), (4, Ms(43), None));
        let last = LastGap { from: WallUs(300_000), to: WallUs(302_000), size: Some(1) };
        assert_eq!(sum.last, Some(last));
    }
}
