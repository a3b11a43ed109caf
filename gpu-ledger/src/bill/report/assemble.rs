//! From a ledger to a report. The figures are the bill's; here they only find their fields.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::Unpriced;
use super::coverage::{Missing, coverage, moment, not_here, possibly_lost, told_of, unknown};
use super::evidence::Sampled;
use super::left_out::{Unmet, Whole, filter};
use super::lifetimes::{Class, Classes};
use super::memory;
use super::priced;
use super::{
    Account, ClockBehind, Disputed, FORMAT, Gpu, JournalHead, Lane, MemoryHeld, NoDriverRow, Open,
    PeriodLine, Reading, ReadingLine, Report, Settled, Unattributed, UnknownLine, VERSION,
};
use crate::bill::chosen::no_such_line;
use crate::bill::ledger::{Cut, CutBooks, CutGpu, CutRow, Holder, MemoryOf, PENDING_MS_MAX, Which};
use crate::bill::lines::bill_with;
use crate::bill::on_gpu::split_by_process;
use crate::bill::period::{Beyond, Period, moment_of, show, zone_name};
use crate::bill::{
    Bill, BillError, By, GpuLine, Holding, Ledger, LineKey, LineName, Parts, SharePolicy, Shown,
    divide,
};
use crate::journal::Digest;
use crate::journal::chain::sha256;
use crate::journal::entry::OpenKind;
use crate::prices::PriceList;
use crate::settlement::{Account as AccountOf, NamedBy, SettlementId, told_apart};
use crate::unit::{GpuUuid, Ms, Span};
use crate::unknown::NamelessReason;

/// The name of the account of those whose name nobody knows.
pub(super) const UNATTRIBUTED: &str = "unattributed";

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    /// The period.
    pub period: Period,
    /// What a line stands for.
    pub by: By,
    /// How shared time is divided.
    pub share: SharePolicy,
    /// Only these GPUs; all where there is none.
    pub gpus: Vec<GpuUuid>,
    /// Only lines of these names; all where there is none.
    pub accounts: Vec<String>,
    /// What hours cost; nothing is priced without.
    pub prices: Option<PriceList>,
}

/// The end of the journal that the ledger was made from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Number of the last entry.
    pub seq: u64,
    /// Its hash.
    pub hash: Digest,
    /// The tree over all entries up to it.
    pub tree: Tree,
}

/// Root of the RFC 6962 tree over the entries up to a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tree {
    /// That.
    Root(Digest),
    /// Nobody can say it here, for this reason.
    Unknown(&'static str),
}

impl Tree {
    /// The root, where it is known.
    #[must_use]
    pub const fn root(self) -> Option<Digest> {
        match self {
            Self::Root(root) => Some(root),
            Self::Unknown(_) => None,
        }
    }
}

/// What a report says that stands in evidence, not in figures.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Outside {
    /// `real` or `simulated`.
    pub driver: Option<String>,
    /// Its version.
    pub driver_version: Option<String>,
    /// Number of the last entry that was archived and was not there to be read; 0 where none is missing.
    pub missing: u64,
    /// Start of the process behind an open entry, by the entry's number, in ms since 1970.
    pub born_ms: BTreeMap<u64, u64>,
    /// How the entries came.
    pub reading: Reading,
    /// What this system calls users, by the real user id.
    pub users: BTreeMap<u32, String>,
}

/// Makes the report of a period.
///
/// # Errors
/// Those of [`crate::bill::bill`] and [`divide`].
pub fn report(
    ledger: &Ledger,
    ask: &Ask,
    head: Head,
    outside: &Outside,
) -> Result<Report, BillError> {
    let Made { report, unmet, .. } = made(ledger, ask, head, outside)?;
    match unmet.words.first() {
        Some(word) => Err(no_such_line(word, unmet.known.iter().map(String::as_str))),
        None => Ok(report),
    }
}

/// A report, and what several of them are made one by.
pub(super) struct Made {
    pub(super) report: Report,
    /// The names of its lines, by rank.
    pub(super) lines: Vec<LineName>,
    /// When each GPU was in sight or held.
    pub(super) told: BTreeMap<GpuUuid, Vec<Span>>,
    /// What it was asked for and has no line of.
    pub(super) unmet: Unmet,
}

