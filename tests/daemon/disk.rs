//! A database that somebody holds, a queue that is full, a disk that is full.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gpu_ledger::journal::Figures;
use gpu_ledger::journal::keeping::BACKLOG_RESERVE;
use gpu_ledger::unknown::GapCause;

use crate::billed::Billed;
use crate::booked::Books;
use crate::daemon::{Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::{Sim, poll, skip};

/// Somebody else writes the database.
fn hold(state: &Path) -> rusqlite::Connection {
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
fn a_log_that_takes_nothing_costs_the_log_alone() {
    if !can_trace("a_log_that_takes_nothing_costs_the_log_alone") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let mut daemon = Setup::on(&sim).start_with_a_full_log();
    sim.work("--ms 5").wait();
    daemon.until_booked(1);
    assert!(daemon.lives());
    daemon.stop();
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

/// One request of the daemon's socket; nothing where nobody answers any more.
fn mark(socket: &Path) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(b"{\"version\":1,\"request\":\"mark\",\"note\":\"lunch\"}\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn when_what_nobody_says_twice_has_no_room_it_ends_and_the_next_one_tells_the_gap() {
    const TEST: &str =
        "when_what_nobody_says_twice_has_no_room_it_ends_and_the_next_one_tells_the_gap";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let mut daemon = Setup::on(&sim).config("[journal]\nqueue_length = 64\n").start();
    let state = daemon.state().to_path_buf();
    let held = hold(&state);
    let socket = sim.folder().join("run/daemon.sock");
    // Words that somebody said come once.
    let mut marks = 0;
    let status = poll("it ends", || {
        while daemon.lives() && mark(&socket).is_some_and(|answer| answer.contains("marked")) {
            marks += 1;
        }
        daemon.has_ended()
    });
    // As many as it keeps beyond its queue, and then no further: it is a failure, at which the unit starts it anew.
    assert!(marks >= BACKLOG_RESERVE, "{marks}");
    assert_eq!(status.code(), Some(1), "{status}");
    let log = daemon.log();
    assert!(log.contains("entries that cannot be had again have no room"), "{log}");
    assert!(log.contains("raise journal.queue_length"), "{log}");
    drop(daemon);
    let unit = include_str!("../../gpu-ledger/units/gpu-ledger.service");
    assert!(unit.lines().any(|line| line == "Restart=on-failure"), "{unit}");
    let job = sim.work("--ms 10");
    let pid = job.pid();
    job.wait();
    held.execute_batch("ROLLBACK").unwrap();
    drop(held);
    let daemon = Setup::on(&sim).start();
    daemon.until_booked(1);
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    assert_eq!(books.gaps_of(GapCause::AgentDown).len(), 1, "{:?}", books.gaps);
    let billed = Billed::of(&sim);
    billed.nameless(pid, "agent-down");
    billed.gap("agent-down");
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
    let Some(_mounted) = Mounted::on(&state, TEST) else { return };
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
        let status = crate::asked::status(&sim);
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
    let told = poll("status has the gaps", || full_told(&sim).filter(|told| *told >= 2));
    assert_told_of_room(&daemon.stop(), &state);
    // That there were gaps is said as long as the journal has them, also by it alone, and by the next run.
    assert_eq!(full_told(&sim), Some(told));
    let next = Setup::on(&sim).start();
    poll("the next one has them too", || (full_told(&sim) == Some(told)).then_some(()));
    next.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    let gaps = books.gaps_of(GapCause::DiskFull);
    assert!(gaps.len() >= 2 && gaps.iter().all(|gap| gap.from <= gap.to), "{gaps:?}");
    Billed::of(&sim).gap("disk-full");
    assert_sound(&state);
}

/// How many times the disk was full, as status says.
fn full_told(sim: &Sim) -> Option<u64> {
    let status = crate::asked::status(sim);
    let gaps = status["coverage"]["journal_gaps"].as_array()?;
    let gap = gaps.iter().find(|gap| gap["cause"] == "disk-full")?;
    assert!(gap["last"]["from"].as_str()? <= gap["last"]["to"].as_str()?, "{gap}");
    gap["count"].as_u64()
}

/// As often as it was full it had room again, and each time a line says where, and how much.
fn assert_told_of_room(log: &str, state: &Path) {
    let lines = |what: &str| {
        let lines = log.lines().filter(|line| line.contains(what));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (full, room) = (lines("the journal's disk is full: "), lines("disk has room again: "));
    assert!(!full.is_empty() && full.len() == room.len(), "{full:?} {room:?}");
    for line in full.iter().chain(&room) {
        let place = format!("path={}", state.display());
        assert!(line.contains(&place) && line.contains("free_bytes="), "{line}");
    }
}

/// Leaves no room at all.
fn fill(state: &Path, name: &str) {
    let mut file = std::fs::File::create(state.join(name)).unwrap();
    let mut piece = 1 << 20;
    while piece > 0 {
        if file.write_all(&vec![0_u8; piece]).is_err() {
            piece /= 2;
        }
    }
}

#[test]
fn on_a_disk_that_is_full_before_it_starts_it_ends_with_the_remedy_and_the_next_one_tells_the_gap()
{
    const TEST: &str = "on_a_disk_that_is_full_before_it_starts_it_ends_with_the_remedy_and_the_next_one_tells_the_gap";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let setup = Setup::on(&sim);
    let state = sim.folder().join("state");
    let Some(_mounted) = Mounted::on(&state, TEST) else { return };
    setup.start().stop();
    fill(&state, "filler");
    // What it would see could not be kept by whatever it does: so it does not say that it watches.
    let (status, said) = Setup::on(&sim).run();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("no space left for") && said.contains("free some"), "{said}");
    let job = sim.work("--ms 10");
    let pid = job.pid();
    job.wait();
    std::fs::remove_file(state.join("filler")).unwrap();
    let daemon = Setup::on(&sim).start();
    daemon.until_booked(1);
    daemon.stop();
    let billed = Billed::of(&sim);
    billed.nameless(pid, "agent-down");
    billed.gap("agent-down");
    assert_sound(&state);
}

/// A small file system of its own.
struct Mounted(PathBuf);

impl Mounted {
    fn on(state: &Path, test: &str) -> Option<Self> {
        let options = format!("size=12m,mode=0700,uid={0},gid={0}", crate::daemon::NOBODY);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(state);
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(state.to_path_buf()));
        }
        skip(test, "a tmpfs cannot be mounted");
        None
    }
}

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
