//! `cargo xtask bench events`: what tracing process events costs, and what is missed.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::guard::{self, GUARDED_FLAG};
use super::measure::{Bench, Measured, ProgramCost, Session};
use super::procfs::BpfStatistics;
use super::report::{Found, KernelRows, LoadRows, LongRun, Report, Row};
use super::statistics::{Shuffler, median};
use super::storm::{Programs, Shape};
use super::tracer::{Agent, Missed, Tracer};
use super::{build, page, paired, simulated};
use crate::number::grouped;
use crate::text::{complain, say};

/// Where Linux has its tracepoints; peers need it.
const TRACEFS: &str = "/sys/kernel/tracing";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Processes of a storm
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    processes: u64,
    /// Starts a second of the paced storm
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    /// Storms under each tracer and load
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Rounds of the paired ratio
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Processes of the long storm, three events each
    #[arg(long, default_value_t = 340_000, value_parser = clap::value_parser!(u64).range(1..))]
    long_processes: u64,
    /// GPUs of the simulated driver
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    gpus: u64,
    /// Decides every order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Measure this gpu-ledger instead of building one
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// The file whose section is written
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Set by this program for itself
    #[arg(long, hide = true)]
    guarded: bool,
}

/// A folder that goes with its handle.
struct Folder(PathBuf);

