//! Accounting: the pid list and the statistics of one pid.

use std::os::raw::c_uint;

use nvml_wrapper_sys::bindings::{nvmlAccountingStats_t, nvmlDevice_t, nvmlReturn_t};

use crate::abi::AccountingStatsV2;
use crate::place::{Place, Rows, length};
use crate::processes::fill_list;
use crate::session::{INVALID_ARGUMENT, ask_device, code, gpu_of, number};

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetAccountingPids(
    device: nvmlDevice_t,
    count: *mut c_uint,
    pids: *mut c_uint,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the count, or null.
    let count = unsafe { Place::new(count) };
    code(count.get().and_then(|capacity| {
        if pids.is_null() && capacity > 0 {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: NVML's contract: room for as many pids as `count` says.
        let pids = unsafe { Rows::new(pids, length(capacity)) };
        let gpu = gpu_of(device)?;
        fill_list("nvmlDeviceGetAccountingPids", gpu, count, pids, &[], |[pid]: [u64; 1]| {
            c_uint::try_from(pid).unwrap_or(c_uint::MAX)
        })
    }))
}

/// A version's struct, with the six numbers that all versions have in the same places of the answer.
macro_rules! stats {
    ($stats:ident from $answer:ident { $($field:ident: $value:expr),+ $(,)? }) => {
        $stats {
            gpuUtilization: number(&$answer, 0)?,
            memoryUtilization: number(&$answer, 1)?,
            maxMemoryUsage: number(&$answer, 2)?,
            time: number(&$answer, 3)?,
            startTime: number(&$answer, 4)?,
            isRunning: number(&$answer, 5)?,
            $($field: $value),+
        }
    };
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetAccountingStats(
    device: nvmlDevice_t,
    pid: c_uint,
    stats: *mut nvmlAccountingStats_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the struct, or null.
    let stats = unsafe { Place::new(stats) };
    code(stats.check().and_then(|()| {
        let answer = ask_device("nvmlDeviceGetAccountingStats", device, &[u64::from(pid)])?;
        stats.set(stats!(nvmlAccountingStats_t from answer { reserved: [0; 5] }))
    }))
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetAccountingStats_v2(
    device: nvmlDevice_t,
    stats: *mut AccountingStatsV2,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a struct with its pid set, or null.
    let stats = unsafe { Place::new(stats) };
    code(stats.get().and_then(|AccountingStatsV2 { pid, .. }| {
        let answer = ask_device("nvmlDeviceGetAccountingStats_v2", device, &[u64::from(pid)])?;
        stats.set(stats!(AccountingStatsV2 from answer {
            pid: pid,
            sampleCount: number(&answer, 6)?,
            sumGpuUtil: number(&answer, 7)?,
            sumFbUtil: number(&answer, 8)?,
        }))
    }))
}
