//! Two verdicts that are never mixed: whether the right backend was asked, and whether the data may be
//! used. A batch is accepted where both say so.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use super::moment::Length;
use crate::unknown::closed_list;

/// Who was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The driver's library, called directly.
    DirectNvml,
    /// A library that declares itself a simulation: never a passing verdict.
    Simulated,
    /// None could be asked.
    Unavailable,
}

impl Backend {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DirectNvml => "direct_nvml",
            Self::Simulated => "simulated",
            Self::Unavailable => "unavailable",
        }
    }
}

closed_list! {
    /// Why the backend verdict fails.
    BackendReason {
        /// A file of the batch does not say who was asked, or whether a program was run for it.
        KeyMissing = "backend_key_missing",
        /// Files of the batch contradict each other, or name no backend there is.
        Mismatch = "backend_mismatch",
        /// A program was run to ask the driver.
        CliSubprocessUsed = "cli_subprocess_used",
        /// A simulation was asked.
        Simulated = "simulated",
        /// Nothing could be asked.
        Unavailable = "unavailable",
    }
}

closed_list! {
    /// Why the data are void.
    VoidReason {
        /// A point's age was over the cap.
        AgeOverCap = "age_over_cap",
        /// Between two points it was.
        AgeSupOverCap = "age_sup_over_cap",
        /// No point of the window was fresh.
        AllSamplesStale = "all_samples_stale",
        /// Fewer points are available than there are.
        PointsMissing = "points_missing",
        /// No sample landed in time to begin.
        NoFirstSample = "no_first_sample",
        /// A probe was still in flight, too long for any driver that answers.
        ProbeStuck = "probe_stuck",
        /// The GPU was lost, or wants a reset.
        DeviceLost = "device_lost",
        /// A point lacks a field that it must have.
        RequiredFieldMissing = "required_field_missing",
        /// The machine slept in the window.
        SuspendDetected = "suspend_detected",
        /// The clock of all ages went backwards.
        ClockUnusable = "clock_unusable",
        /// The counts of deadlines do not follow from the samples.
        SampleAccountingMismatch = "sample_accounting_mismatch",
        /// Points were read late although the processor's share was required.
        TimelineLate = "timeline_late",
        /// The batch has no end: it was cut off, or rows of it were not written.
        Incomplete = "incomplete",
    }
}

/// One reason, how often, and where first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Void {
    /// The word.
    pub reason: VoidReason,
    /// How many points, or how many times.
    pub count: u64,
    /// The first point it holds of; null where it is about no point.
    pub first_point: Option<u64>,
}

/// Whether the right backend was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendVerdict {
    /// The driver's library, directly.
    Pass,
    /// It was not, or nobody can tell.
    Fail,
}

/// Whether the data may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataVerdict {
    /// Every number stands near the moment it claims.
    Valid,
    /// Some does not, and so none may be used.
    Void,
}

impl BackendVerdict {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
        }
    }
}

impl DataVerdict {
    /// The word in files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Void => "void",
        }
    }
}

/// Both verdicts, with what they rest on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Empty: pass.
    pub backend: Vec<BackendReason>,
    /// Empty: valid.
    pub data: Vec<Void>,
}

impl Verdict {
    /// What the files of a batch say of the backend, each as (who, whether a program was run); `None`
    /// where the key is missing, `Err` where no backend is called so.
    #[must_use]
    pub fn backend_reasons(said: &[BackendSaid]) -> Vec<BackendReason> {
        let mut reasons = Vec::new();
        let mut note = |condition: bool, reason| {
            if condition && !reasons.contains(&reason) {
                reasons.push(reason);
            }
        };
        let backend = said.iter().find_map(|file| file.backend);
        let subprocess = said.iter().find_map(|file| file.subprocess);
        for file in said {
            note(file.backend.is_none() || file.subprocess.is_none(), BackendReason::KeyMissing);
            note(file.backend == Some(Err(())), BackendReason::Mismatch);
            note(file.backend.is_some() && file.backend != backend, BackendReason::Mismatch);
            note(
                file.subprocess.is_some() && file.subprocess != subprocess,
                BackendReason::Mismatch,
            );
            note(file.subprocess == Some(true), BackendReason::CliSubprocessUsed);
            note(file.backend == Some(Ok(Backend::Simulated)), BackendReason::Simulated);
            note(file.backend == Some(Ok(Backend::Unavailable)), BackendReason::Unavailable);
        }
        note(said.is_empty(), BackendReason::KeyMissing);
        reasons.sort_unstable();
        reasons
    }

