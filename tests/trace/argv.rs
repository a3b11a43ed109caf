//! Arguments of strangers: nothing of them may break a table or reach a terminal raw.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::{Command, Stdio};

use base64::Engine as _;
use serde_json::Value;

use crate::ledger::{assert_fits_a_terminal, python};
use crate::privilege::can_trace;
use crate::support::Sim;

/// A GPU job as an interpreter's script that is given these arguments; runs to its end.
fn job(sim: &Sim, script: &OsStr, arguments: &[OsString]) {
    let path = sim.folder().join(script);
    std::fs::write(&path, include_str!("../support/actor.py")).unwrap();
    let orders = sim.folder().join("orders");
    std::fs::write(&orders, "open 0\n").unwrap();
    let mut job = Command::new(python());
    // Two million bytes of arguments leave little room for an environment.
    job.arg(&path).args(arguments).env_clear().env("NVSIM_SOCKET", sim.socket());
    let status = job.stdin(File::open(&orders).unwrap()).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{status}");
}

/// What exec was given, NUL after every word.
fn given(sim: &Sim, script: &OsStr, arguments: &[OsString]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let script = sim.folder().join(script);
    for word in [python().as_os_str(), script.as_os_str()] {
        bytes.extend_from_slice(word.as_bytes());
        bytes.push(0);
    }
    for word in arguments {
        bytes.extend_from_slice(word.as_bytes());
        bytes.push(0);
    }
    bytes
}

fn bytes(text: &[u8]) -> OsString {
    OsString::from_vec(text.to_vec())
}

fn settled(report: &Value) -> Vec<&Value> {
    report["host"]["settlements"].as_array().unwrap().iter().collect()
}

#[test]
fn odd_arguments_are_escaped_and_their_bytes_kept() {
    if !can_trace("odd_arguments_are_escaped_and_their_bytes_kept") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // JSON has escapes of its own, so that words that are text come back as they were.
    let text =
        ["plain words", "two\nlines\r\ttab", "\x1b[31mred\x1b]0;title\x07", "\u{202e}nrut", ""];
    let text = text.map(|word| (word.as_bytes(), word));
    let invalid: (&[u8], &str) = (b"\xff\xfe\x80 \xc3\x28", "\\xff\\xfe\\x80 \\xc3(");
    let cases: Vec<(&[u8], &str)> = text.into_iter().chain([invalid]).collect();
    let watching = sim.watch(&[]);
    for (argument, _) in &cases {
        job(&sim, OsStr::new("odd.py"), &[bytes(argument)]);
    }
    sim.until_ended(cases.len());
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    let settled = settled(&report);
    assert_eq!(settled.len(), cases.len());
    for ((argument, shown), one) in cases.iter().zip(settled) {
        assert_eq!((&one["program"], one["argv"][2].as_str()), (&"odd.py".into(), Some(*shown)));
        let given = given(&sim, OsStr::new("odd.py"), &[bytes(argument)]);
        assert_eq!(one["argv_length"], given.len());
        assert_eq!(one["argv_truncated"], false);
        let coded = one["argv_b64"].as_str();
        assert_eq!(coded.is_some(), std::str::from_utf8(argument).is_err(), "{one}");
        let engine = base64::engine::general_purpose::STANDARD;
        assert!(coded.is_none_or(|coded| engine.decode(coded).unwrap() == given), "{one}");
    }
}

#[test]
fn the_length_of_arguments_is_true_where_their_bytes_are_cut() {
    if !can_trace("the_length_of_arguments_is_true_where_their_bytes_are_cut") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let script = OsStr::new("long.py");
    let fixed = given(&sim, script, &[]).len();
    let watching = sim.watch(&[]);
    let lengths = [4_095, 4_096, 4_097, 2_090_000];
    for length in lengths {
        // One argument may have 128 KiB at most.
        let mut arguments = Vec::new();
        let mut left = length - fixed;
        while left > 0 {
            let piece = left.min(104_000);
            arguments.push(bytes(&vec![b'x'; piece - 1]));
            left -= piece;
        }
        assert_eq!(given(&sim, script, &arguments).len(), length);
        job(&sim, script, &arguments);
    }
    sim.until_ended(lengths.len());
    let report = watching.report();
    assert_eq!(sim.faults_of(&report), []);
    let settled = settled(&report);
    assert_eq!(settled.len(), lengths.len());
    for (length, one) in lengths.iter().zip(settled) {
        assert_eq!(one["argv_length"], *length);
        assert_eq!(one["argv_truncated"], *length > 4_096);
        assert_eq!(one["program"], "long.py");
        assert!(one["argv"].to_string().len() < 5_000);
    }
}

#[test]
fn a_page_with_odd_names_is_fit_for_a_terminal() {
    if !can_trace("a_page_with_odd_names_is_fit_for_a_terminal") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let scripts: [&[u8]; 3] = [
        b"red\x1b[31m\nline two.py",
        b"\xff\xfe not text.py",
        "東京の長い名前の学習スクリプト.py".as_bytes(),
    ];
    let orders = sim.folder().join("orders");
    std::fs::write(&orders, "open 0\n").unwrap();
    for script in scripts {
        let path = sim.folder().join(OsStr::from_bytes(script));
        std::fs::write(&path, include_str!("../support/actor.py")).unwrap();
        let mut trace = sim.trace(&["--"]);
        trace.arg(python()).arg(&path).arg(bytes(b"\x1b[2J\x1b]0;title\x07\xff\n\r"));
        let output = trace.stdin(File::open(&orders).unwrap()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_fits_a_terminal(&text);
        assert!(text.contains("unattributed: nothing"), "{text}");
    }
}

const CANARY: &str = "C4naryQz7Xw";

/// Of the command itself, in the page and in JSON, and where it cannot be run.
#[test]
fn a_secret_of_the_command_is_shown_only_where_that_was_asked_for() {
    if !can_trace("a_secret_of_the_command_is_shown_only_where_that_was_asked_for") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let orders = sim.folder().join("orders");
    std::fs::write(&orders, "open 0\n").unwrap();
    let script = sim.script_called("job.py");
    let output = |options: &[&str]| {
        let mut trace = sim.trace(options);
        trace.arg("--").arg(python()).arg(&script).args(["--api-key", CANARY, "plain"]);
        let output = trace.stdin(File::open(&orders).unwrap()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for (mode, has_secret, has_plain) in [
        ("none", false, false),
        ("exe", false, false),
        ("redacted", false, true),
        ("full", true, true),
    ] {
        let said = output(&["--cmdline", mode, "--json", "--output", "-"]);
        assert_eq!(
            (said.contains(CANARY), said.contains("plain")),
            (has_secret, has_plain),
            "{said}"
        );
        assert!(said.contains("job.py"), "{mode}: the program is named all the same: {said}");
    }
    let page = output(&[]);
    assert!(!page.contains(CANARY) && page.contains("job.py"), "{page}");
    let mut trace = sim.trace(&["--"]);
    let failed = trace.arg(format!("nothing --token {CANARY}")).output().unwrap();
    let said = String::from_utf8([failed.stdout, failed.stderr].concat()).unwrap();
    assert_eq!(failed.status.code(), Some(127), "{said}");
    assert!(said.contains("no such command") && !said.contains(CANARY), "{said}");
}
