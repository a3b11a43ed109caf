//! Entries in a row, proven on every processor: hashing and decoding is most of what reading costs.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::database::Database;
use super::error::StoreError;
use crate::journal::canon::Texts;
use crate::journal::chain::{self, Kept};
use crate::journal::entry::Entry;
use crate::journal::{ChainError, Digest};

/// Entries that are proven in one go.
const CHUNK_ENTRIES: usize = if cfg!(test) { 5 } else { 256 };
/// Further threads at most: one reader of one database feeds no more.
const WORKERS_MAX: usize = 3;
/// Chunks under way per thread. What is under way is what this holds in memory.
const CHUNKS_PER_WORKER: usize = 3;
/// Fewer entries than this are proven where they are read.
const PARALLEL_ENTRIES_MIN: u64 = if cfg!(test) { 48 } else { 2_048 };

/// Entries on their way to be proven, and back. Their room is used again and again, and freed on the threads that
/// took it: an allocator that has to give memory from thread to thread costs more than hashing.
#[derive(Debug, Default)]
struct Chunk {
    /// The bodies as they were read, one after the other.
    bodies: Vec<u8>,
    unproven: Vec<Unproven>,
    /// What they proved to be, up to the first that is wrong.
    entries: Vec<Entry>,
    wrong: Option<ChainError>,
}

/// What stands of one entry, beside its body.
#[derive(Debug)]
struct Unproven {
    seq: u64,
    /// Where its body lies.
    body: Range<usize>,
    evidence: Digest,
    previous: Digest,
    hash: Digest,
}

impl Chunk {
    fn add(&mut self, kept: Kept<'_>) {
        let Kept { seq, body, evidence, previous, hash } = kept;
        let begin = self.bodies.len();
        self.bodies.extend_from_slice(body);
        let body = begin..self.bodies.len();
        self.unproven.push(Unproven { seq, body, evidence, previous, hash });
    }

    /// Proves every entry by its hash.
    fn prove(&mut self) {
        self.entries.clear();
        let texts = Texts::default();
        for one in &self.unproven {
            let Unproven { seq, evidence, previous, hash, .. } = *one;
            // A range of bytes that were added.
            let body = self.bodies.get(one.body.clone()).unwrap_or_default();
            match chain::read_sharing(Kept { seq, body, evidence, previous, hash }, &texts) {
                Ok(entry) => self.entries.push(entry),
                Err(wrong) => {
                    self.wrong = Some(wrong);
                    return;
                }
            }
        }
    }

    /// Of nothing; what it was is freed where it is filled anew.
    fn emptied(mut self) -> Self {
        self.bodies.clear();
        self.unproven.clear();
        self
    }
}

type Work = (Chunk, Sender<Chunk>);

impl Database {
    /// Gives the entries from `first` to `last` to `visit`, in the order in which the database has them,
    /// each proven by its hash.
    pub(super) fn proven(
        &self,
        (first, last): (u64, u64),
        visit: &mut dyn FnMut(&Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let workers = processors.saturating_sub(1).min(WORKERS_MAX);
        if workers == 0 || last.saturating_sub(first) < PARALLEL_ENTRIES_MIN {
            return self.raw((first, last), &mut |kept| {
                visit(&chain::read(kept).map_err(|error| self.broken(&error))?)
            });
        }
        let (work, queue) = channel::<Work>();
        let queue = Arc::new(Mutex::new(queue));
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let queue = Arc::clone(&queue);
                scope.spawn(move || prove(&queue));
            }
            let (under_way, idle) = (VecDeque::new(), Vec::new());
            let mut line = Line { database: self, work, under_way, idle, visit };
            let mut chunk = Chunk::default();
            self.raw((first, last), &mut |kept| {
                chunk.add(kept);
                if chunk.unproven.len() < CHUNK_ENTRIES {
                    return Ok(());
                }
                let next = line.idle.pop().unwrap_or_default();
                line.send(std::mem::replace(&mut chunk, next))?;
                line.take_while_more_than(workers.saturating_mul(CHUNKS_PER_WORKER))
            })?;
            line.send(chunk)?;
            line.take_while_more_than(0)
            // The sender goes here, which ends the workers.
        })
    }
}

/// A worker: until there is nobody left who could ask.
fn prove(queue: &Mutex<Receiver<Work>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((mut chunk, reply)) = next else { return };
        chunk.prove();
        // Nobody waits for it where an earlier chunk was found to be wrong.
        drop(reply.send(chunk));
    }
}

/// What is under way, oldest first.
struct Line<'a> {
    database: &'a Database,
    work: Sender<Work>,
    under_way: VecDeque<Receiver<Chunk>>,
    /// Chunks that were visited, to be filled again.
    idle: Vec<Chunk>,
    visit: &'a mut dyn FnMut(&Entry) -> Result<(), StoreError>,
}

impl Line<'_> {
    fn send(&mut self, chunk: Chunk) -> Result<(), StoreError> {
        let (reply, proven) = channel();
        self.under_way.push_back(proven);
        self.work.send((chunk, reply)).map_err(|_| self.died())
    }

    fn take_while_more_than(&mut self, chunks: usize) -> Result<(), StoreError> {
        while self.under_way.len() > chunks {
            let Some(next) = self.under_way.pop_front() else { break };
            let mut chunk = next.recv().map_err(|_| self.died())?;
            chunk.entries.iter().try_for_each(&mut *self.visit)?;
            if let Some(wrong) = chunk.wrong.take() {
                return Err(self.database.broken(&wrong));
            }
            self.idle.push(chunk.emptied());
        }
        Ok(())
    }

    fn died(&self) -> StoreError {
        let cause = std::io::Error::other("a thread that proves entries ended");
        StoreError::Io { doing: "read", path: self.database.path.clone(), cause }
    }
}
