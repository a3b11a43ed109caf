//! The one writer.

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::database::{Database, OpenIdentity};
use super::entering::Entering;
use super::error::StoreError;
use super::period::Tail;
use super::place::{Lock, Place, Standing, StateDir, Warning};
use super::schema;
use super::segment::Growing;
use super::side::{Acknowledged, Ballast, Witness};
use super::tree::{self, Growth};
use crate::accounting::RowKey;
use crate::journal::Digest;
use crate::journal::chain::{Head, Recovered};
use crate::journal::commitment::CommitmentKey;
use crate::journal::entry::{ArgvPlace, Draft, Entry, Evidence, KeptArgv};
use crate::journal::tree::Frontier;

/// The database's name in the state directory.
pub(super) const JOURNAL: &str = "ledger.db";
/// How long a commit waits for somebody who has the database open in another program.
const BUSY_MS: u32 = 5_000;
/// Pages of write-ahead log after which it is written into the database: 4 MiB, SQLite's own default.
/// Done here and not by SQLite, which does not tell when a sync fails on the way.
const CHECKPOINT_PAGES: u64 = 1_000;
/// What a transaction takes at least: a page of each table and index that it touches.
const TRANSACTION_PAGES: u64 = 12;
/// Bytes of entries that fill a page, counted twice: they are split when they are full.
const PAGE_BYTES: usize = 2_048;
/// Largest the log's file stays once it was written back while nobody read.
const WAL_BYTES_MAX: i64 = 64 << 20;

/// The open journal. One at a time per directory; what it reports is on the disk.
#[derive(Debug)]
pub struct Store {
    pub(super) database: Database,
    pub(super) place: Place,
    key: CommitmentKey,
    witness: Witness,
    ballast: Ballast,
    warnings: Vec<Warning>,
    state: State,
    /// The error after which it is not known what is on the disk.
    pub(super) poison: Option<String>,
    log_pages: u64,
    /// The files that are open here, as they were found.
    standing: Standing,
    /// Last: given back when everything else is closed.
    lock: Lock,
}

/// What moves forward with a commit, and not without one.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) end: Recovered,
    pub(super) growing: Growing,
    pub(super) tree: Growth,
}

/// What became of the drafts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Of each, in order.
    pub outcomes: Vec<Outcome>,
    /// The end of the chain now.
    pub head: Head,
}

/// What became of a draft.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is an entry.
    Entered {
        /// Its number.
        seq: u64,
    },
    /// Its row is booked already, with the same figures. Nothing was entered.
    Reoffered {
        /// Number of the settlement.
        of: u64,
    },
    /// Its row is booked already, with other figures.
    Conflicting {
        /// Number of the settlement.
        of: u64,
        /// Number of the conflict that was entered; `None` where these figures are entered already.
        seq: Option<u64>,
    },
}

impl Appended {
    /// Rows that were booked already.
    #[must_use]
    pub fn reoffered(&self) -> usize {
        self.outcomes.iter().filter(|one| matches!(one, Outcome::Reoffered { .. })).count()
    }

    /// Conflicts that were entered.
    #[must_use]
    pub fn conflicts(&self) -> usize {
        let entered = |one: &&Outcome| matches!(one, Outcome::Conflicting { seq: Some(_), .. });
        self.outcomes.iter().filter(entered).count()
    }
}

/// How often it is tried to open the database, and how long is waited between two tries.
const OPEN_TRIES: u32 = 50;
const OPEN_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Where root reads a journal whose writer is about to open it, SQLite makes the log and its index as root, and
/// gives them to the journal's owner only then (SQLite, `os_unix.c`, `robustFchown`): for that moment its owner cannot open
/// them.
fn once_openable<T>(mut open: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 1..OPEN_TRIES {
        match open() {
            Err(error) if error.is_unopened() => std::thread::sleep(OPEN_PAUSE),
            opened => return opened,
        }
    }
    open()
}

