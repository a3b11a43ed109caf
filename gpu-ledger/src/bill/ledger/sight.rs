//! When each GPU was in sight: from the agent's own edges, the GPU's epochs and its good reads.
//!
//! A GPU is in sight from the beginning of an epoch, while the agent is at work, to its last good read. So
//! it is never in sight before it was ever seen, after the last good read, or while nobody looked.

use std::sync::Arc;

use crate::bill::gap_spans;
use crate::coverage::{Gap, blinds_processes};
use crate::unit::{GpuUuid, Ms, Span};

/// What is known of one GPU beside its rows.
#[derive(Clone, Debug)]
pub struct Sight {
    /// Which.
    pub gpu: GpuUuid,
    /// Where it enumerated last.
    pub index: Option<u32>,
    /// Its product name.
    pub name: Option<Arc<str>>,
    /// Number of the entry of its last epoch.
    pub(super) epoch_seq: Option<u64>,
    /// Closed stretches in which it was in sight.
    seen: Vec<Span>,
    /// The stretch that has no end yet.
    now: Option<Span>,
    /// The last moment at which a read of it brought an answer, in sight or not.
    answered_ms: Option<u64>,
    /// Dead rows in the driver's store at the last read that is noted, and when that was.
    dead_rows: Option<(u64, u64)>,
}

impl Sight {
    fn close(&mut self) {
        self.seen.extend(self.now.take());
    }

    /// Up to when a holder that was not seen to end is known to have held it.
    pub(super) const fn answered_ms(&self) -> Option<u64> {
        self.answered_ms
    }

    /// Dead rows at the last read that is noted, where that lies in the period.
    pub(super) fn dead_rows_last(&self, period: Span) -> Option<u64> {
        let (at, rows) = self.dead_rows?;
        (period.from_ms() <= at && at <= period.to_ms()).then_some(rows)
    }

    /// When its holders could not be seen: outside of its sight, and in gaps of its rows.
    pub(super) fn uncovered(&self, period: Span, gaps: &[Gap]) -> Vec<Span> {
        let seen = self.seen.iter().chain(&self.now).copied();
        let mut uncovered = outside(period, seen);
        uncovered.extend(gap_spans(period, gaps, &self.gpu));
        uncovered
    }

    /// The end of the period that the next read will tell of: after the last good read of a GPU
    /// that is still being read.
    pub(super) fn unread(&self, period: Span, as_of_ms: u64, pending_ms_max: u64) -> Ms {
        let Some(now) = self.now else { return Ms::ZERO };
        if as_of_ms.saturating_sub(now.to_ms()) > pending_ms_max {
            return Ms::ZERO;
        }
        let tail = Span::new(now.to_ms(), period.to_ms().max(now.to_ms()));
        tail.and_then(|tail| tail.overlap(period)).map_or(Ms::ZERO, Span::length)
    }
}

/// The agent at work once.
#[derive(Clone, Copy, Debug)]
struct Run {
    span: Span,
    process_events: bool,
    ended: bool,
}

/// Every GPU's sight, and the agent's own time.
#[derive(Clone, Debug, Default)]
pub(super) struct Sights {
    gpus: Vec<Sight>,
    runs: Vec<Run>,
    learnt_ms: Option<u64>,
}

impl Sights {
    pub(super) fn add(&mut self, gpu: GpuUuid) -> u32 {
        let number = u32::try_from(self.gpus.len()).unwrap_or(u32::MAX);
        self.gpus.push(Sight {
            gpu,
            index: None,
            name: None,
            epoch_seq: None,
            seen: Vec::new(),
            now: None,
            answered_ms: None,
            dead_rows: None,
        });
        number
    }

    pub(super) fn gpus(&self) -> &[Sight] {
        &self.gpus
    }

    pub(super) fn of(&self, gpu: u32) -> Option<&Sight> {
        self.gpus.get(usize::try_from(gpu).ok()?)
    }

    fn of_mut(&mut self, gpu: u32) -> Option<&mut Sight> {
        self.gpus.get_mut(usize::try_from(gpu).ok()?)
    }

    pub(super) fn uuid(&self, gpu: u32) -> GpuUuid {
        let unknown = || GpuUuid(Arc::from("unknown"));
        self.of(gpu).map_or_else(unknown, |sight| sight.gpu.clone())
    }

    /// An entry was made at this moment.
    pub(super) fn learnt(&mut self, at_ms: u64) {
        self.learnt_ms = self.learnt_ms.max(Some(at_ms));
        self.processes_until(at_ms);
    }

    pub(super) const fn as_of_ms(&self) -> Option<u64> {
        self.learnt_ms
    }

