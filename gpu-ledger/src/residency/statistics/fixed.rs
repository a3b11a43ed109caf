//! Decimals with a fixed number of digits, made of integers.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// The most digits behind the point that anything here has.
const DIGITS_MAX: u32 = 9;

/// So many 10⁻ᵈⁱᵍⁱᵗˢ of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fixed {
    /// How many.
    pub value: i128,
    /// Digits behind the point.
    pub digits: u32,
}

impl Fixed {
    /// `numerator / denominator` to so many digits, rounded half up; `None` of a denominator of 0.
    #[must_use]
    pub const fn quotient(numerator: i128, denominator: u128, digits: u32) -> Option<Self> {
        let scaled = numerator.saturating_mul(power_of_ten(digits));
        match rounded(scaled, denominator) {
            Some(value) => Some(Self { value, digits }),
            None => None,
        }
    }
}

/// `numerator / denominator`, rounded half up; `None` of a denominator of 0.
#[must_use]
pub const fn rounded(numerator: i128, denominator: u128) -> Option<i128> {
    // No time and no count of this product is near 2¹²⁷.
    let denominator = if denominator > 1 << 126 { 1 << 126 } else { denominator.cast_signed() };
    let (Some(whole), Some(rest)) =
        (numerator.checked_div_euclid(denominator), numerator.checked_rem_euclid(denominator))
    else {
        return None;
    };
    Some(if rest >= denominator.saturating_sub(rest) { whole.saturating_add(1) } else { whole })
}

const fn power_of_ten(digits: u32) -> i128 {
    10_i128.pow(if digits > DIGITS_MAX { DIGITS_MAX } else { digits })
}

impl fmt::Display for Fixed {
    /// `-63.250`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.value < 0 { "-" } else { "" };
        let (magnitude, one) =
            (self.value.unsigned_abs(), power_of_ten(self.digits).unsigned_abs());
        let whole = magnitude.checked_div(one).unwrap_or(magnitude);
        if self.digits == 0 {
            return f.pad(&format!("{sign}{whole}"));
        }
        let part = magnitude.checked_rem(one).unwrap_or(0);
        let width = usize::try_from(self.digits.min(DIGITS_MAX)).unwrap_or(0);
        f.pad(&format!("{sign}{whole}.{part:0width$}"))
    }
}

impl Serialize for Fixed {
    /// The number `63.250`, with all its digits.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.to_string()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fixed, rounded};

    #[test]
    fn quotients_are_rounded_half_up_and_keep_their_digits() {
        let text = |numerator, denominator, digits| {
            Fixed::quotient(numerator, denominator, digits).map(|fixed| fixed.to_string())
        };
        assert_eq!(text(253, 4, 3).as_deref(), Some("63.250"));
        assert_eq!(text(-1, 4, 3).as_deref(), Some("-0.250"));
        assert_eq!(text(1, 3, 6).as_deref(), Some("0.333333"));
        assert_eq!(text(2, 3, 0).as_deref(), Some("1"));
        assert_eq!(text(2, 0, 0), None);
        assert_eq!((rounded(5, 2), rounded(-5, 2), rounded(4, 3)), (Some(3), Some(-2), Some(1)));
    }

    #[test]
    fn as_json_it_is_a_number() {
        let json = serde_json::to_string(&Fixed { value: -5, digits: 3 }).unwrap();
        assert_eq!(json, "-0.005");
    }
}
