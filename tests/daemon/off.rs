//! Accounting that goes off under a row that runs: what is known of it until it is on again, and then.

use gpu_ledger::journal::Figures;
use gpu_ledger::journal::entry::{EpochEdge, OpenKind};
use serde_json::Value;

use crate::billed::Billed;
use crate::daemon::{Daemon, Setup, assert_sound};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// A daemon that notes often what it saw, and a server whose row is open in its journal.
fn serving(sim: &Sim) -> (Daemon<'_>, crate::ledger::Actor) {
    let daemon = Setup::on(sim).config("mark_interval = \"100ms\"\n").start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    let pid = server.pid();
    daemon.until_entered("it is open", |figures| {
        matches!(figures, Figures::Open(open) if open.pid.0 == pid && open.kind == OpenKind::Row)
    });
    marks_pass(&daemon, 2);
    (daemon, server)
}

/// Waits until so many more marks are entered.
fn marks_pass(daemon: &Daemon<'_>, count: usize) {
    let marks = || {
        let entries = daemon.journal();
        entries.iter().filter(|entry| matches!(entry.figures, Figures::Mark(_))).count()
    };
    let before = marks();
    poll("marks", || (marks() >= before + count).then_some(()));
}

fn until_over(daemon: &Daemon<'_>) {
    daemon.until_entered("the epoch ends", |figures| {
        matches!(figures, Figures::Epoch(epoch) if matches!(epoch.edge, EpochEdge::Ended { .. }))
    });
    marks_pass(daemon, 2);
}

/// The lines of a row of this pid that is over.
fn over(billed: &Billed, pid: u32) -> Vec<&Value> {
    let lines = billed.list("no_driver_row").iter();
    lines.filter(|one| one["pid"] == pid && one["ended"] == true).collect()
}

#[test]
fn a_row_that_ran_when_accounting_went_off_is_over_and_accrues_no_more() {
    if !can_trace("a_row_that_ran_when_accounting_went_off_is_over_and_accrues_no_more") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, server) = serving(&sim);
    let pid = server.pid();
    assert_eq!(Billed::of(&sim).list("open").len(), 1);
    sim.fault("accounting off");
    until_over(&daemon);
    let mut seen_ms = Vec::new();
    for _ in 0..2 {
        for billed in [Billed::of(&sim), Billed::through_daemon(&sim, &["--period", "all"], &[])] {
            assert!(billed.list("open").is_empty(), "{}", billed.bill["open"]);
            let [line] = over(&billed, pid)[..] else { panic!("{}", billed.bill["no_driver_row"]) };
            assert_eq!(line["lost"], "accounting-off", "{line}");
            seen_ms.push(line["seen_ms"].as_u64().unwrap());
            // That it holds the device still is seen, and that it has no row.
            let lines = billed.list("no_driver_row").iter();
            let holds = lines.filter(|one| one["pid"] == pid && one["ended"] == false);
            assert_eq!(holds.count(), 1, "{}", billed.bill["no_driver_row"]);
            assert_eq!(billed.bill["settlements_total"], 0);
            assert_eq!(billed.code, 2);
        }
        marks_pass(&daemon, 3);
    }
    assert!(seen_ms[0] > 0 && seen_ms.iter().all(|ms| *ms == seen_ms[0]), "{seen_ms:?}");
    // What is thrown away does not come back.
    sim.fault("accounting on");
    daemon.until_entered(
        "its end is entered",
        |figures| matches!(figures, Figures::Correction(correction) if correction.of > 0),
    );
    server.end();
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let billed = Billed::of(&sim);
    assert!(billed.list("open").is_empty(), "{}", billed.bill["open"]);
    let rows = over(&billed, pid).into_iter().filter(|line| !line["lost"].is_null());
    let [line] = rows.collect::<Vec<_>>()[..] else { panic!("{}", billed.bill["no_driver_row"]) };
    assert_eq!(line["lost"], "accounting-off", "{line}");
    assert_eq!(billed.bill["settlements_total"], 0);
    assert!(billed.causes(0).contains(&"accounting-off"), "{}", billed.bill["coverage"]);
    assert_sound(&state);
}

#[test]
fn a_row_that_was_final_before_accounting_went_off_comes_back_and_is_booked_under_its_name() {
    let test =
        "a_row_that_was_final_before_accounting_went_off_comes_back_and_is_booked_under_its_name";
    if !can_trace(test) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, server) = serving(&sim);
    let pid = server.pid();
    // It ends where no list can be read, and the next answer is that accounting is off.
    sim.lists_fail();
    server.end();
    sim.until_ended(1);
    sim.fault("accounting off");
    sim.fault("heal");
    until_over(&daemon);
    let off = Billed::of(&sim);
    assert!(off.list("open").is_empty(), "{}", off.bill["open"]);
    assert_eq!(over(&off, pid).len(), 1, "{}", off.bill["no_driver_row"]);
    sim.fault("accounting on");
    daemon.until_booked(1);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let billed = Billed::of(&sim);
    let settled = billed.named(pid, "server.py");
    assert_eq!(settled["held_ms"], sim.truth()[0].held_ms(), "{settled}");
    assert_eq!(over(&billed, pid), Vec::<&Value>::new());
    assert_sound(&state);
}
