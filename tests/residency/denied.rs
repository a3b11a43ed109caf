//! What the recorder starts and cannot start, what a GPU does not tell, and how windows end: as users see it.

use std::process::Command;

use crate::privilege::can_trace;
use crate::recorded::{batches, json, recorder, residency, rows, runs, text, verified};
use crate::support::{Sim, skip};

/// Beside the own exec tracer (`record::t7_the_recorder_starts_no_program`), one that others wrote.
#[test]
fn t7_strace_sees_no_program_either() {
    let test = "denied::t7_strace_sees_no_program_either";
    match Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return skip(test, &format!("strace may not trace: {}", text(&output.stderr)));
        }
        Err(error) => return skip(test, &format!("strace: {error}: apt-get install strace")),
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let log = sim.folder().join("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=execve,execveat", "-o"]).arg(&log);
    command.arg(env!("CARGO_BIN_EXE_gpu-ledger")).arg("--nvml-library").arg(sim.library());
    command.args(["residency", "record", "--no-events", "--duration", "1s", "--out"]);
    let output = command.arg(runs(&sim)).env("NVSIM_SOCKET", sim.socket()).output().unwrap();
    // Under strace every call is late; whether the data are valid is no matter here.
    assert!(matches!(output.status.code(), Some(3 | 5)), "{}", text(&output.stderr));
    let log = std::fs::read_to_string(&log).unwrap();
    let programs: Vec<&str> = log.lines().filter(|line| line.contains("execve")).collect();
    assert_eq!(programs.len(), 1, "{programs:?}");
    assert!(programs[0].contains("gpu-ledger"), "{programs:?}");
    // With process events it starts itself once, before any window: the child that proves that events come.
    if !can_trace(test) {
        return;
    }
    let log = sim.folder().join("strace-events");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=execve,execveat", "-o"]).arg(&log);
    command.arg(env!("CARGO_BIN_EXE_gpu-ledger")).arg("--nvml-library").arg(sim.library());
    command.args(["residency", "record", "--duration", "1s", "--out"]).arg(runs(&sim));
    command.env("NVSIM_SOCKET", sim.socket()).output().unwrap();
    let log = std::fs::read_to_string(&log).unwrap();
    let programs: Vec<&str> = log.lines().filter(|line| line.contains("execve")).collect();
    assert!(programs.len() <= 2, "{programs:?}");
    assert!(programs.iter().skip(1).all(|line| line.contains("\"__probe\"")), "{programs:?}");
}

#[test]
fn probing_threads_that_may_start_nothing_record_the_same_and_the_command_runs() {
    let sim = Sim::start(&["--gpus", "1"]);
    let words = ["--deny-exec", "--", "sh", "-c", "sleep 0.5; touch ran"];
    let output = recorder(&sim, &words).current_dir(sim.folder()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(sim.folder().join("ran").exists(), "the command may start programs");
    let batch = batches(&sim).pop().unwrap();
    assert_eq!(verified(&batch)["data_verdict"], "valid");
    let backend = rows(&batch, "0001", "events.jsonl");
    let backend = backend.iter().find(|event| event["event"] == "backend").unwrap();
    assert_eq!(backend["exec_denied"], true);
    let page = text(&residency(&["show", batch.to_str().unwrap()]).stdout);
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("and the kernel denied it to the probing threads"), "{page}");
}

