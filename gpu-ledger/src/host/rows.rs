//! The side that knows how much: one GPU's rows as the reads bring them, and what is made of them.

use std::collections::{BTreeMap, BTreeSet};

use super::gaps;
use super::margin::Margin;
use crate::accounting::busy::SampleLoss;
use crate::accounting::calls::ReadCost;
use crate::accounting::driver::GpuFacts;
use crate::accounting::reading::{Finding, Holder, ListingState, OpenRow};
use crate::accounting::schedule::Awaited;
use crate::accounting::sight::{Look, Sight};
use crate::accounting::worker::{ReadOutcome, ReadRequest};
use crate::attribution::Kind;
use crate::attribution::rules::HostGpu;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::escape::escape;
use crate::kernel::ProcessKey;
use crate::unit::{BootNs, Pid};
use crate::unknown::{GapCause, Observed, Unknown, UnknownReason};

/// One GPU as its reads show it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct GpuRows {
    /// What the driver says of it.
    pub facts: GpuFacts,
    /// Rows that run, as of the last read.
    pub open: Vec<OpenRow>,
    /// Pids of the rows that ran at the last read that proves which there are. Some of them may be in doubt
    /// since, and turn up final all the same.
    pub(super) open_at_proof: BTreeSet<Pid>,
    /// Rows that ran, and of which reads say nothing any more: neither open, nor final, nor lost for good.
    pub out_of_sight: Vec<OpenRow>,
    /// Who held the device, as of the last time that was asked.
    pub holders: Vec<Holder>,
    /// In which of the driver's lists holders were seen, until their rows are booked.
    kinds: BTreeMap<Pid, Kind>,
    /// Holders in whose place no row was found, since when.
    rowless: BTreeMap<Pid, Rowless>,
    /// Those of them that were told.
    pub(super) rowless_told: BTreeMap<Pid, RowlessTold>,
    /// When this GPU's rows were in sight, and what may have been lost while they were not.
    pub sight: Sight,
    /// Accounting was off at the last read.
    pub accounting_off: bool,
    /// Most dead rows seen in one list; `None` before one.
    pub dead_rows_max: Option<usize>,
    /// Dead rows in the last list; `None` before one.
    pub dead_rows: Option<usize>,
    margin: Margin,
    /// Who holds the device was asked, and answered.
    holders_answered: bool,
    /// Exits of processes that had touched this GPU since the last request; `None` after a loss.
    touching_exits: Option<u64>,
    /// The same since the last list was taken in, up to this moment.
    exits_since_list: Option<u64>,
    /// Settled processes that were never seen to open a device: their opens are then not all seen.
    pub rows_untouched: u64,
    /// What reading cost so far.
    pub cost: ReadCost,
    /// Reads so far.
    pub reads: u64,
    /// Utilization samples that could not be used.
    pub samples_unused: u64,
    /// Reads in which the processes' samples and the device's own contradicted each other.
    pub busy_disagreements: u64,
    /// When the last read began that asked who holds the GPU, or failed.
    full_read_began: Option<BootNs>,
    /// A call hangs: no read will come before it returns.
    stalled: bool,
    /// What the last read could not say.
    pub unknowns: Vec<Unknown>,
    reach: Reach,
    /// The read that is wanted.
    wanted: Option<ReadRequest>,
    /// The pace at which it is to be read.
    pub(super) pace: Option<Awaited>,
    /// The pace that was last told.
    pub(super) pace_told: Option<Awaited>,
    /// When it was last asked who holds the device.
    pub(super) holders_asked: Option<BootNs>,
    /// What an earlier run left open was compared with a list.
    pub(super) journal_compared: bool,
}

/// Whether anybody holds it open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    Open,
    /// Its handles were given back then.
    GivenBack(Stamp),
    /// They were, and it was opened again; no list has come since.
    FoundAgain(Stamp),
}

