//! The lines of a bill over one period: per GPU its statement, then accounts, then what has no
//! identity by reason, then what is disputed. Every settlement stands on exactly one of the last three.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::resume_unwind;

use super::statement::stated;
use super::{BillError, Holding, Kind, Parts, Statement};
use crate::clock::{BootPlace, Timeline};
use crate::settlement::{Account, Balance, Settlement};
use crate::unit::{GpuUuid, Ms, Pid, Span, WallUs};
use crate::unknown::{DisputeReason, NamelessReason};

/// What a bill can be made by: accounts, or accounts told apart by something more.
pub trait Line: Ord + Clone + Send + Sync {
    /// The reason on whose line it stands, where it has no identity.
    fn unattributed(&self) -> Option<NamelessReason>;
}

impl Line for Account {
    fn unattributed(&self) -> Option<NamelessReason> {
        Self::unattributed(self)
    }
}

/// A settlement as it goes onto a bill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Booked<A = Account> {
    /// Billed by its overlap with the period.
    Placed(Holding<A>),
    /// In the total with the driver's milliseconds as they are, unpriced: its interval cannot be trusted.
    /// It belongs to the period in which it was read, by the boot clock.
    Disputed {
        /// Why.
        reason: DisputeReason,
        /// On whose account.
        account: A,
        /// What the driver said.
        raw: Ms,
        /// End of the read that first showed it final, on the bill's grid: a place on the boot clock.
        at_ms: u64,
        /// The interval that it most likely held the GPU in, on the same grid and never past that read:
        /// others did not hold the GPU alone then.
        likely: Option<Holding<A>>,
    },
    /// It has no interval, as the driver gave no start time.
    NoStartTime {
        /// What the driver said.
        raw: Ms,
        /// End of the read that first showed it final, on the bill's grid: a place on the boot clock.
        at_ms: u64,
    },
}

impl<A> Booked<A> {
    /// When it held the GPU, as far as that is known.
    #[must_use]
    pub const fn holding(&self) -> Option<&Holding<A>> {
        match self {
            Self::Placed(holding) => Some(holding),
            Self::Disputed { likely, .. } => likely.as_ref(),
            Self::NoStartTime { .. } => None,
        }
    }

    fn into_holding(self) -> Option<Holding<A>> {
        match self {
            Self::Placed(holding) => Some(holding),
            Self::Disputed { likely, .. } => likely,
            Self::NoStartTime { .. } => None,
        }
    }
}

/// What decides how a settlement goes onto a bill. Every moment is on the bill's grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placing {
    /// The driver's pid.
    pub pid: Pid,
    /// Where its start lies; `None` where the driver gave none.
    pub start: Option<StartPlace>,
    /// The driver's `time`.
    pub held: Ms,
    /// Whether start and `time` are an interval at all: a `time` that wrapped is none.
    pub is_span: bool,
    /// End of the read that first showed it final.
    pub read_at_ms: u64,
    /// Why its milliseconds are not priced.
    pub dispute: Option<DisputeReason>,
}

/// Why the milliseconds of a row are in doubt: what was found when it settled, or that its start and `time` are no
/// interval at all.
#[must_use]
pub fn dispute_of(
    start: Option<WallUs>,
    held: Ms,
    found: Option<DisputeReason>,
) -> Option<DisputeReason> {
    let is_span = start.is_none_or(|start| Span::of_row(start, held).is_some());
    // A row without an interval has wrapped, which is a contradiction to the clock.
    found.or_else(|| (!is_span).then_some(DisputeReason::ClockStep))
}

/// Where a start that the driver gave lies on the bill's grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartPlace {
    /// There.
    At(u64),
    /// The clock showed it twice: at the one or at the other.
    Between(u64, u64),
    /// The clock never showed it.
    Nowhere,
}

