//! What the line of a GPU got, on a bill by GPU: of a line that is the whole GPU the words of its statement
//! hold, and alone is no other *process*.

use std::collections::BTreeMap;

use super::intervals::{Walk, walk};
use super::lines::Settlements;
use super::{Bill, GpuBooks, Holding, Kind, LineKey, Parts};
use crate::unit::{Ms, Pid, Span};

/// Splits the union of each kind of holding on every GPU's line by how many processes held the GPU.
pub(super) fn split_by_process<S: Settlements<LineKey>>(
    bill: &mut Bill<LineKey>,
    books: &[GpuBooks<LineKey, S>],
) {
    let mut lines: BTreeMap<LineKey, Unions> = BTreeMap::new();
    for of_gpu in books {
        // Whoever has an identity stands on the line of the GPU.
        let line = of_gpu.holdings().map(|one| one.account).find(|line| line.reason.is_none());
        if let Some(line) = line {
            let unions = unions(bill.period, of_gpu);
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
pub(super) fn by_process<S: Settlements<LineKey>>(
    period: Span,
    books: &GpuBooks<LineKey, S>,
) -> (Ms, Ms) {
    let unions = unions(period, books);
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

/// How many hold the GPU at a moment, and in which way.
struct Now<'b, S> {
    period: Span,
    books: &'b GpuBooks<LineKey, S>,
    at: u64,
    unions: Unions,
    processes: BTreeMap<Pid, u64>,
    settled: u64,
    open: u64,
    rowless: u64,
    blind: u64,
}

fn unions<S: Settlements<LineKey>>(period: Span, books: &GpuBooks<LineKey, S>) -> Unions {
    let mut now = Now {
        period,
        books,
        at: period.from_ms(),
        unions: Unions::NONE,
        processes: BTreeMap::new(),
        settled: 0,
        open: 0,
        rowless: 0,
        blind: 0,
    };
    let spans = (0..books.len()).filter_map(|place| Some((place, books.holding(place)?.span)));
    walk(period, spans, &books.uncovered, &mut now);
    now.unions
}

impl<S: Settlements<LineKey>> Walk for Now<'_, S> {
    type Holding = Holding<LineKey>;

    fn advance(&mut self, to: u64) {
        let ms = Ms(to.saturating_sub(self.at));
        self.at = to;
        self.pass(ms);
    }

    fn blind(&mut self, is_blind: bool) {
        self.blind =
            if is_blind { self.blind.saturating_add(1) } else { self.blind.saturating_sub(1) };
    }

    fn open(&mut self, place: usize) -> Option<(u64, Holding<LineKey>)> {
        let holding = self.books.holding(place)?;
        let until = holding.span.overlap(self.period)?.to_ms();
        let count = self.processes.entry(holding.pid).or_default();
        *count = count.saturating_add(1);
        if let Some(count) = self.of(&holding) {
            *count = count.saturating_add(1);
        }
        Some((until, holding))
    }

    fn close(&mut self, holding: Holding<LineKey>) {
        if let Some(count) = self.processes.get_mut(&holding.pid) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.processes.remove(&holding.pid);
            }
        }
        if let Some(count) = self.of(&holding) {
            *count = count.saturating_sub(1);
        }
    }
}

impl<S> Now<'_, S> {
    /// Time passes as it is.
    fn pass(&mut self, ms: Ms) {
        let mut unions = self.unions;
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
        self.unions = unions;
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
