//! `journal archive --before`: the older part of a journal into a file of its own.
//!
//! Both parts are written whole and checked before the journal is touched; then one rename exchanges it.
//! Killed at any moment, there is either the journal as it was or both parts, and nothing in between.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::check::check_file;
use super::database::{Database, Origin, failed, mode_word};
use super::error::StoreError;
use super::place::{Place, StateDir};
use super::projection::{TABLES, big};
use super::reader::Reader;
use super::schema;
use super::segment::{SEGMENT_ENTRIES, Segment};
use super::writer::{JOURNAL, Store};
use crate::journal::Digest;
use crate::journal::chain::Head;
use crate::journal::entry::{ArgvPlace, Evidence};
use crate::unit::WallUs;

/// Name of the journal that is being made.
pub(super) const NEXT: &str = "ledger.db.next";
/// Name of the archive that is being made.
pub(super) const UNFINISHED: &str = "archive.new";

/// What was archived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Archived {
    /// The archive.
    pub file: PathBuf,
    /// Number of its first entry.
    pub first: u64,
    /// Number of its last entry.
    pub last: u64,
    /// Hash of its last entry, which the journal continues.
    pub hash: Digest,
}

/// Moves what was entered before a moment into an archive beside the journal, by whole segments of
/// entries. What was open then is carried over, and what was booked then stays booked.
///
/// # Errors
/// [`StoreError::NothingToArchive`] where no whole segment is that old; [`StoreError::Held`] while a daemon
/// writes; [`StoreError::Busy`] while somebody reads; those of a journal that is not whole: it is then left
/// as it is.
pub fn archive(dir: &StateDir, before: WallUs) -> Result<Archived, StoreError> {
    let (store, _) = Store::open(dir)?;
    let (database, place, lock) = store.parts();
    let segments = database.segments()?;
    let base = database.origin.base;
    let old =
        |segment: &&Segment| segment.end.last.is_some_and(|moment| moment.stamp.wall < before);
    let cut = segments.iter().take_while(old).last().filter(|segment| segment.last > base);
    let Some(cut) = cut else {
        let why = format!(
            "entries are archived in whole runs of {SEGMENT_ENTRIES}, and no such run was over by then"
        );
        return Err(StoreError::NothingToArchive { why });
    };
    let archived = Archived {
        file: place.file(&name(&database, cut.last)),
        first: base.saturating_add(1),
        last: cut.last,
        hash: cut.end.hash,
    };
    for name in [NEXT, UNFINISHED] {
        place.remove(name)?;
        place.remove(&format!("{name}-journal"))?;
    }
    let parts = Parts { database: &database, place: &place, cut };
    parts.make_archive(&archived)?;
    parts.make_next()?;
    exchange(database, &place)?;
    // Proves it, and puts it into the mode that a writer leaves it in.
    let (store, _) = Store::open_locked(place, lock, None)?;
    store.close()?;
    Ok(archived)
}

/// The archive's name. The journal's own number is in it: another journal's archive of the same entries
/// must not be taken for this one's.
fn name(database: &Database, last: u64) -> String {
    let journal = database.origin.journal.first_chunk().copied().map_or(0, u32::from_be_bytes);
    format!("archive-{journal:08x}-{}-{last}.db", database.origin.base.saturating_add(1))
}

struct Parts<'a> {
    database: &'a Database,
    place: &'a Place,
    cut: &'a Segment,
}

