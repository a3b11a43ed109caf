//! Programs of the distribution that packages are made and tried with.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, bail};

/// A program, in the plain locale, reading nothing.
#[expect(clippy::disallowed_methods, reason = "a task starts tools; the product does not")]
pub(super) fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

/// What a program says and how it ends; it need not succeed.
pub(super) fn ran(command: &mut Command) -> anyhow::Result<Output> {
    let program = command.get_program().display().to_string();
    command.output().with_context(|| format!("cannot start {program}: run .ci/install"))
}

/// What a program prints; it must succeed.
pub(super) fn told(command: &mut Command) -> anyhow::Result<String> {
    let output = ran(command)?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, both(&output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Both streams of it.
pub(super) fn both(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    format!("{}{error}", String::from_utf8_lossy(&output.stdout))
}
