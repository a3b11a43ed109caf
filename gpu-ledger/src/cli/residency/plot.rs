//! `gpu-ledger residency plot`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::EXIT_STATUS;
use crate::cli::print;
use crate::rendering::rfc3339;
use crate::residency::files::{SUMS, Walked, events_beside_points, sha256_file, walk_proven};
use crate::residency::plot::{
    Curve, CurveFold, Facts, Format, Iteration, Picture, PlotError, ShowVoid, Theme, write,
};
use crate::residency::reading::{Read, ReadIteration};

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Plot {
    /// The batch
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write the pictures into this folder (default: BATCH-plots, here)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw in this format; may be given again (default: all)
    #[arg(long = "format", value_name = "FORMAT")]
    formats: Vec<Format>,
    /// The ground: as the reader's browser has it, light, or dark
    #[arg(long, value_name = "THEME", default_value = "auto")]
    theme: Theme,
    /// Pixels that a PNG is wide
    #[arg(long, value_name = "PIXELS", default_value_t = 1_600,
          value_parser = clap::value_parser!(u16).range(400..=8_000))]
    width: u16,
    /// Draw void data as well, marked as void all over
    #[arg(long)]
    show_void: bool,
}

impl Plot {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let read = Read::of(&self.folder)?;
        let facts = facts(&read)?;
        let curves: Vec<(Iteration, Option<Curve>)> = read
            .iterations
            .iter()
            .map(|one| anyhow::Ok((iteration(one)?, curve(&read, one)?)))
            .collect::<Result<_, _>>()?;
        let pictures: Vec<Picture<'_>> = curves
            .iter()
            .map(|(iteration, curve)| Picture {
                facts: &facts,
                iteration,
                curve: curve.as_ref(),
                theme: self.theme,
            })
            .collect();
        let out =
            self.out.unwrap_or_else(|| PathBuf::from(format!("{}-plots", facts.batch.batch_id)));
        let show_void = if self.show_void { ShowVoid::Yes } else { ShowVoid::No };
        let formats = if self.formats.is_empty() { all_formats() } else { self.formats };
        let mut names = Vec::new();
        for format in formats {
            let written = write(&pictures, format, self.width, show_void, |name, bytes| {
                names.push(put(&out, name, bytes)?);
                anyhow::Ok(())
            });
            if let Err(error) = written {
                if matches!(error.downcast_ref(), Some(PlotError::Void)) {
                    crate::output::complain(&format!("{error}"));
                    return Ok(read.verdict.exit_status());
                }
                return Err(error);
            }
        }
        let mut page: Vec<String> = names.iter().map(|name| name.display().to_string()).collect();
        page.push(String::new());
        print(&page.join("\n"))?;
        Ok(read.verdict.exit_status())
    }
}

fn all_formats() -> Vec<Format> {
    use clap::ValueEnum as _;
    Format::value_variants().to_vec()
}

/// Whole or not at all: a picture that is cut is none.
fn put(out: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    let path = out.join(name);
    let partial = out.join(format!("{name}.partial"));
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let written = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, &path));
    written.with_context(|| {
        format!("cannot write {}; free space, or give another --out", path.display())
    })?;
    Ok(path)
}

fn facts(read: &Read) -> anyhow::Result<Facts> {
    Ok(Facts {
        batch: read.facts.clone(),
        verdict: read.verdict.clone(),
        iterations: u32::try_from(read.iterations.len())?,
        sha256: sha256_file(&read.folder.join(SUMS)).ok(),
    })
}

fn iteration(one: &ReadIteration) -> anyhow::Result<Iteration> {
    let labels = &one.labels;
    let named =
        [("config", &labels.config), ("context", &labels.context), ("round", &labels.round)];
    let labels =
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    Ok(Iteration {
        number: u32::try_from(one.number)?,
        labels: labels.collect(),
        t0_wall: one.derived.t0_wall.map(rfc3339),
        figures: one.derived.figures.clone(),
        voids: one.derived.voids.clone(),
        notes: one.notes.clone(),
    })
}

fn curve(read: &Read, one: &ReadIteration) -> anyhow::Result<Option<Curve>> {
    let settings = &read.facts.settings;
    let Some(mut fold) = CurveFold::of(&one.derived.figures, settings) else { return Ok(None) };
    events_beside_points(&one.folder, |event| fold.event(event))?;
    for (at, name) in read.marks_of(one) {
        fold.phase(at, name);
    }
    walk_proven(&one.folder, settings, |walked| {
        match walked {
            Walked::Sample(sample) => fold.sample(sample),
            Walked::Point(at) => fold.point(at.point, at.cpu),
        }
        Ok(())
    })?;
    Ok(Some(fold.finish()))
}
