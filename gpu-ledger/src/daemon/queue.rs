//! Drafts on their way to the disk: a bounded queue that nobody ever waits to put something into.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::journal::draft::Pending;

/// Bytes of drafts that may wait, about: a quarter of what the daemon may take in memory.
pub(super) const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Drafts beyond the configured length that are kept because no driver says them a second time.
pub(super) const QUEUE_RESERVE: usize = 4_096;

/// The queue between the loop and the writer.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    came: Condvar,
    length_max: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    pending: VecDeque<Pending>,
    /// Of those that wait.
    bytes: usize,
    /// Taken by the writer and not on the disk yet.
    in_hand: usize,
    bytes_in_hand: usize,
    closing: bool,
    /// Nobody waits for the rest any more.
    abandoned: bool,
}

/// What the writer found.
pub(super) enum Taken {
    /// Something to enter.
    Drafts(VecDeque<Pending>),
    /// Nothing came in the time given.
    Nothing,
    /// Nothing is left, and nothing follows.
    Closed,
}

impl Queue {
    pub(super) fn new(length_max: usize) -> Self {
        Self { waiting: Mutex::new(Waiting::default()), came: Condvar::new(), length_max }
    }

    /// Puts drafts in, in order, and gives back those that have no room: for rows the queue's length
    /// and `extra`.
    pub(super) fn offer(&self, drafts: Vec<Pending>, extra: usize) -> Vec<Pending> {
        let mut refused = Vec::new();
        let mut waiting = self.lock();
        for pending in drafts {
            let count = waiting.pending.len().saturating_add(waiting.in_hand);
            let bytes = waiting.bytes.saturating_add(waiting.bytes_in_hand);
            let room = if pending.is_row() {
                count < self.length_max.saturating_add(extra)
                    && (bytes < QUEUE_BYTES_MAX || extra > 0)
            } else {
                count < self.length_max.saturating_add(extra).saturating_add(QUEUE_RESERVE)
                    && bytes < QUEUE_BYTES_MAX.saturating_mul(2)
            };
            if room {
                waiting.bytes = waiting.bytes.saturating_add(pending.bytes());
                waiting.pending.push_back(pending);
            } else {
                refused.push(pending);
            }
        }
        drop(waiting);
        self.came.notify_one();
        refused
    }

    /// Whether there is room for a whole store's rows and more: half of it is free.
    pub(super) fn has_room(&self) -> bool {
        let waiting = self.lock();
        waiting.pending.len().saturating_add(waiting.in_hand) <= self.length_max / 2
            && waiting.bytes.saturating_add(waiting.bytes_in_hand) <= QUEUE_BYTES_MAX / 2
    }

    /// Drafts that are not on the disk yet.
    pub(super) fn length(&self) -> usize {
        let waiting = self.lock();
        waiting.pending.len().saturating_add(waiting.in_hand)
    }

    /// What waits, at most so much, or that nothing came in `patience`.
    pub(super) fn take(&self, count_max: usize, patience: Duration) -> Taken {
        let mut waiting = self.lock();
        if waiting.pending.is_empty() && !waiting.closing {
            let waited = self.came.wait_timeout(waiting, patience);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let drafts = waiting.move_to_hand(count_max);
        match (drafts.is_empty(), waiting.closing) {
            (false, _) => Taken::Drafts(drafts),
            (true, true) => Taken::Closed,
            (true, false) => Taken::Nothing,
        }
    }

    /// More of what waits, for a batch that is not under way yet.
    pub(super) fn take_more(&self, count_max: usize) -> VecDeque<Pending> {
        self.lock().move_to_hand(count_max)
    }

    /// So much of what was taken is on the disk.
    pub(super) fn entered(&self, count: usize, bytes: usize) {
        let mut waiting = self.lock();
        waiting.in_hand = waiting.in_hand.saturating_sub(count);
        waiting.bytes_in_hand = waiting.bytes_in_hand.saturating_sub(bytes);
    }

    /// Nothing follows: the writer ends when it has entered the rest.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.came.notify_one();
    }

    /// Nobody waits for the rest: the writer ends as soon as it can.
    pub(super) fn abandon(&self) {
        let mut waiting = self.lock();
        (waiting.closing, waiting.abandoned) = (true, true);
        drop(waiting);
        self.came.notify_one();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Whoever panicked while holding it left a queue that is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn move_to_hand(&mut self, count_max: usize) -> VecDeque<Pending> {
        let count = self.pending.len().min(count_max);
        let drafts: VecDeque<Pending> = self.pending.drain(..count).collect();
        let bytes = drafts.iter().map(Pending::bytes).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.bytes_in_hand = self.bytes_in_hand.saturating_add(bytes);
        self.in_hand = self.in_hand.saturating_add(count);
        drafts
    }
}
