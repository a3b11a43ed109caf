//! Commands that cannot be run, and command lines that mean nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::traced::{Ended, Trace, words};

fn none() -> Trace {
    Trace::with_library("/nonexistent/libnvidia-ml.so.1")
}

#[test]
fn a_command_that_is_not_there_gives_127_and_one_that_cannot_run_126() {
    if !crate::privilege::can_trace(
        "a_command_that_is_not_there_gives_127_and_one_that_cannot_run_126",
    ) {
        return;
    }
    let ended = none().command(["/nonexistent/command"]).run();
    ended.exited(127).says("/nonexistent/command: no such command; check the name and PATH");
    assert_eq!(ended.report()["command"]["exit_status"], 127);
    assert_eq!(ended.report()["command"]["processes"], serde_json::json!([]), "nothing ran");
    let ended = none().command(["/tmp"]).run();
    ended.exited(126).says("/tmp: cannot be run");
    assert_eq!(ended.report()["command"]["processes"], serde_json::json!([]), "nothing ran");
    let trace = none();
    let file = trace.folder().join("file");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    let ended = trace.command([&file]).run();
    ended.exited(126).says("cannot be run");
    ended.says("ermission denied");
}

#[test]
fn a_command_killed_by_a_signal_gives_128_and_its_number() {
    if !crate::privilege::can_trace("a_command_killed_by_a_signal_gives_128_and_its_number") {
        return;
    }
    let ended = none().command(["sh", "-c", "kill -9 $$"]).run();
    ended.exited(137);
    assert_eq!(ended.report()["command"]["exit_status"], 137);
}

#[test]
fn bytes_that_are_no_text_in_a_command_reach_it_and_no_terminal() {
    if !crate::privilege::can_trace("bytes_that_are_no_text_in_a_command_reach_it_and_no_terminal")
    {
        return;
    }
    let argument = OsStr::from_bytes(b"\xff\x1b[31m\nx");
    let ended = none().command([OsStr::new("printf"), OsStr::new("%s"), argument]).run();
    ended.exited(0);
    let argv = ended.report()["command"]["argv"].to_string();
    assert!(argv.contains("xff") && !argv.contains('\u{1b}'), "{argv}");
    let people = none().output(None).command([OsStr::new("true"), argument]).run();
    people.exited(0);
    assert!(!people.err.contains('\u{1b}'), "{:?}", people.err);
    // Escaped once: the bytes can be told from it.
    people.says(r"command true \xff\x1b[31m\x0ax (exit status 0)");

    let missing =
        none().output(None).command([OsStr::from_bytes(b"/nonexistent/\xff\x1b[31m")]).run();
    missing.exited(127);
    assert!(!missing.err.contains('\u{1b}'), "{:?}", missing.err);
}

#[test]
fn a_very_long_command_line_is_run_and_shown_cut() {
    if !crate::privilege::can_trace("a_very_long_command_line_is_run_and_shown_cut") {
        return;
    }
    let long = "x".repeat(100_000);
    let many = std::iter::once("true").chain(std::iter::repeat_n(long.as_str(), 10));
    let ended = none().output(None).command(many).run();
    ended.exited(0);
    assert!(ended.err.lines().all(|line| line.len() < 1_000), "a line as long as the argument");
}

fn is_usage(ended: &Ended, what: &str) {
    assert_eq!(ended.code, 64, "{what}: {}", ended.err);
    assert!(!ended.err.is_empty() && ended.out.is_empty(), "{what}: {}", ended.out);
}

#[test]
fn command_lines_that_mean_nothing_give_64_and_run_nothing() {
    if !crate::privilege::can_trace("command_lines_that_mean_nothing_give_64_and_run_nothing") {
        return;
    }
    let lines = [
        "",
        "trace",
        "trace --",
        "frobnicate",
        "trace --frobnicate -- true",
        "trace --for 1s -- true",
        "trace --for -1s",
        "trace --for soon",
        "trace --for",
        "trace --ring-size 3MiB -- true",
        "trace --ring-size 4 -- true",
        "trace --settle-timeout x -- true",
        "trace --call-deadline -5ms -- true",
        "trace --call-deadline 0s -- true",
        "trace --call-deadline 0ms --for 1s",
        "trace --json -- true",
        "trace true",
        "trace --for 1s --for 2s",
    ];
    for line in lines {
        is_usage(&words(line.split_whitespace()), line);
    }
    let not_text: Vec<OsString> =
        vec!["trace".into(), "--for".into(), OsStr::from_bytes(b"\xff").to_owned()];
    is_usage(&words(not_text), "--for with bytes that are no text");
    // The remedy is in the message, not only the refusal.
    assert!(words(["trace", "--json", "--", "true"]).err.contains("--output"));
    assert!(words(["trace", "--for", "-1s"]).err.contains("60s"));
    assert!(words(["trace", "--call-deadline", "0s", "--", "true"]).err.contains("such as 2s"));
    assert!(words(["trace", "--ring-size", "3MiB", "--", "true"]).err.contains("4MiB"));
}

#[test]
fn an_empty_command_word_is_no_command() {
    if !crate::privilege::can_trace("an_empty_command_word_is_no_command") {
        return;
    }
    let ended = none().command([""]).run();
    assert!([127, 126, 64].contains(&ended.code), "{}: {}", ended.code, ended.err);
    ended.says("gpu-ledger: ");
}

#[test]
fn help_goes_to_stdout_and_a_watch_of_no_time_is_a_report() {
    if !crate::privilege::can_trace("help_goes_to_stdout_and_a_watch_of_no_time_is_a_report") {
        return;
    }
    let help = words(["trace", "--help"]);
    help.exited(0);
    assert!(help.out.contains("--settle-timeout") && help.err.is_empty());
    let ended = none().words("--for 0s").run();
    ended.exited(2);
    assert!(ended.report()["command"].is_null());
    assert!(!Path::new("0s").exists());
}
