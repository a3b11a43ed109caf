//! `summary.json`: sums, maxima, and both verdicts over all windows of a batch.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::error::FilesError;
use super::iteration::Iteration;
use super::manifest::Manifest;
use super::seed::Seed;
use super::whole::pretty;
use super::{SCHEMA_VERSION, iteration_folder};
use crate::residency::claims::Claims;
use crate::residency::facts::Extremes;
use crate::residency::moment::Length;
use crate::residency::settings::OnVoid;
use crate::residency::tally::Figures;
use crate::residency::verdict::{
    BackendReason, BackendVerdict, DataVerdict, Verdict, Void, VoidReason,
};

/// Written last: a batch without it was cut off.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The batch.
    pub batch_id: String,
    /// The three keys.
    #[serde(flatten)]
    pub seed: Seed,
    /// Windows.
    pub iterations_total: u64,
    /// Windows that the batch was to have.
    pub iterations_planned: u64,
    /// Windows whose data may be used: none where any is void.
    pub iterations_valid: u64,
    /// Windows whose data may not be used: all where any is void.
    pub iterations_void: u64,
    /// Windows that are void by themselves.
    pub iterations_void_alone: u64,
    /// All points; null where a window never began.
    pub points_required: Option<u64>,
    /// Points that are available.
    pub points_available: u64,
    /// Points over the cap.
    pub stale_point_count: u64,
    /// Points before any sample.
    pub no_sample_point_count: u64,
    /// Samples that landed.
    pub gpu_sample_count: u64,
    /// Passes over the fields.
    pub gpu_probe_count: u64,
    /// Deadlines that passed while a probe was in flight.
    pub gpu_deadline_missed_count: u64,
    /// Of those, the ones that were merged into another's catch-up.
    pub gpu_deadline_coalesced_count: u64,
    /// Catch-ups that a window's end came before.
    pub gpu_deadline_cut_count: u64,
    /// Fields without a value, by status and code.
    pub gpu_query_error_count: BTreeMap<String, u64>,
    /// The greatest age at any point.
    pub max_sample_age_ms: Option<Length>,
    /// The supremum between them.
    pub max_sample_age_sup_ms: Option<Length>,
    /// The cap they are held against.
    pub sample_age_cap_ms: Length,
    /// The farthest that the wall clock was moved in a window.
    pub wall_clock_step_ms: Option<Length>,
    /// The longest that the machine slept in a window.
    pub suspend_ms: Option<Length>,
    /// Whether any window was ended before its time.
    pub stopped_early: bool,
    /// Whether the right backend was asked.
    pub backend_verdict: BackendVerdict,
    /// Whether the data may be used.
    pub data_verdict: DataVerdict,
    /// Both.
    pub accepted: bool,
    /// Why the backend verdict fails.
    pub backend_reasons: Vec<BackendReason>,
    /// Why the data are void.
    pub void_reasons: Vec<Void>,
    /// What it proves and what it does not.
    pub claims: Claims,
    /// The SHA-256 of every file of every window.
    pub sha256: BTreeMap<String, String>,
}

