//! What was proven, for programs.

use std::path::PathBuf;

use serde::Serialize;

use crate::residency::claims::Claims;
use crate::residency::files::Labels;
use crate::residency::moment::Length;
use crate::residency::verdict::{
    self, BackendReason, BackendVerdict, DataVerdict, Verdict, VerdictLine, Void,
};

/// The format of a report.
const FORMAT: &str = "gpu-ledger-residency-verify";
/// Its version.
const VERSION: u32 = 1;

/// Something that is not as it was recorded, or does not follow from the raw rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The file, by its path within the batch.
    pub file: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A window, proven.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VerifiedIteration {
    /// Its number.
    pub iteration: u64,
    /// What it is of; null where its rows cannot be read.
    pub labels: Option<Labels>,
    /// Its data, taken alone.
    pub data_verdict: DataVerdict,
    /// What it is void for.
    pub void_reasons: Vec<Void>,
    /// Points there are; null where its window never began.
    pub points_required: Option<u64>,
    /// Points that are available; null where its rows cannot be read.
    pub points_available: Option<u64>,
    /// Samples that landed.
    pub gpu_sample_count: Option<u64>,
    /// Catch-ups.
    pub gpu_deadline_recovery_count: Option<u64>,
    /// The greatest age at a point.
    pub max_sample_age_ms: Option<Length>,
    /// The supremum between them.
    pub max_sample_age_sup_ms: Option<Length>,
    /// How it ended, where a reader has to know.
    pub notes: Vec<String>,
    /// How long the probe had been in flight that never came back; null: none was.
    pub probe_in_flight_at_end_ms: Option<Length>,
    /// Raw rows that everything was made again from.
    pub rows: u64,
}

/// What was proven of several batches, for programs. Its schema is
/// `gpu-ledger/schema/residency-verify.v1.schema.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verification<'reports> {
    format: &'static str,
    version: u32,
    batches: &'reports [VerifyReport],
}

impl<'reports> Verification<'reports> {
    /// Of these.
    #[must_use]
    pub const fn of(batches: &'reports [VerifyReport]) -> Self {
        Self { format: FORMAT, version: VERSION, batches }
    }
}

/// What was proven of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VerifyReport {
    /// The batch's folder.
    pub folder: PathBuf,
    /// Its id; null where its manifest cannot be read.
    pub batch_id: Option<String>,
    /// Whether both verdicts pass and nothing is otherwise than it was recorded.
    pub accepted: bool,
    /// Whether every file is as it was recorded and follows from the raw rows. Null: the batch has no end, and
    /// nothing recorded what its files were.
    pub as_recorded: Option<bool>,
    /// Whether the right backend was asked.
    pub backend_verdict: BackendVerdict,
    /// Whether the data may be used.
    pub data_verdict: DataVerdict,
    /// Why the backend verdict fails.
    pub backend_reasons: Vec<BackendReason>,
    /// Why the data are void.
    pub void_reasons: Vec<Void>,
    /// The greatest age at any point.
    pub max_sample_age_ms: Option<Length>,
    /// The supremum between them.
    pub max_sample_age_sup_ms: Option<Length>,
    /// The cap; null where the manifest cannot be read.
    pub sample_age_cap_ms: Option<Length>,
    /// Windows that the batch was to have; null where the manifest cannot be read.
    pub iterations_planned: Option<u64>,
    /// The SHA-256 of its `SHA256SUMS`, to be noted down elsewhere; null without one.
    pub fingerprint: Option<String>,
    /// Files whose bytes were looked at.
    pub files_checked: u64,
    /// Its windows.
    pub iterations: Vec<VerifiedIteration>,
    /// What is not as it was recorded.
    pub findings: Vec<Finding>,
    /// What is worth knowing and no finding.
    pub notes: Vec<String>,
    /// What it proves and what it does not; null where the manifest cannot be read.
    pub claims: Option<Claims>,
    /// What the words of both verdicts mean, for people.
    #[serde(skip)]
    pub explained: Vec<String>,
}

impl VerifyReport {
    /// Both verdicts.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict { backend: self.backend_reasons.clone(), data: self.void_reasons.clone() }
    }

    /// The line that programs read.
    #[must_use]
    pub fn line(&self) -> String {
        let line = VerdictLine {
            verdict: &self.verdict(),
            max_sample_age: self.max_sample_age_ms,
            supremum: self.max_sample_age_sup_ms,
            cap: self.sample_age_cap_ms,
        };
        // Whoever reads nothing but this line must not take what was altered for what was recorded.
        match self.as_recorded {
            Some(true) => line.to_string(),
            Some(false) => format!("{line} as_recorded=NO"),
            None => format!("{line} as_recorded=UNKNOWN"),
        }
    }

    /// Of the two verdicts; where both pass, 1 if something is not as it was recorded.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self.verdict().exit_status() {
            0 if self.as_recorded != Some(true) => 1,
            status => status,
        }
    }
}

/// Of several batches: 3, 4 or 5 by what any of them fails, else 1 where any is not as it was recorded.
#[must_use]
pub fn exit_status(reports: &[VerifyReport]) -> u8 {
    let is = |status: &[u8]| reports.iter().any(|report| status.contains(&report.exit_status()));
    match verdict::exit_status(is(&[3, 5]), is(&[4, 5])) {
        0 => u8::from(is(&[1])),
        status => status,
    }
}
