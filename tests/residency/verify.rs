//! `residency verify`: what it says of the batch that lies in the repository, and of copies that were changed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/residency/accepted");
const BATCH: &str = "20260922T000000Z-00000000";

fn verify(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    command.args(["residency", "verify"]).args(words).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> (String, Option<i32>) {
    (String::from_utf8(output.stdout.clone()).unwrap(), output.status.code())
}

#[test]
fn an_accepted_batch_is_status_0_and_says_what_it_proves() {
    let batch = format!("{RECORDED}/{BATCH}");
    for folder in [RECORDED, &batch] {
        let (text, status) = said(&verify(&[folder]));
        assert_eq!(status, Some(0), "{text}");
        assert!(
            text.contains("does not prove: that one configuration is to be preferred to another"),
            "{text}"
        );
        let last = text.lines().last().unwrap();
        assert!(
            last.starts_with("GPU_LEDGER_VERDICT backend=pass data=valid reasons=none"),
            "{text}"
        );
    }
    let (text, status) = said(&verify(&["--json", RECORDED]));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &value["batches"][0]["accepted"]), (Some(0), &true.into()));
}

#[test]
fn a_changed_one_is_status_1_and_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").args(["-r", RECORDED]).arg(folder.path()).status().unwrap();
    assert!(copied.success());
    let batch = folder.path().join("accepted").join(BATCH);
    let file = batch.join("iterations/0002/timeline.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen(",100000,", ",100001,", 1)).unwrap();
    let (text, status) = said(&verify(&[batch.to_str().unwrap()]));
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("NOT AS RECORDED"), "{text}");
    assert!(text.contains("iterations/0002/timeline.csv: line 2 is not what follows"), "{text}");
    assert!(text.contains("its SHA-256 is not the one in SHA256SUMS"), "{text}");
}

#[test]
fn a_folder_without_a_batch_is_a_failure_that_says_what_to_give() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path(), Path::new("/nonexistent")] {
        let output = verify(&[path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(path.to_str().unwrap()));
    }
    assert_eq!(verify(&[]).status.code(), Some(64));
    let library = verify(&["--nvml-library", "/dev/null", RECORDED]);
    assert_eq!(library.status.code(), Some(64));
}
