//! The live and the dead store of one GPU.

use std::collections::VecDeque;

use super::{Pid, entry::Entry};

/// Entries that the live store holds (`g_gpu_acct_nvoc.h`).
pub const LIVE_ENTRIES_MAX: usize = 3872;
/// Entries that the dead store holds.
pub const DEAD_ENTRIES_MAX: usize = 128;
/// What the driver says its buffer holds: the sum of both.
pub const BUFFER_ENTRIES: usize = LIVE_ENTRIES_MAX + DEAD_ENTRIES_MAX;

/// Both stores, each oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    live: VecDeque<Entry>,
    dead: VecDeque<Entry>,
}

impl Stores {
    /// Adds a live entry; the oldest that had to give way comes back (rule 6).
    pub(super) fn add_live(&mut self, entry: Entry) -> Option<Entry> {
        let evicted =
            if self.live.len() >= LIVE_ENTRIES_MAX { self.live.pop_front() } else { None };
        self.live.push_back(entry);
        evicted
    }

    pub(super) fn live_of(&mut self, pid: Pid) -> Option<&mut Entry> {
        self.live.iter_mut().find(|entry| entry.pid == pid)
    }

    /// Takes the pid's live entry out of the store.
    pub(super) fn take_live(&mut self, pid: Pid) -> Option<Entry> {
        let place = self.live.iter().position(|entry| entry.pid == pid)?;
        self.live.remove(place)
    }

    /// Keeps a finished entry: the newest of its pid (rule 5), the newest 128 of all (rule 6).
    pub(super) fn add_dead(&mut self, entry: Entry) {
        self.dead.retain(|old| old.pid != entry.pid);
        if self.dead.len() >= DEAD_ENTRIES_MAX {
            self.dead.pop_front();
        }
        self.dead.push_back(entry);
    }

    pub(super) fn take_all_live(&mut self) -> Vec<Entry> {
        self.live.drain(..).collect()
    }

    pub(super) fn clear_dead(&mut self) {
        self.dead.clear();
    }

    pub(super) fn drop_oldest_dead(&mut self) -> bool {
        self.dead.pop_front().is_some()
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Entry> {
        self.live.iter()
    }

    pub(super) fn live_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.live.iter_mut()
    }

    pub(super) fn dead(&self) -> impl Iterator<Item = &Entry> {
        self.dead.iter()
    }

    pub(super) fn has_no_live(&self) -> bool {
        self.live.is_empty()
    }
}
