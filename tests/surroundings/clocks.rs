//! A wall clock that is stepped while a GPU is held.

use std::fs;
use std::path::Path;

use crate::support::Sim;
use crate::traced::Trace;

/// One hour.
const STEP_US: i64 = 3_600_000_000;

fn shift(file: &Path, us: i64) {
    let draft = file.with_extension("draft");
    fs::write(&draft, us.to_string()).unwrap();
    fs::rename(&draft, file).unwrap();
}

/// Server and product read one shifted clock; the command steps it while its job holds the GPU.
fn stepped(us: i64) {
    let folder = tempfile::tempdir().unwrap();
    let clock = folder.path().join("clock");
    shift(&clock, 0);
    let sim = Sim::start_with(&["--gpus", "1"], &[("GPU_LEDGER_TEST_CLOCK", clock.as_os_str())]);
    let script = format!(
        "nvsim work --gpu 0 --ms 30; nvsim work --gpu 0 --ms 1200 & job=$!; \
         until nvsim fault state | grep -q '\"running\":true'; do sleep 0.02; done; sleep 0.5; \
         echo {us} > \"$CLOCK.next\"; mv \"$CLOCK.next\" \"$CLOCK\"; wait $job; exit 6"
    );
    let trace = Trace::on(&sim).env("GPU_LEDGER_TEST_CLOCK", &clock).env("CLOCK", &clock);
    let ended = trace.script(&script).run();
    ended.exited(6);
    assert_eq!(ended.report()["test_clock"], true);
    let rows = ended.report()["command"]["settlements"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    let of = |dispute: &serde_json::Value| {
        rows.iter().find(|row| row["dispute"] == *dispute).unwrap_or_else(|| panic!("{rows:?}"))
    };
    of(&serde_json::Value::Null);
    let disputed = of(&"clock-step".into());
    assert_eq!(disputed["program"], "nvsim", "{disputed}");
    assert_eq!(disputed["basis"], "exec", "{disputed}");
    // Raw as the driver gave it, on a line of its own, and in no account's priced total.
    let lines = ended.report()["disputed"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["reason"], "clock-step");
    assert_eq!(lines[0]["count"], 1);
    assert_eq!(lines[0]["account"], "nvsim");
    assert_eq!(lines[0]["raw_ms"], disputed["held_ms"]);
    let accounts = ended.report()["command"]["accounts"].as_array().unwrap();
    let priced: u64 = accounts.iter().map(|one| one["span_ms_total"].as_u64().unwrap()).sum();
    assert!(priced < 1_000, "{accounts:?}");
    // Every moment has one place on the boot clock: the step hides none of them.
    assert_eq!(ended.gpu_ms("uncovered_ms"), 0, "{}", ended.report()["gpus"]);
    assert_eq!(ended.gaps(), Vec::<&str>::new());
    let (held_ms, period_ms) = (ended.gpu_ms("alone_ms"), ended.gpu_ms("period_ms"));
    assert!(held_ms >= 1_200 && period_ms < 3_600_000, "{held_ms} {period_ms}");
    if us > 0 {
        assert!(disputed["held_ms"].as_u64().unwrap() >= 3_600_000, "{disputed}");
    }
    let people = Trace::on(&sim).env("GPU_LEDGER_TEST_CLOCK", &clock).output(None);
    people.script("true").run().says("TEST CLOCK");
}

#[test]
fn a_row_whose_start_the_clock_showed_twice_is_nobodys_time_alone() {
    if !crate::privilege::can_trace(
        "a_row_whose_start_the_clock_showed_twice_is_nobodys_time_alone",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let clock = folder.path().join("clock");
    shift(&clock, 0);
    let sim = Sim::start_with(&["--gpus", "1"], &[("GPU_LEDGER_TEST_CLOCK", clock.as_os_str())]);
    // The job begins after the step, at a moment that the clock showed before the trace as well.
    let script = "sleep 0.5; echo -5000000 > \"$CLOCK.next\"; mv \"$CLOCK.next\" \"$CLOCK\"; \
                  sleep 0.5; nvsim work --gpu 0 --ms 300";
    let trace = Trace::on(&sim).env("GPU_LEDGER_TEST_CLOCK", &clock).env("CLOCK", &clock);
    let ended = trace.script(script).run();
    let report = ended.exited(0).report();
    assert_eq!(report["disputed"][0]["reason"], "clock-step", "{report}");
    let (alone, shared) = (ended.gpu_ms("alone_ms"), ended.gpu_ms("shared_ms"));
    assert_eq!((alone, shared), (0, 0), "nobody can say when it was: {report}");
    assert!(ended.gpu_ms("uncovered_ms") >= 300, "{report}");
}

#[test]
fn a_step_forward_within_a_span_is_disputed_and_kept_in_the_total() {
    if !crate::privilege::can_trace(
        "a_step_forward_within_a_span_is_disputed_and_kept_in_the_total",
    ) {
        return;
    }
    stepped(STEP_US);
}

#[test]
fn a_step_back_within_a_span_is_disputed_and_kept_in_the_total() {
    if !crate::privilege::can_trace("a_step_back_within_a_span_is_disputed_and_kept_in_the_total") {
        return;
    }
    stepped(-STEP_US);
}
