//! `journal check`: everything that can be proven of a journal, every byte of it read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::types::Value;

use super::database::{Database, argv_state, place_of};
use super::error::StoreError;
use super::files::{Files, files_of};
use super::place::StateDir;
use super::projection::{TABLES, big, projection, small};
use super::reader::Reader;
use super::schema::{ArgvColumns, argv_columns, has_subtrees, tables};
use super::segment::{Growing, SEGMENT_ENTRIES, Segment};
use super::side::Acknowledged;
use super::tree::{Growth, frontier_of};
use crate::argv::StoredText;
use crate::escape::printable;
use crate::journal::Digest;
use crate::journal::chain::{Head, Recovered, booking_key};
use crate::journal::commitment::CommitmentKey;
use crate::journal::entry::{ArgvPlace, Entry, Evidence, Figures};
use crate::journal::tree::Frontier;
use crate::kernel::Argv;

/// Faults that are told one by one; further ones are counted.
const FAULTS_TOLD_MAX: usize = 20;

/// What was checked, and what is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// Number of the last entry before the first one here; 0 where nothing was archived away.
    pub base: u64,
    /// Entries that were followed, each with its evidence.
    pub entries: u64,
    /// Settlements among them.
    pub settlements: u64,
    /// Segments that were derived again, each with its subtree of the tree.
    pub segments: u64,
    /// Root of the tree of all entries up to the head; `None` where not all of it is known.
    pub root: Option<Digest>,
    /// Booked keys, those of archived settlements included.
    pub booked_keys: u64,
    /// Texts of arguments that are kept, as captured or less.
    pub argv_kept: u64,
    /// Those of them that are less than what was committed to, and cannot be compared with it.
    pub argv_redacted: u64,
    /// Commitments, each under the modes in which it was entered, whose text was deleted, or never kept.
    pub argv_absent: u64,
    /// Texts as captured that could not be compared, as there is no key.
    pub argv_unproven: u64,
    /// Files that entries name, and that are there as they were kept.
    pub files: u64,
    /// Whether something outside the journal said where it must end.
    pub is_witnessed: bool,
    /// The end of the chain, as far as it could be followed.
    pub head: Head,
    /// The first faults.
    pub faults: Vec<Fault>,
    /// How many there are.
    pub faults_total: u64,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.faults_total == 0
    }
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The entry it is about, where it is about one.
    pub seq: Option<u64>,
    /// What, safe to print.
    pub what: String,
}

/// Checks the journal of a directory.
///
/// # Errors
/// Where it cannot be opened at all. What is wrong with one that can is in the report.
pub fn check(dir: &StateDir) -> Result<CheckReport, StoreError> {
    let reader = Reader::open(dir)?;
    let files = Files::of_reader(dir)?;
    of_reader(&reader, |checking| checking.files(files.as_ref()))
}

/// Checks one file: an archive, or the copy of a journal.
///
/// # Errors
/// As [`check`].
pub fn check_file(path: &Path) -> Result<CheckReport, StoreError> {
    // What it names lies beside the journal, wherever that is.
    of_reader(&Reader::open_file(path)?, |_| ())
}

fn of_reader(
    reader: &Reader,
    beside: impl FnOnce(&mut Checking<'_>),
) -> Result<CheckReport, StoreError> {
    let key = reader.key()?;
    reader.at_one_moment(|witness| {
        let mut checking = Checking::begin(&reader.database);
        checking.report.is_witnessed = witness.is_some() || reader.database.origin.last.is_some();
        checking.database_itself()?;
        checking.chain();
        checking.end(reader, witness);
        checking.totals()?;
        checking.arguments(key.as_ref())?;
        beside(&mut checking);
        Ok(checking.report)
    })
}

struct Checking<'a> {
    database: &'a Database,
    report: CheckReport,
    end: Recovered,
    /// Rows that each table beside the chain must have.
    rows: BTreeMap<&'static str, u64>,
    /// Where entries say that their arguments are kept.
    places: BTreeSet<ArgvPlace>,
    /// Files that entries name, and the first that does.
    files: BTreeMap<Digest, u64>,
}

impl<'a> Checking<'a> {
    fn begin(database: &'a Database) -> Self {
        let report = CheckReport { base: database.origin.base, ..CheckReport::default() };
        let rows = TABLES.iter().map(|table| (table.name, 0)).collect();
        let end = Recovered::default();
        let (places, files) = (BTreeSet::new(), BTreeMap::new());
        Self { database, report, end, rows, places, files }
    }

