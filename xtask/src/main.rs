//! Builds, checks and demonstrates gpu-ledger: `cargo xtask TASK`.

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
    /// Rebuild the kernel object (needs the tools of gpu-ledger/bpf/README.md)
    Ebpf(ebpf::Options),
    /// Build the simulated driver
    Nvsim(nvsim::Options),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Ebpf(options) => ebpf::run(&options),
        Task::Nvsim(options) => nvsim::run(&options),
    }
}
