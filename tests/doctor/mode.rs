//! Showing the accounting mode and turning it on.

use serde_json::{Value, json};

use crate::asked::{Asked, program, state_of};
use crate::support::{Sim, poll};

const ENABLE: &[&str] = &["accounting", "enable"];
const STATUS: &[&str] = &["accounting", "status"];

#[test]
fn the_mode_is_turned_on_named_and_left_on() {
    let sim = Sim::start(&["--gpus", "2", "--accounting", "off"]);
    let status = Asked::on(&sim).run(STATUS);
    assert_eq!((status.code, status.out.matches("accounting is off").count()), (0, 2));
    let one = Asked::on(&sim).run(&["accounting", "enable", "--gpu", "1"]);
    assert_eq!((one.code, one.out.matches("accounting is on now").count()), (0, 1), "{}", one.out);
    let status = Asked::on(&sim).run(STATUS);
    assert!(status.out.contains("GPU 0 NVIDIA Simulated GPU: accounting is off"), "{}", status.out);
    assert!(status.out.contains("GPU 1 NVIDIA Simulated GPU: accounting is on"), "{}", status.out);
    let state = state_of(&sim);
    let uuid = state[0]["uuid"].as_str().unwrap();
    let other = Asked::on(&sim).run(&["accounting", "enable", "--gpu", uuid]);
    assert_eq!(other.code, 0, "{}", other.err);
    assert!(
        other.out.contains("GPU 0 NVIDIA Simulated GPU: accounting is on now"),
        "{}",
        other.out
    );
    // Twice is as good as once.
    for _ in 0..2 {
        let again = Asked::on(&sim).run(ENABLE);
        assert_eq!((again.code, again.out.matches(": accounting is on\n").count()), (0, 2));
    }
    let status = Asked::on(&sim).run(STATUS);
    assert_eq!(status.out.matches(": accounting is on\n").count(), 2, "{}", status.out);
}

#[test]
fn whoever_holds_the_gpu_since_before_is_named_and_later_ones_are_not() {
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    let old = sim.work("--gpu 0 --ms 600000");
    held_by(&sim, 1);
    let enabled = Asked::on(&sim).run(ENABLE);
    assert_eq!(enabled.code, 0, "{}", enabled.err);
    assert!(enabled.out.contains("until they restart (1)"), "{}", enabled.out);
    let name = program().file_name().unwrap().to_str().unwrap();
    let line = format!("{name} (pid {})", old.pid());
    assert!(enabled.out.contains(&line), "{line}: {}", enabled.out);
    let new = sim.work("--gpu 0 --ms 600000");
    held_by(&sim, 2);
    let again = Asked::on(&sim).run(ENABLE);
    assert!(again.out.contains("until they restart (1)"), "{}", again.out);
    assert!(!again.out.contains(&format!("(pid {})", new.pid())), "{}", again.out);
    old.end();
    held_by(&sim, 1);
    let after = Asked::on(&sim).run(STATUS);
    assert!(!after.out.contains("until they restart"), "{}", after.out);
}

/// `accounting status --json`, as its schema says; and its exit status.
fn status_json(sim: &Sim) -> (Value, i32) {
    let answer = Asked::on(sim).run(&["accounting", "status", "--json"]);
    let said: Value = serde_json::from_str(&answer.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", answer.out, answer.err));
    let schema = include_str!("../../gpu-ledger/schema/accounting.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&said).map(|error| error.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{said}");
    (said, answer.code)
}

#[test]
fn the_mode_is_told_to_programs_as_well() {
    let sim = Sim::start(&["--gpus", "2", "--accounting", "off"]);
    let (off, code) = status_json(&sim);
    assert_eq!((code, &off["driver"]), (0, &json!("simulated")));
    for (index, gpu) in (0_u64..).zip(off["gpus"].as_array().unwrap()) {
        assert_eq!((&gpu["gpu_index"], &gpu["accounting_on"]), (&json!(index), &json!(false)));
        assert_eq!(gpu["no_driver_row"], Value::Null, "off, nobody has a row");
    }
    let old = sim.work("--gpu 0 --ms 600000");
    held_by(&sim, 1);
    assert_eq!(Asked::on(&sim).run(ENABLE).code, 0);
    let (on, _) = status_json(&sim);
    assert_eq!(on["gpus"][0]["accounting_on"], true);
    assert_eq!(on["gpus"][0]["no_driver_row"][0]["pid"], old.pid());
    assert_eq!(on["gpus"][1]["no_driver_row"], json!([]));
    assert_eq!(on["unknown"], json!([]));
    sim.fault("code nvmlDeviceGetAccountingMode --code 999");
    let (unknown, code) = status_json(&sim);
    assert_eq!((code, &unknown["gpus"][0]["accounting_on"]), (2, &Value::Null));
    assert_eq!(unknown["unknown"][0]["reason"], "nvml-unknown-error", "{unknown}");
}

/// Waits until so many processes hold the GPU.
fn held_by(sim: &Sim, count: usize) {
    poll("the GPU is held", || {
        let state = state_of(sim);
        let holders = state[0]["holders"].as_array().map(Vec::len);
        (holders == Some(count)).then_some(())
    });
}

#[test]
fn whoever_may_not_set_the_mode_is_told_how() {
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    sim.fault("not-root on");
    let refused = Asked::on(&sim).run(ENABLE);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.out.contains("is as it was"), "{}", refused.out);
    assert!(refused.out.contains("reason=no-permission "), "{}", refused.out);
    assert!(refused.out.contains("sudo gpu-ledger accounting enable"), "{}", refused.out);
    let status = Asked::on(&sim).run(STATUS);
    assert!(status.out.contains("accounting is off"), "{}", status.out);
}

