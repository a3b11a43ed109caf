//! The tracer's cost on what it traces, as a paired ratio.
//!
//! A loop of fork, exec and exit is timed in short blocks, with and without the agent. Two blocks
//! with it stand between two without: whatever drifts in the meantime falls on both sides alike.
//! Each round has two blocks more without the agent in the same place, after the time that an agent
//! takes to start: their ratio is what the machine alone makes of 1. Both ratios are medians over
//! the rounds with the bounds of their confidence, and no verdict is given that the bounds do not
//! give.

use super::guard;
use super::measure::{Bench, Session};
use super::statistics::{Estimate, Shuffler, estimate, median, ratio_ppm};
use super::storm::Shape;
use super::tracer::Tracer;
use crate::text::complain;
use anyhow::Context as _;
use std::time::Duration;

/// Processes timed together.
const CHUNK: u64 = 100;
/// Chunks of a block; the block's time is their median, which a few hiccups do not move.
const CHUNKS: u64 = 20;
/// Between blocks, as long as it takes until an agent that just ended is gone from the kernel.
const PAUSE: Duration = Duration::from_millis(300);
/// Before the blocks of the control, about as long as an agent takes to start and come to rest.
const SHAM_START: Duration = Duration::from_millis(1_200);

/// What stands between blocks without the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    Control,
    With,
}

/// The ratios of one kind of time, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratios {
    /// Time with the agent to time without.
    pub(super) cost: Estimate,
    /// Time without the agent to time without the agent.
    pub(super) control: Estimate,
}

/// What was found.
pub(super) struct Paired {
    pub(super) rounds: usize,
    /// Of the time that passes.
    pub(super) elapsed: Ratios,
    /// Of CPU time of the loop and its processes, which other work on the machine hardly moves.
    pub(super) cpu: Ratios,
    /// Of one fork, exec and exit without the agent.
    pub(super) process_ns: u64,
}

/// One block, or two summed.
#[derive(Clone, Copy)]
struct Spent {
    /// Of a chunk.
    elapsed_ns: u64,
    /// Of all chunks.
    cpu_ns: u64,
}

impl Spent {
    fn plus(self, other: Self) -> Self {
        Self { elapsed_ns: self.elapsed_ns + other.elapsed_ns, cpu_ns: self.cpu_ns + other.cpu_ns }
    }
}

/// Ratios of one kind of time, a round each.
#[derive(Default)]
struct Series {
    costs: Vec<u64>,
    controls: Vec<u64>,
}

impl Series {
    fn note(&mut self, middle: Middle, inner_ns: u64, outer_ns: u64) -> anyhow::Result<()> {
        let ratio = ratio_ppm(inner_ns, outer_ns).context("a block that took no time")?;
        match middle {
            Middle::With => self.costs.push(ratio),
            Middle::Control => self.controls.push(ratio),
        }
        Ok(())
    }

    fn ratios(&self) -> anyhow::Result<Ratios> {
        let cost = estimate(&self.costs).context("no rounds")?;
        Ok(Ratios { cost, control: estimate(&self.controls).context("no rounds")? })
    }
}

/// Runs `rounds` rounds in an order drawn from `seed`.
pub(super) fn run(bench: &Bench<'_>, rounds: usize, seed: u64) -> anyhow::Result<Paired> {
    let mut shuffler = Shuffler::new(seed);
    let (mut elapsed, mut cpu) = (Series::default(), Series::default());
    let mut without = Vec::new();
    for round in 1..=rounds {
        let mut order = [Middle::Control, Middle::With];
        shuffler.shuffle(&mut order);
        let mut before = block(bench)?;
        for middle in order {
            let inner = two_blocks(bench, middle)?;
            let after = block(bench)?;
            let outer = before.plus(after);
            elapsed.note(middle, inner.elapsed_ns, outer.elapsed_ns)?;
            cpu.note(middle, inner.cpu_ns, outer.cpu_ns)?;
            without.push(before.elapsed_ns);
            before = after;
        }
        if round % 10 == 0 {
            complain(&format!("paired ratio: round {round} of {rounds}"));
        }
    }
    Ok(Paired {
        rounds,
        elapsed: elapsed.ratios()?,
        cpu: cpu.ratios()?,
        process_ns: median(&without).context("no rounds")? / CHUNK,
    })
}

/// Two blocks, with an agent or without.
fn two_blocks(bench: &Bench<'_>, middle: Middle) -> anyhow::Result<Spent> {
    let session = match middle {
        Middle::With => Some(Session::start(bench, Tracer::GpuLedger)?),
        Middle::Control => {
            guard::pause(SHAM_START)?;
            None
        }
    };
    let spent = block(bench)?.plus(block(bench)?);
    if let Some(mut session) = session {
        session.end()?;
    }
    Ok(spent)
}

/// One block, after a pause.
fn block(bench: &Bench<'_>) -> anyhow::Result<Spent> {
    let shape = Shape { processes: CHUNK * CHUNKS, workers: 1, rate: 0, chunk: CHUNK };
    guard::pause(PAUSE)?;
    let (blown, _) = bench.programs.blow(&shape, || Ok(()))?;
    let elapsed_ns = median(&blown.chunks_ns).context("a storm without chunks")?;
    Ok(Spent { elapsed_ns, cpu_ns: blown.cpu_ns })
}
