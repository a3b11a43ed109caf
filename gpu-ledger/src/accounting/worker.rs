//! One thread per GPU, on which all its driver calls are made.
//!
//! Purpose: read when the schedule says so, harvest, and hand the outcome on. May touch: the library,
//! the clocks. May not: be waited for by the session, which only leaves requests and takes outcomes:
//! a driver call can stall for seconds or for ever.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::Window;
use super::busy::{self, Disagreement, ProcessSamples, SampleLoss};
use super::calls::{CallWatch, Calls, ReadCost, Stalled, timed_out};
use super::harvest::Harvest;
use super::nvml::{GpuHandle, Library, MigState};
use super::reading::{
    Answer, Finding, GpuRead, Holder, Listing, ListingState, Observation, OpenRow, ReadContent,
};
use super::schedule::{Awaited, Schedule};
use crate::clock::{Clock, Stamp};
use crate::coverage::Gap;
use crate::unit::{GpuUuid, WallUs};
use crate::unknown::{GapCause, Unknown, UnknownReason};

/// Outcomes that wait for the session; a worker that finds the queue full waits, and reads later.
pub const OUTCOMES_WAITING_MAX: usize = 256;

/// A read asked for. Requests that meet before the read begins become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    /// Ask about every listed row.
    pub sweep: bool,
    /// Ask who holds the device as well.
    pub processes: bool,
    /// Exits of processes that had touched this GPU, seen since the last request; `None` where events
    /// were lost.
    pub touching_exits: Option<u64>,
}

/// What one read brought.
#[derive(Clone, Debug)]
pub struct ReadOutcome {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// From before its first call to after its last.
    pub window: Window,
    /// Whether every row was asked about.
    pub sweep: bool,
    /// Whether it answers a request. Workers read by themselves too, the first time as soon as they start.
    pub requested: bool,
    /// Whether there was a list.
    pub listing: ListingState,
    /// What it brought to light, in order.
    pub findings: Vec<Finding>,
    /// The gaps that would have to be said if no further read came; none where `last`.
    pub in_doubt: Vec<Gap>,
    /// See [`Harvest::exits_unwitnessed`].
    pub exits_unwitnessed: u64,
    /// Rows that run now.
    pub open: Vec<OpenRow>,
    /// Who held the device, where that was asked; without the lists that failed.
    pub holders: Option<Vec<Holder>>,
    /// Dead rows in the store; `None` before a complete list.
    pub dead_rows: Option<usize>,
    /// The most ever seen.
    pub dead_rows_max: usize,
    /// Dead rows that this read was the first to read.
    pub unread_rows: usize,
    /// What could not be said.
    pub unknowns: Vec<Unknown>,
    /// What it cost.
    pub cost: ReadCost,
    /// Process samples and device samples contradict each other.
    pub disagreement: Option<Disagreement>,
    /// Utilization samples that were not used, so far.
    pub sample_loss: SampleLoss,
    /// No other will follow.
    pub last: bool,
}

impl ReadOutcome {
    /// Whether it left something unsaid for this reason.
    #[must_use]
    pub fn cannot_say(&self, reason: UnknownReason) -> bool {
        self.unknowns.iter().any(|unknown| unknown.reason == reason)
    }
}

#[derive(Debug)]
struct Inbox {
    request: Option<ReadRequest>,
    awaited: Awaited,
    set_mode: Option<(bool, oneshot::Sender<Result<bool, Unknown>>)>,
    stop: Stop,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    No,
    AfterOneMore,
    Now,
}

/// The session's side of one GPU's worker.
#[derive(Clone, Debug)]
pub struct GpuWorker {
    gpu: GpuUuid,
    inbox: Arc<(Mutex<Inbox>, Condvar)>,
    watch: CallWatch,
    /// What the thread knew when it ended, for one that goes on later.
    left: Arc<Mutex<Option<Harvest>>>,
}

/// The library, and a sign for whoever waits until nobody holds it any more.
#[derive(Debug)]
pub(super) struct HeldLibrary {
    // Dropped in this order: the sign goes when the library was shut down.
    pub(super) library: Library,
    _sign: oneshot::Sender<Infallible>,
}

impl HeldLibrary {
    /// A library to be shared by workers. The receiver ends when the last of them has let it go and
    /// it is shut down.
    pub(super) fn new(library: Library) -> (Arc<Self>, oneshot::Receiver<Infallible>) {
        let (sign, closed) = oneshot::channel();
        (Arc::new(Self { library, _sign: sign }), closed)
    }
}

