//! Podman: its database, and the lists of its storage.

use rusqlite::Connection;

use super::made_bolt::{self, Made, bytes, keys};
use super::*;

/// The tables of Podman 4.8 (`libpod/sqlite_state_internal.go`) that are read here, in the mode in which SQLite has a
/// log, and with JSON in bytes, as Podman 5.4.2 wrote it.
pub(super) fn made(path: &Path) -> Connection {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let database = Connection::open(path).unwrap();
    database
        .execute_batch(
            r#"PRAGMA journal_mode = WAL;
             CREATE TABLE PodConfig(Id TEXT PRIMARY KEY NOT NULL, Name TEXT UNIQUE NOT NULL, JSON TEXT NOT NULL);
             CREATE TABLE ContainerConfig(Id TEXT PRIMARY KEY NOT NULL, Name TEXT UNIQUE NOT NULL, PodID TEXT,
                 Json TEXT NOT NULL);
             INSERT INTO PodConfig VALUES ('pod1', 'train', CAST('{"name":"train","labels":{"team":"red"}}' AS BLOB));"#,
        )
        .unwrap();
    database
}

pub(super) fn add(database: &Connection, id: &str, name: &str, pod: &str) {
    let env = "x".repeat(9_000);
    let json = format!(
        r#"{{"spec":{{"process":{{"env":["A={env}"]}}}},"id":"{id}","name":"{name}","pod":"{pod}",
        "rootfsImageName":"localhost/team/demo:2.0","labels":{{"com.docker.compose.project":"lab"}}}}"#
    );
    let sql = "INSERT INTO ContainerConfig VALUES (?1, ?2, NULL, ?3)";
    database.execute(sql, (id, name, json.into_bytes())).unwrap();
}

const DATABASE: &str = "/var/lib/containers/storage/db.sql";

#[test]
fn podman_tells_from_its_database_also_what_is_in_its_log_alone() {
    let tree = Tree::new();
    let database = made(&tree.path(DATABASE));
    add(&database, ID, "pod1", "pod1");
    let image = "localhost/team/demo:2.0";
    let log = tree.path("/var/lib/containers/storage/db.sql-wal");
    // Somebody holds it open, and nothing was written back.
    assert!(std::fs::metadata(&log).unwrap().len() > 4_096);
    let names = tree.names(&format!("podman {ID}"));
    assert_eq!(words(&names), ["pod1", image, "lab", "-", "train", "-"]);
    assert_eq!((names.labels.len(), label(&names, "team")), (2, Some("red")));
    // Written back, and the log begun anew with other salts over what was there.
    for n in 0..200 {
        add(&database, &format!("{n:064}"), &format!("n{n}"), "");
    }
    database.execute_batch("PRAGMA wal_checkpoint(RESTART)").unwrap();
    add(&database, OTHER, "later", "");
    for (id, name) in [(ID, "pod1"), (OTHER, "later"), (&*format!("{:064}", 7), "n7")] {
        assert_eq!(words(&tree.names(&format!("podman {id}")))[0], name);
    }
    // What was not committed is not there.
    database.execute_batch("BEGIN").unwrap();
    add(&database, "open", "open", "");
    assert!(tree.asked("podman open").unwrap().is_none());
    database.execute_batch("ROLLBACK").unwrap();
    // Nobody has it open: there is no log.
    drop(database);
    assert!(!log.exists());
    assert_eq!(words(&tree.names(&format!("podman {OTHER}")))[0], "later");
    // Nothing was made, and nothing held.
    let left: Vec<_> = std::fs::read_dir(log.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn podman_is_found_where_its_storage_is_configured_to_be() {
    let conf = "# ours\n[storage]\ndriver = \"overlay\"\ngraphroot = \"/data/containers\"\n[storage.options]\n";
    let tree = Tree::new().write("/etc/containers/storage.conf", conf);
    add(&made(&tree.path("/data/containers/db.sql")), ID, "moved", "");
    assert_eq!(words(&tree.names(&format!("podman {ID}")))[0], "moved");
    // One that names no place changes none.
    let tree = Tree::new().write("/etc/containers/storage.conf", "[storage]\n");
    add(&made(&tree.path(DATABASE)), ID, "pod1", "");
    assert_eq!(words(&tree.names(&format!("podman {ID}")))[0], "pod1");
}

#[test]
fn podman_tells_name_and_image_from_its_lists_where_it_has_no_such_database() {
    let listed = |id: &str, name: &str| {
        format!(
            r#"[{{"id":"{id}","names":["{name}"],"image":"c548","layer":"00d1","metadata":
            "{{\"image-name\":\"localhost/team/demo:2.0\",\"image-id\":\"c548\",\"name\":\"{name}\",\"created-at\":1796053382}}",
            "created":"2026-11-30T15:43:02.706306457Z","flags":{{"MountLabel":"","ProcessLabel":""}}}}]"#
        )
    };
    let store = "/var/lib/containers/storage";
    let tree = Tree::new()
        .write(&format!("{store}/overlay-containers/containers.json"), &listed(ID, "pod1"))
        .write(
            &format!("{store}/overlay-containers/volatile-containers.json"),
            &listed(OTHER, "rm"),
        )
        .write("/run/containers/storage/vfs-containers/containers.json", &listed("in-vfs", "v"));
    for (id, name) in [(ID, "pod1"), (OTHER, "rm"), ("in-vfs", "v")] {
        let names = tree.names(&format!("podman {id}"));
        assert_eq!(words(&names), [name, "localhost/team/demo:2.0", "-", "-", "-", "-"]);
    }
    // A database that makes no sense keeps nobody from the lists, and is told where they have nothing.
    let tree = tree.write(DATABASE, "no database");
    assert_eq!(words(&tree.names(&format!("podman {ID}")))[0], "pod1");
    let error = tree.asked("podman nobody").unwrap_err().to_string();
    assert!(error.contains("db.sql does not have the form"), "{error}");
}

