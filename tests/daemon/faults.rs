//! Writes and syncs of the journal that fail, and a daemon that dies at them.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

use crate::booked::Books;
use crate::daemon::{Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// The library that makes calls fail, built once.
fn faults() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = BUILT.get_or_init(|| {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let library = folder.path().join("fault.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/journal/fault.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([source, "-ldl"]);
        assert!(compiler.status().expect("a C compiler").success());
        (folder, library)
    });
    library
}

/// Runs jobs until the daemon ends by this fault, starts it again, and compares what is booked.
fn survives(variable: &'static str, call: u64) -> ExitStatus {
    let sim = Sim::start(&["--gpus", "1"]);
    // The first one makes the journal, and covers what follows.
    Setup::on(&sim).start().stop();
    let setup = Setup::on(&sim).env("LD_PRELOAD", faults()).env(variable, call.to_string());
    let mut daemon = setup.spawn();
    let status = poll("it ends", || {
        sim.work("--ms 3").wait();
        daemon.has_ended()
    });
    let said = daemon.log();
    drop(daemon);
    if status.code().is_some() {
        assert!(said.contains("the journal cannot be written"), "{said}");
    }
    let daemon = Setup::on(&sim).start();
    sim.reads_pass(1);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new(), "{variable} {call}");
    assert_eq!(books.conflicts, 0);
    assert_sound(&state);
    status
}

#[test]
fn after_a_sync_that_failed_it_ends_with_an_error_and_the_next_one_books_on() {
    if !can_trace("after_a_sync_that_failed_it_ends_with_an_error_and_the_next_one_books_on") {
        return;
    }
    for call in [3, 6] {
        assert_eq!(survives("FAULT_SYNC", call).code(), Some(1));
    }
}

#[test]
fn killed_at_a_write_or_a_sync_it_loses_and_doubles_nothing() {
    if !can_trace("killed_at_a_write_or_a_sync_it_loses_and_doubles_nothing") {
        return;
    }
    for (variable, call) in [
        ("FAULT_DIE_WRITE", 40),
        ("FAULT_DIE_WRITE", 77),
        ("FAULT_DIE_SYNC", 4),
        ("FAULT_DIE_SYNC", 7),
    ] {
        let status = survives(variable, call);
        assert_eq!(status.signal(), Some(9), "{variable} {call}: {status}");
    }
}
