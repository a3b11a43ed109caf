//! Lists of running processes.

use std::os::raw::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlProcessDetail_v1_t, nvmlProcessDetailList_v1_t, nvmlProcessInfo_t,
    nvmlProcessInfo_v1_t, nvmlReturn_t,
};
use nvsim::protocol::Answer;

use crate::abi::PROCESS_DETAIL_LIST_V1;
use crate::place::{Place, Rows, length};
use crate::session::{Code, INSUFFICIENT_SIZE, INVALID_ARGUMENT, ask_raw, code, gpu_of, number};

/// Marks a process that belongs to no MIG instance.
const NO_INSTANCE: c_uint = c_uint::MAX;

/// NVML's two-step protocol: `count` says how much room there is, and is told how much is needed
/// or was used.
pub(crate) fn fill_list<T, const WIDTH: usize>(
    symbol: &str,
    gpu: u32,
    count: Place<c_uint>,
    rows: Rows<T>,
    more: &[u64],
    make: impl Fn([u64; WIDTH]) -> T,
) -> Result<(), Code> {
    let arguments = [&[rows.capacity()], more].concat();
    let answer = ask_raw(symbol, gpu, &arguments)?;
    let listed = take_rows(&answer, rows, make)?;
    count.set(listed)?;
    if answer.code == 0 { Ok(()) } else { Err(answer.code) }
}

/// Writes the answer's rows; the number of rows, or of those that room is needed for.
pub(crate) fn take_rows<T, const WIDTH: usize>(
    answer: &Answer,
    rows: Rows<T>,
    make: impl Fn([u64; WIDTH]) -> T,
) -> Result<c_uint, Code> {
    if answer.code == INSUFFICIENT_SIZE {
        // A code that a fault made up comes without a number.
        return if answer.numbers.is_empty() { Err(answer.code) } else { number(answer, 0) };
    }
    if answer.code != 0 {
        return Err(answer.code);
    }
    let (whole, _) = answer.numbers.as_chunks::<WIDTH>();
    for (index, row) in whole.iter().enumerate() {
        rows.set(index, make(*row))?;
    }
    c_uint::try_from(whole.len()).map_err(|_| INVALID_ARGUMENT)
}

fn pid(value: u64) -> c_uint {
    c_uint::try_from(value).unwrap_or(c_uint::MAX)
}

/// Lists of one kind of process in one of the two layouts.
macro_rules! lists {
    ($($symbol:ident: $row:ty = $make:expr;)+) => {$(
        // SAFETY: the name is NVML's own, defined once in this library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(
            device: nvmlDevice_t,
            count: *mut c_uint,
            rows: *mut $row,
        ) -> nvmlReturn_t {
            // SAFETY: NVML's contract: a place for the count, or null.
            let count = unsafe { Place::new(count) };
            code(count.get().and_then(|capacity| {
                if rows.is_null() && capacity > 0 {
                    return Err(INVALID_ARGUMENT);
                }
                // SAFETY: NVML's contract: room for as many rows as `count` says.
                let rows = unsafe { Rows::new(rows, length(capacity)) };
                fill_list(stringify!($symbol), gpu_of(device)?, count, rows, &[], $make)
            }))
        }
    )+};
}

fn v1([process, bytes]: [u64; 2]) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t { pid: pid(process), usedGpuMemory: bytes }
}

fn v2([process, bytes]: [u64; 2]) -> nvmlProcessInfo_t {
    nvmlProcessInfo_t {
        pid: pid(process),
        usedGpuMemory: bytes,
        gpuInstanceId: NO_INSTANCE,
        computeInstanceId: NO_INSTANCE,
    }
}

lists! {
    nvmlDeviceGetComputeRunningProcesses: nvmlProcessInfo_v1_t = v1;
    nvmlDeviceGetComputeRunningProcesses_v2: nvmlProcessInfo_t = v2;
    nvmlDeviceGetComputeRunningProcesses_v3: nvmlProcessInfo_t = v2;
    nvmlDeviceGetGraphicsRunningProcesses: nvmlProcessInfo_v1_t = v1;
    nvmlDeviceGetGraphicsRunningProcesses_v2: nvmlProcessInfo_t = v2;
    nvmlDeviceGetGraphicsRunningProcesses_v3: nvmlProcessInfo_t = v2;
    nvmlDeviceGetMPSComputeRunningProcesses: nvmlProcessInfo_v1_t = v1;
    nvmlDeviceGetMPSComputeRunningProcesses_v2: nvmlProcessInfo_t = v2;
    nvmlDeviceGetMPSComputeRunningProcesses_v3: nvmlProcessInfo_t = v2;
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetRunningProcessDetailList(
    device: nvmlDevice_t,
    list: *mut nvmlProcessDetailList_v1_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a struct with its version, mode and array set, or null.
    let list = unsafe { Place::new(list) };
    code((|| {
        let symbol = "nvmlDeviceGetRunningProcessDetailList";
        let gpu = gpu_of(device)?;
        if list.version()? != PROCESS_DETAIL_LIST_V1 {
            return Err(crate::memory::version_mismatch(gpu));
        }
        let mut asked = list.get()?;
        // SAFETY: NVML's contract: the array has as many rows as the struct says, or is null.
        let rows = unsafe { Rows::new(asked.procArray, length(asked.numProcArrayEntries)) };
        let answer = ask_raw(symbol, gpu, &[rows.capacity(), u64::from(asked.mode)])?;
        asked.numProcArrayEntries = take_rows(&answer, rows, detail)?;
        list.set(asked)?;
        if answer.code == 0 { Ok(()) } else { Err(answer.code) }
    })())
}

fn detail([process, bytes]: [u64; 2]) -> nvmlProcessDetail_v1_t {
    nvmlProcessDetail_v1_t {
        pid: pid(process),
        usedGpuMemory: bytes,
        gpuInstanceId: NO_INSTANCE,
        computeInstanceId: NO_INSTANCE,
        // No confidential computing here: "not available", as NVML marks it.
        usedGpuCcProtectedMemory: u64::MAX,
    }
}
