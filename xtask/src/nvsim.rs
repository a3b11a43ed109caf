//! Builds the simulated driver and says where its parts lie.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::cargo;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print the path of the library, which is called libnvidia-ml.so.1, as the last line
    #[arg(long)]
    print_library: bool,
    /// Print the path of the `nvsim` program as the last line
    #[arg(long, conflicts_with = "print_library")]
    print_binary: bool,
    /// Make a copy of the library that lacks these symbols, as an older driver's does
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let (program, library) = build(&options.without)?;
    let mut out = std::io::stdout().lock();
    if options.print_binary {
        writeln!(out, "{}", program.display())?;
    } else if options.print_library {
        writeln!(out, "{}", library.display())?;
    } else {
        writeln!(out, "program {}", program.display())?;
        writeln!(out, "library {}", library.display())?;
    }
    Ok(())
}

/// What cargo made.
struct Built {
    binary: PathBuf,
    library: PathBuf,
}

/// Builds it: its program, and its library under the name that programs look for.
pub(crate) fn build(without: &[String]) -> anyhow::Result<(PathBuf, PathBuf)> {
    let artifacts = cargo::build(&["nvsim", "nvsim-nvml"])?;
    let (binary, library) = (artifacts.named("nvsim")?, artifacts.named("libnvsim_nvml.so")?);
    let built = Built { binary, library };
    let library = named_library(&built, without)?;
    Ok((built.binary, library))
}

/// Puts the library under the name that programs look for, in a folder of its own: one for the
/// whole library, one for every set of symbols that it is to lack.
fn named_library(built: &Built, without: &[String]) -> anyhow::Result<PathBuf> {
    let profile = built.library.parent().context("the library lies in no folder")?;
    let target = profile.parent().unwrap_or(profile);
    let folder = if without.is_empty() {
        target.join("nvsim")
    } else {
        target.join("nvsim").join(format!("without-{}", without.join("-")))
    };
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let library = folder.join("libnvidia-ml.so.1");
    // A program may have the old one mapped: it keeps that, the name gets the new one.
    let fresh = folder.join(format!("fresh-{}", std::process::id()));
    if without.is_empty() {
        std::fs::copy(&built.library, &fresh).with_context(|| fresh.display().to_string())?;
    } else {
        patch(built, &fresh, without)?;
    }
    std::fs::rename(&fresh, &library).with_context(|| library.display().to_string())?;
    Ok(library)
}

fn patch(built: &Built, to: &Path, without: &[String]) -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the patching is the program's own command")]
    let mut command = Command::new(&built.binary);
    command.arg("library").arg("--from").arg(&built.library).arg("--to").arg(to);
    command.arg("--without").arg(without.join(","));
    let status = command.status().context("run nvsim library")?;
    if !status.success() {
        bail!("nvsim library: {status}");
    }
    Ok(())
}
