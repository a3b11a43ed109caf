//! Cleaning up whatever happens: an error, Ctrl-C, a kill.
//!
//! The command that the user started does not measure. It starts itself once more, in a process
//! group and a mount namespace of its own, and holds a pipe to it. When the user's command ends for
//! whatever reason, SIGKILL included, the pipe closes; the measuring process sees that, gives up at
//! the next check and undoes what it did. No signal handler is needed, and a file system that had
//! to be mounted for a peer goes with the namespace.

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// The flag by which the second start knows that it is the measuring one.
pub(super) const GUARDED_FLAG: &str = "--guarded";
/// How often a wait looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Starts this program once more as the measuring process and waits for it.
pub(super) fn measure_in_a_process_of_its_own() -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "this benchmark needs root: it attaches tracers to the kernel and reads other processes' \
         counters; run it as `sudo --preserve-env=PATH cargo xtask bench events`"
    );
    // Tracers are ended as Ctrl-C would: the signal must not be ignored, as it is in a shell's background.
    let mut child = Command::new("env")
        .args(["--default-signal=INT", "unshare", "--mount", "--"])
        .arg(std::env::current_exe().context("the path of this program")?)
        .args(std::env::args_os().skip(1))
        .arg(GUARDED_FLAG)
        .process_group(0)
        .stdin(Stdio::piped())
        .spawn()
        .context("cannot start `env` and `unshare`: apt-get install coreutils util-linux")?;
    // Taken out, since waiting would close it.
    let lifeline = child.stdin.take();
    let status = child.wait().context("waiting for the measuring process")?;
    drop(lifeline);
    if let Some(signal) = status.signal() {
        bail!("the measuring process was ended by signal {signal}");
    }
    ensure!(status.success(), "the benchmark did not finish; what happened is said above");
    Ok(())
}

/// Watches the pipe to the user's command. Call once, in the measuring process.
pub(super) fn watch_the_lifeline() {
    thread::spawn(|| {
        let mut rest = Vec::new();
        // End of file and an error both mean that nobody waits for the result any more.
        let ended = std::io::stdin().read_to_end(&mut rest);
        drop(ended);
        CANCELLED.store(true, Ordering::SeqCst);
    });
}

/// An error once the user's command is gone.
pub(super) fn check() -> anyhow::Result<()> {
    ensure!(!CANCELLED.load(Ordering::SeqCst), "interrupted; cleaned up");
    Ok(())
}

/// Sleeps, and gives up where the user's command is gone.
pub(super) fn pause(length: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + length;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

/// A child that does not outlive its handle.
pub(super) struct Guarded(Child);

impl Guarded {
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Self).with_context(|| format!("cannot start {name}"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, or none while it runs.
    pub(super) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.0.try_wait().context("waiting for a child")
    }

    /// Waits for the end; none where `limit` passes first. Looks often, since what is timed from
    /// outside must not be rounded to the pause between two looks.
    pub(super) fn wait(&mut self, limit: Duration) -> anyhow::Result<Option<ExitStatus>> {
        let end = Instant::now() + limit;
        loop {
            check()?;
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Asks it to end as Ctrl-C would.
    pub(super) fn interrupt(&self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a child without a pid")?, Signal::INT)
            .with_context(|| format!("cannot interrupt process {}", self.0.id()))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // An error here means that it ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_dies_with_its_handle() {
        let child = Guarded::start(Command::new("sleep").arg("600")).unwrap();
        let stat = format!("/proc/{}/stat", child.pid());
        assert!(std::fs::exists(&stat).unwrap());
        drop(child);
        assert!(!std::fs::exists(&stat).unwrap());
    }

    #[test]
    fn an_interrupted_child_ends_by_that_signal() {
        // A caller that ignores the signal (a shell's background job) passes that on to its children.
        let words = ["--default-signal=INT", "sleep", "600"];
        let mut child = Guarded::start(Command::new("env").args(words)).unwrap();
        child.interrupt().unwrap();
        let status = child.wait(Duration::from_mins(1)).unwrap().unwrap();
        assert_eq!(status.signal(), Some(2));
    }
}
