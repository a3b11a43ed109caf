//! How busy a GPU was for a process: a range from what the driver sampled.
//!
//! Purpose: three sources, best first, each turned into `[low, high]` milliseconds of a row's span.
//! May touch: nothing. May not: give one number where the driver gave a sample, or a zero where it
//! gave none.
//!
//! The driver samples about every 139 ms (a ring of 72 in 10 s), names one process per sample, and
//! adds samples to a process's sums once a second (open-gpu-kernel-modules 595.45.04, `gpu_acct.c`,
//! `ctrl2080perf.h`). So every source is blind to what came between samples.

use std::collections::VecDeque;

use super::{Busy, BusySource, FinalRow, Row, UtilizationSums};
use crate::clock::Stamp;
use crate::unit::{Ms, Pid, Span, WallUs};
use crate::unknown::{Observed, UnknownReason};

/// The driver adds samples to a process's sums this often; what came after the last time is lost.
const SUM_TICK_MS: u64 = 1_000;
/// One sample at 100 %, in the unit of the sums (1/100 %).
const FULL_SAMPLE: u64 = 10_000;
/// A sample's time stamp may lie this far from now on the clock it belongs to: the ring's 10 s, and
/// a generous delay of the call.
const RING_US_MAX: u64 = 60_000_000;
/// Process samples kept per GPU; more are forgotten oldest first, and counted. A day of one process
/// at one entry per collection.
pub const PROCESS_SAMPLES_MAX: usize = 32_768;

/// The range of version 2 sums.
///
/// `fraction = sum / (samples × 10,000)`. Truncation: each sample was floored to 1/100 %, so the sum may be
/// `samples` higher. Edges: the first and last sample reach over the span's ends, so one sample
/// more or less. Tail: up to one second before the end was never added, and may have been all idle or all
/// busy. Rounded outwards to the millisecond.
pub fn of_sums(held: Ms, sums: UtilizationSums) -> Result<Busy, UnknownReason> {
    if sums.sample_count == 0 {
        return Err(UnknownReason::NoSamples);
    }
    let whole = u128::from(sums.sample_count) * u128::from(FULL_SAMPLE);
    let sum = u128::from(sums.gpu_centipercent);
    if sum > whole {
        return Err(UnknownReason::ValueNotAvailable);
    }
    let least = sum.saturating_sub(u128::from(FULL_SAMPLE));
    let most = (sum + u128::from(sums.sample_count) + u128::from(FULL_SAMPLE)).min(whole);
    let tail = held.0.min(SUM_TICK_MS);
    let summed = u128::from(held.0 - tail);
    let low = summed * least / whole;
    let high = (summed * most).div_ceil(whole) + u128::from(tail);
    Ok(Busy {
        low: Ms(narrow(low)),
        high: Ms(narrow(high).min(held.0)),
        samples: Some(sums.sample_count),
        source: BusySource::StatsV2,
    })
}

/// The range of a floored percentage: `[p, p + 1)` % of the span. At 0 % nothing is known but that it
/// was less than one percent; whether anything was sampled at all the driver does not say.
pub fn of_percent(held: Ms, percent: u32) -> Result<Busy, UnknownReason> {
    if percent > 100 {
        return Err(UnknownReason::ValueNotAvailable);
    }
    let low = u128::from(held.0) * u128::from(percent) / 100;
    // The largest whole millisecond below the exclusive bound.
    let bound = u128::from(held.0) * (u128::from(percent) + 1);
    let high = bound.saturating_sub(1) / 100;
    Ok(Busy {
        low: Ms(narrow(low)),
        high: Ms(narrow(high).min(held.0)),
        samples: None,
        source: BusySource::StatsV1,
    })
}

/// The best of the three sources for one row.
pub fn of_row(row: &Row, samples: &ProcessSamples) -> Result<Busy, UnknownReason> {
    if let Some(sums) = row.sums {
        return of_sums(row.held, sums);
    }
    if let Some(busy) = samples.of_row(row) {
        return Ok(busy);
    }
    match row.utilization {
        Observed::Known(percent) => of_percent(row.held, percent),
        Observed::Unknown(reason) => Err(reason),
    }
}