impl Placing {
    /// Of a settlement, on the timeline of its boot. The wall clock that the driver stamped the row
    /// with is not looked at again: where its start lies on the boot clock the settlement says.
    #[must_use]
    pub fn of(settlement: &Settlement, timeline: Timeline) -> Self {
        let place = match settlement.started {
            Some(BootPlace::Once(at)) => StartPlace::At(timeline.ms_of(at)),
            Some(BootPlace::Twice(one, other)) => {
                StartPlace::Between(timeline.ms_of(one), timeline.ms_of(other))
            }
            Some(BootPlace::Skipped) | None => StartPlace::Nowhere,
        };
        Self {
            pid: settlement.row.pid,
            start: settlement.row.start.map(|_| place),
            held: settlement.row.held,
            is_span: settlement.span.is_some(),
            read_at_ms: timeline.ms_of(settlement.seen.ended.boot),
            dispute: settlement.dispute,
        }
    }

    /// The interval, where there is one.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        let (Some(StartPlace::At(from_ms)), true) = (self.start, self.is_span) else { return None };
        Span::new(from_ms, from_ms.checked_add(self.held.0)?)
    }

    /// On a bill.
    #[must_use]
    pub fn booked<A: Clone>(&self, account: A) -> Booked<A> {
        let Self { pid, held: raw, read_at_ms: at_ms, .. } = *self;
        let Some(start) = self.start else {
            return Booked::NoStartTime { raw, at_ms };
        };
        if let (None, Some(span)) = (self.dispute, self.span()) {
            return Booked::Placed(Holding { span, pid, account, kind: Kind::Settled });
        }
        let likely = self.likely(start).map(|span| Holding {
            span,
            pid,
            account: account.clone(),
            kind: Kind::Disputed,
        });
        // A row without an interval has wrapped, which is a contradiction to the clock.
        let reason = self.dispute.unwrap_or(DisputeReason::ClockStep);
        Booked::Disputed { reason, account, raw, at_ms, likely }
    }

    /// The interval of a row that contradicts the clock: wide rather than narrow, as it says that
    /// others did not hold the GPU alone. `None` where neither start nor length is known.
    fn likely(&self, start: StartPlace) -> Option<Span> {
        let (at_ms, length) = (self.read_at_ms, self.is_span.then_some(self.held));
        let (from_ms, start_latest_ms) = match (start, length) {
            (StartPlace::At(at), _) => (at, at),
            (StartPlace::Between(one, other), _) => (one, other),
            // It was over when it was read, and most likely not for long.
            (StartPlace::Nowhere, Some(length)) => {
                let from_ms = at_ms.saturating_sub(length.0);
                (from_ms, from_ms)
            }
            (StartPlace::Nowhere, None) => return None,
        };
        let end_ms = length.and_then(|length| start_latest_ms.checked_add(length.0));
        Span::new(from_ms, end_ms.map_or(at_ms, |end_ms| end_ms.min(at_ms)))
    }
}

/// How a settlement goes onto a bill that is drawn on the timeline of the settlement's boot.
#[must_use]
pub fn booked<A: Clone>(settlement: &Settlement, account: A, timeline: Timeline) -> Booked<A> {
    Placing::of(settlement, timeline).booked(account)
}

/// The settlements of one GPU, in an order of their own: a list of them, or what makes each when it is asked for.
pub trait Settlements<A>: Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// The one at a place; `None` past the last.
    fn booked(&self, place: usize) -> Option<Booked<A>>;
}

impl<A: Clone + Sync> Settlements<A> for Vec<Booked<A>> {
    fn count(&self) -> usize {
        self.len()
    }

    fn booked(&self, place: usize) -> Option<Booked<A>> {
        self.get(place).cloned()
    }
}

/// All that is known of one GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuBooks<A = Account, S = Vec<Booked<A>>> {
    /// Which.
    pub gpu: GpuUuid,
    /// Its settlements.
    pub settlements: S,
    /// What runs: open rows with what they have accrued, and holders without a driver row.
    pub running: Vec<Holding<A>>,
    /// When its holders could not be seen.
    pub uncovered: Vec<Span>,
}

impl<A: Clone, S: Settlements<A>> GpuBooks<A, S> {
    /// How many places there are: of settlements first, then of what runs.
    pub(super) fn len(&self) -> usize {
        self.settlements.count().saturating_add(self.running.len())
    }

