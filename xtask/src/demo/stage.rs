//! What the afternoon is played on: a folder of named programs, device nodes, and the simulated
//! driver itself.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::afternoon::{LLM_SERVER, WORKLOADS};
use super::system::program;

/// GPUs of the simulated driver.
const GPUS: u32 = 2;
/// From a process's end to its row's, in milliseconds, as contexts take to be torn down.
const TEARDOWN_MS: &str = "5..80";
/// NVIDIA's character major (`Documentation/admin-guide/devices.txt`).
const NVIDIA_MAJOR: u32 = 195;
/// Minor of `nvidiactl`.
const CONTROL_MINOR: u32 = 255;

/// What cargo made of the product and of the simulated driver.
#[derive(clap::Args)]
pub(crate) struct Built {
    /// The product
    #[arg(long)]
    pub(super) gpu_ledger: PathBuf,
    /// The simulated driver's program
    #[arg(long)]
    pub(super) nvsim: PathBuf,
    /// Its `libnvidia-ml.so.1`
    #[arg(long)]
    pub(super) library: PathBuf,
}

impl Built {
    pub(super) fn now() -> anyhow::Result<Self> {
        let artifacts = crate::cargo::build(&["gpu-ledger", "nvsim", "nvsim-nvml"])?;
        Ok(Self {
            gpu_ledger: artifacts.named("gpu-ledger")?,
            nvsim: artifacts.named("nvsim")?,
            library: artifacts.named("libnvsim_nvml.so")?,
        })
    }

    /// The same as words of a command line.
    pub(super) fn words(&self) -> [&OsStr; 6] {
        let Self { gpu_ledger, nvsim, library } = self;
        [
            "--gpu-ledger".as_ref(),
            gpu_ledger.as_os_str(),
            "--nvsim".as_ref(),
            nvsim.as_os_str(),
            "--library".as_ref(),
            library.as_os_str(),
        ]
    }
}

/// Files and programs of one demo. Its folder goes when it is dropped.
pub(super) struct Stage {
    folder: tempfile::TempDir,
    devices: Option<PathBuf>,
}

impl Stage {
    /// Lays the folder out.
    pub(super) fn lay_out(built: &Built) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("gpu-ledger-demo-")
            .tempdir()
            .context("cannot make a folder for the demo")?;
        let mut stage = Self { folder, devices: None };
        std::fs::create_dir(stage.programs())?;
        for name in WORKLOADS {
            stage.link(&built.nvsim, name)?;
        }
        stage.link(&std::env::current_exe()?, LLM_SERVER)?;
        let devices = stage.path("devices");
        std::fs::create_dir(&devices)?;
        // Only root can make device nodes. Without them device touch has nothing to see, and the
        // tracer says so.
        stage.devices = make_nodes(&devices).is_ok().then_some(devices);
        Ok(stage)
    }

    /// A copy, and then hard links to it: the kernel's name of an executable is that of the link.
    fn link(&self, original: &Path, name: &str) -> anyhow::Result<()> {
        let file = original.file_name().context("a program without a name")?;
        let copy = self.folder.path().join(file);
        if !copy.exists() {
            std::fs::copy(original, &copy)
                .with_context(|| format!("cannot copy {}", original.display()))?;
        }
        std::fs::hard_link(&copy, self.programs().join(name))
            .with_context(|| format!("cannot link {name}"))
    }

    /// A file of the demo.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the named programs lie.
    pub(super) fn programs(&self) -> PathBuf {
        self.path("bin")
    }

    /// A command that finds the simulated driver.
    pub(super) fn program(&self, path: &Path) -> Command {
        let mut command = program(path);
        command.env("NVSIM_SOCKET", self.path("driver.sock"));
        if let Some(devices) = &self.devices {
            command.env("NVSIM_DEVICES", devices);
        }
        command
    }

    /// Starts the simulated driver, with accounting off, and waits until it listens.
    pub(super) fn start_driver(&self, built: &Built) -> anyhow::Result<()> {
        let mut server = self
            .program(&built.nvsim)
            .arg("serve")
            .arg("--socket")
            .arg(self.path("driver.sock"))
            .args(["--gpus", &GPUS.to_string(), "--teardown-ms", TEARDOWN_MS])
            .args(["--accounting", "off", "--truth"])
            .arg(self.path("truth.jsonl"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start nvsim serve")?;
        let stdout = server.stdout.take().context("nvsim serve has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line.trim() == "ready", "nvsim serve did not start: it said {line:?}");
        Ok(())
    }

    /// Asks the simulated driver for a fault, or for its state.
    pub(super) fn fault(&self, built: &Built, words: &[&str]) -> anyhow::Result<String> {
        let said = self.program(&built.nvsim).arg("fault").args(words).output()?;
        let complaint = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "nvsim fault {}: {complaint}", words.join(" "));
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    }

    /// Copies what the demo wrote to a folder that stays.
    pub(super) fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder)?;
        for name in ["trace.json", "truth.jsonl", "minutes.json", "screen.txt"] {
            let from = self.path(name);
            if from.exists() {
                std::fs::copy(&from, folder.join(name))
                    .with_context(|| format!("cannot keep {name} in {}", folder.display()))?;
            }
        }
        Ok(())
    }
}

fn make_nodes(folder: &Path) -> rustix::io::Result<()> {
    let mode = Mode::from_raw_mode(0o666);
    let numbered = (0..GPUS).map(|minor| (format!("nvidia{minor}"), minor));
    for (name, minor) in numbered.chain([("nvidiactl".to_owned(), CONTROL_MINOR)]) {
        let device = makedev(NVIDIA_MAJOR, minor);
        mknodat(CWD, folder.join(name), FileType::CharacterDevice, mode, device)?;
    }
    Ok(())
}
