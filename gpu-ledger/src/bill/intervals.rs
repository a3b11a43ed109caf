//! Interval algebra on the bill's millisecond grid: one sweep over sorted edges.
//!
//! The sweep never looks at pairs. It keeps running clocks of what the GPU was at each moment (held
//! by one, by several, not seen); what a holding or an account got is the difference of the clocks
//! between its two edges, since it was itself among the holders all the while. So the cost is the sort,
//! O(n log n), plus the size of the set of accounts wherever that set changes.
//!
//! Every clock is a sum of disjoint stretches of one period, so none can pass 2⁶⁴ − 1 ms; sums
//! saturate all the same, and a saturated one fails the closing check instead of being printed.

use std::collections::BTreeMap;

use super::statement::{Kind, Parts};
use crate::unit::{Ms, Span};

/// One holding, with holder and account as small consecutive numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// When.
    pub(super) span: Span,
    /// By which process.
    pub(super) holder: usize,
    /// On whose account.
    pub(super) account: usize,
    /// On which line.
    pub(super) kind: Kind,
}

/// What the sweep found, in the numbering of its [`Lane`]s.
#[derive(Debug)]
pub(super) struct Swept {
    /// What the GPU was over the whole period, of which `uncovered` includes time with no holder.
    pub(super) gpu: Clocks,
    /// Time covered and held by nobody.
    pub(super) free: u64,
    /// Of each lane, what it got.
    pub(super) lanes: Vec<Parts>,
    /// Of each account, what it got on each line.
    pub(super) accounts: Vec<AccountClocks>,
    /// How long each set of two or more accounts held the GPU at once.
    pub(super) shared_between: BTreeMap<Vec<usize>, u64>,
}

/// Three running sums of milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Clocks {
    /// Held by exactly one, and seen.
    pub(super) alone: u64,
    /// Held by two or more.
    pub(super) shared: u64,
    /// Held by at most one that is known, and not seen.
    pub(super) uncovered: u64,
}

impl Clocks {
    fn add(&mut self, holders: usize, seen: bool, ms: u64) {
        let sum = match (holders, seen) {
            (0 | 1, false) => &mut self.uncovered,
            (0, true) => return,
            (1, true) => &mut self.alone,
            (_, _) => &mut self.shared,
        };
        *sum = sum.saturating_add(ms);
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            alone: self.alone.saturating_sub(earlier.alone),
            shared: self.shared.saturating_sub(earlier.shared),
            uncovered: self.uncovered.saturating_sub(earlier.uncovered),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            alone: self.alone.saturating_add(other.alone),
            shared: self.shared.saturating_add(other.shared),
            uncovered: self.uncovered.saturating_add(other.uncovered),
        }
    }

    /// As parts of a holding, which was held throughout.
    pub(super) fn parts(self) -> Parts {
        Parts { alone: Ms(self.alone), shared: Ms(self.shared), uncovered: Ms(self.uncovered) }
    }
}

/// The presences of one account.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct AccountClocks {
    any: Presence,
    settled: Presence,
    open: Presence,
    disputed: Presence,
    no_driver_row: Presence,
    settled_or_open: Presence,
}

impl AccountClocks {
    /// What the union of its spans of one kind got.
    pub(super) fn of(&self, kind: Kind) -> Parts {
        match kind {
            Kind::Settled => self.settled,
            Kind::Open => self.open,
            Kind::Disputed => self.disputed,
            Kind::NoDriverRow => self.no_driver_row,
        }
        .total
        .parts()
    }

    /// What the union of its settled and open spans got.
    pub(super) fn settled_or_open(&self) -> Parts {
        self.settled_or_open.total.parts()
    }

    fn line(&mut self, kind: Kind) -> &mut Presence {
        match kind {
            Kind::Settled => &mut self.settled,
            Kind::Open => &mut self.open,
            Kind::Disputed => &mut self.disputed,
            Kind::NoDriverRow => &mut self.no_driver_row,
        }
    }
}

/// A union of spans as it grows: how many are open now, and what the union got so far.
#[derive(Clone, Copy, Default, Debug)]
struct Presence {
    open: u32,
    since: Clocks,
    total: Clocks,
}

impl Presence {
    /// Whether this made it present.
    fn enter(&mut self, now: Clocks) -> bool {
        self.open = self.open.saturating_add(1);
        let began = self.open == 1;
        if began {
            self.since = now;
        }
        began
    }

    /// Whether this made it absent.
    fn leave(&mut self, now: Clocks) -> bool {
        self.open = self.open.saturating_sub(1);
        let ended = self.open == 0;
        if ended {
            self.total = self.total.plus(now.since(self.since));
        }
        ended
    }
}

/// What happens at a moment; of a lane, its place. Small, as sorting them is most of the work.
#[derive(Clone, Copy)]
enum Edge {
    Open(usize),
    Close(usize),
    Blind,
    Sighted,
}

/// How much of a period lies in any of these spans.
pub(super) fn union(period: Span, spans: impl Iterator<Item = Span>) -> Ms {
    let mut within: Vec<Span> = spans.filter_map(|span| span.overlap(period)).collect();
    within.sort_unstable_by_key(|span| (span.from_ms(), span.to_ms()));
    let (mut end, mut sum) = (period.from_ms(), 0_u64);
    for span in within {
        // What lies below was counted.
        sum = sum.saturating_add(span.to_ms().saturating_sub(span.from_ms().max(end)));
        end = end.max(span.to_ms());
    }
    Ms(sum)
}

