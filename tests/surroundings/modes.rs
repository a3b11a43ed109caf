//! Drivers that answer and keep no rows: accounting off, MIG, vGPU hosts, and setting the mode.

use crate::support::Sim;
use crate::traced::{Ended, Trace};

const JOB: &str = "nvsim work --gpu 0 --ms 30";

/// The job ran, and nothing says that the GPU was free while nobody kept rows.
fn nothing_is_free(ended: &Ended) {
    ended.exited(0);
    assert_eq!(ended.report()["command"]["settlements"], serde_json::json!([]));
    assert_eq!(ended.gpu_ms("free_ms"), 0);
    assert_eq!(ended.gpu_ms("uncovered_ms"), ended.gpu_ms("period_ms"));
    assert!(ended.gpu_ms("period_ms") > 0);
    assert!(ended.report()["gpus"][0]["dead_rows_seen_max"].is_null());
}

#[test]
fn accounting_that_is_off_is_said_with_its_remedy_and_left_off() {
    if !crate::privilege::can_trace("accounting_that_is_off_is_said_with_its_remedy_and_left_off") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    for behaviour in ["observed", "documented"] {
        sim.fault(&format!("disabled {behaviour}"));
        let ended = Trace::on(&sim).script(JOB).run();
        let reason = "accounting-mode-disabled";
        ended.names(reason, "--enable-accounting").unknown(reason);
        nothing_is_free(&ended);
    }
    // The traces above changed nothing: whoever asks for more is refused for the same reason.
    let strict = Trace::on(&sim).words("--strict").script("echo ran").run();
    strict.exited(125).says("not started: --strict").says("accounting-mode-disabled");
    assert_eq!(strict.out, "");
    let watching = Trace::on(&sim).words("--for 100ms").run();
    watching.exited(2).unknown("accounting-mode-disabled");
}

#[test]
fn accounting_is_enabled_on_request_and_then_everything_is_known() {
    if !crate::privilege::can_trace("accounting_is_enabled_on_request_and_then_everything_is_known")
    {
        return;
    }
    let sim = Sim::start(&["--gpus", "2", "--accounting", "off"]);
    let ended = Trace::on(&sim).words("--enable-accounting --strict").script(JOB).run();
    ended.exited(0);
    assert_eq!(ended.programs(), ["nvsim"]);
    assert!(!ended.err.contains("accounting-mode-disabled"), "{}", ended.err);
    let after = Trace::on(&sim).script(JOB).run();
    assert_eq!(after.exited(0).programs(), ["nvsim"], "it did not stay on");
}

#[test]
fn whoever_may_not_enable_accounting_is_told_so() {
    if !crate::privilege::can_trace("whoever_may_not_enable_accounting_is_told_so") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    sim.fault("not-root on");
    let ended = Trace::on(&sim).words("--enable-accounting").script(JOB).run();
    let unknown = ended.names("no-permission", "root").unknown("no-permission");
    assert_eq!(unknown["call"], "nvmlDeviceSetAccountingMode");
    assert_eq!(unknown["code"], 4);
    ended.unknown("accounting-mode-disabled");
    nothing_is_free(&ended);
}

#[test]
fn mig_and_vgpu_hosts_are_told_apart_from_accounting_that_is_off() {
    if !crate::privilege::can_trace("mig_and_vgpu_hosts_are_told_apart_from_accounting_that_is_off")
    {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let expected = [
        ("mig", "accounting-unavailable-mig", "MIG"),
        ("vgpu-host", "accounting-unavailable-vgpu-host", "guests"),
    ];
    for (fault, reason, remedy) in expected {
        sim.fault(&format!("{fault} on"));
        let ended = Trace::on(&sim).script(JOB).run();
        ended.names(reason, remedy).unknown(reason);
        nothing_is_free(&ended);
        let strict = Trace::on(&sim).words("--strict").script("echo ran").run();
        strict.exited(125).says(reason);
        assert_eq!(strict.out, "");
        sim.fault(&format!("{fault} off"));
    }
}

#[test]
fn rows_that_cannot_come_are_not_waited_for() {
    if !crate::privilege::can_trace("rows_that_cannot_come_are_not_waited_for") {
        return;
    }
    // The longest waiting of all: a run that waits for it does not end within the test's patience.
    for fault in ["accounting off", "gpu-lost on --gpu 0", "reset", "mig on"] {
        let sim = Sim::start(&["--gpus", "2"]);
        let script = format!(
            "{JOB}; nvsim work --gpu 0 --ms 600 & sleep 0.3; nvsim fault {fault}; wait; exit 5"
        );
        let ended = Trace::on(&sim).words("--settle-timeout 1h").script(&script).run();
        ended.exited(5);
        assert!(ended.gpu_ms("uncovered_ms") > 0, "{fault}: {}", ended.report()["gpus"]);
    }
}

#[test]
fn a_mode_that_is_neither_on_nor_off_is_told_with_its_value() {
    if !crate::privilege::can_trace("a_mode_that_is_neither_on_nor_off_is_told_with_its_value") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("odd-mode on");
    let ended = Trace::on(&sim).script(JOB).run();
    ended.unknown("accounting-mode-unexpected:7");
    nothing_is_free(&ended);
}

#[test]
fn a_peak_that_is_not_known_says_why() {
    if !crate::privilege::can_trace("a_peak_that_is_not_known_says_why") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let ended = Trace::on(&sim).script("nvsim work --gpu 0 --ms 30 --mem-mib 0").run();
    let why = ended.exited(0).unknown("max-memory-zero");
    assert_eq!(
        (&why["call"], &why["evidence"]),
        (&"nvmlDeviceGetAccountingStats".into(), &true.into())
    );
    assert!(ended.report()["command"]["settlements"][0]["max_memory_bytes"].is_null());
}
