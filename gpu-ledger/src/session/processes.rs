//! The side that knows who: kernel events, drained into the table of lifetimes.
//!
//! Order matters at the start: attach first, prove the events right, then seed from procfs, so that
//! nothing falls between the two; what the seed says and an event contradicts, the event wins.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio::io::unix::AsyncFd;

use crate::clock::{Clock, ClockHistory, Stamp};
use crate::coverage::{Coverage, Gap};
use crate::identity::{
    Applied, CgroupMounts, CgroupPaths, EvictedLately, ForgetProof, Lifetimes, Procfs,
};
use crate::kernel::devices::NVIDIA_MAJOR;
use crate::kernel::selftest::{self, KnownChild, Mismatch};
use crate::kernel::{
    DeviceTouchState, Event, KernelError, ProcessKey, Tracer, TracerOptions, WireError,
};
use crate::session::heap;
use crate::session::launch::PROBE_WORD;
use crate::session::report::Events;
use crate::unit::{BootNs, Pid};
use crate::unknown::GapCause;

/// Minor number of `/dev/nvidiactl`, the control device that every client opens
/// (open-gpu-kernel-modules 595.45.04, `kernel-open/common/inc/nv-chardev-numbers.h`).
const CONTROL_MINOR: u32 = 255;

/// Why no process can be named by its events.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessesError {
    /// The kernel side could not be had.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// procfs or cgroupfs could not be read.
    #[error(transparent)]
    Identity(#[from] crate::identity::IdentityError),
    /// What the events say of a known child is not what procfs says.
    #[error("the start-up self-test failed: {0}; no event of this kernel is believed")]
    SelfTest(String),
    /// The ring's descriptor cannot be waited for.
    #[error("the event ring cannot be polled: {0}")]
    Poll(std::io::Error),
}

/// A process that ended, for those who provoke reads.
pub(super) struct Exited {
    pub(super) key: ProcessKey,
    /// Minor numbers of the GPUs it was seen to open; `None` where opens are not watched.
    pub(super) gpu_minors: Option<BTreeSet<u32>>,
}

/// What one drain of the ring gave.
#[derive(Default)]
struct Records {
    events: Vec<Event>,
    /// Records that could not be read as events.
    undecoded: u64,
}

impl Records {
    fn take(&mut self, record: Result<Event, WireError>) {
        match record {
            Ok(event) => self.events.push(event),
            Err(error) => {
                tracing::error!(%error, "a record of our own kernel side cannot be read");
                self.undecoded = self.undecoded.saturating_add(1);
            }
        }
    }
}

/// Everything known of processes, and since when.
pub(super) struct Processes {
    clock: Clock,
    pub(super) history: ClockHistory,
    pub(super) lifetimes: Lifetimes,
    /// What the join goes by: intervals in which events were not received.
    pub(super) coverage: Coverage,
    /// Intervals in which lifetimes began that had to go early. No event was lost in them, so they cost
    /// nobody else a name.
    evictions: Vec<Gap>,
    cgroups: CgroupPaths,
    mounts: CgroupMounts,
    procfs: Procfs,
    tracer: Option<AsyncFd<Tracer>>,
    /// Which GPUs the living were seen to open, by minor number.
    touching: BTreeMap<ProcessKey, BTreeSet<u32>>,
    touched_count: u64,
    /// Minor numbers of every GPU that anybody was seen to open, ourselves included.
    minors_opened: BTreeSet<u32>,
    /// Events that were received and not applied yet, as they came.
    pending: Vec<Event>,
    /// Processes that ended and were not told yet.
    exited: Vec<Exited>,
    /// Gaps at the end of the list that no scan of procfs has closed yet.
    gaps_open: usize,
}

impl Processes {
    /// Sees nothing: no process can be named, and every moment from now on is a gap.
    pub(super) fn blind(clock: Clock) -> Self {
        let now = clock.now();
        let gap = Gap { cause: GapCause::AgentDown, gpu: None, from: now, to: now, size: None };
        Self::new(clock, now, None, vec![gap], CgroupMounts::default())
    }

