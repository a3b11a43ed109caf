//! `residency record` under test, and what it left.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::privilege::UNDISTURBED;
use crate::support::Sim;

/// The recorder on a simulated driver, its batches in the simulator's folder.
pub(crate) fn recorder(sim: &Sim, words: &[&str]) -> Command {
    let mut command = Command::new(UNDISTURBED[0]);
    command.args(&UNDISTURBED[1..]).arg(env!("CARGO_BIN_EXE_gpu-ledger"));
    command.arg("--nvml-library").arg(sim.library()).args(["residency", "record", "--out"]);
    command.arg(runs(sim)).args(words).env("NVSIM_SOCKET", sim.socket());
    command
}

pub(crate) fn runs(sim: &Sim) -> PathBuf {
    sim.folder().join("runs")
}

/// Another command of `residency`.
pub(crate) fn residency(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    command.arg("residency").args(words).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The folders of all batches, in the order of their names.
pub(crate) fn batches(sim: &Sim) -> Vec<PathBuf> {
    let mut batches: Vec<PathBuf> =
        std::fs::read_dir(runs(sim)).unwrap().map(|entry| entry.unwrap().path()).collect();
    batches.sort();
    batches
}

pub(crate) fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The rows of a file of an iteration.
pub(crate) fn rows(batch: &Path, iteration: &str, file: &str) -> Vec<serde_json::Value> {
    let path = batch.join("iterations").join(iteration).join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether the data alone are valid, as `verify` finds from the raw rows.
pub(crate) fn verified(batch: &Path) -> serde_json::Value {
    let output = residency(&["verify", "--json", batch.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["batches"][0].clone()
}
