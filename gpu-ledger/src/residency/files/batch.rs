//! A batch that is being written.
//!
//! Whatever cannot be written leaves the batch void (`incomplete`) and is reported; what can be is written
//! all the same. A batch that lost a window is left open, without a summary: that is how anybody sees it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::csv;
use super::derive::derive;
use super::error::FilesError;
use super::iteration::Iteration;
use super::log::Log;
use super::manifest::{Manifest, ManifestStatus};
use super::marks;
use super::recorded::Recorded;
use super::seed::Seed;
use super::summary::Summary;
use super::sums::{self, Hashes};
use super::whole::{Whole, sha256_file, sync_folder, write_whole};
use super::{
    EVENTS, ITERATION, ITERATIONS, ITERATIONS_MAX, Labels, MANIFEST, MARKS, SAMPLES, SUMMARY, SUMS,
    TIMELINE, iteration_folder,
};
use crate::rendering::json;
use crate::residency::events::Event;
use crate::residency::sample::Sample;
use crate::residency::settings::Settings;
use crate::residency::verdict::{BackendSaid, Verdict, VerdictLine, Void, VoidReason};

/// A batch that is being written.
#[derive(Debug)]
pub struct Batch {
    folder: PathBuf,
    manifest: Manifest,
    begun: u64,
    ended: Arc<Mutex<Vec<Iteration>>>,
    /// A window could not begin.
    is_cut: bool,
}

/// A window that has ended.
#[derive(Debug)]
pub struct IterationReport {
    /// What is there of it.
    pub iteration: Iteration,
    /// Both verdicts, taken alone.
    pub verdict: Verdict,
    /// What could not be written.
    pub troubles: Vec<FilesError>,
}

/// A batch that has ended.
#[derive(Debug)]
pub struct BatchReport {
    /// Its folder.
    pub folder: PathBuf,
    /// Its manifest as it was closed.
    pub manifest: Manifest,
    /// Sums and maxima; in the folder only where nothing is in the way.
    pub summary: Summary,
    /// Both verdicts, with what could not be written.
    pub verdict: Verdict,
    /// The SHA-256 of its `SHA256SUMS`; `None`: that could not be written.
    pub fingerprint: Option<String>,
    /// Its windows.
    pub iterations: Vec<Iteration>,
    /// What could not be written.
    pub troubles: Vec<FilesError>,
}

impl BatchReport {
    /// The line that programs read.
    #[must_use]
    pub fn line(&self) -> String {
        let summary = &self.summary;
        let line = VerdictLine {
            verdict: &self.verdict,
            max_sample_age: summary.max_sample_age_ms,
            supremum: summary.max_sample_age_sup_ms,
            cap: Some(summary.sample_age_cap_ms),
        };
        line.to_string()
    }
}

