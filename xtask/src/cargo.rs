//! Building packages of this workspace, and finding what cargo made of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// The files that cargo made.
pub(crate) struct Artifacts(Vec<PathBuf>);

/// Builds packages in the profile that this program was built in.
pub(crate) fn build(packages: &[&str]) -> anyhow::Result<Artifacts> {
    build_as(packages, !cfg!(debug_assertions))
}

/// Builds packages as users get them.
pub(crate) fn build_release(packages: &[&str]) -> anyhow::Result<Artifacts> {
    build_as(packages, true)
}

/// Builds an example of a package as users get the package.
pub(crate) fn build_example(package: &str, example: &str) -> anyhow::Result<PathBuf> {
    build_example_as(package, example, true)
}

/// Builds an integration test of a package; its program.
pub(crate) fn build_test(package: &str, test: &str) -> anyhow::Result<PathBuf> {
    let messages = said_by(cargo(), &["test", "--no-run", "--package", package, "--test", test])?;
    let mut program = messages.lines().filter_map(|message| {
        let message: serde_json::Value = serde_json::from_str(message).ok()?;
        let is_test = message.get("target")?.get("name")?.as_str()? == test;
        Some(message.get("executable")?.as_str()?.to_owned()).filter(|_| is_test)
    });
    program.next_back().map(PathBuf::from).with_context(|| format!("cargo made no test {test}"))
}

/// The folder of this workspace.
pub(crate) fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Where cargo builds into: this program lies in the folder of a profile there.
pub(crate) fn target() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where this program lies")?;
    own.ancestors().nth(2).map(Path::to_owned).context("this program lies in no target folder")
}

/// Builds the product for this machine's own target with everything linked in, the C library as well.
pub(crate) fn build_static(target: &str) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command.env("RUSTFLAGS", "-C target-feature=+crt-static");
    let arguments = ["--package", "gpu-ledger", "--bin", "gpu-ledger", "--release", "--target"];
    built_by(command, &[&arguments[..], &[target]].concat())?.named("gpu-ledger")
}

/// Builds an example in the profile that its user wants.
pub(crate) fn build_example_as(
    package: &str,
    example: &str,
    release: bool,
) -> anyhow::Result<PathBuf> {
    let arguments = ["--package", package, "--example", example];
    let profile: &[&str] = if release { &["--release"] } else { &[] };
    built(&[&arguments, profile].concat())?.named(example)
}

/// What is in the dependency graph of this workspace, as the committed lock file has it.
pub(crate) fn metadata(target: &str) -> anyhow::Result<serde_json::Value> {
    let mut command = cargo();
    command
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", target])
        .current_dir(root());
    let told = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(told.status.success(), "cargo metadata: {}", told.status);
    serde_json::from_slice(&told.stdout).context("cargo's metadata are no JSON")
}

pub(crate) fn build_as(packages: &[&str], release: bool) -> anyhow::Result<Artifacts> {
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    built(&packages.chain(release.then_some("--release")).collect::<Vec<_>>())
}

fn built(arguments: &[&str]) -> anyhow::Result<Artifacts> {
    built_by(cargo(), arguments)
}

fn built_by(command: Command, arguments: &[&str]) -> anyhow::Result<Artifacts> {
    let messages = said_by(command, &[&["build"], arguments].concat())?;
    Ok(Artifacts(messages.lines().flat_map(files).collect()))
}

/// What cargo says of what it made.
fn said_by(mut command: Command, arguments: &[&str]) -> anyhow::Result<String> {
    command
        .args(arguments)
        .args(["--quiet", "--message-format=json-render-diagnostics"])
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let built = command.output().context("cannot start cargo")?;
    ensure!(built.status.success(), "cargo {}: {}", arguments.join(" "), built.status);
    String::from_utf8(built.stdout).context("cargo's messages are no text")
}

/// The cargo that runs this program.
#[expect(clippy::disallowed_methods, reason = "a task starts builds; the product does not")]
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

impl Artifacts {
    /// The file of this name.
    pub(crate) fn named(&self, name: &str) -> anyhow::Result<PathBuf> {
        let found = self.0.iter().find(|path| path.file_name().is_some_and(|own| own == name));
        found.cloned().with_context(|| format!("cargo made no {name}"))
    }
}

/// The files that one of cargo's messages names.
fn files(message: &str) -> Vec<PathBuf> {
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
        assert_eq!(files(message), [PathBuf::from("/t/a.so"), PathBuf::from("/t/b")]);
        assert_eq!(files("warning: no json").len(), 0);
        assert_eq!(files(r#"{"reason":"build-finished","success":true}"#).len(), 0);
    }

    #[test]
    fn a_file_is_found_by_its_name_or_missed_by_name() {
        let artifacts = Artifacts(vec![PathBuf::from("/t/debug/nvsim")]);
        assert_eq!(artifacts.named("nvsim").unwrap(), PathBuf::from("/t/debug/nvsim"));
        let missing = artifacts.named("other").unwrap_err();
        assert_eq!(missing.to_string(), "cargo made no other");
    }
}
