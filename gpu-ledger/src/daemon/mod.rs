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

mod anchors;
mod begin;
mod calls;
mod client;
mod closing;
mod end;
mod fold;
mod fresh;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod gaps;
mod meters;
mod offline;
mod options;
mod overflow;
mod places;
mod queue;
mod ready;
mod request;
mod reread;
mod resumed;
mod rows;
mod rules;
mod seal_status;
mod signals;
mod signing;
mod socket;
mod start;
mod status;
mod status_text;
mod stream;
mod tally;
mod turn;
mod writer;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, interval_at};

pub(crate) use self::anchors::send_checkpoint;
use self::calls::Desk;
pub(crate) use self::client::{Client, ClientError};
pub(crate) use self::offline::offline_status;
pub use self::options::{DaemonOptions, LogFilter};
use self::queue::Queue;
use self::ready::Readiness;
use self::request::Call;
pub(crate) use self::request::{NOTE_MAX, REDACT_MAX, RELEASE_DEFAULT, RELEASE_MAX, VERSION};
use self::reread::{Files, Readings};
use self::rules::{Found, InForce, Reloads, Reread};
pub(crate) use self::signals::hold_reloads;
use self::signals::{Asked, Signals};
use self::socket::Socket;
pub(crate) use self::start::{boot_id, machine_id};
pub(crate) use self::status_text::status_text;
pub(crate) use self::stream::{End, StreamError};
use self::writer::{Condition, Writer};
use crate::clock::{Clock, Stamp};
use crate::config::{CONFIG_DEFAULT, Config, ConfigError, Reload};
use crate::host::Forgotten;
use crate::journal::draft::Drafter;
use crate::journal::keeping::Overflow;
use crate::notify::Manager;
use crate::observer::{DRAIN_INTERVAL, Observer, ReleaseError, Wake};
use crate::unknown::Unknown;

/// The first read of every GPU must be there within this time, or it is said that it is not; the last
/// one too.
const READ_PATIENCE: Duration = Duration::from_secs(5);
/// How soon a driver that is not there is tried again; each time twice as late, …
const DRIVER_RETRY_MIN: Duration = Duration::from_secs(1);
/// … up to this.
const DRIVER_RETRY_MAX: Duration = Duration::from_secs(10);
/// How long what waits at the end may take to get onto the disk.
const COMMIT_PATIENCE: Duration = Duration::from_secs(15);

/// A timer whose first tick comes after one interval.
fn every(time: Duration) -> Interval {
    let mut timer = interval_at(Instant::now() + time, time);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    timer
}

