//! kill -9 at every kind of change that the daemon makes to its state directory, on every file: at the first
//! of the kind, in the middle, and at the last.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::booked::Books;
use crate::calls::{Change, Verdict};
use crate::daemon::{Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// A kind of change, and on which file.
type Kind = (&'static str, String);

/// Rows that a life books before it is asked to stop.
const ROWS: usize = 3;
/// Daemons at a time: one mostly waits.
const AT_ONCE: usize = 4;

fn kind(change: &Change) -> Option<Kind> {
    let name = change.path()?.file_name()?.to_string_lossy().into_owned();
    Some((change.kind(), name))
}

/// A daemon's whole life, from no journal to its end in order; how it ended.
fn life(sim: &Sim, judge: impl FnMut(Change) -> Verdict + Send + 'static) -> ExitStatus {
    let (mut daemon, judging) = Setup::on(sim).spawn_judged(judge);
    let mut is_asked = false;
    let status = poll("it ends", || {
        if !is_asked {
            sim.work("--ms 3").wait();
            if Books::of(&daemon.journal()).settled.len() >= ROWS {
                is_asked = true;
                // It may have died meanwhile.
                let _ = daemon.try_signal(rustix::process::Signal::TERM);
            }
        }
        daemon.has_ended()
    });
    judging.join().unwrap();
    status
}

/// The kinds of change in a life, and how many there are of each.
fn kinds() -> BTreeMap<Kind, usize> {
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let told = Arc::clone(&seen);
    let sim = Sim::start(&["--gpus", "1"]);
    let status = life(&sim, move |change| {
        if let Some(kind) = kind(&change) {
            *told.lock().unwrap().entry(kind).or_insert(0) += 1;
        }
        Verdict::Passes
    });
    assert!(status.success(), "{status}");
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// Kills a daemon at the nth change of a kind, and starts the next one; whether it came to that.
fn survives(at: &Kind, nth: usize) -> bool {
    let sim = Sim::start(&["--gpus", "1"]);
    let (wanted, mut count) = (at.clone(), 0);
    let status = life(&sim, move |change| {
        count += usize::from(kind(&change).as_ref() == Some(&wanted));
        if count >= nth { Verdict::Kills } else { Verdict::Passes }
    });
    let log = std::fs::read_to_string(sim.folder().join("log")).unwrap();
    assert!(status.success() || status.signal() == Some(9), "{at:?} {nth}: {status}: {log}");
    let daemon = Setup::on(&sim).start();
    sim.reads_pass(1);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new(), "{at:?} {nth}");
    assert_eq!(books.conflicts, 0, "{at:?} {nth}");
    assert_sound(&state);
    !status.success()
}

#[test]
fn killed_at_any_kind_of_change_it_loses_and_doubles_nothing() {
    if !can_trace("killed_at_any_kind_of_change_it_loses_and_doubles_nothing") {
        return;
    }
    let kinds = kinds();
    for (kind, name) in [
        ("rename", "ledger.db.new"),
        ("write", "ledger.db-wal"),
        ("sync", "ledger.db-wal"),
        ("write", "ledger.head"),
        ("write", "ledger.db"),
        ("sync", "state"),
    ] {
        assert!(kinds.contains_key(&(kind, name.to_owned())), "no {kind} of {name}: {kinds:?}");
    }
    let mut points: Vec<(Kind, usize)> = Vec::new();
    for (kind, count) in kinds {
        let mut places = vec![1, count.div_ceil(2), count];
        places.dedup();
        points.extend(places.into_iter().map(|nth| (kind.clone(), nth)));
    }
    let (next, met) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((kind, nth)) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    met.fetch_add(survives(kind, *nth).into(), Ordering::Relaxed);
                }
            });
        }
    });
    let met = met.into_inner();
    println!("killed at {met} of {} points", points.len());
    // The last of a kind may not come again: how often the log is written depends on the moment.
    assert!(met * 10 >= points.len() * 8, "{met} of {}", points.len());
}