/// Fills in what is known of a final row.
pub fn fill(row: &mut FinalRow, samples: &ProcessSamples) -> Option<UnknownReason> {
    match of_row(&row.row, samples) {
        Ok(busy) => {
            row.busy = Some(busy);
            None
        }
        Err(reason) => Some(reason),
    }
}

fn narrow(ms: u128) -> u64 {
    u64::try_from(ms).unwrap_or(u64::MAX)
}

/// One entry of `nvmlDeviceGetProcessUtilization`: a process's average since the last collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessSample {
    /// Whose.
    pub pid: Pid,
    /// The driver's time stamp, in µs of a clock it does not name.
    pub timestamp_us: u64,
    /// `smUtil`, in percent, floored.
    pub sm_percent: u32,
}

/// One sample of the whole device (`nvmlDeviceGetSamples`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceSample {
    /// The driver's time stamp, in µs of the same clock.
    pub timestamp_us: u64,
    /// Utilization in percent.
    pub percent: u32,
}

/// What one collection brought.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    /// Per process, newest since the last collection.
    pub processes: Vec<ProcessSample>,
    /// Of the device; `None` where the call gave none.
    pub device: Option<Vec<DeviceSample>>,
}

/// The clock that the driver's time stamps are on, found by comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleClock {
    /// Microseconds since 1970.
    Wall,
    /// Microseconds since boot.
    Boot,
}

/// Which clock a time stamp just read belongs to; `None` where neither fits, and it must not be used.
#[must_use]
pub fn sample_clock(timestamp_us: u64, now: Stamp) -> Option<SampleClock> {
    let near = |clock_us: u64| timestamp_us.abs_diff(clock_us) <= RING_US_MAX;
    match (near(now.wall.0), near(now.boot.0 / 1_000)) {
        (true, false) => Some(SampleClock::Wall),
        (false, true) => Some(SampleClock::Boot),
        // Both: the clocks cannot be told apart (a host whose wall clock starts at boot).
        (true, true) | (false, false) => None,
    }
}

/// What must be added to a time stamp just read to be on the wall clock, in µs.
fn to_wall_us(timestamp_us: u64, now: Stamp) -> Option<i64> {
    match sample_clock(timestamp_us, now)? {
        SampleClock::Wall => Some(0),
        SampleClock::Boot => {
            let wall = i64::try_from(now.wall.0).ok()?;
            wall.checked_sub(i64::try_from(now.boot.0 / 1_000).ok()?)
        }
    }
}

/// What did not go into the ranges, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleLoss {
    /// More than 100 %.
    pub over_full: u64,
    /// Not newer than the last collection, or on neither clock.
    pub stale: u64,
    /// Forgotten under [`PROCESS_SAMPLES_MAX`].
    pub forgotten: u64,
    /// Collections further apart than the ring reaches back.
    pub late_collections: u64,
}

/// The sum over processes and the device's own samples contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disagreement {
    /// What the processes used at least, in thousandths of the device over the collection.
    pub processes_permille: u64,
    /// What the device says was used at most, in the same unit.
    pub device_permille: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    pid: Pid,
    from_us: u64,
    to_us: u64,
    percent: u32,
}

/// The process samples of one GPU, collected often enough to lose none.
#[derive(Debug, Default)]
pub struct ProcessSamples {
    kept: VecDeque<Kept>,
    last_seen_us: Option<u64>,
    /// The wall time up to which, and from which, collection was without a hole.
    whole: Option<(u64, u64)>,
    loss: SampleLoss,
}

/// The driver's ring, in µs: a later collection has lost samples.
pub const RING_US: u64 = 10_000_000;

impl ProcessSamples {
    /// The newest time stamp seen, to be given back to the driver at the next collection.
    #[must_use]
    pub const fn last_seen_us(&self) -> Option<u64> {
        self.last_seen_us
    }

    /// What did not go into the ranges.
    #[must_use]
    pub const fn loss(&self) -> SampleLoss {
        self.loss
    }

