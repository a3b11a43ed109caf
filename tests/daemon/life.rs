//! From its start to its end in order, and what it is asked by signals.

use std::time::Duration;

use gpu_ledger::journal::Figures;
use gpu_ledger::journal::entry::{CoverageEdge, OpenKind};
use gpu_ledger::unknown::GapCause;

use crate::booked::Books;
use crate::daemon::{Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

#[test]
fn jobs_are_booked_once_under_their_names_and_the_end_is_in_order() {
    if !can_trace("jobs_are_booked_once_under_their_names_and_the_end_is_in_order") {
        return;
    }
    let sim = Sim::start(&["--gpus", "2", "--teardown-ms", "0..20"]);
    let mut daemon = Setup::on(&sim).start();
    daemon.until_told("WATCHDOG=1");
    let mut server = sim.actor("server.py");
    server.told("open 0");
    for ms in [5, 30, 80] {
        sim.work(&format!("--gpu 1 --ms {ms}")).wait();
    }
    daemon.until_booked(3);
    let open = daemon.until_entered(
        "the server is entered as open",
        |figures| matches!(figures, Figures::Open(open) if open.pid.0 == server.pid()),
    );
    let Figures::Open(figures) = &open.figures else { unreachable!() };
    assert_eq!(figures.kind, OpenKind::Row);
    assert_eq!(figures.program.as_deref(), Some("server.py"));
    server.end();
    sim.until_ended(4);
    daemon.until_booked(4);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let entries = journal(&state);
    let books = Books::of(&entries);
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    assert!(books.open.is_empty(), "{:?}", books.open);
    let of_server = books.settled.iter().find(|one| one.opened == Some(open.seq));
    assert_eq!(of_server.map(|one| one.pid), Some(figures.pid));
    assert_eq!(books.gaps, []);
    let last = entries.last().unwrap();
    assert!(matches!(last.figures, Figures::Coverage(CoverageEdge::Ended { .. })), "{last:?}");
    assert_sound(&state);
}

#[test]
fn a_trace_beside_it_says_the_same_and_books_nothing() {
    if !can_trace("a_trace_beside_it_says_the_same_and_books_nothing") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--teardown-ms", "0..20"]);
    let daemon = Setup::on(&sim).start();
    let job = sim.program_called("train");
    let words = ["work", "--ms", "40"].map(Into::into);
    let command: Vec<_> = std::iter::once(job.into_os_string()).chain(words).collect();
    let (report, status) = sim.run(&[], &command);
    assert_eq!((status, sim.faults_of(&report)), (0, vec![]));
    daemon.until_booked(1);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    let traced = &report["command"]["settlements"][0];
    let [booked] = &books.settled[..] else { panic!("booked once: {:?}", books.settled) };
    assert_eq!(traced["held_ms"], booked.held.0);
    assert_eq!(traced["account"], *booked.account.to_string());
    assert_sound(&state);
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    if !can_trace("a_second_daemon_is_refused_and_the_first_goes_on") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let (status, said) = Setup::on(&sim).run();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("is written by process {}", daemon.pid())), "{said}");
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    daemon.stop();
}

#[test]
fn a_good_file_is_taken_over_on_hangup_and_a_bad_one_changes_nothing() {
    if !can_trace("a_good_file_is_taken_over_on_hangup_and_a_bad_one_changes_nothing") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let marks = || {
        let entries = daemon.journal();
        entries.iter().filter(|entry| matches!(entry.figures, Figures::Mark(_))).count()
    };
    // The first says that it is ready; the next would come after a minute.
    poll("the first mark", || (marks() == 1).then_some(()));
    std::fs::write(daemon.config_path(), "mark_interval = \"50ms\"\nmark_intervall = \"1s\"\n")
        .unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    daemon.until_logged("unknown key `mark_intervall`");
    daemon.until_logged("nothing changed");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(marks(), 1, "{}", daemon.log());
    std::fs::write(daemon.config_path(), "mark_interval = \"50ms\"\n").unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    poll("marks come", || (marks() > 3).then_some(()));
    daemon.signal(rustix::process::Signal::HUP);
    daemon.until_logged("read again: nothing in it changed");
    let more =
        "mark_interval = \"50ms\"\nring_size = \"8MiB\"\n[socket]\ngroup = \"no-such-group\"\n";
    std::fs::write(daemon.config_path(), more).unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    daemon.until_logged("alone see all group=\"no-such-group\"");
    let log = daemon.stop();
    let of = |key: &str, what: &str| {
        let mut lines = log.lines();
        lines.any(|line| line.contains(&format!("key=\"{key}\"")) && line.contains(what))
    };
    assert!(of("ring_size", "not in force before a restart"), "{log}");
    assert!(of("socket.group", "in force now"), "{log}");
}

#[test]
fn a_holder_older_than_accounting_is_entered_without_a_row_until_it_goes() {
    if !can_trace("a_holder_older_than_accounting_is_entered_without_a_row_until_it_goes") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    let mut older = sim.actor("older.py");
    older.told("open 0");
    sim.fault("accounting on");
    let daemon = Setup::on(&sim).start();
    let pid = older.pid();
    let open = daemon.until_entered(
        "the holder is entered",
        |figures| matches!(figures, Figures::Open(open) if open.pid.0 == pid),
    );
    let Figures::Open(figures) = &open.figures else { unreachable!() };
    assert_eq!((figures.kind, figures.start), (OpenKind::NoDriverRow, None));
    assert_eq!(figures.account.to_string(), figures.program.as_deref().unwrap());
    // Once more from another run, and it is the same entry.
    daemon.kill();
    let daemon = Setup::on(&sim).start();
    sim.reads_pass(3);
    older.end();
    daemon.until_entered(
        "its end is entered",
        |figures| matches!(figures, Figures::Correction(correction) if correction.of == open.seq),
    );
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let entries = journal(&state);
    let opens = entries.iter().filter(|entry| matches!(entry.figures, Figures::Open(_)));
    assert_eq!(opens.count(), 1);
    let books = Books::of(&entries);
    assert!(books.open.is_empty() && books.settled.is_empty());
    assert_eq!(books.gaps_of(GapCause::AgentDown).len(), 1);
    assert_sound(&state);
}
