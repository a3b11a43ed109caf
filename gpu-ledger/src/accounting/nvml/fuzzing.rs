//! What fuzzing asks of a driver's rows (`fuzz/README.md`).

use nvml_wrapper::struct_wrappers::device::AccountingStats;
use nvml_wrapper_sys::bindings::nvmlAccountingStats_t;

use super::{gpu, raw};
use crate::accounting::Row;
use crate::journal::canon::{decode, encode};
use crate::unit::{Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::Observed;

/// Takes numbers off an input; zeros where it has ended.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn u32(&mut self) -> u32 {
        let Some((number, rest)) = self.0.split_first_chunk() else { return 0 };
        self.0 = rest;
        u32::from_le_bytes(*number)
    }

    fn u64(&mut self) -> u64 {
        let Some((number, rest)) = self.0.split_first_chunk() else { return 0 };
        self.0 = rest;
        u64::from_le_bytes(*number)
    }
}

/// The structures of both versions of the call, as rows: what the driver has no value of is unknown and never a
/// number, what it has is that number, and a row is in the journal what it was.
///
/// # Panics
/// Where that does not hold.
pub fn nvml(bytes: &[u8]) {
    let mut numbers = Numbers(bytes);
    let second = raw::StatsV2 {
        pid: numbers.u32(),
        is_running: numbers.u32(),
        gpu_utilization: numbers.u32(),
        memory_utilization: numbers.u32(),
        max_memory_usage: numbers.u64(),
        sample_count: numbers.u64(),
        sum_gpu_util: numbers.u64(),
        sum_fb_util: numbers.u64(),
        time: numbers.u64(),
        start_time: numbers.u64(),
    };
    let first = nvmlAccountingStats_t {
        gpuUtilization: second.gpu_utilization,
        memoryUtilization: second.memory_utilization,
        maxMemoryUsage: second.max_memory_usage,
        time: second.time,
        startTime: second.start_time,
        isRunning: second.is_running,
        reserved: [0; 5],
    };
    let (uuid, pid) = (GpuUuid("GPU-00000000".into()), Pid(second.pid));
    let of_first = gpu::row_v1(&uuid, pid, &AccountingStats::from(first));
    let of_second = gpu::row_v2(&uuid, pid, second);
    for row in [&of_first, &of_second] {
        proven(row, second);
    }
    // They differ in nothing but what the first has not.
    assert_eq!(of_first.sums, None);
    let has_sums = second.sample_count != u64::MAX && second.sum_gpu_util != u64::MAX;
    assert_eq!(of_second.sums.is_some(), has_sums);
    assert_eq!(Row { sums: None, ..of_second }, of_first);
}

fn proven(row: &Row, said: raw::StatsV2) {
    let memory = match said.max_memory_usage {
        0 | u64::MAX => None,
        bytes => Some(Bytes(bytes)),
    };
    let utilization = (said.gpu_utilization != u32::MAX).then_some(said.gpu_utilization);
    let start = (said.start_time != 0).then_some(WallUs(said.start_time));
    assert_eq!(known(&row.memory_peak), memory.as_ref());
    assert_eq!(known(&row.utilization), utilization.as_ref());
    assert_eq!((row.start, row.held, row.running), (start, Ms(said.time), said.is_running != 0));
    let again = encode(row).map(|bytes| decode::<Row>(&bytes));
    assert_eq!(again.as_ref().ok().and_then(|row| row.as_ref().ok()), Some(row));
}

fn known<T>(observed: &Observed<T>) -> Option<&T> {
    match observed {
        Observed::Known(value) => Some(value),
        Observed::Unknown(_) => None,
    }
}