impl Store {
    /// Opens the journal of a directory for writing; makes directory, key and journal where they are
    /// missing.
    ///
    /// # Errors
    /// [`StoreError::Held`] where another process writes it; those of a directory or file that is not
    /// to be trusted; those of a journal that is not ours, newer, damaged or shorter than it was.
    pub fn open(dir: &StateDir) -> Result<(Self, Recovered), StoreError> {
        let (place, volatile) = Place::prepare(dir)?;
        let lock = place.lock()?;
        Self::open_locked(place, lock, volatile)
    }

    pub(super) fn open_locked(
        place: Place,
        lock: Lock,
        volatile: Option<Warning>,
    ) -> Result<(Self, Recovered), StoreError> {
        let mut warnings: Vec<Warning> = volatile.into_iter().collect();
        let witnessed = Witness::read(&place)?;
        if !place.has_plain(JOURNAL)? {
            if let Some(Acknowledged { seq, .. }) = witnessed {
                let path = place.file(JOURNAL);
                return Err(StoreError::LostEntries { path, found: 0, witnessed: seq });
            }
            schema::make_in_place(&place, JOURNAL)?;
        }
        let (database, Tail { growing, end, .. }, leaves) = once_openable(|| {
            let database = open_database(&place)?;
            let segments = database.segments()?;
            let last = segments.last();
            let mut leaves = Frontier::starting_at(last.map_or(0, |segment| segment.last));
            let tail = Tail::read(&database, last, &mut |kept| {
                leaves.append(kept.leaf()?);
                Ok(())
            })?;
            Ok((database, tail, leaves))
        })?;
        let runs = match tree::complete(&database, &place, leaves.begin()) {
            Ok(runs) => Some(runs),
            // All else goes on without it.
            Err(error) => {
                warnings.push(Warning::TreeUnknown { cause: error.to_string() });
                None
            }
        };
        let state = State { end, growing, tree: Growth::new(runs, leaves) };
        database.meet_witness(&state.end, witnessed)?;
        let has_entries = state.end.head.seq > 0;
        let (key, made) = place.commitment_key()?;
        if made && has_entries {
            warnings.push(Warning::KeyMadeAnew);
        }
        if witnessed.is_none() && has_entries {
            warnings.push(Warning::NoWitness);
        }
        let mut witness = Witness::make(&place)?;
        if has_entries {
            acknowledge(&mut witness, &place, &state.end)?;
        }
        let (ballast, cause) = Ballast::make(&place);
        warnings.extend(cause.map(|cause| Warning::NoBallast { cause }));
        let end = state.end.clone();
        let standing = place.standing()?;
        let store = Self {
            database,
            place,
            key,
            witness,
            ballast,
            warnings,
            state,
            poison: None,
            log_pages: 0,
            standing,
            lock,
        };
        Ok((store, end))
    }

    /// What whoever runs this should be told.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The end of the chain, and what is open.
    #[must_use]
    pub const fn end(&self) -> &Recovered {
        &self.state.end
    }

    /// Entries, and the root of the tree of all of them; `None` where not all of the tree is known, of which
    /// [`Self::warnings`] says more.
    #[must_use]
    pub fn tree_head(&self) -> Option<(u64, Digest)> {
        self.state.tree.head()
    }

    /// The key that arguments are committed to with.
    #[must_use]
    pub const fn commitment_key(&self) -> &CommitmentKey {
        &self.key
    }

    /// Enters drafts, all or none, and returns when they are on the disk. A settlement of a row that is
    /// booked is not entered again: where it says other figures than were booked, a conflict is.
    ///
    /// # Errors
    /// Those that [`StoreError::can_be_retried`] are about leave everything as it was. After any other the
    /// store says [`StoreError::Poisoned`] for ever: whether the drafts are on the disk is then not known, and
    /// opening it again tells.
    pub fn append(&mut self, drafts: Vec<Draft>) -> Result<Appended, StoreError> {
        self.refuse_poisoned()?;
        let appended = self.enter(drafts);
        if let Err(error) = &appended
            && !error.can_be_retried()
        {
            self.poison = Some(error.to_string());
        }
        appended
    }

