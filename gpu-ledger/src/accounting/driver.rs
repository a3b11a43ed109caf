//! The driver as the session holds it: opened once, read for ever, never waited for.
//!
//! Purpose: facts about driver and GPUs, one worker per GPU, outcomes and stalls in one stream. May
//! touch: threads. May not: make a driver call on the caller's thread.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::calls::{CallWatch, Calls, InFlight, ReadCost, timed_out};
use super::harvest::Harvest;
use super::nvml::{DriverKind, GpuHandle, Library, MigState};
use super::sampler::{MemorySample, SAMPLES_WAITING_MAX, Sampler, SamplerOptions};
use super::worker::{GpuWorker, HeldLibrary, OUTCOMES_WAITING_MAX, ReadOutcome, WorkerOptions};
use crate::clock::{Clock, Stamp};
use crate::unit::GpuUuid;
use crate::unknown::{Observed, Unknown, UnknownReason};

/// How long a driver call may take before it is said to hang.
pub const CALL_DEADLINE: Duration = Duration::from_secs(2);

/// The initial pid namespace's inode number (`include/linux/proc_ns.h`, `PROC_PID_INIT_INO`).
const PID_NAMESPACE_INITIAL: &str = "pid:[4026531836]";

/// How to open the driver.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// The library's path; the system's where there is none.
    pub library: Option<PathBuf>,
    /// How long a call may take.
    pub call_deadline: Duration,
    /// The clock to stamp reads with.
    pub clock: Clock,
    /// The reader is outside the initial pid namespace, where the driver hides its dead rows.
    pub dead_rows_hidden: bool,
    /// Exits of GPU-touching processes are counted and given with the requests.
    pub touches_watched: bool,
    /// How often the memory of every GPU's processes is sampled; `None`: it is not.
    pub memory_period: Option<Duration>,
}

impl DriverOptions {
    /// The system's library, the usual deadline, the initial pid namespace.
    #[must_use]
    pub const fn new(clock: Clock) -> Self {
        Self {
            library: None,
            call_deadline: CALL_DEADLINE,
            clock,
            dead_rows_hidden: false,
            touches_watched: false,
            memory_period: None,
        }
    }
}

/// Whether this process is in the initial pid namespace; an error where `/proc` does not tell.
pub fn in_initial_pid_namespace() -> std::io::Result<bool> {
    let link = std::fs::read_link("/proc/self/ns/pid")?;
    Ok(link.as_os_str() == PID_NAMESPACE_INITIAL)
}

/// What is known of the driver.
#[derive(Clone, Debug)]
pub struct DriverFacts {
    /// A driver, or a declared simulation.
    pub kind: DriverKind,
    /// Its version.
    pub version: Result<String, Unknown>,
    /// The version of its library.
    pub library_version: Result<String, Unknown>,
    /// Whether rows carry utilization sums.
    pub stats_v2: bool,
    /// Functions that the library lacks, of those that are called.
    pub symbols_missing: Vec<&'static str>,
    /// GPUs that could not be opened, and why.
    pub unknowns: Vec<Unknown>,
    /// What opening cost.
    pub cost: ReadCost,
}

/// What is known of a GPU, when it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuFacts {
    /// Its UUID.
    pub uuid: GpuUuid,
    /// Where it enumerates.
    pub index: u32,
    /// The product.
    pub name: Observed<String>,
    /// Minor number of its device file.
    pub minor: Observed<u32>,
    /// PCI address.
    pub pci_bus_id: Observed<String>,
    /// Whether the driver keeps its state while nobody has it open.
    pub persistence: Observed<bool>,
    /// Multi-Instance GPU.
    pub mig: Observed<MigState>,
    /// Whether it is a vGPU host.
    pub vgpu_host: Observed<bool>,
    /// Whether accounting is on, or why that is not known.
    pub accounting: Result<bool, Unknown>,
    /// The advertised size of the accounting buffer, live and dead rows together.
    pub buffer_size: Observed<u32>,
}

