//! The `gpu-ledger` command.

mod closed;

use std::process::ExitCode;

fn main() -> ExitCode {
    gpu_ledger::cli::main(closed::stdout_was_closed())
}
