//! Marks beside the timer's: a bill is asked for, or a GPU has come into sight.
//!
//! Up to a mark a bill knows that nothing was missed, and marks are a minute apart. So whoever reads up
//! to now has one entered first, after a read of every GPU; and the first read of an epoch is noted soon,
//! since its time is called seen by a mark alone. Both within bounds: a mark is an entry for ever, and
//! whoever asks may be a stranger.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Daemon;
use super::request::Reply;
use crate::clock::Stamp;
use crate::unit::BootNs;

/// A mark that is no older is good enough for any reader.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// An epoch's beginning is noted no sooner after another mark.
const EPOCH_MARKS_APART: Duration = Duration::from_secs(1);
/// How long the reads before a mark are waited for; a GPU that takes longer is marked as it was last seen.
const READS_PATIENCE: Duration = Duration::from_secs(1);
/// How long its commit is.
const COMMIT_PATIENCE: Duration = Duration::from_secs(2);

/// Who waits for a mark, and how far it is.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    waiting: Vec<oneshot::Sender<Reply>>,
    stage: Stage,
    /// The last mark, and when it was made.
    last: Option<(Stamp, Instant)>,
    /// An epoch began since.
    owed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// Every GPU was asked then.
    Reading { asked: BootNs, until: Instant },
    /// The mark is on its way to the disk.
    Entering { mark: Stamp, until: Instant },
}

impl Fresh {
    /// A mark is due soon.
    pub(super) const fn owe(&mut self) {
        self.owed = true;
    }

    /// One was made.
    pub(super) fn marked(&mut self, at: Stamp) {
        (self.last, self.owed) = (Some((at, Instant::now())), false);
    }

    fn is_older_than(&self, age: Duration) -> bool {
        self.last.is_none_or(|(_, made)| made.elapsed() >= age)
    }

    /// Everybody who waits may read.
    fn answer(&mut self) {
        self.stage = Stage::Idle;
        for reply in self.waiting.drain(..) {
            // Whoever asked may have gone.
            let _ = reply.send(Ok(serde_json::Value::Null));
        }
    }
}

impl Daemon {
    /// Somebody is about to read up to this moment of the wall clock.
    pub(super) fn freshen(&mut self, to_ms: u64, reply: oneshot::Sender<Reply>) {
        let is_past = self.fresh.last.is_some_and(|(mark, _)| to_ms <= mark.wall.ms());
        let is_fresh = is_past || !self.fresh.is_older_than(FRESH_FOR);
        if let (Stage::Idle, true) = (self.fresh.stage, is_fresh) {
            // It may be on its way to the disk still.
            if let Some((mark, made)) = self.fresh.last {
                self.fresh.stage = Stage::Entering { mark, until: made + COMMIT_PATIENCE };
            }
        } else if let Stage::Idle = self.fresh.stage {
            let asked = self.clock.now().boot;
            self.observer.want_reads(false, false);
            self.fresh.stage = Stage::Reading { asked, until: Instant::now() + READS_PATIENCE };
        }
        self.fresh.waiting.push(reply);
        self.see_to_marks();
    }

    /// Makes the marks that are due, and lets readers go on whose mark is on the disk.
    pub(super) fn see_to_marks(&mut self) {
        if let Stage::Reading { asked, until } = self.fresh.stage
            && (!self.waits_for_reads(asked) || Instant::now() >= until)
        {
            self.mark(None);
            if let Some((mark, made)) = self.fresh.last {
                self.fresh.stage = Stage::Entering { mark, until: made + COMMIT_PATIENCE };
            }
        }
        if let Stage::Entering { mark, until } = self.fresh.stage {
            let is_there = self.writer.progress.borrow().has_mark(mark);
            if is_there || Instant::now() >= until {
                self.fresh.answer();
            }
        }
        let is_due = self.fresh.owed && self.fresh.is_older_than(EPOCH_MARKS_APART);
        if is_due && !self.readiness.is_reading() {
            self.mark(None);
        }
    }
}