    /// What has an interval at this place.
    pub(super) fn holding(&self, place: usize) -> Option<Holding<A>> {
        match place.checked_sub(self.settlements.count()) {
            None => self.settlements.booked(place)?.into_holding(),
            Some(place) => self.running.get(place).cloned(),
        }
    }

    /// Everything that has an interval: settlements first, in the order of `settlements`, then what runs.
    pub fn holdings(&self) -> impl Iterator<Item = Holding<A>> {
        (0..self.len()).filter_map(|place| self.holding(place))
    }
}

/// One GPU on the bill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuLine<A = Account> {
    /// Which.
    pub gpu: GpuUuid,
    /// Its statement.
    pub statement: Statement<A>,
    /// What each settlement got of the period, in the order given; `None` of one without an interval. Empty where
    /// nobody asked.
    pub settlements: Vec<Option<Parts>>,
    /// What each running holding got, in the order given.
    pub running: Vec<Parts>,
    /// Settlements that meet the period, and their milliseconds in it: overlaps, and the raw
    /// figures of those without a trusted interval.
    pub billed: Balance,
}

/// One account on the bill, over all GPUs: of two GPUs held for an hour it has two.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountLine<A = Account> {
    /// Whose.
    pub account: A,
    /// Settlements that meet the period.
    pub settlements: u64,
    /// Per GPU the union of its settled spans, and the parts of that.
    pub settled: Parts,
    /// The sum of its settled spans within the period: more than `held` where its processes overlap.
    pub span_total: Ms,
    /// Per GPU the union of its open spans.
    pub open: Parts,
    /// Per GPU the union of settled and open: never more than wall time a GPU.
    pub settled_or_open: Parts,
    /// Per GPU the union of its spans without a driver row: shown, never billed.
    pub no_driver_row: Parts,
}

/// What of one GPU has no identity, for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnattributedLine {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// Why.
    pub reason: NamelessReason,
    /// Settlements that meet the period.
    pub count: u64,
    /// The union of their spans; of `no-start-time`, which has none, the sum of what the driver said.
    pub held: Ms,
    /// The sum of their spans within the period.
    pub span_total: Ms,
}

/// What of one GPU and account is disputed, for one reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DisputedLine<A = Account> {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// Whose.
    pub account: A,
    /// Why.
    pub reason: DisputeReason,
    /// Settlements that were read in the period.
    pub count: u64,
    /// What the driver said they held, in ms.
    pub raw_ms: u128,
}

/// A bill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bill<A = Account> {
    /// Over which period.
    pub period: Span,
    /// Each GPU given, in the order given.
    pub gpus: Vec<GpuLine<A>>,
    /// Accounts with an identity, in ascending order.
    pub accounts: Vec<AccountLine<A>>,
    /// What has none, by GPU in the order given and by reason.
    pub unattributed: Vec<UnattributedLine>,
    /// What is disputed, by GPU, account and reason.
    pub disputed: Vec<DisputedLine<A>>,
    /// Settlements that meet the period.
    pub settlements_total: u64,
    /// The milliseconds of all of them: spans within the period, and raw figures.
    pub span_ms_total: u128,
}

impl<A> Bill<A> {
    /// Compares the lines of a bill over *all* time with what was booked.
    ///
    /// # Errors
    /// [`BillError::Books`] names both sides where they differ.
    pub fn agrees_with(&self, books: &BTreeMap<GpuUuid, Balance>) -> Result<(), BillError> {
        let billed =
            |gpu: &GpuUuid| self.gpus.iter().find(|line| line.gpu == *gpu).map(|line| line.billed);
        let known = books.keys().chain(self.gpus.iter().map(|line| &line.gpu));
        for gpu in known {
            // A GPU that one side does not know has nothing on that side.
            let books = books.get(gpu).copied().unwrap_or_default();
            let bill = billed(gpu).unwrap_or_default();
            if books != bill {
                return Err(BillError::Books {
                    gpu: gpu.clone(),
                    books_count: books.count,
                    books_held_ms: books.held_ms,
                    bill_count: bill.count,
                    bill_held_ms: bill.held_ms,
                });
            }
        }
        Ok(())
    }
}

