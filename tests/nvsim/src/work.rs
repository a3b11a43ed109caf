//! The workload: a program that uses a simulated GPU as a real one would.
//!
//! Its command line is read by hand: a storm starts hundreds of these a second, and the time to
//! the first system call is what such a job consists of.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::client::{self, Held, SOCKET_VARIABLE};
use crate::protocol::Use;
use crate::sys::{self, Fork};

/// Names a folder with device nodes (`nvidia0`, `nvidiactl`) that the workload opens first, as a
/// real GPU program does. No driver is behind them, so the open itself may fail.
pub const DEVICES_VARIABLE: &str = "NVSIM_DEVICES";

/// How `nvsim work` is used.
pub const USAGE: &str = "\
Usage: nvsim work --gpu I [--gpu J …] --ms N [options]

  --gpu I          hold this GPU; several may be given (default 0)
  --ms N           for this long
  --mem-mib N      with this much device memory (default 64)
  --busy PCT       kernels run for this share of the time (default 100)
  --fork           in a child made by fork alone, without exec
  --reopen N       close and open again, N contexts in all, each for --ms
  --hold-fd-ms N   leave a duplicate of the descriptor in a child that outlives the work by N ms
  --threads N      with N threads that all use the one context
  --no-alloc       open only, as a monitor does: no channel, no memory
  --no-touch       open no device node, even if NVSIM_DEVICES names some
  --socket PATH    the simulated driver (default: NVSIM_SOCKET)
";

/// What the workload is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The simulated driver's socket.
    pub socket: PathBuf,
    /// GPUs to hold, in this order.
    pub gpus: Vec<u32>,
    /// How long to hold them, in milliseconds.
    pub held_ms: u64,
    /// What to use of each.
    pub usage: Use,
    /// Whether to do it in a forked child.
    pub fork: bool,
    /// How many contexts, one after another.
    pub contexts: u64,
    /// How long a child keeps a duplicate of the descriptors, in milliseconds.
    pub hold_fd_ms: Option<u64>,
    /// How many threads.
    pub threads: u64,
    /// Whether to open device nodes.
    pub touch: bool,
}

/// Why the workload did not work.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The command line.
    #[error("{0}\n{USAGE}")]
    Usage(String),
    /// The simulated driver.
    #[error(transparent)]
    Driver(#[from] client::Failure),
    /// The kernel.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
}

impl Options {
    /// Reads the words after `nvsim work`.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, WorkError> {
        let mut options = Self {
            socket: std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from).unwrap_or_default(),
            gpus: Vec::new(),
            held_ms: 0,
            usage: Use {
                memory_bytes: 64 << 20,
                channel: true,
                busy_percent: 100,
                memory_busy_percent: 50,
            },
            fork: false,
            contexts: 1,
            hold_fd_ms: None,
            threads: 1,
            touch: true,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| usage(&word, "needs a value"));
            match word.as_str() {
                "--gpu" => options.gpus.push(small(&word, &value()?)?),
                "--ms" => options.held_ms = number(&word, &value()?)?,
                "--mem-mib" => {
                    let mib = number(&word, &value()?)?;
                    options.usage.memory_bytes =
                        mib.checked_mul(1 << 20).ok_or_else(|| usage(&word, "is too much"))?;
                }
                "--busy" => {
                    options.usage.busy_percent = small(&word, &value()?)?.min(100);
                    options.usage.memory_busy_percent = options.usage.busy_percent / 2;
                }
                "--fork" => options.fork = true,
                "--reopen" => options.contexts = number(&word, &value()?)?,
                "--hold-fd-ms" => options.hold_fd_ms = Some(number(&word, &value()?)?),
                "--threads" => options.threads = number(&word, &value()?)?,
                "--no-alloc" => options.usage = Use::default(),
                "--no-touch" => options.touch = false,
                "--socket" => options.socket = PathBuf::from(value()?),
                _ => return Err(usage(&word, "is no option")),
            }
        }
        if options.gpus.is_empty() {
            options.gpus.push(0);
        }
        if options.socket.as_os_str().is_empty() {
            return Err(usage(SOCKET_VARIABLE, "is not set and --socket is not given"));
        }
        Ok(options)
    }
}

fn usage(word: &str, problem: &str) -> WorkError {
    WorkError::Usage(format!("{word} {problem}"))
}

