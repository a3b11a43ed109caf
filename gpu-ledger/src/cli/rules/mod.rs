//! `gpu-ledger rules`.

mod check;
mod living;
mod replay;
mod test;

use std::path::Path;

use clap::{Args, Subcommand};

use crate::clock::Clock;
use crate::config::{Config, Rules, RulesError};

#[derive(Args, Debug)]
pub(super) struct RulesCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Say everything that is wrong with a file of rules, and which rules never match
    Check(check::Check),
    /// Say which rule a process falls under, and why; one that lives, or one that is described
    Test(Box<test::Test>),
    /// Say what other rules would have billed, beside what is booked; changes nothing
    Replay(replay::ReplayCommand),
}

impl RulesCommand {
    pub(super) fn run(self, clock: Clock) -> anyhow::Result<u8> {
        match self.command {
            Command::Check(check) => check.run(),
            Command::Test(test) => test.run(&clock),
            Command::Replay(replay) => replay.run(clock),
        }
    }
}

/// The rules of the file that was named, else of the configured one, else of the default one, which need not be
/// there.
fn rules(named: Option<&Path>, config: &Config) -> Result<Rules, RulesError> {
    match named {
        Some(file) => Rules::read(file),
        None => Rules::read_or_default(config.rules.as_deref()),
    }
}