/// Runs until told to stop.
///
/// # Errors
/// What keeps it from running, or from going on: another daemon, a journal that cannot be written.
pub fn run(options: &DaemonOptions) -> anyhow::Result<u8> {
    let config = options.config()?;
    options.log.change(&config.log);
    let rules = Found::of(rules::read(&config)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ran = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let mut daemon = Daemon::start(options, config, rules).await?;
        daemon.take_over_notes()?;
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
    in_force: InForce,
    reloads: Reloads,
    /// Of the configuration file and the rules, again.
    readings: Readings<Result<Files, ConfigError>>,
    clock: Clock,
    manager: Manager,
    observer: Observer,
    drafter: Drafter,
    queue: Arc<Queue>,
    writer: Writer,
    overflow: Overflow,
    /// Drafts without room that nobody says a second time.
    lost_for_good: u64,
    tally: tally::Shared,
    /// Where checkpoints go.
    outlets: anchors::SharedOutlets,
    board: meters::Board,
    meters: Interval,
    /// The page that is being written to the text file.
    page_written: Option<tokio::task::JoinHandle<()>>,
    /// It has ended in order; what is published now is the last.
    has_stopped: bool,
    /// What was logged of what is dropped under a bound.
    forgotten_told: BTreeSet<Forgotten>,
    marks: Interval,
    readiness: Readiness,
    /// Since when this run watches.
    began: Stamp,
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
    desk: Desk,
    fresh: fresh::Fresh,
    calls: mpsc::Receiver<Call>,
    /// Who may see everything; shared with every connection.
    group: Arc<Mutex<String>>,
    /// `None` where it could not be had: everything is booked all the same.
    _socket: Option<Socket>,
    /// The writer's beats when the watchdog was last told.
    beats_told: u64,
    /// Events were lost, and it is configured to end then.
    ends_on_loss: bool,
}

impl Daemon {
    fn driver_opened(&mut self) {
        (self.driver_lack, self.reopens) = (None, false);
        if let Some(facts) = self.observer.driver_facts() {
            self.drafter.driver(facts);
        }
        self.tell_unmatched_gpus();
        self.begin_metering();
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
        let mut watchdog = every(self.manager.watchdog.unwrap_or(Duration::from_hours(24)));
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
                _ = self.marks.tick() => {
                    self.mark(None);
                    self.keep_rules();
                }
                _ = self.meters.tick() => self.publish(),
                _ = watchdog.tick() => self.tell_watchdog(),
                Some(call) = self.calls.recv() => self.serve(call).await?,
                asked = signals.next() => match asked {
                    Asked::Stop => return Ok(()),
                    Asked::Reload => self.reload(),
                },
                (read, is_outdated) = self.readings.next() => {
                    match read {
                        Ok(read) => self.take_over(read),
                        Err(error) => self.tell_not_reloaded(&error),
                    }
                    if is_outdated {
                        self.reload();
                    }
                }
            }
            if self.ends_on_loss {
                return Ok(());
            }
            if self.lost_for_good > 0 {
                // What it would say from here on rests on what it could not say. The time until it is
                // started again is a gap.
                anyhow::bail!(
                    "the journal takes nothing, and {} entries that cannot be had again have no room; \
                     give its disk room and time, or raise journal.queue_length",
                    self.lost_for_good
                );
            }
            self.get_ready();
            self.see_to_marks();
            self.see_to_the_driver().await?;
            self.see_to_overflow().await?;
            self.see_to_releases().await?;
        }
    }

    /// A driver that is not there may come.
    async fn see_to_the_driver(&mut self) -> anyhow::Result<()> {
        if self.readiness.is_reading() || Instant::now() < self.driver_retry {
            return Ok(());
        }
        if self.is_all_released() || (!self.reopens && !self.observer.needs_driver()) {
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

    /// The configuration file and the rules are read again, beside the loop.
    fn reload(&mut self) {
        let options = self.options.clone();
        self.readings.ask(self.clock.now(), move || Files::read(&options));
    }

    fn tell_not_reloaded(&mut self, error: &dyn std::fmt::Display) {
        tracing::error!("not reloaded, and nothing changed: {error}");
        self.refuse(error);
    }

    /// What was read comes in force; a wrong file changes nothing.
    fn take_over(&mut self, read: Result<Files, ConfigError>) {
        let (mut wanted, rules) = match read {
            Ok(Files { config, rules }) => (config, rules),
            Err(error) => return self.tell_not_reloaded(&error),
        };
        let reread = self.reload_rules(&mut wanted, rules);
        let reload = Reload::of(&self.config, wanted);
        self.tell_of(&reload, reread);
        if reload.in_force.mark_interval != self.config.mark_interval {
            self.marks = every(reload.in_force.mark_interval);
        }
        if reload.in_force.metrics.interval != self.config.metrics.interval {
            self.meters = every(reload.in_force.metrics.interval);
        }
        if reload.in_force.log != self.config.log {
            self.options.log.change(&reload.in_force.log);
        }
        self.drafter.cmdline(reload.in_force.cmdline);
        self.config = reload.in_force;
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if *group != self.config.socket.group {
            socket::tell_of_no_group(&self.config.socket.group);
        }
        group.clone_from(&self.config.socket.group);
    }

    /// Logs what a file that was read again changes; that it changes nothing, too, unless other rules are in force or
    /// what it would have changed was refused: that has a line by then.
    fn tell_of(&self, reload: &Reload, reread: Reread) {
        if self.options.config.is_none() && !Path::new(CONFIG_DEFAULT).exists() {
            tracing::warn!("there is no {CONFIG_DEFAULT}: every key has its default");
        }
        if reload.changes.is_empty() && reread == Reread::Same {
            tracing::info!("the configuration was read again: nothing in it changed");
        }
        for change in &reload.changes {
            let (from, to) = (change.from.as_deref(), change.to.as_deref());
            if change.needs_restart {
                let remedy = "systemctl restart gpu-ledger";
                tracing::warn!(key = change.key, from, to, remedy, "not in force before a restart");
            } else {
                tracing::info!(key = change.key, from, to, "in force now");
            }
        }
    }

    /// Tells the service manager that both loop and writer make progress.
    fn tell_watchdog(&mut self) {
        let beats = self.writer.progress.borrow().beats;
        if beats != self.beats_told {
            self.beats_told = beats;
            self.manager.tell("WATCHDOG=1");
        }
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
