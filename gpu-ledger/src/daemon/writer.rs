//! The thread that owns the journal: what waits goes into one transaction, and is acknowledged when that is
//! on the disk.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;

use super::queue::{Forget, Queue, Rotate, Taken};
use super::request::VERSION;
use super::signing::{Seal, Signing};
use super::tally::{Entered, News};
use crate::accounting::RowKey;
use crate::clock::{Clock, Stamp};
use crate::journal::draft::{Bound, Settlements};
use crate::journal::entry::BootId;
use crate::journal::keeping::Hand;
use crate::journal::store::{Forgotten, Outcome, Store, StoreError};
use crate::journal::{ChainError, Figures, Head};

/// Drafts that go into one transaction.
const BATCH_MAX: usize = 2_048;
/// How often a writer without work says that it lives.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// How often it is tried again where the disk is full or somebody holds the database.
const RETRY: Duration = Duration::from_secs(1);
/// Whoever ends waits no longer than such a part of it.
const RETRY_STEPS: u32 = 50;

/// How the journal is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Condition {
    /// Everything that waits goes in.
    Well,
    /// The disk is full since then; what waits is kept, and tried again.
    Full(Stamp),
    /// Somebody else holds the database since then.
    Busy(Stamp),
    /// Nothing goes in any more, and nobody knows what of the last batch did.
    Failed(String),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Well => f.write_str("the disk was too slow"),
            Self::Full(_) => f.write_str("the disk is full, free some space"),
            Self::Busy(_) => f.write_str("another program holds the database, close it"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// How far the writer is.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// Every note up to this one is on the disk, or needs not be.
    pub(super) acknowledged: u64,
    pub(super) head: Head,
    /// Open entries that neither settled nor ended.
    pub(super) unresolved: usize,
    pub(super) condition: Condition,
    /// Grows as long as it lives and does not hang in a call.
    pub(super) beats: u64,
    /// When the last transaction was on the disk, and how long it took.
    pub(super) committed: Option<(Stamp, Duration)>,
    /// The moment of the last mark that is on the disk; `None` before the first of this run.
    pub(super) marked: Option<Stamp>,
    pub(super) entries: u64,
    pub(super) reoffered: u64,
    pub(super) conflicts: u64,
    /// How far the tree is signed.
    pub(super) seal: Seal,
}

impl Progress {
    /// Whether a mark of this run, or a later one, is on the disk.
    pub(super) fn has_mark(&self, mark: Stamp) -> bool {
        self.marked.is_some_and(|marked| marked.boot >= mark.boot)
    }
}

/// The running writer.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) progress: watch::Receiver<Progress>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts it. `booked` gets, after each transaction, up to which number it entered, and what is summed.
    pub(super) fn start(
        (store, signing): (Store, Signing),
        boot: BootId,
        clock: Clock,
        queue: Arc<Queue>,
        booked: impl FnMut(Entered) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, progress) = watch::channel(Progress {
            acknowledged: 0,
            head: store.end().head.clone(),
            unresolved: store.end().unresolved.len(),
            condition: Condition::Well,
            beats: 0,
            committed: None,
            marked: None,
            entries: 0,
            reoffered: 0,
            conflicts: 0,
            seal: signing.seal().clone(),
        });
        let writing = Writing {
            store,
            signing,
            clock,
            queue,
            hand: Hand::new(boot),
            sender,
            booked: Box::new(booked),
            told: Told::Well,
        };
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let thread = thread.spawn(move || writing.run())?;
        Ok(Self { progress, thread })
    }

    /// Whether it has come to its end.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

struct Writing {
    store: Store,
    signing: Signing,
    clock: Clock,
    queue: Arc<Queue>,
    hand: Hand,
    sender: watch::Sender<Progress>,
    booked: Box<dyn FnMut(Entered) + Send>,
    /// What the log says last of whether it can write.
    told: Told,
}

/// What the log says last of whether the journal can be written.
enum Told {
    /// It can.
    Well,
    /// The disk of this file is full.
    Full(PathBuf),
    /// Somebody else holds this file.
    Busy(PathBuf),
}

/// What is asked of the journal while drafts are bound.
struct Asked<'a>(&'a Store);

impl Settlements for Asked<'_> {
    type Error = StoreError;

    fn booked(&self, key: &RowKey) -> Result<Option<u64>, StoreError> {
        self.0.is_booked(key)
    }
}