/// Makes the bill of a period from everything known of each GPU.
///
/// # Errors
/// Those of [`statement()`]; [`BillError::Lines`] where the lines of accounts, reasons and disputes
/// together are not all settlements, each once; [`BillError::Overflow`] past 2⁶⁴ − 1 ms.
pub fn bill<A: Line, S: Settlements<A>>(
    period: Span,
    gpus: &[GpuBooks<A, S>],
) -> Result<Bill<A>, BillError> {
    bill_with(period, gpus, true)
}

/// As [`bill()`]. `keeps_parts`: what each settlement got is asked for, which takes memory of each.
pub(super) fn bill_with<A: Line, S: Settlements<A>>(
    period: Span,
    gpus: &[GpuBooks<A, S>],
    keeps_parts: bool,
) -> Result<Bill<A>, BillError> {
    let mut draft = Draft::new();
    let mut gpu_lines = Vec::with_capacity(gpus.len());
    for (books, line) in gpus.iter().zip(every_gpu(period, gpus, keeps_parts)) {
        let line = line?;
        draft.add_unions(&books.gpu, &line.statement)?;
        for booked in all_of(&books.settlements) {
            draft.add(period, &books.gpu, &booked)?;
        }
        gpu_lines.push(line);
    }
    let order: Vec<&GpuUuid> = gpus.iter().map(|books| &books.gpu).collect();
    let bill = draft.finish(period, gpu_lines, &order);
    close(&bill)?;
    Ok(bill)
}

fn all_of<A, S: Settlements<A>>(settlements: &S) -> impl Iterator<Item = Booked<A>> {
    (0..settlements.count()).filter_map(|place| settlements.booked(place))
}

/// Fewer settlements than this are added up faster than a thread begins.
const PARALLEL_SETTLEMENTS_MIN: usize = if cfg!(test) { 16 } else { 20_000 };

/// The line of every GPU, in the order given: each is made of its own books alone, so on every processor.
fn every_gpu<A: Line, S: Settlements<A>>(
    period: Span,
    gpus: &[GpuBooks<A, S>],
    keeps_parts: bool,
) -> Vec<Result<GpuLine<A>, BillError>> {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(gpus.len());
    let settlements: usize = gpus.iter().map(|books| books.settlements.count()).sum();
    let line = |books| gpu_line(period, books, keeps_parts);
    if threads < 2 || settlements < PARALLEL_SETTLEMENTS_MIN {
        return gpus.iter().map(line).collect();
    }
    std::thread::scope(|scope| {
        let began: Vec<_> = (0..threads)
            .map(|first| {
                let mine = gpus.iter().skip(first).step_by(threads);
                scope.spawn(move || mine.map(line).collect::<Vec<_>>())
            })
            .collect();
        let mut made: Vec<_> = began
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)).into_iter())
            .collect();
        // Each thread made every so manyth one.
        (0..gpus.len())
            .zip((0..threads).cycle())
            .filter_map(|(_, of)| made.get_mut(of)?.next())
            .collect()
    })
}

fn gpu_line<A: Line, S: Settlements<A>>(
    period: Span,
    books: &GpuBooks<A, S>,
    keeps_parts: bool,
) -> Result<GpuLine<A>, BillError> {
    let count = books.settlements.count();
    let none = |booked: Booked<A>| booked.holding().map(|_| Parts::NONE);
    let mut settlements: Vec<Option<Parts>> =
        if keeps_parts { all_of(&books.settlements).map(none).collect() } else { Vec::new() };
    let mut running = vec![Parts::NONE; books.running.len()];
    let mut billed = billed(period, &books.settlements);
    let mut each = |place: usize, parts: Parts| {
        let Some(place) = place.checked_sub(count) else {
            if let Some(of) = settlements.get_mut(place) {
                *of = Some(parts);
            }
            if matches!(books.settlements.booked(place), Some(Booked::Placed(_))) {
                billed.held_ms = billed.held_ms.saturating_add(parts.held().0.into());
            }
            return;
        };
        if let Some(of) = running.get_mut(place) {
            *of = parts;
        }
    };
    let holding = |place| books.holding(place);
    let statement = stated(period, books.len(), holding, &books.uncovered, &mut each)?;
    Ok(GpuLine { gpu: books.gpu.clone(), statement, settlements, running, billed })
}