impl Parts<'_> {
    /// The archive, in its place. One that a killed predecessor finished is taken as it is.
    fn make_archive(&self, archived: &Archived) -> Result<(), StoreError> {
        let finished = name(self.database, archived.last);
        if self.place.has_plain(&finished)? {
            return self.prove(&archived.file, (archived.last, archived.hash));
        }
        let old = &self.database.origin;
        let last = Some(archived.last);
        let origin = Origin { journal: old.journal.clone(), base: old.base, last };
        let made = self.begin(UNFINISHED, &origin)?;
        let mut copies = vec![
            "INSERT INTO entry SELECT * FROM old.entry WHERE seq <= ?1 ORDER BY seq".to_owned(),
            "INSERT INTO evidence SELECT * FROM old.evidence WHERE seq <= ?1 ORDER BY seq"
                .to_owned(),
            "INSERT INTO carried SELECT * FROM old.carried WHERE ?1 > 0".to_owned(),
            "INSERT INTO booked SELECT * FROM old.booked WHERE seq <= ?1".to_owned(),
            "INSERT INTO segment SELECT * FROM old.segment WHERE last <= ?1 ORDER BY first"
                .to_owned(),
            format!(
                "INSERT INTO subtree SELECT * FROM old.subtree \
                 WHERE number < ?1 / {SEGMENT_ENTRIES} ORDER BY number"
            ),
        ];
        copies.extend(TABLES.iter().map(|table| {
            let name = table.name;
            format!("INSERT INTO {name} SELECT * FROM old.{name} WHERE seq <= ?1 ORDER BY seq")
        }));
        self.copy(&made, &copies)?;
        self.finish(made, UNFINISHED)?;
        self.prove(&self.place.file(UNFINISHED), (archived.last, archived.hash))?;
        self.place.rename(UNFINISHED, &finished)
    }

    /// The journal that goes on, under a name of its own.
    fn make_next(&self) -> Result<(), StoreError> {
        let journal = self.database.origin.journal.clone();
        let made = self.begin(NEXT, &Origin { journal, base: self.cut.last, last: None })?;
        let mut copies = vec![
            "INSERT INTO entry SELECT * FROM old.entry WHERE seq > ?1 ORDER BY seq".to_owned(),
            "INSERT INTO evidence SELECT * FROM old.evidence WHERE seq > ?1 ORDER BY seq"
                .to_owned(),
            // All: a row of the driver that comes back is booked however long ago that was.
            "INSERT INTO booked SELECT * FROM old.booked WHERE ?1 > 0".to_owned(),
            "INSERT INTO erased SELECT * FROM old.erased WHERE ?1 > 0".to_owned(),
            "INSERT INTO segment SELECT * FROM old.segment WHERE last >= ?1 ORDER BY first"
                .to_owned(),
            // All: the tree is over every entry that there ever was.
            "INSERT INTO subtree SELECT * FROM old.subtree WHERE ?1 > 0 ORDER BY number".to_owned(),
        ];
        copies.extend(TABLES.iter().map(|table| {
            let name = table.name;
            format!("INSERT INTO {name} SELECT * FROM old.{name} WHERE seq > ?1 ORDER BY seq")
        }));
        copies.extend(self.cut.end.unresolved.iter().flat_map(|seq| {
            let (table, join) = if *seq > self.database.origin.base {
                ("entry", "JOIN old.evidence AS e USING (seq)")
            } else {
                ("carried", "")
            };
            [
                format!(
                    "INSERT INTO carried SELECT seq, kind, at_us, body, evidence_digest, previous, hash, \
                     bytes FROM old.{table} {join} WHERE seq = {seq} AND ?1 > 0"
                ),
                format!("INSERT INTO opened SELECT * FROM old.opened WHERE seq = {seq} AND ?1 > 0"),
            ]
        }));
        self.copy(&made, &copies)?;
        self.finish(made, NEXT)?;
        let end = self.database.recovered(Some(self.cut)).and_then(|mut end| {
            self.database.follow(&mut end, u64::MAX, &mut |_| Ok(()))?;
            Ok(end)
        })?;
        let Head { seq, hash, .. } = end.head;
        self.prove(&self.place.file(NEXT), (seq, hash))
    }

    /// An empty journal with the old one beside it, in a transaction.
    fn begin(&self, name: &str, origin: &Origin) -> Result<Connection, StoreError> {
        drop(self.place.make(name)?);
        let path = self.place.file(name);
        let made = schema::make(&path, origin)?;
        let old = self.database.path.to_string_lossy().into_owned();
        let attached = made
            .execute("ATTACH DATABASE ? AS old", [old])
            .and_then(|_| made.execute_batch("BEGIN IMMEDIATE"));
        attached.map_err(failed(&path))?;
        Ok(made)
    }

    fn copy(&self, made: &Connection, copies: &[String]) -> Result<(), StoreError> {
        for copy in copies {
            let done = made.execute(copy, [big(self.cut.last)]);
            done.map_err(|cause| self.database.fail(cause))?;
        }
        Ok(())
    }

    /// Adds the texts of arguments that its evidence commits to, and closes it.
    fn finish(&self, made: Connection, name: &str) -> Result<(), StoreError> {
        let path = self.place.file(name);
        let fail = failed(&path);
        {
            let sql = "INSERT INTO argv SELECT * FROM old.argv AS kept WHERE commitment = ?1 AND mode = ?2 \
                AND NOT EXISTS (SELECT 1 FROM main.argv WHERE commitment = ?1 AND mode = ?2)";
            let mut keep = made.prepare(sql).map_err(&fail)?;
            let sql = "SELECT bytes FROM evidence UNION ALL SELECT bytes FROM carried";
            let mut statement = made.prepare(sql).map_err(&fail)?;
            let mut rows = statement.query([]).map_err(&fail)?;
            while let Some(row) = rows.next().map_err(&fail)? {
                let bytes: Vec<u8> = row.get(0).map_err(&fail)?;
                let evidence: Evidence = crate::journal::canon::decode(&bytes)?;
                if let Some(ArgvPlace { commitment, mode }) = evidence.argv_place() {
                    keep.execute(params![commitment.0, mode_word(mode)]).map_err(&fail)?;
                }
            }
        }
        made.execute_batch("COMMIT; DETACH DATABASE old").map_err(&fail)?;
        made.close().map_err(|(_, cause)| fail(cause))
    }

    /// That a part is whole and ends where it must.
    fn prove(&self, path: &Path, (seq, hash): (u64, Digest)) -> Result<(), StoreError> {
        let report = check_file(path)?;
        if let Some(fault) = report.faults.first() {
            return Err(self
                .database
                .damaged(&format!("a part of it is not whole: {}", fault.what)));
        }
        let is_ours = Reader::open_file(path)?.journal() == self.database.origin.journal;
        if is_ours && (report.head.seq, report.head.hash) == (seq, hash) {
            return Ok(());
        }
        let path = path.to_owned();
        Err(StoreError::Foreign { path, what: "it is not the archive of this journal".to_owned() })
    }
}

/// Puts the next journal in the place of the old one.
///
/// The old one leaves WAL mode first. That needs it for ourselves, so nobody is left who has its log and
/// shared memory open under the names that the next one's will have; and it then stands in one file, so
/// that the rename exchanges all of it.
fn exchange(database: Database, place: &Place) -> Result<(), StoreError> {
    let mode: String = database
        .connection
        .pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get(0))
        .map_err(|cause| database.fail(cause))?;
    if mode != "delete" {
        return Err(StoreError::Busy { path: database.path });
    }
    let path = database.path;
    database.connection.close().map_err(|(_, cause)| failed(&path)(cause))?;
    // That the old log is gone is on the disk before the next journal has its name: after a power failure
    // the one must never lie beside the other.
    place.sync()?;
    place.rename(NEXT, JOURNAL)
}