impl Batch {
    /// Makes the folder `out/<batch_id>`, and in it the manifest.
    pub fn create(out: &Path, mut manifest: Manifest) -> Result<Self, FilesError> {
        let folder = out.join(&manifest.batch_id);
        let is_name = Path::new(&manifest.batch_id).file_name() == Some(manifest.batch_id.as_ref());
        if !is_name {
            return Err(FilesError::document(&folder, "a batch's id is the name of a folder"));
        }
        std::fs::create_dir_all(out).map_err(FilesError::io("make", out))?;
        std::fs::create_dir(&folder).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => FilesError::Exists { path: folder.clone() },
            _ => FilesError::io("make", &folder)(error),
        })?;
        let iterations = folder.join(ITERATIONS);
        std::fs::create_dir(&iterations).map_err(FilesError::io("make", &iterations))?;
        let path = folder.join(MARKS);
        let marks = OpenOptions::new().write(true).create_new(true).open(&path);
        marks.and_then(|file| file.sync_all()).map_err(FilesError::io("write", &path))?;
        manifest.status = ManifestStatus::Open;
        let so_far = Seed {
            gpu_cli_subprocess_used: Some(manifest.seed.gpu_cli_subprocess_used.unwrap_or(false)),
            gpu_deadline_recovery_count: Some(0),
            ..manifest.seed
        };
        manifest.seed = so_far;
        let path = folder.join(MANIFEST);
        write_whole(&path, manifest.text(&path)?.as_bytes())?;
        sync_folder(out)?;
        Ok(Self { folder, manifest, begun: 0, ended: Arc::default(), is_cut: false })
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it is recorded with.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Lets another user mark phases: the one that the command runs as.
    pub fn give_marks_to(&self, uid: u32) -> Result<(), FilesError> {
        let path = self.folder.join(MARKS);
        std::os::unix::fs::lchown(&path, Some(uid), None)
            .map_err(FilesError::io("give away", &path))
    }

    /// Begins the next window.
    pub fn begin(&mut self, labels: Labels) -> Result<IterationWriter, FilesError> {
        let number = self.begun.saturating_add(1);
        let writer = self.window(number, labels);
        match &writer {
            Ok(_) => self.begun = number,
            // A window more than there are folders for was never part of the batch.
            Err(FilesError::TooManyIterations { .. }) => {}
            Err(_) => self.is_cut = true,
        }
        writer
    }

    fn window(&self, number: u64, labels: Labels) -> Result<IterationWriter, FilesError> {
        if number > ITERATIONS_MAX.min(self.manifest.iterations_planned) {
            return Err(FilesError::TooManyIterations { path: self.folder.clone() });
        }
        let folder = self.folder.join(iteration_folder(number));
        std::fs::create_dir(&folder).map_err(FilesError::io("make", &folder))?;
        let (samples, events) = (folder.join(SAMPLES), folder.join(EVENTS));
        let mut writer = IterationWriter {
            samples: Log::create(&samples)?,
            events: Log::create(&events)?,
            number,
            batch: self.folder.clone(),
            batch_id: self.manifest.batch_id.clone(),
            settings: self.manifest.settings.clone(),
            ended: Arc::clone(&self.ended),
            row: Vec::new(),
            folder,
        };
        let recorded_with = Recorded::of(&self.manifest)
            .map_err(|error| FilesError::document(&self.folder.join(MANIFEST), &error))?;
        writer.event(&Event::Begin { iteration: number, labels, recorded_with })?;
        // On the disk before the window begins, so that a crash leaves a window that is known.
        writer.flush()?;
        sync_folder(&writer.folder)?;
        sync_folder(&self.folder.join(ITERATIONS))?;
        Ok(writer)
    }

    /// Ends the batch: manifest, summary, hashes, in this order.
    pub fn finish(self) -> Result<BatchReport, FilesError> {
        let mut iterations: Vec<Iteration> =
            std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        iterations.sort_by_key(|iteration| iteration.number);
        let ended = u64::try_from(iterations.len()).unwrap_or(u64::MAX);
        let is_read = iterations.iter().all(|iteration| iteration.derived.is_some());
        let mut finish = Finish { batch: &self, hashes: Hashes::new(), troubles: Vec::new() };
        let is_whole = !self.is_cut && ended == self.begun && is_read;
        let closed = self.manifest.closed(&iterations);
        let manifest = if is_whole { finish.close(closed)? } else { None };
        let is_closed = manifest.is_some();
        let manifest = manifest.unwrap_or_else(|| self.manifest.clone());
        let summary = Summary::of(&manifest, &iterations, is_closed);
        let has_summary = is_whole && finish.summary(&summary)?;
        let fingerprint = if has_summary { finish.sums(&summary) } else { None };
        let is_written = fingerprint.is_some();
        let mut verdict = summary.verdict();
        if !has_summary {
            verdict.backend = Verdict::backend_reasons(&documents(&manifest, &iterations));
        }
        if !is_written && is_closed {
            let cut = Void { reason: VoidReason::Incomplete, count: 1, first_point: None };
            verdict.data = Verdict::merged([verdict.data, vec![cut]]);
        }
        let troubles = finish.troubles;
        let folder = self.folder;
        Ok(BatchReport { folder, manifest, summary, verdict, fingerprint, iterations, troubles })
    }
}

/// What the documents that are there say of the backend: all that a reader has of a batch without a summary.
fn documents(manifest: &Manifest, iterations: &[Iteration]) -> Vec<BackendSaid> {
    let there = iterations.iter().filter(|iteration| iteration.sha256.contains_key(ITERATION));
    let said = there.map(|iteration| iteration.seed().said());
    std::iter::once(manifest.seed.said()).chain(said).collect()
}

/// The last steps, each tried whatever became of the one before.
struct Finish<'batch> {
    batch: &'batch Batch,
    hashes: Hashes,
    troubles: Vec<FilesError>,
}

impl Finish<'_> {
    /// Replaces the manifest while nobody marks a phase. `None`: it could not be.
    fn close(&mut self, closed: Manifest) -> Result<Option<Manifest>, FilesError> {
        let folder = &self.batch.folder;
        let marks_path = folder.join(MARKS);
        let marks_file = super::whole::open(&marks_path)?;
        // Who holds it for seconds is no `residency mark`: a mark that comes now would be seen by its hash.
        marks::lock(&marks_file);
        let path = folder.join(MANIFEST);
        let text = closed.text(&path)?;
        let written = write_whole(&path, text.as_bytes());
        self.hashes.insert(MARKS.to_owned(), sha256_file(&marks_path)?);
        let hash = self.tried(written);
        let hash = match &hash {
            Some(hash) => hash.clone(),
            None => sha256_file(&path)?,
        };
        let is_closed = hash == super::whole::sha256(text.as_bytes());
        self.hashes.insert(MANIFEST.to_owned(), hash);
        Ok(is_closed.then_some(closed))
    }

    fn summary(&mut self, summary: &Summary) -> Result<bool, FilesError> {
        let path = self.batch.folder.join(SUMMARY);
        let text = summary.text(&path)?;
        let written = write_whole(&path, text.as_bytes());
        let hash = self.tried(written);
        let is_written = hash.is_some();
        self.hashes.extend(hash.map(|hash| (SUMMARY.to_owned(), hash)));
        Ok(is_written)
    }

    /// The hash of what was written.
    fn sums(&mut self, summary: &Summary) -> Option<String> {
        self.hashes.extend(summary.sha256.clone());
        let text = sums::text(&self.hashes);
        let written = write_whole(&self.batch.folder.join(SUMS), text.as_bytes());
        self.tried(written)
    }

    fn tried<T>(&mut self, outcome: Result<T, FilesError>) -> Option<T> {
        outcome.map_err(|error| self.troubles.push(error)).ok()
    }
}

