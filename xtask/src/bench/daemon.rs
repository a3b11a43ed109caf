//! The daemon on a large journal, beside the simulated driver: how long a row takes onto the bill once
//! the driver has it final, and how much memory that takes.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use super::guard::Guarded;
use super::procfs::{self, Memory};
use super::simulated::Simulator;
use super::{build, guard};

/// How long anything may take that takes milliseconds.
const LIMIT: Duration = Duration::from_mins(1);
/// Between two jobs: every read meets one that ended, and none waits for a slot among twenty reads a second.
const PAUSE: Duration = Duration::from_millis(40);

/// What was measured.
pub(super) struct OnTheBill {
    /// From the driver's row becoming final to its settlement being seen by a reader, ascending.
    pub(super) latency_us: Vec<u64>,
    pub(super) memory: Memory,
    pub(super) ring_bytes: u64,
}

/// One line of the simulated driver's truth log.
#[derive(Deserialize)]
struct Truth {
    pid: u32,
    start_time_us: u64,
    end_time_us: u64,
}

/// A row: its pid and start.
type Row = (u32, u64);

/// Runs so many jobs under the daemon, whose journal is the one in `state`.
pub(super) fn measure(
    folder: &Path,
    state: &Path,
    load: &Path,
    jobs: u64,
) -> anyhow::Result<OnTheBill> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "the daemon's part of this benchmark needs root: it attaches to the kernel; run it as `sudo \
         --preserve-env=PATH cargo xtask bench journal`, or leave it out with --jobs 0"
    );
    let agent = build::agent()?;
    let (nvsim, library) = build::simulator()?;
    let truth = folder.join("truth");
    let arguments = ["--teardown-ms", "0..20", "--truth"].map(AsRef::as_ref);
    let arguments = arguments.into_iter().chain([truth.as_os_str()]);
    let simulator = Simulator::start_with(&nvsim, folder, 1, arguments)?;
    let (config, log) = (folder.join("config.toml"), folder.join("log"));
    std::fs::write(&config, "").context("cannot write a configuration")?;
    let mut daemon = Guarded::start(
        Command::new(&agent)
            .arg("--nvml-library")
            .arg(&library)
            .arg("daemon")
            .arg("--config")
            .arg(&config)
            .arg("--state-dir")
            .arg(state)
            .arg("--socket")
            .arg(folder.join("daemon.sock"))
            .env("NVSIM_SOCKET", simulator.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).context("cannot make a log")?),
    )?;
    let end = Instant::now() + LIMIT;
    while !std::fs::read_to_string(&log)?.contains(": watching") {
        ensure!(
            daemon.ended()?.is_none() && Instant::now() < end,
            "the daemon does not start: {}",
            std::fs::read_to_string(&log)?
        );
        guard::pause(Duration::from_millis(20))?;
    }
    let seen = watch(load, state, jobs, || {
        for number in 0..jobs {
            let mut job = simulator.job(number)?;
            guard::pause(PAUSE)?;
            ensure!(job.wait(LIMIT)?.is_some(), "a GPU job does not end");
        }
        Ok(())
    })?;
    let (memory, ring_bytes) = (procfs::memory(daemon.pid())?, procfs::ring_bytes(daemon.pid())?);
    daemon.interrupt()?;
    ensure!(daemon.wait(LIMIT)?.is_some_and(|status| status.success()), "the daemon failed");
    let latency_us = latencies(&std::fs::read_to_string(&truth)?, &seen)?;
    Ok(OnTheBill { latency_us, memory, ring_bytes })
}

/// When each settlement was first seen by somebody who reads the journal, while `work` goes on.
fn watch(
    load: &Path,
    state: &Path,
    jobs: u64,
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<BTreeMap<Row, u64>> {
    let mut watcher = Command::new(load)
        .arg("watch")
        .arg(state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the reader")?;
    // It ends with its input, hence with this.
    let input = watcher.stdin.take();
    let output = watcher.stdout.take().context("the reader has no output")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let next = || -> anyhow::Result<Vec<u64>> {
        let line = lines.recv_timeout(LIMIT).context("the reader sees no more settlements")?;
        line?.split_whitespace().map(|word| Ok(word.parse()?)).collect()
    };
    ensure!(next()?.is_empty() || jobs == 0, "the reader does not begin with an empty line");
    work()?;
    let mut seen = BTreeMap::new();
    for _ in 0..jobs {
        let [pid, start, at] = next()?[..] else { anyhow::bail!("a line is not three numbers") };
        seen.insert((u32::try_from(pid)?, start), at);
    }
    drop(input);
    watcher.wait().context("waiting for the reader")?;
    Ok(seen)
}

fn latencies(truth: &str, seen: &BTreeMap<Row, u64>) -> anyhow::Result<Vec<u64>> {
    let mut latencies = Vec::new();
    for line in truth.lines() {
        let Truth { pid, start_time_us, end_time_us } = serde_json::from_str(line)?;
        let at = seen.get(&(pid, start_time_us));
        let at = at.with_context(|| format!("the row of pid {pid} is on no bill"))?;
        latencies.push(at.saturating_sub(end_time_us));
    }
    ensure!(latencies.len() == seen.len(), "{} rows, {} on the bill", latencies.len(), seen.len());
    latencies.sort_unstable();
    Ok(latencies)
}

impl OnTheBill {
    /// The smallest latency that so many of a hundred do not exceed.
    pub(super) fn percentile_us(&self, percent: usize) -> Option<u64> {
        let rank = self.latency_us.len().checked_mul(percent)?.div_ceil(100);
        self.latency_us.get(rank.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_meet_what_was_seen_of_them_and_a_missing_one_is_named() {
        let truth = "{\"pid\":7,\"start_time_us\":10,\"end_time_us\":100}\n\
            {\"pid\":7,\"start_time_us\":200,\"end_time_us\":300}\n";
        let seen = BTreeMap::from([((7, 10), 160), ((7, 200), 310)]);
        assert_eq!(latencies(truth, &seen).unwrap(), [10, 60]);
        let one = BTreeMap::from([((7, 10), 160)]);
        let error = latencies(truth, &one).unwrap_err().to_string();
        assert_eq!(error, "the row of pid 7 is on no bill");
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let memory = Memory { now_kib: 0, peak_kib: 0 };
        let of = |latency_us| OnTheBill { latency_us, memory, ring_bytes: 0 };
        assert_eq!(of((1..=200).collect()).percentile_us(99), Some(198));
        assert_eq!(of(vec![5]).percentile_us(50), Some(5));
        assert_eq!(of(Vec::new()).percentile_us(50), None);
    }
}
