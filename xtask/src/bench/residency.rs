//! `cargo xtask bench residency`: a batch of a million points, written and proven.

use std::path::PathBuf;

use anyhow::Context as _;

use super::journal::{Said, met, middle, one, worst};
use super::text::{complain, decimal, say, table};
use super::{build, events, page};
use crate::number::grouped;

const NS_PER_S: u64 = 1_000_000_000;
const KIB_PER_MIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const AIM_VERIFY_NS: u64 = 5 * NS_PER_S;
const AIM_PEAK_KIB: u64 = 64 * KIB_PER_MIB;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Points of the batch
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    points: u64,
    /// How often it is proven; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Where the batch is made, and removed again; its file system is what is measured
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The file whose section is written
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let program = build::residency_load()?;
    let folder = match &options.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let folder = folder.context("cannot make a folder for the batch")?;
    let path = folder.path().to_str().context("the folder's name is no text")?;
    let load_before = events::load_average()?;
    complain(&format!("writing {} points", grouped(options.points)));
    let filled = one(&program, &["fill", path, &options.points.to_string()])?;
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        complain(&format!("proving: round {round} of {}", options.rounds));
        rounds.push(one(&program, &["verify", path])?);
    }
    let report = render(options, &filled, &rounds, &load_before)?;
    say(&report);
    let output = options.output.clone().unwrap_or_else(events::default_output);
    page::write(&output, "residency", &section(&report))?;
    say(&format!("written to {}", output.display()));
    Ok(())
}

fn render(
    options: &Options,
    filled: &Said,
    rounds: &[Said],
    load_before: &str,
) -> anyhow::Result<String> {
    let filled = std::slice::from_ref(filled);
    let verify_ns = middle(rounds, "verify_ns")?;
    let peak_kib = worst(rounds, "peak_kib")?;
    let writer_kib = worst(filled, "peak_kib")?;
    let seconds = |ns: u64| format!("{} s", decimal(ns, NS_PER_S, 2));
    let mib = |kib: u64| format!("{} MiB", decimal(kib, KIB_PER_MIB, 1));
    let row = |what: &str, measured: String, aim: &str, is_met: Option<bool>| {
        let verdict = is_met.map(met).unwrap_or_default();
        vec![what.to_owned(), measured, aim.to_owned(), verdict]
    };
    let rows = vec![
        ["", "measured", "aim", ""].map(str::to_owned).to_vec(),
        row("proving it", seconds(verify_ns), "≤ 5 s", Some(verify_ns <= AIM_VERIFY_NS)),
        row(
            "memory at the peak, proving",
            mib(peak_kib),
            "< 64 MiB",
            Some(peak_kib < AIM_PEAK_KIB),
        ),
        row(
            "memory at the peak, writing",
            mib(writer_kib),
            "< 64 MiB",
            Some(writer_kib < AIM_PEAK_KIB),
        ),
        row("writing its raw rows", seconds(middle(filled, "write_ns")?), "", None),
        row("ending it: figures and timeline", seconds(middle(filled, "end_ns")?), "", None),
    ];
    let mut lines = events::surroundings_without_peers()?;
    lines.push(format!("load average before {load_before}, after {}", events::load_average()?));
    lines.push(format!(
        "{} points, {} samples of six fields and four processes, {} MiB of files, {} rounds",
        grouped(options.points),
        grouped(middle(filled, "probes")?),
        grouped(middle(filled, "bytes")? / MIB),
        options.rounds
    ));
    Ok(format!("{}\n\n{}", lines.join("\n"), table(&rows)))
}

fn section(report: &str) -> String {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    format!(
        "## Residency\n\nMade by\n\n```sh\ncargo xtask {arguments}\n```\n\n```text\n{report}```\n\n{EXPLANATION}"
    )
}

const EXPLANATION: &str = "\
P = 200 ms, Q = 50 ms: fourteen hours in one window. Proving it reads every raw row once, makes timeline and figures again \
and compares their bytes, and hashes every file. Files are in the page cache; each round is a process of its own.\n";
