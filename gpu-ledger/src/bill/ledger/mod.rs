//! The ledger: what a journal's entries add up to, ready to be cut to any period.
//!
//! Entries are taken in ascending order, then the journal's end. They need not be all: a reader may leave
//! out what does not meet the period. What must never be left out: every edge of an epoch or of coverage;
//! the last mark of each run of the agent, as that says up to when it saw; everything from the journal's
//! last mark on; and whatever corrects an entry that meets the period. Then the bills of two periods agree
//! with that of both, whatever was read for each.
//!
//! Names are interned: a million settlements of a hundred accounts keep a hundred names, and 48 bytes each.

mod cut;
mod ends;
mod memory;
mod names;
mod rows;
mod settled;
mod sight;
#[cfg(test)]
mod tests;

pub use cut::{Cut, CutBooks, CutGpu, Holder, PENDING_MS_MAX, Which};
pub use memory::{CutMemory, MemoryOf};
pub use rows::{CutRow, CutRows};
pub use sight::Sight;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::memory::Memories;
use self::names::{Map, Names};
use self::settled::{AllSettled, Seen, Settled};
use self::sight::Sights;
use super::{BillError, By, Closings};
use crate::attribution::Labels;
use crate::coverage::Gap;
use crate::identity::Basis;
use crate::journal::entry::{
    Change, Correction, CoverageEdge, Epoch, EpochEdge, Mark, OpenFigures, OpenKind,
    SettlementFigures,
};
use crate::journal::{Entry, Figures, Recovered};
use crate::settlement::{Account, Balance};
use crate::unit::{Bytes, GpuUuid, Pid, Span, WallUs};
use crate::unknown::{DisputeReason, GapCause};

/// On which GPU, and whose: names as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Whose {
    gpu: u32,
    account: u32,
    program: Option<u32>,
    uid: Option<u32>,
    /// Of a ledger that keeps no labels the same for all.
    labels: u32,
    /// Another user's than the reader's: whose exactly is not told.
    is_folded: bool,
}

/// An open entry that did not settle, with its end where it has one.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    kind: OpenKind,
    whose: Whose,
    pid: Pid,
    start: Option<WallUs>,
    first_seen_ms: u64,
    /// Somewhere between then and when it was first seen it began.
    hidden_since_ms: Option<u64>,
    basis: Option<Basis>,
    memory: Option<Bytes>,
    ended: Option<Ended>,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    last_seen_ms: u64,
    cause: Option<GapCause>,
}

/// What the entries taken so far add up to.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    gpus: Map<GpuUuid, u32>,
    sights: Sights,
    accounts: Names<Account>,
    programs: Names<Arc<str>>,
    labels: Names<Labels>,
    keeps_labels: bool,
    settled: AllSettled,
    opened: BTreeMap<u64, Opened>,
    gaps: Vec<Gap>,
    memories: Memories,
    closings: Closings,
    host: Option<Arc<str>>,
    /// By GPU: what the settlements taken add up to.
    summed: BTreeMap<u32, Balance>,
    /// Accounts of entries that were corrected before they were handed over.
    moved: BTreeMap<u64, u32>,
    last_seq: u64,
}

