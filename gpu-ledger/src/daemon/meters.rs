//! The meters, as they are published: to a text file, and to whoever asks on the loopback.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::Daemon;
use super::tally::{boot_of, label_of};
use crate::accounting::Row;
use crate::host::News;
use crate::metrics::health::Health;
use crate::metrics::listener::{Listener, Published, Publisher};
use crate::metrics::{EventCount, GpuMeters, Meters, QueueMeters, held_in, textfile};
use crate::unit::Ms;
use crate::unknown::{Observed, UnknownReason};

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

impl Daemon {
    /// Serves the meters, where that was asked for.
    pub(super) async fn listen(&self) -> anyhow::Result<()> {
        let Some(address) = self.config.metrics.listen else { return Ok(()) };
        let listener = Listener::bind(address).await?;
        tracing::info!(address = %listener.address(), "meters are served");
        tokio::spawn(listener.serve(self.board.publisher()));
        Ok(())
    }

    /// What a scraper has seen before must not fall.
    pub(super) fn take_over_meters(&self) {
        let Some(path) = &self.config.metrics.textfile else { return };
        match textfile::read(path) {
            Ok(Some(text)) => {
                let mut tally = self.tally.lock();
                for (gpu, account, floor) in held_in(&text) {
                    tally.held.raise(&gpu, &account, floor);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// Rows that run accrue.
    pub(super) fn meter(&self, news: &News) {
        match news {
            News::Opened(opened) => {
                let Some(key) = opened.row.row.as_ref().and_then(Row::key) else { return };
                let from = boot_of(key.start, opened.row.first_seen.ended);
                self.tally.lock().held.open(&key, &label_of(&opened.whose.account), from);
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
    pub(super) fn publish(&self) {
        let meters = self.meters();
        let metrics = meters.text().ok();
        if let (Some(path), Some(text)) = (self.config.metrics.textfile.clone(), metrics.clone()) {
            // A disk may be slow.
            drop(tokio::task::spawn_blocking(move || {
                if let Err(error) = textfile::write(&path, &text) {
                    tracing::error!("{error}");
                }
            }));
        }
        self.board.set(Published { metrics, health: meters.health });
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
        let held = tally.held.counts();
        let held = held.map(|(gpu, label, count)| ((gpu.clone(), Arc::clone(label)), count));
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
        Meters {
            held: held.collect(),
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
            driver_kind: kind.map(|facts| facts.kind.as_str()),
        }
    }
}
