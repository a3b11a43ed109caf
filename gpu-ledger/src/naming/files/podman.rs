//! Podman: libpod's database, SQLite's or before that bolt's, else the lists of containers-storage, which know name
//! and image.
//!
//! SQLite's is read as bytes and opened in memory: so SQLite opens no file that a user put there, makes none
//! beside it, and takes no lock that Podman would wait for. What is being written meanwhile is read again.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, MAIN_DB, OptionalExtension as _, Row, params};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::answer::Told;
use super::super::asked::Question;
use super::bolt::{self, Fault, Look, Value};
use super::reading::Folder;
use super::{Files, FilesError, Home, first, is_of, wal};

/// The configuration of containers-storage, which may name another graph root.
const STORAGE_CONF: (&str, &str) = ("/etc/containers", "storage.conf");
/// Bytes of it.
const CONF_BYTES_MAX: u64 = 256 << 10;
/// The graph root of containers-storage, of the system and of a user
/// (containers-storage, `types/options.go`; storage.conf(5)).
const STORE: &str = "/var/lib/containers/storage";
const STORE_OF_USER: &str = ".local/share/containers/storage";
/// The run root, which has the containers of a transient store.
const RUN: &str = "/run/containers/storage";
/// The database since Podman 4.8 (podman, `libpod/sqlite_state.go`, `NewSqliteState`), and what was not written
/// back into it yet.
const DATABASE: (&str, &str) = ("db.sql", "db.sql-wal");
/// Where Podman 5 keeps what a transaction that has not ended would write over (looked at with Podman 5.4.2 on
/// Debian 13; sqlite.org/lockingv3.html, section 4).
const JOURNAL: &str = "db.sql-journal";
/// Where the number of transactions stands, which every one of those raises (sqlite.org/fileformat2.html, section
/// 1.3.5).
const COUNTER: u64 = 24;
/// How often it is read anew, and after how long: a transaction takes some milliseconds, as long as its disk.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of the database: some 30 KiB a container.
const DATABASE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of its write-ahead log, which is written back at 4 MiB unless somebody reads all the time.
const LOG_BYTES_MAX: u64 = 32 << 20;
/// The database before that, which later ones keep that were set up with it (podman 4.3, `libpod/runtime.go`).
const OLD_DATABASE: &str = "libpod/bolt_state.db";
/// Bytes of a list: some 600 a container.
const LIST_BYTES_MAX: u64 = 4 << 20;
/// Bytes of any one value of the database.
const VALUE_BYTES_MAX: i32 = 1 << 20;
/// Drivers of containers-storage, after which it names the folder of its lists.
const DRIVERS: [&str; 4] = ["overlay", "vfs", "btrfs", "zfs"];
/// Its lists: what lasts, and what `--rm` made (containers-storage 1.45, `containers.go`; looked at with
/// Podman 4.3.1 on Debian 12).
const LISTS: [&str; 2] = ["containers.json", "volatile-containers.json"];

#[derive(Deserialize)]
struct StorageConf {
    storage: Option<Storage>,
}

#[derive(Deserialize)]
struct Storage {
    graphroot: Option<String>,
}

/// A container's configuration (podman 4.8, `libpod/container_config.go`), in bytes that the database does not take
/// for a text (looked at with Podman 5.4.2).
#[derive(Deserialize)]
struct Config {
    id: Option<String>,
    name: Option<String>,
    #[serde(rename = "rootfsImageName")]
    image: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    pod: Option<String>,
}

/// A pod's (podman 4.8, `libpod/pod.go`).
#[derive(Default, Deserialize)]
struct PodConfig {
    id: Option<String>,
    name: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

/// One of a list.
#[derive(Deserialize)]
struct Listed {
    id: String,
    names: Option<Vec<String>>,
    metadata: Option<String>,
}

/// What Podman notes of itself there, as JSON in a text.
#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "image-name")]
    image: Option<String>,
}

pub(super) fn tell(
    files: &Files,
    home: &Home,
    question: &Question,
) -> Result<Option<Told>, FilesError> {
    let stores = files.configured_folders(home, configured_store, &[STORE, RUN], STORE_OF_USER)?;
    let stores: Vec<&Folder> = stores.iter().collect();
    // The lists have no labels, so every database goes before them.
    first(&[Source::Database, Source::OldDatabase, Source::Lists], |source| {
        first(&stores, |store| match source {
            Source::Database => of_database(store, question),
            Source::OldDatabase => {
                bolt::look(store, OLD_DATABASE, |look| look_up_old(look, question))
            }
            Source::Lists => of_lists(store, question),
        })
    })
}

/// What tells, the better first.
#[derive(Clone, Copy)]
enum Source {
    Database,
    OldDatabase,
    Lists,
}

fn configured_store(files: &Files) -> Result<Option<String>, FilesError> {
    let (folder, name) = STORAGE_CONF;
    let Some(folder) = files.folder(folder)? else { return Ok(None) };
    let Some(bytes) = folder.read(name, CONF_BYTES_MAX)? else { return Ok(None) };
    let conf: StorageConf =
        toml::from_slice(&bytes).map_err(|_| FilesError::Form { path: folder.path(name) })?;
    Ok(conf.storage.and_then(|storage| storage.graphroot))
}