pub(super) fn made(
    ledger: &Ledger,
    ask: &Ask,
    head: Head,
    outside: &Outside,
) -> Result<Made, BillError> {
    let period = bounds(ledger, &ask.period);
    let cut = ledger.cut(Which { period, by: ask.by, gpus: &ask.gpus });
    let mut bill = bill_with(period, &cut.books, keeps_parts(ledger, ask))?;
    if ask.by == By::Gpu {
        split_by_process(&mut bill, &cut.books);
    }
    let found = Found::of(&cut, &bill, period);
    let shares = shares(&bill, ask.share, &found, &cut)?;
    let memory_held = memory::memory(&cut, ask.by, ledger.as_of_ms())?;
    let mut report = Report {
        format: FORMAT,
        version: VERSION,
        bill_id: bill_id(ledger, ask, period, (head, outside.reading.only_uid)),
        as_of: ledger.as_of_ms().map(moment),
        journal_head: Some(journal_head(head)),
        reading: reading(outside),
        period: period_line(ledger, ask, period),
        clock_behind: ask.period.beyond_now.map(|beyond| clock_behind(ask, beyond)),
        host: ledger.host().map(ToString::to_string),
        hosts: None,
        driver: outside.driver.clone(),
        driver_version: outside.driver_version.clone(),
        by: ask.by.as_str(),
        share: ask.share.as_str(),
        gpus: cut
            .gpus
            .iter()
            .zip(&bill.gpus)
            .map(|(gpu, line)| statement(&cut, gpu, line))
            .collect(),
        accounts: accounts(&cut, &bill, &found, &memory_held, (&shares, &outside.users)),
        unattributed: unattributed(&bill, &shares),
        open: Vec::new(),
        unknown: Vec::new(),
        disputed: disputed(&cut, &bill),
        no_driver_row: Vec::new(),
        lifetime_classes: found.classes.lines(),
        settlements: (ask.by == By::Process).then(|| settlements(&cut, &bill, period)),
        settlements_total: bill.settlements_total,
        span_ms_total: bill.span_ms_total,
        undivided_ms: shares.undivided,
        memory: memory_held,
        priced: None,
        coverage: coverage(ledger, &cut, period),
        left_out: None,
        closed_periods: Vec::new(),
        adjustments: None,
        shown: Shown::default(),
        lanes: lanes(&cut, ask.by, period),
    };
    holders(&mut report, &cut, &bill, outside);
    report.unknown = unknowns(&report, (&cut, &bill, &found.total), outside.missing);
    if let Some(prices) = &ask.prices {
        let (sampled, users) = (found.by_gpu.as_slice(), &outside.users);
        let source = priced::Source { ledger, ask, cut: &cut, bill: &bill, sampled, users };
        let in_money = priced::priced(&source, prices)?;
        report.unknown.extend(priced::unknown(&in_money, period));
        report.priced = Some(in_money);
    }
    report.unknown.extend(not_here(ledger, period));
    report.shown = shown(&report, &cut.lines);
    let whole = Whole { cut: &cut, bill: &bill, users: &outside.users };
    let unmet = filter(&mut report, ask, &whole)?;
    let told = cut.books.iter().zip(&cut.gpus);
    let told = told.map(|(books, gpu)| (books.gpu.clone(), told_of(ledger, gpu, books, period)));
    Ok(Made { told: told.collect(), lines: cut.lines, report, unmet })
}

/// Every UNKNOWN that is none of an amount.
fn unknowns(
    report: &Report,
    (cut, bill, total): (&Cut<'_>, &Bill<LineKey>, &Sampled),
    archived: u64,
) -> Vec<UnknownLine> {
    let missing = Missing {
        memory: memory_lacks(report),
        archived,
        samples: total.unsampled_count,
        peaks: total.peaks_unknown,
        lines: unnamed(cut, bill),
    };
    let doubted = cut.gpus.iter().filter(|gpu| gpu.is_doubted).map(|gpu| gpu.sight.gpu.clone());
    unknown(report, missing, doubted.collect())
}

/// Whether anything on the bill says what each settlement got: the settlements themselves, or a price, where one slept.
pub(super) fn keeps_parts(ledger: &Ledger, ask: &Ask) -> bool {
    ask.by == By::Process || (ask.prices.is_some() && ledger.has_slept())
}

/// Settlements whose line has no name.
fn unnamed(cut: &Cut<'_>, bill: &Bill<LineKey>) -> u64 {
    let is_unknown = |key| cut.line(key).is_some_and(|name| name.is_unknown);
    let unnamed = bill.accounts.iter().filter(|line| is_unknown(line.account));
    unnamed.fold(0, |sum, line| sum.saturating_add(line.settlements))
}

/// Who held each GPU when.
fn lanes(cut: &Cut<'_>, by: By, period: Span) -> Vec<Lane> {
    if by != By::Process {
        return Vec::new();
    }
    let lane = |books: &CutBooks<'_>| {
        let within = |holding: Holding<LineKey>| {
            let span = holding.span.overlap(period)?;
            Some(Holding { span, ..holding })
        };
        Lane {
            holdings: books.holdings().filter_map(within).collect(),
            uncovered: books.uncovered.iter().filter_map(|span| span.overlap(period)).collect(),
        }
    };
    cut.books.iter().map(lane).collect()
}

