//! `gpu-ledger status`.

use clap::Args;
use serde_json::{Value, json};

use super::place::Place;
use super::{STATUS_UNKNOWN, print};
use crate::daemon::{Client, ClientError, VERSION, offline_status, status_text};

#[derive(Args, Debug)]
pub(super) struct Status {
    /// One JSON object (format gpu-ledger-status) instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Status {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let client = Client::at(&self.place.socket()?);
        let asked = client.ask(&json!({ "version": VERSION, "request": "status" }));
        let status = match asked {
            Ok(mut answer) => answer.get_mut("status").map_or(Value::Null, Value::take),
            // What the journal alone says is something, and that nobody answers too.
            Err(error @ ClientError::Absent { .. }) => {
                offline_status(&self.place.state_dir()?, &error)?
            }
            Err(error) => return Err(error.into()),
        };
        let page = if self.json { format!("{status}\n") } else { status_text(&status) };
        print(&page)?;
        let well = status.pointer("/health/well").and_then(Value::as_bool) == Some(true);
        let known = status.get("unknown").and_then(Value::as_array).is_some_and(Vec::is_empty);
        Ok(if well && known { 0 } else { STATUS_UNKNOWN })
    }
}
