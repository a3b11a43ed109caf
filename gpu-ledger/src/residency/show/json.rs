//! The page for programs.

use serde::Serialize;

use super::Shown;
use crate::residency::claims::Claims;
use crate::residency::events::Labels;
use crate::residency::facts::{BatchFacts, Cost};
use crate::residency::settings::Settings;
use crate::residency::statistics::window::IterationStatistics;
use crate::residency::tally::Figures;
use crate::residency::verdict::{BackendReason, BackendVerdict, DataVerdict, Void};
use crate::unit::GpuUuid;

/// What the format is called.
pub(super) const FORMAT: &str = "gpu-ledger-residency-batch";

/// A batch, as `show --json` prints it: `gpu-ledger/schema/residency-show.v1.schema.json`.
#[derive(Debug, Serialize)]
pub struct ShownJson<'batch> {
    format: &'static str,
    version: u32,
    batch_id: &'batch str,
    created_wall: Option<&'batch str>,
    gpu_ledger_version: &'batch str,
    gpu_uuid: &'batch GpuUuid,
    gpu_name: Option<&'batch str>,
    power_limit_mw: Option<u32>,
    driver_version: Option<&'batch str>,
    kernel: Option<&'batch str>,
    gpu_telemetry_backend: &'static str,
    gpu_cli_subprocess_used: bool,
    harness_verified: bool,
    iterations_planned: u64,
    /// The SHA-256 of its `SHA256SUMS`.
    fingerprint: Option<&'batch str>,
    settings: &'batch Settings,
    backend_verdict: BackendVerdict,
    data_verdict: DataVerdict,
    accepted: bool,
    backend_reasons: &'batch [BackendReason],
    void_reasons: &'batch [Void],
    claims: Claims,
    cost: Cost,
    iterations: Vec<IterationJson<'batch>>,
}

/// One iteration of it.
#[derive(Debug, Serialize)]
struct IterationJson<'batch> {
    iteration: u64,
    labels: &'batch Labels,
    figures: &'batch Figures,
    /// How it ended, where a reader has to know.
    notes: &'batch [String],
    /// Null of a void batch.
    statistics: Option<&'batch IterationStatistics>,
}

impl<'batch> Shown<'batch> {
    /// For programs: all iterations, or the one that was asked for.
    #[must_use]
    pub fn json(&self) -> ShownJson<'batch> {
        let BatchFacts { batch_id, created_wall, version, gpu_uuid, gpu_name, .. } = self.facts;
        let iterations = self.iterations.iter().filter(|one| self.detail.is_of(one.number));
        ShownJson {
            format: FORMAT,
            version: 1,
            batch_id,
            created_wall: created_wall.as_deref(),
            gpu_ledger_version: version,
            gpu_uuid,
            gpu_name: gpu_name.as_deref(),
            power_limit_mw: self.facts.power_limit_mw,
            driver_version: self.facts.driver.as_deref(),
            kernel: self.facts.kernel.as_deref(),
            gpu_telemetry_backend: self.facts.backend.as_str(),
            gpu_cli_subprocess_used: self.facts.cli_subprocess_used,
            harness_verified: self.facts.harness_verified,
            iterations_planned: self.facts.iterations_planned,
            fingerprint: self.facts.fingerprint.as_deref(),
            settings: &self.facts.settings,
            backend_verdict: self.verdict.backend_verdict(),
            data_verdict: self.verdict.data_verdict(),
            accepted: self.verdict.accepted(),
            backend_reasons: &self.verdict.backend,
            void_reasons: &self.verdict.data,
            claims: self.claims(),
            cost: self.extremes().cost,
            iterations: iterations
                .map(|one| IterationJson {
                    iteration: one.number,
                    labels: one.labels,
                    figures: one.figures,
                    notes: one.notes,
                    statistics: one.statistics.filter(|_| self.is_valid()),
                })
                .collect(),
        }
    }
}
