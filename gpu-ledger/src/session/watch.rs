//! A host being watched: events on one side, reads on the other, settlements where they meet.
//!
//! The order inside is what the join relies on: before a row is settled every event up to the end of
//! the read that showed it final was drained, and every loss until then is a gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounting::driver::{Driver, DriverFacts, GpuFacts, Report as DriverReport};
use crate::accounting::reading::Finding;
use crate::accounting::schedule::Awaited;
use crate::accounting::worker::ReadOutcome;
use crate::accounting::{FinalRow, Row};
use crate::clock::{BootPlace, Clock};
use crate::identity::Program;
use crate::kernel::ProcessKey;
use crate::session::processes::{Exited, Processes};
use crate::session::rows::GpuRows;
use crate::settlement::{
    Account, Attribution, Books, Eviction, Evidence, Settlement, account_of, identify, settle,
};
use crate::unit::{BootNs, GpuUuid, Pid};
use crate::unknown::{NamelessReason, Unknown, UnknownReason};

/// Programs of the command that are told by name; processes of further ones are counted together.
const PROGRAMS_TOLD_MAX: usize = 1_000;
/// What those are counted as.
const OTHER_PROGRAMS: &str = "(other programs)";

/// A settlement and where it stands in the report.
pub(super) struct Entry {
    pub(super) settlement: Settlement,
    pub(super) account: Account,
    pub(super) program: Option<Program>,
    pub(super) of_command: bool,
}

/// What either side has to say.
pub(super) enum Wake {
    /// The ring fills quicker than the timer empties it.
    RingFills,
    /// A read came to its end, or hangs.
    Driver(DriverReport),
}

/// An open row's place in the report.
pub(super) struct Standing {
    pub(super) account: Account,
    pub(super) of_command: bool,
    /// Its process has ended: the row will become final by itself.
    pub(super) is_dead: bool,
}

/// The watched host.
pub(super) struct Watch {
    pub(super) clock: Clock,
    pub(super) host: Arc<str>,
    pub(super) processes: Processes,
    pub(super) driver: Option<(DriverFacts, Driver)>,
    pub(super) gpus: BTreeMap<GpuUuid, GpuRows>,
    pub(super) entries: Vec<Entry>,
    pub(super) books: Books,
    pub(super) unknowns: BTreeSet<Unknown>,
    /// When the last read of every GPU was asked for.
    pub(super) finishing: Option<BootNs>,
    /// The traced command's pid, once it was started.
    pub(super) root_pid: Option<Pid>,
    /// The traced command's process, once its fork was seen.
    root: Option<ProcessKey>,
    /// Processes of the command that ended, by program.
    ended_of_command: BTreeMap<String, u64>,
    /// Ended processes that had touched a GPU, and that no row was found for yet.
    pub(super) awaiting_row: BTreeMap<ProcessKey, BootNs>,
    /// Processes that touched a GPU and ended without a row.
    pub(super) touched_without_row: u64,
    /// Why device opens are not watched, as it was at the start; `None` while they are.
    pub(super) touch_off_because: Option<String>,
}

impl Watch {
    pub(super) fn new(
        clock: Clock,
        host: Arc<str>,
        processes: Processes,
        opened: Result<(DriverFacts, Vec<GpuFacts>, Driver), Unknown>,
        touch_off_because: Option<String>,
    ) -> Self {
        let mut unknowns = BTreeSet::new();
        let (driver, gpus) = match opened {
            Ok((facts, gpus, driver)) => {
                unknowns.extend(facts.unknowns.iter().cloned());
                let rows = gpus.into_iter().filter_map(|gpu| {
                    let worker = driver.worker(&gpu.uuid)?.clone();
                    Some((gpu.uuid.clone(), GpuRows::new(gpu, worker)))
                });
                let rows = rows.collect();
                (Some((facts, driver)), rows)
            }
            Err(unknown) => {
                unknowns.insert(unknown);
                (None, BTreeMap::new())
            }
        };
        Self {
            clock,
            host,
            processes,
            driver,
            gpus,
            entries: Vec::new(),
            books: Books::default(),
            unknowns,
            finishing: None,
            root_pid: None,
            root: None,
            ended_of_command: BTreeMap::new(),
            awaiting_row: BTreeMap::new(),
            touched_without_row: 0,
            touch_off_because,
        }
    }

