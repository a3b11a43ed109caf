//! What every report has in common: columns for people, JSON that moves no cursor, moments as text.
//!
//! Purpose: one way to cut a name, round a share or write a moment. May touch: nothing. May not:
//! know which report it renders.

mod columns;
mod json;

pub use columns::{CUT, cell, clip, exact, or_unknown, percent};
pub use json::json;

use jiff::Timestamp;

use crate::unit::WallUs;

/// Wall-clock microseconds as RFC 3339 text in UTC.
#[must_use]
pub fn rfc3339(wall: WallUs) -> String {
    let us = i64::try_from(wall.0).unwrap_or(i64::MAX);
    match Timestamp::from_microsecond(us) {
        Ok(timestamp) => format!("{timestamp:.6}"),
        // Past the calendar's end: the number itself, rather than another moment.
        Err(_) => format!("{} us since 1970", wall.0),
    }
}
