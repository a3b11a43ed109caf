//! What somebody had erased is gone while the daemon runs, and stays gone.

use std::path::PathBuf;
use std::process::Output;

use gpu_ledger::journal::entry::Figures;
use gpu_ledger::journal::store::{StateDir, check};
use serde_json::json;

use crate::asking::{ONE, ROOT, answer, ledger, socket, text};
use crate::canary::{files_with, job};
use crate::daemon::{Daemon, Setup, assert_sound};
use crate::privilege::can_trace;
use crate::support::Sim;

/// Stands in nothing that a redactor takes for a secret.
const WORDS: &str = "Gr33nQz7Xw";

fn redact(sim: &Sim, daemon: &Daemon<'_>, words: &[&str]) -> Output {
    let (state, socket) = (daemon.state().to_str().unwrap().to_owned(), socket(sim));
    let place = ["--state-dir", &state, "--socket", socket.to_str().unwrap()];
    ledger(0, 0, &[&["journal", "redact"], words, &place].concat())
}

#[test]
fn a_persons_command_lines_are_gone_while_the_daemon_runs_and_what_settles_later_brings_none_back()
{
    if !can_trace(
        "a_persons_command_lines_are_gone_while_the_daemon_runs_and_what_settles_later_brings_none_back",
    ) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let state = daemon.state().to_path_buf();
    let run = || assert!(job(&sim, "train.py", &[WORDS.to_owned()]).status().unwrap().success());
    run();
    daemon.until_booked(1);
    assert!(!files_with(&state, WORDS).0.is_empty(), "it was there to be found");
    let dry = redact(&sim, &daemon, &["--user", "root", "--dry-run"]);
    assert_eq!(text(&dry.stdout), "command lines that would be deleted: 1\n", "{dry:?}");
    assert!(!files_with(&state, WORDS).0.is_empty());
    let done = redact(&sim, &daemon, &["--user", "root"]);
    let said = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let wanted = "command lines redacted: 1; texts deleted: 1 in the journal, 0 in its archives\n";
    assert!(said.starts_with(wanted) && said.contains("handed out"), "{said}");
    assert_eq!(files_with(&state, WORDS).0, Vec::<PathBuf>::new());
    // The same words, by another process.
    run();
    daemon.until_booked(2);
    assert_eq!(files_with(&state, WORDS).0, Vec::<PathBuf>::new());
    let again = redact(&sim, &daemon, &["--user", "0"]);
    assert!(text(&again.stdout).contains("; texts deleted: 0 in the journal"), "{again:?}");
    // Others may not, and what is no request says what is one.
    let request =
        |commitments| json!({ "version": 1, "request": "redact", "commitments": commitments });
    let refused = answer(ONE, &sim, &request(json!([])));
    assert!(refused.contains("error") && !refused.contains("texts"), "{refused}");
    let wrong = answer(ROOT.0, &sim, &request(json!(["0123"])));
    assert!(wrong.contains("64 hex digits"), "{wrong}");
    drop(daemon.stop());
    assert_sound(&state);
    let checked = check(&StateDir::at(&state)).unwrap();
    assert_eq!((checked.argv_kept, checked.argv_absent), (0, 1), "{checked:?}");
}

/// One that held the GPU long enough to be entered as open has its words in two entries, and they are one process's.
#[test]
fn a_settlement_that_was_seen_open_is_redacted_by_its_id_alone() {
    if !can_trace("a_settlement_that_was_seen_open_is_redacted_by_its_id_alone") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let state = daemon.state().to_path_buf();
    let mut child = crate::asking::job(&sim, 0, WORDS, 60_000);
    daemon.until_entered("the open row", |figures| matches!(figures, Figures::Open(_)));
    child.kill().unwrap();
    child.wait().unwrap();
    daemon.until_booked(1);
    let place = ["--state-dir", state.to_str().unwrap()];
    let words = ["bill", "--by", "process", "--format", "json", "--period", "all", "--utc"];
    let bill = ledger(0, 0, &[&words[..], &place].concat());
    let bill: serde_json::Value = serde_json::from_slice(&bill.stdout).unwrap();
    let id = bill["settlements"][0]["id"].as_str().unwrap();
    let done = redact(&sim, &daemon, &["--id", id]);
    let wanted = "command lines redacted: 1; texts deleted: 1 in the journal, 0 in its archives\n";
    let said = text(&done.stdout);
    assert!(said.starts_with(wanted) && !said.contains("others"), "{said}");
    drop(daemon.stop());
    let checked = check(&StateDir::at(&state)).unwrap();
    assert_eq!((checked.argv_kept, checked.argv_absent), (0, 1), "{checked:?}");
}

#[test]
fn who_is_not_there_and_what_no_settlement_is_called_is_told_with_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let asked = |words: &[&str]| {
        let output = ledger(0, 0, &[&["journal", "redact", "--state-dir", state], words].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (status, said) = asked(&["--user", "nobody-is-called-so"]);
    assert!(status == Some(64) && said.contains("knows no user nobody-is-called-so"), "{said}");
    let (status, said) = asked(&[]);
    assert!(status == Some(64) && said.contains("--user"), "{said}");
    let (status, said) = asked(&["--user", "0"]);
    assert!(status == Some(1) && said.contains("has no journal"), "{said}");
}
