//! Rows that were seen to run and are lost before they are final: what a read saw held is never free, and
//! nothing accrues to a process that is known to be dead. The scripts note when the holder was certainly
//! alive and certainly dead, so that every bound holds on a machine of any speed.

use serde_json::Value;

use crate::support::Sim;
use crate::traced::{Ended, Trace};

/// How far two readings of one moment lie apart: each is rounded, and the wall clock may be slewed.
const TOLERANCE_MS: u64 = 5;
/// A shell's name for the call that reads an open row.
const STATS: &str = "'nvmlDeviceGetAccountingStats*'";

fn ms(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or_else(|| panic!("{field} is no number: {of}"))
}

fn gpu(ended: &Ended) -> &Value {
    &ended.report()["gpus"][0]
}

/// Shell words that note this moment under a name.
fn note(sim: &Sim, name: &str) -> String {
    format!("date +%s%6N > {}/{name}", sim.folder().display())
}

/// From the holder's start, by the driver, to a noted moment.
fn held_at(sim: &Sim, name: &str, line: &Value) -> u64 {
    let noted = std::fs::read_to_string(sim.folder().join(name)).unwrap();
    let noted: u64 = noted.trim().parse().unwrap();
    (noted - ms(line, "start_time_us")) / 1_000
}

/// Shell words for a fault that comes when a whole read has seen the holder since the note `seen`, and
/// that wait until it came.
fn once_seen(sim: &Sim, fault: &str) -> String {
    let seen = note(sim, "seen");
    format!(
        "sleep 1.5; {seen}; nvsim fault after {STATS} after {STATS} after {STATS} {fault}; \
         while [ $(nvsim fault pending) != 0 ]; do sleep 0.05; done"
    )
}

