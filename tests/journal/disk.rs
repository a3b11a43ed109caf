//! A disk that fails, is full, or cannot be written.

use std::ffi::OsStr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use gpu_ledger::journal::Figures;
use gpu_ledger::journal::store::{Reader, StateDir, Store, StoreError, Warning, check};
use gpu_ledger::unknown::GapCause;

use crate::child::{self, job};
use crate::kill::{assert_nothing_lost, settled};
use crate::made::{self, EPOCH_MS};
use crate::skip::skip;

/// The library that makes calls fail, built once.
fn faults() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("fault.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/journal/fault.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .args([source, "-ldl"])
            .status();
        assert!(built.expect("a C compiler").success());
        (folder, library)
    });
    library
}

/// Runs forty batches with calls that fail; what the child said.
fn faulty(dir: &StateDir, variables: &[(&str, String)]) -> Vec<String> {
    let mut all: Vec<(&str, &OsStr)> = vec![("LD_PRELOAD", faults().as_os_str())];
    all.extend(variables.iter().map(|(name, value)| (*name, OsStr::new(value.as_str()))));
    child::start("forty", dir.path(), &all).rest()
}

fn last_ack(said: &[String]) -> u32 {
    let acks = said.iter().filter_map(|line| line.strip_prefix("ack "));
    acks.map(|pid| pid.parse().unwrap()).max().unwrap_or(0)
}

#[test]
fn after_a_sync_that_failed_nothing_is_acknowledged_until_it_is_opened_again() {
    let mut failed = 0;
    for call in 1..=50 {
        let folder = made::folder();
        let dir = StateDir::at(folder.path().join("state"));
        let said = faulty(&dir, &[("FAULT_SYNC", call.to_string())]);
        if let Some(place) = said.iter().position(|line| line.starts_with("error")) {
            failed += 1;
            assert_eq!(place + 1, said.len(), "{call}: it went on: {said:?}");
        }
        if !dir.journal().exists() {
            continue;
        }
        // Opened again, it goes on where it was.
        let acknowledged = last_ack(&said);
        drop(Store::open(&dir).unwrap());
        assert_nothing_lost(&dir, acknowledged, &format!("sync {call}"));
        let again = child::start("four", dir.path(), &[]).rest();
        assert!(last_ack(&again) > acknowledged, "{call}: {again:?}");
        if call % 5 == 0 {
            assert_nothing_lost(&dir, last_ack(&again), &format!("sync {call}, again"));
            let report = check(&dir).unwrap();
            assert!(report.is_whole(), "{call}: {:?}", report.faults);
        }
    }
    assert!(failed >= 35, "only {failed} of 50 syncs were reached");
}

#[test]
fn a_write_that_finds_no_room_is_rolled_back_tried_again_and_told() {
    let mut full = 0;
    for write in (1..=300).step_by(20) {
        let folder = made::folder();
        let dir = StateDir::at(folder.path().join("state"));
        drop(Store::open(&dir).unwrap());
        let variables = [("FAULT_WRITE", write.to_string()), ("FAULT_WRITES", "5".to_owned())];
        let said = faulty(&dir, &variables);
        let rows = (1..=40).map(|number| 1 + (number - 1) % 20).sum::<u32>();
        let is_full = said.iter().any(|line| line == "full");
        full += u32::from(is_full);
        let refused = said.iter().any(|line| line.starts_with("error"));
        assert!(refused || last_ack(&said) == rows, "{write}: {said:?}");
        assert_nothing_lost(&dir, last_ack(&said), &format!("write {write}"));
        let report = check(&dir).unwrap();
        assert!(report.is_whole(), "{write}: {:?}", report.faults);
        let mut gaps = 0;
        let take = |entry: &gpu_ledger::journal::Entry| {
            let is_gap =
                matches!(&entry.figures, Figures::Gap(gap) if gap.cause == GapCause::DiskFull);
            gaps += u32::from(is_gap);
        };
        Reader::open(&dir).unwrap().period(0, u64::MAX, take).unwrap();
        assert!(refused || (gaps > 0) == is_full, "{write}: {gaps} gaps, {said:?}");
    }
    assert!(full > 8, "only {full} of 15 found no room");
}