/// Whether a span counts among the settlements of a period; one shorter than a millisecond does where
/// it begins.
pub(super) fn meets(span: Span, period: Span) -> bool {
    let begins = period.from_ms() <= span.from_ms() && span.from_ms() < period.to_ms();
    span.overlap(period).is_some() || (span.length() == Ms::ZERO && begins)
}

pub(super) const fn within(at_ms: u64, period: Span) -> bool {
    period.from_ms() <= at_ms && at_ms < period.to_ms()
}

/// The GPU's own sum, but for the milliseconds of what has its place on the clock: those its statement gives.
fn billed<A, S: Settlements<A>>(period: Span, settlements: &S) -> Balance {
    let mut sum = Balance::default();
    for booked in all_of(settlements) {
        let (counts, ms) = match booked {
            Booked::Placed(holding) => (meets(holding.span, period), Ms::ZERO),
            Booked::Disputed { raw, at_ms, .. } | Booked::NoStartTime { raw, at_ms } => {
                (within(at_ms, period), raw)
            }
        };
        if counts {
            sum = sum.plus(ms);
        }
    }
    sum
}

/// The lines as they grow.
struct Draft<A> {
    accounts: BTreeMap<A, AccountLine<A>>,
    unattributed: BTreeMap<(GpuUuid, NamelessReason), UnattributedLine>,
    disputed: BTreeMap<(GpuUuid, A, DisputeReason), DisputedLine<A>>,
}

impl<A: Line> Draft<A> {
    const fn new() -> Self {
        Self { accounts: BTreeMap::new(), unattributed: BTreeMap::new(), disputed: BTreeMap::new() }
    }

    /// The unions, which only the statement knows.
    fn add_unions(&mut self, gpu: &GpuUuid, statement: &Statement<A>) -> Result<(), BillError> {
        for of in &statement.accounts {
            if let Some(reason) = of.account.unattributed() {
                self.reason(gpu, reason).held = of.settled.held();
                continue;
            }
            let line = self.account(&of.account);
            line.settled = add(line.settled, of.settled)?;
            line.open = add(line.open, of.open)?;
            line.settled_or_open = add(line.settled_or_open, of.settled_or_open)?;
            line.no_driver_row = add(line.no_driver_row, of.no_driver_row)?;
        }
        Ok(())
    }

    /// One settlement, from its own interval.
    fn add(&mut self, period: Span, gpu: &GpuUuid, booked: &Booked<A>) -> Result<(), BillError> {
        match booked {
            Booked::Placed(holding) if meets(holding.span, period) => {
                let ms = holding.span.overlap(period).map_or(Ms::ZERO, Span::length);
                let (count, total) = if let Some(reason) = holding.account.unattributed() {
                    let line = self.reason(gpu, reason);
                    (&mut line.count, &mut line.span_total)
                } else {
                    let line = self.account(&holding.account);
                    (&mut line.settlements, &mut line.span_total)
                };
                *count = count.saturating_add(1);
                *total = sum(*total, ms)?;
            }
            Booked::Disputed { reason, account, raw, at_ms, .. } if within(*at_ms, period) => {
                let line = self.dispute(gpu, account, *reason);
                line.count = line.count.saturating_add(1);
                line.raw_ms = line.raw_ms.saturating_add(u128::from(raw.0));
            }
            Booked::NoStartTime { raw, at_ms } if within(*at_ms, period) => {
                let line = self.reason(gpu, NamelessReason::NoStartTime);
                line.count = line.count.saturating_add(1);
                line.held = sum(line.held, *raw)?;
                line.span_total = sum(line.span_total, *raw)?;
            }
            Booked::Placed(_) | Booked::Disputed { .. } | Booked::NoStartTime { .. } => {}
        }
        Ok(())
    }

