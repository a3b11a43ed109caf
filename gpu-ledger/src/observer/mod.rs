//! The hands and eyes of a [`Host`]: kernel events, procfs, and the driver.
//!
//! Purpose: bring everything that happens into the host in the right order, and do the reads it wants.
//! May touch: bpf, procfs, cgroupfs, the driver's threads. May not: decide anything that the host can,
//! or wait for a driver call or a name.
//!
//! The order at the start: attach first, prove the events right, then look at procfs, so that nothing
//! falls between the two; what procfs says and an event contradicts, the event wins. The order later:
//! the reports that wait are taken before the ring is drained, so that every event up to the last read's
//! end is in hand when that read is acted on.

mod anew;
pub(crate) mod heap;
mod prerequisites;
mod release;
mod ring;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unread_tests;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use prerequisites::Missing;
pub(crate) use release::ReleaseError;
pub(crate) use ring::EventCounts;

use self::ring::Ring;
use crate::accounting::driver::{Before, Driver, DriverFacts, DriverOptions, GpuFacts, Report};
use crate::clock::Clock;
use crate::host::{Drained, Host, HostError, HostSettings, Resumed};
use crate::identity::{CgroupMounts, CgroupPaths, IdentityError, Procfs};
use crate::kernel::selftest::KnownChild;
use crate::kernel::{KernelError, TracerOptions};
use crate::naming::Naming;
use crate::unit::{GpuUuid, Pid};
use crate::unknown::Unknown;

/// The ring is drained this often: quick enough for the driver's 128 dead rows, and a wake-up for
/// every event would cost more than the event (an interrupt to oneself, dear in a virtual machine).
pub(crate) const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// Why no process can be named by its events.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObserverError {
    /// The kernel side could not be had.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// procfs or cgroupfs could not be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// What the events say of a known child is not what procfs says.
    #[error("the start-up self-test failed: {0}; no event of this kernel is believed")]
    SelfTest(String),
    /// The ring's descriptor cannot be waited for.
    #[error("the event ring cannot be polled: {0}")]
    Poll(std::io::Error),
}

/// What either side has to say.
pub(crate) enum Wake {
    /// The ring fills quicker than the timer empties it.
    RingFills,
    /// A read came to its end, or hangs.
    Driver(Report),
}

/// Who watches, and what it knows already.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The clocks.
    pub(crate) clock: Clock,
    /// The host's name, as it stands on its settlements.
    pub(crate) host_name: Arc<str>,
    /// The arguments with which this very program runs as the self-test's known child.
    pub(crate) probe_arguments: Vec<OsString>,
    /// How the host is watched, but for what the kernel side decides (`events`, `touches_watched`).
    pub(crate) settings: HostSettings,
    /// What is known from before a restart.
    pub(crate) resumed: Resumed,
    /// Asked ahead for the names of whoever is seen; whose they are, the host is told by its attributor.
    pub(crate) naming: Option<Arc<Naming>>,
}

/// The watching of one host.
pub(crate) struct Observer {
    clock: Clock,
    host: Host,
    /// `None` where no process event can be had.
    ring: Option<Ring>,
    procfs: Procfs,
    mounts: CgroupMounts,
    driver: Option<Driver>,
    facts: Option<DriverFacts>,
    /// How the driver was opened; `None` before the first time.
    driver_options: Option<DriverOptions>,
    /// What is known of GPUs whose workers have ended.
    before: Before,
    /// GPUs whose handles were given back on request and not asked for again.
    released: BTreeSet<GpuUuid>,
    /// Reads that came to their end while the driver was closed, not acted on yet.
    left: Vec<Report>,
    naming: Option<Arc<Naming>>,
}

impl Observer {
    /// Sees no process: nobody can be named, and every moment from now on is a gap.
    pub(crate) fn blind(setup: Setup) -> Self {
        let now = setup.clock.now();
        let settings = HostSettings { events: false, touches_watched: false, ..setup.settings };
        let host = Host::new(setup.host_name, now, settings, setup.resumed);
        let naming = setup.naming;
        let mut this = Self::new(setup.clock, host, None, CgroupMounts::default(), naming);
        this.host.begin(now);
        this
    }

