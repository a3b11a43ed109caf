//! What a curve is recorded with, checked before anything is read.
//!
//! The defaults are P = 200 ms, Q = 50 ms, cap = 750 ms: a lone stall of up to cap − P leaves the batch
//! valid. Nothing of it is ever adapted while recording.

use serde::{Deserialize, Serialize};

use super::moment::Length;
use super::sample::FieldName;

/// The shortest period that is accepted, of probes and of points.
pub const PERIOD_MIN: Length = Length::of_ms(10);
/// The longest.
pub const PERIOD_MAX: Length = Length::of_ms(60_000);
/// The highest cap on the age of a sample: older than an hour it says nothing about a moment.
pub const CAP_MAX: Length = Length::of_ms(3_600_000);
/// The longest window: a hundred days, more than any batch is kept whole.
pub const DURATION_MAX: Length = Length::of_ms(100 * 86_400_000);

/// Which ages are held against the cap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgeGate {
    /// The age at every point and the supremum between them.
    Both,
    /// The age at points alone: the rule as it was first written down.
    Points,
}

/// What to do when an iteration is void.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnVoid {
    /// Record no other: the batch is void whatever they are
    Stop,
    /// Record the rest, as evidence of what went wrong
    Continue,
}

/// What a curve is recorded with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// P: from one deadline of the probe to the next.
    #[serde(rename = "period_ms")]
    pub period: Length,
    /// Q: from one point of the timeline to the next.
    #[serde(rename = "timeline_period_ms")]
    pub timeline_period: Length,
    /// The greatest age that a point may have.
    #[serde(rename = "sample_age_cap_ms")]
    pub cap: Length,
    /// Which ages are held against it.
    pub age_gate: AgeGate,
    /// How long the first sample is waited for.
    #[serde(rename = "start_timeout_ms")]
    pub start_timeout: Length,
    /// How long a probe may be in flight at the window's end.
    #[serde(rename = "hard_timeout_ms")]
    pub hard_timeout: Length,
    /// Fields without which a point is not available. Device memory always is one.
    pub required_fields: Vec<FieldName>,
    /// Whether the processor's share must be known at every point that can have one.
    pub cpu_required: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            period: Length::of_ms(200),
            timeline_period: Length::of_ms(50),
            cap: Length::of_ms(750),
            age_gate: AgeGate::Both,
            start_timeout: Length::of_ms(10_000),
            hard_timeout: Length::of_ms(5_000),
            required_fields: vec![FieldName::Memory],
            cpu_required: false,
        }
    }
}

/// Settings that cannot give a valid curve, each with its remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// A period outside what is accepted.
    #[error("{flag} {given} ms is outside 10 ms to 60 s")]
    Period {
        /// Which one.
        flag: &'static str,
        /// What it is.
        given: Length,
    },
    /// No cap, or one that says nothing.
    #[error("--max-age {given} ms is outside 1 ms to 1 h")]
    Cap {
        /// What it is.
        given: Length,
    },
    /// No sample could stay young enough until the next.
    #[error(
        "cap {cap} ms cannot hold with period {period} ms: every batch would be void; give a \
             --max-age of at least the period, and better of the period and a timeline period"
    )]
    CapBelowPeriod {
        /// The cap.
        cap: Length,
        /// P.
        period: Length,
    },
    /// Points lie further apart than a sample may be old.
    #[error(
        "timeline period {timeline_period} ms is longer than the cap {cap} ms: between two points \
             nothing would be held against it; give a shorter --timeline-period"
    )]
    TimelineAboveCap {
        /// Q.
        timeline_period: Length,
        /// The cap.
        cap: Length,
    },
    /// A window of one point.
    #[error(
        "--duration {duration} ms is shorter than the timeline period {timeline_period} ms: the \
             curve would be one point; record for longer"
    )]
    DurationTooShort {
        /// D.
        duration: Length,
        /// Q.
        timeline_period: Length,
    },
    /// Longer than any window.
    #[error(
        "--duration {duration} ms is longer than 100 days; give less, and record again after it"
    )]
    DurationTooLong {
        /// D.
        duration: Length,
    },
}

