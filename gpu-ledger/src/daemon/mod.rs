//! The daemon: watches for months, journals, and answers.
//!
//! Purpose: the shell of `gpu-ledger daemon`. One loop holds the watched host: it drains the ring, takes the
//! driver's reads in, makes drafts of what was learnt and hands them to the writer's thread, which owns the
//! journal. May touch: everything. May not: wait for the disk or for a client; acknowledge what is not on
//! the disk; compute a figure that a pure room could.
//!
//! ```text
//! observer ─► host ─► notes ─► drafts ─► queue ─► writer (a thread) ─► journal
//!                ▲                                   │
//!                └───── acknowledged, after commit ──┘
//! ```

mod calls;
mod client;
mod meters;
mod notify;
mod offline;
mod overflow;
mod queue;
mod request;
mod rows;
mod signals;
mod socket;
mod start;
mod status;
mod tally;
mod turn;
mod writer;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, interval_at, sleep_until};

use self::calls::Release;
pub(crate) use self::client::{Client, ClientError};
use self::notify::Manager;
pub(crate) use self::offline::{offline_status, status_text};
use self::overflow::Overflow;
use self::queue::Queue;
use self::request::Call;
pub(crate) use self::request::{RELEASE_DEFAULT, VERSION};
use self::signals::{Asked, Signals};
use self::socket::{CALLS_MAX, Socket};
use self::writer::{Condition, Writer};
use crate::accounting::driver::{DriverOptions, in_initial_pid_namespace};
use crate::clock::Clock;
use crate::config::{Config, Reload};
use crate::host::Forgotten;
use crate::journal::draft::Drafter;
use crate::journal::store::{StateDir, Store};
use crate::kernel::TracerOptions;
use crate::observer::{Observer, ReleaseError, Wake};
use crate::session::preflight::host_name;
use crate::unit::BootNs;
use crate::unknown::{Unknown, UnknownReason};

/// The ring is drained this often: quick enough for the driver's 128 dead rows, and a wake-up for
/// every event would cost more than the event.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);
/// The first read of every GPU must be there within this time, or it is said that it is not; the last
/// one too.
const READ_PATIENCE: Duration = Duration::from_secs(5);
/// How soon a driver that is not there is tried again; each time twice as late, …
const DRIVER_RETRY_MIN: Duration = Duration::from_secs(1);
/// … up to this.
const DRIVER_RETRY_MAX: Duration = Duration::from_secs(10);
/// How long what waits at the end may take to get onto the disk.
const COMMIT_PATIENCE: Duration = Duration::from_secs(15);

/// What the daemon is asked to do.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The configuration file; the default one, where there is one, if none is named.
    pub config: Option<PathBuf>,
    /// Goes before what the file says, as all that follow.
    pub state_dir: Option<PathBuf>,
    /// Where readers ask.
    pub socket: Option<PathBuf>,
    /// The NVML library.
    pub nvml_library: Option<PathBuf>,
    /// The clocks.
    pub clock: Clock,
    /// `NOTIFY_SOCKET` of the environment.
    pub notify_socket: Option<OsString>,
    /// `WATCHDOG_USEC` of the environment.
    pub watchdog: Option<Duration>,
}

impl DaemonOptions {
    /// The file's values, with those of the command line before them.
    fn config(&self) -> Result<Config, crate::config::ConfigError> {
        let mut config = Config::read_or_default(self.config.as_deref())?;
        if let Some(state_dir) = &self.state_dir {
            config.state_dir.clone_from(state_dir);
        }
        if let Some(socket) = &self.socket {
            config.socket.path.clone_from(socket);
        }
        if self.nvml_library.is_some() {
            config.nvml_library.clone_from(&self.nvml_library);
        }
        Ok(config)
    }
}

/// Runs until told to stop.
///
/// # Errors
/// What keeps it from running, or from going on: another daemon, a journal that cannot be written.
pub fn run(options: &DaemonOptions) -> anyhow::Result<u8> {
    let config = options.config()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ran = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let mut daemon = Daemon::start(options, config).await?;
        daemon.watch(&mut signals).await?;
        daemon.stop().await
    });
    // A driver call that hangs must not keep the process.
    runtime.shutdown_background();
    ran.map(|()| 0)
}

