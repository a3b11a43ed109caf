//! The fields of one GPU, asked of the driver in their order.

use crate::accounting::calls::{Calls, ReadCost};
use crate::accounting::nvml::GpuHandle;
use crate::clock::Clock;
use crate::residency::probe::Instrument;
use crate::residency::sample::{
    DeviceMemory, FieldName, Fields, ProcessMemory, ProcessUtilization, Reading, Status,
    is_possible_percent, is_possible_power, is_possible_temperature,
};
use crate::unknown::{Unknown, UnknownReason};

/// Asks one GPU.
#[derive(Debug)]
pub struct Gauges<'library> {
    gpu: GpuHandle<'library>,
    calls: Calls,
    clock: Clock,
    /// The newest utilization sample of a process that was given, in the driver's own µs.
    last_seen_us: Option<u64>,
}

impl<'library> Gauges<'library> {
    /// Asks `gpu`, each call timed and watched through `calls`.
    #[must_use]
    pub const fn new(gpu: GpuHandle<'library>, calls: Calls, clock: Clock) -> Self {
        Self { gpu, calls, clock, last_seen_us: None }
    }

    /// Who holds the GPU, and its memory last: what memory held over time needs, and no more.
    pub fn memory_fields(&mut self) -> Fields {
        let processes = Some(self.processes());
        let memory = self.memory();
        let (utilization, power, temperature, process_utilization) = (None, None, None, None);
        Fields { utilization, power, temperature, process_utilization, processes, memory }
    }

    /// What the calls cost since this was last asked.
    pub fn take_cost(&mut self) -> ReadCost {
        // That one took long shows in the age of its sample.
        drop(self.calls.take_stalled());
        self.calls.take_cost()
    }

    /// Asks for one field, between two readings of the clock. What no GPU can show is no value.
    fn ask<T>(
        &mut self,
        call: impl FnOnce(&GpuHandle<'library>, &mut Calls) -> Result<T, Unknown>,
        is_possible: impl FnOnce(&T) -> bool,
    ) -> Reading<T> {
        let before_ns = self.clock.boot();
        let answer = call(&self.gpu, &mut self.calls);
        let after_ns = self.clock.boot();
        let (value, status, code) = match answer {
            Ok(value) if is_possible(&value) => (Some(value), Status::Ok, None),
            Ok(_) => (None, Status::InvalidValue, None),
            Err(unknown) => (None, Status::Unknown(unknown.reason), unknown.code),
        };
        Reading { before_ns, after_ns, value, status, code, driver_timestamp_us: None }
    }

    fn process_utilization(&mut self) -> Reading<Vec<ProcessUtilization>> {
        let since = self.last_seen_us;
        let reading = self.ask(
            |gpu, calls| {
                let samples = gpu.process_samples(since, calls)?.into_iter();
                let shares = samples.map(|sample| ProcessUtilization {
                    pid: sample.pid,
                    sm_percent: sample.sm_percent,
                    driver_timestamp_us: sample.timestamp_us,
                });
                Ok(shares.collect::<Vec<_>>())
            },
            |shares| shares.iter().all(|share| is_possible_percent(share.sm_percent)),
        );
        let newest = reading.known().into_iter().flatten().map(|share| share.driver_timestamp_us);
        self.last_seen_us = newest.max().or(since);
        reading
    }

    fn processes(&mut self) -> Reading<Vec<ProcessMemory>> {
        self.ask(
            |gpu, calls| {
                let (holders, unknowns) = gpu.holders(calls);
                // Part of the lists is no list: what is missing in it would look like nothing.
                if let Some(unknown) = unknowns.into_iter().find(is_a_list_of_its_own) {
                    return Err(unknown);
                }
                let processes = holders.iter().map(|holder| ProcessMemory {
                    pid: holder.pid,
                    memory_bytes: holder.memory.known().map(|bytes| bytes.0),
                    compute: holder.compute || holder.mps,
                    graphics: holder.graphics,
                });
                Ok(processes.collect())
            },
            |_| true,
        )
    }

    fn memory(&mut self) -> Reading<DeviceMemory> {
        self.ask(
            |gpu, calls| {
                let shown = gpu.memory(calls)?;
                Ok(DeviceMemory {
                    used_bytes: shown.used,
                    total_bytes: shown.total,
                    reserved_bytes: shown.reserved,
                })
            },
            |memory| memory.is_possible(),
        )
    }
}

/// MPS clients are listed as compute processes too where a driver has no list of them.
fn is_a_list_of_its_own(unknown: &Unknown) -> bool {
    let is_mps = unknown.call == Some("nvmlDeviceGetMPSComputeRunningProcesses_v3");
    let is_absent =
        [UnknownReason::ProcessListNotSupported, UnknownReason::NvmlFunctionMissing].into_iter();
    let mut is_absent = is_absent.chain([UnknownReason::NvmlSymbolMissing]);
    !(is_mps && is_absent.any(|reason| reason == unknown.reason))
}

impl Instrument for Gauges<'_> {
    fn fields(&mut self) -> Fields {
        // This order is the product's promise: memory last (FieldName::ORDER).
        let utilization = self.ask(GpuHandle::utilization, |percent| is_possible_percent(*percent));
        let power = self.ask(GpuHandle::power, |milliwatts| is_possible_power(*milliwatts));
        let temperature =
            self.ask(GpuHandle::temperature, |celsius| is_possible_temperature(*celsius));
        let process_utilization = self.process_utilization();
        let processes = self.processes();
        let memory = self.memory();
        // How long each call took is in its bracket.
        drop(self.calls.take_stalled());
        Fields {
            utilization: Some(utilization),
            power: Some(power),
            temperature: Some(temperature),
            process_utilization: Some(process_utilization),
            processes: Some(processes),
            memory,
        }
    }

    fn is_lost(&self, fields: &Fields) -> bool {
        fields.asked().any(|asked| asked.name == FieldName::Memory && asked.is_device_gone())
    }
}