/// A holder without a row.
#[derive(Clone, Copy, Debug)]
struct Rowless {
    since: Stamp,
    /// The end of the read that showed it last.
    last_seen: Stamp,
    /// A second read found no row either: the first had not merely come too early.
    confirmed: bool,
}

/// A holder without a row that was told.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowlessTold {
    pub(super) since: Stamp,
    pub(super) last_seen: Stamp,
    pub(super) key: Option<ProcessKey>,
}

impl GpuRows {
    pub(super) fn new(facts: GpuFacts) -> Self {
        Self {
            sight: Sight::new(facts.uuid.clone()),
            facts,
            open: Vec::new(),
            open_at_proof: BTreeSet::new(),
            out_of_sight: Vec::new(),
            holders: Vec::new(),
            kinds: BTreeMap::new(),
            rowless: BTreeMap::new(),
            rowless_told: BTreeMap::new(),
            accounting_off: false,
            dead_rows_max: None,
            dead_rows: None,
            margin: Margin::default(),
            holders_answered: false,
            touching_exits: Some(0),
            exits_since_list: Some(0),
            rows_untouched: 0,
            cost: ReadCost::default(),
            reads: 0,
            samples_unused: 0,
            busy_disagreements: 0,
            full_read_began: None,
            stalled: false,
            unknowns: Vec::new(),
            reach: Reach::Open,
            wanted: None,
            pace: None,
            pace_told: None,
            holders_asked: None,
            journal_compared: false,
        }
    }

    /// Whether a read that began after `asked` has come to its end, and asked who holds the GPU as well. A
    /// worker reads by itself too: such a read may begin between `asked` and the asking, and says nothing
    /// of holders.
    #[must_use]
    pub fn was_read_after(&self, asked: BootNs) -> bool {
        self.full_read_began.is_some_and(|began| began > asked)
    }

    /// A call hangs: no read will come before it returns.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether the last read said that no row will come of this GPU until somebody changes that: accounting is
    /// off or cannot be had, or the GPU is lost.
    #[must_use]
    pub fn keeps_no_rows(&self) -> bool {
        let for_now = |unknown: &Unknown| keeps_no_rows(unknown.reason);
        self.accounting_off || self.unknowns.iter().any(for_now)
    }

    /// A call was found to hang: what it would have told is not known, from now on.
    pub(super) fn stalls(&mut self, unknown: Unknown) {
        self.stalled = true;
        if !self.unknowns.contains(&unknown) {
            self.unknowns.push(unknown);
        }
        self.sight.stalls();
    }

    /// Wants a read.
    pub(super) fn request(&mut self, sweep: bool, processes: bool) {
        let before = self.wanted.unwrap_or(ReadRequest {
            sweep: false,
            processes: false,
            touching_exits: Some(0),
        });
        let touching_exits = self.touching_exits.replace(0).zip(before.touching_exits);
        self.wanted = Some(ReadRequest {
            sweep: sweep || before.sweep,
            processes: processes || before.processes,
            touching_exits: touching_exits.and_then(|(new, old)| new.checked_add(old)),
        });
    }

    pub(super) const fn take_wanted(&mut self) -> Option<ReadRequest> {
        self.wanted.take()
    }

    /// An exit that this GPU's driver may have written a row about.
    pub(super) fn exit_touched(&mut self) {
        self.touching_exits = self.touching_exits.and_then(|count| count.checked_add(1));
        self.exits_since_list = self.exits_since_list.and_then(|count| count.checked_add(1));
    }

    /// Events were lost: how many exits there were is not known.
    pub(super) const fn exits_lost(&mut self) {
        self.touching_exits = None;
        self.exits_since_list = None;
    }