/// A small file system of its own, gone with the value.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(test: &str, options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(folder.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(folder)),
            _ => {
                skip(test, "no file system can be mounted here");
                None
            }
        }
    }

    fn make_read_only(&self) {
        let done = Command::new("mount").args(["-o", "remount,ro"]).arg(self.0.path()).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a failing test may have files open in it.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn on_a_full_disk_that_it_was_full_is_journaled_and_it_goes_on_when_there_is_room() {
    let test = "on_a_full_disk_that_it_was_full_is_journaled_and_it_goes_on_when_there_is_room";
    let Some(mount) = Mount::new(test, "size=40m,mode=700") else { return };
    let dir = StateDir::at(mount.0.path().join("state"));
    let (mut store, _) = Store::open(&dir).unwrap();
    assert_eq!(store.warnings(), [Warning::Volatile { kind: "tmpfs" }]);
    let filler = std::fs::File::create(mount.0.path().join("filler")).unwrap();
    let (mut offset, block) = (0, [7; 4_096]);
    while filler.write_all_at(&block, offset).is_ok() {
        offset += 4_096;
    }
    let mut rows = 0;
    let error = loop {
        let batch = (1..=20).map(|n| job(rows + n).draft(None)).collect();
        match store.append(batch) {
            Ok(_) => rows += 20,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    let end = store.end().clone();
    // Full, it can still be read, and what was acknowledged is there.
    assert_eq!(settled(&dir).len() as u32, rows);
    for _ in 0..3 {
        let again = store.append(vec![job(rows + 1).draft(None)]);
        if again.is_ok() {
            rows += 1;
        }
    }
    let reserve = mount.0.path().join("state/ledger.ballast");
    assert!(reserve.exists());
    let gap = made::gap(GapCause::DiskFull, EPOCH_MS, EPOCH_MS + 60_000);
    store.append_from_reserve(vec![gap]).expect("the reserve has room for it");
    assert!(!reserve.exists(), "the reserve is not taken back at once");
    // A child that another test is about to start may still have the file open: closed and gone it may have its room.
    filler.set_len(0).unwrap();
    store.append(vec![job(rows + 1).draft(None)]).unwrap();
    assert!(reserve.exists(), "the reserve is there again");
    assert!(store.end().head.seq > end.head.seq);
    drop(store);
    assert!(check(&dir).unwrap().is_whole());
    assert_nothing_lost(&dir, rows + 1, "full");
}

#[test]
fn on_a_read_only_file_system_it_can_be_read_and_says_how() {
    let test = "on_a_read_only_file_system_it_can_be_read_and_says_how";
    let Some(mount) = Mount::new(test, "size=40m,mode=700") else { return };
    let closed = StateDir::at(mount.0.path().join("closed"));
    let (mut store, _) = Store::open(&closed).unwrap();
    store.append((1..=9).map(|pid| job(pid).draft(None)).collect()).unwrap();
    store.close().unwrap();
    // As a writer that was killed leaves it: the last entries in the log alone.
    let killed = StateDir::at(mount.0.path().join("killed"));
    let (mut store, _) = Store::open(&killed).unwrap();
    store.append((1..=9).map(|pid| job(pid).draft(None)).collect()).unwrap();
    let logged = StateDir::at(mount.0.path().join("logged"));
    let without = StateDir::at(mount.0.path().join("without"));
    for copy in [&logged, &without] {
        std::fs::create_dir(copy.path()).unwrap();
        for file in std::fs::read_dir(killed.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    std::fs::remove_file(without.path().join("ledger.db-shm")).unwrap();
    drop(store);
    mount.make_read_only();

    let reader = Reader::open(&closed).unwrap();
    assert!(reader.is_immutable());
    assert_eq!(settled(&closed).len(), 9);
    assert!(check(&closed).unwrap().is_whole());
    // Log and shared memory are there: all of it can be read.
    assert_eq!(settled(&logged).len(), 9);
    assert!(!Reader::open(&logged).unwrap().is_immutable());
    // A log that cannot be read: never the entries without those in it.
    match Reader::open(&without).and_then(|reader| reader.end()) {
        Ok(end) => assert_eq!(end.head.seq, 9),
        Err(error) => assert!(error.to_string().contains("-wal"), "{error}"),
    }
    assert!(Store::open(&closed).is_err());
}
