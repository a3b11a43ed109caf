//! Runs the tests of the simulated driver under AddressSanitizer: its C ABI library, which every test of the
//! product goes through where there is no GPU, and its client.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// The instruments need a nightly compiler. The library is loaded by programs that are not built with it, and finds the
/// sanitizer in them: so they show it.
const FLAGS: &str = "-Zsanitizer=address -Clink-arg=-rdynamic";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which tests; without any, all of them
    tests: Vec<String>,
}

#[expect(clippy::disallowed_methods, reason = "a task starts builds; the product does not")]
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let ran = Command::new("rustup")
        .args(["run", "nightly", "cargo", "test", "--package", "nvsim", "--test", "driver", "--"])
        // Other people's clients are Python's programs, which have no sanitizer.
        .args(["--skip", "clients"])
        // It renames symbols in the library's file, where an instrumented library refers to them itself.
        .args(["--skip", "s16_an_older_librarys_missing_symbols_are_missing"])
        .args(&options.tests)
        .current_dir(&root)
        // Programs and macros that run while building are the compiler's, and are left as they are.
        .env("CARGO_BUILD_TARGET", format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
        .env("CARGO_TARGET_DIR", root.join("target/sanitize"))
        .env("RUSTFLAGS", FLAGS)
        // A test's process ends while others' threads hold what they hold.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .stdin(Stdio::null())
        .status();
    let needs = "it needs a nightly toolchain: rustup toolchain install nightly --profile minimal";
    let ran = ran.with_context(|| format!("cannot start rustup: {needs}"))?;
    ensure!(ran.success(), "the tests under AddressSanitizer: {ran}; {needs}");
    Ok(())
}
