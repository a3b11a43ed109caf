//! `gpu-ledger audit prove`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::super::place::JournalPlace;
use super::super::{Usage, print};
use crate::audit::prove::prove;
use crate::billing::JournalFiles;
use crate::escape::escape;
use crate::explain::{Choice, ExplainError, explain};
use crate::journal::store::{Signer, StateDir, StoreError};
use crate::unit::Span;

const AFTER_HELP: &str = "ID is as explain takes it: the first 8 of the GPU's UUID, pid, startTime in microseconds; its \
beginning, a pid or the number of an entry will do where that means one settlement. The file holds the settlement, the \
way from it to the root of the journal's tree, a checkpoint of that root signed now, and the key; gpu-ledger audit verify \
FILE and verify.py check it anywhere. It runs as root or as the daemon's user, whose key signs.\n\
Exit status: 0 written, 1 failed, or none was found, 64 usage.";

/// What is to be proven.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Prove {
    /// The settlement: its id or the beginning of it, a pid, or the number of its entry
    #[arg(value_name = "ID")]
    id: String,
    /// Where it is written, a file that does not exist (default: standard output)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    place: JournalPlace,
}

impl Prove {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let choice = Choice::id(&self.id).map_err(refused)?;
        let dir = StateDir::at(self.place.state_dir()?);
        let mut journal = JournalFiles::open(&dir).map_err(told)?;
        let all = Span::new(0, u64::MAX).context("all time is a period")?;
        let found = explain(&mut journal, all, &choice, None)
            .map_err(|error| error.downcast().map_or_else(|error| error, refused))?;
        let seq = match found.settlements.as_slice() {
            [one] => one.seq,
            many => {
                anyhow::bail!("{} means {} settlements; give the id of one", self.id, many.len())
            }
        };
        let signer = Signer::open(&dir).map_err(told)?.with_context(|| {
            format!(
                "no key signs in {}: the daemon makes one when it starts",
                escape(dir.path().as_os_str().as_encoded_bytes())
            )
        })?;
        let text = prove(&journal, &signer, seq)?;
        let Some(out) = self.out else {
            print(&text)?;
            return Ok(0);
        };
        let shown = escape(out.as_os_str().as_encoded_bytes()).to_string();
        let made = std::fs::File::create_new(&out).with_context(|| format!("cannot make {shown}"));
        let mut file = made?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.with_context(|| format!("cannot write {shown}"))?;
        Ok(0)
    }
}

/// What has to be typed otherwise, as such.
fn refused(error: ExplainError) -> anyhow::Error {
    if error.is_usage() { Usage(error.to_string()).into() } else { error.into() }
}

/// With what to do where this user may not look.
fn told(error: StoreError) -> anyhow::Error {
    if error.is_denied() {
        anyhow::anyhow!("{error}; the journal and its key are the daemon's: run it under sudo")
    } else {
        error.into()
    }
}
