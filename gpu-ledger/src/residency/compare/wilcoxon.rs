//! Wilcoxon's signed-rank test of paired differences: the second opinion of a comparison.
//!
//! Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1 (1945): pairs without a
//! difference are left out, equal differences share the mean of their ranks. The p is two-sided and exact,
//! with ties too: every way of giving the ranks their signs is counted. Above [`EXACT_MAX`] pairs it is
//! that of the normal distribution with the correction for ties and for continuity.
#![expect(clippy::float_arithmetic, reason = "a share of all signs, and the normal approximation")]

use crate::residency::statistics::normal::{cumulative, float};

/// Up to so many differences all signs are counted: 2¹⁰⁰ fits into the counters.
pub const EXACT_MAX: usize = 100;

/// What the test says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SignedRank {
    /// Pairs that differ.
    pub n: usize,
    /// Pairs that do not.
    pub zeros: usize,
    /// Twice the sum of the ranks of positive differences: ranks can be halves.
    pub positive_doubled: u64,
    /// And of negative ones.
    pub negative_doubled: u64,
    /// Two-sided.
    pub p: f64,
    /// Whether all signs were counted.
    pub is_exact: bool,
}

impl SignedRank {
    /// The matched-pairs rank-biserial correlation, from −1 to 1: by how much the ranks of one sign
    /// outweigh the other's (Kerby, "The simple difference formula", 2014).
    #[must_use]
    pub fn rank_biserial(&self) -> f64 {
        let positive = float(i128::from(self.positive_doubled));
        let negative = float(i128::from(self.negative_doubled));
        (positive - negative) / (positive + negative)
    }
}

/// Tests the differences of pairs; `None` where no pair differs.
#[must_use]
pub fn signed_rank(differences: &[i128]) -> Option<SignedRank> {
    let mut differing: Vec<i128> = differences.iter().copied().filter(|one| *one != 0).collect();
    differing.sort_unstable_by_key(|one| one.unsigned_abs());
    if differing.is_empty() {
        return None;
    }
    let (mut positive, mut negative) = (0_u64, 0_u64);
    let mut ranks = Vec::with_capacity(differing.len());
    let mut tied = Vec::new();
    let mut first: u64 = 1;
    for tie in differing.chunk_by(|one, other| one.unsigned_abs() == other.unsigned_abs()) {
        let length = u64::try_from(tie.len()).ok()?;
        // Twice the mean of the ranks first ..= first + length − 1.
        let rank = first.saturating_mul(2).saturating_add(length).saturating_sub(1);
        for one in tie {
            let side = if *one > 0 { &mut positive } else { &mut negative };
            *side = side.saturating_add(rank);
            ranks.push(rank);
        }
        tied.push(length);
        first = first.saturating_add(length);
    }
    let is_exact = ranks.len() <= EXACT_MAX;
    let lesser = positive.min(negative);
    let p = if is_exact { exact(&ranks, lesser)? } else { approximate(&ranks, &tied, lesser) };
    Some(SignedRank {
        n: ranks.len(),
        zeros: differences.len().saturating_sub(ranks.len()),
        positive_doubled: positive,
        negative_doubled: negative,
        p: p.min(1.0),
        is_exact,
    })
}

/// Twice the share of all signs that give at most `lesser`; their sums are symmetric.
fn exact(ranks: &[u64], lesser: u64) -> Option<f64> {
    let lesser = usize::try_from(lesser).ok()?;
    // How many ways give a sum, of sums up to the lesser.
    let mut ways = vec![0_u128; lesser.saturating_add(1)];
    *ways.first_mut()? = 1;
    for rank in ranks {
        let rank = usize::try_from(*rank).ok()?;
        for sum in (rank..ways.len()).rev() {
            let without = *ways.get(sum.checked_sub(rank)?)?;
            let all = ways.get_mut(sum)?;
            *all = all.saturating_add(without);
        }
    }
    let extreme = ways.iter().fold(0_u128, |sum, ways| sum.saturating_add(*ways));
    let signs = 1_u128.checked_shl(u32::try_from(ranks.len()).ok()?)?;
    Some(2.0 * float(i128::try_from(extreme).ok()?) / float(i128::try_from(signs).ok()?))
}

