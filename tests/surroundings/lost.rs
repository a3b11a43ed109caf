//! Rows that were seen to run and are lost before they are final: what a read saw held is never free, and
//! nothing accrues to a process that is known to be dead.

use serde_json::Value;

use crate::support::Sim;
use crate::traced::{Ended, Trace};

fn ms(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or_else(|| panic!("{field} is no number: {of}"))
}

fn gpu(ended: &Ended) -> &Value {
    &ended.report()["gpus"][0]
}

/// The one line of `no_driver_row`, and that nothing is called running.
fn only_lost(ended: &Ended) -> &Value {
    let report = ended.report();
    assert_eq!(report["open"], serde_json::json!([]), "{report}");
    let lines = report["no_driver_row"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    &lines[0]
}

/// A GPU held by one process alone, from soon after the trace began: so long it was seen held, and
/// what is left of the period was not seen, or lies before the process came or after it went.
fn was_held(ended: &Ended, line: &Value, outside_ms: u64) {
    let gpu = gpu(ended);
    let (seen, free) = (ms(line, "seen_ms"), ms(gpu, "free_ms"));
    let (alone, uncovered) = (ms(gpu, "alone_ms"), ms(gpu, "uncovered_ms"));
    assert!(alone <= seen && seen <= alone + uncovered, "{line} {gpu}");
    // What reads saw held is never free: free is only what lies outside of the span.
    assert!(free + seen <= ms(gpu, "period_ms"), "{line} {gpu}");
    assert!(free <= outside_ms, "{line} {gpu}");
}

#[test]
fn a_row_that_is_lost_while_its_process_holds_on_leaves_no_free_time() {
    if !crate::privilege::can_trace(
        "a_row_that_is_lost_while_its_process_holds_on_leaves_no_free_time",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let script = "nvsim work --gpu 0 --ms 5000 & sleep 1.5; nvsim fault accounting --gpu 0 off; \
                  sleep 1; nvsim fault accounting --gpu 0 on; wait";
    let ended = Trace::on(&sim).script(script).run();
    ended.exited(0).unknown("accounting-mode-disabled");
    let line = only_lost(&ended);
    assert_eq!((&line["lost"], &line["ended"]), (&"accounting-off".into(), &true.into()), "{line}");
    assert_eq!(line["account"], "nvsim");
    assert!(line["start_time_us"].is_u64(), "{line}");
    // It held on through the time without rows, until it ended.
    assert!(ms(line, "seen_ms") >= 4_500, "{line}");
    assert!(ms(gpu(&ended), "alone_ms") >= 1_000, "{}", gpu(&ended));
    let outside = ms(gpu(&ended), "period_ms").saturating_sub(5_000);
    was_held(&ended, line, outside + 300);
    assert_eq!(ended.report()["gpus"][1]["alone_ms"], 0);
}

#[test]
fn a_holder_whose_row_was_lost_is_a_sharer_to_the_end() {
    if !crate::privilege::can_trace("a_holder_whose_row_was_lost_is_a_sharer_to_the_end") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // The job that comes later shares with it.
    let script = "nvsim work --gpu 0 --ms 30000 & holder=$!; sleep 1.5; \
                  nvsim fault accounting --gpu 0 off; sleep 1; nvsim fault accounting --gpu 0 on; \
                  sleep 1; nvsim work --gpu 0 --ms 700; (sleep 4; kill $holder) & exit 0";
    let ended = Trace::on(&sim).words("--settle-timeout 1s").script(script).run();
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
    let period = ms(gpu(&ended), "period_ms");
    // Free is only what lies before it came.
    assert!(ms(gpu(&ended), "free_ms") <= 400, "{}", gpu(&ended));
    assert!(ms(line, "seen_ms") + 400 >= period, "{line} {period}");
}

/// The row is out of sight to the end, in which its process ends.
fn lost_to_the_end(fault: &str, cause: &str) {
    let sim = Sim::start(&["--gpus", "1"]);
    let script = format!("nvsim work --gpu 0 --ms 3000 & sleep 1.5; nvsim fault {fault}; wait");
    let trace = Trace::on(&sim).words("--call-deadline 300ms --settle-timeout 1s");
    let ended = trace.script(&script).run();
    let line = only_lost(ended.exited(0));
    assert_eq!((&line["lost"], &line["account"]), (&cause.into(), &"nvsim".into()), "{fault}");
    assert_eq!(line["ended"], true, "{line}");
    let gpu = gpu(&ended);
    assert!(ms(gpu, "alone_ms") >= 1_000, "{fault}: what was seen is held: {gpu}");
    assert!(ms(gpu, "alone_ms") <= ms(line, "seen_ms"), "{fault}: {gpu} {line}");
    assert!(ms(line, "seen_ms") <= 3_300, "{fault}: nothing accrues to the dead: {line}");
    // What is left was not seen, or lies before it came.
    assert!(ms(gpu, "free_ms") <= 400, "{fault}: {gpu}");
}

#[test]
fn a_row_that_is_out_of_sight_to_the_end_was_held_until_it_was_last_seen() {
    if !crate::privilege::can_trace(
        "a_row_that_is_out_of_sight_to_the_end_was_held_until_it_was_last_seen",
    ) {
        return;
    }
    lost_to_the_end("accounting --gpu 0 off", "accounting-off");
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
    for (fault, cause) in [
        ("code 'nvmlDeviceGetAccountingStats*' --code 999", "rows-possibly-evicted"),
        ("hang 'nvmlDeviceGetAccountingStats*'", "nvml-call-timeout"),
    ] {
        let sim = Sim::start(&["--gpus", "1"]);
        let script =
            format!("nvsim work --gpu 0 --ms 2000 & sleep 1; nvsim fault {fault}; wait; sleep 2.5");
        let trace = Trace::on(&sim).words("--call-deadline 300ms --settle-timeout 1s");
        let ended = trace.script(&script).run();
        let line = only_lost(ended.exited(0));
        assert_eq!((&line["lost"], &line["ended"]), (&cause.into(), &true.into()), "{line}");
        let seen = ms(line, "seen_ms");
        let period = ms(gpu(&ended), "period_ms");
        assert!((300..=2_400).contains(&seen), "{fault}: {line}, period {period}");
        assert!(ms(gpu(&ended), "alone_ms") <= seen, "{fault}: {}", gpu(&ended));
        assert!(ms(gpu(&ended), "free_ms") <= 400, "{fault}: {}", gpu(&ended));
    }
}
