//! `cargo xtask bench audit`: a bundle of a million settlements exported and verified, and exports of as many rows.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::journal::{met, one};
use super::{build, events, page, procfs};
use crate::number::grouped;
use crate::text::{complain, decimal, say, table};

pub(super) const NS_PER_S: u64 = 1_000_000_000;
const KIB_PER_MIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Exports and proofs of a million settlements take at most so long.
const EXPORT_S_MAX: u64 = 60;
const VERIFY_S_MAX: u64 = 20;
/// And so much memory.
pub(super) const PEAK_MIB_MAX: u64 = 128;
/// Exports of rows, which pass in bounded memory.
const ROW_FORMS: [&str; 3] = ["csv", "jsonl", "parquet"];
/// Beside an export of so many rows, one of this part of them.
const PART: u32 = 10;
/// The peak of a process is the last that is read of it before it ends: a few of its pages later at most.
const POLL: Duration = Duration::from_millis(5);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Settlements in the bundle that is exported and verified
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    settlements: u32,
    /// Where journals and bundles are made, and removed again
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The file whose section is written
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What one run of the product took.
#[derive(Clone, Copy)]
pub(super) struct Took {
    pub(super) ns: u64,
    pub(super) peak_kib: u64,
}

/// What was measured.
struct Measured {
    export: Took,
    verify: Took,
    bundle_bytes: u64,
    /// Exports of rows by their form: of a part of the settlements, and of all of them.
    rows: Vec<(&'static str, Took, Took)>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let (agent, load) = (build::agent()?, build::journal_load()?);
    let folder = folder(options.directory.as_ref())?;
    let load_before = events::load_average()?;
    complain(&format!("exporting {} settlements", grouped(options.settlements.into())));
    let bundle = folder.path().join("bundle");
    let journal = filled(&load, folder.path(), (options.settlements, 0))?;
    let export = exported(&agent, &journal, &bundle)?;
    let of_all = rows(&agent, &journal)?;
    emptied(&journal)?;
    let verify = timed(&agent, &["audit", "verify", text(&bundle)?])?;
    let bundle_bytes = bytes_of(&bundle)?;
    std::fs::remove_dir_all(&bundle).context("cannot remove the bundle")?;
    let journal = filled(&load, folder.path(), (options.settlements.div_ceil(PART), 0))?;
    let of_part = rows(&agent, &journal)?;
    emptied(&journal)?;
    let rows = ROW_FORMS.iter().zip(of_part).zip(of_all);
    let rows = rows.map(|((form, part), all)| (*form, part, all)).collect();
    let measured = Measured { export, verify, bundle_bytes, rows };
    let report = render(options, &measured, &load_before)?;
    say(&report);
    let output = options.output.clone().unwrap_or_else(events::default_output);
    page::write(&output, "audit", &section("Audit bundles", &report, EXPLANATION))?;
    say(&format!("written to {}", output.display()));
    Ok(())
}

/// Where journals and bundles are made, and removed again.
pub(super) fn folder(directory: Option<&PathBuf>) -> anyhow::Result<tempfile::TempDir> {
    let folder = match directory {
        Some(directory) => tempfile::tempdir_in(directory),
        None => tempfile::tempdir(),
    };
    folder.context("cannot make a folder for journals and bundles")
}

pub(super) fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the folder's name is no text")
}

/// Fills a journal of a host.
pub(super) fn filled(
    load: &Path,
    folder: &Path,
    (settlements, host): (u32, u32),
) -> anyhow::Result<PathBuf> {
    let journal = folder.join("state");
    one(load, &["fill", text(&journal)?, &settlements.to_string(), "100", &host.to_string()])?;
    Ok(journal)
}

pub(super) fn emptied(journal: &Path) -> anyhow::Result<()> {
    std::fs::remove_dir_all(journal).context("cannot remove the journal")
}

/// A bundle of all of a journal.
pub(super) fn exported(agent: &Path, journal: &Path, bundle: &Path) -> anyhow::Result<Took> {
    let words =
        ["audit", "export", "--utc", "--period", "all", "--state-dir", text(journal)?, "--out"];
    timed(agent, &[&words[..], &[text(bundle)?]].concat())
}

