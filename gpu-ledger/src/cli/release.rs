//! `gpu-ledger release`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::place::SocketPlace;
use super::{Usage, print};
use crate::calling::gpu_called;
use crate::config::values::{duration_not_zero, time_text};
use crate::daemon::{Client, RELEASE_DEFAULT, RELEASE_MAX, VERSION};
use crate::unit::GpuUuid;

const EXIT_STATUS: &str = "The time is a gap (released). Only root and members of the daemon's group \
(socket.group in its configuration, gpu-ledger by default) may do this.\n\
Exit status: 0 done, 1 failed, or no daemon answers, 64 usage, and a GPU that is not watched.";

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Release {
    /// Only this GPU, by index, UUID or the beginning of one
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// Take the handles up again after this long, at most 24h (default: 10m)
    #[arg(
        long = "for", value_name = "DURATION", value_parser = release_time, conflicts_with = "end",
        allow_hyphen_values = true
    )]
    time: Option<Duration>,
    /// Take the handles up again now
    #[arg(long)]
    end: bool,
    #[command(flatten)]
    place: SocketPlace,
}

/// A time for which handles can be given back.
fn release_time(text: &str) -> Result<Duration, String> {
    let time = duration_not_zero(text)?;
    if time > RELEASE_MAX {
        return Err(format!(
            "handles are given back for {} at most; release again before it is over",
            time_text(RELEASE_MAX)
        ));
    }
    Ok(time)
}

impl Release {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let client = Client::at(&self.place.socket()?);
        let time = self.time.unwrap_or(RELEASE_DEFAULT);
        let for_ms = u64::try_from(time.as_millis())?;
        let watched = match &self.gpu {
            Some(_) => watched(&client)?,
            None => Vec::new(),
        };
        let called = self.gpu.as_deref().map(|word| gpu_called(word, &watched));
        let gpu = called.transpose().map_err(|error| Usage(error.to_string()))?;
        let answer = client.ask(&json!({
            "version": VERSION,
            "request": "release",
            "gpu": gpu,
            "for_ms": for_ms,
            "end": self.end,
        }))?;
        let released = answer.get("released").and_then(Value::as_array);
        let names: Vec<&str> = released.into_iter().flatten().filter_map(Value::as_str).collect();
        let page = match (self.end, names.is_empty()) {
            (_, true) => "every handle is taken up again\n".to_owned(),
            (true, false) => format!("still released: {}\n", names.join(", ")),
            (false, false) => format!(
                "released for {}: {}\nno handle of them is open here; `gpu-ledger release --end` ends it \
                 at once\n",
                time_text(time),
                names.join(", ")
            ),
        };
        print(&page)?;
        Ok(0)
    }
}

/// The GPUs that the daemon watches, as it counts them.
fn watched(client: &Client) -> anyhow::Result<Vec<(Option<u32>, GpuUuid)>> {
    let status = client.status()?;
    let gpus = status.pointer("/gpus").and_then(Value::as_array);
    let gpus =
        gpus.ok_or_else(|| anyhow::anyhow!("the daemon does not say which GPUs it watches"))?;
    let known = gpus.iter().map(|gpu| {
        let index = gpu.get("index").and_then(Value::as_u64);
        let uuid = gpu.get("uuid").and_then(Value::as_str);
        Some((index.and_then(|index| u32::try_from(index).ok()), GpuUuid(uuid?.into())))
    });
    let known: Option<Vec<_>> = known.collect();
    known.ok_or_else(|| anyhow::anyhow!("the daemon names a GPU without its UUID"))
}
