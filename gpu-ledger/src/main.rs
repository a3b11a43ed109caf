//! The `gpu-ledger` command.

fn main() {}
