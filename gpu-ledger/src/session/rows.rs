//! The side that knows how much: one GPU's rows as the reads bring them, and what the session makes
//! of them.

use std::collections::BTreeMap;

use crate::accounting::busy::SampleLoss;
use crate::accounting::calls::ReadCost;
use crate::accounting::driver::GpuFacts;
use crate::accounting::reading::{Finding, Holder, ListingState, OpenRow};
use crate::accounting::sight::{Look, Sight};
use crate::accounting::worker::{GpuWorker, ReadOutcome, ReadRequest};
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::escape::escape;
use crate::unit::{BootNs, Pid};
use crate::unknown::{GapCause, Observed, Unknown};

/// One GPU in the eyes of the session.
pub(super) struct GpuRows {
    pub(super) facts: GpuFacts,
    worker: GpuWorker,
    /// Rows that run, as of the last read.
    pub(super) open: Vec<OpenRow>,
    /// Who held the device, as of the last time that was asked.
    pub(super) holders: Vec<Holder>,
    /// Holders in whose place no row was found, since when.
    rowless: BTreeMap<Pid, Rowless>,
    /// When this GPU's rows were in sight.
    pub(super) sight: Sight,
    /// Accounting was off at the last read.
    pub(super) accounting_off: bool,
    pub(super) dead_rows_max: Option<usize>,
    /// Exits of processes that had touched this GPU since the last request; `None` after a loss.
    touching_exits: Option<u64>,
    /// The same since the last list was taken in, up to this moment.
    exits_since_list: Option<u64>,
    /// Settled processes that were never seen to open a device: their opens are then not all seen.
    pub(super) rows_untouched: u64,
    /// What reading cost so far.
    pub(super) cost: ReadCost,
    pub(super) reads: u64,
    /// Utilization samples that could not be used.
    pub(super) samples_unused: u64,
    /// Reads in which the processes' samples and the device's own contradicted each other.
    pub(super) busy_disagreements: u64,
    /// When the last read began, whatever came of it.
    last_read_began: Option<BootNs>,
    /// A call hangs: no read will come before it returns.
    stalled: bool,
    /// What the last read could not say.
    pub(super) unknowns: Vec<Unknown>,
}

/// A holder without a row.
#[derive(Clone, Copy)]
struct Rowless {
    since: Stamp,
    /// A second read found no row either: the first had not merely come too early.
    confirmed: bool,
}

impl GpuRows {
    pub(super) fn new(facts: GpuFacts, worker: GpuWorker) -> Self {
        Self {
            sight: Sight::new(facts.uuid.clone()),
            facts,
            worker,
            open: Vec::new(),
            holders: Vec::new(),
            rowless: BTreeMap::new(),
            accounting_off: false,
            dead_rows_max: None,
            touching_exits: Some(0),
            exits_since_list: Some(0),
            rows_untouched: 0,
            cost: ReadCost::default(),
            reads: 0,
            samples_unused: 0,
            busy_disagreements: 0,
            last_read_began: None,
            stalled: false,
            unknowns: Vec::new(),
        }
    }

    pub(super) const fn worker(&self) -> &GpuWorker {
        &self.worker
    }

    /// Whether a read that began after `asked` has come to its end.
    pub(super) fn was_read_after(&self, asked: BootNs) -> bool {
        self.last_read_began.is_some_and(|began| began > asked)
    }

    /// A call hangs: no read will come before it returns.
    pub(super) const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// A call was found to hang.
    pub(super) fn stalls(&mut self) {
        self.stalled = true;
        self.sight.stalls();
    }

    /// Asks for a read.
    pub(super) fn request(&mut self, sweep: bool, processes: bool) {
        let touching_exits = self.touching_exits.replace(0);
        self.worker.request(ReadRequest { sweep, processes, touching_exits });
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

    /// Whether the driver names this minor number for the device file. `true` where it does not say.
    pub(super) fn is_minor(&self, minor: u32) -> bool {
        self.facts.minor.known().is_none_or(|known| *known == minor)
    }

    /// Takes in what stands beside the findings.
    pub(super) fn take(&mut self, outcome: &ReadOutcome) {
        self.sight.take(Look {
            window: outcome.window,
            listing: outcome.listing,
            gaps: self.gaps_of(outcome),
            in_doubt: outcome.in_doubt.clone(),
            exits_unwitnessed: outcome.exits_unwitnessed,
        });
        if outcome.listing == ListingState::Listed {
            self.exits_since_list = Some(0);
        }
        self.cost.add(&outcome.cost);
        self.reads = self.reads.saturating_add(1);
        let SampleLoss { over_full, stale, forgotten, late_collections } = outcome.sample_loss;
        self.samples_unused = [over_full, stale, forgotten, late_collections]
            .into_iter()
            .fold(0, u64::saturating_add);
        let disagrees = u64::from(outcome.disagreement.is_some());
        self.busy_disagreements = self.busy_disagreements.saturating_add(disagrees);
        self.last_read_began = Some(outcome.window.began.boot);
        self.stalled = false;
        self.unknowns.clone_from(&outcome.unknowns);
        self.open.clone_from(&outcome.open);
        if outcome.dead_rows.is_some() {
            self.dead_rows_max = Some(outcome.dead_rows_max);
        }
        self.accounting_off = outcome.listing == ListingState::AccountingOff;
        self.weigh_rowless(outcome);
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
        self.rowless.retain(|pid, _| holders.iter().any(|holder| holder.pid == *pid));
        for holder in holders.iter().filter(|holder| !has_row(holder.pid)) {
            let since = outcome.window.ended;
            let confirmed = self.accounting_off;
            self.rowless.entry(holder.pid).or_insert(Rowless { since, confirmed });
        }
    }

    /// Holders that have no row, with what they hold.
    pub(super) fn rowless(&self) -> impl Iterator<Item = (&Holder, Stamp)> {
        self.holders.iter().filter_map(|holder| {
            let rowless = self.rowless.get(&holder.pid).filter(|rowless| rowless.confirmed)?;
            Some((holder, rowless.since))
        })
    }

    /// Since when a process was seen to hold this GPU without a row.
    pub(super) fn rowless_since(&self, pid: Pid) -> Option<BootNs> {
        self.rowless.get(&pid).filter(|rowless| rowless.confirmed).map(|one| one.since.boot)
    }

    /// The product's name, or that the driver did not say.
    pub(super) fn name(&self) -> String {
        match &self.facts.name {
            Observed::Known(name) => escape(name.as_bytes()).to_string(),
            Observed::Unknown(reason) => format!("name unknown: {reason}"),
        }
    }
}
