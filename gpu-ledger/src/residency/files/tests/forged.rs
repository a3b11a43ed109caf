//! Somebody changes a document and knows of every hash, and of everything that is derived: all but the raw rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::made::{self, Recipe};
use crate::residency::events::{EndCause, Event, Labels};
use crate::residency::files::manifest::{Manifest, ManifestStatus};
use crate::residency::files::summary::Summary;
use crate::residency::files::{
    Batch, ITERATION, MANIFEST, MARKS, SUMMARY, TIMELINE, check, csv, derive, mark, verify,
};
use crate::residency::settings::OnVoid;
use crate::residency::tests::bench::{BOOT, MS};
use crate::residency::verdict::VoidReason;
use crate::unit::BootNs;

const WINDOW: &str = "iterations/0001/iteration.json";

/// A batch of so many short windows with two phases, in a folder of its own.
fn batch(windows: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let windows = vec![vec![[1, 1, 1, 1]]; windows];
    let report =
        made::batch(folder.path(), &Recipe { duration_ms: 300, windows, ..Recipe::default() });
    assert_eq!(verify(&report.folder).exit_status(), 0);
    (folder, report.folder)
}

/// Every hash again, in the summary too.
fn hash_again(batch: &Path) {
    let files = made::files(batch);
    if let Ok(mut summary) = serde_json::from_slice::<Value>(&files[SUMMARY])
        && let Some(hashes) = summary.get_mut("sha256").and_then(Value::as_object_mut)
    {
        let mut text = String::from_utf8(files[SUMMARY].clone()).unwrap();
        for (name, hash) in hashes.iter() {
            let now = files.get(name).map(|bytes| super::super::whole::sha256(bytes));
            if let (Some(now), Some(hash)) = (now, hash.as_str()) {
                text = text.replace(hash, &now);
            }
        }
        fs::write(batch.join(SUMMARY), text).unwrap();
    }
    made::sum_again(batch);
}

/// Everything again that is derived: timelines, windows' documents, manifest, summary, hashes.
fn derive_again(batch: &Path) {
    let path = batch.join(MANIFEST);
    let Ok((manifest, _)) = Manifest::read(&path, &fs::read(&path).unwrap()) else { return };
    for iteration in check(batch).iterations {
        let mut timeline = csv::HEAD.as_bytes().to_vec();
        let mut t0 = None;
        let derived = derive(&iteration.folder, &manifest.settings, |at| {
            csv::row(&mut timeline, *t0.get_or_insert(at.point.t), at).unwrap();
            Ok(())
        });
        if derived.is_ok() {
            fs::write(iteration.path(TIMELINE), timeline).unwrap();
        }
    }
    for iteration in check(batch).iterations {
        let text = iteration.text(&manifest.batch_id).unwrap();
        if let Some(text) = text {
            fs::write(iteration.path(ITERATION), text).unwrap();
        }
    }
    let iterations = check(batch).iterations;
    let closed = manifest.closed(&iterations);
    fs::write(&path, closed.text(&path).unwrap()).unwrap();
    let is_closed = closed.status == ManifestStatus::Closed;
    let summary = Summary::of(&closed, &iterations, is_closed);
    fs::write(batch.join(SUMMARY), summary.text(&path).unwrap()).unwrap();
    made::sum_again(batch);
}

/// As the product writes it, but for the line breaks: numbers of milliseconds have three digits.
fn text(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_f64() => format!("{:.3}", number.as_f64().unwrap()),
        Value::Array(all) => format!("[{}]", all.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Object(all) => {
            let all =
                all.iter().map(|(key, value)| format!("{}:{}", Value::from(&**key), text(value)));
            format!("{{{}}}", all.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Other values in the place of one.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![true.into(), 1.into(), "x".into()],
        Value::Bool(is) => vec![(!is).into(), Value::Null],
        Value::Number(number) if number.is_f64() => {
            vec![12_345.0.into(), Value::Null]
        }
        Value::Number(number) => {
            vec![(number.as_u64().unwrap() + 1).into(), 0.into(), Value::Null]
        }
        Value::String(word) => {
            vec![format!("{word}x").into(), Value::Null, "realtime".into(), "continue".into()]
        }
        Value::Array(all) => {
            let longer = [&all[..], &[Value::Null]].concat();
            vec![Value::Null, all[..all.len().saturating_sub(1)].into(), longer.into()]
        }
        Value::Object(all) => {
            let mut more = all.clone();
            more.insert("zzz".to_owned(), 1.into());
            vec![Value::Null, more.into()]
        }
    }
}

/// Every document that differs from `value` in one place, each with where.
fn mutants(value: &Value) -> Vec<(String, Value)> {
    let mut all: Vec<(String, Value)> = others(value)
        .into_iter()
        .filter(|other| other != value)
        .map(|other| (format!(" = {other}"), other))
        .collect();
    let mut within = |key: String, inner: &Value, put: &dyn Fn(Option<Value>) -> Value| {
        all.push((format!(".{key} taken out"), put(None)));
        for (at, mutant) in mutants(inner) {
            all.push((format!(".{key}{at}"), put(Some(mutant))));
        }
    };
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                within(key.clone(), inner, &|mutant| {
                    let mut fields = fields.clone();
                    match mutant {
                        Some(mutant) => drop(fields.insert(key.clone(), mutant)),
                        None => drop(fields.remove(key)),
                    }
                    fields.into()
                });
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                within(at.to_string(), inner, &|mutant| {
                    let mut items = items.clone();
                    match mutant {
                        Some(mutant) => items[at] = mutant,
                        None => drop(items.remove(at)),
                    }
                    items.into()
                });
            }
        }
        _ => {}
    }
    all
}

