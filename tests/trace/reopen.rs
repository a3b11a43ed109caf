//! A process that lets its context go and makes another, as a framework's re-initialisation does.

use crate::ledger::can_trace;
use crate::support::Sim;
use crate::truth::{Fault, gaps, settlements};

#[test]
fn ten_contexts_with_reads_in_between_are_ten_settlements() {
    if !can_trace("ten_contexts_with_reads_in_between_are_ten_settlements") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let mut actor = sim.actor("sweep.py");
    for context in 1..=10 {
        actor.told("open 0");
        if context % 2 == 0 {
            // Read while it is open, and hidden by the dead row of the one before.
            sim.reads_pass(1);
        }
        actor.told("close");
        sim.until_ended(context);
        sim.reads_pass(1);
    }
    actor.end();
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    let settled = settlements(&report);
    assert_eq!(settled.len(), 10);
    assert!(settled.iter().all(|one| one.program.as_deref() == Some("sweep.py")));
    assert_eq!(gaps(&report).len(), 0, "{}", report["coverage"]);
}

#[test]
fn contexts_between_which_nobody_read_are_counted_where_one_was_seen_open() {
    if !can_trace("contexts_between_which_nobody_read_are_counted_where_one_was_seen_open") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&["--call-deadline", "10m"]);
    let mut actor = sim.actor("sweep.py");
    actor.told("open 0");
    sim.reads_pass(1);
    sim.fault("hang nvmlDeviceGetAccountingPids");
    actor.told("close");
    for _ in 2..=10 {
        actor.told("open 0");
        actor.told("close");
    }
    let truth = sim.until_ended(10);
    sim.fault("heal");
    let report = watching.report();
    actor.end();
    // The first was seen: its loss is a gap of one. The next eight came and went unseen.
    let unseen: Vec<_> = truth[1..9].iter().cloned().map(Fault::Lost).collect();
    assert_eq!(sim.faults_of(&report), unseen);
    let settled = settlements(&report);
    assert_eq!(settled.len(), 1);
    assert_eq!(settled[0].start_time_us, Some(truth[9].start_time_us));
    let overwritten = gaps(&report).into_iter().filter(|gap| gap.cause == "row-overwritten");
    assert_eq!(overwritten.map(|gap| gap.size).collect::<Vec<_>>(), [Some(1)]);
}