/// GPUs and what of their memory has no figure, with the word of why; of a GPU that nobody sampled, that.
fn memory_lacks(report: &Report) -> Vec<(GpuUuid, &'static str, String)> {
    let mut lacks = Vec::new();
    for gpu in report.memory.gpus.iter().filter(|gpu| gpu.period_ms.is_some()) {
        let mut lack = |ms: Ms, reason: Unpriced, why: &str| {
            if ms > Ms::ZERO {
                let subject = format!("memory held for {ms}: {why}");
                lacks.push((gpu.gpu_uuid.clone(), reason.as_str(), subject));
            }
        };
        let void = format!("hours that are void ({})", gpu.void_reasons());
        lack(gpu.void_ms, Unpriced::MemoryVoid, &void);
        lack(gpu.cut_ms, Unpriced::MemoryCut, "quarters of an hour that the period cuts");
        lack(gpu.uncovered_ms, Unpriced::NoSamples, "not sampled");
    }
    let unsaid = report.memory.lines.iter().filter(|line| line.unsaid_ms > Ms::ZERO);
    for line in unsaid {
        let lack = format!("memory of {} for {}: not said", line.account, line.unsaid_ms);
        lacks.push((line.gpu_uuid.clone(), Unpriced::MemoryUnsaid.as_str(), lack));
    }
    lacks
}

/// How names are told apart: of all lines, those that are left out as well.
pub(super) fn shown(report: &Report, lines: &[LineName]) -> Shown {
    let settlements = report.settlements.iter().flatten();
    let programs: BTreeSet<Cow<'_, str>> =
        settlements.clone().filter_map(|one| one.program.as_deref()).map(told_apart).collect();
    let titles: Vec<String> = report.accounts.iter().map(Account::title).collect();
    let in_money = report.priced.iter().flat_map(|priced| &priced.lines);
    let nameless = report.memory.lines.iter().filter_map(|line| Some((line, line.nameless?)));
    let nameless: Vec<String> =
        nameless.map(|(line, reason)| format!("{}: {reason}", line.account)).collect();
    let plain = programs.iter().map(|program| &**program);
    let plain = plain.chain(titles.iter().map(String::as_str));
    let plain = plain.chain(in_money.filter_map(|line| line.title.as_deref()));
    let plain = plain.chain(nameless.iter().map(String::as_str));
    let names = (lines.iter().map(|line| (&*line.text, line.named_by)))
        .chain(settlements.map(|one| (one.account.as_str(), one.named_by)))
        .chain(report.open.iter().map(|one| (one.account.as_str(), one.named_by)))
        .chain(report.no_driver_row.iter().map(|one| (one.account.as_str(), one.named_by)))
        .chain(plain.map(|name| (name, None)));
    Shown::of_accounts(names)
}

fn reading(outside: &Outside) -> ReadingLine {
    let Reading { through, proven, only_uid, witnessed } = outside.reading;
    let only_user = only_uid.and_then(|uid| outside.users.get(&uid).cloned());
    let missing_to = outside.missing;
    ReadingLine { through, proven, only_uid, only_user, end_witnessed: witnessed, missing_to }
}

