//! The end in order.

use tokio::time::{Instant, interval, sleep_until};

use super::writer::Condition;
use super::{COMMIT_PATIENCE, DRAIN_INTERVAL, Daemon, READ_PATIENCE};
use crate::unit::BootNs;

impl Daemon {
    /// The last reads, the last drain, and everything onto the disk.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
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
        self.publish_last().await;
        let (condition, waiting) =
            (self.writer.progress.borrow().condition.clone(), self.queue.length());
        match condition {
            Condition::Well if waiting == 0 && self.ends_on_loss => {
                anyhow::bail!("process events were lost, and on_loss = \"exit\" is configured")
            }
            Condition::Well if waiting == 0 => Ok(()),
            Condition::Failed(_) => anyhow::bail!("{}", self.why_the_writer_ended()),
            condition => anyhow::bail!(
                "{waiting} entries could not be written before the end: {condition}; the rows that \
                 the driver still keeps are booked at the next start, the time is a gap"
            ),
        }
    }

    pub(super) fn waits_for_reads(&self, asked: BootNs) -> bool {
        let released = self.observer.released();
        let mut gpus = self.observer.host().gpus().values();
        self.observer.driver().is_some()
            && gpus.any(|gpu| {
                !gpu.was_read_after(asked)
                    && !gpu.is_stalled()
                    && !released.contains(&gpu.facts.uuid)
            })
    }
}
