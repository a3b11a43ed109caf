//! Who descends from whom, and what is inherited over fork.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Record;
use super::{Lifetimes, Standing};
use crate::identity::{Lifetime, Program, ProgramKind};
use crate::kernel::ProcessKey;
use crate::unit::BootNs;

impl Lifetimes {
    /// Whether `key` was born under `ancestor`, over any number of generations. A re-parented orphan
    /// still descends from the process that forked it. Nobody descends from themselves.
    #[must_use]
    pub fn descends_from(&self, key: &ProcessKey, ancestor: &ProcessKey) -> bool {
        let wanted = self.get(ancestor).map_or(*ancestor, |lifetime| lifetime.key);
        let mut at = self.resolve(key);
        // A chain longer than the table goes round: procfs contradicted itself.
        for _ in 0..=self.records.len() {
            let Some(record) = at else { return false };
            if record.life.parent == Some(wanted) || record.link == Some(wanted) {
                return true;
            }
            at = record.link.and_then(|link| self.resolve(&link));
        }
        false
    }

    /// The retained ancestors of `key`, the nearest first.
    #[must_use]
    pub fn ancestors(&self, key: &ProcessKey) -> Vec<&Lifetime> {
        let mut found: Vec<&Lifetime> = Vec::new();
        let mut at = self.resolve(key);
        while let Some(above) =
            at.and_then(|record| record.link).and_then(|link| self.resolve(&link))
        {
            if found.len() > self.records.len() {
                break;
            }
            found.push(&above.life);
            at = Some(above);
        }
        found
    }

    /// The program that a lifetime ran at `at`. A worker that was started to run its parent's program
    /// (multiprocessing by `spawn`) is followed to the parent that says what that is, as it was at
    /// the worker's birth; where that is not known the worker keeps its own name.
    #[must_use]
    pub fn program_at(&self, key: &ProcessKey, at: BootNs) -> Option<Program> {
        let mut record = self.resolve(key)?;
        let mut program = Program::of(&record.life.image_at(at)?.content)?;
        for _ in 0..=self.records.len() {
            if program.kind() != ProgramKind::ParentsWorker {
                break;
            }
            let born = record.life.key.start;
            let Some(above) = record.life.parent.and_then(|parent| self.resolve(&parent)) else {
                break;
            };
            let image = above.life.image_at(born);
            let Some(parents) = image.and_then(|image| Program::of(&image.content)) else { break };
            (record, program) = (above, parents);
        }
        Some(program)
    }

    /// Gives a forked lifetime the image its parent bore at its birth, as far as that is known.
    /// Says whether that is news.
    pub(super) fn inherit(&mut self, key: ProcessKey) -> bool {
        let child = self.records.get(&key);
        let Some((user, parent)) = child.and_then(|child| child.forked.zip(child.life.parent))
        else {
            return false;
        };
        let Some(parent) = self.records.get(&parent) else { return false };
        let Ok(content) = parent.content_at(key.start) else { return false };
        self.change(&key, |child| child.put_inherited(content, user)) == Some(true)
    }

    /// A child born while its parent's image was in doubt is in doubt itself: of what it was born with, and, where
    /// events were lost then, of what it ran until that loss was over. When its parent is known again does not
    /// matter to it. Says whether that is news.
    pub(super) fn inherit_doubt(&mut self, key: ProcessKey, parent: &ProcessKey) -> bool {
        let born = key.start;
        if !self.records.get(parent).is_some_and(|parent| parent.is_in_doubt_at(born)) {
            return false;
        }
        let to = self.losses.touching(born, born).map_or(born, |(_, to)| to);
        self.change(&key, |child| child.doubt_inherited(to)).flatten().is_some()
    }

