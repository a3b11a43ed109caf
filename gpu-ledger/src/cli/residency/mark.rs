//! `gpu-ledger residency mark`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::super::{STATUS_FAILED, Usage};
use crate::clock::Clock;
use crate::output::complain;
use crate::residency::files::{can_be_marked, mark};
use crate::residency::recorder::record::BATCHES_VARIABLE;

#[derive(Args, Debug)]
#[command(
    after_help = "A phase belongs to the iteration in which it is marked: it ends with the next phase, or with the iteration. \
Outside of one nothing is marked, and the exit status says so.\n\n\
Exit status: 0 marked, 1 not marked in every batch, 64 usage."
)]
pub(super) struct Mark {
    /// The phase that begins now, in quotes where its name has blanks
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
        // A phase of one GPU is one of all that can have it.
        let marked = batches
            .iter()
            .map(|batch| can_be_marked(batch, at).and_then(|()| mark(batch, at, &self.name)));
        let failures: Vec<_> = marked.filter_map(Result::err).collect();
        for failure in &failures {
            complain(&failure.to_string());
        }
        Ok(if failures.is_empty() { 0 } else { STATUS_FAILED })
    }
}

fn variable() -> Option<OsString> {
    std::env::var_os(BATCHES_VARIABLE)
}
