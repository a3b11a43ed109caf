//! Where both sides meet: what is known about one row's pid, and on whose line it stands.

use std::sync::Arc;

use bytes::Bytes;

use super::Host;
use super::note::{Ancestor, Bearer, Borne, NamedCgroup, Whose};
use crate::accounting::Row;
use crate::accounting::reading::OpenRow;
use crate::attribution::{AncestorSubject, Attributed, Attributor, Kind, Subject, last_paths};
use crate::clock::BootPlace;
use crate::identity::{Basis, Image, ImageGap, Lifetime, Program};
use crate::kernel::{CgroupId, ProcessKey};
use crate::place::Place;
use crate::settlement::{Account, Attribution, Eviction, Evidence, Named, identify};
use crate::unit::{BootNs, GpuUuid, Pid, WallUs};
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

/// The process of a row that still runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLife {
    pub(super) of_command: bool,
    pub(super) is_dead: bool,
    pub(super) ended: Option<BootNs>,
}

/// A process on one GPU, as it is attributed.
struct Process<'a> {
    gpu: &'a GpuUuid,
    key: ProcessKey,
    image: &'a Image,
    cgroups: &'a [CgroupId],
}

impl Whose {
    /// The line of a row that nobody is known of.
    fn nobody(reason: NamelessReason) -> Self {
        Self {
            account: Account::Unattributed(reason),
            labels: Vec::new(),
            program: None,
            ancestors: Vec::new(),
            cgroups: Vec::new(),
            borne: None,
            rules: None,
        }
    }
}