/// A call that has not returned in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stall {
    /// Which GPU is not read while it lasts.
    pub gpu: GpuUuid,
    /// The call.
    pub call: &'static str,
    /// Since when.
    pub since: Stamp,
}

impl Stall {
    /// As an UNKNOWN.
    #[must_use]
    pub fn unknown(&self) -> Unknown {
        timed_out(self.call, Some(&self.gpu))
    }
}

/// What the stream tells.
#[derive(Clone, Debug)]
pub enum Report {
    /// A read came to its end.
    Read(Box<ReadOutcome>),
    /// A call hangs. Told once; when it returns, the read's outcome carries the gap.
    Stalled(Stall),
    /// Who held how much memory.
    Memory(Box<MemorySample>),
}

/// What is known from before the driver was closed, where it was.
#[derive(Debug, Default)]
pub struct Before {
    /// What was read of each GPU: reading goes on from there.
    pub harvests: BTreeMap<GpuUuid, Harvest>,
    /// Open these alone, each by its PCI address, and look at no other GPU; `None`: all there are.
    pub only: Option<Vec<GpuFacts>>,
}

/// The opened driver.
#[derive(Debug)]
pub struct Driver {
    workers: BTreeMap<GpuUuid, GpuWorker>,
    samplers: BTreeMap<GpuUuid, Sampler>,
    memory: mpsc::Receiver<MemorySample>,
    /// Ends when the library was shut down.
    closed: oneshot::Receiver<Infallible>,
    outcomes: mpsc::Receiver<ReadOutcome>,
    told: BTreeMap<GpuUuid, InFlight>,
    clock: Clock,
    call_deadline: Duration,
}

impl Driver {
    /// Opens library, driver and GPUs on a thread of their own. `Err` where nothing can be read at
    /// all, a call that hangs included; its thread is then left behind.
    pub async fn open(
        options: DriverOptions,
    ) -> Result<(DriverFacts, Vec<GpuFacts>, Self), Unknown> {
        Self::reopen(options, &mut Before::default()).await
    }

    /// The same after a time in which it was closed. What was known of a GPU that is found again is taken
    /// out of `before`; of the others it stays there for the next try.
    pub async fn reopen(
        options: DriverOptions,
        before: &mut Before,
    ) -> Result<(DriverFacts, Vec<GpuFacts>, Self), Unknown> {
        let (path, only) = (options.library.clone(), before.only.clone());
        let by_address = only.is_some();
        let (library, facts, gpus) =
            off_thread(&options, move |calls| open(path.as_deref(), only.as_deref(), calls))
                .await??;
        let (library, closed) = HeldLibrary::new(library);
        let (sender, outcomes) = mpsc::channel(OUTCOMES_WAITING_MAX);
        let (teller, memory) = mpsc::channel(SAMPLES_WAITING_MAX);
        let (mut workers, mut samplers) = (BTreeMap::new(), BTreeMap::new());
        for gpu in &gpus {
            let worker_options = WorkerOptions {
                clock: options.clock.clone(),
                call_deadline: options.call_deadline,
                touches_watched: options.touches_watched,
                address: gpu.pci_bus_id.known().filter(|_| by_address).cloned(),
            };
            if let Some(period) = options.memory_period {
                let sampler_options = SamplerOptions {
                    clock: options.clock.clone(),
                    call_deadline: options.call_deadline,
                    period,
                    address: worker_options.address.clone(),
                };
                let (uuid, library) = (gpu.uuid.clone(), Arc::clone(&library));
                let sampler = Sampler::start(uuid, library, sampler_options, teller.clone())
                    .map_err(|error| no_thread(&error))?;
                samplers.insert(gpu.uuid.clone(), sampler);
            }
            let harvest = before.harvests.remove(&gpu.uuid);
            let harvest =
                harvest.unwrap_or_else(|| Harvest::new(gpu.uuid.clone(), options.dead_rows_hidden));
            let library = Arc::clone(&library);
            let worker = GpuWorker::start(harvest, library, worker_options, sender.clone())
                .map_err(|error| no_thread(&error))?;
            workers.insert(gpu.uuid.clone(), worker);
        }
        // The last reference goes with the last worker's thread: shutting down is a driver call too.
        let thread = std::thread::Builder::new().name("nvml-close".to_owned());
        thread.spawn(move || drop(library)).map_err(|error| no_thread(&error))?;
        let (clock, call_deadline) = (options.clock, options.call_deadline);
        let told = BTreeMap::new();
        let this = Self { workers, samplers, memory, closed, outcomes, told, clock, call_deadline };
        Ok((facts, gpus, this))
    }

