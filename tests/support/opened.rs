//! A driver opened through the accounting room, and asked until it tells what a test waits for.

use std::path::PathBuf;
use std::time::Duration;

use gpu_ledger::accounting::FinalRow;
use gpu_ledger::accounting::driver::{Driver, DriverFacts, DriverOptions, GpuFacts, Report};
use gpu_ledger::accounting::reading::Finding;
use gpu_ledger::accounting::worker::{ReadOutcome, ReadRequest};
use gpu_ledger::clock::Clock;
use gpu_ledger::unknown::{GapCause, Unknown, UnknownReason};

use super::{PATIENCE, Sim};

pub(crate) const SWEEP: ReadRequest =
    ReadRequest { sweep: true, processes: false, touching_exits: Some(0) };

/// One opened driver and what it has told so far.
pub(crate) struct Opened {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) driver: Driver,
    pub(crate) facts: DriverFacts,
    pub(crate) gpus: Vec<GpuFacts>,
    pub(crate) finals: Vec<FinalRow>,
}

pub(crate) fn options(library: PathBuf) -> DriverOptions {
    DriverOptions {
        library: Some(library),
        call_deadline: Duration::from_secs(5),
        touches_watched: true,
        ..DriverOptions::new(Clock::system())
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn refused(options: DriverOptions) -> Unknown {
    match runtime().block_on(Driver::open(options)) {
        Ok((facts, _, _)) => panic!("opened: {facts:?}"),
        Err(unknown) => unknown,
    }
}

impl Opened {
    pub(crate) fn with(options: DriverOptions) -> Self {
        let runtime = runtime();
        let (facts, gpus, driver) = runtime.block_on(Driver::open(options)).unwrap();
        Self { runtime, driver, facts, gpus, finals: Vec::new() }
    }

    pub(crate) fn of(sim: &Sim) -> Self {
        Self::with(options(sim.library()))
    }

    pub(crate) fn request(&self, request: ReadRequest) {
        self.driver.worker(&self.gpus[0].uuid).unwrap().request(request);
    }

    pub(crate) fn report(&mut self) -> Report {
        let driver = &mut self.driver;
        let next = async { tokio::time::timeout(PATIENCE, driver.next()).await };
        self.runtime.block_on(next).expect("a report in time").expect("a worker")
    }

    /// Asks again and again until an outcome fits.
    pub(crate) fn until(&mut self, what: &str, fits: impl Fn(&ReadOutcome) -> bool) -> ReadOutcome {
        let request = ReadRequest { processes: true, ..SWEEP };
        self.until_by(request, what, fits)
    }

    pub(crate) fn until_by(
        &mut self,
        request: ReadRequest,
        what: &str,
        fits: impl Fn(&ReadOutcome) -> bool,
    ) -> ReadOutcome {
        let started = Duration::from_nanos(Clock::system().now().mono_ns);
        loop {
            self.request(request);
            if let Report::Read(outcome) = self.report() {
                self.finals.extend(outcome.findings.iter().filter_map(|finding| match finding {
                    Finding::Final(row) => Some(row.clone()),
                    _ => None,
                }));
                if outcome.gpu == self.gpus[0].uuid && fits(&outcome) {
                    return *outcome;
                }
            }
            let now = Duration::from_nanos(Clock::system().now().mono_ns);
            assert!(now.saturating_sub(started) < PATIENCE, "waited in vain: {what}");
        }
    }

    pub(crate) fn until_unknown(&mut self, word: &str) -> Unknown {
        let outcome = self.until(word, |seen| seen.unknowns.iter().any(|u| u.word() == word));
        outcome.unknowns.into_iter().find(|unknown| unknown.word() == word).unwrap()
    }

    /// A read after which everything that was wrong is right again.
    pub(crate) fn until_well(&mut self) {
        self.until("a read without a failure", |seen| {
            seen.unknowns.iter().all(|u| u.reason == UnknownReason::EmptyAccountedList)
        });
    }

    pub(crate) fn until_finals(&mut self, count: usize) {
        while self.finals.len() < count {
            let before = self.finals.len();
            self.until("a final row", |seen| {
                seen.findings.iter().any(|finding| matches!(finding, Finding::Final(_)))
            });
            assert!(self.finals.len() > before);
        }
    }
}

pub(crate) fn gaps(outcome: &ReadOutcome) -> Vec<GapCause> {
    let gaps = outcome.findings.iter().filter_map(|finding| match finding {
        Finding::Gap(gap) => Some(gap.cause),
        _ => None,
    });
    gaps.collect()
}
