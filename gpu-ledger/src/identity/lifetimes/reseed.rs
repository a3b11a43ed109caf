//! What a look at procfs adds: the already living at the start, and after a loss what was missed.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Look, Record, Stand, Window};
use super::{Lifetimes, floor};
use crate::identity::{Ended, ImageContent, SeenProcess, Snapshot};
use crate::kernel::ProcessKey;
use crate::unit::{BootNs, Pid};

/// What a snapshot changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seeded {
    /// Lifetimes made from it.
    pub added: u64,
    /// Lifetimes that were taken for living and are gone.
    pub vanished: u64,
    /// Lifetimes in doubt that bear another image: an exec had been missed.
    pub changed: u64,
    /// Lifetimes in doubt that still bear the image from before.
    pub confirmed: u64,
}

impl Lifetimes {
    /// Takes a snapshot of procfs, at the start or after a loss. Kernel events win over it, whether
    /// they came before or come later; the dead stay dead.
    pub fn reseed(&mut self, snapshot: &Snapshot) -> Seeded {
        let window = Window { began: snapshot.began, ended: snapshot.ended };
        let mut seeded = Seeded::default();
        let mut keys: BTreeMap<Pid, ProcessKey> = BTreeMap::new();
        for seen in &snapshot.processes {
            let (key, added) = self.place_of(seen, window);
            if let Some(key) = key {
                seeded.added += u64::from(added);
                keys.insert(seen.pid, key);
            }
        }
        // Parents before images: a child seen first may be younger than its parent in the list.
        for seen in &snapshot.processes {
            if let Some(key) = keys.get(&seen.pid) {
                let parent = keys.get(&seen.parent).copied();
                match self.learn_seen(key, seen, parent, window) {
                    Look::Certain => {}
                    Look::Confirmed => seeded.confirmed += 1,
                    Look::Changed => seeded.changed += 1,
                }
            }
        }
        let present: BTreeSet<ProcessKey> = keys.into_values().collect();
        seeded.vanished = self.end_vanished(snapshot, &present);
        self.make_room();
        seeded
    }

    /// The lifetime that a seen process is: one that started in the same tick (of several, one that
    /// lived while procfs was read, else the youngest), or a new one. `None` for one let go before.
    fn place_of(&mut self, seen: &SeenProcess, window: Window) -> (Option<ProcessKey>, bool) {
        let floored = ProcessKey {
            pid: seen.pid,
            start: BootNs(seen.start_ticks.saturating_mul(BootNs::PER_TICK)),
        };
        let lived = |record: &Record| {
            record.life.key.start <= window.ended
                && record.life.ended.is_none_or(|ended| window.began <= ended.at)
        };
        let living = self.in_tick(&floored).rev().find(|(_, record)| lived(record));
        let youngest = || self.in_tick(&floored).next_back();
        if let Some((key, _)) = living.or_else(youngest) {
            return (Some(*key), false);
        }
        if self.departed.holds_tick(&floored) {
            return (None, false);
        }
        // Children's events may have told its exact start already.
        let last = ProcessKey { start: floored.start.plus_ns(BootNs::PER_TICK - 1), ..floored };
        let exact = self.children.range(floored..=last).next_back().map(|(key, _)| *key);
        let key = exact.unwrap_or(floored);
        let mut record = Record::new(key, key != floor(&key));
        let lost_to = self.losses.touching(key.start, window.ended).map(|(_, to)| to);
        record.found(window.ended, lost_to);
        // The look may be told after a loss that came after it.
        let later = self.losses.touching(window.ended.plus_ns(1), BootNs(u64::MAX));
        if let Some((from, to)) = later {
            record.doubt(from, to);
        }
        self.insert(record);
        self.adopt_waiting(key);
        (Some(key), true)
    }

    fn learn_seen(
        &mut self,
        key: &ProcessKey,
        seen: &SeenProcess,
        parent: Option<ProcessKey>,
        window: Window,
    ) -> Look {
        let content = (!seen.argv.bytes.is_empty() || !seen.exe_path.is_empty()).then(|| {
            ImageContent { argv: seen.argv.clone(), filename: seen.exe_path.clone(), exe: seen.exe }
        });
        let look = self.change(key, |record| {
            if let Some(parent) = parent {
                record.learn_parent(parent, window.began);
            }
            let cgroups: Vec<_> = seen.cgroups.iter().map(|(cgroup, _)| *cgroup).collect();
            record.learn_cgroups(&cgroups);
            record.stand_in(&cgroups, Stand::Found);
            content.map(|content| record.put_seen(content, seen.user, window))
        });
        self.patch_children_after(*key, BootNs(0));
        look.flatten().unwrap_or(Look::Certain)
    }

    /// Lifetimes born before the reading began that it did not find have ended, unless procfs would
    /// not show their pid at all.
    fn end_vanished(&mut self, snapshot: &Snapshot, present: &BTreeSet<ProcessKey>) -> u64 {
        let vanished: Vec<ProcessKey> = self
            .records
            .values()
            .map(|record| &record.life)
            .filter(|life| {
                // Of a start known to the tick the last moment of it.
                let slack = if life.start_is_exact { 0 } else { BootNs::PER_TICK - 1 };
                life.ended.is_none() && life.key.start.plus_ns(slack) < snapshot.began
            })
            .filter(|life| !present.contains(&life.key))
            .filter(|life| !snapshot.unreadable.contains(&life.key.pid))
            .map(|life| life.key)
            .collect();
        let mut count: u64 = 0;
        for key in vanished {
            let end = Ended { at: snapshot.ended, is_seen: false, wait_status: None };
            count += u64::from(self.change(&key, |record| record.end(end)) == Some(true));
        }
        count
    }
}