/// What a worker needs.
#[derive(Clone, Debug)]
pub(super) struct WorkerOptions {
    pub(super) clock: Clock,
    pub(super) call_deadline: Duration,
    pub(super) touches_watched: bool,
    /// The GPU's PCI address, by which it is then opened: looking for a UUID may initialise other
    /// GPUs on the way (nvml.h of 595.45.04 on `nvmlDeviceGetHandleByUUID`).
    pub(super) address: Option<String>,
}

impl GpuWorker {
    /// Starts the thread. It keeps the library open as long as it lives.
    pub(super) fn start(
        harvest: Harvest,
        library: Arc<HeldLibrary>,
        options: WorkerOptions,
        outcomes: mpsc::Sender<ReadOutcome>,
    ) -> std::io::Result<Self> {
        let gpu = harvest.gpu().clone();
        let inbox =
            Inbox { request: None, awaited: Awaited::Nothing, set_mode: None, stop: Stop::No };
        let worker = Self {
            gpu: gpu.clone(),
            inbox: Arc::new((Mutex::new(inbox), Condvar::new())),
            watch: CallWatch::default(),
            left: Arc::default(),
        };
        let (mine, name) = (worker.clone(), format!("nvml-{}", gpu.short()));
        std::thread::Builder::new().name(name).spawn(move || {
            let calls =
                Calls::new(options.clock.clone(), options.call_deadline, mine.watch.clone());
            let reader = Reader {
                library: &library.library,
                handle: None,
                calls,
                harvest,
                schedule: Schedule::default(),
                samples: ProcessSamples::default(),
                options,
            };
            mine.work(reader, &outcomes);
        })?;
        Ok(worker)
    }

    /// Which GPU.
    #[must_use]
    pub const fn gpu(&self) -> &GpuUuid {
        &self.gpu
    }

    /// Asks for a read as soon as the schedule allows. Never waits.
    pub fn request(&self, request: ReadRequest) {
        self.change(|inbox| {
            inbox.request = Some(inbox.request.map_or(request, |before| {
                ReadRequest {
                    sweep: before.sweep || request.sweep,
                    processes: before.processes || request.processes,
                    touching_exits: before
                        .touching_exits
                        .zip(request.touching_exits)
                        .and_then(|(a, b)| a.checked_add(b)),
                }
            }));
        });
    }

    /// Says what is waited for, which sets the pace. Rows that are open are waited for anyway.
    pub fn set_awaited(&self, awaited: Awaited) {
        self.change(|inbox| inbox.awaited = awaited);
    }

    /// Asks for one more read of everything, after which the worker ends.
    pub fn finish(&self) {
        self.change(|inbox| {
            if inbox.stop == Stop::No {
                inbox.stop = Stop::AfterOneMore;
            }
        });
    }

    /// Ends the worker at once, or, where it hangs in a call, when that returns.
    pub fn stop(&self) {
        self.change(|inbox| inbox.stop = Stop::Now);
    }

    pub(super) fn set_accounting(&self, on: bool) -> oneshot::Receiver<Result<bool, Unknown>> {
        let (reply, answer) = oneshot::channel();
        self.change(|inbox| inbox.set_mode = Some((on, reply)));
        answer
    }

    pub(crate) const fn watch(&self) -> &CallWatch {
        &self.watch
    }

