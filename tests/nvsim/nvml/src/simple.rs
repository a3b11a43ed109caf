//! Device functions that differ only in their name and in what they fill.

use std::os::raw::{c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t, nvmlUtilization_t};

use crate::place::Place;
use crate::session::{ask_device, code, number};

/// Functions that answer numbers, in the order of their places.
macro_rules! numbers {
    ($($symbol:ident($($place:ident: $type:ty),+);)+) => {$(
        // SAFETY: the name is NVML's own, defined once in this library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(
            device: nvmlDevice_t,
            $($place: *mut $type),+
        ) -> nvmlReturn_t {
            // SAFETY: NVML's contract: places for the numbers, or null.
            $(let $place = unsafe { Place::new($place) };)+
            code((|| {
                $($place.check()?;)+
                let answer = ask_device(stringify!($symbol), device, &[])?;
                let mut nth = 0..;
                $($place.set(number(&answer, nth.next().unwrap_or(usize::MAX))?)?;)+
                Ok(())
            })())
        }
    )+};
}

numbers! {
    nvmlDeviceGetIndex(index: c_uint);
    nvmlDeviceGetMinorNumber(minor: c_uint);
    nvmlDeviceGetAccountingMode(mode: c_uint);
    nvmlDeviceGetAccountingBufferSize(entries: c_uint);
    nvmlDeviceGetPersistenceMode(mode: c_uint);
    nvmlDeviceGetMigMode(current: c_uint, pending: c_uint);
    nvmlDeviceGetVirtualizationMode(mode: c_uint);
    nvmlDeviceGetHostVgpuMode(mode: c_uint);
    nvmlDeviceIsMigDeviceHandle(is_mig: c_uint);
    nvmlDeviceGetDisplayActive(active: c_uint);
    nvmlDeviceGetDisplayMode(mode: c_uint);
    nvmlDeviceGetComputeMode(mode: c_uint);
    nvmlDeviceGetPowerUsage(milliwatts: c_uint);
    nvmlDeviceGetPowerManagementLimit(milliwatts: c_uint);
    nvmlDeviceGetEnforcedPowerLimit(milliwatts: c_uint);
    nvmlDeviceGetTotalEnergyConsumption(millijoules: c_ulonglong);
    nvmlDeviceGetPerformanceState(state: c_uint);
    nvmlDeviceGetEncoderUtilization(percent: c_uint, period_us: c_uint);
    nvmlDeviceGetDecoderUtilization(percent: c_uint, period_us: c_uint);
    nvmlDeviceGetCudaComputeCapability(major: c_int, minor: c_int);
    nvmlDeviceGetArchitecture(architecture: c_uint);
    nvmlDeviceGetBrand(brand: c_uint);
    // Not supported by this driver, and said so:
    nvmlDeviceGetFanSpeed(percent: c_uint);
    nvmlDeviceGetNumFans(fans: c_uint);
    nvmlDeviceGetNumGpuCores(cores: c_uint);
    nvmlDeviceGetMaxMigDeviceCount(count: c_uint);
    nvmlDeviceGetGpuInstanceId(instance: c_uint);
    nvmlDeviceGetComputeInstanceId(instance: c_uint);
    nvmlDeviceGetMultiGpuBoard(multi: c_uint);
    nvmlDeviceGetBoardId(board: c_uint);
    nvmlDeviceGetPowerState(state: c_uint);
    nvmlDeviceGetPowerManagementMode(mode: c_uint);
    nvmlDeviceGetPowerManagementDefaultLimit(milliwatts: c_uint);
    nvmlDeviceGetPowerManagementLimitConstraints(low: c_uint, high: c_uint);
    nvmlDeviceGetMaxPcieLinkGeneration(generation: c_uint);
    nvmlDeviceGetMaxPcieLinkWidth(width: c_uint);
    nvmlDeviceGetCurrPcieLinkGeneration(generation: c_uint);
    nvmlDeviceGetCurrPcieLinkWidth(width: c_uint);
    nvmlDeviceGetPcieReplayCounter(replays: c_uint);
    nvmlDeviceGetEccMode(current: c_uint, pending: c_uint);
    nvmlDeviceGetInforomConfigurationChecksum(checksum: c_uint);
    nvmlDeviceGetCurrentClocksThrottleReasons(reasons: c_ulonglong);
    nvmlDeviceGetCurrentClocksEventReasons(reasons: c_ulonglong);
    nvmlDeviceGetGspFirmwareMode(enabled: c_uint, default_mode: c_uint);
    nvmlDeviceGetDriverModel(current: c_uint, pending: c_uint);
    nvmlDeviceGetDriverModel_v2(current: c_uint, pending: c_uint);
    nvmlDeviceGetMemoryBusWidth(bits: c_uint);
}

/// Functions that set or ask one number and answer nothing.
macro_rules! orders {
    ($($symbol:ident($($argument:ident),*);)+) => {$(
        // SAFETY: the name is NVML's own, defined once in this library.
        #[unsafe(no_mangle)]
        extern "C" fn $symbol(device: nvmlDevice_t, $($argument: c_uint),*) -> nvmlReturn_t {
            let arguments: &[u64] = &[$(u64::from($argument)),*];
            code(ask_device(stringify!($symbol), device, arguments).map(drop))
        }
    )+};
}

orders! {
    nvmlDeviceSetAccountingMode(mode);
    nvmlDeviceClearAccountingPids();
    nvmlDeviceSetPersistenceMode(mode);
    nvmlDeviceSetComputeMode(mode);
}

/// Functions that take one number, or two, and answer one.
macro_rules! lookups {
    ($($symbol:ident($($argument:ident),+) -> $type:ty;)+) => {$(
        // SAFETY: the name is NVML's own, defined once in this library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(
            device: nvmlDevice_t,
            $($argument: c_uint,)+
            value: *mut $type,
        ) -> nvmlReturn_t {
            // SAFETY: NVML's contract: a place for the number, or null.
            let value = unsafe { Place::new(value) };
            code(value.check().and_then(|()| {
                let arguments = [$(u64::from($argument)),+];
                let answer = ask_device(stringify!($symbol), device, &arguments)?;
                value.set(number(&answer, 0)?)
            }))
        }
    )+};
}

lookups! {
    nvmlDeviceGetTemperature(sensor) -> c_uint;
    // Not supported by this driver, and said so:
    nvmlDeviceGetTemperatureThreshold(kind) -> c_uint;
    nvmlDeviceGetClockInfo(kind) -> c_uint;
    nvmlDeviceGetMaxClockInfo(kind) -> c_uint;
    nvmlDeviceGetClock(kind, id) -> c_uint;
    nvmlDeviceGetApplicationsClock(kind) -> c_uint;
    nvmlDeviceGetPcieThroughput(counter) -> c_uint;
    nvmlDeviceGetFanSpeed_v2(fan) -> c_uint;
    nvmlDeviceGetTotalEccErrors(kind, counter) -> c_ulonglong;
    nvmlDeviceGetMemoryErrorCounter(kind, counter) -> c_ulonglong;
    nvmlDeviceGetNvLinkState(link) -> c_uint;
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUtilizationRates(
    device: nvmlDevice_t,
    utilization: *mut nvmlUtilization_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the struct, or null.
    let utilization = unsafe { Place::new(utilization) };
    code(utilization.check().and_then(|()| {
        let answer = ask_device("nvmlDeviceGetUtilizationRates", device, &[])?;
        let (gpu, memory) = (number(&answer, 0)?, number(&answer, 1)?);
        utilization.set(nvmlUtilization_t { gpu, memory })
    }))
}
