//! Bounded memory: which of the dead may go, and what is remembered of those that went early.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Lifetimes, floor, keys_of};
use crate::kernel::ProcessKey;
use crate::unit::{BootNs, Pid};

/// Dead lifetimes kept. They are forgotten at every complete read of the driver, four times a
/// second and more, so this is most of a second of 10,000 exits a second; a lifetime is a few
/// hundred bytes. The living are not bounded here: the kernel bounds them (`pid_max`).
const DEAD_MAX: usize = 8_192;

/// Bytes of argv and file names kept of the dead.
const DEAD_BYTES_MAX: usize = 2 << 20;

/// Keys remembered of lifetimes that were forgotten by proof, so that a late duplicate of their
/// events does not raise them. Duplicates come within milliseconds (several threads of one exit).
const FORGOTTEN_KEYS_MAX: usize = 4_096;

/// Lifetimes evicted without proof of which pid and times are remembered one by one; beyond it only
/// the interval that covers all of them is.
const EVICTED_MAX: usize = 8_192;

/// The share of the dead that is cut out of the lines of descent at once when all of them are
/// ancestors of the living: in one pass, since each pass walks the table.
const SPLICE_SHARE: usize = 8;

/// How much is kept of the dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Lifetimes.
    pub dead_max: usize,
    /// Bytes of their argv and file names.
    pub dead_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { dead_max: DEAD_MAX, dead_bytes_max: DEAD_BYTES_MAX }
    }
}

/// What a complete read of every GPU proves about the dead.
#[derive(Clone, Copy, Debug)]
pub struct ForgetProof<'a> {
    /// The oldest beginning among the reads, one of each GPU, of one complete list.
    pub reads_began: BootNs,
    /// Pids that a list names with a row that is not booked yet.
    pub listed_unbooked: &'a BTreeSet<Pid>,
    /// A GPU keeps no rows, and was never seen to: old ones come back when it does, of whoever was born before
    /// this.
    pub unproven_before: Option<BootNs>,
}

impl ForgetProof<'_> {
    /// Whether no row of this lifetime can come any more.
    fn covers(&self, key: &ProcessKey, ended: BootNs) -> bool {
        ended < self.reads_began
            && !self.listed_unbooked.contains(&key.pid)
            && self.unproven_before.is_none_or(|at| at <= key.start)
    }
}

/// What is known of a lifetime that was evicted.
#[derive(Clone, Copy, Debug)]
struct Evicted {
    ended: BootNs,
}

/// Lifetimes that are no longer in the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Departed {
    forgotten: BTreeSet<ProcessKey>,
    forgotten_order: VecDeque<ProcessKey>,
    evicted: BTreeMap<ProcessKey, Evicted>,
    evicted_order: VecDeque<ProcessKey>,
    /// First start and last end of the evicted that are not remembered one by one.
    evicted_beyond: Option<(BootNs, BootNs)>,
    evicted_count: u64,
    /// Those evicted since the caller last asked.
    evicted_lately: Option<EvictedLately>,
    lineage_cut_count: u64,
}

/// Lifetimes that went under a memory limit: a gap in what can be named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvictedLately {
    /// The first of their births.
    pub from: BootNs,
    /// The last of their ends.
    pub to: BootNs,
    /// How many.
    pub count: u64,
}

impl Departed {
    pub(super) fn holds(&self, key: &ProcessKey) -> bool {
        let floored = floor(key);
        [key, &floored]
            .iter()
            .any(|key| self.forgotten.contains(key) || self.evicted.contains_key(key))
    }

    /// Whether one that started in this tick has departed.
    pub(super) fn holds_tick(&self, key: &ProcessKey) -> bool {
        let first = floor(key);
        let last = ProcessKey { start: first.start.plus_ns(BootNs::PER_TICK - 1), ..first };
        self.forgotten.range(first..=last).next().is_some()
            || self.evicted.range(first..=last).next().is_some()
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.forgotten.len() + self.evicted.len()
    }

    fn forget(&mut self, key: ProcessKey) {
        if self.forgotten.insert(key) {
            self.forgotten_order.push_back(key);
        }
        if self.forgotten_order.len() > FORGOTTEN_KEYS_MAX
            && let Some(oldest) = self.forgotten_order.pop_front()
        {
            self.forgotten.remove(&oldest);
        }
    }

    fn evict(&mut self, key: ProcessKey, ended: BootNs) {
        self.evicted_count = self.evicted_count.saturating_add(1);
        let lately =
            self.evicted_lately.unwrap_or(EvictedLately { from: key.start, to: ended, count: 0 });
        self.evicted_lately = Some(EvictedLately {
            from: lately.from.min(key.start),
            to: lately.to.max(ended),
            count: lately.count.saturating_add(1),
        });
        self.evicted.insert(key, Evicted { ended });
        self.evicted_order.push_back(key);
        while self.evicted_order.len() > EVICTED_MAX {
            let Some(oldest) = self.evicted_order.pop_front() else { return };
            if let Some(evicted) = self.evicted.remove(&oldest) {
                let (start, end) = self.evicted_beyond.unwrap_or((oldest.start, evicted.ended));
                self.evicted_beyond = Some((start.min(oldest.start), end.max(evicted.ended)));
            }
        }
    }