#[test]
fn what_only_looks_like_podmans_database_is_not_run() {
    for sql in [
        "CREATE VIEW ContainerConfig AS WITH RECURSIVE n(ID) AS (SELECT 1 UNION ALL SELECT ID + 1 FROM n)
             SELECT ID, 'x' AS JSON FROM n",
        "CREATE VIRTUAL TABLE ContainerConfig USING fts5(ID, JSON)",
        "CREATE TABLE other(a)",
    ] {
        let tree = Tree::new();
        let path = tree.path(DATABASE);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let database = Connection::open(path).unwrap();
        // This build of SQLite may lack the module.
        if database.execute_batch(sql).is_ok() {
            drop(database);
            assert!(tree.asked(&format!("podman {ID}")).unwrap().is_none(), "{sql}");
        }
    }
}

/// As Podman 4.3.1 (Debian 12) keeps it.
#[test]
fn podman_tells_from_its_old_database() {
    let config = format!(
        r#"{{"spec":{{"ociVersion":"1.0.2-dev","process":{{"user":{{"uid":0,"gid":0}},"args":["/bin/sleep"],
        "env":["TOKEN=secret"]}}}},"id":"{ID}","name":"h2","pod":"{OTHER}","rootfsImageName":"docker.io/team/demo:1.0",
        "labels":{{"app":"of-the-image","a":"b"}}}}"#
    );
    let pod = format!(r#"{{"id":"{OTHER}","name":"hp","labels":{{"team":"red","app":"train"}}}}"#);
    let one = |id: &str, config: &str| {
        let state = bytes(r#"{"state":3}"#);
        Made::Bucket(keys([(
            id,
            Made::Bucket(keys([("config", bytes(config)), ("state", state)])),
        )]))
    };
    let names = Made::Inline(keys([(ID, bytes("h2")), (OTHER, bytes("hp"))]));
    let database =
        keys([("ctr", one(ID, &config)), ("id-registry", names), ("pod", one(OTHER, &pod))]);
    let database = made_bolt::database(&database, 4_096, 8);
    let store = "/var/lib/containers/storage";
    let listed = format!(r#"[{{"id":"{ID}","names":["listed"]}}]"#);
    let tree = Tree::new().write(&format!("{store}/vfs-containers/containers.json"), &listed);
    let path = tree.path(&format!("{store}/libpod/bolt_state.db"));
    made_bolt::write(&path, &database);
    let found = tree.names(&format!("podman {ID}"));
    assert_eq!(words(&found), ["h2", "docker.io/team/demo:1.0", "-", "-", "hp", "-"]);
    assert_eq!((found.labels.len(), label(&found, "app")), (3, Some("train")));
    assert!(!format!("{found:?}").contains("secret"));
    // A pod is no container, and a damaged database hides no list.
    assert!(tree.asked(&format!("podman {OTHER}")).unwrap().is_none());
    std::fs::write(&path, &database[..8_192]).unwrap();
    assert_eq!(words(&tree.names(&format!("podman {ID}")))[0], "listed");
}

/// Podman 5 has no log: SQLite writes over the database, and what was there lies in a journal meanwhile.
#[test]
fn podman_is_not_read_while_it_writes() {
    let tree = Tree::new();
    let database = made(&tree.path(DATABASE));
    database.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    add(&database, ID, "pod1", "pod1");
    let store = "/var/lib/containers/storage";
    let listed = format!(r#"[{{"id":"{OTHER}","names":["listed"]}}]"#);
    let tree = tree.write(&format!("{store}/overlay-containers/containers.json"), &listed);
    // More than its cache holds is written before the transaction ends.
    database.execute_batch("PRAGMA cache_size = 2; BEGIN").unwrap();
    for n in 0..20 {
        add(&database, &format!("{n:064}"), &format!("n{n}"), "");
    }
    add(&database, OTHER, "later", "");
    assert!(tree.path(&format!("{store}/db.sql-journal")).exists());
    // A name without its labels would stand for minutes, so the lists are not asked either.
    for id in [ID, OTHER] {
        let error = tree.asked(&format!("podman {id}")).unwrap_err();
        assert!(matches!(error, FilesError::Busy { .. }), "{error}");
    }
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| tree.names(&format!("podman {OTHER}")));
        std::thread::sleep(std::time::Duration::from_millis(20));
        database.execute_batch("COMMIT").unwrap();
        let names = asked.join().unwrap();
        assert_eq!((words(&names)[0], names.labels.len()), ("later", 1));
    });
    assert_eq!(label(&tree.names(&format!("podman {ID}")), "team"), Some("red"));
}

/// Any byte changed, any length: no panic, and nothing but what is there or nothing.
#[test]
fn a_damaged_database_and_log_tell_nothing_wrong() {
    let tree = Tree::new();
    let path = tree.path(DATABASE);
    let database = made(&path);
    add(&database, ID, "pod1", "");
    let log = tree.path("/var/lib/containers/storage/db.sql-wal");
    let (whole, whole_log) = (std::fs::read(&path).unwrap(), std::fs::read(&log).unwrap());
    drop(database);
    let mut random = crate::random::Random::seeded(11);
    let mut told = 0;
    for _ in 0..300 {
        let (mut bytes, mut frames) = (whole.clone(), whole_log.clone());
        let target = if random.below(2) == 0 { &mut bytes } else { &mut frames };
        let at =
            usize::try_from(random.below(u64::try_from(target.len().max(1)).unwrap())).unwrap();
        match random.below(2) {
            0 => target.truncate(at),
            _ => {
                if let Some(byte) = target.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(&log, &frames).unwrap();
        if let Ok(Some(names)) = tree.asked(&format!("podman {ID}")) {
            assert_eq!(words(&names)[0], "pod1");
            told += 1;
        }
    }
    assert!(told > 0, "the damage is such that nothing is ever told");
}
