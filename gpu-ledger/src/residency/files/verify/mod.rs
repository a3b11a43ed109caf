//! Proves a batch: every derived file is made again from the raw rows and compared byte for byte, every file's
//! hash with the one that was recorded, the three keys of every document with each other.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::FilesError;
use super::held::Held;
use super::iteration::Iteration;
use super::manifest::{Manifest, ManifestStatus, is_batch_id};
use super::marks::{differs, marks};
use super::recorded::Recorded;
use super::seed::Said;
use super::summary::{Summary, claims_of};
use super::sums::{self, Hashes};
use super::whole::{read, sha256};
use super::{EVENTS, ITERATIONS, MANIFEST, MARKS, SUMMARY, SUMS, iteration_folder};
use crate::residency::facts::Extremes;
use crate::residency::reasons::explained;
use crate::residency::verdict::{BackendSaid, Verdict, Void, VoidReason};

mod report;
mod window;

pub use report::{Finding, Verification, VerifiedIteration, VerifyReport, exit_status};

/// A batch that was proven, for those who draw it or compute with it.
#[derive(Debug)]
pub struct Checked {
    /// What was proven.
    pub report: VerifyReport,
    /// Its manifest, where it can be read.
    pub manifest: Option<Manifest>,
    /// Its windows, as their raw rows say.
    pub iterations: Vec<Iteration>,
}

/// Proves one batch.
#[must_use]
pub fn verify(folder: &Path) -> VerifyReport {
    check(folder).report
}

/// Proves the batch in a folder, or every batch of a folder of them, in the order of their names.
pub fn verify_all(folder: &Path) -> Result<Vec<VerifyReport>, FilesError> {
    if folder.join(MANIFEST).exists() || folder.join(ITERATIONS).exists() {
        return Ok(vec![verify(folder)]);
    }
    let mut batches = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(FilesError::io("read", folder))? {
        let entry = entry.map_err(FilesError::io("read", folder))?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_batch = entry.path().join(MANIFEST).exists()
            || entry.file_name().to_str().is_some_and(is_batch_id);
        if is_folder && is_batch {
            batches.push(entry.path());
        }
    }
    batches.sort();
    if batches.is_empty() {
        return Err(FilesError::NoBatch { path: folder.to_path_buf() });
    }
    Ok(batches.iter().map(|batch| verify(batch)).collect())
}

/// Proves one batch, and hands on what it was proven from.
#[must_use]
pub fn check(folder: &Path) -> Checked {
    let mut verifier = Verifier {
        folder,
        hashes: Hashes::new(),
        findings: Vec::new(),
        notes: Vec::new(),
        said: Vec::new(),
        mismatches: 0,
        fingerprint: None,
    };
    let manifest = verifier.manifest();
    let iterations = match &manifest {
        Some((manifest, _)) => verifier.iterations(manifest),
        None => Vec::new(),
    };
    verifier.marks(&iterations);
    let summary = manifest.as_ref().map(|(manifest, said)| {
        verifier.closed(manifest, *said, &iterations);
        Summary::of(manifest, &iterations, manifest.status == ManifestStatus::Closed)
    });
    let has_summary = verifier.summary(summary.as_ref());
    let is_closed =
        manifest.as_ref().is_some_and(|(manifest, _)| manifest.status == ManifestStatus::Closed);
    let has_sums = verifier.sums(has_summary || is_closed);
    let report = verifier.report(
        manifest.as_ref().map(|(manifest, _)| manifest),
        &iterations,
        summary.as_ref(),
        has_summary,
        has_sums,
    );
    Checked { report, manifest: manifest.map(|(manifest, _)| manifest), iterations }
}

/// What a document says of the backend that is none.
const NOTHING_SAID: BackendSaid = BackendSaid { backend: None, subprocess: None };

struct Verifier<'folder> {
    folder: &'folder Path,
    /// Of the files that are there.
    hashes: Hashes,
    findings: Vec<Finding>,
    notes: Vec<String>,
    /// What each document says of the backend.
    said: Vec<BackendSaid>,
    /// Documents whose catch-ups are not those that the samples show.
    mismatches: u64,
    /// The hash of the hashes.
    fingerprint: Option<String>,
}

