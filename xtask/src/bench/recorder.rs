//! The residency recorder while it records: how old its samples get, idle and on a busy machine, and what it
//! takes of a core beside a loop that sleeps after each pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::guard::{self, Guarded};
use super::procfs;
use super::simulated::Simulator;
use crate::text::complain;

/// Busy loops beside the second acceptance run.
const LOOPS: usize = 6;
/// A start is over by then, and the first second of a recording with it.
const SETTLED: Duration = Duration::from_secs(3);
/// An acceptance run takes two seconds.
const ACCEPTANCE_LIMIT: Duration = Duration::from_mins(1);
/// How often a process's memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What is run.
pub(super) struct Programs<'path> {
    pub(super) product: &'path Path,
    pub(super) nvsim: &'path Path,
    pub(super) library: &'path Path,
    /// The example with the loop in it.
    pub(super) load: &'path Path,
}

/// What came of it. Shares are of a core, in millionths.
pub(super) struct Recorded {
    /// The last line of the acceptance run.
    pub(super) idle: String,
    /// And of the one beside busy loops.
    pub(super) loaded: String,
    pub(super) with_events_ppm: u64,
    pub(super) without_events_ppm: u64,
    pub(super) loop_ppm: u64,
}

pub(super) fn measure(
    programs: &Programs<'_>,
    folder: &Path,
    seconds: u64,
) -> anyhow::Result<Recorded> {
    let simulator = Simulator::start_with(programs.nvsim, folder, 1, [])?;
    // Somebody holds the GPU, so that there are processes to be listed and named.
    let _holder = Guarded::start(
        Command::new(programs.nvsim)
            .args(["work", "--gpu", "0", "--ms", "3600000", "--mem-mib", "512"])
            .env("NVSIM_SOCKET", simulator.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    )?;
    let socket = simulator.socket();
    complain("the acceptance run, idle");
    let idle = acceptance(programs, socket, &folder.join("idle"))?;
    complain(&format!("the acceptance run, beside {LOOPS} busy loops"));
    let loaded = {
        let _load = Load::of(LOOPS);
        acceptance(programs, socket, &folder.join("loaded"))?
    };
    complain(&format!("the recorder's CPU, {seconds} s"));
    let length = SETTLED.as_secs() + seconds + 5;
    let record = |out: &str, words: &[&str]| {
        let mut command = recorder(programs, socket, &folder.join(out));
        command.args(["--duration", &format!("{length}s")]).args(words);
        Guarded::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
    };
    let with_events = record("with-events", &[])?;
    let without_events = record("without-events", &["--no-events"])?;
    let naive = Guarded::start(
        Command::new(programs.load)
            .args(["loop", text(programs.library)?, &length.to_string()])
            .env("NVSIM_SOCKET", socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null()),
    )?;
    guard::pause(SETTLED)?;
    let looks = [&with_events, &without_events, &naive];
    let before = looks.map(|child| cpu_ns(child.pid()));
    let began = Instant::now();
    guard::pause(Duration::from_secs(seconds))?;
    let passed = began.elapsed().as_nanos();
    let after = looks.map(|child| cpu_ns(child.pid()));
    let mut shares = before.into_iter().zip(after).map(|(before, after)| {
        let used = u128::from(after?.saturating_sub(before?));
        let ppm = used.saturating_mul(1_000_000).checked_div(passed).context("no time passed")?;
        anyhow::Ok(u64::try_from(ppm)?)
    });
    let mut share = || shares.next().context("three were looked at")?;
    Ok(Recorded {
        idle,
        loaded,
        with_events_ppm: share()?,
        without_events_ppm: share()?,
        loop_ppm: share()?,
    })
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path is no text")
}

fn recorder(programs: &Programs<'_>, socket: &Path, out: &Path) -> Command {
    let mut command = Command::new(programs.product);
    command.arg("--nvml-library").arg(programs.library).args(["residency", "record", "--out"]);
    command.arg(out).env("NVSIM_SOCKET", socket).stdin(Stdio::null());
    command
}

fn acceptance(programs: &Programs<'_>, socket: &Path, out: &Path) -> anyhow::Result<String> {
    let mut command = recorder(programs, socket, out);
    command.arg("--acceptance").stdout(Stdio::piped()).stderr(Stdio::null());
    let output = command.output().context("cannot start the recorder")?;
    let page = String::from_utf8(output.stdout).context("the recorder's words are no text")?;
    let last = page.lines().last().filter(|line| line.starts_with("ACCEPTANCE "));
    Ok(last.context("the acceptance run came to nothing")?.to_owned())
}

/// CPU time of all threads of a process.
fn cpu_ns(pid: u32) -> anyhow::Result<u64> {
    Ok(procfs::threads(pid)?.values().map(|thread| thread.cpu_ns).sum())
}

/// Busy loops, which end with this value.
struct Load(Arc<AtomicBool>);

impl Load {
    fn of(loops: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..loops {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How long drawing a batch took, in ns, and the most memory it held, in KiB.
pub(super) fn draw(product: &Path, batch: &Path, out: &Path) -> anyhow::Result<(u64, u64)> {
    let mut command = Command::new(product);
    command.args(["residency", "plot"]).arg(batch).arg("--out").arg(out);
    let began = Instant::now();
    let mut child =
        Guarded::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?;
    let mut peak_kib = 0;
    let status = loop {
        // Where it has just ended there is nothing to be read any more.
        if let Ok(memory) = procfs::memory(child.pid()) {
            peak_kib = memory.peak_kib.max(peak_kib);
        }
        if let Some(status) = child.ended()? {
            break status;
        }
        ensure!(began.elapsed() < ACCEPTANCE_LIMIT, "the batch is not drawn");
        guard::pause(LOOK_EVERY)?;
    };
    let elapsed = u64::try_from(began.elapsed().as_nanos())?;
    // 3: a simulated batch fails its backend verdict, and is drawn as such.
    ensure!(status.code() == Some(3), "the batch was not drawn: {status}");
    let pictures: Vec<PathBuf> =
        std::fs::read_dir(out)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    ensure!(pictures.len() == 4, "not every format was drawn: {pictures:?}");
    Ok((elapsed, peak_kib))
}
