//! The recorder: threads that probe, and the one that writes what they tell.
//!
//! Purpose: real time, the real driver, and the folder of a batch, around the pure loop and verdicts. May
//! touch: clocks, NVML, procfs, the batch's folder. May not: start any program but the user's command, or
//! wait for a driver call on the thread that writes.

pub mod cpu;
mod deny;
pub mod gauges;
pub mod harness;
mod lane;
pub mod people;
pub mod progress;
pub mod record;
pub mod ticker;
pub mod window;
