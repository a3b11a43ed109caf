//! What can be said of a daemon that does not answer, and a status put into words.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::status::{
    CoverageStatus, HealthLine, HealthStatus, JournalStatus, Status, UnknownStatus, rfc3339,
};
use crate::clock::Clock;
use crate::escape::escape;
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
    let end = match Reader::open(&dir).and_then(|reader| reader.end()) {
        Ok(end) => end,
        Err(journal) => return Err(Box::new(OfflineError { daemon: why.to_string(), journal })),
    };
    let booked = end.head.booked.values().map(|balance| balance.count).sum();
    let status = Status {
        format: "gpu-ledger-status",
        version: 1,
        as_of: rfc3339(Clock::system().now().wall),
        host: crate::session::preflight::host_name().to_string(),
        daemon: None,
        coverage: CoverageStatus {
            began: end.began.map(|began| rfc3339(began.stamp.wall)),
            until: end.last.map(|last| rfc3339(last.stamp.wall)),
            process_events: None,
            device_touch: None,
            device_touch_off_because: None,
            event_gaps: None,
            events_lost: None,
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

/// A status for people.
pub(crate) fn status_text(status: &Value) -> String {
    let mut page = Page::default();
    let text = |path: &str| word(status.pointer(path));
    page.line(&format!("gpu-ledger on {} at {}", text("/host"), text("/as_of")));
    match status.get("daemon") {
        Some(Value::Object(_)) => page.line(&format!(
            "  daemon {} version {}, {}",
            text("/daemon/pid"),
            text("/daemon/version"),
            if status.pointer("/daemon/ready") == Some(&Value::Bool(true)) {
                "ready"
            } else {
                "starting"
            }
        )),
        _ => page.line("  no daemon answers; this is what the journal says"),
    }
    for reason in list(status, "/health/reasons") {
        let (what, detail) = (word(reason.get("reason")), word(reason.get("detail")));
        page.line(&format!("  NOT WELL {what}: {detail}"));
    }
    page.line(&format!(
        "watched since {} until {}",
        text("/coverage/began"),
        text("/coverage/until")
    ));
    if status.pointer("/coverage/event_gaps").is_some_and(Value::is_number) {
        page.line(&format!(
            "  {} gaps in process events, {} events lost",
            text("/coverage/event_gaps"),
            text("/coverage/events_lost")
        ));
    }
    gpus(&mut page, status);
    holders(&mut page, status);
    page.line(&format!("journal {}", text("/journal/state_dir")));
    page.line(&format!(
        "  {} settlements, {} open, entry {} {}",
        text("/journal/settlements"),
        text("/journal/unresolved"),
        text("/journal/head_seq"),
        text("/journal/head_hash").get(..16).unwrap_or("")
    ));
    let unknown = list(status, "/unknown");
    if unknown.is_empty() {
        page.line("unknown 0");
    }
    for one in unknown {
        page.line(&format!("unknown {}", word(one.get("reason"))));
    }
    page.text
}

fn gpus(page: &mut Page, status: &Value) {
    for gpu in list(status, "/gpus") {
        let of = |name: &str| word(gpu.get(name));
        page.line(&format!("GPU {} {} {}", of("index"), of("name"), of("uuid")));
        page.line(&format!(
            "  last good read {} ms ago, room for {} rows before the driver evicts one",
            of("last_good_read_age_ms"),
            of("eviction_margin_rows")
        ));
        if gpu.get("released") == Some(&Value::Bool(true)) {
            page.line("  RELEASED: no handle of it is open here");
        }
    }
}

fn holders(page: &mut Page, status: &Value) {
    for open in list(status, "/open") {
        let of = |name: &str| word(open.get(name));
        page.line(&format!(
            "  OPEN {} pid {} since {}, {} ms so far, memory {} bytes",
            of("account"),
            of("pid"),
            of("start"),
            of("accrued_ms"),
            of("memory_bytes")
        ));
    }
    for holder in list(status, "/no_driver_row") {
        let of = |name: &str| word(holder.get(name));
        page.line(&format!(
            "  NO DRIVER ROW {} pid {} for {} ms at least, memory {} bytes",
            of("account"),
            of("pid"),
            of("age_ms"),
            of("memory_bytes")
        ));
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{}", escape(line.as_bytes()));
    }
}

fn list<'a>(status: &'a Value, path: &str) -> Vec<&'a Value> {
    status.pointer(path).and_then(Value::as_array).into_iter().flatten().collect()
}

/// A value as one reads it; what is not known says so.
fn word(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "unknown".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