    /// The gaps that a read brought. How many rows may have been evicted is counted here, when every
    /// exit up to the read's end was drained: a read that was held up, or a reader, was asked for
    /// before most of them.
    fn gaps_of(&self, outcome: &ReadOutcome) -> Vec<Gap> {
        let gaps = outcome.findings.iter().filter_map(|finding| match finding {
            Finding::Gap(gap) => Some(gap.clone()),
            _ => None,
        });
        let rows = outcome.findings.iter().filter(|finding| super::row_of(finding).is_some());
        let rows = u64::try_from(rows.count()).unwrap_or(u64::MAX);
        // A row that is counted by its key, or is in doubt, is not counted by its exit as well.
        let by_key = gaps.clone().filter(|gap| gap.cause != GapCause::RowsPossiblyEvicted);
        let by_key = by_key.chain(outcome.in_doubt.iter().cloned()).filter_map(|gap| gap.size);
        let rows = by_key.fold(rows, u64::saturating_add);
        let lost = self.exits_since_list.map(|exits| exits.saturating_sub(rows));
        let sized = gaps.map(|gap| match gap.cause {
            GapCause::RowsPossiblyEvicted => Gap { size: gap.size.and(lost), ..gap },
            _ => gap,
        });
        sized.collect()
    }

    /// How many more dead rows the driver could have taken before it evicted one that was not read, when it
    /// came closest to that in the last [`super::MARGIN_WINDOW_NS`]; `None` before the first list. Exits seen since
    /// the last list may each have left a row, where it is known which processes touched the GPU, and `None` where
    /// nobody can say how many there were; elsewhere lists alone can say.
    #[must_use]
    pub fn eviction_margin_rows(&self, touches_watched: bool) -> Option<u64> {
        let is_counted = touches_watched && self.rows_untouched == 0;
        let died_since = if is_counted { self.exits_since_list? } else { 0 };
        self.margin.rows(died_since)
    }

    /// Whether the driver names this minor number for the device file. `true` where it does not say.
    pub(super) fn is_minor(&self, minor: u32) -> bool {
        self.facts.minor.known().is_none_or(|known| *known == minor)
    }

    /// Takes in what stands beside the findings; returns the gaps that end with this read, in order, and
    /// how many older ones were merged under their bound.
    pub(super) fn take(&mut self, outcome: &ReadOutcome) -> (Vec<Gap>, u64) {
        let mut ended = self.gaps_of(outcome);
        let is_good = !matches!(outcome.listing, ListingState::Missing(_));
        if is_good && let Some(gap) = self.end_release(outcome.window.ended) {
            ended.insert(0, gap);
        }
        self.sight.take(Look {
            window: outcome.window,
            listing: outcome.listing,
            is_empty_in_doubt: outcome.cannot_say(UnknownReason::EmptyAccountedList),
            gaps: ended.clone(),
            in_doubt: outcome.in_doubt.clone(),
            exits_unwitnessed: outcome.exits_unwitnessed,
        });
        let merged = gaps::bound(self.sight.found_mut(), 0);
        if outcome.listing == ListingState::Listed {
            self.exits_since_list = Some(0);
            self.margin.take(outcome.window.began.boot, outcome.unread_rows);
        }
        self.cost.add(&outcome.cost);
        self.reads = self.reads.saturating_add(1);
        let SampleLoss { over_full, stale, forgotten, late_collections } = outcome.sample_loss;
        self.samples_unused = [over_full, stale, forgotten, late_collections]
            .into_iter()
            .fold(0, u64::saturating_add);
        let disagrees = u64::from(outcome.disagreement.is_some());
        self.busy_disagreements = self.busy_disagreements.saturating_add(disagrees);
        // A read that failed has no holders to tell either.
        if outcome.holders.is_some() || !is_good {
            self.full_read_began = Some(outcome.window.began.boot);
        }
        self.stalled = false;
        self.unknowns.clone_from(&outcome.unknowns);
        self.keep_out_of_sight(outcome);
        self.open.clone_from(&outcome.open);
        if self.sight.last_proof() == Some(outcome.window) {
            self.open_at_proof = outcome.open.iter().map(|row| row.pid).collect();
        }
        if outcome.dead_rows.is_some() {
            self.dead_rows_max = Some(outcome.dead_rows_max);
            self.dead_rows = outcome.dead_rows;
        }
        self.accounting_off = outcome.listing == ListingState::AccountingOff;
        self.weigh_rowless(outcome);
        (ended, merged)
    }

