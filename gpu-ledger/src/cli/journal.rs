//! `gpu-ledger journal`.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::place::Place;
use super::{STATUS_FAILED, Usage, print};
use crate::journal::store::{StateDir, archive, check};
use crate::unit::WallUs;

#[derive(Args, Debug)]
pub(super) struct Journal {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Prove every entry, and everything that is derived from them
    Check {
        #[command(flatten)]
        place: Place,
    },
    /// Move entries older than a moment into a file of their own; the daemon must not run
    Archive {
        /// The moment, as RFC 3339 (2026-10-01T00:00:00Z)
        #[arg(long, value_name = "TIME")]
        before: String,
        #[command(flatten)]
        place: Place,
    },
}

impl Journal {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        match self.command {
            Command::Check { place } => run_check(&place),
            Command::Archive { before, place } => run_archive(&before, &place),
        }
    }
}

fn run_check(place: &Place) -> anyhow::Result<u8> {
    let dir = StateDir::at(place.state_dir()?);
    let report = check(&dir)?;
    let mut page = String::new();
    for fault in &report.faults {
        match fault.seq {
            Some(seq) => writeln!(page, "entry {seq}: {}", fault.what)?,
            None => writeln!(page, "{}", fault.what)?,
        }
    }
    writeln!(
        page,
        "{}: {} entries up to {}, {} settlements, {}",
        dir.path().display(),
        report.entries,
        report.head.seq,
        report.settlements,
        if report.faults.is_empty() {
            "all of it proven".to_owned()
        } else {
            format!("{} faults", report.faults.len())
        }
    )?;
    print(&page)?;
    Ok(if report.faults.is_empty() { 0 } else { STATUS_FAILED })
}

fn run_archive(before: &str, place: &Place) -> anyhow::Result<u8> {
    let moment: Timestamp = before.parse().map_err(|error| {
        Usage(format!("--before {before}: {error}; give a time such as 2026-10-01T00:00:00Z"))
    })?;
    let us = u64::try_from(moment.as_microsecond())
        .map_err(|_| Usage(format!("--before {before}: before 1970")))?;
    let archived = archive(&StateDir::at(place.state_dir()?), WallUs(us))?;
    print(&format!(
        "{}: entries {} to {}; the journal goes on after {}\n",
        archived.file.display(),
        archived.first,
        archived.last,
        archived.hash
    ))?;
    Ok(0)
}
