//! `gpu-ledger residency verify`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::print;
use crate::rendering::json;
use crate::residency::files::{Verification, exit_status, verify_all};

const AFTER_HELP: &str = "DIR is a batch, the folder that holds its manifest.json, or a folder of batches, each of which is proven. \
Nothing in them is changed.\n\
Exit status: 0 every batch is accepted and as it was recorded, 1 one is not as it was recorded, or there is none, \
3 a backend verdict failed, 4 data are void, 5 both, 64 usage. 3, 4 and 5 come before 1.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Verify {
    /// The batch, or a folder of batches
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// One JSON object (format gpu-ledger-residency-verify) instead of text
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let reports = verify_all(&self.folder)?;
        let page = if self.json {
            json(&Verification::of(&reports))?
        } else {
            reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        print(&page)?;
        Ok(exit_status(&reports))
    }
}
