//! `gpu-ledger residency`.

mod verify;

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
pub(super) struct Residency {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Prove a batch: every figure and both verdicts made again from its raw samples, byte for byte
    Verify(verify::Verify),
}

impl Residency {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        match self.command {
            Command::Verify(verify) => verify.run(),
        }
    }
}
