//! Accounting calls and the lists of processes.

use super::answers::{
    Device, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NO_PERMISSION, NOT_FOUND, NOT_SUPPORTED, number,
};
use super::calls::Call;
use super::faults::Oddity;
use crate::model::{BUFFER_ENTRIES, Holder};
use crate::protocol::Answer;

/// Marks a 32-bit value that is not available.
const NOT_AVAILABLE_32: u64 = 0xffff_ffff;
/// Marks a 64-bit value that is not available.
const NOT_AVAILABLE_64: u64 = u64::MAX;
/// What a size query of the per-process samples says, whatever there is (seen by go-nvml).
const PROCESS_SAMPLES_SIZE: u64 = 100;
/// A mode that no header knows.
const ODD_MODE: u64 = 7;
/// By how much a row is longer that contradicts what was said of it.
const LONGER_MS: u64 = 1_000;
/// Processes that one list of running ones holds (`NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT`).
const RUNNING_MAX: usize = 950;

impl Device<'_> {
    /// Accounting and processes; none for every other call.
    pub(super) fn answer_accounting(&mut self, call: &Call) -> Option<Answer> {
        Some(match call.symbol.as_str() {
            "nvmlDeviceGetAccountingMode" if self.faults.has(Oddity::OddMode) => number(ODD_MODE),
            "nvmlDeviceGetAccountingMode" => number(u64::from(self.gpu.accounting_mode())),
            "nvmlDeviceSetAccountingMode" => self.set_accounting(call.argument(0)),
            "nvmlDeviceClearAccountingPids" => self.clear(),
            "nvmlDeviceGetAccountingBufferSize" if self.is_refused() => Answer::code(NOT_SUPPORTED),
            "nvmlDeviceGetAccountingBufferSize" => {
                number(u64::try_from(BUFFER_ENTRIES).unwrap_or(u64::MAX))
            }
            "nvmlDeviceGetAccountingPids" => self.accounting_pids(call.argument(0)),
            "nvmlDeviceGetAccountingStats" | "nvmlDeviceGetAccountingStats_v2" => {
                self.stats(call.argument(0))
            }
            "nvmlDeviceGetComputeRunningProcesses"
            | "nvmlDeviceGetComputeRunningProcesses_v2"
            | "nvmlDeviceGetComputeRunningProcesses_v3" => self.running(call.argument(0)),
            // Nothing draws and nothing runs under MPS here: these lists are truly empty.
            "nvmlDeviceGetGraphicsRunningProcesses"
            | "nvmlDeviceGetGraphicsRunningProcesses_v2"
            | "nvmlDeviceGetGraphicsRunningProcesses_v3"
            | "nvmlDeviceGetMPSComputeRunningProcesses"
            | "nvmlDeviceGetMPSComputeRunningProcesses_v2"
            | "nvmlDeviceGetMPSComputeRunningProcesses_v3" => self.list::<2>(call.argument(0), &[]),
            "nvmlDeviceGetRunningProcessDetailList" => self.detail(call),
            "nvmlDeviceGetProcessUtilization" | "nvmlDeviceGetProcessesUtilizationInfo" => {
                self.process_samples(call.argument(0), call.argument(1))
            }
            _ => return None,
        })
    }

    /// Whether lists and statistics are refused altogether: on a vGPU host, and with the mode off
    /// where the driver is to behave as its header says.
    fn is_refused(&self) -> bool {
        self.gpu.vgpu_host()
            || (self.faults.has(Oddity::DisabledAsDocumented) && !self.gpu.accounting_mode())
    }

    fn set_accounting(&mut self, mode: u64) -> Answer {
        if mode > 1 {
            return Answer::code(INVALID_ARGUMENT);
        }
        if !self.caller.is_root {
            return Answer::code(NO_PERMISSION);
        }
        let set = self.gpu.set_accounting(mode == 1, self.now);
        Answer::code(if set.is_ok() { 0 } else { NOT_SUPPORTED })
    }

    fn clear(&mut self) -> Answer {
        if !self.caller.is_root {
            return Answer::code(NO_PERMISSION);
        }
        if self.gpu.vgpu_host() {
            return Answer::code(NOT_SUPPORTED);
        }
        self.gpu.clear();
        Answer::default()
    }

    fn accounting_pids(&self, capacity: u64) -> Answer {
        if self.is_refused() {
            return Answer::code(NOT_SUPPORTED);
        }
        let pids = self.gpu.accounting_pids(self.caller.view());
        let rows: Vec<[u64; 1]> = pids.into_iter().map(|pid| [u64::from(pid)]).collect();
        self.list(capacity, &rows)
    }

    /// A list under NVML's two-step protocol: a size query, then a fill. What is too small is told
    /// how many there are.
    fn list<const WIDTH: usize>(&self, capacity: u64, rows: &[[u64; WIDTH]]) -> Answer {
        let needed = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        let insufficient = Answer { numbers: vec![needed], ..Answer::code(INSUFFICIENT_SIZE) };
        if rows.is_empty() {
            let as_size_query = capacity == 0 && self.faults.has(Oddity::EmptyListIsInsufficient);
            return if as_size_query { insufficient } else { Answer::default() };
        }
        if capacity < needed { insufficient } else { Answer::of(rows.concat()) }
    }

    fn stats(&self, pid: u64) -> Answer {
        if self.is_refused() {
            return Answer::code(NOT_SUPPORTED);
        }
        let pid = u32::try_from(pid).unwrap_or(u32::MAX);
        let Some(stats) = self.gpu.accounting_stats(pid, self.caller.view()) else {
            return Answer::code(NOT_FOUND);
        };
        let or =
            |value: u64, mark: u64| if self.faults.has(Oddity::Sentinels) { mark } else { value };
        let is_longer = !stats.running && self.faults.has(Oddity::LongerRows);
        Answer::of(vec![
            or(u64::from(stats.gpu_percent), NOT_AVAILABLE_32),
            or(u64::from(stats.memory_percent), NOT_AVAILABLE_32),
            or(stats.memory_peak_bytes, NOT_AVAILABLE_64),
            stats.time_ms + u64::from(is_longer) * LONGER_MS,
            if self.faults.has(Oddity::NoStartTime) { 0 } else { stats.start_us },
            u64::from(stats.running),
            stats.samples,
            stats.gpu_util_sum,
            stats.fb_util_sum,
        ])
    }

    fn running(&self, capacity: u64) -> Answer {
        let rows = self.running_rows();
        self.list(capacity, &rows)
    }

    fn running_rows(&self) -> Vec<[u64; 2]> {
        let shown = self.gpu.holders().into_iter().filter_map(|holder| self.shown(holder));
        shown.take(RUNNING_MAX).collect()
    }

    /// A running process as the caller may see it: one of another pid namespace is not shown to a
    /// container, one of its own under its own number (since 535.113.01).
    fn shown(&self, holder: Holder) -> Option<[u64; 2]> {
        let pid = if self.caller.translate {
            pid_in_namespace(holder.pid, self.caller.pid)?
        } else {
            holder.pid
        };
        let bytes =
            if self.faults.has(Oddity::Sentinels) { NOT_AVAILABLE_64 } else { holder.memory_bytes };
        Some([u64::from(pid), bytes])
    }

    /// The detail list: by mode 0 compute, 1 graphics, 2 MPS.
    fn detail(&self, call: &Call) -> Answer {
        match call.argument(1) {
            0 => self.running(call.argument(0)),
            1 | 2 => self.list::<2>(call.argument(0), &[]),
            _ => Answer::code(INVALID_ARGUMENT),
        }
    }

    fn process_samples(&mut self, capacity: u64, since_us: u64) -> Answer {
        if self.gpu.mig() {
            return Answer::code(NOT_SUPPORTED);
        }
        if capacity == 0 {
            let numbers = vec![PROCESS_SAMPLES_SIZE];
            return Answer { numbers, ..Answer::code(INSUFFICIENT_SIZE) };
        }
        let rows = self.gpu.process_samples(since_us, self.now);
        if rows.is_empty() {
            return Answer::code(NOT_FOUND);
        }
        let rows: Vec<[u64; 4]> = rows
            .iter()
            .map(|row| {
                let (gpu, memory) = (u64::from(row.gpu_percent), u64::from(row.memory_percent));
                [u64::from(row.pid), row.wall_us, gpu, memory]
            })
            .collect();
        self.list(capacity, &rows)
    }
}

/// A process's number in the pid namespace of another, if it is in it.
fn pid_in_namespace(pid: u32, namespace_of: u32) -> Option<u32> {
    let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    if namespace(pid)? != namespace(namespace_of)? {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}
