//! What is to happen later.

use std::collections::BTreeMap;

use super::calls::Call;

/// Things with a time on the monotonic clock, in order.
#[derive(Debug)]
pub(super) struct Timers<T> {
    queue: BTreeMap<(u64, u64), T>,
    added: u64,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        Self { queue: BTreeMap::new(), added: 0 }
    }
}

impl<T> Timers<T> {
    pub(super) fn add(&mut self, at_us: u64, what: T) {
        self.added += 1;
        self.queue.insert((at_us, self.added), what);
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at_us, _), _)| *at_us)
    }

    /// Takes the first thing whose time has come.
    pub(super) fn due(&mut self, now_us: u64) -> Option<T> {
        if self.next_us()? > now_us {
            return None;
        }
        self.queue.pop_first().map(|(_, what)| what)
    }

    pub(super) fn drain(&mut self) -> Vec<T> {
        std::mem::take(&mut self.queue).into_values().collect()
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.queue.retain(|_, what| keep(what));
    }
}

/// Calls that wait, as for a lock of the driver: delayed ones for their time, hung ones for the
/// healing. What they answer is what holds then.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    delayed: Timers<(u64, Call)>,
    hung: Vec<(u64, Call)>,
}

impl Waiting {
    pub(super) fn delay(&mut self, until_us: u64, token: u64, call: Call) {
        self.delayed.add(until_us, (token, call));
    }

    pub(super) fn hang(&mut self, token: u64, call: Call) {
        self.hung.push((token, call));
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        self.delayed.next_us()
    }

    pub(super) fn due(&mut self, now_us: u64) -> Option<(u64, Call)> {
        self.delayed.due(now_us)
    }

    /// Everything that waits, to be answered now.
    pub(super) fn release(&mut self) -> Vec<(u64, Call)> {
        let mut all = std::mem::take(&mut self.hung);
        all.extend(self.delayed.drain());
        all
    }

    pub(super) fn forget(&mut self, token: u64) {
        self.hung.retain(|(held, _)| *held != token);
        self.delayed.retain(|(held, _)| *held != token);
    }
}
