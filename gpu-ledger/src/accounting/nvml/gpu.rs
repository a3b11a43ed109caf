//! One GPU, asked.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{GpuVirtualizationMode, Sampling};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{AccountingStats, ProcessInfo};

use super::{CallKind, Library, raw, unknown};
use crate::accounting::busy::{Collection, DeviceSample, ProcessSample};
use crate::accounting::calls::Calls;
use crate::accounting::reading::{Answer, Holder};
use crate::accounting::{Row, UtilizationSums};
use crate::unit::{Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{Observed, Unknown, UnknownReason};

/// How often a list that did not fit is asked for again, with a buffer of twice the size.
pub const PID_LIST_TRIES: u32 = 5;
/// Room for the list where the driver does not say its buffer size: what every driver seen says.
const PID_ROOM: usize = 4_000;
/// Room for process samples in the newer call, doubled as often as a list.
const SAMPLE_ROOM: u32 = 128;

/// Multi-Instance GPU, which excludes accounting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MigState {
    /// In force.
    On,
    /// Not in force, or the GPU has no such mode.
    Off,
}

/// Asks for one list of running processes.
type List = fn(&Device<'_>) -> Result<Vec<ProcessInfo>, NvmlError>;
/// Notes in which list a process stood.
type Mark = fn(&mut Holder);

/// A pid list as it came.
#[derive(Clone, Debug)]
pub struct PidList {
    /// Entries that are pids, in the driver's order.
    pub pids: Vec<Pid>,
    /// Entries that cannot be (0 and 4,294,967,295).
    pub junk_pids: u64,
}

/// An open device.
#[derive(Debug)]
pub struct GpuHandle<'library> {
    library: &'library Library,
    pub(super) device: Device<'library>,
    pub(super) uuid: GpuUuid,
    buffer: Vec<u32>,
}

impl<'library> GpuHandle<'library> {
    pub(super) const fn new(
        library: &'library Library,
        device: Device<'library>,
        uuid: GpuUuid,
    ) -> Self {
        Self { library, device, uuid, buffer: Vec::new() }
    }

    /// Its UUID.
    #[must_use]
    pub const fn uuid(&self) -> &GpuUuid {
        &self.uuid
    }

    pub(super) fn unknown(&self, kind: CallKind, call: &'static str, error: NvmlError) -> Unknown {
        unknown(kind, call, Some(&self.uuid), error)
    }