    /// Takes in one collection, made at `now`. Returns the contradiction with the device's own
    /// samples, if there is one.
    pub fn collect(&mut self, collection: &Collection, now: Stamp) -> Option<Disagreement> {
        let since = self.last_seen_us;
        let mut newest = since;
        let mut percents: u64 = 0;
        for sample in &collection.processes {
            if sample.sm_percent > 100 {
                self.loss.over_full += 1;
                continue;
            }
            let Some(offset) = to_wall_us(sample.timestamp_us, now) else {
                self.loss.stale += 1;
                continue;
            };
            if since.is_some_and(|since| sample.timestamp_us <= since) {
                self.loss.stale += 1;
                continue;
            }
            newest = newest.max(Some(sample.timestamp_us));
            percents += u64::from(sample.sm_percent);
            let ring = sample.timestamp_us.saturating_sub(RING_US);
            let from = since.map_or(ring, |since| since.max(ring));
            self.keep(Kept {
                pid: sample.pid,
                from_us: from.saturating_add_signed(offset),
                to_us: sample.timestamp_us.saturating_add_signed(offset),
                percent: sample.sm_percent,
            });
        }
        self.extend_whole(now);
        self.last_seen_us = newest;
        let device = collection.device.as_ref().filter(|device| !device.is_empty())?;
        contradiction(percents, collection.processes.len(), device)
    }

    fn extend_whole(&mut self, now: Stamp) {
        self.whole = match self.whole {
            Some((from, to)) if now.wall.0.saturating_sub(to) <= RING_US => {
                Some((from, now.wall.0))
            }
            Some(_) => {
                self.loss.late_collections += 1;
                Some((now.wall.0.saturating_sub(RING_US), now.wall.0))
            }
            None => Some((now.wall.0.saturating_sub(RING_US), now.wall.0)),
        };
    }

    fn keep(&mut self, sample: Kept) {
        if self.kept.len() >= PROCESS_SAMPLES_MAX {
            self.loss.forgotten += 1;
            if let Some(oldest) = self.kept.pop_front() {
                // What is forgotten is a hole: spans that reach into it have no range from here.
                self.whole = self.whole.map(|(from, to)| (from.max(oldest.to_us), to));
            }
        }
        self.kept.push_back(sample);
    }

    /// The range of one row, where collection covered its whole span without a hole and saw its
    /// process at least once.
    ///
    /// Each entry is an average over (last collection, its time stamp], floored to a percent: at
    /// least `p`, less than `p + 1`. The part of it that lies inside the span is taken; where the
    /// span covers only a part of the entry, the whole amount may lie inside or outside.
    fn of_row(&self, row: &Row) -> Option<Busy> {
        let span = Span::of_row(row.start?, row.held)?;
        let (from_us, to_us) = (span.from_ms() * 1_000, span.to_ms().checked_mul(1_000)?);
        let (whole_from, whole_to) = self.whole?;
        if whole_from > from_us || whole_to < to_us {
            return None;
        }
        let (mut low, mut high, mut samples, mut told) = (0_u128, 0_u128, 0_u64, 0_u64);
        for kept in self.kept.iter().filter(|kept| kept.pid == row.pid) {
            let (from, to) = (kept.from_us.max(from_us), kept.to_us.min(to_us));
            let Some(inside) = to.checked_sub(from).filter(|inside| *inside > 0) else { continue };
            let length = kept.to_us - kept.from_us;
            let least = u128::from(length) * u128::from(kept.percent) / 100;
            let most = (u128::from(length) * (u128::from(kept.percent) + 1)).div_ceil(100);
            low += least.saturating_sub(u128::from(length - inside));
            high += most.min(u128::from(inside));
            samples += 1;
            told = told.saturating_add(inside);
        }
        // A collection that does not name the process says "below one percent", not "idle".
        high += u128::from((to_us - from_us).saturating_sub(told)).div_ceil(100);
        if samples == 0 {
            return None;
        }
        Some(Busy {
            low: Ms(narrow(low / 1_000).min(row.held.0)),
            high: Ms(narrow(high.div_ceil(1_000)).min(row.held.0)),
            samples: Some(samples),
            source: BusySource::ProcessSamples,
        })
    }

