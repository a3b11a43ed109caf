//! A database that somebody holds, a queue that is full, a disk that is full.

use std::process::Command;
use std::time::Duration;

use gpu_ledger::journal::Figures;
use gpu_ledger::unknown::GapCause;

use crate::billed::Billed;
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
    Billed::of(&sim).gap("queue-overflow");
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
    fill(&state, "filler");
    for _ in 0..20 {
        sim.work("--ms 2").wait();
    }
    // What was kept in reserve takes the gap, and what follows it, until that is full as well.
    daemon.until_entered(
        "the gap",
        |figures| matches!(figures, Figures::Gap(gap) if gap.cause == GapCause::DiskFull),
    );
    daemon.until_booked(21);
    fill(&state, "filler-of-the-reserve");
    let condition = || {
        let mut ask = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        ask.args(["status", "--json", "--socket"]).arg(sim.folder().join("run/daemon.sock"));
        let status: serde_json::Value =
            serde_json::from_slice(&ask.output().unwrap().stdout).unwrap();
        let red = status["health"]["reasons"].as_array().unwrap().iter();
        let red = red.filter(|reason| reason["reason"] == "disk-full").count();
        (status["journal"]["condition"].as_str().unwrap().to_owned(), red)
    };
    let mut jobs = 21;
    poll("health turns red", || {
        sim.work("--ms 2").wait();
        jobs += 1;
        (condition() == ("disk-full".to_owned(), 1)).then_some(())
    });
    assert!(daemon.lives(), "{}", daemon.log());
    assert!(Books::of(&daemon.journal()).settled.len() < jobs);
    for filler in ["filler", "filler-of-the-reserve"] {
        std::fs::remove_file(state.join(filler)).unwrap();
    }
    daemon.until_booked(jobs);
    poll("health is green again", || (condition() == ("well".to_owned(), 0)).then_some(()));
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    let gaps = books.gaps_of(GapCause::DiskFull);
    assert!(gaps.len() >= 2 && gaps.iter().all(|gap| gap.from <= gap.to), "{gaps:?}");
    Billed::of(&sim).gap("disk-full");
    assert_sound(&state);
}

/// Leaves no room at all.
fn fill(state: &std::path::Path, name: &str) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(state.join(name)).unwrap();
    let mut piece = 1 << 20;
    while piece > 0 {
        if file.write_all(&vec![0_u8; piece]).is_err() {
            piece /= 2;
        }
    }
}

struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// What would be booked from then on is nobody's: it ends with an error, which the service manager sees.
#[test]
fn a_daemon_whose_journal_is_taken_away_ends_and_says_so() {
    if !can_trace("a_daemon_whose_journal_is_taken_away_ends_and_says_so") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let mut daemon = Setup::on(&sim).start();
    sim.work("--ms 5").wait();
    daemon.until_booked(1);
    std::fs::rename(daemon.state().join("ledger.db"), daemon.state().join("old.db")).unwrap();
    sim.work("--ms 5").wait();
    let status = poll("it ends", || daemon.has_ended());
    assert_eq!(status.code(), Some(1), "{}", daemon.log());
    let said = daemon.log();
    assert!(said.contains("moved away, removed or replaced under the daemon"), "{said}");
}
