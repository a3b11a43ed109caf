//! How the held time spreads over spans short and long: whether a bill favours short-lived workers.

use serde::Serialize;

use crate::unit::Ms;

/// How long a holding lasted, as a class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Less than a second.
    Second,
    /// Less than a minute.
    Minute,
    /// Less than an hour.
    Hour,
    /// Less than a day.
    Day,
    /// A day or longer.
    Longer,
    /// It runs still.
    Open,
    /// It never gets a row.
    NoDriverRow,
}

impl Class {
    /// Every class, shortest first.
    pub const ALL: [Self; 7] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Longer,
        Self::Open,
        Self::NoDriverRow,
    ];

    /// Of a settled span.
    #[must_use]
    pub const fn of_settled(held: Ms) -> Self {
        match held.0 {
            0..1_000 => Self::Second,
            1_000..60_000 => Self::Minute,
            60_000..3_600_000 => Self::Hour,
            3_600_000..86_400_000 => Self::Day,
            _ => Self::Longer,
        }
    }

    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Second => "below-1s",
            Self::Minute => "below-1min",
            Self::Hour => "below-1h",
            Self::Day => "below-1d",
            Self::Longer => "1d-or-longer",
            Self::Open => "open",
            Self::NoDriverRow => "no-driver-row",
        }
    }

    /// As people read it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Second => "settled after < 1 s",
            Self::Minute => "settled after < 1 min",
            Self::Hour => "settled after < 1 h",
            Self::Day => "settled after < 1 day",
            Self::Longer => "settled after longer",
            Self::Open => "open, not settled yet",
            Self::NoDriverRow => "no driver row, never billed",
        }
    }
}

/// One class on a bill.
#[derive(Clone, Debug, Serialize)]
pub struct LifetimeClass {
    /// The word.
    pub class: &'static str,
    /// As people read it.
    #[serde(skip)]
    pub words: &'static str,
    /// Settlements, open rows or holders.
    pub count: u64,
    /// Plain sum of their spans within the period.
    pub span_ms_total: Ms,
}

/// The classes as they are counted.
#[derive(Debug)]
pub(super) struct Classes([(u64, u64); Class::ALL.len()]);

impl Classes {
    pub(super) const fn new() -> Self {
        Self([(0, 0); Class::ALL.len()])
    }

    pub(super) fn add(&mut self, class: Class, span: Ms) {
        let place = Class::ALL.iter().position(|one| *one == class);
        if let Some((count, ms)) = place.and_then(|place| self.0.get_mut(place)) {
            *count = count.saturating_add(1);
            *ms = ms.saturating_add(span.0);
        }
    }

    pub(super) fn lines(&self) -> Vec<LifetimeClass> {
        let lines = Class::ALL.into_iter().zip(self.0).map(|(class, (count, ms))| LifetimeClass {
            class: class.as_str(),
            words: class.words(),
            count,
            span_ms_total: Ms(ms),
        });
        lines.collect()
    }
}
