//! A database that somebody holds, a queue that is full, a disk that is full.

use std::process::Command;
use std::time::Duration;

use gpu_ledger::unknown::GapCause;

use crate::booked::Books;
use crate::daemon::{Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::{Sim, poll, skip};

/// Somebody else writes the database.
fn hold(state: &std::path::Path) -> rusqlite::Connection {
    let other = rusqlite::Connection::open(state.join("ledger.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    other
}

#[test]
fn a_database_held_for_five_seconds_costs_no_event_and_no_row() {
    if !can_trace("a_database_held_for_five_seconds_costs_no_event_and_no_row") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let mut daemon = Setup::on(&sim).start();
    let held = hold(daemon.state());
    for _ in 0..10 {
        sim.work("--ms 5").wait();
    }
    std::thread::sleep(Duration::from_secs(5));
    for _ in 0..10 {
        sim.work("--ms 5").wait();
    }
    assert!(daemon.lives(), "{}", daemon.log());
    assert!(Books::of(&daemon.journal()).settled.is_empty());
    held.execute_batch("ROLLBACK").unwrap();
    daemon.until_booked(20);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    assert_eq!(books.gaps, []);
    assert_sound(&state);
}

#[test]
fn what_has_no_room_in_the_queue_is_a_gap_and_is_read_and_booked_again() {
    if !can_trace("what_has_no_room_in_the_queue_is_a_gap_and_is_read_and_booked_again") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).config("[journal]\nqueue_length = 64\n").start();
    let held = hold(daemon.state());
    for _ in 0..100 {
        sim.work("--ms 1").wait();
    }
    daemon.until_logged("the journal's queue is full");
    held.execute_batch("ROLLBACK").unwrap();
    daemon.until_booked(100);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    let overflow = books.gaps_of(GapCause::QueueOverflow);
    assert!(overflow.iter().any(|gap| gap.size > Some(0)), "{:?}", books.gaps);
    assert_eq!(books.conflicts, 0);
    assert_sound(&state);
}

#[test]
fn a_full_disk_is_a_gap_and_everything_is_booked_when_there_is_room() {
    const TEST: &str = "a_full_disk_is_a_gap_and_everything_is_booked_when_there_is_room";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let setup = Setup::on(&sim);
    let state = sim.folder().join("state");
    let options = format!("size=12m,mode=0700,uid={0},gid={0}", crate::daemon::NOBODY);
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(&state);
    if !mount.status().is_ok_and(|status| status.success()) {
        skip(TEST, "a tmpfs cannot be mounted");
        return;
    }
    let _mounted = Mounted(state.clone());
    let mut daemon = setup.start();
    assert!(daemon.log().contains("tmpfs"), "{}", daemon.log());
    sim.work("--ms 5").wait();
    daemon.until_booked(1);
    let filler = state.join("filler");
    let filling = std::fs::write(&filler, vec![0_u8; 16 << 20]);
    assert!(filling.is_err(), "the disk is full");
    let count = 40;
    for _ in 0..count {
        sim.work("--ms 2").wait();
    }
    // Not everything fits into what the log has left.
    let log = || poll("more than fits", || Some(daemon.log()));
    drop(log);
    std::thread::sleep(Duration::from_secs(2));
    assert!(daemon.lives(), "{}", daemon.log());
    let before = Books::of(&daemon.journal()).settled.len();
    std::fs::remove_file(&filler).unwrap();
    daemon.until_booked(1 + count);
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert!(before < 1 + count, "the disk was never full");
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    assert!(!books.gaps_of(GapCause::DiskFull).is_empty(), "{:?}", books.gaps);
    assert_sound(&state);
}

struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