impl Summary {
    /// Of these windows. A batch whose manifest could not be closed, or that has no window, is incomplete.
    pub(super) fn of(manifest: &Manifest, iterations: &[Iteration], is_closed: bool) -> Self {
        let seed = seed(manifest, iterations);
        let mut voids: Vec<Vec<Void>> = iterations.iter().map(Iteration::voids).collect();
        let alone = voids.iter().filter(|voids| !voids.is_empty()).count();
        if !is_closed || iterations.is_empty() {
            voids.push(vec![Void { reason: VoidReason::Incomplete, count: 1, first_point: None }]);
        }
        let missing = missing(manifest, iterations).filter(|_| is_closed);
        voids.extend(
            missing.map(|count| {
                vec![Void { reason: VoidReason::Incomplete, count, first_point: None }]
            }),
        );
        let mut said = vec![manifest.seed.said()];
        said.extend(iterations.iter().map(|iteration| iteration.seed().said()));
        said.push(seed.said());
        let data = Verdict::merged(voids);
        let verdict = Verdict { backend: Verdict::backend_reasons(&said), data };
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let total = count(iterations.len());
        let is_void = verdict.data_verdict() == DataVerdict::Void;
        let figures: Vec<&Figures> = iterations
            .iter()
            .filter_map(|iteration| iteration.derived.as_ref().map(|derived| &derived.figures))
            .collect();
        let sum = |of: fn(&Figures) -> u64| {
            figures.iter().fold(0, |sum: u64, figures| sum.saturating_add(of(figures)))
        };
        let most = |of: fn(&Figures) -> Option<Length>| {
            figures.iter().filter_map(|figures| of(figures)).max()
        };
        Self {
            schema_version: SCHEMA_VERSION,
            batch_id: manifest.batch_id.clone(),
            seed,
            iterations_total: total,
            iterations_planned: manifest.iterations_planned,
            iterations_valid: if is_void { 0 } else { total },
            iterations_void: if is_void { total } else { 0 },
            iterations_void_alone: count(alone),
            points_required: figures.iter().try_fold(0, |sum: u64, figures| {
                Some(sum.saturating_add(figures.points_required?))
            }),
            points_available: sum(|one| one.points_available),
            stale_point_count: sum(|one| one.stale_point_count),
            no_sample_point_count: sum(|one| one.no_sample_point_count),
            gpu_sample_count: sum(|one| one.gpu_sample_count),
            gpu_probe_count: sum(|one| one.gpu_probe_count),
            gpu_deadline_missed_count: sum(|one| one.deadlines.missed),
            gpu_deadline_coalesced_count: sum(|one| one.deadlines.coalesced),
            gpu_deadline_cut_count: sum(|one| one.deadlines.cut),
            gpu_query_error_count: errors(&figures),
            max_sample_age_ms: most(|one| one.max_sample_age_ms),
            max_sample_age_sup_ms: most(|one| one.max_sample_age_sup_ms),
            sample_age_cap_ms: manifest.settings.cap,
            wall_clock_step_ms: most(|one| one.wall_clock_step_ms),
            suspend_ms: most(|one| one.suspend_ms),
            stopped_early: figures.iter().any(|one| one.stopped_early),
            backend_verdict: verdict.backend_verdict(),
            data_verdict: verdict.data_verdict(),
            accepted: verdict.accepted(),
            claims: claims_of(manifest, iterations, Some(&verdict)),
            backend_reasons: verdict.backend,
            void_reasons: verdict.data,
            sha256: hashes(iterations),
        }
    }

    /// Both verdicts.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict { backend: self.backend_reasons.clone(), data: self.void_reasons.clone() }
    }

    /// As the file has it.
    pub(super) fn text(&self, path: &Path) -> Result<String, FilesError> {
        pretty(path, self)
    }
}

/// How many windows are missing after the last one, unless that was to be the last: somebody asked for the end,
/// or it is void in a batch that was to stop at such a one.
fn missing(manifest: &Manifest, iterations: &[Iteration]) -> Option<u64> {
    let last = iterations.last()?;
    let there = u64::try_from(iterations.len()).unwrap_or(u64::MAX);
    let missing = manifest.iterations_planned.checked_sub(there).filter(|missing| *missing > 0)?;
    let end = last.derived.as_ref().and_then(|derived| derived.end.as_ref());
    let is_asked_for = end.is_some_and(|end| end.is_asked_for);
    let is_stopped_at = manifest.on_void == OnVoid::Stop && !last.voids().is_empty();
    (!is_asked_for && !is_stopped_at).then_some(missing)
}

/// What all windows say under the three keys; without one, what the manifest said as it began.
fn seed(manifest: &Manifest, iterations: &[Iteration]) -> Seed {
    let all = Iteration::seed_of_all(iterations);
    if iterations.is_empty() {
        return Seed {
            gpu_deadline_recovery_count: all.gpu_deadline_recovery_count,
            ..manifest.seed
        };
    }
    all
}

fn errors(figures: &[&Figures]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (word, count) in figures.iter().flat_map(|figures| &figures.gpu_query_error_count) {
        let sum: &mut u64 = sums.entry(word.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
    sums
}

/// By path within the batch.
fn hashes(iterations: &[Iteration]) -> BTreeMap<String, String> {
    let files = |iteration: &Iteration| {
        let folder = iteration_folder(iteration.number);
        let files = iteration.sha256.iter();
        files.map(|(name, hash)| (format!("{folder}/{name}"), hash.clone())).collect::<Vec<_>>()
    };
    iterations.iter().flat_map(files).collect()
}

/// What a batch proves, with the figures of its windows. `None`: it is not as it was recorded.
pub(super) fn claims_of(
    manifest: &Manifest,
    iterations: &[Iteration],
    verdict: Option<&Verdict>,
) -> Claims {
    let derived = iterations.iter().filter_map(|iteration| iteration.derived.as_ref());
    let (worst, cap) = (Extremes::of(derived.map(|one| &one.figures)), manifest.settings.cap);
    match verdict {
        Some(verdict) => Claims::of(verdict, &worst, cap),
        None => Claims::of_altered(&worst, cap),
    }
}
