//! Builds what is measured: the product and the simulated driver, as users get them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// A line of cargo's JSON messages, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    executable: Option<PathBuf>,
}

/// Builds packages in release mode and returns the files that came out.
fn release(packages: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--message-format=json-render-diagnostics"]);
    for package in packages {
        command.args(["--package", package]);
    }
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo cannot build {}", packages.join(" and "));
    files(&String::from_utf8(output.stdout)?)
}

/// The files that cargo says it made.
fn files(messages: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).context("a message of cargo")?;
        if message.reason == "compiler-artifact" {
            files.extend(message.executable);
            files.extend(message.filenames);
        }
    }
    Ok(files)
}

fn named(files: &[PathBuf], name: &str) -> anyhow::Result<PathBuf> {
    let found = files.iter().find(|file| file.file_name().is_some_and(|file| file == name));
    found.cloned().with_context(|| format!("the build made no {name}"))
}

/// The product's binary.
pub(super) fn agent() -> anyhow::Result<PathBuf> {
    named(&release(&["gpu-ledger"])?, "gpu-ledger")
}

/// The simulated driver's program and its library.
pub(super) fn simulator() -> anyhow::Result<(PathBuf, PathBuf)> {
    let files = release(&["nvsim", "nvsim-nvml"])?;
    Ok((named(&files, "nvsim")?, named(&files, "libnvsim_nvml.so")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_among_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","filenames":["/t/libanyhow.rlib"],"executable":null}
{"reason":"build-script-executed","package_id":"x"}
{"reason":"compiler-artifact","filenames":["/t/release/gpu-ledger"],"executable":"/t/release/gpu-ledger"}
{"reason":"build-finished","success":true}"#;
        let files = files(messages).unwrap();
        assert_eq!(named(&files, "gpu-ledger").unwrap(), PathBuf::from("/t/release/gpu-ledger"));
        assert!(named(&files, "nvsim").is_err());
    }
}
