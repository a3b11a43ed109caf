//! One command among all processes: who belongs to it, and what became of them.

use std::collections::BTreeMap;

use crate::attribution::name_of;
use crate::identity::{Lifetimes, argv_words};
use crate::kernel::ProcessKey;
use crate::unit::Pid;

/// Programs of the command that are told by name; processes of further ones are counted together.
const PROGRAMS_TOLD_MAX: usize = 1_000;
/// What those are counted as.
const OTHER_PROGRAMS: &str = "(other programs)";

/// A command that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pid: Pid,
    /// The first argument of the launcher, which the command's process is until it becomes the command.
    launch_word: &'static str,
    /// Its process, once its fork was seen.
    root: Option<ProcessKey>,
    /// Processes of the command that ended, by program.
    ended: BTreeMap<String, u64>,
}

impl Followed {
    pub(super) const fn new(pid: Pid, launch_word: &'static str) -> Self {
        Self { pid, launch_word, root: None, ended: BTreeMap::new() }
    }

    /// The command's own identity, as soon as its fork was seen: its tree is told by descent from it.
    pub(super) fn find_root(&mut self, lifetimes: &mut Lifetimes) {
        if self.root.is_some() {
            return;
        }
        let bearer = lifetimes.of_pid(self.pid).next_back().map(|life| life.key);
        if let Some(key) = bearer {
            lifetimes.pin(&key);
            self.root = Some(key);
        }
    }

    pub(super) const fn is_found(&self) -> bool {
        self.root.is_some()
    }

    /// Whether a process is the command or descends from it.
    pub(super) fn holds(&self, key: &ProcessKey, lifetimes: &Lifetimes) -> bool {
        let Some(root) = &self.root else { return false };
        key == root || lifetimes.descends_from(key, root)
    }

    /// Whether a process is the launcher still: the command did not run, or not yet.
    fn is_launcher(&self, key: &ProcessKey, lifetimes: &Lifetimes) -> bool {
        let last = || lifetimes.get(key)?.images.last();
        self.root.as_ref() == Some(key)
            && last().is_some_and(|image| {
                argv_words(&image.content.argv).get(1) == Some(&self.launch_word.as_bytes())
            })
    }

    pub(super) fn count_ended(&mut self, key: &ProcessKey, lifetimes: &Lifetimes) {
        if !self.holds(key, lifetimes) || self.is_launcher(key, lifetimes) {
            return;
        }
        let mut program = last_program(key, lifetimes);
        let known = self.ended.contains_key(&program);
        if !known && self.ended.len() >= PROGRAMS_TOLD_MAX {
            OTHER_PROGRAMS.clone_into(&mut program);
        }
        let count = self.ended.entry(program).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// Every program of the command, with how many of its processes ended and how many run.
    pub(super) fn programs(&self, lifetimes: &Lifetimes) -> BTreeMap<String, (u64, u64)> {
        let ended = self.ended.iter().map(|(name, count)| (name.clone(), (*count, 0)));
        let mut programs: BTreeMap<String, (u64, u64)> = ended.collect();
        let living = lifetimes.iter().filter(|life| life.ended.is_none());
        let own = living.filter(|life| self.holds(&life.key, lifetimes));
        for lifetime in own.filter(|life| !self.is_launcher(&life.key, lifetimes)) {
            let program = last_program(&lifetime.key, lifetimes);
            let (_, running) = programs.entry(program).or_insert((0, 0));
            *running = running.saturating_add(1);
        }
        programs
    }
}

/// The program that a process ran last.
fn last_program(key: &ProcessKey, lifetimes: &Lifetimes) -> String {
    let last = lifetimes.get(key).and_then(|life| life.images.last()).map(|image| image.since);
    let program = last.and_then(|since| lifetimes.program_at(key, since));
    name_of(program.as_ref()).to_string()
}