    /// As [`Self::append`], with the space that is kept in reserve: for the entry that says that the disk
    /// was full.
    ///
    /// # Errors
    /// Those of [`Self::append`].
    pub fn append_from_reserve(&mut self, drafts: Vec<Draft>) -> Result<Appended, StoreError> {
        self.refuse_poisoned()?;
        self.ballast.free(&self.place)?;
        self.append(drafts)
    }

    pub(super) fn refuse_poisoned(&self) -> Result<(), StoreError> {
        match &self.poison {
            None => Ok(()),
            Some(cause) => {
                let (path, cause) = (self.database.path.clone(), cause.clone());
                Err(StoreError::Poisoned { path, cause })
            }
        }
    }

    fn enter(&mut self, drafts: Vec<Draft>) -> Result<Appended, StoreError> {
        let mut pages = TRANSACTION_PAGES;
        let (state, outcomes) = {
            let transaction = begin(&self.database)?;
            let mut entering =
                Entering { database: &self.database, state: self.state.clone(), bytes: 0 };
            let mut outcomes = Vec::with_capacity(drafts.len());
            for draft in drafts {
                outcomes.push(entering.draft(draft)?);
            }
            let filled = u64::try_from(entering.bytes / PAGE_BYTES).unwrap_or(u64::MAX);
            pages = pages.saturating_add(filled);
            transaction.commit().map_err(|cause| self.database.fail(cause))?;
            (entering.state, outcomes)
        };
        // From here on it is on the disk, and only from here on: but in a file that the next one finds.
        self.standing.is_still(&self.place.standing()?)?;
        self.state = state;
        self.log_pages = self.log_pages.saturating_add(pages);
        if self.state.end.head.seq > 0 {
            acknowledge(&mut self.witness, &self.place, &self.state.end)?;
        }
        if self.log_pages >= CHECKPOINT_PAGES {
            self.checkpoint("PASSIVE")?;
        }
        self.ballast.restore(&self.place).or_else(|error| match error {
            // The entries are on the disk. That the reserve has no room yet is no error of theirs.
            StoreError::Full { .. } => Ok(()),
            error => Err(error),
        })?;
        Ok(Appended { outcomes, head: self.state.end.head.clone() })
    }

    /// Writes the log into the database, where SQLite itself would pass an error over. That there is no
    /// room for it is none: the log has it all.
    /// Whether it was done whole, and nobody's reading was in its way.
    pub(super) fn checkpoint(&mut self, how: &str) -> Result<bool, StoreError> {
        self.log_pages = 0;
        let sql = format!("PRAGMA wal_checkpoint({how})");
        match self.database.connection.query_row(&sql, [], |row| row.get::<_, bool>(0)) {
            Ok(is_busy) => Ok(!is_busy),
            Err(cause) => match self.database.fail(cause) {
                StoreError::Full { .. } | StoreError::Busy { .. } => Ok(false),
                error => Err(error),
            },
        }
    }

    /// The number of the settlement that a row was booked by.
    ///
    /// # Errors
    /// Those of the database.
    pub fn is_booked(&self, key: &RowKey) -> Result<Option<u64>, StoreError> {
        self.database.is_booked(key)
    }

    /// An entry by its number, proven by its hash.
    ///
    /// # Errors
    /// Those of the database.
    pub fn entry(&self, seq: u64) -> Result<Option<Entry>, StoreError> {
        self.database.entry(seq)
    }

    /// What an entry rests on, proven by its digest.
    ///
    /// # Errors
    /// Those of the database.
    pub fn evidence(&self, seq: u64) -> Result<Option<Evidence>, StoreError> {
        self.database.evidence(seq)
    }

    /// What is kept of arguments at a place; `None` where nothing is, or it was deleted.
    ///
    /// # Errors
    /// Those of the database.
    pub fn argv(&self, place: ArgvPlace) -> Result<Option<KeptArgv>, StoreError> {
        self.database.argv(place)
    }

