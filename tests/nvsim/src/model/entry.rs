//! One entry of a store, and what a query makes of it.

use super::{Pid, ring::Sample};

/// What the driver keeps of one process on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: Pid,
    pub(super) start_us: u64,
    /// Set when it moves to the dead store.
    pub(super) end_us: Option<u64>,
    /// Device objects counted since the entry's birth: older ones of the same pid are not in it.
    pub(super) objects: u64,
    /// The "GPU" type of the driver: a channel or memory was allocated (rule 3).
    pub(super) billable: bool,
    pub(super) memory_peak_bytes: u64,
    pub(super) born_mono_us: u64,
    /// All samples of the GPU during the entry's life, whoever they name: the denominator.
    pub(super) samples: u64,
    /// Sums in hundredths of a percent over the samples that name this pid.
    pub(super) gpu_util_sum: u64,
    pub(super) fb_util_sum: u64,
}

impl Entry {
    pub(super) const fn born(pid: Pid, start_us: u64, born_mono_us: u64) -> Self {
        Self {
            pid,
            start_us,
            end_us: None,
            objects: 1,
            billable: false,
            memory_peak_bytes: 0,
            born_mono_us,
            samples: 0,
            gpu_util_sum: 0,
            fb_util_sum: 0,
        }
    }

    /// Folds in one sample at the driver's one-second tick (rule 8).
    pub(super) fn fold(&mut self, sample: &Sample) {
        if sample.mono_us < self.born_mono_us {
            return;
        }
        self.samples += 1;
        if sample.pid == Some(self.pid) {
            self.gpu_util_sum += u64::from(sample.gpu_hundredths);
            self.fb_util_sum += u64::from(sample.fb_hundredths);
        }
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            pid: self.pid,
            running: self.end_us.is_none(),
            gpu_percent: average_percent(self.gpu_util_sum, self.samples),
            memory_percent: average_percent(self.fb_util_sum, self.samples),
            memory_peak_bytes: self.memory_peak_bytes,
            samples: self.samples,
            gpu_util_sum: self.gpu_util_sum,
            fb_util_sum: self.fb_util_sum,
            // The subtraction wraps as the driver's does: after a step back of the clock the span
            // is absurdly long, not short.
            time_ms: self.end_us.map_or(0, |end_us| end_us.wrapping_sub(self.start_us) / 1_000),
            start_us: self.start_us,
        }
    }
}

/// The average is floored to hundredths and then to whole percents, as the driver's integers do.
fn average_percent(sum: u64, samples: u64) -> u32 {
    let hundredths = sum.checked_div(samples);
    // No sample, no share: the driver leaves the zero it began with.
    hundredths.map_or(0, |hundredths| u32::try_from(hundredths / 100).unwrap_or(u32::MAX))
}

/// What the driver answers about one pid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stats {
    /// The process.
    pub pid: Pid,
    /// Whether the entry is live.
    pub running: bool,
    /// Average share of the life in which kernels ran, in whole percents, floored.
    pub gpu_percent: u32,
    /// The same for device memory traffic.
    pub memory_percent: u32,
    /// High-water mark of the process's device memory, in bytes.
    pub memory_peak_bytes: u64,
    /// Samples of the GPU in the life.
    pub samples: u64,
    /// Sum of the samples that name the process, in hundredths of a percent.
    pub gpu_util_sum: u64,
    /// The same for device memory traffic.
    pub fb_util_sum: u64,
    /// Milliseconds from start to end; 0 while running.
    pub time_ms: u64,
    /// Microseconds since the epoch at the first device object.
    pub start_us: u64,
}

/// What the device says of its latest sample, in whole percents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Utilization {
    /// Share in which kernels ran.
    pub gpu_percent: u32,
    /// Share in which device memory moved.
    pub memory_percent: u32,
}
