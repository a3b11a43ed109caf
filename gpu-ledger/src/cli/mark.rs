//! `gpu-ledger mark`.

use clap::Args;
use serde_json::json;

use super::place::Place;
use super::print;
use crate::daemon::{Client, VERSION};

#[derive(Args, Debug)]
pub(super) struct Mark {
    /// What to remember of it
    note: String,
    #[command(flatten)]
    place: Place,
}

impl Mark {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let client = Client::at(&self.place.socket()?);
        client.ask(&json!({ "version": VERSION, "request": "mark", "note": self.note }))?;
        print("marked\n")?;
        Ok(0)
    }
}