#[test]
fn of_a_gpu_that_is_cut_into_instances_utilization_is_null_with_its_reason() {
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("mig on");
    let output = recorder(&sim, &["--duration", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let batch = batches(&sim).pop().unwrap();
    assert_eq!(json(&batch.join("manifest.json"))["gpus"][0]["mig"], true);
    assert_eq!(verified(&batch)["data_verdict"], "valid");
    for sample in rows(&batch, "0001", "samples.jsonl") {
        let utilization = &sample["fields"]["utilization"];
        assert!(utilization["value"].is_null() && utilization["status"] != "ok", "{utilization}");
        assert!(sample["fields"]["memory"]["value"].is_object());
    }
    let page = text(&residency(&["show", "--all", batch.to_str().unwrap()]).stdout);
    assert!(page.contains("utilization %     UNKNOWN"), "{page}");
    assert!(page.contains("without a value: ") && page.contains("utilization:"), "{page}");
    // Where it was asked for, the batch is void for it.
    let required = recorder(&sim, &["--duration", "1s", "--require", "utilization"]).output();
    assert_eq!(required.unwrap().status.code(), Some(5));
}

#[test]
fn a_library_of_another_version_than_the_drivers_records_nothing() {
    let sim = Sim::start(&["--gpus", "1"]);
    sim.fault("code nvmlInit_v2 --code 18");
    let output = recorder(&sim, &["--duration", "1s"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("driver-library-version-mismatch") && said.contains("code=18"), "{said}");
    assert!(!runs(&sim).exists());
}

#[test]
fn phases_are_of_the_iteration_in_which_they_were_marked_wherever_the_command_went() {
    let sim = Sim::start(&["--gpus", "1"]);
    let product = env!("CARGO_BIN_EXE_gpu-ledger");
    let script = format!(
        "cd /; {product} residency mark load && sleep 0.3; {product} residency mark 'cool down' && sleep 0.3"
    );
    let words = ["--rounds", "2", "--", "sh", "-c", &script];
    let mut command = recorder(&sim, &words);
    // A folder that is told from where the recorder stands.
    let output = command.current_dir(sim.folder()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let batch = batches(&sim).pop().unwrap();
    let shown = residency(&["show", "--json", batch.to_str().unwrap()]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let schema = include_str!("../../gpu-ledger/schema/residency-show.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults =
        |value| schema.iter_errors(value).map(|fault| fault.to_string()).collect::<Vec<_>>();
    assert_eq!(faults(&shown), Vec::<String>::new());
    // One that is void has the same form, and no statistics.
    let void = recorder(&sim, &["--duration", "1s", "--gpu", "0", "--require", "utilization"]);
    sim.fault("code nvmlDeviceGetUtilizationRates --code 999");
    let mut void = void;
    assert_eq!(void.output().unwrap().status.code(), Some(5));
    let void = batches(&sim).pop().unwrap();
    let void = residency(&["show", "--json", void.to_str().unwrap()]).stdout;
    let void: serde_json::Value = serde_json::from_slice(&void).unwrap();
    assert_eq!(faults(&void), Vec::<String>::new());
    assert!(void["iterations"][0]["statistics"].is_null() && void["data_verdict"] == "void");
    for iteration in shown["iterations"].as_array().unwrap() {
        let phases = iteration["statistics"]["phases"].as_array().unwrap();
        let named: Vec<_> = phases
            .iter()
            .map(|phase| (phase["name"].as_str(), phase["occurrence"].clone()))
            .collect();
        let wanted = [(None, 1.into()), (Some("load"), 1.into()), (Some("cool down"), 1.into())];
        assert_eq!(named, wanted, "{iteration}");
    }
}

#[test]
fn how_a_window_ended_and_that_its_command_failed_stand_in_every_report() {
    let sim = Sim::start(&["--gpus", "2"]);
    let words = ["--duration", "5s", "--gpu", "1", "--", "sh", "-c", "sleep 0.4; exit 3"];
    let output = recorder(&sim, &words).output().unwrap();
    let said = text(&output.stdout);
    let batch = batches(&sim).pop().unwrap();
    assert!(said.starts_with(&format!("batch {} of GPU 1, ", batch.display())), "{said}");
    let plots = sim.folder().join("plots");
    let folder = batch.to_str().unwrap();
    let drawn = ["plot", "--format", "svg", "--out", plots.to_str().unwrap(), folder];
    assert_eq!(residency(&drawn).status.code(), Some(3));
    let svg = std::fs::read_to_string(plots.join("0001.svg")).unwrap();
    let reports = [
        said,
        text(&residency(&["verify", folder]).stdout),
        text(&residency(&["show", folder]).stdout),
        text(&residency(&["methods", folder]).stdout),
        svg,
    ];
    for report in reports {
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(report.contains("the command ended after "), "{report}");
        assert!(report.contains(" ms of 5000.000 ms"), "{report}");
        assert!(report.contains("the command exited with status 3"), "{report}");
        assert!(
            report.contains("proves nothing about a GPU: the backend verdict failed (simulated)"),
            "{report}"
        );
    }
}

#[test]
fn what_an_acceptance_run_cannot_stand_for_and_names_that_are_one_are_refused() {
    let sim = Sim::start(&["--gpus", "1"]);
    for (words, names) in [
        (vec!["--acceptance", "--max-age", "2s"], "750.000 ms at most"),
        (vec!["--acceptance", "--gate", "points"], "--preset seed"),
        (vec!["--duration", "1s", "--config", "a", "--config", "a"], "--config a is given twice"),
        (vec!["--duration", "1s", "--round", "1", "--round", "1"], "--round 1 is given twice"),
    ] {
        let output = recorder(&sim, &words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{words:?}: {said}");
        assert!(said.contains(names), "{words:?}: {said}");
    }
    assert!(!runs(&sim).exists());
}

#[test]
fn the_clocks_are_read_before_any_sample_can_land() {
    let sim = Sim::start(&["--gpus", "16"]);
    let output = recorder(&sim, &["--no-events", "--duration", "300ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    let batches = batches(&sim);
    assert_eq!(batches.len(), 16);
    for batch in batches {
        let anchors = rows(&batch, "0001", "events.jsonl");
        let first = anchors.iter().find_map(|event| event["boot_ns"].as_u64()).unwrap();
        let iteration = json(&batch.join("iterations/0001/iteration.json"));
        assert!(first < iteration["t0_boottime_ns"].as_u64().unwrap(), "{iteration}");
        assert!(!iteration["suspend_ms"].is_null(), "{iteration}");
    }
}