impl Ledger {
    /// One of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One of nothing, for a bill by this: labels are kept only where it is made by them or shows them, as there
    /// are many of them.
    #[must_use]
    pub fn for_bill_by(by: By) -> Self {
        Self { keeps_labels: by.needs_labels(), ..Self::default() }
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// [`BillError::Order`] where it does not come after the last one.
    pub fn take(&mut self, entry: &Entry) -> Result<(), BillError> {
        let (last, seq) = (self.last_seq, entry.seq);
        if seq <= last {
            return Err(BillError::Order { last, seq });
        }
        self.last_seq = seq;
        match &entry.figures {
            Figures::Settlement(settlement) => {
                self.sights.told_of(settlement.read_at.wall.ms());
                self.take_settlement(seq, settlement);
            }
            Figures::Open(open) => self.take_open(seq, open),
            Figures::Correction(correction) => self.correct(correction),
            Figures::Conflict(conflict) => {
                self.settled.dispute(conflict.of, DisputeReason::Conflict);
            }
            Figures::Gap(gap) => self.take_gap(gap),
            Figures::Epoch(epoch) => self.take_epoch(seq, epoch),
            Figures::Coverage(edge) => self.take_coverage(edge),
            Figures::Mark(mark) => self.take_mark(mark),
            // Neither is about anybody's time.
            Figures::Closed(period) => self.closings.take(seq, entry.at, period),
            Figures::Key(_) => {}
            Figures::Memory(stretch) => {
                self.sights.told_of(stretch.to.ms().saturating_sub(1));
                self.take_memory(stretch);
            }
        }
        self.sights.learnt(entry.at.stamp.wall.ms());
        Ok(())
    }

    /// The moment up to which the entries speak, in ms since 1970; `None` before the first.
    #[must_use]
    pub const fn as_of_ms(&self) -> Option<u64> {
        self.sights.as_of_ms()
    }

    /// The latest moment at which any entry taken was made or that it tells of, in ms since 1970; `None` before the
    /// first. Later than [`Self::as_of_ms`] where the wall clock was set back since.
    #[must_use]
    pub const fn latest_ms(&self) -> Option<u64> {
        self.sights.latest_ms()
    }

    /// Whether the agent was at work when the last entry was made.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.sights.is_running()
    }

    /// The earliest millisecond that anything taken is about; `None` where there is nothing.
    #[must_use]
    pub fn earliest_ms(&self) -> Option<u64> {
        let settled = self.settled.all().map(|seen| seen.earliest_ms());
        let opened = self.opened.values().map(Opened::since_ms);
        settled.chain(opened).chain(self.sights.earliest_ms()).min()
    }

    /// The periods that are closed.
    #[must_use]
    pub const fn closings(&self) -> &Closings {
        &self.closings
    }

    /// On which GPU the settlement, or what is open, of this number is, where it was taken.
    #[must_use]
    pub fn gpu_of(&self, seq: u64) -> Option<GpuUuid> {
        let settled = || self.settled.whose_of(seq).map(|whose| whose.gpu);
        let opened = self.opened.get(&seq).map(|opened| opened.whose.gpu);
        opened.or_else(settled).map(|gpu| self.sights.uuid(gpu))
    }

    /// The host, where an entry names it.
    #[must_use]
    pub const fn host(&self) -> Option<&Arc<str>> {
        self.host.as_ref()
    }

    /// Every GPU, with where it enumerated last.
    #[must_use]
    pub fn gpus(&self) -> Vec<(Option<u32>, GpuUuid)> {
        let mut gpus: Vec<(Option<u32>, GpuUuid)> =
            self.sights.gpus().iter().map(|sight| (sight.index, sight.gpu.clone())).collect();
        gpus.sort_by(|a, b| (a.0.is_none(), a).cmp(&(b.0.is_none(), b)));
        gpus
    }

    /// Every GPU, with its product name where the driver said one.
    #[must_use]
    pub fn models(&self) -> Vec<(GpuUuid, Option<Arc<str>>)> {
        self.sights.gpus().iter().map(|sight| (sight.gpu.clone(), sight.name.clone())).collect()
    }

    /// Every user whose rows were taken, by the real user id.
    #[must_use]
    pub fn uids(&self) -> BTreeSet<u32> {
        let settled = self.settled.whose().map(|whose| whose.uid);
        let opened = self.opened.values().map(|opened| opened.whose.uid);
        settled.chain(opened).flatten().chain(self.memory_uids()).collect()
    }

    /// Whether the host slept while any of the settlements held its GPU.
    pub(super) fn has_slept(&self) -> bool {
        self.settled.has_slept()
    }

    /// Number of the entry of each GPU's last epoch: its evidence says which driver was asked.
    #[must_use]
    pub fn epochs(&self) -> Vec<u64> {
        self.sights.gpus().iter().filter_map(|sight| sight.epoch_seq).collect()
    }

