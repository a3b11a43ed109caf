//! The power fails: what was acknowledged is there afterwards, and the chain is whole.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use gpu_ledger::journal::store::StateDir;
use nvsim::random::Random;

use crate::calls::{Change, Verdict};
use crate::child;
use crate::made;
use crate::points::{assert_goes_on, each};
use crate::reboot::{Disk, Tree};

/// Machines whose power fails, again and again, wherever tests run.
const MACHINES: u64 = 6;
/// Asks for so many machines instead, in a long run.
const MACHINES_VARIABLE: &str = "GPU_LEDGER_TEST_MACHINES";
/// How often it fails on each; a writer starts on what the time before left.
const FAILURES: u64 = 5;
/// States of the disk that are looked at of each.
const STATES: u64 = 4;

/// Runs a role to its end; every change it made.
fn recorded(role: &str, dir: &StateDir) -> Vec<Change> {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&changes);
    let judge = move |change| {
        told.lock().unwrap().push(change);
        Verdict::Passes
    };
    let (writer, judging) = child::start_judged(role, dir.path(), judge);
    let (said, status) = writer.ended();
    judging.join().unwrap();
    assert!(status.success(), "{said:?}");
    let mut changes = changes.lock().unwrap();
    std::mem::take(&mut *changes)
}

/// The last row that was acknowledged in what was said.
fn acknowledged(said: &str) -> Option<u32> {
    // A line that is not whole was not heard.
    let whole = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let acks = whole.filter_map(|line| line.split_once("journal-child: ack "));
    acks.map(|(_, pid)| pid.trim().parse().unwrap()).max()
}

/// The state of the disk where the power failed after so many changes, and what was acknowledged by then.
fn lost_at(before: &Tree, changes: &[Change], random: &mut Random) -> (Tree, Option<u32>) {
    let mut disk = Disk::with(before);
    let mut said = String::new();
    for change in changes {
        disk.change(change);
        if let Change::Said { bytes } = change {
            said.push_str(std::str::from_utf8(bytes).unwrap());
        }
    }
    let mut tree = disk.after_power_loss(random);
    for (path, bytes) in &mut tree.files {
        // Written through a mapping, so without any call: whatever is left of it.
        if path.extension().is_some_and(|extension| extension == "db-shm") && random.below(2) == 0 {
            *bytes = (0..1 << 15).map(|_| random.below(256) as u8).collect();
        }
    }
    (tree, acknowledged(&said))
}

/// Builds what the disk has, and goes on from it.
fn assert_survives(tree: &Tree, from: &Path, acknowledged: u32, how: &str) {
    let folder = made::folder();
    let root = std::fs::canonicalize(folder.path()).unwrap();
    tree.make(from, &root);
    assert_goes_on(&StateDir::at(root.join("state")), acknowledged, how);
}

/// One machine; how many rows it had in the end.
fn machine(seed: u64, losses: &AtomicU64) -> u32 {
    let mut random = Random::seeded(seed);
    let mut left = Tree::default();
    let mut left_below = Path::new("/").to_owned();
    let mut rows = 0;
    for failure in 0..FAILURES {
        let folder = made::folder();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        left.make(&left_below, &root);
        let before = Tree::of(&root);
        let role = ["all", "long", "four"][random.below(3) as usize];
        let changes = recorded(role, &StateDir::at(root.join("state")));
        for state in 0..STATES {
            // Every other time soon after it began, where names are made.
            let most = if state % 2 == 1 { changes.len() } else { changes.len().min(80) };
            let lost = random.below(most as u64 + 1) as usize;
            let (tree, acks) = lost_at(&before, &changes[..lost], &mut random);
            let acknowledged = acks.unwrap_or(rows);
            let how = format!("machine {seed}, failure {failure}: {role}, after {lost} changes");
            assert_survives(&tree, &root, acknowledged, &how);
            losses.fetch_add(1, Ordering::Relaxed);
            if state + 1 == STATES {
                (left, left_below, rows) = (tree, root.clone(), acknowledged);
            }
        }
    }
    rows
}

#[test]
fn after_the_power_failed_at_any_moment_every_acknowledged_row_is_there() {
    let losses = AtomicU64::new(0);
    let rows = AtomicU64::new(0);
    let machines =
        std::env::var(MACHINES_VARIABLE).map_or(MACHINES, |count| count.parse().unwrap());
    each(|seed| {
        if seed > machines {
            return true;
        }
        rows.fetch_add(machine(seed, &losses).into(), Ordering::Relaxed);
        false
    });
    let (losses, rows) = (losses.into_inner(), rows.into_inner());
    println!("the power failed {losses} times; {rows} rows");
    assert_eq!(losses, machines * FAILURES * STATES);
    assert!(rows > 100, "only {rows} rows were ever acknowledged");
}

/// That the model loses what was not synced, and nothing else: otherwise it proves nothing.
#[test]
fn the_disk_of_these_tests_forgets_what_was_not_synced_and_only_that() {
    let path = |name: &str| Path::new("/root").join(name);
    let write = |name: &str, byte: u8| Change::Write {
        path: path(name),
        offset: 0,
        bytes: vec![byte; 1_024],
    };
    let sync = |name: &str| Change::Sync { path: path(name) };
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..400 {
        let mut disk = Disk::with(&Tree::default());
        for change in [
            Change::Create { path: path("a") },
            write("a", 1),
            sync("a"),
            Change::Sync { path: "/root".into() },
            write("a", 2),
            Change::Create { path: path("b") },
            Change::Rename { from: path("a"), to: path("c") },
        ] {
            disk.change(&change);
        }
        let tree = disk.after_power_loss(&mut Random::seeded(seed));
        let (a, c) = (tree.files.get(&path("a")), tree.files.get(&path("c")));
        assert!(a.is_some() != c.is_some(), "a name that was synced is gone: {tree:?}");
        let bytes = a.or(c).unwrap();
        assert_eq!(bytes.len(), 1_024);
        let sectors: Vec<u8> = vec![bytes[0], bytes[1_023]];
        seen.insert((a.is_some(), tree.files.contains_key(&path("b")), sectors));
    }
    // Renamed or not, the other made or not, each sector old or new.
    assert_eq!(seen.len(), 16, "{seen:?}");
}
