//! Every return code of every accounting call has its word, and libraries too old for a call.

use std::fmt::Write as _;

use crate::support::Sim;
use crate::traced::{Ended, Trace, asked};

/// 1 to 30, two that no header names, and the catch-all.
fn codes() -> Vec<u32> {
    (1..=30).chain([77, 999]).collect()
}

/// What the code of a call that asks about accounting means.
fn word(code: u32) -> String {
    let word = match code {
        1 => "nvml-uninitialized",
        2 => "nvml-invalid-argument",
        3 => "accounting-not-supported-or-disabled",
        4 => "no-permission",
        6 => "row-vanished",
        7 => "pid-list-raced",
        9 => "driver-not-loaded",
        12 => "nvml-library-not-found",
        13 => "nvml-function-missing",
        15 => "gpu-lost",
        16 => "gpu-reset-required",
        17 => "os-error-or-cgroup-denied",
        18 => "driver-library-version-mismatch",
        20 | 23 => "driver-out-of-resources",
        25 => "nvml-struct-version-mismatch",
        26 => "nvml-deprecated",
        27 => "driver-not-ready",
        28 => "no-gpu-found",
        29 => "invalid-state",
        999 => "nvml-unknown-error",
        other => return format!("nvml-unmapped-code:{other}"),
    };
    word.to_owned()
}

/// One GPU per code, which answers `call` with it.
fn every_code(call: &str) -> Sim {
    let count = codes().len().to_string();
    let sim = Sim::start(&["--gpus", &count]);
    for (gpu, code) in codes().iter().enumerate() {
        sim.fault(&format!("code {call} --gpu {gpu} --code {code}"));
    }
    sim
}