impl Host {
    /// How accounts are made from here on.
    pub fn attribute_by(&mut self, attributor: Attributor) {
        self.attributor = attributor;
    }

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
        let account = self.whose(row, &attribution).account;
        let RowLife { of_command, is_dead, ended } = self.life_of(row, &attribution);
        Standing { account, of_command, is_dead, ended }
    }

    /// Whether the process of a row that still runs lives.
    pub(super) fn life_of(&self, row: &Row, attribution: &Attribution) -> RowLife {
        let named = attribution.named().map(|named| named.ended.map(|ended| ended.at));
        RowLife {
            ended: named.unwrap_or_else(|| self.end_of_bearer(row.pid)),
            of_command: self.is_of_command(attribution),
            // What a journal remembers was written while the process lived.
            is_dead: attribution
                .named()
                .filter(|named| named.image.basis != Basis::Journal)
                .map_or_else(|| self.is_dead(row.pid), |named| named.ended.is_some()),
        }
    }

    fn program_of(&self, row: &Row, named: &Named) -> Option<Program> {
        let lifetimes = &self.processes.lifetimes;
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
    }

    /// The line a row stands on, and what surrounds its process.
    pub(super) fn whose(&self, row: &Row, attribution: &Attribution) -> Whose {
        match attribution {
            Attribution::Named(named) => {
                let process = Process {
                    gpu: &row.gpu,
                    key: named.key,
                    image: &named.image,
                    cgroups: &named.cgroups,
                };
                self.whose_process(&process, self.program_of(row, named))
            }
            Attribution::Nameless(nameless) => Whose::nobody(nameless.reason),
        }
    }

    /// The line of a process that is known, and what surrounds it.
    fn whose_process(&self, process: &Process<'_>, program: Option<Program>) -> Whose {
        let line = self.line_above(&process.key);
        let ancestors = self.ancestors(&line);
        let cgroups = self.named_cgroups(process.cgroups);
        let place = Place::of(cgroups.iter().filter_map(|one| one.path.as_deref()));
        let paths = last_paths(cgroups.iter().map(|one| (one.cgroup, one.path.as_deref())));
        let names = self.attributor.container(&place);
        let users = self.attributor.users(process.image.user);
        let above: Vec<AncestorSubject<'_>> =
            ancestors.iter().map(|one| AncestorSubject { program: one.program.as_ref() }).collect();
        // What is stored is what rules see.
        let exe = self.attributor.file(&process.image.content.filename);
        let words = self.attributor.words(&process.image.content.argv);
        let model = self.model_of(process, program.as_ref(), &line);
        let rows = self.gpus.get(process.gpu);
        let attributed = self.attributor.attribute(&Subject {
            gpu: process.gpu,
            gpu_index: rows.map(|rows| rows.facts.index),
            gpu_name: rows.and_then(|rows| rows.facts.name.known()).map(|name| &**name),
            kind: rows.map_or(Kind::Unknown, |rows| rows.kind_of(process.key.pid)),
            program: program.as_ref(),
            exe: &exe,
            argv: words.as_deref(),
            model: model.as_ref(),
            user: process.image.user,
            users: &users,
            cgroups: &paths,
            place: &place,
            names: names.as_deref(),
            ancestors: &above,
        });
        let Attributed { account, labels } = attributed;
        let borne = self.processes.lifetimes.get(&process.key).map(|life| {
            let images = life.images.iter().map(|image| Borne {
                since: image.since,
                basis: image.basis,
                program: Program::of(&image.content),
            });
            (images.collect(), life.images_forgotten)
        });
        let rules = self.attributor.rules_file();
        Whose { account, labels, program, ancestors, cgroups, borne, rules }
    }

    /// The model that a process served: by its own arguments, or by those of whom it descends from, as workers
    /// overwrite theirs.
    fn model_of(
        &self,
        process: &Process<'_>,
        program: Option<&Program>,
        line: &[(&Lifetime, BootNs)],
    ) -> Option<Arc<str>> {
        let own = self.attributor.model(program, &process.image.content.argv);
        own.or_else(|| {
            line.iter().find_map(|(above, born)| {
                let content = &above.image_at(*born)?.content;
                self.attributor.model(Program::of(content).as_ref(), &content.argv)
            })
        })
    }

    /// The line of a row of which only the pid is known to belong to somebody: whoever bears it.
    pub(super) fn whose_bearer(&self, gpu: &GpuUuid, pid: Pid) -> Whose {
        let lifetime = self.processes.lifetimes.of_pid(pid).next_back();
        let Some((lifetime, image)) = lifetime.and_then(|life| Some((life, life.images.last()?)))
        else {
            return Whose::nobody(NamelessReason::AgentDown);
        };
        let process = Process { gpu, key: lifetime.key, image, cgroups: &lifetime.cgroups };
        self.whose_process(&process, Program::of(&image.content))
    }

    /// Whose an open row is: by its start, or, hidden behind a dead row, by whoever bears the pid.
    pub(super) fn whose_open(&self, open: &OpenRow) -> (Attribution, Whose) {
        if let Some(row) = open.row.as_ref().filter(|row| row.start.is_some()) {
            let attribution = self.attribution(row);
            let whose = self.whose(row, &attribution);
            return (attribution, whose);
        }
        (Attribution::nobody(NamelessReason::NoStartTime), self.whose_bearer(&open.gpu, open.pid))
    }

    /// Which process an open row is about.
    pub(super) fn process_of_open(
        &self,
        open: &OpenRow,
        attribution: &Attribution,
    ) -> Option<ProcessKey> {
        match attribution.named() {
            Some(named) => Some(named.key),
            None if open.start.is_none() => self.key_of_bearer(open.pid),
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
            Some(row) => self.life_of(row, &self.attribution(row)).ended,
            None => self.end_of_bearer(open.pid),
        }
    }

    /// When whoever bore a pid last ended; `None` while it is borne, and where nobody is known.
    #[must_use]
    pub fn end_of_bearer(&self, pid: Pid) -> Option<BootNs> {
        self.processes.lifetimes.of_pid(pid).next_back()?.ended.map(|ended| ended.at)
    }

    /// Who a process descends from, by birth, the nearest first, each with when the next one was born.
    fn line_above(&self, key: &ProcessKey) -> Vec<(&Lifetime, BootNs)> {
        let lifetimes = &self.processes.lifetimes;
        let mut born = lifetimes.get(key).map_or(key.start, |life| life.key.start);
        let above = lifetimes.ancestors(key).into_iter().take(ANCESTORS_MAX);
        above.map(|above| (above, std::mem::replace(&mut born, above.key.start))).collect()
    }

    fn ancestors(&self, line: &[(&Lifetime, BootNs)]) -> Vec<Ancestor> {
        let program = |key, born| self.processes.lifetimes.program_at(key, born);
        line.iter()
            .map(|(above, born)| Ancestor { key: above.key, program: program(&above.key, *born) })
            .collect()
    }

    /// Whether a process was moved to another place of those that accounts go by, after it was where it was to work.
    /// What an earlier run saw of it is not known.
    pub(super) fn is_moved(&self, named: &Named) -> bool {
        let Some(life) = self.processes.lifetimes.get(&named.key) else { return false };
        let Some(stood) = life.cgroups.get(..life.cgroups_stood).filter(|stood| !stood.is_empty())
        else {
            return false;
        };
        let place = |cgroups: &[CgroupId]| {
            Place::of(cgroups.iter().filter_map(|one| self.processes.cgroups.path_of(*one)))
        };
        stood.len() < life.cgroups.len() && !place(stood).is_same_ground(&place(&life.cgroups))
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
    pub fn bearer(&self, gpu: &GpuUuid, pid: Pid) -> Bearer {
        let lifetime = self.processes.lifetimes.of_pid(pid).next_back();
        let image = lifetime.and_then(|life| life.images.last());
        let Whose { account, labels, .. } = self.whose_bearer(gpu, pid);
        Bearer { key: lifetime.map(|life| life.key), image: image.cloned(), account, labels }
    }

    /// Who bore a pid at a moment, and what it had executed by then. One that had ended by then and whose
    /// pid nobody has borne since is who it was: its descriptors may close late.
    #[must_use]
    pub fn who_at(&self, pid: Pid, at: BootNs) -> Option<(ProcessKey, &Image)> {
        let lifetimes = &self.processes.lifetimes;
        let lifetime = lifetimes.of_pid(pid).rev().find(|life| life.key.start <= at)?;
        let image = lifetime.images.iter().rev().find(|image| image.since <= at)?;
        let in_doubt = |gap: &ImageGap| gap.from <= at && gap.to.is_none_or(|to| at < to);
        if lifetime.image_gaps.iter().any(in_doubt) {
            return None;
        }
        Some((lifetime.key, image))
    }

    /// The same, and on whose line it stands.
    pub(super) fn whose_at(
        &self,
        gpu: &GpuUuid,
        pid: Pid,
        at: BootNs,
    ) -> Option<(ProcessKey, &Image, Whose)> {
        let (key, image) = self.who_at(pid, at)?;
        let lifetime = self.processes.lifetimes.get(&key)?;
        let process = Process { gpu, key, image, cgroups: &lifetime.cgroups };
        let whose = self.whose_process(&process, Program::of(&image.content));
        Some((key, image, whose))
    }

    /// Which process that is.
    #[must_use]
    pub fn key_of_bearer(&self, pid: Pid) -> Option<ProcessKey> {
        self.processes.lifetimes.of_pid(pid).next_back().map(|life| life.key)
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