/// The running daemon.
struct Daemon {
    options: DaemonOptions,
    config: Config,
    clock: Clock,
    manager: Manager,
    observer: Observer,
    drafter: Drafter,
    queue: Arc<Queue>,
    writer: Writer,
    overflow: Overflow,
    tally: tally::Shared,
    board: meters::Board,
    meters: Interval,
    /// What was logged of what is dropped under a bound.
    forgotten_told: BTreeSet<Forgotten>,
    marks: Interval,
    /// The first reads were asked for then; `None` once it is ready.
    starting: Option<(BootNs, Instant)>,
    /// When the driver is tried again.
    driver_retry: Instant,
    /// How long after the last time.
    driver_patience: Duration,
    /// What keeps process events away, for good.
    lacks: Vec<Unknown>,
    /// What keeps the driver away, now.
    driver_lack: Option<Unknown>,
    /// A call hung while the driver was closed: it is opened again as soon as it can be.
    reopens: bool,
    releases: Vec<Release>,
    calls: mpsc::Receiver<Call>,
    /// Who may see everything; shared with every connection.
    group: Arc<Mutex<String>>,
    /// `None` where it could not be had: everything is booked all the same.
    _socket: Option<Socket>,
    /// The writer's beats when the watchdog was last told.
    beats_told: u64,
}

impl Daemon {
    async fn start(options: &DaemonOptions, config: Config) -> anyhow::Result<Self> {
        let clock = options.clock.clone();
        let manager = Manager::of(options.notify_socket.as_ref(), options.watchdog);
        let boot = start::boot_id()?;
        let dir = StateDir::at(&config.state_dir);
        let (store, recovered) = Store::open(&dir)?;
        for warning in store.warnings() {
            tracing::warn!("{warning}");
        }
        let left = start::left(&store, &dir, &recovered, boot, clock.now())?;
        let host_name = host_name();
        let key = store.commitment_key().clone();
        let mut drafter = Drafter::new(boot, Arc::clone(&host_name), start::agent_facts(), key);
        let mut first = drafter.resume(left.earlier, &left.last_seen, clock.now());
        let tracer = TracerOptions {
            ring_bytes: config.ring_bytes,
            device_touch: config.device_touch,
            ..TracerOptions::default()
        };
        let (mut observer, missing) = start::observe(&clock, host_name, &tracer, left.resumed);
        let touch_off = observer.touch_off_because();
        drafter.device_touch(touch_off.is_none());
        let since = observer.host().coverage().end;
        let gap = start::gap_since_another_boot(&drafter, left.last, boot, since);
        let mut lacks = Vec::new();
        for (unknown, advice) in missing {
            tracing::error!("{unknown} {advice}");
            observer.host_mut().note_unknown(&unknown);
            lacks.push(unknown);
        }
        if let Some(why) = touch_off.filter(|_| config.device_touch) {
            tracing::warn!("device-touch off: {why}");
            observer.host_mut().note_unknown(&Unknown::of(UnknownReason::DeviceTouchOff));
        }
        let queue = Arc::new(Queue::new(config.journal.queue_length));
        let tally = tally::Shared::default();
        let sums = tally.start(dir.clone(), recovered.head.seq)?;
        let tell = move |at, news| {
            // It ends with the process alone.
            let _ = sums.send((at, news));
        };
        let writer = Writer::start(store, boot, clock.clone(), Arc::clone(&queue), tell)?;
        first.extend(gap);
        let group = Arc::new(Mutex::new(config.socket.group.clone()));
        let (caller, calls) = mpsc::channel(CALLS_MAX);
        let socket = Socket::listen(&config.socket.path, Arc::clone(&group), dir, caller);
        let socket =
            socket.inspect_err(|error| tracing::error!("nobody can ask this daemon: {error}")).ok();
        let mut marks = interval_at(Instant::now() + config.mark_interval, config.mark_interval);
        marks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut meters = interval(config.metrics.interval);
        meters.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut daemon = Self {
            options: options.clone(),
            config,
            clock,
            manager,
            observer,
            drafter,
            queue,
            writer,
            overflow: Overflow::default(),
            tally,
            board: meters::Board::default(),
            meters,
            forgotten_told: BTreeSet::new(),
            marks,
            starting: None,
            driver_retry: Instant::now() + DRIVER_RETRY_MIN,
            driver_patience: DRIVER_RETRY_MIN,
            lacks,
            driver_lack: None,
            reopens: false,
            releases: Vec::new(),
            calls,
            group,
            _socket: socket,
            beats_told: 0,
        };
        daemon.take_over_meters();
        daemon.listen().await?;
        daemon.keep(first);
        daemon.turn(None)?;
        daemon.open_driver().await?;
        Ok(daemon)
    }

