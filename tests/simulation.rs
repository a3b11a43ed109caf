//! Whole lives of a host, each made of one seed: processes, driver, clocks, disk and agent, all virtual,
//! with the product's own host, harvest, drafts and chain in their midst. After every step the invariants of
//! a ledger are checked against the journal's bytes, and against the truth that the simulation keeps.
#![expect(
    clippy::disallowed_methods,
    reason = "the seed to replay comes from the environment, and the figures go past the harness"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test that cannot go on stops"
)]

#[path = "simulation/agent.rs"]
mod agent;
#[path = "simulation/audit.rs"]
mod audit;
#[path = "simulation/bills.rs"]
mod bills;
#[path = "simulation/bugs.rs"]
mod bugs;
#[path = "simulation/clocks.rs"]
mod clocks;
#[path = "simulation/disk.rs"]
mod disk;
#[path = "simulation/faulty.rs"]
mod faulty;
#[path = "simulation/kernel.rs"]
mod kernel;
#[path = "simulation/life.rs"]
mod life;
#[path = "simulation/reader.rs"]
mod reader;
#[path = "simulation/resume.rs"]
mod resume;
#[path = "simulation/tally.rs"]
mod tally;
#[path = "simulation/truth.rs"]
mod truth;
#[path = "simulation/world.rs"]
mod world;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bugs::Bug;
use life::{Failure, STEPS_MIN, live};
use tally::{Kind, Tally};

/// Lives that every run of the tests lives through.
const SEEDS: u64 = 1_000;
/// In so many of them each planted fault must be caught at least once.
const SEEDS_OF_A_FAULT: u64 = 400;
/// Lives that may fail before no more are begun.
const FAILURES_MAX: usize = 16;

fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var_os(name)?;
    Some(value.to_str().and_then(|text| text.parse().ok()).expect("a number"))
}

/// Lives through seeds on all cores, until `failures_max` of them fail; the failed ones by seed.
fn live_all(
    seeds: std::ops::Range<u64>,
    bug: Option<Bug>,
    failures_max: usize,
) -> (Tally, Vec<Failure>) {
    let next = AtomicU64::new(seeds.start);
    let sum: Mutex<(Tally, Vec<Failure>)> = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let lived = live(seed, bug);
                    let mut sum = sum.lock().unwrap();
                    match lived {
                        Ok(tally) => sum.0.merge(&tally),
                        Err(failure) => sum.1.push(failure),
                    }
                    if sum.1.len() >= failures_max {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (tally, mut failures) = sum.into_inner().unwrap();
    failures.sort_by_key(|failure| failure.seed);
    (tally, failures)
}

#[test]
fn a_thousand_lives_of_a_host_keep_every_invariant() {
    if let Some(seed) = from_environment("GPU_LEDGER_SIM_SEED") {
        if let Err(failure) = live(seed, None) {
            panic!("{failure}");
        }
        return;
    }
    let began = Instant::now();
    let seeds = from_environment("GPU_LEDGER_SIM_SEEDS").unwrap_or(SEEDS);
    let (tally, failures) = live_all(0..seeds, None, FAILURES_MAX);
    if let Some(first) = failures.first() {
        let lines = failures.iter().map(|one| format!("  seed {}: {}\n", one.seed, one.what));
        panic!("{}{first}", lines.collect::<String>());
    }
    let took = began.elapsed().as_millis();
    let mut text = format!("{seeds} lives of {STEPS_MIN} steps and more in {took} ms:");
    for kind in Kind::ALL {
        let _ = write!(text, " {kind:?} {}", tally.of(*kind));
    }
    let _ = writeln!(std::io::stderr(), "{text}");
    let never: Vec<&Kind> = Kind::ALL.iter().filter(|kind| tally.of(**kind) == 0).collect();
    assert!(never.is_empty() || seeds < SEEDS, "never happened: {never:?}");
}

#[test]
fn one_seed_is_one_life() {
    let first = live(7, None).map(|tally| format!("{tally:?}")).map_err(|failure| failure.what);
    let second = live(7, None).map(|tally| format!("{tally:?}")).map_err(|failure| failure.what);
    assert_eq!(first, second);
}

#[test]
fn every_planted_fault_is_caught() {
    let mut escaped = Vec::new();
    let mut text = String::from("planted faults:");
    for bug in Bug::ALL {
        match live_all(0..SEEDS_OF_A_FAULT, Some(*bug), 1).1.pop() {
            Some(failure) => {
                let Failure { seed, step, what, .. } = failure;
                let _ = write!(text, "\n  {bug:?}: seed {seed}, step {step}: {what}");
            }
            None => escaped.push(bug),
        }
    }
    let _ = writeln!(std::io::stderr(), "{text}");
    assert!(escaped.is_empty(), "not caught in {SEEDS_OF_A_FAULT} lives: {escaped:?}");
}
