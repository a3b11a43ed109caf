//! One connection, and every way of reading a journal over it. What comes out was proven by its hash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, params};

use super::error::StoreError;
use super::projection::{big, small};
use super::schema::{ArgvColumns, MODE_UNKNOWN, argv_columns};
use super::segment::{Segment, names};
use super::side::Acknowledged;
use crate::accounting::RowKey;
use crate::argv::{CmdlineMode, StoredText};
use crate::journal::Digest;
use crate::journal::canon::{self, CanonError, Canonical as _};
use crate::journal::chain::{self, ChainError, Kept, Recovered, key_of_row, sha256};
use crate::journal::entry::{
    ArgvPlace, Entry, Evidence, Figures, KeptArgv, OpenEvidence, OpenFigures,
};
use crate::kernel::{Argv, ArgvState};

/// Extended result code: the shared-memory file could not grow (`sqlite3.h`, `SQLITE_IOERR_SHMSIZE`).
const IOERR_SHMSIZE: i32 = 4_874;

/// A journal that is open.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
}

/// Where a journal's numbering begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) journal: Vec<u8>,
    /// Number of the last entry that was archived away.
    pub(super) base: u64,
    /// Of an archive, number of its last entry.
    pub(super) last: Option<u64>,
}

impl Origin {
    pub(super) fn digest(&self) -> Result<Digest, CanonError> {
        let journal = Bytes::copy_from_slice(&self.journal);
        Ok(sha256(&canon::encode(&(journal, (self.base, self.last)))?))
    }
}

/// An open entry that is not over, with what named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenIdentity {
    /// The entry.
    pub entry: Entry,
    /// Its figures.
    pub figures: OpenFigures,
    /// What it rests on.
    pub evidence: OpenEvidence,
}

/// What stands of one entry in a row, nothing proven yet.
pub(super) fn kept<'row>(row: &'row SqlRow<'_>) -> rusqlite::Result<Kept<'row>> {
    let body = row.get_ref(1)?.as_blob();
    Ok(Kept {
        seq: row.get(0)?,
        body: body.map_err(|cause| {
            rusqlite::Error::FromSqlConversionFailure(1, Type::Blob, Box::new(cause))
        })?,
        evidence: Digest(row.get(2)?),
        previous: Digest(row.get(3)?),
        hash: Digest(row.get(4)?),
    })
}

const BY_NUMBER: &str =
    "SELECT seq, body, evidence_digest, previous, hash FROM entry WHERE seq = ?";
const CARRIED_BY_NUMBER: &str =
    "SELECT seq, body, evidence_digest, previous, hash FROM carried WHERE seq = ?";
const RANGE: &str = "SELECT seq, body, evidence_digest, previous, hash FROM entry \
    WHERE seq BETWEEN ? AND ? ORDER BY seq";

impl Database {
    /// Over a connection whose schema is this version's.
    pub(super) fn over(connection: Connection, path: PathBuf) -> Result<Self, StoreError> {
        let none = Origin { journal: Vec::new(), base: 0, last: None };
        let mut database = Self { connection, path, origin: none };
        database.harden()?;
        database.refuse_torn()?;
        Ok(database)
    }

    /// Refuses a file that ends within a page, whose rest SQLite takes for zeros. While there is a log, the log may have
    /// that page whole: a power failure tears one, and the next writer puts it right.
    fn refuse_torn(&self) -> Result<(), StoreError> {
        let length = |path: &Path| std::fs::metadata(path).map(|found| found.len());
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        if length(Path::new(&log)).is_ok_and(|bytes| bytes > 0) {
            return Ok(());
        }
        let page =
            self.connection.pragma_query_value(None, "page_size", |row| row.get::<_, u64>(0));
        let page = page.map_err(|cause| self.fail(cause))?;
        match length(&self.path) {
            Ok(bytes) if bytes.checked_rem(page) == Some(0) => Ok(()),
            Ok(_) => Err(self.damaged("its file ends within a page")),
            Err(cause) => Err(StoreError::Io { doing: "look at", path: self.path.clone(), cause }),
        }
    }