type Files = BTreeMap<String, Vec<u8>>;

fn put_back(batch: &Path, files: &Files) {
    for (name, bytes) in files {
        fs::write(batch.join(name), bytes).unwrap();
    }
}

/// Whatever is accepted is what it was: forging it undid the change.
fn assert_refused(batch: &Path, whole: &Files, how: &str) {
    let report = verify(batch);
    let is_undone = made::files(batch) == *whole;
    assert!(is_undone || !report.accepted && report.exit_status() != 0, "{how}: {report}");
    // Who was asked is a verdict of its own, which fails.
    let is_found = report.as_recorded == Some(false) || !report.backend_reasons.is_empty();
    assert!(is_undone || is_found, "{how}: {report}");
}

#[test]
fn each_field_of_each_document_is_proven() {
    let (_folder, batch) = batch(1);
    let whole = made::files(&batch);
    let mut tried = 0;
    for file in [MANIFEST, SUMMARY, WINDOW, MARKS] {
        let document: Value = serde_json::from_slice(&whole[file]).unwrap();
        for (at, mutant) in mutants(&document) {
            let end = if file == MARKS { "\n" } else { "" };
            let how = format!("{file}{at}");
            fs::write(batch.join(file), text(&mutant) + end).unwrap();
            hash_again(&batch);
            assert!(made::files(&batch) != whole, "{how}");
            assert_refused(&batch, &whole, &how);
            if [MANIFEST, MARKS].contains(&file) {
                derive_again(&batch);
                assert_refused(&batch, &whole, &format!("{how}, derived again"));
            }
            put_back(&batch, &whole);
            tried += 1;
        }
    }
    assert!(tried > 400, "{tried}");
    assert!(verify(&batch).accepted);
}

#[test]
fn a_field_that_was_changed_is_named_with_both_values() {
    let (_folder, batch) = batch(1);
    let manifest = fs::read_to_string(batch.join(MANIFEST)).unwrap();
    let cap = manifest.replace("\"sample_age_cap_ms\": 750.000", "\"sample_age_cap_ms\": 900.000");
    fs::write(batch.join(MANIFEST), cap).unwrap();
    derive_again(&batch);
    let report = verify(&batch);
    assert_eq!(report.exit_status(), 4, "{report}");
    assert_eq!(report.void_reasons[0].reason, VoidReason::SampleAccountingMismatch);
    let said = report.to_string();
    assert!(
        said.contains(
            "manifest.json: sample_age_cap_ms is 900.0 and was 750.0 when the batch was opened"
        ),
        "{said}"
    );
}

/// What is done to a batch's windows, and how that is called.
type Change<'how> = (&'how str, &'how dyn Fn(&Path));

