//! Several traces at once, one within another, and one that is killed.

use std::process::Command;

use crate::support::{Sim, poll};
use crate::traced::Trace;

#[test]
fn two_traces_at_once_each_name_their_own_command() {
    if !crate::privilege::can_trace("two_traces_at_once_each_name_their_own_command") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let [one, other] = [40, 60].map(|ms| {
        let script = format!("nvsim work --gpu 0 --ms {ms}; exit {ms}");
        Trace::on(&sim).script(&script).start()
    });
    for (running, status) in [(one, 40), (other, 60)] {
        let ended = running.ended();
        assert_eq!(ended.exited(status).programs(), ["nvsim"]);
        let held = &ended.report()["command"]["settlements"][0]["held_ms"];
        assert!(held.as_u64().unwrap() >= u64::try_from(status).unwrap(), "{held}");
    }
}

#[test]
fn a_trace_within_a_trace_names_the_job_in_both() {
    if !crate::privilege::can_trace("a_trace_within_a_trace_names_the_job_in_both") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // The outer trace sees the whole host, other tests' storms included, while the inner one starts.
    let trace = Trace::on(&sim).words("--ring-size 64MiB");
    let inner = trace.folder().join("inner.json");
    let script = format!(
        "'{ledger}' --nvml-library '{library}' trace --json --output '{inner}' -- \
         nvsim work --gpu 0 --ms 30",
        ledger = env!("CARGO_BIN_EXE_gpu-ledger"),
        library = sim.library().display(),
        inner = inner.display(),
    );
    let ended = trace
        .script(&format!("{script}; status=$?; cat '{}'; exit $status", inner.display()))
        .run();
    assert_eq!(ended.exited(0).programs(), ["nvsim"], "{}", ended.report());
    let inside: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(inside["command"]["settlements"][0]["program"], "nvsim");
    let id = |report: &serde_json::Value| report["command"]["settlements"][0]["id"].clone();
    assert_eq!(id(&inside), id(ended.report()));
}

/// The ids of the programs and links that a process holds, as procfs tells of its descriptors.
fn held_by(pid: i32, kind: &str) -> Vec<String> {
    let infos = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
    let texts = infos.filter_map(|info| std::fs::read_to_string(info.unwrap().path()).ok());
    let ids = texts.filter_map(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
        Some(line.trim_start_matches(':').trim().to_owned())
    });
    ids.collect()
}

/// Whether the kernel still knows a program or a link of this id.
fn is_known(what: &str, id: &str) -> bool {
    Command::new("bpftool").args([what, "show", "id", id]).output().unwrap().status.success()
}

#[test]
fn a_trace_that_is_killed_leaves_no_program_attached() {
    if !crate::privilege::can_trace("a_trace_that_is_killed_leaves_no_program_attached") {
        return;
    }
    let test = "a_trace_that_is_killed_leaves_no_program_attached";
    if Command::new("bpftool").arg("version").output().is_err() {
        return crate::support::skip(test, "bpftool is not installed");
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let trace = Trace::on(&sim);
    let ready = trace.folder().join("ready");
    let running = trace.env("READY", &ready).script("touch \"$READY\"; exec sleep 1000").start();
    poll("the command is under way", || ready.exists().then_some(()));
    let (programs, links) = (held_by(running.pid(), "prog_id"), held_by(running.pid(), "link_id"));
    assert!(programs.len() >= 4 && !links.is_empty(), "{programs:?} {links:?}");
    assert!(programs.iter().all(|id| is_known("prog", id)), "{programs:?}");
    running.signal_group(rustix::process::Signal::KILL);
    assert_eq!(running.ended().code, 1_009);
    poll("the kernel lets go of programs and links", || {
        let left = programs.iter().any(|id| is_known("prog", id))
            || links.iter().any(|id| is_known("link", id));
        (!left).then_some(())
    });
}

#[test]
fn drafts_of_killed_traces_do_not_pile_up() {
    if !crate::privilege::can_trace("drafts_of_killed_traces_do_not_pile_up") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report.json");
    for _ in 0..3 {
        let trace = Trace::on(&sim);
        let ready = trace.folder().join("ready");
        let running = trace
            .env("READY", &ready)
            .output(Some(output.clone()))
            .script("touch \"$READY\"; exec sleep 1000")
            .start();
        poll("the command is under way", || ready.exists().then_some(()));
        running.signal_group(rustix::process::Signal::KILL);
        assert_eq!(running.ended().code, 1_009);
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(left <= 1, "{left} drafts are left");
}
