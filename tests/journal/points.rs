//! kill -9 at every single change that is made to the disk: no list of places that somebody thought of.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gpu_ledger::journal::store::{StateDir, Store, check};

use crate::calls::{Change, Verdict};
use crate::child::{self, job};
use crate::kill::assert_nothing_lost;
use crate::made;

/// What is counted: each kind of change on each file.
type Seen = BTreeMap<(&'static str, String), u64>;

/// Errors that a disk gives (`include/uapi/asm-generic/errno-base.h`).
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// What is there when a process begins.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// No directory.
    Nothing,
    /// What a writer that was killed left: entries in the log alone.
    Killed,
    /// What a writer that ended in order left.
    Closed,
}

impl Before {
    /// Makes it; the last row that was acknowledged.
    fn make(self, dir: &StateDir) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Killed => {
                let mut writer = child::start("write", dir.path(), &[]);
                let mut acknowledged = 0;
                while acknowledged < 30 {
                    let line = writer.line().expect("it writes until it is killed");
                    if let Some(pid) = line.strip_prefix("ack ") {
                        acknowledged = pid.parse().unwrap();
                    }
                }
                writer.process.kill().unwrap();
                let rest = writer.rest();
                let acks = rest.iter().filter_map(|line| line.strip_prefix("ack "));
                acks.map(|pid| pid.parse().unwrap()).max().unwrap_or(acknowledged)
            }
            Self::Closed => last_ack(&child::start("four", dir.path(), &[]).rest(), 0),
        }
    }
}

fn last_ack(said: &[String], before: u32) -> u32 {
    let acks = said.iter().filter_map(|line| line.strip_prefix("ack "));
    acks.map(|pid| pid.parse().unwrap()).max().unwrap_or(0).max(before)
}

fn copy(from: &Path, to: &Path) {
    if !from.exists() {
        return;
    }
    std::fs::DirBuilder::new().create(to).unwrap();
    std::fs::set_permissions(to, std::fs::metadata(from).unwrap().permissions()).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Runs `run` for 1, 2, 3, … on as many threads as there are processors, until one says that it was the last.
pub(crate) fn each(run: impl Fn(u64) -> bool + Sync) -> u64 {
    let (next, ends) = (AtomicU64::new(1), AtomicBool::new(false));
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    if run(next.fetch_add(1, Ordering::Relaxed)) {
                        ends.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    next.into_inner()
}

/// Everything that was acknowledged is there and whole, and it is written on.
pub(crate) fn assert_goes_on(dir: &StateDir, acknowledged: u32, how: &str) {
    let (mut store, _) = Store::open(dir).unwrap_or_else(|error| panic!("{how}: {error}"));
    let booked: u64 = store.end().head.booked.values().map(|balance| balance.count).sum();
    let next = u32::try_from(booked).unwrap() + 1;
    store.append(vec![job(next).draft(None)]).unwrap_or_else(|error| panic!("{how}: {error}"));
    drop(store);
    assert_eq!(assert_nothing_lost(dir, acknowledged, how), next);
    let report = check(dir).unwrap();
    assert!(report.is_whole(), "{how}: {:?}", report.faults);
}

/// A role whose nth change meets this verdict, for every n.
fn at_every_change(role: &str, before: Before, verdict: Verdict) -> Seen {
    let template = made::folder();
    let from = template.path().join("state");
    let acknowledged = before.make(&StateDir::at(&from));
    let seen = Mutex::new(Seen::new());
    each(|number| {
        let folder = made::folder();
        let dir = StateDir::at(folder.path().join("state"));
        copy(&from, dir.path());
        let met = Arc::new(Mutex::new(None));
        let (mut count, told) = (0, Arc::clone(&met));
        let judge = move |change: Change| {
            let is_said = matches!(change, Change::Said { .. });
            count += u64::from(!is_said);
            if is_said || count != number {
                return Verdict::Passes;
            }
            *told.lock().unwrap() = Some(change);
            verdict
        };
        let (writer, judging) = child::start_judged(role, dir.path(), judge);
        let (said, status) = writer.ended();
        judging.join().unwrap();
        let Some(change) = met.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            assert!(status.success(), "{role} {before:?}: {said:?}");
            return true;
        };
        let name = change.path().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let how = format!("{role} {before:?}: {verdict:?} at {number}, {} {name}", change.kind());
        if verdict == Verdict::Kills {
            assert_eq!(status.signal(), Some(9), "{how}: {status}");
        }
        assert_goes_on(&dir, last_ack(&said, acknowledged), &how);
        *seen.lock().unwrap().entry((change.kind(), name)).or_insert(0) += 1;
        false
    });
    seen.into_inner().unwrap()
}

/// That these were among the changes: a run that makes few of them proves little.
fn assert_met(seen: &Seen, wanted: &[(&'static str, &str)]) {
    for (kind, name) in wanted {
        let key = (*kind, (*name).to_owned());
        assert!(seen.contains_key(&key), "no {kind} of {name}: {seen:?}");
    }
}

#[test]
fn killed_at_any_change_a_writer_makes_it_loses_and_doubles_nothing() {
    let (mut total, mut all) = (0, Seen::new());
    for before in [Before::Nothing, Before::Killed, Before::Closed] {
        let seen = at_every_change("all", before, Verdict::Kills);
        total += seen.values().sum::<u64>();
        for (what, count) in seen {
            *all.entry(what).or_insert(0) += count;
        }
    }
    assert_met(
        &all,
        &[
            ("folder", "state"),
            ("sync", "state"),
            ("create", "ledger.db.new"),
            ("rename", "ledger.db.new"),
            ("rename", "argv.key.new"),
            ("write", "ledger.db-wal"),
            ("sync", "ledger.db-wal"),
            ("cut", "ledger.db-wal"),
            ("remove", "ledger.db-wal"),
            ("write", "ledger.db"),
            ("sync", "ledger.db"),
            ("write", "ledger.head"),
            ("allocate", "ledger.ballast"),
            ("remove", "ledger.ballast"),
            ("write", "ledger.lock"),
        ],
    );
    println!("killed at {total} changes: {all:?}");
    assert!(total > 300, "{total}");
}

#[test]
fn killed_at_any_change_a_reader_makes_it_leaves_the_journal_as_it_was() {
    for before in [Before::Killed, Before::Closed] {
        let seen = at_every_change("read", before, Verdict::Kills);
        assert!(seen.keys().all(|(_, name)| name != "ledger.db"), "{seen:?}");
    }
}

#[test]
fn whatever_change_the_disk_refuses_nothing_that_was_acknowledged_is_lost() {
    for (error, before) in [(EIO, Before::Nothing), (ENOSPC, Before::Killed)] {
        let seen = at_every_change("four", before, Verdict::Fails(error));
        assert!(seen.values().sum::<u64>() > 40, "{seen:?}");
    }
}