    /// Attaches, tests, seeds. From its return on every process event is received or counted.
    pub(super) fn watch(clock: Clock, options: &TracerOptions) -> Result<Self, ProcessesError> {
        let proc_root = options.proc_root.clone();
        let mounts = CgroupMounts::read(&proc_root, Path::new("/"))?;
        let tracer = Tracer::attach(options)?;
        let start = clock.now();
        let tracer = pollable(tracer)?;
        let mut this = Self::new(clock, start, Some(tracer), Vec::new(), mounts);
        this.self_test()?;
        this.cgroups.scan(&this.mounts);
        this.rescan()?;
        this.pull();
        this.apply_until(None);
        // Whoever lived when the scan ended is known by it, whoever came later by events.
        this.coverage.start = this.clock.now();
        this.coverage.end = this.coverage.start;
        // Last, so that it also gives back what reading procfs took.
        heap::give_back();
        Ok(this)
    }

    fn new(
        clock: Clock,
        start: Stamp,
        tracer: Option<AsyncFd<Tracer>>,
        gaps: Vec<Gap>,
        mounts: CgroupMounts,
    ) -> Self {
        let mut history = ClockHistory::default();
        history.observe(start);
        Self {
            clock,
            history,
            lifetimes: Lifetimes::default(),
            coverage: Coverage { start, end: start, gaps },
            evictions: Vec::new(),
            cgroups: CgroupPaths::default(),
            mounts,
            procfs: Procfs::new(PathBuf::from("/proc")),
            tracer,
            touching: BTreeMap::new(),
            touched_count: 0,
            minors_opened: BTreeSet::new(),
            pending: Vec::new(),
            exited: Vec::new(),
            gaps_open: 0,
        }
    }