    /// What the worker knew when it ended; once.
    pub(super) fn take_left(&self) -> Option<Harvest> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn change(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut self.lock());
        self.inbox.1.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut reader: Reader<'_>, outcomes: &mpsc::Sender<ReadOutcome>) {
        loop {
            match self.wait(&reader) {
                Task::Stop => break,
                Task::SetMode(on, reply) => {
                    // Nobody may wait for it any more; the mode is set all the same.
                    let _ = reply.send(reader.set_accounting(on));
                }
                Task::Read { request, sweep, last } => {
                    let outcome = reader.read(request, sweep, last);
                    if outcomes.blocking_send(outcome).is_err() || last {
                        break;
                    }
                }
            }
        }
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader.harvest);
    }

    fn wait(&self, reader: &Reader<'_>) -> Task {
        let mut inbox = self.lock();
        loop {
            match inbox.stop {
                Stop::Now => return Task::Stop,
                Stop::AfterOneMore => {
                    let request = inbox.request.take();
                    return Task::Read { request, sweep: true, last: true };
                }
                Stop::No => {}
            }
            if let Some((on, reply)) = inbox.set_mode.take() {
                return Task::SetMode(on, reply);
            }
            let now = reader.options.clock.now().boot;
            let awaited = inbox.awaited.max(reader.awaited());
            let (provoked, sweep) =
                (inbox.request.is_some(), inbox.request.is_some_and(|r| r.sweep));
            let due = reader.schedule.next(now, awaited, provoked, sweep);
            match due.at.since(now).filter(|wait| *wait > 0) {
                None => {
                    let request = inbox.request.take();
                    return Task::Read { request, sweep: due.sweep, last: false };
                }
                Some(wait) => {
                    let wait = Duration::from_nanos(wait);
                    let woken = self.inbox.1.wait_timeout(inbox, wait);
                    inbox = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

enum Task {
    Stop,
    SetMode(bool, oneshot::Sender<Result<bool, Unknown>>),
    Read { request: Option<ReadRequest>, sweep: bool, last: bool },
}

/// What the thread owns.
struct Reader<'library> {
    library: &'library Library,
    /// `None` before the first call, and after an answer that says it went stale.
    handle: Option<GpuHandle<'library>>,
    calls: Calls,
    harvest: Harvest,
    schedule: Schedule,
    samples: ProcessSamples,
    options: WorkerOptions,
}

impl<'library> Reader<'library> {
    fn awaited(&self) -> Awaited {
        if self.harvest.has_open() { Awaited::Open } else { Awaited::Nothing }
    }

    fn now(&self) -> Stamp {
        self.options.clock.now()
    }

    fn handle(&mut self) -> Result<GpuHandle<'library>, Unknown> {
        if let Some(handle) = self.handle.take() {
            return Ok(handle);
        }
        let (gpu, calls) = (self.harvest.gpu(), &mut self.calls);
        match &self.options.address {
            Some(address) => self.library.gpu_at_address(gpu, address, calls),
            None => self.library.gpu_of(gpu, calls),
        }
    }

    fn set_accounting(&mut self, on: bool) -> Result<bool, Unknown> {
        let mut handle = self.handle()?;
        let set = handle.set_accounting(on, &mut self.calls);
        let read_back = set.and_then(|()| handle.accounting_on(&mut self.calls));
        self.handle = Some(handle);
        read_back
    }

    fn read(&mut self, request: Option<ReadRequest>, sweep: bool, last: bool) -> ReadOutcome {
        let began = self.now();
        self.schedule.began(began.boot, sweep);
        let mut extra = Observation::default();
        let mut holders = None;
        let mut disagreement = None;
        let content = match self.handle() {
            Err(unknown) => ReadContent::Failed(unknown),
            Ok(mut handle) => {
                let content = self.content(&mut handle, sweep, &mut extra.unknowns);
                let stale = matches!(&content, ReadContent::Failed(why) if goes_stale(why.reason));
                if !stale {
                    if request.is_some_and(|request| request.processes) {
                        let (found, unknowns) = handle.holders(&mut self.calls);
                        extra.unknowns.extend(unknowns);
                        holders = Some(found);
                    }
                    self.handle = Some(handle);
                }
                content
            }
        };
        let window = Window { began, ended: self.now() };
        let touching_exits = if self.options.touches_watched {
            request.map_or(Some(0), |request| request.touching_exits)
        } else {
            None
        };
        let listing = ListingState::of(&content);
        let mut seen = self.harvest.observe(&GpuRead { window, touching_exits, content });
        self.price_busy(&mut seen, &mut disagreement);
        let mut in_doubt = Vec::new();
        if last {
            seen.findings.extend(self.harvest.left(window.ended));
        } else {
            in_doubt = self.harvest.in_doubt(window.ended);
        }
        let in_doubt = in_doubt.into_iter().filter_map(Finding::into_gap).collect();
        for stalled in self.calls.take_stalled() {
            seen.findings.push(self.stall_gap(stalled));
            seen.unknowns.push(timed_out(stalled.call, Some(self.harvest.gpu())));
        }
        seen.unknowns.extend(extra.unknowns);
        ReadOutcome {
            gpu: self.harvest.gpu().clone(),
            window,
            sweep,
            requested: request.is_some(),
            listing,
            findings: seen.findings,
            in_doubt,
            exits_unwitnessed: self.harvest.exits_unwitnessed(),
            open: self.harvest.open(),
            holders,
            dead_rows: self.harvest.dead_rows(),
            dead_rows_max: self.harvest.dead_rows_max(),
            unread_rows: self.harvest.unread_rows(),
            unknowns: seen.unknowns,
            cost: self.calls.take_cost(),
            disagreement,
            sample_loss: self.samples.loss(),
            last,
        }
    }

    /// Mode, list, mode again, then the rows that the list raises questions about.
    fn content(
        &mut self,
        handle: &mut GpuHandle<'_>,
        sweep: bool,
        unknowns: &mut Vec<Unknown>,
    ) -> ReadContent {
        let calls = &mut self.calls;
        match handle.accounting_on(calls) {
            Err(unknown) => return ReadContent::Failed(unknown),
            Ok(false) => {
                if handle.mig(calls) == Ok(MigState::On) {
                    let reason = UnknownReason::AccountingUnavailableMig;
                    let gpu = Some(handle.uuid().clone());
                    unknowns.push(Unknown { gpu, ..Unknown::of(reason) });
                }
                return ReadContent::AccountingOff;
            }
            Ok(true) => {}
        }
        let list = match handle.accounting_pids(calls) {
            Ok(list) => list,
            Err(unknown) => return ReadContent::Failed(unknown),
        };
        match handle.accounting_on(calls) {
            Err(unknown) => return ReadContent::Failed(unknown),
            Ok(on @ false) => return ReadContent::ModeChanged { on },
            Ok(true) => {}
        }
        let mut answers = BTreeMap::new();
        loop {
            let asked = self.harvest.plan(&list.pids, &answers, sweep);
            if asked.is_empty() {
                break;
            }
            for pid in asked {
                let answer = handle.row(pid, calls);
                if let Answer::Unread(unknown) = &answer
                    && goes_stale(unknown.reason)
                {
                    return ReadContent::Failed(unknown.clone());
                }
                answers.insert(pid, answer);
            }
        }
        ReadContent::Listed(Listing { pids: list.pids, junk_pids: list.junk_pids, answers })
    }

    /// Collects utilization samples where rows carry no sums of their own, and prices the new rows.
    fn price_busy(&mut self, seen: &mut Observation, disagreement: &mut Option<Disagreement>) {
        let now = self.now();
        let settled = seen.findings.iter().any(|finding| matches!(finding, Finding::Final(_)));
        let collect =
            !self.library.has_stats_v2() && (settled || self.schedule.samples_due(now.boot));
        if collect && let Some(handle) = &self.handle {
            self.schedule.samples_began(now.boot);
            match handle.samples(self.samples.last_seen_us(), &mut self.calls) {
                Ok(collection) => *disagreement = self.samples.collect(&collection, self.now()),
                Err(unknown) => seen.unknowns.push(unknown),
            }
        }
        let mut unpriced = Vec::new();
        for finding in &mut seen.findings {
            // What was over before anyone looked is on no bill: nobody asks how busy it was.
            if let Finding::Final(row) | Finding::NoStartTime(row) = finding
                && let Some(reason) = busy::fill(row, &self.samples)
            {
                let gpu = Some(row.row.gpu.clone());
                unpriced.push(Unknown { gpu, ..Unknown::of(reason) });
            }
        }
        seen.unknowns.extend(unpriced);
        let open = self.harvest.open();
        let oldest = open.iter().filter_map(|row| row.start).min();
        // Without an open row a span that just ended may still be read: the ring's length is kept.
        let horizon = WallUs(now.wall.0.saturating_sub(2 * busy::RING_US));
        self.samples.forget_before(oldest.map_or(horizon, |oldest| oldest.min(horizon)));
    }

    fn stall_gap(&self, stalled: Stalled) -> Finding {
        Finding::Gap(Gap {
            cause: GapCause::NvmlCallTimeout,
            gpu: Some(self.harvest.gpu().clone()),
            from: stalled.from,
            to: stalled.to,
            size: None,
        })
    }
}

/// Whether an answer means that the handle must be opened anew.
pub(super) const fn goes_stale(reason: UnknownReason) -> bool {
    matches!(
        reason,
        UnknownReason::GpuLost
            | UnknownReason::GpuResetRequired
            | UnknownReason::NvmlInvalidArgument
            | UnknownReason::NvmlUninitialized
    )
}
