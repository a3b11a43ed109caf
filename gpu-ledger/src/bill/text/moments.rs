//! Moments as a page has them: in the bill's zone, to the second, or to the millisecond of what is shorter than a
//! minute. Every other form has them as they are.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use crate::bill::period::show;
use crate::bill::report::Report;

/// What is shorter than this is told to the millisecond.
const SHORT: SignedDuration = SignedDuration::from_secs(60);

/// A moment to the second, as the report has it (RFC 3339).
pub(super) fn second(report: &Report, text: &str) -> String {
    let at = text.parse::<Timestamp>().ok();
    let at = at.and_then(|at| Timestamp::from_second(at.as_second()).ok());
    at.map_or_else(|| text.to_owned(), |at| show(at, &report.period.time_zone))
}

/// `FROM to TO`, of two moments as the report has them (RFC 3339).
pub(super) fn between(report: &Report, from: &str, to: &str) -> String {
    let moment = |text: &str| text.parse::<Timestamp>().ok();
    let (Some(from_at), Some(to_at)) = (moment(from), moment(to)) else {
        // Past the calendar's end: as it is.
        return format!("{from} to {to}");
    };
    let is_short = to_at.duration_since(from_at).abs().cmp(&SHORT) == Ordering::Less;
    let shown = |at: Timestamp| {
        let second = Timestamp::from_second(at.as_second()).ok();
        let at = second.filter(|_| !is_short).unwrap_or(at);
        show(at, &report.period.time_zone)
    };
    format!("{} to {}", shown(from_at), shown(to_at))
}
