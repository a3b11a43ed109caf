//! Busy and memory of a line: sampled, and never in the held total.

use crate::bill::ledger::CutRow;
use crate::unit::{Bytes, Ms};

/// What the settlements of one line add up to.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sampled {
    low: u64,
    high: u64,
    unsampled: u64,
    has_samples: bool,
    peak: Option<Bytes>,
    /// Settlements whose peak is not known.
    pub(super) peaks_unknown: u64,
    /// Settlements without samples.
    pub(super) unsampled_count: u64,
}

impl Sampled {
    /// One settlement more, with what it held of the period.
    pub(super) fn add(&mut self, row: &CutRow<'_>, held: Ms) {
        let (whole, within) = (row.placing().held.0, held.0);
        if let Some(busy) = row.busy() {
            // What was busy outside of the period is at most what lies outside.
            let outside = whole.saturating_sub(within);
            self.low = self.low.saturating_add(busy.low.0.saturating_sub(outside));
            self.high = self.high.saturating_add(busy.high.0.min(within));
            self.has_samples = true;
        } else {
            self.high = self.high.saturating_add(within);
            self.unsampled = self.unsampled.saturating_add(within);
            self.unsampled_count = self.unsampled_count.saturating_add(1);
        }
        match row.memory_peak() {
            Some(peak) => self.peak = self.peak.max(Some(peak)),
            None => self.peaks_unknown = self.peaks_unknown.saturating_add(1),
        }
    }

    /// Everything of another line, or of the same one on another GPU.
    pub(super) fn merge(&mut self, other: &Self) {
        self.low = self.low.saturating_add(other.low);
        self.high = self.high.saturating_add(other.high);
        self.unsampled = self.unsampled.saturating_add(other.unsampled);
        self.has_samples |= other.has_samples;
        self.peak = self.peak.max(other.peak);
        self.peaks_unknown = self.peaks_unknown.saturating_add(other.peaks_unknown);
        self.unsampled_count = self.unsampled_count.saturating_add(other.unsampled_count);
    }

    /// The busy range; `None` where nothing was sampled.
    pub(super) fn busy(&self) -> Option<(Ms, Ms)> {
        self.has_samples.then_some((Ms(self.low), Ms(self.high)))
    }

    /// What was never sampled.
    pub(super) const fn unsampled(&self) -> Ms {
        Ms(self.unsampled)
    }

    /// The largest peak; a single unknown among them makes the largest unknown too.
    pub(super) fn peak(&self) -> Option<Bytes> {
        self.peak.filter(|_| self.peaks_unknown == 0)
    }

    /// As a weight for dividing shared time: the middle of the range, doubled.
    pub(super) fn weight(&self) -> Option<u64> {
        self.has_samples.then(|| self.low.saturating_add(self.high))
    }
}