/// All of a journal as rows, in each form.
fn rows(agent: &Path, journal: &Path) -> anyhow::Result<Vec<Took>> {
    let file = journal.join("export");
    let words = ["export", "--utc", "--period", "all", "--state-dir", text(journal)?];
    let words = [&words[..], &["--output", text(&file)?, "--format"]].concat();
    ROW_FORMS.iter().map(|form| timed(agent, &[&words[..], &[*form]].concat())).collect()
}

/// Runs the product. What is not known of a made journal is no failure.
pub(super) fn timed(agent: &Path, words: &[&str]) -> anyhow::Result<Took> {
    let began = Instant::now();
    let child = Command::new(agent).args(words).stdout(Stdio::null()).spawn();
    let mut child = child.with_context(|| format!("cannot start {}", agent.display()))?;
    let mut peak_kib = 0;
    let status = loop {
        if let Ok(memory) = procfs::memory(child.id()) {
            peak_kib = memory.peak_kib;
        }
        if let Some(status) = child.try_wait().context("cannot wait for the product")? {
            break status;
        }
        std::thread::sleep(POLL);
    };
    let ns = u64::try_from(began.elapsed().as_nanos()).context("a time past any number")?;
    match status.code() {
        Some(0 | 2) => Ok(Took { ns, peak_kib }),
        _ => bail!("gpu-ledger {} failed: {status}", words.first().copied().unwrap_or_default()),
    }
}

fn bytes_of(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).context("cannot list the bundle")? {
        let metadata = entry?.metadata()?;
        bytes += if metadata.is_file() { metadata.len() } else { 0 };
    }
    Ok(bytes)
}

pub(super) fn seconds(took: Took) -> String {
    format!("{} s", decimal(took.ns, NS_PER_S, 2))
}

pub(super) fn mib(took: Took) -> String {
    format!("{} MiB", decimal(took.peak_kib, KIB_PER_MIB, 1))
}

/// Whether it took no more memory than it may.
pub(super) const fn small(took: Took) -> bool {
    took.peak_kib < PEAK_MIB_MAX * KIB_PER_MIB
}

fn render(options: &Options, measured: &Measured, load_before: &str) -> anyhow::Result<String> {
    let mut rows = vec![["", "measured", "aim", ""].map(str::to_owned).to_vec()];
    let mut row = |what: &str, measured: String, aim: &str, is_met: bool| {
        let verdict = if aim.is_empty() { String::new() } else { met(is_met) };
        rows.push(vec![what.to_owned(), measured, aim.to_owned(), verdict]);
    };
    let Measured { export, verify, bundle_bytes, rows: exports } = measured;
    let within = |took: &Took, most_s: u64| took.ns <= most_s * NS_PER_S;
    row("export", seconds(*export), "≤ 60 s", within(export, EXPORT_S_MAX));
    row("memory at the peak, export", mib(*export), "< 128 MiB", small(*export));
    row("verify", seconds(*verify), "≤ 20 s", within(verify, VERIFY_S_MAX));
    row("memory at the peak, verify", mib(*verify), "< 128 MiB", small(*verify));
    row("bundle", format!("{} MiB", decimal(*bundle_bytes, MIB, 1)), "", true);
    for (form, part, all) in exports {
        row(&format!("export --format {form}"), seconds(*all), "", true);
        row(&format!("memory at the peak, {form}"), mib(*all), "< 128 MiB", small(*all));
        let growth = all.peak_kib.saturating_mul(1_000) / part.peak_kib.max(1);
        row(&format!("that / that of one in {PART} rows"), decimal(growth, 1_000, 2), "", true);
    }
    let mut lines = events::surroundings_without_peers()?;
    lines.push(format!("load average before {load_before}, after {}", events::load_average()?));
    lines.push(format!(
        "a bundle of {} settlements over 365 days",
        grouped(options.settlements.into())
    ));
    Ok(format!("{}\n\n{}", lines.join("\n"), table(&rows)))
}

pub(super) fn section(title: &str, report: &str, explanation: &str) -> String {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    format!(
        "## {title}\n\nMade by\n\n```sh\ncargo xtask {arguments}\n```\n\n```text\n{report}```\n\n{explanation}"
    )
}

const EXPLANATION: &str = "\
Every figure is of one run of the release build, from its start to its end, files in the page cache. Export writes the \
entries as text and as a table, proves each, makes the bill in every form and signs; verify is that of the binary. \
The exports by form are of the same journal, a row a settlement. The peak is the last `VmHWM` that was read of the process, every 5 ms.\n";
