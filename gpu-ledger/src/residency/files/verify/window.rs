//! One window: its rows read once, everything that follows from them compared with what is there.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::{NOTHING_SAID, VerifiedIteration, Verifier};
use crate::residency::ending::notes;
use crate::residency::files::csv;
use crate::residency::files::derive::{Derived, derive};
use crate::residency::files::error::FilesError;
use crate::residency::files::iteration::Iteration;
use crate::residency::files::manifest::Manifest;
use crate::residency::files::seed::Said;
use crate::residency::files::whole::{CHUNK_BYTES, hex, open};
use crate::residency::files::{
    EVENTS, ITERATION, ITERATION_FILES, SAMPLES, TIMELINE, iteration_folder, sha256_file,
};
use crate::residency::moment::Length;
use crate::residency::verdict::Verdict;

/// Takes what a file must hold, and compares it with what it holds.
struct Compared {
    file: BufReader<File>,
    hasher: Sha256,
    chunk: Vec<u8>,
    line: u64,
    is_different: bool,
}

impl Compared {
    fn open(path: &Path) -> Result<Self, FilesError> {
        let file = BufReader::with_capacity(CHUNK_BYTES, open(path)?);
        Ok(Self {
            file,
            hasher: Sha256::new(),
            chunk: vec![0; CHUNK_BYTES],
            line: 1,
            is_different: false,
        })
    }