    /// Opens the driver and asks for the first reads.
    async fn open_driver(&mut self) -> anyhow::Result<()> {
        let dead_rows_hidden = match in_initial_pid_namespace() {
            Ok(initial) => !initial,
            Err(error) => {
                tracing::warn!(%error, "/proc/self/ns/pid does not tell which pid namespace this is");
                true
            }
        };
        if dead_rows_hidden {
            let unknown = Unknown::of(UnknownReason::DeadRowsHiddenByPidNamespace);
            self.observer.host_mut().note_unknown(&unknown);
        }
        let driver = DriverOptions {
            library: self.config.nvml_library.clone(),
            call_deadline: self.config.call_deadline,
            clock: self.clock.clone(),
            dead_rows_hidden,
            touches_watched: self.observer.host().touches_watched(),
        };
        match self.observer.open_driver(driver).await {
            Ok(()) => self.driver_opened(),
            Err(unknown) => self.driver_missing(&unknown),
        }
        self.starting = Some((self.clock.now().boot, Instant::now() + READ_PATIENCE));
        self.observer.want_reads(true, true);
        self.turn(None)
    }

    fn driver_opened(&mut self) {
        (self.driver_lack, self.reopens) = (None, false);
        if let Some(facts) = self.observer.driver_facts() {
            self.drafter.driver(facts);
        }
    }

    fn driver_missing(&mut self, unknown: &Unknown) {
        tracing::error!("{unknown}: no amounts; it is tried again every {DRIVER_RETRY_MAX:?}");
        self.observer.host_mut().note_unknown(unknown);
        self.driver_lack = Some(unknown.clone());
    }

