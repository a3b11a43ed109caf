//! Builds, checks and demonstrates gpu-ledger.
fn main() {}
