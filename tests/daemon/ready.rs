//! What the service manager is told of the start: nothing that the journal cannot show.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpu_ledger::journal::Figures;
use gpu_ledger::journal::entry::CoverageEdge;
use gpu_ledger::unknown::GapCause;

use crate::billed::Billed;
use crate::booked::Books;
use crate::calls::{Change, Verdict};
use crate::daemon::{Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::Sim;

/// Beginnings of coverage, and marks that say of a GPU that it was seen.
fn claims(state: &Path) -> (usize, usize) {
    let (mut begun, mut marks) = (0, 0);
    for entry in journal(state) {
        match &entry.figures {
            Figures::Coverage(CoverageEdge::Began { .. }) => begun += 1,
            Figures::Mark(mark) if mark.gpus.iter().any(|gpu| gpu.last_good.is_some()) => {
                marks += 1;
            }
            _ => {}
        }
    }
    (begun, marks)
}

fn is_log(change: &Change) -> bool {
    change.path().is_some_and(|path| path.ends_with("ledger.db-wal"))
}

#[test]
fn killed_the_moment_it_says_that_it_is_ready_it_has_left_what_it_covered() {
    if !can_trace("killed_the_moment_it_says_that_it_is_ready_it_has_left_what_it_covered") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let state = sim.folder().join("state");
    for run in 1..=3 {
        // A slow disk: whoever does not wait for it is far ahead.
        let (mut daemon, judging) = Setup::on(&sim).spawn_judged(|change| {
            if matches!(change, Change::Sync { .. }) {
                std::thread::sleep(Duration::from_millis(100));
            }
            Verdict::Passes
        });
        daemon.until_told("READY=1");
        daemon.kill();
        judging.join().unwrap();
        let (begun, marks) = claims(&state);
        assert_eq!(begun, run, "its coverage began");
        assert!(marks >= run, "run {run}: {marks} marks");
        let bill = Billed::of(&sim).bill;
        assert!(bill["coverage"]["start"].is_string(), "{}", bill["coverage"]);
        assert!(bill["coverage"]["covered_ms"].as_u64() > Some(0), "{}", bill["coverage"]);
        assert_eq!(bill["gpus"].as_array().unwrap().len(), 1, "{bill}");
    }
    // Whoever comes next knows since when nobody was there.
    Setup::on(&sim).start().stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.gaps_of(GapCause::AgentDown).len(), 3, "{:?}", books.gaps);
    assert_sound(&state);
}

#[test]
fn while_the_disk_is_full_at_the_start_it_watches_is_not_ready_and_asks_for_time() {
    let test = "while_the_disk_is_full_at_the_start_it_watches_is_not_ready_and_asks_for_time";
    if !can_trace(test) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    Setup::on(&sim).start().stop();
    let state = sim.folder().join("state");
    let before = claims(&state);
    let full = Arc::new(AtomicBool::new(true));
    let is_full = Arc::clone(&full);
    let (mut daemon, judging) = Setup::on(&sim).spawn_judged(move |change| {
        let refused = matches!(change, Change::Write { .. }) && is_log(&change);
        if refused && is_full.load(Ordering::Relaxed) {
            Verdict::Fails(libc::ENOSPC)
        } else {
            Verdict::Passes
        }
    });
    let said = daemon.until_told("EXTEND_TIMEOUT_USEC=");
    let said = said + &daemon.until_told("EXTEND_TIMEOUT_USEC=");
    assert!(said.contains("STATUS=watching, not ready: the disk is full"), "{said}");
    assert!(!said.contains("READY=1"), "{said}");
    // It claims nothing, and misses nothing.
    assert_eq!(claims(&state), before);
    let job = sim.work("--ms 10");
    let pid = job.pid();
    job.wait();
    full.store(false, Ordering::Relaxed);
    daemon.until_told("READY=1");
    let (begun, marks) = claims(&state);
    assert_eq!(begun, before.0 + 1);
    assert!(marks > before.1);
    daemon.until_booked(1);
    daemon.stop();
    judging.join().unwrap();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    assert!(!books.gaps_of(GapCause::DiskFull).is_empty(), "{:?}", books.gaps);
    Billed::of(&sim).named(pid, "nvsim");
    assert_sound(&state);
}