/// The period, from where the journal begins and up to where it speaks, where those were not asked
/// for: with the agent at work, what is not journaled yet is left to the next bill instead of being
/// called unseen.
fn bounds(ledger: &Ledger, period: &Period) -> Span {
    let span = period.span;
    let begins = ledger.earliest_ms().filter(|_| period.begins_with_journal);
    let from_ms = begins.map_or(span.from_ms(), |ms| ms.max(span.from_ms()));
    let is_open_now = period.is_open_ended && period.beyond_now.is_none();
    let as_of = ledger.as_of_ms().filter(|_| is_open_now && ledger.is_running());
    let fresh = as_of.filter(|as_of| span.to_ms().saturating_sub(*as_of) <= PENDING_MS_MAX);
    let to_ms = fresh.map_or(span.to_ms(), |as_of| as_of.min(span.to_ms()));
    let known = Span::new(from_ms, to_ms).filter(|known| known.length() > Ms::ZERO);
    known.unwrap_or(span)
}

fn period_line(ledger: &Ledger, ask: &Ask, period: Span) -> PeriodLine {
    let local = |ms| show(moment_of(ms), &ask.period.zone);
    PeriodLine {
        since: moment(period.from_ms()),
        until: moment(period.to_ms()),
        zone: zone_name(&ask.period.zone),
        span: period,
        local: [local(period.from_ms()), local(period.to_ms())],
        time_zone: ask.period.zone.clone(),
        local_as_of: ledger.as_of_ms().map(local),
        length_ms: period.length(),
    }
}

fn clock_behind(ask: &Ask, beyond: Beyond) -> ClockBehind {
    let local = |ms| show(moment_of(ms), &ask.period.zone);
    ClockBehind {
        now: moment(beyond.now_ms),
        latest: moment(beyond.latest_ms),
        local: [local(beyond.now_ms), local(beyond.latest_ms)],
    }
}

fn journal_head(head: Head) -> JournalHead {
    let tree_unknown = match head.tree {
        Tree::Root(_) => None,
        Tree::Unknown(why) => Some(why),
    };
    let tree = head.tree.root().map(|root| root.to_string());
    JournalHead { seq: head.seq, hash: head.hash.to_string(), tree, tree_unknown }
}

fn bill_id(
    ledger: &Ledger,
    ask: &Ask,
    period: Span,
    (head, only_uid): (Head, Option<u32>),
) -> String {
    let (from_ms, to_ms) = (period.from_ms(), period.to_ms());
    let text = format!(
        "{FORMAT} {VERSION}\n{} {}\n{from_ms} {to_ms} {}\n{:?}\n{} {}\n{:?}\n{:?}\n",
        head.seq,
        head.hash,
        zone_name(&ask.period.zone),
        ledger.as_of_ms(),
        ask.by,
        ask.share,
        ask.gpus,
        ask.accounts,
    );
    // What one user sees is another bill than what all see, and what a clock calls the future changes.
    let text = only_uid.map_or(text.clone(), |uid| format!("{text}{uid}\n"));
    let beyond = ask.period.beyond_now;
    let text = beyond.map_or(text.clone(), |beyond| format!("{text}now {}\n", beyond.now_ms));
    let prices = ask.prices.as_ref();
    let text = prices.map_or(text.clone(), |prices| format!("{text}prices {}\n", prices.digest()));
    sha256(text.as_bytes()).to_string().chars().take(16).collect()
}

/// What the rows and holders add up to, beside the bill's own sums.
struct Found {
    by_line: BTreeMap<LineKey, Sampled>,
    by_gpu: Vec<BTreeMap<LineKey, Sampled>>,
    total: Sampled,
    classes: Classes,
}

impl Found {
    fn of(cut: &Cut<'_>, bill: &Bill<LineKey>, period: Span) -> Self {
        let mut found = Self {
            by_line: BTreeMap::new(),
            by_gpu: Vec::new(),
            total: Sampled::default(),
            classes: Classes::new(),
        };
        for ((gpu, books), line) in cut.gpus.iter().zip(&cut.books).zip(&bill.gpus) {
            let mut of_gpu: BTreeMap<LineKey, Sampled> = BTreeMap::new();
            for row in books.settlements.iter() {
                if let Some(held) = row.held_of(period) {
                    of_gpu.entry(row.line).or_default().add(&row, held);
                    found.classes.add(Class::of_settled(row.placing().held), held);
                }
            }
            for (line, sampled) in &of_gpu {
                found.by_line.entry(*line).or_default().merge(sampled);
                found.total.merge(sampled);
            }
            found.by_gpu.push(of_gpu);
            for (holder, parts) in placed(gpu, line) {
                let is_open = !holder.is_over && holder.kind != OpenKind::NoDriverRow;
                let class = if is_open { Class::Open } else { Class::NoDriverRow };
                if let Some(parts) = parts {
                    found.classes.add(class, parts.held());
                }
            }
        }
        found
    }
}