    /// A property; `Err` with the reason where the driver does not tell it.
    pub(super) fn fact<T>(
        &self,
        calls: &mut Calls,
        call: &'static str,
        ask: impl FnOnce(&Device<'library>) -> Result<T, NvmlError>,
    ) -> Result<T, Unknown> {
        let answer = calls.run(call, || ask(&self.device));
        answer.map_err(|error| self.unknown(CallKind::Fact, call, error))
    }

    /// The product's name.
    pub fn name(&self, calls: &mut Calls) -> Result<String, Unknown> {
        self.fact(calls, "nvmlDeviceGetName", Device::name)
    }

    /// The minor number of its device file.
    pub fn minor(&self, calls: &mut Calls) -> Result<u32, Unknown> {
        self.fact(calls, "nvmlDeviceGetMinorNumber", Device::minor_number)
    }

    /// Its PCI address.
    pub fn pci_bus_id(&self, calls: &mut Calls) -> Result<String, Unknown> {
        self.fact(calls, "nvmlDeviceGetPciInfo_v3", |device| Ok(device.pci_info()?.bus_id))
    }

    /// Whether the driver keeps its state while nobody has it open.
    pub fn persistence(&self, calls: &mut Calls) -> Result<bool, Unknown> {
        self.fact(calls, "nvmlDeviceGetPersistenceMode", Device::is_in_persistent_mode)
    }

    /// Whether MIG is in force. A GPU that has no such mode answers NOT_SUPPORTED.
    pub fn mig(&self, calls: &mut Calls) -> Result<MigState, Unknown> {
        let mode = self.fact(calls, "nvmlDeviceGetMigMode", |device| match device.mig_mode() {
            Ok(mode) if mode.current == 0 => Ok(MigState::Off),
            Ok(mode) if mode.current == 1 => Ok(MigState::On),
            Ok(mode) => Err(NvmlError::UnexpectedVariant(mode.current)),
            Err(NvmlError::NotSupported) => Ok(MigState::Off),
            Err(error) => Err(error),
        })?;
        Ok(mode)
    }

    /// Whether it serves virtual machines as a vGPU host, where the per-process store is not shown.
    pub fn vgpu_host(&self, calls: &mut Calls) -> Result<bool, Unknown> {
        self.fact(calls, "nvmlDeviceGetVirtualizationMode", |device| {
            match device.virtualization_mode() {
                Ok(mode) => Ok(matches!(
                    mode,
                    GpuVirtualizationMode::HostVgpu | GpuVirtualizationMode::HostVsga
                )),
                Err(NvmlError::NotSupported) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// The advertised size of the accounting buffer: live and dead rows together, never the
    /// capacity of the dead ones.
    pub fn buffer_size(&self, calls: &mut Calls) -> Result<u32, Unknown> {
        self.fact(calls, "nvmlDeviceGetAccountingBufferSize", Device::accounting_buffer_size)
    }

    /// Whether accounting is on. A mode that cannot be asked says why as well as it is known.
    pub fn accounting_on(&self, calls: &mut Calls) -> Result<bool, Unknown> {
        let call = "nvmlDeviceGetAccountingMode";
        match calls.run(call, || raw::accounting_mode(&self.device)) {
            Ok(0) => Ok(false),
            Ok(1) => Ok(true),
            Ok(other) => Err(Unknown {
                reason: UnknownReason::AccountingModeUnexpected,
                detail: Some(other.to_string()),
                gpu: Some(self.uuid.clone()),
                call: Some(call),
                code: Some(0),
            }),
            Err(error) => Err(self.with_cause(self.unknown(CallKind::Mode, call, error), calls)),
        }
    }

    /// The one setting this product makes, on an explicit command only.
    pub fn set_accounting(&mut self, on: bool, calls: &mut Calls) -> Result<(), Unknown> {
        let call = "nvmlDeviceSetAccountingMode";
        match calls.run(call, || self.device.set_accounting(on)) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.with_cause(self.unknown(CallKind::Mode, call, error), calls)),
        }
    }

    /// Replaces "not supported" by the circumstance that explains it, where there is one.
    fn with_cause(&self, mut unknown: Unknown, calls: &mut Calls) -> Unknown {
        if matches!(
            unknown.reason,
            UnknownReason::AccountingNotSupported | UnknownReason::AccountingNotSupportedOrDisabled
        ) {
            if self.mig(calls) == Ok(MigState::On) {
                unknown.reason = UnknownReason::AccountingUnavailableMig;
            } else if self.vgpu_host(calls) == Ok(true) {
                unknown.reason = UnknownReason::AccountingUnavailableVgpuHost;
            }
        }
        unknown
    }

    /// The list of accounted pids.
    pub fn accounting_pids(&mut self, calls: &mut Calls) -> Result<PidList, Unknown> {
        let call = "nvmlDeviceGetAccountingPids";
        if self.buffer.is_empty() {
            // A driver that does not say its size gets the room that every driver seen needs.
            let size = self.buffer_size(calls).ok().and_then(|size| usize::try_from(size).ok());
            self.buffer.resize(size.filter(|size| *size > 0).unwrap_or(PID_ROOM), 0);
        }
        let mut tries = 1;
        let count = loop {
            match calls.run(call, || raw::accounting_pids(&self.device, &mut self.buffer)) {
                Ok(count) => break count,
                Err(NvmlError::InsufficientSize(_)) if tries < PID_LIST_TRIES => {
                    tries += 1;
                    let doubled = self.buffer.len().saturating_mul(2);
                    self.buffer.resize(doubled, 0);
                }
                Err(error) => {
                    let unknown = self.unknown(CallKind::Accounting, call, error);
                    return Err(self.with_cause(unknown, calls));
                }
            }
        };
        let filled = self.buffer.iter().take(count);
        let (pids, junk): (Vec<u32>, Vec<u32>) =
            filled.copied().partition(|pid| *pid != 0 && *pid != u32::MAX);
        let junk_pids = u64::try_from(junk.len()).unwrap_or(u64::MAX);
        Ok(PidList { pids: pids.into_iter().map(Pid).collect(), junk_pids })
    }

    /// The row of one pid, by the second version of the call where the library has it.
    pub fn row(&self, pid: Pid, calls: &mut Calls) -> Answer {
        if let Some(v2) = self.library.stats_v2 {
            let call = "nvmlDeviceGetAccountingStats_v2";
            match calls.run(call, || raw::stats_v2(&self.device, v2, pid.0)) {
                Ok(stats) => return Answer::Row(row_v2(&self.uuid, pid, stats)),
                // A library newer than its driver: the older call may still know.
                Err(NvmlError::FunctionNotFound | NvmlError::UnexpectedVariant(25 | 26)) => {}
                Err(error) => return self.no_row(call, error),
            }
        }
        let call = "nvmlDeviceGetAccountingStats";
        match calls.run(call, || self.device.accounting_stats_for(pid.0)) {
            Ok(stats) => Answer::Row(row_v1(&self.uuid, pid, &stats)),
            Err(error) => self.no_row(call, error),
        }
    }

    fn no_row(&self, call: &'static str, error: NvmlError) -> Answer {
        match error {
            NvmlError::NotFound => Answer::Gone,
            error => Answer::Unread(self.unknown(CallKind::Accounting, call, error)),
        }
    }

    /// Who holds the device now, from the three lists of running processes.
    pub fn holders(&self, calls: &mut Calls) -> (Vec<Holder>, Vec<Unknown>) {
        let lists: [(&'static str, List, Mark); 3] = [
            (
                "nvmlDeviceGetComputeRunningProcesses_v3",
                |device| device.running_compute_processes(),
                |holder| holder.compute = true,
            ),
            (
                "nvmlDeviceGetGraphicsRunningProcesses_v3",
                |device| device.running_graphics_processes(),
                |holder| holder.graphics = true,
            ),
            (
                "nvmlDeviceGetMPSComputeRunningProcesses_v3",
                |device| device.mps_running_compute_processes(),
                |holder| holder.mps = true,
            ),
        ];
        let mut holders = std::collections::BTreeMap::new();
        let mut unknowns = Vec::new();
        for (call, list, mark) in lists {
            match self.processes(call, list, calls) {
                Ok(processes) => {
                    for process in processes {
                        mark(holders.entry(process.pid).or_insert_with(|| holder(&process)));
                    }
                }
                Err(error) => unknowns.push(self.unknown(CallKind::Processes, call, error)),
            }
        }
        (holders.into_values().collect(), unknowns)
    }

    /// A list that grew between its two calls is asked for again.
    fn processes(
        &self,
        call: &'static str,
        list: List,
        calls: &mut Calls,
    ) -> Result<Vec<ProcessInfo>, NvmlError> {
        let mut tries = 1;
        loop {
            match calls.run(call, || list(&self.device)) {
                Err(NvmlError::InsufficientSize(_)) if tries < PID_LIST_TRIES => tries += 1,
                answer => return answer,
            }
        }
    }

    /// The utilization samples newer than `last_seen_us`, per process and of the device. "Not found"
    /// and an empty list say that nobody was busy, and are no error.
    pub fn samples(
        &self,
        last_seen_us: Option<u64>,
        calls: &mut Calls,
    ) -> Result<Collection, Unknown> {
        let processes = self.process_samples(last_seen_us, calls)?;
        let call = "nvmlDeviceGetSamples";
        let device =
            calls.run(call, || self.device.samples(Sampling::GpuUtilization, last_seen_us));
        // Only a check: without the device's own samples the processes' stand alone.
        let device = device.ok().map(|samples| {
            let samples = samples.into_iter().filter_map(|sample| {
                let percent = match sample.value {
                    SampleValue::U32(percent) => Some(percent),
                    SampleValue::U64(percent) => u32::try_from(percent).ok(),
                    SampleValue::I64(percent) => u32::try_from(percent).ok(),
                    SampleValue::F64(_) => None,
                };
                Some(DeviceSample { timestamp_us: sample.timestamp, percent: percent? })
            });
            samples.collect()
        });
        Ok(Collection { processes, device })
    }

    /// The utilization samples of processes newer than `last_seen_us`. "Not found" says that nobody was
    /// busy, and is no error.
    pub fn process_samples(
        &self,
        last_seen_us: Option<u64>,
        calls: &mut Calls,
    ) -> Result<Vec<ProcessSample>, Unknown> {
        let call = "nvmlDeviceGetProcessUtilization";
        let mut tries = 1;
        let answer = loop {
            match calls.run(call, || self.device.process_utilization_stats(last_seen_us)) {
                Err(NvmlError::InsufficientSize(_)) if tries < PID_LIST_TRIES => tries += 1,
                answer => break answer,
            }
        };
        let samples = match answer {
            Ok(samples) => samples,
            Err(NvmlError::NotFound | NvmlError::NoData) => return Ok(Vec::new()),
            Err(NvmlError::NotSupported) => return self.newer_process_samples(last_seen_us, calls),
            Err(error) => return Err(self.unknown(CallKind::Samples, call, error)),
        };
        let samples = samples.into_iter().map(|sample| ProcessSample {
            pid: Pid(sample.pid),
            timestamp_us: sample.timestamp,
            sm_percent: sample.sm_util,
        });
        Ok(samples.collect())
    }

    fn newer_process_samples(
        &self,
        last_seen_us: Option<u64>,
        calls: &mut Calls,
    ) -> Result<Vec<ProcessSample>, Unknown> {
        let call = "nvmlDeviceGetProcessesUtilizationInfo";
        let (mut tries, mut room) = (1, SAMPLE_ROOM);
        let answer = loop {
            // 0 asks for everything the ring holds.
            let since = last_seen_us.unwrap_or(0);
            match calls.run(call, || raw::processes_utilization(&self.device, since, room)) {
                Err(NvmlError::InsufficientSize(_)) if tries < PID_LIST_TRIES => {
                    tries += 1;
                    room = room.saturating_mul(2);
                }
                answer => break answer,
            }
        };
        match answer {
            Ok(samples) => {
                let samples = samples.into_iter().map(|sample| ProcessSample {
                    pid: Pid(sample.pid),
                    timestamp_us: sample.timestamp_us,
                    sm_percent: sample.sm_percent,
                });
                Ok(samples.collect())
            }
            Err(NvmlError::NotFound | NvmlError::NoData) => Ok(Vec::new()),
            Err(error) => Err(self.unknown(CallKind::Samples, call, error)),
        }
    }
}

/// A row of the second version of the call. What the driver has no value of is all ones.
pub(super) fn row_v2(gpu: &GpuUuid, pid: Pid, stats: raw::StatsV2) -> Row {
    let sums =
        UtilizationSums { sample_count: stats.sample_count, gpu_centipercent: stats.sum_gpu_util };
    let available = stats.sample_count != u64::MAX && stats.sum_gpu_util != u64::MAX;
    let stats = AccountingStats {
        gpu_utilization: (stats.gpu_utilization != u32::MAX).then_some(stats.gpu_utilization),
        is_running: stats.is_running != 0,
        max_memory_usage: (stats.max_memory_usage != u64::MAX).then_some(stats.max_memory_usage),
        memory_utilization: None,
        start_time: stats.start_time,
        time: stats.time,
    };
    Row { sums: available.then_some(sums), ..row_v1(gpu, pid, &stats) }
}

/// A row of the first version, as the wrapper reads it.
pub(super) fn row_v1(gpu: &GpuUuid, pid: Pid, stats: &AccountingStats) -> Row {
    let memory_peak = match stats.max_memory_usage {
        None => Observed::Unknown(UnknownReason::ValueNotAvailable),
        // Containers are known to show 0 while using memory.
        Some(0) => Observed::Unknown(UnknownReason::MaxMemoryZero),
        Some(bytes) => Observed::Known(Bytes(bytes)),
    };
    let utilization = match stats.gpu_utilization {
        Some(percent) => Observed::Known(percent),
        None => Observed::Unknown(UnknownReason::ValueNotAvailable),
    };
    Row {
        gpu: gpu.clone(),
        pid,
        start: (stats.start_time != 0).then_some(WallUs(stats.start_time)),
        held: Ms(stats.time),
        running: stats.is_running,
        memory_peak,
        utilization,
        sums: None,
    }
}

fn holder(process: &ProcessInfo) -> Holder {
    let memory = match process.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Observed::Known(Bytes(bytes)),
        UsedGpuMemory::Unavailable => Observed::Unknown(UnknownReason::ValueNotAvailable),
    };
    Holder { pid: Pid(process.pid), memory, compute: false, graphics: false, mps: false }
}