    /// What it was, and the line from which on it was different.
    fn finish(mut self) -> io::Result<(String, Option<u64>)> {
        loop {
            let read = match self.file.read(&mut self.chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // More than follows.
            self.is_different = true;
            self.hasher.update(self.chunk.get(..read).unwrap_or_default());
        }
        Ok((hex(&self.hasher.finalize()), self.is_different.then_some(self.line)))
    }
}

impl Write for Compared {
    fn write(&mut self, expected: &[u8]) -> io::Result<usize> {
        let expected = expected.get(..expected.len().min(self.chunk.len())).unwrap_or_default();
        let there = self.chunk.get_mut(..expected.len()).unwrap_or_default();
        let mut filled: usize = 0;
        while let Some(rest) = there.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read(rest) {
                Ok(0) => break,
                Ok(read) => filled = filled.saturating_add(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let there = there.get(..filled).unwrap_or_default();
        self.hasher.update(there);
        if !self.is_different {
            let same = expected.iter().zip(there).take_while(|(one, other)| one == other).count();
            let same = expected.get(..same).unwrap_or_default();
            let lines = same.split(|byte| *byte == b'\n').count().saturating_sub(1);
            self.line = self.line.saturating_add(u64::try_from(lines).unwrap_or(u64::MAX));
            self.is_different = same.len() < expected.len();
        }
        Ok(expected.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Verifier<'_> {
    /// Proves a window.
    pub(super) fn window(&mut self, manifest: &Manifest, number: u64) -> Iteration {
        let inner = iteration_folder(number);
        let folder = self.folder.join(&inner);
        let named = |name: &str| format!("{inner}/{name}");
        let derived = self.derive(manifest, &folder, &inner);
        let mut iteration = Iteration { number, folder, derived, sha256: BTreeMap::new() };
        let read = iteration.derived.as_ref().map(|derived| (&derived.samples, &derived.events));
        for torn in
            read.iter().flat_map(|(samples, events)| [&samples.torn, &events.torn]).flatten()
        {
            let file = torn.path.file_name().unwrap_or_default().to_string_lossy();
            self.notes.push(format!(
                "{inner}/{file}:{}: the last row ends after {} bytes: its writer was cut off",
                torn.line, torn.bytes
            ));
        }
        let hash = read.map(|(samples, events)| (samples.sha256.clone(), events.sha256.clone()));
        if let Some((samples, events)) = hash {
            self.hashes.insert(named(SAMPLES), samples);
            self.hashes.insert(named(EVENTS), events);
        }
        let document = self.document(&named(ITERATION));
        for name in ITERATION_FILES {
            let file = named(name);
            if !self.hashes.contains_key(&file) {
                match sha256_file(&iteration.path(name)) {
                    Ok(hash) => drop(self.hashes.insert(file.clone(), hash)),
                    // Whatever made its rows unreadable is found already.
                    Err(error) if error.is_missing() => {}
                    Err(error) => self.find(&file, &error),
                }
            }
            iteration.sha256.extend(self.hashes.get(&file).map(|hash| (name, hash.clone())));
        }
        if let Some(bytes) = document {
            self.iteration(manifest, &iteration, &named(ITERATION), &bytes);
        }
        self.missing(manifest, &iteration, &inner);
        iteration
    }

    /// In a batch that was closed no file is missing, but where no room was for it, which the documents say.
    fn missing(&mut self, manifest: &Manifest, iteration: &Iteration, inner: &str) {
        let is_closed = manifest.status == super::ManifestStatus::Closed;
        for name in ITERATION_FILES.iter().filter(|name| !iteration.sha256.contains_key(*name)) {
            let file = format!("{inner}/{name}");
            if is_closed {
                self.notes.push(format!("{file}: it is not there"));
            }
        }
    }

    /// Everything that follows from the rows; the points are compared with the timeline on the way.
    fn derive(&mut self, manifest: &Manifest, folder: &Path, inner: &str) -> Option<Derived> {
        let file = format!("{inner}/{TIMELINE}");
        let compared = match Compared::open(&folder.join(TIMELINE)) {
            Ok(compared) => Some(compared),
            Err(error) if error.is_missing() => None,
            Err(error) => {
                self.find(&file, &error);
                None
            }
        };
        let mut compared = compared.map(|compared| BufWriter::with_capacity(CHUNK_BYTES, compared));
        let path = folder.join(TIMELINE);
        let failed = |error| FilesError::io("read", &path)(error);
        let mut t0 = None;
        let head = compared.as_mut().map_or(Ok(()), |out| out.write_all(csv::HEAD.as_bytes()));
        let derived = head.map_err(failed).and_then(|()| {
            derive(folder, &manifest.settings, |at| {
                let t0 = *t0.get_or_insert(at.point.t);
                compared.as_mut().map_or(Ok(()), |out| csv::row(out, t0, at)).map_err(failed)
            })
        });
        let derived = match derived {
            Ok(derived) => derived,
            Err(error) => {
                let file = match &error {
                    FilesError::Row { path, .. } | FilesError::Io { path, .. } => {
                        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
                    }
                    _ => TIMELINE.to_owned(),
                };
                if manifest.status == super::ManifestStatus::Closed || !error.is_missing() {
                    self.find(&format!("{inner}/{file}"), &error);
                }
                return None;
            }
        };
        let Some(compared) = compared else { return Some(derived) };
        let finished = compared.into_inner().map_err(io::IntoInnerError::into_error);
        match finished.and_then(Compared::finish) {
            Ok((hash, different)) => {
                self.hashes.insert(file.clone(), hash);
                if let Some(line) = different {
                    self.find(&file, &format!("line {line} is not what follows from the raw rows"));
                }
            }
            Err(error) => self.find(&file, &error),
        }
        Some(derived)
    }

    /// The window's own document.
    fn iteration(&mut self, manifest: &Manifest, iteration: &Iteration, file: &str, bytes: &[u8]) {
        let said = Said::of(bytes);
        self.said.push(said.map_or(NOTHING_SAID, |said| said.backend));
        let counted = iteration.seed().gpu_deadline_recovery_count;
        self.recounted(said.and_then(|said| said.recovery), counted);
        match iteration.text(&manifest.batch_id) {
            Ok(None) => {}
            Ok(Some(text)) => self.compare(file, Ok(text)),
            Err(error) => self.compare(file, Err(error)),
        }
    }
}

/// What a report says of a window.
pub(super) fn verified(iteration: &Iteration, requested: Option<Length>) -> VerifiedIteration {
    let derived = iteration.derived.as_ref();
    let figures = derived.map(|derived| &derived.figures);
    let void_reasons = iteration.voids();
    let verdict = Verdict { backend: Vec::new(), data: void_reasons };
    let rows = derived.map_or(0, |one| one.samples.rows.saturating_add(one.events.rows));
    VerifiedIteration {
        iteration: iteration.number,
        labels: derived.and_then(|derived| derived.labels.clone()),
        data_verdict: verdict.data_verdict(),
        void_reasons: verdict.data,
        points_required: figures.and_then(|figures| figures.points_required),
        points_available: figures.map(|figures| figures.points_available),
        gpu_sample_count: figures.map(|figures| figures.gpu_sample_count),
        gpu_deadline_recovery_count: figures.map(|figures| figures.deadlines.recovery),
        max_sample_age_ms: figures.and_then(|figures| figures.max_sample_age_ms),
        max_sample_age_sup_ms: figures.and_then(|figures| figures.max_sample_age_sup_ms),
        notes: derived.map(|derived| notes(derived, requested)).unwrap_or_default(),
        probe_in_flight_at_end_ms: figures.and_then(|figures| figures.probe_in_flight_at_end_ms),
        rows,
    }
}