    /// Forgets samples of spans that ended before `wall`.
    pub fn forget_before(&mut self, wall: WallUs) {
        while self.kept.front().is_some_and(|kept| kept.to_us < wall.0) {
            self.kept.pop_front();
        }
        self.whole = self.whole.map(|(from, to)| (from.max(wall.0.min(to)), to));
    }
}

/// One process per sample: the processes together cannot have used more than the device was.
/// Each figure was floored to a percent, the device's too.
fn contradiction(percents: u64, entries: usize, device: &[DeviceSample]) -> Option<Disagreement> {
    let count = u64::try_from(device.len()).ok()?;
    let sum: u64 = device.iter().map(|sample| u64::from(sample.percent.min(100))).sum();
    let device_permille = ((sum + count) * 10).div_ceil(count);
    let processes_permille = percents * 10;
    (entries > 0 && processes_permille > device_permille)
        .then_some(Disagreement { processes_permille, device_permille })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{BootNs, GpuUuid};
    use proptest::prelude::*;

    const NOW: Stamp =
        Stamp { boot: BootNs(500_000_000_000), mono_ns: 0, wall: WallUs(1_700_000_000_000_000) };

    fn row(held: u64, sums: Option<UtilizationSums>, utilization: Observed<u32>) -> Row {
        Row {
            gpu: GpuUuid("GPU-x".into()),
            pid: Pid(7),
            start: Some(WallUs(NOW.wall.0 - 5_000_000)),
            held: Ms(held),
            running: false,
            memory_peak: Observed::Unknown(UnknownReason::ValueNotAvailable),
            utilization,
            sums,
        }
    }

    fn range(busy: &Busy) -> (u64, u64) {
        (busy.low.0, busy.high.0)
    }

    #[test]
    fn no_sample_is_no_number() {
        let sums = UtilizationSums { sample_count: 0, gpu_centipercent: 0 };
        assert_eq!(of_sums(Ms(679), sums), Err(UnknownReason::NoSamples));
    }

    #[test]
    fn a_long_full_span_is_nearly_all_busy() {
        let sums = UtilizationSums { sample_count: 7_200, gpu_centipercent: 72_000_000 };
        let busy = of_sums(Ms(1_000_000), sums).unwrap();
        assert_eq!(range(&busy), (998_861, 1_000_000));
        assert_eq!((busy.samples, busy.source), (Some(7_200), BusySource::StatsV2));
    }

    #[test]
    fn zero_percent_means_less_than_one_and_never_zero() {
        assert_eq!(range(&of_percent(Ms(1_000), 0).unwrap()), (0, 9));
        assert_eq!(range(&of_percent(Ms(1_000), 42).unwrap()), (420, 429));
        assert_eq!(range(&of_percent(Ms(1_000), 100).unwrap()), (1_000, 1_000));
        assert_eq!(of_percent(Ms(1_000), 101), Err(UnknownReason::ValueNotAvailable));
        assert_eq!(range(&of_percent(Ms(0), 0).unwrap()), (0, 0));
    }

    #[test]
    fn the_best_source_wins() {
        let mut samples = ProcessSamples::default();
        samples.collect(&one_process(NOW.wall.0 - 5_500_000, 0), NOW);
        samples.collect(&one_process(NOW.wall.0 - 1_000, 50), NOW);
        let sums = Some(UtilizationSums { sample_count: 20, gpu_centipercent: 100_000 });
        let source = |row: &Row, samples: &ProcessSamples| of_row(row, samples).unwrap().source;
        let full = row(3_000, sums, Observed::Known(50));
        assert_eq!(source(&full, &samples), BusySource::StatsV2);
        let plain = row(3_000, None, Observed::Known(50));
        assert_eq!(source(&plain, &samples), BusySource::ProcessSamples);
        assert_eq!(source(&plain, &ProcessSamples::default()), BusySource::StatsV1);
        let nothing = row(3_000, None, Observed::Unknown(UnknownReason::ValueNotAvailable));
        assert_eq!(
            of_row(&nothing, &ProcessSamples::default()),
            Err(UnknownReason::ValueNotAvailable)
        );
    }

    fn one_process(timestamp_us: u64, sm_percent: u32) -> Collection {
        let sample = ProcessSample { pid: Pid(7), timestamp_us, sm_percent };
        Collection { processes: vec![sample], device: None }
    }

    #[test]
    fn the_clock_of_the_samples_is_found_or_they_are_not_used() {
        assert_eq!(sample_clock(NOW.wall.0 - 1_000_000, NOW), Some(SampleClock::Wall));
        assert_eq!(sample_clock(499_000_000, NOW), Some(SampleClock::Boot));
        assert_eq!(sample_clock(1_000, NOW), None);

        let mut samples = ProcessSamples::default();
        samples.collect(&one_process(1_000, 50), NOW);
        assert_eq!(samples.loss().stale, 1);
        let unused = row(3_000, None, Observed::Unknown(UnknownReason::ValueNotAvailable));
        assert!(of_row(&unused, &samples).is_err());
    }

    #[test]
    fn samples_on_the_boot_clock_give_the_same_range() {
        let range_on = |base: u64| {
            let mut samples = ProcessSamples::default();
            samples.collect(&one_process(base - 5_500_000, 0), NOW);
            samples.collect(&one_process(base - 1_500_000, 80), NOW);
            range(&of_row(&row(4_000, None, Observed::Known(1)), &samples).unwrap())
        };
        assert_eq!(range_on(NOW.wall.0), range_on(NOW.boot.0 / 1_000));
    }

    #[test]
    fn junk_is_counted_and_never_billed() {
        let mut samples = ProcessSamples::default();
        samples.collect(&one_process(NOW.wall.0 - 10, 101), NOW);
        samples.collect(&one_process(NOW.wall.0 - 10, 50), NOW);
        samples.collect(&one_process(NOW.wall.0 - 10, 50), NOW);
        assert_eq!((samples.loss().over_full, samples.loss().stale), (1, 1));
    }

    #[test]
    fn a_hole_in_the_collection_takes_the_source_away() {
        let mut samples = ProcessSamples::default();
        samples.collect(&one_process(NOW.wall.0 - 6_000_000, 50), NOW);
        let later = Stamp {
            boot: BootNs(NOW.boot.0 + 30_000_000_000),
            wall: WallUs(NOW.wall.0 + 30_000_000),
            ..NOW
        };
        samples.collect(&one_process(later.wall.0, 50), later);
        assert_eq!(samples.loss().late_collections, 1);
        let busy = of_row(&row(4_000, None, Observed::Known(3)), &samples).unwrap();
        assert_eq!(busy.source, BusySource::StatsV1);
    }

    #[test]
    fn processes_that_used_more_than_the_device_are_a_contradiction() {
        let mut samples = ProcessSamples::default();
        let device = |percent| {
            let timestamp_us = NOW.wall.0 - 1_000;
            Some(vec![DeviceSample { timestamp_us, percent }; 5])
        };
        let mut collection = one_process(NOW.wall.0 - 1_000, 50);
        collection.device = device(50);
        assert_eq!(samples.collect(&collection, NOW), None);
        let mut collection = one_process(NOW.wall.0 - 500, 50);
        collection.device = device(20);
        let expected = Disagreement { processes_permille: 500, device_permille: 210 };
        assert_eq!(samples.collect(&collection, NOW), Some(expected));
    }

    proptest! {
        #[test]
        fn ranges_lie_inside_the_span(
            held in 0_u64..10_000_000, count in 1_u64..100_000, share in 0_u64..=10_000
        ) {
            let sums = UtilizationSums { sample_count: count, gpu_centipercent: count * share };
            let busy = of_sums(Ms(held), sums).unwrap();
            prop_assert!(busy.low <= busy.high && busy.high.0 <= held);
            let estimate = held * share / 10_000;
            prop_assert!(busy.low.0 <= estimate && estimate <= busy.high.0);
        }

        #[test]
        fn a_floored_percentage_always_contains_the_truth(held in 1_u64..10_000_000, used in 0_u64..10_000_000) {
            let used = used % (held + 1);
            let percent = u32::try_from(used * 100 / held).unwrap();
            let busy = of_percent(Ms(held), percent).unwrap();
            prop_assert!(busy.low.0 <= used && used <= busy.high.0);
        }
    }
}
