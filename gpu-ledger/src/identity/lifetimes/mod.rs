//! The table of lifetimes: a pure state machine over kernel events and procfs snapshots.
//!
//! Any order of events leads to the same table, and an event applied twice changes nothing. Every
//! change goes through `Lifetimes::change`, which keeps the indices (children, the dead that can
//! go, their bytes) true.

#[cfg(test)]
mod bounds_tests;
mod eviction;
mod lineage;
#[cfg(test)]
mod loss_tests;
mod losses;
#[cfg(test)]
mod model;
mod record;
mod reseed;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

pub use eviction::{EvictedLately, ForgetProof, Limits};
pub use record::IMAGES_MAX;
pub use reseed::Seeded;

use self::eviction::Departed;
use self::losses::Losses;
use self::record::{Record, Stand};
use crate::identity::{Basis, Ended, Image, ImageContent, Lifetime, User};
use crate::kernel::{DeviceTouch, Event, Exec, Exit, Fork, ProcessKey, Subject};
use crate::unit::{BootNs, Pid};

/// What an event did to the table, for the caller who provokes reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Applied {
    /// Known already, of a process forgotten before, or about a control group.
    Nothing,
    /// A process was born.
    Forked(ProcessKey),
    /// A process bears a new image.
    Executed(ProcessKey),
    /// A process ended: the first news of it.
    Exited {
        /// Which.
        key: ProcessKey,
        /// Whether it had opened an NVIDIA device, so that a driver row is to be awaited.
        touched: bool,
    },
    /// A process opened an NVIDIA device for the first time.
    Touched(ProcessKey),
}

/// Every process known, living or dead, by its exact identity.
#[derive(Clone, Debug, Default)]
pub struct Lifetimes {
    records: BTreeMap<ProcessKey, Record>,
    /// How many retained lifetimes have their link to this key, which itself may be unknown.
    children: BTreeMap<ProcessKey, usize>,
    /// The dead that nobody descends from, in the order in which they may be evicted: those that
    /// never touched a device first, then by their end.
    leaves: BTreeSet<(bool, BootNs, ProcessKey)>,
    dead: usize,
    dead_bytes: usize,
    departed: Departed,
    limits: Limits,
    losses: Losses,
}

/// What of a record stands in an index.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Standing {
    link: Option<ProcessKey>,
    dead_since: Option<BootNs>,
    touched: bool,
    pinned: bool,
    bytes: usize,
}

impl Standing {
    fn of(record: &Record) -> Self {
        Self {
            link: record.link,
            dead_since: record.life.ended.map(|ended| ended.at),
            touched: record.life.touched.is_some(),
            pinned: record.pinned,
            bytes: record.content_bytes(),
        }
    }
}

impl Lifetimes {
    /// An empty table with bounds other than the usual ones.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes one event. A process not known yet is made from it.
    pub fn apply(&mut self, event: &Event) -> Applied {
        match event {
            Event::Fork(fork) => self.apply_fork(fork),
            Event::Exec(exec) => self.apply_exec(exec),
            Event::Exit(exit) => self.apply_exit(exit),
            Event::DeviceTouch(touch) => self.apply_touch(touch),
            Event::CgroupMade(_) => Applied::Nothing,
        }
    }

    /// The lifetime of this identity. A start known to the tick only (a multiple of ten
    /// milliseconds) also finds the lifetime whose exact start has replaced it.
    #[must_use]
    pub fn get(&self, key: &ProcessKey) -> Option<&Lifetime> {
        self.resolve(key).map(|record| &record.life)
    }

    /// Every lifetime of a pid, by their start.
    #[must_use]
    pub fn of_pid(&self, pid: Pid) -> impl DoubleEndedIterator<Item = &Lifetime> {
        self.records.range(keys_of(pid)).map(|(_, record)| &record.life)
    }

    /// Every lifetime, by pid and start.
    pub fn iter(&self) -> impl Iterator<Item = &Lifetime> {
        self.records.values().map(|record| &record.life)
    }