/// Sweeps `lanes` and `uncovered`, each clipped to `period`.
pub(super) fn sweep(
    period: Span,
    lanes: &[Lane],
    uncovered: &[Span],
    holders: usize,
    accounts: usize,
) -> Swept {
    let mut edges =
        Vec::with_capacity(lanes.len().saturating_add(uncovered.len()).saturating_mul(2));
    for (index, lane) in lanes.iter().enumerate() {
        if let Some(span) = lane.span.overlap(period) {
            edges.push((span.from_ms(), Edge::Open(index)));
            edges.push((span.to_ms(), Edge::Close(index)));
        }
    }
    for span in uncovered.iter().filter_map(|span| span.overlap(period)) {
        edges.push((span.from_ms(), Edge::Blind));
        edges.push((span.to_ms(), Edge::Sighted));
    }
    // Edges of one moment need no order among themselves: no time passes between them, and no
    // clipped span is empty, so none closes before it has opened.
    edges.sort_unstable_by_key(|(at, _)| *at);

    let mut sweep = Sweep::new(period, lanes.len(), holders, accounts);
    for (at, edge) in edges {
        sweep.advance(at);
        sweep.apply(edge, lanes);
    }
    sweep.advance(period.to_ms());
    sweep.finish()
}

struct Sweep {
    at: u64,
    blind: u32,
    free: u64,
    /// Clocks that count processes.
    gpu: Clocks,
    /// Clocks that count accounts.
    accounts_clock: Clocks,
    holders_now: usize,
    holders: Vec<u32>,
    lanes_since: Vec<Clocks>,
    lanes: Vec<Parts>,
    accounts: Vec<AccountClocks>,
    /// The accounts present now, in ascending order.
    present: Vec<usize>,
    /// `accounts_clock.shared` when `present` last changed.
    present_since: u64,
    shared_between: BTreeMap<Vec<usize>, u64>,
}

impl Sweep {
    fn new(period: Span, lanes: usize, holders: usize, accounts: usize) -> Self {
        Self {
            at: period.from_ms(),
            blind: 0,
            free: 0,
            gpu: Clocks::default(),
            accounts_clock: Clocks::default(),
            holders_now: 0,
            holders: vec![0; holders],
            lanes_since: vec![Clocks::default(); lanes],
            lanes: vec![Parts::NONE; lanes],
            accounts: vec![AccountClocks::default(); accounts],
            present: Vec::new(),
            present_since: 0,
            shared_between: BTreeMap::new(),
        }
    }

    fn advance(&mut self, to: u64) {
        let ms = to.saturating_sub(self.at);
        if ms == 0 {
            return;
        }
        self.at = to;
        let seen = self.blind == 0;
        self.gpu.add(self.holders_now, seen, ms);
        self.accounts_clock.add(self.present.len(), seen, ms);
        if self.holders_now == 0 && seen {
            self.free = self.free.saturating_add(ms);
        }
    }

    fn apply(&mut self, edge: Edge, lanes: &[Lane]) {
        match edge {
            Edge::Blind => self.blind = self.blind.saturating_add(1),
            Edge::Sighted => self.blind = self.blind.saturating_sub(1),
            Edge::Open(index) => lanes.get(index).map_or((), |lane| self.open(index, *lane)),
            Edge::Close(index) => lanes.get(index).map_or((), |lane| self.close(index, *lane)),
        }
    }

    fn open(&mut self, index: usize, lane: Lane) {
        if let Some(since) = self.lanes_since.get_mut(index) {
            *since = self.gpu;
        }
        if let Some(spans) = self.holders.get_mut(lane.holder) {
            *spans = spans.saturating_add(1);
            if *spans == 1 {
                self.holders_now = self.holders_now.saturating_add(1);
            }
        }
        let now = self.accounts_clock;
        let Some(account) = self.accounts.get_mut(lane.account) else { return };
        account.line(lane.kind).enter(now);
        if lane.kind.accrues() {
            account.settled_or_open.enter(now);
        }
        if account.any.enter(now) {
            self.note_shared();
            let place = self.present.partition_point(|present| *present < lane.account);
            self.present.insert(place, lane.account);
        }
    }

    fn close(&mut self, index: usize, lane: Lane) {
        if let (Some(since), Some(parts)) = (self.lanes_since.get(index), self.lanes.get_mut(index))
        {
            *parts = self.gpu.since(*since).parts();
        }
        if let Some(spans) = self.holders.get_mut(lane.holder) {
            *spans = spans.saturating_sub(1);
            if *spans == 0 {
                self.holders_now = self.holders_now.saturating_sub(1);
            }
        }
        let now = self.accounts_clock;
        let Some(account) = self.accounts.get_mut(lane.account) else { return };
        account.line(lane.kind).leave(now);
        if lane.kind.accrues() {
            account.settled_or_open.leave(now);
        }
        if account.any.leave(now) {
            self.note_shared();
            self.present.retain(|present| *present != lane.account);
        }
    }

    /// Books what the accounts present until now have shared, before that set changes.
    fn note_shared(&mut self) {
        let ms = self.accounts_clock.shared.saturating_sub(self.present_since);
        self.present_since = self.accounts_clock.shared;
        if ms > 0 {
            let sum = self.shared_between.entry(self.present.clone()).or_insert(0);
            *sum = sum.saturating_add(ms);
        }
    }

    fn finish(self) -> Swept {
        Swept {
            gpu: self.gpu,
            free: self.free,
            lanes: self.lanes,
            accounts: self.accounts,
            shared_between: self.shared_between,
        }
    }
}