    fn harden(&mut self) -> Result<(), StoreError> {
        for (pragma, value) in [("cell_size_check", true), ("trusted_schema", false)] {
            let set = self.connection.pragma_update(None, pragma, value);
            set.map_err(|cause| self.fail(cause))?;
        }
        // Reading a mapped file that is truncated meanwhile is a SIGBUS, not an error.
        let set = self.connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()));
        set.or_else(|cause| match cause {
            rusqlite::Error::QueryReturnedNoRows => Ok(()),
            cause => Err(self.fail(cause)),
        })?;
        self.connection.set_prepared_statement_cache_capacity(64);
        Ok(())
    }

    /// Reads the one row that says where the numbering begins.
    pub(super) fn read_origin(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT journal, base, last, digest FROM origin";
        let read = self.connection.prepare(sql).and_then(|mut statement| {
            let rows = statement.query_map([], |row| {
                let origin = Origin { journal: row.get(0)?, base: row.get(1)?, last: row.get(2)? };
                Ok((origin, Digest(row.get(3)?)))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        match read.map_err(|cause| self.fail(cause))?.as_slice() {
            [(origin, digest)] if origin.digest()? == *digest => {
                self.origin = origin.clone();
                Ok(())
            }
            _ => Err(self.damaged("where its numbering begins cannot be read")),
        }
    }

    pub(super) fn fail(&self, cause: rusqlite::Error) -> StoreError {
        failed(&self.path)(cause)
    }

    pub(super) fn damaged(&self, what: &str) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: what.to_owned() }
    }

    /// What contradicts the chain on the disk, where an entry given to us would be our caller's fault.
    pub(super) fn broken(&self, error: &ChainError) -> StoreError {
        self.damaged(&error.to_string())
    }

    /// All segments, each proven by its digest, without a hole from the first entry on.
    pub(super) fn segments(&self) -> Result<Vec<Segment>, StoreError> {
        let fail = |cause| self.fail(cause);
        let sql = "SELECT first, last, body, digest FROM segment ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(fail)?;
        let mut rows = statement.query([]).map_err(fail)?;
        let mut segments: Vec<Segment> = Vec::new();
        while let Some(row) = rows.next().map_err(fail)? {
            let bytes: Vec<u8> = row.get(2).map_err(fail)?;
            let digest = Digest(row.get(3).map_err(fail)?);
            let segment = Segment::read(&bytes, digest).ok().flatten();
            let place = (row.get(0).map_err(fail)?, row.get(1).map_err(fail)?);
            let segment = segment
                .filter(|segment| (segment.first, segment.last) == place)
                .ok_or_else(|| self.damaged(&format!("the segment of entry {}", place.0)))?;
            let follows = match segments.last() {
                Some(before) => {
                    before.last.checked_add(1) == Some(segment.first)
                        && before.end.hash == segment.previous
                }
                // An archive's base is the end of the segment that is kept of what was archived.
                None if self.origin.base == 0 => segment.first == 1,
                None => segment.last == self.origin.base,
            };
            if !follows {
                return Err(self.damaged(&format!("before entry {} a segment is missing", place.0)));
            }
            segments.push(segment);
        }
        if segments.is_empty() && self.origin.base > 0 {
            return Err(self.damaged("the segment that it continues is missing"));
        }
        Ok(segments)
    }

    /// What a follower knows after a segment; before the first one, nothing.
    pub(super) fn recovered(&self, segment: Option<&Segment>) -> Result<Recovered, StoreError> {
        let Some(segment) = segment else { return Ok(Recovered::default()) };
        let mut open = BTreeMap::new();
        for seq in &segment.end.unresolved {
            match self.entry(*seq)?.map(|entry| entry.figures) {
                Some(Figures::Open(figures)) => open.insert(*seq, *figures),
                _ => return Err(self.damaged(&format!("open entry {seq} is missing"))),
            };
        }
        Ok(segment.end.recovered(segment.last, open))
    }

    /// Gives the entries from `first` to `last` to `visit`, as they are read.
    pub(super) fn raw(
        &self,
        (first, last): (u64, u64),
        visit: &mut dyn FnMut(Kept<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let fail = |cause| self.fail(cause);
        let mut statement = self.connection.prepare_cached(RANGE).map_err(fail)?;
        let range = params![big(first), big(last)];
        let mut rows = statement.query(range).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            visit(kept(row).map_err(fail)?)?;
        }
        Ok(())
    }

    /// Follows the chain from `end` to the last entry, or to `last`.
    pub(super) fn follow(
        &self,
        end: &mut Recovered,
        last: u64,
        visit: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let first = end.head.seq.saturating_add(1);
        self.raw((first, last), &mut |kept| {
            let entry = end.follow(kept).map_err(|error| self.broken(&error))?;
            visit(entry)
        })
    }

    /// The figures of the entry that an entry is about; `None` where there is none, or it was archived.
    pub(super) fn named(&self, entry: &Entry) -> Result<Option<Figures>, StoreError> {
        match names(&entry.figures) {
            Some(seq) => Ok(self.entry(seq)?.map(|entry| entry.figures)),
            None => Ok(None),
        }
    }

    /// An entry by its number, those carried over from an archive included.
    pub(super) fn entry(&self, seq: u64) -> Result<Option<Entry>, StoreError> {
        let sql = if seq > self.origin.base { BY_NUMBER } else { CARRIED_BY_NUMBER };
        let entry = self.one(sql, seq, |row| Ok(chain::read(kept(row)?)))?;
        let entry = entry.transpose().map_err(|error| self.broken(&error))?;
        match entry {
            // A page that was exchanged for another answers with another row.
            Some(entry) if entry.seq != seq => {
                Err(self.damaged(&format!("entry {seq} is another")))
            }
            entry => Ok(entry),
        }
    }

    /// The evidence of an entry.
    pub(super) fn evidence(&self, seq: u64) -> Result<Option<Evidence>, StoreError> {
        let Some(entry) = self.entry(seq)? else { return Ok(None) };
        self.evidence_of(&entry).map(Some)
    }

    /// The evidence of an entry that was read.
    pub(super) fn evidence_of(&self, entry: &Entry) -> Result<Evidence, StoreError> {
        let sql = if entry.seq > self.origin.base {
            "SELECT bytes FROM evidence WHERE seq = ?"
        } else {
            "SELECT bytes FROM carried WHERE seq = ?"
        };
        let bytes: Option<Vec<u8>> = self.one(sql, entry.seq, |row| row.get(0))?;
        let bytes =
            bytes.ok_or_else(|| self.damaged(&format!("entry {} has no evidence", entry.seq)))?;
        chain::read_evidence(entry.seq, entry.evidence, &bytes).map_err(|error| self.broken(&error))
    }

    pub(super) fn one<T>(
        &self,
        sql: &str,
        seq: u64,
        read: impl FnOnce(&SqlRow<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut statement =
            self.connection.prepare_cached(sql).map_err(|cause| self.fail(cause))?;
        let row = statement.query_row(params![big(seq)], read).optional();
        row.map_err(|cause| self.fail(cause))
    }

    /// Kept arguments.
    pub(super) fn argv(&self, place: ArgvPlace) -> Result<Option<KeptArgv>, StoreError> {
        let ArgvPlace { commitment, mode } = place;
        let ArgvColumns { mode: column, text } = argv_columns(self)?;
        let sql = format!(
            "SELECT bytes, true_length, state, {text} FROM argv WHERE commitment = ? AND {column} = ?"
        );
        let mut statement =
            self.connection.prepare_cached(&sql).map_err(|cause| self.fail(cause))?;
        let row = statement.query_row(params![commitment.0, mode_word(mode)], |row| {
            let words = (row.get::<_, String>(2)?, row.get::<_, String>(3)?);
            Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?, words))
        });
        let Some((bytes, true_length, (state, text))) =
            row.optional().map_err(|cause| self.fail(cause))?
        else {
            return Ok(None);
        };
        let words = argv_state(&state).zip(StoredText::of(&text));
        let (state, text) = words.ok_or_else(|| self.damaged("kept arguments"))?;
        let argv = Argv { bytes: Bytes::from(bytes), true_length, state };
        Ok(Some(KeptArgv { commitment, mode, argv, text }))
    }

    /// Whether somebody had a text erased.
    pub(super) fn is_erased(&self, commitment: Digest) -> Result<bool, StoreError> {
        let fail = |cause| self.fail(cause);
        let sql = "SELECT EXISTS (SELECT 1 FROM erased WHERE commitment = ?)";
        let mut statement = self.connection.prepare_cached(sql).map_err(fail)?;
        statement.query_row(params![commitment.0], |row| row.get(0)).map_err(fail)
    }

    /// The settlement under a key, by two ways that no one damage hides together: the unique key, and
    /// the settlement's own columns. `row` is the key's parts, where there is a start time.
    pub(super) fn booked(
        &self,
        key: &[u8],
        row: Option<&RowKey>,
    ) -> Result<Option<BookedRow>, StoreError> {
        let fail = |cause| self.fail(cause);
        let sql = "SELECT seq, held_ms FROM booked WHERE key = ?";
        let mut statement = self.connection.prepare_cached(sql).map_err(fail)?;
        let by_key: Option<(u64, Value)> = statement
            .query_row(params![key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(fail)?;
        let by_key = match by_key {
            None => None,
            Some((seq, held)) => {
                let held_ms = small(&held).ok_or_else(|| self.damaged("a booked key"))?;
                Some(BookedRow { seq, held_ms })
            }
        };
        let archived = by_key.as_ref().is_some_and(|booked| booked.seq <= self.origin.base);
        let Some(row) = row.filter(|_| !archived) else { return Ok(by_key) };
        let sql = "SELECT seq FROM settlement WHERE start_us = ? AND pid = ? AND gpu = ?";
        let mut statement = self.connection.prepare_cached(sql).map_err(fail)?;
        let columns = params![big(row.start.0), row.pid.0, row.gpu.0];
        let by_row: Option<u64> =
            statement.query_row(columns, |row| row.get(0)).optional().map_err(fail)?;
        if by_row == by_key.as_ref().map(|booked| booked.seq) {
            return Ok(by_key);
        }
        Err(self.damaged("its booked keys and its settlements disagree"))
    }

    /// The number of the settlement that a row was booked by.
    pub(super) fn is_booked(&self, key: &RowKey) -> Result<Option<u64>, StoreError> {
        Ok(self.booked(&key_of_row(key)?, Some(key))?.map(|booked| booked.seq))
    }

    /// What is open, with what named it.
    pub(super) fn open_identities(&self, end: &Recovered) -> Result<Vec<OpenIdentity>, StoreError> {
        let mut open = Vec::new();
        for seq in end.unresolved.keys() {
            let entry = self.entry(*seq)?;
            let missing = || self.damaged(&format!("open entry {seq} is missing"));
            let entry = entry.ok_or_else(missing)?;
            let Figures::Open(figures) = &entry.figures else { return Err(missing()) };
            let Evidence::Open(evidence) = self.evidence_of(&entry)? else {
                return Err(self.damaged(&format!("open entry {seq} has another's evidence")));
            };
            let figures = OpenFigures::clone(figures);
            open.push(OpenIdentity { entry, figures, evidence: *evidence });
        }
        Ok(open)
    }

    /// Proves that everything that was acknowledged is still there. `end` is the end that was read.
    pub(super) fn meet_witness(
        &self,
        end: &Recovered,
        witness: Option<Acknowledged>,
    ) -> Result<(), StoreError> {
        let Some(Acknowledged { seq, hash }) = witness else { return Ok(()) };
        if seq > end.head.seq {
            let (path, found) = (self.path.clone(), end.head.seq);
            return Err(StoreError::LostEntries { path, found, witnessed: seq });
        }
        let found = if seq == end.head.seq {
            Some(end.head.hash)
        } else {
            self.entry(seq)?.map(|entry| entry.hash)
        };
        if found == Some(hash) || (seq <= self.origin.base && found.is_none()) {
            return Ok(());
        }
        Err(self.damaged(&format!("entry {seq} is another one than was acknowledged")))
    }
}

/// A settlement that stands under a booking key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BookedRow {
    pub(super) seq: u64,
    pub(super) held_ms: u64,
}

/// The state of kept arguments, as the journal's own words have it.
pub(super) fn argv_state(word: &str) -> Option<ArgvState> {
    let mut writer = canon::Writer::default();
    writer.atom(word.as_bytes());
    let bytes = writer.finish().ok()?;
    ArgvState::take(&mut canon::Reader::new(&bytes)).ok()
}

/// The word for the mode that kept arguments.
pub(super) fn mode_word(mode: Option<CmdlineMode>) -> &'static str {
    mode.map_or(MODE_UNKNOWN, CmdlineMode::as_str)
}

