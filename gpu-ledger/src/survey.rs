//! One look at the driver: every GPU opened and read once, by whoever only wants to know.
//!
//! Purpose: what `doctor` and `accounting` say is what a daemon would see. May touch: the driver,
//! through its workers. May not: set anything by itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::accounting::FinalRow;
use crate::accounting::driver::{
    Driver, DriverFacts, DriverOptions, GpuFacts, Report, in_initial_pid_namespace,
};
use crate::accounting::reading::Finding;
use crate::accounting::worker::{ReadOutcome, ReadRequest};
use crate::clock::Clock;
use crate::unit::{BootNs, GpuUuid};
use crate::unknown::Unknown;

/// Beside the deadline of a single call: a read is a few calls for each of at most 4,000 rows.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// How to look.
#[derive(Clone, Debug)]
pub struct SurveyOptions {
    /// The library's path; the system's where there is none.
    pub library: Option<PathBuf>,
    /// How long a call may take.
    pub call_deadline: Duration,
    /// The clocks.
    pub clock: Clock,
}

/// One GPU, looked at.
#[derive(Clone, Debug)]
pub struct SurveyedGpu {
    /// What it is.
    pub facts: GpuFacts,
    /// A read of everything that began when asked for; why there is none otherwise.
    pub read: Result<Box<ReadOutcome>, Unknown>,
    /// Rows that were final before anybody looked.
    pub already_dead: Vec<FinalRow>,
}

/// What was seen.
#[derive(Debug)]
pub struct Survey {
    /// The driver.
    pub facts: DriverFacts,
    /// Its GPUs, in the order in which they enumerate.
    pub gpus: Vec<SurveyedGpu>,
    driver: Driver,
    options: SurveyOptions,
}

impl Survey {
    /// Opens the driver and reads every GPU.
    ///
    /// # Errors
    /// Why nothing can be read at all.
    pub async fn take(options: SurveyOptions) -> Result<Self, Unknown> {
        // Where procfs does not tell, an empty list proves nothing either.
        let dead_rows_hidden = !in_initial_pid_namespace().is_ok_and(|is_initial| is_initial);
        let (facts, gpus, driver) = Driver::open(DriverOptions {
            library: options.library.clone(),
            call_deadline: options.call_deadline,
            clock: options.clock.clone(),
            dead_rows_hidden,
            touches_watched: false,
            memory_period: None,
        })
        .await?;
        let gpus = gpus.into_iter().map(|facts| {
            let read = Err(not_read(&facts.uuid));
            SurveyedGpu { facts, read, already_dead: Vec::new() }
        });
        let mut survey = Self { facts, gpus: gpus.collect(), driver, options };
        survey.read().await;
        Ok(survey)
    }

    /// Reads every GPU anew.
    pub async fn read(&mut self) {
        let asked = self.options.clock.now().boot;
        for worker in self.driver.workers() {
            worker.request(ReadRequest { sweep: true, processes: true, touching_exits: None });
        }
        let mut waits: BTreeMap<GpuUuid, usize> = BTreeMap::new();
        for (place, gpu) in self.gpus.iter_mut().enumerate() {
            gpu.read = Err(not_read(&gpu.facts.uuid));
            waits.insert(gpu.facts.uuid.clone(), place);
        }
        let patience = self.options.call_deadline.saturating_add(READ_TIMEOUT);
        let now = Instant::now();
        let deadline = now.checked_add(patience).unwrap_or(now);
        while !waits.is_empty() {
            let report = tokio::select! {
                report = self.driver.next() => report,
                () = sleep_until(deadline) => return,
            };
            match report {
                Some(Report::Read(outcome)) => {
                    let place = waits.get(&outcome.gpu).copied();
                    let Some(gpu) = place.and_then(|place| self.gpus.get_mut(place)) else {
                        continue;
                    };
                    // Told by the first read alone, which may be one that nobody asked for.
                    gpu.already_dead.extend(outcome.findings.iter().filter_map(already_dead));
                    if is_answer(&outcome, asked) {
                        waits.remove(&outcome.gpu);
                        gpu.read = Ok(outcome);
                    }
                }
                Some(Report::Stalled(stall)) => {
                    let place = waits.remove(&stall.gpu);
                    if let Some(gpu) = place.and_then(|place| self.gpus.get_mut(place)) {
                        gpu.read = Err(stall.unknown());
                    }
                }
                // Nobody samples memory for a survey.
                Some(Report::Memory(_)) => {}
                None => return,
            }
        }
    }

    /// Sets a GPU's accounting mode; what it reads back as.
    ///
    /// # Errors
    /// Why it could not be set.
    pub async fn set_accounting(&self, gpu: &GpuUuid, on: bool) -> Result<bool, Unknown> {
        self.driver.set_accounting(gpu, on).await
    }
}

/// Whether a read brought all that was asked for at that moment. A worker's own first read may begin later
/// and without having seen the request: it never asked who holds the GPU.
fn is_answer(outcome: &ReadOutcome, asked: BootNs) -> bool {
    outcome.requested && outcome.sweep && outcome.window.began.boot >= asked
}

fn not_read(gpu: &GpuUuid) -> Unknown {
    let gpu = Some(gpu.clone());
    Unknown { gpu, ..Unknown::of(crate::unknown::UnknownReason::NvmlCallTimeout) }
}

fn already_dead(finding: &Finding) -> Option<FinalRow> {
    match finding {
        Finding::AlreadyDead(row) => Some(row.clone()),
        _ => None,
    }
}
