//! The `ebpf` task: builds the kernel object that is committed and embedded.
//!
//! Users never run it: a plain `cargo build` takes the committed object. The build needs a rustc
//! that can build `core` for `bpfel-unknown-none` and an LLVM of the same version for bpf-linker;
//! `.ci/install-ebpf-tools` installs both. Paths are remapped, so that the object says nothing of
//! the machine it was built on and two machines with the same tools build the same bytes.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// Where the object lies, and beside it what it was made with.
const OBJECT: &str = "gpu-ledger/bpf/gpu-ledger.bpf.o";
const TOOLS: &str = "gpu-ledger/bpf/TOOLS";

const TARGET: &str = "bpfel-unknown-none";
const PACKAGE: &str = "gpu-ledger-ebpf";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if the committed object is not what the source builds
    #[arg(long)]
    check: bool,
    /// The compiler, with its library source
    #[arg(long, value_name = "PATH", default_value = "/usr/bin/rustc")]
    rustc: PathBuf,
    /// The cargo of that compiler
    #[arg(long, value_name = "PATH", default_value = "/usr/bin/cargo")]
    cargo: PathBuf,
    /// bin folder of the LLVM that the compiler and bpf-linker were built with
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/llvm-22/bin")]
    llvm: PathBuf,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let build = Build::new(options)?;
    let tools = build.tools()?;
    let object = build.object()?;
    if options.check {
        return build.check(&tools, &object);
    }
    write(&build.root.join(OBJECT), &object)?;
    write(&build.root.join(TOOLS), tools.as_bytes())?;
    say(&format!("{OBJECT}: {} bytes, built with\n{tools}", object.len()))
}

/// One set of tools on one checkout.
struct Build<'a> {
    options: &'a Options,
    root: PathBuf,
    cargo_home: PathBuf,
    linker: PathBuf,
}

impl<'a> Build<'a> {
    fn new(options: &'a Options) -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        let root = root.context("xtask lies in the workspace")?.canonicalize()?;
        let cargo_home = match std::env::var_os("CARGO_HOME") {
            Some(home) => PathBuf::from(home),
            None => std::env::home_dir().context("no home directory")?.join(".cargo"),
        };
        let linker = cargo_home.join("bin/bpf-linker");
        let strip = options.llvm.join("llvm-strip");
        for tool in [&options.rustc, &options.cargo, &strip, &linker] {
            let missing = "is not there: run .ci/install-ebpf-tools";
            ensure!(tool.is_file(), "{} {missing}", tool.display());
        }
        Ok(Self { options, root, cargo_home, linker })
    }

    /// What decides over the object's bytes, one tool a line.
    fn tools(&self) -> anyhow::Result<String> {
        let rustc = output(command(&self.options.rustc).arg("-vV"))?;
        let line = |name: &str| {
            let mut lines = rustc.lines();
            let found = lines.find_map(|line| line.strip_prefix(name));
            found.map(str::trim).with_context(|| format!("`rustc -vV` says no {name}"))
        };
        let linker = output(command(&self.linker).arg("--version"))?;
        Ok(format!(
            "rustc {} ({})\nllvm {}\nhost {}\n{}\n",
            line("release:")?,
            line("commit-hash:")?,
            line("LLVM version:")?,
            line("host:")?,
            linker.trim(),
        ))
    }

