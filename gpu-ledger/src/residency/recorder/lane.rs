//! One GPU of an iteration: the threads that probe it and read the processor, what they tell, and its files.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::cpu;
use super::deny;
use super::gauges::Gauges;
use super::people::Told as Known;
use super::ticker::{BootTicker, Stop};
use super::window::Plan;
use crate::accounting::calls::{CallWatch, Calls};
use crate::accounting::nvml::Library;
use crate::residency::events::{EndCause, Event};
use crate::residency::files::{FilesError, IterationWriter};
use crate::residency::moment::Length;
use crate::residency::probe::{self, Ended, Ran, Wanted};
use crate::residency::sample::Sample;
use crate::session::launch;
use crate::unit::{BootNs, GpuUuid};

/// What a thread tells, and of which GPU.
pub(super) struct Told {
    pub(super) gpu: usize,
    pub(super) what: What,
}

/// What it tells.
pub(super) enum What {
    /// A pass was made.
    Sample(Box<Sample>),
    /// Something happened beside.
    Event(Event),
    /// The probe's loop ended, or could not begin and says why.
    Over(Result<Ran, String>),
}

/// One GPU in this window.
pub(super) struct Lane {
    pub(super) stop: Stop,
    watch: CallWatch,
    pub(super) writer: IterationWriter,
    /// The processes of its that were told.
    pub(super) known: Known,
    pub(super) t0: Option<BootNs>,
    pub(super) over: Option<Ran>,
    /// When the command or somebody ended it.
    pub(super) ended: Option<(BootNs, EndCause)>,
    /// The probe that was told to be stuck, by when it began.
    pub(super) stuck_told: Option<BootNs>,
    /// Rows that no room was left for.
    refused: Arc<AtomicU64>,
}

impl Lane {
    /// Of a window that begins now.
    pub(super) fn new(writer: IterationWriter) -> std::io::Result<Self> {
        Ok(Self {
            stop: Stop::new()?,
            watch: CallWatch::default(),
            writer,
            known: Known::new(),
            t0: None,
            over: None,
            ended: None,
            stuck_told: None,
            refused: Arc::default(),
        })
    }

    /// Whether nothing more is to come.
    pub(super) const fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Notes what could not be written; the window ends by it.
    pub(super) fn keep(&mut self, written: Result<(), FilesError>, now: BootNs) {
        if let Err(error) = written
            && !matches!(self.ended, Some((_, EndCause::NotWritten)))
        {
            tracing::error!(%error, "the window ends: its rows cannot be written");
            self.ended = Some((now, EndCause::NotWritten));
            self.stop.ask();
        }
    }

    pub(super) fn event(&mut self, event: &Event, now: BootNs) {
        let written = self.writer.event(event);
        self.keep(written, now);
    }

    /// When the probe in flight began, where one is.
    pub(super) fn in_flight_since(&self) -> Option<BootNs> {
        if self.is_over() {
            return None;
        }
        self.watch.in_flight().map(|flight| flight.since.boot)
    }

    /// Its last row, and what is beneath it.
    pub(super) fn end(mut self, now: BootNs, plan: &Plan<'_>, interrupted: bool) -> Ending {
        let in_flight_since_ns = self.in_flight_since();
        let (at_ns, cause) = match (self.ended, self.over) {
            (_, Some(Ran { ended: Ended::Lost, at, .. })) => (at, EndCause::DeviceLost),
            (_, Some(Ran { ended: Ended::NoFirstSample, at, .. })) => (at, EndCause::NoFirstSample),
            (Some((at, cause)), _) => (at, cause),
            (None, Some(Ran { ended: Ended::Duration, at, .. })) => (at, EndCause::Duration),
            (None, Some(Ran { at, .. })) => (at, EndCause::Stopped),
            // Its probe never came back, and the window was over.
            (None, None) if self.t0.is_some() => (now, EndCause::Duration),
            (None, None) => (now, EndCause::NoFirstSample),
        };
        let window = match cause {
            EndCause::Duration => plan.duration,
            EndCause::NoFirstSample => None,
            _ => self.t0.and_then(|t0| at_ns.since(t0)).map(Length),
        };
        let window = window.filter(|_| self.t0.is_some());
        // Programs that were started beside the user's own: a count, not a promise.
        let subprocesses = launch::started().saturating_sub(plan.commands.load(Ordering::Acquire));
        let backend = plan.backend;
        let exec_denied = plan.deny_exec;
        self.event(&Event::Backend { at_ns: now, backend, subprocesses, exec_denied }, now);
        let rows_not_written = self.refused.load(Ordering::Acquire);
        let event = Event::End {
            at_ns,
            cause,
            duration_ns: window.map(|window| window.0),
            in_flight_since_ns,
            rows_not_written,
            interrupted,
            // Read when it is written.
            marks: None,
        };
        Ending { writer: self.writer, event }
    }
}

