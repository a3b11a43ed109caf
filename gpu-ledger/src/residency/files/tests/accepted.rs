//! A batch that passes both verdicts, as it lies in the repository, and how a batch is written.

use std::fs;
use std::path::{Path, PathBuf};

use super::made::{self, Recipe};
use crate::residency::files::Rows;
use crate::residency::files::{
    Batch, FilesError, Manifest, SUMS, Verification, check, exit_status, mark, marks, verify,
    verify_all,
};
use crate::residency::sample::Sample;
use crate::residency::tests::bench::BOOT;
use crate::unit::{BootNs, WallUs};

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/residency/accepted")
}

/// Three windows: a quiet one, one with a stall that is caught up with, and one more.
fn recipe() -> Recipe {
    let quiet = vec![[1, 1, 1, 1]];
    let stall = vec![[1, 1, 1, 1], [1, 1, 1, 1], [509, 1, 1, 1], [1, 1, 1, 1]];
    Recipe { windows: vec![quiet.clone(), stall, quiet], ..Recipe::default() }
}

#[test]
fn t16_a_batch_of_the_driver_that_holds_is_accepted() {
    let report = verify(&recorded().join(recipe().id));
    assert_eq!(report.findings, []);
    assert_eq!((report.accepted, report.as_recorded, report.exit_status()), (true, Some(true), 0));
    assert_eq!(
        report.line(),
        "GPU_LEDGER_VERDICT backend=pass data=valid reasons=none max_sample_age_ms=701.000 sup_ms=709.000 \
         cap_ms=750.000"
    );
    let text = report.to_string();
    for said in [
        "16 files, every one as it was recorded",
        "iteration 0002 config=fp8 round=2: points 41/41, samples",
        "recoveries 1,",
        "each value of device memory was read within 709.000 ms of the instant it is drawn at",
        "does not prove",
        "that one configuration is to be preferred to another",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("better"), "{text}");
}

/// What is written today is what was written when the files were looked at.
#[test]
fn a_batch_is_the_same_bytes_whenever_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let report = made::batch(folder.path(), &recipe());
    let (now, then) = (made::files(&report.folder), made::files(&recorded().join(recipe().id)));
    let names = |files: &std::collections::BTreeMap<String, Vec<u8>>| {
        files.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&now), names(&then));
    for (name, bytes) in &now {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert!(then.get(name) == Some(bytes), "{name}:\n{}", text(bytes));
    }
    // What the writer says of it is what a reader finds.
    let checked = check(&report.folder);
    assert_eq!(checked.report.line(), report.line());
    assert_eq!(checked.iterations, report.iterations);
    assert_eq!(checked.manifest.as_ref(), Some(&report.manifest));
}

