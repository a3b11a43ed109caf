//! Python programs from PyPI, each set in a throw-away virtual environment of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter of an environment with these packages, made where there is none yet; the reason if there can
/// be none.
pub(crate) fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = folder.join("bin/python");
    let mark = folder.join("complete");
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&mark).is_ok_and(|packages| packages == wanted) {
        return Ok(python);
    }
    let mut make = Command::new("python3");
    output(make.args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    output(install.args(packages))?;
    std::fs::write(&mark, wanted).map_err(|error| error.to_string())?;
    Ok(python)
}

/// What a program prints; the reason if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