    pub(super) const fn is_running(&self) -> bool {
        match self.runs.as_slice().last() {
            Some(run) => !run.ended,
            None => false,
        }
    }

    pub(super) fn earliest_ms(&self) -> Option<u64> {
        let seen = self.gpus.iter().flat_map(|sight| sight.seen.iter().chain(&sight.now));
        let runs = self.runs.iter().map(|run| run.span.from_ms());
        seen.map(|span| span.from_ms()).chain(runs).min()
    }

    pub(super) fn agent_began(&mut self, at_ms: u64, process_events: bool) {
        // Where it did not end in order, it had seen everything up to its last good reads.
        self.gpus.iter_mut().for_each(Sight::close);
        self.runs.push(Run { span: Span::at(at_ms), process_events, ended: false });
    }

    pub(super) fn agent_ended(&mut self, at_ms: u64) {
        self.processes_until(at_ms);
        self.gpus.iter_mut().for_each(Sight::close);
        if let Some(run) = self.runs.last_mut() {
            run.ended = true;
        }
    }

    /// Process events were taken in up to here.
    pub(super) fn processes_until(&mut self, at_ms: u64) {
        if let Some(run) = self.runs.last_mut().filter(|run| !run.ended) {
            run.span = until(run.span, at_ms);
        }
    }

    pub(super) fn epoch_began(
        &mut self,
        gpu: u32,
        seq: u64,
        at_ms: u64,
        index: u32,
        name: Option<Arc<str>>,
    ) {
        let Some(sight) = self.of_mut(gpu) else { return };
        sight.index = Some(index);
        sight.name = name.or_else(|| sight.name.take());
        sight.epoch_seq = Some(seq);
        if sight.now.is_none() {
            sight.now = Some(Span::at(at_ms));
        }
    }

    /// Accounting was found lost; what was not seen just before that is a gap.
    pub(super) fn epoch_ended(&mut self, gpu: u32, at_ms: u64) {
        self.good_until(gpu, at_ms);
        if let Some(sight) = self.of_mut(gpu) {
            sight.close();
        }
    }

    /// Every holder of a GPU was seen up to here, if it was in sight at all.
    pub(super) fn good_until(&mut self, gpu: u32, at_ms: u64) {
        if let Some(sight) = self.of_mut(gpu) {
            sight.now = sight.now.map(|now| until(now, at_ms));
            sight.answered_ms = sight.answered_ms.max(Some(at_ms));
        }
    }

    pub(super) fn dead_rows(&mut self, gpu: u32, at_ms: u64, dead_rows: Option<u64>) {
        if let (Some(sight), Some(rows)) = (self.of_mut(gpu), dead_rows) {
            sight.dead_rows = Some((at_ms, rows));
        }
    }

    /// The agent's first and last moment within the period, and how long process events were received.
    pub(super) fn processes(&self, period: Span, gaps: &[Gap]) -> Option<(Span, Ms)> {
        let runs = self.runs.iter().filter(|run| run.process_events);
        let within: Vec<Span> = runs.filter_map(|run| run.span.overlap(period)).collect();
        let from = within.iter().map(|span| span.from_ms()).min()?;
        let to = within.iter().map(|span| span.to_ms()).max()?;
        let whole = Span::new(from, to)?;
        let mut blind = outside(whole, within.into_iter());
        let of_events = gaps.iter().filter(|gap| blinds_processes(gap.cause));
        let bounds = |gap: &Gap| {
            let (from, to) = (gap.from.wall.ms(), gap.to.wall.ms());
            Span::new(from.min(to), from.max(to)).and_then(|span| span.overlap(whole))
        };
        blind.extend(of_events.filter_map(bounds));
        let seen = outside(whole, blind.into_iter());
        let covered = seen.iter().fold(0_u64, |sum, span| sum.saturating_add(span.length().0));
        Some((whole, Ms(covered)))
    }
}

fn until(span: Span, at_ms: u64) -> Span {
    Span::new(span.from_ms(), span.to_ms().max(at_ms)).unwrap_or(span)
}

/// What of the period lies in none of the spans.
fn outside(period: Span, spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut inside: Vec<Span> = spans.filter_map(|span| span.overlap(period)).collect();
    inside.sort_unstable_by_key(|span| (span.from_ms(), span.to_ms()));
    let mut outside = Vec::new();
    let mut reached = period.from_ms();
    let end = Span::at(period.to_ms());
    for span in inside.into_iter().chain([end]) {
        if reached < span.from_ms() {
            outside.extend(Span::new(reached, span.from_ms()));
        }
        reached = reached.max(span.to_ms());
    }
    outside
}
