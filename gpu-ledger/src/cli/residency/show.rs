//! `gpu-ledger residency show`, `methods` and `compare`: reports of batches that were proven first.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::EXIT_STATUS;
use crate::cli::{STATUS_FAILED, Usage, print};
use crate::config::values::bytes;
use crate::output::complain;
use crate::rendering::json;
use crate::residency::compare::{Across, Observation, Options, Side, admit, compare};
use crate::residency::facts::Extremes;
use crate::residency::methods::{Methods as Paragraph, Window};
use crate::residency::reading::Read;
use crate::residency::show::{Detail, Iteration, Shown};
use crate::residency::statistics::Sound;
use crate::residency::statistics::bootstrap::SEED;
use crate::residency::statistics::window::{IterationStatistics, Thresholds};
use crate::residency::verdict::{Verdict, exit_status};

const COMPARED: &str = "Exit status: 0 compared, 1 they cannot be compared, 3 compared, and a backend verdict \
failed, 4 the data of one are void, 5 both, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Show {
    /// The batch
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print everything: each iteration with its phases and processes, each call's cost
    #[arg(long, conflicts_with_all = ["iteration", "json"])]
    all: bool,
    /// Print everything of this iteration
    #[arg(long, value_name = "N")]
    iteration: Option<u64>,
    /// One JSON object (format gpu-ledger-residency-batch) instead of text
    #[arg(long)]
    json: bool,
    /// Of the bootstrap over iterations
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// State how long device memory was above this: bytes, or with KiB, MiB, GiB
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_hyphen_values = true)]
    memory_above: Option<i64>,
    /// State how long utilization was above this many percent
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(i64).range(0..=100))]
    utilization_above: Option<i64>,
}

impl Show {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let read = Read::of(&self.folder)?;
        let detail = match (self.iteration, self.all) {
            (Some(number), _) if !read.iterations.iter().any(|one| one.number == number) => {
                let numbers = read.iterations.iter().map(|one| one.number);
                return Err(Usage(format!(
                    "there is no iteration {number}: the batch has {} of them, from {} on",
                    read.iterations.len(),
                    numbers.min().unwrap_or(1)
                ))
                .into());
            }
            (Some(number), _) => Detail::Iteration(number),
            (None, true) => Detail::All,
            (None, false) => Detail::Brief,
        };
        let thresholds = Thresholds {
            memory_bytes: self.memory_above,
            utilization_percent: self.utilization_above,
            ..Thresholds::default()
        };
        let statistics = match Sound::of_batch(&read.verdict) {
            Ok(sound) => read.statistics(sound, thresholds)?,
            Err(_) => Vec::new(),
        };
        let iterations: Vec<Iteration<'_>> = read
            .iterations
            .iter()
            .enumerate()
            .map(|(place, iteration)| Iteration {
                number: iteration.number,
                labels: &iteration.labels,
                figures: &iteration.derived.figures,
                notes: &iteration.notes,
                statistics: statistics.get(place),
            })
            .collect();
        let (facts, verdict) = (&read.facts, &read.verdict);
        let shown = Shown { facts, verdict, iterations: &iterations, seed: self.seed, detail };
        print(&if self.json { json(&shown.json())? } else { shown.page() })?;
        Ok(verdict.exit_status())
    }
}

/// Words of `--format` of `methods`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// The paragraph and the facts
    Text,
    /// The same as LaTeX, without any package
    Latex,
}

#[derive(Args, Debug)]
#[command(after_help = EXIT_STATUS)]
pub(super) struct Methods {
    /// The batch
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How to write it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

impl Methods {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let read = Read::of(&self.folder)?;
        let windows: Vec<Window<'_>> = read
            .iterations
            .iter()
            .map(|one| Window {
                labels: &one.labels,
                figures: &one.derived.figures,
                notes: &one.notes,
            })
            .collect();
        let phases = read.phase_names();
        let paragraph = match Paragraph::new(&read.facts, &read.verdict, &windows, &phases, SEED) {
            Ok(paragraph) => paragraph,
            Err(void) => {
                complain(&void.to_string());
                return Ok(read.verdict.exit_status());
            }
        };
        print(&match self.format {
            Format::Text => paragraph.text(),
            Format::Latex => paragraph.latex(),
        })?;
        Ok(read.verdict.exit_status())
    }
}

#[derive(Args, Debug)]
#[command(after_help = COMPARED)]
pub(super) struct Compare {
    /// A batch
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Another
    #[arg(value_name = "B")]
    b: PathBuf,
    /// The label in which they differ because it is what is compared
    #[arg(long, value_name = "LABEL", default_value = "nothing")]
    across: Across,
    /// Compare batches that were not recorded alike; every mismatch stands in the title
    #[arg(long)]
    allow_mismatch: bool,
    /// Of the bootstrap
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
    /// One JSON object (format gpu-ledger-residency-comparison) instead of text
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        let (a, b) = (Read::of(&self.a)?, Read::of(&self.b)?);
        let admitted = match admit(side(&a), side(&b), self.allow_mismatch) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                complain(&refusal.to_string());
                let any = |of: fn(&Verdict) -> bool| [&a, &b].iter().any(|read| of(&read.verdict));
                let is_void = any(|verdict| !verdict.data.is_empty());
                let fails = any(|verdict| !verdict.backend.is_empty());
                return Ok(if is_void { exit_status(fails, is_void) } else { STATUS_FAILED });
            }
        };
        let (sound_a, sound_b) = admitted.sound();
        let of_a = a.statistics(sound_a, Thresholds::default())?;
        let of_b = b.statistics(sound_b, Thresholds::default())?;
        let figures = a.figures().into_iter().chain(b.figures());
        let options = Options { across: self.across, seed: self.seed };
        let compared = compare(
            &admitted,
            &observations(&a, &of_a),
            &observations(&b, &of_b),
            options,
            Extremes::of(figures),
        );
        let comparison = match compared {
            Ok(comparison) => comparison,
            Err(refusal) => {
                complain(&refusal.to_string());
                return Ok(STATUS_FAILED);
            }
        };
        print(&if self.json { json(&comparison)? } else { comparison.page() })?;
        Ok(a.verdict.exit_status().max(b.verdict.exit_status()))
    }
}

const fn side(read: &Read) -> Side<'_> {
    Side { facts: &read.facts, verdict: &read.verdict }
}

fn observations<'read>(
    read: &Read,
    statistics: &'read [IterationStatistics],
) -> Vec<Observation<'read>> {
    let labels = read.iterations.iter().map(|iteration| iteration.labels.clone());
    let all = labels.zip(statistics);
    all.map(|(labels, statistics)| Observation { labels, statistics }).collect()
}
