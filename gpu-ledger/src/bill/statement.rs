//! The statement of one GPU over one period.
//!
//! Each millisecond of the period is exactly one of four things:
//! - **alone**: it was seen, and exactly one process is known to have held the GPU;
//! - **shared**: two or more processes are known to have held it, seen or not (what is unseen can
//!   only add a sharer);
//! - **uncovered**: it was not seen, and fewer than two holders are known;
//! - **free**: it was seen, and nobody held it.
//!
//! Of a **holding** (one row) the same words are about *other processes*. Of an **account** they are
//! about *other accounts*: held is the union of its spans, alone the part in which nobody of another
//! account held the GPU, so two processes of one account that overlap are shared on the GPU's
//! statement and on their own lines, and alone on their account's. Where it was not seen and no
//! other account is known, an account's time is uncovered, however many processes of its own held it.

use super::BillError;
use super::intervals::{Lane, sweep};
use crate::clock::{BootPlace, Timeline};
use crate::unit::{BootNs, Ms, Pid, Span};
use crate::unknown::{Observed, UnknownReason};

use std::collections::{BTreeMap, BTreeSet};

/// On which line a holding stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A settlement: booked.
    Settled,
    /// A row that still runs: accrues, and is replaced by its settlement.
    Open,
    /// A settlement whose span contradicts the clock or another reading: its place on the clock is
    /// no more than likely, it is not priced, but others did not hold the GPU alone beside it.
    Disputed,
    /// Holds the device and has no driver row: counts as a sharer, from when it was seen.
    NoDriverRow,
}

impl Kind {
    /// Whether the time grows into a booked total.
    pub(super) const fn accrues(self) -> bool {
        matches!(self, Self::Settled | Self::Open)
    }
}

/// One process that held one GPU for one span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding<A> {
    /// When.
    pub span: Span,
    /// By whom. At any one moment a pid is one process, so it tells holders apart.
    pub pid: Pid,
    /// On whose account.
    pub account: A,
    /// On which line.
    pub kind: Kind,
}

/// What a holding or an account got out of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// Nobody else held the GPU.
    pub alone: Ms,
    /// Somebody else held it too.
    pub shared: Ms,
    /// Nobody else is known to have held it, but it was not seen.
    pub uncovered: Ms,
}

impl Parts {
    /// Nothing: a holding that does not meet the period.
    pub const NONE: Self = Self { alone: Ms::ZERO, shared: Ms::ZERO, uncovered: Ms::ZERO };

    /// All of it.
    #[must_use]
    pub const fn held(self) -> Ms {
        // Three disjoint stretches of one period.
        Ms(self.alone.0.saturating_add(self.shared.0).saturating_add(self.uncovered.0))
    }

    /// The sum, or `None` past 2⁶⁴ − 1 ms.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self {
            alone: self.alone.checked_add(other.alone)?,
            shared: self.shared.checked_add(other.shared)?,
            uncovered: self.uncovered.checked_add(other.uncovered)?,
        })
    }
}

/// What one account got of one GPU. The lines overlap in time where its processes did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountStatement<A> {
    /// Whose.
    pub account: A,
    /// The union of its settled spans.
    pub settled: Parts,
    /// The union of its open spans.
    pub open: Parts,
    /// The union of its disputed spans.
    pub disputed: Parts,
    /// The union of its spans without a driver row.
    pub no_driver_row: Parts,
    /// The union of settled and open: never more than wall time, and unchanged when a row settles.
    pub settled_or_open: Parts,
}

/// What one GPU was over a period, and who had what of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement<A> {
    /// Over which period.
    pub period: Span,
    /// Seen, one holder.
    pub alone: Ms,
    /// Two or more holders.
    pub shared: Ms,
    /// Seen, no holder.
    pub free: Ms,
    /// Not seen, fewer than two known holders.
    pub uncovered: Ms,
    /// Of each holding given, in the order given, what it got. Empty on a bill, where it stands beside them.
    pub holdings: Vec<Parts>,
    /// Of each account, in ascending order.
    pub accounts: Vec<AccountStatement<A>>,
    /// How long each set of two or more accounts (ascending) held the GPU at once: all the
    /// time that a share policy has to divide.
    pub shared_between: BTreeMap<Vec<A>, Ms>,
}

/// Makes the statement of one GPU.
///
/// `uncovered` are the intervals in which the GPU's holders could not be seen; they may overlap.
/// Statements of adjacent periods add up to that of both, to the millisecond, in every figure.
///
/// # Errors
/// [`BillError::Statement`] where the four parts do not add up to the period, and
/// [`BillError::Holding`] where a holding's do not add up to its overlap: an error of this product.
pub fn statement<A: Ord + Clone>(
    period: Span,
    holdings: &[Holding<A>],
    uncovered: &[Span],
) -> Result<Statement<A>, BillError> {
    let mut all = vec![Parts::NONE; holdings.len()];
    let mut each = |place: usize, parts| {
        if let Some(got) = all.get_mut(place) {
            *got = parts;
        }
    };
    let holding = |place: usize| holdings.get(place).cloned();
    let statement = stated(period, holdings.len(), holding, uncovered, &mut each)?;
    Ok(Statement { holdings: all, ..statement })
}

