//! What was lost: counts of the kernel side, holes in the numbering, and that they agree.
//!
//! Purpose: per CPU, `produced = received + lost`, checked from both sides. The programs count
//! what the ring refused and what cannot say whom it is about; the reader finds the numbers that never came. May touch: nothing.

use std::collections::BTreeMap;

use gpu_ledger_ebpf::kind;

use super::wire::RecordHead;
use crate::unit::BootNs;

/// Numbers per kind of record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerKind([u64; kind::COUNT]);

impl PerKind {
    /// From numbers indexed by [`kind`].
    #[must_use]
    pub const fn new(counts: [u64; kind::COUNT]) -> Self {
        Self(counts)
    }

    /// Of one kind; `None` for a kind there is not.
    #[must_use]
    pub fn of(&self, kind: u16) -> Option<u64> {
        self.0.get(usize::from(kind)).copied()
    }

    /// Of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Adds another's numbers.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    fn count(&mut self, kind: u16) {
        if let Some(count) = self.0.get_mut(usize::from(kind)) {
            *count = count.saturating_add(1);
        }
    }
}

/// What the programs counted on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuCounts {
    /// Numbers given out: records produced.
    pub next_seq: u64,
    /// When the last of these was lost; `None` if none ever was.
    pub last_lost_at: Option<BootNs>,
    /// Produced.
    pub produced: PerKind,
    /// Refused by the ring, or given up because whom they are about could not be read.
    pub lost: PerKind,
    /// Records whose argv was shed.
    pub argv_shed: u64,
    /// Members that could not be read; each is flagged in its record, or the record is lost.
    pub read_faults: u64,
    /// The fullest the ring was seen when a record was made, bytes.
    pub ring_fill_bytes_max: u64,
}

/// What the programs counted, per CPU and in all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// By CPU number, every possible CPU.
    pub cpus: Vec<CpuCounts>,
}

impl Counts {
    /// Produced, all CPUs.
    #[must_use]
    pub fn produced(&self) -> PerKind {
        self.sum(|cpu| cpu.produced)
    }

    /// Lost, all CPUs.
    #[must_use]
    pub fn lost(&self) -> PerKind {
        self.sum(|cpu| cpu.lost)
    }

    /// Records whose argv was shed.
    #[must_use]
    pub fn argv_shed(&self) -> u64 {
        self.cpus.iter().fold(0, |sum, cpu| sum.saturating_add(cpu.argv_shed))
    }

    /// Members that could not be read; each is flagged in its record, or the record is lost.
    #[must_use]
    pub fn read_faults(&self) -> u64 {
        self.cpus.iter().fold(0, |sum, cpu| sum.saturating_add(cpu.read_faults))
    }

    /// The fullest the ring was ever seen, bytes.
    #[must_use]
    pub fn ring_fill_bytes_max(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.ring_fill_bytes_max).max().unwrap_or(0)
    }

    fn sum(&self, of: impl Fn(&CpuCounts) -> PerKind) -> PerKind {
        self.cpus.iter().fold(PerKind::default(), |mut sum, cpu| {
            sum.add(&of(cpu));
            sum
        })
    }
}

/// Records of one CPU that never came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The CPU.
    pub cpu: u32,
    /// How many.
    pub count: u64,
    /// When the last record before the hole was made; `None` if the first one of all is missing.
    pub after: Option<BootNs>,
    /// When the first record after it was made; `None` where none has come yet.
    pub before: Option<BootNs>,
}

/// Received and lost do not add up to produced on a CPU: a mistake of this program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("CPU {cpu}: {produced} records produced, but {received} received and {lost} lost")]
pub struct Imbalance {
    /// The CPU.
    pub cpu: u32,
    /// Numbers given out.
    pub produced: u64,
    /// Records that came.
    pub received: u64,
    /// Records the ring refused.
    pub lost: u64,
}

/// Finds the numbers that never came.
#[derive(Clone, Debug, Default)]
pub struct SequenceTracker {
    cpus: BTreeMap<u32, CpuSequence>,
    received: PerKind,
    repeated: u64,
}

#[derive(Clone, Debug, Default)]
struct CpuSequence {
    /// The number expected next.
    next: u64,
    received: u64,
    last_at: Option<BootNs>,
    /// Missing numbers, first to length. A preempted program's record may still fill one.
    holes: BTreeMap<u64, Loss>,
    /// Numbers missing and already reported as lost.
    reported: u64,
}

