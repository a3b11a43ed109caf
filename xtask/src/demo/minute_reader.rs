//! The second reader: the mapper of the write-up, a real client of the same library.
//!
//! Once a minute it asks the driver which pids use a GPU and notes the name of each new one from
//! `/proc/PID/cmdline`, keeping the first. At the end it reads the driver's accounted rows and joins
//! them with its notes by pid; a row of an unknown pid is unattributed. It changes no setting. It
//! knows nothing of process events, of start times, or of rows that the driver has evicted
//! meanwhile: that is what it is here to show.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::system::{elapsed_ms, monotonic_ms};

/// The wrapper's list call fails when the list grows between its two halves, so it is asked again.
const LIST_TRIES_MAX: u32 = 50;

/// What the reader has to say at the end.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct MinuteRead {
    /// Minutes at which it looked.
    pub(super) ticks: u64,
    /// Of those, how many failed: what ran then is unknown, not nothing.
    pub(super) ticks_failed: u64,
    /// Pids whose name it noted.
    pub(super) pids_mapped: u64,
    /// The finished rows that it could still read at its end.
    pub(super) rows: Vec<MinuteRow>,
    /// Listed pids whose row was gone when it asked.
    pub(super) rows_vanished: u64,
}

/// One finished row, joined by pid.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(super) struct MinuteRow {
    pub(super) gpu_uuid: String,
    pub(super) pid: u32,
    pub(super) start_time_us: u64,
    pub(super) time_ms: u64,
    /// None: unattributed.
    pub(super) name: Option<String>,
}

/// What it is started with.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// NVML library
    #[arg(long)]
    library: PathBuf,
    /// What a minute is here
    #[arg(long)]
    minute_ms: u64,
}

/// Reads once a minute until stdin is closed, then once more, and writes a [`MinuteRead`] to stdout.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let mut names = BTreeMap::new();
    let mut said = MinuteRead::default();
    let begin = monotonic_ms();
    while !stdin_closed_before(begin + (said.ticks + 1) * options.minute_ms)? {
        said.ticks += 1;
        if let Err(error) = note_names(&options.library, &mut names) {
            said.ticks_failed += 1;
            complain(&format!("minute {}: UNKNOWN, not 0: {error:#}", said.ticks));
        }
    }
    said.pids_mapped = u64::try_from(names.len())?;
    read_rows(&options.library, &names, &mut said)?;
    serde_json::to_writer(std::io::stdout().lock(), &said)?;
    Ok(())
}

/// Waits for the moment (on the monotonic clock), or for the end of stdin.
fn stdin_closed_before(moment_ms: u64) -> anyhow::Result<bool> {
    loop {
        let left_ms = moment_ms.saturating_sub(elapsed_ms(0));
        if left_ms == 0 {
            return Ok(false);
        }
        let stdin = std::io::stdin();
        let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec::try_from(Duration::from_millis(left_ms))?;
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) if std::io::stdin().read(&mut [0; 64])? == 0 => return Ok(true),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn complain(text: &str) {
    // Nothing is left to do when even stderr is gone.
    let _ = writeln!(std::io::stderr(), "minute reader: {text}");
}

/// One tick: as cron would, it begins and ends its own session with the library.
fn note_names(library: &Path, names: &mut BTreeMap<u32, String>) -> anyhow::Result<()> {
    let nvml = open(library)?;
    for index in 0..nvml.device_count()? {
        for process in nvml.device_by_index(index)?.running_compute_processes()? {
            if !names.contains_key(&process.pid)
                && let Some(name) = name_of(process.pid)
            {
                names.insert(process.pid, name);
            }
        }
    }
    Ok(())
}

fn open(library: &Path) -> anyhow::Result<Nvml> {
    let nvml = Nvml::builder().lib_path(library.as_os_str()).init();
    nvml.with_context(|| format!("NVML library {}", library.display()))
}

/// The last part of the first word of the command line; none where the process is gone already.
fn name_of(pid: u32) -> Option<String> {
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = command_line.split(|&byte| byte == 0).next()?;
    let first = String::from_utf8_lossy(first);
    let name = first.rsplit('/').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn read_rows(
    library: &Path,
    names: &BTreeMap<u32, String>,
    said: &mut MinuteRead,
) -> anyhow::Result<()> {
    let nvml = open(library)?;
    for index in 0..nvml.device_count()? {
        let device = nvml.device_by_index(index)?;
        let gpu_uuid = device.uuid()?;
        let mut pids = accounted_pids(&device)?;
        pids.sort_unstable();
        pids.dedup();
        for pid in pids {
            let stats = match device.accounting_stats_for(pid) {
                Ok(stats) => stats,
                Err(NvmlError::NotFound) => {
                    said.rows_vanished += 1;
                    continue;
                }
                Err(error) => return Err(error).context(format!("row of pid {pid}")),
            };
            if !stats.is_running {
                said.rows.push(MinuteRow {
                    gpu_uuid: gpu_uuid.clone(),
                    pid,
                    start_time_us: stats.start_time,
                    time_ms: stats.time,
                    name: names.get(&pid).cloned(),
                });
            }
        }
    }
    Ok(())
}

/// The accounted pids. The wrapper (0.13.0) pads a list that shrank between its two calls with
/// pid 0, and fails where it grew.
fn accounted_pids(device: &nvml_wrapper::Device<'_>) -> anyhow::Result<Vec<u32>> {
    let mut tries = 0;
    loop {
        match device.accounting_pids() {
            Ok(pids) => return Ok(pids.into_iter().filter(|&pid| pid != 0).collect()),
            Err(NvmlError::InsufficientSize(_)) if tries < LIST_TRIES_MAX => tries += 1,
            Err(error) => return Err(error).context("accounted pids"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_the_last_part_of_its_first_word() {
        let name = name_of(std::process::id()).unwrap();
        assert!(name.starts_with("xtask"), "{name}");
    }

    #[test]
    fn a_pid_that_nobody_has_gets_no_name() {
        // Above the kernel's largest pid (include/linux/threads.h: 4 194 304).
        assert_eq!(name_of(4_194_305), None);
    }
}
