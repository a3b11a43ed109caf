//! One watched host: events on one side, reads on the other, settlements where they meet.
//!
//! Purpose: everything that is known of processes and of GPUs while they are watched, and what it
//! means, told as [`Note`]s in the order in which it was learnt. May touch: nothing; events, losses, looks
//! at procfs, reads and moments come in as values, and what should be read next goes out as [`Wanted`].
//! May not: read a clock, a file or a driver; wait; keep a settlement; grow without a bound.
//!
//! ```text
//! drained · look · reported ─► advance ─► take_notes   (and acknowledged, once they are kept)
//!                                     └─► take_wanted  (to be done by whoever holds the driver)
//! ```
//!
//! The order inside is what the join relies on: before a row is settled every event up to the end of
//! the read that showed it final was applied, and no later one; every loss until then is a gap. A
//! read that ends later than the events in hand waits for the next [`Host::drained`].
//!
//! Every limit is a named constant, and reaching it is told as [`News::Forgotten`] and counted in
//! [`Host::forgotten`]: a host is watched for months.

mod asked;
mod awaited;
mod followed;
mod gaps;
mod input;
mod join;
mod margin;
mod memory;
mod note;
mod processes;
mod rows;
mod take;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub use awaited::Wanted;
pub use gaps::GAPS_MAX;
pub use input::{Drained, HostSettings, Lost, Resumed};
pub use join::{ANCESTORS_MAX, Standing};
pub use margin::MARGIN_WINDOW_NS;
pub use note::{
    Ancestor, Bearer, Borne, Forgotten, NamedCgroup, News, Note, Opened, Settled, Whose,
};
pub use processes::TOUCHING_MAX;
pub use rows::GpuRows;

use self::followed::Followed;
use self::processes::Processes;
use self::take::row_of;
use crate::accounting::RowKey;
use crate::accounting::driver::{GpuFacts, Report, Stall};
use crate::attribution::Attributor;
use crate::clock::Stamp;
use crate::coverage::{Coverage, Gap};
use crate::identity::{CgroupPaths, Snapshot};
use crate::kernel::ProcessKey;
use crate::memory::Meter;
use crate::settlement::{Books, Named, SettlementError};
use crate::unit::{BootNs, GpuUuid, Pid};
use crate::unknown::Unknown;

/// Ended processes that touched a GPU and for whose rows is waited.
pub const AWAITING_ROW_MAX: usize = 16_384;
/// Settlements that wait to be acknowledged.
pub const UNACKNOWLEDGED_MAX: usize = 16_384;
/// Different UNKNOWNs kept of one run.
pub const UNKNOWNS_MAX: usize = 1_024;
/// Identities taken over from what an earlier run left open.
pub const JOURNALED_MAX: usize = 16_384;

/// The room's one error: what [`crate::settlement`] refuses. Each is a bug of this product.
pub type HostError = SettlementError;

/// A watched host.
#[derive(Debug)]
pub struct Host {
    name: Arc<str>,
    settings: HostSettings,
    attributor: Attributor,
    processes: Processes,
    gpus: BTreeMap<GpuUuid, GpuRows>,
    /// Of each GPU whose memory is sampled.
    memory: BTreeMap<GpuUuid, Meter>,
    books: Books,
    unknowns: BTreeSet<Unknown>,
    followed: Option<Followed>,
    /// Ended processes that had touched a GPU, and that no row was found for yet.
    awaiting_row: BTreeMap<ProcessKey, BootNs>,
    touched_without_row: u64,
    /// Pids of open rows that nobody is known of and that nobody bears.
    gone: BTreeSet<Pid>,
    /// What an earlier run left open, as long as it is open.
    journaled: BTreeMap<RowKey, Named>,
    earlier: Option<Coverage>,
    /// Reads that were not taken in yet, in the order they came.
    reports: VecDeque<Report>,
    /// Events were lost since the last turn.
    lost: bool,
    notes: Vec<Note>,
    /// The last note's number.
    numbered: u64,
    /// Pids of settled rows whose notes are not known to be kept, with the notes' numbers.
    unacknowledged: VecDeque<(u64, Pid)>,
    forgotten: BTreeMap<Forgotten, u64>,
}

impl Host {
    /// A host of which nothing is known yet. `now`: a moment after process events began to be received.
    #[must_use]
    pub fn new(name: Arc<str>, now: Stamp, settings: HostSettings, resumed: Resumed) -> Self {
        let processes = Processes::new(now, &settings);
        let mut journaled = resumed.open;
        let beyond = journaled.len().saturating_sub(JOURNALED_MAX);
        let mut host = Self {
            name,
            settings,
            attributor: Attributor::default(),
            processes,
            gpus: BTreeMap::new(),
            memory: BTreeMap::new(),
            books: Books::default(),
            unknowns: BTreeSet::new(),
            followed: None,
            awaiting_row: BTreeMap::new(),
            touched_without_row: 0,
            gone: BTreeSet::new(),
            journaled: BTreeMap::new(),
            earlier: resumed.coverage,
            reports: VecDeque::new(),
            lost: false,
            notes: Vec::new(),
            numbered: 0,
            unacknowledged: VecDeque::new(),
            forgotten: BTreeMap::new(),
        };
        if beyond > 0 {
            // The oldest rows are the likeliest to be gone.
            let mut starts: Vec<RowKey> = journaled.keys().cloned().collect();
            starts.sort_by_key(|key| key.start);
            for key in starts.iter().take(beyond) {
                journaled.remove(key);
            }
            let count = u64::try_from(beyond).unwrap_or(u64::MAX);
            host.forgot(Forgotten::Journaled, None, count);
        }
        host.journaled = journaled;
        host
    }