impl SequenceTracker {
    /// Takes note of one received record.
    pub fn observe(&mut self, head: &RecordHead) {
        self.received.count(head.kind);
        let cpu = self.cpus.entry(head.cpu).or_default();
        cpu.received = cpu.received.saturating_add(1);
        if head.seq >= cpu.next {
            cpu.open_hole(head);
            cpu.next = head.seq.saturating_add(1);
            cpu.last_at = Some(head.at);
        } else if !cpu.fill(head.seq) {
            self.repeated = self.repeated.saturating_add(1);
        }
    }

    /// Received so far.
    #[must_use]
    pub const fn received(&self) -> PerKind {
        self.received
    }

    /// Received from one CPU.
    #[must_use]
    pub fn received_on(&self, cpu: u32) -> u64 {
        self.cpus.get(&cpu).map_or(0, |cpu| cpu.received)
    }

    /// Records whose number had come before or whose hole was already reported: must stay 0.
    #[must_use]
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Numbers missing between those that came, reported or not, on one CPU.
    #[must_use]
    pub fn missing_on(&self, cpu: u32) -> u64 {
        self.cpus.get(&cpu).map_or(0, |cpu| cpu.missing().saturating_add(cpu.reported))
    }

    /// Losses that the kernel's counters confirm and that were not reported yet. `counts` must be
    /// read **before** the drain that this follows: then every record that it counts as produced
    /// and not as lost has been received, or is still being written.
    pub fn confirm(&mut self, counts: &Counts) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (number, counted) in (0_u32..).zip(&counts.cpus) {
            let lost = counted.lost.total();
            let cpu = match self.cpus.get_mut(&number) {
                Some(cpu) => cpu,
                None if lost == 0 => continue,
                None => self.cpus.entry(number).or_default(),
            };
            losses.extend(cpu.confirm(number, lost, counted.next_seq));
        }
        losses
    }

    /// Proves that nothing is missing but what is counted as lost. Only of a moment when no record
    /// is on its way: the ring drained, and nothing produced since `counts` were read.
    pub fn balance(&self, counts: &Counts) -> Result<(), Imbalance> {
        for (cpu, counted) in (0_u32..).zip(&counts.cpus) {
            let (produced, lost) = (counted.next_seq, counted.lost.total());
            let received = self.received_on(cpu);
            let kinds = counted.produced.total();
            if received.checked_add(lost) != Some(produced) || kinds != produced {
                return Err(Imbalance { cpu, produced, received, lost });
            }
        }
        Ok(())
    }
}

impl CpuSequence {
    fn open_hole(&mut self, head: &RecordHead) {
        let count = head.seq.saturating_sub(self.next);
        if count > 0 {
            let (after, before) = (self.last_at, Some(head.at));
            self.holes.insert(self.next, Loss { cpu: head.cpu, count, after, before });
        }
    }

    /// Takes a number that came late out of its hole; false where it is in none.
    fn fill(&mut self, seq: u64) -> bool {
        let Some((first, hole)) = self.holes.range(..=seq).next_back() else { return false };
        let (first, hole) = (*first, *hole);
        let Some(inside) = seq.checked_sub(first).filter(|inside| *inside < hole.count) else {
            return false;
        };
        self.holes.remove(&first);
        let behind = hole.count.saturating_sub(inside).saturating_sub(1);
        for (start, count) in [(first, inside), (seq.saturating_add(1), behind)] {
            if count > 0 {
                self.holes.insert(start, Loss { count, ..hole });
            }
        }
        true
    }

    fn missing(&self) -> u64 {
        self.holes.values().fold(0, |sum, hole| sum.saturating_add(hole.count))
    }

    /// Reports holes up to the number of losses that the kernel counted. Where it counted more
    /// than there are holes, the newest numbers are missing at the end.
    fn confirm(&mut self, cpu: u32, lost: u64, next_seq: u64) -> Vec<Loss> {
        let mut open = lost.saturating_sub(self.reported);
        let mut losses = Vec::new();
        while let Some(mut hole) = self.holes.first_entry() {
            let count = hole.get().count;
            if count > open {
                break;
            }
            losses.push(*hole.get_mut());
            hole.remove();
            open = open.saturating_sub(count);
            self.reported = self.reported.saturating_add(count);
        }
        // Only where every number at the end is counted as lost: one may still be on its way.
        let tail = next_seq.saturating_sub(self.next);
        if tail > 0 && tail == open && self.holes.is_empty() {
            losses.push(Loss { cpu, count: tail, after: self.last_at, before: None });
            self.reported = self.reported.saturating_add(tail);
            self.next = next_seq;
        }
        losses
    }
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
