//! One more thread per GPU: it samples who holds how much device memory, for months.
//!
//! Purpose: a pass over the process lists and the device's memory at every deadline, handed on with all clocks.
//! May touch: the library, the clocks. May not: be waited for by the session, or wait for it: a sample without
//! room is dropped, which its age then shows.
//!
//! Beside the reader's thread and not on it: its passes are due whatever the store has to be read for, and a
//! call that hangs here keeps no row waiting. A pass is four calls of the wrapper: three lists and the memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::calls::{CallWatch, Calls, ReadCost};
use super::worker::{HeldLibrary, goes_stale};
use crate::clock::{Clock, Stamp};
use crate::residency::moment::Length;
use crate::residency::probe::{Instrument, Wanted, run};
use crate::residency::recorder::gauges::Gauges;
use crate::residency::recorder::ticker::{BootTicker, Stop};
use crate::residency::sample::{Fields, Reading, Sample, Status};
use crate::unit::GpuUuid;
use crate::unknown::Unknown;

/// Samples of all GPUs that wait for the session. One that finds no room is dropped: it would be old.
pub const SAMPLES_WAITING_MAX: usize = 64;

/// A sample of who holds how much.
#[derive(Clone, Debug)]
pub struct MemorySample {
    /// Of which GPU.
    pub gpu: GpuUuid,
    /// The sample: its process list and its memory alone.
    pub sample: Sample,
    /// All clocks, read after it.
    pub stamp: Stamp,
    /// What it cost.
    pub cost: ReadCost,
}

/// The session's side of one GPU's sampler.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    stop: Stop,
    watch: CallWatch,
}

/// What a sampler needs.
#[derive(Clone, Debug)]
pub(super) struct SamplerOptions {
    pub(super) clock: Clock,
    pub(super) call_deadline: Duration,
    pub(super) period: Duration,
    /// The GPU's PCI address, by which it is then opened, as by its worker.
    pub(super) address: Option<String>,
}

impl Sampler {
    /// Starts the thread. It keeps the library open as long as it lives.
    pub(super) fn start(
        gpu: GpuUuid,
        library: Arc<HeldLibrary>,
        options: SamplerOptions,
        samples: mpsc::Sender<MemorySample>,
    ) -> std::io::Result<Self> {
        let (stop, watch) = (Stop::new()?, CallWatch::default());
        let mut ticker = BootTicker::new(options.clock.clone(), stop.clone())?;
        let name = format!("memory-{}", gpu.short());
        let mine = watch.clone();
        std::thread::Builder::new().name(name).spawn(move || {
            let period = Length(u64::try_from(options.period.as_nanos()).unwrap_or(u64::MAX));
            // It ends when somebody asks: a GPU that cannot be read may come back.
            let wanted = Wanted { duration: None, period, start_timeout: Length(u64::MAX) };
            let mut passes = Passes {
                gpu: &gpu,
                library: &library,
                options: &options,
                watch: mine,
                gauges: None,
            };
            // What a pass cost is known when it is over, and told with it.
            let clock = options.clock.clone();
            let cost = std::cell::RefCell::new(ReadCost::default());
            let mut instrument = Costed { passes: &mut passes, cost: &cost };
            run(&mut ticker, &mut instrument, wanted, |sample| {
                let (stamp, cost) = (clock.now(), cost.take());
                let sample = MemorySample { gpu: gpu.clone(), sample, stamp, cost };
                if let Err(error) = samples.try_send(sample) {
                    tracing::warn!(%error, gpu = %gpu, "a sample of memory is dropped");
                }
            });
        })?;
        Ok(Self { stop, watch })
    }

    /// Ends the thread at once, or, where it hangs in a call, when that returns.
    pub(super) fn stop(&self) {
        self.stop.ask();
    }

    pub(super) const fn watch(&self) -> &CallWatch {
        &self.watch
    }
}

/// The passes over one GPU, opened anew after an answer that says its handle went stale.
struct Passes<'library> {
    gpu: &'library GpuUuid,
    library: &'library HeldLibrary,
    options: &'library SamplerOptions,
    watch: CallWatch,
    gauges: Option<Gauges<'library>>,
}

impl<'library> Passes<'library> {
    /// Asks for everything. A GPU that cannot be opened is a pass in which nothing was read.
    fn fields(&mut self) -> (Fields, ReadCost) {
        let clock = &self.options.clock;
        let began = clock.boot();
        let mut gauges = match self.gauges.take() {
            Some(gauges) => gauges,
            None => match self.open() {
                Ok(gauges) => gauges,
                Err((unknown, cost)) => {
                    let (before_ns, after_ns) = (began, clock.boot());
                    let (status, code) = (Status::Unknown(unknown.reason), unknown.code);
                    let (value, driver_timestamp_us) = (None, None);
                    let memory =
                        Reading { before_ns, after_ns, value, status, code, driver_timestamp_us };
                    let (utilization, power, temperature) = (None, None, None);
                    let (process_utilization, processes) = (None, None);
                    let fields = Fields {
                        utilization,
                        power,
                        temperature,
                        process_utilization,
                        processes,
                        memory,
                    };
                    return (fields, cost);
                }
            },
        };
        let fields = gauges.memory_fields();
        let cost = gauges.take_cost();
        let is_stale = fields
            .asked()
            .any(|asked| matches!(asked.status, Status::Unknown(reason) if goes_stale(reason)));
        if !is_stale {
            self.gauges = Some(gauges);
        }
        (fields, cost)
    }

    fn open(&self) -> Result<Gauges<'library>, (Unknown, ReadCost)> {
        let options = self.options;
        let clock = options.clock.clone();
        let mut calls = Calls::new(clock.clone(), options.call_deadline, self.watch.clone());
        let library = &self.library.library;
        let opened = match &options.address {
            Some(address) => library.gpu_at_address(self.gpu, address, &mut calls),
            None => library.gpu_of(self.gpu, &mut calls),
        };
        match opened {
            Ok(gpu) => Ok(Gauges::new(gpu, calls, clock)),
            Err(unknown) => Err((unknown, calls.take_cost())),
        }
    }
}

/// The same, with what each pass cost left for whoever takes it.
struct Costed<'a, 'library> {
    passes: &'a mut Passes<'library>,
    cost: &'a std::cell::RefCell<ReadCost>,
}

impl Instrument for Costed<'_, '_> {
    fn fields(&mut self) -> Fields {
        let (fields, cost) = self.passes.fields();
        self.cost.borrow_mut().add(&cost);
        fields
    }

    /// It may come back: a driver that is loaded again, a GPU that was reset.
    fn is_lost(&self, _: &Fields) -> bool {
        false
    }
}
