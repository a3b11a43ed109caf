//! The thread that reads one GPU, made synchronous: the harvest and the schedule are the product's own,
//! and while a call runs the machine goes on.

use std::collections::BTreeMap;

use gpu_ledger::accounting::busy::SampleLoss;
use gpu_ledger::accounting::calls::{ReadCost, timed_out};
use gpu_ledger::accounting::driver::Stall;
use gpu_ledger::accounting::harvest::Harvest;
use gpu_ledger::accounting::reading::{
    Answer, Finding, GpuRead, Holder, Listing, ListingState, ReadContent,
};
use gpu_ledger::accounting::schedule::{Awaited, Schedule};
use gpu_ledger::accounting::worker::{ReadOutcome, ReadRequest};
use gpu_ledger::accounting::{Row, UtilizationSums, Window};
use gpu_ledger::clock::Stamp;
use gpu_ledger::coverage::Gap;
use gpu_ledger::unit::{Bytes, GpuUuid, Ms, Pid, WallUs};
use gpu_ledger::unknown::{GapCause, Observed, Unknown, UnknownReason};
use nvsim::model::{Stats, View};

use super::bugs::Bug;
use super::tally::Kind;
use super::truth::At;
use super::world::{Fault, World};

const MODE: &str = "nvmlDeviceGetAccountingMode";
const LIST: &str = "nvmlDeviceGetAccountingPids";
const STATS: &str = "nvmlDeviceGetAccountingStats";

/// A read whose first call has not returned.
#[derive(Clone, Debug)]
struct Hanging {
    since: Stamp,
    request: Option<ReadRequest>,
    sweep: bool,
}

/// What the driver was found to be like, for the checks.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub(crate) card: usize,
    pub(crate) began: At,
    pub(crate) ended: At,
    pub(crate) listing: ListingState,
    pub(crate) dead_rows: Option<usize>,
}

/// The reader of one GPU.
#[derive(Debug)]
pub(crate) struct Reader {
    card: usize,
    gpu: GpuUuid,
    pub(crate) harvest: Harvest,
    schedule: Schedule,
    pub(crate) awaited: Awaited,
    request: Option<ReadRequest>,
    hanging: Option<Hanging>,
    bug: Option<Bug>,
}

impl Reader {
    pub(crate) fn new(card: usize, gpu: GpuUuid, bug: Option<Bug>) -> Self {
        Self {
            card,
            harvest: Harvest::new(gpu.clone(), false),
            gpu,
            schedule: Schedule::default(),
            awaited: Awaited::Nothing,
            request: None,
            hanging: None,
            bug,
        }
    }

    /// Closed and opened again: what was harvested stays.
    pub(crate) fn reopen(&mut self) {
        (self.schedule, self.awaited, self.request) = (Schedule::default(), Awaited::Nothing, None);
        self.hanging = None;
    }

    pub(crate) fn request(&mut self, request: ReadRequest) {
        self.request = Some(self.request.map_or(request, |before| {
            let exits = before.touching_exits.zip(request.touching_exits);
            ReadRequest {
                sweep: before.sweep || request.sweep,
                processes: before.processes || request.processes,
                touching_exits: exits.and_then(|(one, other)| one.checked_add(other)),
            }
        }));
    }

    /// A read, where one is due.
    pub(crate) fn run(&mut self, world: &mut World) -> Option<(ReadOutcome, Noted)> {
        if self.hanging.is_some() {
            return None;
        }
        let has_open = if self.harvest.has_open() { Awaited::Open } else { Awaited::Nothing };
        let wants_sweep = self.request.is_some_and(|request| request.sweep);
        let now = world.clocks.now();
        let awaited = self.awaited.max(has_open);
        let due = self.schedule.next(now, awaited, self.request.is_some(), wants_sweep);
        if due.at > now {
            return None;
        }
        let request = self.request.take();
        Some(self.read(world, request, due.sweep, false))
    }

