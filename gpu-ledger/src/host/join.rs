//! Where both sides meet: what is known about one row's pid, and on whose line it stands.

use bytes::Bytes;

use super::Host;
use super::note::{Ancestor, Bearer, NamedCgroup, Whose};
use crate::accounting::Row;
use crate::accounting::reading::OpenRow;
use crate::clock::BootPlace;
use crate::identity::{Basis, Program};
use crate::kernel::{CgroupId, ProcessKey};
use crate::settlement::{Account, Attribution, Eviction, Evidence, Named, account_of, identify};
use crate::unit::{BootNs, Pid, WallUs};
use crate::unknown::NamelessReason;

/// Ancestors told of one process.
pub const ANCESTORS_MAX: usize = 16;

/// An open row's place on the bill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// On whose line it accrues.
    pub account: Account,
    /// It belongs to the command that is followed.
    pub of_command: bool,
    /// Its process has ended: the row will become final by itself.
    pub is_dead: bool,
    /// When it ended, as far as that is known.
    pub ended: Option<BootNs>,
}

impl Host {
    /// What is known about a row's pid.
    pub(super) fn evidence(&self, row: &Row, rowless_since: Option<BootNs>) -> Evidence<'_> {
        let processes = &self.processes;
        let at = match self.place_of(row) {
            Some(BootPlace::Once(at)) => Some(at),
            Some(BootPlace::Twice(..) | BootPlace::Skipped) | None => None,
        };
        let evicted = at.filter(|at| processes.lifetimes.evicted_at(row.pid, *at));
        Evidence {
            lifetimes: processes.lifetimes.of_pid(row.pid).collect(),
            evictions: evicted.map(|at| Eviction { born: at, ended: at }).into_iter().collect(),
            coverage: &processes.coverage,
            clock: &processes.history,
            rowless_since,
            journaled: row.key().and_then(|key| self.journaled.get(&key)),
            host: &self.name,
        }
    }

    /// Where a row's start, which the driver stamped with the wall clock, lies on the boot clock.
    #[must_use]
    pub fn place_of(&self, row: &Row) -> Option<BootPlace> {
        row.start.and_then(|start| self.processes.history.boot_of(start))
    }

    /// Whether an open row may be the one that began then: one that is hidden behind a dead row of its pid has
    /// no start, but it began after that one did, as the driver keeps one live row of a pid
    /// (open-gpu-kernel-modules 595.45.04, `gpu_acct.c`).
    #[must_use]
    pub fn may_have_begun_at(&self, open: &OpenRow, start: WallUs) -> bool {
        let at = |wall| self.processes.history.boot_of(wall);
        match (open.start, open.behind) {
            (Some(own), _) => own == start,
            (None, Some(dead)) => match (at(dead), at(start)) {
                (Some(BootPlace::Once(dead)), Some(BootPlace::Once(start))) => dead < start,
                // Which came first the clocks do not say.
                _ => true,
            },
            (None, None) => true,
        }
    }

    /// Whose a row is that still runs, by its start.
    #[must_use]
    pub fn attribution(&self, row: &Row) -> Attribution {
        identify(row, &self.evidence(row, None))
    }

    /// On whose line a row that still runs accrues.
    #[must_use]
    pub fn standing(&self, row: &Row) -> Standing {
        let attribution = self.attribution(row);
        let named = attribution.named().map(|named| named.ended.map(|ended| ended.at));
        Standing {
            ended: named.unwrap_or_else(|| self.end_of_bearer(row.pid)),
            account: self.call(row, &attribution).0,
            of_command: self.is_of_command(&attribution),
            // What a journal remembers was written while the process lived.
            is_dead: attribution
                .named()
                .filter(|named| named.image.basis != Basis::Journal)
                .map_or_else(|| self.is_dead(row.pid), |named| named.ended.is_some()),
        }
    }

    /// The account and program of an attribution: the program's name, until rules say otherwise.
    pub(super) fn call(&self, row: &Row, attribution: &Attribution) -> (Account, Option<Program>) {
        let lifetimes = &self.processes.lifetimes;
        let program = attribution.named().and_then(|named| {
            let at = match self.place_of(row) {
                Some(BootPlace::Once(at)) => at,
                Some(BootPlace::Twice(..) | BootPlace::Skipped) | None => named.image.since,
            };
            let own = Program::of(&named.image.content);
            // A worker goes by what its parent runs; the rest by the image that was joined, which
            // need not be what is known of the process now.
            let known = lifetimes.get(&named.key).and_then(|life| life.image_at(at));
            let same = known.is_some_and(|image| image.content == named.image.content);
            let program = if same { lifetimes.program_at(&named.key, at) } else { None };
            program.or(own)
        });
        (account_of(attribution, |_| unclassified(program.as_ref())), program)
    }

    /// The line a row stands on, and what surrounds its process.
    pub(super) fn whose(&self, row: &Row, attribution: &Attribution) -> Whose {
        let (account, program) = self.call(row, attribution);
        match attribution.named() {
            Some(named) => Whose {
                account,
                program,
                ancestors: self.ancestors(&named.key),
                cgroups: self.named_cgroups(&named.cgroups),
            },
            None => Whose { account, program, ancestors: Vec::new(), cgroups: Vec::new() },
        }
    }

    /// The line of a row of which only the pid is known to belong to somebody: whoever bears it.
    pub(super) fn whose_bearer(&self, pid: Pid) -> Whose {
        let bearer = self.bearer(pid);
        let life = bearer.key.and_then(|key| self.processes.lifetimes.get(&key));
        Whose {
            account: bearer.account,
            program: bearer.image.as_ref().and_then(|image| Program::of(&image.content)),
            ancestors: bearer.key.map_or_else(Vec::new, |key| self.ancestors(&key)),
            cgroups: life.map_or_else(Vec::new, |life| self.named_cgroups(&life.cgroups)),
        }
    }

    /// Whose an open row is: by its start, or, hidden behind a dead row, by whoever bears the pid.
    pub(super) fn whose_open(&self, open: &OpenRow) -> (Attribution, Whose) {
        if let Some(row) = open.row.as_ref().filter(|row| row.start.is_some()) {
            let attribution = self.attribution(row);
            let whose = self.whose(row, &attribution);
            return (attribution, whose);
        }
        (Attribution::nobody(NamelessReason::NoStartTime), self.whose_bearer(open.pid))
    }

    /// Which process an open row is about.
    pub(super) fn process_of_open(
        &self,
        open: &OpenRow,
        attribution: &Attribution,
    ) -> Option<ProcessKey> {
        match attribution.named() {
            Some(named) => Some(named.key),
            None if open.start.is_none() => self.bearer(open.pid).key,
            None => None,
        }
    }

    /// When a process ended; `None` while it lives, and where it is not known any more.
    #[must_use]
    pub fn end_of(&self, key: &ProcessKey) -> Option<BootNs> {
        self.processes.lifetimes.get(key)?.ended.map(|ended| ended.at)
    }

    /// When the process of a row that is not read final ended, as far as that is known: by the row's start, or,
    /// where that is hidden, of whoever bears the pid.
    #[must_use]
    pub fn end_of_open(&self, open: &OpenRow) -> Option<BootNs> {
        match open.row.as_ref().filter(|row| row.start.is_some()) {
            Some(row) => self.standing(row).ended,
            None => self.end_of_bearer(open.pid),
        }
    }

    /// When whoever bore a pid last ended; `None` while it is borne, and where nobody is known.
    #[must_use]
    pub fn end_of_bearer(&self, pid: Pid) -> Option<BootNs> {
        self.processes.lifetimes.of_pid(pid).next_back()?.ended.map(|ended| ended.at)
    }

    fn ancestors(&self, key: &ProcessKey) -> Vec<Ancestor> {
        let lifetimes = &self.processes.lifetimes;
        let mut born = lifetimes.get(key).map_or(key.start, |life| life.key.start);
        let above = lifetimes.ancestors(key).into_iter().take(ANCESTORS_MAX);
        above
            .map(|ancestor| {
                let program = lifetimes.program_at(&ancestor.key, born);
                born = ancestor.key.start;
                Ancestor { key: ancestor.key, program }
            })
            .collect()
    }

    fn named_cgroups(&self, cgroups: &[CgroupId]) -> Vec<NamedCgroup> {
        let path = |cgroup: &CgroupId| self.processes.cgroups.path_of(*cgroup);
        cgroups
            .iter()
            .map(|cgroup| NamedCgroup {
                cgroup: *cgroup,
                path: path(cgroup).map(Bytes::copy_from_slice),
            })
            .collect()
    }

    /// Whoever bears a pid now: who holds a GPU without a row.
    #[must_use]
    pub fn bearer(&self, pid: Pid) -> Bearer {
        let lifetime = self.processes.lifetimes.of_pid(pid).next_back();
        let image = lifetime.and_then(|life| life.images.last());
        let account = match image {
            Some(image) => unclassified(Program::of(&image.content).as_ref()),
            None => Account::Unattributed(NamelessReason::AgentDown),
        };
        Bearer { key: lifetime.map(|life| life.key), image: image.cloned(), account }
    }

    pub(super) fn is_dead(&self, pid: Pid) -> bool {
        let bearer = self.processes.lifetimes.of_pid(pid).next_back();
        match bearer {
            Some(lifetime) => lifetime.ended.is_some(),
            None => self.gone.contains(&pid),
        }
    }

    pub(super) fn is_of_command(&self, attribution: &Attribution) -> bool {
        attribution.named().is_some_and(|named: &Named| self.is_in_command(&named.key))
    }

    /// Whether a process is the command that is followed or descends from it.
    #[must_use]
    pub fn is_in_command(&self, key: &ProcessKey) -> bool {
        let lifetimes = &self.processes.lifetimes;
        self.followed.as_ref().is_some_and(|followed| followed.holds(key, lifetimes))
    }
}

/// The account of a process that no rule classifies.
pub(super) fn unclassified(program: Option<&Program>) -> Account {
    match program {
        Some(program) => Account::Unclassified(program.to_string().into()),
        // Its identity is known, but neither its arguments nor its file name were captured.
        None => Account::Unclassified("(name not captured)".into()),
    }
}
