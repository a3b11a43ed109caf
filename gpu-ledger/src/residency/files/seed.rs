//! The three keys that stand in every document of a batch, and what a document really says of them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::residency::verdict::{Backend, BackendSaid};

/// A document's keys and their values as they are written.
pub(super) type Keys = BTreeMap<String, Box<RawValue>>;

/// The three keys. Null is never what a passing batch says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Seed {
    /// Who was asked.
    pub gpu_telemetry_backend: Option<Backend>,
    /// Whether the recorder has run any program beside the user's command: measured.
    pub gpu_cli_subprocess_used: Option<bool>,
    /// Catch-ups, counted again from the samples.
    pub gpu_deadline_recovery_count: Option<u64>,
}

impl Seed {
    /// The keys that say it.
    pub const BACKEND: &'static str = "gpu_telemetry_backend";
    /// Whether any program was run.
    pub const SUBPROCESS: &'static str = "gpu_cli_subprocess_used";
    /// Catch-ups.
    pub const RECOVERY: &'static str = "gpu_deadline_recovery_count";

    /// As the verdict looks at it.
    #[must_use]
    pub fn said(&self) -> BackendSaid {
        BackendSaid {
            backend: self.gpu_telemetry_backend.map(Ok),
            subprocess: self.gpu_cli_subprocess_used,
        }
    }
}

/// What a document says, which may be anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub(super) backend: BackendSaid,
    pub(super) recovery: Option<u64>,
}

impl Said {
    /// Takes the three keys out of a document.
    pub(super) fn take(keys: &mut Keys) -> Self {
        fn known<T: serde::de::DeserializeOwned>(raw: &RawValue) -> Option<T> {
            serde_json::from_str(raw.get()).ok()
        }
        let mut said = |key| keys.remove(key).filter(|raw| raw.get() != "null");
        let backend = said(Seed::BACKEND).map(|raw| known::<Backend>(&raw).ok_or(()));
        let subprocess = said(Seed::SUBPROCESS).and_then(|raw| known(&raw));
        let recovery = said(Seed::RECOVERY).and_then(|raw| known(&raw));
        Self { backend: BackendSaid { backend, subprocess }, recovery }
    }

    /// Of a whole document; `None` where it is no document.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().map(|mut keys| Self::take(&mut keys))
    }

    pub(super) fn seed(self) -> Seed {
        Seed {
            gpu_telemetry_backend: self.backend.backend.and_then(Result::ok),
            gpu_cli_subprocess_used: self.backend.subprocess,
            gpu_deadline_recovery_count: self.recovery,
        }
    }
}
