//! Entries in a row, proven on every processor: hashing and decoding is most of what reading costs.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
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
/// Chunks that a worker is given at most: what it proves, and what it has while others are read, proven, visited.
const CHUNKS_PER_WORKER: usize = 3;
/// Fewer entries than this are proven where they are read.
const PARALLEL_ENTRIES_MIN: u64 = if cfg!(test) { 48 } else { 2_048 };

/// Entries on their way to be proven.
#[derive(Debug, Default)]
struct Chunk {
    /// The bodies as they were read, one after the other.
    bodies: Vec<u8>,
    unproven: Vec<Unproven>,
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

/// What a chunk proved to be. Its room is used again and again by the thread that took it, and freed there: an
/// allocator that has to give memory from thread to thread costs more than hashing.
#[derive(Debug, Default)]
struct Proof {
    /// Up to the first that is wrong.
    entries: Vec<Entry>,
    wrong: Option<ChainError>,
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
    fn prove(&self, proof: &mut Proof) {
        proof.entries.clear();
        let texts = Texts::default();
        for one in &self.unproven {
            let Unproven { seq, evidence, previous, hash, .. } = *one;
            // A range of bytes that were added.
            let body = self.bodies.get(one.body.clone()).unwrap_or_default();
            match chain::read_sharing(Kept { seq, body, evidence, previous, hash }, &texts) {
                Ok(entry) => proof.entries.push(entry),
                Err(wrong) => {
                    proof.wrong = Some(wrong);
                    return;
                }
            }
        }
    }

    /// Of nothing, with its room.
    fn emptied(mut self) -> Self {
        self.bodies.clear();
        self.unproven.clear();
        self
    }
}

type Proven = (Chunk, Proof);
type Work = (Proven, Sender<Proven>);

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
            let given_max = workers.saturating_mul(CHUNKS_PER_WORKER);
            let mut line = Line {
                database: self,
                work,
                given_max,
                given: 0,
                under_way: VecDeque::new(),
                idle: Idle::default(),
                visit,
            };
            let mut chunk = Chunk::default();
            self.raw((first, last), &mut |kept| {
                chunk.add(kept);
                if chunk.unproven.len() < CHUNK_ENTRIES {
                    return Ok(());
                }
                let next = line.idle.chunks.pop().unwrap_or_default();
                line.pass(std::mem::replace(&mut chunk, next))
            })?;
            line.pass(chunk)?;
            line.take_while_more_than(0)
            // The sender goes here, which ends the workers.
        })
    }
}

/// A worker: until there is nobody left who could ask.
fn prove(queue: &Mutex<Receiver<Work>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(((chunk, mut proof), reply)) = next else { return };
        chunk.prove(&mut proof);
        // Nobody waits for it where an earlier chunk was found to be wrong.
        drop(reply.send((chunk, proof)));
    }
}

/// The thread that reads, and proves as well where the workers have enough to do.
struct Line<'a> {
    database: &'a Database,
    work: Sender<Work>,
    /// Chunks that the workers have at most, and now.
    given_max: usize,
    given: usize,
    /// Oldest first, as they were read.
    under_way: VecDeque<UnderWay>,
    idle: Idle,
    visit: &'a mut dyn FnMut(&Entry) -> Result<(), StoreError>,
}

enum UnderWay {
    Given(Receiver<Proven>),
    ProvenHere(Proven),
}

/// What was used and may be used again.
#[derive(Default)]
struct Idle {
    chunks: Vec<Chunk>,
    /// The workers' proofs.
    given: Vec<Proof>,
    /// Those of the thread that reads.
    own: Vec<Proof>,
}

impl Line<'_> {
    /// Has the next chunk proven, by whoever has the time, and visits what is proven by now.
    fn pass(&mut self, chunk: Chunk) -> Result<(), StoreError> {
        while self.take_what_is_ready()? {}
        if self.given < self.given_max {
            self.give(chunk)
        } else {
            let mut proof = self.idle.own.pop().unwrap_or_default();
            chunk.prove(&mut proof);
            self.under_way.push_back(UnderWay::ProvenHere((chunk, proof)));
            // What is under way is what this holds in memory.
            self.take_while_more_than(self.given_max.saturating_mul(2))
        }
    }

    fn give(&mut self, chunk: Chunk) -> Result<(), StoreError> {
        let proof = self.idle.given.pop().unwrap_or_default();
        let (reply, proven) = channel();
        self.under_way.push_back(UnderWay::Given(proven));
        self.given = self.given.saturating_add(1);
        self.work.send(((chunk, proof), reply)).map_err(|_| self.died())
    }

    /// Visits the oldest chunk where it is proven; whether it was.
    fn take_what_is_ready(&mut self) -> Result<bool, StoreError> {
        match self.under_way.pop_front() {
            None => Ok(false),
            Some(UnderWay::ProvenHere(proven)) => self.visit_own(proven).map(|()| true),
            Some(UnderWay::Given(reply)) => match reply.try_recv() {
                Ok(proven) => self.visit_given(proven).map(|()| true),
                Err(TryRecvError::Empty) => {
                    self.under_way.push_front(UnderWay::Given(reply));
                    Ok(false)
                }
                Err(TryRecvError::Disconnected) => Err(self.died()),
            },
        }
    }

    fn take_while_more_than(&mut self, chunks: usize) -> Result<(), StoreError> {
        while self.under_way.len() > chunks {
            match self.under_way.pop_front() {
                None => break,
                Some(UnderWay::ProvenHere(proven)) => self.visit_own(proven)?,
                Some(UnderWay::Given(reply)) => {
                    let proven = reply.recv().map_err(|_| self.died())?;
                    self.visit_given(proven)?;
                }
            }
        }
        Ok(())
    }

    fn visit_given(&mut self, (chunk, mut proof): Proven) -> Result<(), StoreError> {
        self.given = self.given.saturating_sub(1);
        self.visit(chunk, &mut proof)?;
        self.idle.given.push(proof);
        Ok(())
    }

    fn visit_own(&mut self, (chunk, mut proof): Proven) -> Result<(), StoreError> {
        self.visit(chunk, &mut proof)?;
        self.idle.own.push(proof);
        Ok(())
    }

    fn visit(&mut self, chunk: Chunk, proof: &mut Proof) -> Result<(), StoreError> {
        proof.entries.iter().try_for_each(&mut *self.visit)?;
        if let Some(wrong) = proof.wrong.take() {
            return Err(self.database.broken(&wrong));
        }
        self.idle.chunks.push(chunk.emptied());
        Ok(())
    }

    fn died(&self) -> StoreError {
        let cause = std::io::Error::other("a thread that proves entries ended");
        StoreError::Io { doing: "read", path: self.database.path.clone(), cause }
    }
}