    /// Pass or fail.
    #[must_use]
    pub const fn backend_verdict(&self) -> BackendVerdict {
        if self.backend.is_empty() { BackendVerdict::Pass } else { BackendVerdict::Fail }
    }

    /// Valid or void.
    #[must_use]
    pub const fn data_verdict(&self) -> DataVerdict {
        if self.data.is_empty() { DataVerdict::Valid } else { DataVerdict::Void }
    }

    /// Both.
    #[must_use]
    pub const fn accepted(&self) -> bool {
        self.backend.is_empty() && self.data.is_empty()
    }

    /// The exit status that says which of the two it was.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        exit_status(!self.backend.is_empty(), !self.data.is_empty())
    }

    /// Adds what one iteration was void for: a reason in several is one, with the first place it held.
    #[must_use]
    pub fn merged(iterations: impl IntoIterator<Item = Vec<Void>>) -> Vec<Void> {
        let mut all: Vec<Void> = Vec::new();
        for void in iterations.into_iter().flatten() {
            match all.iter_mut().find(|known| known.reason == void.reason) {
                Some(known) => known.count = known.count.saturating_add(void.count),
                None => all.push(void),
            }
        }
        all.sort_unstable_by_key(|void| void.reason);
        all
    }
}

/// The exit status of one verdict, or of all of several together.
#[must_use]
pub const fn exit_status(backend_fails: bool, data_are_void: bool) -> u8 {
    match (backend_fails, data_are_void) {
        (false, false) => 0,
        (true, false) => 3,
        (false, true) => 4,
        (true, true) => 5,
    }
}

/// What one file says of the backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackendSaid {
    /// `gpu_telemetry_backend`; `Err` where no backend is called so.
    pub backend: Option<Result<Backend, ()>>,
    /// `gpu_cli_subprocess_used`.
    pub subprocess: Option<bool>,
}

/// The line that programs read: `GPU_LEDGER_VERDICT backend=… data=… …`.
#[derive(Debug)]
pub struct VerdictLine<'verdict> {
    /// Both verdicts.
    pub verdict: &'verdict Verdict,
    /// The greatest age at a point; `None`: no point held a sample.
    pub max_sample_age: Option<Length>,
    /// The supremum; `None`: no sample landed.
    pub supremum: Option<Length>,
    /// The cap; `None`: nobody can tell what it was.
    pub cap: Option<Length>,
}

impl fmt::Display for VerdictLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.verdict;
        let backend = verdict.backend.iter().map(ToString::to_string);
        let data = verdict.data.iter().map(|void| format!("{}:{}", void.reason, void.count));
        let reasons: Vec<String> = backend.chain(data).collect();
        write!(
            f,
            "GPU_LEDGER_VERDICT backend={} data={} reasons={} max_sample_age_ms={} sup_ms={} cap_ms={}",
            verdict.backend_verdict().as_str(),
            verdict.data_verdict().as_str(),
            if reasons.is_empty() { "none".to_owned() } else { reasons.join(",") },
            or_unknown(self.max_sample_age),
            or_unknown(self.supremum),
            or_unknown(self.cap),
        )
    }
}

/// A length, or that it is not known.
#[must_use]
pub fn or_unknown(length: Option<Length>) -> String {
    length.map_or_else(|| "UNKNOWN".to_owned(), |length| length.to_string())
}