    /// Numbers of the entries of holders without a row: their evidence says how old they are.
    #[must_use]
    pub fn rowless(&self) -> Vec<u64> {
        let rowless = |opened: &Opened| opened.kind == OpenKind::NoDriverRow;
        self.opened.iter().filter(|(_, one)| rowless(one)).map(|(seq, _)| *seq).collect()
    }

    /// Takes the end of the journal that the entries were read from: what is open there, up to when it
    /// speaks, and what was ever booked. Called once, after the last entry.
    ///
    /// # Errors
    /// [`BillError::Books`] where the settlements taken are more than were booked, or as many and not of
    /// as many milliseconds.
    pub fn finish(&mut self, end: &Recovered) -> Result<(), BillError> {
        // What was taken as open and is not was resolved by an entry that does not bear on the period.
        self.opened
            .retain(|seq, opened| opened.ended.is_some() || end.unresolved.contains_key(seq));
        for (seq, open) in &end.unresolved {
            if !self.opened.contains_key(seq) {
                self.hold(*seq, open);
            }
        }
        if let Some(last) = end.last {
            self.sights.learnt(last.stamp.wall.ms());
        }
        self.agrees_with(&end.head.booked)
    }

    fn agrees_with(&self, booked: &BTreeMap<GpuUuid, Balance>) -> Result<(), BillError> {
        for (gpu, summed) in &self.summed {
            let gpu = self.sights.uuid(*gpu);
            // A GPU that the books do not know has nothing booked.
            let books = booked.get(&gpu).copied().unwrap_or_default();
            let same = summed.count == books.count && summed.held_ms == books.held_ms;
            let less = summed.count < books.count && summed.held_ms <= books.held_ms;
            if !same && !less {
                return Err(BillError::Books {
                    gpu,
                    books_count: books.count,
                    books_held_ms: books.held_ms,
                    bill_count: summed.count,
                    bill_held_ms: summed.held_ms,
                });
            }
        }
        Ok(())
    }

    fn gpu(&mut self, uuid: &GpuUuid) -> u32 {
        if let Some(gpu) = self.gpus.get(uuid) {
            return *gpu;
        }
        let gpu = self.sights.add(uuid.clone());
        self.gpus.insert(uuid.clone(), gpu);
        gpu
    }

    fn whose(
        &mut self,
        gpu: u32,
        account: &Account,
        program: Option<&Arc<str>>,
        labels: &Labels,
        (pid, uid): (Pid, Option<u32>),
    ) -> Whose {
        let account = self.accounts.number(account);
        let program = program.map(|program| self.programs.number(program));
        let labels = if self.keeps_labels { self.labels.number(labels) } else { 0 };
        Whose { gpu, account, program, uid, labels, is_folded: pid.is_alias() }
    }

    fn take_settlement(&mut self, seq: u64, figures: &SettlementFigures) {
        let gpu = self.gpu(&figures.gpu);
        if let Some(opened) = figures.opened {
            self.opened.remove(&opened);
        }
        // What was never summed is nothing.
        let summed = self.summed.entry(gpu).or_default();
        *summed = summed.plus(figures.held);
        let user = (figures.pid, figures.uid);
        let (account, program) = (&figures.account, figures.program.as_ref());
        let whose = self.whose(gpu, account, program, &figures.labels, user);
        let settled = Settled {
            seq,
            whose,
            pid: figures.pid,
            start: figures.start,
            held: figures.held,
            read_at_ms: figures.read_at.wall.ms(),
            basis: figures.basis,
            flags: figures.flags.iter().copied().collect(),
            dispute: figures.dispute,
            asleep: figures.asleep,
            busy: figures.busy.clone(),
            memory_peak: figures.memory_peak,
        };
        // The read that showed it final had an answer.
        if let (Some(start), None) = (figures.start, figures.dispute)
            && let Some(span) = Span::of_row(start, figures.held)
        {
            self.sights.good_until(gpu, span.to_ms().min(settled.read_at_ms));
        }
        self.settled.push(settled);
    }