    /// The first call of a read is made, and does not return.
    pub(crate) fn hang(&mut self, world: &mut World) -> Option<Stall> {
        if self.hanging.is_some() {
            return None;
        }
        let since = world.clocks.stamp();
        let (request, sweep) = (self.request.take(), true);
        self.hanging = Some(Hanging { since, request, sweep });
        world.pass(2_000_001);
        world.tally.count(Kind::CallHung);
        Some(Stall { gpu: self.gpu.clone(), call: MODE, since })
    }

    pub(crate) const fn hangs(&self) -> bool {
        self.hanging.is_some()
    }

    /// It returns, and the read goes on.
    pub(crate) fn return_from_hang(&mut self, world: &mut World) -> Option<(ReadOutcome, Noted)> {
        let Hanging { since, request, sweep } = self.hanging.take()?;
        let returned = world.clocks.stamp();
        let (mut outcome, noted) = self.read(world, request, sweep, false);
        outcome.window.began = since;
        let (gpu, cause) = (Some(self.gpu.clone()), GapCause::NvmlCallTimeout);
        let gap = Gap { cause, gpu, from: since, to: returned, size: None };
        outcome.findings.push(Finding::Gap(gap));
        outcome.unknowns.push(timed_out(MODE, Some(&self.gpu)));
        Some((outcome, noted))
    }

    /// One read, now.
    pub(crate) fn read(
        &mut self,
        world: &mut World,
        request: Option<ReadRequest>,
        sweep: bool,
        last: bool,
    ) -> (ReadOutcome, Noted) {
        let (began, began_at) = (world.clocks.stamp(), world.at());
        self.schedule.began(began.boot, sweep);
        let content = self.content(world, sweep);
        let asks_holders = request.is_some_and(|request| request.processes)
            && world.cards[self.card].fault != Fault::Lost;
        let holders = asks_holders.then(|| self.holders(world));
        world.pass(3);
        let window = Window { began, ended: world.clocks.stamp() };
        let touching_exits = request.map_or(Some(0), |request| request.touching_exits);
        let listing = ListingState::of(&content);
        let mut seen = self.harvest.observe(&GpuRead { window, touching_exits, content });
        let ends = |finding: &Finding| matches!(finding, Finding::EpochEnded { .. });
        if self.bug == Some(Bug::OffToldLate) && seen.findings.iter().any(ends) {
            seen.findings.retain(|finding| !matches!(finding, Finding::Gap(_)));
        }
        let (began, ended, dead_rows) = (began_at, world.at(), self.harvest.dead_rows());
        let noted = Noted { card: self.card, began, ended, listing, dead_rows };
        if seen.findings.iter().any(|finding| matches!(finding, Finding::Masked(_))) {
            world.tally.count(Kind::RowMasked);
        }
        let mut in_doubt = Vec::new();
        if last {
            seen.findings.extend(self.harvest.left(window.ended));
        } else {
            in_doubt = self.harvest.in_doubt(window.ended);
        }
        let outcome = ReadOutcome {
            gpu: self.gpu.clone(),
            window,
            sweep,
            requested: request.is_some(),
            listing,
            findings: seen.findings,
            in_doubt: in_doubt.into_iter().filter_map(Finding::into_gap).collect(),
            exits_unwitnessed: self.harvest.exits_unwitnessed(),
            open: self.harvest.open(),
            holders,
            dead_rows: self.harvest.dead_rows(),
            dead_rows_max: self.harvest.dead_rows_max(),
            unread_rows: self.harvest.unread_rows(),
            unknowns: seen.unknowns,
            cost: ReadCost::default(),
            disagreement: None,
            sample_loss: SampleLoss::default(),
            last,
        };
        (outcome, noted)
    }

    /// A call takes its time, and the machine does not wait for it.
    fn call(&self, world: &mut World) -> Result<(), Unknown> {
        let us = world.random.between(2, 150);
        world.pass(us);
        if world.random.below(24) == 0 {
            world.stir();
            world.tally.count(Kind::ListRaced);
        }
        match world.cards[self.card].fault {
            Fault::Lost => Err(self.unknown(UnknownReason::GpuLost, MODE, 15)),
            _ => Ok(()),
        }
    }

