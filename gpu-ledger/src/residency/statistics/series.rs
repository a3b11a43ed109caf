//! One quantity over a stretch of time: mean, percentiles, peak, plateaus, and what is missing.

use serde::Serialize;

use super::fixed::Fixed;
use super::histogram::Histogram;
use crate::residency::moment::Length;

/// What one quantity did. Values are in its base unit: bytes, %, mW, °C, or hundredths of a % (processor).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Series {
    /// How long there was a value.
    pub known_ms: Length,
    /// How long there was none: in no figure below.
    pub missing_ms: Length,
    /// Over time, not over points; null where there was never a value, as all below.
    pub mean: Option<Fixed>,
    /// The least.
    pub least: Option<i64>,
    /// At or below it for 5 % of the time.
    pub p5: Option<i64>,
    /// The median.
    pub p50: Option<i64>,
    /// 95 %.
    pub p95: Option<i64>,
    /// 99 %.
    pub p99: Option<i64>,
    /// The greatest at any point.
    pub peak: Option<i64>,
    /// How much higher than told a percentile can be, and one more: 1 is exact.
    pub percentile_resolution: u64,
    /// What was asked about.
    pub threshold: Option<i64>,
    /// How long it was above that; null where nothing was asked.
    pub above_ms: Option<Length>,
    /// The longest time without any change and without a gap, the first of several.
    pub longest_plateau: Option<Plateau>,
    /// Changes from one value to another; over a gap nobody knows, and none is counted.
    pub transitions: u64,
    /// The driver's own window behind each value, shortest and longest; null: the driver does not say.
    pub source_window_ms: Option<(u64, u64)>,
    /// Value · ns, all added up.
    #[serde(skip)]
    pub value_ns: i128,
}

/// A stretch of one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Plateau {
    /// The value.
    pub value: i64,
    /// How long.
    pub length_ms: Length,
}

/// Folds values that hold for a while, in the order of time.
#[derive(Clone, Debug)]
pub struct SeriesFold {
    histogram: Histogram,
    value_ns: i128,
    known_ns: u64,
    missing_ns: u64,
    bounds: Option<(i64, i64)>,
    threshold: Option<i64>,
    above_ns: u64,
    run: Option<(i64, u64)>,
    longest: Option<(i64, u64)>,
    transitions: u64,
}

impl SeriesFold {
    /// Of nothing yet, with at most so many classes of values.
    #[must_use]
    pub(super) const fn new(classes_max: usize, threshold: Option<i64>) -> Self {
        Self {
            histogram: Histogram::new(classes_max),
            value_ns: 0,
            known_ns: 0,
            missing_ns: 0,
            bounds: None,
            threshold,
            above_ns: 0,
            run: None,
            longest: None,
            transitions: 0,
        }
    }

    /// The value for the next `ns`; `None`: there is none. One that holds for no time, as at a window's
    /// last point, was there all the same and can be the peak.
    pub(super) fn hold(&mut self, value: Option<i64>, ns: u64) {
        let Some(value) = value else {
            self.missing_ns = self.missing_ns.saturating_add(ns);
            self.run = None;
            return;
        };
        let (least, peak) = self.bounds.unwrap_or((value, value));
        self.bounds = Some((least.min(value), peak.max(value)));
        let before = match self.run {
            Some((same, before)) if same == value => before,
            Some(_) => {
                self.transitions = self.transitions.saturating_add(1);
                0
            }
            None => 0,
        };
        let run = before.saturating_add(ns);
        self.run = Some((value, run));
        if self.longest.is_none_or(|(_, longest)| run > longest) {
            self.longest = self.run;
        }
        if ns == 0 {
            return;
        }
        self.known_ns = self.known_ns.saturating_add(ns);
        self.value_ns =
            self.value_ns.saturating_add(i128::from(value).saturating_mul(i128::from(ns)));
        self.histogram.add(value, ns);
        if self.threshold.is_some_and(|threshold| value > threshold) {
            self.above_ns = self.above_ns.saturating_add(ns);
        }
    }

    /// All of it.
    #[must_use]
    pub(super) fn finish(&self, source_window_ms: Option<(u64, u64)>) -> Series {
        let percentile = |percent| {
            let (least, peak) = self.bounds?;
            self.histogram.percentile(percent).map(|value| value.clamp(least, peak))
        };
        Series {
            known_ms: Length(self.known_ns),
            missing_ms: Length(self.missing_ns),
            mean: Fixed::quotient(self.value_ns, u128::from(self.known_ns), 3),
            least: self.bounds.map(|(least, _)| least),
            p5: percentile(5),
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99),
            peak: self.bounds.map(|(_, peak)| peak),
            percentile_resolution: self.histogram.resolution(),
            threshold: self.threshold,
            above_ms: self.threshold.map(|_| Length(self.above_ns)),
            longest_plateau: self
                .longest
                .map(|(value, ns)| Plateau { value, length_ms: Length(ns) }),
            transitions: self.transitions,
            source_window_ms,
            value_ns: self.value_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Plateau, SeriesFold};
    use crate::residency::moment::Length;

    #[test]
    fn a_table_by_hand() {
        let mut fold = SeriesFold::new(64, Some(4));
        for (value, ns) in
            [(Some(4), 10), (Some(4), 10), (Some(8), 20), (None, 60), (Some(5), 60), (Some(9), 0)]
        {
            fold.hold(value, ns);
        }
        let series = fold.finish(None);
        assert_eq!((series.known_ms, series.missing_ms), (Length(100), Length(60)));
        // (4 · 20 + 8 · 20 + 5 · 60) / 100
        assert_eq!(series.mean.unwrap().to_string(), "5.400");
        assert_eq!((series.least, series.peak), (Some(4), Some(9)));
        assert_eq!((series.p5, series.p50, series.p95), (Some(4), Some(5), Some(8)));
        assert_eq!(series.above_ms, Some(Length(80)));
        assert_eq!(series.longest_plateau, Some(Plateau { value: 5, length_ms: Length(60) }));
        // 4 to 8, then a gap, then 5 to 9.
        assert_eq!(series.transitions, 2);
    }

    #[test]
    fn without_any_value_nothing_is_nought() {
        let mut fold = SeriesFold::new(64, None);
        fold.hold(None, 50);
        let series = fold.finish(None);
        assert_eq!((series.mean, series.peak, series.p50), (None, None, None));
        assert_eq!((series.above_ms, series.longest_plateau), (None, None));
        assert_eq!((series.known_ms, series.missing_ms), (Length(0), Length(50)));
    }
}
