//! The driver's accounting, as its source behaves.
//!
//! Purpose: what entry exists when, what it says, and what is lost. May touch: nothing; time is an
//! argument and chance is seeded. May not: know of sockets, processes or NVML.
//!
//! The rules that the comments number are those of the open kernel modules at 595.45.04,
//! `src/nvidia/src/kernel/diagnostics/gpu_acct.c` for the stores and their queries,
//! `gpu/device.c` for the birth of an entry, `gpu/fifo/kernel_channel.c` and `mem_mgr/video_mem.c`
//! for its becoming billable:
//!
//! 1. a live and a dead store per GPU, keyed by pid;
//! 2. an entry is born with the pid's first device object while accounting is on;
//! 3. it is billable only after a channel or memory; a monitor's is thrown away;
//! 4. the last object's end is the entry's end, on the wall clock; `time` is 0 until then;
//! 5. one dead entry per pid, the newest;
//! 6. 128 dead, 3,872 live, the oldest gives way silently;
//! 7. a query finds the dead entry first, the list has both;
//! 8. utilization is sampled, memory is a high-water mark;
//! 9. mode off throws live entries away, 10. clear throws dead ones away;
//! 11. teardown switches off and keeps the dead; 12. older processes have no entry;
//! 13. no accounting under MIG; 14. containers see no dead entry; 15. stores are per GPU;
//! 16. a vGPU host is always on and answers no bare-metal query.

mod entry;
mod gpu;
#[cfg(test)]
mod laws;
mod query;
mod ring;
mod stores;
#[cfg(test)]
mod tests;

pub use entry::{Stats, Utilization};
pub use gpu::{Ended, Gpu, Loss, ObjectId, Opened, Refusal, Setup};
pub use query::{Holder, ProcessSample, View};
pub use ring::{RING_SAMPLES, SAMPLE_US, Sample, TICK_US};
pub use stores::{BUFFER_ENTRIES, DEAD_ENTRIES_MAX, LIVE_ENTRIES_MAX};

/// A process id in the initial pid namespace.
pub type Pid = u32;

/// One moment on the driver's two clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Microseconds on the monotonic clock: drives the samples.
    pub mono_us: u64,
    /// Microseconds since the epoch: what entries are stamped with. May step.
    pub wall_us: u64,
}
