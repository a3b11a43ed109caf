//! `cargo xtask bench hosts`: the bundles of many hosts as one bill.

use std::path::PathBuf;

use anyhow::Context as _;

use super::audit::{
    NS_PER_S, PEAK_MIB_MAX, Took, emptied, exported, filled, mib, seconds, section, small, text,
};
use super::journal::met;
use super::{build, events, page};
use crate::number::grouped;
use crate::text::{complain, decimal, say, table};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Bundles of the bill, each of a host and a journal of its own
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    hosts: u32,
    /// Settlements of each
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    of_host: u32,
    /// Where journals and bundles are made, and removed again; 5 KiB a settlement, a tenth of that where the file
    /// system compresses
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The file whose section is written
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let (agent, load) = (build::agent()?, build::journal_load()?);
    let folder = super::audit::folder(options.directory.as_ref())?;
    let load_before = events::load_average()?;
    let mut bundles = Vec::new();
    for host in 1..=options.hosts {
        complain(&format!("bundle {host} of {}", options.hosts));
        let bundle = folder.path().join(format!("bundle-{host}"));
        let journal = filled(&load, folder.path(), (options.of_host, host))?;
        exported(&agent, &journal, &bundle)?;
        emptied(&journal)?;
        bundles.push(bundle);
    }
    complain("billing them");
    let first = bundles.first().context("no bundles")?;
    let bill = ["bill", "--utc", "--format", "json", "--from"];
    let one = super::audit::timed(&agent, &[&bill[..], &[text(first)?]].concat())?;
    let paths = bundles.iter().map(|path| text(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let merged = super::audit::timed(&agent, &[&bill[..], &paths].concat())?;
    let report = render(options, one, merged, &load_before)?;
    say(&report);
    let output = options.output.clone().unwrap_or_else(events::default_output);
    page::write(&output, "hosts", &section("Bills of many hosts", &report, EXPLANATION))?;
    say(&format!("written to {}", output.display()));
    Ok(())
}

fn render(options: &Options, one: Took, all: Took, load_before: &str) -> anyhow::Result<String> {
    let mut rows = vec![["", "measured", "aim", ""].map(str::to_owned).to_vec()];
    let mut row = |what: &str, measured: String, aim: &str, is_met: bool| {
        let verdict = if aim.is_empty() { String::new() } else { met(is_met) };
        rows.push(vec![what.to_owned(), measured, aim.to_owned(), verdict]);
    };
    row("a bill of one host's bundle, verified first", seconds(one), "", true);
    row("memory at the peak of that", mib(one), "", true);
    row("a bill of all hosts' bundles, each verified first", seconds(all), "", true);
    row("memory at the peak of that", mib(all), &format!("< {PEAK_MIB_MAX} MiB"), small(all));
    let settlements = u64::from(options.hosts).saturating_mul(options.of_host.into());
    let rate = settlements.saturating_mul(NS_PER_S) / all.ns.max(1);
    row("settlements a second", grouped(rate), "", true);
    let alone = one.ns.max(1).saturating_mul(u64::from(options.hosts));
    let ratio = all.ns.saturating_mul(1_000) / alone;
    row("time of all / as often that of one", decimal(ratio, 1_000, 2), "", true);
    let memory = all.peak_kib.saturating_mul(1_000) / one.peak_kib.max(1);
    row("memory of all / that of one", decimal(memory, 1_000, 2), "", true);
    let mut lines = events::surroundings_without_peers()?;
    lines.push(format!("load average before {load_before}, after {}", events::load_average()?));
    lines.push(format!(
        "{} bundles of {} settlements each, over 365 days",
        options.hosts,
        grouped(options.of_host.into())
    ));
    Ok(format!("{}\n\n{}", lines.join("\n"), table(&rows)))
}

const EXPLANATION: &str = "\
Of the release build, from start to end. Every host has a journal and eight GPUs of its own; a bill of bundles verifies \
each before it reads it, so that its time is mostly that. The peak is the last `VmHWM` that was read of the process, \
every 5 ms.\n";