/// Run by hand where the form of the files is to change.
#[test]
#[ignore = "writes tests/data/residency/accepted anew"]
fn write_the_recorded_batch_anew() {
    let _ = fs::remove_dir_all(recorded());
    made::batch(&recorded(), &recipe());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the program whose format it is")]
fn sha256sum_checks_the_sums() {
    let folder = tempfile::tempdir().unwrap();
    let report = made::batch(folder.path(), &Recipe::default());
    let check = || {
        let mut program = std::process::Command::new("sha256sum");
        program.args(["--check", "--strict", "--quiet", SUMS]).current_dir(&report.folder);
        program.output().unwrap()
    };
    let output = check();
    assert!(output.status.success(), "{output:?}");
    fs::write(report.folder.join("marks.jsonl"), "").unwrap();
    assert!(!check().status.success());
}

#[test]
fn what_is_not_available_stands_where_nobody_averages_it() {
    let stall = vec![[1, 1, 1, 1], [1, 1, 1, 1], [900, 1, 1, 1], [1, 1, 1, 1]];
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe { windows: vec![stall], ..Recipe::default() };
    let report = made::batch(folder.path(), &recipe);
    let timeline = fs::read_to_string(report.folder.join("iterations/0001/timeline.csv")).unwrap();
    let mut rows = csv::Reader::from_reader(timeline.as_bytes());
    let head: Vec<String> = rows.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 41);
    let cell = |row: usize, column: &str| {
        rows[row].get(head.iter().position(|name| name == column).unwrap()).unwrap().to_owned()
    };
    assert_eq!(
        (cell(0, "t_ms"), cell(0, "cpu_valid"), cell(0, "cpu_pct")),
        ("0.000".into(), "false".into(), String::new())
    );
    assert_eq!(cell(0, "cpu_invalid_reason"), "first_sample_no_baseline");
    assert_eq!(
        (cell(1, "t_ms"), cell(1, "cpu_pct"), cell(1, "cpu_valid")),
        ("50.000".into(), "25.00".into(), "true".into())
    );
    assert_eq!(
        (cell(1, "available"), cell(1, "mem_used_bytes")),
        ("true".into(), (1_u64 << 30).to_string())
    );
    assert_eq!(
        (cell(1, "raw_mem_used_bytes"), cell(1, "gpu_util_pct")),
        (String::new(), "50".into())
    );
    // The second sample landed 200 ms after T0; a point 800 ms after that is over the cap.
    assert_eq!(
        (cell(20, "available"), cell(20, "invalid_reason")),
        ("false".into(), "age_over_cap".into())
    );
    assert_eq!(
        (cell(20, "sample_age_ms"), cell(20, "held_sample")),
        ("801.000".into(), "1".into())
    );
    assert_eq!(
        (cell(20, "mem_used_bytes"), cell(20, "power_mw"), cell(20, "temp_c")),
        Default::default()
    );
    assert_eq!((cell(20, "raw_power_mw"), cell(20, "raw_temp_c")), ("100000".into(), "40".into()));
    assert_eq!(cell(20, "raw_mem_used_bytes"), ((1_024_u64 + 64) << 20).to_string());
}

#[test]
fn t18_all_but_the_first_point_are_aggregated() {
    let folder = tempfile::tempdir().unwrap();
    let report = made::batch(folder.path(), &Recipe::default());
    let cpu = report.iterations[0].derived.as_ref().unwrap().cpu;
    assert_eq!((cpu.cpu_samples_total, cpu.cpu_samples_aggregated), (41, 40));
}

#[test]
fn an_id_is_used_once_and_sorts_by_time() {
    let folder = tempfile::tempdir().unwrap();
    made::batch(folder.path(), &Recipe::default());
    let again = Batch::create(folder.path(), made::manifest(&Recipe::default()));
    assert!(matches!(again, Err(FilesError::Exists { .. })));
    let mut elsewhere = made::manifest(&Recipe::default());
    "../batch".clone_into(&mut elsewhere.batch_id);
    assert!(matches!(Batch::create(folder.path(), elsewhere), Err(FilesError::Document { .. })));
    let id = super::super::batch_id(WallUs(1_790_000_000_000_000));
    let later = super::super::batch_id(WallUs(1_790_000_001_000_000));
    assert!(id.starts_with("20260921T141320Z-") && id < later, "{id} {later}");
    assert_ne!(id, super::super::batch_id(WallUs(1_790_000_000_000_000)));
}

#[test]
fn phases_are_marked_while_a_batch_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let batch = Batch::create(folder.path(), made::manifest(&Recipe::default())).unwrap();
    mark(batch.folder(), BootNs(BOOT), "load \"2\"").unwrap();
    mark(batch.folder(), BootNs(BOOT + 1), "serve").unwrap();
    let told: Vec<String> =
        marks(batch.folder()).unwrap().into_iter().map(|phase| phase.name).collect();
    assert_eq!(told, ["load \"2\"", "serve"]);
    for wrong in ["", "a\nb", "\u{1b}[31m", "\u{202e}", &"x".repeat(81)] {
        assert!(mark(batch.folder(), BootNs(1), wrong).is_err(), "{wrong:?}");
    }
    assert!(matches!(mark(folder.path(), BootNs(1), "x"), Err(FilesError::NoBatch { .. })));
    let report = batch.finish().unwrap();
    assert!(matches!(mark(&report.folder, BootNs(1), "late"), Err(FilesError::Closed { .. })));
    assert_eq!(verify(&report.folder).findings, []);
}

