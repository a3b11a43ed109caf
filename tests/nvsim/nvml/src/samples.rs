//! Utilization samples: of processes, of the device, and field values.

use std::os::raw::{c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlFieldValue_t, nvmlProcessUtilizationInfo_v1_t,
    nvmlProcessUtilizationSample_t, nvmlProcessesUtilizationInfo_v1_t, nvmlReturn_t, nvmlSample_t,
    nvmlValue_t,
};

use crate::abi::PROCESSES_UTILIZATION_V1;
use crate::place::{Place, Rows, length};
use crate::processes::{fill_list, take_rows};
use crate::session::{INVALID_ARGUMENT, ask, ask_raw, code, gpu_of, number};

/// `NVML_VALUE_TYPE_UNSIGNED_INT` and `…_UNSIGNED_LONG_LONG`.
const UNSIGNED_INT: c_uint = 1;
const UNSIGNED_LONG_LONG: c_uint = 3;

fn small(value: u64) -> c_uint {
    c_uint::try_from(value).unwrap_or(c_uint::MAX)
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: nvmlDevice_t,
    samples: *mut nvmlProcessUtilizationSample_t,
    count: *mut c_uint,
    since_us: c_ulonglong,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the count, or null.
    let count = unsafe { Place::new(count) };
    code(count.get().and_then(|capacity| {
        // SAFETY: NVML's contract: room for as many samples as `count` says, or null.
        let samples = unsafe { Rows::new(samples, length(capacity)) };
        let symbol = "nvmlDeviceGetProcessUtilization";
        fill_list(symbol, gpu_of(device)?, count, samples, &[since_us], process_sample)
    }))
}

fn process_sample([pid, wall_us, gpu, memory]: [u64; 4]) -> nvmlProcessUtilizationSample_t {
    nvmlProcessUtilizationSample_t {
        pid: small(pid),
        timeStamp: wall_us,
        smUtil: small(gpu),
        memUtil: small(memory),
        encUtil: 0,
        decUtil: 0,
    }
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetProcessesUtilizationInfo(
    device: nvmlDevice_t,
    list: *mut nvmlProcessesUtilizationInfo_v1_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a struct with its version, time and array set, or null.
    let list = unsafe { Place::new(list) };
    code((|| {
        let gpu = gpu_of(device)?;
        if list.version()? != PROCESSES_UTILIZATION_V1 {
            return Err(crate::memory::version_mismatch(gpu));
        }
        let mut asked = list.get()?;
        // SAFETY: NVML's contract: the array has as many rows as the struct says, or is null.
        let rows = unsafe { Rows::new(asked.procUtilArray, length(asked.processSamplesCount)) };
        let symbol = "nvmlDeviceGetProcessesUtilizationInfo";
        let answer = ask_raw(symbol, gpu, &[rows.capacity(), asked.lastSeenTimeStamp])?;
        asked.processSamplesCount = take_rows(&answer, rows, process_information)?;
        list.set(asked)?;
        if answer.code == 0 { Ok(()) } else { Err(answer.code) }
    })())
}

fn process_information([pid, wall_us, gpu, memory]: [u64; 4]) -> nvmlProcessUtilizationInfo_v1_t {
    nvmlProcessUtilizationInfo_v1_t {
        timeStamp: wall_us,
        pid: small(pid),
        smUtil: small(gpu),
        memUtil: small(memory),
        encUtil: 0,
        decUtil: 0,
        jpgUtil: 0,
        ofaUtil: 0,
    }
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetSamples(
    device: nvmlDevice_t,
    kind: c_uint,
    since_us: c_ulonglong,
    value_type: *mut c_uint,
    count: *mut c_uint,
    samples: *mut nvmlSample_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the type, or null.
    let value_type = unsafe { Place::new(value_type) };
    // SAFETY: NVML's contract: a place for the count, or null.
    let count = unsafe { Place::new(count) };
    code((|| {
        value_type.check()?;
        count.check()?;
        let capacity = if samples.is_null() { 0 } else { length(count.get()?) };
        // SAFETY: NVML's contract: room for as many samples as `count` says; null asks how many.
        let rows = unsafe { Rows::new(samples, capacity) };
        let arguments = [u64::from(kind), since_us, rows.capacity()];
        let answer = ask("nvmlDeviceGetSamples", gpu_of(device)?, &arguments)?;
        value_type.set(UNSIGNED_INT)?;
        if samples.is_null() {
            return count.set(number(&answer, 0)?);
        }
        let taken = take_rows(&answer, rows, |[wall_us, value]: [u64; 2]| nvmlSample_t {
            timeStamp: wall_us,
            sampleValue: nvmlValue_t { ullVal: value },
        })?;
        count.set(taken)
    })())
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: nvmlDevice_t,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t {
    code((|| {
        let count = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
        if values.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: NVML's contract: as many values as `count` says, their fields set.
        let values = unsafe { Rows::new(values, count) };
        let gpu = gpu_of(device)?;
        for index in 0..count {
            let mut value = values.get(index)?;
            let arguments = [u64::from(value.fieldId), u64::from(value.scopeId)];
            let answer = ask_raw("nvmlDeviceGetFieldValues", gpu, &arguments)?;
            // Each value has a code of its own; the call as a whole succeeds.
            value.nvmlReturn = answer.code;
            value.valueType = UNSIGNED_LONG_LONG;
            value.value = nvmlValue_t { ullVal: 0 };
            value.latencyUsec = 0;
            value.timestamp = 0;
            if answer.code == 0 {
                value.value = nvmlValue_t { ullVal: number(&answer, 0)? };
                value.timestamp = number(&answer, 1)?;
            }
            values.set(index, value)?;
        }
        Ok(())
    })())
}