    /// A reading of the clocks. Readings are to be given in the order they were made.
    pub fn observe_clock(&mut self, now: Stamp) {
        self.processes.observe_clock(now);
    }

    /// Paths of control groups that were read from cgroupfs.
    pub fn name_cgroups(&mut self, paths: &CgroupPaths) {
        for (cgroup, path) in paths.iter() {
            self.processes.cgroups.learn(cgroup, path);
        }
    }

    /// Takes in what was drained from the ring.
    pub fn drained(&mut self, drained: Drained) {
        self.lost |= self.processes.drained(drained);
    }

    /// Whether a look at procfs is wanted: events were lost, and until one is given what lives is in
    /// doubt. Where it cannot be had the gap stays open, and it is wanted again.
    #[must_use]
    pub const fn wants_look(&self) -> bool {
        self.processes.wants_look()
    }

    /// Takes in a look at procfs: the first of all, before [`Host::begin`], or one that was wanted.
    /// `now`: after it was made.
    pub fn look(&mut self, snapshot: &Snapshot, now: Stamp) {
        self.processes.look(snapshot, now);
        self.take_process_news();
    }

    /// Coverage begins: events are received, and procfs was looked at and the ring drained after that.
    /// Who ended until then is told to nobody.
    pub fn begin(&mut self, now: Stamp) {
        let earlier = self.earlier.take();
        self.processes.begin(now, earlier);
        self.take_process_news();
    }

    /// A GPU is watched from here on; one that is known already was opened anew after
    /// [`Host::released`] and is asked for everything.
    pub fn found(&mut self, facts: GpuFacts) {
        let known = self.gpus.contains_key(&facts.uuid);
        self.push(Some(News::GpuFound(Box::new(facts.clone()))));
        let uuid = facts.uuid.clone();
        let gpu = self.gpus.entry(uuid).or_insert_with(|| GpuRows::new(facts.clone()));
        if known {
            gpu.regained(facts);
        }
    }

    /// Every handle of a GPU was given back. The gap ends with the first read that shows
    /// anything after the GPU was [`Host::found`] again.
    pub fn released(&mut self, gpu: &GpuUuid, at: Stamp) {
        let Some(rows) = self.gpus.get_mut(gpu) else { return };
        rows.given_back(at);
        self.end_memory(Some(gpu), at.boot);
        self.push(Some(News::Released { gpu: gpu.clone(), at }));
    }

    /// A read that came to its end, or a call that hangs; to be given in the order they came.
    pub fn reported(&mut self, report: Report) {
        self.reports.push_back(report);
    }

    /// Moves on: acts on every event and every report in the order in which it all happened. Each
    /// read is taken in when the events up to its end were, and before later ones: so the table
    /// holds no more of the dead than one read to the next leaves.
    ///
    /// # Errors
    /// Where the books do not balance: a bug of this product.
    pub fn advance(&mut self) -> Result<(), HostError> {
        let lost = std::mem::take(&mut self.lost);
        self.absorb(lost, Some(BootNs(0)));
        while let Some(report) = self.next_report() {
            match report {
                Report::Stalled(stall) => self.stalled(stall),
                Report::Memory(told) => {
                    self.absorb(false, Some(told.sample.completed()));
                    self.take_memory(*told);
                }
                Report::Read(outcome) => {
                    self.absorb(false, Some(outcome.window.ended.boot));
                    self.take_read(&outcome)?;
                    self.settle_awaited();
                    self.forget();
                }
            }
        }
        if self.reports.is_empty() {
            self.absorb(false, None);
        }
        self.memory_until(self.processes.now.boot);
        self.set_pace();
        Ok(())
    }

    /// The next report whose turn has come: every event up to its end is in hand.
    fn next_report(&mut self) -> Option<Report> {
        let in_hand = self.processes.coverage.end.boot;
        match self.reports.front()? {
            Report::Read(outcome) if outcome.window.ended.boot > in_hand => None,
            Report::Memory(told) if told.sample.completed() > in_hand => None,
            Report::Read(_) | Report::Stalled(_) | Report::Memory(_) => self.reports.pop_front(),
        }
    }

    fn stalled(&mut self, stall: Stall) {
        if let Some(gpu) = self.gpus.get_mut(&stall.gpu) {
            gpu.stalls(stall.unknown());
        }
        self.note_unknown(&stall.unknown());
        self.push(Some(News::Stalled(stall)));
    }

    /// The watching ends: gaps that are still open end here. To be called after the last
    /// [`Host::advance`].
    pub fn end(&mut self, now: Stamp) {
        self.take_process_news();
        self.end_memory(None, now.boot);
        let mut ended = Vec::new();
        for gpu in self.gpus.values_mut() {
            if let Some(gap) = gpu.end_release(now) {
                gpu.sight.found_mut().push(gap.clone());
                ended.push(gap);
            }
            // What a later read would have explained stays as it is.
            let in_doubt = gpu.sight.in_doubt().iter().cloned();
            ended.extend(in_doubt.map(|gap| Gap { to: gap.to.max(now), ..gap }));
        }
        for gap in ended {
            self.push(Some(News::Gap(gap)));
        }
        self.processes.end(now);
        self.take_process_news();
    }

    /// What was learnt since this was last asked. To be taken after every [`Host::advance`]: notes are
    /// kept until then.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    fn push(&mut self, news: Option<News>) {
        let Some(news) = news else { return };
        self.numbered = self.numbered.saturating_add(1);
        self.notes.push(Note { number: self.numbered, at: self.processes.now, news });
    }
}
