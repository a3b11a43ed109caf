//! How deadlines fared.

use serde::{Deserialize, Serialize};

/// How the deadlines of one iteration fared. Always `missed = recovery + coalesced + cut`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeadlineCounts {
    /// Probes that began at once because the one before them had overrun its next deadline.
    #[serde(rename = "gpu_deadline_recovery_count")]
    pub recovery: u64,
    /// Deadlines that passed while a probe was in flight.
    #[serde(rename = "gpu_deadline_missed_count")]
    pub missed: u64,
    /// Of those, the ones that were merged into another's catch-up.
    #[serde(rename = "gpu_deadline_coalesced_count")]
    pub coalesced: u64,
    /// Whether the window ended before the last catch-up could begin: 0 or 1.
    #[serde(rename = "gpu_deadline_cut_count")]
    pub cut: u64,
}

impl DeadlineCounts {
    /// Whether every missed deadline is accounted for.
    #[must_use]
    pub fn balance(&self) -> bool {
        let parts =
            self.recovery.checked_add(self.coalesced).and_then(|sum| sum.checked_add(self.cut));
        parts == Some(self.missed)
    }
}
