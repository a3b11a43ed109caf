//! `nvsim`: the simulated driver's server, its workload and its faults.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Parser, Subcommand};
use nvsim::client::SOCKET_VARIABLE;
use nvsim::fault::{self, Switch};
use nvsim::{library, reuse, server, storm, work};

#[derive(Parser)]
#[command(name = "nvsim", about = "A simulated NVIDIA driver: no GPU needed")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Be the driver
    Serve(Serve),
    /// Use a GPU (see `nvsim work --help`)
    Work,
    /// Do nothing and exit: what a storm is mostly made of
    Idle,
    /// Start many short processes, some of them GPU jobs; prints counts as JSON
    Storm(Storm),
    /// Run a program under a chosen pid
    Reuse(Reuse),
    /// Make the driver misbehave (see `nvsim fault --help`)
    #[command(disable_help_flag = true)]
    Fault {
        /// What goes wrong.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Copy the NVML library without some of its symbols
    Library(Library),
}

#[derive(Args)]
struct Serve {
    /// Where to listen
    #[arg(long)]
    socket: PathBuf,
    /// How many GPUs
    #[arg(long)]
    gpus: u32,
    /// From the closing of the last descriptor to the entry's end: A..B milliseconds
    #[arg(long, default_value = "0..0", value_parser = range)]
    teardown_ms: (u64, u64),
    /// Accounting mode at first
    #[arg(long, default_value = "on")]
    accounting: Switch,
    /// Whether the driver's state outlives its last client
    #[arg(long, default_value = "on")]
    persistence: Switch,
    /// Write what really happened there, as JSON lines
    #[arg(long)]
    truth: Option<PathBuf>,
    /// Faults with times: JSON lines `{"at_ms": 500, "fault": ["mig", "on"]}`
    #[arg(long)]
    script: Option<PathBuf>,
    /// Decides teardown delays and utilization samples
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What the GPUs are called
    #[arg(long, default_value = "NVIDIA Simulated GPU")]
    gpu_name: String,
}

#[derive(Args)]
struct Storm {
    /// All processes
    #[arg(long)]
    processes: u64,
    /// How many of them hold a GPU
    #[arg(long, default_value_t = 0)]
    gpu_jobs: u64,
    /// How long each holds it: A..B milliseconds
    #[arg(long, default_value = "1..20", value_parser = range)]
    gpu_ms: (u64, u64),
    /// Share of the jobs that fork without exec, in percent
    #[arg(long, default_value_t = 0)]
    fork_share: u64,
    /// GPUs that the jobs are spread over
    #[arg(long, default_value_t = 1)]
    gpus: u32,
    /// Processes alive at a time
    #[arg(long, default_value_t = 32)]
    at_once: usize,
    /// Decides which processes are jobs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The simulated driver (default: NVSIM_SOCKET)
    #[arg(long)]
    socket: Option<PathBuf>,
    /// What the other processes run (default: `nvsim idle`)
    #[arg(trailing_var_arg = true)]
    idle_program: Vec<OsString>,
}

#[derive(Args)]
struct Reuse {
    /// The pid
    #[arg(long)]
    pid: i32,
    /// How long to wait for it to be free, in milliseconds
    #[arg(long, default_value_t = 10_000)]
    patience_ms: u64,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    program: Vec<OsString>,
}

#[derive(Args)]
struct Library {
    /// The library
    #[arg(long)]
    from: PathBuf,
    /// Where the copy goes
    #[arg(long)]
    to: PathBuf,
    /// Symbols that it is to lack
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
}

fn main() -> ExitCode {
    // The paths of a storm first: they parse nothing that they do not need.
    let mut words = std::env::args_os().skip(1);
    match words.next().as_deref().and_then(|word| word.to_str()) {
        Some("idle") => return ExitCode::SUCCESS,
        Some("work") => return work(words),
        _ => {}
    }
    match run(Arguments::parse().command) {
        Ok(status) => status,
        Err(error) => {
            // Nothing is left to do when even stderr is gone.
            let _ = writeln!(io::stderr(), "nvsim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    if words.iter().any(|word| word == "--help") {
        return print(work::USAGE.trim_end()).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let worked = work::Options::parse(words).and_then(|options| work::run(&options));
    exit_code(worked.unwrap_or_else(|error| work::complain(&error)))
}

fn exit_code(status: i32) -> ExitCode {
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(serve) => start_server(serve)?,
        // Both were met in `main`.
        Command::Idle | Command::Work => {}
        Command::Storm(storm) => start_storm(storm)?,
        Command::Reuse(reuse) => {
            let patience = Duration::from_millis(reuse.patience_ms);
            return Ok(exit_code(reuse::run(reuse.pid, patience, &reuse.program)?));
        }
        Command::Fault { words } => make_fault(&words)?,
        Command::Library(library) => copy_library(&library)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn start_server(serve: Serve) -> anyhow::Result<()> {
    let options = server::Options {
        socket: serve.socket,
        gpus: serve.gpus,
        teardown_ms: serve.teardown_ms,
        accounting: serve.accounting.is_on(),
        persistence: serve.persistence.is_on(),
        truth: serve.truth,
        script: serve.script,
        seed: serve.seed,
        gpu_name: serve.gpu_name,
    };
    server::serve(&options, || {
        // Whoever does not read the line has no use for it.
        let _ = print("ready");
    })?;
    Ok(())
}

fn start_storm(storm: Storm) -> anyhow::Result<()> {
    let work_program = std::env::current_exe().context("own path")?;
    let mut idle_program = storm.idle_program;
    if idle_program.is_empty() {
        idle_program = vec![work_program.clone().into_os_string(), "idle".into()];
    }
    let socket = storm.socket.or_else(socket_from_environment);
    if socket.is_none() && storm.gpu_jobs > 0 {
        bail!("GPU jobs need {SOCKET_VARIABLE} or --socket");
    }
    let counts = storm::run(&storm::Options {
        socket: socket.unwrap_or_default(),
        processes: storm.processes,
        gpu_jobs: storm.gpu_jobs,
        gpu_ms: storm.gpu_ms,
        fork_share: storm.fork_share,
        gpus: storm.gpus,
        at_once: storm.at_once,
        idle_program,
        work_program,
        seed: storm.seed,
    })?;
    print(&serde_json::to_string(&counts)?)
}

fn make_fault(words: &[String]) -> anyhow::Result<()> {
    // Words are read here already, so that help and errors need no server.
    // Words that ask for help are no fault either: clap then has the text and the status.
    if let Err(refusal) = fault::Fault::parse(words) {
        refusal.exit();
    }
    let socket = socket_from_environment()
        .with_context(|| format!("{SOCKET_VARIABLE} must name the server's socket"))?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = fault::ask(&socket, &words)?;
    if said.is_empty() { Ok(()) } else { print(&said) }
}

fn copy_library(options: &Library) -> anyhow::Result<()> {
    let from = options.from.display();
    let whole = std::fs::read(&options.from).with_context(|| format!("read {from}"))?;
    let symbols: Vec<&str> = options.without.iter().map(String::as_str).collect();
    let patched = library::without(&whole, &symbols).with_context(|| from.to_string())?;
    let to = &options.to;
    std::fs::write(to, patched).with_context(|| format!("write {}", to.display()))
}

fn socket_from_environment() -> Option<PathBuf> {
    std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from)
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// `A..B` or `A`, in milliseconds.
fn range(text: &str) -> anyhow::Result<(u64, u64)> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| anyhow!("{text:?}: {error}"));
    match text.split_once("..") {
        Some((low, high)) => Ok((number(low)?, number(high)?)),
        None => number(text).map(|both| (both, both)),
    }
}
