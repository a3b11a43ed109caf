//! What had no room: counted, asked for again, and what does not come again is a gap.
//!
//! A row that had no room is as if it had not been read, and the driver, which still has it, is asked for it
//! once more. Until that is done no mark says more of its GPU than was known before: an agent that dies
//! meanwhile leaves a GPU that was out of sight. A row that the driver does not have any more is lost: its GPU
//! was then not seen since the last read of which everything had room.

use std::collections::{BTreeMap, BTreeSet};

use super::Backlog;
use crate::accounting::harvest::Again;
use crate::accounting::{RowKey, Window};
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::host::{GpuRows, Host};
use crate::journal::draft::{Drafter, Pending};
use crate::journal::entry::{Epoch, EpochEdge, Figures, OpenKind};
use crate::unit::{BootNs, GpuUuid, Pid, WallUs};
use crate::unknown::GapCause;

/// Rows that are remembered one by one until they are told again: what the stores of four GPUs can hold. Past
/// it everything of the GPU is asked for again, and how many are lost is not known.
pub const REFUSED_MAX: usize = 16_384;

/// By what something that is told again is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lost {
    /// A row, final or running.
    Row(RowKey),
    /// A row without a start: hidden behind a dead one of its pid, or never given one.
    Startless(GpuUuid, Pid),
    /// A holder without a row.
    Rowless(GpuUuid, Pid),
}

impl Lost {
    /// On which GPU.
    #[must_use]
    pub const fn gpu(&self) -> &GpuUuid {
        match self {
            Self::Row(key) => &key.gpu,
            Self::Startless(gpu, _) | Self::Rowless(gpu, _) => gpu,
        }
    }

    /// What a draft says of a holder, and since when it is known.
    fn of(pending: &Pending) -> Option<(Self, Stamp)> {
        match &pending.draft.figures {
            Figures::Settlement(row) => {
                let lost = row.key().map(Self::Row);
                Some((lost.unwrap_or(Self::Startless(row.gpu.clone(), row.pid)), row.read_at))
            }
            Figures::Open(open) => {
                let (gpu, pid) = (open.gpu.clone(), open.pid);
                let lost = match open.kind {
                    OpenKind::NoDriverRow => Self::Rowless(gpu, pid),
                    OpenKind::Row | OpenKind::Masked => {
                        open.key().map_or(Self::Startless(gpu, pid), Self::Row)
                    }
                };
                Some((lost, open.first_seen.began))
            }
            _ => None,
        }
    }

    /// What the driver's reader is asked for; of who holds a device it is asked anyway.
    const fn row(&self) -> Option<(Pid, Option<WallUs>)> {
        match self {
            Self::Row(key) => Some((key.pid, Some(key.start))),
            Self::Startless(_, pid) => Some((*pid, None)),
            Self::Rowless(..) => None,
        }
    }
}

/// What had no room at once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Refused {
    /// Drafts that are told again.
    pub count: u64,
    /// The notes that they were made of.
    pub notes: Vec<u64>,
    /// Drafts that nobody says a second time: whoever lost one cannot go on.
    pub for_good: u64,
}

/// What is asked again, and the gap that says that it had to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedAgain {
    /// The time in which drafts had no room.
    pub gap: Gap,
    /// Of each GPU what its reader hands out once more.
    pub rows: BTreeMap<GpuUuid, Again>,
}

/// A GPU of which rows had no room.
#[derive(Clone, Copy, Debug)]
struct Losing {
    /// The last read of which everything had.
    kept: Option<Window>,
    /// Since then it was not seen, if a row is lost.
    from: Stamp,
    /// More were refused than are remembered.
    is_beyond: bool,
}

