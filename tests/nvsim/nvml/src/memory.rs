//! Device memory, and structs with a version word.

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlMemory_t, nvmlMemory_v2_t, nvmlReturn_t, nvmlTemperature_v1_t,
};

use crate::abi::{MEMORY_V2, TEMPERATURE_V1};
use crate::place::Place;
use crate::session::{Code, ask_device, ask_raw, code, gpu_of, number};

/// The code for a struct of another version: 25, or what a fault says older drivers give.
pub(crate) fn version_mismatch(gpu: u32) -> Code {
    // Anything but an answer is more to the point than the version.
    ask_raw("nvsimStructVersion", gpu, &[]).map_or_else(|code| code, |answer| answer.code)
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo(
    device: nvmlDevice_t,
    memory: *mut nvmlMemory_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the struct, or null.
    let memory = unsafe { Place::new(memory) };
    code(memory.check().and_then(|()| {
        let answer = ask_device("nvmlDeviceGetMemoryInfo", device, &[])?;
        memory.set(nvmlMemory_t {
            total: number(&answer, 0)?,
            free: number(&answer, 2)?,
            used: number(&answer, 3)?,
        })
    }))
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: nvmlDevice_t,
    memory: *mut nvmlMemory_v2_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a struct with its version set, or null.
    let memory = unsafe { Place::new(memory) };
    code((|| {
        if memory.version()? != MEMORY_V2 {
            return Err(version_mismatch(gpu_of(device)?));
        }
        let answer = ask_device("nvmlDeviceGetMemoryInfo_v2", device, &[])?;
        memory.set(nvmlMemory_v2_t {
            version: MEMORY_V2,
            total: number(&answer, 0)?,
            reserved: number(&answer, 1)?,
            free: number(&answer, 2)?,
            used: number(&answer, 3)?,
        })
    })())
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperatureV(
    device: nvmlDevice_t,
    temperature: *mut nvmlTemperature_v1_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a struct with its version and sensor set, or null.
    let temperature = unsafe { Place::new(temperature) };
    code((|| {
        if temperature.version()? != TEMPERATURE_V1 {
            return Err(version_mismatch(gpu_of(device)?));
        }
        let mut asked = temperature.get()?;
        let answer = ask_device("nvmlDeviceGetTemperatureV", device, &[])?;
        asked.temperature = number(&answer, 0)?;
        temperature.set(asked)
    })())
}
