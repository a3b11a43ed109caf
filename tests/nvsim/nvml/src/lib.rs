//! `libnvidia-ml.so.1` of the simulated driver.
//!
//! Every function asks the server that `NVSIM_SOCKET` names; nothing is kept here but connections.
//! The C ABI is that of nvml.h 13, its struct layouts checked against nvml-wrapper-sys in [`abi`].
//! A program can tell this library by the symbol `gpu_ledger_simulated`.
//!
//! `unsafe` is what a C ABI needs, and no more: turning a pointer that the caller passed into a
//! [`place::Place`] or [`place::Rows`], and exporting a name.

mod abi;
mod accounting;
mod device;
mod events;
mod memory;
mod place;
mod processes;
mod samples;
mod session;
mod simple;
mod system;

/// Marks this library as simulated: its presence is the message, its value is 1.
// SAFETY: no other library defines this name; that is what it is for.
#[unsafe(no_mangle)]
extern "C" fn gpu_ledger_simulated() -> std::os::raw::c_int {
    1
}
