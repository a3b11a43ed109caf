//! The probe: passes over the fields of one GPU, when the schedule says so.
//!
//! Purpose: one loop for the real clock and the virtual one, so that what is tested exactly is what runs.
//! May touch: what its [`Ticker`] and [`Instrument`] touch. May not: hold the loop for anything but a
//! field or a deadline; decide what a sample is worth.

use super::counts::DeadlineCounts;
use super::moment::Length;
use super::sample::{Fields, Sample};
use super::schedule::Schedule;
use crate::unit::BootNs;

/// `CLOCK_BOOTTIME`, read and waited for.
pub trait Ticker {
    /// The moment.
    fn now(&self) -> BootNs;
    /// Waits until `at`, or until it is known that nobody wants more. Never returns before either.
    fn sleep_until(&mut self, at: BootNs);
    /// Whether somebody asked for the end.
    fn is_stopped(&self) -> bool;
}

/// What is asked.
pub trait Instrument {
    /// Asks for every field in [`super::sample::FieldName::ORDER`], each between two readings of the clock.
    fn fields(&mut self) -> Fields;
    /// Whether a pass has shown that the GPU is gone: no other is made.
    fn is_lost(&self, fields: &Fields) -> bool;
}

/// How long a window is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// D; `None`: until somebody asks for the end.
    pub duration: Option<Length>,
    /// P.
    pub period: Length,
    /// How long the first landing is waited for.
    pub start_timeout: Length,
}

/// Why the loop ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The window is over.
    Duration,
    /// Somebody asked for it.
    Stopped,
    /// No sample landed in time.
    NoFirstSample,
    /// The GPU is gone.
    Lost,
}

/// How a window went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Why it ended.
    pub ended: Ended,
    /// When that was decided.
    pub at: BootNs,
    /// The landing of the first sample.
    pub t0: Option<BootNs>,
    /// How the deadlines fared.
    pub counts: DeadlineCounts,
}

/// Makes passes until the window is over, and gives each to `take` as soon as it is made.
pub fn run(
    ticker: &mut impl Ticker,
    instrument: &mut impl Instrument,
    wanted: Wanted,
    mut take: impl FnMut(Sample),
) -> Ran {
    let origin = ticker.now();
    let mut begin = origin;
    let mut schedule = Schedule::new(origin, wanted.period);
    let mut t0 = None;
    loop {
        let due = schedule.due();
        schedule.begun();
        let fields = instrument.fields();
        let is_lost = instrument.is_lost(&fields);
        let sample = Sample::new(due.k, due.recovery, begin, fields);
        schedule.completed(sample.completed());
        t0 = t0.or(sample.landed_at_ns);
        take(sample);
        let next = schedule.due();
        if !is_lost && !next.recovery {
            ticker.sleep_until(next.deadline);
        }
        let now = ticker.now();
        if let Some(ended) = ended(wanted, origin, t0, now, is_lost, ticker.is_stopped()) {
            schedule.ended();
            return Ran { ended, at: now, t0, counts: schedule.counts() };
        }
        begin = now;
    }
}

fn ended(
    wanted: Wanted,
    origin: BootNs,
    t0: Option<BootNs>,
    now: BootNs,
    is_lost: bool,
    is_stopped: bool,
) -> Option<Ended> {
    if is_lost {
        return Some(Ended::Lost);
    }
    if is_stopped {
        return Some(Ended::Stopped);
    }
    match (t0, wanted.duration) {
        (Some(t0), Some(duration)) => (now > t0.plus_ns(duration.0)).then_some(Ended::Duration),
        (Some(_), None) => None,
        (None, _) => {
            (now >= origin.plus_ns(wanted.start_timeout.0)).then_some(Ended::NoFirstSample)
        }
    }
}
