//! Every driver call, named, timed and watched.
//!
//! Purpose: what a call cost, and which one is under way, readable from another thread while the
//! calling thread hangs in it. May touch: the clocks. May not: know what the calls are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, Stamp, thread_cpu_ns};
use crate::unit::GpuUuid;
use crate::unknown::{Unknown, UnknownReason};

/// Upper bounds of the latencies that are counted apart, in ns: from a call that the library answers
/// from memory to one that is about to be given up.
pub const LATENCY_BOUNDS_NS: [u64; 9] = [
    100_000,
    250_000,
    1_000_000,
    2_500_000,
    10_000_000,
    25_000_000,
    100_000_000,
    500_000_000,
    2_000_000_000,
];

/// What the calls of one name have cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallCost {
    /// How many.
    pub count: u64,
    /// How long they took together, in ns.
    pub latency_total_ns: u64,
    /// How long the slowest took, in ns.
    pub latency_max_ns: u64,
    /// CPU time of the calling thread inside them, in ns.
    pub cpu_ns: u64,
    /// How many took at most the bound of the same place in [`LATENCY_BOUNDS_NS`] and more than the
    /// one before it. Slower ones are in `count` alone.
    pub latency_counts: [u64; LATENCY_BOUNDS_NS.len()],
}

impl CallCost {
    /// One call.
    fn of(latency_ns: u64, cpu_ns: u64) -> Self {
        let mut latency_counts = [0; LATENCY_BOUNDS_NS.len()];
        let mut bounds = LATENCY_BOUNDS_NS.iter().zip(&mut latency_counts);
        if let Some((_, count)) = bounds.find(|(bound, _)| latency_ns <= **bound) {
            *count = 1;
        }
        Self {
            count: 1,
            latency_total_ns: latency_ns,
            latency_max_ns: latency_ns,
            cpu_ns,
            latency_counts,
        }
    }
}

/// What reading cost, by call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadCost {
    /// By the call's symbol.
    pub calls: BTreeMap<&'static str, CallCost>,
}

impl ReadCost {
    /// Adds another read's cost.
    pub fn add(&mut self, other: &Self) {
        for (call, cost) in &other.calls {
            let sum = self.calls.entry(call).or_default();
            sum.count = sum.count.saturating_add(cost.count);
            sum.latency_total_ns = sum.latency_total_ns.saturating_add(cost.latency_total_ns);
            sum.latency_max_ns = sum.latency_max_ns.max(cost.latency_max_ns);
            sum.cpu_ns = sum.cpu_ns.saturating_add(cost.cpu_ns);
            for (sum, count) in sum.latency_counts.iter_mut().zip(cost.latency_counts) {
                *sum = sum.saturating_add(count);
            }
        }
    }

    /// CPU time in all calls, in ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.calls.values().fold(0, |sum, cost| sum.saturating_add(cost.cpu_ns))
    }
}

/// A call under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlight {
    /// Its symbol.
    pub call: &'static str,
    /// Since when.
    pub since: Stamp,
}

/// The call a thread is in, as other threads see it.
#[derive(Clone, Debug, Default)]
pub struct CallWatch(Arc<Mutex<Option<InFlight>>>);

impl CallWatch {
    /// The call under way.
    #[must_use]
    pub fn in_flight(&self) -> Option<InFlight> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, in_flight: Option<InFlight>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = in_flight;
    }
}

/// A call that took longer than its deadline, and came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled {
    /// Its symbol.
    pub call: &'static str,
    /// When it was made.
    pub from: Stamp,
    /// When it returned.
    pub to: Stamp,
}

/// The calls of one thread.
#[derive(Debug)]
pub struct Calls {
    clock: Clock,
    deadline: Duration,
    watch: CallWatch,
    cost: ReadCost,
    stalled: Vec<Stalled>,
}

impl Calls {
    /// Calls made on this thread, watched through `watch`.
    #[must_use]
    pub fn new(clock: Clock, deadline: Duration, watch: CallWatch) -> Self {
        Self { clock, deadline, watch, cost: ReadCost::default(), stalled: Vec::new() }
    }

    /// Makes one call.
    pub fn run<T>(&mut self, call: &'static str, made: impl FnOnce() -> T) -> T {
        let since = self.clock.now();
        self.watch.set(Some(InFlight { call, since }));
        let cpu = thread_cpu_ns();
        let answer = made();
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu);
        let ended = self.clock.now();
        self.watch.set(None);
        let latency_ns = ended.mono_ns.saturating_sub(since.mono_ns);
        let cost = CallCost::of(latency_ns, cpu_ns);
        self.cost.add(&ReadCost { calls: BTreeMap::from([(call, cost)]) });
        if Duration::from_nanos(latency_ns) > self.deadline {
            self.stalled.push(Stalled { call, from: since, to: ended });
        }
        answer
    }

    /// The cost since this was last asked.
    pub fn take_cost(&mut self) -> ReadCost {
        std::mem::take(&mut self.cost)
    }

    /// The calls that overran since this was last asked.
    pub fn take_stalled(&mut self) -> Vec<Stalled> {
        std::mem::take(&mut self.stalled)
    }
}

/// The UNKNOWN of a call that did not return in time.
#[must_use]
pub fn timed_out(call: &'static str, gpu: Option<&GpuUuid>) -> Unknown {
    Unknown { gpu: gpu.cloned(), call: Some(call), ..Unknown::of(UnknownReason::NvmlCallTimeout) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_at_the_first_bound_that_holds_them() {
        let mut sum = ReadCost::default();
        for latency_ns in [0, 100_000, 100_001, 2_000_000_000, 2_000_000_001] {
            let calls = BTreeMap::from([("nvml", CallCost::of(latency_ns, 0))]);
            sum.add(&ReadCost { calls });
        }
        let cost = sum.calls["nvml"];
        assert_eq!(cost.latency_counts, [2, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(cost.count, 5);
    }

    #[test]
    fn calls_are_counted_by_name_and_the_slow_one_is_told() {
        let watch = CallWatch::default();
        let mut calls = Calls::new(Clock::system(), Duration::ZERO, watch.clone());
        let seen = calls.run("nvmlSlow", || watch.in_flight().map(|flight| flight.call));
        assert_eq!(seen, Some("nvmlSlow"));
        assert_eq!(watch.in_flight(), None);
        calls.run("nvmlSlow", || ());
        let stalled = calls.take_stalled();
        assert!(stalled.iter().all(|stalled| stalled.call == "nvmlSlow"), "{stalled:?}");
        let cost = calls.take_cost();
        assert_eq!(cost.calls["nvmlSlow"].count, 2);
        assert!(calls.take_cost().calls.is_empty());
    }
}
