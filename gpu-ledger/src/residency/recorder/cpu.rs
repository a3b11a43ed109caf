//! The processor's ticks at the points of a timeline.

use std::io;
use std::path::Path;

use super::ticker::{BootTicker, Stop};
use crate::clock::Clock;
use crate::residency::events::Event;
use crate::residency::moment::Length;
use crate::residency::probe::Ticker as _;
use crate::unit::BootNs;

/// Ticks of all processors together since boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    /// Neither idle nor waiting for a disk.
    pub busy: u64,
    /// All.
    pub total: u64,
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. What follows is
/// counted in the first two already (Documentation/filesystems/proc.rst, 1.7).
#[must_use]
pub fn parse(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [_, _, _, idle, iowait, ..] = ticks.as_slice() else { return None };
    let total = ticks.iter().try_fold(0_u64, |sum, ticks| sum.checked_add(*ticks))?;
    let busy = total.checked_sub(idle.checked_add(*iowait)?)?;
    Some(Ticks { busy, total })
}

/// Reads the ticks at every point from `t0` on until the end is asked for. A point whose ticks cannot be
/// read has no row.
pub fn run(
    clock: &Clock,
    stop: Stop,
    stat: &Path,
    (t0, timeline_period): (BootNs, Length),
    mut tell: impl FnMut(Event),
) -> io::Result<()> {
    let mut ticker = BootTicker::new(clock.clone(), stop)?;
    let mut j: u64 = 0;
    loop {
        ticker.sleep_until(t0.plus_ns(j.saturating_mul(timeline_period.0)));
        if ticker.is_stopped() {
            return Ok(());
        }
        let read = std::fs::read_to_string(stat);
        let at_ns = clock.boot();
        if let Some(Ticks { busy, total }) = read.ok().as_deref().and_then(parse) {
            tell(Event::Cpu { j, at_ns, busy_ticks: busy, total_ticks: total });
        }
        // Points that passed meanwhile have no row: a burst of readings would describe none of them.
        let passed = at_ns.0.saturating_sub(t0.0).checked_div(timeline_period.0).unwrap_or(j);
        j = j.saturating_add(1).max(passed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Ticks, parse};

    #[test]
    fn guests_are_counted_once_and_waiting_is_idle() {
        let stat = "cpu  10 1 5 100 20 2 3 4 7 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(parse(stat), Some(Ticks { busy: 25, total: 145 }));
        for wrong in ["", "cpu", "cpu  1 2 3", "cpu  1 2 3 x 5 6 7 8", "cpu0 1 2 3 4 5 6 7 8"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
