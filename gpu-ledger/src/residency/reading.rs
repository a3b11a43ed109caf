//! A batch read for a report: proven first, then computed from its raw rows again.
//!
//! Nothing that is derived in the folder is trusted. A batch that is not as it was recorded is refused; one
//! that is void is read, and no statistics are made of it.

use std::path::{Path, PathBuf};

use super::ending::notes;
use super::events::Labels;
use super::facts::{BatchFacts, Extremes};
use super::files::{
    ClockSyncState, Derived, FilesError, ITERATIONS, Iteration, MANIFEST, Manifest, Walked, check,
    events_beside_points, marks, walk_proven,
};
use super::moment::Length;
use super::statistics::Sound;
use super::statistics::people::People;
use super::statistics::phases::Phases;
use super::statistics::window::{IterationFold, IterationStatistics, Thresholds};
use super::tally::Figures;
use super::timeline::Window;
use super::verdict::Verdict;
use crate::unit::BootNs;

/// Why a batch cannot be reported on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its files cannot be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// It is not as it was recorded.
    #[error("{path}: {problem}; `gpu-ledger residency verify` says all that is wrong", path = path.display())]
    NotAsRecorded {
        /// Its folder.
        path: PathBuf,
        /// The first thing that is wrong.
        problem: String,
    },
}

/// A window of it.
#[derive(Debug)]
pub struct ReadIteration {
    /// Its number.
    pub number: u64,
    /// What it is of.
    pub labels: Labels,
    /// Its folder.
    pub folder: PathBuf,
    /// Everything that follows from its rows.
    pub derived: Derived,
    /// How it ended, where a reader has to know ([`super::ending::notes`]).
    pub notes: Vec<String>,
}

/// A batch that is as it was recorded.
#[derive(Debug)]
pub struct Read {
    /// Its folder.
    pub folder: PathBuf,
    /// What it was recorded with.
    pub manifest: Manifest,
    /// The same, as reports say it.
    pub facts: BatchFacts,
    /// Both verdicts.
    pub verdict: Verdict,
    /// Its windows whose rows can be read, in order.
    pub iterations: Vec<ReadIteration>,
    /// Its phases.
    pub marks: Vec<(BootNs, String)>,
}

impl Read {
    /// Proves the batch in `folder`, and reads it.
    pub fn of(folder: &Path) -> Result<Self, ReadError> {
        if !folder.join(MANIFEST).exists() && !folder.join(ITERATIONS).exists() {
            return Err(FilesError::NoBatch { path: folder.to_path_buf() }.into());
        }
        let checked = check(folder);
        let not_as_recorded =
            |problem: String| ReadError::NotAsRecorded { path: folder.to_path_buf(), problem };
        if let Some(finding) = checked.report.findings.first() {
            return Err(not_as_recorded(format!("{}: {}", finding.file, finding.problem)));
        }
        let fingerprint = checked.report.fingerprint.clone();
        let Some(manifest) = checked.manifest else {
            return Err(FilesError::NoBatch { path: folder.to_path_buf() }.into());
        };
        let iterations: Vec<ReadIteration> = checked
            .iterations
            .into_iter()
            .filter_map(|one| read_iteration(one, manifest.requested_duration_ms))
            .collect();
        let marks = marks(folder)?.into_iter().map(|phase| (phase.at, phase.name)).collect();
        let exec_denied =
            !iterations.is_empty() && iterations.iter().all(|one| one.derived.exec_denied);
        Ok(Self {
            folder: folder.to_path_buf(),
            facts: facts(&manifest, fingerprint, exec_denied).ok_or_else(|| {
                not_as_recorded("manifest.json: it names no GPU, or not who was asked".to_owned())
            })?,
            manifest,
            verdict: checked.report.verdict(),
            iterations,
            marks,
        })
    }

    /// The figures of all windows.
    #[must_use]
    pub fn figures(&self) -> Vec<&Figures> {
        self.iterations.iter().map(|iteration| &iteration.derived.figures).collect()
    }

