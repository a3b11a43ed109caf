//! `gpu-ledger audit`.

mod export;
mod prove;
mod replay;
mod verify;

use clap::{Args, Subcommand};

use crate::clock::Clock;

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
    /// Prove a bundle, or one proven settlement, from nothing but its files
    Verify(verify::Verify),
    /// Derive the bill of a bundle again from its evidence and rules, and compare it byte for byte
    Replay(replay::ReplayBundle),
    /// Write one settlement with the proof that it is in the journal, checkable without the rest
    Prove(prove::Prove),
}

impl Audit {
    pub(super) fn run(self, clock: &Clock) -> anyhow::Result<u8> {
        match self.command {
            Command::Export(export) => export.run(clock),
            Command::Verify(verify) => verify.run(),
            Command::Replay(replay) => replay.run(),
            Command::Prove(prove) => prove.run(),
        }
    }
}
