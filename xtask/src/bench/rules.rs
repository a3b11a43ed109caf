//! `cargo xtask bench rules`: ten thousand rules of all kinds, and what it costs to find the one that matches.

use std::path::PathBuf;

use anyhow::Context as _;

use super::journal::{Said, met, middle, one, worst};
use super::{build, events, page};
use crate::number::grouped;
use crate::text::{complain, decimal, say, table};

const NS_PER_US: u64 = 1_000;
const NS_PER_MS: u64 = 1_000_000;
const KIB_PER_MIB: u64 = 1 << 10;
/// A tenth of a core, per second.
const AIM_NS_PER_S: u64 = 100 * NS_PER_MS;
/// Settlements a second, of which the aim is.
const SETTLEMENTS_PER_S: u64 = 1_000;
/// Each round has other rules and processes.
const SEED: u64 = 20_261_130;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rules in the file
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    rules: u64,
    /// Settlements that are attributed in a round
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    settlements: u64,
    /// Rounds, each with other rules; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// The file whose section is written
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let program = build::rules_load()?;
    let load_before = events::load_average()?;
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        complain(&format!("round {round} of {}", options.rounds));
        let seed = SEED + u64::from(round);
        let words = [options.rules, options.settlements, seed].map(|number| number.to_string());
        rounds.push(one(&program, &words.each_ref().map(String::as_str))?);
    }
    let report = render(options, &rounds, &load_before)?;
    say(&report);
    let output = options.output.clone().unwrap_or_else(events::default_output);
    page::write(&output, "rules", &section(&report))?;
    say(&format!("written to {}", output.display()));
    Ok(())
}

fn render(options: &Options, rounds: &[Said], load_before: &str) -> anyhow::Result<String> {
    let total_ns = middle(rounds, "classify_ns")?;
    let each_ns = total_ns / options.settlements.max(1);
    let second_ns = each_ns * SETTLEMENTS_PER_S;
    let us = |ns: u64| format!("{} µs", decimal(ns, NS_PER_US, 1));
    let percent = |ns_per_s: u64| format!("{} %", decimal(ns_per_s, AIM_NS_PER_S / 10, 2));
    let mib = |kib: u64| format!("{} MiB", decimal(kib, KIB_PER_MIB, 1));
    let plain = |what: &str, measured: String| {
        vec![what.to_owned(), measured, String::new(), String::new()]
    };
    let aim = vec![
        format!("CPU of {} settlements/s, of a core", grouped(SETTLEMENTS_PER_S)),
        percent(second_ns),
        "≤ 10 %".to_owned(),
        met(second_ns <= AIM_NS_PER_S),
    ];
    let matched = middle(rounds, "matched")? * 100 / options.settlements.max(1);
    let text_kib = worst(rounds, "text_kib")?;
    let rows = vec![
        ["", "measured", "aim", ""].map(str::to_owned).to_vec(),
        aim,
        plain("CPU of one settlement, mean", us(each_ns)),
        plain("CPU of one settlement, median", us(middle(rounds, "median_ns")?)),
        plain("CPU of one settlement, p99", us(middle(rounds, "p99_ns")?)),
        plain("CPU of one settlement, worst", us(worst(rounds, "worst_ns")?)),
        plain("settlements that fall under a rule", format!("{matched} %")),
        plain(
            "reading the file",
            format!("{} ms", decimal(middle(rounds, "parse_ns")?, NS_PER_MS, 1)),
        ),
        plain(
            "memory that reading it takes at its peak",
            mib(worst(rounds, "rules_kib")?.saturating_sub(text_kib)),
        ),
    ];
    let mut lines = events::surroundings_without_peers()?;
    lines.push(format!("load average before {load_before}, after {}", events::load_average()?));
    lines.push(format!(
        "{} rules ({} KiB), {} settlements of 5,000 processes, {} rounds",
        grouped(options.rules),
        grouped(
            rounds.first().and_then(|said| said.get("file_bytes")).context("no rounds")? / 1_024
        ),
        grouped(options.settlements),
        options.rounds
    ));
    Ok(format!("{}\n\n{}", lines.join("\n"), table(&rows)))
}

fn section(report: &str) -> String {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    format!(
        "## Rules\n\nMade by\n\n```sh\ncargo xtask {arguments}\n```\n\n```text\n{report}```\n\n{EXPLANATION}"
    )
}

const EXPLANATION: &str = "\
Rules of sixteen kinds in equal parts: programs, files, words of arguments, command lines with a capture, units, control \
groups, containers, images, compose files, labels, pods, jobs, ancestors, GPUs and users, by texts, beginnings, ends, lists and \
regular expressions; one of five hundred is a regular expression that says nothing of what must stand in a value, and is \
looked at each time. Half of the processes have a number that no rule has. A command line has some 700 bytes, one in fifty \
3,400 more. The times are of the thread's CPU, and the clock that is read twice for each settlement is in the mean.\n";
