//! What NVML answers, by symbol. Accounting and process lists are in `lists`.

use super::calls::Call;
use super::device::{Board, MEMORY_BYTES, MEMORY_RESERVED_BYTES};
use super::faults::Faults;
use super::{Server, events};
use crate::model::{Gpu, Moment, RING_SAMPLES, View};
use crate::protocol::Answer;

/// `NVML_ERROR_INVALID_ARGUMENT`.
pub(super) const INVALID_ARGUMENT: u32 = 2;
/// `NVML_ERROR_NOT_SUPPORTED`.
pub(super) const NOT_SUPPORTED: u32 = 3;
/// `NVML_ERROR_NO_PERMISSION`.
pub(super) const NO_PERMISSION: u32 = 4;
/// `NVML_ERROR_NOT_FOUND`.
pub(super) const NOT_FOUND: u32 = 6;
/// `NVML_ERROR_INSUFFICIENT_SIZE`.
pub(super) const INSUFFICIENT_SIZE: u32 = 7;

/// What `nvmlSystemGetDriverVersion` says: of the branch that has `GetAccountingStats_v2`.
const DRIVER_VERSION: &str = "610.00.00";
/// What `nvmlSystemGetNVMLVersion` says.
const NVML_VERSION: &str = "13.610.00.00";
/// CUDA 13.3, as 1000 times the major and 10 times the minor number.
const CUDA_VERSION: u64 = 13_030;
/// PCI device and vendor of an H200, so that clients take it for a data centre GPU.
const PCI_DEVICE: u64 = 0x2335_10de;
const PCI_SUBSYSTEM: u64 = 0x18be_10de;
/// Energy since the driver was loaded, in mJ; board power averaged over a second, and at once.
const FIELD_TOTAL_ENERGY: u64 = 83;
const FIELD_POWER_AVERAGE: u64 = 185;
const FIELD_POWER_INSTANT: u64 = 186;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) is_root: bool,
    pub(super) in_container: bool,
    pub(super) pid: u32,
    /// Whether pids of running processes are to be told as the caller's own namespace has them.
    pub(super) translate: bool,
}

impl Caller {
    pub(super) const fn view(self) -> View {
        if self.in_container { View::Container } else { View::Host }
    }
}

/// A GPU that is asked.
pub(super) struct Device<'a> {
    pub(super) gpu: &'a mut Gpu,
    pub(super) board: &'a mut Board,
    pub(super) faults: &'a Faults,
    pub(super) caller: Caller,
    pub(super) now: Moment,
    pub(super) index: u32,
}