    /// Waits until the kernel side forces a wake-up because the ring fills; for ever without one.
    pub(super) async fn ring_fills(&self) {
        let Some(tracer) = &self.tracer else { return std::future::pending().await };
        match tracer.readable().await {
            // Cleared before the drain that follows: what comes in between wakes again.
            Ok(mut ready) => ready.clear_ready(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Takes everything out of the ring, and turns what was lost into gaps. Whether anything was.
    pub(super) fn pull(&mut self) -> bool {
        let now = self.clock.now();
        self.pull_as_of(now)
    }

    /// The same, where every event until then is in the ring or lost.
    fn pull_as_of(&mut self, began: Stamp) -> bool {
        self.history.observe(began);
        let Some(tracer) = &mut self.tracer else {
            // Blind: the one gap grows.
            self.coverage.end = began;
            if let Some(gap) = self.coverage.gaps.first_mut() {
                gap.to = began;
            }
            return false;
        };
        let mut records = Records::default();
        let losses = tracer.get_mut().drain_and_confirm(|record| records.take(record));
        self.pending.append(&mut records.events);
        let gaps_before = self.coverage.gaps.len();
        match losses {
            Ok(losses) => {
                for loss in losses {
                    self.lose(loss.after, loss.before, Some(loss.count), began);
                }
            }
            Err(error) => self.lose_unread_counters(&error, began),
        }
        self.lose_undecoded(&records, began);
        self.coverage.end = began;
        self.close_gaps();
        self.coverage.gaps.len() > gaps_before
    }

    /// Applies what was pulled, up to a moment or all of it, and tells who ended.
    pub(super) fn apply_until(&mut self, until: Option<BootNs>) -> Vec<Exited> {
        let (due, later) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|event: &Event| until.is_none_or(|until| event.at() <= until));
        self.pending = later;
        let due: Vec<Event> = due;
        for event in &due {
            let exited = self.apply(event);
            self.exited.extend(exited);
        }
        self.note_evicted();
        std::mem::take(&mut self.exited)
    }

    /// Lifetimes that had to go before their rows were read are a gap: their names are lost.
    fn note_evicted(&mut self) {
        let Some(EvictedLately { from, to, count }) = self.lifetimes.take_evicted() else { return };
        let stamps = self.history.stamp_of(from).zip(self.history.stamp_of(to));
        let Some((from, to)) = stamps else { return };
        let cause = GapCause::QueueOverflow;
        match self.evictions.last_mut().filter(|last| from <= last.to) {
            Some(last) => {
                last.from = last.from.min(from);
                last.to = last.to.max(to);
                last.size = last.size.and_then(|size| size.checked_add(count));
            }
            None => {
                self.evictions.push(Gap { cause, gpu: None, from, to, size: Some(count) });
            }
        }
    }

    /// Coverage with all its gaps, those of a full table among them.
    pub(super) fn coverage_in_all(&self) -> Coverage {
        let mut coverage = self.coverage.clone();
        coverage.gaps.extend(self.evictions.iter().cloned());
        coverage
    }

    /// A loss ends when procfs was read again: from then on what lives is known anew.
    fn close_gaps(&mut self) {
        if self.gaps_open == 0 {
            return;
        }
        // Around a loss the order of what was received tells less than what procfs shows after it.
        for event in std::mem::take(&mut self.pending) {
            let exited = self.apply(&event);
            self.exited.extend(exited);
        }
        for gap in self.coverage.gaps.iter().rev().take(self.gaps_open) {
            self.lifetimes.event_gap(gap.from.boot, gap.to.boot);
        }
        if let Err(error) = self.rescan() {
            // The gaps stay open until a scan succeeds.
            tracing::error!(%error, "procfs cannot be read again after a loss");
            return;
        }
        let now = self.clock.now();
        for gap in self.coverage.gaps.iter_mut().rev().take(std::mem::take(&mut self.gaps_open)) {
            gap.to = now;
        }
    }

    /// Looks at procfs: at the start for those already living, after a loss for what was missed.
    fn rescan(&mut self) -> Result<(), ProcessesError> {
        let snapshot = self.procfs.snapshot(&self.clock, &self.mounts)?;
        for (cgroup, path) in snapshot.processes.iter().flat_map(|seen| &seen.cgroups) {
            self.cgroups.learn(*cgroup, path);
        }
        let seeded = self.lifetimes.reseed(&snapshot);
        tracing::debug!(?seeded, "procfs read");
        Ok(())
    }

    fn self_test(&mut self) -> Result<(), ProcessesError> {
        let Some(tracer) = &mut self.tracer else { return Ok(()) };
        let known = KnownChild {
            program: PathBuf::from("/proc/self/exe"),
            arguments: vec![OsString::from(PROBE_WORD)],
        };
        let mut records = Records::default();
        let outcome = selftest::run(tracer.get_mut(), &known, Path::new("/proc"), |record| {
            records.take(record);
        })?;
        for event in &records.events {
            self.apply(event);
        }
        self.lose_undecoded(&records, self.clock.now());
        if outcome.passed() {
            return Ok(());
        }
        let absent = outcome.absent.iter().map(|event| format!("the {event} event never came"));
        let differing = outcome.mismatches.iter().map(|one| {
            let Mismatch { event, field, recorded, expected } = one;
            format!("{event} {field} is {recorded}, procfs says {expected}")
        });
        let faults: Vec<String> = absent.chain(differing).collect();
        Err(ProcessesError::SelfTest(faults.join("; ")))
    }

    fn apply(&mut self, event: &Event) -> Option<Exited> {
        if let Event::CgroupMade(made) = event {
            self.cgroups.apply(made);
        }
        if let Event::DeviceTouch(touch) = event
            && touch.minor != CONTROL_MINOR
        {
            if touch.major == NVIDIA_MAJOR {
                self.minors_opened.insert(touch.minor);
            }
            self.touching.entry(touch.subject.key).or_default().insert(touch.minor);
        }
        match self.lifetimes.apply(event) {
            Applied::Exited { key, .. } => {
                let minors = self.touching.remove(&key).unwrap_or_default();
                Some(Exited { key, gpu_minors: self.touch_is_on().then_some(minors) })
            }
            Applied::Touched(key) => {
                let ours = key.pid.0 == std::process::id();
                self.touched_count = self.touched_count.saturating_add(u64::from(!ours));
                None
            }
            Applied::Nothing | Applied::Forked(_) | Applied::Executed(_) => None,
        }
    }

    /// Without the counters nobody can say that nothing was lost.
    fn lose_unread_counters(&mut self, error: &KernelError, now: Stamp) {
        tracing::error!(%error, "the loss counters cannot be read");
        self.lose(Some(self.coverage.end.boot), None, None, now);
    }

    /// Records that say nothing are as good as lost: at some time since the last drain.
    fn lose_undecoded(&mut self, records: &Records, now: Stamp) {
        if records.undecoded > 0 {
            self.lose(Some(self.coverage.end.boot), None, Some(records.undecoded), now);
        }
    }

    /// One loss becomes one gap; what lived in it is in doubt until procfs was read again.
    fn lose(
        &mut self,
        after: Option<BootNs>,
        before: Option<BootNs>,
        size: Option<u64>,
        now: Stamp,
    ) {
        let from = after.and_then(|at| self.history.stamp_of(at)).unwrap_or(self.coverage.start);
        let to = before.and_then(|at| self.history.stamp_of(at)).unwrap_or(now);
        let gap = Gap { cause: GapCause::EventLost, gpu: None, from, to, size };
        self.coverage.gaps.push(gap);
        self.gaps_open = self.gaps_open.saturating_add(1);
    }

    /// Whether nobody bears a pid now: asked of procfs, where events do not tell.
    pub(super) fn is_gone(&self, pid: Pid) -> bool {
        matches!(self.procfs.read(pid, &self.mounts), Ok(None))
    }

    /// Forgets the dead whose rows can no longer come.
    pub(super) fn forget(&mut self, reads_began: BootNs, listed_unbooked: &BTreeSet<Pid>) {
        self.lifetimes.forget(&ForgetProof { reads_began, listed_unbooked });
    }

    /// Whether opens of NVIDIA devices are watched.
    pub(super) fn touch_is_on(&self) -> bool {
        self.touch_off_because().is_none()
    }

    /// Why opens of NVIDIA devices are not watched; `None` while they are.
    pub(super) fn touch_off_because(&self) -> Option<String> {
        let Some(tracer) = &self.tracer else {
            return Some("process events are not received".to_owned());
        };
        match tracer.get_ref().device_touch() {
            DeviceTouchState::On { .. } => None,
            DeviceTouchState::Off { reason } => Some(reason.clone()),
        }
    }

    /// Whether any open of a GPU's device file was seen.
    pub(super) fn saw_open_of(&self, minor: u32) -> bool {
        self.minors_opened.contains(&minor)
    }

    /// Processes seen to open an NVIDIA device, our own left out.
    pub(super) const fn touched_count(&self) -> u64 {
        self.touched_count
    }

    /// Stops the kernel side, takes what is left, and counts: now nothing is on its way any more,
    /// so produced = received + lost must hold exactly. `None` without events.
    pub(super) fn stop(&mut self) -> Option<Events> {
        self.pull();
        let ended = self.clock.now();
        if let Some(tracer) = &mut self.tracer
            && let Err(error) = tracer.get_mut().detach()
        {
            tracing::error!(%error, "the kernel programs cannot be detached");
        }
        // What happens from now on is seen by nobody.
        self.pull_as_of(ended);
        self.apply_until(None);
        let tracer = self.tracer.take()?.into_inner();
        let counts = tracer.counts().ok()?;
        if counts.read_faults() > 0 {
            let members = counts.read_faults();
            tracing::warn!(members, "some members of kernel structures could not be read");
        }
        if let Ok(Err(imbalance)) = tracer.balance() {
            tracing::error!(%imbalance, "events do not balance: a bug of gpu-ledger");
        }
        Some(Events {
            produced: counts.produced().total(),
            received: tracer.sequence().received().total(),
            lost: counts.lost().total(),
        })
    }
}

#[expect(
    deprecated,
    reason = "the tracer keeps its ring's descriptor as long as it lives, which is all that the \
              unsafe constructor would have us promise"
)]
fn pollable(tracer: Tracer) -> Result<AsyncFd<Tracer>, ProcessesError> {
    AsyncFd::new(tracer).map_err(ProcessesError::Poll)
}

#[cfg(test)]
#[path = "processes_tests.rs"]
mod tests;
