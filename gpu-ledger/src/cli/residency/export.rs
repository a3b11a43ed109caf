//! `gpu-ledger residency export`.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::EXIT_STATUS;
use crate::cli::print;
use crate::output::complain;
use crate::residency::export::timeline;
use crate::residency::plot::{PlotError, file_name};
use crate::residency::reading::Read;

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Export {
    /// The batch
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write the tables into this folder (default: BATCH-tables, here)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write void data as well, into files that are called so
    #[arg(long)]
    show_void: bool,
}

impl Export {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let read = Read::of(&self.folder)?;
        if !read.verdict.data.is_empty() && !self.show_void {
            complain(&PlotError::Void.to_string());
            return Ok(read.verdict.exit_status());
        }
        let batch = &read.facts.batch_id;
        let out = self.out.unwrap_or_else(|| PathBuf::from(format!("{batch}-tables")));
        std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let mut page = String::new();
        for one in &read.iterations {
            let name = file_name(&format!("{:04}", one.number), "parquet", &read.verdict);
            let (path, partial) = (out.join(&name), out.join(format!("{name}.partial")));
            let cannot =
                || format!("cannot write {}; free space, or give another --out", path.display());
            let file = BufWriter::new(File::create(&partial).with_context(cannot)?);
            let file = timeline(&read, one, file).with_context(cannot)?;
            file.into_inner().with_context(cannot)?.sync_all().with_context(cannot)?;
            // Whole or not at all: a table that is cut is none.
            std::fs::rename(&partial, &path).with_context(cannot)?;
            page.push_str(&path.display().to_string());
            page.push('\n');
        }
        print(&page)?;
        Ok(read.verdict.exit_status())
    }
}
