//! An archive in the making: killed at every change, and a power failure at every change. Afterwards there is
//! the journal as it was, or both parts of it.
#![expect(
    clippy::disallowed_methods,
    reason = "the test starts itself once more, and is told by the environment what to do"
)]

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use nvsim::random::Random;

use super::archiving::journal;
use super::calls::{self, Change, Verdict};
use super::made;
use super::reboot::{Disk, Tree};
use super::{Folder, read};
use crate::journal::entry::Entry;
use crate::journal::store::{Reader, StateDir, Store, StoreError, archive, check, check_file};
use crate::unit::WallUs;

const DIRECTORY: &str = "GPU_LEDGER_TEST_ARCHIVE_IN";
const BEFORE: &str = "GPU_LEDGER_TEST_ARCHIVE_BEFORE";

/// The other process.
#[test]
fn archives() {
    let (Some(directory), Ok(before)) = (std::env::var_os(DIRECTORY), std::env::var(BEFORE)) else {
        // Only started by other tests.
        return;
    };
    archive(&StateDir::at(directory), WallUs(before.parse().unwrap())).unwrap();
}

/// Archives in a process of its own; whether it was killed.
fn archive_judged(
    path: &Path,
    cut: WallUs,
    judge: impl FnMut(Change) -> Verdict + Send + 'static,
) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "journal::store::tests::killed::archives", "--test-threads=1"]);
    command.env(DIRECTORY, path).env(BEFORE, cut.0.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    calls::ask(&mut command);
    let mut child = command.spawn().unwrap();
    let judging = calls::judge(&child, path, judge);
    let status = child.wait().unwrap();
    judging.join().unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status}");
    !status.success()
}

/// The entries of both parts, each proven.
fn together(path: &Path) -> Vec<Entry> {
    let dir = StateDir::at(path);
    let reader = Reader::open(&dir).unwrap();
    assert!(check(&dir).unwrap().is_whole());
    let mut entries = Vec::new();
    if reader.base() > 0 {
        let names = std::fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
        let is_archive = |file: &std::path::PathBuf| file.to_string_lossy().contains("/archive-");
        let [archive] = &names.filter(is_archive).collect::<Vec<_>>()[..] else {
            panic!("the other part is missing")
        };
        assert!(check_file(archive).unwrap().is_whole());
        entries = read(&Reader::open_file(archive).unwrap(), 0, u64::MAX).unwrap();
    }
    entries.extend(read(&reader, 0, u64::MAX).unwrap());
    entries
}

fn assert_nothing_lost(path: &Path, cut: WallUs, entries: &[Entry], how: &str) {
    let dir = StateDir::at(path);
    drop(Store::open(&dir).unwrap_or_else(|error| panic!("{how}: {error}")));
    assert!(together(path) == entries, "{how}");
    // Whoever asks once more gets what is left to do done.
    match archive(&dir, cut) {
        Ok(_) | Err(StoreError::NothingToArchive { .. }) => {}
        Err(error) => panic!("{how}: {error}"),
    }
    assert!(together(path) == entries, "{how}");
    assert_eq!(Reader::open(&dir).unwrap().base(), 64, "{how}");
    for leftover in ["ledger.db.next", "archive.new"] {
        assert!(!path.join(leftover).exists(), "{how}: {leftover}");
    }
}

/// Of so many writes one is a place to stop: there are many alike.
const WRITES_APART: usize = 24;

/// Every change of an archive in the making, and which of them to stop at: all but most of the writes.
fn recorded(path: &Path, cut: WallUs) -> (Vec<Change>, Vec<usize>) {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&changes);
    let was_killed = archive_judged(path, cut, move |change| {
        if change.path().is_some() {
            told.lock().unwrap().push(change);
        }
        Verdict::Passes
    });
    assert!(!was_killed);
    let changes = std::mem::take(&mut *changes.lock().unwrap());
    let is_place = |(number, change): (usize, &Change)| {
        let alike = matches!(change, Change::Write { .. }) && number % WRITES_APART > 0;
        (!alike).then_some(number)
    };
    let places = changes.iter().enumerate().filter_map(is_place).collect();
    (changes, places)
}

#[test]
fn killed_at_any_change_there_is_the_whole_journal_or_both_parts() {
    let (folder, entries, cut) = journal();
    let (changes, places) = recorded(folder.copy().path(), cut);
    assert!(places.len() > 40, "only {} of {} changes", places.len(), changes.len());
    for place in places {
        let copy = folder.copy();
        let mut count = 0;
        let was_killed = archive_judged(copy.path(), cut, move |change| {
            count += usize::from(change.path().is_some());
            if count > place { Verdict::Kills } else { Verdict::Passes }
        });
        let how = format!("killed at {place}, {}", changes[place].kind());
        assert!(was_killed, "{how}");
        assert_nothing_lost(copy.path(), cut, &entries, &how);
    }
}

#[test]
fn after_a_power_failure_there_is_the_whole_journal_or_both_parts() {
    let (folder, entries, cut) = journal();
    let copy = folder.copy();
    let path = std::fs::canonicalize(copy.path()).unwrap();
    let before = Tree::of(&path);
    let (changes, places) = recorded(&path, cut);
    let mut random = Random::seeded(0xa1c4);
    let mut disk = Disk::with(&before);
    for (number, change) in changes.iter().enumerate() {
        disk.change(change);
        if !places.contains(&number) {
            continue;
        }
        let lost = Folder(made::folder());
        disk.after_power_loss(&mut random).make(&path, lost.path());
        let how = format!("after {number}, {} of {:?}", change.kind(), change.path());
        assert_nothing_lost(lost.path(), cut, &entries, &how);
    }
}
