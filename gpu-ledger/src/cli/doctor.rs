//! `gpu-ledger doctor`.

use std::path::PathBuf;

use clap::Args;

use super::{STATUS_UNKNOWN, block_on, print};
use crate::clock::Clock;
use crate::doctor::{DoctorOptions, examine, render};

const EXIT_STATUS: &str = "Exit status: 0 nothing is missing, 1 failed, 2 something is missing or \
cannot be told, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Doctor {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// The journal's folder to look at (default: the configured one)
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// The configuration file to look at (default: /etc/gpu-ledger/config.toml)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Doctor {
    pub(super) fn run(self, nvml_library: Option<PathBuf>, clock: Clock) -> anyhow::Result<u8> {
        let Self { json, state_dir, config } = self;
        let report = block_on(examine(DoctorOptions { config, state_dir, nvml_library, clock }))?;
        if json {
            print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        } else {
            print(&render(&report))?;
        }
        Ok(if report.is_well() { 0 } else { STATUS_UNKNOWN })
    }
}