/// How far the loss of drafts was made good.
#[derive(Debug, Default)]
pub struct Overflow {
    state: State,
    /// The first note of which a draft was lost: its process is still needed, and those of all later ones.
    first: Option<u64>,
    /// What had no room and was not told again yet.
    refused: BTreeSet<Lost>,
    losing: BTreeMap<GpuUuid, Losing>,
    /// Of each GPU the last read of which everything had room.
    kept: BTreeMap<GpuUuid, Window>,
    total: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Well,
    /// Drafts have no room.
    Losing { since: Stamp, size: u64 },
    /// The driver was asked again then.
    AskedAgain(BootNs),
    /// Everything that it said is in the backlog; on the disk when this note is.
    Waiting(u64),
}

impl Overflow {
    /// Hands drafts to the backlog: everything that was learnt since this was last called. What has no room is as
    /// if it had not been learnt.
    pub fn keep(
        &mut self,
        drafts: Vec<Pending>,
        backlog: &mut Backlog,
        drafter: &mut Drafter,
        host: &mut Host,
    ) -> Refused {
        let drafts = self.with_gaps_ahead(drafts, drafter, host.now());
        let refused = backlog.offer(drafts, self);
        for pending in refused.iter().rev() {
            drafter.dropped(pending);
        }
        let told = self.refuse(&refused, host);
        for (gpu, rows) in host.gpus() {
            if let Some(good) =
                rows.sight.last_in_sight().filter(|_| !self.losing.contains_key(gpu))
            {
                self.kept.insert(gpu.clone(), good);
            }
        }
        told
    }

    fn refuse(&mut self, refused: &[Pending], host: &mut Host) -> Refused {
        let mut told = Refused::default();
        for pending in refused {
            let Some((lost, seen)) = Lost::of(pending) else {
                told.for_good = told.for_good.saturating_add(1);
                continue;
            };
            told.count = told.count.saturating_add(1);
            told.notes.extend(pending.note);
            self.first = self.first.into_iter().chain(pending.note).min();
            if let Lost::Rowless(gpu, pid) = &lost {
                host.tell_rowless_again(gpu, *pid);
            }
            let kept = self.kept.get(lost.gpu()).copied();
            let from = kept.map_or(host.coverage().start, |window| window.began);
            let new = Losing { kept, from, is_beyond: false };
            let losing = self.losing.entry(lost.gpu().clone()).or_insert(new);
            losing.from = losing.from.min(seen);
            if self.refused.len() < REFUSED_MAX {
                self.refused.insert(lost);
            } else {
                losing.is_beyond |= !self.refused.contains(&lost);
            }
        }
        self.total = self.total.saturating_add(told.count).saturating_add(told.for_good);
        if told.count > 0 {
            let now = host.now();
            self.state = match self.state {
                State::Losing { since, size } => {
                    State::Losing { since, size: size.saturating_add(told.count) }
                }
                _ => State::Losing { since: now, size: told.count },
            };
        }
        told
    }

    /// That a GPU's epoch ended says that it was in sight until then: where rows of it had no room, it was not.
    fn with_gaps_ahead(&self, drafts: Vec<Pending>, drafter: &Drafter, now: Stamp) -> Vec<Pending> {
        if self.losing.is_empty() {
            return drafts;
        }
        let mut with_gaps = Vec::with_capacity(drafts.len());
        for pending in drafts {
            if let Figures::Epoch(Epoch { gpu, at, edge: EpochEdge::Ended { .. } }) =
                &pending.draft.figures
                && let Some(losing) = self.losing.get(gpu)
            {
                let gap = gap_of(gpu, losing.from, *at, None);
                with_gaps.push(drafter.gap(gap, now));
            }
            with_gaps.push(pending);
        }
        with_gaps
    }

    /// This draft had room: what it says was told.
    pub(super) fn had_room(&mut self, pending: &Pending) {
        if self.refused.is_empty() {
            return;
        }
        let Some((told, _)) = Lost::of(pending) else { return };
        if let Lost::Row(key) = &told {
            // It was hidden, or held the device before a row of it was seen.
            self.refused.remove(&Lost::Startless(key.gpu.clone(), key.pid));
            self.refused.remove(&Lost::Rowless(key.gpu.clone(), key.pid));
        }
        self.refused.remove(&told);
    }

