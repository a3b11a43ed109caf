//! When each GPU was in sight: from the agent's own edges, the GPU's epochs and its good reads.
//!
//! A GPU is in sight from the beginning of an epoch, while the agent is at work, to its last good read that a mark
//! names. So it is never in sight before it was ever seen, after that read, or while nobody looked. Nor since its
//! list is empty and nobody could say that it really is: until a later one proves more, it may as well be held.
//!
//! That a row was entered since the last mark says nothing of the others that the same read showed: they may have
//! found no room on their way to the journal, and are asked for again. Marks alone wait for that.

use std::sync::Arc;

use crate::bill::gap_spans;
use crate::coverage::Gap;
use crate::unit::{GpuUuid, Ms, Span};
use crate::unknown::GapCause;

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
    /// The stretch that has no end yet, up to the last mark.
    now: Option<Span>,
    /// What became of the rows that ran when its accounting was found lost; `None` while it is on.
    rows_over: Option<RowsOver>,
    /// The last gap of its rows that was told.
    gap_ms: Option<(u64, u64)>,
    /// The last moment at which a read of it brought an answer, in sight or not: as the last mark
    /// says, and with what came after it.
    answered_ms: (Option<u64>, Option<u64>),
    /// From when to when its empty list is not believed: as the last mark says, and with what came after it.
    doubt: (Option<Span>, Option<Span>),
    /// The same of what is over and was never proven.
    doubted: Vec<Span>,
    /// Dead rows in the driver's store at the last read that is noted, and when that was.
    dead_rows: Option<(u64, u64)>,
}

/// Accounting is lost, and with it every row that ran: the driver throws them away at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowsOver {
    /// Number of the entry that says so: rows that were entered before are meant.
    pub(super) seq: u64,
    /// Up to when they were seen to run.
    pub(super) last_seen_ms: u64,
    /// How it was lost.
    pub(super) cause: GapCause,
}

impl Sight {
    /// The agent's run is over: what came after its last mark is not proof of what was seen, since a
    /// reader of a part of the journal is not given it.
    fn close(&mut self) {
        self.seen.extend(self.now.take());
        self.answered_ms.1 = self.answered_ms.0;
        self.doubted.extend(self.doubt.0.take());
        self.doubt.1 = None;
    }

    /// Whether an empty list of it was not believed, at any time of the period.
    pub(super) fn is_doubted(&self, period: Span) -> bool {
        let mut doubts = self.doubted.iter().copied().chain(self.doubt.1);
        doubts.any(|doubt| doubt.overlap(period).is_some())
    }

    pub(in crate::bill) fn spans(&self) -> impl Iterator<Item = Span> {
        self.seen.iter().copied().chain(self.now)
    }

    /// Up to when a holder that was not seen to end is known to have held it.
    pub(super) const fn answered_ms(&self) -> Option<u64> {
        self.answered_ms.1
    }

    /// The same of one with a row: while accounting is not known to be on, no answer shows rows.
    pub(super) fn rows_answered_ms(&self) -> Option<u64> {
        let seen = self.seen.last().filter(|_| self.now.is_none());
        seen.map(|seen| seen.to_ms()).or(self.answered_ms.1)
    }

    /// What became of a row that an entry of this number says to run, where accounting was lost since.
    pub(super) fn row_over(&self, seq: u64) -> Option<RowsOver> {
        self.rows_over.filter(|over| seq < over.seq)
    }

    /// Dead rows at the last read that is noted, where that lies in the period.
    pub(super) fn dead_rows_last(&self, period: Span) -> Option<u64> {
        let (at, rows) = self.dead_rows?;
        (period.from_ms() <= at && at <= period.to_ms()).then_some(rows)
    }

    /// When its holders could not be seen: outside of its sight, and in gaps of its rows.
    pub(super) fn uncovered(&self, period: Span, gaps: &[Gap]) -> Vec<Span> {
        let mut uncovered = outside(period, self.spans());
        uncovered.extend(gap_spans(period, gaps, &self.gpu, |stamp| stamp.wall.ms()));
        uncovered
    }

