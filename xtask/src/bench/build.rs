//! Builds what is measured: the product and the simulated driver, as users get them.

use std::path::PathBuf;

use crate::cargo;

/// The product's binary.
pub(super) fn agent() -> anyhow::Result<PathBuf> {
    cargo::build_release(&["gpu-ledger"])?.named("gpu-ledger")
}

/// The simulated driver's program and its library.
pub(super) fn simulator() -> anyhow::Result<(PathBuf, PathBuf)> {
    let built = cargo::build_release(&["nvsim", "nvsim-nvml"])?;
    Ok((built.named("nvsim")?, built.named("libnvsim_nvml.so")?))
}

/// The program that fills and reads journals.
pub(super) fn journal_load() -> anyhow::Result<PathBuf> {
    cargo::build_example("gpu-ledger", "journal_load")
}

/// The program that asks a file of rules.
pub(super) fn rules_load() -> anyhow::Result<PathBuf> {
    cargo::build_example("gpu-ledger", "rules_load")
}

/// The program that writes and proves a batch of residency curves.
pub(super) fn residency_load() -> anyhow::Result<PathBuf> {
    cargo::build_example("gpu-ledger", "residency_load")
}
