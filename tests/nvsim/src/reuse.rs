//! Making a process with a chosen pid, so that a pid recurs exactly when a test wants it to.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use crate::sys::{self, Fork};

/// How often the pid is asked for while its last holder is not reaped yet.
const RETRY: Duration = Duration::from_millis(1);

/// Why there is no such process.
#[derive(Debug, thiserror::Error)]
pub enum ReuseError {
    /// The pid stayed in use.
    #[error("pid {pid} is still in use after {waited_ms} ms; reap its holder first")]
    InUse {
        /// The pid.
        pid: i32,
        /// How long it was waited for.
        waited_ms: u128,
    },
    /// The kernel refuses.
    #[error("pid {pid}: {source}; choosing a pid needs root in the initial pid namespace")]
    System {
        /// The pid.
        pid: i32,
        /// What the kernel says.
        source: io::Error,
    },
    /// No program was named.
    #[error("no program given to run under pid {pid}")]
    NoProgram {
        /// The pid.
        pid: i32,
    },
}

/// Forks a process with exactly `pid`, waiting up to `patience` for the pid to be free.
///
/// The caller must be single-threaded.
pub fn fork_with_pid(pid: i32, patience: Duration) -> Result<Fork, ReuseError> {
    let mut waited = Duration::ZERO;
    loop {
        match sys::fork_with_pid(pid) {
            Ok(fork) => return Ok(fork),
            Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {
                if waited >= patience {
                    return Err(ReuseError::InUse { pid, waited_ms: waited.as_millis() });
                }
                std::thread::sleep(RETRY);
                waited += RETRY;
            }
            Err(source) => return Err(ReuseError::System { pid, source }),
        }
    }
}

/// Runs a program under exactly `pid` and waits for it; its status comes back as a shell's would.
pub fn run(pid: i32, patience: Duration, program: &[OsString]) -> Result<i32, ReuseError> {
    let (name, arguments) = program.split_first().ok_or(ReuseError::NoProgram { pid })?;
    match fork_with_pid(pid, patience)? {
        Fork::Child => {
            #[expect(clippy::disallowed_methods, reason = "this helper exists to run a program")]
            let error = Command::new(name).args(arguments).exec();
            let missing = error.kind() == io::ErrorKind::NotFound;
            sys::exit_now(if missing { 127 } else { 126 })
        }
        Fork::Parent(child) => {
            let waited = waitpid(Pid::from_raw(child), WaitOptions::empty())
                .map_err(|errno| ReuseError::System { pid, source: errno.into() })?;
            Ok(waited.map_or(1, |(_, status)| shell_status(status)))
        }
    }
}

fn shell_status(status: WaitStatus) -> i32 {
    let killed = || status.terminating_signal().map(|signal| 128 + signal);
    status.exit_status().or_else(killed).unwrap_or(1)
}
