//! Lengths of time as curves state them.
//!
//! Nanoseconds inside, decimal milliseconds with three digits in files and for people. A length that does
//! not end on a microsecond is rounded **up**, so that no age is ever printed below what it was: one above
//! the cap never reads as the cap.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Length(pub u64);

impl Length {
    const PER_MS: u64 = 1_000_000;

    /// So many milliseconds.
    #[must_use]
    pub const fn of_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(Self::PER_MS))
    }

    /// In microseconds, rounded up.
    #[must_use]
    pub const fn us_up(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// The sum; saturates at the end of time.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left after `other`; nothing where it is longer.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Length {
    /// `422.719`: milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.us_up();
        write!(f, "{}.{:03}", us / 1_000, us % 1_000)
    }
}

impl Serialize for Length {
    /// The number `422.719`, with all three digits.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.to_string()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let wrong =
            || serde::de::Error::custom("not milliseconds with three digits, as in 422.719");
        let (ms, us) = raw.get().split_once('.').ok_or_else(wrong)?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if us.len() != 3 || !digits(us) || !digits(ms) {
            return Err(wrong());
        }
        let ms: u64 = ms.parse().map_err(|_| wrong())?;
        let us: u64 = us.parse().map_err(|_| wrong())?;
        let ns = ms.checked_mul(1_000).and_then(|all| all.checked_add(us)?.checked_mul(1_000));
        ns.map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::Length;

    #[test]
    fn it_is_never_printed_shorter_than_it_was() {
        assert_eq!(Length(422_719_000).to_string(), "422.719");
        assert_eq!(Length(750_000_001).to_string(), "750.001");
        assert_eq!(Length::of_ms(750).to_string(), "750.000");
        assert_eq!(Length(0).to_string(), "0.000");
    }

    #[test]
    fn as_json_it_is_a_number_that_comes_back() {
        let json = serde_json::to_string(&Length(750_000_000)).unwrap();
        assert_eq!(json, "750.000");
        assert_eq!(serde_json::from_str::<Length>(&json).unwrap(), Length(750_000_000));
        for wrong in
            ["750", "1.5", "-1.000", "1e3", "\"1.000\"", "99999999999999999999.000", "1.00a"]
        {
            assert!(serde_json::from_str::<Length>(wrong).is_err(), "{wrong}");
        }
    }
}
