//! Batches whose writer was cut off anywhere.

use std::fs;

use super::made::{self, Recipe};
use crate::residency::events::Labels;
use crate::residency::files::{Batch, MANIFEST, SUMMARY, SUMS, verify};
use crate::residency::verdict::VoidReason;

/// Whatever a cut left, it is said to be incomplete and never accepted.
fn assert_incomplete(folder: &std::path::Path, how: &str) -> String {
    let report = verify(folder);
    assert!(!report.accepted, "{how}: {report}");
    assert!(
        report.void_reasons.iter().any(|void| void.reason == VoidReason::Incomplete),
        "{how}: {report}"
    );
    assert!([4, 5].contains(&report.exit_status()), "{how}: {report}");
    report.to_string()
}

#[test]
fn without_its_last_files_a_batch_is_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let report = made::batch(folder.path(), &Recipe::default());
    fs::remove_file(report.folder.join(SUMS)).unwrap();
    assert!(assert_incomplete(&report.folder, "sums").contains("SHA256SUMS: it is not there"));
    fs::remove_file(report.folder.join(SUMMARY)).unwrap();
    let verified = verify(&report.folder);
    assert_eq!(verified.exit_status(), 4);
    let said = assert_incomplete(&report.folder, "summary");
    assert!(
        said.contains("no summary.json: the batch is still recorded, or was cut off"),
        "{said}"
    );
    fs::remove_file(report.folder.join(MANIFEST)).unwrap();
    assert_incomplete(&report.folder, "manifest");
}

#[test]
fn rows_that_end_anywhere_are_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe { duration_ms: 300, ..Recipe::default() };
    let report = made::batch(folder.path(), &recipe);
    let window = &report.iterations[0];
    for name in [SUMS, SUMMARY] {
        fs::remove_file(report.folder.join(name)).unwrap();
    }
    let open = Batch::create(&folder.path().join("open"), made::manifest(&recipe)).unwrap();
    fs::copy(open.folder().join(MANIFEST), report.folder.join(MANIFEST)).unwrap();
    for name in ["timeline.csv", "iteration.json"] {
        fs::rename(window.path(name), window.path(&format!("{name}.partial"))).unwrap();
    }
    for name in ["events.jsonl", "samples.jsonl"] {
        let whole = fs::read(window.path(name)).unwrap();
        for length in (0..whole.len()).step_by(37) {
            fs::write(window.path(name), &whole[..length]).unwrap();
            let said = assert_incomplete(&report.folder, &format!("{name} {length}"));
            let is_torn = length > 0 && whole[length - 1] != b'\n';
            assert_eq!(
                said.contains("the last row ends after"),
                is_torn,
                "{name} {length}: {said}"
            );
            assert!(said.contains("timeline.csv.partial"), "{said}");
            assert!(!said.contains("NOT AS RECORDED"), "{name} {length}: {said}");
        }
        fs::write(window.path(name), whole).unwrap();
    }
}

#[test]
fn a_window_without_an_end_reaches_as_far_as_its_samples() {
    let folder = tempfile::tempdir().unwrap();
    let report = made::batch(folder.path(), &Recipe::default());
    let window = &report.iterations[0];
    let events = fs::read_to_string(window.path("events.jsonl")).unwrap();
    let cut: Vec<&str> = events.lines().filter(|row| !row.contains(r#""end""#)).collect();
    fs::write(window.path("events.jsonl"), cut.join("\n") + "\n").unwrap();
    let verified = verify(&report.folder);
    // Eleven samples, 200 ms apart.
    assert_eq!(verified.iterations[0].points_required, Some(41), "{verified}");
    let reasons: Vec<VoidReason> =
        verified.iterations[0].void_reasons.iter().map(|void| void.reason).collect();
    assert_eq!(reasons, [VoidReason::Incomplete]);
}

#[test]
fn a_window_that_was_dropped_leaves_the_batch_open() {
    let folder = tempfile::tempdir().unwrap();
    let mut batch = Batch::create(folder.path(), made::manifest(&Recipe::default())).unwrap();
    drop(batch.begin(Labels::default()).unwrap());
    let report = batch.finish().unwrap();
    assert!(!report.verdict.accepted());
    assert!(!report.folder.join(SUMMARY).exists());
    let said = assert_incomplete(&report.folder, "dropped");
    assert!(said.contains("iteration 0001"), "{said}");
}

#[test]
fn a_batch_without_a_window_is_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let batch = Batch::create(folder.path(), made::manifest(&Recipe::default())).unwrap();
    assert_incomplete(batch.folder(), "open");
    let report = batch.finish().unwrap();
    assert_eq!(report.verdict.exit_status(), 4);
    assert_eq!(verify(&report.folder).findings, []);
    assert_incomplete(&report.folder, "closed");
}
