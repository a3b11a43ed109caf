//! The contract of `trace -- CMD`: statuses, streams, and whose process CMD is.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Output, Stdio};

use crate::ledger::{assert_fits_a_terminal, read_report};
use crate::privilege::can_trace;
use crate::support::Sim;

const NOBODY: &str = "65534";

fn sh(sim: &Sim, arguments: &[&str], script: &str) -> Output {
    let mut trace = sim.trace(arguments);
    trace.args(["--", "sh", "-c", script]).output().unwrap()
}

#[test]
fn the_status_is_the_commands_own_or_as_env_has_it() {
    let sim = Sim::start(&["--gpus", "1"]);
    let text = sim.folder().join("no-program");
    std::fs::write(&text, "no program").unwrap();
    let status = |words: &[&str]| {
        let mut trace = sim.trace(&["--"]);
        trace.args(words).stderr(Stdio::null()).status().unwrap().code()
    };
    assert_eq!(status(&["true"]), Some(0));
    assert_eq!(status(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(status(&["sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    assert_eq!(status(&["sh", "-c", "kill -KILL $$"]), Some(128 + 9));
    assert_eq!(status(&[text.to_str().unwrap()]), Some(126));
    assert_eq!(status(&["/nonexistent/program"]), Some(127));
    assert_eq!(status(&["no-such-program-anywhere"]), Some(127));
}

#[test]
fn where_the_report_cannot_be_written_the_command_is_not_run() {
    let sim = Sim::start(&["--gpus", "1"]);
    let ran = sim.folder().join("ran");
    let script = format!("touch {}", ran.display());
    let output = sh(&sim, &["--output", "/nonexistent/report"], &script);
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/nonexistent/report"), "{said}");
    assert!(!ran.exists());
}

#[test]
fn json_beside_a_command_needs_a_file_of_its_own() {
    let sim = Sim::start(&["--gpus", "1"]);
    let ran = sim.folder().join("ran");
    let output = sh(&sim, &["--json"], &format!("touch {}", ran.display()));
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--output"), "{said}");
    assert!(!ran.exists());
    assert_eq!(sim.trace(&[]).output().unwrap().status.code(), Some(64), "neither --for nor CMD");
}

#[test]
fn the_command_keeps_its_three_streams() {
    if !can_trace("the_command_keeps_its_three_streams") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let file = sim.folder().join("report");
    let mut trace = sim.trace(&["--json", "--output"]);
    trace.arg(&file).args(["--", "sh", "-c", "cat; echo complaint >&2"]);
    trace.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = trace.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\x00raw\xff bytes").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"\x00raw\xff bytes"[..]));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "complaint\n");
    assert_eq!(read_report(&file)["command"]["exit_status"], 0);
}

#[test]
fn the_report_goes_to_stderr_or_where_output_says() {
    if !can_trace("the_report_goes_to_stderr_or_where_output_says") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let page = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        assert_fits_a_terminal(&text);
        text.contains("gpu-ledger trace: SIMULATED DRIVER") && text.contains("missed_in_coverage 0")
    };
    let output = sh(&sim, &[], "echo result");
    assert_eq!(output.stdout, b"result\n");
    assert!(page(output.stderr));
    let output = sh(&sim, &["--output", "-"], "true");
    assert!(page(output.stdout) && output.stderr.is_empty());
    let file = sim.folder().join("page");
    let output = sh(&sim, &["--output", file.to_str().unwrap()], "echo result");
    assert_eq!((&*output.stdout, &*output.stderr), (&b"result\n"[..], &b""[..]));
    assert!(page(std::fs::read(file).unwrap()));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    if !can_trace("a_reader_that_has_seen_enough_is_no_failure") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let mut trace = sim.trace(&["--output", "-", "--", "echo", "first"]);
    let mut child = trace.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 6];
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    assert_eq!((child.wait().unwrap().code(), &first), (Some(0), b"first\n"));
}

#[test]
fn strict_runs_nothing_where_a_prerequisite_is_missing_and_is_silent_where_all_is_known() {
    if !can_trace(
        "strict_runs_nothing_where_a_prerequisite_is_missing_and_is_silent_where_all_is_known",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1", "--accounting", "off"]);
    let ran = sim.folder().join("ran");
    let touch = format!("touch {}", ran.display());
    let output = sh(&sim, &["--strict"], &touch);
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("accounting-mode-disabled") && said.contains("--enable-accounting"));
    assert!(!ran.exists(), "{said}");
    assert_eq!(
        sh(&sim, &[], &touch).status.code(),
        Some(0),
        "without --strict it runs all the same"
    );
    assert!(ran.exists());
    sim.fault("accounting on");
    let job = sim.program_called("job");
    let work = format!("{} work --ms 10", job.display());
    assert_eq!(sh(&sim, &["--strict"], &work).status.code(), Some(0));
    assert_eq!(sh(&sim, &["--strict"], &format!("{work}; exit 9")).status.code(), Some(9));
}

#[test]
fn under_sudo_the_command_is_the_callers_and_has_no_capability() {
    let name = "under_sudo_the_command_is_the_callers_and_has_no_capability";
    if !rustix::process::geteuid().is_root() {
        return crate::support::skip(name, "only root can become another user");
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let status_of = |arguments: &[&str]| {
        let mut trace = sim.trace(arguments);
        trace.env("SUDO_UID", NOBODY).args(["--output", "/dev/null", "--"]);
        let output = trace.args(["cat", "/proc/self/status"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let field = |status: &str, name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.split_once(':').unwrap().1.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let status = status_of(&[]);
    assert_eq!(field(&status, "Uid"), [NOBODY; 4]);
    assert!(!field(&status, "Gid").contains(&"0".to_owned()), "{status}");
    assert!(!field(&status, "Groups").contains(&"0".to_owned()), "{status}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(&status, set), ["0000000000000000"], "{set}");
    }
    assert_eq!(field(&status_of(&["--as-root"]), "Uid"), ["0"; 4]);
}

#[test]
fn a_report_that_is_replaced_is_whole_and_leaves_nothing_beside_it() {
    if !can_trace("a_report_that_is_replaced_is_whole_and_leaves_nothing_beside_it") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let folder = sim.folder().join("reports");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("report.json");
    let arguments = ["--json", "--output", file.to_str().unwrap()];
    for _ in 0..2 {
        assert!(sh(&sim, &arguments, "true").status.success());
        assert_eq!(read_report(&file)["format"], "gpu-ledger-trace");
    }
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|one| one.unwrap().path()).collect();
    assert_eq!(left, [Path::new(&file)]);
}
