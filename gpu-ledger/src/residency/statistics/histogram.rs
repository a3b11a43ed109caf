//! How long a series had which value, in bounded memory.

use std::collections::BTreeMap;

/// Time by value: exact while the distinct values are few, in classes of a power of two above that.
///
/// The classes are as narrow as the bound allows for all values together, whatever order they came in.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    classes_max: usize,
    /// A class holds 2^shift values.
    shift: u32,
    ns: BTreeMap<i64, u64>,
    total_ns: u64,
}

impl Histogram {
    pub(super) const fn new(classes_max: usize) -> Self {
        Self { classes_max, shift: 0, ns: BTreeMap::new(), total_ns: 0 }
    }

    /// The value held for so long.
    pub(super) fn add(&mut self, value: i64, ns: u64) {
        self.total_ns = self.total_ns.saturating_add(ns);
        let time = self.ns.entry(value >> self.shift).or_insert(0);
        *time = time.saturating_add(ns);
        while self.ns.len() > self.classes_max && self.shift < 63 {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.shift = self.shift.saturating_add(1);
        let mut coarser = BTreeMap::new();
        for (class, ns) in std::mem::take(&mut self.ns) {
            let time: &mut u64 = coarser.entry(class >> 1).or_insert(0);
            *time = time.saturating_add(ns);
        }
        self.ns = coarser;
    }

    /// The least value of the first class up to which `percent` of the time had passed: the percentile
    /// itself where [`Self::resolution`] is 1, else up to that much less. `None` of no time.
    pub(super) fn percentile(&self, percent: u8) -> Option<i64> {
        let wanted = u128::from(self.total_ns).saturating_mul(u128::from(percent));
        let mut passed: u128 = 0;
        for (class, ns) in &self.ns {
            passed = passed.saturating_add(u128::from(*ns));
            if passed.saturating_mul(100) >= wanted {
                return Some(
                    class.saturating_mul(1_i64.checked_shl(self.shift).unwrap_or(i64::MAX)),
                );
            }
        }
        None
    }

    /// How many values a class holds: 1 is exact.
    pub(super) const fn resolution(&self) -> u64 {
        1 << self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;
    use crate::random::Random;

    #[test]
    fn percentiles_are_those_of_time_not_of_points() {
        let mut histogram = Histogram::new(8);
        histogram.add(10, 1);
        histogram.add(20, 94);
        histogram.add(30, 5);
        let at = |percent| histogram.percentile(percent);
        assert_eq!((at(1), at(2), at(95), at(96)), (Some(10), Some(20), Some(20), Some(30)));
        assert_eq!(histogram.resolution(), 1);
        assert_eq!(Histogram::new(8).percentile(50), None);
    }

    #[test]
    fn with_too_many_values_it_is_coarser_by_no_more_than_it_says_in_any_order() {
        let mut random = Random::seeded(7);
        let mut values: Vec<i64> =
            (0..3_000).map(|_| i64::try_from(random.below(1 << 40)).unwrap() - (1 << 39)).collect();
        let mut histogram = Histogram::new(256);
        let mut backwards = Histogram::new(256);
        for (value, other) in values.iter().zip(values.iter().rev()) {
            histogram.add(*value, 1);
            backwards.add(*other, 1);
        }
        values.sort_unstable();
        assert!(histogram.ns.len() <= 256 && histogram.resolution() > 1);
        for percent in [5, 50, 95, 99] {
            let told = histogram.percentile(percent).unwrap();
            assert_eq!(backwards.percentile(percent), Some(told));
            let true_one = values[usize::from(percent) * 3_000 / 100 - 1];
            let off = u64::try_from(true_one - told).unwrap();
            assert!(off < histogram.resolution(), "p{percent}: {told} of {true_one}");
        }
    }
}
