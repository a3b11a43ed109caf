//! `gpu-ledger audit replay`.

use std::path::PathBuf;

use clap::Args;

use super::super::{STATUS_FAILED, print};
use super::verify::key;
use crate::audit::Bundle;
use crate::audit::replay::{render, replay};
use crate::audit::verify::{IntegrityWord, Known, Of, verify};
use crate::escape::escape;
use crate::output::complain;
use crate::rendering::json;

const AFTER_HELP: &str = "The bundle is verified first. Then the figures of each settlement are derived from what the driver said and from the \
identity that stands with it, its account by the file of rules that it names, and every form of the bill is made again \
of the entries in the bundle. What somebody moved by hand is an entry, and stays.\n\
What cannot be derived is counted by a word and is no difference: evidence-erased (its rules look at arguments that are \
not stored any more), argv-redacted (less of them is stored than rules may have seen), rules-not-in-bundle, \
no-provenance (from before entries said by which rules they were made).\n\
Exit status: 0 the same, byte for byte, 1 something differs, or it is no proven bundle, 2 the same as far as it can be \
derived, 64 usage.";

/// What is to be derived again.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ReplayBundle {
    /// The bundle's folder
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The key that must have signed, or signed for the one that did: its text, or a file that holds it
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// One JSON object (format gpu-ledger-audit-replay) instead of text
    #[arg(long)]
    json: bool,
}

impl ReplayBundle {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let known = Known { key: self.key.as_deref().map(key).transpose()?, witness: None };
        let verdict = verify(&self.bundle, &known);
        if verdict.integrity.verdict == IntegrityWord::Failed || verdict.of != Of::Bundle {
            let path = escape(self.bundle.as_os_str().as_encoded_bytes());
            complain(&format!("{path} is not a proven bundle, and nothing of it is derived:"));
            complain(verdict.to_string().trim_end());
            return Ok(STATUS_FAILED);
        }
        let replayed = replay(&Bundle::open(&self.bundle)?)?;
        print(&if self.json { json(&replayed)? } else { render(&replayed) })?;
        Ok(replayed.status())
    }
}