    fn fault(&mut self, seq: Option<u64>, what: impl Into<String>) {
        self.report.faults_total = self.report.faults_total.saturating_add(1);
        if self.report.faults.len() < FAULTS_TOLD_MAX {
            // SQLite quotes what stands in the file, which anybody may have written.
            let what = printable(what.into().as_bytes()).to_string();
            self.report.faults.push(Fault { seq, what });
        }
    }

    /// Turns what reading one thing failed with into a fault, where the rest can still be read.
    fn told<T>(&mut self, seq: Option<u64>, read: Result<T, StoreError>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(StoreError::Damaged { what, .. }) => {
                self.fault(seq, what);
                None
            }
            Err(error) => {
                self.fault(seq, error.to_string());
                None
            }
        }
    }

    /// SQLite's own structures: pages, indexes, types.
    fn database_itself(&mut self) -> Result<(), StoreError> {
        let database = self.database;
        let fail = |cause| database.fail(cause);
        let sql = format!("PRAGMA integrity_check({FAULTS_TOLD_MAX})");
        let mut statement = database.connection.prepare(&sql).map_err(fail)?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0)).map_err(fail)?;
        for line in lines {
            match line {
                Ok(line) if line == "ok" => {}
                Ok(line) => self.fault(None, format!("sqlite: {line}")),
                Err(cause) => {
                    self.fault(None, format!("sqlite: {cause}"));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Every entry, followed, with its evidence and everything that is derived from it.
    fn chain(&mut self) {
        let database = self.database;
        let segments = self.told(None, database.segments()).unwrap_or_default();
        let base = database.origin.base;
        let based = segments.iter().find(|segment| segment.last == base);
        let Some(end) = self.told(None, database.recovered(based)) else { return };
        self.carried(&end);
        let mut growing =
            Growing::after(base, end.head.hash, based.and_then(|segment| segment.last_mark));
        self.end = end;
        let mut expected = segments.iter().filter(|segment| segment.last > base);
        let mut tree = self.tree(base);
        let closings = self.closings();
        let read = database.raw((base.saturating_add(1), u64::MAX), &mut |kept| {
            let entry = self.end.follow(kept).map_err(|error| database.broken(&error))?;
            self.entry(&entry);
            tree.growth.add(kept.leaf()?);
            for (closing, root) in closings.get(&entry.seq).into_iter().flatten() {
                if tree.growth.head().is_some_and(|(_, here)| here.to_string() != *root) {
                    let what =
                        "it closes a period with another root of the tree than its entries have";
                    self.fault(Some(*closing), what);
                }
            }
            let named = self.told(Some(entry.seq), database.named(&entry)).flatten();
            growing.add(&entry, named.as_ref());
            if let Some(mut segment) = growing.fill(&self.end) {
                let found = expected.next();
                believe_of_archived(&mut segment, found, base);
                self.segment(&segment, found);
                self.run(&mut tree, segment.last);
                growing = Growing::after(segment.last, segment.end.hash, segment.last_mark);
            }
            Ok(())
        });
        if self.told(None, read).is_none() {
            let next = self.end.head.seq.saturating_add(1);
            self.fault(Some(next), "from here on the chain could not be followed");
        } else if expected.next().is_some() {
            self.fault(None, "there are segments after the last entry");
        }
        if tree.kept.into_iter().any(|(number, _)| number >= self.end.head.seq / SEGMENT_ENTRIES) {
            self.fault(None, "there are subtrees after the last entry");
        }
        self.report.root = tree.growth.head().map(|(_, root)| root);
        self.report.head = self.end.head.clone();
    }

    /// The tree of what was archived, as far as it is known.
    fn tree(&mut self, base: u64) -> Deriving {
        let database = self.database;
        let kept = match has_subtrees(database) {
            Ok(true) => self.told(None, database.runs()).unwrap_or_default(),
            _ => BTreeMap::new(),
        };
        let left = frontier_of(&kept, base / SEGMENT_ENTRIES);
        Deriving { growth: Growth::new(left, Frontier::starting_at(base)), kept }
    }

    /// Closed periods by the last entry that their bills are made of: each with its own entry, and the root it says.
    fn closings(&mut self) -> BTreeMap<u64, Vec<(u64, String)>> {
        let database = self.database;
        let mut closings: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
        if !has_subtrees(database).unwrap_or(true) {
            return closings;
        }
        let read = database.connection.prepare("SELECT through, seq, tree FROM closed").and_then(
            |mut statement| {
                let rows = statement.query_map([], |row| {
                    Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?, row.get::<_, String>(2)?))
                })?;
                rows.collect::<rusqlite::Result<Vec<_>>>()
            },
        );
        let read = read.map_err(|cause| database.fail(cause));
        for (through, closing, root) in self.told(None, read).unwrap_or_default() {
            if through >= closing {
                self.fault(Some(closing), "it closes a period over entries that come after it");
            }
            closings.entry(through).or_default().push((closing, root));
        }
        closings
    }

    fn run(&mut self, tree: &mut Deriving, last: u64) {
        let derived = tree.growth.fill();
        let is_kept = derived.is_some_and(|run| tree.kept.remove(&run.number) == Some(run.root));
        if !is_kept && has_subtrees(self.database).unwrap_or(true) {
            self.fault(Some(last), "the subtree that ends here is another than follows");
        }
    }

    fn segment(&mut self, derived: &Segment, found: Option<&Segment>) {
        self.report.segments = self.report.segments.saturating_add(1);
        if found != Some(derived) {
            self.fault(Some(derived.last), "the segment that ends here is another than follows");
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let seq = entry.seq;
        self.report.entries = self.report.entries.saturating_add(1);
        let columns =
            self.database.one("SELECT kind, at_us FROM entry WHERE seq = ?", seq, |row| {
                Ok((row.get::<_, Value>(0)?, row.get::<_, Value>(1)?))
            });
        let kind = Value::Text(entry.figures.kind().to_owned());
        if self.told(Some(seq), columns) != Some(Some((kind, big(entry.at.stamp.wall.0)))) {
            self.fault(Some(seq), "its columns say another kind or moment than its body");
        }
        let evidence = self.database.evidence_of(entry);
        let Some(evidence) = self.told(Some(seq), evidence) else { return };
        self.columns(entry, &evidence);
        for digest in files_of(entry, &evidence) {
            self.files.entry(digest).or_insert(seq);
        }
        if let Figures::Settlement(_) = entry.figures {
            self.booked(entry, &evidence);
        }
    }

    /// That every file which an entry names is there, and is that file.
    fn files(&mut self, files: Option<&Files>) {
        for (digest, seq) in std::mem::take(&mut self.files) {
            let read = files.map_or(Ok(None), |files| files.read(digest));
            match self.told(Some(seq), read.map(|read| read.is_some())) {
                Some(true) => self.report.files = self.report.files.saturating_add(1),
                Some(false) => {
                    self.fault(
                        Some(seq),
                        format!("the file that it names, files/{digest}, is missing"),
                    );
                }
                None => {}
            }
        }
    }

    /// The entry's columns in the table of its kind.
    fn columns(&mut self, entry: &Entry, evidence: &Evidence) {
        let wanted = projection(entry, evidence);
        let rows = self.rows.entry(wanted.table.name).or_insert(0);
        *rows = rows.saturating_add(1);
        let count = wanted.columns.len();
        let found = self.database.one(wanted.table.select, entry.seq, |row| {
            (0..count).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>()
        });
        if self.told(Some(entry.seq), found) != Some(Some(wanted.columns)) {
            let what = format!("table {} says something else than its body", wanted.table.name);
            self.fault(Some(entry.seq), what);
        }
        self.places.extend(evidence.argv_place());
    }

    fn booked(&mut self, entry: &Entry, evidence: &Evidence) {
        let Figures::Settlement(settlement) = &entry.figures else { return };
        self.report.settlements = self.report.settlements.saturating_add(1);
        let found = booking_key(settlement, evidence)
            .map_err(StoreError::from)
            .and_then(|key| self.database.booked(&key, settlement.key().as_ref()));
        let Some(found) = self.told(Some(entry.seq), found) else { return };
        let as_booked = |booked: super::database::BookedRow| (booked.seq, booked.held_ms);
        if found.map(as_booked) != Some((entry.seq, settlement.held.0)) {
            self.fault(Some(entry.seq), "its row is not booked under its key");
        }
    }

    /// What was carried over from the archive: exactly what was open at its end.
    fn carried(&mut self, at_base: &Recovered) {
        let database = self.database;
        let count = self.count("SELECT count(*) FROM carried");
        let open = u64::try_from(at_base.unresolved.len()).unwrap_or(u64::MAX);
        // An archive keeps what the archive before it left open, too.
        if count.is_some_and(|count| count != open) {
            self.fault(None, "other open entries were carried over than were open");
        }
        for seq in at_base.unresolved.keys() {
            let entry = self.told(Some(*seq), database.entry(*seq)).flatten();
            let Some(entry) = entry else { continue };
            let evidence = self.told(Some(*seq), database.evidence_of(&entry));
            if let Some(evidence) = evidence {
                self.columns(&entry, &evidence);
            }
        }
    }

    fn end(&mut self, reader: &Reader, witness: Option<Acknowledged>) {
        let met = reader.meet_witness(&self.end, witness);
        self.told(None, met);
    }

    fn count(&mut self, sql: &str) -> Option<u64> {
        let counted = self.database.connection.query_row(sql, [], |row| row.get(0));
        let counted = counted.map_err(|cause| self.database.fail(cause));
        self.told(None, counted)
    }

    /// That nothing stands beside the chain that is not derived from it.
    fn totals(&mut self) -> Result<(), StoreError> {
        for table in tables(self.database)? {
            let wanted = self.rows.get(table.name).copied();
            let found = self.count(table.count);
            if found.is_some() && found != wanted {
                self.fault(None, format!("table {} has other rows than entries", table.name));
            }
        }
        let evidence = self.count("SELECT count(*) FROM evidence");
        if evidence.is_some_and(|count| count != self.report.entries) {
            self.fault(None, "there is other evidence than of the entries");
        }
        let database = self.database;
        let sql = "SELECT count(*) FROM booked WHERE seq > ?";
        let here = database.one(sql, self.report.base, |row| row.get::<_, u64>(0))?;
        if here != Some(self.report.settlements) {
            self.fault(None, "there are other booked keys than settlements");
        }
        if let Some(count) = self.count("SELECT count(*) FROM booked") {
            self.report.booked_keys = count;
        }
        Ok(())
    }

    /// Kept texts against their commitments.
    fn arguments(&mut self, key: Option<&CommitmentKey>) -> Result<(), StoreError> {
        let database = self.database;
        let fail = |cause| database.fail(cause);
        let ArgvColumns { mode, text } = argv_columns(database)?;
        let sql = format!("SELECT commitment, bytes, true_length, state, {text}, {mode} FROM argv");
        let mut statement = database.connection.prepare(&sql).map_err(fail)?;
        let mut rows = statement.query([]).map_err(fail)?;
        let mut kept = 0_u64;
        while let Some(row) = rows.next().map_err(fail)? {
            let commitment = Digest(row.get(0).map_err(fail)?);
            let bytes: Vec<u8> = row.get(1).map_err(fail)?;
            let length: Value = row.get(2).map_err(fail)?;
            let state = argv_state(&row.get::<_, String>(3).map_err(fail)?);
            let true_length = match &length {
                Value::Null => Some(None),
                known => small(known).map(Some),
            };
            let text = StoredText::of(&row.get::<_, String>(4).map_err(fail)?);
            let place = place_of(commitment, &row.get::<_, String>(5).map_err(fail)?);
            let (Some(true_length), Some(state), Some(text), Some(place)) =
                (true_length, state, text, place)
            else {
                self.fault(None, "kept arguments are not readable");
                continue;
            };
            if self.places.remove(&place) {
                kept = kept.saturating_add(1);
            } else {
                self.fault(None, format!("kept arguments {commitment} are of no entry"));
            }
            if text != StoredText::Captured {
                self.report.argv_redacted = self.report.argv_redacted.saturating_add(1);
                continue;
            }
            let argv = Argv { bytes: bytes.into(), true_length, state };
            match key {
                Some(key) if key.commit(&argv) == Ok(commitment) => {}
                Some(_) => self.fault(
                    None,
                    format!("kept arguments {commitment} are not what was committed to"),
                ),
                None => {
                    self.report.argv_unproven = self.report.argv_unproven.saturating_add(1);
                }
            }
        }
        self.report.argv_kept = kept;
        self.report.argv_absent = u64::try_from(self.places.len()).unwrap_or(u64::MAX);
        Ok(())
    }
}

/// The tree as it follows, beside the subtrees that are kept.
struct Deriving {
    growth: Growth,
    kept: BTreeMap<u64, Digest>,
}

/// What a correction of an archived entry bears on was derived when that entry was here.
fn believe_of_archived(derived: &mut Segment, found: Option<&Segment>, base: u64) {
    let Some(found) = found else { return };
    for (derived, found) in derived.far.iter_mut().zip(&found.far) {
        let is_of_archived = derived.of.is_some_and(|of| of <= base);
        if is_of_archived && (derived.seq, derived.of) == (found.seq, found.of) {
            (derived.from, derived.to) = (found.from, found.to);
        }
    }
}
