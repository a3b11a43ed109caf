//! A storm: many short processes, a few of them GPU jobs, as a busy host has them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Serialize;

use crate::client::{self, Held};
use crate::random::Random;
use crate::sys::{self, Fork};

/// What a storm is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The simulated driver's socket.
    pub socket: PathBuf,
    /// All processes, GPU jobs among them.
    pub processes: u64,
    /// How many of them hold a GPU.
    pub gpu_jobs: u64,
    /// Shortest and longest time a job holds it, in milliseconds.
    pub gpu_ms: (u64, u64),
    /// Share of the jobs that fork without exec, in percent.
    pub fork_share: u64,
    /// GPUs that the jobs are spread over.
    pub gpus: u32,
    /// Processes alive at a time.
    pub at_once: usize,
    /// What the processes that are no GPU jobs run.
    pub idle_program: Vec<OsString>,
    /// This very program, whose `work` the jobs run.
    pub work_program: PathBuf,
    /// Decides which processes are jobs, and how long each holds.
    pub seed: u64,
}

/// What became of a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    /// Processes that were started.
    pub processes: u64,
    /// GPU jobs by a program that was executed.
    pub gpu_jobs_executed: u64,
    /// GPU jobs by fork alone.
    pub gpu_jobs_forked: u64,
    /// Processes that ended with another status than 0.
    pub failed: u64,
}

/// Why a storm broke off.
#[derive(Debug, thiserror::Error)]
pub enum StormError {
    /// A process could not be made or waited for.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// Nothing to run was named.
    #[error("no program given for the processes that are no GPU jobs")]
    NoProgram,
}

enum Running {
    Executed(Child),
    Forked(i32),
}

/// Runs a storm to its end. The caller must be single-threaded: workers are forked.
pub fn run(options: &Options) -> Result<Counts, StormError> {
    let mut chance = Random::seeded(options.seed);
    let mut counts = Counts::default();
    let mut running = std::collections::VecDeque::new();
    let mut jobs_left = options.gpu_jobs;
    for left in (1..=options.processes).rev() {
        // Each process is a job with the share of jobs among those still to come: exactly as many
        // as asked for, and no pattern in when.
        let is_job = chance.below(left) < jobs_left;
        let process = if is_job {
            jobs_left -= 1;
            start_job(options, &mut chance, &mut counts)?
        } else {
            start_idle(options)?
        };
        counts.processes += 1;
        running.push_back(process);
        while running.len() >= options.at_once.max(1) {
            reap(running.pop_front(), &mut counts)?;
        }
    }
    while !running.is_empty() {
        reap(running.pop_front(), &mut counts)?;
    }
    Ok(counts)
}

fn start_idle(options: &Options) -> Result<Running, StormError> {
    let (program, arguments) = options.idle_program.split_first().ok_or(StormError::NoProgram)?;
    spawn(program, |command| command.args(arguments))
}

fn start_job(
    options: &Options,
    chance: &mut Random,
    counts: &mut Counts,
) -> Result<Running, StormError> {
    let held_ms = chance.between(options.gpu_ms.0, options.gpu_ms.1);
    let gpu = u32::try_from(chance.below(u64::from(options.gpus))).unwrap_or(0);
    if chance.below(100) < options.fork_share {
        counts.gpu_jobs_forked += 1;
        return fork_job(options, gpu, held_ms);
    }
    counts.gpu_jobs_executed += 1;
    spawn(options.work_program.as_os_str(), |command| {
        command.arg("work").arg("--socket").arg(&options.socket);
        command.args(["--gpu", &gpu.to_string(), "--ms", &held_ms.to_string()])
    })
}

fn spawn(
    program: &std::ffi::OsStr,
    complete: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<Running, StormError> {
    #[expect(clippy::disallowed_methods, reason = "this helper exists to run programs")]
    let mut command = Command::new(program);
    // Output goes nowhere: a storm must not wait for whoever reads its own.
    complete(&mut command).stdin(Stdio::null()).stdout(Stdio::null());
    let system = |source| StormError::System { what: program.display().to_string(), source };
    command.spawn().map(Running::Executed).map_err(system)
}

fn fork_job(options: &Options, gpu: u32, held_ms: u64) -> Result<Running, StormError> {
    let fork = sys::fork();
    match fork.map_err(|source| StormError::System { what: "fork".to_owned(), source })? {
        Fork::Parent(pid) => Ok(Running::Forked(pid)),
        Fork::Child => {
            let worked = hold(options, gpu, held_ms);
            sys::exit_now(i32::from(worked.is_err()))
        }
    }
}

fn hold(options: &Options, gpu: u32, held_ms: u64) -> Result<(), client::Failure> {
    let held = Held::open(&options.socket, gpu, 64 << 20)?;
    std::thread::sleep(Duration::from_millis(held_ms));
    drop(held);
    Ok(())
}

fn reap(process: Option<Running>, counts: &mut Counts) -> Result<(), StormError> {
    let system = |source| StormError::System { what: "wait".to_owned(), source };
    let succeeded = match process {
        None => return Ok(()),
        Some(Running::Executed(mut child)) => child.wait().map_err(system)?.success(),
        Some(Running::Forked(pid)) => {
            let child = rustix::process::Pid::from_raw(pid);
            let options = rustix::process::WaitOptions::empty();
            let waited = rustix::process::waitpid(child, options);
            let waited = waited.map_err(|errno| system(errno.into()))?;
            waited.is_some_and(|(_, status)| status.exit_status() == Some(0))
        }
    };
    counts.failed += u64::from(!succeeded);
    Ok(())
}
