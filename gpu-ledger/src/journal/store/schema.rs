//! The tables: made once, brought up to date, and compared with what they must be.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params};

use super::database::{Database, Origin, failed};
use super::error::StoreError;
use super::place::{Place, io};
use super::projection::{TABLES, Table};

/// `PRAGMA application_id`: "gpuL". Told by file(1) and by us.
pub(super) const APPLICATION_ID: u32 = 0x6770_754c;
/// `PRAGMA user_version` of a journal that is up to date.
pub(super) const VERSION: u32 = 5;
/// The oldest version of which a file by itself, an archive, is still read as it is.
const OLDEST_READ: u32 = 1;

const SCHEMA: &str = concat!(
    include_str!("schema.sql"),
    include_str!("argv.sql"),
    include_str!("memory.sql"),
    include_str!("audit.sql")
);
/// That of version 1: kept arguments were always as captured.
const SCHEMA_1: &str = concat!(include_str!("schema.sql"), include_str!("argv.v1.sql"));
/// That of version 2: the first mode that kept arguments kept them for every entry.
const SCHEMA_2: &str = concat!(include_str!("schema.sql"), include_str!("argv.v2.sql"));
/// That of version 3: nobody sampled memory over time.
const SCHEMA_3: &str = concat!(include_str!("schema.sql"), include_str!("argv.sql"));
/// That of version 4: nobody signed checkpoints or closed a period.
const SCHEMA_4: &str =
    concat!(include_str!("schema.sql"), include_str!("argv.sql"), include_str!("memory.sql"));
/// The version from which on there is a table of memory held.
const MEMORY_SINCE: u32 = 4;
/// The version from which on there are tables of keys and of closed periods.
const AUDIT_SINCE: u32 = 5;
/// Of kept arguments, in the place of a mode: entries did not say theirs when it was kept.
pub(super) const MODE_UNKNOWN: &str = "unknown";
/// What brings a journal of version *n*, the place in this list counted from 1, to version *n* + 1.
const MIGRATIONS: &[&str] = &[
    concat!(
        "DROP TRIGGER argv_insert; DROP TRIGGER argv_update; ALTER TABLE argv RENAME TO argv_of_1; ",
        include_str!("argv.v2.sql"),
        "INSERT INTO argv SELECT commitment, bytes, true_length, state, 'captured' FROM argv_of_1; ",
        "DROP TABLE argv_of_1"
    ),
    concat!(
        "DROP TRIGGER argv_insert; DROP TRIGGER argv_update; ALTER TABLE argv RENAME TO argv_of_2; ",
        include_str!("argv.sql"),
        "INSERT INTO argv SELECT commitment, 'unknown', bytes, true_length, state, text FROM argv_of_2; ",
        "DROP TABLE argv_of_2"
    ),
    include_str!("memory.sql"),
    include_str!("audit.sql"),
];

/// Makes an empty journal under a temporary name. Whoever moves it to its place does so when it is whole.
pub(super) fn make(path: &Path, origin: &Origin) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let fail = failed(path);
    let made = Connection::open_with_flags(path, flags).map_err(&fail)?;
    made.pragma_update(None, "synchronous", "FULL").map_err(&fail)?;
    made.pragma_update(None, "foreign_keys", true).map_err(&fail)?;
    made.execute_batch("BEGIN IMMEDIATE").map_err(&fail)?;
    made.pragma_update(None, "application_id", APPLICATION_ID).map_err(&fail)?;
    made.pragma_update(None, "user_version", VERSION).map_err(&fail)?;
    made.execute_batch(SCHEMA).map_err(&fail)?;
    let digest = origin.digest()?;
    let columns = params![origin.journal, origin.base, origin.last, digest.0];
    made.execute("INSERT INTO origin VALUES (?, ?, ?, ?)", columns).map_err(&fail)?;
    made.execute_batch("COMMIT").map_err(&fail)?;
    Ok(made)
}

/// Makes an empty journal in its place, whole or not at all.
pub(super) fn make_in_place(place: &Place, name: &str) -> Result<(), StoreError> {
    let unfinished = format!("{name}.new");
    for leftover in [unfinished.clone(), format!("{unfinished}-journal")] {
        place.remove(&leftover)?;
    }
    drop(place.make(&unfinished)?);
    let path = place.file(&unfinished);
    let mut journal = [0; 16];
    let got = rustix::rand::getrandom(&mut journal, rustix::rand::GetRandomFlags::empty());
    if got.map_err(io("make", &path))? != journal.len() {
        return Err(io("make", &path)(rustix::io::Errno::IO));
    }
    let made = make(&path, &Origin { journal: journal.to_vec(), base: 0, last: None })?;
    made.close().map_err(|(_, cause)| failed(&path)(cause))?;
    place.rename(&unfinished, name)
}

