//! Checkpoints of a running daemon: signed, sent, continued, and refused where the journal was taken back.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use gpu_ledger::journal::Figures;
use gpu_ledger::journal::note::{Checkpoint, VerifyingKey};
use gpu_ledger::journal::store::{StateDir, check};
use serde_json::Value;

use crate::asked::{ledger, status, text};
use crate::daemon::{NOBODY, Setup, assert_sound};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

fn key_of(status: &Value) -> VerifyingKey {
    status["checkpoint"]["key"].as_str().unwrap().parse().unwrap()
}

/// The checkpoints of the file that somebody else keeps, oldest first.
fn kept(file: &Path, keys: &[&VerifyingKey]) -> Vec<Checkpoint> {
    let text = std::fs::read_to_string(file).unwrap();
    let notes = text.split_terminator("\n\n").collect::<Vec<_>>();
    let open = |parts: &[&str]| {
        let note = format!("{}\n\n{}\n", parts[0], parts[1]);
        Checkpoint::open(note.as_bytes(), keys).unwrap()
    };
    notes.chunks(2).map(open).collect()
}

#[test]
fn a_daemon_signs_what_it_entered_sends_it_out_and_another_key_goes_on() {
    if !can_trace("a_daemon_signs_what_it_entered_sends_it_out_and_another_key_goes_on") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let file = sim.folder().join("checkpoints");
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
    let config = format!("[audit]\ncheckpoint_file = \"{}\"\n", file.display());
    let daemon = Setup::on(&sim).config(&config).start();
    let state = daemon.state().to_path_buf();
    let signed = poll("the first checkpoint", || {
        let status = status(&sim);
        let is_sent = status["checkpoint"]["anchors"]["file"]["on"] == true;
        (is_sent && status["checkpoint"]["size"].is_u64()).then_some(status)
    });
    let checkpoint = &signed["checkpoint"];
    assert!(checkpoint["age_ms"].is_u64() && checkpoint["refused"].is_null(), "{checkpoint}");
    assert!(checkpoint["uncovered"].is_u64() && checkpoint["unknown"].is_null(), "{checkpoint}");
    assert_eq!(checkpoint["anchors"]["file"]["failed"], 0, "{checkpoint}");
    let first = key_of(&signed);
    assert_eq!(first.id().to_string(), checkpoint["key_id"].as_str().unwrap());
    daemon.until_entered("the key is an entry", |figures| {
        matches!(figures, Figures::Key(change) if *change.key == *first.to_string() && change.previous.is_none())
    });
    daemon.until_logged("a checkpoint was signed");
    let page = text(&ledger(&sim, &["status"]).stdout);
    assert!(page.contains(&format!("by key {}", first.id())), "{page}");
    assert!(page.contains("outside anchors: system log "), "{page}");
    for name in ["ledger.key", "checkpoint"] {
        let found = std::fs::metadata(state.join(name)).unwrap();
        assert_eq!((found.permissions().mode() & 0o7777, found.uid()), (0o600, NOBODY), "{name}");
    }
    let socket = sim.folder().join("run/daemon.sock");
    let words = ["journal", "rotate-key", "--socket", socket.to_str().unwrap()];
    let rotated = ledger(&sim, &words);
    assert!(rotated.status.success(), "{}", text(&rotated.stderr));
    let told = text(&rotated.stdout);
    let next: VerifyingKey = told.lines().last().unwrap().parse().unwrap();
    assert_ne!(next.id(), first.id());
    poll("it signs", || {
        let status = status(&sim);
        (key_of(&status) == next && status["checkpoint"]["lack"].is_null()).then_some(())
    });
    let log = daemon.stop();
    assert!(!log.contains(" ERROR "), "{log}");
    // The last word is of everything.
    let offline = status(&sim);
    assert_eq!((&offline["checkpoint"]["uncovered"], key_of(&offline)), (&0.into(), next.clone()));
    assert_sound(&state);
    let kept = kept(&file, &[&first, &next]);
    let report = check(&StateDir::at(&state)).unwrap();
    let last = kept.last().unwrap();
    assert_eq!((last.size, Some(last.root)), (report.head.seq, report.root));
    assert!(kept.len() >= 2 && kept.is_sorted_by_key(|one| one.size), "{kept:?}");
    let own = std::fs::read(state.join("checkpoint")).unwrap();
    assert_eq!(Checkpoint::open(&own, &[&next]).unwrap(), *last);
}

#[test]
fn a_journal_that_was_taken_back_is_not_signed_and_all_else_goes_on() {
    if !can_trace("a_journal_that_was_taken_back_is_not_signed_and_all_else_goes_on") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let older = sim.folder().join("older");
    std::fs::create_dir(&older).unwrap();
    for name in ["ledger.db", "ledger.head"] {
        std::fs::copy(state.join(name), older.join(name)).unwrap();
    }
    Setup::on(&sim).start().stop();
    let signed = status(&sim)["checkpoint"]["size"].clone();
    for name in ["ledger.db", "ledger.head"] {
        std::fs::copy(older.join(name), state.join(name)).unwrap();
    }
    let before = std::fs::read(state.join("checkpoint")).unwrap();
    let daemon = Setup::on(&sim).start();
    let red = poll("it is refused", || {
        let status = status(&sim);
        status["checkpoint"]["refused"].is_string().then_some(status)
    });
    assert_eq!(red["checkpoint"]["size"], signed, "{red}");
    let reasons = red["health"]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|one| one["reason"] == "checkpoint-refused"), "{red}");
    let page = text(&ledger(&sim, &["status"]).stdout);
    assert!(page.contains("NOT SIGNED: ") && page.contains("checkpoint-refused"), "{page}");
    sim.work("--ms 3").wait();
    daemon.until_booked(1);
    let log = daemon.stop();
    assert!(log.contains("no checkpoint is signed"), "{log}");
    assert_eq!(std::fs::read(state.join("checkpoint")).unwrap(), before);
}
