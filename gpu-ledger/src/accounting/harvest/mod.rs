//! Each final row exactly once, and every way of losing one detected.
//!
//! Purpose: the state of one GPU's accounting over many reads. May touch: nothing; it gets reads
//! as values. May not: read a clock, ask the driver, hand out a row that was not final.
//! Invariants: no key is handed out twice while it can come back; a row that was seen open and
//! can never be read final is counted in a gap; sizes are lower bounds of what the driver's rules allow.
//!
//! What stays invisible, by the driver's rules: a span opened and replaced by a later span of its own
//! pid between two reads, and rows cleared from a store in which no row had been seen yet (of which
//! [`Harvest::exits_unwitnessed`] says whether there can have been any).
//!
//! Clocks: reads are ordered by the boot clock. A row's start, which the driver stamps with the wall
//! clock, is only ever compared with other rows' and with the wall clock at a read of the same list.

mod booked;
mod continuity;
mod gone;
#[cfg(test)]
mod model;
#[cfg(test)]
mod property_tests;
mod settle;
mod state;
#[cfg(test)]
mod tests;
mod tracked;

use std::collections::{BTreeMap, BTreeSet};

pub use booked::ABSENT_KEYS_MAX;
pub use continuity::DEAD_ROWS_MAX;

use self::booked::Booked;
use self::gone::GoneRows;
use self::state::DeadRow;
use self::tracked::Tracked;
use super::Row;
use super::Window;
use super::reading::{Answer, Finding, GpuRead, Observation, OpenRow, ReadContent};
use super::sight::cause_of;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::unit::{GpuUuid, Pid, WallUs};
use crate::unknown::{GapCause, Unknown, UnknownReason};

/// The harvest of one GPU.
#[derive(Debug)]
pub struct Harvest {
    gpu: GpuUuid,
    /// The reader is outside the initial pid namespace: the driver shows it no dead row.
    dead_rows_hidden: bool,
    /// The start of the first read of any kind.
    begun: Option<Stamp>,
    epoch: Epoch,
    /// The last complete list, the base of every proof.
    last: Option<LastList>,
    tracked: BTreeMap<Pid, Tracked>,
    gone: GoneRows,
    booked: Booked,
    /// Final rows without a start time that were handed out.
    nameless: BTreeMap<Pid, Row>,
    /// Touching exits since the last complete list.
    exits: Option<u64>,
    /// Rows handed out since the last complete list.
    new_rows: u64,
    /// Those of them that died after their list was taken.
    early_rows: u64,
    /// Rows counted as lost by their keys since the last complete list.
    lost_rows: u64,
    /// Touching exits without a row where nothing can have been cleared: they never had one, or its
    /// turn comes with a later list.
    exits_owed: u64,
    /// The same where something can have been.
    exits_unwitnessed: u64,
    dead_rows_max: usize,
    unread_rows: usize,
    /// The next list hands out what was handed out before.
    again: Option<Again>,
}

/// What is handed out once more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Again {
    /// Everything.
    All,
    /// These rows, by pid and start.
    Rows(BTreeSet<(Pid, Option<WallUs>)>),
}

