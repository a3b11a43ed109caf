//! The queue was full: what had no room is counted, and the driver is asked once more.

use super::Daemon;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::journal::draft::Pending;
use crate::unit::BootNs;
use crate::unknown::GapCause;

/// Rows that one GPU's driver says once more: its dead ones, and as many that run.
const ROWS_AGAIN_MAX: usize = 256;

/// How far the loss of drafts was made good.
#[derive(Debug, Default)]
pub(super) struct Overflow {
    state: State,
    /// The first note of which a draft was lost: its process is still needed, and those of all later ones.
    first: Option<u64>,
    /// Drafts that had no room since the daemon began.
    pub(super) total: u64,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Well,
    /// Drafts have no room.
    Losing { from: Stamp, size: u64 },
    /// The driver was asked for everything again then.
    AskedAgain(BootNs),
    /// Everything that it said is in the queue; on the disk when this note is.
    Waiting(u64),
}

impl Overflow {
    /// These had no room.
    pub(super) fn refused(&mut self, refused: &[Pending], now: Stamp) {
        let count = u64::try_from(refused.len()).unwrap_or(u64::MAX);
        self.total = self.total.saturating_add(count);
        let first = refused.iter().filter_map(|one| one.note).min();
        self.first = match (self.first, first) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        match &mut self.state {
            State::Losing { size, .. } => *size = size.saturating_add(count),
            state => {
                tracing::error!("the journal's queue is full: what comes now is asked for again");
                *state = State::Losing { from: now, size: count };
            }
        }
    }

    /// Room beyond the queue's length for what the driver says once more: it is no more than its stores
    /// hold, and without it the same rows would be refused each time.
    pub(super) const fn extra(&self, gpus: usize) -> usize {
        match self.state {
            State::AskedAgain(_) => gpus.saturating_mul(ROWS_AGAIN_MAX),
            _ => 0,
        }
    }

    /// Up to which note everything is on the disk, when the writer says `number`.
    pub(super) fn acknowledged(&mut self, number: u64) -> u64 {
        if let State::Waiting(until) = self.state
            && number >= until
        {
            (self.state, self.first) = (State::Well, None);
        }
        match self.first {
            Some(first) => number.min(first.saturating_sub(1)),
            None => number,
        }
    }
}

impl Daemon {
    /// As soon as there is room the loss is entered, and the driver's store read anew: what is still in
    /// it is booked after all.
    pub(super) async fn see_to_overflow(&mut self) -> anyhow::Result<()> {
        match &self.overflow.state {
            State::Losing { from, size } if self.queue.has_room() => {
                let now = self.clock.now();
                let (cause, size) = (GapCause::QueueOverflow, Some(*size));
                let gap = Gap { cause, gpu: None, from: *from, to: now, size };
                let pending = self.drafter.gap(gap, now);
                self.overflow.state = State::AskedAgain(now.boot);
                self.keep(vec![pending]);
                if let Err(error) = self.observer.read_anew(self.config.call_deadline).await {
                    tracing::error!(%error, "the driver cannot be read anew");
                    self.reopens = true;
                }
                self.observer.want_reads(true, true);
                self.turn(None)
            }
            State::AskedAgain(asked) => {
                let asked = *asked;
                let released = self.observer.released();
                let mut gpus = self.observer.host().gpus().values();
                let read =
                    gpus.all(|gpu| gpu.was_read_after(asked) || released.contains(&gpu.facts.uuid));
                if read {
                    // A mark goes behind all that was told, and is no note itself.
                    let last = self.observer.host().last_note();
                    self.overflow.state = State::Waiting(last);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
