//! Moments as they stand in a verdict, and what touches a period.

use jiff::Span;
use jiff::civil::{Date, date};
use serde::Serialize;

use crate::unit::WallUs;

/// A moment of the wall clock: for people, and in microseconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Moment {
    /// RFC 3339; `None` past the year 9999.
    at: Option<String>,
    us: String,
}

const EPOCH: Date = date(1970, 1, 1);
const US_PER_DAY: u64 = 86_400_000_000;
const US_PER_S: u64 = 1_000_000;

impl Moment {
    /// Of a reading of the wall clock.
    pub(super) fn of(WallUs(us): WallUs) -> Self {
        let days =
            i64::try_from(us / US_PER_DAY).ok().and_then(|days| Span::new().try_days(days).ok());
        let date = days.and_then(|days| EPOCH.checked_add(days).ok());
        let (s, rest) = (us % US_PER_DAY / US_PER_S, us % US_PER_S);
        let (hour, minute, second) = (s / 3_600, s / 60 % 60, s % 60);
        let at =
            date.map(|date| format!("{date}T{hour:02}:{minute:02}:{second:02}.{rest:06}+00:00"));
        Self { at, us: us.to_string() }
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        self.at.clone().unwrap_or_else(|| format!("{} us since 1970", self.us))
    }
}

/// A period, in microseconds of the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Period {
    pub(super) since: u128,
    pub(super) until: u128,
}

impl Period {
    /// Whether something lies in it, at least in part. What has no length lies where it begins.
    pub(super) const fn touches(self, begin: u128, end: u128) -> bool {
        begin < self.until && (end > self.since || (begin == end && begin >= self.since))
    }
}

/// As a number that leaves room for sums.
pub(super) fn us(wall: WallUs) -> u128 {
    u128::from(wall.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first microsecond of the year 10000.
    const YEAR_10000_US: u64 = 253_402_300_800_000_000;

    #[test]
    fn a_moment_is_told_to_the_microsecond_and_never_as_another() {
        let told = |us| serde_json::to_string(&Moment::of(WallUs(us))).unwrap();
        assert_eq!(
            told(1_785_180_331_123_456),
            r#"{"at":"2026-07-27T19:25:31.123456+00:00","us":"1785180331123456"}"#
        );
        assert_eq!(told(0), r#"{"at":"1970-01-01T00:00:00.000000+00:00","us":"0"}"#);
        let last = YEAR_10000_US - 1;
        assert_eq!(
            told(last),
            format!(r#"{{"at":"9999-12-31T23:59:59.999999+00:00","us":"{last}"}}"#)
        );
        assert_eq!(told(YEAR_10000_US), format!(r#"{{"at":null,"us":"{YEAR_10000_US}"}}"#));
        assert_eq!(told(u64::MAX), format!(r#"{{"at":null,"us":"{}"}}"#, u64::MAX));
    }

    #[test]
    fn what_only_meets_a_period_at_its_edge_does_not_touch_it() {
        let period = Period { since: 10, until: 20 };
        assert!(!period.touches(5, 10) && period.touches(5, 11));
        assert!(period.touches(10, 10) && !period.touches(20, 20) && !period.touches(20, 25));
        assert!(period.touches(19, 30) && period.touches(0, 100));
    }
}