    /// Ends every worker and waits until the library is shut down and nothing of the driver is open any
    /// more. Reads that came to their end meanwhile are added to `reports`.
    ///
    /// # Errors
    /// The call that still hangs after `deadline`. May be called again to wait on.
    pub async fn close(
        &mut self,
        deadline: Duration,
        reports: &mut Vec<Report>,
    ) -> Result<BTreeMap<GpuUuid, Harvest>, Unknown> {
        self.stop();
        let patience = tokio::time::sleep(deadline);
        tokio::pin!(patience);
        loop {
            tokio::select! {
                biased;
                // A worker that finds the queue full waits for room in it.
                Some(outcome) = self.outcomes.recv() => {
                    reports.push(Report::Read(Box::new(outcome)));
                }
                // Nothing is ever sent: it ends with the library.
                _ = &mut self.closed => break,
                () = &mut patience => return Err(self.hanging_call()),
            }
        }
        reports.extend(self.waiting());
        let left = self.workers.iter();
        Ok(left.filter_map(|(gpu, worker)| Some((gpu.clone(), worker.take_left()?))).collect())
    }

    /// Tells every thread to end.
    fn stop(&self) {
        self.workers.values().for_each(GpuWorker::stop);
        self.samplers.values().for_each(Sampler::stop);
    }

    /// What keeps the library open: a call under way, or the shutting down itself.
    fn hanging_call(&self) -> Unknown {
        let read = self.workers.iter().map(|(gpu, worker)| (gpu, worker.watch()));
        let sampled = self.samplers.iter().map(|(gpu, sampler)| (gpu, sampler.watch()));
        let call = read
            .chain(sampled)
            .find_map(|(gpu, watch)| Some(timed_out(watch.in_flight()?.call, Some(gpu))));
        call.unwrap_or_else(|| timed_out("nvmlShutdown", None))
    }

    /// The worker of a GPU.
    #[must_use]
    pub fn worker(&self, gpu: &GpuUuid) -> Option<&GpuWorker> {
        self.workers.get(gpu)
    }

    /// All workers.
    pub fn workers(&self) -> impl Iterator<Item = &GpuWorker> {
        self.workers.values()
    }

    /// The next outcome or stall; `None` when every worker has ended. May be dropped and called again
    /// without losing anything.
    pub async fn next(&mut self) -> Option<Report> {
        loop {
            if let Some(stall) = self.new_stall() {
                return Some(Report::Stalled(stall));
            }
            tokio::select! {
                biased;
                outcome = self.outcomes.recv() => {
                    return outcome.map(|outcome| Report::Read(Box::new(outcome)));
                }
                Some(sample) = self.memory.recv() => {
                    return Some(Report::Memory(Box::new(sample)));
                }
                () = tokio::time::sleep(pace(self.call_deadline)) => {}
            }
        }
    }

    /// The outcomes that wait already. Whoever is behind takes them all before anything else, or what
    /// they prove is older by every one that still waits.
    pub fn waiting(&mut self) -> Vec<Report> {
        let mut reports = Vec::new();
        while let Ok(outcome) = self.outcomes.try_recv() {
            reports.push(Report::Read(Box::new(outcome)));
        }
        while let Ok(sample) = self.memory.try_recv() {
            reports.push(Report::Memory(Box::new(sample)));
        }
        reports
    }