#[test]
fn a_window_that_was_dropped_copied_or_renumbered_is_found() {
    let drop_it = |batch: &Path, number: u64| {
        fs::remove_dir_all(batch.join(format!("iterations/{number:04}"))).unwrap();
    };
    let rename = |batch: &Path, from: u64, to: u64| {
        let window = |number| batch.join(format!("iterations/{number:04}"));
        fs::rename(window(from), window(to)).unwrap();
    };
    let changes: [Change<'_>; 6] = [
        ("last dropped", &|batch| drop_it(batch, 3)),
        ("middle dropped", &|batch| drop_it(batch, 2)),
        ("first dropped", &|batch| drop_it(batch, 1)),
        ("closed up", &|batch| {
            drop_it(batch, 1);
            rename(batch, 2, 1);
            rename(batch, 3, 2);
        }),
        ("changed places", &|batch| {
            rename(batch, 1, 4);
            rename(batch, 2, 1);
            rename(batch, 4, 2);
        }),
        ("copied", &|batch| {
            fs::create_dir(batch.join("iterations/0004")).unwrap();
            for file in super::super::ITERATION_FILES {
                let name = |number: u64| batch.join(format!("iterations/{number:04}/{file}"));
                fs::copy(name(3), name(4)).unwrap();
            }
        }),
    ];
    for (how, change) in changes {
        let (_folder, batch) = batch(3);
        change(&batch);
        derive_again(&batch);
        let report = verify(&batch);
        assert!(!report.accepted, "{how}: {report}");
        assert!([1, 4].contains(&report.exit_status()), "{how}: {report}");
        if how == "last dropped" {
            assert_eq!(report.void_reasons[0].reason, VoidReason::Incomplete, "{report}");
            assert!(report.to_string().contains("2 of 3 planned iterations"), "{report}");
            // Nor is it enough to say that so many were planned.
            let manifest = fs::read_to_string(batch.join(MANIFEST)).unwrap();
            let fewer = manifest.replace("\"iterations_planned\": 3", "\"iterations_planned\": 2");
            assert_ne!(fewer, manifest);
            fs::write(batch.join(MANIFEST), fewer).unwrap();
            derive_again(&batch);
            let report = verify(&batch);
            assert!(report.to_string().contains("iterations_planned is 2 and was 3"), "{report}");
            assert_eq!(report.exit_status(), 4, "{report}");
        }
    }
}

/// A batch opened for three windows, of which these are recorded, the last ended so.
fn ended_early(on_void: OnVoid, stall_ms: u64, how: impl Fn(&mut Event)) -> Vec<(VoidReason, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        windows: vec![vec![[1, 1, 1, 1], [1, 1, 1, 1], [stall_ms, 1, 1, 1]]],
        ..Recipe::default()
    };
    let source = made::batch(&folder.path().join("source"), &recipe);
    let manifest =
        Manifest { iterations_planned: 3, on_void, ..made::manifest(&Recipe::default()) };
    let mut batch = Batch::create(folder.path(), manifest).unwrap();
    let mut writer = batch.begin(Labels::default()).unwrap();
    let window = &source.iterations[0];
    for sample in crate::residency::files::Rows::open(&window.path("samples.jsonl")).unwrap() {
        writer.sample(&sample.unwrap()).unwrap();
    }
    for event in crate::residency::files::Rows::open(&window.path("events.jsonl")).unwrap() {
        match event.unwrap() {
            Event::Begin { .. } => {}
            mut end @ Event::End { .. } => {
                how(&mut end);
                writer.end(end).unwrap();
                break;
            }
            event => writer.event(&event).unwrap(),
        }
    }
    let report = batch.finish().unwrap();
    assert_eq!((report.summary.iterations_total, report.summary.iterations_planned), (1, 3));
    let verified = verify(&report.folder);
    assert_eq!(verified.findings, []);
    assert_eq!(verified.line(), report.line());
    assert!(verified.to_string().contains("1 of 3 planned iterations"), "{verified}");
    verified.void_reasons.iter().map(|void| (void.reason, void.count)).collect()
}

#[test]
fn fewer_windows_than_planned_are_incomplete_unless_their_end_says_why() {
    let incomplete = |voids: &[(VoidReason, u64)]| {
        voids.iter().find(|(reason, _)| *reason == VoidReason::Incomplete).map(|(_, count)| *count)
    };
    assert_eq!(ended_early(OnVoid::Stop, 1, |_| {}), [(VoidReason::Incomplete, 2)]);
    let asked = |end: &mut Event| {
        if let Event::End { interrupted, .. } = end {
            *interrupted = true;
        }
    };
    assert_eq!(ended_early(OnVoid::Stop, 1, asked), []);
    let stopped = |end: &mut Event| {
        if let Event::End { cause, .. } = end {
            *cause = EndCause::Stopped;
        }
    };
    assert_eq!(ended_early(OnVoid::Continue, 1, stopped), []);
    let void = ended_early(OnVoid::Stop, 900, |_| {});
    assert!(!void.is_empty() && incomplete(&void).is_none(), "{void:?}");
    assert_eq!(incomplete(&ended_early(OnVoid::Continue, 900, |_| {})), Some(2));
}