/// What the report says of each code, beside what it should.
fn compare(ended: &Ended, calls: &[&str], expected: impl Fn(u32) -> String) {
    let gpus = ended.report()["gpus"].as_array().unwrap();
    let unknown = ended.report()["unknown"].as_array().unwrap();
    let mut wrong = String::new();
    for (gpu, code) in gpus.iter().zip(codes()) {
        let of_gpu: Vec<_> = unknown
            .iter()
            .filter(|one| one["gpu"] == gpu["gpu_uuid"])
            .filter(|one| calls.iter().any(|call| one["call"] == *call))
            .collect();
        let reason = expected(code);
        if !of_gpu.iter().any(|one| one["reason"] == reason && one["code"] == code) {
            writeln!(wrong, "{code}: {reason} expected, {of_gpu:?} said").unwrap();
        }
    }
    assert_eq!(gpus.len(), codes().len());
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_code_of_the_mode_has_its_word_and_nothing_is_called_free() {
    if !crate::privilege::can_trace(
        "every_code_of_the_mode_has_its_word_and_nothing_is_called_free",
    ) {
        return;
    }
    let sim = every_code("nvmlDeviceGetAccountingMode");
    let ended = Trace::on(&sim).run_by_nobody_with("").words("--for 10ms").run();
    compare(ended.exited(2), &["nvmlDeviceGetAccountingMode"], |code| match code {
        3 => "accounting-not-supported".to_owned(),
        6 => "nvml-unmapped-code:6".to_owned(),
        code => word(code),
    });
    nothing_is_free(&ended);
}

#[test]
fn every_code_of_the_pid_list_has_its_word_and_nothing_is_called_free() {
    if !crate::privilege::can_trace(
        "every_code_of_the_pid_list_has_its_word_and_nothing_is_called_free",
    ) {
        return;
    }
    let sim = every_code("nvmlDeviceGetAccountingPids");
    let ended = Trace::on(&sim).run_by_nobody_with("").words("--for 10ms").run();
    compare(ended.exited(2), &["nvmlDeviceGetAccountingPids"], word);
    nothing_is_free(&ended);
}

fn nothing_is_free(ended: &Ended) {
    for gpu in ended.report()["gpus"].as_array().unwrap() {
        assert_eq!(gpu["free_ms"], 0, "{gpu}");
        assert_eq!(gpu["uncovered_ms"], gpu["period_ms"], "{gpu}");
    }
}

#[test]
fn every_code_of_a_row_has_its_word_and_no_row_is_made_up() {
    if !crate::privilege::can_trace("every_code_of_a_row_has_its_word_and_no_row_is_made_up") {
        return;
    }
    // A pattern, as the older call is asked where the newer one answers 13, 25 or 26.
    let sim = every_code("nvmlDeviceGetAccountingStats*");
    let mut jobs = Vec::new();
    for gpu in 0..codes().len() {
        jobs.push(sim.work(&format!("--gpu {gpu} --ms 1000000")));
    }
    crate::support::poll("every job holds its GPU", || {
        let state: serde_json::Value = serde_json::from_str(&asked(&sim, "state")).unwrap();
        let holds =
            |gpu: &serde_json::Value| !gpu["accounting_pids"].as_array().unwrap().is_empty();
        state.as_array().unwrap().iter().all(holds).then_some(())
    });
    let ended = Trace::on(&sim).run_by_nobody_with("").words("--for 10ms").run();
    ended.exited(2);
    let calls = ["nvmlDeviceGetAccountingStats_v2", "nvmlDeviceGetAccountingStats"];
    let unknown = ended.report()["unknown"].as_array().unwrap();
    let gpus = ended.report()["gpus"].as_array().unwrap();
    let mut wrong = String::new();
    for (gpu, code) in gpus.iter().zip(codes()) {
        let mine: Vec<_> = unknown.iter().filter(|one| one["gpu"] == gpu["gpu_uuid"]).collect();
        // Not found for every listed row means that the store was reset, whatever the code.
        let reason = if code == 6 { "accounting-mode-reset".to_owned() } else { word(code) };
        let said = mine.iter().any(|one| {
            let call = code == 6 || calls.iter().any(|call| one["call"] == *call);
            one["reason"] == reason && call && (code == 6 || one["code"] == code)
        });
        if !said {
            writeln!(wrong, "{code}: {reason} expected, {mine:?} said").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(ended.report()["host"]["settlements"], serde_json::json!([]));
    for open in ended.report()["open"].as_array().unwrap() {
        assert!(open["start_time_us"].is_null() && open["accrued_ms"].is_null(), "{open}");
    }
}

#[test]
fn older_libraries_serve_what_they_have() {
    if !crate::privilege::can_trace("older_libraries_serve_what_they_have") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let lacking = [
        "nvmlDeviceGetAccountingStats_v2",
        "nvmlDeviceGetAccountingStats_v2,nvmlDeviceGetComputeRunningProcesses_v3,\
         nvmlDeviceGetGraphicsRunningProcesses_v3,nvmlDeviceGetMPSComputeRunningProcesses_v3",
    ];
    for symbols in lacking {
        let trace = Trace::on_library(&sim, sim.library_without(symbols));
        let ended = trace.script("nvsim work --gpu 0 --ms 1500").run();
        assert_eq!(ended.exited(0).programs(), ["nvsim"]);
        let row = &ended.report()["command"]["settlements"][0];
        assert!(row["held_ms"].as_u64().unwrap() >= 1_500, "{row}");
        assert_ne!(row["busy_source"], "stats_v2", "{row}");
        if symbols.contains("_v3") {
            ended.unknown("nvml-symbol-missing:nvmlDeviceGetComputeRunningProcesses_v3");
        }
    }
}

#[test]
fn a_library_without_accounting_is_named_by_its_missing_symbol() {
    if !crate::privilege::can_trace("a_library_without_accounting_is_named_by_its_missing_symbol") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    for symbol in ["nvmlDeviceGetAccountingPids", "nvmlDeviceGetAccountingMode"] {
        let trace = Trace::on_library(&sim, sim.library_without(symbol));
        let ended = trace.script("nvsim work --gpu 0 --ms 30; exit 5").run();
        let reason = format!("nvml-symbol-missing:{symbol}");
        ended.exited(5).names(&reason, "driver").unknown(&reason);
        assert_eq!(ended.gpu_ms("free_ms"), 0);
    }
}