impl Folder {
    fn make() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("gpu-ledger-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            complain(&format!("cannot remove {}: {error}", self.0.display()));
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if !options.guarded {
        return guard::measure_in_a_process_of_its_own();
    }
    guard::watch_the_lifeline();
    mount_tracefs();
    let folder = Folder::make()?;
    let programs = Programs::build(&folder.0)?;
    let agent = match &options.agent {
        Some(path) => Ok(path.clone()),
        None => found(build::agent())?,
    };
    // No driver: the peers read none either. What reading one costs is measured apart.
    let library = folder.0.join("no-such-library.so");
    let agent = agent.map(|binary| Agent { binary, library, socket: None });
    let bench = Bench {
        programs: &programs,
        folder: &folder.0,
        agent: agent.as_ref().map_err(String::as_str),
    };
    // Built before anything is timed.
    let simulator = match bench.agent {
        Ok(_) => found(build::simulator())?,
        Err(reason) => Err(reason.to_owned()),
    };
    let report = measure(options, &bench, simulator)?;
    say(&report.render());
    let output = options.output.clone().unwrap_or_else(default_output);
    page::write(&output, "events", &report.section())?;
    say(&format!("written to {}", output.display()));
    Ok(())
}

/// The whole benchmark, in the order of the report.
fn measure(
    options: &Options,
    bench: &Bench<'_>,
    simulator: Found<(PathBuf, PathBuf)>,
) -> anyhow::Result<Report> {
    let mut surroundings = surroundings()?;
    let load_before = load_average()?;
    complain("cost on a loop of fork, exec and exit");
    let paired = match bench.agent {
        Ok(_) => found(paired::run(bench, usize::from(options.pairs), options.seed))?,
        Err(reason) => Err(reason.to_owned()),
    };
    let loads = loads(options, bench, &mut surroundings)?;
    complain("the long storm");
    let long = Shape { processes: options.long_processes, ..storm(options, 0) };
    let long_run = LongRun {
        processes: long.processes,
        row: one(bench, Tracer::GpuLedger, &long)?
            .and_then(|measured| row(&[measured]).ok_or_else(|| "no rounds".to_owned())),
    };
    complain("driver calls");
    let driver = driver(options, bench, simulator)?;
    complain("kernel statistics");
    let kernel = kernel(options, bench)?;
    surroundings.push(format!("load average before {load_before}, after {}", load_average()?));
    Ok(Report { command: command_line(), surroundings, paired, loads, kernel, long_run, driver })
}

/// A storm as fast as it goes, or paced.
fn storm(options: &Options, rate: u64) -> Shape {
    // One worker a CPU: a second that waits for a CPU would add nothing but waiting.
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let workers = u64::try_from(cpus).unwrap_or(1).max(2);
    Shape { processes: options.processes, workers, rate, chunk: 0 }
}

/// All tracers under both loads, one after another, the order turned every round.
fn loads(
    options: &Options,
    bench: &Bench<'_>,
    surroundings: &mut Vec<String>,
) -> anyhow::Result<Vec<LoadRows>> {
    let mut loads = vec![compare(options, bench, 0)?];
    let reached = loads.first().and_then(LoadRows::bare_rate).context("a storm without a rate")?;
    if reached < options.rate {
        surroundings.push(format!(
            "no paced storm: {} starts/s were asked for, {} was all this machine could do",
            grouped(options.rate),
            grouped(reached)
        ));
        return Ok(loads);
    }
    loads.push(compare(options, bench, options.rate)?);
    Ok(loads)
}

/// All tracers under one load.
fn compare(options: &Options, bench: &Bench<'_>, rate: u64) -> anyhow::Result<LoadRows> {
    let shape = storm(options, rate);
    let speed =
        if rate == 0 { "as fast as it goes".to_owned() } else { format!("{}/s", grouped(rate)) };
    let title = format!("{} processes, {speed}", grouped(shape.processes));
    let mut tracers = vec![Tracer::GpuLedger];
    tracers.extend(Tracer::PEERS);
    let mut shuffler = Shuffler::new(options.seed);
    let mut bare = Vec::new();
    let mut measured: BTreeMap<Tracer, Vec<Found<Measured>>> = BTreeMap::new();
    for round in 1..=options.rounds {
        complain(&format!("{title}: round {round} of {}", options.rounds));
        bare.push(bench.programs.blow(&shape, || Ok(()))?.0.elapsed_ns);
        shuffler.shuffle(&mut tracers);
        for tracer in &tracers {
            measured.entry(*tracer).or_default().push(one(bench, *tracer, &shape)?);
        }
    }
    let rows = measured.into_iter().map(|(tracer, rounds)| {
        let rounds: Found<Vec<Measured>> = rounds.into_iter().collect();
        (tracer, rounds.and_then(|rounds| row(&rounds).ok_or_else(|| "no rounds".to_owned())))
    });
    Ok(LoadRows {
        title,
        processes: shape.processes,
        rounds: options.rounds,
        bare_ns: median(&bare).context("no rounds")?,
        rows: rows.collect(),
    })
}

/// One tracer under one storm. That a peer is not there or fails is a finding, not an error.
fn one(bench: &Bench<'_>, tracer: Tracer, shape: &Shape) -> anyhow::Result<Found<Measured>> {
    if let Some(reason) = absence(bench, tracer) {
        return Ok(Err(reason));
    }
    found(Session::start(bench, tracer).and_then(|session| session.storm(shape, || Ok(()))))
}

/// Why a tracer cannot be started.
fn absence(bench: &Bench<'_>, tracer: Tracer) -> Option<String> {
    match (tracer, bench.agent) {
        (Tracer::GpuLedger, Err(reason)) => Some(reason.to_owned()),
        (Tracer::GpuLedger, Ok(_)) => None,
        (peer, _) if peer.installed().is_some() => None,
        (peer, _) => Some(format!("not installed: apt-get install {}", peer.package())),
    }
}

/// The rounds of one tracer as one row.
fn row(rounds: &[Measured]) -> Option<Row> {
    let of = |value: fn(&Measured) -> u64| rounds.iter().map(value).collect::<Vec<_>>();
    let sum = |value: fn(&Missed) -> u64| rounds.iter().map(|round| value(&round.missed)).sum();
    Some(Row {
        missed: Missed {
            expected: sum(|missed| missed.expected),
            absent: sum(|missed| missed.absent),
            nameless: sum(|missed| missed.nameless),
        },
        cpu_ns: median(&of(|round| round.cpu_ns))?,
        elapsed_ns: median(&of(|round| round.elapsed_ns))?,
        rss_kib: of(|round| round.memory.now_kib).into_iter().max()?,
        peak_kib: of(|round| round.memory.peak_kib).into_iter().max()?,
        ring_bytes: of(|round| round.ring_bytes).into_iter().max()?,
    })
}

/// What the programs in the kernel cost. Its clock costs something itself, so no other measurement
/// runs with it.
fn kernel(options: &Options, bench: &Bench<'_>) -> anyhow::Result<KernelRows> {
    let shape = storm(options, 0);
    let statistics = BpfStatistics::enable()?;
    let mut rows: Vec<(Tracer, Found<Vec<ProgramCost>>)> = Vec::new();
    for tracer in [Tracer::GpuLedger].into_iter().chain(Tracer::PEERS) {
        rows.push((tracer, one(bench, tracer, &shape)?.map(|measured| measured.programs)));
    }
    drop(statistics);
    Ok(KernelRows { processes: shape.processes, rows })
}

/// What driver calls cost, ten times as long as another storm: they are few.
fn driver(
    options: &Options,
    bench: &Bench<'_>,
    simulator: Found<(PathBuf, PathBuf)>,
) -> anyhow::Result<Found<simulated::DriverCost>> {
    let (nvsim, library) = match simulator {
        Ok(built) => built,
        Err(reason) => return Ok(Err(reason)),
    };
    let shape = storm(options, options.rate);
    let shape = Shape { processes: options.processes.saturating_mul(10), ..shape };
    found(simulated::measure(bench, (&nvsim, &library), options.gpus, &shape))
}

/// Turns a failure into a finding, unless the user has gone.
fn found<T>(result: anyhow::Result<T>) -> anyhow::Result<Found<T>> {
    guard::check()?;
    Ok(result.map_err(|error| {
        let reason = format!("not measured: {error:#}");
        complain(&reason);
        reason
    }))
}

/// Mounts the tracepoints' file system where it is not, in this process's own mount namespace.
fn mount_tracefs() {
    if Path::new(TRACEFS).join("events").exists() {
        return;
    }
    let mounted = Command::new("mount").args(["-t", "tracefs", "tracefs", TRACEFS]).status();
    if !mounted.is_ok_and(|status| status.success()) {
        complain("cannot mount tracefs: execsnoop and bpftrace will not start");
    }
}

/// The machine and our own version, a line each.
pub(super) fn surroundings_without_peers() -> anyhow::Result<Vec<String>> {
    Ok(vec![
        format!("{}, gpu-ledger {}", printed("date", &["-u", "+%F %R UTC"]), commit()),
        format!("Linux {}, {}", printed("uname", &["-rm"]), processors()?),
    ])
}

/// The machine and the versions, a line each.
fn surroundings() -> anyhow::Result<Vec<String>> {
    let mut lines = surroundings_without_peers()?;
    let versions = ["libbpf-tools", "bpftrace", "forkstat"].map(|package| {
        let version = printed("dpkg-query", &["-W", "-f", "${Version}", package]);
        format!("{package} {version}")
    });
    lines.push(versions.join(", "));
    Ok(lines)
}

/// The commit, and whether the tree differs from it.
fn commit() -> String {
    printed("git", &["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"])
}

/// Model and number of the processors.
fn processors() -> anyhow::Result<String> {
    let text = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("processor of a model not named", |(_, model)| model);
    let cpus = std::thread::available_parallelism().context("the number of processors")?;
    Ok(format!("{cpus} × {model}"))
}

pub(super) fn load_average() -> anyhow::Result<String> {
    let text = fs::read_to_string("/proc/loadavg").context("cannot read /proc/loadavg")?;
    Ok(text.split(' ').next().context("an empty /proc/loadavg")?.to_owned())
}

/// What a program prints, for the head of the report only.
fn printed(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => format!("(no answer from {program})"),
    }
}

/// How this run can be had again.
fn command_line() -> String {
    let arguments = std::env::args().skip(1).filter(|argument| argument != GUARDED_FLAG);
    ["sudo --preserve-env=PATH cargo xtask".to_owned()]
        .into_iter()
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) fn default_output() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).join("BENCHMARKS.md")
}
