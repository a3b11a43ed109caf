//! The `gpu-ledger` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    gpu_ledger::cli::main()
}
