//! What whoever looks on sees while a curve is recorded: one line of a terminal.

use std::io::{IsTerminal as _, Write as _};

use crate::residency::moment::Length;
use crate::residency::sample::Sample;
use crate::unit::BootNs;

/// The line, where stderr is a terminal.
#[derive(Debug)]
pub struct Progress {
    is_shown: bool,
    cap: Length,
    duration: Option<Length>,
    lanes: Vec<Lane>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    t0: Option<BootNs>,
    /// Before the held memory was asked for.
    before: Option<BootNs>,
    recoveries: u64,
}

impl Progress {
    /// Of so many GPUs.
    #[must_use]
    pub fn new(gpus: usize, cap: Length, duration: Option<Length>) -> Self {
        let is_shown = std::io::stderr().is_terminal();
        Self { is_shown, cap, duration, lanes: vec![Lane::default(); gpus] }
    }

    /// A new iteration begins.
    pub fn begin(&mut self) {
        self.lanes.fill(Lane::default());
    }

    /// A sample came.
    pub fn sample(&mut self, gpu: usize, sample: &Sample) {
        let Some(lane) = self.lanes.get_mut(gpu) else { return };
        lane.recoveries = lane.recoveries.saturating_add(u64::from(sample.recovery));
        if sample.ok {
            lane.before = Some(sample.fields.memory.before_ns);
            lane.t0 = lane.t0.or(sample.landed_at_ns);
        }
    }

    /// Draws the line anew.
    pub fn show(&self, now: BootNs) {
        if self.is_shown {
            draw(&format!("\r{}\x1b[K", self.line(now)));
        }
    }

    /// Takes it away.
    pub fn clear(&self) {
        if self.is_shown {
            draw("\r\x1b[K");
        }
    }

    /// `12.3 s left · age 48 ms of 750 · recoveries 0`, of the worst GPU.
    fn line(&self, now: BootNs) -> String {
        let whole_ms = |length: Length| (length.0 / 1_000_000).to_string();
        let begun = self.lanes.iter().filter_map(|lane| lane.t0).max();
        let passed = begun.and_then(|t0| now.since(t0)).map(Length);
        let time = match (passed, self.duration) {
            (None, _) => "waiting for the first sample".to_owned(),
            (Some(passed), Some(all)) => format!("{} s left", all.less(passed).0 / 1_000_000_000),
            (Some(passed), None) => format!("{} s", passed.0 / 1_000_000_000),
        };
        let before = self.lanes.iter().map(|lane| lane.before).min().flatten();
        let age = before.and_then(|before| now.since(before)).map(Length);
        let age = age.map_or_else(|| "none yet".to_owned(), |age| format!("{} ms", whole_ms(age)));
        let recoveries =
            self.lanes.iter().fold(0_u64, |sum, lane| sum.saturating_add(lane.recoveries));
        format!("{time} · age {age} of {} · recoveries {recoveries}", whole_ms(self.cap))
    }
}

/// Nobody needs it: a terminal that went away is no failure.
fn draw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::{Lane, Length, Progress};
    use crate::unit::BootNs;

    #[test]
    fn the_line_says_what_is_left_and_the_age_of_the_worst() {
        let s = 1_000_000_000;
        let mut progress = Progress::new(2, Length::of_ms(750), Some(Length::of_ms(60_000)));
        let now = BootNs(100 * s);
        assert_eq!(
            progress.line(now),
            "waiting for the first sample · age none yet of 750 · recoveries 0"
        );
        let lane =
            |before| Lane { t0: Some(BootNs(90 * s)), before: Some(BootNs(before)), recoveries: 2 };
        progress.lanes = vec![lane(99 * s), lane(99 * s + 900_000_000)];
        assert_eq!(progress.line(now), "50 s left · age 1000 ms of 750 · recoveries 4");
        progress.begin();
        assert!(progress.line(now).starts_with("waiting"));
    }
}