/// As [`statement()`], of the holdings at places below `count`. `each` gets what every one of them got that meets
/// the period.
pub(super) fn stated<A: Ord + Clone>(
    period: Span,
    count: usize,
    holding: impl Fn(usize) -> Option<Holding<A>>,
    uncovered: &[Span],
    each: &mut dyn FnMut(usize, Parts),
) -> Result<Statement<A>, BillError> {
    let mut accounts: BTreeSet<A> = BTreeSet::new();
    for holding in (0..count).filter_map(&holding) {
        if !accounts.contains(&holding.account) {
            accounts.insert(holding.account);
        }
    }
    let accounts: Vec<A> = accounts.into_iter().collect();
    let lane = |place: usize| {
        let Holding { span, pid, account, kind } = holding(place)?;
        let account = accounts.binary_search(&account).ok()?;
        Some(Lane { span, holder: pid, account, kind })
    };
    // The closing check of each, on figures that the sweep did not use.
    let mut unclosed = None;
    let swept = sweep(
        period,
        count,
        lane,
        uncovered,
        accounts.len(),
        |place, Lane { span, holder, .. }, parts| {
            let overlap = span.overlap(period).map_or(Ms::ZERO, Span::length);
            if parts.held() != overlap {
                unclosed = Some(BillError::Holding { pid: holder, span, overlap, parts });
            }
            each(place, parts);
        },
    );
    if let Some(error) = unclosed {
        return Err(error);
    }
    let by_account = accounts
        .iter()
        .zip(&swept.accounts)
        .map(|(account, clocks)| AccountStatement {
            account: A::clone(account),
            settled: clocks.of(Kind::Settled),
            open: clocks.of(Kind::Open),
            disputed: clocks.of(Kind::Disputed),
            no_driver_row: clocks.of(Kind::NoDriverRow),
            settled_or_open: clocks.settled_or_open(),
        })
        .collect();
    let shared_between = swept.shared_between.into_iter().map(|(set, ms)| {
        let set = set.into_iter().filter_map(|index| accounts.get(index).cloned());
        (set.collect(), Ms(ms))
    });
    let statement = Statement {
        period,
        alone: Ms(swept.gpu.alone),
        shared: Ms(swept.gpu.shared),
        free: Ms(swept.free),
        uncovered: Ms(swept.gpu.uncovered),
        holdings: Vec::new(),
        accounts: by_account,
        shared_between: shared_between.collect(),
    };
    close(&statement)?;
    Ok(statement)
}

/// The closing check, on figures that the sweep did not use to make one another.
fn close<A>(statement: &Statement<A>) -> Result<(), BillError> {
    let Statement { period, alone, shared, free, uncovered, .. } = *statement;
    let sum = [shared, free, uncovered]
        .into_iter()
        .try_fold(alone, Ms::checked_add)
        .filter(|sum| *sum == period.length());
    if sum.is_none() {
        return Err(BillError::Statement { period, alone, shared, free, uncovered });
    }
    Ok(())
}

/// Who else held the GPU during one holding, and for how long of the period each: for the page of a
/// single settlement. Walks all holdings once.
#[must_use]
pub fn sharers<A: Ord + Clone>(
    period: Span,
    holdings: &[Holding<A>],
    index: usize,
) -> BTreeMap<(A, Pid), Ms> {
    let mut with: BTreeMap<(A, Pid), Ms> = BTreeMap::new();
    let subject = holdings.get(index).and_then(|own| Some((own, own.span.overlap(period)?)));
    let Some((own, span)) = subject else { return with };
    for other in holdings.iter().filter(|other| other.pid != own.pid) {
        if let Some(both) = other.span.overlap(span) {
            let sum = with.entry((other.account.clone(), other.pid)).or_insert(Ms::ZERO);
            *sum = Ms(sum.0.saturating_add(both.length().0));
        }
    }
    with
}

/// When a row that nobody saw final was over, if that was before `now`: with its process's `exit`, unless
/// a read after it showed that the driver still counts (`last_seen`). A row whose process is not known to
/// have ended, and one that a read at `now` showed running, is not over.
#[must_use]
pub fn over_at(exit: Option<BootNs>, last_seen: BootNs, now: BootNs) -> Option<BootNs> {
    let over = exit?.max(last_seen);
    (over < now).then_some(over)
}

/// The span that a row still running has accrued by `now`, on the bill's grid. Unknown where its start
/// has no one place before `now`: the wall clock, which the driver stamped it with, was stepped.
#[must_use]
pub fn accrued(started: Option<BootPlace>, now: BootNs, timeline: Timeline) -> Observed<Span> {
    let start = match started {
        Some(BootPlace::Once(at)) => Some(at),
        // After a step back the same time lies ahead as well, where no start can have been yet.
        Some(BootPlace::Twice(first, second)) => Some(first).filter(|_| second > now),
        Some(BootPlace::Skipped) | None => None,
    };
    match start.filter(|start| *start <= now) {
        Some(start) => Observed::Known(timeline.span(start, now)),
        None => Observed::Unknown(UnknownReason::ClockStep),
    }
}
