//! `gpu-ledger mark`.

use clap::Args;
use serde_json::json;

use super::place::SocketPlace;
use super::print;
use crate::daemon::{Client, NOTE_MAX, VERSION};

const EXIT_STATUS: &str = "`gpu-ledger status` shows the last notes, and the view `marks` of the journal \
all of them. Only root and members of the daemon's group (socket.group in its configuration, gpu-ledger by \
default) may do this.\n\
Exit status: 0 remembered, 1 failed, or no daemon answers, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Mark {
    /// What to remember of it, at most 512 bytes
    #[arg(value_parser = note)]
    note: String,
    #[command(flatten)]
    place: SocketPlace,
}

fn note(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("a note without words is none; give some, as in: gpu-ledger mark \"new rack\""
            .to_owned());
    }
    if text.len() > NOTE_MAX {
        return Err(format!(
            "it has {} bytes, and a note has at most {NOTE_MAX}; shorten it",
            text.len()
        ));
    }
    Ok(text.to_owned())
}

impl Mark {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let client = Client::at(&self.place.socket()?);
        client.ask(&json!({ "version": VERSION, "request": "mark", "note": self.note }))?;
        print("marked\n")?;
        Ok(0)
    }
}