#[test]
fn phases_are_those_that_the_windows_saw() {
    let folder = tempfile::tempdir().unwrap();
    let mut batch = Batch::create(folder.path(), made::manifest(&Recipe::default())).unwrap();
    let end = |at_ns: u64| Event::End {
        at_ns: BootNs(at_ns),
        cause: EndCause::NoFirstSample,
        duration_ns: None,
        in_flight_since_ns: None,
        rows_not_written: 0,
        interrupted: false,
        marks: None,
    };
    mark(batch.folder(), BootNs(BOOT), "load").unwrap();
    let writer = batch.begin(Labels::default()).unwrap();
    mark(batch.folder(), BootNs(BOOT + 1), "serve").unwrap();
    writer.end(end(BOOT + 10_000 * MS)).unwrap();
    let late = mark(batch.folder(), BootNs(BOOT + 9_000 * MS), "late").unwrap_err().to_string();
    assert!(late.contains("the iteration is over, and no other has begun"), "{late}");
    let batch = batch.finish().unwrap().folder;
    let marks = fs::read_to_string(batch.join(MARKS)).unwrap();
    let found = |text: String| {
        fs::write(batch.join(MARKS), text).unwrap();
        made::sum_again(&batch);
        let findings = verify(&batch).findings;
        findings.into_iter().map(|finding| finding.problem).collect::<Vec<_>>()
    };
    assert_eq!(found(marks.clone()), Vec::<String>::new());
    let row = |at: u64| format!("{{\"event\":\"mark\",\"at_ns\":{at},\"name\":\"x\"}}\n");
    for tail in [&*row(BOOT + 7_000 * MS), &*row(BOOT + 10_001 * MS), "any text", "\0", "{\"ev"] {
        let added = found(marks.clone() + tail);
        assert!(
            added.iter().any(|one| one.contains("something was added later")),
            "{tail}: {added:?}"
        );
    }
    let renamed = found(marks.replace("serve", "other"));
    assert!(renamed[0].contains("phases were changed"), "{renamed:?}");
    let first = marks.lines().next().unwrap().to_owned() + "\n";
    assert!(found(first)[0].contains("phases are missing"));
    assert!(found(row(BOOT) + &marks)[0].contains("phases were changed"));
}

#[test]
fn what_no_batch_holds_is_named_and_links_are_not_followed() {
    for extra in ["extra", "iterations/extra", "iterations/1", "iterations/0001/extra", "a/b"] {
        let (_folder, batch) = batch(1);
        let path = batch.join(extra);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        let report = verify(&batch);
        assert_eq!((report.exit_status(), report.as_recorded), (1, Some(false)), "{extra}");
        let first = &report.findings[0];
        assert!(extra.starts_with(&first.file), "{extra}: {report}");
        assert!(first.problem.contains("move it out of the batch's folder"), "{report}");
    }
    for folder in ["iterations", "iterations/0001"] {
        let (outer, batch) = batch(1);
        fs::rename(batch.join(folder), outer.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(outer.path().join("elsewhere"), batch.join(folder)).unwrap();
        let report = verify(&batch);
        assert!(!report.accepted && report.exit_status() != 0, "{folder}: {report}");
        assert!(report.findings.iter().any(|one| one.file == folder), "{folder}: {report}");
        assert!(report.to_string().contains("not a link to it"), "{folder}: {report}");
    }
    // However many there are.
    let (_folder, batch) = batch(1);
    for number in 0..1_000 {
        fs::write(batch.join(format!("extra{number}")), "").unwrap();
    }
    assert_eq!(verify(&batch).findings.len(), 32);
}

#[test]
fn a_folder_that_is_called_otherwise_is_refused_and_a_link_to_it_is_not() {
    let (outer, batch) = batch(1);
    let latest = outer.path().join("latest");
    std::os::unix::fs::symlink(&batch, &latest).unwrap();
    assert!(verify(&latest).accepted);
    let renamed = outer.path().join("best");
    fs::rename(&batch, &renamed).unwrap();
    let report = verify(&renamed);
    assert_eq!((report.exit_status(), report.accepted), (1, false), "{report}");
    let id = Recipe::default().id;
    assert!(report.to_string().contains(&format!("call the folder {id}")), "{report}");
}

#[test]
fn the_fingerprint_is_of_the_hashes_and_the_same_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let report = made::batch(folder.path(), &Recipe::default());
    let sums = fs::read(report.folder.join(super::super::SUMS)).unwrap();
    let expected = super::super::whole::sha256(&sums);
    assert_eq!(report.fingerprint.as_ref(), Some(&expected));
    let verified = verify(&report.folder);
    assert_eq!(verified.fingerprint.as_ref(), Some(&expected));
    assert!(verified.to_string().contains(&expected));
    let read = crate::residency::reading::Read::of(&report.folder).unwrap();
    assert_eq!(read.facts.fingerprint, Some(expected));
}

#[test]
fn a_batch_of_another_version_says_who_verifies_it() {
    let (_folder, batch) = batch(1);
    let manifest = fs::read_to_string(batch.join(MANIFEST)).unwrap();
    let older = manifest.replace("\"schema_version\": 2", "\"schema_version\": 1");
    fs::write(batch.join(MANIFEST), older).unwrap();
    let said = verify(&batch).to_string();
    assert!(
        said.contains("recorded by another version of gpu-ledger, and this one reads 2; the version that recorded it"),
        "{said}"
    );
}
