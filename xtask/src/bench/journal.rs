//! `cargo xtask bench journal`: writing, opening and reading a journal of a million settlements.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::daemon::{self, OnTheBill};
use super::statistics::median;
use super::{build, events, page};
use crate::number::grouped;
use crate::text::{complain, decimal, say, table};

const NS_PER_S: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
const KIB_PER_MIB: u64 = 1 << 10;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Settlements in the journal
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    settlements: u32,
    /// Settlements of a transaction
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// How often the journal is opened and read; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// GPU jobs that the daemon books on it afterwards, beside the simulated driver; 0 leaves the daemon out
    #[arg(long, default_value_t = 500)]
    jobs: u64,
    /// Where the journal is made, and removed again; its file system is what is measured
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The file whose section is written
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What one process of the load said.
pub(super) type Said = BTreeMap<String, u64>;

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let program = build::journal_load()?;
    let folder = match &options.directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    let folder = folder.context("cannot make a folder for the journal")?;
    let state = folder.path().join("state");
    complain(&format!("filling {} settlements", grouped(options.settlements.into())));
    let load_before = events::load_average()?;
    let filled = one(
        &program,
        &["fill", text(&state)?, &options.settlements.to_string(), &options.batch.to_string()],
    )?;
    let mut rounds: BTreeMap<&str, Vec<Said>> = BTreeMap::new();
    for round in 1..=options.rounds {
        complain(&format!("reading: round {round} of {}", options.rounds));
        for what in ["open", "day", "all", "bill-day", "bill-all"] {
            rounds.entry(what).or_default().push(one(&program, &[what, text(&state)?])?);
        }
    }
    let on_the_bill = if options.jobs > 0 {
        complain(&format!("{} jobs under the daemon", grouped(options.jobs)));
        Some(daemon::measure(folder.path(), &state, &program, options.jobs)?)
    } else {
        None
    };
    let report = render(options, &filled, &rounds, on_the_bill.as_ref(), &load_before)?;
    say(&report);
    let output = options.output.clone().unwrap_or_else(events::default_output);
    page::write(&output, "journal", &section(&report))?;
    say(&format!("written to {}", output.display()));
    Ok(())
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the folder's name is no text")
}

pub(super) fn one(program: &Path, arguments: &[&str]) -> anyhow::Result<Said> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(
        output.status.success(),
        "the load stopped: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let lines = String::from_utf8(output.stdout).context("the load's words are no text")?;
    lines
        .lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').context("the load says no value")?;
            Ok((name.to_owned(), value.parse().context("the load says no number")?))
        })
        .collect()
}

fn value(said: &Said, name: &str) -> anyhow::Result<u64> {
    said.get(name).copied().with_context(|| format!("the load does not say {name}"))
}

pub(super) fn middle(rounds: &[Said], name: &str) -> anyhow::Result<u64> {
    let values = rounds.iter().map(|said| value(said, name)).collect::<anyhow::Result<Vec<_>>>()?;
    median(&values).context("no rounds")
}

pub(super) fn worst(rounds: &[Said], name: &str) -> anyhow::Result<u64> {
    let values = rounds.iter().map(|said| value(said, name)).collect::<anyhow::Result<Vec<_>>>()?;
    values.into_iter().max().context("no rounds")
}

pub(super) fn met(is_met: bool) -> String {
    if is_met { "met" } else { "NOT MET" }.to_owned()
}

