//! The counter of memory held: hours that are over and valid, by GPU and account.
//!
//! A counter never falls, and one over-age sample voids its whole hour: so an hour counts when the next one has
//! begun, or its last quarter is entered, and nothing voided it until then. It begins anew with the daemon, with what an
//! earlier run entered of an hour that it did not see the end of.

use std::collections::{BTreeMap, BTreeSet};

use super::held::{ACCOUNT_LABELS_MAX, AccountLabel, LABEL_OTHER};
use crate::memory::{ByteMs, HOUR_MS, Stretch};
use crate::unit::GpuUuid;

/// An hour that is not over.
#[derive(Clone, Debug, Default)]
struct Pending {
    hour_ms: u64,
    is_void: bool,
    held: BTreeMap<AccountLabel, ByteMs>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct MemoryMeter {
    counts: BTreeMap<(GpuUuid, AccountLabel), ByteMs>,
    void_hours: BTreeMap<GpuUuid, u64>,
    pending: BTreeMap<GpuUuid, Pending>,
    labels: BTreeSet<AccountLabel>,
}

impl MemoryMeter {
    /// Takes over the hours that were not over when an earlier run ended: it never counted them.
    pub fn resume(&mut self, before: &Self) {
        for (gpu, pending) in &before.pending {
            self.pending.entry(gpu.clone()).or_insert_with(|| pending.clone());
        }
        self.labels.extend(before.pending.values().flat_map(|one| one.held.keys().cloned()));
    }

    /// The next stretch that is on the disk. `is_void`: whether anything in the journal voids its hour, also what an
    /// earlier run entered.
    pub fn take(&mut self, stretch: &Stretch, is_void: bool) {
        let hour_ms = stretch.hour_ms();
        let is_other =
            self.pending.get(&stretch.gpu).is_some_and(|pending| pending.hour_ms != hour_ms);
        if is_other {
            self.end_hour(&stretch.gpu);
        }
        let mut held: Vec<(AccountLabel, ByteMs)> = Vec::with_capacity(stretch.holders.len());
        for holding in &stretch.holders {
            let label = self.label(AccountLabel::of(&holding.holder.account));
            held.push((label, holding.held.memory));
        }
        if let Some(beyond) = &stretch.beyond {
            held.push((AccountLabel::own(LABEL_OTHER), beyond.held.memory));
        }
        let pending = self.pending.entry(stretch.gpu.clone()).or_default();
        pending.hour_ms = hour_ms;
        pending.is_void |= is_void || !stretch.voids.is_empty();
        for (label, memory) in held {
            let sum = pending.held.entry(label).or_default();
            *sum = sum.plus(memory);
        }
        if stretch.to.ms() >= hour_ms.saturating_add(HOUR_MS) {
            self.end_hour(&stretch.gpu);
        }
    }

    fn end_hour(&mut self, gpu: &GpuUuid) {
        let Some(pending) = self.pending.remove(gpu) else { return };
        if pending.is_void {
            let hours = self.void_hours.entry(gpu.clone()).or_default();
            *hours = hours.saturating_add(1);
            return;
        }
        self.void_hours.entry(gpu.clone()).or_default();
        for (label, memory) in pending.held {
            let sum = self.counts.entry((gpu.clone(), label)).or_default();
            *sum = sum.plus(memory);
        }
    }

    fn label(&mut self, label: AccountLabel) -> AccountLabel {
        if self.labels.contains(&label) {
            return label;
        }
        if self.labels.len() >= ACCOUNT_LABELS_MAX {
            return AccountLabel::own(LABEL_OTHER);
        }
        self.labels.insert(label.clone());
        label
    }

    /// What each account held.
    pub fn counts(&self) -> impl Iterator<Item = (&(GpuUuid, AccountLabel), ByteMs)> {
        self.counts.iter().map(|(of, memory)| (of, *memory))
    }

