//! `iteration.json`: the figures of a window, its two verdicts and what they rest on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::derive::{CommandStatus, CpuFigures, Derived};
use super::error::FilesError;
use super::seed::Seed;
use super::whole::pretty;
use super::{ITERATION, ITERATION_FILES, Labels, SCHEMA_VERSION, TIMELINE};
use crate::residency::tally::Figures;
use crate::residency::verdict::{
    Backend, BackendReason, BackendVerdict, DataVerdict, Verdict, Void, VoidReason,
};

/// A window of a batch: what its raw rows say, and which of its files are there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Iteration {
    /// Its number, as its folder is called.
    pub number: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// What follows from its raw rows; `None`: they cannot be read.
    pub derived: Option<Derived>,
    /// The SHA-256 of each of its files that is there, by name.
    pub sha256: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Document<'iteration> {
    schema_version: u32,
    batch_id: &'iteration str,
    iteration: u64,
    labels: Option<&'iteration Labels>,
    gpu_telemetry_backend: Option<Backend>,
    gpu_cli_subprocess_used: Option<bool>,
    #[serde(flatten)]
    figures: &'iteration Figures,
    #[serde(flatten)]
    cpu: CpuFigures,
    command: Option<CommandStatus>,
    backend_verdict: BackendVerdict,
    data_verdict: DataVerdict,
    backend_reasons: Vec<BackendReason>,
    void_reasons: Vec<Void>,
}

impl Iteration {
    /// What it is void for by itself: by its rows, and for files of it that are not there.
    #[must_use]
    pub fn voids(&self) -> Vec<Void> {
        let missing = ITERATION_FILES.iter().filter(|name| !self.sha256.contains_key(*name));
        self.voids_with(missing.count())
    }

    /// Of both verdicts, taken alone.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict { backend: Verdict::backend_reasons(&[self.seed().said()]), data: self.voids() }
    }

    /// The three keys, as its rows say.
    #[must_use]
    pub fn seed(&self) -> Seed {
        self.derived.as_ref().map_or_else(Seed::default, |derived| derived.seed)
    }

    fn voids_with(&self, missing: usize) -> Vec<Void> {
        let mut voids =
            self.derived.as_ref().map_or_else(Vec::new, |derived| derived.voids.clone());
        let is_foreign =
            self.derived.as_ref().is_none_or(|derived| derived.number != Some(self.number));
        let count = missing.saturating_add(usize::from(is_foreign));
        if count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            voids.push(Void { reason: VoidReason::Incomplete, count, first_point: None });
        }
        Verdict::merged([voids])
    }

    /// What `iteration.json` must hold; `None` where the rows cannot be read.
    pub(super) fn text(&self, batch_id: &str) -> Result<Option<String>, FilesError> {
        let Some(derived) = &self.derived else { return Ok(None) };
        let seed = derived.seed;
        let has_timeline = self.sha256.contains_key(TIMELINE);
        let data = self.voids_with(usize::from(!has_timeline));
        let verdict = Verdict { backend: Verdict::backend_reasons(&[seed.said()]), data };
        let document = Document {
            schema_version: SCHEMA_VERSION,
            batch_id,
            iteration: self.number,
            labels: derived.labels.as_ref(),
            gpu_telemetry_backend: seed.gpu_telemetry_backend,
            gpu_cli_subprocess_used: seed.gpu_cli_subprocess_used,
            figures: &derived.figures,
            cpu: derived.cpu,
            command: derived.command,
            backend_verdict: verdict.backend_verdict(),
            data_verdict: verdict.data_verdict(),
            backend_reasons: verdict.backend,
            void_reasons: verdict.data,
        };
        pretty(&self.path(ITERATION), &document).map(Some)
    }

    /// One of its files.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        Path::join(&self.folder, name)
    }

    /// The three keys of all windows together: who was asked in the first, whether any program was run, and
    /// how many catch-ups there were. Null where any of them cannot say.
    pub(super) fn seed_of_all(iterations: &[Self]) -> Seed {
        let mut seeds = iterations.iter().map(Self::seed);
        let used = iterations.iter().map(|iteration| iteration.seed().gpu_cli_subprocess_used);
        let is_used = used.clone().any(|used| used == Some(true));
        let is_known = !iterations.is_empty() && used.clone().all(|used| used.is_some());
        let mut recoveries = seeds.clone().map(|seed| seed.gpu_deadline_recovery_count);
        Seed {
            gpu_telemetry_backend: seeds.next().and_then(|seed| seed.gpu_telemetry_backend),
            gpu_cli_subprocess_used: (is_used || is_known).then_some(is_used),
            gpu_deadline_recovery_count: recoveries
                .try_fold(0, |sum: u64, one| Some(sum.saturating_add(one?))),
        }
    }
}