/// Refuses what is no journal of ours before SQLite is let near it in earnest: it would finish or undo
/// what it finds unfinished in a stranger's database. An immutable connection looks at the file alone.
///
/// SQLite looks, not we: closing a descriptor of our own would drop the locks that other connections of
/// this process hold on the file (<https://www.sqlite.org/howtocorrupt.html>, 2.2).
///
/// Where the log was being moved into the file, by somebody who still is at it or was killed, the file by itself
/// looks damaged. Whether it is, a connection that takes its locks and reads the log has to say, and one
/// that reads only. With `others_write` the caller's own next one is such a connection.
pub(super) fn refuse_foreign(path: &Path, others_write: bool) -> Result<(), StoreError> {
    let foreign = |what: &str| StoreError::Foreign { path: path.to_owned(), what: what.to_owned() };
    let found = std::fs::metadata(path).map_err(|cause| StoreError::Io {
        doing: "look at",
        path: path.to_owned(),
        cause,
    })?;
    if found.len() == 0 {
        return Err(foreign("it is empty"));
    }
    let looked = open_immutable(path).and_then(|connection| {
        connection.pragma_query_value(None, "application_id", |row| row.get::<_, u32>(0))
    });
    match looked {
        Ok(APPLICATION_ID) => Ok(()),
        Ok(_) => Err(foreign("it is the database of another program")),
        Err(rusqlite::Error::SqliteFailure(error, _))
            if error.code == rusqlite::ErrorCode::NotADatabase =>
        {
            Err(foreign("it is no SQLite database"))
        }
        Err(rusqlite::Error::SqliteFailure(error, _))
            if others_write && error.code == rusqlite::ErrorCode::DatabaseCorrupt =>
        {
            Ok(())
        }
        Err(rusqlite::Error::SqliteFailure(error, _))
            if error.code == rusqlite::ErrorCode::DatabaseCorrupt =>
        {
            match with_its_log(path).map_err(failed(path))? {
                APPLICATION_ID => Ok(()),
                _ => Err(foreign("it is the database of another program")),
            }
        }
        Err(cause) => Err(failed(path)(cause)),
    }
}

/// Whose a database is whose log was not moved to its end. Read-only: what is unfinished stays so.
fn with_its_log(path: &Path) -> rusqlite::Result<u32> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// A connection that takes no lock, makes no file, and sees no write-ahead log.
pub(super) fn open_immutable(path: &Path) -> rusqlite::Result<Connection> {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            // Writing to a `String` cannot fail.
            byte => drop(write!(uri, "%{byte:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(uri, flags)
}

/// Refuses a newer version; brings an older one up to date, step by step, where it may be written.
pub(super) fn bring_up_to_date(database: &mut Database) -> Result<(), StoreError> {
    migrate(database, MIGRATIONS, VERSION)
}

/// The version of a reader: newer ones are refused, and older ones where the daemon brings them up to date. A file by
/// itself stays what it is.
pub(super) fn refuse_other_versions(
    database: &Database,
    is_in_place: bool,
) -> Result<(), StoreError> {
    let found = version(database)?;
    match found.cmp(&VERSION) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less if !is_in_place && found >= OLDEST_READ => Ok(()),
        std::cmp::Ordering::Greater => Err(newer(&database.path, found, VERSION)),
        std::cmp::Ordering::Less => Err(database.damaged(&format!(
            "it has schema version {found}, which the daemon brings up to date when it starts"
        ))),
    }
}

fn migrate(database: &mut Database, steps: &[&str], known: u32) -> Result<(), StoreError> {
    let found = version(database)?;
    if found > known {
        return Err(newer(&database.path, found, known));
    }
    if found == 0 {
        return Err(database.damaged("it has no schema version"));
    }
    let fail = failed(&database.path);
    for (old, step) in (1_u32..).zip(steps) {
        if old >= found {
            let step = format!(
                "BEGIN IMMEDIATE; {step}; PRAGMA user_version = {}; COMMIT;",
                old.saturating_add(1)
            );
            if let Err(cause) = database.connection.execute_batch(&step) {
                // Whatever of it stands open goes; what the failure was is what matters.
                drop(database.connection.execute_batch("ROLLBACK"));
                return Err(fail(cause));
            }
        }
    }
    Ok(())
}

fn newer(path: &Path, found: u32, known: u32) -> StoreError {
    StoreError::Newer { path: path.to_owned(), found, known }
}

fn version(database: &Database) -> Result<u32, StoreError> {
    let version = database.connection.pragma_query_value(None, "user_version", |row| row.get(0));
    version.map_err(|cause| database.fail(cause))
}

/// What older versions of the table of kept arguments have no column for.
pub(super) struct ArgvColumns {
    /// The mode that kept them.
    pub(super) mode: &'static str,
    /// How the text differs from what was captured.
    pub(super) text: &'static str,
}

/// These columns, as the journal at hand has them.
pub(super) fn argv_columns(database: &Database) -> Result<ArgvColumns, StoreError> {
    Ok(match version(database)? {
        1 => ArgvColumns { mode: "'unknown'", text: "'captured'" },
        2 => ArgvColumns { mode: "'unknown'", text: "text" },
        _ => ArgvColumns { mode: "mode", text: "text" },
    })
}

/// The tables beside the chain, as the journal at hand has them.
pub(super) fn tables(database: &Database) -> Result<Vec<&'static Table>, StoreError> {
    let version = version(database)?;
    let has = |table: &&Table| match table.name {
        "memory" => version >= MEMORY_SINCE,
        "signing_key" | "closed" => version >= AUDIT_SINCE,
        _ => true,
    };
    Ok(TABLES.iter().copied().filter(has).collect())
}

