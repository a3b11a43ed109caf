//! `cargo xtask bench residency`: the recorder while it records, and a batch of a million points, written,
//! proven and drawn.

use std::path::PathBuf;

use anyhow::Context as _;

use super::journal::{Said, met, middle, one, worst};
use super::recorder::{self, Programs, Recorded};
use super::{build, events, page};
use crate::number::grouped;
use crate::text::{complain, decimal, say, table};

const NS_PER_S: u64 = 1_000_000_000;
const KIB_PER_MIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const AIM_NS: u64 = 5 * NS_PER_S;
const AIM_CPU_PPM: u64 = 10_000;
const AIM_PEAK_KIB: u64 = 64 * KIB_PER_MIB;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Points of the batch
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(2..=10_000_000))]
    points: u64,
    /// How often it is proven; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Seconds over which the recorder's CPU is counted
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Where the batch is made, and removed again; its file system is what is measured
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The file whose section is written
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let program = build::residency_load()?;
    let product = build::agent()?;
    let (nvsim, library) = build::simulator()?;
    let folder = match &options.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let folder = folder.context("cannot make a folder for the batch")?;
    let path = folder.path().to_str().context("the folder's name is no text")?;
    let load_before = events::load_average()?;
    let programs = Programs { product: &product, nvsim: &nvsim, library: &library, load: &program };
    let recorded = recorder::measure(&programs, folder.path(), options.seconds)?;
    complain(&format!("writing {} points", grouped(options.points)));
    let filled = one(&program, &["fill", path, &options.points.to_string()])?;
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        complain(&format!("proving: round {round} of {}", options.rounds));
        rounds.push(one(&program, &["verify", path])?);
    }
    complain("drawing");
    let drawn =
        recorder::draw(&product, &folder.path().join("load"), &folder.path().join("pictures"))?;
    let report = render(options, &filled, &rounds, drawn, &recorded, &load_before)?;
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
    (draw_ns, draw_kib): (u64, u64),
    recorded: &Recorded,
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
    let share = |ppm: u64| format!("{} % of a core", decimal(ppm, 10_000, 3));
    let Recorded { with_events_ppm, without_events_ppm, loop_ppm, .. } = *recorded;
    let rows = vec![
        ["", "measured", "aim", ""].map(str::to_owned).to_vec(),
        row(
            "recording at the defaults",
            share(with_events_ppm),
            "≤ 1 %",
            Some(with_events_ppm <= AIM_CPU_PPM),
        ),
        row("the same with --no-events", share(without_events_ppm), "", None),
        row("a loop that sleeps after each pass", share(loop_ppm), "", None),
        row(
            "recording / that loop",
            decimal(with_events_ppm.saturating_mul(100) / loop_ppm.max(1), 100, 2),
            "",
            None,
        ),
        row("drawing it: SVG, HTML, PNG, PDF", seconds(draw_ns), "≤ 5 s", Some(draw_ns <= AIM_NS)),
        row(
            "memory at the peak, drawing",
            mib(draw_kib),
            "< 64 MiB",
            Some(draw_kib < AIM_PEAK_KIB),
        ),
        row("proving it", seconds(verify_ns), "≤ 5 s", Some(verify_ns <= AIM_NS)),
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
    let accepted = [("idle", &recorded.idle), ("beside six busy loops", &recorded.loaded)];
    let accepted: Vec<String> =
        accepted.iter().map(|(how, line)| format!("{how}:\n  {line}")).collect();
    Ok(format!("{}\n\n{}\n\n{}", lines.join("\n"), accepted.join("\n"), table(&rows)))
}

fn section(report: &str) -> String {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    format!(
        "## Residency\n\nMade by\n\n```sh\ncargo xtask {arguments}\n```\n\n```text\n{report}```\n\n{EXPLANATION}"
    )
}

const EXPLANATION: &str = "\
The acceptance run is one of two seconds on the simulated driver, which never passes its backend verdict; its line is the \
product's own. The recorder at its defaults, the recorder without process events and the loop run at the same time on one \
driver; their CPU is that of all of their threads, by the kernel. The loop asks for the same fields, sleeps a period, writes \
nothing and counts no deadline. The million points: P = 200 ms, Q = 50 ms, fourteen hours in one window. Proving it reads \
every raw row once, makes timeline and figures again and compares their bytes, and hashes every file; drawing proves it \
first. Files are in the page cache; each round is a process of its own.\n";
