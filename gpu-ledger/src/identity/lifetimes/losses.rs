//! When process events were lost, for those found only later.

use std::collections::BTreeSet;

use super::Lifetimes;
use super::record::Record;
use crate::kernel::ProcessKey;
use crate::unit::BootNs;

/// Losses kept apart. Past it the two oldest become one that covers both: what is born later is not
/// touched by it, and of what was born before it more is in doubt.
const LOSSES_MAX: usize = 32;

/// The intervals in which events were lost, by their beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses(Vec<(BootNs, BootNs)>);

impl Losses {
    fn add(&mut self, from: BootNs, to: BootNs) {
        if self.0.iter().any(|(first, last)| *first <= from && to <= *last) {
            return;
        }
        let place = self.0.partition_point(|(first, _)| *first <= from);
        self.0.insert(place, (from, to));
        if self.0.len() > LOSSES_MAX {
            let (first, last) = self.0.remove(0);
            if let Some(next) = self.0.first_mut() {
                *next = (first.min(next.0), last.max(next.1));
            }
        }
    }

    /// From the first to the last moment of those losses that touch the time from `start` to `until`.
    pub(super) fn touching(&self, start: BootNs, until: BootNs) -> Option<(BootNs, BootNs)> {
        let touched = self.0.iter().filter(|(from, to)| start <= *to && *from <= until).copied();
        touched.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
    }
}

impl Lifetimes {
    /// Process events were lost in `[from, to]`: what every process alive in it ran from then on is
    /// in doubt until its next exec event, its end, or the next `reseed` that began after it. It may
    /// be told after events and looks that came later, and again. The caller keeps the gap itself in
    /// the coverage.
    pub fn event_gap(&mut self, from: BootNs, to: BootNs) {
        self.losses.add(from, to);
        let keys: Vec<ProcessKey> = self.records.keys().copied().collect();
        let mut doubted: BTreeSet<ProcessKey> = BTreeSet::new();
        for key in keys {
            let since = self.change(&key, |record| record.doubt(from, to)).flatten();
            if let Some(since) = since {
                self.patch_children_after(key, since);
                doubted.insert(key);
            }
        }
        self.doubt_children(doubted);
    }

    /// The end of `key` is news: looks that came after it were at another holder of its pid.
    pub(super) fn take_back_looks_after_end(&mut self, key: ProcessKey) {
        let doubted = self.change(&key, Record::take_back_looks_after_end).flatten();
        if let Some(since) = doubted {
            self.patch_children_after(key, since);
            self.doubt_children(BTreeSet::from([key]));
        }
    }
}
