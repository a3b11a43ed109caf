//! Order statistics over whole numbers, and a seeded order. Pure.

/// A ratio of 1 in parts per million.
pub(super) const ONE_PPM: u64 = 1_000_000;

/// The quartiles of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quartiles {
    pub(super) lower: u64,
    pub(super) median: u64,
    pub(super) upper: u64,
}

/// The median of a sample, and between which bounds the median of what was sampled lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) median: u64,
    /// With at least 95 % confidence: the bounds narrow with the root of the sample's size, as its
    /// quartiles never do. None where the sample is too small for any.
    pub(super) bounds: Option<(u64, u64)>,
}

/// The median with the bounds of the sign test, which presumes nothing of how the values are
/// distributed: the values at rank `n/2 - 0.98 √n`, rounded down, from either end.
pub(super) fn estimate(values: &[u64]) -> Option<Estimate> {
    let median = median(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    // 1.96² = 3.8416 of a normal distribution; rounded towards wider bounds.
    let hundredfold = sorted.len().checked_mul(100)?;
    let spread = sorted.len().checked_mul(38_416)?;
    let root = spread.isqrt();
    let root = if root * root < spread { root + 1 } else { root };
    let rank = hundredfold.saturating_sub(root) / 200;
    let below = rank.checked_sub(1).and_then(|place| sorted.get(place).copied());
    let above = sorted.len().checked_sub(rank).and_then(|place| sorted.get(place).copied());
    Some(Estimate { median, bounds: below.zip(above) })
}

/// The value at `quarter` quarters of a sorted sample, interpolated between its neighbours.
fn at_quarter(sorted: &[u64], quarter: usize) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    let position = last.checked_mul(quarter)?;
    let below = *sorted.get(position / 4)?;
    let above = *sorted.get(position.div_ceil(4))?;
    let rest = u64::try_from(position % 4).ok()?;
    (above - below).checked_mul(rest).map(|part| below + part / 4)
}

/// The quartiles; none of an empty sample.
pub(super) fn quartiles(values: &[u64]) -> Option<Quartiles> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    Some(Quartiles {
        lower: at_quarter(&sorted, 1)?,
        median: at_quarter(&sorted, 2)?,
        upper: at_quarter(&sorted, 3)?,
    })
}

/// The median; none of an empty sample.
pub(super) fn median(values: &[u64]) -> Option<u64> {
    quartiles(values).map(|quartiles| quartiles.median)
}

/// `numerator / denominator` in parts per million; none where it has no value or is too large.
pub(super) fn ratio_ppm(numerator: u64, denominator: u64) -> Option<u64> {
    let scaled = u128::from(numerator) * u128::from(ONE_PPM);
    u64::try_from(scaled.checked_div(u128::from(denominator))?).ok()
}

/// A seeded source of orders (`SplitMix64`), so that a run can be repeated in the same order.
pub(super) struct Shuffler(u64);

impl Shuffler {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Puts `items` into a random order (Fisher and Yates; the bias of the remainder is far below
    /// what three or four items could show).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let Ok(range) = u64::try_from(end + 1) else { continue };
            if let Ok(other) = usize::try_from(self.next() % range) {
                items.swap(end, other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn quartiles_of_an_odd_and_an_even_sample_are_those_of_the_textbook() {
        let odd = quartiles(&[5, 1, 4, 2, 3]).unwrap();
        assert_eq!(odd, Quartiles { lower: 2, median: 3, upper: 4 });
        let even = quartiles(&[40, 10, 30, 20]).unwrap();
        assert_eq!(even, Quartiles { lower: 17, median: 25, upper: 32 });
        let single = quartiles(&[7]).unwrap();
        assert_eq!(single, Quartiles { lower: 7, median: 7, upper: 7 });
    }

    #[test]
    fn the_bounds_of_a_median_narrow_with_the_sample_and_a_small_one_has_none() {
        let of = |values: std::ops::RangeInclusive<u64>| {
            estimate(&values.rev().collect::<Vec<_>>()).unwrap()
        };
        // P(X < 1) is 0.4 % of a binomial distribution of 8 throws, P(X < 13) 0.8 % of 40.
        assert_eq!(of(1..=8), Estimate { median: 4, bounds: Some((1, 8)) });
        assert_eq!(of(1..=40), Estimate { median: 20, bounds: Some((13, 28)) });
        assert_eq!(of(1..=5).bounds, None);
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn bounds_hold_the_true_median_as_often_as_they_claim() {
        let mut source = Shuffler::new(7);
        let mut held = 0;
        for _ in 0..2_000 {
            let sample: Vec<u64> = (0..40).map(|_| source.next() >> 1).collect();
            let (below, above) = estimate(&sample).unwrap().bounds.unwrap();
            held += u32::from(below <= 1 << 62 && 1 << 62 <= above);
        }
        assert!(held >= 1_900, "95 % of 2,000 are 1,900: {held}");
    }

    #[test]
    fn an_empty_sample_has_no_median_rather_than_zero() {
        assert_eq!(median(&[]), None);
        assert_eq!(ratio_ppm(1, 0), None);
    }

    #[test]
    fn a_median_is_not_moved_by_one_wild_value() {
        assert_eq!(median(&[100, 101, 99, 100, u64::MAX]), Some(100));
    }

    #[test]
    fn a_ratio_keeps_six_places_and_does_not_overflow() {
        assert_eq!(ratio_ppm(102, 100), Some(1_020_000));
        assert_eq!(ratio_ppm(u64::MAX, u64::MAX), Some(ONE_PPM));
        assert_eq!(ratio_ppm(u64::MAX, 1), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_orders_and_every_order_comes_up() {
        let orders = |seed| {
            let mut shuffler = Shuffler::new(seed);
            let mut seen = BTreeMap::new();
            for _ in 0..600 {
                let mut items = [0, 1, 2];
                shuffler.shuffle(&mut items);
                *seen.entry(items).or_insert(0_u32) += 1;
            }
            seen
        };
        assert_eq!(orders(1), orders(1));
        assert_eq!(orders(1).len(), 6);
        assert!(orders(1).values().all(|&count| count > 50), "{:?}", orders(1));
    }
}
