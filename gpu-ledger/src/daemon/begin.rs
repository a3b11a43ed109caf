//! The start: everything opened, what earlier runs left taken over, the first reads asked for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::anchors::SharedOutlets;
use super::calls::Desk;
use super::fresh::Fresh;
use super::queue::Queue;
use super::ready::Readiness;
use super::request::Call;
use super::reread::Readings;
use super::resumed::ResumedMeters;
use super::rules::{Found, InForce, Reloads};
use super::signing::Signing;
use super::socket::{CALLS_MAX, Socket, SocketError};
use super::writer::Writer;
use super::{DRIVER_RETRY_MIN, Daemon, DaemonOptions, every, meters, start, tally};
use crate::accounting::driver::{DriverOptions, in_initial_pid_namespace};
use crate::clock::Clock;
use crate::config::Config;
use crate::journal::draft::{Drafter, Earlier, Left, Pending};
use crate::journal::entry::BootId;
use crate::journal::keeping::Overflow;
use crate::journal::store::{StateDir, Store};
use crate::kernel::TracerOptions;
use crate::notify::Manager;
use crate::observer::{Missing, Observer};
use crate::session::preflight::host_name;
use crate::unknown::{Unknown, UnknownReason};

impl Daemon {
    pub(super) async fn start(
        options: &DaemonOptions,
        config: Config,
        rules: Found,
    ) -> anyhow::Result<Self> {
        let clock = options.clock.clone();
        let boot = start::boot_id()?;
        let dir = StateDir::at(&config.state_dir);
        let (mut store, recovered) = start::open_journal(&dir)?;
        let left = start::left(&store, &dir, &recovered, boot, clock.now())?;
        let (host_name, key) = (host_name(), store.commitment_key().clone());
        let mut drafter = Drafter::new(boot, Arc::clone(&host_name), start::agent_facts(), key);
        let watched = (tracer_options(&config), config.memory_period);
        let naming = start::naming(&config, &clock);
        let (mut observer, missing) =
            start::observe(&clock, host_name, &watched, left.resumed, Arc::clone(&naming));
        let in_force = InForce::at_start(rules, naming, config.cmdline, &mut observer);
        let touch_off = observer.touch_off_because();
        drafter.device_touch(touch_off.is_none());
        drafter.cmdline(config.cmdline);
        let since = observer.host().coverage().end;
        let down = Left::gap_since_another_boot(left.last, boot, &drafter, since);
        let outlets = SharedOutlets::default();
        let signing = start::signing(&mut store, &config, (boot, clock.now()), &outlets);
        let (tally, sums) =
            summing(&config, &dir, (boot, &clock), &left.earlier, store.end().head.seq)?;
        let over = drafter.resume(left.earlier, &left.last_seen, since);
        let lacks = tell_lacks(&mut observer, missing, touch_off.filter(|_| config.device_touch));
        let queue = Arc::new(Queue::new(config.journal.queue_length));
        let writer = writing((store, signing), (boot, &clock), &queue, sums)?;
        let (group, calls, socket) = listening(&config, dir);
        let mut daemon = Self {
            options: options.clone(),
            marks: every(config.mark_interval),
            meters: every(config.metrics.interval),
            config,
            in_force,
            reloads: Reloads::default(),
            readings: Readings::default(),
            readiness: Readiness::reading(clock.now().boot),
            clock,
            manager: Manager::of(options.notify_socket.as_ref(), options.watchdog),
            observer,
            drafter,
            queue,
            writer,
            overflow: Overflow::default(),
            lost_for_good: 0,
            tally,
            outlets,
            board: meters::Board::default(),
            page_written: None,
            has_stopped: false,
            began: since,
            forgotten_told: BTreeSet::new(),
            driver_retry: Instant::now() + DRIVER_RETRY_MIN,
            driver_patience: DRIVER_RETRY_MIN,
            lacks,
            driver_lack: None,
            reopens: false,
            desk: Desk::default(),
            fresh: Fresh::default(),
            calls,
            group,
            _socket: socket,
            beats_told: 0,
            ends_on_loss: false,
        };
        daemon.listen().await?;
        daemon.keep_rules();
        daemon.enter_what_was_left(down, over)?;
        daemon.open_driver().await?;
        Ok(daemon)
    }

    /// Enters what became of what earlier runs left. That nobody looked goes first: what was entered last says up to
    /// when somebody did.
    fn enter_what_was_left(
        &mut self,
        down: Option<Pending>,
        over: Vec<Pending>,
    ) -> anyhow::Result<()> {
        self.keep(down.into_iter().collect());
        self.turn(None)?;
        self.keep(over);
        Ok(())
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
            memory_period: self.config.memory_period,
        };
        match self.observer.open_driver(driver).await {
            Ok(()) => self.driver_opened(),
            Err(unknown) => self.driver_missing(&unknown),
        }
        self.readiness = Readiness::reading(self.clock.now().boot);
        self.observer.want_reads(true, true);
        self.turn(None)
    }
}

/// Begins to listen; where that fails, everything is booked all the same.
fn listening(
    config: &Config,
    dir: StateDir,
) -> (Arc<Mutex<String>>, mpsc::Receiver<Call>, Option<Socket>) {
    let group = Arc::new(Mutex::new(config.socket.group.clone()));
    let (caller, calls) = mpsc::channel(CALLS_MAX);
    let socket = Socket::listen(&config.socket.path, Arc::clone(&group), dir, caller);
    (group, calls, socket.inspect_err(tell_deaf).ok())
}

/// Begins to sum, with the counters where the page of an earlier run left them.
fn summing(
    config: &Config,
    dir: &StateDir,
    (boot, clock): (BootId, &Clock),
    earlier: &[Earlier],
    head: u64,
) -> std::io::Result<(tally::Shared, tally::Sender)> {
    let tally = tally::Shared::default();
    let sums = tally.start(dir.clone(), head)?;
    if let Some(resumed) = ResumedMeters::of_file(config, dir, (boot, clock.now()), earlier, head) {
        resumed.apply(&mut tally.lock(), clock.now());
    }
    Ok((tally, sums))
}

fn tell_deaf(error: &SocketError) {
    tracing::error!("nobody can ask this daemon: {error}");
}

fn tracer_options(config: &Config) -> TracerOptions {
    TracerOptions {
        ring_bytes: config.ring_bytes,
        device_touch: config.device_touch,
        ..TracerOptions::default()
    }
}

/// Begins to write, and to sum what is written.
fn writing(
    journal: (Store, Signing),
    (boot, clock): (BootId, &Clock),
    queue: &Arc<Queue>,
    sums: tally::Sender,
) -> std::io::Result<Writer> {
    // Its thread ends with the process alone.
    let tell = move |entered| drop(sums.send(entered));
    Writer::start(journal, boot, clock.clone(), Arc::clone(queue), tell)
}

/// Says what the kernel side lacks; what of it keeps process events away.
fn tell_lacks(
    observer: &mut Observer,
    missing: Vec<Missing>,
    touch_off: Option<String>,
) -> Vec<Unknown> {
    let mut lacks = Vec::new();
    for Missing { unknown, advice } in missing {
        tracing::error!("{unknown} {advice}");
        observer.host_mut().note_unknown(&unknown);
        lacks.push(unknown);
    }
    if let Some(why) = touch_off {
        tracing::warn!("device-touch off: {why}");
        observer.host_mut().note_unknown(&Unknown::of(UnknownReason::DeviceTouchOff));
    }
    lacks
}