    /// Watches until somebody asks to stop.
    async fn watch(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let mut tick = interval(DRAIN_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watchdog = interval(self.manager.watchdog.unwrap_or(Duration::from_hours(24)));
        watchdog.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.turn(None)?,
                wake = self.observer.next() => self.turn(Some(wake))?,
                changed = self.writer.progress.changed() => {
                    if changed.is_err() {
                        anyhow::bail!("{}", self.why_the_writer_ended());
                    }
                    self.acknowledge()?;
                }
                _ = self.marks.tick() => self.mark(None),
                _ = self.meters.tick() => self.publish(),
                _ = watchdog.tick() => self.tell_watchdog(),
                Some(call) = self.calls.recv() => self.serve(call).await?,
                asked = signals.next() => match asked {
                    Asked::Stop => return Ok(()),
                    Asked::Reload => self.reload(),
                },
            }
            self.get_ready();
            self.see_to_the_driver().await?;
            self.see_to_overflow().await?;
            self.see_to_releases().await?;
        }
    }

    /// Ready once coverage began and every GPU's first read was tried.
    fn get_ready(&mut self) {
        let Some((asked, deadline)) = self.starting else { return };
        let mut gpus = self.observer.host().gpus().values();
        let all = gpus.all(|gpu| gpu.was_read_after(asked) || gpu.is_stalled());
        if all || Instant::now() >= deadline {
            self.starting = None;
            self.mark(None);
            self.manager.tell("READY=1\nSTATUS=watching");
            tracing::info!("watching");
        }
    }

    /// A driver that is not there may come.
    async fn see_to_the_driver(&mut self) -> anyhow::Result<()> {
        if self.starting.is_some() || Instant::now() < self.driver_retry {
            return Ok(());
        }
        if !self.reopens && !self.observer.needs_driver() {
            self.driver_patience = DRIVER_RETRY_MIN;
            self.driver_retry = Instant::now() + DRIVER_RETRY_MIN;
            return Ok(());
        }
        self.driver_patience = (self.driver_patience * 2).min(DRIVER_RETRY_MAX);
        self.driver_retry = Instant::now() + self.driver_patience;
        match self.observer.try_again(self.config.call_deadline).await {
            Ok(()) => {
                tracing::info!("the driver is there");
                self.driver_opened();
                self.observer.want_reads(true, true);
            }
            Err(error) => {
                tracing::debug!(%error, "the driver is still missing");
                if let ReleaseError::Hangs(unknown) | ReleaseError::Unopened(unknown) = error {
                    self.driver_lack = Some(unknown);
                }
            }
        }
        self.turn(None)
    }

    /// The configuration file is read again; a wrong one changes nothing.
    fn reload(&mut self) {
        let wanted = match self.options.config() {
            Ok(wanted) => wanted,
            Err(error) => {
                tracing::error!("not reloaded, and nothing changed: {error}");
                return;
            }
        };
        let reload = Reload::of(&self.config, wanted);
        for change in &reload.changes {
            let (from, to) = (change.from.as_deref(), change.to.as_deref());
            let when = if change.needs_restart { "when the daemon starts anew" } else { "now" };
            tracing::info!(key = change.key, from, to, when, "reloaded");
        }
        if reload.in_force.mark_interval != self.config.mark_interval {
            let every = reload.in_force.mark_interval;
            self.marks = interval_at(Instant::now() + every, every);
            self.marks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        if reload.in_force.metrics.interval != self.config.metrics.interval {
            self.meters = interval(reload.in_force.metrics.interval);
            self.meters.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        self.config = reload.in_force;
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        group.clone_from(&self.config.socket.group);
    }

    /// Tells the service manager that both loop and writer make progress.
    fn tell_watchdog(&mut self) {
        let beats = self.writer.progress.borrow().beats;
        if beats != self.beats_told {
            self.beats_told = beats;
            self.manager.tell("WATCHDOG=1");
        }
    }

    /// The last reads, the last drain, and everything onto the disk.
    async fn stop(mut self) -> anyhow::Result<()> {
        self.manager.tell("STOPPING=1");
        let asked = self.clock.now().boot;
        self.observer.finish_reads();
        let deadline = Instant::now() + READ_PATIENCE;
        let mut tick = interval(DRAIN_INTERVAL);
        while self.waits_for_reads(asked) {
            tokio::select! {
                _ = tick.tick() => self.turn(None)?,
                wake = self.observer.next() => self.turn(Some(wake))?,
                () = sleep_until(deadline) => break,
            }
        }
        self.turn(None)?;
        self.mark(None);
        self.observer.stop()?;
        self.take_notes();
        self.queue.close();
        let deadline = Instant::now() + COMMIT_PATIENCE;
        while !self.writer.is_finished() && Instant::now() < deadline {
            tick.tick().await;
        }
        if !self.writer.is_finished() {
            self.queue.abandon();
        }
        let (condition, waiting) =
            (self.writer.progress.borrow().condition.clone(), self.queue.length());
        match condition {
            Condition::Well if waiting == 0 => Ok(()),
            Condition::Failed(_) => anyhow::bail!("{}", self.why_the_writer_ended()),
            _ => anyhow::bail!(
                "{waiting} entries could not be written before the end: {condition:?}"
            ),
        }
    }

    fn waits_for_reads(&self, asked: BootNs) -> bool {
        let released = self.observer.released();
        let mut gpus = self.observer.host().gpus().values();
        self.observer.driver().is_some()
            && gpus.any(|gpu| {
                !gpu.was_read_after(asked)
                    && !gpu.is_stalled()
                    && !released.contains(&gpu.facts.uuid)
            })
    }

    fn why_the_writer_ended(&self) -> String {
        match &self.writer.progress.borrow().condition {
            Condition::Failed(why) => format!("the journal cannot be written: {why}"),
            _ => "the journal's writer ended; this is a bug, please report it".to_owned(),
        }
    }

    /// Moves on, and keeps what was learnt.
    fn turn(&mut self, wake: Option<Wake>) -> anyhow::Result<()> {
        self.observer.advance(wake)?;
        self.take_notes();
        Ok(())
    }
}