    fn unknown(&self, reason: UnknownReason, call: &'static str, code: u32) -> Unknown {
        let gpu = Some(self.gpu.clone());
        Unknown { gpu, call: Some(call), code: Some(code), ..Unknown::of(reason) }
    }

    fn content(&self, world: &mut World, sweep: bool) -> ReadContent {
        self.try_content(world, sweep).unwrap_or_else(ReadContent::Failed)
    }

    fn try_content(&self, world: &mut World, sweep: bool) -> Result<ReadContent, Unknown> {
        self.call(world)?;
        let unchecked = self.bug == Some(Bug::ModeNotChecked);
        if !world.cards[self.card].model.accounting_mode() && !unchecked {
            let idle = self.bug == Some(Bug::OffReadsAsIdle);
            let empty = ReadContent::Listed(Listing::default());
            return Ok(if idle { empty } else { ReadContent::AccountingOff });
        }
        self.call(world)?;
        if world.cards[self.card].fault == Fault::ListFails {
            world.tally.count(Kind::ListFailed);
            return Err(self.unknown(UnknownReason::NvmlUnknownError, LIST, 999));
        }
        let pids = world.cards[self.card].model.accounting_pids(View::Host);
        let pids: Vec<Pid> = pids.into_iter().map(Pid).collect();
        self.call(world)?;
        if !world.cards[self.card].model.accounting_mode() && !unchecked {
            return Ok(ReadContent::ModeChanged { on: false });
        }
        let mut answers = BTreeMap::new();
        loop {
            let asked = self.harvest.plan(&pids, &answers, sweep);
            if asked.is_empty() {
                break;
            }
            for pid in asked {
                self.call(world)?;
                answers.insert(pid, self.row(world, pid));
            }
        }
        Ok(ReadContent::Listed(Listing { pids, junk_pids: 0, answers }))
    }

    fn row(&self, world: &mut World, pid: Pid) -> Answer {
        match world.cards[self.card].fault {
            Fault::RowsGone => {
                world.tally.count(Kind::RowsGone);
                return Answer::Gone;
            }
            Fault::RowsFail if world.random.below(2) == 0 => {
                world.tally.count(Kind::RowsFailed);
                let reason = UnknownReason::NvmlUnknownError;
                return Answer::Unread(self.unknown(reason, STATS, 999));
            }
            _ => {}
        }
        let Some(stats) = world.cards[self.card].model.accounting_stats(pid.0, View::Host) else {
            return Answer::Gone;
        };
        world.truth.show(self.card, &stats);
        let mut row = self.row_of(&stats);
        let changes = world.cards[self.card].fault == Fault::RowsChange && !row.running;
        if changes && world.random.below(3) == 0 {
            world.tally.count(Kind::RowChanged);
            row.memory_peak = Observed::Known(Bytes(stats.memory_peak_bytes + 4_096));
        }
        if self.bug == Some(Bug::OpenRowBooked) && row.running && world.random.below(4) == 0 {
            row.running = false;
        }
        Answer::Row(row)
    }

    fn row_of(&self, stats: &Stats) -> Row {
        Row {
            gpu: self.gpu.clone(),
            pid: Pid(stats.pid),
            start: (stats.start_us > 0).then_some(WallUs(stats.start_us)),
            held: Ms(stats.time_ms),
            running: stats.running,
            memory_peak: Observed::Known(Bytes(stats.memory_peak_bytes)),
            utilization: Observed::Known(stats.gpu_percent),
            sums: Some(UtilizationSums {
                sample_count: stats.samples,
                gpu_centipercent: stats.gpu_util_sum,
            }),
        }
    }

    fn holders(&self, world: &World) -> Vec<Holder> {
        let holders = world.cards[self.card].model.holders().into_iter();
        let holder = |one: nvsim::model::Holder| Holder {
            pid: Pid(one.pid),
            memory: Observed::Known(Bytes(one.memory_bytes)),
            compute: true,
            graphics: false,
            mps: false,
        };
        holders.map(holder).collect()
    }
}
