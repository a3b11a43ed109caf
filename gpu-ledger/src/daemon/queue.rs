//! The backlog between the loop and the writer's thread: nobody ever waits to put something into it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::request::Reply;
use crate::journal::Digest;
use crate::journal::draft::Pending;
use crate::journal::keeping::{Backlog, Done};

/// The queue between the loop and the writer.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    came: Condvar,
}

#[derive(Debug)]
struct Waiting {
    backlog: Backlog,
    /// What is to be deleted.
    forgets: Vec<Forget>,
    /// Who asked for another key.
    rotations: Vec<Rotate>,
    closing: bool,
    /// Nobody waits for the rest any more.
    abandoned: bool,
}

/// Texts of arguments that are to be deleted, and who waits for it.
#[derive(Debug)]
pub(super) struct Forget {
    pub(super) commitments: Vec<Digest>,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// That another key is to sign, and who waits for it.
#[derive(Debug)]
pub(super) struct Rotate {
    /// Nobody has the one before any more.
    pub(super) is_lost: bool,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// What the writer found.
pub(super) enum Taken {
    /// Something to enter.
    Drafts(VecDeque<Pending>),
    /// Nothing came in the time given.
    Nothing,
    /// Nothing is left, and nothing follows.
    Closed,
}

impl Waiting {
    fn has_nothing_to_do(&self) -> bool {
        let asked = !self.forgets.is_empty() || !self.rotations.is_empty();
        self.backlog.is_taken() && !asked && !self.closing
    }
}

impl Queue {
    pub(super) fn new(length_max: usize) -> Self {
        let waiting = Waiting {
            backlog: Backlog::new(length_max),
            forgets: Vec::new(),
            rotations: Vec::new(),
            closing: false,
            abandoned: false,
        };
        Self { waiting: Mutex::new(waiting), came: Condvar::new() }
    }

    /// Lets the loop put something in.
    pub(super) fn put<R>(&self, put: impl FnOnce(&mut Backlog) -> R) -> R {
        let put = put(&mut self.lock().backlog);
        self.came.notify_one();
        put
    }

    /// Whether half of it is free.
    pub(super) fn has_room(&self) -> bool {
        self.lock().backlog.has_room()
    }

    /// Drafts that are not on the disk yet.
    pub(super) fn length(&self) -> usize {
        self.lock().backlog.length()
    }

    /// What waits, at most so much, or that nothing came in `patience`.
    pub(super) fn take(&self, count_max: usize, patience: Duration) -> Taken {
        let mut waiting = self.lock();
        if waiting.has_nothing_to_do() {
            let waited = self.came.wait_timeout(waiting, patience);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let drafts = waiting.backlog.take(count_max);
        match (drafts.is_empty(), waiting.closing) {
            (false, _) => Taken::Drafts(drafts),
            (true, true) => Taken::Closed,
            (true, false) => Taken::Nothing,
        }
    }

    /// Has texts deleted.
    pub(super) fn forget(&self, forget: Forget) {
        self.lock().forgets.push(forget);
        self.came.notify_one();
    }

    /// Has another key sign.
    pub(super) fn rotate(&self, rotate: Rotate) {
        self.lock().rotations.push(rotate);
        self.came.notify_one();
    }

    /// Who asked for another key.
    pub(super) fn take_rotations(&self) -> Vec<Rotate> {
        std::mem::take(&mut self.lock().rotations)
    }

    /// What is to be deleted.
    pub(super) fn take_forgets(&self) -> Vec<Forget> {
        std::mem::take(&mut self.lock().forgets)
    }

    /// More of what waits, for a batch that is not under way yet.
    pub(super) fn take_more(&self, count_max: usize) -> VecDeque<Pending> {
        self.lock().backlog.take(count_max)
    }

    /// So much of what was taken is on the disk.
    pub(super) fn entered(&self, done: Done) {
        self.lock().backlog.entered(done.count, done.bytes);
    }

    /// Nothing follows: the writer ends when it has entered the rest.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.came.notify_one();
    }

    /// Nobody waits for the rest: the writer ends as soon as it can.
    pub(super) fn abandon(&self) {
        let mut waiting = self.lock();
        (waiting.closing, waiting.abandoned) = (true, true);
        drop(waiting);
        self.came.notify_one();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Whoever panicked while holding it left a queue that is whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
