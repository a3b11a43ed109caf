//! `gpu-ledger status`.

use std::path::Path;

use clap::Args;
use serde_json::Value;

use super::place::Place;
use super::{STATUS_UNKNOWN, Usage, print};
use crate::daemon::{Client, ClientError, offline_status, status_text};
use crate::escape::escape;

const EXIT_STATUS: &str = "Where no daemon answers it is what the journal says. With --state-dir it is about \
that journal: the daemon's answer where it writes that one, else what the journal says.\n\
Exit status: 0 well and nothing unknown, 1 failed, 2 answered but not well, or something is UNKNOWN, or the last \
reload was refused, so that what is in force is not what the files say, or no daemon answers, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Status {
    /// One JSON object (format gpu-ledger-status) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Status {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let status = self.ask()?;
        let page = if self.json { format!("{status}\n") } else { status_text(&status) };
        print(&page)?;
        Ok(if is_all_right(&status) { 0 } else { STATUS_UNKNOWN })
    }
}

/// Well, nothing unknown, and what is in force is what the operator's files say.
fn is_all_right(status: &Value) -> bool {
    let well = status.pointer("/health/well").and_then(Value::as_bool) == Some(true);
    let known = status.get("unknown").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let in_force = status.get("reload_refused").is_none_or(Value::is_null);
    well && known && in_force
}

impl Status {
    fn ask(&self) -> anyhow::Result<Value> {
        let client = Client::at(&self.place.socket()?);
        let status = match client.status() {
            Ok(status) => status,
            // What the journal alone says is something, and that nobody answers too.
            Err(error @ ClientError::Absent { .. }) => {
                return Ok(offline_status(&self.place.state_dir()?, &error)?);
            }
            Err(error) => return Err(error.into()),
        };
        if !self.place.names_state_dir() {
            return Ok(status);
        }
        let wanted = self.place.state_dir()?;
        let written = status.pointer("/journal/state_dir").and_then(Value::as_str).unwrap_or("");
        if is_same(&wanted, Path::new(written)) {
            return Ok(status);
        }
        let socket = client.path().display();
        if self.place.names_socket() {
            let what = format!(
                "the daemon at {socket} writes the journal of {}, and not that of {}; leave --socket or \
                 --state-dir out",
                escape(written.as_bytes()),
                wanted.display()
            );
            return Err(Usage(what).into());
        }
        let other = NoDaemonOf { socket: socket.to_string(), writes: written.to_owned() };
        Ok(offline_status(&wanted, &other)?)
    }
}

/// A daemon answers, and it is that of another journal.
#[derive(Debug, thiserror::Error)]
#[error("the daemon at {socket} writes the journal of {}", escape(writes.as_bytes()))]
struct NoDaemonOf {
    socket: String,
    writes: String,
}

/// Whether two names are of one folder.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    real(one) == real(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_well_unknown_or_refused_is_told_by_the_exit_status() {
        let of = |well: bool, unknown: Value, refused: Value| json!({ "health": { "well": well }, "unknown": unknown, "reload_refused": refused });
        assert!(is_all_right(&of(true, json!([]), Value::Null)));
        for status in [
            of(false, json!([]), Value::Null),
            of(true, json!([{ "reason": "x" }]), Value::Null),
            of(true, json!([]), json!({ "at": "2026-11-30T00:00:00.000Z", "error": "e" })),
            // Also where why is not told to whoever asks.
            of(true, json!([]), json!({ "at": "2026-11-30T00:00:00.000Z", "error": null })),
            json!({}),
        ] {
            assert!(!is_all_right(&status), "{status}");
        }
    }
}
