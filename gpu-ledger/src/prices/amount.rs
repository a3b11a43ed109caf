//! Amounts: exact as long as they are added up, rounded once where they are written.
//!
//! Every exact amount is a whole number of the same tiny part of a currency unit, so that adding them up is
//! adding integers: a millisecond at a price of 10⁻⁹ an hour.

use std::fmt;

use rust_decimal::Decimal;
use serde::{Serialize, Serializer};

/// Digits after the point that a price may have.
pub const PRICE_DECIMALS_MAX: u32 = 9;
/// Digits after the point that an amount is written with, as cloud bills have.
pub const AMOUNT_DECIMALS: u32 = 4;
/// No hour costs more than this.
pub(super) const PRICE_MAX: Decimal = Decimal::from_parts(1_000_000_000, 0, 0, false, 0);

/// Parts in the last digit of a written amount: the milliseconds of an hour × 10⁹ ÷ 10⁴.
const PARTS_PER_DIGIT: u128 = 3_600_000 * 100_000;

/// What an hour costs: 0 or more, at most 10⁹, with at most [`PRICE_DECIMALS_MAX`] digits after the point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(Decimal);

impl Rate {
    /// That many; `None` outside of what a price can be.
    #[must_use]
    pub fn new(per_hour: Decimal) -> Option<Self> {
        let per_hour = per_hour.normalize();
        let fits = per_hour.scale() <= PRICE_DECIMALS_MAX
            && per_hour >= Decimal::ZERO
            && per_hour <= PRICE_MAX;
        fits.then_some(Self(per_hour))
    }

