//! The rules that speak of files: T4, T8, T16, lateness, sleep.

use std::fs;
use std::path::Path;

use super::made::{self, Recipe, anchor};
use crate::residency::files::{Batch, BatchReport, ITERATION, MANIFEST, SUMMARY, verify};
use crate::residency::settings::Settings;
use crate::residency::verdict::{
    Backend, BackendReason, BackendVerdict, DataVerdict, Void, VoidReason,
};

const QUIET: [[u64; 4]; 1] = [[1, 1, 1, 1]];

fn stalled() -> Vec<[u64; 4]> {
    vec![[1, 1, 1, 1], [1, 1, 1, 1], [900, 1, 1, 1], [1, 1, 1, 1]]
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn t4_one_point_over_the_cap_in_iteration_7_of_12_voids_all_12() {
    let windows = (1..=12).map(|round| if round == 7 { stalled() } else { QUIET.to_vec() });
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe { windows: windows.collect(), ..Recipe::default() };
    let report = made::batch(folder.path(), &recipe);
    let verified = verify(&report.folder);
    assert_eq!((verified.findings.len(), verified.exit_status()), (0, 4));
    assert_eq!(verified.line(), report.line());
    let summary = json(&report.folder.join(SUMMARY));
    let told = ["iterations_total", "iterations_valid", "iterations_void", "iterations_void_alone"];
    assert_eq!(told.map(|key| summary[key].as_u64().unwrap()), [12, 0, 12, 1]);
    assert_eq!(summary["data_verdict"], "void");
    assert_eq!(summary["accepted"], false);
    assert_eq!(summary["claims"]["proves"], serde_json::json!([]));
    let seventh = json(&report.iterations[6].path(ITERATION));
    assert_eq!(seventh["void_reasons"][0]["reason"], "age_over_cap");
    assert_eq!(seventh["labels"]["round"], "7");
    assert_eq!(json(&report.iterations[5].path(ITERATION))["data_verdict"], "valid");
}

#[test]
fn t16_every_pair_of_verdicts_is_a_status_of_its_own() {
    let simulated = Recipe { backend: Backend::Simulated, ..Recipe::default() };
    let void = Recipe { windows: vec![stalled()], ..Recipe::default() };
    let both = Recipe { backend: Backend::Simulated, ..void.clone() };
    let program = Recipe { subprocesses: 1, ..Recipe::default() };
    for (recipe, status) in
        [(Recipe::default(), 0), (simulated, 3), (void, 4), (both, 5), (program, 3)]
    {
        let folder = tempfile::tempdir().unwrap();
        let report = made::batch(folder.path(), &recipe);
        let verified = verify(&report.folder);
        assert_eq!(verified.findings, [], "{recipe:?}");
        assert_eq!(verified.exit_status(), status, "{recipe:?}");
        assert_eq!(report.verdict.exit_status(), status);
        assert_eq!(verified.accepted, status == 0);
    }
}

/// A mutation of a key of a document.
type Mutant = (&'static str, Option<&'static str>);

/// Changes a key of a document, or takes it out, and says the new hashes too.
fn mutate(batch: &Path, file: &str, (key, value): Mutant) {
    let path = batch.join(file);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| line.starts_with(&format!("  \"{key}\":"))).unwrap();
    match value {
        Some(value) => lines[at] = format!("  \"{key}\": {value},"),
        None => drop(lines.remove(at)),
    }
    let changed = lines.join("\n") + "\n";
    assert_ne!(changed, text, "{file} {key}");
    fs::write(path, changed).unwrap();
    made::sum_again(batch);
}

#[test]
fn t8_each_of_eighteen_changed_keys_is_refused() {
    let files = [MANIFEST, "iterations/0001/iteration.json", SUMMARY];
    let backend = [
        ("gpu_telemetry_backend", Some("\"cli\"")),
        ("gpu_telemetry_backend", None),
        ("gpu_cli_subprocess_used", Some("true")),
        ("gpu_cli_subprocess_used", None),
    ];
    let counts =
        [("gpu_deadline_recovery_count", Some("3")), ("gpu_deadline_recovery_count", None)];
    let mut mutants = 0;
    for file in files {
        for mutant in backend.iter().chain(&counts) {
            let folder = tempfile::tempdir().unwrap();
            let report = made::batch(folder.path(), &Recipe::default());
            mutate(&report.folder, file, *mutant);
            let verified = verify(&report.folder);
            let how = format!("{file} {mutant:?}: {verified}");
            assert!(verified.findings.iter().any(|finding| finding.file == file), "{how}");
            assert!(!verified.accepted, "{how}");
            if backend.contains(mutant) {
                assert_eq!(verified.backend_verdict, BackendVerdict::Fail, "{how}");
                assert_eq!(
                    (verified.data_verdict, verified.exit_status()),
                    (DataVerdict::Valid, 3),
                    "{how}"
                );
            } else {
                let mismatch = Void {
                    reason: VoidReason::SampleAccountingMismatch,
                    count: 1,
                    first_point: None,
                };
                assert_eq!(verified.void_reasons, [mismatch], "{how}");
                assert_eq!(
                    (verified.backend_verdict, verified.exit_status()),
                    (BackendVerdict::Pass, 4),
                    "{how}"
                );
            }
            mutants += 1;
        }
    }
    assert_eq!(mutants, 18);
}

