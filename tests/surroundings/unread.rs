//! GPUs that cannot be read to the end, or whose rows cannot be found: each blind spot is a gap with its
//! cause, and what nobody could count is not a number.

use serde_json::Value;

use crate::support::Sim;
use crate::traced::{Ended, Trace};

/// The gaps of one of the report's GPUs.
fn gaps_of(ended: &Ended, gpu: usize) -> Vec<&Value> {
    let report = ended.report();
    let uuid = &report["gpus"][gpu]["gpu_uuid"];
    let gaps = report["coverage"]["gaps"].as_array().unwrap().iter();
    gaps.filter(|gap| gap["gpu"] == *uuid).collect()
}

/// The first of two GPUs is read, then no more until the end; the other is none the worse.
fn ends_unseen(fault: &str, cause: &str, reason: &str) {
    let sim = Sim::start(&["--gpus", "2"]);
    let script = format!(
        "nvsim work --gpu 0 --ms 20; nvsim work --gpu 1 --ms 20; nvsim fault {fault} --gpu 0; \
         nvsim work --gpu 1 --ms 700; exit 5"
    );
    let trace = Trace::on(&sim).words("--call-deadline 300ms --settle-timeout 1s");
    let ended = trace.script(&script).run();
    ended.exited(5).unknown(reason);
    let (lost, well) = (&ended.report()["gpus"][0], &ended.report()["gpus"][1]);
    assert!(lost["uncovered_ms"].as_u64().unwrap() >= 300, "{lost}");
    assert_eq!(lost["possibly_lost"], Value::Null);
    let gaps = gaps_of(&ended, 0);
    assert!(!gaps.is_empty(), "{}", ended.report()["coverage"]);
    for gap in gaps {
        assert_eq!((&gap["cause"], &gap["size"]), (&cause.into(), &Value::Null), "{gap}");
        assert!(gap["from"].as_str() < gap["to"].as_str(), "{gap}");
    }
    assert_eq!((&well["uncovered_ms"], gaps_of(&ended, 1)), (&0.into(), vec![]));
}

#[test]
fn a_gpu_that_is_lost_to_the_end_has_a_gap_to_the_end() {
    if !crate::privilege::can_trace("a_gpu_that_is_lost_to_the_end_has_a_gap_to_the_end") {
        return;
    }
    ends_unseen("gpu-lost on", "epoch-broken", "gpu-lost");
}

#[test]
fn a_call_that_hangs_to_the_end_has_a_gap_to_the_end() {
    if !crate::privilege::can_trace("a_call_that_hangs_to_the_end_has_a_gap_to_the_end") {
        return;
    }
    ends_unseen("hang nvmlDeviceGetAccountingPids", "nvml-call-timeout", "nvml-call-timeout");
}

#[test]
fn an_error_code_to_the_end_has_a_gap_to_the_end() {
    if !crate::privilege::can_trace("an_error_code_to_the_end_has_a_gap_to_the_end") {
        return;
    }
    let list = "code nvmlDeviceGetAccountingPids --code";
    ends_unseen(&format!("{list} 999"), "rows-possibly-evicted", "nvml-unknown-error");
    let reason = "accounting-not-supported-or-disabled";
    ends_unseen(&format!("{list} 3"), "accounting-off", reason);
    // The list comes, and a row on it cannot be read.
    let row = "code nvmlDeviceGetAccountingStats* --code 17";
    ends_unseen(row, "rows-possibly-evicted", "os-error-or-cgroup-denied");
}

/// How long a moment of the report is after another.
fn ms_between(from: &Value, to: &Value) -> u64 {
    let at = |moment: &Value| -> jiff::Timestamp { moment.as_str().unwrap().parse().unwrap() };
    u64::try_from(at(to).duration_since(at(from)).as_millis()).unwrap()
}

/// Neither of two GPUs can be read from the middle to the end: the period goes on all the same, and what
/// is left of it is uncovered and in a gap of each.
fn all_end_unseen(sim: &Sim, ending: &str, cause: &str) {
    let script = format!(
        "nvsim work --gpu 0 --ms 20; nvsim work --gpu 0 --ms 600; {ending}; sleep 1.2; exit 5"
    );
    let trace = Trace::on(sim).words("--call-deadline 300ms --settle-timeout 1s");
    let ended = trace.script(&script).run();
    ended.exited(5);
    let coverage = &ended.report()["coverage"];
    for gpu in 0..2 {
        let line = &ended.report()["gpus"][gpu];
        assert!(line["uncovered_ms"].as_u64().unwrap() >= 1_100, "{line}");
        assert!(line["period_ms"].as_u64().unwrap() >= 1_700, "{line}");
        assert_eq!(line["possibly_lost"], Value::Null);
        let gaps = gaps_of(&ended, gpu);
        assert!(gaps.iter().any(|gap| gap["cause"] == cause), "{gaps:?}");
        let last = gaps.iter().map(|gap| &gap["to"]).max_by_key(|to| to.as_str()).unwrap();
        assert_eq!(ms_between(last, &coverage["end"]), 0, "{gaps:?} of {coverage}");
    }
}