    fn take_open(&mut self, seq: u64, figures: &OpenFigures) {
        let gpu = self.gpu(&figures.gpu);
        self.sights.good_until(gpu, figures.first_seen.began.wall.ms());
        self.hold(seq, figures);
    }

    fn hold(&mut self, seq: u64, figures: &OpenFigures) {
        let gpu = self.gpu(&figures.gpu);
        let user = (figures.pid, figures.uid);
        let (account, program) = (&figures.account, figures.program.as_ref());
        let whose = self.whose(gpu, account, program, &figures.labels, user);
        let first_seen = figures.first_seen;
        let (since_ms, seen_ms) = (first_seen.began.wall.ms(), first_seen.ended.wall.ms());
        let is_hidden = figures.kind == OpenKind::Masked;
        let mut opened = Opened {
            kind: figures.kind,
            whose,
            pid: figures.pid,
            start: figures.start,
            first_seen_ms: if is_hidden { seen_ms } else { since_ms },
            hidden_since_ms: is_hidden.then_some(since_ms),
            basis: figures.basis,
            memory: figures.memory,
            ended: None,
        };
        if let Some(account) = self.moved.get(&seq) {
            opened.whose.account = *account;
        }
        self.opened.insert(seq, opened);
    }

    fn correct(&mut self, correction: &Correction) {
        match &correction.change {
            Change::Ended { last_seen, cause } => {
                if let Some(opened) = self.opened.get_mut(&correction.of) {
                    let last_seen_ms = last_seen.wall.ms();
                    opened.ended = Some(Ended { last_seen_ms, cause: *cause });
                }
            }
            Change::Account(account) => {
                let account = self.accounts.number(account);
                if let Some(opened) = self.opened.get_mut(&correction.of) {
                    opened.whose.account = account;
                } else if !self.settled.move_to(correction.of, account) {
                    self.moved.insert(correction.of, account);
                }
            }
        }
    }

    fn take_gap(&mut self, gap: &Gap) {
        if let Some(uuid) = &gap.gpu {
            let gpu = self.gpu(uuid);
            // At its end the GPU answered again; the gap itself is taken off where it is cut.
            self.sights.gap(gpu, gap.from.wall.ms(), gap.to.wall.ms());
        }
        self.gaps.push(gap.clone());
    }

    fn take_epoch(&mut self, seq: u64, epoch: &Epoch) {
        let gpu = self.gpu(&epoch.gpu);
        let at_ms = epoch.at.wall.ms();
        match &epoch.edge {
            EpochEdge::Began { index, name } => {
                self.sights.epoch_began(gpu, seq, at_ms, *index, name.clone());
            }
            EpochEdge::Ended { cause } => self.sights.epoch_ended(gpu, seq, at_ms, *cause),
        }
    }

    fn take_coverage(&mut self, edge: &CoverageEdge) {
        match edge {
            CoverageEdge::Began { at, host, process_events, .. } => {
                self.host = Some(Arc::clone(host));
                self.sights.agent_began(at.wall.ms(), *process_events);
            }
            CoverageEdge::Ended { at } => self.sights.agent_ended(at.wall.ms()),
        }
    }

    fn take_mark(&mut self, mark: &Mark) {
        self.sights.processes_until(mark.processes_until.wall.ms());
        for of_gpu in &mark.gpus {
            let gpu = self.gpu(&of_gpu.gpu);
            if let Some(last_good) = of_gpu.last_good {
                // What the read showed was so when it began.
                let doubted_since_ms = of_gpu.doubted_since.map(|since| since.wall.ms());
                self.sights.marked_until(gpu, last_good.began.wall.ms(), doubted_since_ms);
                self.sights.dead_rows(gpu, last_good.began.wall.ms(), of_gpu.dead_rows);
            }
        }
    }
}