#[test]
fn t8_other_words_under_the_keys_pass_no_less() {
    for (mutant, reason) in [
        (("gpu_telemetry_backend", Some("\"simulated\"")), BackendReason::Simulated),
        (("gpu_telemetry_backend", Some("7")), BackendReason::Mismatch),
        (("gpu_telemetry_backend", Some("null")), BackendReason::KeyMissing),
        (("gpu_cli_subprocess_used", Some("\"false\"")), BackendReason::KeyMissing),
        (("gpu_cli_subprocess_used", Some("0")), BackendReason::KeyMissing),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let report = made::batch(folder.path(), &Recipe::default());
        mutate(&report.folder, SUMMARY, mutant);
        let verified = verify(&report.folder);
        assert!(verified.backend_reasons.contains(&reason), "{mutant:?}: {verified}");
    }
}

fn voids(report: &BatchReport) -> Vec<(VoidReason, u64, Option<u64>)> {
    let verified = verify(&report.folder);
    assert_eq!(verified.findings, []);
    let voids = verified.void_reasons.iter();
    voids.map(|void| (void.reason, void.count, void.first_point)).collect()
}

#[test]
fn ticks_that_are_read_late_void_where_the_processor_is_required() {
    for (required, late_ms, expected) in [
        (false, 51, vec![]),
        (true, 50, vec![]),
        (true, 51, vec![(VoidReason::TimelineLate, 1, Some(7))]),
    ] {
        let settings = Settings { cpu_required: required, ..Settings::default() };
        let recipe = Recipe { settings, cpu_late: Some((7, late_ms)), ..Recipe::default() };
        let folder = tempfile::tempdir().unwrap();
        let report = made::batch(folder.path(), &recipe);
        assert_eq!(voids(&report), expected, "{required} {late_ms}");
        let cpu = report.iterations[0].derived.as_ref().unwrap().cpu;
        // A late one is no baseline for the next either.
        let aggregated = if late_ms > 50 { 38 } else { 40 };
        assert_eq!((cpu.cpu_samples_total, cpu.cpu_samples_aggregated), (41, aggregated));
    }
}

/// A window of a good batch with other events than it had.
fn with_events(change: impl Fn(&str) -> Option<String>) -> Vec<(VoidReason, u64, Option<u64>)> {
    use crate::residency::events::{Event, Labels};
    use crate::residency::files::{Rows, derive};
    use crate::residency::sample::Sample;
    let folder = tempfile::tempdir().unwrap();
    let good = made::batch(&folder.path().join("good"), &Recipe::default());
    let mut batch = Batch::create(folder.path(), made::manifest(&Recipe::default())).unwrap();
    let mut writer = batch.begin(Labels::default()).unwrap();
    for sample in Rows::<Sample>::open(&good.iterations[0].path("samples.jsonl")).unwrap() {
        writer.sample(&sample.unwrap()).unwrap();
    }
    let mut end = None;
    let events = fs::read_to_string(good.iterations[0].path("events.jsonl")).unwrap();
    for row in events.lines().skip(1).filter_map(change) {
        let event: Event = serde_json::from_str(&row).unwrap();
        match event {
            Event::End { .. } => end = Some(event),
            event => writer.event(&event).unwrap(),
        }
    }
    let report = writer.end(end.unwrap()).unwrap();
    let settings = &batch.manifest().settings;
    let derived = derive(&report.iteration.folder, settings, |_| Ok(())).unwrap();
    assert_eq!(Some(&derived), report.iteration.derived.as_ref());
    voids(&batch.finish().unwrap())
}

#[test]
fn sleep_in_the_window_is_seen_and_before_it_is_not() {
    assert_eq!(with_events(|row| Some(row.to_owned())), []);
    // Ten minutes asleep between the second and the third anchor, in the window.
    let slept = |row: &str, asleep: u64, from: u64| {
        let mut row: serde_json::Value = serde_json::from_str(row).unwrap();
        if row["event"] == "anchor" && row["boot_ns"].as_u64().unwrap() >= from {
            row["mono_ns"] = (row["mono_ns"].as_u64().unwrap() - asleep).into();
        }
        Some(row.to_string())
    };
    let boot = crate::residency::tests::bench::BOOT;
    let suspended = with_events(|row| slept(row, 600_000_000, boot + 500_000_000));
    assert_eq!(suspended, [(VoidReason::SuspendDetected, 1, None)]);
    // Every anchor shows the same time asleep: it was before.
    assert_eq!(with_events(|row| slept(row, 600_000_000, 0)), []);
    // Without anchors nobody knows.
    let blind = with_events(|row| (!row.contains("anchor")).then(|| row.to_owned()));
    assert_eq!(blind, [(VoidReason::Incomplete, 1, None)]);
    // Nor with none after its end.
    let last = serde_json::to_string(&anchor(crate::unit::BootNs(boot))).unwrap();
    let blind = with_events(|row| (row == last || !row.contains("anchor")).then(|| row.to_owned()));
    assert_eq!(blind, [(VoidReason::Incomplete, 1, None)]);
}

#[test]
fn without_a_word_on_the_backend_the_backend_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut batch = Batch::create(folder.path(), made::manifest(&Recipe::default())).unwrap();
    let writer = batch.begin(crate::residency::events::Labels::default()).unwrap();
    let end = crate::residency::events::Event::End {
        at_ns: crate::unit::BootNs(1),
        cause: crate::residency::events::EndCause::NoFirstSample,
        duration_ns: None,
        in_flight_since_ns: None,
        rows_not_written: 0,
        interrupted: false,
        marks: None,
    };
    writer.end(end).unwrap();
    let report = batch.finish().unwrap();
    let verified = verify(&report.folder);
    assert_eq!(verified.findings, []);
    assert!(verified.backend_reasons.contains(&BackendReason::KeyMissing));
    assert_eq!(verified.void_reasons[0].reason, VoidReason::NoFirstSample);
    assert_eq!(verified.exit_status(), 5);
    assert!(verified.line().contains("max_sample_age_ms=UNKNOWN"));
}