impl Writing {
    fn run(mut self) {
        loop {
            self.beat();
            if let Err(error) = self.forget() {
                return self.fail(&error);
            }
            self.rotate();
            self.sign(false);
            if self.hand.length() == 0 {
                match self.queue.take(BATCH_MAX, HEARTBEAT) {
                    Taken::Drafts(drafts) => self.hand.take(drafts),
                    Taken::Nothing => continue,
                    Taken::Closed => break,
                }
            } else {
                let room = BATCH_MAX.saturating_sub(self.hand.length());
                self.hand.take(self.queue.take_more(room));
            }
            match self.write() {
                Ok(()) => {}
                Err(StoreError::Full { path }) => {
                    if let Err(error) = self.tell_full(path) {
                        return self.fail(&error);
                    }
                    if self.rests() {
                        return;
                    }
                }
                Err(StoreError::Busy { path }) => {
                    let since = self.clock.now();
                    self.log_busy(path);
                    self.condition(|now| match now {
                        Condition::Busy(since) => Condition::Busy(*since),
                        _ => Condition::Busy(since),
                    });
                    if self.rests() {
                        return;
                    }
                }
                Err(error) => return self.fail(&error),
            }
        }
        self.sign(true);
        self.signing.finish();
        if let Err(error) = self.store.close() {
            tracing::warn!(%error, "the journal was not closed in order; it is whole all the same");
        }
    }

