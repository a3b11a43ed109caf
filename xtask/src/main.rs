//! Builds, checks and demonstrates gpu-ledger: `cargo xtask TASK`.

mod bench;
mod ebpf;
mod nvsim;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, check and demonstrate gpu-ledger")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure, with peers beside it, and write the table into BENCHMARKS.md
    Bench(bench::Options),
    /// Rebuild the kernel object (needs the tools of gpu-ledger/bpf/README.md)
    Ebpf(ebpf::Options),
    /// Build the simulated driver
    Nvsim(nvsim::Options),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Bench(options) => bench::run(&options),
        Task::Ebpf(options) => ebpf::run(&options),
        Task::Nvsim(options) => nvsim::run(&options),
    }
}
