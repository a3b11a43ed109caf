//! Waiting for a moment of `CLOCK_BOOTTIME`, until it comes or somebody asks for the end.
//!
//! A timer descriptor and not a sleep: it can be interrupted through a second descriptor, is not put off
//! by the thread's timer slack, and fires after a suspend for what came due in it. Timers of the
//! asynchronous runtime are a millisecond coarse and stand still while the machine sleeps.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clock::Clock;
use crate::residency::probe::Ticker;
use crate::unit::BootNs;

/// Asks for the end of a window, from any thread.
#[derive(Clone, Debug)]
pub struct Stop {
    wake: Arc<OwnedFd>,
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// Nobody has asked yet.
    pub fn new() -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Self { wake, asked: Arc::default() })
    }

    /// Asks; whoever waits returns at once.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        // Full: then it is readable already.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }

    /// Whether somebody has.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }
}

/// The real clock.
#[derive(Debug)]
pub struct BootTicker {
    clock: Clock,
    timer: OwnedFd,
    stop: Stop,
    /// The timer could not be set or waited for: there is no sense in going on.
    failed: bool,
}

impl BootTicker {
    /// A ticker that ends with `stop`.
    pub fn new(clock: Clock, stop: Stop) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        Ok(Self { clock, timer, stop, failed: false })
    }

    fn wait_until(&self, at: BootNs) -> io::Result<()> {
        let seconds = i64::try_from(at.0 / 1_000_000_000).map_err(|_| Errno::INVAL)?;
        let nanos = i64::try_from(at.0 % 1_000_000_000).map_err(|_| Errno::INVAL)?;
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: seconds, tv_nsec: nanos };
        let once = Itimerspec { it_interval: none, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        let mut ready =
            [PollFd::new(&self.timer, PollFlags::IN), PollFd::new(&*self.stop.wake, PollFlags::IN)];
        loop {
            match poll(&mut ready, None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Ticker for BootTicker {
    fn now(&self) -> BootNs {
        self.clock.boot()
    }

    fn sleep_until(&mut self, at: BootNs) {
        // A deadline of 0 would disarm the timer; one that has passed fires at once.
        if let Err(error) = self.wait_until(at.max(BootNs(1))) {
            tracing::error!(%error, "the timer of CLOCK_BOOTTIME cannot be waited for");
            self.failed = true;
        }
    }

    fn is_stopped(&self) -> bool {
        self.failed || self.stop.is_asked()
    }
}

#[cfg(test)]
mod tests {
    use super::{BootTicker, Stop};
    use crate::clock::Clock;
    use crate::residency::probe::Ticker as _;

    #[test]
    fn it_never_returns_before_the_moment_and_at_once_where_the_end_is_asked_for() {
        let stop = Stop::new().unwrap();
        let mut ticker = BootTicker::new(Clock::system(), stop.clone()).unwrap();
        for ms in [0_u64, 1, 20] {
            let at = ticker.now().plus_ns(ms * 1_000_000);
            ticker.sleep_until(at);
            assert!(ticker.now() >= at);
            assert!(!ticker.is_stopped());
        }
        let far = ticker.now().plus_ns(3_600_000_000_000);
        let asks = std::thread::spawn(move || stop.ask());
        ticker.sleep_until(far);
        asks.join().unwrap();
        assert!(ticker.is_stopped() && ticker.now() < far);
    }
}
