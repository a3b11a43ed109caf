//! A simulated NVIDIA driver, from the accounting model to the clients of its C ABI.
//!
//! No GPU is needed: a "GPU process" is a real process that holds a connection to the server as it
//! would hold the device file, and NVML is a shared library whose functions ask that server. What
//! is simulated is the driver alone; processes, pids, exits and descriptors are the kernel's own.
//!
//! - [`model`]: the driver's accounting, pure. Time is an argument.
//! - [`server`]: owns the model, talks to processes and NVML clients over one socket.
//! - [`protocol`]: what goes over that socket.
//! - [`client`]: holding a GPU, for the workload and for other test programs.
//! - [`work`], [`storm`], [`reuse`]: programs that use a GPU or make pids recur.
//! - [`fault`]: what may be made to go wrong, as words on a command line.
//! - [`library`]: copies of the NVML library that lack symbols, as older drivers do.
//! - [`sys`]: the few system calls that need `unsafe`.

pub mod client;
pub mod clock;
pub mod fault;
pub mod library;
pub mod model;
pub mod protocol;
pub mod random;
pub mod reuse;
pub mod server;
pub mod storm;
pub mod sys;
pub mod work;
