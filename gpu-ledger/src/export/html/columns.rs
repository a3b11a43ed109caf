//! From spans to the columns of a picture: what of each column's time was whose. However many spans there are, there
//! are so many columns; a span shorter than one is its share of it, so that an area is always time.

use std::collections::BTreeMap;

use super::look::{Look, Looks};
use crate::bill::report::Lane;
use crate::unit::{Pid, Span};

/// Columns of a picture.
pub(super) const COLUMNS: u64 = 960;

/// What a moment of a GPU was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Part {
    /// Held, by exactly one process, and seen.
    Alone(Look),
    /// Held beside another process.
    Shared(Look),
    /// Held, and nobody saw who else did.
    Unseen(Look),
    /// Seen, and held by nobody.
    Free,
    /// Not seen, and no holder is known.
    Uncovered,
}

/// Of each column so many parts of [`WHOLE`] of its time; all of them together are the column.
pub(super) type Column = BTreeMap<Part, u64>;

/// Parts of a millisecond, so that what several share is divided without losing one.
pub(super) const WHOLE: u64 = 27_720;

#[derive(Clone, Copy)]
enum Edge {
    Open(Look, Pid),
    Close(Look, Pid),
    Blind,
    Sighted,
}

/// Who holds the GPU at a moment.
#[derive(Default)]
struct Now {
    looks: BTreeMap<Look, u64>,
    processes: BTreeMap<Pid, u64>,
    blind: u64,
}

/// The columns of one GPU.
pub(super) fn columns(lane: &Lane, period: Span, looks: &Looks) -> Vec<Column> {
    let mut edges: Vec<(u64, Edge)> = Vec::new();
    for holding in &lane.holdings {
        let (look, pid) = (looks.look(holding.account), holding.pid);
        edges.push((holding.span.from_ms(), Edge::Open(look, pid)));
        edges.push((holding.span.to_ms(), Edge::Close(look, pid)));
    }
    for span in &lane.uncovered {
        edges.push((span.from_ms(), Edge::Blind));
        edges.push((span.to_ms(), Edge::Sighted));
    }
    edges.sort_by_key(|(at, _)| *at);
    let mut drawn = Drawn::new(period);
    let (mut now, mut last) = (Now::default(), period.from_ms());
    for (at, edge) in edges {
        drawn.pass(last, at, &now);
        last = last.max(at);
        now.take(edge);
    }
    drawn.pass(last, period.to_ms(), &now);
    drawn.columns
}

impl Now {
    fn take(&mut self, edge: Edge) {
        match edge {
            Edge::Blind => self.blind = self.blind.saturating_add(1),
            Edge::Sighted => self.blind = self.blind.saturating_sub(1),
            Edge::Open(look, pid) => {
                more(&mut self.looks, look);
                more(&mut self.processes, pid);
            }
            Edge::Close(look, pid) => {
                less(&mut self.looks, &look);
                less(&mut self.processes, &pid);
            }
        }
    }

    /// What a moment is, each with its share of it.
    fn parts(&self) -> Vec<(Part, u64)> {
        if self.looks.is_empty() {
            let part = if self.blind > 0 { Part::Uncovered } else { Part::Free };
            return vec![(part, WHOLE)];
        }
        let part = |look| match (self.processes.len(), self.blind) {
            (2.., _) => Part::Shared(look),
            (_, 0) => Part::Alone(look),
            (_, _) => Part::Unseen(look),
        };
        let holders = u64::try_from(self.looks.len()).unwrap_or(u64::MAX);
        let each = WHOLE.checked_div(holders).unwrap_or(0);
        self.looks.keys().map(|look| (part(*look), each)).collect()
    }
}

fn more<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

fn less<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

struct Drawn {
    period: Span,
    columns: Vec<Column>,
}

impl Drawn {
    fn new(period: Span) -> Self {
        let columns = (0..COLUMNS).map(|_| Column::new()).collect();
        Self { period, columns }
    }

    /// The first moment of a column; that of the one after the last is the period's end.
    fn begin(&self, column: u64) -> u64 {
        let length = u128::from(self.period.length().0);
        let part = length.saturating_mul(column.into()).checked_div(COLUMNS.into()).unwrap_or(0);
        self.period.from_ms().saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// The column that a moment lies in.
    fn column(&self, at: u64) -> u64 {
        let since = u128::from(at.saturating_sub(self.period.from_ms()));
        let column =
            since.saturating_mul(COLUMNS.into()).checked_div(self.period.length().0.into());
        let mut column = u64::try_from(column.unwrap_or(0)).unwrap_or(COLUMNS);
        // A beginning is cut to its millisecond, which then is the column's.
        while column < COLUMNS && self.begin(column.saturating_add(1)) <= at {
            column = column.saturating_add(1);
        }
        column.min(COLUMNS.saturating_sub(1))
    }

    /// From here to there the GPU was so.
    fn pass(&mut self, from: u64, to: u64, now: &Now) {
        if from >= to {
            return;
        }
        let parts = now.parts();
        for column in self.column(from)..=self.column(to.saturating_sub(1)) {
            let (begin, end) = (self.begin(column), self.begin(column.saturating_add(1)));
            let ms = to.min(end).saturating_sub(from.max(begin));
            let drawn = usize::try_from(column).ok().and_then(|at| self.columns.get_mut(at));
            if let Some(drawn) = drawn.filter(|_| ms > 0) {
                for (part, share) in &parts {
                    let sum = drawn.entry(*part).or_default();
                    *sum = sum.saturating_add(ms.saturating_mul(*share));
                }
            }
        }
    }
}
