//! What a GPU shows of itself at one moment: the calls behind residency curves.

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;

use super::{CallKind, GpuHandle, raw};
use crate::accounting::calls::Calls;
use crate::unknown::{Unknown, UnknownReason};

/// Device memory, as the driver says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryShown {
    /// In use, in bytes; the driver's own is counted in where `reserved` is not told.
    pub used: u64,
    /// All there is.
    pub total: u64,
    /// Kept by the driver for itself; `None` where its older call had to be asked.
    pub reserved: Option<u64>,
}

impl GpuHandle<'_> {
    /// Share of the driver's last window in which a kernel ran, in percent.
    pub fn utilization(&self, calls: &mut Calls) -> Result<u32, Unknown> {
        let call = "nvmlDeviceGetUtilizationRates";
        self.fact(calls, call, |device| Ok(device.utilization_rates()?.gpu))
    }

    /// Power drawn, in mW.
    pub fn power(&self, calls: &mut Calls) -> Result<u32, Unknown> {
        self.fact(calls, "nvmlDeviceGetPowerUsage", nvml_wrapper::Device::power_usage)
    }

    /// The highest power it may draw, in mW, as it is enforced now.
    pub fn power_limit(&self, calls: &mut Calls) -> Result<u32, Unknown> {
        let call = "nvmlDeviceGetEnforcedPowerLimit";
        self.fact(calls, call, nvml_wrapper::Device::enforced_power_limit)
    }

    /// Its temperature, in °C. The wrapper gives the sign as the top bit of an unsigned number.
    pub fn temperature(&self, calls: &mut Calls) -> Result<i32, Unknown> {
        let celsius = self.fact(calls, "nvmlDeviceGetTemperature", |device| {
            device.temperature(TemperatureSensor::Gpu)
        })?;
        Ok(celsius.cast_signed())
    }

    /// Its memory, by the second version of the call where the library has it.
    pub fn memory(&self, calls: &mut Calls) -> Result<MemoryShown, Unknown> {
        let call = "nvmlDeviceGetMemoryInfo_v2";
        let shown = match calls.run(call, || self.device.memory_info()) {
            Ok(memory) => MemoryShown {
                used: memory.used,
                total: memory.total,
                reserved: Some(memory.reserved),
            },
            // Older than the second version: its first one still knows.
            Err(
                NvmlError::FailedToLoadSymbol(_)
                | NvmlError::FunctionNotFound
                | NvmlError::UnexpectedVariant(25 | 26),
            ) => self.memory_v1(calls)?,
            Err(error) => return Err(self.no_memory(call, error)),
        };
        if shown.total == 0 {
            return Err(Unknown {
                gpu: Some(self.uuid.clone()),
                call: Some(call),
                code: Some(0),
                ..Unknown::of(UnknownReason::NoDedicatedMemory)
            });
        }
        Ok(shown)
    }

    fn memory_v1(&self, calls: &mut Calls) -> Result<MemoryShown, Unknown> {
        let call = "nvmlDeviceGetMemoryInfo";
        let memory = calls.run(call, || raw::memory_v1(&self.device));
        let memory = memory.map_err(|error| self.no_memory(call, error))?;
        Ok(MemoryShown { used: memory.used, total: memory.total, reserved: None })
    }

    /// Unified memory is no memory of the GPU's own.
    fn no_memory(&self, call: &'static str, error: NvmlError) -> Unknown {
        let not_supported = matches!(error, NvmlError::NotSupported);
        let mut unknown = self.unknown(CallKind::Fact, call, error);
        if not_supported {
            unknown.reason = UnknownReason::NoDedicatedMemory;
        }
        unknown
    }
}