/// Each holder with what it got of the period; `None` of one without an interval.
pub(super) fn placed<'a>(
    gpu: &'a CutGpu<'a>,
    line: &'a GpuLine<LineKey>,
) -> impl Iterator<Item = (&'a Holder, Option<Parts>)> {
    let mut running = line.running.iter().copied();
    gpu.holders.iter().map(move |holder| (holder, holder.span.and_then(|_| running.next())))
}

/// Shared time as the policy divides it.
struct Shares {
    lines: BTreeMap<LineKey, Ms>,
    reasons: BTreeMap<(GpuUuid, LineKey), Ms>,
    undivided: Option<Ms>,
}

fn shares(
    bill: &Bill<LineKey>,
    policy: SharePolicy,
    found: &Found,
    cut: &Cut<'_>,
) -> Result<Shares, BillError> {
    let mut shares = Shares { lines: BTreeMap::new(), reasons: BTreeMap::new(), undivided: None };
    if policy == SharePolicy::None {
        return Ok(shares);
    }
    let overflow = BillError::Overflow { what: "shared time" };
    let mut undivided = Ms::ZERO;
    for ((line, sampled), gpu) in bill.gpus.iter().zip(&found.by_gpu).zip(&cut.gpus) {
        let weights: BTreeMap<LineKey, u64> = match policy {
            SharePolicy::Busy => {
                let known = |(key, sampled): (&LineKey, &Sampled)| Some((*key, sampled.weight()?));
                sampled.iter().filter_map(known).collect()
            }
            SharePolicy::Memory => {
                let known = |(key, of): (&LineKey, &MemoryOf)| Some((*key, of.weight()?));
                gpu.memory.lines.iter().filter_map(known).collect()
            }
            SharePolicy::None | SharePolicy::Equal => BTreeMap::new(),
        };
        let divided = divide(&line.statement.shared_between, policy, &weights)?;
        undivided = undivided.checked_add(divided.undivided).ok_or(overflow.clone())?;
        for (key, share) in divided.shares {
            let sum = match key.reason {
                Some(reason) if is_on(bill, &line.gpu, reason) => {
                    shares.reasons.entry((line.gpu.clone(), key)).or_insert(Ms::ZERO)
                }
                None if bill.accounts.iter().any(|line| line.account == key) => {
                    shares.lines.entry(key).or_insert(Ms::ZERO)
                }
                // It shared, and nothing of it is booked that a share could stand beside.
                Some(_) | None => &mut undivided,
            };
            *sum = sum.checked_add(share).ok_or(overflow.clone())?;
        }
    }
    shares.undivided = Some(undivided);
    Ok(shares)
}

fn is_on(bill: &Bill<LineKey>, gpu: &GpuUuid, reason: NamelessReason) -> bool {
    bill.unattributed.iter().any(|line| line.gpu == *gpu && line.reason == reason)
}

fn statement(cut: &Cut<'_>, gpu: &CutGpu<'_>, line: &GpuLine<LineKey>) -> Gpu {
    let statement = &line.statement;
    Gpu {
        host: None,
        gpu_uuid: line.gpu.clone(),
        gpu_index: gpu.sight.index,
        gpu_name: gpu.sight.name.as_ref().map(ToString::to_string),
        period_ms: statement.period.length(),
        alone_ms: statement.alone,
        shared_ms: statement.shared,
        free_ms: statement.free,
        uncovered_ms: statement.uncovered,
        unread_ms: gpu.unread.map_or(Ms::ZERO, Span::length),
        dead_rows_last: gpu.dead_rows_last,
        possibly_lost: possibly_lost(cut, gpu),
    }
}