fn of_database(store: &Folder, question: &Question) -> Result<Option<Told>, FilesError> {
    let (name, log) = DATABASE;
    let Some(bytes) = steady(store, name)? else { return Ok(None) };
    let log = store.read(log, LOG_BYTES_MAX)?.unwrap_or_default();
    let form = || FilesError::Form { path: store.path(name) };
    let bytes = wal::written_back(bytes, &log, DATABASE_BYTES_MAX).ok_or_else(form)?;
    look_up(&bytes, question.id()).map_err(|_| form())
}

/// The database between two transactions: each has its journal there before it writes, and counts itself before
/// that goes.
fn steady(store: &Folder, name: &str) -> Result<Option<Vec<u8>>, FilesError> {
    for _ in 0..TRIES {
        let Some(file) = store.file(name)? else { return Ok(None) };
        let before = counter(&file);
        if store.file(JOURNAL)?.is_none() {
            let bytes = store.read(name, DATABASE_BYTES_MAX)?;
            if store.file(JOURNAL)?.is_none() && counter(&file) == before {
                return Ok(bytes);
            }
        }
        std::thread::sleep(PAUSE);
    }
    Err(FilesError::Busy { path: store.path(name) })
}

/// `None` of what is too short for one, and no database.
fn counter(file: &File) -> Option<[u8; 4]> {
    let mut counter = [0; 4];
    file.read_exact_at(&mut counter, COUNTER).ok().map(|()| counter)
}

fn look_up(bytes: &[u8], id: &str) -> rusqlite::Result<Option<Told>> {
    let mut database = Connection::open_in_memory()?;
    // A malformed one may have SQLite read a little past its end (sqlite.org/c3ref/deserialize.html).
    let beyond = [0_u8; 4_096];
    let whole = std::io::Read::chain(bytes, beyond.as_slice());
    let length = bytes.len().saturating_add(beyond.len());
    database.deserialize_read_exact(MAIN_DB, whole, length, true)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    let container: Option<Config> = noted(&database, "ContainerConfig", id)?;
    let Some(config) = container else { return Ok(None) };
    let pod = match &config.pod {
        Some(pod) if !pod.is_empty() => noted(&database, "PodConfig", pod)?,
        _ => None,
    };
    Ok(tell_of(config, pod, id))
}

fn tell_of(config: Config, pod: Option<PodConfig>, id: &str) -> Option<Told> {
    if !is_of(config.id.as_deref(), id) {
        return None;
    }
    let is_its = |pod: &PodConfig| is_of(pod.id.as_deref(), config.pod.as_deref().unwrap_or(""));
    let pod = pod.filter(is_its).unwrap_or_default();
    let told = Told { name: config.name, image: config.image, pod: pod.name, ..Told::default() };
    let told = told.with_labels(config.labels.unwrap_or_default());
    Some(told.in_pod(pod.labels.unwrap_or_default()))
}

/// The same from the old database (podman 4.3, `libpod/boltdb_state_internal.go`; looked at with Podman 4.3.1).
fn look_up_old(look: &mut Look<'_>, question: &Question) -> Result<Option<Told>, Fault> {
    let container: Option<Config> = noted_of_old(look, "ctr", question.id())?;
    let Some(config) = container else { return Ok(None) };
    let pod = match &config.pod {
        Some(pod) if !pod.is_empty() => noted_of_old(look, "pod", pod)?,
        _ => None,
    };
    Ok(tell_of(config, pod, question.id()))
}

fn noted_of_old<T: DeserializeOwned>(
    look: &mut Look<'_>,
    bucket: &str,
    id: &str,
) -> Result<Option<T>, Fault> {
    let found = look.below(&[bucket.as_bytes(), id.as_bytes(), b"config"])?;
    let Some(Value::Bytes(json)) = found else { return Ok(None) };
    serde_json::from_slice(&json).map(Some).map_err(|_| Fault::Form)
}

/// What a table has under an id. `None` where there is no such table.
fn noted<T: DeserializeOwned>(
    database: &Connection,
    table: &str,
    id: &str,
) -> rusqlite::Result<Option<T>> {
    // A view or a virtual table under this name could compute for ever.
    let sql = "SELECT 1 FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type = 'table' \
               AND rootpage > 0";
    if database.query_row(sql, params![table], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    let sql = format!("SELECT JSON FROM {table} WHERE ID = ?1");
    let read = |row: &Row<'_>| row.get_ref(0)?.as_bytes().map(<[u8]>::to_vec).map_err(Into::into);
    let json: Option<Vec<u8>> = database.query_row(&sql, params![id], read).optional()?;
    let noted = json.map(|json| serde_json::from_slice(&json)).transpose();
    noted.map_err(|_| rusqlite::Error::InvalidQuery)
}

fn of_lists(store: &Folder, question: &Question) -> Result<Option<Told>, FilesError> {
    first(&DRIVERS, |driver| {
        first(&LISTS, |list| of_list(store, &format!("{driver}-containers/{list}"), question))
    })
}

fn of_list(store: &Folder, below: &str, question: &Question) -> Result<Option<Told>, FilesError> {
    let Some(bytes) = store.read(below, LIST_BYTES_MAX)? else { return Ok(None) };
    let listed: Vec<Listed> =
        serde_json::from_slice(&bytes).map_err(|_| FilesError::Form { path: store.path(below) })?;
    let Some(found) = listed.into_iter().find(|one| one.id == question.id()) else {
        return Ok(None);
    };
    let metadata = found.metadata.and_then(|json| serde_json::from_str::<Metadata>(&json).ok());
    Ok(Some(Told {
        name: found.names.and_then(|names| names.into_iter().next()),
        image: metadata.and_then(|metadata| metadata.image),
        ..Told::default()
    }))
}