fn approximate(ranks: &[u64], tied: &[u64], lesser: u64) -> f64 {
    let number = |count: u64| float(i128::from(count));
    let n = number(u64::try_from(ranks.len()).unwrap_or(u64::MAX));
    let mean = n * (n + 1.0) / 4.0;
    let lost_to_ties = tied.iter().fold(0.0, |sum, length| {
        let length = number(*length);
        sum + (length * length * length - length)
    });
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - lost_to_ties / 48.0;
    let distance = (mean - number(lesser) / 2.0 - 0.5).max(0.0);
    2.0 * cumulative(-distance / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::{SignedRank, signed_rank};

    fn tested(differences: &[i128]) -> SignedRank {
        signed_rank(differences).unwrap()
    }

    fn is(got: f64, wanted: f64) {
        assert!((got - wanted).abs() < 1e-12, "{got} is not {wanted}");
    }

    /// Depression scale of nine patients before and after: Hollander and Wolfe (1973), table 3.1, the
    /// example of R's `wilcox.test`: V = 40, one-sided p = 0.01953, so 0.0390625 of both sides.
    #[test]
    fn hollander_and_wolfe() {
        let first = [1_830, 500, 1_620, 2_480, 1_680, 1_880, 1_550, 3_060, 1_300];
        let second = [878, 647, 598, 2_050, 1_060, 1_290, 1_060, 3_140, 1_290];
        let differences: Vec<i128> = first.iter().zip(second).map(|(x, y)| x - y).collect();
        let told = tested(&differences);
        assert_eq!((told.n, told.positive_doubled, told.negative_doubled), (9, 80, 10));
        is(told.p, 0.039_062_5);
        assert!(told.is_exact);
        is(told.rank_biserial(), (40.0 - 5.0) / 45.0);
    }

    /// Darwin's maize: Fisher, "The Design of Experiments" (1935), table 3; exact p of scipy 1.17.1.
    #[test]
    fn darwins_maize() {
        let eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48];
        let told = tested(&eighths);
        assert_eq!((told.positive_doubled, told.negative_doubled), (192, 48));
        is(told.p, 0.041_259_765_625);
    }

    /// All 2⁸ signs counted in another language.
    #[test]
    fn ties_and_zeros() {
        let told = tested(&[1, 1, -1, 2, 2, 3, 0, -2, 5]);
        assert_eq!((told.n, told.zeros, told.positive_doubled), (8, 1, 58));
        is(told.p, 0.164_062_5);
        is(tested(&[5; 6]).p, 0.031_25);
        is(tested(&[3, -3]).p, 1.0);
        assert_eq!(signed_rank(&[0, 0, 0]), None);
    }

    /// scipy 1.17.1, `wilcoxon(…, method="approx", correction=True)`.
    #[test]
    fn many_pairs_are_approximated() {
        let differences: Vec<i128> = (0..120).map(|i| (i * 7_919) % 211 - 90).collect();
        let told = tested(&differences);
        assert!(!told.is_exact);
        assert_eq!(told.positive_doubled.min(told.negative_doubled), 2 * 2_714);
        is(told.p, 0.023_289_968_608_809_487);
    }

    #[test]
    fn the_approximation_meets_the_exact_p_where_they_hand_over() {
        let differences: Vec<i128> = (0..100).map(|i| (i * 7_919) % 211 - 90).collect();
        let exact = tested(&differences);
        assert!(exact.is_exact && exact.p > 0.001 && exact.p < 0.9);
        let mut longer = differences;
        longer.push(1);
        assert!((tested(&longer).p - exact.p).abs() < 0.02);
    }

    #[test]
    fn the_sign_does_not_matter_to_p_and_turns_the_effect() {
        let values = [4, -1, 7, 9, -3, 2];
        let turned = values.map(|value: i128| -value);
        let (one, other) = (tested(&values), tested(&turned));
        is(one.p, other.p);
        is(one.rank_biserial(), -other.rank_biserial());
    }
}
