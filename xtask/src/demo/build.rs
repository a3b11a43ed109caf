//! Building what the demo runs.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, ensure};

use super::system::{program, variable};

/// The products that the demo needs.
pub(super) struct Built {
    pub(super) gpu_ledger: PathBuf,
    pub(super) nvsim: PathBuf,
    /// The simulated driver's `libnvidia-ml.so.1`.
    pub(super) library: PathBuf,
}

/// Builds them in the profile that this program was built in.
pub(super) fn build() -> anyhow::Result<Built> {
    let cargo = variable("CARGO").unwrap_or_else(|| "cargo".to_owned());
    let mut command = program(&cargo);
    command
        .args(["build", "--quiet", "--message-format=json-render-diagnostics"])
        .args(["--package", "gpu-ledger", "--package", "nvsim", "--package", "nvsim-nvml"])
        .args((!cfg!(debug_assertions)).then_some("--release"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let built = command.output().with_context(|| format!("cannot start {cargo}"))?;
    ensure!(built.status.success(), "the build failed ({})", built.status);
    let messages = String::from_utf8_lossy(&built.stdout);
    let artifacts: Vec<PathBuf> = messages.lines().flat_map(artifacts).collect();
    let find = |name: &str| {
        let found = artifacts.iter().find(|path| path.file_name().is_some_and(|own| own == name));
        found.cloned().with_context(|| format!("cargo built no {name}"))
    };
    Ok(Built {
        gpu_ledger: find("gpu-ledger")?,
        nvsim: find("nvsim")?,
        library: find("libnvsim_nvml.so")?,
    })
}

/// The files that one of cargo's messages names.
fn artifacts(message: &str) -> Vec<PathBuf> {
    // What is no JSON is a build script's own word.
    let Ok(message) = serde_json::from_str::<serde_json::Value>(message) else {
        return Vec::new();
    };
    if message.get("reason").and_then(serde_json::Value::as_str) != Some("compiler-artifact") {
        return Vec::new();
    }
    let files = message.get("filenames").and_then(serde_json::Value::as_array);
    files.into_iter().flatten().filter_map(|file| file.as_str().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_cargos_messages() {
        let message = r#"{"reason":"compiler-artifact","filenames":["/t/a.so","/t/b"]}"#;
        assert_eq!(artifacts(message), [PathBuf::from("/t/a.so"), PathBuf::from("/t/b")]);
        assert_eq!(artifacts("warning: no json").len(), 0);
        assert_eq!(artifacts(r#"{"reason":"build-finished","success":true}"#).len(), 0);
    }
}
