//! `gpu-ledger residency`.

#[cfg(feature = "parquet")]
mod export;
mod mark;
mod plot;
mod record;
mod show;
mod verify;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::clock::Clock;

/// What a report of one batch ends with.
const EXIT_STATUS: &str = "Exit status: 0 the batch is accepted, 1 it is not as it was recorded or cannot be read, \
3 its backend verdict failed, 4 its data are void, 5 both, 64 usage.";

#[derive(Args, Debug)]
pub(super) struct Residency {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Record curves of memory and utilization, each number with its age at the moment it is drawn at
    Record(Box<record::Record>),
    /// Mark in the curves being recorded that a phase begins now
    Mark(mark::Mark),
    /// Prove a batch: every figure and both verdicts made again from its raw samples, byte for byte
    Verify(verify::Verify),
    /// Draw its curves: SVG, PNG, PDF and one page for a browser
    Plot(plot::Plot),
    /// Write its timelines as Parquet tables, with both verdicts in their footers
    #[cfg(feature = "parquet")]
    Export(export::Export),
    /// Print what a batch says: verdicts, figures, the probe's own cost, statistics of each phase
    Show(show::Show),
    /// Compare the iterations of two batches, without ranking them
    Compare(show::Compare),
    /// Print the paragraph for a paper: what was measured, how, with which limits
    Methods(show::Methods),
}

impl Residency {
    /// Whether it opens the driver.
    pub(super) const fn opens_driver(&self) -> bool {
        matches!(self.command, Command::Record(_))
    }

    pub(super) fn run(self, nvml_library: Option<PathBuf>, clock: Clock) -> anyhow::Result<u8> {
        match self.command {
            Command::Record(record) => record.run(nvml_library, clock),
            Command::Mark(mark) => mark.run(&clock),
            Command::Verify(verify) => verify.run(),
            Command::Plot(plot) => plot.run(),
            #[cfg(feature = "parquet")]
            Command::Export(export) => export.run(),
            Command::Show(show) => show.run(),
            Command::Compare(compare) => compare.run(),
            Command::Methods(methods) => methods.run(),
        }
    }
}
