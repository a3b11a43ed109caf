//! What entries say together: what must hold between them, and what of the period is not known.
//!
//! Entries beside the range come first, each by itself; then those of the range, in which everything follows.

use std::collections::{BTreeMap, BTreeSet};

use super::period::{Moment, Period, us};
use super::unknown::{Unknowns, What};
use super::verdict::{GAPS_TOLD_MAX, GapTold};
use crate::coverage::Gap;
use crate::journal::Digest;
use crate::journal::entry::{
    Change, Correction, CoverageEdge, Epoch, EpochEdge, Figures, Mark, SettlementFigures,
};
use crate::settlement::Account;
use crate::unit::{GpuUuid, WallUs};

/// What was ever booked of one GPU: settlements, and their milliseconds.
pub(super) type Booked = (u64, u128);

/// What the range begins with.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Opening {
    pub(super) booked: BTreeMap<GpuUuid, Booked>,
    pub(super) unresolved: Vec<u64>,
}

/// A booking key, hashed, and the entry that books under it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct BookedKey {
    /// 128 bits of its SHA-256.
    pub(super) key: [u8; 16],
    seq: [u8; 8],
}

impl BookedKey {
    pub(super) fn of(digest: Digest, seq: u64) -> Self {
        let key = digest.0.first_chunk().copied().unwrap_or_default();
        Self { key, seq: seq.to_be_bytes() }
    }

    const fn bucket(self) -> u8 {
        let [first, ..] = self.key;
        first
    }

    const fn seq(self) -> u64 {
        u64::from_be_bytes(self.seq)
    }
}

/// The sums so far.
#[derive(Debug)]
pub(super) struct Books {
    period: Period,
    booked: BTreeMap<GpuUuid, Booked>,
    /// Open entries of which nothing says that they are over, with when they were first seen where that is known.
    open: BTreeMap<u64, Option<WallUs>>,
    /// Open entries beside the range.
    elsewhere: BTreeMap<u64, WallUs>,
    /// What entries beside the range say is over.
    over: BTreeSet<u64>,
    keys: Vec<Vec<BookedKey>>,
    unknowns: Unknowns,
    agent_began: Option<WallUs>,
    gpus: BTreeMap<GpuUuid, Seen>,
    marked: Option<WallUs>,
    /// Settlements that touch the period, and their milliseconds.
    pub(super) settlements: u64,
    pub(super) held_ms: u128,
    pub(super) gaps: Vec<GapTold>,
    pub(super) gaps_total: u64,
}

/// From when to when a GPU is shown to have been in sight.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    from: Option<WallUs>,
    to: Option<WallUs>,
}

/// Where an entry stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stands {
    /// In the range.
    Near,
    /// Beside it.
    Beside,
}

impl Stands {
    /// The file it is in.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Near => "entries.jsonl",
            Self::Beside => "context.jsonl",
        }
    }
}

impl Books {
    pub(super) fn new(period: Period) -> Self {
        Self {
            period,
            booked: BTreeMap::new(),
            open: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            over: BTreeSet::new(),
            // One a first byte: none of them ever grows by much at once.
            keys: vec![Vec::new(); 256],
            unknowns: Unknowns::default(),
            agent_began: None,
            gpus: BTreeMap::new(),
            marked: None,
            settlements: 0,
            held_ms: 0,
            gaps: Vec::new(),
            gaps_total: 0,
        }
    }

    /// What the range begins with; what stands beside it was taken before.
    pub(super) fn open_range(&mut self, opening: Opening) {
        self.booked = opening.booked;
        let seen = |seq| (seq, self.elsewhere.get(&seq).copied());
        self.open = opening.unresolved.into_iter().map(seen).collect();
    }