/// A window that is being written. Rows are gathered; what one of them could not be written for is said at
/// once, and counted at the end. Dropped without its end, the batch is void.
#[derive(Debug)]
pub struct IterationWriter {
    folder: PathBuf,
    number: u64,
    batch: PathBuf,
    batch_id: String,
    settings: Settings,
    samples: Log,
    events: Log,
    row: Vec<u8>,
    ended: Arc<Mutex<Vec<Iteration>>>,
}

impl IterationWriter {
    /// Appends a sample.
    pub fn sample(&mut self, sample: &Sample) -> Result<(), FilesError> {
        self.row.clear();
        let row = serde_json::to_writer(&mut self.row, sample);
        row.map_err(|error| FilesError::document(&self.folder.join(SAMPLES), &error))?;
        self.row.push(b'\n');
        self.samples.push(&self.row)
    }

    /// Appends an event.
    pub fn event(&mut self, event: &Event) -> Result<(), FilesError> {
        self.events.push(self.text(event)?.as_bytes())
    }

    /// Hands all rows to the system: what the recorder calls now and then, so that a crash of it costs little.
    pub fn flush(&mut self) -> Result<(), FilesError> {
        let samples = self.samples.flush();
        self.events.flush().and(samples)
    }

    /// Rows that could not be written so far.
    #[must_use]
    pub const fn rows_not_written(&self) -> u64 {
        self.samples.lost().saturating_add(self.events.lost())
    }

    /// Writes the last row, [`Event::End`], and everything that follows from the rows.
    pub fn end(mut self, mut end: Event) -> Result<IterationReport, FilesError> {
        let mut troubles: Vec<FilesError> = self.samples.close(None).err().into_iter().collect();
        // The events before the last one may be what no room is for.
        troubles.extend(self.events.flush().err());
        let lost = self.rows_not_written();
        let Event::End { rows_not_written, marks, .. } = &mut end else {
            return Err(FilesError::NoEnd { path: self.folder.join(EVENTS) });
        };
        // Locked until that is written: whoever marks a phase after it is told that the window is over.
        let held = marks::seen(&self.batch);
        *marks = held.as_ref().map(|(seen, _)| seen.clone());
        *rows_not_written = rows_not_written.saturating_add(lost);
        let row = self.text(&end)?;
        troubles.extend(self.events.close(Some(row.as_bytes())).err());
        drop(held);
        let iteration = self.derive(&mut troubles);
        let report = IterationReport {
            verdict: iteration.verdict(),
            iteration: iteration.clone(),
            troubles,
        };
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(iteration);
        Ok(report)
    }

    fn derive(&self, troubles: &mut Vec<FilesError>) -> Iteration {
        let mut sha256 = BTreeMap::new();
        let (derived, timeline) = match self.timeline() {
            Ok(made) => made,
            // Without room for the timeline its figures can still be had.
            Err(error) => {
                troubles.push(error);
                let derived = derive(&self.folder, &self.settings, |_| Ok(()));
                (derived.map_err(|error| troubles.push(error)).ok(), None)
            }
        };
        for (name, read) in [
            (SAMPLES, derived.as_ref().map(|derived| &derived.samples)),
            (EVENTS, derived.as_ref().map(|derived| &derived.events)),
        ] {
            sha256.extend(read.map(|read| (name, read.sha256.clone())));
        }
        sha256.extend(timeline.map(|hash| (TIMELINE, hash)));
        let folder = self.folder.clone();
        let mut iteration = Iteration { number: self.number, folder, derived, sha256 };
        match iteration.text(&self.batch_id) {
            Ok(Some(text)) => match write_whole(&iteration.path(ITERATION), text.as_bytes()) {
                Ok(hash) => drop(iteration.sha256.insert(ITERATION, hash)),
                Err(error) => troubles.push(error),
            },
            Ok(None) => {}
            Err(error) => troubles.push(error),
        }
        iteration
    }

    /// Writes `timeline.csv`.
    fn timeline(&self) -> Result<(Option<super::Derived>, Option<String>), FilesError> {
        let mut whole = Whole::create(&self.folder.join(TIMELINE))?;
        whole.write_all(csv::HEAD.as_bytes()).map_err(|error| whole.failed(error))?;
        let mut t0 = None;
        let derived = derive(&self.folder, &self.settings, |at| {
            let t0 = *t0.get_or_insert(at.point.t);
            csv::row(&mut whole, t0, at).map_err(|error| whole.failed(error))
        })?;
        let hash = whole.finish()?;
        Ok((Some(derived), Some(hash)))
    }

    fn text(&self, event: &Event) -> Result<String, FilesError> {
        json(event).map_err(|error| FilesError::document(&self.folder.join(EVENTS), &error))
    }
}
