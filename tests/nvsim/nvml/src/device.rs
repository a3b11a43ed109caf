//! What a device is: its place on the bus, its MIG children.

use std::os::raw::c_uint;

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlPciInfo_t, nvmlReturn_t};

use crate::place::{Place, fixed_text};
use crate::session::{INVALID_ARGUMENT, NOT_FOUND, ask_device, code, number};

/// Device functions that fill the PCI struct: its layout is the same since the second version.
macro_rules! pci {
    ($($symbol:ident),+) => {$(
        // SAFETY: the name is NVML's own, defined once in this library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol(
            device: nvmlDevice_t,
            pci: *mut nvmlPciInfo_t,
        ) -> nvmlReturn_t {
            // SAFETY: NVML's contract: a place for the struct, or null.
            let pci = unsafe { Place::new(pci) };
            code(pci.check().and_then(|()| {
                let answer = ask_device(stringify!($symbol), device, &[])?;
                let legacy = answer.text.get(4..).unwrap_or_default();
                pci.set(nvmlPciInfo_t {
                    busIdLegacy: fixed_text(legacy),
                    domain: number(&answer, 0)?,
                    bus: number(&answer, 1)?,
                    device: number(&answer, 2)?,
                    pciDeviceId: number(&answer, 3)?,
                    pciSubSystemId: number(&answer, 4)?,
                    busId: fixed_text::<32>(&answer.text),
                })
            }))
        }
    )+};
}

pci!(nvmlDeviceGetPciInfo_v2, nvmlDeviceGetPciInfo_v3);

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: nvmlDevice_t,
    _index: c_uint,
    mig_device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    // SAFETY: NVML's contract: a place for the handle, or null.
    let mig_device = unsafe { Place::new(mig_device) };
    // MIG may be on here, but no instance is ever made: every index is a hole.
    code(mig_device.check().and_then(|()| {
        ask_device("nvmlDeviceGetMigMode", device, &[])?;
        Err(NOT_FOUND)
    }))
}

// SAFETY: the name is NVML's own, defined once in this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    _mig_device: nvmlDevice_t,
    _device: *mut nvmlDevice_t,
) -> nvmlReturn_t {
    // No handle of this library is one of a MIG instance.
    INVALID_ARGUMENT
}
