//! Reports that cannot be put where they were asked for.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::traced::{Running, Trace};

fn none() -> Trace {
    Trace::with_library("/nonexistent/libnvidia-ml.so.1")
}

/// Names in a folder, but for the report's own.
fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn an_output_that_cannot_be_opened_is_said_before_the_command_starts() {
    if !crate::privilege::can_trace(
        "an_output_that_cannot_be_opened_is_said_before_the_command_starts",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for output in ["/nonexistent/report.json".into(), folder.path().to_path_buf()] {
        let ran = folder.path().join("ran");
        let trace = none().output(Some(output.clone()));
        let ended = trace.command([&PathBuf::from("touch"), &ran]).run();
        ended.exited(125).says("cannot write").says(output.to_str().unwrap()).says("--output");
        assert!(!ran.exists());
    }
    let ended = none().output(Some("/nonexistent/report.json".into())).words("--for 1s").run();
    ended.exited(1).says("cannot write /nonexistent/report.json");
}

#[test]
fn a_full_disk_loses_no_figures_and_no_older_report() {
    if !crate::privilege::can_trace("a_full_disk_loses_no_figures_and_no_older_report") {
        return;
    }
    let ended = none().output(Some("/dev/full".into())).command(["true"]).run();
    ended.exited(1).says("cannot write /dev/full").says("the report follows here");
    ended.says("\"missed_in_coverage\":null");
    // The command's own failure is what its caller asked about.
    let ended = none().output(Some("/dev/full".into())).command(["sh", "-c", "exit 9"]).run();
    ended.exited(9).says("cannot write /dev/full");

    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("tiny/report.json");
    let tiny = folder.path().join("tiny");
    let script = format!(
        "mkdir {tiny} && mount -t tmpfs -o size=4k none {tiny} && echo old > {tiny}/report.json \
         && \"$0\" \"$@\"; status=$?; cat {tiny}/report.json; ls -A {tiny}; exit $status",
        tiny = tiny.display()
    );
    let trace = none().output(Some(output)).behind("unshare -m sh -c").behind_word(&script);
    let ended = trace.command(["true"]).run();
    ended.exited(1).says("cannot write").says("\"missed_in_coverage\":null");
    assert_eq!(ended.out, "old\nreport.json\n", "the old report, and no draft beside it");
}

#[test]
fn a_link_is_followed_and_an_old_report_replaced_whole() {
    if !crate::privilege::can_trace("a_link_is_followed_and_an_old_report_replaced_whole") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file.json"), folder.path().join("link.json"));
    fs::write(&file, "x".repeat(100_000)).unwrap();
    symlink(&file, &link).unwrap();
    none().output(Some(link.clone())).command(["true"]).run().exited(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with('{') && text.ends_with("}\n"), "{text}");
    assert_eq!(names(folder.path()), ["file.json", "link.json"]);
}

#[test]
fn a_link_to_nothing_is_refused_before_anything_runs() {
    if !crate::privilege::can_trace("a_link_to_nothing_is_refused_before_anything_runs") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file.json"), folder.path().join("link.json"));
    symlink(&file, &link).unwrap();
    let ended = none().output(Some(link.clone())).command(["true"]).run();
    ended.exited(125).says("cannot write").says("--output");
    assert_eq!(names(folder.path()), ["link.json"]);
}

#[test]
fn an_old_report_stays_where_nothing_was_started() {
    if !crate::privilege::can_trace("an_old_report_stays_where_nothing_was_started") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("report.txt");
    fs::write(&output, "old").unwrap();
    let mut words = vec!["--nvml-library", "/nonexistent/x", "trace", "--strict", "--output"];
    words.extend([output.to_str().unwrap(), "--", "true"]);
    crate::traced::words(words).exited(125);
    assert_eq!(fs::read_to_string(&output).unwrap(), "old");
    assert_eq!(names(folder.path()), ["report.txt"]);
}

#[test]
fn a_closed_stdout_is_no_failure() {
    if !crate::privilege::can_trace("a_closed_stdout_is_no_failure") {
        return;
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // `-` is stdout.
    let running: Running = none().output(Some("-".into())).stdout(writer).command(["true"]).start();
    running.ended().exited(0);
    let closed =
        none().output(Some("-".into())).behind("sh -c").behind_word("exec \"$0\" \"$@\" >&-");
    let ended = closed.command(["true"]).run();
    assert!([0, 1].contains(&ended.code), "{}: {}", ended.code, ended.err);
}

#[test]
fn both_streams_closed_end_the_trace_all_the_same() {
    if !crate::privilege::can_trace("both_streams_closed_end_the_trace_all_the_same") {
        return;
    }
    let trace = none().output(None).behind("sh -c");
    let ended = trace.behind_word("exec \"$0\" \"$@\" >&- 2>&- <&-").command(["true"]).run();
    ended.exited(0);
}