    /// The call by which a GPU's memory is sampled just now.
    #[must_use]
    pub fn sampling(&self, gpu: &GpuUuid) -> Option<InFlight> {
        self.samplers.get(gpu)?.watch().in_flight()
    }

    /// The calls that hang now.
    #[must_use]
    pub fn stalls(&self) -> Vec<Stall> {
        self.workers.values().filter_map(|worker| self.stall_of(worker)).collect()
    }

    /// Sets a GPU's accounting mode and reads it back. Needs root. Live rows are thrown away by the
    /// driver when it goes off.
    pub async fn set_accounting(&self, gpu: &GpuUuid, on: bool) -> Result<bool, Unknown> {
        let Some(worker) = self.workers.get(gpu) else {
            let gpu = Some(gpu.clone());
            return Err(Unknown { gpu, ..Unknown::of(UnknownReason::NoGpuFound) });
        };
        let answer = worker.set_accounting(on);
        answer_of(answer, worker.watch(), &self.clock, self.call_deadline, Some(gpu)).await?
    }

    fn stall_of(&self, worker: &GpuWorker) -> Option<Stall> {
        let InFlight { call, since } = worker.watch().in_flight()?;
        let late = overdue(since, self.clock.now(), self.call_deadline);
        late.then(|| Stall { gpu: worker.gpu().clone(), call, since })
    }

    fn new_stall(&mut self) -> Option<Stall> {
        let stall =
            self.workers.values().filter_map(|worker| self.stall_of(worker)).find(|stall| {
                self.told.get(&stall.gpu).is_none_or(|told| told.since != stall.since)
            })?;
        self.told.insert(stall.gpu.clone(), InFlight { call: stall.call, since: stall.since });
        Some(stall)
    }
}

impl Drop for Driver {
    /// Workers end by themselves; one that hangs in a call is left behind, and dies with the process.
    fn drop(&mut self) {
        self.stop();
    }
}

/// The opened library, and what is known of driver and GPUs.
pub type Opened = (Library, DriverFacts, Vec<GpuFacts>);

/// Opens the library alone, for whoever asks its GPUs on threads of his own; `more` is asked of it on the
/// same thread that opened it.
///
/// # Errors
/// Why nothing can be read at all, a call that hangs included.
pub async fn open_library<T: Send + 'static>(
    options: &DriverOptions,
    more: impl FnOnce(&Opened, &mut Calls) -> T + Send + 'static,
) -> Result<(Opened, T), Unknown> {
    let path = options.library.clone();
    let opened = off_thread(options, move |calls| {
        let opened = open(path.as_deref(), None, calls)?;
        let more = more(&opened, calls);
        Ok((opened, more))
    });
    opened.await?
}

/// Makes driver calls on a thread of their own. What it gives where nobody waits any more is dropped there.
async fn off_thread<T: Send + 'static>(
    options: &DriverOptions,
    made: impl FnOnce(&mut Calls) -> T + Send + 'static,
) -> Result<T, Unknown> {
    let watch = CallWatch::default();
    let (reply, answer) = oneshot::channel();
    let mut calls = Calls::new(options.clock.clone(), options.call_deadline, watch.clone());
    let opener = std::thread::Builder::new().name("nvml-open".to_owned());
    let spawned = opener.spawn(move || {
        let _ = reply.send(made(&mut calls));
    });
    spawned.map_err(|error| no_thread(&error))?;
    answer_of(answer, &watch, &options.clock, options.call_deadline, None).await
}

fn open(
    path: Option<&std::path::Path>,
    only: Option<&[GpuFacts]>,
    calls: &mut Calls,
) -> Result<Opened, Unknown> {
    let library = Library::open(path, calls)?;
    let (version, library_version) = (library.driver_version(calls), library.nvml_version(calls));
    let (gpus, mut unknowns) = match only {
        Some(only) => open_only(&library, only, calls),
        None => open_all(&library, calls)?,
    };
    if gpus.is_empty()
        && let Some(first) = unknowns.pop()
    {
        return Err(first);
    }
    let facts = DriverFacts {
        kind: library.kind(),
        version,
        library_version,
        stats_v2: library.has_stats_v2(),
        symbols_missing: library.missing_symbols(),
        unknowns,
        cost: calls.take_cost(),
    };
    Ok((library, facts, gpus))
}