    /// The next thing that either side has to say.
    pub(super) async fn next(&mut self) -> Wake {
        let (processes, driver) = (&self.processes, &mut self.driver);
        let reports = async {
            if let Some((_, driver)) = driver
                && let Some(report) = driver.next().await
            {
                return report;
            }
            // No driver, or every worker has ended.
            std::future::pending().await
        };
        tokio::select! {
            () = processes.ring_fills() => Wake::RingFills,
            report = reports => Wake::Driver(report),
        }
    }

    /// Moves on: acts on a report, on those that wait behind it, and on every event, in the order in
    /// which it all happened. Each read is taken in when the events up to its end were, and before later
    /// ones: so the table holds no more of the dead than one read to the next leaves.
    pub(super) fn advance(&mut self, wake: Option<Wake>) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        if let Some(Wake::Driver(report)) = wake {
            reports.push(report);
        }
        if let Some((_, driver)) = &mut self.driver {
            reports.extend(driver.waiting());
        }
        // After the reports: every event up to the last read's end is then in hand.
        let lost = self.processes.pull();
        self.absorb(lost, Some(BootNs(0)));
        for report in reports {
            match report {
                DriverReport::Stalled(stall) => {
                    if let Some(gpu) = self.gpus.get_mut(&stall.gpu) {
                        gpu.stalls();
                    }
                    self.unknowns.insert(stall.unknown());
                }
                DriverReport::Read(outcome) => {
                    self.absorb(false, Some(outcome.window.ended.boot));
                    self.take_read(&outcome)?;
                    self.settle_awaited();
                    self.forget();
                }
            }
        }
        self.absorb(false, None);
        self.set_pace();
        Ok(())
    }

    /// Applies events up to a moment, and asks for the reads that exits make useful.
    fn absorb(&mut self, lost: bool, until: Option<BootNs>) {
        let exits = self.processes.apply_until(until);
        self.find_root();
        for exit in &exits {
            self.count_of_command(&exit.key);
        }
        for gpu in self.gpus.values_mut() {
            // Where rows came of processes that were never seen to touch, every exit may have left one.
            let trusted = gpu.rows_untouched == 0;
            // Where some touch unseen, those that were seen are not all.
            if lost || !trusted {
                gpu.exits_lost();
            }
            let mut provoked = lost;
            for Exited { key, gpu_minors } in &exits {
                let touched = gpu_minors
                    .as_ref()
                    .is_none_or(|minors| minors.iter().any(|minor| gpu.is_minor(*minor)));
                if touched {
                    gpu.exit_touched();
                }
                provoked |= touched || !trusted || gpu.open.iter().any(|row| row.pid == key.pid);
            }
            if provoked {
                gpu.request(false, false);
            }
        }
        let touching = exits
            .into_iter()
            .filter(|exit| exit.gpu_minors.as_ref().is_some_and(|minors| !minors.is_empty()));
        let now = self.clock.now().boot;
        self.awaiting_row.extend(touching.map(|exit| (exit.key, now)));
        if self.driver.is_none() {
            // Nobody will ever ask for a name.
            self.processes.forget(now, &BTreeSet::new());
        }
        self.set_pace();
    }

    /// The command's own identity, as soon as its fork was seen: its tree is told by descent from it.
    fn find_root(&mut self) {
        let (None, Some(pid)) = (self.root, self.root_pid) else { return };
        let bearer = self.processes.lifetimes.of_pid(pid).next_back().map(|life| life.key);
        if let Some(key) = bearer {
            self.processes.lifetimes.pin(&key);
            self.root = Some(key);
        }
    }

    fn count_of_command(&mut self, key: &ProcessKey) {
        if !self.is_in_command(key) {
            return;
        }
        let mut program = self.last_program(key);
        let known = self.ended_of_command.contains_key(&program);
        if !known && self.ended_of_command.len() >= PROGRAMS_TOLD_MAX {
            OTHER_PROGRAMS.clone_into(&mut program);
        }
        let count = self.ended_of_command.entry(program).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// The program that a process ran last.
    fn last_program(&self, key: &ProcessKey) -> String {
        let lifetimes = &self.processes.lifetimes;
        let last = lifetimes.get(key).and_then(|life| life.images.last()).map(|image| image.since);
        let program = last.and_then(|since| lifetimes.program_at(key, since));
        unclassified(program.as_ref()).to_string()
    }

    /// Every program of the command, with how many of its processes ended and how many run.
    pub(super) fn programs_of_command(&self) -> BTreeMap<String, (u64, u64)> {
        let ended = self.ended_of_command.iter().map(|(name, count)| (name.clone(), (*count, 0)));
        let mut programs: BTreeMap<String, (u64, u64)> = ended.collect();
        let living = self.processes.lifetimes.iter().filter(|life| life.ended.is_none());
        for lifetime in living.filter(|life| self.is_in_command(&life.key)) {
            let (_, running) = programs.entry(self.last_program(&lifetime.key)).or_insert((0, 0));
            *running = running.saturating_add(1);
        }
        programs
    }

    /// Rows of dead processes are read quickly until final, everything else at leisure.
    fn set_pace(&self) {
        for gpu in self.gpus.values() {
            let dead_awaited =
                !self.awaiting_row.is_empty() || gpu.open.iter().any(|row| self.is_dead(row.pid));
            let awaited = if dead_awaited { Awaited::Dead } else { Awaited::Open };
            gpu.worker().set_awaited(awaited);
        }
    }

    fn take_read(&mut self, outcome: &ReadOutcome) -> anyhow::Result<()> {
        // An empty list is in doubt only until a later one tells more: the last read's doubt counts.
        let lasting = outcome.unknowns.iter();
        let lasting = lasting.filter(|unknown| unknown.reason != UnknownReason::EmptyAccountedList);
        self.unknowns.extend(lasting.cloned());
        let Some(gpu) = self.gpus.get_mut(&outcome.gpu) else { return Ok(()) };
        gpu.take(outcome);
        for finding in &outcome.findings {
            match finding {
                // What was over before anything was watched belongs to no period of ours.
                Finding::AlreadyDead(row) if self.is_from_before(&row.row) => {}
                Finding::Final(row) | Finding::NoStartTime(row) | Finding::AlreadyDead(row) => {
                    self.book(row)?;
                }
                Finding::Conflict { now, .. } => self.dispute(now),
                Finding::Gap(_)
                | Finding::Opened(_)
                | Finding::Masked(_)
                | Finding::OpenLost { .. }
                | Finding::EpochBegan { .. }
                | Finding::EpochEnded { .. }
                | Finding::ObservedIdle { .. }
                | Finding::JunkPids { .. }
                | Finding::KeysForgotten { .. } => {}
            }
        }
        Ok(())
    }

    fn book(&mut self, row: &FinalRow) -> anyhow::Result<()> {
        let rowless_since =
            self.gpus.get(&row.row.gpu).and_then(|gpu| gpu.rowless_since(row.row.pid));
        let settlement = settle(row, &self.evidence(&row.row, rowless_since))?;
        self.books.book(row, &settlement)?;
        let of_command = self.is_of_command(&settlement.attribution);
        let (account, program) = self.call(&row.row, &settlement.attribution);
        if let Some(named) = settlement.attribution.named() {
            let lifetime = self.processes.lifetimes.get(&named.key);
            if self.processes.touch_is_on()
                && lifetime.is_some_and(|life| life.touched.is_none())
                && let Some(gpu) = self.gpus.get_mut(&row.row.gpu)
            {
                gpu.rows_untouched = gpu.rows_untouched.saturating_add(1);
            }
            self.awaiting_row.remove(&named.key);
        }
        self.entries.push(Entry { settlement, account, program, of_command });
        Ok(())
    }

    /// Whether a row was over when coverage began. One that has no one place on the boot clock may have
    /// been seen.
    fn is_from_before(&self, row: &Row) -> bool {
        let Some(BootPlace::Once(start)) = self.place_of(row) else { return false };
        let end = row.held.0.checked_mul(1_000_000).map(|held_ns| start.plus_ns(held_ns));
        end.is_some_and(|end| end <= self.processes.coverage.start.boot)
    }

    /// Where a row's start, which the driver stamped with the wall clock, lies on the boot clock.
    pub(super) fn place_of(&self, row: &Row) -> Option<BootPlace> {
        row.start.and_then(|start| self.processes.history.boot_of(start))
    }

    fn dispute(&mut self, now: &Row) {
        let key = now.key();
        let booked = self.entries.iter_mut().find(|entry| entry.settlement.key() == key);
        if let Some(entry) = booked {
            entry.settlement.reread(now);
        }
    }

    /// The account and program of an attribution: the program's name, until rules say otherwise.
    fn call(&self, row: &Row, attribution: &Attribution) -> (Account, Option<Program>) {
        let lifetimes = &self.processes.lifetimes;
        let program = attribution.named().and_then(|named| {
            let at = match self.place_of(row) {
                Some(BootPlace::Once(at)) => at,
                Some(BootPlace::Twice(..) | BootPlace::Skipped) | None => named.image.since,
            };
            let program = lifetimes.program_at(&named.key, at);
            program.or_else(|| Program::of(&named.image.content))
        });
        (account_of(attribution, |_| unclassified(program.as_ref())), program)
    }

    fn evidence(&self, row: &Row, rowless_since: Option<BootNs>) -> Evidence<'_> {
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
            host: &self.host,
        }
    }

    /// On whose account a row that still runs accrues.
    pub(super) fn standing(&self, row: &Row) -> Standing {
        let attribution = identify(row, &self.evidence(row, None));
        Standing {
            account: self.call(row, &attribution).0,
            of_command: self.is_of_command(&attribution),
            is_dead: attribution
                .named()
                .map_or_else(|| self.is_dead(row.pid), |named| named.ended.is_some()),
        }
    }

    /// Who holds a GPU without a row: whoever bears the pid now.
    pub(super) fn bearer(&self, pid: Pid) -> (Option<ProcessKey>, Account) {
        let lifetime = self.processes.lifetimes.of_pid(pid).next_back();
        let image = lifetime.and_then(|life| life.images.last());
        let account = match image {
            Some(image) => unclassified(Program::of(&image.content).as_ref()),
            None => Account::Unattributed(NamelessReason::AgentDown),
        };
        (lifetime.map(|life| life.key), account)
    }

    fn is_dead(&self, pid: Pid) -> bool {
        let bearer = self.processes.lifetimes.of_pid(pid).next_back();
        match bearer {
            Some(lifetime) => lifetime.ended.is_some(),
            None => self.processes.is_gone(pid),
        }
    }

    fn is_of_command(&self, attribution: &Attribution) -> bool {
        attribution.named().is_some_and(|named| self.is_in_command(&named.key))
    }

    /// Whether a process is the traced command or descends from it.
    pub(super) fn is_in_command(&self, key: &ProcessKey) -> bool {
        let Some(root) = &self.root else { return false };
        key == root || self.processes.lifetimes.descends_from(key, root)
    }

    /// A touching process that ended before a complete read began has, after it, a row or none.
    fn settle_awaited(&mut self) {
        let open: BTreeSet<Pid> =
            self.gpus.values().flat_map(|gpu| &gpu.open).map(|row| row.pid).collect();
        let read = self.reads_began();
        let gone: Vec<ProcessKey> = self
            .awaiting_row
            .iter()
            .filter(|(key, ended)| {
                read.is_some_and(|read| **ended < read) && !open.contains(&key.pid)
            })
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            self.awaiting_row.remove(&key);
            self.touched_without_row = self.touched_without_row.saturating_add(1);
            tracing::debug!(pid = key.pid.0, "touched a GPU and has no row");
        }
    }

    /// When the oldest of the last good reads of each GPU began; `None` while one has none.
    pub(super) fn reads_began(&self) -> Option<BootNs> {
        let reads =
            self.gpus.values().map(|gpu| gpu.sight.last_proof().map(|window| window.began.boot));
        reads.min().flatten()
    }

    fn forget(&mut self) {
        let Some(reads_began) = self.reads_began() else { return };
        let unbooked = self.gpus.values().flat_map(|gpu| &gpu.open).map(|row| row.pid).collect();
        self.processes.forget(reads_began, &unbooked);
    }

    /// Whether anything of the command is still to become final: a row of it whose process ended, or
    /// an exit that no complete read has followed yet.
    pub(super) fn awaits_command(&self, ended: BootNs) -> bool {
        if self.gpus.is_empty() {
            return false;
        }
        // One that hangs or fails is not waited for: its last read was tried.
        let read = self.gpus.values().all(|gpu| gpu.is_stalled() || gpu.was_read_after(ended));
        // Without a command the whole host is what was asked about.
        let ours = |of_command: bool| of_command || self.root.is_none();
        let open = self.gpus.values().flat_map(|gpu| &gpu.open);
        let unsettled = open.filter_map(|row| row.row.as_ref()).any(|row| {
            let standing = self.standing(row);
            ours(standing.of_command) && standing.is_dead
        });
        let awaited = self.awaiting_row.keys().any(|key| ours(self.is_in_command(key)));
        !read || unsettled || awaited
    }
}

/// The account of a process that no rule classifies.
fn unclassified(program: Option<&Program>) -> Account {
    match program {
        Some(program) => Account::Unclassified(program.to_string().into()),
        // Its identity is known, but neither its arguments nor its file name were captured.
        None => Account::Unclassified("(name not captured)".into()),
    }
}