    /// A mark says no more of a GPU than what had room.
    pub fn hold_back(&self, mark: &mut Pending) {
        let Figures::Mark(mark) = &mut mark.draft.figures else { return };
        for gpu in &mut mark.gpus {
            if let Some(losing) = self.losing.get(&gpu.gpu) {
                gpu.last_good = losing.kept;
            }
        }
    }

    /// Whether it is time to ask again, as there is room.
    #[must_use]
    pub const fn is_to_ask(&self) -> bool {
        matches!(self.state, State::Losing { .. })
    }

    /// What is to be asked again; `None` where nothing is.
    #[must_use]
    pub fn to_ask(&self, now: Stamp) -> Option<AskedAgain> {
        let State::Losing { since, size } = self.state else { return None };
        let (cause, size) = (GapCause::QueueOverflow, Some(size));
        let gap = Gap { cause, gpu: None, from: since, to: now, size };
        let gpus = self.losing.keys().cloned();
        let mut rows: BTreeMap<GpuUuid, BTreeSet<_>> =
            gpus.map(|gpu| (gpu, BTreeSet::new())).collect();
        for lost in &self.refused {
            rows.entry(lost.gpu().clone()).or_default().extend(lost.row());
        }
        let all = |gpu: &GpuUuid| self.losing.get(gpu).is_some_and(|losing| losing.is_beyond);
        let rows = rows.into_iter().map(|(gpu, rows)| {
            let again = if all(&gpu) { Again::All } else { Again::Rows(rows) };
            (gpu, again)
        });
        Some(AskedAgain { gap, rows: rows.collect() })
    }

    /// It was asked.
    pub const fn asked(&mut self, at: BootNs) {
        self.state = State::AskedAgain(at);
    }

    /// Once every GPU that lost rows was read since it was asked, or cannot be: the drafts that say what is lost
    /// for good. `is_closed`: nobody reads this GPU.
    pub fn settle(
        &mut self,
        drafter: &mut Drafter,
        host: &Host,
        is_closed: impl Fn(&GpuUuid) -> bool,
    ) -> Vec<Pending> {
        let State::AskedAgain(asked) = self.state else { return Vec::new() };
        let told = |rows: &GpuRows| {
            let proof = rows.sight.last_proof();
            rows.keeps_no_rows() || proof.is_some_and(|window| window.began.boot > asked)
        };
        let is_over = |gpu: &GpuUuid| is_closed(gpu) || host.gpus().get(gpu).is_none_or(told);
        if !self.losing.keys().all(is_over) {
            return Vec::new();
        }
        let (now, mut drafts) = (host.now(), Vec::new());
        let refused = std::mem::take(&mut self.refused);
        for (gpu, losing) in std::mem::take(&mut self.losing) {
            let lost = || refused.iter().filter(|lost| *lost.gpu() == gpu);
            let count = u64::try_from(lost().count()).ok().filter(|_| !losing.is_beyond);
            if count != Some(0) {
                drafts.push(drafter.gap(gap_of(&gpu, losing.from, now, count), now));
            }
            let seen = losing.kept.map_or(losing.from, |window| window.ended);
            drafts.extend(lost().filter_map(|lost| drafter.lost(lost, seen, host)));
        }
        self.state = State::Waiting(host.last_note());
        drafts
    }

    /// Up to which note everything is on the disk, when the writer says `number`.
    pub fn acknowledged(&mut self, number: u64) -> u64 {
        if let State::Waiting(until) = self.state
            && number >= until
        {
            (self.state, self.first) = (State::Well, None);
        }
        match self.first {
            Some(first) => number.min(first.saturating_sub(1)),
            None => number,
        }
    }

    /// Whether nothing is to be made good.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        matches!(self.state, State::Well)
    }

    /// Drafts that had no room, since ever.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}

fn gap_of(gpu: &GpuUuid, from: Stamp, to: Stamp, size: Option<u64>) -> Gap {
    Gap { cause: GapCause::QueueOverflow, gpu: Some(gpu.clone()), from, to, size }
}