    /// Keeps what was seen to run until a read says what became of it, or a list that can be believed
    /// comes: what that does not say, no later one will.
    fn keep_out_of_sight(&mut self, outcome: &ReadOutcome) {
        if outcome.listing == ListingState::Listed {
            self.out_of_sight.clear();
            return;
        }
        let same = |a: &OpenRow, b: &OpenRow| a.pid == b.pid && a.start == b.start;
        let told = |row: &OpenRow| {
            outcome.findings.iter().any(|finding| match finding {
                Finding::OpenLost { row: lost, .. } => same(lost, row),
                // One that was hidden behind a dead row becomes final with a start.
                other => super::row_of(other).is_some_and(|found| {
                    let found = &found.row;
                    found.pid == row.pid && (row.start.is_none() || found.start == row.start)
                }),
            })
        };
        let runs = |row: &OpenRow| {
            let mut open = outcome.open.iter();
            open.any(|now| same(now, row) || (now.pid == row.pid && row.start.is_none()))
        };
        let seen = std::mem::take(&mut self.out_of_sight).into_iter();
        let seen = seen.chain(std::mem::take(&mut self.open));
        self.out_of_sight = seen.filter(|row| !told(row) && !runs(row)).collect();
    }

    /// The time without handles ends: from the last read that showed anything.
    pub(super) fn end_release(&mut self, to: Stamp) -> Option<Gap> {
        let released = self.released()?;
        self.reach = Reach::Open;
        let from = self.sight.last_good().map_or(released, |window| window.began);
        let gpu = Some(self.facts.uuid.clone());
        Some(Gap { cause: GapCause::Released, gpu, from, to, size: None })
    }

    /// Since when its handles are given back, as long as no list has come again.
    #[must_use]
    pub const fn released(&self) -> Option<Stamp> {
        match self.reach {
            Reach::Open => None,
            Reach::GivenBack(since) | Reach::FoundAgain(since) => Some(since),
        }
    }

    /// A holder has no row if two reads in turn show none: after the first it may merely have been
    /// opened between the two lists.
    fn weigh_rowless(&mut self, outcome: &ReadOutcome) {
        let has_row = |pid: Pid| {
            let in_findings = || outcome.findings.iter().filter_map(super::row_of);
            outcome.open.iter().any(|row| row.pid == pid)
                || in_findings().any(|found| found.row.pid == pid)
        };
        let listed_rows = outcome.listing == ListingState::Listed;
        self.rowless.retain(|pid, one| one.confirmed || !listed_rows || !has_row(*pid));
        if listed_rows || self.accounting_off {
            for one in self.rowless.values_mut() {
                one.confirmed = true;
            }
        }
        let Some(holders) = &outcome.holders else { return };
        self.holders.clone_from(holders);
        self.kinds.retain(|pid, _| has_row(*pid));
        for holder in holders {
            let kind = self.kinds.entry(holder.pid).or_default();
            *kind = kind.and(Kind::seen(holder.compute || holder.mps, holder.graphics));
        }
        self.holders_answered = true;
        self.rowless.retain(|pid, _| holders.iter().any(|holder| holder.pid == *pid));
        for holder in holders.iter().filter(|holder| !has_row(holder.pid)) {
            let at = outcome.window.ended;
            let first = Rowless { since: at, last_seen: at, confirmed: self.accounting_off };
            self.rowless.entry(holder.pid).or_insert(first).last_seen = at;
        }
    }

    /// Another process bears the pid now: what is known of its holding begins here.
    pub(super) fn restart_rowless(&mut self, pid: Pid, since: Stamp) {
        if let Some(one) = self.rowless.get_mut(&pid) {
            one.since = since;
        }
    }

    /// The end of the read that last showed a holder without a row.
    pub(super) fn rowless_last_seen(&self, pid: Pid) -> Option<Stamp> {
        self.rowless.get(&pid).map(|one| one.last_seen)
    }

