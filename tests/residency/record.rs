//! What a recording leaves: points, names, phases, verdicts, and no process but the user's.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::privilege::can_trace;
use crate::recorded::{batches, json, recorder, residency, rows, runs, text, verified};
use crate::support::{Sim, poll};

#[test]
fn t19_the_acceptance_run_has_all_its_points_and_a_simulation_never_passes() {
    let sim = Sim::start(&["--gpus", "1"]);
    let output = recorder(&sim, &["--acceptance"]).output().unwrap();
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{page}{}", text(&output.stderr));
    let last = page.lines().last().unwrap();
    assert!(last.starts_with("ACCEPTANCE points=41/41 samples="), "{last}");
    assert!(last.contains(" cap_ms=750 "), "{last}");
    assert!(last.ends_with("-> NOT VERIFIED (backend fail, data valid: simulated)"), "{last}");
    let batch = batches(&sim).pop().unwrap();
    let found = verified(&batch);
    assert_eq!((&found["data_verdict"], &found["as_recorded"]), (&"valid".into(), &true.into()));
    assert_eq!(found["backend_verdict"], "fail");
    // Nothing of it stands for later batches.
    let manifest = json(&batch.join("manifest.json"));
    assert_eq!(manifest["harness_verified"], false);
    assert!(manifest["nvml_version"].as_str().is_some_and(|version| !version.is_empty()));
}

#[test]
fn each_gpu_has_a_batch_of_its_own_and_each_label_an_iteration() {
    let sim = Sim::start(&["--gpus", "2"]);
    let words = ["--config", "a", "--config", "b", "--rounds", "2", "--", "sh", "-c"];
    let mut command = recorder(&sim, &words);
    command.arg("echo $GPU_LEDGER_CONFIG/$GPU_LEDGER_ROUND; sleep 0.3");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("a/1\nb/1\na/2\nb/2\n"), "{}", text(&output.stdout));
    let batches = batches(&sim);
    assert_eq!(batches.len(), 2);
    for batch in batches {
        let summary = json(&batch.join("summary.json"));
        assert_eq!(summary["iterations_total"], 4);
        let labels = json(&batch.join("iterations/0003/iteration.json"))["labels"].clone();
        assert_eq!((&labels["config"], &labels["round"]), (&"a".into(), &"2".into()));
    }
}

