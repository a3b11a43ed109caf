//! `gpu-ledger rules`.

mod check;
mod living;
mod replay;
mod test;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::clock::Clock;
use crate::config::{Config, RULES_DEFAULT, Rules};

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

/// The file that was named, else the configured one, else the default one.
fn file(named: Option<PathBuf>, config: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(file) = named {
        return Ok(file);
    }
    let configured = Config::read_or_default(config)?.rules;
    Ok(configured.unwrap_or_else(|| PathBuf::from(RULES_DEFAULT)))
}

/// The rules of that file. One that is only the default need not be there.
fn rules(named: Option<PathBuf>, config: Option<&Path>) -> anyhow::Result<Rules> {
    if let Some(file) = named {
        return Ok(Rules::read(&file)?);
    }
    let configured = Config::read_or_default(config)?.rules;
    Ok(Rules::read_or_default(configured.as_deref())?)
}