    /// Deletes what somebody asked to have deleted. A full disk is the asker's to hear of; nothing else may be.
    fn forget(&mut self) -> Result<(), StoreError> {
        for Forget { commitments, reply } in self.queue.take_forgets() {
            let forgotten = self.store.forget_argv(&commitments);
            let answer = match &forgotten {
                Ok(Forgotten { texts, log_is_empty }) => {
                    tracing::info!(texts, log_is_empty, "texts of arguments were deleted");
                    Ok(json!({ "version": VERSION, "texts": texts, "log_is_empty": log_is_empty }))
                }
                Err(error) => Err(error.to_string()),
            };
            // Whoever asked may have gone.
            let _ = reply.send(answer);
            match forgotten {
                Err(error) if !error.can_be_retried() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Signs the tree, where that is due. Whatever keeps it from that keeps nothing else.
    fn sign(&mut self, is_last: bool) {
        let now = self.clock.now();
        if self.signing.see_to(&mut self.store, now, is_last) {
            self.tell_of_signing();
        }
    }

    /// Lets another key sign, where somebody asked for that.
    fn rotate(&mut self) {
        for Rotate { is_lost, reply } in self.queue.take_rotations() {
            let rotated = self.signing.rotate(&mut self.store, self.clock.now(), is_lost);
            // Whoever asked may have gone. A journal that cannot be written any more says so with the next entry.
            let _ = reply.send(rotated.map_err(|error| error.to_string()));
            self.tell_of_signing();
        }
    }

    fn tell_of_signing(&self) {
        let (seal, end) = (self.signing.seal().clone(), self.store.end());
        self.sender.send_modify(|progress| {
            // A key is an entry.
            progress.head = end.head.clone();
            progress.seal = seal;
        });
    }

    /// Enters as much of what is in hand as goes together.
    fn write(&mut self) -> Result<(), StoreError> {
        let began = self.clock.now();
        let mut bound: Bound = self.hand.bind(BATCH_MAX, self.store.end(), &Asked(&self.store))?;
        let drafts = std::mem::take(&mut bound.drafts);
        let marks = drafts.iter().filter(|draft| matches!(draft.figures, Figures::Mark(_)));
        let marked = marks.map(|draft| draft.at.stamp).next_back();
        let told: Vec<Option<News>> =
            drafts.iter().map(|draft| News::of_figures(&draft.figures)).collect();
        let mut entered = Vec::new();
        let (mut reoffered, mut conflicts) = (0, 0);
        let mut numbers = Vec::new();
        if !drafts.is_empty() {
            let appended = self.store.append(drafts)?;
            (reoffered, conflicts) = (appended.reoffered(), appended.conflicts());
            for (outcome, told) in appended.outcomes.iter().zip(told) {
                let number = match outcome {
                    Outcome::Entered { seq } => Some(*seq),
                    Outcome::Reoffered { .. } | Outcome::Conflicting { .. } => None,
                };
                numbers.push(number);
                entered.extend(told.filter(|_| number.is_some()));
            }
        }
        let done = self.hand.entered(&bound, &numbers, self.store.end());
        self.queue.entered(done);
        let entries = numbers.iter().flatten().count();
        let now = self.clock.now();
        let took = Duration::from_nanos(now.mono_ns.saturating_sub(began.mono_ns));
        let gap = self.tell_well(now)?;
        let entries = entries.saturating_add(usize::from(gap.is_some()));
        entered.extend(gap);
        let end = self.store.end();
        let head = end.head.seq;
        self.sender.send_modify(|progress| {
            if let Some(note) = done.acknowledged {
                progress.acknowledged = progress.acknowledged.max(note);
            }
            progress.head = end.head.clone();
            progress.unresolved = end.unresolved.len();
            progress.condition = Condition::Well;
            progress.beats = progress.beats.saturating_add(1);
            progress.committed = Some((now, took));
            progress.marked = marked.or(progress.marked);
            progress.entries = progress.entries.saturating_add(count(entries));
            progress.reoffered = progress.reoffered.saturating_add(count(reoffered));
            progress.conflicts = progress.conflicts.saturating_add(count(conflicts));
        });
        if entries > 0 {
            (self.booked)((now, head, entered));
        }
        Ok(())
    }

    /// The disk is full: that alone is entered, from the reserve, the first time it is seen.
    fn tell_full(&mut self, path: PathBuf) -> Result<(), StoreError> {
        let now = self.clock.now();
        let gap = self.hand.is_full(now);
        self.condition(|_| Condition::Full(self.hand.full_since().unwrap_or(now)));
        self.log_full(path);
        let Some(gap) = gap else { return Ok(()) };
        let news = News::of_figures(&gap.figures);
        match self.store.append_from_reserve(vec![gap]) {
            Ok(_) => {
                self.hand.full_told(now);
                let head = self.store.end().head.clone();
                let number = head.seq;
                self.sender.send_modify(|progress| {
                    progress.head = head;
                    progress.entries = progress.entries.saturating_add(1);
                });
                (self.booked)((now, number, news.into_iter().collect()));
                Ok(())
            }
            // The reserve was not enough: it is told when there is room.
            Err(StoreError::Full { .. } | StoreError::Busy { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// There is room again: the rest of the time is entered. What of that is summed.
    fn tell_well(&mut self, now: Stamp) -> Result<Option<News>, StoreError> {
        let Some(gap) = self.hand.has_room(now) else {
            self.log_well(None);
            return Ok(None);
        };
        let (news, since) = (News::of_figures(&gap.figures), self.hand.full_since());
        match self.store.append(vec![gap]) {
            Ok(_) => {
                self.hand.room_told();
                self.log_well(since.and_then(|since| now.boot.since(since.boot)));
                Ok(news)
            }
            // Once more with the next batch.
            Err(StoreError::Full { .. } | StoreError::Busy { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Once, when it fills.
    fn log_full(&mut self, path: PathBuf) {
        if matches!(self.told, Told::Full(_)) {
            return;
        }
        tracing::error!(
            path = %path.display(), free_bytes = free_bytes(&path), waiting = self.queue.length(),
            "the journal's disk is full: what comes waits in memory, up to journal.queue_length, and is tried again \
             every {RETRY:?}; what has no room there is asked of the driver again; free some space"
        );
        self.told = Told::Full(path);
    }

    /// Once, when somebody takes it.
    fn log_busy(&mut self, path: PathBuf) {
        if matches!(self.told, Told::Well) {
            tracing::warn!(
                path = %path.display(), waiting = self.queue.length(),
                "another program holds the journal's database: what comes waits in memory, up to \
                 journal.queue_length, and is tried again every {RETRY:?}; close it"
            );
            self.told = Told::Busy(path);
        }
    }

    /// Once, when it goes on. `full_ns`: for how long the disk was full.
    fn log_well(&mut self, full_ns: Option<u64>) {
        match std::mem::replace(&mut self.told, Told::Well) {
            Told::Well => {}
            Told::Full(path) => {
                let full_for = full_ns.map(Duration::from_nanos);
                tracing::info!(
                    path = %path.display(), free_bytes = free_bytes(&path), ?full_for,
                    waiting = self.queue.length(),
                    "the journal's disk has room again: what waited is entered, and that it was full as a gap"
                );
            }
            Told::Busy(path) => {
                tracing::info!(path = %path.display(), "the journal's database is free again");
            }
        }
    }

    /// Waits before the next try. Whether nobody waits for it any more.
    fn rests(&self) -> bool {
        for _ in 0..RETRY_STEPS {
            if self.queue.is_abandoned() {
                return true;
            }
            std::thread::sleep(RETRY / RETRY_STEPS);
        }
        false
    }

    fn beat(&self) {
        // Told to nobody: whoever looks sees it.
        self.sender.send_if_modified(|progress| {
            progress.beats = progress.beats.saturating_add(1);
            false
        });
    }

    fn condition(&self, next: impl FnOnce(&Condition) -> Condition) {
        self.sender.send_modify(|progress| progress.condition = next(&progress.condition));
    }

    fn fail(self, error: &StoreError) {
        let what = match error {
            StoreError::Chain(ChainError::Unresolved { .. } | ChainError::NotOpen { .. }) => {
                format!("{error}: a bug of gpu-ledger, please report it")
            }
            _ => error.to_string(),
        };
        self.condition(|_| Condition::Failed(what));
    }
}

/// Bytes that this user can still write to the disk of a file; `None` where the system does not say.
fn free_bytes(path: &Path) -> Option<u64> {
    let room = rustix::fs::statvfs(path).ok()?;
    room.f_bavail.checked_mul(room.f_frsize)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