/// The one line of `no_driver_row`, and that nothing is called running.
fn only_lost(ended: &Ended) -> &Value {
    let report = ended.report();
    assert_eq!(report["open"], serde_json::json!([]), "{report}");
    let lines = report["no_driver_row"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    &lines[0]
}

/// What reads saw held is held, and never free; free is only what lies outside of the holder's life.
fn what_was_seen_is_held(sim: &Sim, ended: &Ended, line: &Value) {
    let (gpu, seen) = (gpu(ended), ms(line, "seen_ms"));
    let (alone, free, period) = (ms(gpu, "alone_ms"), ms(gpu, "free_ms"), ms(gpu, "period_ms"));
    let at_least = held_at(sim, "seen", line);
    assert!(seen + TOLERANCE_MS >= at_least, "seen to run for {at_least}: {line}");
    assert!(alone + TOLERANCE_MS >= at_least, "what was seen is held: {gpu} {line}");
    assert!(alone <= seen && seen <= alone + ms(gpu, "uncovered_ms"), "{line} {gpu}");
    assert!(free + seen <= period, "{line} {gpu}");
    let alive = held_at(sim, "alive", line);
    assert!(free + alive <= period + TOLERANCE_MS, "it held for {alive}: {line} {gpu}");
}

fn nothing_accrues_to_the_dead(sim: &Sim, line: &Value) {
    let dead = held_at(sim, "dead", line);
    assert!(ms(line, "seen_ms") <= dead + TOLERANCE_MS, "it was dead at {dead}: {line}");
}

#[test]
fn a_row_that_is_lost_while_its_process_holds_on_leaves_no_free_time() {
    if !crate::privilege::can_trace(
        "a_row_that_is_lost_while_its_process_holds_on_leaves_no_free_time",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let off = once_seen(&sim, "accounting --gpu 0 off");
    let (alive, dead) = (note(&sim, "alive"), note(&sim, "dead"));
    let script = format!(
        "nvsim work --gpu 0 --ms 600000 & {off}; sleep 1; nvsim fault accounting --gpu 0 on; \
         sleep 1; {alive}; kill $!; wait; {dead}"
    );
    let ended = Trace::on(&sim).script(&script).run();
    ended.exited(0).unknown("accounting-mode-disabled");
    let line = only_lost(&ended);
    assert_eq!((&line["lost"], &line["ended"]), (&"accounting-off".into(), &true.into()), "{line}");
    assert_eq!(line["account"], "nvsim");
    what_was_seen_is_held(&sim, &ended, line);
    // It held on through the time without rows, until it ended.
    assert!(ms(line, "seen_ms") + TOLERANCE_MS >= held_at(&sim, "alive", line), "{line}");
    nothing_accrues_to_the_dead(&sim, line);
    assert_eq!(ended.report()["gpus"][1]["alone_ms"], 0);
}

#[test]
fn a_holder_whose_row_was_lost_is_a_sharer_to_the_end() {
    if !crate::privilege::can_trace("a_holder_whose_row_was_lost_is_a_sharer_to_the_end") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let off = once_seen(&sim, "accounting --gpu 0 off");
    let alive = note(&sim, "alive");
    // The job that comes later shares with it. The holder outlives the trace, and keeps none of its pipes.
    let script = format!(
        "nvsim work --gpu 0 --ms 600000 > {folder}/words 2>&1 & echo $! > {folder}/holder; {off}; \
         sleep 1; nvsim fault accounting --gpu 0 on; sleep 1; nvsim work --gpu 0 --ms 700; {alive}",
        folder = sim.folder().display()
    );
    let ended = Trace::on(&sim).words("--settle-timeout 1s").script(&script).run();
    let line = only_lost(ended.exited(0));
    assert_eq!(
        (&line["lost"], &line["ended"]),
        (&"accounting-off".into(), &false.into()),
        "{line}"
    );
    let settled = &ended.report()["command"]["settlements"];
    assert_eq!(settled.as_array().unwrap().len(), 1, "{settled}");
    let own = (&settled[0]["alone_ms"], &settled[0]["shared_ms"]);
    assert_eq!(own, (&0.into(), &settled[0]["held_ms"]), "somebody held it too");
    let (period, free) = (ms(gpu(&ended), "period_ms"), ms(gpu(&ended), "free_ms"));
    let held = held_at(&sim, "alive", line);
    assert!(ms(line, "seen_ms") + TOLERANCE_MS >= held, "{line} {held}");
    assert!(free + held <= period + TOLERANCE_MS, "free is only what lies before it: {period}");
    let holder = std::fs::read_to_string(sim.folder().join("holder")).unwrap();
    let holder = rustix::process::Pid::from_raw(holder.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(holder, rustix::process::Signal::KILL).unwrap();
}

/// The row is out of sight from some moment to the end, in which its process ends.
fn lost_to_the_end(fault: &str, cause: &str) {
    let sim = Sim::start(&["--gpus", "1"]);
    let lost = once_seen(&sim, fault);
    let (alive, dead) = (note(&sim, "alive"), note(&sim, "dead"));
    // Time enough between its end and the trace's for something to accrue to the dead.
    let script = format!(
        "nvsim work --gpu 0 --ms 600000 & {lost}; sleep 1; {alive}; kill $!; wait; {dead}; sleep 1.5"
    );
    let trace = Trace::on(&sim).words("--call-deadline 300ms --settle-timeout 1s");
    let ended = trace.script(&script).run();
    let line = only_lost(ended.exited(0));
    assert_eq!((&line["lost"], &line["account"]), (&cause.into(), &"nvsim".into()), "{fault}");
    assert_eq!(line["ended"], true, "{line}");
    what_was_seen_is_held(&sim, &ended, line);
    nothing_accrues_to_the_dead(&sim, line);
}

#[test]
fn a_row_that_is_out_of_sight_to_the_end_was_held_until_it_was_last_seen() {
    if !crate::privilege::can_trace(
        "a_row_that_is_out_of_sight_to_the_end_was_held_until_it_was_last_seen",
    ) {
        return;
    }
    lost_to_the_end("accounting --gpu 0 off", "accounting-off");
    lost_to_the_end("reset --gpu 0", "accounting-off");
    lost_to_the_end("gpu-lost on --gpu 0", "epoch-broken");
    lost_to_the_end("mig on --gpu 0", "accounting-off");
}

#[test]
fn nothing_accrues_to_a_process_that_ended_while_its_row_could_not_be_read() {
    if !crate::privilege::can_trace(
        "nothing_accrues_to_a_process_that_ended_while_its_row_could_not_be_read",
    ) {
        return;
    }
    lost_to_the_end(&format!("code {STATS} --code 999"), "rows-possibly-evicted");
    lost_to_the_end(&format!("hang {STATS}"), "nvml-call-timeout");
}