impl Device<'_> {
    pub(super) fn answer(&mut self, call: &Call) -> Answer {
        if let Some(answer) = self.answer_accounting(call) {
            return answer;
        }
        match call.symbol.as_str() {
            "nvmlDeviceGetHandleByIndex_v2" | "nvmlDeviceGetHandleByIndex" => Answer::default(),
            "nvmlDeviceGetName" => Answer::text(&self.board.name),
            "nvmlDeviceGetUUID" => Answer::text(&self.board.uuid),
            "nvmlDeviceGetSerial" => Answer::text(&self.board.serial),
            "nvmlDeviceGetIndex" | "nvmlDeviceGetMinorNumber" => number(u64::from(self.index)),
            "nvmlDeviceGetPciInfo_v3" | "nvmlDeviceGetPciInfo_v2" | "nvmlDeviceGetPciInfo" => {
                let bus = u64::from(Board::bus(self.index));
                Answer {
                    code: 0,
                    numbers: vec![0, bus, 0, PCI_DEVICE, PCI_SUBSYSTEM],
                    text: Board::bus_id(self.index),
                }
            }
            "nvmlDeviceGetPersistenceMode" => number(u64::from(self.board.persistence)),
            "nvmlDeviceSetPersistenceMode" => self.set_persistence(call.argument(0)),
            "nvmlDeviceGetMigMode" => {
                let mig = u64::from(self.gpu.mig());
                Answer::of(vec![mig, mig])
            }
            "nvmlDeviceGetVirtualizationMode" if self.gpu.vgpu_host() => number(3),
            "nvmlDeviceGetHostVgpuMode" if self.gpu.vgpu_host() => number(1),
            "nvmlDeviceGetVirtualizationMode"
            | "nvmlDeviceIsMigDeviceHandle"
            | "nvmlDeviceGetDisplayActive"
            | "nvmlDeviceGetDisplayMode"
            | "nvmlDeviceGetComputeMode" => number(0),
            "nvmlDeviceGetEnforcedPowerLimit" | "nvmlDeviceGetPowerManagementLimit" => {
                number(700_000)
            }
            "nvmlDeviceGetCudaComputeCapability" => Answer::of(vec![9, 0]),
            // Architecture and brand of an H200: Hopper, "NVIDIA".
            "nvmlDeviceGetArchitecture" => number(9),
            "nvmlDeviceGetBrand" => number(14),
            "nvsimStructVersion" => Answer::code(self.faults.version_code),
            _ => self.answer_state(call),
        }
    }

    /// What changes with the work.
    fn answer_state(&mut self, call: &Call) -> Answer {
        match call.symbol.as_str() {
            "nvmlDeviceGetMemoryInfo" => self.memory(true),
            "nvmlDeviceGetMemoryInfo_v2" => self.memory(false),
            "nvmlDeviceGetPowerUsage" => number(Board::power_mw(self.gpu, self.now)),
            "nvmlDeviceGetTotalEnergyConsumption" => {
                number(self.board.energy_mj(self.gpu, self.now))
            }
            "nvmlDeviceGetTemperature" | "nvmlDeviceGetTemperatureV" => {
                number(34 + u64::from(self.gpu.utilization(self.now).gpu_percent) / 3)
            }
            "nvmlDeviceGetPerformanceState" => {
                number(if self.gpu.utilization(self.now).gpu_percent > 0 { 0 } else { 8 })
            }
            // Nothing encodes here; the period is that of the real engines' samples.
            "nvmlDeviceGetEncoderUtilization" | "nvmlDeviceGetDecoderUtilization" => {
                Answer::of(vec![0, 167_000])
            }
            "nvmlDeviceGetUtilizationRates" if self.gpu.mig() => Answer::code(NOT_SUPPORTED),
            "nvmlDeviceGetUtilizationRates" => {
                let latest = self.gpu.utilization(self.now);
                Answer::of(vec![u64::from(latest.gpu_percent), u64::from(latest.memory_percent)])
            }
            "nvmlDeviceGetSamples" => self.samples(call),
            "nvmlDeviceGetFieldValues" => self.field(call.argument(0)),
            _ => Answer::code(NOT_SUPPORTED),
        }
    }

    /// Total, reserved, free, used. The first version of the call has no place for what is
    /// reserved and counts it as used.
    fn memory(&self, reserved_is_used: bool) -> Answer {
        let used = self.gpu.memory_used_bytes().min(MEMORY_BYTES - MEMORY_RESERVED_BYTES);
        let free = MEMORY_BYTES - MEMORY_RESERVED_BYTES - used;
        let used = if reserved_is_used { used + MEMORY_RESERVED_BYTES } else { used };
        Answer::of(vec![MEMORY_BYTES, MEMORY_RESERVED_BYTES, free, used])
    }

    fn samples(&mut self, call: &Call) -> Answer {
        let (kind, since_us, capacity) = (call.argument(0), call.argument(1), call.argument(2));
        if self.gpu.mig() {
            return Answer::code(NOT_SUPPORTED);
        }
        if capacity == 0 {
            return number(u64::try_from(RING_SAMPLES).unwrap_or(u64::MAX));
        }
        let samples = self.gpu.samples_since(since_us, self.now);
        let mut numbers = Vec::new();
        for sample in samples.iter().take(usize::try_from(capacity).unwrap_or(usize::MAX)) {
            let value = match kind {
                1 => sample.gpu_hundredths / 100,
                2 => sample.fb_hundredths / 100,
                _ => return Answer::code(NOT_SUPPORTED),
            };
            numbers.extend([sample.wall_us, u64::from(value)]);
        }
        if numbers.is_empty() { Answer::code(NOT_FOUND) } else { Answer::of(numbers) }
    }

    fn field(&mut self, field: u64) -> Answer {
        let value = match field {
            FIELD_TOTAL_ENERGY => self.board.energy_mj(self.gpu, self.now),
            FIELD_POWER_AVERAGE | FIELD_POWER_INSTANT => Board::power_mw(self.gpu, self.now),
            _ => return Answer::code(NOT_SUPPORTED),
        };
        Answer::of(vec![value, self.now.wall_us])
    }

    fn set_persistence(&mut self, mode: u64) -> Answer {
        if !self.caller.is_root {
            return Answer::code(NO_PERMISSION);
        }
        self.board.persistence = mode != 0;
        Answer::default()
    }
}