    /// In 10⁻⁹ of the currency unit: at most 10¹⁸.
    fn billionths(self) -> Option<u128> {
        let missing = PRICE_DECIMALS_MAX.checked_sub(self.0.scale())?;
        u128::try_from(self.0.mantissa()).ok()?.checked_mul(10_u128.checked_pow(missing)?)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl Serialize for Rate {
    /// As text: a JSON number would be a float to most who read it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An amount, exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Exact(u128);

impl Exact {
    /// So many milliseconds (of memory: GiB·ms) at a price; `None` where the product leaves 128 bits.
    #[must_use]
    pub fn of(ms: u128, rate: Rate) -> Option<Self> {
        rate.billionths()?.checked_mul(ms).map(Self)
    }

    /// So many bytes × milliseconds at a price for an hour of one GiB, cut to the part; `None` where the product
    /// leaves 128 bits.
    #[must_use]
    pub fn of_memory(byte_ms: u128, rate: Rate) -> Option<Self> {
        rate.billionths()?.checked_mul(byte_ms).map(|product| Self(product >> 30))
    }

    /// The sum, or `None` past 128 bits.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// As it is written: rounded to four digits, a half to the even one.
    #[must_use]
    pub fn rounded(self) -> Option<Amount> {
        let (whole, rest) = (self.0 / PARTS_PER_DIGIT, self.0 % PARTS_PER_DIGIT);
        let half = PARTS_PER_DIGIT / 2;
        let is_up = rest > half || (rest == half && whole % 2 == 1);
        Amount::of_digits(whole.checked_add(u128::from(is_up))?)
    }
}

/// An amount as it is written: whole ten-thousandths of a currency unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Amount(Decimal);

impl Amount {
    /// Nothing: a known amount, never a stand-in for one that is not known.
    pub const ZERO: Self = Self(Decimal::from_parts(0, 0, 0, false, AMOUNT_DECIMALS));

    fn of_digits(digits: u128) -> Option<Self> {
        let digits = i128::try_from(digits).ok()?;
        Decimal::try_from_i128_with_scale(digits, AMOUNT_DECIMALS).ok().map(Self)
    }

    /// The sum of two written amounts: what a reader gets who adds them up. `None` past 7.9 × 10²⁴.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        // Both have four digits after the point, so their sum has, or is none.
        let sum = self.0.checked_add(other.0)?;
        (sum.scale() == AMOUNT_DECIMALS).then_some(Self(sum))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl Serialize for Amount {
    /// As text, for the reason that [`Rate`] is.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(text: &str) -> Rate {
        Rate::new(Decimal::from_str_exact(text).unwrap()).unwrap()
    }

    fn priced(ms: u128, per_hour: &str) -> String {
        Exact::of(ms, rate(per_hour)).unwrap().rounded().unwrap().to_string()
    }

    #[test]
    fn an_hour_costs_its_price_with_four_digits() {
        assert_eq!(priced(3_600_000, "1.25"), "1.2500");
        assert_eq!(priced(5_400_000, "2"), "3.0000");
        assert_eq!(priced(0, "2"), "0.0000");
        assert_eq!(priced(3_600_000, "0"), "0.0000");
        assert_eq!(priced(3_600_000, "0.000000001"), "0.0000");
    }

    #[test]
    fn a_half_goes_to_the_even_digit_and_anything_more_goes_up() {
        // 180,000 ms at 0.001 an hour are 0.00005 exactly; three times that is 0.00015.
        assert_eq!(priced(180_000, "0.001"), "0.0000");
        assert_eq!(priced(540_000, "0.001"), "0.0002");
        assert_eq!(priced(900_000, "0.001"), "0.0002");
        assert_eq!(priced(180_001, "0.001"), "0.0001");
        assert_eq!(priced(539_999, "0.001"), "0.0001");
    }

    #[test]
    fn the_largest_figures_are_amounts_or_none_and_never_wrong() {
        assert_eq!(priced(u128::from(u64::MAX), "1000000000"), "5124095576030431004166.6667");
        assert_eq!(Exact::of(u128::MAX, rate("2")), None);
        let most = Exact(u128::MAX);
        assert_eq!(most.checked_add(Exact(1)), None);
        assert!(most.rounded().is_some(), "whatever is exact can be written");
        for none in ["-1", "1000000001", "0.0000000001"] {
            assert_eq!(Rate::new(Decimal::from_str_exact(none).unwrap()), None, "{none}");
        }
    }

    #[test]
    fn amounts_are_text_in_json_and_a_price_as_it_was_given() {
        assert_eq!(serde_json::to_string(&rate("1.250")).unwrap(), "\"1.25\"");
        assert_eq!(serde_json::to_string(&Amount::ZERO).unwrap(), "\"0.0000\"");
    }

    proptest! {
        /// Against the library's own division and rounding, where its 28 digits suffice.
        #[test]
        fn an_amount_is_time_times_price_rounded_once(
            ms in 0_u64..100_000_000_000,
            billionths in 0_i64..1_000_000_000_000,
        ) {
            let per_hour = Decimal::new(billionths, PRICE_DECIMALS_MAX);
            let exact = Exact::of(ms.into(), Rate::new(per_hour).unwrap()).unwrap();
            let quotient = Decimal::from(ms)
                .checked_mul(per_hour)
                .and_then(|product| product.checked_div(Decimal::from(3_600_000)))
                .unwrap();
            let mut wanted = quotient.round_dp(AMOUNT_DECIMALS);
            wanted.rescale(AMOUNT_DECIMALS);
            prop_assert_eq!(exact.rounded().unwrap().to_string(), wanted.to_string());
        }

        #[test]
        fn exact_amounts_of_the_parts_are_that_of_the_whole(
            one in 0_u64..1 << 50, other in 0_u64..1 << 50, billionths in 0_i64..1_000_000_000_000,
        ) {
            let rate = Rate::new(Decimal::new(billionths, PRICE_DECIMALS_MAX)).unwrap();
            let exact = |ms: u64| Exact::of(ms.into(), rate).unwrap();
            let whole = one.checked_add(other).map(exact);
            prop_assert_eq!(exact(one).checked_add(exact(other)), whole);
        }
    }
}