type Found = (Vec<GpuFacts>, Vec<Unknown>);

fn open_all(library: &Library, calls: &mut Calls) -> Result<Found, Unknown> {
    let count = library.gpu_count(calls)?;
    if count == 0 {
        return Err(Unknown {
            call: Some("nvmlDeviceGetCount_v2"),
            code: Some(0),
            ..Unknown::of(UnknownReason::NoGpuFound)
        });
    }
    let (mut gpus, mut unknowns) = (Vec::new(), Vec::new());
    for index in 0..count {
        match library.gpu_at(index, calls) {
            Ok(gpu) => gpus.push(facts_of(&gpu, index, calls)),
            Err(unknown) => unknowns.push(unknown),
        }
    }
    Ok((gpus, unknowns))
}

/// One whose address is not known cannot be opened without a search, and is left out.
fn open_only(library: &Library, only: &[GpuFacts], calls: &mut Calls) -> Found {
    let (mut gpus, mut unknowns) = (Vec::new(), Vec::new());
    for known in only {
        let Observed::Known(address) = &known.pci_bus_id else {
            let gpu = Some(known.uuid.clone());
            unknowns.push(Unknown { gpu, ..Unknown::of(UnknownReason::ValueNotAvailable) });
            continue;
        };
        match library.gpu_at_address(&known.uuid, address, calls) {
            Ok(gpu) => gpus.push(facts_of(&gpu, known.index, calls)),
            Err(unknown) => unknowns.push(unknown),
        }
    }
    (gpus, unknowns)
}

fn facts_of(gpu: &GpuHandle<'_>, index: u32, calls: &mut Calls) -> GpuFacts {
    GpuFacts {
        uuid: gpu.uuid().clone(),
        index,
        name: observed(gpu.name(calls)),
        minor: observed(gpu.minor(calls)),
        pci_bus_id: observed(gpu.pci_bus_id(calls)),
        persistence: observed(gpu.persistence(calls)),
        mig: observed(gpu.mig(calls)),
        vgpu_host: observed(gpu.vgpu_host(calls)),
        accounting: gpu.accounting_on(calls),
        buffer_size: observed(gpu.buffer_size(calls)),
    }
}

fn observed<T>(answer: Result<T, Unknown>) -> Observed<T> {
    answer.map_or_else(|unknown| Observed::Unknown(unknown.reason), Observed::Known)
}

/// Waits for an answer from a thread that makes calls, as long as none of them hangs.
async fn answer_of<T>(
    mut answer: oneshot::Receiver<T>,
    watch: &CallWatch,
    clock: &Clock,
    deadline: Duration,
    gpu: Option<&GpuUuid>,
) -> Result<T, Unknown> {
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => {
                // The thread ended without an answer: it was told to stop.
                return answer.map_err(|_| Unknown::of(UnknownReason::NvmlUninitialized));
            }
            () = tokio::time::sleep(pace(deadline)) => {}
        }
        if let Some(InFlight { call, since }) = watch.in_flight()
            && overdue(since, clock.now(), deadline)
        {
            return Err(timed_out(call, gpu));
        }
    }
}

fn overdue(since: Stamp, now: Stamp, deadline: Duration) -> bool {
    Duration::from_nanos(now.mono_ns.saturating_sub(since.mono_ns)) >= deadline
}

/// How often hanging calls are looked for.
fn pace(deadline: Duration) -> Duration {
    (deadline / 4).max(Duration::from_millis(1))
}

fn no_thread(error: &std::io::Error) -> Unknown {
    Unknown { detail: Some(error.to_string()), ..Unknown::of(UnknownReason::OsErrorOrCgroupDenied) }
}
