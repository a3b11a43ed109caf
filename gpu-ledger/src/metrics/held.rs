//! How long each account has held each GPU, as counters that a scraper can take the rate of.
//!
//! Purpose: settled and open time in one counter that never falls and grows by at most a second a
//! second, per account and GPU. May touch: nothing; it is told everything, on the boot clock. May
//! not: book (the journal does), or let anything arrive at once.
//!
//! A counter counts the union of its account's spans up to a **frontier** that trails the present by
//! [`METER_DELAY`], so that what is learnt a little late (a job of 5 ms, a row that takes a second to
//! become final) still falls into its place. What is learnt later than that about time before the
//! frontier changes no counter's past: it is counted as an adjustment, up or down. At every moment
//!
//! ```text
//! held + adjusted up − adjusted down = union of the account's spans up to the frontier
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::intervals::Intervals;
use crate::accounting::RowKey;
use crate::settlement::{Account as AccountOf, NamedBy};
use crate::unit::{BootNs, GpuUuid, Ms};

/// How far the counters trail the present: longer than any read interval of a driver that answers, an
/// idle GPU's sweep (5 s) included, so that every span is known when its time is counted.
pub const METER_DELAY: Duration = Duration::from_secs(10);
/// Accounts that have a label of their own; the rest share [`LABEL_OTHER`].
pub const ACCOUNT_LABELS_MAX: usize = 200;
/// The label of all accounts that came when [`ACCOUNT_LABELS_MAX`] had one.
pub const LABEL_OTHER: &str = "other";
/// The account of settlements without a name. It has a label from the start, and is never folded.
pub const LABEL_UNATTRIBUTED: &str = "unattributed";
/// Settled intervals kept apart per account and GPU. With more the oldest become a sum: what is learnt
/// about time before them is then counted as [`HeldCount::unplaced`].
pub const INTERVALS_MAX: usize = 1_024;

/// The labels of an account's counters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AccountLabel {
    /// What it is called.
    pub account: Arc<str>,
    /// What named it; `None` of [`LABEL_OTHER`] and [`LABEL_UNATTRIBUTED`].
    pub named_by: Option<NamedBy>,
}

impl AccountLabel {
    /// One that stands for no account's name.
    pub(super) fn own(word: &str) -> Self {
        Self { account: Arc::from(word), named_by: None }
    }

    /// Of an account.
    #[must_use]
    pub fn of(account: &AccountOf) -> Self {
        match account.named_by() {
            None => Self::own(LABEL_UNATTRIBUTED),
            named_by => Self { account: account.title().into(), named_by },
        }
    }

    /// Of all that have none of their own.
    fn is_other(&self) -> bool {
        *self == Self::own(LABEL_OTHER)
    }
}

const MS: u64 = 1_000_000;
const DELAY_MS: u64 = 10_000;
const _: () = assert!(METER_DELAY.as_millis() == 10_000);

/// What the counters of one account on one GPU say. None of them ever falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldCount {
    /// Held, settled and open: grows by at most the time that passes.
    pub held: Ms,
    /// Time that turned out to be held after the counter had passed it.
    pub adjusted_up: Ms,
    /// Time that the counter has and that turned out not to be held.
    pub adjusted_down: Ms,
    /// Settled time from before metering began, or from after the present: in none of the others.
    pub unplaced: Ms,
}

/// The counters of a host.
#[derive(Clone, Debug)]
pub struct HeldMeter {
    labels: BTreeSet<AccountLabel>,
    /// Accounts that share [`LABEL_OTHER`]; their number is told, so it is bounded like the labels.
    folded: BTreeSet<AccountLabel>,
    gpus: BTreeMap<GpuUuid, GpuMeter>,
    intervals_max: usize,
}

/// One GPU.
#[derive(Clone, Debug, Default)]
struct GpuMeter {
    /// Where metering began, in ms of the boot clock.
    began: u64,
    /// Up to here everything is counted; `None` before metering began.
    frontier: Option<u64>,
    /// The moment of the last advance.
    told: u64,
    accounts: BTreeMap<AccountLabel, Account>,
    /// Under which label an open row is.
    open: BTreeMap<RowKey, AccountLabel>,
}

/// One account on one GPU.
#[derive(Clone, Debug, Default)]
struct Account {
    /// Time before this moment is in `base`, or in nothing.
    horizon: u64,
    /// The union before the horizon, and corrections.
    base: i128,
    /// Settled spans after the horizon.
    settled: Intervals,
    /// When open rows began. All run on, so together they are one interval.
    open: BTreeMap<RowKey, u64>,
    /// The union when last counted.
    counted: i128,
    count: HeldCount,
}

impl Default for HeldMeter {
    fn default() -> Self {
        Self {
            labels: BTreeSet::from([AccountLabel::own(LABEL_UNATTRIBUTED)]),
            folded: BTreeSet::new(),
            gpus: BTreeMap::new(),
            intervals_max: INTERVALS_MAX,
        }
    }
}

