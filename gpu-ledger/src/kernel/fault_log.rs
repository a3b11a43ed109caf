//! Lines that the kernel programs write about faults that should not happen, handed to the log.
//!
//! They are for people and never evidence: the same fault is counted and flagged in its record.
//! Nothing on the hot path writes one.

use aya::Ebpf;
use aya_log::EbpfLogger;

use super::KernelError;

/// The map that the lines come through.
pub(super) const MAP: &str = "AYA_LOGS";
/// Room for a few dozen lines; one that finds none is dropped, since the fault is counted anyway.
pub(super) const RING_BYTES: u32 = 4_096;

/// The reading end.
pub(super) struct FaultLog(EbpfLogger<ToTracing>);

impl FaultLog {
    pub(super) fn open(ebpf: &mut Ebpf) -> Result<Self, KernelError> {
        let opened = EbpfLogger::init_with_logger(ebpf, ToTracing);
        opened.map(Self).map_err(|_| KernelError::ObjectLacks { name: MAP })
    }

    /// Hands on what was written since the last time.
    pub(super) fn flush(&mut self) {
        self.0.flush();
    }
}

/// Takes lines of the `log` crate, which aya-log speaks, to `tracing`, which this product speaks.
struct ToTracing;

impl log::Log for ToTracing {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        tracing::warn!(target: "gpu_ledger::kernel", "kernel program: {}", record.args());
    }

    fn flush(&self) {}
}
