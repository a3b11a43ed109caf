//! Drafts that wait for the disk, under a bound.

use std::collections::VecDeque;

use super::Overflow;
use crate::journal::draft::Pending;

/// Bytes of drafts that may wait, about: a quarter of what the daemon may take in memory.
pub const BACKLOG_BYTES_MAX: usize = 8 << 20;
/// Drafts beyond the configured length that are kept because nobody says them a second time.
pub const BACKLOG_RESERVE: usize = 4_096;

/// Drafts on their way to the disk, in the order in which they are to be entered.
#[derive(Debug)]
pub struct Backlog {
    pending: VecDeque<Pending>,
    /// Of those that wait.
    bytes: usize,
    /// Taken by the writer and not on the disk yet.
    in_hand: usize,
    bytes_in_hand: usize,
    length_max: usize,
}

impl Backlog {
    /// With room for so many rows.
    #[must_use]
    pub const fn new(length_max: usize) -> Self {
        Self { pending: VecDeque::new(), bytes: 0, in_hand: 0, bytes_in_hand: 0, length_max }
    }

    /// Puts drafts in, in order, and gives back those that have no room. A mark without a word of anybody's that
    /// has none is dropped: the next one says more; and so is memory held, whose time is then not covered. `overflow` gets to know which rows had room.
    pub fn offer(&mut self, drafts: Vec<Pending>, overflow: &mut Overflow) -> Vec<Pending> {
        let mut refused = Vec::new();
        for pending in drafts {
            let dispensable = pending.is_dispensable();
            if self.has_room_for(pending.is_row() || dispensable) {
                overflow.had_room(&pending);
                self.bytes = self.bytes.saturating_add(pending.bytes());
                self.pending.push_back(pending);
            } else if !dispensable {
                refused.push(pending);
            }
        }
        refused
    }

    fn has_room_for(&self, told_again: bool) -> bool {
        let (count, bytes) = (self.length(), self.bytes.saturating_add(self.bytes_in_hand));
        if told_again {
            count < self.length_max && bytes < BACKLOG_BYTES_MAX
        } else {
            count < self.length_max.saturating_add(BACKLOG_RESERVE)
                && bytes < BACKLOG_BYTES_MAX.saturating_mul(2)
        }
    }

    /// Whether half of it is free.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.length() <= self.length_max / 2
            && self.bytes.saturating_add(self.bytes_in_hand) <= BACKLOG_BYTES_MAX / 2
    }

    /// Drafts that are not on the disk yet.
    #[must_use]
    pub fn length(&self) -> usize {
        self.pending.len().saturating_add(self.in_hand)
    }

    /// Whether nothing waits to be taken.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.pending.is_empty()
    }

    /// What waits, at most so much of it, for the writer.
    pub fn take(&mut self, count_max: usize) -> VecDeque<Pending> {
        let count = self.pending.len().min(count_max);
        let drafts: VecDeque<Pending> = self.pending.drain(..count).collect();
        let bytes = drafts.iter().map(Pending::bytes).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.bytes_in_hand = self.bytes_in_hand.saturating_add(bytes);
        self.in_hand = self.in_hand.saturating_add(count);
        drafts
    }

    /// So much of what was taken is on the disk.
    pub const fn entered(&mut self, count: usize, bytes: usize) {
        self.in_hand = self.in_hand.saturating_sub(count);
        self.bytes_in_hand = self.bytes_in_hand.saturating_sub(bytes);
    }
}