fn render(
    options: &Options,
    filled: &Said,
    rounds: &BTreeMap<&str, Vec<Said>>,
    on_the_bill: Option<&OnTheBill>,
    load_before: &str,
) -> anyhow::Result<String> {
    let of = |what: &str| rounds.get(what).map(Vec::as_slice).context("no rounds");
    let (open, day, all) = (of("open")?, of("day")?, of("all")?);
    let write_ns = value(filled, "write_ns")?.max(1);
    let written = u128::from(options.settlements) * u128::from(NS_PER_S) / u128::from(write_ns);
    let rate = u64::try_from(written).context("a rate past any number")?;
    let (file, wal) = (value(filled, "file_bytes")?, value(filled, "wal_bytes_max")?);
    let opened = middle(open, "open_ns")?;
    let (bill_day, bill_all) = (of("bill-day")?, of("bill-all")?);
    let (bill_day_ns, bill_all_ns) = (middle(bill_day, "bill_ns")?, middle(bill_all, "bill_ns")?);
    let (day_ns, all_ns) = (middle(day, "read_ns")?, middle(all, "read_ns")?);
    let mut rows = vec![["", "measured", "aim", ""].map(str::to_owned).to_vec()];
    let mut row = |what: String, measured: String, aim: &str, is_met: bool| {
        let verdict = if aim.is_empty() { String::new() } else { met(is_met) };
        rows.push(vec![what, measured, aim.to_owned(), verdict]);
    };
    let batch = grouped(options.batch.into());
    let ms = |ns: u64| format!("{} ms", decimal(ns, NS_PER_MS, 1));
    let mib = |kib: u64| format!("{} MiB", decimal(kib, KIB_PER_MIB, 1));
    row(
        format!("settlements/s written, {batch} a transaction, FULL sync"),
        grouped(rate),
        "≥ 2,000",
        rate >= 2_000,
    );
    row("opening it for writing".to_owned(), ms(opened), "≤ 100 ms", opened <= 100 * NS_PER_MS);
    let read = format!("reading a day ({} settlements)", grouped(middle(day, "settlements")?));
    row(read, ms(day_ns), "< 100 ms", day_ns < 100 * NS_PER_MS);
    row("reading all of it".to_owned(), ms(all_ns), "< 2,000 ms", all_ns < 2_000 * NS_PER_MS);
    row(
        "a bill of that day".to_owned(),
        ms(bill_day_ns),
        "< 100 ms",
        bill_day_ns < 100 * NS_PER_MS,
    );
    let is_met = bill_all_ns < 2_000 * NS_PER_MS;
    row("a bill of all of it".to_owned(), ms(bill_all_ns), "< 2,000 ms", is_met);
    let bounded = wal <= 64 * MIB;
    row(
        "write-ahead log, largest".to_owned(),
        format!("{} MiB", decimal(wal, MIB, 1)),
        "≤ 64 MiB",
        bounded,
    );
    row("journal".to_owned(), format!("{} MiB", decimal(file, MIB, 1)), "", true);
    row("peak RSS of the writer".to_owned(), mib(value(filled, "peak_kib")?), "", true);
    row("peak RSS of a bill of all".to_owned(), mib(worst(bill_all, "peak_kib")?), "", true);
    row("peak RSS of reading all".to_owned(), mib(worst(all, "peak_kib")?), "", true);
    if let Some(measured) = on_the_bill {
        for [what, measured, aim, is_met] in of_daemon(measured)? {
            rows.push(vec![what, measured, aim, is_met]);
        }
    }
    let mut lines = events::surroundings_without_peers()?;
    lines.push(format!("load average before {load_before}, after {}", events::load_average()?));
    lines.push(format!(
        "{} settlements over 365 days, {} rounds of reading, the file in the page cache",
        grouped(options.settlements.into()),
        options.rounds
    ));
    Ok(format!("{}\n\n{}", lines.join("\n"), table(&rows)))
}

/// Rows about the daemon.
fn of_daemon(measured: &OnTheBill) -> anyhow::Result<Vec<[String; 4]>> {
    let us = |percent| measured.percentile_us(percent).context("no jobs");
    let ms = |us: u64| format!("{} ms", decimal(us, 1_000, 1));
    let ring_kib = measured.ring_bytes / 1_024;
    let net = |kib: u64| kib.saturating_sub(ring_kib * 2);
    let mib = |kib: u64| format!("{} MiB", decimal(kib, KIB_PER_MIB, 1));
    let plain =
        |what: &str, measured: String| [what.to_owned(), measured, String::new(), String::new()];
    let aimed = |what: &str, measured: String, aim: &str, is_met: bool| {
        [what.to_owned(), measured, aim.to_owned(), met(is_met)]
    };
    let jobs = u64::try_from(measured.latency_us.len())?;
    let memory = measured.memory;
    Ok(vec![
        plain("row final to on the bill, median", ms(us(50)?)),
        aimed(
            &format!("row final to on the bill, p99 of {}", grouped(jobs)),
            ms(us(99)?),
            "< 250 ms",
            us(99)? < 250_000,
        ),
        plain("row final to on the bill, worst", ms(us(100)?)),
        aimed(
            "RSS of the daemon on this journal, net of twice the ring",
            mib(net(memory.now_kib)),
            "≤ 32 MiB",
            net(memory.now_kib) <= 32 * KIB_PER_MIB,
        ),
        aimed(
            "the same at its peak",
            mib(net(memory.peak_kib)),
            "≤ 32 MiB",
            net(memory.peak_kib) <= 32 * KIB_PER_MIB,
        ),
        plain("the ring", mib(ring_kib)),
    ])
}

fn section(report: &str) -> String {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    format!(
        "## The journal\n\nMade by\n\n```sh\ncargo xtask {arguments}\n```\n\n```text\n{report}```\n\n{EXPLANATION}"
    )
}

const EXPLANATION: &str = "\
Every figure is of a process of its own that does nothing else. Reading is what `bill` does before it adds \
up: open, prove the segments, read and hash again every entry that bears on the period, follow their chain \
and decode them; a bill is that, the adding up and the page. Writing is until the transaction is on the disk, the checkpoints among them included. The daemon is the release build on that same journal, with jobs of 5 ms whose \
descriptors the simulated driver closes up to 20 ms late. A row is on the bill when another process that reads the \
journal first sees its settlement, and final when the driver's own log says that its span ended.\n";