fn accounts(
    cut: &Cut<'_>,
    bill: &Bill<LineKey>,
    found: &Found,
    memory_held: &MemoryHeld,
    (shares, users): (&Shares, &BTreeMap<u32, String>),
) -> Vec<Account> {
    let lines = bill.accounts.iter().filter_map(|line| {
        let name = cut.line(line.account)?;
        let sampled = found.by_line.get(&line.account).copied().unwrap_or_default();
        let busy = sampled.busy();
        let of_memory = memory_of(cut, line.account);
        let memory = memory::known(of_memory);
        // What the policy gave it nothing of is nothing: a line without sharers.
        let share = || shares.lines.get(&line.account).copied().unwrap_or(Ms::ZERO);
        Some(Account {
            line: line.account,
            account: name.text.to_string(),
            classified: name.is_classified,
            named_by: name.named_by,
            uid: name.uid,
            user: name.uid.and_then(|uid| users.get(&uid).cloned()),
            settlements: line.settlements,
            held_ms: line.settled.held(),
            alone_ms: line.settled.alone,
            shared_ms: line.settled.shared,
            uncovered_ms: line.settled.uncovered,
            span_ms_total: line.span_total,
            open_ms: line.open.held(),
            open_uncovered_ms: line.open.uncovered,
            settled_or_open_ms: line.settled_or_open.held(),
            no_driver_row_ms: line.no_driver_row.held(),
            share_ms: shares.undivided.map(|_| share()),
            busy_ms_low: busy.map(|(low, _)| low),
            busy_ms_high: busy.map(|(_, high)| high),
            busy_unsampled_ms: sampled.unsampled(),
            max_memory_bytes: sampled.peak(),
            memory_held_gib_s: memory.map(|held| held.to_string()),
            memory_held_byte_ms: memory.map(|held| held.0.to_string()),
            memory_unknown_ms: memory_held.is_told().then(|| Ms(of_memory.unknown_ms())),
        })
    });
    let mut lines: Vec<Account> = lines.collect();
    lines.sort_by(largest_first);
    lines
}

/// The order of the lines on a bill.
pub(super) fn largest_first(a: &Account, b: &Account) -> Ordering {
    let key = |line: &Account| (line.settled_or_open_ms, line.no_driver_row_ms);
    key(b).cmp(&key(a)).then_with(|| a.account.cmp(&b.account))
}

/// A line's memory on all GPUs.
fn memory_of(cut: &Cut<'_>, line: LineKey) -> MemoryOf {
    let mut sum = MemoryOf::default();
    for of in cut.gpus.iter().filter_map(|gpu| gpu.memory.lines.get(&line)) {
        sum.add(*of);
    }
    sum
}

fn unattributed(bill: &Bill<LineKey>, shares: &Shares) -> Vec<Unattributed> {
    let lines = bill.unattributed.iter().map(|line| {
        let key = (line.gpu.clone(), LineKey::nameless(line.reason));
        let share = || shares.reasons.get(&key).copied().unwrap_or(Ms::ZERO);
        Unattributed {
            gpu_uuid: line.gpu.clone(),
            reason: line.reason,
            count: line.count,
            held_ms: line.held,
            span_ms_total: line.span_total,
            share_ms: shares.undivided.map(|_| share()),
        }
    });
    lines.collect()
}

fn disputed(cut: &Cut<'_>, bill: &Bill<LineKey>) -> Vec<Disputed> {
    let name = |key| cut.line(key).map_or(UNATTRIBUTED, |name| &*name.text).to_owned();
    let lines = bill.disputed.iter().map(|line| Disputed {
        line: line.account,
        gpu_uuid: line.gpu.clone(),
        account: name(line.account),
        named_by: cut.line(line.account).and_then(|name| name.named_by),
        reason: line.reason,
        count: line.count,
        raw_ms: line.raw_ms,
    });
    lines.collect()
}

fn account_name(account: &AccountOf) -> String {
    match account {
        // The reason has a field of its own.
        AccountOf::Unattributed(_) => UNATTRIBUTED.to_owned(),
        account => account.title(),
    }
}

/// What is said of a holder that another user's is said by the daemon, and is no name.
fn holder_name(holder: &Holder) -> String {
    if holder.pid.is_alias() && holder.account.unattributed().is_none() {
        return holder.account.to_string();
    }
    account_name(&holder.account)
}

fn holder_named_by(holder: &Holder) -> Option<NamedBy> {
    holder.account.named_by().filter(|_| !holder.pid.is_alias())
}

fn settlements(cut: &Cut<'_>, bill: &Bill<LineKey>, period: Span) -> Vec<Settled> {
    let mut all = Vec::new();
    for (books, line) in cut.books.iter().zip(&bill.gpus) {
        for (row, parts) in books.settlements.iter().zip(&line.settlements) {
            if row.counts(period) && !row.is_folded() {
                all.push(settled(&line.gpu, &row, *parts));
            }
        }
    }
    all.sort_by_key(|one| (one.start_time_us, one.seq));
    all
}

