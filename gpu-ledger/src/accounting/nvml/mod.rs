//! The driver's library: the only part of this crate that knows NVML.
//!
//! Purpose: open it, ask it, and turn every answer into a value or a named [`Unknown`]. May touch:
//! the library. May not: keep a deadline (the worker does), set anything but the mode, clear the
//! driver's store. Unsafe code is in [`raw`] alone.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod gauges;
mod gpu;
mod raw;
mod reason;

use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

pub use gauges::MemoryShown;
pub use gpu::{GpuHandle, MigState, PID_LIST_TRIES};
pub use reason::{CallKind, unknown};

use super::calls::Calls;
use crate::unit::GpuUuid;
use crate::unknown::{Unknown, UnknownReason};

/// What stands behind the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverKind {
    /// A driver.
    Real,
    /// A library that declares itself a simulation (`gpu_ledger_simulated`).
    Simulated,
}

impl DriverKind {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Simulated => "simulated",
        }
    }
}

/// The name that is tried where no path is given.
pub const LIBRARY_DEFAULT: &str = "libnvidia-ml.so.1";

/// Whether this build can load a library at all. One that is linked statically with glibc could do so only where the host
/// has the same glibc as its builder (the linker says so of `dlopen`), and would not tell: so it never tries.
pub const LOADS_LIBRARIES: bool = !cfg!(target_feature = "crt-static");

/// The opened library.
#[derive(Debug)]
pub struct Library {
    /// Always there until drop.
    nvml: Option<Nvml>,
    stats_v2: Option<raw::StatsV2Call>,
    kind: DriverKind,
}

impl Library {
    /// Opens the library at `path`, or the system's, and initialises it. May block in the driver.
    pub fn open(path: Option<&Path>, calls: &mut Calls) -> Result<Self, Unknown> {
        if !LOADS_LIBRARIES {
            let detail = Some("static-build".to_owned());
            return Err(Unknown { detail, ..Unknown::of(UnknownReason::NvmlLibraryNotFound) });
        }
        let call = "nvmlInit_v2";
        let path = path.map_or_else(|| PathBuf::from(LIBRARY_DEFAULT), Path::to_path_buf);
        let opened = calls.run(call, || Nvml::builder().lib_path(path.as_os_str()).init());
        let nvml = opened.map_err(|error| {
            let not_opened = matches!(error, NvmlError::LibloadingError(_));
            let mut unknown = unknown(CallKind::Open, call, None, error);
            if not_opened {
                unknown.call = None;
                unknown.detail = Some(path.display().to_string());
            }
            unknown
        })?;
        let stats_v2 = raw::stats_v2_call(&nvml);
        let kind = if raw::is_simulated(&nvml) { DriverKind::Simulated } else { DriverKind::Real };
        Ok(Self { nvml: Some(nvml), stats_v2, kind })
    }

    /// Whether it declares itself a simulation.
    #[must_use]
    pub const fn kind(&self) -> DriverKind {
        self.kind
    }

    /// Whether rows carry the sums that a busy range is best made of.
    #[must_use]
    pub const fn has_stats_v2(&self) -> bool {
        self.stats_v2.is_some()
    }

