//! Builds, checks and demonstrates gpu-ledger: `cargo xtask TASK`.

mod bench;
mod cargo;
mod demo;
mod dist;
mod ebpf;
mod fuzz;
mod kernels;
mod number;
mod nvsim;
#[cfg(test)]
mod reports;
mod sanitize;
mod text;
mod unsafety;

use std::io::Write as _;
use std::process::ExitCode;

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
    /// A made-up afternoon on a simulated driver, and its bill: no GPU needed
    Demo(demo::Options),
    /// A process of the demo: for its own use
    #[command(hide = true, subcommand)]
    DemoRole(demo::Role),
    /// Make what is installed: .deb, .rpm, a static program, and the list of what is in them
    Dist(dist::Options),
    /// Rebuild the kernel object (needs the tools of gpu-ledger/bpf/README.md)
    Ebpf(ebpf::Options),
    /// Run the event tests on kernels as distributions ship them, each booted under emulation
    Kernels(kernels::Options),
    /// Fuzz every parser of bytes that come from outside, each for some minutes (fuzz/README.md)
    Fuzz(fuzz::Options),
    /// Build the simulated driver
    Nvsim(nvsim::Options),
    /// Run the simulated driver's tests, its C ABI library among them, under AddressSanitizer (fuzz/README.md)
    Sanitize(sanitize::Options),
    /// Count every `unsafe` anew into UNSAFE.md; its reasons stay
    Unsafe,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            // Nothing is left to do when even stderr is gone.
            let _ = writeln!(std::io::stderr(), "xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<ExitCode> {
    match task {
        Task::Bench(options) => bench::run(&options)?,
        Task::Demo(options) => return demo::run(&options),
        Task::DemoRole(role) => return demo::play(&role),
        Task::Dist(options) => dist::run(&options)?,
        Task::Ebpf(options) => ebpf::run(&options)?,
        Task::Kernels(options) => return kernels::run(&options),
        Task::Fuzz(options) => fuzz::run(&options)?,
        Task::Nvsim(options) => nvsim::run(&options)?,
        Task::Sanitize(options) => sanitize::run(&options)?,
        Task::Unsafe => unsafety::run()?,
    }
    Ok(ExitCode::SUCCESS)
}