impl HeldMeter {
    /// Begins metering a GPU, from `at` on, where nothing is known from before: every counter begins at 0, and
    /// rows that run count from then on. A GPU that is never begun begins with its first advance; one that
    /// has begun stays as it is.
    pub fn begin(&mut self, gpu: &GpuUuid, at: BootNs) {
        let gpu = self.gpu(gpu);
        if gpu.frontier.is_none() {
            gpu.begin(at.0 / MS, at.0 / MS);
        }
    }

    /// Goes on metering a GPU where an earlier run of the daemon stopped: it had counted these up to `until`. No
    /// counter ever falls, and what they add up to stays what it was. It is `now`: what was held between
    /// `until` and now is counted as an adjustment where it is more than passes from here on, since a
    /// scraper that read the last page until now must not see it arrive at once.
    ///
    /// To be called before anything else is said of the GPU; then [`Self::open`] for each row that was
    /// counted as open, and what became known since.
    pub fn resume(
        &mut self,
        gpu: &GpuUuid,
        (until, now): (BootNs, BootNs),
        counts: impl IntoIterator<Item = (AccountLabel, HeldCount)>,
    ) {
        if self.gpu(gpu).frontier.is_some() {
            return;
        }
        for (label, count) in counts {
            // Of those that shared a label it is not known any more how many they were.
            let label = if label.is_other() { label } else { self.label_of(&label) };
            let account = self.gpu(gpu).account(label);
            let sum = i128::from(count.held.0)
                .saturating_add(i128::from(count.adjusted_up.0))
                .saturating_sub(i128::from(count.adjusted_down.0));
            (account.base, account.counted, account.count) = (sum, sum, count);
        }
        let until = until.min(now);
        self.gpu(gpu).begin(until.0 / MS, now.0 / MS);
    }

    /// Up to where the counters of each GPU have counted; of one that has not begun nothing is told.
    pub fn frontiers(&self) -> impl Iterator<Item = (&GpuUuid, BootNs)> {
        self.gpus.iter().filter_map(|(gpu, meter)| {
            let frontier = meter.frontier?;
            Some((gpu, BootNs(frontier.saturating_mul(MS))))
        })
    }

    /// A row runs, since `from`. Said again with another account, it moves there.
    pub fn open(&mut self, key: &RowKey, account: &AccountLabel, from: BootNs) {
        let label = self.label_of(account);
        let gpu = self.gpu(&key.gpu);
        gpu.close(key);
        gpu.open.insert(key.clone(), label.clone());
        gpu.account(label).open.insert(key.clone(), from.0 / MS);
    }

    /// A row runs that an earlier run had not counted yet: what it held before [`Self::resume`]'s `until` is in none
    /// of the counters.
    pub fn open_uncounted(&mut self, key: &RowKey, account: &AccountLabel, from: BootNs) {
        self.open(key, account, from);
        let label = self.label_of(account);
        let account = self.gpu(&key.gpu).account(label);
        let before = account.horizon.saturating_sub(from.0 / MS);
        account.count.unplaced = plus(account.count.unplaced, before);
    }

    /// A row was booked that a read had `seen` final: its span replaces what it accrued while it was open. One that
    /// reaches into the future (a wrapped time, a stepped clock) counts up to that read.
    pub fn settle(
        &mut self,
        key: &RowKey,
        account: &AccountLabel,
        (from, held): (BootNs, Ms),
        seen: BootNs,
    ) {
        let label = self.label_of(account);
        let gpu = self.gpu(&key.gpu);
        let was_open = gpu.close(key);
        let account = gpu.account(label);
        let from = from.0 / MS;
        let end = from.saturating_add(held.0);
        // Both edges are cut to the millisecond.
        let present = (seen.0 / MS).saturating_add(1);
        let to = end.min(present.max(from));
        account.count.unplaced = plus(account.count.unplaced, end.saturating_sub(to));
        // Of an open row, the time before the horizon is in the base.
        if !was_open {
            let before = account.horizon.min(to).saturating_sub(from);
            account.count.unplaced = plus(account.count.unplaced, before);
        }
        account.settled.insert(from.max(account.horizon), to);
    }

    /// A row that ran can never be booked any more.
    pub fn lose(&mut self, key: &RowKey) {
        self.gpu(&key.gpu).close(key);
    }

    /// A correction in the journal: `from` of an account's time is `to` now.
    pub fn correct(&mut self, gpu: &GpuUuid, account: &AccountLabel, from: Ms, to: Ms) {
        let label = self.label_of(account);
        let account = self.gpu(gpu).account(label);
        let change = i128::from(to.0).saturating_sub(i128::from(from.0));
        account.base = account.base.saturating_add(change);
        account.adjust(change);
    }

