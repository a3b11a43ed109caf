//! Keys that were handed out, remembered for as long as they can come back.
//!
//! A dead row survives mode-off, teardown and restarts, so its key stays while the row is in the
//! store. It can be forgotten once it is proven gone: replaced by a later span of its pid, or evicted
//! in order while a younger row is still listed. A key that merely disappeared (a clear, a reset that
//! showed another store) may come back, so it stays under a limit whose reaching is counted.

use std::collections::{BTreeMap, VecDeque};

use crate::accounting::Row;
use crate::unit::{Pid, WallUs};

/// Keys kept that are not in the store any more but were not proven gone: eight stores' worth.
pub const ABSENT_KEYS_MAX: usize = 1_024;

type Key = (Pid, WallUs);

#[derive(Debug)]
struct Entry {
    row: Row,
    conflict: Option<Row>,
}

/// The rows handed out.
#[derive(Debug, Default)]
pub(super) struct Booked {
    entries: BTreeMap<Key, Entry>,
    absent: VecDeque<Key>,
}

/// What the memory says of a row just read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recall {
    New,
    Same,
    /// Other contents than booked, and not reported yet.
    Conflict(Row),
}

impl Booked {
    /// Compares a row with what was handed out under its key.
    pub(super) fn recall(&mut self, key: Key, row: &Row) -> Recall {
        let Some(entry) = self.entries.get_mut(&key) else { return Recall::New };
        if entry.row == *row || entry.conflict.as_ref() == Some(row) {
            return Recall::Same;
        }
        entry.conflict = Some(row.clone());
        Recall::Conflict(entry.row.clone())
    }

    pub(super) fn insert(&mut self, key: Key, row: Row) {
        self.entries.insert(key, Entry { row, conflict: None });
    }

    /// Forgets a key whose row can never be listed again.
    pub(super) fn forget(&mut self, key: Key) {
        self.entries.remove(&key);
        self.absent.retain(|absent| *absent != key);
    }

    /// The row is not in the store any more, but may come back. Returns how many older keys
    /// had to be forgotten to make room.
    pub(super) fn absent(&mut self, key: Key) -> u64 {
        if self.entries.contains_key(&key) && !self.absent.contains(&key) {
            self.absent.push_back(key);
        }
        let mut forgotten = 0;
        while self.absent.len() > ABSENT_KEYS_MAX {
            if let Some(oldest) = self.absent.pop_front() {
                self.entries.remove(&oldest);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// The row is in the store (again).
    pub(super) fn present(&mut self, key: Key) {
        self.absent.retain(|absent| *absent != key);
    }

    /// How many keys are remembered.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