impl Verifier<'_> {
    fn find(&mut self, file: &str, problem: &(impl ToString + ?Sized)) {
        self.findings.push(Finding { file: file.to_owned(), problem: problem.to_string() });
    }

    /// A document's bytes; `None` where it is not there, or cannot be read, which is found.
    fn document(&mut self, file: &str) -> Option<Vec<u8>> {
        match read(&self.folder.join(file)) {
            Ok(bytes) => {
                self.hashes.insert(file.to_owned(), sha256(&bytes));
                Some(bytes)
            }
            Err(error) if error.is_missing() => None,
            Err(error) => {
                self.find(file, &error);
                None
            }
        }
    }

    fn manifest(&mut self) -> Option<(Manifest, Said)> {
        let Some(bytes) = self.document(MANIFEST) else {
            self.said.push(NOTHING_SAID);
            self.find(MANIFEST, "it is not there");
            return None;
        };
        match Manifest::read(&self.folder.join(MANIFEST), &bytes) {
            Ok(read) => Some(read),
            Err(error) => {
                self.said.push(Said::of(&bytes).map_or(NOTHING_SAID, |said| said.backend));
                self.find(MANIFEST, &error);
                None
            }
        }
    }

    /// Compares the manifest with what it must have become when the batch ended.
    fn closed(&mut self, manifest: &Manifest, said: Said, iterations: &[Iteration]) {
        self.said.push(said.backend);
        let path = self.folder.join(MANIFEST);
        if manifest.status == ManifestStatus::Open {
            return;
        }
        let expected = manifest.closed(iterations);
        let recoveries = expected.seed.gpu_deadline_recovery_count;
        self.recounted(said.recovery, recoveries);
        let written = expected.text(&path);
        self.compare(MANIFEST, written);
    }

    /// Whether a document tells the catch-ups that its samples show.
    fn recounted(&mut self, said: Option<u64>, counted: Option<u64>) {
        self.mismatches =
            self.mismatches.saturating_add(u64::from(said != counted || said.is_none()));
    }

    /// Whether a document has the bytes that it must have.
    fn compare(&mut self, file: &str, expected: Result<String, FilesError>) {
        match expected {
            Ok(text) if self.hashes.get(file) == Some(&sha256(text.as_bytes())) => {}
            Ok(_) => self.find(file, "it is not what follows from the raw rows"),
            Err(error) => self.find(file, &error),
        }
    }

    fn marks(&mut self, iterations: &[Iteration]) {
        let bytes = match read(&self.folder.join(MARKS)) {
            Ok(bytes) => bytes,
            Err(error) => return self.find(MARKS, &error),
        };
        self.hashes.insert(MARKS.to_owned(), sha256(&bytes));
        if let Err(error) = marks(self.folder) {
            return self.find(MARKS, &error);
        }
        let ends = iterations.iter().filter_map(|one| one.derived.as_ref()?.end.as_ref());
        let seen: Vec<_> = ends.filter_map(|end| end.marks.as_ref()).collect();
        if let Some(why) = differs(&bytes, &seen) {
            self.find(MARKS, why);
        }
    }

    /// Whether there is one.
    fn summary(&mut self, expected: Option<&Summary>) -> bool {
        let Some(bytes) = self.document(SUMMARY) else { return false };
        let said = Said::of(&bytes);
        self.said.push(said.map_or(NOTHING_SAID, |said| said.backend));
        if let Some(expected) = expected {
            let counted = expected.seed.gpu_deadline_recovery_count;
            self.recounted(said.and_then(|said| said.recovery), counted);
            self.compare(SUMMARY, expected.text(&self.folder.join(SUMMARY)));
        }
        true
    }

    /// Whether there are any.
    fn sums(&mut self, is_expected: bool) -> bool {
        let hashes = std::mem::take(&mut self.hashes);
        let recorded = self.document(SUMS);
        self.fingerprint = self.hashes.get(SUMS).cloned();
        let has_sums = recorded.is_some();
        match recorded.map(String::from_utf8) {
            Some(Ok(recorded)) => {
                for (file, problem) in sums::differences(&recorded, &hashes) {
                    self.find(&file, &problem);
                }
            }
            Some(Err(error)) => self.find(SUMS, &error),
            None if is_expected => {
                self.find(SUMS, "it is not there: nothing says what the files were");
            }
            None => {}
        }
        self.hashes.extend(hashes);
        has_sums
    }

    /// Every window whose folder is there, in the order of their numbers.
    fn iterations(&mut self, manifest: &Manifest) -> Vec<Iteration> {
        let numbers = self.held(manifest);
        for (number, expected) in numbers.iter().zip(1..) {
            if *number != expected {
                let missing = iteration_folder(expected);
                self.find(&missing, "it is not there");
                break;
            }
        }
        let iterations: Vec<Iteration> =
            numbers.into_iter().map(|number| self.window(manifest, number)).collect();
        self.recorded_with(manifest, &iterations);
        iterations
    }

    /// Numbers of the windows that are there; whatever else is there that no batch holds is found.
    fn held(&mut self, manifest: &Manifest) -> Vec<u64> {
        let held = match Held::of(self.folder) {
            Ok(held) => held,
            Err(error) => {
                self.find(ITERATIONS, &error);
                return Vec::new();
            }
        };
        for (path, why) in held.strange {
            self.find(&path, &why);
        }
        let is_ended = self.folder.join(SUMS).exists();
        for path in held.partial {
            if is_ended {
                self.find(
                    &path,
                    "a batch that has ended holds no such file: move it out of the folder",
                );
            } else {
                self.notes.push(format!("{path}: its writer was cut off, and it was never whole"));
            }
        }
        let folder = std::fs::canonicalize(self.folder);
        let id = Some(manifest.batch_id.as_ref());
        if folder.as_ref().is_ok_and(|folder| folder.file_name() != id) {
            let id = &manifest.batch_id;
            self.find(
                MANIFEST,
                &format!(
                    "it is of batch {id}, and the folder is called otherwise: call the folder {id}, so that \
                     what was written down of it can be found"
                ),
            );
        }
        held.numbers
    }

    /// Compares the manifest with what every window says that it was opened with.
    fn recorded_with(&mut self, manifest: &Manifest, iterations: &[Iteration]) {
        let said = match Recorded::of(manifest) {
            Ok(said) => said,
            Err(error) => return self.find(MANIFEST, &error),
        };
        // By field: in which window first, what it says there and here, and in how many more.
        let mut differences = BTreeMap::new();
        for iteration in iterations {
            let derived = iteration.derived.as_ref();
            let Some(opened) = derived.and_then(|one| one.recorded_with.as_ref()) else { continue };
            let differs = opened.differences(&said);
            self.mismatches = self.mismatches.saturating_add(u64::from(!differs.is_empty()));
            for (name, there, here) in differs {
                let (_, more) =
                    differences.entry(name).or_insert(((iteration.number, there, here), 0_u64));
                *more = more.saturating_add(1);
            }
        }
        for (name, ((number, there, here), windows)) in differences {
            let folder = iteration_folder(number);
            self.find(
                MANIFEST,
                &format!(
                    "{name} is {here} and was {there} when the batch was opened, as {folder}/{EVENTS} says in \
                     its first row ({windows} of {} windows)",
                    iterations.len()
                ),
            );
        }
        let planned = manifest.iterations_planned;
        if let Some(more) = iterations.iter().find(|iteration| iteration.number > planned) {
            let folder = iteration_folder(more.number);
            self.find(
                &folder,
                &format!("it is more than the {planned} that the batch was opened for"),
            );
        }
    }

    fn report(
        mut self,
        manifest: Option<&Manifest>,
        iterations: &[Iteration],
        summary: Option<&Summary>,
        has_summary: bool,
        has_sums: bool,
    ) -> VerifyReport {
        let mut data = summary.map_or_else(Vec::new, |summary| summary.void_reasons.clone());
        let mut once = |reason, count| {
            if count > 0 {
                data.push(Void { reason, count, first_point: None });
            }
        };
        let is_incomplete = !has_summary || !has_sums || manifest.is_none();
        let is_said = data_has(summary, VoidReason::Incomplete);
        once(VoidReason::Incomplete, u64::from(is_incomplete && !is_said));
        once(VoidReason::SampleAccountingMismatch, self.mismatches);
        if !has_summary {
            self.notes
                .push("no summary.json: the batch is still recorded, or was cut off".to_owned());
        }
        let mut backend = Verdict::backend_reasons(&self.said);
        let summed = summary.filter(|_| has_summary);
        backend
            .extend(summed.into_iter().flat_map(|summary| summary.backend_reasons.iter().copied()));
        backend.sort_unstable();
        backend.dedup();
        let verdict = Verdict { backend, data: Verdict::merged([data]) };
        let as_recorded =
            if self.findings.is_empty() { has_sums.then_some(true) } else { Some(false) };
        let accepted = verdict.accepted() && as_recorded == Some(true);
        let unaltered = (as_recorded != Some(false)).then_some(&verdict);
        let claims = manifest.map(|manifest| claims_of(manifest, iterations, unaltered));
        let derived = iterations.iter().filter_map(|iteration| iteration.derived.as_ref());
        let worst = Extremes::of(derived.map(|derived| &derived.figures));
        let requested = manifest.and_then(|manifest| manifest.requested_duration_ms);
        let explained = manifest
            .map(|manifest| explained(&verdict, &manifest.settings, &worst))
            .unwrap_or_default();
        VerifyReport {
            folder: self.folder.to_path_buf(),
            batch_id: manifest.map(|manifest| manifest.batch_id.clone()),
            accepted,
            as_recorded,
            backend_verdict: verdict.backend_verdict(),
            data_verdict: verdict.data_verdict(),
            backend_reasons: verdict.backend,
            void_reasons: verdict.data,
            max_sample_age_ms: summary.and_then(|summary| summary.max_sample_age_ms),
            max_sample_age_sup_ms: summary.and_then(|summary| summary.max_sample_age_sup_ms),
            sample_age_cap_ms: manifest.map(|manifest| manifest.settings.cap),
            iterations_planned: manifest.map(|manifest| manifest.iterations_planned),
            fingerprint: self.fingerprint,
            files_checked: u64::try_from(self.hashes.len()).unwrap_or(u64::MAX),
            iterations: iterations.iter().map(|one| window::verified(one, requested)).collect(),
            findings: self.findings,
            notes: self.notes,
            claims,
            explained,
        }
    }
}

fn data_has(summary: Option<&Summary>, reason: VoidReason) -> bool {
    summary.is_some_and(|summary| summary.void_reasons.iter().any(|void| void.reason == reason))
}