impl Settings {
    /// Checks them, with the window's length where it is known beforehand.
    pub fn check(&self, duration: Option<Length>) -> Result<(), SettingsError> {
        let periods = [("--period", self.period), ("--timeline-period", self.timeline_period)];
        for (flag, given) in periods {
            if !(PERIOD_MIN..=PERIOD_MAX).contains(&given) {
                return Err(SettingsError::Period { flag, given });
            }
        }
        let (cap, period, timeline_period) = (self.cap, self.period, self.timeline_period);
        if !(Length::of_ms(1)..=CAP_MAX).contains(&cap) {
            return Err(SettingsError::Cap { given: cap });
        }
        if cap < period {
            return Err(SettingsError::CapBelowPeriod { cap, period });
        }
        if timeline_period > cap {
            return Err(SettingsError::TimelineAboveCap { timeline_period, cap });
        }
        match duration {
            Some(duration) if duration < timeline_period => {
                Err(SettingsError::DurationTooShort { duration, timeline_period })
            }
            Some(duration) if duration > DURATION_MAX => {
                Err(SettingsError::DurationTooLong { duration })
            }
            _ => Ok(()),
        }
    }

    /// The longest lone stall of the driver that leaves the batch valid: cap − P.
    #[must_use]
    pub const fn stall_budget(&self) -> Length {
        self.cap.less(self.period)
    }

    /// Whether the cap is so near to the period that a sample which lands just past a point is over it:
    /// accepted, and said.
    #[must_use]
    pub fn is_cap_tight(&self) -> bool {
        self.cap < self.period.plus(self.timeline_period)
    }
}

#[cfg(test)]
mod tests {
    use super::{AgeGate, Length, Settings, SettingsError};

    fn with(period_ms: u64, timeline_ms: u64, cap_ms: u64) -> Settings {
        Settings {
            period: Length::of_ms(period_ms),
            timeline_period: Length::of_ms(timeline_ms),
            cap: Length::of_ms(cap_ms),
            ..Settings::default()
        }
    }

    #[test]
    fn the_defaults_hold_a_stall_of_550_ms() {
        let settings = Settings::default();
        assert_eq!(settings.check(Some(Length::of_ms(2_000))), Ok(()));
        assert_eq!(settings.stall_budget(), Length::of_ms(550));
        assert_eq!(settings.age_gate, AgeGate::Both);
        assert!(!settings.is_cap_tight());
    }

    #[test]
    fn what_cannot_give_a_valid_curve_is_refused_by_its_name() {
        let text = |settings: Settings, duration_ms: Option<u64>| {
            settings.check(duration_ms.map(Length::of_ms)).map_err(|error| error.to_string())
        };
        let starts = |got: Result<(), String>, start: &str| {
            let error = got.unwrap_err();
            assert!(error.starts_with(start), "{error}");
        };
        starts(text(with(0, 50, 750), None), "--period 0.000 ms is outside");
        starts(text(with(60_001, 50, 3_600_000), None), "--period 60001.000 ms is outside");
        starts(text(with(200, 9, 750), None), "--timeline-period 9.000 ms is outside");
        starts(text(with(200, 50, 0), None), "--max-age 0.000 ms is outside");
        starts(text(with(200, 50, 3_600_001), None), "--max-age 3600001.000 ms is outside");
        starts(text(with(250, 50, 200), None), "cap 200.000 ms cannot hold with period 250.000 ms");
        starts(
            text(with(200, 800, 750), None),
            "timeline period 800.000 ms is longer than the cap",
        );
        starts(text(with(200, 50, 750), Some(49)), "--duration 49.000 ms is shorter than");
        starts(text(with(200, 50, 750), Some(u64::MAX)), "--duration");
        assert_eq!(text(with(200, 50, 200), Some(50)), Ok(()));
        assert!(with(200, 50, 249).is_cap_tight());
        assert!(matches!(
            with(10, 60_000, 60_000).check(None),
            Ok(()) | Err(SettingsError::TimelineAboveCap { .. })
        ));
    }
}
