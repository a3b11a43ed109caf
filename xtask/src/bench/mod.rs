//! Benchmarks: one table each, peers beside us, same run, same load.
//!
//! A benchmark prints its table and writes it into its own section of `BENCHMARKS.md`, with the
//! command that made it. None of them is a test: nothing here passes or fails on a time.
#![expect(
    clippy::disallowed_methods,
    reason = "the product's rule of one door for time, environment and programs; a benchmark \
              starts foreign programs and times them"
)]

mod audit;
mod build;
mod daemon;
mod events;
mod guard;
mod hosts;
mod journal;
mod measure;
mod page;
mod paired;
mod procfs;
mod recorder;
mod report;
mod residency;
mod rules;
mod simulated;
mod statistics;
mod storm;
mod tracer;

use clap::Subcommand;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// A bundle of a million settlements exported and verified, and exports of as many rows
    Audit(audit::Options),
    /// The tracer's cost on what it traces, and its CPU, memory and misses beside execsnoop,
    /// bpftrace and forkstat (needs root)
    Events(events::Options),
    /// Two hundred hosts' bundles as one bill
    Hosts(hosts::Options),
    /// A journal of a million settlements: how fast it is written, opened and read
    Journal(journal::Options),
    /// The residency recorder: the acceptance run idle and on a busy machine, its CPU beside a loop that sleeps
    /// after each pass; a batch of a million points: how fast it is proven and drawn, in how much memory
    Residency(residency::Options),
    /// Ten thousand rules of attribution: what it costs to find the one that a process falls under
    Rules(rules::Options),
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    match &options.benchmark {
        Benchmark::Audit(options) => audit::run(options),
        Benchmark::Events(options) => events::run(options),
        Benchmark::Hosts(options) => hosts::run(options),
        Benchmark::Journal(options) => journal::run(options),
        Benchmark::Residency(options) => residency::run(options),
        Benchmark::Rules(options) => rules::run(options),
    }
}