#[test]
fn mig_and_drivers_that_do_not_answer_are_failures_with_their_cause() {
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    sim.fault("mig on");
    let mig = Asked::on(&sim).run(ENABLE);
    assert_eq!(mig.code, 1, "{}", mig.out);
    assert!(mig.out.contains("MIG"), "{}", mig.out);
    sim.fault("mig off");
    sim.fault("driver-not-loaded on");
    let unloaded = Asked::on(&sim).run(ENABLE);
    assert_eq!(unloaded.code, 1);
    assert!(unloaded.err.contains("driver-not-loaded") && unloaded.err.contains("modprobe"));
    sim.fault("heal");
    let stranger = Asked::on(&sim).run(&["accounting", "enable", "--gpu", "GPU-7"]);
    // What was typed is wrong, as everywhere.
    assert_eq!(stranger.code, 64);
    assert!(
        stranger.err.contains("no GPU is called GPU-7; there are: 0 (GPU-"),
        "{}",
        stranger.err
    );
    assert_eq!(Asked::on(&sim).run(&["accounting", "disable"]).code, 64);
}

#[test]
fn a_mode_that_goes_with_the_last_client_is_warned_of() {
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off", "--persistence", "off"]);
    let holder = sim.work("--gpu 0 --ms 600000");
    held_by(&sim, 1);
    let enabled = Asked::on(&sim).run(ENABLE);
    assert_eq!(enabled.code, 0, "{}", enabled.out);
    assert!(enabled.out.contains("lost when the last client goes"), "{}", enabled.out);
    assert!(enabled.out.contains("nvidia-persistenced"), "{}", enabled.out);
    holder.end();
}

#[test]
fn a_mode_that_cannot_be_asked_is_unknown() {
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("code nvmlDeviceGetAccountingMode --code 999");
    let status = Asked::on(&sim).run(STATUS);
    assert_eq!(status.code, 2, "{}", status.out);
    assert!(status.out.contains("accounting is unknown"), "{}", status.out);
    assert!(status.out.contains("reason=nvml-unknown-error "), "{}", status.out);
}

#[test]
fn who_holds_a_gpu_is_told_every_time() {
    let sim = Sim::start(&["--gpus", "2", "--accounting", "off"]);
    let old = sim.work("--gpu 1 --ms 600000");
    poll("the GPU is held", || {
        let holders = state_of(&sim)[1]["holders"].as_array().map(Vec::len);
        (holders == Some(1)).then_some(())
    });
    assert_eq!(Asked::on(&sim).run(ENABLE).code, 0);
    // A worker's own first read comes without who holds it: one time in ten it was taken for the answer.
    for _ in 0..60 {
        let (on, code) = status_json(&sim);
        assert_eq!((code, &on["unknown"]), (0, &json!([])), "{on}");
        assert_eq!(on["gpus"][0]["no_driver_row"], json!([]), "{on}");
        assert_eq!(on["gpus"][1]["no_driver_row"][0]["pid"], old.pid(), "{on}");
    }
    // A list that grew between its two calls, by more than there is room for, is asked for again.
    sim.fault("code nvmlDeviceGetComputeRunningProcesses* --gpu 1 --code 7 --after 1 --times 1");
    let (again, code) = status_json(&sim);
    assert_eq!(code, 0, "{again}");
    assert_eq!(again["gpus"][1]["no_driver_row"][0]["pid"], old.pid(), "{again}");
    for _ in 0..10 {
        let doctor = Asked::on(&sim).run(&["doctor"]);
        assert_eq!(doctor.out.matches("1 processes hold").count(), 1, "{}", doctor.out);
    }
}