    /// The images of those in `doubted` came into doubt after children of theirs were forked, and so
    /// do the children's, over any number of generations.
    pub(super) fn doubt_children(&mut self, mut doubted: BTreeSet<ProcessKey>) {
        let in_doubt = |record: &Record| !record.life.image_gaps.is_empty();
        doubted.retain(|key| self.records.get(key).is_some_and(in_doubt));
        if doubted.is_empty() {
            return;
        }
        let forked = |record: &Record| {
            let parent = record.forked.and(record.life.parent)?;
            Some((record.life.key.start, record.life.key, parent))
        };
        // Parents are older than their children.
        let children: BTreeSet<_> = self.records.values().filter_map(forked).collect();
        for (_, child, parent) in children {
            if doubted.contains(&parent) && self.inherit_doubt(child, &parent) {
                doubted.insert(child);
            }
        }
    }

    /// The images of `key` from `since` on are news: children that were forked after it, in events
    /// that came before it, inherit again, and so do theirs.
    pub(super) fn patch_children_after(&mut self, key: ProcessKey, since: BootNs) {
        let late = |lifetimes: &Self, key: &ProcessKey| {
            let record = lifetimes.records.get(key);
            record.and_then(|record| record.last_birth).is_some_and(|birth| birth >= since)
        };
        if !late(self, &key) {
            return;
        }
        let mut parents = vec![key];
        while let Some(parent) = parents.pop() {
            let children: Vec<ProcessKey> = self.children_of(&parent);
            for child in children {
                if self.inherit(child) && late(self, &child) {
                    parents.push(child);
                }
            }
        }
    }

    /// An end may show that what procfs said was of another holder of the pid.
    pub(super) fn patch_children_of_seeded(&mut self, key: ProcessKey) {
        if self.records.get(&key).is_some_and(Record::is_seeded) {
            self.patch_children_after(key, BootNs(0));
        }
    }

    /// A lifetime was made after children of it: what it missed of them.
    pub(super) fn adopt_waiting(&mut self, key: ProcessKey) {
        if !self.children.contains_key(&key) {
            return;
        }
        let youngest = self.children_of(&key).iter().map(|child| child.start).max();
        self.change(&key, |record| record.last_birth = record.last_birth.max(youngest));
    }

    /// Moves every link from `old` to `new`, the same process under its exact key.
    pub(super) fn relink(&mut self, old: ProcessKey, new: ProcessKey) {
        let children: Vec<ProcessKey> = self
            .records
            .iter()
            .filter(|(_, record)| record.link == Some(old) || record.life.parent == Some(old))
            .map(|(key, _)| *key)
            .collect();
        for child in children {
            self.change(&child, |record| {
                for parent in [&mut record.link, &mut record.life.parent] {
                    if *parent == Some(old) {
                        *parent = Some(new);
                    }
                }
            });
        }
    }

    /// Takes the dead `victims`, which have descendants, out of the lines of descent: their children
    /// link to the nearest ancestor that stays.
    pub(super) fn splice(&mut self, victims: &BTreeMap<ProcessKey, Option<ProcessKey>>) {
        let above = |mut link: Option<ProcessKey>| {
            for _ in 0..=victims.len() {
                match link.and_then(|key| victims.get(&key)) {
                    Some(next) => link = *next,
                    None => return link,
                }
            }
            None
        };
        let moved: Vec<(ProcessKey, Option<ProcessKey>)> = self
            .records
            .iter()
            .filter(|(_, record)| record.link.is_some_and(|link| victims.contains_key(&link)))
            .map(|(key, record)| (*key, above(record.link)))
            .collect();
        for (key, link) in moved {
            self.change(&key, |record| record.link = link);
        }
    }

    /// Removes a record and returns its parent if that can go next.
    pub(super) fn remove(&mut self, key: &ProcessKey) -> Option<ProcessKey> {
        let record = self.records.remove(key)?;
        self.leave(*key, Standing::of(&record));
        record
            .link
            .filter(|link| self.leaf_place(link).is_some_and(|place| self.leaves.contains(&place)))
    }

    fn children_of(&self, key: &ProcessKey) -> Vec<ProcessKey> {
        let of = |parent: &Option<ProcessKey>| *parent == Some(*key);
        self.records
            .iter()
            .filter(|(_, record)| of(&record.life.parent))
            .map(|(key, _)| *key)
            .collect()
    }
}