/// A window that is over, to be derived from.
pub struct Ending {
    /// Its files.
    pub writer: IterationWriter,
    /// Its last row.
    pub event: Event,
}

/// Tells the writer, and never waits for it.
struct Teller {
    gpu: usize,
    sender: mpsc::Sender<Told>,
    refused: Arc<AtomicU64>,
}

impl Teller {
    fn tell(&self, what: What) {
        if self.sender.try_send(Told { gpu: self.gpu, what }).is_err() {
            self.refused.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Lane {
    /// Whoever tells what is written into this one, as the `gpu`-th of the window.
    fn teller(&self, gpu: usize, sender: mpsc::Sender<Told>) -> Teller {
        Teller { gpu, sender, refused: Arc::clone(&self.refused) }
    }

    /// Probes until the window is over.
    pub(super) fn probe(
        &self,
        plan: &Plan<'_>,
        library: &Arc<Library>,
        uuid: GpuUuid,
        (gpu, sender): (usize, mpsc::Sender<Told>),
    ) -> std::io::Result<()> {
        let teller = self.teller(gpu, sender);
        let (clock, library, stop) = (plan.clock.clone(), Arc::clone(library), self.stop.clone());
        let mut calls = Calls::new(clock.clone(), plan.call_deadline, self.watch.clone());
        let wanted = Wanted {
            duration: plan.duration,
            period: plan.settings.period,
            start_timeout: plan.settings.start_timeout,
        };
        let name = format!("probe-{}", uuid.short());
        let deny_exec = plan.deny_exec;
        std::thread::Builder::new().name(name).spawn(move || {
            if deny_exec && let Err(why) = deny::deny_exec() {
                return teller.tell(What::Over(Err(format!("--deny-exec: {why}; leave it out"))));
            }
            let gpu = library.gpu_of(&uuid, &mut calls);
            let over = match (gpu, BootTicker::new(clock.clone(), stop)) {
                (Ok(gpu), Ok(mut ticker)) => {
                    let mut gauges = Gauges::new(gpu, calls, clock);
                    Ok(probe::run(&mut ticker, &mut gauges, wanted, |sample| {
                        teller.tell(What::Sample(Box::new(sample)));
                    }))
                }
                (Err(unknown), _) => Err(unknown.to_string()),
                (_, Err(error)) => Err(format!("no timer of CLOCK_BOOTTIME can be made: {error}")),
            };
            teller.tell(What::Over(over));
        })?;
        Ok(())
    }

    /// Reads the processor's ticks at the points from `t0` on until the window is over.
    pub(super) fn points(
        &self,
        plan: &Plan<'_>,
        t0: BootNs,
        (gpu, sender): (usize, mpsc::Sender<Told>),
    ) -> std::io::Result<()> {
        let (teller, stop) = (self.teller(gpu, sender), self.stop.clone());
        let (clock, grid) = (plan.clock.clone(), (t0, plan.settings.timeline_period));
        std::thread::Builder::new().name("points".to_owned()).spawn(move || {
            let told = |event| teller.tell(What::Event(event));
            if let Err(error) = cpu::run(&clock, stop, Path::new("/proc/stat"), grid, told) {
                tracing::warn!(%error, "the processor's share is not recorded");
            }
        })?;
        Ok(())
    }
}
