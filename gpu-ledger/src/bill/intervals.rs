//! Interval algebra on the bill's millisecond grid: one walk over beginnings and ends in their order.
//!
//! The sweep never looks at pairs. It keeps running clocks of what the GPU was at each moment (held
//! by one, by several, not seen); what a holding or an account got is the difference of the clocks
//! between its two edges, since it was itself among the holders all the while. So the cost is the sort,
//! O(n log n), plus the size of the set of accounts wherever that set changes. Of a holding no more than its
//! beginning is kept until it begins, and the rest only while it lasts: a year has millions of them, and few at once.
//!
//! Every clock is a sum of disjoint stretches of one period, so none can pass 2⁶⁴ − 1 ms; sums
//! saturate all the same, and a saturated one fails the closing check instead of being printed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use super::statement::{Kind, Parts};
use crate::unit::{Ms, Pid, Span};

/// One holding, with its account as a small consecutive number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// When.
    pub(super) span: Span,
    /// By which process.
    pub(super) holder: Pid,
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

/// What is walked over: see [`walk`].
pub(super) trait Walk {
    /// What is kept of a holding while it lasts.
    type Holding;

    /// Time passes up to there.
    fn advance(&mut self, to: u64);

    /// The holding at this place begins. Returns when it is over, within the period.
    fn open(&mut self, place: usize) -> Option<(u64, Self::Holding)>;

    /// It is over.
    fn close(&mut self, holding: Self::Holding);

    /// From here on it is not seen, or is again.
    fn blind(&mut self, is_blind: bool);
}

/// A holding that lasts. The greatest is the one that is over first.
struct Lasting<H> {
    until: u64,
    holding: H,
}

impl<H> PartialEq for Lasting<H> {
    fn eq(&self, other: &Self) -> bool {
        self.until == other.until
    }
}

impl<H> Eq for Lasting<H> {}

impl<H> PartialOrd for Lasting<H> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> Ord for Lasting<H> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.until.cmp(&self.until)
    }
}

/// What happens next.
enum Next {
    Close,
    Blind(bool),
    Open(usize),
}

/// Walks over holdings (each with its place) and over what was not seen, all clipped to the period.
///
/// What happens at one moment needs no order: no time passes in between, and no clipped span is empty, so none is
/// over before it has begun.
pub(super) fn walk<W: Walk>(
    period: Span,
    holdings: impl Iterator<Item = (usize, Span)>,
    uncovered: &[Span],
    walker: &mut W,
) {
    let within = |(place, span): (usize, Span)| Some((span.overlap(period)?.from_ms(), place));
    let mut begins: Vec<(u64, usize)> = holdings.filter_map(within).collect();
    begins.sort_unstable();
    let mut blinds: Vec<(u64, bool)> = uncovered
        .iter()
        .filter_map(|span| span.overlap(period))
        .flat_map(|span| [(span.from_ms(), true), (span.to_ms(), false)])
        .collect();
    blinds.sort_unstable_by_key(|(at, _)| *at);
    let (mut begins, mut blinds) = (begins.into_iter().peekable(), blinds.into_iter().peekable());
    let mut lasting: BinaryHeap<Lasting<W::Holding>> = BinaryHeap::new();
    loop {
        let close = lasting.peek().map(|first| (first.until, Next::Close));
        let blind = blinds.peek().map(|(at, is_blind)| (*at, Next::Blind(*is_blind)));
        let open = begins.peek().map(|(at, place)| (*at, Next::Open(*place)));
        let all = [close, blind, open].into_iter().flatten();
        let Some((at, next)) = all.min_by_key(|(at, _)| *at) else { break };
        walker.advance(at);
        match next {
            Next::Close => {
                if let Some(over) = lasting.pop() {
                    walker.close(over.holding);
                }
            }
            Next::Blind(is_blind) => {
                walker.blind(is_blind);
                blinds.next();
            }
            Next::Open(place) => {
                let opened = walker.open(place);
                lasting.extend(opened.map(|(until, holding)| Lasting { until, holding }));
                begins.next();
            }
        }
    }
    walker.advance(period.to_ms());
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

/// Sweeps the lanes at places below `count`, and `uncovered`, each clipped to `period`. `each` gets what every lane
/// got that meets the period, with its overlap.
pub(super) fn sweep(
    period: Span,
    count: usize,
    lane: impl Fn(usize) -> Option<Lane>,
    uncovered: &[Span],
    accounts: usize,
    each: impl FnMut(usize, Lane, Parts),
) -> Swept {
    let spans = (0..count).filter_map(|place| Some((place, lane(place)?.span)));
    let mut sweep = Sweep::new(period, &lane, each, accounts);
    walk(period, spans, uncovered, &mut sweep);
    Swept {
        gpu: sweep.gpu,
        free: sweep.free,
        accounts: sweep.accounts,
        shared_between: sweep.shared_between,
    }
}

struct Sweep<'l, L, E> {
    period: Span,
    lane: &'l L,
    each: E,
    at: u64,
    blind: u32,
    free: u64,
    /// Clocks that count processes.
    gpu: Clocks,
    /// Clocks that count accounts.
    accounts_clock: Clocks,
    /// The processes that hold the GPU now, each with how many spans of it last.
    holders: BTreeMap<Pid, u32>,
    accounts: Vec<AccountClocks>,
    /// The accounts present now, in ascending order.
    present: Vec<usize>,
    /// `accounts_clock.shared` when `present` last changed.
    present_since: u64,
    shared_between: BTreeMap<Vec<usize>, u64>,
}

