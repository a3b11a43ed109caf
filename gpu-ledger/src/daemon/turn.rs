//! What was learnt, on its way to the journal; and what came back.

use std::sync::Arc;

use super::Daemon;
use super::writer::Condition;
use crate::clock::Stamp;
use crate::config::OnLoss;
use crate::host::News;
use crate::journal::draft::Pending;
use crate::unknown::GapCause;

impl Daemon {
    /// Makes drafts of everything new.
    pub(super) fn take_notes(&mut self) {
        let notes = self.observer.host_mut().take_notes();
        let mut drafts = Vec::new();
        for note in notes {
            match &note.news {
                News::Unknown(unknown) => tracing::warn!("{unknown}"),
                // Each kind once: there may be many, and their sums are kept.
                News::Forgotten { what, gpu, count } if self.forgotten_told.insert(*what) => {
                    tracing::warn!(?what, ?gpu, count, "forgotten under a bound");
                }
                News::Gap(gap) if gap.cause == GapCause::EventLost => self.on_loss(gap.size),
                // From here on it is in sight, which only a mark says.
                News::EpochBegan { .. } => self.fresh.owe(),
                _ => {}
            }
            self.meter(&note.news);
            drafts.extend(self.drafter.draft(note));
        }
        drafts.extend(self.drafter.compare(self.observer.host()));
        self.keep(drafts);
    }

    /// Events were lost: the gap is entered in every case.
    fn on_loss(&mut self, size: Option<u64>) {
        match self.config.on_loss {
            OnLoss::Record => tracing::info!(size, "process events were lost"),
            OnLoss::Alert => tracing::error!(size, "process events were lost"),
            OnLoss::Exit => {
                tracing::error!(size, "process events were lost: this daemon ends");
                self.ends_on_loss = true;
            }
        }
    }

    /// Hands drafts to the writer. What has no room is as if it had not been learnt, and asked for again.
    pub(super) fn keep(&mut self, drafts: Vec<Pending>) {
        if drafts.is_empty() {
            return;
        }
        let (overflow, drafter, host) =
            (&mut self.overflow, &mut self.drafter, self.observer.host_mut());
        let was_losing = overflow.is_to_ask();
        let refused = self.queue.put(|backlog| overflow.keep(drafts, backlog, drafter, host));
        if refused.count > 0 && !was_losing {
            tracing::error!("the journal's queue is full: what comes now is asked for again");
        }
        self.lost_for_good = self.lost_for_good.saturating_add(refused.for_good);
    }

    /// Enters that everything up to now was seen; the mark's moment.
    pub(super) fn mark(&mut self, note: Option<Arc<str>>) -> Stamp {
        let mut mark = self.drafter.mark(self.observer.host(), note);
        self.overflow.hold_back(&mut mark);
        let at = mark.draft.at.stamp;
        self.fresh.marked(at);
        self.keep(vec![mark]);
        at
    }

    /// The host may forget whose rows are on the disk.
    pub(super) fn acknowledge(&mut self) -> anyhow::Result<()> {
        let progress = self.writer.progress.borrow_and_update().clone();
        if let Condition::Failed(_) = progress.condition {
            anyhow::bail!("{}", self.why_the_writer_ended());
        }
        let number = self.overflow.acknowledged(progress.acknowledged);
        self.observer.host_mut().acknowledged(number);
        Ok(())
    }
}