fn settled(gpu: &GpuUuid, row: &CutRow<'_>, parts: Option<Parts>) -> Settled {
    let placing = row.placing();
    let busy = row.busy();
    let account = row.account();
    let parts = parts.filter(|_| placing.dispute.is_none());
    Settled {
        line: row.line,
        id: SettlementId::of_parts(gpu, placing.pid, row.start()).to_string(),
        seq: row.seq(),
        gpu_uuid: gpu.clone(),
        pid: placing.pid,
        start_time_us: row.start(),
        held_ms: placing.held,
        in_period_ms: parts.map(Parts::held),
        alone_ms: parts.map(|parts| parts.alone),
        shared_ms: parts.map(|parts| parts.shared),
        uncovered_ms: parts.map(|parts| parts.uncovered),
        asleep_ms: row.asleep(),
        busy_ms_low: busy.map(|busy| busy.low),
        busy_ms_high: busy.map(|busy| busy.high),
        busy_samples: busy.and_then(|busy| busy.samples),
        busy_source: busy.map(|busy| busy.source.as_str()),
        max_memory_bytes: row.memory_peak(),
        account: account.map_or_else(|| UNATTRIBUTED.to_owned(), account_name),
        named_by: account.and_then(AccountOf::named_by),
        program: row.program().map(ToString::to_string),
        uid: row.uid(),
        basis: row.basis(),
        reason: account.and_then(AccountOf::unattributed),
        dispute: placing.dispute,
        flags: row.flags().to_vec(),
        labels: row.labels().iter().flat_map(|labels| labels.iter().cloned()).collect(),
    }
}

/// Fills in what holds a GPU, or held it, without a settlement.
fn holders(report: &mut Report, cut: &Cut<'_>, bill: &Bill<LineKey>, outside: &Outside) {
    for (gpu, line) in cut.gpus.iter().zip(&bill.gpus) {
        for (holder, parts) in placed(gpu, line) {
            if holder.is_over || holder.kind == OpenKind::NoDriverRow {
                report.no_driver_row.push(no_driver_row(&line.gpu, holder, parts, outside));
            } else {
                report.open.push(open(&line.gpu, holder, parts));
            }
        }
    }
}

fn open(gpu: &GpuUuid, holder: &Holder, parts: Option<Parts>) -> Open {
    let parts = parts.filter(|_| holder.is_open_row());
    Open {
        line: holder.line,
        seq: holder.seq,
        gpu_uuid: gpu.clone(),
        pid: holder.pid.shown(),
        start_time_us: holder.start.filter(|_| holder.kind == OpenKind::Row),
        first_seen: moment(holder.first_seen_ms),
        accrued_ms: parts.map(Parts::held),
        alone_ms: parts.map(|parts| parts.alone),
        shared_ms: parts.map(|parts| parts.shared),
        uncovered_ms: parts.map(|parts| parts.uncovered),
        memory_bytes: None,
        account: holder_name(holder),
        named_by: holder_named_by(holder),
        program: holder.program.as_ref().map(ToString::to_string),
        uid: holder.uid,
        basis: holder.basis,
        nameless: holder.account.unattributed(),
        reason: holder.unknown().map(|reason| reason.to_string()),
    }
}

fn no_driver_row(
    gpu: &GpuUuid,
    holder: &Holder,
    parts: Option<Parts>,
    outside: &Outside,
) -> NoDriverRow {
    let born_ms = outside.born_ms.get(&holder.seq);
    let age_ms = holder.span.zip(born_ms).and_then(|(span, born)| span.to_ms().checked_sub(*born));
    NoDriverRow {
        line: holder.line,
        seq: holder.seq,
        gpu_uuid: gpu.clone(),
        pid: holder.pid.shown(),
        account: holder_name(holder),
        named_by: holder_named_by(holder),
        program: holder.program.as_ref().map(ToString::to_string),
        uid: holder.uid,
        first_seen: moment(holder.first_seen_ms),
        age_ms: age_ms.map(Ms),
        seen_ms: parts.map(Parts::held),
        ended: holder.is_over,
        lost: holder.lost,
        memory_bytes: holder.memory,
    }
}