#[test]
fn a_list_of_holders_that_fails_is_unknown_and_not_empty() {
    let sim = Sim::start(&["--gpus", "1"]);
    let _job = sim.work("--gpu 0 --ms 600000");
    held_by(&sim, 1);
    sim.fault("code nvmlDeviceGetComputeRunningProcesses* --code 999");
    let (unknown, code) = status_json(&sim);
    assert_eq!((code, &unknown["gpus"][0]["no_driver_row"]), (2, &Value::Null), "{unknown}");
    let line = &unknown["unknown"][0];
    assert_eq!(line["reason"], "nvml-unknown-error", "{unknown}");
    assert_eq!(line["call"], "nvmlDeviceGetComputeRunningProcesses_v3", "{unknown}");
    for words in [STATUS, ENABLE] {
        let text = Asked::on(&sim).run(words);
        assert_eq!(text.code, 2, "{words:?}: {}", text.out);
        assert!(text.out.contains("accounting is on\n"), "{}", text.out);
        assert!(text.out.contains("must restart to be billed is not known"), "{}", text.out);
        assert!(text.out.contains("reason=nvml-unknown-error "), "{}", text.out);
    }
    let doctor = Asked::on(&sim).doctor(&[]);
    assert_eq!(doctor.check("read")["reason"], "nvml-unknown-error", "{:#}", doctor.report);
}

#[test]
fn without_the_rows_nobody_is_said_to_have_none() {
    let sim = Sim::start(&["--gpus", "1"]);
    let _job = sim.work("--gpu 0 --ms 600000");
    held_by(&sim, 1);
    sim.fault("code nvmlDeviceGetAccountingPids --code 999");
    let (unknown, code) = status_json(&sim);
    assert_eq!((code, &unknown["gpus"][0]["no_driver_row"]), (2, &Value::Null), "{unknown}");
    assert_eq!(unknown["unknown"][0]["reason"], "nvml-unknown-error", "{unknown}");
    let text = Asked::on(&sim).run(STATUS);
    assert_eq!(text.code, 2, "{}", text.out);
    assert!(!text.out.contains("until they restart"), "{}", text.out);
}

#[test]
fn the_configured_library_is_the_one_that_is_asked() {
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, format!("nvml_library = {:?}\n", sim.library())).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let status = Asked::by_configuration(&sim).run(&[STATUS, &config].concat());
    assert_eq!(status.code, 0, "{}", status.err);
    assert!(status.out.contains("SIMULATED DRIVER"), "{}", status.out);
    let enabled = Asked::by_configuration(&sim).run(&[ENABLE, &config].concat());
    assert_eq!(enabled.code, 0, "{}", enabled.err);
    assert_eq!(state_of(&sim)[0]["accounting"], true);
    // The command line goes before it, and a file that is wrong is never passed over.
    let other = Asked::with_library("/nonexistent.so").run(&[STATUS, &config].concat());
    assert!(other.code == 1 && other.err.contains("/nonexistent.so"), "{}", other.err);
    std::fs::write(&file, "nvml_librari = \"/x\"\n").unwrap();
    let wrong = Asked::on(&sim).run(&[STATUS, &config].concat());
    assert!(wrong.code == 1 && wrong.err.contains("unknown key `nvml_librari`"), "{}", wrong.err);
}

#[test]
fn a_gpu_is_known_by_index_uuid_and_the_beginning_of_one() {
    let sim = Sim::start(&["--gpus", "2", "--accounting", "off"]);
    let uuid = state_of(&sim)[1]["uuid"].as_str().unwrap().to_owned();
    let shared = Asked::on(&sim).run(&["accounting", "enable", "--gpu", "GPU-"]);
    assert_eq!(shared.code, 64, "{}", shared.err);
    assert!(shared.err.contains("2 GPUs are called GPU-; there are: 0 (GPU-"), "{}", shared.err);
    let named =
        Asked::on(&sim).run(&["accounting", "enable", "--gpu", uuid.trim_start_matches("GPU-")]);
    assert_eq!(named.code, 0, "{}", named.err);
    assert!(named.out.contains("GPU 1 "), "{}", named.out);
}
