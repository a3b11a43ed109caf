//! One writer, whoever else tries; and files that are nobody else's.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use gpu_ledger::journal::store::{Reader, StateDir, Store, StoreError, Warning};

use crate::child;
use crate::skip::skip;

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn of_twenty_that_open_at_once_one_writes_and_the_others_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut openers: Vec<_> = (0..20).map(|_| child::start("hold", &path, &[])).collect();
    let said: Vec<String> =
        openers.iter_mut().map(|opener| opener.line().expect("it says what it got")).collect();
    let winners: Vec<usize> = (0..20).filter(|place| said[*place].starts_with("open")).collect();
    let [winner] = winners[..] else { panic!("{said:?}") };
    let pid = openers[winner].process.id().to_string();
    // Whoever came before it had said its name in the lock file could not read it.
    let losers = said.iter().enumerate().filter(|(place, _)| *place != winner);
    for (_, line) in losers {
        assert!(*line == format!("held {pid}") || line == "held 0", "{line}, {pid} holds it");
    }
    let error = Store::open(&StateDir::at(&path)).unwrap_err();
    assert!(matches!(error, StoreError::Held { holder: Some(_), .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {pid}")), "{error}");
    // Killed, it leaves a lock file that holds nobody up.
    openers[winner].process.kill().unwrap();
    openers[winner].process.wait().unwrap();
    assert!(path.join("ledger.lock").exists());
    drop(Store::open(&StateDir::at(&path)).unwrap());
    for mut opener in openers {
        opener.process.wait().unwrap();
    }
}

#[test]
fn every_file_is_the_owners_alone_under_any_umask() {
    for umask in ["000", "077", "777"] {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        // A child, since the umask is the whole process's.
        let me = std::env::current_exe().unwrap();
        let made = Command::new("sh")
            .arg("-c")
            .arg(format!("umask {umask}; exec \"$0\" --exact child::works --nocapture"))
            .arg(me)
            .env("GPU_LEDGER_TEST_ROLE", "forty")
            .env("GPU_LEDGER_TEST_DIRECTORY", &state)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&made.stdout).into_owned();
        assert!(said.contains("ack"), "{umask}: {said}");
        assert_eq!(mode(&state), 0o700, "{umask}");
        let names: Vec<_> =
            std::fs::read_dir(&state).unwrap().map(|file| file.unwrap().path()).collect();
        for name in ["ledger.db", "ledger.head", "ledger.lock", "ledger.ballast", "argv.key"] {
            assert!(names.iter().any(|path| path.ends_with(name)), "{name}: {names:?}");
        }
        for path in names {
            assert_eq!(mode(&path), 0o600, "{umask} {}", path.display());
        }
        assert_eq!(std::fs::metadata(state.join("ledger.ballast")).unwrap().len(), 8 << 20);
    }
}

#[test]
fn links_secrets_that_others_read_and_directories_that_others_write_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let dir = StateDir::at(&state);
    drop(Store::open(&dir).unwrap());
    let strange = |what: &str| match Store::open(&dir) {
        Err(StoreError::Strange { path, what: said }) => {
            assert!(said.contains(what), "{}: {said}", path.display());
        }
        other => panic!("{what}: {other:?}"),
    };
    for name in ["ledger.db", "ledger.lock", "ledger.head", "argv.key", "ledger.ballast"] {
        let (path, aside) = (state.join(name), folder.path().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        if name == "ledger.ballast" {
            // It holds nothing; that there is none is told.
            let (store, _) = Store::open(&dir).unwrap();
            let told = store.warnings().iter().any(|one| matches!(one, Warning::NoBallast { .. }));
            assert!(told, "{:?}", store.warnings());
        } else {
            strange("symbolic link");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::rename(&aside, &path).unwrap();
        if name == "ledger.db" {
            assert!(matches!(Reader::open(&dir).map(drop), Ok(())));
            std::fs::hard_link(&path, &aside).unwrap();
            strange("2 names");
            std::fs::remove_file(&aside).unwrap();
        }
    }
    chmod(&state.join("argv.key"), 0o640);
    strange("others can read");
    chmod(&state.join("argv.key"), 0o600);
    for (path, bad, good) in [(&*state, 0o770, 0o700), (folder.path(), 0o777, 0o700)] {
        chmod(path, bad);
        let error = Store::open(&dir).unwrap_err();
        assert!(matches!(error, StoreError::Writable { .. }), "{error}");
        chmod(path, good);
    }
    // A sticky directory is what /tmp is.
    chmod(folder.path(), 0o1777);
    drop(Store::open(&dir).unwrap());
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    if std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).is_err() {
        return skip("a_directory_of_another_user_is_refused", "only root can give files away");
    }
    let error = Store::open(&StateDir::at(folder.path())).unwrap_err();
    assert!(error.to_string().contains("belongs to user 65534"), "{error}");
    std::os::unix::fs::chown(folder.path(), Some(0), Some(0)).unwrap();
}

#[test]
fn a_directory_without_a_journal_is_told_by_name_and_nothing_is_made_in_it() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("absent")] {
        let error = Reader::open(&StateDir::at(&path)).unwrap_err();
        assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
