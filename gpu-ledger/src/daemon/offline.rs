//! What can be said of a daemon that does not answer.

use std::path::Path;

use serde_json::Value;

use super::gaps::gaps_of;
use super::seal_status::CheckpointStatus;
use super::status::{
    CoverageStatus, HealthLine, HealthStatus, JournalStatus, Status, UnknownStatus, notes_of,
    rfc3339,
};
use crate::clock::Clock;
use crate::journal::store::{Reader, StateDir, StoreError};
use crate::unknown::{Unknown, UnknownReason};

/// The status of a host whose daemon does not answer: what its journal says.
///
/// # Errors
/// Where there is no journal that can be believed either.
pub(crate) fn offline_status(
    state_dir: &Path,
    why: &dyn std::error::Error,
) -> Result<Value, Box<OfflineError>> {
    let dir = StateDir::at(state_dir);
    let read = Reader::open(&dir)
        .and_then(|reader| Ok((reader.end()?, notes_of(&reader)?, gaps_of(&reader)?)));
    let (end, notes, journal_gaps) = match read {
        Ok(read) => read,
        Err(journal) => return Err(Box::new(OfflineError { daemon: why.to_string(), journal })),
    };
    let now = Clock::system().now();
    let booked = end.head.booked.values().map(|balance| balance.count).sum();
    let status = Status {
        format: "gpu-ledger-status",
        version: 1,
        as_of: rfc3339(now.wall),
        host: crate::session::preflight::host_name().to_string(),
        daemon: None,
        rules: None,
        cmdline: None,
        reload_refused: None,
        reloading_since: None,
        coverage: CoverageStatus {
            began: end.began.map(|began| rfc3339(began.stamp.wall)),
            until: end.last.map(|last| rfc3339(last.stamp.wall)),
            process_events: None,
            device_touch: None,
            device_touch_off_because: None,
            event_gaps: None,
            events_lost: None,
            journal_gaps,
        },
        gpus: Vec::new(),
        open: Vec::new(),
        no_driver_row: Vec::new(),
        journal: JournalStatus {
            state_dir: state_dir.display().to_string(),
            head_seq: end.head.seq,
            head_hash: end.head.hash.to_string(),
            unresolved: end.unresolved.len(),
            settlements: booked,
            last_commit: end.last.map(|last| rfc3339(last.stamp.wall)),
            last_commit_took_ms: None,
            condition: if end.ended_in_order { "ended" } else { "not-ended" },
        },
        checkpoint: CheckpointStatus::of_files(&dir, end.head.seq, now.wall),
        notes,
        queue: None,
        driver: None,
        unknown: vec![UnknownStatus::of(&Unknown::of(UnknownReason::ProcessEventsUnavailable))],
        health: HealthStatus {
            well: false,
            reasons: vec![HealthLine { reason: "no-daemon", detail: why.to_string() }],
        },
    };
    serde_json::to_value(status).map_err(|error| {
        let journal = StoreError::Missing { path: state_dir.to_path_buf() };
        Box::new(OfflineError { daemon: error.to_string(), journal })
    })
}

/// Neither daemon nor journal says anything.
#[derive(Debug, thiserror::Error)]
#[error("{daemon}; and the journal says nothing either: {journal}")]
pub(crate) struct OfflineError {
    daemon: String,
    journal: StoreError,
}
