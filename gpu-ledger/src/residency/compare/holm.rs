//! Holm's correction: of many tests at once, one must not be significant by their number alone.
//!
//! Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6
//! (1979). An adjusted p at or below α may be called significant, whatever the tests have in common.
#![expect(clippy::float_arithmetic, reason = "p of a test, multiplied by their number")]

/// The adjusted p of every test, in the order given.
#[must_use]
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut ranked: Vec<(usize, f64)> = p.iter().copied().enumerate().collect();
    ranked.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let mut adjusted = p.to_vec();
    let mut floor = 0.0_f64;
    for (rank, (place, p)) in ranked.iter().enumerate() {
        let left = u32::try_from(ranked.len().saturating_sub(rank)).unwrap_or(u32::MAX);
        floor = floor.max((p * f64::from(left)).min(1.0));
        if let Some(adjusted) = adjusted.get_mut(*place) {
            *adjusted = floor;
        }
    }
    adjusted
}

/// The least adjusted p that a signed-rank test of `n` differing pairs can have among so many tests:
/// all signs alike, 2 of 2ⁿ ways, and Holm's first step.
#[must_use]
pub fn least(n: usize, tests: usize) -> f64 {
    let halvings = i32::try_from(n.saturating_sub(1)).unwrap_or(i32::MAX);
    let tests = u32::try_from(tests).unwrap_or(u32::MAX);
    (0.5_f64.powi(halvings) * f64::from(tests)).min(1.0)
}

/// How many pairs have to differ before the least adjusted p among so many tests is at most `alpha`.
#[must_use]
pub fn needed(tests: usize, alpha: f64) -> usize {
    let mut n = 1;
    while least(n, tests) > alpha && n < usize::from(u8::MAX) {
        n = n.saturating_add(1);
    }
    n
}

#[cfg(test)]
mod tests {
    use super::{adjusted, least, needed};

    #[test]
    fn so_many_pairs_are_needed() {
        let needed: Vec<usize> = [1, 3, 4, 7].map(|tests| needed(tests, 0.05)).to_vec();
        // 2 of 2ⁿ ways, times the tests: 2/64, 6/128, 8/256, 14/512.
        assert_eq!(needed, [6, 7, 8, 9]);
    }

    #[test]
    fn few_pairs_cannot_reach_a_low_p() {
        are(&[least(5, 1), least(8, 4), least(6, 4), least(1, 1)], &[0.0625, 0.03125, 0.125, 1.0]);
    }

    fn are(got: &[f64], wanted: &[f64]) {
        assert_eq!(got.len(), wanted.len());
        for (got, wanted) in got.iter().zip(wanted) {
            assert!((got - wanted).abs() < 1e-12, "{got} is not {wanted}");
        }
    }

    /// The worked example of en.wikipedia.org/wiki/Holm–Bonferroni_method: of 0.01, 0.04, 0.03 and 0.005
    /// at α = 0.05 the first and the last are rejected; adjusted as `p.adjust(…, "holm")` of R gives them.
    #[test]
    fn the_worked_example() {
        let told = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        are(&told, &[0.03, 0.06, 0.06, 0.02]);
        let rejected: Vec<bool> = told.iter().map(|p| *p <= 0.05).collect();
        assert_eq!(rejected, [true, false, false, true]);
    }

    #[test]
    fn one_test_is_its_own_and_none_is_above_one() {
        are(&adjusted(&[0.04]), &[0.04]);
        are(&adjusted(&[0.9, 0.8]), &[1.0, 1.0]);
        are(&adjusted(&[]), &[]);
    }
}
