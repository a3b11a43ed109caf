//! Initialisation, versions, texts, and finding devices.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};
use nvsim::protocol::NO_GPU;

use crate::place::{Place, Rows, length, text_argument};
use crate::session::{
    INVALID_ARGUMENT, ask, ask_device, ask_text, code, handle, initialise, number, shut_down,
};

// SAFETY (of every export here): the names are NVML's own, defined once in this library.
#[unsafe(no_mangle)]
extern "C" fn nvmlInit() -> nvmlReturn_t {
    code(initialise("nvmlInit", 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    code(initialise("nvmlInit_v2", 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(flags: c_uint) -> nvmlReturn_t {
    code(initialise("nvmlInitWithFlags", u64::from(flags)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    code(shut_down())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char {
    error_text(result).as_ptr()
}

/// What a return code means, in our words.
const fn error_text(result: nvmlReturn_t) -> &'static CStr {
    match result {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid argument",
        3 => c"Not supported",
        4 => c"No permission",
        5 => c"Already initialized",
        6 => c"Not found",
        7 => c"Insufficient size",
        8 => c"Insufficient external power",
        9 => c"Driver not loaded",
        10 => c"Timeout",
        11 => c"Interrupt request issue",
        12 => c"Library not found",
        13 => c"Function not found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"Blocked by the operating system",
        18 => c"Driver and library versions differ",
        19 => c"In use",
        20 => c"Insufficient memory",
        21 => c"No data",
        22 => c"vGPU ECC not supported",
        23 => c"Insufficient resources",
        24 => c"Frequency not supported",
        25 => c"Argument version mismatch",
        26 => c"Deprecated",
        27 => c"Not ready",
        28 => c"GPU not found",
        29 => c"Invalid state",
        30 => c"Reset type not supported",
        _ => c"Unknown error",
    }
}

/// Functions that fill a text: of the system, or of a device.
macro_rules! texts {
    (system: $($system:ident),+; device: $($device:ident),+;) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $system(text: *mut c_char, size: c_uint) -> nvmlReturn_t {
                // SAFETY: NVML's contract: `text` has room for `size` bytes, or is null.
                let text = unsafe { Rows::new(text, length(size)) };
                code(ask(stringify!($system), NO_GPU, &[])
                    .and_then(|answer| text.set_text(&answer.text)))
            }
        )+
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $device(
                device: nvmlDevice_t,
                text: *mut c_char,
                size: c_uint,
            ) -> nvmlReturn_t {
                // SAFETY: NVML's contract: `text` has room for `size` bytes, or is null.
                let text = unsafe { Rows::new(text, length(size)) };
                code(ask_device(stringify!($device), device, &[])
                    .and_then(|answer| text.set_text(&answer.text)))
            }
        )+
    };
}

texts! {
    system: nvmlSystemGetDriverVersion, nvmlSystemGetNVMLVersion;
    device: nvmlDeviceGetName, nvmlDeviceGetUUID, nvmlDeviceGetSerial;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetProcessName(
    pid: c_uint,
    name: *mut c_char,
    size: c_uint,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: `name` has room for `size` bytes, or is null.
    let name = unsafe { Rows::new(name, length(size)) };
    let answer = ask("nvmlSystemGetProcessName", NO_GPU, &[u64::from(pid)]);
    code(answer.and_then(|answer| name.set_text(&answer.text)))
}

/// Functions of the system that answer one number.
macro_rules! system_numbers {
    ($($symbol:ident: $type:ty;)+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(value: *mut $type) -> nvmlReturn_t {
            // SAFETY: NVML's contract: a place for the number, or null.
            let value = unsafe { Place::new(value) };
            code(value.check()
                .and_then(|()| ask(stringify!($symbol), NO_GPU, &[]))
                .and_then(|answer| value.set(number(&answer, 0)?)))
        }
    )+};
}

system_numbers! {
    nvmlSystemGetCudaDriverVersion: c_int;
    nvmlSystemGetCudaDriverVersion_v2: c_int;
    nvmlDeviceGetCount: c_uint;
    nvmlDeviceGetCount_v2: c_uint;
}

macro_rules! handles_by_index {
    ($($symbol:ident),+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(index: c_uint, device: *mut nvmlDevice_t) -> nvmlReturn_t {
            // SAFETY: NVML's contract: a place for the handle, or null.
            let device = unsafe { Place::new(device) };
            code(device.check().and_then(|()| {
                if index == NO_GPU {
                    return Err(INVALID_ARGUMENT);
                }
                ask(stringify!($symbol), index, &[])?;
                device.set(handle(u64::from(index))?)
            }))
        }
    )+};
}

handles_by_index!(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

macro_rules! handles_by_text {
    ($($symbol:ident),+) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(
            text: *const c_char,
            device: *mut nvmlDevice_t,
        ) -> nvmlReturn_t {
            // SAFETY: NVML's contract: a place for the handle, or null.
            let device = unsafe { Place::new(device) };
            // SAFETY: NVML's contract: a NUL-terminated text, or null.
            let text = unsafe { text_argument(text) };
            code(device.check().and_then(|()| {
                let answer = ask_text(stringify!($symbol), text?)?;
                device.set(handle(number(&answer, 0)?)?)
            }))
        }
    )+};
}

handles_by_text!(
    nvmlDeviceGetHandleByUUID,
    nvmlDeviceGetHandleBySerial,
    nvmlDeviceGetHandleByPciBusId,
    nvmlDeviceGetHandleByPciBusId_v2
);