#[test]
fn a_folder_of_batches_is_proven_batch_by_batch() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(verify_all(folder.path()), Err(FilesError::NoBatch { .. })));
    let good = made::batch(
        folder.path(),
        &Recipe { id: "20260922T000001Z-00000000", ..Recipe::default() },
    );
    assert_eq!(verify_all(&good.folder).unwrap().len(), 1);
    let reports = verify_all(folder.path()).unwrap();
    assert_eq!((reports.len(), exit_status(&reports)), (1, 0));
    // Cut off before it had a manifest.
    fs::create_dir(folder.path().join("20260922T000000Z-00000000")).unwrap();
    fs::create_dir(folder.path().join("plots")).unwrap();
    let reports = verify_all(folder.path()).unwrap();
    let accepted: Vec<bool> = reports.iter().map(|report| report.accepted).collect();
    assert_eq!(accepted, [false, true]);
    assert_eq!(exit_status(&reports), 5);
}

#[test]
fn the_harness_has_a_name_where_all_of_it_is_known() {
    let known = made::manifest(&Recipe::default());
    let id = known.verification_id().unwrap();
    let other = Manifest { kernel: Some("6.12.1".to_owned()), ..known.clone() };
    assert_ne!(other.verification_id(), Some(id));
    assert_eq!(Manifest { driver_version: None, ..known }.verification_id(), None);
}

#[test]
fn rows_are_read_one_by_one_and_a_wrong_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let report = made::batch(folder.path(), &Recipe::default());
    let path = report.iterations[0].path("samples.jsonl");
    let rows: Vec<Sample> = Rows::open(&path).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 11);
    let text = fs::read_to_string(&path).unwrap();
    let error = |text: String| {
        fs::write(&path, text).unwrap();
        let error = Rows::<Sample>::open(&path).unwrap().find_map(Result::err);
        error.map(|error| error.to_string()).unwrap_or_default()
    };
    let third = text.replacen(r#""k":2"#, r#""k":-2"#, 1);
    assert!(error(third).contains("samples.jsonl:3: invalid value"));
    let long = format!("{}\n{text}", "x".repeat(1 << 21));
    assert!(error(long).contains("samples.jsonl:1: a row of more than 1048576 bytes"));
    assert!(error(format!("\n{text}")).contains("samples.jsonl:1: "));
}

#[test]
fn what_programs_read_is_as_its_schema_has_it() {
    let schema = include_str!("../../../../schema/residency-verify.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let good = made::batch(folder.path(), &recipe());
    let void = Recipe {
        id: "20260922T000002Z-00000000",
        windows: vec![vec![[900, 1, 1, 1]], vec![[1, 1, 1, 1]]],
        backend: crate::residency::verdict::Backend::Simulated,
        ..Recipe::default()
    };
    let void = made::batch(folder.path(), &void);
    fs::create_dir(folder.path().join("20260922T000001Z-00000000")).unwrap();
    let validate = || {
        let reports = verify_all(folder.path()).unwrap();
        let text = crate::rendering::json(&Verification::of(&reports)).unwrap();
        let value = serde_json::from_str(&text).unwrap();
        let faults: Vec<String> =
            schema.iter_errors(&value).map(|fault| fault.to_string()).collect();
        assert_eq!(faults, Vec::<String>::new(), "{text}");
        assert_eq!(value["batches"].as_array().unwrap().len(), 3);
    };
    validate();
    fs::write(good.iterations[0].path("samples.jsonl"), "{}\n").unwrap();
    fs::remove_file(void.iterations[0].path("events.jsonl")).unwrap();
    validate();
}
