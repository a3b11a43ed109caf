//! `gpu-ledger release`.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::place::Place;
use super::print;
use crate::config::values::duration;
use crate::daemon::{Client, RELEASE_DEFAULT, VERSION};

#[derive(Args, Debug)]
pub(super) struct Release {
    /// Only this GPU, by its UUID (`nvidia-smi -L`)
    #[arg(long, value_name = "UUID")]
    gpu: Option<String>,
    /// Take the handles up again after this long (default: 10m)
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, conflicts_with = "end")]
    time: Option<Duration>,
    /// Take the handles up again now
    #[arg(long)]
    end: bool,
    #[command(flatten)]
    place: Place,
}

impl Release {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let client = Client::at(&self.place.socket()?);
        let time = self.time.unwrap_or(RELEASE_DEFAULT);
        let for_ms = u64::try_from(time.as_millis())?;
        let answer = client.ask(&json!({
            "version": VERSION,
            "request": "release",
            "gpu": self.gpu,
            "for_ms": for_ms,
            "end": self.end,
        }))?;
        let released = answer.get("released").and_then(serde_json::Value::as_array);
        let names: Vec<&str> =
            released.into_iter().flatten().filter_map(serde_json::Value::as_str).collect();
        let page = match (self.end, names.is_empty()) {
            (_, true) => "every handle is taken up again\n".to_owned(),
            (true, false) => format!("still released: {}\n", names.join(", ")),
            (false, false) => format!(
                "released for {time:?}: {}\nno handle of them is open here; `gpu-ledger release --end` \
                 ends it at once\n",
                names.join(", ")
            ),
        };
        print(&page)?;
        Ok(0)
    }
}