impl Again {
    fn has(&self, pid: Pid, start: Option<WallUs>) -> bool {
        match self {
            Self::All => true,
            Self::Rows(rows) => rows.contains(&(pid, start)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Epoch {
    Unseen,
    On,
    /// It is not on, or not known to be.
    Off {
        /// Why.
        cause: GapCause,
        /// What was not seen before this moment is told.
        told: Stamp,
    },
}

#[derive(Debug)]
struct LastList {
    window: Window,
    dead: Vec<DeadRow>,
    /// Empty since this moment, as far as lists can say.
    empty_since: Option<Stamp>,
    /// Accounting was off at some read since.
    off_since: bool,
}

impl Harvest {
    /// A harvest that has read nothing. `dead_rows_hidden` says that the reader is outside the
    /// initial pid namespace, where the driver lists living rows only
    /// (open-gpu-kernel-modules, `gpu_acct.c`, since 570.86.15).
    #[must_use]
    pub fn new(gpu: GpuUuid, dead_rows_hidden: bool) -> Self {
        Self {
            gpu,
            dead_rows_hidden,
            begun: None,
            epoch: Epoch::Unseen,
            last: None,
            tracked: BTreeMap::new(),
            gone: GoneRows::default(),
            booked: Booked::default(),
            nameless: BTreeMap::new(),
            exits: Some(0),
            new_rows: 0,
            early_rows: 0,
            lost_rows: 0,
            exits_owed: 0,
            exits_unwitnessed: 0,
            dead_rows_max: 0,
            unread_rows: 0,
            again: None,
        }
    }

    /// What was handed out did not get where it belongs: such a row is handed out once more if it is final and still
    /// in the store, and told open once more if it runs, with the next list. What that list proves of the
    /// one before it stays as it is.
    pub fn hand_out_again(&mut self, again: Again) {
        match &again {
            Again::All => {
                self.booked = Booked::default();
                self.nameless.clear();
            }
            Again::Rows(rows) => {
                for (pid, start) in rows {
                    match start {
                        Some(start) => self.booked.forget((*pid, *start)),
                        None => drop(self.nameless.remove(pid)),
                    }
                }
            }
        }
        self.again = Some(match (self.again.take(), again) {
            (Some(Again::Rows(mut rows)), Again::Rows(more)) => {
                rows.extend(more);
                Again::Rows(rows)
            }
            (Some(Again::All), _) | (_, Again::All) => Again::All,
            (None, again) => again,
        });
    }

    fn tells_again(&self, pid: Pid, start: Option<WallUs>) -> bool {
        self.again.as_ref().is_some_and(|again| again.has(pid, start))
    }

    /// The pids to ask about next: new, listed twice, moved and open ones, all of them at a sweep,
    /// and one dead row to prove that the others kept their places. To be called again with the
    /// answers until it names nobody.
    #[must_use]
    pub fn plan(
        &self,
        pids: &[Pid],
        answers: &BTreeMap<Pid, Answer>,
        sweep: bool,
    ) -> BTreeSet<Pid> {
        let mut listed = BTreeSet::new();
        let twice: BTreeSet<Pid> =
            pids.iter().copied().filter(|pid| !listed.insert(*pid)).collect();
        let unasked = |pid: &Pid| !answers.contains_key(pid);
        let Some(last) = self.last.as_ref().filter(|_| !sweep && !self.dead_rows_hidden) else {
            return listed.into_iter().filter(unasked).collect();
        };
        // One that was gone is asked for again.
        let found = last.dead.iter().enumerate().filter(|(_, dead)| !dead.left);
        let places: BTreeMap<Pid, usize> =
            found.map(|(place, dead)| (dead.row.pid, place)).collect();
        let mut ask = twice;
        let (mut stranger_seen, mut furthest) = (false, None);
        for pid in pids {
            match places.get(pid).copied() {
                // Dead rows stand before live ones, older before younger: what stands behind a
                // stranger or out of order died again.
                Some(place) if !stranger_seen && Some(place) >= furthest => furthest = Some(place),
                Some(_) => {
                    ask.insert(*pid);
                }
                None => {
                    stranger_seen = true;
                    ask.insert(*pid);
                }
            }
        }
        ask.extend(self.tracked.keys().filter(|pid| listed.contains(pid)));
        // The youngest dead row that is still itself vouches for all older ones: a list alone cannot
        // tell a dead row from a live one that took its place after a clear.
        for dead in last.dead.iter().rev().filter(|dead| listed.contains(&dead.row.pid)) {
            match answers.get(&dead.row.pid) {
                Some(Answer::Row(row)) if dead.is(row) && dead.row.start.is_some() => break,
                Some(_) => {}
                None => {
                    ask.insert(dead.row.pid);
                    break;
                }
            }
        }
        ask.into_iter().filter(unasked).collect()
    }

    /// Takes in one read.
    pub fn observe(&mut self, read: &GpuRead) -> Observation {
        let mut out = Observation::default();
        self.begun.get_or_insert(read.window.began);
        self.exits = match (self.exits, read.touching_exits) {
            (Some(before), Some(more)) => before.checked_add(more),
            _ => None,
        };
        match &read.content {
            ReadContent::Listed(listing) => {
                // A row that could not be read may be anybody's: such a list shows nobody's GPU.
                if !matches!(self.epoch, Epoch::On) && listing.unanswered().is_none() {
                    self.epoch_begins(read.window, &mut out);
                }
                self.settle(listing, read.window, &mut out);
            }
            ReadContent::AccountingOff => {
                out.unknowns.push(self.unknown(UnknownReason::AccountingModeDisabled));
                self.epoch_ends(read.window, GapCause::AccountingOff, &mut out);
            }
            ReadContent::ModeChanged { on } => {
                out.unknowns.push(self.unknown(UnknownReason::AccountingModeChangedDuringRead));
                // On → off or off → on within one read: live rows were thrown away either way.
                self.epoch_ends(read.window, GapCause::AccountingOff, &mut out);
                if *on {
                    self.epoch_begins(read.window, &mut out);
                }
            }
            ReadContent::Failed(unknown) => {
                out.unknowns.push(unknown.clone());
                if matches!(
                    unknown.reason,
                    UnknownReason::GpuLost | UnknownReason::GpuResetRequired
                ) {
                    self.epoch_ends(read.window, GapCause::EpochBroken, &mut out);
                }
            }
        }
        out
    }

    /// What must still be said when no further read comes: what is in doubt is lost, and a time
    /// without accounting ends here, unseen.
    #[must_use]
    pub fn in_doubt(&self, at: Stamp) -> Vec<Finding> {
        let mut findings = Vec::new();
        for tracked in self.tracked.values() {
            let gone = tracked.gone.map(|doubt| doubt.cause);
            if let Some(cause) = tracked.in_doubt.or(gone) {
                let row = tracked.open.clone();
                findings.push(Finding::OpenLost { row, cause, ended_before: None });
            }
        }
        let gaps =
            self.doubtful().each().map(|(cause, from, rows)| self.gap(cause, from, at, Some(rows)));
        findings.extend(gaps);
        if let Epoch::Off { cause, told } = self.epoch {
            findings.push(self.gap(cause, told, at, None));
        }
        // Where the driver hides its dead rows, any moment may belong to one of them.
        if let (true, Some(begun)) = (self.dead_rows_hidden, self.begun) {
            let cause = cause_of(UnknownReason::DeadRowsHiddenByPidNamespace);
            findings.push(self.gap(cause, begun, at, None));
        }
        findings
    }

    /// The same when none comes: an interval that has no length yet will never have one.
    #[must_use]
    pub fn left(&self, at: Stamp) -> Vec<Finding> {
        let mut left = self.in_doubt(at);
        left.retain(
            |finding| !matches!(finding, Finding::Gap(gap) if gap.from.boot >= gap.to.boot),
        );
        left
    }

    /// Rows that run, hidden ones with the reason for having no start.
    #[must_use]
    pub fn open(&self) -> Vec<OpenRow> {
        let open = self.tracked.values().filter(|tracked| tracked.is_open());
        open.map(|tracked| tracked.open.clone()).collect()
    }

    /// Whether any row runs.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.tracked.values().any(Tracked::is_open)
    }

    /// Which GPU this is the harvest of.
    #[must_use]
    pub const fn gpu(&self) -> &GpuUuid {
        &self.gpu
    }

    /// Dead rows in the store at the last complete list; `None` before one. Rows that died while the list was
    /// read are read with those that they evicted, which can be more together than the store holds.
    #[must_use]
    pub fn dead_rows(&self) -> Option<usize> {
        self.last.as_ref().map(|last| last.dead.len().min(DEAD_ROWS_MAX))
    }

    /// Dead rows in the store at the last list that had not been read before it, those that were there before
    /// anyone looked left out. They are its youngest: one of them is evicted unread when there are more of
    /// them than [`DEAD_ROWS_MAX`].
    #[must_use]
    pub const fn unread_rows(&self) -> usize {
        self.unread_rows
    }

    /// The most dead rows ever seen in the store; at [`DEAD_ROWS_MAX`] every further one evicts the oldest.
    #[must_use]
    pub const fn dead_rows_max(&self) -> usize {
        self.dead_rows_max
    }

    /// Touching exits that brought no row while no dead row was there to prove that nothing was cleared:
    /// processes that were never billable, or rows that somebody threw away unread. A row that comes
    /// late, as most do after an exit, is taken off again, and so is one that is open still.
    #[must_use]
    pub fn exits_unwitnessed(&self) -> u64 {
        let open = self.tracked.values().filter(|tracked| tracked.is_open()).count();
        self.exits_unwitnessed.saturating_sub(u64::try_from(open).unwrap_or(u64::MAX))
    }

    /// Keys remembered so that they are not handed out again.
    #[must_use]
    pub fn booked_keys(&self) -> usize {
        self.booked.len()
    }

    fn epoch_begins(&mut self, window: Window, out: &mut Observation) {
        if let Epoch::Off { cause, told } = self.epoch
            && told.boot < window.ended.boot
        {
            out.findings.push(self.gap(cause, told, window.ended, None));
        }
        self.epoch = Epoch::On;
        out.findings.push(Finding::EpochBegan { at: window.began });
    }

    /// What was not seen since the last complete list is told at once, and ahead of the epoch's end: whoever
    /// keeps what is told may never hear of a later read.
    fn epoch_ends(&mut self, window: Window, cause: GapCause, out: &mut Observation) {
        let seen = self.last.as_ref().map(|last| last.window.began);
        self.epoch = match self.epoch {
            Epoch::On => {
                // A row that is not found since an earlier list goes unnoticed from then on.
                let doubted = self.doubtful().each().map(|(_, since, _)| since);
                let from = doubted.chain(seen).min().unwrap_or(window.began);
                out.findings.push(self.gap(cause, from, window.ended, None));
                out.findings.push(Finding::EpochEnded { at: window.ended, cause });
                Epoch::Off { cause, told: window.ended }
            }
            Epoch::Unseen => {
                let begun = self.begun.unwrap_or(window.began);
                Epoch::Off { cause, told: begun }
            }
            // The first cause stays: a GPU that was lost is off as well when it comes back.
            off @ Epoch::Off { .. } => off,
        };
        for tracked in self.tracked.values_mut() {
            tracked.in_doubt.get_or_insert(cause);
        }
        if let Some(last) = &mut self.last {
            last.off_since = true;
        }
    }

    fn gap(&self, cause: GapCause, from: Stamp, to: Stamp, size: Option<u64>) -> Finding {
        Finding::Gap(Gap { cause, gpu: Some(self.gpu.clone()), from, to, size })
    }

    fn unknown(&self, reason: UnknownReason) -> Unknown {
        Unknown { gpu: Some(self.gpu.clone()), ..Unknown::of(reason) }
    }
}