    fn account(&mut self, account: &A) -> &mut AccountLine<A> {
        self.accounts.entry(account.clone()).or_insert_with(|| AccountLine {
            account: account.clone(),
            settlements: 0,
            settled: Parts::NONE,
            span_total: Ms::ZERO,
            open: Parts::NONE,
            settled_or_open: Parts::NONE,
            no_driver_row: Parts::NONE,
        })
    }

    fn reason(&mut self, gpu: &GpuUuid, reason: NamelessReason) -> &mut UnattributedLine {
        self.unattributed.entry((gpu.clone(), reason)).or_insert_with(|| UnattributedLine {
            gpu: gpu.clone(),
            reason,
            count: 0,
            held: Ms::ZERO,
            span_total: Ms::ZERO,
        })
    }

    fn dispute(
        &mut self,
        gpu: &GpuUuid,
        account: &A,
        reason: DisputeReason,
    ) -> &mut DisputedLine<A> {
        let key = (gpu.clone(), account.clone(), reason);
        self.disputed.entry(key).or_insert_with(|| DisputedLine {
            gpu: gpu.clone(),
            account: account.clone(),
            reason,
            count: 0,
            raw_ms: 0,
        })
    }

    fn finish(self, period: Span, gpus: Vec<GpuLine<A>>, order: &[&GpuUuid]) -> Bill<A> {
        let rank = |gpu: &GpuUuid| order.iter().position(|known| *known == gpu);
        // A line of nothing says nothing: accounts that do not meet the period are not on its bill.
        let mut accounts: Vec<AccountLine<A>> = self.accounts.into_values().collect();
        accounts.retain(|line| {
            line.settlements > 0
                || line.settled_or_open != Parts::NONE
                || line.no_driver_row != Parts::NONE
        });
        let mut unattributed: Vec<UnattributedLine> = self.unattributed.into_values().collect();
        unattributed.retain(|line| line.count > 0);
        unattributed.sort_by_key(|line| rank(&line.gpu));
        let mut disputed: Vec<DisputedLine<A>> = self.disputed.into_values().collect();
        disputed.sort_by_key(|line| rank(&line.gpu));
        let settlements_total =
            gpus.iter().fold(0_u64, |sum, line| sum.saturating_add(line.billed.count));
        let span_ms_total =
            gpus.iter().fold(0_u128, |sum, line| sum.saturating_add(line.billed.held_ms));
        Bill { period, gpus, accounts, unattributed, disputed, settlements_total, span_ms_total }
    }
}

/// Lines against GPUs: the one side was added up from intervals, the other from the sweep.
fn close<A>(bill: &Bill<A>) -> Result<(), BillError> {
    let accounts =
        bill.accounts.iter().map(|line| (line.settlements, u128::from(line.span_total.0)));
    let unattributed =
        bill.unattributed.iter().map(|line| (line.count, u128::from(line.span_total.0)));
    let disputed = bill.disputed.iter().map(|line| (line.count, line.raw_ms));
    let (count, held_ms) = accounts
        .chain(unattributed)
        .chain(disputed)
        .fold((0_u64, 0_u128), |(count, held_ms), (more, ms)| {
            (count.saturating_add(more), held_ms.saturating_add(ms))
        });
    if (count, held_ms) == (bill.settlements_total, bill.span_ms_total) {
        return Ok(());
    }
    Err(BillError::Lines {
        lines_count: count,
        lines_held_ms: held_ms,
        gpus_count: bill.settlements_total,
        gpus_held_ms: bill.span_ms_total,
    })
}

fn sum(a: Ms, b: Ms) -> Result<Ms, BillError> {
    a.checked_add(b).ok_or(BillError::Overflow { what: "held time" })
}

fn add(a: Parts, b: Parts) -> Result<Parts, BillError> {
    a.checked_add(b).ok_or(BillError::Overflow { what: "held time" })
}