/// Reads such a word; `None` where it is none.
pub(super) fn place_of(commitment: Digest, word: &str) -> Option<ArgvPlace> {
    let mode = match word.parse() {
        // That mode keeps nothing.
        Ok(CmdlineMode::None) => return None,
        Ok(mode) => Some(mode),
        Err(_) if word == MODE_UNKNOWN => None,
        Err(_) => return None,
    };
    Some(ArgvPlace { commitment, mode })
}

/// The word of such a state.
pub(super) fn argv_word(state: ArgvState) -> Result<String, CanonError> {
    let bytes = canon::encode(&state)?;
    canon::Reader::new(&bytes).text().map(str::to_owned)
}

/// Turns what SQLite says of a file into what it means.
pub(super) fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    let path = path.to_owned();
    move |cause| {
        let path = path.clone();
        match &cause {
            rusqlite::Error::SqliteFailure(error, _) => match error.code {
                ErrorCode::DiskFull => StoreError::Full { path },
                _ if error.extended_code == IOERR_SHMSIZE => StoreError::Full { path },
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy { path },
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                    StoreError::Damaged { path, what: cause.to_string() }
                }
                _ => StoreError::Database { path, cause },
            },
            // A value of another type, or none, where the schema has one.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::InvalidColumnIndex(_) => {
                StoreError::Damaged { path, what: cause.to_string() }
            }
            _ => StoreError::Database { path, cause },
        }
    }
}
