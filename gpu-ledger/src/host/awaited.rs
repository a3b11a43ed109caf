//! What is waited for: reads that exits make useful, rows of the dead, acknowledgements; and who may
//! be forgotten.

use std::collections::BTreeSet;

use super::note::{Forgotten, News};
use super::processes::Exited;
use super::{AWAITING_ROW_MAX, GpuRows, Host, UNACKNOWLEDGED_MAX};
use crate::accounting::schedule::Awaited;
use crate::accounting::worker::ReadRequest;
use crate::kernel::ProcessKey;
use crate::unit::{BootNs, GpuUuid, Pid};

/// What the reader of one GPU is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// A read, as soon as the schedule allows; requests that meet before it begins become one.
    pub read: Option<ReadRequest>,
    /// The pace from now on, where it changed.
    pub pace: Option<Awaited>,
}

/// How long the dead are kept where there is no driver to ask. One that was not open yet, or comes only now,
/// has kept rows of those that ended shortly before; it is looked for at least this often.
const UNREAD_NS: u64 = 10_000_000_000;

impl Host {
    /// Applies events up to a moment, and asks for the reads that exits make useful.
    pub(super) fn absorb(&mut self, lost: bool, until: Option<BootNs>) {
        let exits = self.processes.apply_until(until);
        self.take_process_news();
        if let Some(followed) = &mut self.followed {
            followed.find_root(&mut self.processes.lifetimes);
            for exit in &exits {
                followed.count_ended(&exit.key, &self.processes.lifetimes);
            }
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
        let now = self.processes.now.boot;
        self.awaiting_row.extend(touching.map(|exit| (exit.key, now)));
        self.bound_awaited();
        if self.gpus.is_empty() {
            // Nobody will ever ask for a name, unless a driver comes soon.
            let before = BootNs(now.0.saturating_sub(UNREAD_NS));
            self.processes.forget(before, &BTreeSet::new(), None);
        }
    }

    fn bound_awaited(&mut self) {
        if self.awaiting_row.len() <= AWAITING_ROW_MAX {
            return;
        }
        // Many at once: looking for the oldest walks all of them.
        let mut oldest: Vec<(BootNs, ProcessKey)> =
            self.awaiting_row.iter().map(|(key, since)| (*since, *key)).collect();
        oldest.sort_unstable();
        oldest.truncate(oldest.len() - AWAITING_ROW_MAX / 4 * 3);
        for (_, key) in &oldest {
            self.awaiting_row.remove(key);
        }
        let count = u64::try_from(oldest.len()).unwrap_or(u64::MAX);
        self.forgot(Forgotten::AwaitedRows, None, count);
    }

    /// Rows of dead processes are read quickly until final, everything else at leisure; who holds a
    /// device is asked as often as the settings say.
    pub(super) fn set_pace(&mut self) {
        let now = self.processes.now.boot;
        let dead: BTreeSet<Pid> = self
            .gpus
            .values()
            .flat_map(|gpu| &gpu.open)
            .map(|row| row.pid)
            .filter(|pid| self.is_dead(*pid))
            .collect();
        for gpu in self.gpus.values_mut().filter(|gpu| !gpu.is_out_of_reach()) {
            let dead_awaited =
                !self.awaiting_row.is_empty() || gpu.open.iter().any(|row| dead.contains(&row.pid));
            gpu.pace = Some(if dead_awaited { Awaited::Dead } else { Awaited::Open });
            let Some(every_ns) = self.settings.holders_every_ns else { continue };
            if gpu.holders_asked.is_none_or(|asked| asked.plus_ns(every_ns) <= now) {
                gpu.holders_asked = Some(now);
                gpu.request(false, true);
            }
        }
    }

    /// What the readers are asked to do since this was last taken, by GPU.
    pub fn take_wanted(&mut self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for (uuid, gpu) in self.gpus.iter_mut().filter(|(_, gpu)| !gpu.is_out_of_reach()) {
            let pace = gpu.pace.filter(|pace| gpu.pace_told != Some(*pace));
            gpu.pace_told = pace.or(gpu.pace_told);
            let read = gpu.take_wanted();
            if read.is_some() || pace.is_some() {
                wanted.push(Wanted { gpu: uuid.clone(), read, pace });
            }
        }
        wanted
    }

    /// Pids of open rows of which no process is known. Whoever can look says which of them nobody
    /// bears: [`Host::bearers_gone`].
    #[must_use]
    pub fn bearers_unknown(&self) -> BTreeSet<Pid> {
        let open = self.gpus.values().flat_map(|gpu| &gpu.open).map(|row| row.pid);
        open.filter(|pid| self.processes.lifetimes.of_pid(*pid).next().is_none()).collect()
    }

    /// Of those pids, the ones that nobody bears: their rows will become final by themselves.
    pub fn bearers_gone(&mut self, gone: BTreeSet<Pid>) {
        self.gone = gone;
    }

    /// A touching process that ended before a complete read began has, after it, a row or none.
    pub(super) fn settle_awaited(&mut self) {
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
    #[must_use]
    pub fn reads_began(&self) -> Option<BootNs> {
        let reads =
            self.gpus.values().map(|gpu| gpu.sight.last_proof().map(|window| window.began.boot));
        reads.min().flatten()
    }

    /// The dead go once no row of theirs can come any more, and every row of theirs was booked and is
    /// kept by whoever keeps the notes.
    pub(super) fn forget(&mut self) {
        let Some(reads_began) = self.reads_began() else { return };
        let open = self.gpus.values().flat_map(|gpu| &gpu.open).map(|row| row.pid);
        let in_doubt = self.gpus.values().flat_map(|gpu| &gpu.open_at_proof).copied();
        let unkept = self.unacknowledged.iter().map(|(_, pid)| *pid);
        // When a holder without a row let go is known by its end, which is told when it is gone.
        let rowless = self.gpus.values().flat_map(|gpu| gpu.rowless_told.keys().copied());
        let needed = open.chain(in_doubt).chain(unkept).chain(rowless).collect();
        // A GPU that was found without accounting may have old rows of whoever was born before.
        let unlisted = self.gpus.values().filter(|gpu| !gpu.sight.was_listed());
        let found = unlisted.filter_map(|gpu| gpu.sight.first_good());
        let unproven_before = found.map(|window| window.began.boot).max();
        self.processes.forget(reads_began, &needed, unproven_before);
    }

    pub(super) fn await_acknowledgement(&mut self, pid: Pid) {
        self.unacknowledged.push_back((self.numbered, pid));
        if self.unacknowledged.len() > UNACKNOWLEDGED_MAX {
            self.unacknowledged.pop_front();
            self.forgot(Forgotten::Unacknowledged, None, 1);
        }
    }

    /// Every note up to this number is kept. The processes of rows booked in later ones are
    /// not forgotten.
    pub fn acknowledged(&mut self, number: u64) {
        while self.unacknowledged.front().is_some_and(|(noted, _)| *noted <= number) {
            self.unacknowledged.pop_front();
        }
    }

    /// Settlements that nobody has acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.unacknowledged.len()
    }

    /// Whether anything of the followed command (without one: of the host) is still to become final:
    /// a row of it whose process ended, or an exit that no complete read has followed yet.
    #[must_use]
    pub fn awaits_command(&self, ended: BootNs) -> bool {
        if self.gpus.is_empty() {
            return false;
        }
        // One that hangs or fails is not waited for: its last read was tried.
        let read = self.gpus.values().all(|gpu| gpu.is_stalled() || gpu.was_read_after(ended));
        // Without a command the whole host is what was asked about.
        let whole = self.followed.as_ref().is_none_or(|followed| !followed.is_found());
        let bringing = || self.gpus.values().filter(|gpu| !gpu.keeps_no_rows());
        let open = bringing().flat_map(|gpu| &gpu.open);
        let unsettled = open.filter_map(|row| row.row.as_ref()).any(|row| {
            let life = self.life_of(row, &self.attribution(row));
            (whole || life.of_command) && life.is_dead
        });
        let to_come = |exited: BootNs| {
            let proof = |gpu: &GpuRows| gpu.sight.last_proof().map(|window| window.began.boot);
            bringing().any(|gpu| proof(gpu).is_none_or(|read| read <= exited))
        };
        let awaited = self
            .awaiting_row
            .iter()
            .any(|(key, exited)| (whole || self.is_in_command(key)) && to_come(*exited));
        !read || unsettled || awaited
    }

    pub(super) fn take_process_news(&mut self) {
        for news in self.processes.take_news() {
            match news {
                News::Forgotten { what, gpu, count } => self.forgot(what, gpu.as_ref(), count),
                news => self.push(Some(news)),
            }
        }
    }

    pub(super) fn forgot(&mut self, what: Forgotten, gpu: Option<&GpuUuid>, count: u64) {
        let sum = self.forgotten.entry(what).or_insert(0);
        *sum = sum.saturating_add(count);
        self.push(Some(News::Forgotten { what, gpu: gpu.cloned(), count }));
    }
}