    /// Attaches, tests, seeds. From its return on every process event is received or counted.
    pub(crate) fn watch(setup: Setup, options: &TracerOptions) -> Result<Self, ObserverError> {
        let mounts = CgroupMounts::read(&options.proc_root, Path::new("/"))?;
        let mut ring = Ring::attach(options)?;
        let settings = HostSettings {
            events: true,
            touches_watched: ring.touch_off_because().is_none(),
            own_pid: Some(Pid(std::process::id())),
            ..setup.settings
        };
        let now = setup.clock.now();
        let host = Host::new(setup.host_name, now, settings, setup.resumed);
        let known = KnownChild {
            program: PathBuf::from("/proc/self/exe"),
            arguments: setup.probe_arguments,
        };
        let tested = ring.self_test(&setup.clock, &known)?;
        let mut paths = CgroupPaths::default();
        paths.scan(&mounts);
        let mut this = Self::new(setup.clock, host, Some(ring), mounts, setup.naming);
        this.take_events(tested);
        this.host.name_cgroups(&paths);
        if let Some(naming) = &this.naming {
            naming.meet_groups(&paths);
        }
        this.look()?;
        this.drain();
        // Whoever lived when the look ended is known by it, whoever came later by events.
        this.host.begin(this.clock.now());
        // Last, so that it also gives back what reading procfs took.
        heap::give_back();
        Ok(this)
    }

    fn new(
        clock: Clock,
        host: Host,
        ring: Option<Ring>,
        mounts: CgroupMounts,
        naming: Option<Arc<Naming>>,
    ) -> Self {
        Self {
            clock,
            host,
            ring,
            procfs: Procfs::new(PathBuf::from("/proc")),
            mounts,
            driver: None,
            facts: None,
            driver_options: None,
            before: Before::default(),
            released: BTreeSet::new(),
            left: Vec::new(),
            naming,
        }
    }

    /// Opens the driver, and begins to read every GPU.
    ///
    /// # Errors
    /// Why nothing can be read at all. [`Observer::regain`] tries again.
    pub(crate) async fn open_driver(&mut self, options: DriverOptions) -> Result<(), Unknown> {
        self.driver_options = Some(options);
        self.open().await
    }

    fn opened(&mut self, facts: DriverFacts, gpus: Vec<GpuFacts>, driver: Driver) {
        for unknown in &facts.unknowns {
            self.host.note_unknown(unknown);
        }
        for gpu in gpus {
            self.host.found(gpu);
        }
        self.facts = Some(facts);
        self.driver = Some(driver);
    }

    /// The next thing that either side has to say.
    pub(crate) async fn next(&mut self) -> Wake {
        let (ring, driver) = (&self.ring, &mut self.driver);
        let fills = async {
            match ring {
                Some(ring) => ring.fills().await,
                None => std::future::pending().await,
            }
        };
        let reports = async {
            if let Some(driver) = driver
                && let Some(report) = driver.next().await
            {
                return report;
            }
            // No driver, or every worker has ended.
            std::future::pending().await
        };
        tokio::select! {
            () = fills => Wake::RingFills,
            report = reports => Wake::Driver(report),
        }
    }

    /// Moves on: acts on a report, on those that wait behind it, and on every event, and asks for the
    /// reads that are wanted then. What was learnt is in [`Host::take_notes`].
    pub(crate) fn advance(&mut self, wake: Option<Wake>) -> Result<(), HostError> {
        let mut reports = std::mem::take(&mut self.left);
        if let Some(Wake::Driver(report)) = wake {
            reports.push(report);
        }
        if let Some(driver) = &mut self.driver {
            reports.extend(driver.waiting());
        }
        // After the reports: every event up to the last read's end is then in hand.
        self.drain();
        let unknown = self.host.bearers_unknown();
        let gone = unknown.into_iter().filter(|pid| self.is_gone(*pid)).collect();
        self.host.bearers_gone(gone);
        for report in reports {
            self.host.reported(report);
        }
        self.host.observe_clock(self.clock.now());
        if let Some(driver) = &self.driver {
            let gpus: Vec<GpuUuid> = self.host.gpus().keys().cloned().collect();
            for gpu in gpus {
                if let Some(call) = driver.sampling(&gpu) {
                    self.host.samples_memory(&gpu, call);
                }
            }
        }
        let moved = self.host.advance();
        self.ask();
        moved
    }