    /// What is open, with what named it.
    ///
    /// # Errors
    /// Those of the database.
    pub fn open_identities(&self) -> Result<Vec<OpenIdentity>, StoreError> {
        self.database.open_identities(&self.state.end)
    }

    /// Closes it, so that the database stands in one file.
    ///
    /// # Errors
    /// Those of the database.
    pub fn close(self) -> Result<(), StoreError> {
        let path = self.database.path;
        let closed = self.database.connection.close();
        closed.map_err(|(_, cause)| super::database::failed(&path)(cause))
    }

    pub(super) fn parts(self) -> (Database, Place, Lock) {
        (self.database, self.place, self.lock)
    }
}

/// A write transaction. Nobody writes beside us: the lock says so, and the borrow within the process.
pub(super) fn begin(database: &Database) -> Result<Transaction<'_>, StoreError> {
    Transaction::new_unchecked(&database.connection, TransactionBehavior::Immediate)
        .map_err(|cause| database.fail(cause))
}

fn acknowledge(witness: &mut Witness, place: &Place, end: &Recovered) -> Result<(), StoreError> {
    let acknowledged = Acknowledged { seq: end.head.seq, hash: end.head.hash };
    // Not "full", which would say that nothing was entered: it was, and opening it again tells.
    witness.write(acknowledged).map_err(|cause| StoreError::Io {
        doing: "write",
        path: place.file("ledger.head"),
        cause: cause.into(),
    })
}

/// Opens the database as a writer does.
pub(super) fn open_database(place: &Place) -> Result<Database, StoreError> {
    let path = place.file(JOURNAL);
    if !place.has_plain(JOURNAL)? {
        return Err(StoreError::Missing { path: place.path.clone() });
    }
    schema::refuse_foreign(&path, false)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let opened = Connection::open_with_flags(&path, flags);
    let connection = opened.map_err(super::database::failed(&path))?;
    let mut database = Database::over(connection, path)?;
    schema::bring_up_to_date(&mut database)?;
    set_up_for_writing(&database)?;
    schema::compare(&database)?;
    database.read_origin()?;
    if database.origin.last.is_some() {
        return Err(database.damaged("it is an archive, which is complete and takes no more"));
    }
    Ok(database)
}

fn set_up_for_writing(database: &Database) -> Result<(), StoreError> {
    let fail = |cause| database.fail(cause);
    let connection = &database.connection;
    connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS.into())).map_err(fail)?;
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(fail)?;
    if mode != "wal" {
        return Err(database.damaged(&format!("it stays in journal mode {mode}, WAL is needed")));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(fail)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(fail)?;
    for (pragma, value) in [
        ("journal_size_limit", WAL_BYTES_MAX),
        ("wal_autocheckpoint", 0),
        // What is deleted is overwritten: text of arguments is deleted for a reason.
        ("secure_delete", 1),
    ] {
        connection.pragma_update_and_check(None, pragma, value, |_| Ok(())).map_err(fail)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::ErrorCode;
    use rusqlite::ffi;

    use super::*;

    fn failure(code: std::ffi::c_int) -> StoreError {
        let cause = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        StoreError::Database { path: "ledger.db".into(), cause }
    }

    #[test]
    fn a_file_that_cannot_be_opened_for_a_moment_is_tried_again_and_nothing_else_is() {
        assert_eq!(ffi::Error::new(ffi::SQLITE_CANTOPEN).code, ErrorCode::CannotOpen);
        let mut left = 2;
        let opened = once_openable(|| {
            left -= 1;
            if left > 0 { Err(failure(ffi::SQLITE_CANTOPEN)) } else { Ok(left) }
        });
        assert_eq!(opened.unwrap(), 0);
        let mut tries = 0;
        let refused: Result<(), _> = once_openable(|| {
            tries += 1;
            Err(failure(ffi::SQLITE_PERM))
        });
        assert!(refused.is_err() && tries == 1, "{tries}");
    }
}
