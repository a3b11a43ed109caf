//! The kernel's events: attached, proven right, drained.

use std::path::Path;

use tokio::io::unix::AsyncFd;

use super::ObserverError;
use crate::clock::Clock;
use crate::host::{Drained, Lost};
use crate::kernel::selftest::{self, KnownChild, Mismatch};
use crate::kernel::{DeviceTouchState, Event, KernelError, Loss, Tracer, TracerOptions, WireError};

/// Kernel events, counted on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EventCounts {
    /// By the kernel programs.
    pub(crate) produced: u64,
    /// By us.
    pub(crate) received: u64,
    /// For want of room in the ring, or because whom they are about could not be read.
    pub(crate) lost: u64,
}

/// What one drain of the ring gave.
#[derive(Default)]
struct Records {
    events: Vec<Event>,
    /// Records that could not be read as events.
    undecoded: u64,
}

impl Records {
    fn take(&mut self, record: Result<Event, WireError>) {
        match record {
            Ok(event) => self.events.push(event),
            Err(error) => {
                tracing::error!(%error, "a record of our own kernel side cannot be read");
                self.undecoded = self.undecoded.saturating_add(1);
            }
        }
    }

    /// With what the counters said was lost.
    fn with(self, losses: Result<Vec<Loss>, KernelError>, clock_before: &Before) -> Drained {
        let mut all: Vec<Lost> = Vec::new();
        match losses {
            Ok(losses) => all.extend(losses.into_iter().map(|loss| {
                let Loss { count, after, before, .. } = loss;
                Lost::Between { after, before, size: count }
            })),
            // Without the counters nobody can say that nothing was lost.
            Err(error) => {
                tracing::error!(%error, "the loss counters cannot be read");
                all.push(Lost::SinceLastDrain { size: None });
            }
        }
        // Records that say nothing are as good as lost: at some time since the last drain.
        if self.undecoded > 0 {
            all.push(Lost::SinceLastDrain { size: Some(self.undecoded) });
        }
        Drained { began: clock_before.0, events: self.events, losses: all }
    }
}

/// The moment before a drain.
struct Before(crate::clock::Stamp);

/// The attached kernel side.
pub(crate) struct Ring {
    tracer: AsyncFd<Tracer>,
}

impl Ring {
    /// Attaches. From its return on every process event is in the ring or counted.
    pub(crate) fn attach(options: &TracerOptions) -> Result<Self, ObserverError> {
        Ok(Self { tracer: pollable(Tracer::attach(options)?)? })
    }

    /// Waits until the kernel side forces a wake-up because the ring fills.
    pub(crate) async fn fills(&self) {
        match self.tracer.readable().await {
            // Cleared before the drain that follows: what comes in between wakes again.
            Ok(mut ready) => ready.clear_ready(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Takes everything out of the ring.
    pub(crate) fn drain(&mut self, clock: &Clock) -> Drained {
        let before = Before(clock.now());
        let mut records = Records::default();
        let losses = self.tracer.get_mut().drain_and_confirm(|record| records.take(record));
        records.with(losses, &before)
    }

    /// Runs a known child, and compares what its events say with what procfs shows.
    pub(crate) fn self_test(
        &mut self,
        clock: &Clock,
        known: &KnownChild,
    ) -> Result<Drained, ObserverError> {
        let before = Before(clock.now());
        let mut records = Records::default();
        let tracer = self.tracer.get_mut();
        let outcome = selftest::run(tracer, known, Path::new("/proc"), |record| {
            records.take(record);
        })?;
        if outcome.passed() {
            return Ok(records.with(Ok(Vec::new()), &before));
        }
        let absent = outcome.absent.iter().map(|event| format!("the {event} event never came"));
        let differing = outcome.mismatches.iter().map(|one| {
            let Mismatch { event, field, recorded, expected } = one;
            format!("{event} {field} is {recorded}, procfs says {expected}")
        });
        let faults: Vec<String> = absent.chain(differing).collect();
        Err(ObserverError::SelfTest(faults.join("; ")))
    }

    /// Why opens of NVIDIA devices are not watched; `None` while they are.
    pub(crate) fn touch_off_because(&self) -> Option<String> {
        match self.tracer.get_ref().device_touch() {
            DeviceTouchState::On { .. } => None,
            DeviceTouchState::Off { reason } => Some(reason.clone()),
        }
    }

    /// What was counted so far on both sides; what is in the ring is in one of them alone.
    pub(crate) fn counts(&self) -> Option<EventCounts> {
        counts_of(self.tracer.get_ref())
    }

    /// Stops the kernel side, takes what is left, and counts: now nothing is on its way any more,
    /// so produced = received + lost must hold exactly.
    pub(crate) fn stop(self, clock: &Clock) -> (Drained, Option<EventCounts>) {
        let mut tracer = self.tracer.into_inner();
        // What happens from now on is seen by nobody.
        let before = Before(clock.now());
        if let Err(error) = tracer.detach() {
            tracing::error!(%error, "the kernel programs cannot be detached");
        }
        let mut records = Records::default();
        let losses = tracer.drain_and_confirm(|record| records.take(record));
        let drained = records.with(losses, &before);
        if let Ok(Err(imbalance)) = tracer.balance() {
            tracing::error!(%imbalance, "events do not balance: a bug of gpu-ledger");
        }
        if let Ok(counts) = tracer.counts()
            && counts.read_faults() > 0
        {
            let members = counts.read_faults();
            tracing::warn!(members, "some members of kernel structures could not be read");
        }
        (drained, counts_of(&tracer))
    }
}

fn counts_of(tracer: &Tracer) -> Option<EventCounts> {
    let counts = tracer.counts().ok()?;
    Some(EventCounts {
        produced: counts.produced().total(),
        received: tracer.sequence().received().total(),
        lost: counts.lost().total(),
    })
}

#[expect(
    deprecated,
    reason = "the tracer keeps its ring's descriptor as long as it lives, which is all that the \
              unsafe constructor would have us promise"
)]
fn pollable(tracer: Tracer) -> Result<AsyncFd<Tracer>, ObserverError> {
    AsyncFd::new(tracer).map_err(ObserverError::Poll)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_no_event_is_counted_and_not_dropped() {
        let mut records = Records::default();
        records.take(Err(WireError::Kind { found: 99 }));
        assert_eq!((records.events.len(), records.undecoded), (0, 1));
        let before = Before(Clock::system().now());
        let drained = records.with(Ok(Vec::new()), &before);
        assert_eq!(drained.losses, vec![Lost::SinceLastDrain { size: Some(1) }]);
    }
}
