//! A driver that misbehaves while it is recorded.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::recorded::{batches, json, recorder, residency, rows, runs, text, verified};
use crate::support::{Sim, poll};

/// What `verify` found the data to be void for.
pub(crate) fn reasons(found: &serde_json::Value) -> Vec<&str> {
    let reasons = found["void_reasons"].as_array().unwrap();
    reasons.iter().map(|void| void["reason"].as_str().unwrap()).collect()
}

/// Starts a recording and waits until its window has begun.
pub(crate) fn begun(sim: &Sim, words: &[&str]) -> std::process::Child {
    let child = recorder(sim, words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    poll("the window begins", || {
        let batch = std::fs::read_dir(runs(sim)).ok()?.next()?.ok()?.path();
        let events = std::fs::read_to_string(batch.join("iterations/0001/events.jsonl")).ok()?;
        events.contains("\"cpu\"").then_some(())
    });
    child
}

#[test]
fn a_stall_is_followed_at_once_and_counted() {
    let sim = Sim::start(&["--gpus", "1"]);
    let child = begun(&sim, &["--duration", "4s"]);
    sim.fault("delay nvmlDeviceGetPowerUsage --ms 400");
    std::thread::sleep(Duration::from_secs(1));
    sim.fault("heal");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let batch = batches(&sim).pop().unwrap();
    let samples = rows(&batch, "0001", "samples.jsonl");
    let recoveries = samples.iter().filter(|sample| sample["recovery"] == true).count();
    assert!(recoveries > 0, "{samples:?}");
    let summary = json(&batch.join("summary.json"));
    assert_eq!(summary["gpu_deadline_recovery_count"], recoveries);
    assert_eq!(verified(&batch)["as_recorded"], true);
    // None of them waited for the grid: each began where the one before it had ended.
    for pair in samples.windows(2).filter(|pair| pair[1]["recovery"] == true) {
        let landed = pair[0]["landed_at_ns"].as_u64().unwrap();
        let begin = pair[1]["begin_ns"].as_u64().unwrap();
        assert!(begin - landed < 150_000_000, "{begin} {landed}");
    }
}

#[test]
fn a_gpu_that_is_lost_ends_its_window_and_voids_the_batch() {
    let sim = Sim::start(&["--gpus", "1"]);
    let child = begun(&sim, &["--duration", "1h"]);
    sim.fault("gpu-lost on");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stdout));
    let found = verified(&batches(&sim).pop().unwrap());
    assert!(reasons(&found).contains(&"device_lost"), "{found}");
}

#[test]
fn a_call_that_never_returns_does_not_keep_the_recorder() {
    let sim = Sim::start(&["--gpus", "1"]);
    let duration = Duration::from_secs(9);
    let child = begun(&sim, &["--duration", "9s"]);
    let began = Instant::now();
    sim.fault("hang nvmlDeviceGetMemoryInfo_v2");
    let output = child.wait_with_output().unwrap();
    // Two seconds after its end it is given up; the rest is for a slow machine.
    assert!(began.elapsed() < duration + Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stdout));
    let batch = batches(&sim).pop().unwrap();
    let found = verified(&batch);
    let reasons = reasons(&found);
    assert!(reasons.contains(&"probe_stuck") && reasons.contains(&"points_missing"), "{found}");
    let events = rows(&batch, "0001", "events.jsonl");
    assert!(events.iter().any(|event| event["event"] == "stuck"), "{events:?}");
    // What is void is told, and computed with by nothing.
    let batch = batch.to_str().unwrap();
    let shown = residency(&["show", batch]);
    assert!(text(&shown.stdout).contains("VOID"), "{}", text(&shown.stdout));
    let compared = residency(&["compare", batch, batch]);
    assert_eq!(compared.status.code(), Some(5), "{}", text(&compared.stderr));
    let methods = residency(&["methods", batch]);
    assert_eq!((methods.status.code(), methods.stdout.len()), (Some(5), 0));
}

/// From where a window of five seconds is seen to have begun, which takes up to two, to its last part: what happens
/// then leaves every point young enough.
const LAST_PART: Duration = Duration::from_millis(2_500);