    /// The phases that were marked while this iteration was recorded: one that was open when another ended is not
    /// its own.
    #[must_use]
    pub fn marks_of(&self, iteration: &ReadIteration) -> Vec<(BootNs, String)> {
        let Some(began) = iteration.derived.began_at else { return Vec::new() };
        let ended = iteration.derived.end.as_ref().map(|end| end.at);
        let is_its = |at: BootNs| at >= began && ended.is_none_or(|ended| at <= ended);
        self.marks.iter().filter(|(at, _)| is_its(*at)).cloned().collect()
    }

    /// What its phases are called, each once, in the order they came.
    #[must_use]
    pub fn phase_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (_, name) in &self.marks {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// The worst of them.
    #[must_use]
    pub fn extremes(&self) -> Extremes {
        Extremes::of(self.figures())
    }

    /// The statistics of every window, of a batch that is proven valid.
    pub fn statistics(
        &self,
        sound: Sound,
        thresholds: Thresholds,
    ) -> Result<Vec<IterationStatistics>, ReadError> {
        self.iterations.iter().map(|one| self.statistics_of(one, sound, thresholds)).collect()
    }

    fn statistics_of(
        &self,
        iteration: &ReadIteration,
        sound: Sound,
        thresholds: Thresholds,
    ) -> Result<IterationStatistics, ReadError> {
        let settings = &self.manifest.settings;
        let figures = &iteration.derived.figures;
        let (Some(t0), Some(duration)) = (figures.t0_boottime_ns, figures.duration_ms) else {
            return Err(ReadError::NotAsRecorded {
                path: iteration.folder.clone(),
                problem: "a valid batch has a window that never began".to_owned(),
            });
        };
        let window = Window { t0, timeline_period: settings.timeline_period, duration };
        let mut people = People::default();
        events_beside_points(&iteration.folder, |event| people.note(event))?;
        let phases = Phases::of(&self.marks_of(iteration), window);
        let mut fold = IterationFold::new(sound, window, settings, phases, people, thresholds);
        walk_proven(&iteration.folder, settings, |walked| {
            match walked {
                Walked::Sample(sample) => fold.sample(sample),
                Walked::Point(point) => fold.point(point.point, point.cpu),
            }
            Ok(())
        })?;
        Ok(fold.finish())
    }
}

fn read_iteration(iteration: Iteration, requested: Option<Length>) -> Option<ReadIteration> {
    let Iteration { number, folder, derived, .. } = iteration;
    let derived = derived?;
    let labels = derived.labels.clone().unwrap_or_default();
    let notes = notes(&derived, requested);
    Some(ReadIteration { number, labels, folder, derived, notes })
}

/// What reports say of a manifest; `None` where it lacks what no report can be without.
fn facts(
    manifest: &Manifest,
    fingerprint: Option<String>,
    exec_denied: bool,
) -> Option<BatchFacts> {
    let gpu = manifest.gpus.first()?;
    let seed = manifest.seed;
    let clock_sync = match manifest.clock_sync.state {
        ClockSyncState::Synchronized => Some("synchronized".to_owned()),
        ClockSyncState::Unsynchronized => Some("unsynchronized".to_owned()),
        ClockSyncState::Unknown => None,
    };
    Some(BatchFacts {
        batch_id: manifest.batch_id.clone(),
        schema_version: manifest.schema_version,
        created_wall: Some(manifest.created_wall.clone()),
        version: manifest.gpu_ledger_version.clone(),
        gpu_uuid: gpu.uuid.clone(),
        gpu_name: gpu.name.clone(),
        driver: manifest.driver_version.clone(),
        kernel: manifest.kernel.clone(),
        backend: seed.gpu_telemetry_backend?,
        cli_subprocess_used: seed.gpu_cli_subprocess_used?,
        exec_denied,
        settings: manifest.settings.clone(),
        field_order: manifest.field_order.clone(),
        power_limit_mw: gpu.power_limit_mw,
        harness_verified: manifest.harness_verified,
        clock_sync,
        command: (!manifest.command.is_empty()).then(|| manifest.command.join(" ")),
        iterations_planned: manifest.iterations_planned,
        fingerprint,
    })
}
