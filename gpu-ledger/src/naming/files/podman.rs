//! Podman: libpod's database, else the lists of containers-storage, which know name and image.
//!
//! The database is read as bytes and opened in memory: so SQLite opens no file that a user put there, makes none
//! beside it, and takes no lock that Podman would wait for.

use std::collections::BTreeMap;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, MAIN_DB, OptionalExtension as _, params};
use serde::Deserialize;

use super::super::answer::Told;
use super::super::asked::Question;
use super::reading::Folder;
use super::{Files, FilesError, Home, first, wal};

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
/// Bytes of the database: some 30 KiB a container.
const DATABASE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of its write-ahead log, which is written back at 4 MiB unless somebody reads all the time.
const LOG_BYTES_MAX: u64 = 32 << 20;
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

/// A container's configuration (podman 4.8, `libpod/container_config.go`).
#[derive(Deserialize)]
struct Config {
    name: Option<String>,
    #[serde(rename = "rootfsImageName")]
    image: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    pod: Option<String>,
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
    let stores = files.configured_folders(home, configured_store, [STORE, RUN], STORE_OF_USER)?;
    let stores: Vec<&Folder> = stores.iter().collect();
    // The lists have no labels, so every database goes before them.
    match first(&stores, |store| of_database(store, question)) {
        Ok(Some(told)) => Ok(Some(told)),
        nothing => match first(&stores, |store| of_lists(store, question))? {
            None => nothing,
            told => Ok(told),
        },
    }
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
    let Some(bytes) = store.read(name, DATABASE_BYTES_MAX)? else { return Ok(None) };
    let log = store.read(log, LOG_BYTES_MAX)?.unwrap_or_default();
    let form = || FilesError::Form { path: store.path(name) };
    let bytes = wal::written_back(bytes, &log, DATABASE_BYTES_MAX).ok_or_else(form)?;
    look_up(&bytes, question.id()).map_err(|_| form())
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
    // A view or a virtual table under this name could compute for ever.
    let is_table = |name: &str| {
        let sql = "SELECT 1 FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type = 'table' \
                   AND rootpage > 0";
        database.query_row(sql, params![name], |_| Ok(())).optional().map(|row| row.is_some())
    };
    if !is_table("ContainerConfig")? {
        return Ok(None);
    }
    let sql = "SELECT JSON FROM ContainerConfig WHERE ID = ?1";
    let json = database.query_row(sql, params![id], |row| row.get::<_, String>(0)).optional()?;
    let Some(json) = json else { return Ok(None) };
    let config: Config = serde_json::from_str(&json).map_err(|_| rusqlite::Error::InvalidQuery)?;
    let pod = match config.pod {
        Some(pod) if !pod.is_empty() && is_table("PodConfig")? => {
            let sql = "SELECT Name FROM PodConfig WHERE ID = ?1";
            database.query_row(sql, params![pod], |row| row.get(0)).optional()?
        }
        _ => None,
    };
    let told = Told { name: config.name, image: config.image, pod, ..Told::default() };
    Ok(Some(told.with_labels(config.labels.unwrap_or_default())))
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
