//! The simulated driver under a storm: the product reads it while GPU jobs run among the processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::guard::{self, Guarded};
use super::measure::{Bench, Measured, Session};
use super::storm::Shape;
use super::tracer::{Agent, Missed, Tracer};

/// The name that the product's threads for driver calls begin with.
const DRIVER_THREAD: &str = "nvml-";
/// A server that does not listen by then does not start.
const START_LIMIT: Duration = Duration::from_secs(30);
/// A job holds its GPU for a few milliseconds only.
const JOB_LIMIT: Duration = Duration::from_secs(30);
/// What one job does.
const JOB: [&str; 4] = ["--ms", "5", "--mem-mib", "64"];

/// A running simulated driver.
pub(super) struct Simulator {
    server: Guarded,
    binary: PathBuf,
    socket: PathBuf,
    gpus: u64,
}

/// What reading the driver cost.
pub(super) struct DriverCost {
    pub(super) gpus: u64,
    pub(super) jobs: u64,
    pub(super) processes: u64,
    pub(super) elapsed_ns: u64,
    /// CPU time of the threads that make driver calls, as the kernel counted it.
    pub(super) threads_ns: u64,
    /// The product's own count of its calls alone, from its start to its end.
    pub(super) reported_ns: u64,
    /// CPU time of the whole agent.
    pub(super) agent_ns: u64,
    pub(super) missed: Missed,
    pub(super) settled: usize,
    pub(super) missed_in_coverage: Option<u64>,
}

impl Simulator {
    fn start(binary: &Path, folder: &Path, gpus: u64) -> anyhow::Result<Self> {
        Self::start_with(binary, folder, gpus, [])
    }

    /// With more arguments of its command line.
    pub(super) fn start_with<'a>(
        binary: &Path,
        folder: &Path,
        gpus: u64,
        arguments: impl IntoIterator<Item = &'a OsStr>,
    ) -> anyhow::Result<Self> {
        let socket = folder.join("nvsim.socket");
        let server = Guarded::start(
            Command::new(binary)
                .arg("serve")
                .arg("--socket")
                .arg(&socket)
                .args(["--gpus", &gpus.to_string()])
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        )?;
        let mut simulator = Self { server, binary: binary.to_owned(), socket, gpus };
        let end = Instant::now() + START_LIMIT;
        while !simulator.socket.exists() {
            let ended = simulator.server.ended()?;
            ensure!(ended.is_none() && Instant::now() < end, "nvsim serve does not start");
            guard::pause(Duration::from_millis(20))?;
        }
        Ok(simulator)
    }

    /// Where it listens.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn job(&self, number: u64) -> anyhow::Result<Guarded> {
        let gpu = number.checked_rem(self.gpus).context("a simulated driver without GPUs")?;
        Guarded::start(
            Command::new(&self.binary)
                .args(["work", "--gpu", &gpu.to_string()])
                .args(JOB)
                .env("NVSIM_SOCKET", &self.socket)
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        )
    }
}

/// Measures what the driver calls cost while a storm blows with GPU jobs in it.
pub(super) fn measure(
    bench: &Bench<'_>,
    (nvsim, library): (&Path, &Path),
    gpus: u64,
    shape: &Shape,
) -> anyhow::Result<DriverCost> {
    let agent = bench.agent.map_err(|reason| anyhow::anyhow!("{reason}"))?;
    let simulator = Simulator::start(nvsim, bench.folder, gpus)?;
    let agent = Agent {
        binary: agent.binary.clone(),
        library: library.to_owned(),
        socket: Some(simulator.socket.clone()),
    };
    let bench = Bench { agent: Ok(&agent), ..*bench };
    let mut jobs = 0;
    let mut running: Vec<Guarded> = Vec::new();
    let session = Session::start(&bench, Tracer::GpuLedger)?;
    let measured = session.storm(shape, || {
        let mut still = Vec::new();
        for mut job in running.drain(..) {
            match job.ended()? {
                None => still.push(job),
                Some(status) => ensure!(status.success(), "a GPU job failed: {status}"),
            }
        }
        running = still;
        running.push(simulator.job(jobs)?);
        jobs += 1;
        Ok(())
    })?;
    for job in &mut running {
        ensure!(job.wait(JOB_LIMIT)?.is_some(), "a GPU job does not end");
    }
    cost(&measured, gpus, jobs, shape.processes)
}

fn cost(measured: &Measured, gpus: u64, jobs: u64, processes: u64) -> anyhow::Result<DriverCost> {
    let of_driver = measured.threads.iter().filter(|(name, _)| name.starts_with(DRIVER_THREAD));
    let threads: Vec<u64> = of_driver.map(|(_, cpu_ns)| *cpu_ns).collect();
    ensure!(
        !threads.is_empty(),
        "no thread of the agent is called {DRIVER_THREAD}…, there are {:?}",
        measured.threads.keys()
    );
    let report = measured.report.as_ref().context("a measurement of the product has its report")?;
    Ok(DriverCost {
        gpus,
        jobs,
        processes,
        elapsed_ns: measured.elapsed_ns,
        threads_ns: threads.iter().sum(),
        reported_ns: report.gpus.iter().map(|gpu| gpu.reading.cpu_us * 1_000).sum(),
        agent_ns: measured.cpu_ns,
        missed: measured.missed,
        settled: report.host.settlements.len(),
        missed_in_coverage: report.missed_in_coverage,
    })
}