#[test]
fn processes_have_names_and_phases_begin_where_they_are_marked() {
    let test = "record::processes_have_names_and_phases_begin_where_they_are_marked";
    if !can_trace(test) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let product = env!("CARGO_BIN_EXE_gpu-ledger");
    let job = crate::support::built().program.display().to_string();
    let script = format!(
        "{product} residency mark load; {job} work --gpu 0 --ms 900 --mem-mib 512; {product} residency mark rest; \
         sleep 0.5"
    );
    let output = recorder(&sim, &["--", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let batch = batches(&sim).pop().unwrap();
    let events = rows(&batch, "0001", "events.jsonl");
    let named: Vec<_> = events.iter().filter(|event| event["event"] == "process").collect();
    assert!(
        named.iter().any(|event| event["program"] == "nvsim" && event["basis"] == "exec"),
        "{named:?}"
    );
    let page = residency(&["show", batch.to_str().unwrap()]);
    let page = text(&page.stdout);
    for part in ["load", "rest", "nvsim", "no program was run", "does not prove"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let paragraph = residency(&["methods", batch.to_str().unwrap()]);
    assert!(text(&paragraph.stdout).contains("200.000 ms"), "{}", text(&paragraph.stdout));
    // A batch that is closed takes no phase any more.
    let late = residency(&["mark", "late", "--batch", batch.to_str().unwrap()]);
    assert_eq!(late.status.code(), Some(1));
}

#[test]
fn t7_the_recorder_starts_no_program() {
    let test = "record::t7_the_recorder_starts_no_program";
    if !can_trace(test) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // T9: a program that stands where the driver's own would is never run.
    let bin = sim.folder().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let ran = sim.folder().join("ran");
    let fake = bin.join("nvidia-smi");
    std::fs::write(&fake, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    std::fs::set_permissions(&fake, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let report = sim.folder().join("trace.json");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    command.arg("--nvml-library").arg(sim.library()).args(["trace", "--json", "--output"]);
    command.arg(&report).args(["--settle-timeout", "1s", "--", env!("CARGO_BIN_EXE_gpu-ledger")]);
    command.arg("--nvml-library").arg(sim.library());
    command
        .args(["residency", "record", "--no-events", "--duration", "1s", "--out"])
        .arg(runs(&sim));
    let output = command.env("NVSIM_SOCKET", sim.socket()).env("PATH", path).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let report = json(&report);
    let processes = report["command"]["processes"].as_array().unwrap();
    let executed: Vec<_> =
        processes.iter().map(|process| process["program"].as_str().unwrap_or("")).collect();
    assert!(executed.iter().all(|program| *program == "gpu-ledger"), "{executed:?}");
    assert_eq!(processes.len(), 1, "{processes:?}");
    assert!(!ran.exists());
    let batch = batches(&sim).pop().unwrap();
    assert_eq!(json(&batch.join("summary.json"))["gpu_cli_subprocess_used"], false);
}

#[test]
fn without_rights_and_without_events_it_records_the_same() {
    let test = "record::without_rights_and_without_events_it_records_the_same";
    if !rustix::process::geteuid().is_root() {
        crate::support::skip(test, "not root: another user cannot be taken");
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let everybody = PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(sim.folder(), everybody).unwrap();
    std::fs::set_permissions(sim.socket(), PermissionsExt::from_mode(0o777)).unwrap();
    let plain = recorder(&sim, &["--duration", "1s"]);
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command.arg(plain.get_program()).args(plain.get_args()).env("NVSIM_SOCKET", sim.socket());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("names come from procfs"), "{}", text(&output.stderr));
    assert_eq!(verified(&batches(&sim).pop().unwrap())["data_verdict"], "valid");
}

#[test]
fn a_window_that_is_ended_early_is_a_shorter_one() {
    let sim = Sim::start(&["--gpus", "1"]);
    let mut child = recorder(&sim, &["--duration", "1h"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let samples = poll("samples are written", || {
        let batch = std::fs::read_dir(runs(&sim)).ok()?.next()?.ok()?.path();
        let path = batch.join("iterations/0001/samples.jsonl");
        (std::fs::metadata(&path).ok()?.len() > 0).then_some(path)
    });
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let batch = samples.ancestors().nth(3).unwrap();
    let iteration = json(&batch.join("iterations/0001/iteration.json"));
    assert_eq!(iteration["stopped_early"], true);
    assert_eq!(iteration["points_available"], iteration["points_required"]);
    assert_eq!(verified(batch)["data_verdict"], "valid");
}

#[test]
fn rounds_that_were_not_recorded_are_said_and_a_dropped_one_is_not_valid() {
    let sim = Sim::start(&["--gpus", "1"]);
    // Somebody asks for the end while the first round's command runs, which ends by itself then.
    let mut child = recorder(
        &sim,
        &["--rounds", "3", "--", "sh", "-c", "trap 'exit 0' TERM INT; sleep 60 & wait"],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    let batch = poll("the command runs", || {
        let batch = std::fs::read_dir(runs(&sim)).ok()?.next()?.ok()?.path();
        let events = std::fs::read_to_string(batch.join("iterations/0001/events.jsonl")).ok()?;
        events.contains("\"cpu\"").then_some(batch)
    });
    std::thread::sleep(std::time::Duration::from_secs(1));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let found = verified(&batch);
    assert_eq!(
        (&found["data_verdict"], &found["iterations_planned"]),
        (&"valid".into(), &3.into())
    );
    let said = text(&residency(&["verify", batch.to_str().unwrap()]).stdout);
    assert!(said.contains("1 of 3 planned iterations were recorded"), "{said}");
    let fingerprint = found["fingerprint"].as_str().unwrap();
    let shown = text(&residency(&["show", batch.to_str().unwrap()]).stdout);
    assert!(shown.contains("1 of 3 planned iterations") && shown.contains(fingerprint), "{shown}");
}

#[test]
fn a_command_that_outlives_its_window_has_its_end_in_the_batch() {
    let sim = Sim::start(&["--gpus", "1"]);
    let words = ["--duration", "500ms", "--", "sh", "-c", "sleep 2; exit 7"];
    let output = recorder(&sim, &words).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let batch = batches(&sim).pop().unwrap();
    let events = rows(&batch, "0001", "events.jsonl");
    let ended: Vec<_> = events.iter().filter(|event| event["event"] == "command_ended").collect();
    assert_eq!((ended.len(), &ended[0]["status"]), (1, &7.into()), "{events:?}");
    let iteration = json(&batch.join("iterations/0001/iteration.json"));
    assert_eq!(iteration["command"]["status"], 7);
    assert_eq!(iteration["duration_ms"], 500.0);
    let found = verified(&batch);
    assert_eq!((&found["data_verdict"], &found["as_recorded"]), (&"valid".into(), &true.into()));
    // The clocks were read when the window was over, and not only when its command was.
    let end = iteration["t0_boottime_ns"].as_u64().unwrap() + 500_000_000;
    let anchors = events.iter().filter_map(|event| event["boot_ns"].as_u64());
    let after = anchors.filter(|at| *at >= end).min().unwrap();
    assert!(after < ended[0]["at_ns"].as_u64().unwrap(), "{events:?}");
}

#[test]
fn the_clock_of_the_drivers_time_stamps_is_found_where_there_are_any() {
    let sim = Sim::start(&["--gpus", "1"]);
    let domain = || {
        let output = recorder(&sim, &["--duration", "300ms"]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        let manifest = json(&batches(&sim).pop().unwrap().join("manifest.json"));
        manifest["nvml_timestamp_domain"].as_str().unwrap().to_owned()
    };
    let mut job = std::process::Command::new(&crate::support::built().program);
    job.args(["work", "--gpu", "0", "--ms", "60000"]).env("NVSIM_SOCKET", sim.socket());
    let mut job = job.stdout(Stdio::null()).spawn().unwrap();
    // The simulated driver's are of the wall clock. It has some as soon as a GPU has been busy for a while.
    poll("the clock is found", || (domain() == "realtime").then_some(()));
    job.kill().unwrap();
    job.wait().unwrap();
}

#[test]
fn nobody_who_reads_the_verdict_is_no_failure() {
    let sim = Sim::start(&["--gpus", "1"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = recorder(&sim, &["--duration", "300ms"]);
    let output = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    // That of the verdicts: a simulation's backend fails.
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(verified(&batches(&sim).pop().unwrap())["as_recorded"], true);
}

#[test]
fn the_service_manager_is_told_when_every_curve_has_begun_and_two_recorders_see_each_other() {
    let sim = Sim::start(&["--gpus", "1"]);
    let path = sim.folder().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let mut first = recorder(&sim, &["--duration", "2s"]);
    let mut first = first.env("NOTIFY_SOCKET", &path).stdout(Stdio::null()).spawn().unwrap();
    let mut told = [0; 64];
    let length = manager.recv(&mut told).unwrap();
    assert_eq!(&told[..length], b"READY=1");
    let begun = batches(&sim);
    assert_eq!(begun.len(), 1);
    let second = recorder(&sim, &["--duration", "200ms"]).output().unwrap();
    assert_eq!(second.status.code(), Some(3), "{}", text(&second.stderr));
    assert_eq!(first.wait().unwrap().code(), Some(3));
    let other = batches(&sim).into_iter().find(|batch| *batch != begun[0]).unwrap();
    // There may be more of them, of other tests.
    let others = json(&other.join("manifest.json"))["other_recorders"].as_u64();
    assert!(others.is_some_and(|others| others >= 1), "{others:?}");
    for batch in [&begun[0], &other] {
        assert_eq!(verified(batch)["as_recorded"], true);
    }
}

#[test]
fn what_cannot_be_recorded_is_refused_before_anything_is() {
    let sim = Sim::start(&["--gpus", "1"]);
    let duration = ["--duration", "1s"];
    for (words, names) in [
        (vec!["--period", "0s"], "--period"),
        (vec!["--period", "-1s"], "--period"),
        (vec!["--period", "NaN"], "--period"),
        (vec!["--period", "1e400"], "--period"),
        (vec!["--period", "250"], "--period"),
        (vec!["--period", ""], "--period"),
        (vec!["--period", "5ms"], "--period"),
        (vec!["--period", "61s"], "--period"),
        (vec!["--period", "1s"], "cap 750.000 ms cannot hold with period 1000.000 ms"),
        (vec!["--max-age", "0s"], "--max-age"),
        (vec!["--max-age", "2h"], "--max-age"),
        (vec!["--timeline-period", "800ms"], "timeline period 800.000 ms is longer than the cap"),
        (vec!["--gpu", "7"], "no GPU is called 7"),
        (vec!["--require", "fan"], "--require"),
    ] {
        let words: Vec<&str> = duration.into_iter().chain(words).collect();
        let output = recorder(&sim, &words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{words:?}: {said}");
        assert!(said.contains(names), "{words:?}: {said}");
    }
    let short = recorder(&sim, &["--duration", "20ms"]).output().unwrap();
    assert_eq!(short.status.code(), Some(64));
    assert!(!runs(&sim).exists());
}
