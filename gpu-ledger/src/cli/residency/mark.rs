//! `gpu-ledger residency mark`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::super::Usage;
use crate::clock::Clock;
use crate::residency::files::mark;
use crate::residency::recorder::record::BATCHES_VARIABLE;

#[derive(Args, Debug)]
#[command(after_help = "Exit status: 0 marked, 1 not marked in every batch, 64 usage.")]
pub(super) struct Mark {
    /// The phase that begins now
    name: String,
    /// Folder of a batch that is being recorded; may be given again (default: those that the recorded
    /// command finds in GPU_LEDGER_RESIDENCY)
    #[arg(long = "batch", value_name = "DIR")]
    batches: Vec<PathBuf>,
}

impl Mark {
    pub(super) fn run(self, clock: &Clock) -> anyhow::Result<u8> {
        let at = clock.boot();
        let mut batches = self.batches;
        if batches.is_empty() {
            let named = variable().unwrap_or_default();
            batches =
                std::env::split_paths(&named).filter(|path| *path != PathBuf::new()).collect();
        }
        if batches.is_empty() {
            return Err(Usage(format!(
                "{BATCHES_VARIABLE} is not set: mark phases from the command that `residency record` runs, \
                 or give --batch DIR"
            ))
            .into());
        }
        for batch in &batches {
            mark(batch, at, &self.name)?;
        }
        Ok(0)
    }
}

fn variable() -> Option<OsString> {
    std::env::var_os(BATCHES_VARIABLE)
}
