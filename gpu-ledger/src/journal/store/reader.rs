//! Readers: beside a writing daemon, on a read-only file system, or of an archive.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::database::{Database, OpenIdentity, failed};
use super::error::StoreError;
use super::place::{Place, StateDir};
use super::schema;
use super::side::{Acknowledged, Witness};
use super::tree::Tree;
use super::writer::JOURNAL;
use crate::accounting::RowKey;
use crate::coverage::Gap;
use crate::journal::Digest;
use crate::journal::chain::Recovered;
use crate::journal::commitment::CommitmentKey;
use crate::journal::entry::{ArgvPlace, Entry, Evidence, Figures, KeptArgv, Moment};

/// How long a reader waits for whoever recovers or archives the journal at this moment.
const BUSY_MS: u64 = 5_000;

/// A journal, read and never written.
#[derive(Debug)]
pub struct Reader {
    pub(super) database: Database,
    /// Of a journal in its state directory: where its witness and key lie.
    place: Option<Place>,
    is_immutable: bool,
}

impl Reader {
    /// Whether a text is kept under a commitment, by whatever mode.
    ///
    /// # Errors
    /// Those of the database.
    pub fn has_text(&self, commitment: Digest) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM argv WHERE commitment = ?)";
        let found = self.database.connection.query_row(sql, [commitment.0], |row| row.get(0));
        found.map_err(|cause| self.database.fail(cause))
    }

    /// Opens the journal of a directory.
    ///
    /// # Errors
    /// [`StoreError::Missing`], and those of a journal that is not ours, of another version, or damaged.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        let place = Place::of(dir)?;
        if !place.has_plain(JOURNAL)? {
            return Err(StoreError::Missing { path: place.path });
        }
        // What SQLite says of a file that it may not read is a number.
        place.refuse_unreadable(JOURNAL)?;
        let path = place.file(JOURNAL);
        schema::refuse_foreign(&path, true)?;
        Self::over(&path, Some(place))
    }

    /// As [`Self::open`], within the process whose [`super::Store`] writes this journal. The file is not
    /// looked at by itself first, as the store has done: a descriptor of it that SQLite does not know of
    /// would, when it is closed, take this process's locks from the file (fcntl(2)), and the next other
    /// program that closes the journal would believe that it was the last and remove the log
    /// under the writer's hands.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_beside_writer(dir: &StateDir) -> Result<Self, StoreError> {
        let place = Place::of(dir)?;
        let path = place.file(JOURNAL);
        Self::over(&path, Some(place))
    }

    /// Opens one file: an archive, or the copy of a journal. Nothing outside it says where it should end.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_file(path: &Path) -> Result<Self, StoreError> {
        let path = std::fs::canonicalize(path).map_err(|cause| StoreError::Io {
            doing: "find",
            path: path.to_owned(),
            cause,
        })?;
        schema::refuse_foreign(&path, true)?;
        Self::over(&path, None)
    }

    fn over(path: &Path, place: Option<Place>) -> Result<Self, StoreError> {
        let (connection, is_immutable) = connect(path)?;
        let mut database = Database::over(connection, path.to_owned())?;
        database.connection.pragma_update(None, "query_only", true).map_err(failed(path))?;
        schema::refuse_other_versions(&database, place.is_some())?;
        schema::compare(&database)?;
        database.read_origin()?;
        Ok(Self { database, place, is_immutable })
    }

    /// Whether it was opened as a file that nobody changes, since nothing else was possible: what a
    /// writer does meanwhile is not seen.
    #[must_use]
    pub const fn is_immutable(&self) -> bool {
        self.is_immutable
    }

    /// Whether it is the journal of a state directory, and no file by itself.
    pub(super) const fn is_in_place(&self) -> bool {
        self.place.is_some()
    }

    /// Number of the last entry that was archived away; 0 where none was.
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.database.origin.base
    }

    /// Sixteen bytes that this journal and all its archives have in common, and no other journal.
    #[must_use]
    pub fn journal(&self) -> &[u8] {
        &self.database.origin.journal
    }

    /// The end of the chain as of now, from the last segment on proven entry by entry.
    ///
    /// # Errors
    /// Those of the database; [`StoreError::LostEntries`].
    pub fn end(&self) -> Result<Recovered, StoreError> {
        self.at_one_moment(|witness| {
            let segments = self.database.segments()?;
            let mut end = self.database.recovered(segments.last())?;
            self.database.follow(&mut end, u64::MAX, &mut |_| Ok(()))?;
            self.meet_witness(&end, witness)?;
            Ok(end)
        })
    }

    /// The Merkle tree over all entries, as of now. `archives` are those of this journal that are here.
    ///
    /// # Errors
    /// Those of [`Self::end`].
    pub fn tree<'a>(&'a self, archives: &'a [Self]) -> Result<Tree<'a>, StoreError> {
        let size = self.end()?.head.seq;
        Tree::of(archives, &self.database, size)
    }

    /// The number of the settlement that a row was booked by.
    ///
    /// # Errors
    /// Those of the database.
    pub fn is_booked(&self, key: &RowKey) -> Result<Option<u64>, StoreError> {
        self.at_one_moment(|_| self.database.is_booked(key))
    }

    /// An entry by its number, proven by its hash.
    ///
    /// # Errors
    /// Those of the database.
    pub fn entry(&self, seq: u64) -> Result<Option<Entry>, StoreError> {
        self.database.entry(seq)
    }

    /// The last notes that somebody had remembered, newest first, each with its moment; those of archives are
    /// not among them.
    ///
    /// # Errors
    /// Those of the database.
    pub fn notes(&self, at_most: u32) -> Result<Vec<(Moment, Arc<str>)>, StoreError> {
        let database = &self.database;
        let sql = "SELECT seq FROM mark WHERE note IS NOT NULL ORDER BY seq DESC LIMIT ?";
        let read = database.connection.prepare(sql).and_then(|mut statement| {
            let rows = statement.query_map([at_most], |row| row.get::<_, u64>(0))?;
            rows.collect::<rusqlite::Result<Vec<u64>>>()
        });
        let mut notes = Vec::new();
        for seq in read.map_err(|cause| database.fail(cause))? {
            // What the table says is proven by the entry.
            if let Some(Entry { at, figures: Figures::Mark(mark), .. }) = database.entry(seq)?
                && let Some(note) = mark.note
            {
                notes.push((at, note));
            }
        }
        Ok(notes)
    }

    /// Gives `take` every gap, oldest first; those of archives are not among them. Whether all were given: no more
    /// than `at_most` are.
    ///
    /// # Errors
    /// Those of the database.
    pub fn gaps(&self, at_most: u32, mut take: impl FnMut(&Gap)) -> Result<bool, StoreError> {
        let database = &self.database;
        let read = database.connection.prepare("SELECT seq FROM gap ORDER BY seq LIMIT ?");
        let read = read.and_then(|mut statement| {
            let one_more = at_most.saturating_add(1);
            let rows = statement.query_map([one_more], |row| row.get::<_, u64>(0))?;
            rows.collect::<rusqlite::Result<Vec<u64>>>()
        });
        let numbers = read.map_err(|cause| database.fail(cause))?;
        let most = usize::try_from(at_most).unwrap_or(usize::MAX);
        for seq in numbers.iter().take(most) {
            if let Some(Entry { figures: Figures::Gap(gap), .. }) = database.entry(*seq)? {
                take(&gap);
            }
        }
        Ok(numbers.len() <= most)
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
        let end = self.end()?;
        self.database.open_identities(&end)
    }

    /// The key of argument commitments, where it lies beside the journal and can be read.
    pub(super) fn key(&self) -> Result<Option<CommitmentKey>, StoreError> {
        self.place.as_ref().map_or(Ok(None), Place::kept_key)
    }

    /// Reads from one snapshot. The witness is read first: it is never before the database then.
    pub(super) fn at_one_moment<T>(
        &self,
        read: impl FnOnce(Option<Acknowledged>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let witness = self.place.as_ref().map(Witness::read).transpose()?.flatten();
        let transaction = self
            .database
            .connection
            .unchecked_transaction()
            .map_err(failed(&self.database.path))?;
        let value = read(witness)?;
        drop(transaction);
        Ok(value)
    }

    /// That what was acknowledged, or what the archive was closed with, is there.
    pub(super) fn meet_witness(
        &self,
        end: &Recovered,
        witness: Option<Acknowledged>,
    ) -> Result<(), StoreError> {
        if let Some(last) = self.database.origin.last
            && last != end.head.seq
        {
            let what = format!("it ends with entry {}, it was closed with {last}", end.head.seq);
            return Err(self.database.damaged(&what));
        }
        self.database.meet_witness(end, witness)
    }
}

/// A read-only connection, and whether the file had to be taken as unchanging.
fn connect(path: &Path) -> Result<(Connection, bool), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    });
    match opened {
        Ok(connection) => Ok((connection, false)),
        // In WAL mode a reader needs the shared-memory file, which cannot be made here.
        Err(rusqlite::Error::SqliteFailure(error, _))
            if matches!(error.code, ErrorCode::CannotOpen | ErrorCode::ReadOnly) =>
        {
            let log = path.with_extension("db-wal");
            match std::fs::metadata(&log) {
                Ok(found) if found.len() > 0 => {
                    let doing = "read without writing beside it";
                    let cause = std::io::Error::other(
                        "entries stand in its -wal file; copy the directory to where it can be written",
                    );
                    Err(StoreError::Io { doing, path: path.to_owned(), cause })
                }
                _ => schema::open_immutable(path)
                    .map(|connection| (connection, true))
                    .map_err(failed(path)),
            }
        }
        Err(cause) => Err(failed(path)(cause)),
    }
}
