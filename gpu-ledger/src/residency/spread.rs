//! How a quantity was spread, in constant memory.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::moment::Length;

/// Median, tail and greatest of what was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Spread {
    /// Median; null of nothing.
    pub p50: Option<Length>,
    /// 95th percentile.
    pub p95: Option<Length>,
    /// 99th percentile.
    pub p99: Option<Length>,
    /// The greatest, exact.
    pub max: Option<Length>,
}

/// Counts lengths to three significant digits.
#[derive(Clone, Debug)]
pub struct SpreadFold {
    /// In ns; `None` where the library refused to make one, which it does of no setting given here.
    histogram: Option<Histogram<u64>>,
    max: Option<Length>,
    sum_ns: u128,
    count: u64,
}

impl Default for SpreadFold {
    fn default() -> Self {
        Self { histogram: Histogram::new(3).ok(), max: None, sum_ns: 0, count: 0 }
    }
}

impl SpreadFold {
    /// One more.
    pub fn add(&mut self, length: Length) {
        if let Some(histogram) = &mut self.histogram
            && histogram.record(length.0).is_err()
        {
            // It cannot grow so far: percentiles would lie from here on, and are not told.
            self.histogram = None;
        }
        self.max = Some(self.max.map_or(length, |max| max.max(length)));
        self.sum_ns = self.sum_ns.saturating_add(u128::from(length.0));
        self.count = self.count.saturating_add(1);
    }

    /// How many.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, floored to a nanosecond.
    #[must_use]
    pub fn mean(&self) -> Option<Length> {
        let mean = self.sum_ns.checked_div(u128::from(self.count))?;
        u64::try_from(mean).ok().map(Length)
    }

    /// How they were spread. A percentile is never above the greatest, whatever its class.
    #[must_use]
    pub fn spread(&self) -> Spread {
        let percentile = |percent: f64| {
            let histogram = self.histogram.as_ref().filter(|_| self.count > 0)?;
            let class = Length(histogram.value_at_percentile(percent));
            Some(self.max.map_or(class, |max| class.min(max)))
        };
        Spread {
            p50: percentile(50.0),
            p95: percentile(95.0),
            p99: percentile(99.0),
            max: self.max,
        }
    }
}