    /// Functions that it lacks, of those that are called; without them some answer stays unknown. The
    /// library looks each one up when it is opened, so nothing is called here.
    #[must_use]
    pub fn missing_symbols(&self) -> Vec<&'static str> {
        let Some(nvml) = &self.nvml else { return Vec::new() };
        let lib = nvml.lib();
        let lacks = [
            ("nvmlShutdown", lib.nvmlShutdown.is_err()),
            ("nvmlSystemGetDriverVersion", lib.nvmlSystemGetDriverVersion.is_err()),
            ("nvmlDeviceGetUUID", lib.nvmlDeviceGetUUID.is_err()),
            ("nvmlDeviceGetHandleByUUID", lib.nvmlDeviceGetHandleByUUID.is_err()),
            ("nvmlDeviceGetMinorNumber", lib.nvmlDeviceGetMinorNumber.is_err()),
            ("nvmlDeviceGetPersistenceMode", lib.nvmlDeviceGetPersistenceMode.is_err()),
            ("nvmlDeviceGetAccountingMode", lib.nvmlDeviceGetAccountingMode.is_err()),
            ("nvmlDeviceSetAccountingMode", lib.nvmlDeviceSetAccountingMode.is_err()),
            ("nvmlDeviceGetAccountingPids", lib.nvmlDeviceGetAccountingPids.is_err()),
            ("nvmlDeviceGetAccountingStats", lib.nvmlDeviceGetAccountingStats.is_err()),
            ("nvmlDeviceGetAccountingBufferSize", lib.nvmlDeviceGetAccountingBufferSize.is_err()),
            (
                "nvmlDeviceGetComputeRunningProcesses_v3",
                lib.nvmlDeviceGetComputeRunningProcesses_v3.is_err(),
            ),
            (
                "nvmlDeviceGetGraphicsRunningProcesses_v3",
                lib.nvmlDeviceGetGraphicsRunningProcesses_v3.is_err(),
            ),
            ("nvmlDeviceGetProcessUtilization", lib.nvmlDeviceGetProcessUtilization.is_err()),
        ];
        lacks.into_iter().filter_map(|(symbol, lacks)| lacks.then_some(symbol)).collect()
    }

    /// The driver's version.
    pub fn driver_version(&self, calls: &mut Calls) -> Result<String, Unknown> {
        let call = "nvmlSystemGetDriverVersion";
        let version = calls.run(call, || self.nvml()?.sys_driver_version());
        version.map_err(|error| unknown(CallKind::Fact, call, None, error))
    }

    /// The library's own version.
    pub fn nvml_version(&self, calls: &mut Calls) -> Result<String, Unknown> {
        let call = "nvmlSystemGetNVMLVersion";
        let version = calls.run(call, || self.nvml()?.sys_nvml_version());
        version.map_err(|error| unknown(CallKind::Fact, call, None, error))
    }

    /// How many GPUs there are.
    pub fn gpu_count(&self, calls: &mut Calls) -> Result<u32, Unknown> {
        let call = "nvmlDeviceGetCount_v2";
        let count = calls.run(call, || self.nvml()?.device_count());
        count.map_err(|error| unknown(CallKind::Open, call, None, error))
    }

    /// The GPU that enumerates at `index`.
    pub fn gpu_at(&self, index: u32, calls: &mut Calls) -> Result<GpuHandle<'_>, Unknown> {
        let call = "nvmlDeviceGetHandleByIndex_v2";
        let device = calls
            .run(call, || self.nvml()?.device_by_index(index))
            .map_err(|error| unknown(CallKind::Open, call, None, error))?;
        let call = "nvmlDeviceGetUUID";
        let uuid = calls
            .run(call, || device.uuid())
            .map_err(|error| unknown(CallKind::Open, call, None, error))?;
        Ok(GpuHandle::new(self, device, GpuUuid(uuid.into())))
    }

    /// The GPU of this UUID, wherever it enumerates now.
    pub fn gpu_of(&self, uuid: &GpuUuid, calls: &mut Calls) -> Result<GpuHandle<'_>, Unknown> {
        let call = "nvmlDeviceGetHandleByUUID";
        let device = calls
            .run(call, || self.nvml()?.device_by_uuid(&*uuid.0))
            .map_err(|error| unknown(CallKind::Open, call, Some(uuid), error))?;
        Ok(GpuHandle::new(self, device, uuid.clone()))
    }

    /// The GPU at this PCI address, if it is the one of this UUID. No other GPU is looked at.
    pub fn gpu_at_address(
        &self,
        uuid: &GpuUuid,
        address: &str,
        calls: &mut Calls,
    ) -> Result<GpuHandle<'_>, Unknown> {
        let call = "nvmlDeviceGetHandleByPciBusId_v2";
        let device = calls
            .run(call, || self.nvml()?.device_by_pci_bus_id(address))
            .map_err(|error| unknown(CallKind::Open, call, Some(uuid), error))?;
        let call = "nvmlDeviceGetUUID";
        let found = calls
            .run(call, || device.uuid())
            .map_err(|error| unknown(CallKind::Open, call, Some(uuid), error))?;
        if *found != *uuid.0 {
            // Another card stands in that place now.
            return Err(Unknown {
                detail: Some(found),
                gpu: Some(uuid.clone()),
                call: Some(call),
                code: Some(0),
                ..Unknown::of(UnknownReason::GpuLost)
            });
        }
        Ok(GpuHandle::new(self, device, uuid.clone()))
    }

    fn nvml(&self) -> Result<&Nvml, NvmlError> {
        self.nvml.as_ref().ok_or(NvmlError::Uninitialized)
    }
}

impl Drop for Library {
    /// nvml-wrapper's own drop calls `nvmlShutdown` and panics where the library lacks it; a handle
    /// that cannot be shut down is kept until the process ends.
    fn drop(&mut self) {
        if let Some(nvml) = self.nvml.take()
            && nvml.lib().nvmlShutdown.is_err()
        {
            std::mem::forget(nvml);
        }
    }
}