#[test]
fn where_every_gpu_falls_silent_the_period_reaches_to_the_end_and_each_has_a_gap() {
    if !crate::privilege::can_trace(
        "where_every_gpu_falls_silent_the_period_reaches_to_the_end_and_each_has_a_gap",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let list = "nvsim fault code nvmlDeviceGetAccountingPids --code 999";
    all_end_unseen(&sim, list, "rows-possibly-evicted");
    sim.fault("heal");
    all_end_unseen(&sim, "nvsim fault hang nvmlDeviceGetAccountingPids", "nvml-call-timeout");
}

#[test]
fn a_driver_that_dies_in_the_middle_leaves_every_gpu_uncovered_to_the_end() {
    if !crate::privilege::can_trace(
        "a_driver_that_dies_in_the_middle_leaves_every_gpu_uncovered_to_the_end",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let script = format!(
        "nvsim work --gpu 0 --ms 20; nvsim work --gpu 0 --ms 600; kill -9 {}; sleep 1.2; exit 5",
        sim.server.as_ref().unwrap().id()
    );
    let ended = Trace::on(&sim).words("--settle-timeout 1s").script(&script).run();
    ended.exited(5);
    for gpu in 0..2 {
        let line = &ended.report()["gpus"][gpu];
        assert!(line["uncovered_ms"].as_u64().unwrap() >= 1_100, "{line}");
        assert!(!gaps_of(&ended, gpu).is_empty(), "{line}");
    }
}

#[test]
fn a_gpu_that_can_be_read_only_later_has_a_gap_at_its_beginning() {
    if !crate::privilege::can_trace("a_gpu_that_can_be_read_only_later_has_a_gap_at_its_beginning")
    {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("code nvmlDeviceGetAccountingPids --code 27");
    let script = "nvsim work --gpu 0 --ms 300; nvsim fault heal; nvsim work --gpu 0 --ms 500";
    let ended = Trace::on(&sim).script(script).run();
    ended.exited(0);
    assert!(ended.gpu_ms("uncovered_ms") >= 300, "{}", ended.report()["gpus"]);
    let gaps = gaps_of(&ended, 0);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let (cause, size) = (&gaps[0]["cause"], &gaps[0]["size"]);
    assert_eq!((cause, size), (&"epoch-broken".into(), &Value::Null));
    assert_eq!(ended.report()["gpus"][0]["possibly_lost"], Value::Null);
}

#[test]
fn rows_that_are_never_found_are_counted_once_however_often_they_were_asked_for() {
    if !crate::privilege::can_trace(
        "rows_that_are_never_found_are_counted_once_however_often_they_were_asked_for",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // Three jobs, and many reads in which none of their rows is found.
    let script = "nvsim fault code 'nvmlDeviceGetAccountingStats*' --code 6; \
                  for job in 1 2 3; do nvsim work --gpu 0 --ms 700; done; exit 5";
    let ended = Trace::on(&sim).words("--settle-timeout 1s").script(script).run();
    ended.exited(5).unknown("accounting-mode-reset");
    let reads = &ended.report()["gpus"][0]["reading"]["reads"];
    assert!(reads.as_u64().unwrap() > 4, "{reads}");
    let gaps = gaps_of(&ended, 0);
    let sizes: Vec<_> = gaps.iter().map(|gap| (&gap["cause"], &gap["size"])).collect();
    assert_eq!(sizes, [(&"epoch-broken".into(), &3.into())], "{gaps:?}");
}

#[test]
fn rows_that_are_found_again_are_settled_and_not_lost() {
    if !crate::privilege::can_trace("rows_that_are_found_again_are_settled_and_not_lost") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let script = "nvsim fault code 'nvmlDeviceGetAccountingStats*' --code 6; \
                  nvsim work --gpu 0 --ms 700; nvsim fault heal; nvsim work --gpu 0 --ms 500";
    let ended = Trace::on(&sim).script(script).run();
    assert_eq!(ended.exited(0).programs(), ["nvsim", "nvsim"]);
    assert_eq!(gaps_of(&ended, 0), Vec::<&Value>::new());
}

#[test]
fn rows_cleared_before_any_was_seen_are_not_counted_as_none() {
    if !crate::privilege::can_trace("rows_cleared_before_any_was_seen_are_not_counted_as_none") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // The row comes and goes between two reads: no list is had while it is there.
    let script = "nvsim fault code nvmlDeviceGetAccountingPids --code 999; \
                  nvsim work --gpu 0 --ms 30; nvsim fault clear; nvsim fault heal; sleep 0.5";
    for words in ["--ring-size 4MiB", "--no-device-touch"] {
        let ended = Trace::on(&sim).words(words).script(script).run();
        assert_eq!(ended.exited(0).programs(), Vec::<&str>::new());
        let lost = &ended.report()["gpus"][0]["possibly_lost"];
        assert_eq!(*lost, Value::Null, "{words}: nobody saw whether a row was lost");
    }
}

#[test]
fn an_idle_gpu_is_free_where_opens_were_watched_and_uncovered_where_nobody_could_say() {
    if !crate::privilege::can_trace(
        "an_idle_gpu_is_free_where_opens_were_watched_and_uncovered_where_nobody_could_say",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let script = "nvsim work --gpu 0 --ms 600";
    let watched = Trace::on(&sim).script(script).run();
    let idle = &watched.exited(0).report()["gpus"][1];
    assert_eq!((&idle["uncovered_ms"], &idle["free_ms"]), (&0.into(), &idle["period_ms"]));
    let unwatched = Trace::on(&sim).words("--no-device-touch").script(script).run();
    let uuid = &unwatched.exited(0).unknown("empty-accounted-list")["gpu"];
    let (used, idle) = (&unwatched.report()["gpus"][0], &unwatched.report()["gpus"][1]);
    assert_eq!(*uuid, idle["gpu_uuid"]);
    assert_eq!((&idle["free_ms"], &idle["uncovered_ms"]), (&0.into(), &idle["period_ms"]));
    assert_eq!(idle["possibly_lost"], Value::Null);
    assert!(!gaps_of(&unwatched, 1).is_empty());
    // Where rows are listed the store vouches for itself.
    assert_eq!(used["uncovered_ms"], 0, "{used}");
}
