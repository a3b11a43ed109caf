//! Entries in a row, proven on every processor: hashing and decoding is most of what reading costs.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::database::{Database, RawEntry};
use super::error::StoreError;
use crate::journal::ChainError;
use crate::journal::entry::Entry;

/// Entries that are proven in one go.
const CHUNK_ENTRIES: usize = if cfg!(test) { 5 } else { 256 };
/// Further threads at most: one reader of one database feeds no more.
const WORKERS_MAX: usize = 3;
/// Chunks under way per thread. What is under way is what this holds in memory.
const CHUNKS_PER_WORKER: usize = 3;
/// Fewer entries than this are proven where they are read.
const PARALLEL_ENTRIES_MIN: u64 = if cfg!(test) { 48 } else { 2_048 };

type Chunk = Vec<RawEntry>;
type Proven = Result<Vec<Entry>, ChainError>;
type Work = (Chunk, Sender<Proven>);

impl Database {
    /// Gives the entries from `first` to `last` to `visit`, in the order in which the database has them,
    /// each proven by its hash.
    pub(super) fn proven(
        &self,
        (first, last): (u64, u64),
        visit: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let workers = processors.saturating_sub(1).min(WORKERS_MAX);
        if workers == 0 || last.saturating_sub(first) < PARALLEL_ENTRIES_MIN {
            return self.raw((first, last), &mut |raw| {
                visit(raw.read().map_err(|error| self.broken(&error))?)
            });
        }
        let (work, queue) = channel::<Work>();
        let queue = Arc::new(Mutex::new(queue));
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let queue = Arc::clone(&queue);
                scope.spawn(move || prove(&queue));
            }
            let mut line = Line { database: self, work, under_way: VecDeque::new(), visit };
            let mut chunk = Vec::with_capacity(CHUNK_ENTRIES);
            self.raw((first, last), &mut |raw| {
                chunk.push(raw);
                if chunk.len() < CHUNK_ENTRIES {
                    return Ok(());
                }
                line.send(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_ENTRIES)))?;
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
        let Ok((chunk, reply)) = next else { return };
        // Nobody waits for it where an earlier chunk was found to be wrong.
        drop(reply.send(chunk.iter().map(RawEntry::read).collect()));
    }
}

/// What is under way, oldest first.
struct Line<'a> {
    database: &'a Database,
    work: Sender<Work>,
    under_way: VecDeque<Receiver<Proven>>,
    visit: &'a mut dyn FnMut(Entry) -> Result<(), StoreError>,
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
            let proven = next.recv().map_err(|_| self.died())?;
            for entry in proven.map_err(|error| self.database.broken(&error))? {
                (self.visit)(entry)?;
            }
        }
        Ok(())
    }

    fn died(&self) -> StoreError {
        let cause = std::io::Error::other("a thread that proves entries ended");
        StoreError::Io { doing: "read", path: self.database.path.clone(), cause }
    }
}
