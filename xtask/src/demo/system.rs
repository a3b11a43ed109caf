//! Starting programs, telling time, noticing an interruption, and ending every process that the demo began.

use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions};

/// A command for `path`.
#[expect(
    clippy::disallowed_methods,
    reason = "the product starts nothing but the user's command; a task starts builds and jobs"
)]
pub(super) fn program(path: impl AsRef<OsStr>) -> Command {
    Command::new(path)
}

/// Milliseconds of the monotonic clock.
pub(super) fn monotonic_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000 + nanos / 1_000_000
}

/// Milliseconds since an earlier [`monotonic_ms`].
pub(super) fn elapsed_ms(since_ms: u64) -> u64 {
    monotonic_ms().saturating_sub(since_ms)
}

/// The pipe from the process that the user started. It lies on stdin, and it ends with that process,
/// whatever ended it: an interrupted demo is cleaned up by the part of it that lives on.
pub(super) struct Lifeline {
    stdin: std::io::Stdin,
}

impl Lifeline {
    pub(super) fn on_stdin() -> Self {
        Self { stdin: std::io::stdin() }
    }

    /// Fails where the user's process is gone.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let mut watched = [PollFd::new(&self.stdin, PollFlags::IN)];
        wait(&mut watched, Duration::ZERO)?;
        // Nothing is ever written to it: whatever happens to it is its end.
        ensure!(watched.iter().all(|fd| fd.revents().is_empty()), "interrupted");
        Ok(())
    }

    /// Sleeps, or fails as soon as the user's process is gone.
    pub(super) fn sleep(&self, time: Duration) -> anyhow::Result<()> {
        let mut watched = [PollFd::new(&self.stdin, PollFlags::IN)];
        wait(&mut watched, time)?;
        self.check()
    }

    /// Waits at most `time` for a child to end; none while it still runs.
    pub(super) fn wait_for(
        &self,
        child: &mut Child,
        time: Duration,
    ) -> anyhow::Result<Option<ExitStatus>> {
        let process = rustix::process::pidfd_open(
            Pid::from_child(child),
            rustix::process::PidfdFlags::empty(),
        )
        .context("pidfd_open (Linux 5.3 or later)")?;
        let mut watched = [
            PollFd::new(&self.stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN),
        ];
        wait(&mut watched, time)?;
        self.check()?;
        Ok(child.try_wait()?)
    }

    /// Asks every few milliseconds until the answer is there; fails after `deadline`, naming `what`.
    pub(super) fn until<T>(
        &self,
        what: &str,
        deadline: Duration,
        mut ask: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let begin = monotonic_ms();
        loop {
            if let Some(answer) = ask()? {
                return Ok(answer);
            }
            if u128::from(elapsed_ms(begin)) > deadline.as_millis() {
                bail!("gave up waiting for {what} after {} s", deadline.as_secs());
            }
            self.sleep(Duration::from_millis(10))?;
        }
    }
}

fn wait(watched: &mut [PollFd<'_>], time: Duration) -> anyhow::Result<()> {
    let timeout = Timespec::try_from(time).context("a time too long to wait")?;
    match poll(watched, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno).context("poll"),
    }
}

/// Every descendant of this process, ended when this is dropped: also those whose parents are gone.
pub(super) struct Descendants(());

impl Descendants {
    /// From now on orphans among the descendants become children of this process.
    pub(super) fn adopt() -> anyhow::Result<Self> {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own)).context("cannot adopt orphans")?;
        Ok(Self(()))
    }
}

impl Drop for Descendants {
    fn drop(&mut self) {
        // The children of an ended child become ours: their turn is the next round. A child that
        // is not reaped yet keeps its pid, so no stranger can be hit.
        loop {
            let children = children();
            if children.is_empty() {
                return;
            }
            for child in children {
                // One that ended by itself meanwhile is reaped all the same.
                let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
                let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
            }
        }
    }
}

/// This process's own children, zombies included, as procfs has them.
fn children() -> Vec<Pid> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| parent_of(pid) == Some(own)).filter_map(Pid::from_raw).collect()
}

/// Field 4 of `/proc/PID/stat`, counted from behind the name, which may hold anything.
fn parent_of(pid: i32) -> Option<u32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_under_its_parent() {
        let mut child = program("sleep").arg("60").spawn().unwrap();
        let found = children().contains(&Pid::from_child(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
        assert!(!children().contains(&Pid::from_child(&child)));
    }
}
