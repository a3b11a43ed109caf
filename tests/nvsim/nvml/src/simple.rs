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

/// Functions that answer one unsigned number.
macro_rules! single_numbers {
    ($($symbol:ident,)+) => {
        numbers! { $($symbol(value: c_uint);)+ }
    };
}

single_numbers! {
    nvmlDeviceGetIndex,
    nvmlDeviceGetMinorNumber,
    nvmlDeviceGetAccountingMode,
    nvmlDeviceGetAccountingBufferSize,
    nvmlDeviceGetPersistenceMode,
    nvmlDeviceGetVirtualizationMode,
    nvmlDeviceGetHostVgpuMode,
    nvmlDeviceIsMigDeviceHandle,
    nvmlDeviceGetDisplayActive,
    nvmlDeviceGetDisplayMode,
    nvmlDeviceGetComputeMode,
    nvmlDeviceGetPowerUsage,
    nvmlDeviceGetPowerManagementLimit,
    nvmlDeviceGetEnforcedPowerLimit,
    nvmlDeviceGetPerformanceState,
    nvmlDeviceGetArchitecture,
    nvmlDeviceGetBrand,
    // Not supported by this driver, and said so:
    nvmlDeviceGetFanSpeed,
    nvmlDeviceGetNumFans,
    nvmlDeviceGetNumGpuCores,
    nvmlDeviceGetMaxMigDeviceCount,
    nvmlDeviceGetGpuInstanceId,
    nvmlDeviceGetComputeInstanceId,
    nvmlDeviceGetMultiGpuBoard,
    nvmlDeviceGetBoardId,
    nvmlDeviceGetPowerState,
    nvmlDeviceGetPowerManagementMode,
    nvmlDeviceGetPowerManagementDefaultLimit,
    nvmlDeviceGetMaxPcieLinkGeneration,
    nvmlDeviceGetMaxPcieLinkWidth,
    nvmlDeviceGetCurrPcieLinkGeneration,
    nvmlDeviceGetCurrPcieLinkWidth,
    nvmlDeviceGetPcieReplayCounter,
    nvmlDeviceGetInforomConfigurationChecksum,
    nvmlDeviceGetMemoryBusWidth,
}

/// Functions that answer two.
macro_rules! number_pairs {
    ($($symbol:ident,)+) => {
        numbers! { $($symbol(one: c_uint, other: c_uint);)+ }
    };
}

number_pairs! {
    nvmlDeviceGetMigMode,
    nvmlDeviceGetEncoderUtilization,
    nvmlDeviceGetDecoderUtilization,
    // Not supported by this driver, and said so:
    nvmlDeviceGetPowerManagementLimitConstraints,
    nvmlDeviceGetEccMode,
    nvmlDeviceGetGspFirmwareMode,
    nvmlDeviceGetDriverModel,
    nvmlDeviceGetDriverModel_v2,
}

numbers! {
    nvmlDeviceGetTotalEnergyConsumption(millijoules: c_ulonglong);
    nvmlDeviceGetCudaComputeCapability(major: c_int, minor: c_int);
    // Not supported by this driver, and said so:
    nvmlDeviceGetCurrentClocksThrottleReasons(reasons: c_ulonglong);
    nvmlDeviceGetCurrentClocksEventReasons(reasons: c_ulonglong);
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