pub(super) fn number(number: u64) -> Answer {
    Answer::of(vec![number])
}

impl Server {
    /// Calls that name no device.
    pub(super) fn answer_system(&mut self, token: u64, call: &Call) -> Option<Answer> {
        let answer = match call.symbol.as_str() {
            "nvmlShutdown" => Answer::default(),
            "nvmlSystemGetDriverVersion" => Answer::text(DRIVER_VERSION),
            "nvmlSystemGetNVMLVersion" => Answer::text(NVML_VERSION),
            "nvmlSystemGetCudaDriverVersion" | "nvmlSystemGetCudaDriverVersion_v2" => {
                number(CUDA_VERSION)
            }
            "nvmlSystemGetProcessName" => process_name(call.argument(0)),
            "nvmlDeviceGetCount_v2" | "nvmlDeviceGetCount" => {
                number(u64::try_from(self.boards.len()).unwrap_or(u64::MAX))
            }
            "nvmlDeviceGetHandleByUUID" => self.find(|_, board| board.uuid == call.text),
            "nvmlDeviceGetHandleBySerial" => self.find(|_, board| board.serial == call.text),
            "nvmlDeviceGetHandleByPciBusId_v2" | "nvmlDeviceGetHandleByPciBusId" => {
                // Clients write the domain with four or with eight digits.
                let asked = call.text.to_ascii_uppercase();
                self.find(|index, _| Board::bus_id(index).ends_with(&asked) && asked.len() >= 12)
            }
            "nvmlEventSetCreate" => {
                let owner = self.connections.get(&token).map(|connection| connection.peer.pid);
                self.events.create(owner?)
            }
            "nvmlEventSetFree" => self.events.free(call.argument(0)),
            "nvmlDeviceRegisterEvents" => {
                let gpu = usize::try_from(call.argument(2)).unwrap_or(usize::MAX);
                self.events.register(call.argument(0), gpu, call.argument(1))
            }
            "nvmlEventSetWait_v2" | "nvmlEventSetWait" => {
                let now_us = self.now().mono_us;
                return self.events.wait(token, call, now_us);
            }
            "nvmlDeviceGetSupportedEventTypes" => number(events::XID),
            _ => Answer::code(NOT_SUPPORTED),
        };
        Some(answer)
    }

    fn find(&self, is_it: impl Fn(u32, &Board) -> bool) -> Answer {
        let mut boards = (0_u32..).zip(&self.boards);
        boards
            .find(|(index, board)| is_it(*index, board))
            .map_or(Answer::code(NOT_FOUND), |(index, _)| number(u64::from(index)))
    }
}

fn process_name(pid: u64) -> Answer {
    // What the kernel has no process for, the driver has none for either.
    let name = std::fs::read_link(format!("/proc/{pid}/exe"));
    name.map_or(Answer::code(NOT_FOUND), |name| Answer::text(name.to_string_lossy()))
}
