//! Drivers and GPUs in which something is amiss.

use crate::asked::{Asked, everything_in, state_dir, state_of};
use crate::support::{Sim, poll};

#[test]
fn a_good_host_is_well_and_looking_changes_nothing() {
    let sim = Sim::start(&["--gpus", "2"]);
    let job = sim.work("--gpu 0 --ms 50");
    job.wait();
    poll("the row is final", || (state_of(&sim)[0]["stats"][0]["running"] == false).then_some(()));
    let folder = state_dir();
    std::fs::write(folder.path().join("ledger.db"), "not looked into").unwrap();
    let (before, model) = (everything_in(folder.path()), state_of(&sim));
    let doctor = Asked::on(&sim).doctor(&["--state-dir", folder.path().to_str().unwrap()]);
    assert_eq!(everything_in(folder.path()), before);
    assert_eq!(state_of(&sim), model, "the driver was changed");
    assert_eq!(doctor.report["driver"], "simulated");
    assert_eq!(doctor.report["gpus"].as_array().unwrap().len(), 2);
    doctor.finds("driver", "ok", "SIMULATED, version", "");
    doctor.finds("accounting-mode", "ok", "accounting is on", "");
    doctor.finds("persistence", "ok", "persistence is on", "");
    doctor.finds("mig", "ok", "MIG is off", "").finds("vgpu-host", "ok", "no vGPU host", "");
    doctor.finds("symbols", "ok", "every function", "");
    doctor.finds("eviction-margin", "ok", "1 of 128 dead rows: 127 more fit", "");
    doctor.finds("old-dead-rows", "ok", "1 from before this look, the oldest began 20", "");
    // Whether a journal has them it did not look.
    let told = doctor.check("old-dead-rows")["cause"].as_str().unwrap();
    assert!(told.contains("those that its journal does not have"), "{told}");
    doctor.finds("state-dir", "ok", "mode 0700", "");
    assert!(doctor.text.contains("stays invisible"), "{}", doctor.text);
    assert!(doctor.text.contains("within one read interval"), "{}", doctor.text);
    poll("no client is left", || {
        let clients = nvsim::fault::ask(&sim.socket(), &["clients"]).unwrap();
        (clients.trim() == "0").then_some(())
    });
}

#[test]
fn accounting_that_is_off_mig_and_vgpu_hosts_are_told_apart() {
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off", "--persistence", "off"]);
    let off = Asked::on(&sim).doctor(&[]);
    off.finds("accounting-mode", "missing", "accounting is off", "gpu-ledger accounting enable");
    assert_eq!(off.check("accounting-mode")["reason"], "accounting-mode-disabled");
    off.finds("persistence", "warn", "lost when the last client goes", "nvidia-persistenced");
    off.finds("eviction-margin", "ok", "while accounting is off", "");
    assert_eq!(state_of(&sim)[0]["accounting"], false, "looking turned it on");
    sim.fault("mig on");
    let mig = Asked::on(&sim).doctor(&[]);
    mig.finds("mig", "missing", "MIG is on", "turning MIG off");
    mig.finds("accounting-mode", "missing", "", "MIG");
    assert_eq!(mig.check("accounting-mode")["reason"], "accounting-unavailable-mig");
    sim.fault("mig off");
    sim.fault("vgpu-host on");
    Asked::on(&sim).doctor(&[]).finds("vgpu-host", "missing", "a vGPU host", "guests");
}

#[test]
fn a_library_that_is_missing_or_no_nvml_or_has_no_driver_is_named() {
    let missing = Asked::with_library("/nonexistent/libnvidia-ml.so.1").doctor(&[]);
    missing.finds("library", "missing", "/nonexistent/libnvidia-ml.so.1", "--nvml-library");
    assert_eq!(missing.check("library")["reason"], "nvml-library-not-found");
    assert!(missing.report["driver"].is_null() && missing.report["gpus"] == serde_json::json!([]));
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("driver-not-loaded on");
    let unloaded = Asked::on(&sim).doctor(&[]);
    unloaded.finds("driver", "missing", "driver-not-loaded (nvmlInit_v2 gives 9)", "modprobe");
    sim.fault("heal");
    sim.fault("no-gpu on");
    Asked::on(&sim).doctor(&[]).finds("gpus", "missing", "no-gpu-found", "nvidia-smi -L");
}

#[test]
fn functions_that_a_library_lacks_are_named() {
    let sim = Sim::start(&["--gpus", "1"]);
    let older = sim.library_without("nvmlDeviceGetAccountingStats_v2");
    let doctor = Asked::on_library(&sim, older).doctor(&[]);
    doctor.finds("stats-v2", "warn", "nvmlDeviceGetAccountingStats_v2", "610");
    doctor.finds("symbols", "ok", "every function", "");
    let oldest = sim.library_without("nvmlDeviceGetAccountingPids");
    let doctor = Asked::on_library(&sim, oldest).doctor(&[]);
    doctor.finds("symbols", "missing", "lacks nvmlDeviceGetAccountingPids", "upgrade the driver");
    doctor.finds("read", "missing", "nvml-symbol-missing", "upgrade the driver");
    doctor.finds("eviction-margin", "unknown", "could not be counted", "the read");
}

#[test]
fn a_gpu_that_fell_off_the_bus_or_hangs_is_unknown_and_the_other_is_read() {
    let sim = Sim::start(&["--gpus", "2"]);
    sim.fault("code nvmlDeviceGetAccountingPids --code 15 --gpu 0");
    let lost = Asked::on(&sim).doctor(&[]);
    lost.finds("read", "missing", "gpu-lost", "needs a reset");
    let reads: Vec<&str> = lost.report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["check"] == "read")
        .map(|check| check["status"].as_str().unwrap())
        .collect();
    assert_eq!(reads, ["missing", "ok"]);
    sim.fault("heal");
    sim.fault("hang nvmlDeviceGetAccountingPids --gpu 0");
    let config = sim.folder().join("config.toml");
    std::fs::write(&config, "call_deadline = \"200ms\"\n").unwrap();
    let hangs = Asked::on(&sim).doctor(&["--config", config.to_str().unwrap()]);
    hangs.finds("read", "unknown", "nvml-call-timeout (nvmlDeviceGetAccountingPids)", "dmesg");
    sim.fault("heal");
}

#[test]
fn a_full_store_is_said_to_evict() {
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("evict 200");
    let full = Asked::on(&sim).doctor(&[]);
    full.finds("eviction-margin", "warn", "128 of 128 dead rows", "keep the daemon running");
    full.finds("old-dead-rows", "ok", "128 from before", "");
}
