//! `gpu-ledger accounting enable` and `status`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{STATUS_FAILED, STATUS_UNKNOWN, block_on, print};
use crate::clock::Clock;
use crate::mode::{ModeCommand, ModeOutcome, run};
use crate::rendering::json;
use crate::survey::SurveyOptions;

const EXIT_STATUS: &str = "Exit status: 0 the mode is on (`status`: is known) on every GPU, 1 it \
could not be set, 2 it is not known somewhere, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Accounting {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Turn the driver's accounting mode on (needs root), and name who must restart to be billed
    Enable {
        /// Only this GPU, by UUID or index
        #[arg(long, value_name = "GPU")]
        gpu: Option<String>,
    },
    /// Show the mode of every GPU
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
        let call_deadline = crate::accounting::driver::CALL_DEADLINE;
        let options = SurveyOptions { library, call_deadline, clock };
        let report = block_on(run(&command, options))??;
        print(&if is_json { json(&report.lines)? } else { report.text })?;
        Ok(match report.outcome {
            ModeOutcome::Done => 0,
            ModeOutcome::Unknown => STATUS_UNKNOWN,
            ModeOutcome::Failed => STATUS_FAILED,
        })
    }
}