    /// It is `now`, and everything that the driver knew up to `read_until` has been said.
    pub fn advance(&mut self, gpu: &GpuUuid, now: BootNs, read_until: BootNs) {
        let intervals_max = self.intervals_max;
        let gpu = self.gpu(gpu);
        let now = now.0 / MS;
        let wanted = now.saturating_sub(DELAY_MS).min(read_until.0 / MS);
        let Some(frontier) = gpu.frontier else {
            gpu.begin(wanted, now);
            return;
        };
        let passed = now.saturating_sub(gpu.told);
        gpu.told = gpu.told.max(now);
        let next = wanted.max(frontier);
        // After a time without reads there is more to count than has passed since the last count.
        let from = frontier.max(next.saturating_sub(passed));
        for account in gpu.accounts.values_mut() {
            account.advance(frontier, from, next);
            account.prune(next, intervals_max);
        }
        gpu.frontier = Some(next);
    }

    /// Every counter, by GPU and account label.
    pub fn counts(&self) -> impl Iterator<Item = (&GpuUuid, &AccountLabel, HeldCount)> {
        self.gpus.iter().flat_map(|(gpu, meter)| {
            meter.accounts.iter().map(move |(label, account)| (gpu, label, account.count))
        })
    }

    /// Accounts that share [`LABEL_OTHER`], at least; no more than [`ACCOUNT_LABELS_MAX`] are told
    /// apart.
    #[must_use]
    pub fn folded_accounts(&self) -> usize {
        self.folded.len()
    }

    fn gpu(&mut self, gpu: &GpuUuid) -> &mut GpuMeter {
        self.gpus.entry(gpu.clone()).or_default()
    }

    fn label_of(&mut self, account: &AccountLabel) -> AccountLabel {
        if self.labels.contains(account) {
            return account.clone();
        }
        if self.labels.len() < ACCOUNT_LABELS_MAX {
            self.labels.insert(account.clone());
            return account.clone();
        }
        if self.folded.len() < ACCOUNT_LABELS_MAX {
            self.folded.insert(account.clone());
        }
        AccountLabel::own(LABEL_OTHER)
    }
}

impl GpuMeter {
    fn begin(&mut self, at: u64, now: u64) {
        (self.began, self.frontier, self.told) = (at, Some(at), now);
        for account in self.accounts.values_mut() {
            let before = account.settled.measure_below(at);
            account.count.unplaced = plus(account.count.unplaced, before);
            account.settled.cut_below(at);
            account.horizon = at;
        }
    }

    /// The account under a label; a new one has nothing from before metering began.
    fn account(&mut self, label: AccountLabel) -> &mut Account {
        let horizon = self.began;
        self.accounts.entry(label).or_insert_with(|| Account { horizon, ..Account::default() })
    }

    /// Takes a row out of the open ones; whether it was there.
    fn close(&mut self, key: &RowKey) -> bool {
        let label = self.open.remove(key);
        let account = label.and_then(|label| self.accounts.get_mut(&label));
        account.is_some_and(|account| account.open.remove(key).is_some())
    }
}

impl Account {
    /// The union up to `to`.
    fn total(&self, to: u64) -> i128 {
        let to = to.max(self.horizon);
        let began = self.open.values().min().map_or(to, |began| (*began).max(self.horizon).min(to));
        let settled = i128::from(self.settled.measure_below(began));
        let open = i128::from(to.saturating_sub(began));
        self.base.saturating_add(settled).saturating_add(open)
    }

    /// Counts what lies between `from` and `next`; what else is new is an adjustment.
    fn advance(&mut self, frontier: u64, from: u64, next: u64) {
        let (late, end) = (self.total(frontier), self.total(next));
        let begin = self.total(from);
        self.adjust(late.saturating_sub(self.counted));
        self.adjust(begin.saturating_sub(late));
        let grown = end.saturating_sub(begin);
        // A union does not shrink with its end.
        self.count.held = plus(self.count.held, u64::try_from(grown).unwrap_or(0));
        self.counted = end;
    }

    fn adjust(&mut self, change: i128) {
        let ms = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
        if change < 0 {
            self.count.adjusted_down = plus(self.count.adjusted_down, ms);
        } else {
            self.count.adjusted_up = plus(self.count.adjusted_up, ms);
        }
        self.counted = self.counted.saturating_add(change);
    }

    /// Sums the oldest intervals up where there are too many.
    fn prune(&mut self, frontier: u64, intervals_max: usize) {
        while self.settled.count() > intervals_max {
            let Some(to) = self.settled.first_end().filter(|to| *to <= frontier) else { return };
            self.base = self.total(to);
            self.settled.cut_below(to);
            self.horizon = to;
        }
    }
}

fn plus(ms: Ms, more: u64) -> Ms {
    Ms(ms.0.saturating_add(more))
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