    /// Empties the ring, and looks at procfs where something was lost.
    fn drain(&mut self) {
        let drained = match &mut self.ring {
            Some(ring) => ring.drain(&self.clock),
            None => Drained { began: self.clock.now(), events: Vec::new(), losses: Vec::new() },
        };
        self.take_in(drained);
    }

    /// Whoever is new is asked for before the host has a use for the name.
    fn take_events(&mut self, drained: Drained) {
        if let Some(naming) = &self.naming {
            naming.meet(&drained.events);
        }
        self.host.drained(drained);
    }

    fn take_in(&mut self, drained: Drained) {
        self.take_events(drained);
        if self.host.wants_look()
            && let Err(error) = self.look()
        {
            // The gaps stay open until a look succeeds.
            tracing::error!(%error, "procfs cannot be read again after a loss");
        }
    }

    /// Looks at procfs: at the start for those already living, after a loss for what was missed.
    fn look(&mut self) -> Result<(), ObserverError> {
        let snapshot = self.procfs.snapshot(&self.clock, &self.mounts)?;
        if let Some(naming) = &self.naming {
            naming.meet_living(&snapshot);
        }
        self.host.look(&snapshot, self.clock.now());
        Ok(())
    }

    /// Hands the wanted reads to their workers.
    pub(crate) fn ask(&mut self) {
        // While it is closed, what is wanted stays wanted.
        let Some(driver) = &self.driver else { return };
        for wanted in self.host.take_wanted() {
            let Some(worker) = driver.worker(&wanted.gpu) else { continue };
            if let Some(pace) = wanted.pace {
                worker.set_awaited(pace);
            }
            if let Some(read) = wanted.read {
                worker.request(read);
            }
        }
    }

    /// Whether nobody bears a pid now: asked of procfs, where events do not tell.
    fn is_gone(&self, pid: Pid) -> bool {
        matches!(self.procfs.read(pid, &self.mounts), Ok(None))
    }

    /// Asks for a read of every GPU at once.
    pub(crate) fn want_reads(&mut self, sweep: bool, processes: bool) {
        self.host.want_reads(sweep, processes);
        self.ask();
    }

    /// Asks for one last read of every GPU, after which its worker ends.
    pub(crate) fn finish_reads(&mut self) {
        self.want_reads(true, true);
        if let Some(driver) = &self.driver {
            driver.workers().for_each(crate::accounting::worker::GpuWorker::finish);
        }
    }

    /// Stops the kernel side, takes what is left, and counts. `None` without events.
    pub(crate) fn stop(&mut self) -> Result<Option<EventCounts>, HostError> {
        let moved = self.advance(None);
        let mut counts = None;
        if let Some(ring) = self.ring.take() {
            let (drained, counted) = ring.stop(&self.clock);
            self.take_in(drained);
            counts = counted;
        }
        self.host.end(self.clock.now());
        moved.map(|()| counts)
    }

    /// The host as it is known.
    pub(crate) const fn host(&self) -> &Host {
        &self.host
    }

    /// The same, to take notes and to acknowledge them.
    pub(crate) const fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The clocks.
    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Process events so far; `None` where none are received.
    pub(crate) fn event_counts(&self) -> Option<EventCounts> {
        self.ring.as_ref()?.counts()
    }

    /// Whether process events are received.
    pub(crate) const fn sees_events(&self) -> bool {
        self.ring.is_some()
    }

    /// The opened driver; `None` while it is closed.
    pub(crate) const fn driver(&self) -> Option<&Driver> {
        self.driver.as_ref()
    }

    /// What is known of the driver, from when it was last opened.
    pub(crate) const fn driver_facts(&self) -> Option<&DriverFacts> {
        self.facts.as_ref()
    }

    /// Why opens of NVIDIA devices are not watched; `None` while they are.
    pub(crate) fn touch_off_because(&self) -> Option<String> {
        match &self.ring {
            Some(ring) => ring.touch_off_because(),
            None => Some("process events are not received".to_owned()),
        }
    }
}
