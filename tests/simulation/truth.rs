//! What really happened: kept by the simulation, never shown to what is tested.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_ledger::journal::BootId;
use gpu_ledger::kernel::ProcessKey;
use gpu_ledger::unit::BootNs;
use nvsim::model::{Ended, Loss, Stats};

/// A process of one boot.
pub(crate) type Who = (BootId, ProcessKey);
/// A row: place of the GPU, pid, start in wall µs.
pub(crate) type RowId = (usize, u32, u64);

/// One process from birth to end.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    /// What it ran since when.
    pub(crate) images: Vec<(BootNs, Arc<str>)>,
    pub(crate) ended: Option<BootNs>,
}

impl Life {
    pub(crate) fn program_at(&self, at: BootNs) -> &Arc<str> {
        let image = self.images.iter().rev().find(|(since, _)| *since <= at);
        &image.unwrap_or(&self.images[0]).1
    }
}

/// A moment of one boot.
pub(crate) type At = (BootId, BootNs);

/// How a row stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fate {
    Live,
    /// Final, and in the driver's store.
    Dead,
    /// It never became billable.
    Monitor,
    /// A later span of its pid took its place.
    Replaced,
    /// The 129th came.
    Evicted,
    /// Somebody cleared the store.
    Cleared,
    /// The mode went off, or the driver's state was torn down.
    ThrownAway,
    /// The mode was off when it began.
    NoEntry,
    /// The driver was unloaded.
    Unloaded,
}

/// One span of holding a GPU.
#[derive(Clone, Debug)]
pub(crate) struct TruthRow {
    /// Who opened the device.
    pub(crate) opener: Who,
    pub(crate) opened: At,
    /// Others that were counted into the same entry.
    pub(crate) joined: Vec<Who>,
    pub(crate) ended: Option<At>,
    pub(crate) held_ms: Option<u64>,
    pub(crate) billable: bool,
    /// Since then lists name it: before, it is a monitor's.
    pub(crate) listed: Option<At>,
    pub(crate) fate: Fate,
    /// When it became unreadable for ever.
    pub(crate) lost: Option<At>,
    /// A list showed it while it ran.
    pub(crate) shown: bool,
    /// Another process was given a descriptor of it.
    pub(crate) duplicated: bool,
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) lives: BTreeMap<Who, Life>,
    pub(crate) rows: BTreeMap<RowId, TruthRow>,
    /// The dead rows of each GPU as they lie in the store, oldest first.
    pub(crate) stores: BTreeMap<usize, Vec<RowId>>,
    /// Stretches without accounting: GPU, from, to.
    pub(crate) off: Vec<(usize, At, Option<At>)>,
    /// When stores were cleared.
    pub(crate) clears: Vec<(usize, At)>,
}

impl Truth {
    pub(crate) fn opened(&mut self, row: RowId, opener: Who, at: At, has_entry: bool) {
        let fate = if has_entry { Fate::Live } else { Fate::NoEntry };
        let lost = (!has_entry).then_some(at);
        let (joined, ended, held_ms) = (Vec::new(), None, None);
        let (billable, shown, duplicated) = (false, false, false);
        let new = TruthRow {
            opener,
            opened: at,
            joined,
            ended,
            held_ms,
            billable,
            listed: None,
            fate,
            lost,
            shown,
            duplicated,
        };
        assert!(self.rows.insert(row, new).is_none(), "two rows of one key: {row:?}");
    }

    /// What the driver's model says ended.
    pub(crate) fn ended(&mut self, card: usize, ended: Ended, now: At) {
        let id = (card, ended.pid, ended.start_us);
        let Some(row) = self.rows.get_mut(&id) else { return };
        row.ended = Some(now);
        row.billable = ended.billable;
        match ended.loss {
            None if ended.billable => {
                row.held_ms = Some(ended.end_us.wrapping_sub(ended.start_us) / 1_000);
                row.fate = Fate::Dead;
                self.enter_store(card, id, now);
            }
            None => row.fate = Fate::Monitor,
            Some(Loss::NoEntry) => row.fate = Fate::NoEntry,
            Some(Loss::ModeOff | Loss::Teardown | Loss::LiveEvicted) => {
                (row.fate, row.lost) = (Fate::ThrownAway, Some(now));
            }
        }
    }

    /// A pid uses a GPU: from here on lists name its live row.
    pub(crate) fn used(&mut self, card: usize, pid: u32, now: At) {
        let rows = self.rows.range_mut((card, pid, 0)..=(card, pid, u64::MAX));
        for (_, row) in rows.filter(|(_, row)| row.fate == Fate::Live) {
            row.listed.get_or_insert(now);
        }
    }

    pub(crate) fn duplicated(&mut self, card: usize, pid: u32) {
        let live = |(id, row): &(&RowId, &mut TruthRow)| {
            id.0 == card && id.1 == pid && row.fate == Fate::Live
        };
        for (_, row) in self.rows.iter_mut().filter(live) {
            row.duplicated = true;
        }
    }

    fn enter_store(&mut self, card: usize, id: RowId, now: At) {
        let store = self.stores.entry(card).or_default();
        let replaced = store.iter().position(|dead| dead.1 == id.1);
        let gone = match replaced {
            Some(place) => Some((store.remove(place), Fate::Replaced)),
            None if store.len() >= 128 => Some((store.remove(0), Fate::Evicted)),
            None => None,
        };
        store.push(id);
        if let Some((id, fate)) = gone {
            self.lose(id, fate, now);
        }
    }

    pub(crate) fn empty_store(&mut self, card: usize, fate: Fate, now: At) {
        for id in std::mem::take(self.stores.entry(card).or_default()) {
            self.lose(id, fate, now);
        }
    }

    fn lose(&mut self, id: RowId, fate: Fate, now: At) {
        if let Some(row) = self.rows.get_mut(&id) {
            (row.fate, row.lost) = (fate, Some(now));
        }
    }

    /// The driver is unloaded with everything that it knew.
    pub(crate) fn unload(&mut self, now: At) {
        for row in self.rows.values_mut() {
            if matches!(row.fate, Fate::Live | Fate::Dead) {
                (row.fate, row.lost) = (Fate::Unloaded, Some(now));
            }
        }
        self.stores.clear();
    }

    /// The driver told a row that runs.
    pub(crate) fn show(&mut self, card: usize, stats: &Stats) {
        if stats.running
            && let Some(row) = self.rows.get_mut(&(card, stats.pid, stats.start_us))
        {
            row.shown = true;
        }
    }
}