    /// Hours of each GPU that were void.
    #[must_use]
    pub const fn void_hours(&self) -> &BTreeMap<GpuUuid, u64> {
        &self.void_hours
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::{Device, Held, Holder, Holding, Pace, SLOT_MS, Sampling};
    use crate::residency::verdict::VoidReason;
    use crate::settlement::{Account, Ground};
    use crate::unit::{Pid, WallUs};

    fn stretch(quarter: u64, names: &[&str], voids: &[VoidReason]) -> Stretch {
        let (from, to) = (quarter * SLOT_MS, (quarter + 1) * SLOT_MS);
        let holding = |name: &&str| Holding {
            holder: Holder {
                pid: Pid(1),
                start: None,
                account: Account::by(Ground::Program, *name),
                program: None,
                uid: None,
                basis: None,
                labels: Vec::new(),
            },
            held: Held { memory: ByteMs(7), known_ms: SLOT_MS, unsaid_ms: 0 },
        };
        Stretch {
            gpu: GpuUuid(Arc::from("GPU-0")),
            from: WallUs(from * 1_000),
            to: WallUs(to * 1_000),
            pace: Pace::of(std::time::Duration::from_secs(5)),
            sampling: Sampling::default(),
            device: Device::default(),
            holders: names.iter().map(holding).collect(),
            beyond: None,
            voids: voids.iter().map(|reason| (*reason, 1)).collect(),
            is_cut_by_step: false,
        }
    }

    fn taken(stretches: &[Stretch]) -> (BTreeMap<String, u128>, u64) {
        let mut meter = MemoryMeter::default();
        for stretch in stretches {
            meter.take(stretch, false);
        }
        let counts =
            meter.counts().map(|((_, label), memory)| (label.account.to_string(), memory.0));
        (counts.collect(), meter.void_hours().values().sum())
    }

    #[test]
    fn an_hour_counts_when_it_is_over_and_nothing_voided_it() {
        let quarters: Vec<Stretch> = (0..3).map(|place| stretch(place, &["a"], &[])).collect();
        assert_eq!(taken(&quarters), (BTreeMap::new(), 0));
        let whole: Vec<Stretch> = (0..4).map(|place| stretch(place, &["a"], &[])).collect();
        assert_eq!(taken(&whole), (BTreeMap::from([("a".to_owned(), 28)]), 0));
        // Its last quarter may never come.
        let next = [quarters, vec![stretch(4, &["b"], &[])]].concat();
        assert_eq!(taken(&next), (BTreeMap::from([("a".to_owned(), 21)]), 0));
        let mut void = whole;
        void[2].voids = vec![(VoidReason::AgeSupOverCap, 1)];
        assert_eq!(taken(&void), (BTreeMap::new(), 1));
    }

    #[test]
    fn what_an_earlier_run_voided_is_no_memory_of_this_one() {
        let mut meter = MemoryMeter::default();
        meter.take(&stretch(3, &["a"], &[]), true);
        assert_eq!((meter.counts().count(), meter.void_hours().values().sum::<u64>()), (0, 1));
    }

    #[test]
    fn an_hour_that_an_earlier_run_began_counts_whole() {
        let mut before = MemoryMeter::default();
        for quarter in 0..2 {
            before.take(&stretch(quarter, &["a"], &[]), false);
        }
        let mut meter = MemoryMeter::default();
        meter.resume(&before);
        for quarter in 2..4 {
            meter.take(&stretch(quarter, &["a"], &[]), false);
        }
        assert_eq!(meter.counts().map(|(_, memory)| memory.0).collect::<Vec<_>>(), [28]);
        // What the earlier one counted is not counted again.
        let mut over = MemoryMeter::default();
        over.take(&stretch(3, &["a"], &[]), false);
        let mut next = MemoryMeter::default();
        next.resume(&over);
        assert_eq!(next.counts().count(), 0);
    }

    #[test]
    fn no_more_accounts_have_a_label_than_may() {
        let names: Vec<String> = (0..ACCOUNT_LABELS_MAX + 5).map(|name| name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (counts, _) = taken(&[stretch(3, &names, &[])]);
        assert_eq!(counts.len(), ACCOUNT_LABELS_MAX + 1);
        assert_eq!(counts[LABEL_OTHER], 5 * 7);
    }
}
