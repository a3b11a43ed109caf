//! Writes what `cargo xtask dist` puts beside the program: `man/*.1`, and `gpu-ledger.bash`, `_gpu-ledger` and
//! `gpu-ledger.fish`. Each is made of the command line's own definition, so none of them can lag behind it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap_complete::aot::{Shell, generate_to};

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).context("usage: manual FOLDER")?;
    let pages = folder.join("man");
    std::fs::create_dir_all(&pages).with_context(|| pages.display().to_string())?;
    let mut command = gpu_ledger::cli::command().disable_help_subcommand(true);
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "gpu-ledger", &folder)?;
    }
    command.build();
    page(&command, "gpu-ledger", &pages)
}

/// The page of a command, and those of the commands below it.
fn page(command: &clap::Command, name: &str, folder: &Path) -> anyhow::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        page(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    let about = format!("gpu-ledger {}", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).source(about);
    let mut text = Vec::new();
    page.render(&mut text)?;
    let path = folder.join(format!("{name}.1"));
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}
