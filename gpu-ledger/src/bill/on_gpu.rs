//! What the line of a GPU got, on a bill by GPU: of a line that is the whole GPU the words of its statement
//! hold, and alone is no other *process*.

use std::collections::BTreeMap;

use super::{Bill, GpuBooks, Holding, Kind, LineKey, Parts};
use crate::unit::{Ms, Pid, Span};

/// Splits the union of each kind of holding on every GPU's line by how many processes held the GPU.
pub(super) fn split_by_process(bill: &mut Bill<LineKey>, books: &[GpuBooks<LineKey>]) {
    let mut lines: BTreeMap<LineKey, Unions> = BTreeMap::new();
    for of_gpu in books {
        let holdings = of_gpu.holdings();
        // Whoever has an identity stands on the line of the GPU.
        let line = holdings.iter().map(|one| one.account).find(|line| line.reason.is_none());
        if let Some(line) = line {
            let unions = unions(bill.period, &holdings, &of_gpu.uncovered);
            lines.entry(line).or_insert(Unions::NONE).add(unions);
        }
    }
    for line in &mut bill.accounts {
        if let Some(unions) = lines.get(&line.account) {
            line.settled = unions.settled;
            line.open = unions.open;
            line.settled_or_open = unions.settled_or_open;
            line.no_driver_row = unions.no_driver_row;
        }
    }
}

/// How long each of settled time, and of what open rows would add to it by settling, no other process held
/// the GPU.
pub(super) fn by_process(period: Span, books: &GpuBooks<LineKey>) -> (Ms, Ms) {
    let unions = unions(period, &books.holdings(), &books.uncovered);
    let open = unions.settled_or_open.alone.0.saturating_sub(unions.settled.alone.0);
    (unions.settled.alone, Ms(open))
}

/// The unions of the holdings that have an identity.
#[derive(Clone, Copy, Debug)]
struct Unions {
    settled: Parts,
    open: Parts,
    settled_or_open: Parts,
    no_driver_row: Parts,
}

impl Unions {
    const NONE: Self = Self {
        settled: Parts::NONE,
        open: Parts::NONE,
        settled_or_open: Parts::NONE,
        no_driver_row: Parts::NONE,
    };

    fn add(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.settled, other.settled),
            (&mut self.open, other.open),
            (&mut self.settled_or_open, other.settled_or_open),
            (&mut self.no_driver_row, other.no_driver_row),
        ] {
            // Two GPUs of one name: no more than the periods of both.
            *sum = sum.checked_add(more).unwrap_or(*sum);
        }
    }
}

/// An edge: what is open from there on, or no more.
#[derive(Clone, Copy)]
enum Edge<'a> {
    Open(&'a Holding<LineKey>),
    Close(&'a Holding<LineKey>),
    Blind,
    Sighted,
}

/// How many hold the GPU at a moment, and in which way.
#[derive(Default)]
struct Now {
    processes: BTreeMap<Pid, u64>,
    settled: u64,
    open: u64,
    rowless: u64,
    blind: u64,
}

fn unions(period: Span, holdings: &[Holding<LineKey>], uncovered: &[Span]) -> Unions {
    let mut edges: Vec<(u64, Edge<'_>)> = Vec::new();
    for holding in holdings {
        if let Some(span) = holding.span.overlap(period) {
            edges.push((span.from_ms(), Edge::Open(holding)));
            edges.push((span.to_ms(), Edge::Close(holding)));
        }
    }
    for span in uncovered.iter().filter_map(|span| span.overlap(period)) {
        edges.push((span.from_ms(), Edge::Blind));
        edges.push((span.to_ms(), Edge::Sighted));
    }
    edges.sort_by_key(|(at, _)| *at);
    let (mut now, mut unions, mut last) = (Now::default(), Unions::NONE, period.from_ms());
    for (at, edge) in edges {
        now.pass(Ms(at.saturating_sub(last)), &mut unions);
        last = at;
        now.take(edge);
    }
    unions
}

impl Now {
    /// Time passes as it is.
    fn pass(&self, ms: Ms, unions: &mut Unions) {
        let add = |parts: &mut Parts| {
            let part = match (self.processes.len(), self.blind) {
                (2.., _) => &mut parts.shared,
                (_, 0) => &mut parts.alone,
                (_, _) => &mut parts.uncovered,
            };
            *part = Ms(part.0.saturating_add(ms.0));
        };
        if self.settled > 0 {
            add(&mut unions.settled);
        }
        if self.open > 0 {
            add(&mut unions.open);
        }
        if self.settled > 0 || self.open > 0 {
            add(&mut unions.settled_or_open);
        }
        if self.rowless > 0 {
            add(&mut unions.no_driver_row);
        }
    }

    fn take(&mut self, edge: Edge<'_>) {
        match edge {
            Edge::Blind => self.blind = self.blind.saturating_add(1),
            Edge::Sighted => self.blind = self.blind.saturating_sub(1),
            Edge::Open(holding) => {
                let count = self.processes.entry(holding.pid).or_default();
                *count = count.saturating_add(1);
                if let Some(count) = self.of(holding) {
                    *count = count.saturating_add(1);
                }
            }
            Edge::Close(holding) => {
                if let Some(count) = self.processes.get_mut(&holding.pid) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        self.processes.remove(&holding.pid);
                    }
                }
                if let Some(count) = self.of(holding) {
                    *count = count.saturating_sub(1);
                }
            }
        }
    }

    /// Where a holding counts, beside being a process: nowhere without an identity, or in dispute.
    const fn of(&mut self, holding: &Holding<LineKey>) -> Option<&mut u64> {
        match (holding.account.reason, holding.kind) {
            (Some(_), _) | (None, Kind::Disputed) => None,
            (None, Kind::Settled) => Some(&mut self.settled),
            (None, Kind::Open) => Some(&mut self.open),
            (None, Kind::NoDriverRow) => Some(&mut self.rowless),
        }
    }
}