    /// Builds, strips DWARF (BTF stays), and makes sure that no path of this machine is left.
    fn object(&self) -> anyhow::Result<Vec<u8>> {
        let target = self.root.join("target/ebpf");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let linker_folder = self.linker.parent().map(Path::to_path_buf);
        let path =
            std::env::join_paths(linker_folder.into_iter().chain(std::env::split_paths(&path)))?;
        let mut cargo = command(&self.options.cargo);
        cargo
            .current_dir(&self.root)
            .args(["build", "--release", "--locked", "--package", PACKAGE, "--features", "kernel"])
            .args(["--bin", PACKAGE, "-Z", "build-std=core", "--target", TARGET])
            .arg("--target-dir")
            .arg(&target)
            // The distribution's compiler carries what the target needs, but as unstable.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTC", &self.options.rustc)
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags()?)
            .env("PATH", path);
        status(&mut cargo)?;
        let built = target.join(TARGET).join("release").join(PACKAGE);
        let stripped = target.join("gpu-ledger.bpf.o");
        let strip = self.options.llvm.join("llvm-strip");
        status(command(&strip).arg("--strip-debug").arg("-o").args([&stripped, &built]))?;
        let object = std::fs::read(&stripped).with_context(|| stripped.display().to_string())?;
        self.refuse_paths(&object)?;
        Ok(object)
    }

    /// Compiler flags, separated as cargo wants them (a path may hold spaces).
    fn flags(&self) -> anyhow::Result<OsString> {
        let mut flags: Vec<OsString> =
            ["-Cdebuginfo=2", "-Clink-arg=--btf", "-Cpanic=abort"].map(OsString::from).into();
        for (from, to) in self.remapped()? {
            let mut flag = OsString::from("--remap-path-prefix=");
            flag.push(from);
            flag.push("=");
            flag.push(to);
            flags.push(flag);
        }
        Ok(flags.join("\u{1f}".as_ref()))
    }

    /// Folders whose names must not reach the object, and what stands for them.
    fn remapped(&self) -> anyhow::Result<Vec<(PathBuf, &'static str)>> {
        let sysroot = output(command(&self.options.rustc).args(["--print", "sysroot"]))?;
        let source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
        ensure!(source.is_dir(), "{} is not there: install rust-web-src", source.display());
        let mut folders = vec![(self.root.clone(), "gpu-ledger")];
        if let Ok(real) = source.canonicalize() {
            folders.push((real, "rust"));
        }
        folders.push((source, "rust"));
        // The folder's name carries a hash of where crates come from.
        let registry = self.cargo_home.join("registry/src");
        let entries = std::fs::read_dir(&registry);
        for entry in entries.with_context(|| registry.display().to_string())? {
            folders.push((entry?.path(), "crates"));
        }
        Ok(folders)
    }

    fn refuse_paths(&self, object: &[u8]) -> anyhow::Result<()> {
        let folders = self.remapped()?.into_iter().map(|(folder, _)| folder);
        for folder in folders.chain([self.cargo_home.clone(), std::env::temp_dir()]) {
            let name = folder.as_os_str().as_encoded_bytes();
            let found = object.windows(name.len()).any(|bytes| bytes == name);
            ensure!(!found, "the object carries a path of this machine: {}", folder.display());
        }
        Ok(())
    }

    fn check(&self, tools: &str, object: &[u8]) -> anyhow::Result<()> {
        let recorded = std::fs::read_to_string(self.root.join(TOOLS)).context(TOOLS)?;
        let committed = std::fs::read(self.root.join(OBJECT)).context(OBJECT)?;
        if recorded == tools {
            if committed == object {
                return say(&format!("{OBJECT} is what the source builds, byte for byte"));
            }
            bail!(
                "{OBJECT} ({} bytes) is not what the source builds ({} bytes): run `cargo xtask ebpf`",
                committed.len(),
                object.len()
            );
        }
        say(&format!(
            "SKIPPED: byte comparison of {OBJECT}, because the tools differ.\n\
             it was made with\n{recorded}here are\n{tools}\
             instead, the object built here must load and pass the event tests"
        ))?;
        let fresh = self.root.join("target/ebpf/gpu-ledger.bpf.o");
        status(
            command("cargo".as_ref())
                .current_dir(&self.root)
                .args(["test", "--package", "gpu-ledger", "--test", "kernel_events"])
                .env("GPU_LEDGER_TEST_OBJECT", &fresh)
                .env("GPU_LEDGER_REQUIRE_PRIVILEGED", "1"),
        )
    }
}

/// A program without the settings that the outer cargo made for its own children.
#[expect(clippy::disallowed_methods, reason = "this task's work is to run the build tools")]
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    let inherited = ["CARGO", "RUSTC", "RUSTC_WRAPPER", "RUSTFLAGS", "RUSTUP_TOOLCHAIN"];
    for name in inherited.iter().chain(&["CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"]) {
        command.env_remove(name);
    }
    command
}

fn status(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.status().with_context(|| format!("{}", command.get_program().display()))?;
    ensure!(status.success(), "{} failed: {status}", command.get_program().display());
    Ok(())
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| command.get_program().display().to_string())?;
    let program = command.get_program().display();
    ensure!(output.status.success(), "{program} failed: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

fn say(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}
