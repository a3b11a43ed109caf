//! The tracer's cost on what it traces, as a paired ratio.
//!
//! A loop of fork, exec and exit is timed in short blocks, with and without the agent. Blocks that
//! are compared lie seconds apart, so that whatever else slows the machine slows both. Each round
//! has a third block, again without the agent: its ratio to the first is what the machine alone
//! makes of 1, and no ratio closer to 1 than that spread means anything.

use super::guard;
use super::measure::{Bench, Session};
use super::statistics::{Quartiles, Shuffler, median, quartiles, ratio_ppm};
use super::storm::Shape;
use super::text::complain;
use super::tracer::Tracer;
use anyhow::Context as _;
use std::time::Duration;

/// Processes timed together.
const CHUNK: u64 = 400;
/// Chunks of a block; the block's time is their median, which one hiccup does not move.
const CHUNKS: u64 = 5;
/// Between blocks, as long as it takes until an agent that just ended is gone from the kernel.
const PAUSE: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Without,
    Control,
    With,
}

/// The ratios found, in parts per million.
pub(super) struct Paired {
    pub(super) rounds: usize,
    /// Time with the agent to time without.
    pub(super) cost: Quartiles,
    /// Time without the agent to time without the agent.
    pub(super) control: Quartiles,
    /// Of one fork, exec and exit without the agent.
    pub(super) process_ns: u64,
}

/// Runs `rounds` rounds in an order drawn from `seed`.
pub(super) fn run(bench: &Bench<'_>, rounds: usize, seed: u64) -> anyhow::Result<Paired> {
    let mut shuffler = Shuffler::new(seed);
    let mut costs = Vec::new();
    let mut controls = Vec::new();
    let mut without = Vec::new();
    for round in 1..=rounds {
        let mut order = [Block::Without, Block::Control, Block::With];
        shuffler.shuffle(&mut order);
        let (mut bare_ns, mut control_ns, mut traced_ns) = (0, 0, 0);
        for block in order {
            match block {
                Block::Without => bare_ns = time(bench, false)?,
                Block::Control => control_ns = time(bench, false)?,
                Block::With => traced_ns = time(bench, true)?,
            }
        }
        costs.push(ratio_ppm(traced_ns, bare_ns).context("a block that took no time")?);
        controls.push(ratio_ppm(control_ns, bare_ns).context("a block that took no time")?);
        without.push(bare_ns);
        if round % 10 == 0 {
            complain(&format!("paired ratio: round {round} of {rounds}"));
        }
    }
    Ok(Paired {
        rounds,
        cost: quartiles(&costs).context("no rounds")?,
        control: quartiles(&controls).context("no rounds")?,
        process_ns: median(&without).context("no rounds")? / CHUNK,
    })
}

/// The time of one block's chunk.
fn time(bench: &Bench<'_>, is_traced: bool) -> anyhow::Result<u64> {
    let shape = Shape { processes: CHUNK * CHUNKS, workers: 1, rate: 0, chunk: CHUNK };
    let session = is_traced.then(|| Session::start(bench, Tracer::GpuLedger)).transpose()?;
    guard::pause(PAUSE)?;
    let (blown, _) = bench.programs.blow(&shape, || Ok(()))?;
    if let Some(mut session) = session {
        session.end()?;
    }
    median(&blown.chunks_ns).context("a storm without chunks")
}
