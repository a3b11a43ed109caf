//! `gpu-ledger audit`.

mod export;

use clap::{Args, Subcommand};

/// What a third party can check.
#[derive(Args, Debug)]
pub(super) struct Audit {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Write the bill of a period with everything that it is made of, signed, into a folder that anybody can check
    Export(export::Export),
}

impl Audit {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        match self.command {
            Command::Export(export) => export.run(),
        }
    }
}