    /// How many lifetimes are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn apply_fork(&mut self, fork: &Fork) -> Applied {
        let subject = &fork.subject;
        let Some(created) = self.meet(subject, BootNs(0)) else { return Applied::Nothing };
        let key = subject.key;
        let news = match &subject.parent {
            Some(parent) => self.forked_by(key, parent, user_of(subject)),
            // Its first image is that of somebody who cannot be told.
            None => self.change(&key, Record::doubt_first_image) == Some(true),
        };
        self.patch_children_after(key, BootNs(0));
        if (news || created) && self.children.contains_key(&key) {
            self.doubt_children(BTreeSet::from([key]));
        }
        self.make_room();
        if news || created { Applied::Forked(key) } else { Applied::Nothing }
    }

    /// Notes who forked a child; says whether that is news.
    fn forked_by(&mut self, key: ProcessKey, parent: &ProcessKey, user: User) -> bool {
        let news = self.change(&key, |record| record.forked.replace(user).is_none()) == Some(true);
        self.change(parent, |parent| {
            parent.last_birth = parent.last_birth.max(Some(key.start));
        });
        self.inherit(key);
        if news {
            self.inherit_doubt(key, parent);
        }
        news
    }

    fn apply_exec(&mut self, exec: &Exec) -> Applied {
        let subject = &exec.subject;
        let Some(created) = self.meet(subject, subject.at) else { return Applied::Nothing };
        let key = subject.key;
        // A slice of a ring record would keep its whole buffer alive.
        let mut argv = exec.argv.clone();
        argv.bytes = Bytes::copy_from_slice(&exec.argv.bytes);
        let content =
            ImageContent { argv, filename: Bytes::copy_from_slice(&exec.filename), exe: exec.exe };
        let image = Image {
            since: subject.at,
            basis: Basis::Exec,
            content: Arc::new(content),
            user: user_of(subject),
        };
        let known = |record: &Record| {
            let mut images = record.life.images.iter();
            images.any(|seen| seen.since == image.since && seen.basis == Basis::Exec)
        };
        if self.records.get(&key).is_some_and(known) {
            return Applied::Nothing;
        }
        let executed = image.since;
        let executed_in = subject.cgroups.as_deref();
        let put = self.change(&key, |record| {
            if let Some(cgroups) = executed_in {
                record.stand_in(cgroups, Stand::Exec(executed));
            }
            record.put_exec(image)
        });
        if let Some(since) = put {
            self.patch_children_after(key, since);
            if created || since < executed {
                self.doubt_children(BTreeSet::from([key]));
            }
        }
        self.make_room();
        Applied::Executed(key)
    }

    fn apply_exit(&mut self, exit: &Exit) -> Applied {
        let subject = &exit.subject;
        let Some(_) = self.meet(subject, subject.at) else { return Applied::Nothing };
        let end = Ended { at: subject.at, is_seen: true, wait_status: exit.wait_status };
        let outcome = self.change(&subject.key, |record| {
            if let Some(cgroups) = &subject.cgroups {
                record.is_last_in(cgroups);
            }
            (record.end(end), record.life.touched.is_some())
        });
        self.take_back_looks_after_end(subject.key);
        self.make_room();
        match outcome {
            Some((true, touched)) => Applied::Exited { key: subject.key, touched },
            _ => Applied::Nothing,
        }
    }

    fn apply_touch(&mut self, touch: &DeviceTouch) -> Applied {
        let subject = &touch.subject;
        let Some(_) = self.meet(subject, subject.at) else { return Applied::Nothing };
        let touched = self.change(&subject.key, |record| {
            if let Some(cgroups) = &subject.cgroups {
                record.stand_in(cgroups, Stand::Touch(subject.at));
            }
            record.touch(subject.at)
        });
        match touched {
            Some(true) => Applied::Touched(subject.key),
            _ => Applied::Nothing,
        }
    }

    /// Finds or makes the lifetime an event is about, and learns what every event says. `None`
    /// where it was let go before: what comes late must not raise the dead. Otherwise, whether it
    /// is new.
    fn meet(&mut self, subject: &Subject, parent_seen: BootNs) -> Option<bool> {
        let key = subject.key;
        if let Some(parent) = &subject.parent {
            self.make_exact(parent);
        }
        let mut created = false;
        if !self.records.contains_key(&key) {
            if self.departed.holds(&key) {
                return None;
            }
            self.make_exact(&key);
            created = !self.records.contains_key(&key);
        }
        if created {
            let mut record = Record::new(key, true);
            record.learn_subject(subject, parent_seen);
            self.insert(record);
            self.adopt_waiting(key);
        }
        // An event may be told after a loss that came after it.
        let gap = self.losses.touching(key.start, BootNs(u64::MAX)).filter(|_| created);
        self.change(&key, |record| {
            record.learn_subject(subject, parent_seen);
            if let Some((from, to)) = gap {
                record.doubt(from, to);
            }
        });
        Some(created)
    }

    fn resolve(&self, key: &ProcessKey) -> Option<&Record> {
        if let Some(record) = self.records.get(key) {
            return Some(record);
        }
        let floored = floor(key);
        if floored == *key {
            return self.in_tick(key).map(|(_, record)| record).next();
        }
        self.records.get(&floored).filter(|record| !record.life.start_is_exact)
    }

    /// Lifetimes of the pid that started in the same tick.
    fn in_tick(&self, key: &ProcessKey) -> impl DoubleEndedIterator<Item = (&ProcessKey, &Record)> {
        let first = floor(key);
        let last = ProcessKey { start: first.start.plus_ns(BootNs::PER_TICK - 1), ..first };
        self.records.range(first..=last)
    }

    fn insert(&mut self, record: Record) {
        let key = record.life.key;
        let standing = Standing::of(&record);
        self.records.insert(key, record);
        self.enter(key, standing);
        self.end_predecessors(key);
    }

    /// A pid is handed out again only after its last holder was reaped: a lifetime followed by
    /// another one of its pid has ended, whether or not its exit was seen.
    fn end_predecessors(&mut self, key: ProcessKey) {
        let before = ProcessKey { start: BootNs(0), ..key }..key;
        let older = self.records.range(before).next_back().map(|(older, _)| *older);
        let after = ProcessKey { start: key.start.plus_ns(1), ..key }..=last_key(key.pid);
        let younger = self.records.range(after).next().map(|(younger, _)| *younger);
        let pairs = [older.map(|older| (older, key)), younger.map(|younger| (key, younger))];
        for (ended, next) in pairs.into_iter().flatten() {
            // Of a start known to the tick the last moment of it: the old holder may have had it.
            let exact = self.records.get(&next).is_some_and(|next| next.life.start_is_exact);
            let at = next.start.plus_ns(if exact { 0 } else { BootNs::PER_TICK - 1 });
            self.change(&ended, |record| {
                record.end(Ended { at, is_seen: false, wait_status: None })
            });
            self.patch_children_of_seeded(ended);
            self.take_back_looks_after_end(ended);
        }
    }

    /// Gives a lifetime known from procfs its exact start.
    fn make_exact(&mut self, key: &ProcessKey) {
        let floored = floor(key);
        if self.records.contains_key(key)
            || self.records.get(&floored).is_none_or(|record| {
                record.life.start_is_exact || record.was_found_before(key.start)
            })
        {
            return;
        }
        let Some(mut record) = self.records.remove(&floored) else { return };
        self.leave(floored, Standing::of(&record));
        record.make_exact(*key);
        let standing = Standing::of(&record);
        self.records.insert(*key, record);
        self.enter(*key, standing);
        if self.children.contains_key(&floored) {
            self.relink(floored, *key);
        }
        self.end_predecessors(*key);
    }

    /// The one door through which a record changes.
    fn change<T>(&mut self, key: &ProcessKey, act: impl FnOnce(&mut Record) -> T) -> Option<T> {
        let record = self.records.get_mut(key)?;
        let before = Standing::of(record);
        let outcome = act(record);
        let after = Standing::of(record);
        if before != after {
            self.leave(*key, before);
            self.enter(*key, after);
        }
        Some(outcome)
    }

    fn enter(&mut self, key: ProcessKey, standing: Standing) {
        if let Some(at) = standing.dead_since {
            self.dead += 1;
            self.dead_bytes += standing.bytes;
            if !standing.pinned && !self.children.contains_key(&key) {
                self.leaves.insert((standing.touched, at, key));
            }
        }
        if let Some(parent) = standing.link {
            let children = self.children.entry(parent).or_insert(0);
            *children += 1;
            if *children == 1
                && let Some(place) = self.leaf_place(&parent)
            {
                self.leaves.remove(&place);
            }
        }
    }

    /// Undoes `enter`.
    fn leave(&mut self, key: ProcessKey, standing: Standing) {
        if let Some(at) = standing.dead_since {
            self.dead -= 1;
            self.dead_bytes -= standing.bytes;
            self.leaves.remove(&(standing.touched, at, key));
        }
        let Some(parent) = standing.link else { return };
        let Some(children) = self.children.get_mut(&parent) else { return };
        *children -= 1;
        if *children == 0 {
            self.children.remove(&parent);
            if let Some(place) = self.leaf_place(&parent) {
                self.leaves.insert(place);
            }
        }
    }

    /// Where a record stands among the leaves, if it may stand there at all.
    fn leaf_place(&self, key: &ProcessKey) -> Option<(bool, BootNs, ProcessKey)> {
        let record = self.records.get(key)?;
        let at = record.life.ended.filter(|_| !record.pinned)?.at;
        Some((record.life.touched.is_some(), at, *key))
    }
}

/// The key as procfs would have it: the start floored to the tick.
fn floor(key: &ProcessKey) -> ProcessKey {
    let start = BootNs(key.start.ticks().saturating_mul(BootNs::PER_TICK));
    ProcessKey { start, ..*key }
}

fn keys_of(pid: Pid) -> std::ops::RangeInclusive<ProcessKey> {
    ProcessKey { pid, start: BootNs(0) }..=last_key(pid)
}

const fn last_key(pid: Pid) -> ProcessKey {
    ProcessKey { pid, start: BootNs(u64::MAX) }
}

const fn user_of(subject: &Subject) -> User {
    User { uid: subject.uid, euid: subject.euid, login_uid: subject.login_uid }
}