fn number(word: &str, value: &str) -> Result<u64, WorkError> {
    value.parse().map_err(|_| usage(word, &format!("wants a number, not {value:?}")))
}

fn small(word: &str, value: &str) -> Result<u32, WorkError> {
    value.parse().map_err(|_| usage(word, &format!("wants a number, not {value:?}")))
}

/// Does the work. With `--fork` it returns in the parent, after the child has exited, with the
/// child's status.
pub fn run(options: &Options) -> Result<i32, WorkError> {
    if !options.fork {
        return contexts(options).map(|()| 0);
    }
    match sys::fork().map_err(|source| WorkError::System { what: "fork", source })? {
        Fork::Child => {
            let status = match contexts(options) {
                Ok(()) => 0,
                Err(error) => complain(&error),
            };
            sys::exit_now(status)
        }
        Fork::Parent(pid) => wait_for(pid),
    }
}

/// Says what went wrong; the status to exit with.
#[must_use]
pub fn complain(error: &WorkError) -> i32 {
    // Nothing is left to do when even stderr is gone.
    let _ = writeln!(io::stderr(), "nvsim work: {error}");
    1
}

fn wait_for(pid: i32) -> Result<i32, WorkError> {
    let fail = |source: io::Error| WorkError::System { what: "wait", source };
    let child = rustix::process::Pid::from_raw(pid);
    let waited = rustix::process::waitpid(child, rustix::process::WaitOptions::empty())
        .map_err(|errno| fail(errno.into()))?;
    let status = waited.map(|(_, status)| status);
    // A child that was killed by a signal reports as a shell would.
    Ok(status.map_or(1, |status| {
        status
            .exit_status()
            .or_else(|| status.terminating_signal().map(|signal| 128 + signal))
            .unwrap_or(1)
    }))
}

fn contexts(options: &Options) -> Result<(), WorkError> {
    let _nodes = if options.touch { touch(&options.gpus) } else { Vec::new() };
    for _ in 0..options.contexts {
        let held = options
            .gpus
            .iter()
            .map(|&gpu| Held::open_with(&options.socket, gpu, options.usage))
            .collect::<Result<Vec<_>, _>>()?;
        work(options)?;
        if let Some(hold_fd_ms) = options.hold_fd_ms {
            leave_duplicates(&held, hold_fd_ms)?;
        }
    }
    Ok(())
}

fn work(options: &Options) -> Result<(), WorkError> {
    let duration = Duration::from_millis(options.held_ms);
    let mut threads = Vec::new();
    for _ in 1..options.threads {
        let thread = std::thread::Builder::new().spawn(move || std::thread::sleep(duration));
        threads.push(thread.map_err(|source| WorkError::System { what: "thread", source })?);
    }
    std::thread::sleep(duration);
    for thread in threads {
        // A thread that only sleeps cannot panic.
        let _ = thread.join();
    }
    Ok(())
}

/// Opens the device nodes as the real runtime does, before anything else. Nothing answers behind
/// them in a test, so that an open fails is expected; that it was tried is the point.
fn touch(gpus: &[u32]) -> Vec<std::fs::File> {
    let Some(folder) = std::env::var_os(DEVICES_VARIABLE).map(PathBuf::from) else {
        return Vec::new();
    };
    let names = std::iter::once("nvidiactl".to_owned());
    let names = names.chain(gpus.iter().map(|gpu| format!("nvidia{gpu}")));
    let open =
        |name: String| std::fs::File::options().read(true).write(true).open(folder.join(name)).ok();
    names.filter_map(open).collect()
}

/// Forks a child that has the descriptors, and nothing to do but to keep them for a while.
fn leave_duplicates(held: &[Held], hold_fd_ms: u64) -> Result<(), WorkError> {
    // The duplicates are the child's by fork; naming them keeps them from being closed before it.
    let descriptors: Vec<_> = held.iter().map(|held| held.as_fd()).collect();
    match sys::fork().map_err(|source| WorkError::System { what: "fork", source })? {
        Fork::Parent(_) => Ok(()),
        Fork::Child => {
            std::thread::sleep(Duration::from_millis(hold_fd_ms));
            drop(descriptors);
            sys::exit_now(0)
        }
    }
}
