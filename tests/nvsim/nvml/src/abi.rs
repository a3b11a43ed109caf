//! Layouts, checked when compiling.

use std::mem::{offset_of, size_of};
use std::os::raw::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlAccountingStats_t, nvmlEventData_t, nvmlFieldValue_t, nvmlMemory_t, nvmlMemory_v2_t,
    nvmlPciInfo_t, nvmlProcessDetail_v1_t, nvmlProcessDetailList_v1_t, nvmlProcessInfo_t,
    nvmlProcessInfo_v1_t, nvmlProcessUtilizationInfo_v1_t, nvmlProcessUtilizationSample_t,
    nvmlProcessesUtilizationInfo_v1_t, nvmlSample_t, nvmlTemperature_v1_t, nvmlUtilization_t,
};

/// `nvmlAccountingStats_v2_t` of nvml.h 13.3.29 and later, which nvml-wrapper-sys 0.10 lacks. It
/// has no version word; `pid` is an argument, the rest is answered.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(non_snake_case, reason = "the names of nvml.h")]
pub(crate) struct AccountingStatsV2 {
    pub(crate) pid: c_uint,
    pub(crate) isRunning: c_uint,
    pub(crate) gpuUtilization: c_uint,
    pub(crate) memoryUtilization: c_uint,
    pub(crate) maxMemoryUsage: c_ulonglong,
    pub(crate) sampleCount: c_ulonglong,
    pub(crate) sumGpuUtil: c_ulonglong,
    pub(crate) sumFbUtil: c_ulonglong,
    pub(crate) time: c_ulonglong,
    pub(crate) startTime: c_ulonglong,
}

/// Version words: the version in the highest byte, the struct's size below it.
pub(crate) const MEMORY_V2: u32 = 0x0200_0028;
pub(crate) const PROCESSES_UTILIZATION_V1: u32 = 0x0100_0018;
pub(crate) const PROCESS_DETAIL_LIST_V1: u32 = 0x0100_0018;
pub(crate) const TEMPERATURE_V1: u32 = 0x0100_000c;

const _: () = {
    assert!(size_of::<AccountingStatsV2>() == 64);
    assert!(offset_of!(AccountingStatsV2, isRunning) == 4);
    assert!(offset_of!(AccountingStatsV2, gpuUtilization) == 8);
    assert!(offset_of!(AccountingStatsV2, memoryUtilization) == 12);
    assert!(offset_of!(AccountingStatsV2, maxMemoryUsage) == 16);
    assert!(offset_of!(AccountingStatsV2, sampleCount) == 24);
    assert!(offset_of!(AccountingStatsV2, sumGpuUtil) == 32);
    assert!(offset_of!(AccountingStatsV2, sumFbUtil) == 40);
    assert!(offset_of!(AccountingStatsV2, time) == 48);
    assert!(offset_of!(AccountingStatsV2, startTime) == 56);

    assert!(size_of::<nvmlAccountingStats_t>() == 56);
    assert!(offset_of!(nvmlAccountingStats_t, gpuUtilization) == 0);
    assert!(offset_of!(nvmlAccountingStats_t, memoryUtilization) == 4);
    assert!(offset_of!(nvmlAccountingStats_t, maxMemoryUsage) == 8);
    assert!(offset_of!(nvmlAccountingStats_t, time) == 16);
    assert!(offset_of!(nvmlAccountingStats_t, startTime) == 24);
    assert!(offset_of!(nvmlAccountingStats_t, isRunning) == 32);

    assert!(size_of::<nvmlProcessInfo_v1_t>() == 16);
    assert!(size_of::<nvmlProcessInfo_t>() == 24);
    assert!(offset_of!(nvmlProcessInfo_t, usedGpuMemory) == 8);
    assert!(offset_of!(nvmlProcessInfo_t, gpuInstanceId) == 16);
    assert!(offset_of!(nvmlProcessInfo_t, computeInstanceId) == 20);
    assert!(size_of::<nvmlProcessDetail_v1_t>() == 32);
    assert!(size_of::<nvmlProcessDetailList_v1_t>() == 24);
    assert!(offset_of!(nvmlProcessDetailList_v1_t, procArray) == 16);

    assert!(size_of::<nvmlProcessUtilizationSample_t>() == 32);
    assert!(offset_of!(nvmlProcessUtilizationSample_t, timeStamp) == 8);
    assert!(offset_of!(nvmlProcessUtilizationSample_t, smUtil) == 16);
    assert!(size_of::<nvmlProcessUtilizationInfo_v1_t>() == 40);
    assert!(offset_of!(nvmlProcessUtilizationInfo_v1_t, pid) == 8);
    assert!(size_of::<nvmlProcessesUtilizationInfo_v1_t>() == 24);
    assert!(offset_of!(nvmlProcessesUtilizationInfo_v1_t, lastSeenTimeStamp) == 8);

    assert!(size_of::<nvmlSample_t>() == 16);
    assert!(size_of::<nvmlMemory_t>() == 24);
    assert!(size_of::<nvmlMemory_v2_t>() == 40);
    assert!(offset_of!(nvmlMemory_v2_t, reserved) == 16);
    assert!(size_of::<nvmlUtilization_t>() == 8);
    assert!(size_of::<nvmlFieldValue_t>() == 40);
    assert!(offset_of!(nvmlFieldValue_t, value) == 32);
    assert!(size_of::<nvmlEventData_t>() == 32);
    assert!(size_of::<nvmlPciInfo_t>() == 68);
    assert!(offset_of!(nvmlPciInfo_t, busId) == 36);
    assert!(size_of::<nvmlTemperature_v1_t>() == 12);
};
