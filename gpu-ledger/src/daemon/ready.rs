//! Ready: what was seen first is on the disk.
//!
//! Whoever is started after this daemon may use the GPU at once, and a kill may come at once too. So the service
//! manager is told only when the journal has the beginning of this run's coverage and a mark that says what was
//! seen since. While the disk has no room, or somebody holds the database, the manager is asked to wait and told
//! why: the daemon watches meanwhile, and what it claims to have seen it will be able to show.

use std::time::Duration;

use tokio::time::Instant;

use super::writer::Condition;
use super::{Daemon, READ_PATIENCE};
use crate::clock::Stamp;
use crate::unit::BootNs;

/// How often the manager is asked to wait.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// How long it waits for the next time (`EXTEND_TIMEOUT_USEC`, sd_notify(3)): several of those, as a writer may
/// be held up for seconds between two signs of life.
const ASK_FOR: Duration = Duration::from_secs(30);
/// A mark that found no room in the queue is made again no sooner than after this.
const MARKS_APART: Duration = Duration::from_secs(1);

/// How far the start is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Readiness {
    /// The first reads were asked for then.
    Reading { asked: BootNs, until: Instant },
    /// The first mark is on its way to the disk.
    Entering {
        mark: Stamp,
        made: Instant,
        /// When the manager was last asked to wait, and the writer's beats then.
        told: (Instant, u64),
    },
    /// The manager knows.
    Told,
}

impl Readiness {
    /// The first reads are asked for.
    pub(super) fn reading(asked: BootNs) -> Self {
        Self::Reading { asked, until: Instant::now() + READ_PATIENCE }
    }

    /// Whether the first reads are still waited for.
    pub(super) const fn is_reading(self) -> bool {
        matches!(self, Self::Reading { .. })
    }

    /// Whether the manager knows.
    pub(super) const fn is_told(self) -> bool {
        matches!(self, Self::Told)
    }
}

impl Daemon {
    /// Ready once coverage began, every GPU's first read was tried, and a mark of that is on the disk.
    pub(super) fn get_ready(&mut self) {
        match self.readiness {
            Readiness::Reading { asked, until } => {
                let mut gpus = self.observer.host().gpus().values();
                let all = gpus.all(|gpu| gpu.was_read_after(asked) || gpu.is_stalled());
                if all || Instant::now() >= until {
                    let beats = self.writer.progress.borrow().beats;
                    self.enter_readiness((Instant::now(), beats));
                }
            }
            Readiness::Entering { mark, made, told } => {
                let is_there = self.writer.progress.borrow().has_mark(mark);
                if is_there {
                    self.readiness = Readiness::Told;
                    self.publish();
                    self.manager.tell("READY=1\nSTATUS=watching");
                    tracing::info!("watching");
                } else if self.queue.length() == 0 && made.elapsed() >= MARKS_APART {
                    // It had no room when it was made: a mere mark is then dropped.
                    self.enter_readiness(told);
                } else {
                    self.ask_to_wait(told);
                }
            }
            Readiness::Told => {}
        }
    }

    fn enter_readiness(&mut self, told: (Instant, u64)) {
        let mark = self.mark(None);
        self.readiness = Readiness::Entering { mark, made: Instant::now(), told };
    }

    /// Asks the service manager for more time where what is waited for is no fault of this process, and while the
    /// writer shows that it lives: where it hangs the manager's own limit is right.
    fn ask_to_wait(&mut self, (at, beats_then): (Instant, u64)) {
        let (why, beats) = {
            let progress = self.writer.progress.borrow();
            let why = match progress.condition {
                Condition::Full(_) => "the disk is full",
                Condition::Busy(_) => "another program holds the journal's database",
                Condition::Well | Condition::Failed(_) => return,
            };
            (why, progress.beats)
        };
        if at.elapsed() < ASK_EVERY || beats == beats_then {
            return;
        }
        let extend_us = ASK_FOR.as_micros();
        self.manager
            .tell(&format!("EXTEND_TIMEOUT_USEC={extend_us}\nSTATUS=watching, not ready: {why}"));
        tracing::warn!("not ready: what was seen is not in the journal, as {why}");
        if let Readiness::Entering { told, .. } = &mut self.readiness {
            *told = (Instant::now(), beats);
        }
    }
}
