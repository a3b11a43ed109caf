//! The queue was full: the driver is asked once more for what had no room.

use super::Daemon;
use crate::observer::ReleaseError;

impl Daemon {
    /// As soon as there is room that is entered, and the driver asked again for the rows: what it still has
    /// is booked after all, and what it has no more becomes a gap.
    pub(super) async fn see_to_overflow(&mut self) -> anyhow::Result<()> {
        let hangs = || self.observer.host().gpus().values().any(crate::host::GpuRows::is_stalled);
        let to_ask = self.overflow.is_to_ask() && self.queue.has_room() && !hangs();
        if let Some(asked) = to_ask.then(|| self.overflow.to_ask(self.clock.now())).flatten() {
            match self.observer.read_anew(&asked.rows, self.config.call_deadline).await {
                Ok(()) => {}
                Err(error @ ReleaseError::Unopened(_)) => {
                    tracing::error!(%error, "the driver cannot be read anew");
                    self.reopens = true;
                }
                Err(error) => {
                    // Nothing was asked; it is tried again when no call hangs.
                    tracing::error!(%error, "the driver cannot be asked again");
                    self.reopens = true;
                    return self.turn(None);
                }
            }
            let now = self.clock.now();
            let pending = self.drafter.gap(asked.gap, now);
            self.overflow.asked(now.boot);
            self.keep(vec![pending]);
            self.observer.want_reads(true, true);
            return self.turn(None);
        }
        let released = self.observer.released();
        let closed = self.observer.driver().is_none();
        let is_closed = |gpu: &crate::unit::GpuUuid| closed || released.contains(gpu);
        let drafts = self.overflow.settle(&mut self.drafter, self.observer.host(), is_closed);
        self.keep(drafts);
        Ok(())
    }
}
