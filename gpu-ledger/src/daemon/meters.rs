//! The meters, as they are published: to a text file, and to whoever asks on the loopback.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use super::Daemon;
use super::tally::{boot_of, wall_of};
use crate::accounting::Row;
use crate::host::News;
use crate::metrics::health::Health;
use crate::metrics::held::AccountLabel;
use crate::metrics::listener::{Listener, Published, Publisher};
use crate::metrics::{EventCount, GpuMeters, Meters, QueueMeters, textfile};
use crate::unit::Ms;
use crate::unknown::{Observed, UnknownReason};

/// How long the end waits for the text file's disk.
const PAGE_PATIENCE: Duration = Duration::from_secs(5);

/// What was last published.
#[derive(Clone, Debug)]
pub(super) struct Board(Arc<Mutex<Published>>);

impl Default for Board {
    fn default() -> Self {
        let health = Health::default();
        Self(Arc::new(Mutex::new(Published { metrics: None, health })))
    }
}

impl Board {
    fn set(&self, published: Published) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = published;
    }

    fn publisher(&self) -> Publisher {
        let board = Arc::clone(&self.0);
        Arc::new(move || board.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn write_page(path: &Path, text: &str) {
    if let Err(error) = textfile::write(path, text) {
        tracing::error!("{error}");
    }
}

impl Daemon {
    /// Serves the meters, where that was asked for.
    pub(super) async fn listen(&self) -> anyhow::Result<()> {
        let Some(address) = self.config.metrics.listen else { return Ok(()) };
        let listener = Listener::bind(address).await?;
        tracing::info!(address = %listener.address(), "meters are served");
        tokio::spawn(listener.serve(self.board.publisher()));
        Ok(())
    }

    /// Metering begins with a GPU that is found.
    pub(super) fn begin_metering(&self) {
        let now = self.clock.now().boot;
        let mut tally = self.tally.lock();
        for gpu in self.observer.host().gpus().keys() {
            tally.held.begin(gpu, now);
        }
    }

    /// Rows that run accrue.
    pub(super) fn meter(&self, news: &News) {
        match news {
            News::Opened(opened) => {
                let Some(key) = opened.row.row.as_ref().and_then(Row::key) else { return };
                let from = boot_of(key.start, opened.row.first_seen.ended);
                self.tally.lock().held.open(&key, &AccountLabel::of(&opened.whose.account), from);
            }
            News::OpenLost { row, .. } => {
                if let Some(key) = row.row.as_ref().and_then(Row::key) {
                    self.tally.lock().held.lose(&key);
                }
            }
            _ => {}
        }
    }

    /// Publishes the meters as they are now.
    pub(super) fn publish(&mut self) {
        let meters = self.meters();
        let metrics = meters.text().ok();
        // One after the other: on a slow disk an older page must not take the place of a newer one.
        let is_free = self.page_written.as_ref().is_none_or(JoinHandle::is_finished);
        let path = self.config.metrics.textfile.clone().filter(|_| is_free);
        if let (Some(path), Some(text)) = (path, metrics.clone()) {
            self.page_written = Some(tokio::task::spawn_blocking(move || write_page(&path, &text)));
        }
        self.board.set(Published { metrics, health: meters.health });
    }

    /// Publishes the last page: that of a daemon that has ended in order says so. Of one that was killed its
    /// age alone does.
    pub(super) async fn publish_last(&mut self) {
        self.has_stopped = true;
        if let Some(written) = self.page_written.take() {
            // A disk that hangs keeps its old page.
            if tokio::time::timeout(PAGE_PATIENCE, written).await.is_err() {
                return;
            }
        }
        self.publish();
        if let Some(written) = self.page_written.take() {
            let _ = tokio::time::timeout(PAGE_PATIENCE, written).await;
        }
    }

    fn meters(&self) -> Meters {
        let (host, now) = (self.observer.host(), self.clock.now());
        let progress = self.writer.progress.borrow().clone();
        let mut driver = self.observer.driver_facts().map(|facts| facts.cost.clone());
        for gpu in host.gpus().values() {
            driver.get_or_insert_default().add(&gpu.cost);
        }
        let mut tally = self.tally.lock();
        let mut gpus = BTreeMap::new();
        for (uuid, gpu) in host.gpus() {
            let good = gpu.sight.last_good();
            if let Some(good) = good {
                tally.held.advance(uuid, now.boot, good.began.boot);
            }
            let why = gpu.unknowns.first().map_or(UnknownReason::DriverNotReady, |one| one.reason);
            let known = |value: Option<u64>| value.map_or(Observed::Unknown(why), Observed::Known);
            let margin = gpu.eviction_margin_rows(host.touches_watched());
            let age = good.and_then(|good| now.boot.since(good.ended.boot));
            let open = good.and_then(|_| u64::try_from(gpu.open.len()).ok());
            let meters = GpuMeters {
                eviction_margin_rows: known(margin),
                good_read_age: age
                    .map_or(Observed::Unknown(why), |ns| Observed::Known(Ms(ns / 1_000_000))),
                accounting_on: good
                    .map_or(Observed::Unknown(why), |_| Observed::Known(!gpu.accounting_off)),
                open_rows: known(open),
            };
            gpus.insert(uuid.clone(), meters);
        }
        // Also of GPUs that are not here now: their counters stay.
        let held_until = tally.held.frontiers();
        let held_until =
            held_until.map(|(gpu, until)| (gpu.clone(), wall_of(until, now))).collect();
        let held = tally.held.counts();
        let held = held.map(|(gpu, label, count)| ((gpu.clone(), label.clone()), count));
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let journal = QueueMeters {
            length: count(self.queue.length()),
            capacity: count(self.config.journal.queue_length),
            overflowed: self.overflow.total(),
        };
        let events = self.observer.event_counts().map_or(
            Observed::Unknown(UnknownReason::ProcessEventsUnavailable),
            |counts| {
                let (produced, received, lost) = (counts.produced, counts.received, counts.lost);
                Observed::Known(EventCount { produced, received, lost })
            },
        );
        let kind = self.observer.driver_facts().filter(|_| self.observer.driver().is_some());
        let memory = tally.memory.counts().map(|(of, memory)| (of.clone(), memory));
        Meters {
            memory: memory.collect(),
            memory_void_hours: tally.memory.void_hours().clone(),
            made_at: now.wall,
            held: held.collect(),
            held_until,
            held_journal_head: tally.held_head,
            folded_accounts: tally.held.folded_accounts(),
            // Without the journal's own sums these would be those of this run alone.
            unattributed: if tally.is_whole { tally.unattributed.clone() } else { BTreeMap::new() },
            gaps: if tally.is_whole { tally.gaps.clone() } else { BTreeMap::new() },
            events,
            driver: driver.unwrap_or_default(),
            gpus,
            queues: BTreeMap::from([("journal", journal)]),
            journal_head: progress.head.seq,
            settlements: progress.head.booked.values().map(|balance| balance.count).sum(),
            unknown: self.unknown_now(host).iter().map(|unknown| unknown.reason).collect(),
            health: self.health(now),
            rules: self.rules_meters(),
            checkpoint: self.checkpoint_meters(),
            driver_kind: kind.map(|facts| facts.kind.as_str()),
        }
    }
}