    /// The evicted whose rows can no longer come are forgotten after all.
    fn forget_evicted(&mut self, proof: &ForgetProof<'_>) {
        if self.evicted.is_empty() && self.evicted_beyond.is_none() {
            return;
        }
        let gone = |key: &ProcessKey, ended: BootNs| proof.covers(key, ended);
        let leaving: Vec<ProcessKey> = self
            .evicted
            .iter()
            .filter(|(key, evicted)| gone(key, evicted.ended))
            .map(|(key, _)| *key)
            .collect();
        for key in leaving {
            self.evicted.remove(&key);
            self.forget(key);
        }
        self.evicted_order.retain(|key| self.evicted.contains_key(key));
        // Of those beyond the pid is not known: only an empty list lets them go.
        if proof.listed_unbooked.is_empty()
            && proof.unproven_before.is_none()
            && self.evicted_beyond.is_some_and(|(_, end)| end < proof.reads_began)
        {
            self.evicted_beyond = None;
        }
    }
}

impl Lifetimes {
    /// Forgets the dead whose rows can no longer come: a complete list read on every GPU that began
    /// after the exit does not name the pid, or names it only with rows that are booked. Ancestors
    /// of the living, and of the dead that stay, stay. Where there is no driver to ask, the caller
    /// says so by a proof that lists nothing.
    pub fn forget(&mut self, proof: &ForgetProof<'_>) {
        let start_of =
            |touched: bool| (touched, BootNs(0), ProcessKey { pid: Pid(0), start: BootNs(0) });
        let mut candidates: Vec<ProcessKey> = Vec::new();
        for touched in [false, true] {
            let early = start_of(touched)
                ..(touched, proof.reads_began, ProcessKey { pid: Pid(0), start: BootNs(0) });
            candidates.extend(self.leaves.range(early).map(|(_, _, key)| *key));
        }
        // A parent may go once its last child has.
        while let Some(key) = candidates.pop() {
            let ended = self.records.get(&key).and_then(|record| record.life.ended);
            if ended.is_some_and(|ended| proof.covers(&key, ended.at)) {
                candidates.extend(self.remove(&key));
                self.departed.forget(key);
            }
        }
        self.departed.forget_evicted(proof);
    }

    /// Keeps a lifetime whatever happens, so that descent from it can always be told.
    pub fn pin(&mut self, key: &ProcessKey) {
        self.change(key, |record| record.pinned = true);
    }

    /// Lifetimes that went under a memory limit, without proof that no row can name them.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.departed.evicted_count
    }

    /// What went under a memory limit since this was last asked.
    pub fn take_evicted(&mut self) -> Option<EvictedLately> {
        self.departed.evicted_lately.take()
    }

    /// Dead ancestors of living processes that went under a memory limit: descent *from them* can
    /// no longer be told, descent past them can.
    #[must_use]
    pub const fn lineage_cut(&self) -> u64 {
        self.departed.lineage_cut_count
    }

    /// Whether a lifetime of this pid that contained `at` was evicted (or may have been, where more
    /// were evicted than are remembered one by one): the reason `identity-evicted`.
    #[must_use]
    pub fn evicted_at(&self, pid: Pid, at: BootNs) -> bool {
        let remembered = self.departed.evicted.range(keys_of(pid));
        remembered
            .map(|(key, evicted)| (key.start, evicted.ended))
            .chain(self.departed.evicted_beyond)
            .any(|(start, end)| start <= at && at <= end)
    }

    /// Evicts until the bounds hold.
    pub(super) fn make_room(&mut self) {
        while self.dead > self.limits.dead_max || self.dead_bytes > self.limits.dead_bytes_max {
            let oldest = self.leaves.first().copied();
            if let Some((_, ended, key)) = oldest {
                self.remove(&key);
                self.departed.evict(key, ended);
            } else if !self.splice_oldest() {
                return;
            }
        }
    }

    /// Every one of the dead has descendants: cuts the oldest ones out of the lines.
    fn splice_oldest(&mut self) -> bool {
        let mut dead: Vec<(bool, BootNs, ProcessKey)> = self
            .records
            .values()
            .filter(|record| !record.pinned)
            .filter_map(|record| {
                let ended = record.life.ended?;
                Some((record.life.touched.is_some(), ended.at, record.life.key))
            })
            .collect();
        dead.sort_unstable();
        dead.truncate((self.limits.dead_max / SPLICE_SHARE).max(1));
        let link_of = |key: &ProcessKey| self.records.get(key).and_then(|record| record.link);
        let victims: BTreeMap<_, _> = dead.iter().map(|(_, _, key)| (*key, link_of(key))).collect();
        self.splice(&victims);
        for (_, ended, key) in &dead {
            self.remove(key);
            self.departed.evict(*key, *ended);
            self.departed.lineage_cut_count = self.departed.lineage_cut_count.saturating_add(1);
        }
        !dead.is_empty()
    }
}
