//! A process that lets its context go and makes another, as a framework's re-initialisation does.

use serde_json::Value;

use crate::privilege::can_trace;
use crate::support::Sim;
use crate::truth::{Fault, Gap, gaps, settlements};

#[test]
fn ten_contexts_with_reads_in_between_are_ten_settlements() {
    if !can_trace("ten_contexts_with_reads_in_between_are_ten_settlements") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    reopen(&sim, |context| context % 2 == 0);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_ten(&report);
    // A lone row that is replaced proves nothing of others, unless its successor was seen open. How
    // many there may have been is not known where processes hold a GPU that were not seen to open it.
    let gaps = gaps(&report);
    let harmless = |gap: &Gap| gap.cause == "row-overwritten" && matches!(gap.size, None | Some(0));
    assert!(gaps.iter().all(harmless), "{gaps:?}");
}

#[test]
fn ten_contexts_each_seen_open_leave_nothing_in_doubt() {
    if !can_trace("ten_contexts_each_seen_open_leave_nothing_in_doubt") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    reopen(&sim, |_| true);
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    assert_ten(&report);
    assert_eq!(gaps(&report).len(), 0, "{}", report["coverage"]);
}

fn assert_ten(report: &Value) {
    let settled = settlements(report);
    assert_eq!(settled.len(), 10);
    assert!(settled.iter().all(|one| one.program.as_deref() == Some("sweep.py")));
}

/// Ten contexts one after another, each read while its row is dead, some also while open: the dead row
/// of the one before hides them then.
fn reopen(sim: &Sim, read_open: impl Fn(usize) -> bool) {
    let mut actor = sim.actor("sweep.py");
    for context in 1..=10 {
        actor.told("open 0");
        if read_open(context) {
            sim.reads_pass(1);
        }
        actor.told("close");
        sim.until_ended(context);
        sim.reads_pass(1);
    }
    actor.end();
}

#[test]
fn contexts_between_which_nobody_read_are_counted_where_one_was_seen_open() {
    if !can_trace("contexts_between_which_nobody_read_are_counted_where_one_was_seen_open") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let watching = sim.watch(&[]);
    let mut actor = sim.actor("sweep.py");
    actor.told("open 0");
    sim.reads_pass(1);
    sim.lists_fail();
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
