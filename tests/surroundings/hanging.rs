//! Driver calls that do not come back, or not soon.

use std::time::{Duration, Instant};

use crate::support::Sim;
use crate::traced::Trace;

const WORDS: &str = "--call-deadline 300ms --settle-timeout 1s";
/// Far more than all deadlines of a trace together, and far less than for ever.
const BOUND: Duration = Duration::from_mins(1);

/// The trace ends although the call never does, names it, and claims nothing for its GPU.
fn hangs(call: &str, named: &str, reaches_gpus: bool) {
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault(&format!("hang {call}"));
    let started = Instant::now();
    let trace = Trace::on(&sim).words(WORDS);
    let ended = trace.script("nvsim work --gpu 0 --ms 30; exit 4").run();
    assert!(started.elapsed() < BOUND, "{named}: {:?}", started.elapsed());
    ended.exited(4).names("nvml-call-timeout", "driver call hangs");
    let unknown = ended.unknown("nvml-call-timeout");
    assert_eq!(unknown["call"], named);
    assert!(unknown["code"].is_null(), "a call that never returned has no code: {unknown}");
    assert_eq!(ended.report()["command"]["settlements"], serde_json::json!([]));
    assert_eq!(ended.report()["gpus"].as_array().unwrap().len(), usize::from(reaches_gpus));
    if reaches_gpus {
        assert_eq!(ended.gpu_ms("free_ms"), 0);
        assert_eq!(ended.gpu_ms("uncovered_ms"), ended.gpu_ms("period_ms"));
    }
}

#[test]
fn a_hanging_start_of_the_library_does_not_keep_the_trace() {
    if !crate::privilege::can_trace("a_hanging_start_of_the_library_does_not_keep_the_trace") {
        return;
    }
    hangs("nvmlInit*", "nvmlInit_v2", false);
}

#[test]
fn a_hanging_count_does_not_keep_the_trace() {
    if !crate::privilege::can_trace("a_hanging_count_does_not_keep_the_trace") {
        return;
    }
    hangs("nvmlDeviceGetCount*", "nvmlDeviceGetCount_v2", false);
}

#[test]
fn a_hanging_mode_does_not_keep_the_trace() {
    if !crate::privilege::can_trace("a_hanging_mode_does_not_keep_the_trace") {
        return;
    }
    hangs("nvmlDeviceGetAccountingMode", "nvmlDeviceGetAccountingMode", false);
}

#[test]
fn a_hanging_pid_list_does_not_keep_the_trace() {
    if !crate::privilege::can_trace("a_hanging_pid_list_does_not_keep_the_trace") {
        return;
    }
    hangs("nvmlDeviceGetAccountingPids", "nvmlDeviceGetAccountingPids", true);
}

#[test]
fn a_hanging_process_list_does_not_keep_the_trace() {
    if !crate::privilege::can_trace("a_hanging_process_list_does_not_keep_the_trace") {
        return;
    }
    let call = "nvmlDeviceGetComputeRunningProcesses_v3";
    hangs(call, call, true);
}

#[test]
fn a_row_that_hangs_in_the_middle_is_said_and_its_gpu_uncovered_from_then_on() {
    if !crate::privilege::can_trace(
        "a_row_that_hangs_in_the_middle_is_said_and_its_gpu_uncovered_from_then_on",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    sim.fault("hang nvmlDeviceGetAccountingStats* --gpu 0");
    let trace = Trace::on(&sim).words(WORDS);
    let ended = trace.script("nvsim work --gpu 0 --ms 400; nvsim work --gpu 1 --ms 30").run();
    let unknown = ended.exited(0).unknown("nvml-call-timeout");
    assert_eq!(unknown["call"], "nvmlDeviceGetAccountingStats_v2");
    let gpus = ended.report()["gpus"].as_array().unwrap();
    assert_eq!(unknown["gpu"], gpus[0]["gpu_uuid"]);
    // The other GPU is none the worse: its job is named.
    assert_eq!(ended.programs(), ["nvsim"]);
    assert_eq!(ended.report()["command"]["settlements"][0]["gpu_uuid"], gpus[1]["gpu_uuid"]);
    assert!(gpus[0]["uncovered_ms"].as_u64().unwrap() > 0, "{gpus:?}");
    // Watching gives 2 for the same reason.
    let watching = Trace::on(&sim).words(WORDS).words("--for 50ms").run();
    watching.exited(2).unknown("nvml-call-timeout");
}

#[test]
fn a_slow_call_that_returns_loses_nothing() {
    if !crate::privilege::can_trace("a_slow_call_that_returns_loses_nothing") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("delay nvmlDeviceGetAccountingPids --ms 150");
    let ended = Trace::on(&sim).script("nvsim work --gpu 0 --ms 30; exit 4").run();
    ended.exited(4);
    assert_eq!(ended.programs(), ["nvsim"]);
    let unknown = ended.report()["unknown"].to_string();
    assert!(!unknown.contains("nvml-call-timeout"), "{unknown}");
    let slowest = &ended.report()["gpus"][0]["reading"]["call_latency_us_max"];
    assert!(slowest.as_u64().unwrap() >= 150_000, "{slowest}");
}

#[test]
fn a_call_that_returns_after_its_deadline_is_a_gap_and_its_row_still_comes() {
    if !crate::privilege::can_trace(
        "a_call_that_returns_after_its_deadline_is_a_gap_and_its_row_still_comes",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("delay nvmlDeviceGetAccountingPids --ms 700 --after 2 --times 1");
    let trace = Trace::on(&sim).words("--call-deadline 200ms");
    let ended = trace.script("nvsim work --gpu 0 --ms 1500; exit 4").run();
    ended.exited(4).unknown("nvml-call-timeout");
    assert!(ended.gaps().contains(&"nvml-call-timeout"), "{:?}", ended.gaps());
    assert_eq!(ended.programs(), ["nvsim"]);
}
