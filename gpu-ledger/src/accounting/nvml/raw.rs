//! The calls that nvml-wrapper 0.13 lacks or gets wrong, through its own library handle.
//!
//! - `nvmlDeviceGetAccountingPids`: the wrapper does not trim its list to the returned count.
//! - `nvmlDeviceGetAccountingMode`: the wrapper reports an unexpected mode and an unnamed return code
//!   as the same error.
//! - `nvmlDeviceGetMemoryInfo`: the wrapper asks for the second version alone, which old drivers lack.
//! - `nvmlDeviceGetAccountingStats_v2`, `nvmlDeviceGetProcessesUtilizationInfo`: not wrapped.
#![expect(
    unsafe_code,
    reason = "the driver's C ABI; every unsafe call of this crate to it is here"
)]

use std::mem::size_of;

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlMemory_t, nvmlProcessUtilizationInfo_v1_t, nvmlProcessesUtilizationInfo_v1_t,
    nvmlReturn_t,
};

/// `nvmlAccountingStats_v2_t` of nvml.h 13.5 (driver 610 on). It has no version word; `pid` goes in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatsV2 {
    pub(super) pid: u32,
    pub(super) is_running: u32,
    pub(super) gpu_utilization: u32,
    pub(super) memory_utilization: u32,
    pub(super) max_memory_usage: u64,
    pub(super) sample_count: u64,
    pub(super) sum_gpu_util: u64,
    pub(super) sum_fb_util: u64,
    pub(super) time: u64,
    pub(super) start_time: u64,
}

const _: () = assert!(size_of::<StatsV2>() == 64);
const _: () = assert!(std::mem::offset_of!(StatsV2, max_memory_usage) == 16);
const _: () = assert!(std::mem::offset_of!(StatsV2, time) == 48);
const _: () = assert!(std::mem::offset_of!(StatsV2, start_time) == 56);
const _: () = assert!(size_of::<nvmlProcessUtilizationInfo_v1_t>() == 40);
const _: () = assert!(size_of::<nvmlProcessesUtilizationInfo_v1_t>() == 24);

/// `nvmlProcessesUtilizationInfo_v1`: structure size with its version in the top byte.
const PROCESSES_UTILIZATION_V1: u32 = 0x0100_0018;

/// `nvmlDeviceGetAccountingStats_v2`. Valid only while the [`Nvml`] it came from is.
pub(super) type StatsV2Call = unsafe extern "C" fn(nvmlDevice_t, *mut StatsV2) -> nvmlReturn_t;

/// Looks up the second version of the row call, which only drivers from 610 on have.
pub(super) fn stats_v2_call(nvml: &Nvml) -> Option<StatsV2Call> {
    // SAFETY: the symbol, where it exists, has exactly this C type in nvml.h.
    let symbol =
        unsafe { nvml.lib().__library.get::<StatsV2Call>(b"nvmlDeviceGetAccountingStats_v2\0") };
    symbol.ok().map(|symbol| *symbol)
}

/// Whether the library declares itself a simulation.
pub(super) fn is_simulated(nvml: &Nvml) -> bool {
    // SAFETY: the symbol is only looked up, never read or called.
    let symbol = unsafe { nvml.lib().__library.get::<*const u8>(b"gpu_ledger_simulated\0") };
    symbol.is_ok()
}

/// One row by the second version of the call.
pub(super) fn stats_v2(
    device: &Device<'_>,
    call: StatsV2Call,
    pid: u32,
) -> Result<StatsV2, NvmlError> {
    let mut stats = StatsV2 { pid, ..StatsV2::default() };
    // SAFETY: the handle lives as long as `device`.
    let handle = unsafe { device.handle() };
    // SAFETY: `call` came from the library `device` belongs to; `stats` is its structure, writable.
    nvml_try(unsafe { call(handle, &raw mut stats) })?;
    Ok(stats)
}

/// Device memory by the first version of the call.
pub(super) fn memory_v1(device: &Device<'_>) -> Result<nvmlMemory_t, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    let mut memory = nvmlMemory_t { total: 0, free: 0, used: 0 };
    // SAFETY: the handle lives as long as `device`.
    let handle = unsafe { device.handle() };
    // SAFETY: `memory` is the structure of this version, writable for the length of the call.
    nvml_try(unsafe { call(handle, &raw mut memory) })?;
    Ok(memory)
}

/// The mode as a bare number.
pub(super) fn accounting_mode(device: &Device<'_>) -> Result<u32, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetAccountingMode.as_ref())?;
    let mut mode = 0;
    // SAFETY: the handle lives as long as `device`.
    let handle = unsafe { device.handle() };
    // SAFETY: the mode is a C enum of 32 bits, writable.
    nvml_try(unsafe { call(handle, &raw mut mode) })?;
    Ok(mode)
}

/// The pid list, into a buffer that is grown by the caller. Returns the number of entries filled.
pub(super) fn accounting_pids(device: &Device<'_>, buffer: &mut [u32]) -> Result<usize, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetAccountingPids.as_ref())?;
    let capacity = u32::try_from(buffer.len()).map_err(|_| NvmlError::InvalidArg)?;
    let mut count = capacity;
    // SAFETY: the handle lives as long as `device`.
    let handle = unsafe { device.handle() };
    // SAFETY: `buffer` has room for `count` entries, and both are writable.
    nvml_try(unsafe { call(handle, &raw mut count, buffer.as_mut_ptr()) })?;
    usize::try_from(count.min(capacity)).map_err(|_| NvmlError::InvalidArg)
}

/// One process's entry of `nvmlDeviceGetProcessesUtilizationInfo`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessUtilization {
    pub(super) pid: u32,
    pub(super) timestamp_us: u64,
    pub(super) sm_percent: u32,
}

/// Process samples by the newer call (driver 550 on), where the older one is not supported.
pub(super) fn processes_utilization(
    device: &Device<'_>,
    last_seen_us: u64,
    capacity: u32,
) -> Result<Vec<ProcessUtilization>, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetProcessesUtilizationInfo.as_ref())?;
    let empty = nvmlProcessUtilizationInfo_v1_t {
        timeStamp: 0,
        pid: 0,
        smUtil: 0,
        memUtil: 0,
        encUtil: 0,
        decUtil: 0,
        jpgUtil: 0,
        ofaUtil: 0,
    };
    let room = usize::try_from(capacity).map_err(|_| NvmlError::InvalidArg)?;
    let mut entries = vec![empty; room];
    let mut question = nvmlProcessesUtilizationInfo_v1_t {
        version: PROCESSES_UTILIZATION_V1,
        processSamplesCount: capacity,
        lastSeenTimeStamp: last_seen_us,
        procUtilArray: entries.as_mut_ptr(),
    };
    // SAFETY: the handle lives as long as `device`.
    let handle = unsafe { device.handle() };
    // SAFETY: the structure carries its version and points to `processSamplesCount` writable entries,
    // which outlive the call.
    nvml_try(unsafe { call(handle, &raw mut question) })?;
    let filled = question.processSamplesCount.min(capacity);
    entries.truncate(usize::try_from(filled).map_err(|_| NvmlError::InvalidArg)?);
    let entries = entries.iter().map(|entry| ProcessUtilization {
        pid: entry.pid,
        timestamp_us: entry.timeStamp,
        sm_percent: entry.smUtil,
    });
    Ok(entries.collect())
}