/// A lane while it lasts.
struct Held {
    place: usize,
    lane: Lane,
    /// The GPU's clocks when it began.
    since: Clocks,
}

impl<'l, L, E> Sweep<'l, L, E> {
    fn new(period: Span, lane: &'l L, each: E, accounts: usize) -> Self {
        Self {
            period,
            lane,
            each,
            at: period.from_ms(),
            blind: 0,
            free: 0,
            gpu: Clocks::default(),
            accounts_clock: Clocks::default(),
            holders: BTreeMap::new(),
            accounts: vec![AccountClocks::default(); accounts],
            present: Vec::new(),
            present_since: 0,
            shared_between: BTreeMap::new(),
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
}

impl<L: Fn(usize) -> Option<Lane>, E: FnMut(usize, Lane, Parts)> Walk for Sweep<'_, L, E> {
    type Holding = Held;

    fn advance(&mut self, to: u64) {
        let ms = to.saturating_sub(self.at);
        if ms == 0 {
            return;
        }
        self.at = to;
        let seen = self.blind == 0;
        self.gpu.add(self.holders.len(), seen, ms);
        self.accounts_clock.add(self.present.len(), seen, ms);
        if self.holders.is_empty() && seen {
            self.free = self.free.saturating_add(ms);
        }
    }

    fn blind(&mut self, is_blind: bool) {
        self.blind =
            if is_blind { self.blind.saturating_add(1) } else { self.blind.saturating_sub(1) };
    }

    fn open(&mut self, place: usize) -> Option<(u64, Held)> {
        let lane = (self.lane)(place)?;
        let until = lane.span.overlap(self.period)?.to_ms();
        let spans = self.holders.entry(lane.holder).or_insert(0);
        *spans = spans.saturating_add(1);
        let now = self.accounts_clock;
        if let Some(account) = self.accounts.get_mut(lane.account) {
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
        Some((until, Held { place, lane, since: self.gpu }))
    }

    fn close(&mut self, Held { place, lane, since }: Held) {
        (self.each)(place, lane, self.gpu.since(since).parts());
        if let Some(spans) = self.holders.get_mut(&lane.holder) {
            *spans = spans.saturating_sub(1);
            if *spans == 0 {
                self.holders.remove(&lane.holder);
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
}