#[test]
fn a_call_that_hangs_in_the_last_part_is_said_although_every_point_is_young() {
    let sim = Sim::start(&["--gpus", "1"]);
    let child = begun(&sim, &["--duration", "5s", "--max-age", "10s"]);
    std::thread::sleep(LAST_PART);
    sim.fault("hang nvmlDeviceGetMemoryInfo_v2");
    let output = child.wait_with_output().unwrap();
    // In flight for less than --hard-timeout, and so no reason; the age between points is another.
    let said = text(&output.stdout);
    let batch = batches(&sim).pop().unwrap();
    let found = verified(&batch);
    assert!(!reasons(&found).contains(&"probe_stuck"), "{found}");
    let flight = &json(&batch.join("iterations/0001/iteration.json"))["probe_in_flight_at_end_ms"];
    assert!(flight.as_f64().is_some_and(|ms| ms > 1_000.0), "{flight}");
    let batch = batch.to_str().unwrap();
    let verify = text(&residency(&["verify", batch]).stdout);
    let show = text(&residency(&["show", batch]).stdout);
    for page in [said, verify, show] {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains("when its window was given up, and never came back"), "{page}");
    }
}

#[test]
fn a_driver_that_dies_in_the_last_part_is_a_lost_device() {
    let mut sim = Sim::start(&["--gpus", "1"]);
    let child = begun(&sim, &["--duration", "5s", "--max-age", "10s"]);
    std::thread::sleep(LAST_PART);
    let mut server = sim.server.take().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    let found = verified(&batches(&sim).pop().unwrap());
    assert_eq!(output.status.code(), Some(5), "{found}");
    assert_eq!(reasons(&found), ["device_lost"], "{found}");
}

#[test]
fn a_driver_that_is_unloaded_meanwhile_is_a_lost_device() {
    let sim = Sim::start(&["--gpus", "1"]);
    let child = begun(&sim, &["--duration", "30s"]);
    sim.fault("code nvmlDeviceGetMemoryInfo_v2 --code 9");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stdout));
    let found = verified(&batches(&sim).pop().unwrap());
    assert!(reasons(&found).contains(&"device_lost"), "{found}");
}

#[test]
fn a_recorder_that_is_killed_leaves_a_batch_without_an_end() {
    let sim = Sim::start(&["--gpus", "1"]);
    let mut child = begun(&sim, &["--duration", "1h"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let batch = batches(&sim).pop().unwrap();
    assert!(!batch.join("summary.json").exists());
    let found = verified(&batch);
    assert_eq!(found["data_verdict"], "void");
    assert!(reasons(&found).contains(&"incomplete"), "{found}");
    // The next one does not take its place.
    let again = recorder(&sim, &["--duration", "1s"]).output().unwrap();
    assert_eq!(again.status.code(), Some(3), "{}", text(&again.stderr));
    assert_eq!(batches(&sim).len(), 2);
}

#[test]
fn without_a_driver_the_backend_verdict_fails_and_nothing_is_made() {
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("driver-not-loaded on");
    let output = recorder(&sim, &["--duration", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stderr);
    assert!(said.contains("driver-not-loaded") && said.contains("doctor"), "{said}");
    assert!(!runs(&sim).exists());
}

#[test]
fn a_field_that_fails_is_null_and_a_sample_without_memory_does_not_land() {
    let sim = Sim::start(&["--gpus", "1"]);
    let child = begun(&sim, &["--duration", "3s"]);
    sim.fault("code nvmlDeviceGetPowerUsage --code 999");
    sim.fault("code nvmlDeviceGetMemoryInfo_v2 --code 999");
    std::thread::sleep(Duration::from_millis(300));
    sim.fault("heal");
    let output = child.wait_with_output().unwrap();
    let batch = batches(&sim).pop().unwrap();
    let samples = rows(&batch, "0001", "samples.jsonl");
    let failed: Vec<_> =
        samples.iter().filter(|sample| sample["fields"]["memory"]["status"] != "ok").collect();
    assert!(!failed.is_empty(), "{}", text(&output.stdout));
    for sample in failed {
        let memory = &sample["fields"]["memory"];
        assert_eq!(
            (&memory["status"], &memory["code"]),
            (&"nvml-unknown-error".into(), &999.into())
        );
        assert_eq!((&sample["ok"], sample["landed_at_ns"].is_null()), (&false.into(), true));
    }
    for field in samples.iter().flat_map(|sample| sample["fields"].as_object().unwrap().values()) {
        assert_eq!(field["status"] == "ok", !field["value"].is_null(), "{field}");
    }
    let iteration = json(&batch.join("iterations/0001/iteration.json"));
    assert!(iteration["gpu_query_error_count"]["memory:nvml-unknown-error/999"].as_u64() > Some(0));
    assert_eq!(verified(&batch)["as_recorded"], true);
}
