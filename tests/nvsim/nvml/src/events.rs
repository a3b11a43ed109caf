//! Event sets.

use std::os::raw::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t, nvmlReturn_t};
use nvsim::protocol::NO_GPU;

use crate::place::Place;
use crate::session::{Code, INVALID_ARGUMENT, ask, code, gpu_of, handle, number};

/// A set's handle is its number as an address: never null, never read.
fn set_number(set: nvmlEventSet_t) -> Result<u64, Code> {
    if set.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    u64::try_from(set.addr()).map_err(|_| INVALID_ARGUMENT)
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlEventSetCreate(set: *mut nvmlEventSet_t) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the handle, or null.
    let set = unsafe { Place::new(set) };
    code(set.check().and_then(|()| {
        let answer = ask("nvmlEventSetCreate", NO_GPU, &[])?;
        set.set(std::ptr::without_provenance_mut(number(&answer, 0)?))
    }))
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
extern "C" fn nvmlEventSetFree(set: nvmlEventSet_t) -> nvmlReturn_t {
    code(set_number(set).and_then(|set| ask("nvmlEventSetFree", NO_GPU, &[set]).map(drop)))
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceRegisterEvents(
    device: nvmlDevice_t,
    types: c_ulonglong,
    set: nvmlEventSet_t,
) -> nvmlReturn_t {
    code(set_number(set).and_then(|set| {
        let arguments = [set, types, u64::from(gpu_of(device)?)];
        ask("nvmlDeviceRegisterEvents", NO_GPU, &arguments).map(drop)
    }))
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetSupportedEventTypes(
    device: nvmlDevice_t,
    types: *mut c_ulonglong,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the types, or null.
    let types = unsafe { Place::new(types) };
    code(types.check().and_then(|()| {
        gpu_of(device)?;
        let answer = ask("nvmlDeviceGetSupportedEventTypes", NO_GPU, &[])?;
        types.set(number(&answer, 0)?)
    }))
}

/// Both versions of the wait fill the same struct; only the second looks at MIG instances.
macro_rules! waits {
    ($($symbol:ident),+) => {$(
        // SAFETY: the name is NVML's own, defined once in this library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(
            set: nvmlEventSet_t,
            event: *mut nvmlEventData_t,
            timeout_ms: c_uint,
        ) -> nvmlReturn_t {
            // SAFETY: NVML's contract: a place for the event, or null.
            let event = unsafe { Place::new(event) };
            code(event.check().and_then(|()| {
                let arguments = [set_number(set)?, u64::from(timeout_ms)];
                let answer = ask(stringify!($symbol), NO_GPU, &arguments)?;
                event.set(nvmlEventData_t {
                    device: handle(number(&answer, 0)?)?,
                    eventType: number(&answer, 1)?,
                    eventData: number(&answer, 2)?,
                    gpuInstanceId: c_uint::MAX,
                    computeInstanceId: c_uint::MAX,
                })
            }))
        }
    )+};
}

waits!(nvmlEventSetWait, nvmlEventSetWait_v2);
