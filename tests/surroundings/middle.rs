//! What goes wrong while the command runs.

use crate::support::Sim;
use crate::traced::Trace;

/// The call after whose answer a row was certainly seen open.
const ROW: &str = "nvmlDeviceGetAccountingStats_v2";
/// Waits until the simulated driver's state shows what this pattern matches.
fn until(pattern: &str) -> String {
    format!("until nvsim fault state | grep -q '{pattern}'; do sleep 0.02; done")
}

#[test]
fn a_gpu_lost_in_the_middle_is_said_and_its_open_row_is_not_priced() {
    if !crate::privilege::can_trace(
        "a_gpu_lost_in_the_middle_is_said_and_its_open_row_is_not_priced",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let script = format!(
        "nvsim work --gpu 0 --ms 20; nvsim fault after {ROW} gpu-lost on; \
         nvsim work --gpu 0 --ms 600; exit 6"
    );
    let ended = Trace::on(&sim).words("--settle-timeout 2s").script(&script).run();
    let unknown = ended.exited(6).unknown("gpu-lost");
    assert_eq!(unknown["code"], 15);
    assert!(ended.gpu_ms("uncovered_ms") > 0);
    let watching = Trace::on(&sim).words("--for 50ms").run();
    watching.exited(2).names("gpu-lost", "reset");
}

#[test]
fn a_mode_reset_in_the_middle_is_a_gap_that_is_uncovered_and_not_free() {
    if !crate::privilege::can_trace(
        "a_mode_reset_in_the_middle_is_a_gap_that_is_uncovered_and_not_free",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let script = format!(
        "nvsim fault after {ROW} reset; nvsim work --gpu 0 --ms 1000000 & job=$!; {}; \
         sleep 0.6; nvsim fault accounting on; nvsim work --gpu 0 --ms 700; kill $job; exit 6",
        until("\"accounting\":false")
    );
    let ended = Trace::on(&sim).script(&script).run();
    ended.exited(6);
    let causes = ended.gaps();
    let found = causes.iter().any(|cause| ["accounting-off", "epoch-broken"].contains(cause));
    assert!(found, "{causes:?}");
    // Rows that were thrown away held the GPU: that time is not called free.
    assert!(ended.gpu_ms("uncovered_ms") >= 500, "{}", ended.report()["gpus"]);
    // What ran after the reset is known again.
    assert_eq!(ended.programs(), ["nvsim"]);
}

#[test]
fn dead_rows_that_come_back_after_a_teardown_are_booked_once() {
    if !crate::privilege::can_trace("dead_rows_that_come_back_after_a_teardown_are_booked_once") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let script = "nvsim work --gpu 0 --ms 40; nvsim work --gpu 0 --ms 40; sleep 0.6; \
                  nvsim fault reset; sleep 0.6; nvsim fault accounting on; \
                  nvsim work --gpu 0 --ms 700";
    let ended = Trace::on(&sim).script(script).run();
    ended.exited(0);
    assert_eq!(ended.programs(), ["nvsim", "nvsim", "nvsim"]);
    let settlements = ended.report()["command"]["settlements"].as_array().unwrap();
    let ids: std::collections::BTreeSet<_> =
        settlements.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 3);
    assert!(settlements.iter().all(|one| one["dispute"].is_null()), "{settlements:?}");
}

#[test]
fn a_list_that_grows_or_shrinks_between_two_calls_neither_fails_nor_shows_phantoms() {
    if !crate::privilege::can_trace(
        "a_list_that_grows_or_shrinks_between_two_calls_neither_fails_nor_shows_phantoms",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    for change in ["grow 3", "shrink 2"] {
        let script = format!(
            "nvsim work --gpu 0 --ms 30; nvsim fault list-change {change}; \
             nvsim work --gpu 0 --ms 600"
        );
        let ended = Trace::on(&sim).script(&script).run();
        ended.exited(0);
        let rows = ended.report()["command"]["settlements"].as_array().unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| row["program"] == "nvsim"), "{rows:?}");
        let report = ended.report().to_string();
        assert!(!report.contains("\"pid\":0,"), "a phantom pid: {report}");
        assert!(!report.contains("\"pid\":4294967295"), "{report}");
        // Made-up entries would stay for the next round.
        sim.fault("accounting off");
        sim.fault("accounting on");
    }
}
