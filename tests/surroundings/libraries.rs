//! What stands where the NVML library should: nothing, something else, a library without a driver.

use std::path::PathBuf;

use crate::support::{Sim, real_library, skip};
use crate::traced::{Ended, Trace};

/// A shared library that every program here has loaded, and that is no NVML.
fn no_nvml() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().find_map(|line| {
        let path = line.split_whitespace().nth(5)?;
        path.contains("/libm.so").then(|| PathBuf::from(path))
    });
    // A test binary links libm or, where the linker drops it, at least libc.
    library.unwrap_or_else(|| {
        let libc = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        PathBuf::from(libc.into_iter().find(|path| path.contains("/libc.so")).unwrap())
    })
}

/// The command runs and keeps its status, its processes are watched, and no figure is made up.
fn runs_all_the_same(ended: &Ended) {
    ended.exited(7);
    assert_eq!(ended.out, "ran\n");
    let report = ended.report();
    assert_eq!(report["command"]["exit_status"], 7);
    assert!(report["driver"].is_null() && report["driver_version"].is_null(), "{report}");
    assert_eq!(report["command"]["settlements"], serde_json::json!([]));
    assert!(report["events"]["received"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn without_a_library_the_command_runs_and_cause_and_remedy_are_said() {
    if !crate::privilege::can_trace(
        "without_a_library_the_command_runs_and_cause_and_remedy_are_said",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library\n").unwrap();
    for library in [PathBuf::from("/nonexistent/libnvidia-ml.so.1"), folder.path().into(), text] {
        let reason = format!("nvml-library-not-found:{}", library.display());
        let ended = Trace::with_library(&library).command(["sh", "-c", "echo ran; exit 7"]).run();
        ended.names(&reason, "--nvml-library").unknown(&reason);
        runs_all_the_same(&ended);
    }
}

#[test]
fn a_library_that_is_no_nvml_is_said_to_lack_its_first_function() {
    if !crate::privilege::can_trace("a_library_that_is_no_nvml_is_said_to_lack_its_first_function")
    {
        return;
    }
    let ended = Trace::with_library(no_nvml()).command(["sh", "-c", "echo ran; exit 7"]).run();
    let reason = "nvml-symbol-missing:nvmlInit_v2";
    ended.names(reason, "--nvml-library").unknown(reason);
    runs_all_the_same(&ended);
}

#[test]
fn strict_refuses_to_start_without_a_library_and_watching_gives_2() {
    if !crate::privilege::can_trace(
        "strict_refuses_to_start_without_a_library_and_watching_gives_2",
    ) {
        return;
    }
    let missing = "/nonexistent/libnvidia-ml.so.1";
    let reason = format!("nvml-library-not-found:{missing}");
    let trace = Trace::with_library(missing).words("--strict");
    let ran = trace.folder().join("ran");
    let ended = trace.command([&"touch".into(), &ran]).run();
    ended.exited(125).names(&reason, "--nvml-library").says("not started: --strict");
    assert!(!ran.exists() && !ended.has_report());

    let trace = Trace::with_library(no_nvml()).words("--strict");
    let ran = trace.folder().join("ran");
    let ended = trace.command([&"touch".into(), &ran]).run();
    ended.exited(125).says("nvml-symbol-missing:nvmlInit_v2").says("not started: --strict");
    assert!(!ran.exists());

    let ended = Trace::with_library(missing).words("--for 10ms").run();
    ended.exited(2).names(&reason, "--nvml-library").unknown(&reason);
    assert!(ended.report()["command"].is_null());
}

#[test]
fn the_report_for_people_says_what_is_unknown_as_well() {
    if !crate::privilege::can_trace("the_report_for_people_says_what_is_unknown_as_well") {
        return;
    }
    let missing = "/nonexistent/libnvidia-ml.so.1";
    let ended = Trace::with_library(missing).output(None).command(["true"]).run();
    ended.exited(0).says("no driver answered").says("missed_in_coverage unknown");
    let line = format!(
        "\nGPU_LEDGER_UNKNOWN reason=nvml-library-not-found:{missing} gpu=- call=- code=-\n"
    );
    ended.says(&line);
}

#[test]
fn a_library_without_its_driver_is_told_from_a_host_without_gpus() {
    if !crate::privilege::can_trace("a_library_without_its_driver_is_told_from_a_host_without_gpus")
    {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let expected = [
        ("driver-not-loaded on", "driver-not-loaded", "modprobe nvidia", 9),
        ("no-gpu on", "no-gpu-found", "no GPU", 28),
    ];
    for (fault, reason, remedy, code) in expected {
        sim.fault(fault);
        let ended = Trace::on(&sim).command(["sh", "-c", "echo ran; exit 7"]).run();
        let unknown = ended.names(reason, remedy).unknown(reason);
        assert!(unknown["code"] == code || unknown["code"] == 0, "{unknown}");
        runs_all_the_same(&ended);
        sim.fault("heal");
    }
    let none = Sim::start(&["--gpus", "0"]);
    let ended = Trace::on(&none).command(["sh", "-c", "echo ran; exit 7"]).run();
    ended.names("no-gpu-found", "no GPU").unknown("no-gpu-found");
    runs_all_the_same(&ended);
}

#[test]
fn the_real_library_without_a_driver_says_that_it_is_not_loaded() {
    if !crate::privilege::can_trace("the_real_library_without_a_driver_says_that_it_is_not_loaded")
    {
        return;
    }
    let test = "the_real_library_without_a_driver_says_that_it_is_not_loaded";
    let library = match real_library() {
        Ok(library) => library,
        Err(reason) => return skip(test, &reason),
    };
    if std::path::Path::new("/proc/driver/nvidia/version").exists() {
        return skip(test, "a driver is loaded here");
    }
    let ended = Trace::with_library(library).command(["sh", "-c", "echo ran; exit 7"]).run();
    let unknown = ended.names("driver-not-loaded", "modprobe nvidia").unknown("driver-not-loaded");
    assert_eq!(unknown["code"], 9);
    assert_eq!(unknown["call"], "nvmlInit_v2");
    runs_all_the_same(&ended);
}