/// Whether the journal at hand keeps the subtrees of its tree.
pub(super) fn has_subtrees(database: &Database) -> Result<bool, StoreError> {
    Ok(version(database)? >= AUDIT_SINCE)
}

/// Proves that the tables, and above all their triggers, are those of this version.
pub(super) fn compare(database: &Database) -> Result<(), StoreError> {
    let memory = PathBuf::from(":memory:");
    let fresh = Connection::open_in_memory().map_err(failed(&memory))?;
    let schema = match version(database)? {
        1 => SCHEMA_1,
        2 => SCHEMA_2,
        3 => SCHEMA_3,
        4 => SCHEMA_4,
        _ => SCHEMA,
    };
    fresh.execute_batch(schema).map_err(failed(&memory))?;
    let wanted = objects(&fresh).map_err(failed(&memory))?;
    let found = objects(&database.connection).map_err(|cause| database.fail(cause))?;
    if wanted == found {
        return Ok(());
    }
    let different = wanted.iter().find(|object| !found.contains(object));
    let different = different.or_else(|| found.iter().find(|object| !wanted.contains(object)));
    let name = different.and_then(|object| match object.get(1) {
        Some(Value::Text(name)) => Some(name.as_str()),
        _ => None,
    });
    Err(database.damaged(&format!("its schema differs in {}", name.unwrap_or("a nameless object"))))
}

type Object = Vec<Value>;

fn objects(connection: &Connection) -> rusqlite::Result<Vec<Object>> {
    let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| (0..4).map(|column| row.get(column)).collect())?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(folder: &Path) -> Database {
        let path = folder.join("x.db");
        std::fs::write(&path, b"").unwrap();
        let origin = Origin { journal: vec![7; 16], base: 0, last: None };
        let connection = make(&path, &origin).unwrap();
        Database { connection, path, origin }
    }

    #[test]
    fn an_older_journal_is_brought_up_to_date_step_by_step_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let mut database = journal(folder.path());
        compare(&database).unwrap();
        database.connection.pragma_update(None, "user_version", 2).unwrap();
        let steps = [
            "CREATE nonsense",
            "CREATE TABLE three(a INTEGER) STRICT",
            "CREATE TABLE four(a INTEGER) STRICT",
            "CREATE TABLE five(a INTEGER) STRICT",
        ];
        migrate(&mut database, &steps, 5).unwrap();
        assert_eq!(version(&database).unwrap(), 5);
        let error = compare(&database).unwrap_err().to_string();
        assert!(error.contains("its schema differs in "), "{error}");
        // A step that fails leaves the version and everything else as they were.
        let [one, two, three, four] = steps;
        let broken = [one, two, three, four, "CREATE TABLE six(a INTEGER) STRICT; CREATE nonsense"];
        assert!(matches!(migrate(&mut database, &broken, 6), Err(StoreError::Database { .. })));
        assert_eq!(version(&database).unwrap(), 5);
        database.connection.pragma_update(None, "user_version", 6).unwrap();
        let error = migrate(&mut database, &[], VERSION).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 6, known: 5, .. }), "{error}");
        assert!(error.to_string().contains("schema version 6, this gpu-ledger knows 5"), "{error}");
    }
}