    /// Takes the next entry; what it contradicts goes to `told`.
    pub(super) fn take(
        &mut self,
        (seq, figures): (u64, &Figures),
        stands: Stands,
        mut told: impl FnMut(&'static str),
    ) {
        match figures {
            Figures::Settlement(settlement) => self.settlement(settlement, stands, told),
            Figures::Open(open) => {
                let first_seen = open.first_seen.began.wall;
                match stands {
                    Stands::Near => drop(self.open.insert(seq, Some(first_seen))),
                    Stands::Beside => drop(self.elsewhere.insert(seq, first_seen)),
                }
            }
            Figures::Correction(correction) => self.correction(correction, stands, told),
            Figures::Conflict(_) => self.unknowns.add(What::Conflict, None),
            Figures::Gap(gap) => self.gap(seq, gap),
            Figures::Epoch(Epoch { gpu, at, edge: EpochEdge::Began { .. } }) => {
                earliest(&mut self.gpus.entry(gpu.clone()).or_default().from, at.wall);
            }
            Figures::Coverage(CoverageEdge::Began { at, .. }) => {
                earliest(&mut self.agent_began, at.wall);
            }
            Figures::Mark(mark) => {
                let is_listed = mark.unresolved.iter().eq(self.open.keys());
                if stands == Stands::Near && !is_listed {
                    told("lists other open entries than the entries before it leave open");
                }
                self.mark(mark);
            }
            Figures::Memory(stretch) => {
                let touches = self.period.touches(us(stretch.from), us(stretch.to));
                if !stretch.voids.is_empty() && touches {
                    self.unknowns.add(What::MemoryVoid, None);
                }
            }
            Figures::Epoch(_) | Figures::Coverage(_) | Figures::Key(_) | Figures::Closed(_) => {}
        }
    }

    fn settlement(
        &mut self,
        settlement: &SettlementFigures,
        stands: Stands,
        mut told: impl FnMut(&'static str),
    ) {
        self.touching(settlement);
        if stands == Stands::Beside {
            self.over.extend(settlement.opened);
            return;
        }
        if !self.is_summed(settlement) {
            told("the sums that it carries are not those of the entries before it");
        }
        if settlement.opened.is_some_and(|opened| self.open.remove(&opened).is_none()) {
            told("replaces an entry that is not open");
        }
    }

    fn touching(&mut self, settlement: &SettlementFigures) {
        let held_ms = settlement.held.0;
        let (begin, length) = match settlement.start {
            Some(start) => (us(start), u128::from(held_ms).saturating_mul(1_000)),
            None => (us(settlement.read_at.wall), 0),
        };
        if !self.period.touches(begin, begin.saturating_add(length)) {
            return;
        }
        self.settlements = self.settlements.saturating_add(1);
        self.held_ms = self.held_ms.saturating_add(held_ms.into());
        if let Account::Unattributed(reason) = settlement.account {
            self.unknowns.add_held(What::Unattributed, reason.as_str(), held_ms);
        }
        if let Some(reason) = settlement.dispute {
            self.unknowns.add_held(What::Disputed, reason.as_str(), held_ms);
        }
    }

    /// Whether what it carries continues what came before; from here on, what it says stands.
    fn is_summed(&mut self, settlement: &SettlementFigures) -> bool {
        let said = (settlement.booked.count, settlement.booked.held_ms);
        let held_ms = u128::from(settlement.held.0);
        if let Some(before) = self.booked.get_mut(&settlement.gpu) {
            let sum = (before.0.saturating_add(1), before.1.saturating_add(held_ms));
            *before = said;
            return said == sum;
        }
        self.booked.insert(settlement.gpu.clone(), said);
        said == (1, held_ms)
    }

    fn correction(
        &mut self,
        correction: &Correction,
        stands: Stands,
        mut told: impl FnMut(&'static str),
    ) {
        let Change::Ended { last_seen, cause } = &correction.change else { return };
        let first_seen = match stands {
            Stands::Near => match self.open.remove(&correction.of) {
                Some(first_seen) => first_seen,
                None => return told("ends an entry that is not open"),
            },
            Stands::Beside => {
                self.over.insert(correction.of);
                self.elsewhere.get(&correction.of).copied()
            }
        };
        let begin = first_seen.map_or(0, us);
        if self.period.touches(begin, us(last_seen.wall).max(begin)) {
            match cause {
                Some(cause) => self.unknowns.add(What::Lost, Some(cause.as_str())),
                None => self.unknowns.add(What::EndedUnbooked, None),
            }
        }
    }

    fn gap(&mut self, seq: u64, gap: &Gap) {
        let (from, to) = (us(gap.from.wall), us(gap.to.wall));
        if !self.period.touches(from, to.max(from)) {
            return;
        }
        self.gaps_total = self.gaps_total.saturating_add(1);
        if self.gaps.len() < GAPS_TOLD_MAX {
            self.gaps.push(GapTold {
                seq,
                cause: gap.cause.as_str(),
                gpu: gap.gpu.as_ref().map(ToString::to_string),
                from: Moment::of(gap.from.wall),
                to: Moment::of(gap.to.wall),
                size: gap.size,
            });
        }
    }

    fn mark(&mut self, mark: &Mark) {
        latest(&mut self.marked, mark.processes_until.wall);
        for gpu in &mark.gpus {
            let seen = self.gpus.entry(gpu.gpu.clone()).or_default();
            let is_doubted =
                gpu.doubted_since.is_some_and(|doubted| us(doubted.wall) < self.period.until);
            if let (Some(good), false) = (gpu.last_good, is_doubted) {
                latest(&mut seen.to, good.ended.wall);
            }
        }
    }

    /// So many keys were lost.
    pub(super) fn lose_keys(&mut self, lost: u64) {
        (0..lost).for_each(|_| self.unknowns.add(What::KeyLost, None));
    }

    /// A settlement's booking key.
    pub(super) fn book(&mut self, key: BookedKey) {
        if let Some(keys) = self.keys.get_mut(usize::from(key.bucket())) {
            keys.push(key);
        }
    }

    /// What is not known at the period's edges, and entries that book a row which is booked already.
    pub(super) fn end(&mut self) -> Vec<u64> {
        for (seq, first_seen) in std::mem::take(&mut self.open) {
            match first_seen {
                None => self.unknowns.add(What::NoContext, None),
                Some(seen) if us(seen) < self.period.until && !self.over.contains(&seq) => {
                    self.unknowns.add(What::Open, None);
                }
                Some(_) => {}
            }
        }
        let agent = Seen { from: self.agent_began, to: self.marked };
        self.edges(None, agent);
        for (gpu, seen) in std::mem::take(&mut self.gpus) {
            self.edges(Some(&gpu.0), seen);
        }
        self.twice()
    }

    fn edges(&mut self, about: Option<&str>, seen: Seen) {
        // A period since ever is one from where the journal begins.
        let is_from_ever = self.period.since == 0;
        if seen.from.is_none_or(|from| us(from) > self.period.since && !is_from_ever) {
            self.unknowns.add(What::NotSeenFromBeginning, about);
        }
        if seen.to.is_none_or(|to| us(to) < self.period.until) {
            self.unknowns.add(What::NotSeenToEnd, about);
        }
    }

    fn twice(&mut self) -> Vec<u64> {
        let mut twice = Vec::new();
        for keys in &mut self.keys {
            keys.sort_unstable();
            let pairs = keys.iter().zip(keys.iter().skip(1));
            twice.extend(
                pairs.filter(|(one, next)| one.key == next.key).map(|(_, next)| next.seq()),
            );
        }
        twice.sort_unstable();
        twice
    }

    /// What is not known.
    pub(super) fn unknown(&self) -> Vec<super::verdict::UnknownTold> {
        self.unknowns.told()
    }
}

fn earliest(known: &mut Option<WallUs>, at: WallUs) {
    *known = Some(known.map_or(at, |known| known.min(at)));
}

fn latest(known: &mut Option<WallUs>, at: WallUs) {
    *known = Some(known.map_or(at, |known| known.max(at)));
}
