//! `gpu-ledger accounting enable` and `status`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::{STATUS_FAILED, STATUS_UNKNOWN, block_on, print};
use crate::clock::Clock;
use crate::config::{Config, ConfigError};
use crate::mode::{ModeCommand, ModeOutcome, run};
use crate::rendering::json;
use crate::survey::SurveyOptions;

const EXIT_STATUS: &str = "Exit status: 0 the mode is on (`status`: is known) on every GPU, 1 it \
could not be set, 2 it, or who holds a GPU and is on no bill, is not known somewhere, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Accounting {
    /// Configuration file that names the library and the calls' deadline (default:
    /// /etc/gpu-ledger/config.toml)
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Turn the driver's accounting mode on (needs root), and name who must restart to be billed
    #[command(after_help = EXIT_STATUS)]
    Enable {
        /// Only this GPU, by index, UUID or the beginning of one
        #[arg(long, value_name = "GPU")]
        gpu: Option<String>,
    },
    /// Show the mode of every GPU
    #[command(after_help = EXIT_STATUS)]
    Status {
        /// One JSON object (format gpu-ledger-accounting) instead of text
        #[arg(long)]
        json: bool,
    },
}

impl Accounting {
    pub(super) fn run(self, library: Option<PathBuf>, clock: Clock) -> anyhow::Result<u8> {
        let (command, is_json) = match self.command {
            Command::Enable { gpu } => (ModeCommand::Enable { gpu }, false),
            Command::Status { json } => (ModeCommand::Show, json),
        };
        let options = options(self.config.as_deref(), library, clock)?;
        let report = block_on(run(&command, options))??;
        print(&if is_json { json(&report.lines)? } else { report.text })?;
        Ok(match report.outcome {
            ModeOutcome::Done => 0,
            ModeOutcome::Unknown => STATUS_UNKNOWN,
            ModeOutcome::Failed => STATUS_FAILED,
        })
    }
}

/// The library that was typed, else the configured one, as the daemon has it.
fn options(
    file: Option<&Path>,
    library: Option<PathBuf>,
    clock: Clock,
) -> Result<SurveyOptions, ConfigError> {
    // Whoever names the library need not be able to read the configuration.
    let config = match (&library, file) {
        (Some(_), None) => Config::default(),
        _ => Config::read_or_default(file)?,
    };
    let library = library.or(config.nvml_library);
    Ok(SurveyOptions { library, call_deadline: config.call_deadline, clock })
}
