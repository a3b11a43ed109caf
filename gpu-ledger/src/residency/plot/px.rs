//! Places on the canvas, as whole hundredths of a unit: the same numbers on every machine, so the same
//! bytes.

use std::fmt;
use std::ops::{Add, Div, Mul, Sub};

/// A place or a length, in hundredths of a unit. Sums saturate: what lies off the canvas stays off it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Px(i32);

impl Px {
    /// Whole units.
    pub(super) const fn of(units: i32) -> Self {
        Self(units.saturating_mul(100))
    }

    /// Hundredths of a unit.
    pub(super) const fn hundredths(hundredths: i32) -> Self {
        Self(hundredths)
    }

    /// As hundredths.
    pub(super) const fn as_hundredths(self) -> i32 {
        self.0
    }

    /// This part of it: `part` of `whole`, rounded to the nearest. Nothing of nothing.
    pub(super) fn part(self, part: i128, whole: i128) -> Self {
        let scaled = i128::from(self.0).saturating_mul(part);
        let rounded = scaled.saturating_add(whole / 2).checked_div_euclid(whole).unwrap_or(0);
        Self(i32::try_from(rounded).unwrap_or(if rounded < 0 { i32::MIN } else { i32::MAX }))
    }
}

impl Add for Px {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Px {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<i32> for Px {
    type Output = Self;

    fn mul(self, times: i32) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Div<i32> for Px {
    type Output = Self;

    /// Nothing where it is divided by nothing.
    fn div(self, parts: i32) -> Self {
        Self(self.0.checked_div(parts).unwrap_or(0))
    }
}

impl fmt::Display for Px {
    /// `12`, `12.5`, `-0.25`: no digit more than there is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, rest) = (self.0.unsigned_abs() / 100, self.0.unsigned_abs() % 100);
        match (rest, rest % 10) {
            (0, _) => write!(f, "{sign}{whole}"),
            (_, 0) => write!(f, "{sign}{whole}.{}", rest / 10),
            _ => write!(f, "{sign}{whole}.{rest:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Px;

    #[test]
    fn numbers_have_no_digit_more_than_there_is() {
        let shown = [(0, "0"), (100, "1"), (150, "1.5"), (105, "1.05"), (-25, "-0.25")];
        for (hundredths, text) in shown {
            assert_eq!(Px::hundredths(hundredths).to_string(), text);
        }
    }

    #[test]
    fn parts_are_rounded_to_the_nearest_and_stay_on_the_canvas() {
        assert_eq!(Px::of(100).part(1, 3), Px::hundredths(3_333));
        assert_eq!(Px::of(100).part(2, 3), Px::hundredths(6_667));
        assert_eq!(Px::of(100).part(1, 0), Px::of(0));
        assert_eq!(Px::of(100).part(i128::MAX, 1), Px::hundredths(i32::MAX));
        assert_eq!(Px::hundredths(i32::MAX) + Px::of(1), Px::hundredths(i32::MAX));
    }
}
