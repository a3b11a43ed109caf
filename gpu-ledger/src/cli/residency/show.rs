//! `gpu-ledger residency show`, `methods` and `compare`: reports of batches that were proven first.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::EXIT_STATUS;
use crate::calling::listed;
use crate::cli::{STATUS_FAILED, Usage, print};
use crate::config::values::bytes;
use crate::escape::escape;
use crate::output::complain;
use crate::rendering::json;
use crate::residency::compare::{Across, Observation, Options, Side, admit, compare};
use crate::residency::facts::Extremes;
use crate::residency::methods::{Methods as Paragraph, Window};
use crate::residency::reading::{Read, ReadIteration};
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
#[command(override_usage = "gpu-ledger residency compare [OPTIONS] A B\n       \
                      gpu-ledger residency compare [OPTIONS] --across LABEL BATCH")]
pub(super) struct Compare {
    /// A batch
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Another; left out, A is compared within itself, across the label that is named
    #[arg(value_name = "B")]
    b: Option<PathBuf>,
    /// The label in which they differ because it is what is compared
    #[arg(long, value_name = "LABEL", default_value = "nothing")]
    across: Across,
    /// Of one batch with more than two of that label: compare these; given twice, A's first
    #[arg(long = "of", value_name = "NAME", conflicts_with = "b")]
    of: Vec<String>,
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
        let a = Read::of(&self.a)?;
        let b = self.b.as_deref().map(Read::of).transpose()?;
        let within = match &b {
            None => Some(self.within(&a)?),
            // Of one that is void that is said first.
            Some(b) if b.facts.batch_id == a.facts.batch_id && a.verdict.data.is_empty() => {
                return Err(Usage(format!(
                    "A and B are one batch, {}: give another, or leave B out and compare its configs with --across \
                     config",
                    a.facts.batch_id
                ))
                .into());
            }
            Some(_) => None,
        };
        let (a, b) = (&a, b.as_ref().unwrap_or(&a));
        let admitted = match admit(side(a), side(b), self.allow_mismatch) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                complain(&refusal.to_string());
                let any = |of: fn(&Verdict) -> bool| [a, b].iter().any(|read| of(&read.verdict));
                let is_void = any(|verdict| !verdict.data.is_empty());
                let fails = any(|verdict| !verdict.backend.is_empty());
                return Ok(if is_void { exit_status(fails, is_void) } else { STATUS_FAILED });
            }
        };
        let (sound_a, sound_b) = admitted.sound();
        let of_a = a.statistics(sound_a, Thresholds::default())?;
        let of_b = b.statistics(sound_b, Thresholds::default())?;
        let figures = a.figures().into_iter().chain(b.figures());
        let (mut seen_a, mut seen_b) = (observations(a, &of_a), observations(b, &of_b));
        if let Some([of_a, of_b]) = &within {
            seen_a.retain(|one| self.across.of(&one.labels) == Some(of_a));
            seen_b.retain(|one| self.across.of(&one.labels) == Some(of_b));
        }
        let options = Options { across: self.across, within, seed: self.seed };
        let compared = compare(&admitted, &seen_a, &seen_b, options, Extremes::of(figures));
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

    /// The two labels of one batch that are compared.
    fn within(&self, read: &Read) -> Result<[String; 2], Usage> {
        let word = self.across.word();
        if self.across == Across::Nothing {
            return Err(Usage(
                "one batch is compared within itself across a label: give --across config or --across context, or \
                 another batch"
                    .to_owned(),
            ));
        }
        let labels = read.iterations.iter().filter_map(|one| self.across.of(&one.labels));
        let all: BTreeSet<&str> = labels.collect();
        let named = all.iter().map(|label| escape(label.as_bytes()).to_string());
        let named = listed(named);
        let wanted: Vec<&str> = match self.of.as_slice() {
            [] => all.iter().copied().collect(),
            of => of.iter().map(String::as_str).collect(),
        };
        let unknown = wanted.iter().find(|label| !all.contains(**label));
        if let Some(unknown) = unknown {
            let unknown = escape(unknown.as_bytes());
            return Err(Usage(format!("no {word} of the batch is {unknown}; it has {named}")));
        }
        match wanted.as_slice() {
            [a, b] if a != b => Ok([(*a).to_owned(), (*b).to_owned()]),
            _ => Err(Usage(format!(
                "two of a batch's {word}s are compared, and it has {named}: give --of NAME --of NAME with two of \
                 them, or record it with more (--{word} A --{word} B)"
            ))),
        }
    }
}

const fn side(read: &Read) -> Side<'_> {
    Side { facts: &read.facts, verdict: &read.verdict }
}

fn observations<'read>(
    read: &'read Read,
    statistics: &'read [IterationStatistics],
) -> Vec<Observation<'read>> {
    let all = read.iterations.iter().zip(statistics);
    let of = |(one, statistics): (&'read ReadIteration, &'read IterationStatistics)| Observation {
        labels: one.labels.clone(),
        notes: &one.notes,
        statistics,
    };
    all.map(of).collect()
}
