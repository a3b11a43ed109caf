//! When a GPU is read.
//!
//! Purpose: at most [`READS_PER_SECOND_MAX`] reads of a GPU a second, soon after what makes one useful.
//! May touch: nothing; it gets moments as values. May not: wait, or read a clock.

use crate::unit::BootNs;

const NS_PER_MS: u64 = 1_000_000;

/// Reads of one GPU in a second, at most.
pub const READS_PER_SECOND_MAX: u64 = 20;
/// From the beginning of one read to that of the next, at least; also the pace while rows of dead
/// processes are awaited.
pub const INTERVAL_DEAD_AWAITED_NS: u64 = 1_000_000_000 / READS_PER_SECOND_MAX;
/// The pace while any row is open, or awaited of a process that lives.
pub const INTERVAL_OPEN_NS: u64 = 250 * NS_PER_MS;
/// Every row is read again this often.
pub const INTERVAL_SWEEP_NS: u64 = 5_000 * NS_PER_MS;
/// The driver's ring of process samples holds about 10 s (72 samples;
/// open-gpu-kernel-modules 595.45.04, `ctrl2080perf.h`): read four times as often, none is lost to
/// a read that comes late.
pub const INTERVAL_SAMPLES_NS: u64 = 2_500 * NS_PER_MS;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Awaited {
    /// Nothing.
    #[default]
    Nothing,
    /// Rows are open, or may open.
    Open,
    /// Rows of dead processes that are not final yet.
    Dead,
}

/// The reads of one GPU in time.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "what they share is what they are")]
pub struct Schedule {
    last_read: Option<BootNs>,
    last_sweep: Option<BootNs>,
    last_samples: Option<BootNs>,
}

/// The next read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// When.
    pub at: BootNs,
    /// Whether it asks for every row.
    pub sweep: bool,
}

impl Schedule {
    /// When the next read is due. `provoked`: somebody asked for one (an exit, a request);
    /// `sweep`: and wants every row.
    #[must_use]
    pub fn next(&self, now: BootNs, awaited: Awaited, provoked: bool, sweep: bool) -> Due {
        let after = |began: Option<BootNs>, ns: u64| began.map_or(now, |began| began.plus_ns(ns));
        let earliest = after(self.last_read, INTERVAL_DEAD_AWAITED_NS);
        let sweep_due = if sweep { earliest } else { after(self.last_sweep, INTERVAL_SWEEP_NS) };
        let wanted = match awaited {
            _ if provoked || sweep => earliest,
            Awaited::Dead => earliest,
            Awaited::Open => after(self.last_read, INTERVAL_OPEN_NS),
            Awaited::Nothing => sweep_due,
        };
        let at = wanted.min(sweep_due).max(earliest);
        Due { at, sweep: sweep_due <= at }
    }

    /// A read begins.
    pub const fn began(&mut self, at: BootNs, sweep: bool) {
        self.last_read = Some(at);
        if sweep {
            self.last_sweep = Some(at);
        }
    }

    /// Whether the driver's utilization samples should be collected with a read that begins now.
    #[must_use]
    pub fn samples_due(&self, now: BootNs) -> bool {
        self.last_samples.is_none_or(|began| began.plus_ns(INTERVAL_SAMPLES_NS) <= now)
    }

    /// The samples are being collected.
    pub const fn samples_began(&mut self, at: BootNs) {
        self.last_samples = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> BootNs {
        BootNs(ms * NS_PER_MS)
    }

    /// Runs the schedule over made-up time and returns the moments of its reads, in ms.
    fn reads(until_ms: u64, mut state: impl FnMut(u64) -> (Awaited, bool)) -> Vec<(u64, bool)> {
        let (mut schedule, mut reads, mut pending) = (Schedule::default(), Vec::new(), false);
        for now_ms in 0..until_ms {
            let (awaited, provoked) = state(now_ms);
            pending |= provoked;
            let due = schedule.next(ms(now_ms), awaited, pending, false);
            if due.at <= ms(now_ms) {
                schedule.began(ms(now_ms), due.sweep);
                reads.push((now_ms, due.sweep));
                pending = false;
            }
        }
        reads
    }

    #[test]
    fn an_idle_gpu_is_swept_every_five_seconds() {
        let expected = vec![(0, true), (5_000, true), (10_000, true)];
        assert_eq!(reads(12_000, |_| (Awaited::Nothing, false)), expected);
    }

    #[test]
    fn ten_thousand_exits_a_second_provoke_twenty_reads() {
        let reads = reads(10_000, |_| (Awaited::Dead, true));
        assert_eq!(reads.len(), 200);
        assert!(reads.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 50));
        assert_eq!(reads.iter().filter(|read| read.1).count(), 2);
    }

    #[test]
    fn an_open_row_is_looked_at_four_times_a_second_and_a_dead_one_twenty_times() {
        assert_eq!(reads(1_000, |_| (Awaited::Open, false)).len(), 4);
        assert_eq!(reads(1_000, |_| (Awaited::Dead, false)).len(), 20);
    }

    #[test]
    fn one_exit_provokes_one_read_at_once() {
        let reads = reads(1_000, |now| (Awaited::Nothing, now == 300));
        assert_eq!(reads, vec![(0, true), (300, false)]);
    }

    #[test]
    fn two_exits_within_the_interval_share_the_second_read() {
        let reads = reads(1_000, |now| (Awaited::Nothing, now == 300 || now == 310 || now == 340));
        assert_eq!(reads, vec![(0, true), (300, false), (350, false)]);
    }

    #[test]
    fn sweeps_go_on_while_rows_are_open() {
        let reads = reads(11_000, |_| (Awaited::Open, false));
        let sweeps: Vec<_> = reads.iter().filter(|read| read.1).map(|read| read.0).collect();
        assert_eq!(sweeps, vec![0, 5_000, 10_000]);
    }

    #[test]
    fn a_wanted_sweep_comes_with_the_next_read() {
        let mut schedule = Schedule::default();
        schedule.began(ms(0), true);
        let due = schedule.next(ms(10), Awaited::Nothing, true, true);
        assert_eq!(due, Due { at: ms(50), sweep: true });
    }

    #[test]
    fn samples_are_collected_well_before_the_ring_wraps() {
        let mut schedule = Schedule::default();
        assert!(schedule.samples_due(ms(0)));
        schedule.samples_began(ms(0));
        assert!(!schedule.samples_due(ms(2_499)));
        assert!(schedule.samples_due(ms(2_500)));
    }
}