    /// The end of the period that the next read will tell of: after the last good read of a GPU
    /// that is still being read.
    pub(super) fn unread(&self, period: Span, as_of_ms: u64, pending_ms_max: u64) -> Option<Span> {
        let now = self.now?;
        // It was read, and not believed: that is no matter of waiting.
        if self.doubt.1.is_some() {
            return None;
        }
        if as_of_ms.saturating_sub(now.to_ms()) > pending_ms_max {
            return None;
        }
        // No read is awaited for longer than that: the rest is merely not seen.
        let end_ms = period.to_ms().min(as_of_ms.saturating_add(pending_ms_max));
        let tail = Span::new(now.to_ms(), end_ms.max(now.to_ms()));
        tail.and_then(|tail| tail.overlap(period))
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
    latest_ms: Option<u64>,
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
            rows_over: None,
            gap_ms: None,
            answered_ms: (None, None),
            doubt: (None, None),
            doubted: Vec::new(),
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

    /// The last entry was made at this moment.
    pub(super) fn learnt(&mut self, at_ms: u64) {
        self.learnt_ms = Some(at_ms);
        self.latest_ms = self.latest_ms.max(Some(at_ms));
    }

    /// An entry tells of this moment. It may be later than the entry itself, where the wall clock was set back
    /// between the two.
    pub(super) fn told_of(&mut self, at_ms: u64) {
        self.latest_ms = self.latest_ms.max(Some(at_ms));
    }

    /// The latest moment at which any entry was made, or that one tells of.
    pub(super) const fn latest_ms(&self) -> Option<u64> {
        self.latest_ms
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
        let seen = self.gpus.iter().flat_map(Sight::spans);
        let runs = self.runs.iter().map(|run| run.span.from_ms());
        seen.map(Span::from_ms).chain(runs).min()
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
        // What became of each row that ran before is entered next.
        sight.rows_over = None;
        if sight.now.is_none() {
            sight.now = Some(Span::at(at_ms));
        }
    }

    /// Accounting was found lost; what was not seen just before that is a gap.
    pub(super) fn epoch_ended(&mut self, gpu: u32, seq: u64, at_ms: u64, cause: GapCause) {
        if let Some(sight) = self.of_mut(gpu) {
            // The gap that was told ahead of this begins with the last read that showed them.
            let gap = sight.gap_ms.filter(|(_, to)| *to == at_ms);
            let last_seen_ms = gap.map_or(at_ms, |(from, _)| from);
            sight.rows_over = Some(RowsOver { seq, last_seen_ms, cause });
            // What was not believed before it went is not believed for having gone.
            let end_ms = if sight.doubt.1.is_some() { 0 } else { at_ms };
            sight.seen.extend(sight.now.take().map(|marked| until(marked, end_ms)));
            sight.doubted.extend(sight.doubt.1);
            sight.doubt = (None, None);
        }
    }

    /// A mark says that every holder of a GPU was seen up to here, if it was in sight at all; but for what came
    /// since its list is empty and not believed.
    pub(super) fn marked_until(&mut self, gpu: u32, at_ms: u64, doubted_since_ms: Option<u64>) {
        if let Some(sight) = self.of_mut(gpu) {
            let seen_ms = doubted_since_ms.map_or(at_ms, |since| since.min(at_ms));
            // The last mark alone decides: a reader of a part is given no earlier one of its run.
            sight.now = sight.now.map(|marked| until(Span::at(marked.from_ms()), seen_ms));
            sight.answered_ms = (Some(at_ms), Some(at_ms));
            let doubt = doubted_since_ms.and_then(|_| Span::new(seen_ms, at_ms));
            sight.doubt = (doubt, doubt);
        }
    }

    /// What came after the last mark says that there was an answer, by a row that was listed then: which proves of
    /// the empty lists before it that they were, and nothing of other rows.
    pub(super) fn good_until(&mut self, gpu: u32, at_ms: u64) {
        if let Some(sight) = self.of_mut(gpu) {
            sight.doubt.1 = None;
            sight.answered_ms.1 = sight.answered_ms.1.max(Some(at_ms));
        }
    }

    /// A gap ended: there was an answer then, which may have been no more than an empty list.
    pub(super) fn gap(&mut self, gpu: u32, from_ms: u64, at_ms: u64) {
        if let Some(sight) = self.of_mut(gpu) {
            let same = sight.gap_ms.filter(|(_, to)| *to == at_ms);
            let from_ms = same.map_or(from_ms, |(from, _)| from.min(from_ms));
            sight.gap_ms = Some((from_ms, at_ms));
        }
        if self.of(gpu).is_some_and(|sight| sight.doubt.1.is_none()) {
            self.good_until(gpu, at_ms);
        } else if let Some(sight) = self.of_mut(gpu) {
            sight.answered_ms.1 = sight.answered_ms.1.max(Some(at_ms));
        }
    }

    pub(super) fn dead_rows(&mut self, gpu: u32, at_ms: u64, dead_rows: Option<u64>) {
        if let (Some(sight), Some(rows)) = (self.of_mut(gpu), dead_rows) {
            sight.dead_rows = Some((at_ms, rows));
        }
    }

    /// The agent's first and last moment within the period, and how long process events were received.
    pub(super) fn processes(&self, period: Span, gaps: &[Gap]) -> Option<(Span, Ms)> {
        let runs = self.runs.iter().enumerate().filter(|(_, run)| run.process_events);
        let spans = runs.map(|(place, run)| {
            // The last run reaches as far as the journal speaks.
            let is_last = place.saturating_add(1) == self.runs.len() && !run.ended;
            let as_of_ms = self.learnt_ms.filter(|_| is_last);
            until(run.span, as_of_ms.unwrap_or(run.span.to_ms()))
        });
        let within: Vec<Span> = spans.filter_map(|span| span.overlap(period)).collect();
        let from = within.iter().map(|span| span.from_ms()).min()?;
        let to = within.iter().map(|span| span.to_ms()).max()?;
        let whole = Span::new(from, to)?;
        let mut blind = outside(whole, within.into_iter());
        let of_events = gaps.iter().filter(|gap| gap.blinds_processes());
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
pub(in crate::bill) fn outside(period: Span, spans: impl Iterator<Item = Span>) -> Vec<Span> {
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