    /// Holders that have no row, with what they hold, and since when that is known.
    pub fn rowless(&self) -> impl Iterator<Item = (&Holder, Stamp)> {
        self.holders.iter().filter_map(|holder| {
            let rowless = self.rowless.get(&holder.pid).filter(|rowless| rowless.confirmed)?;
            Some((holder, rowless.since))
        })
    }

    /// A list has come, and what an earlier run left open was compared with it.
    #[must_use]
    pub const fn journal_compared(&self) -> bool {
        self.journal_compared
    }

    /// Who held the device when that was last answered; `None` before the first answer.
    #[must_use]
    pub fn holders_known(&self) -> Option<&[Holder]> {
        self.holders_answered.then_some(self.holders.as_slice())
    }

    /// What a process was seen to hold this GPU for.
    pub(super) fn kind_of(&self, pid: Pid) -> Kind {
        // In no list yet: unknown, which is what its default is.
        self.kinds.get(&pid).copied().unwrap_or_default()
    }

    /// A sample of memory lists who holds it, too.
    pub(super) fn note_kind(&mut self, pid: Pid, is_compute: bool, is_graphics: bool) {
        let kind = self.kinds.entry(pid).or_default();
        *kind = kind.and(Kind::seen(is_compute, is_graphics));
    }

    /// The row is booked: whoever bears the pid next has not been seen yet.
    pub(super) fn forget_kind(&mut self, pid: Pid) {
        self.kinds.remove(&pid);
    }

    /// Since when a process was seen to hold this GPU without a row.
    pub(super) fn rowless_since(&self, pid: Pid) -> Option<BootNs> {
        self.rowless.get(&pid).filter(|rowless| rowless.confirmed).map(|one| one.since.boot)
    }

    /// The product's name, or that the driver did not say.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.facts.name {
            Observed::Known(name) => escape(name.as_bytes()).to_string(),
            Observed::Unknown(reason) => format!("name unknown: {reason}"),
        }
    }

    /// As rules look at it.
    #[must_use]
    pub fn for_rules(&self) -> HostGpu<'_> {
        HostGpu {
            uuid: &self.facts.uuid,
            index: self.facts.index,
            name: self.facts.name.known().map(|name| &**name),
        }
    }

    /// Its handles were given back: what is wanted of it waits.
    pub(super) fn given_back(&mut self, at: Stamp) {
        self.reach = Reach::GivenBack(self.released().unwrap_or(at));
        self.stalled = false;
        // Nobody waits for that call any more.
        self.unknowns.retain(|unknown| unknown.reason != UnknownReason::NvmlCallTimeout);
    }

    /// It was opened again: everything is asked for.
    pub(super) fn regained(&mut self, facts: GpuFacts) {
        self.facts = facts;
        self.pace_told = None;
        if let Reach::GivenBack(since) = self.reach {
            self.reach = Reach::FoundAgain(since);
        }
        self.request(true, true);
    }

    /// Whether nobody can read it now.
    pub(super) const fn is_out_of_reach(&self) -> bool {
        matches!(self.reach, Reach::GivenBack(_))
    }

    /// What was read so far belongs to no period: the watching of this GPU begins with its last read.
    pub(super) fn begin_anew(&mut self) {
        self.sight.begin_anew();
    }
}

/// Whether a read that failed for this reason says that rows cannot come for a while: what lasts no longer
/// than a call, or may have come of a driver that is just starting, is waited for.
const fn keeps_no_rows(reason: UnknownReason) -> bool {
    matches!(
        reason,
        UnknownReason::AccountingModeDisabled
            | UnknownReason::AccountingUnavailableMig
            | UnknownReason::AccountingUnavailableVgpuHost
            | UnknownReason::AccountingNotSupported
            | UnknownReason::AccountingNotSupportedOrDisabled
            | UnknownReason::GpuLost
            | UnknownReason::GpuResetRequired
    )
}
