//! From quantities to lines: each with the price that was in force, and its amount.

use std::collections::BTreeMap;

use super::gaps::unmatched;
use super::measured::{How, Measured, Memory, Who, measured, who};
use super::{Priced, PricedLine, State, Sum, Total, Unpriced};
use crate::bill::ledger::{Cut, Which};
use crate::bill::lines::bill_with;
use crate::bill::report::assemble::keeps_parts;
use crate::bill::report::coverage::moment;
use crate::bill::report::evidence::Sampled;
use crate::bill::report::{Ask, Gpu, UNATTRIBUTED};
use crate::bill::{Bill, BillError, Ledger, LineKey};
use crate::prices::{Amount, Exact, Meter, Price, PriceList};
use crate::unit::{GpuUuid, Ms, Span};

/// Everything that a bill is priced from.
pub(in crate::bill::report) struct Source<'a> {
    pub(in crate::bill::report) ledger: &'a Ledger,
    pub(in crate::bill::report) ask: &'a Ask,
    /// The whole period.
    pub(in crate::bill::report) cut: &'a Cut<'a>,
    pub(in crate::bill::report) bill: &'a Bill<LineKey>,
    pub(in crate::bill::report) sampled: &'a [BTreeMap<LineKey, Sampled>],
    /// What this system calls users, by the real user id.
    pub(in crate::bill::report) users: &'a BTreeMap<u32, String>,
}

/// A stretch of the period in which one price of a GPU's meter was in force, or none.
struct Run<'a> {
    price: Option<(usize, &'a Price)>,
    span: Span,
}

/// What one line adds up to: in ms, of memory in bytes × ms.
#[derive(Clone, Copy, Default)]
struct Draft {
    low: u128,
    high: u128,
    /// Why it cannot be known.
    unknown: Option<Unpriced>,
    /// Of memory: for how long it is not.
    unknown_ms: u128,
}

/// Place of its GPU, of its run, its meter, state, whose it is, and of memory why it is not known.
type Key = (Meter, State, Who, usize, usize, Option<Unpriced>);

/// Prices a bill.
pub(in crate::bill::report) fn priced(
    source: &Source<'_>,
    prices: &PriceList,
) -> Result<Priced, BillError> {
    let models: Vec<(GpuUuid, Option<&str>)> = source
        .cut
        .gpus
        .iter()
        .map(|gpu| (gpu.sight.gpu.clone(), gpu.sight.name.as_deref()))
        .collect();
    let meters: Vec<Vec<Meter>> =
        models.iter().map(|(gpu, model)| meters(prices, gpu, *model)).collect();
    let weights = weights(source);
    let how = How { by: source.ask.by, share: source.ask.share, weights: &weights };
    let mut runs: BTreeMap<(usize, Meter), Vec<Run<'_>>> = BTreeMap::new();
    let mut drafts: BTreeMap<Key, Draft> = BTreeMap::new();
    for (piece, cut_meters) in pieces(source.bill.period, prices, &models) {
        let of_gpu = |place: usize| {
            let charged = meters.get(place).into_iter().flatten();
            charged.filter(|meter| cut_meters.contains(meter))
        };
        for (place, (gpu, model)) in models.iter().enumerate() {
            for meter in of_gpu(place) {
                let price = prices.in_force(gpu, *model, *meter, piece.from_ms());
                extend(runs.entry((place, *meter)).or_default(), price, piece);
            }
        }
        let all = if piece == source.bill.period {
            measured(source.cut, source.bill, &how)?
        } else {
            let (by, gpus) = (source.ask.by, source.ask.gpus.as_slice());
            let cut = source.ledger.cut(Which { period: piece, by, gpus });
            let keeps_parts = keeps_parts(source.ledger, source.ask);
            measured(&cut, &bill_with(piece, &cut.books, keeps_parts)?, &how)?
        };
        for one in all {
            for meter in of_gpu(one.gpu) {
                let run = runs.get(&(one.gpu, *meter)).map_or(0, Vec::len);
                add(&mut drafts, &one, *meter, charged(meters.get(one.gpu)), run)?;
            }
        }
    }
    let mut lines = Vec::with_capacity(drafts.len());
    for ((meter, state, who, gpu, run, _), draft) in drafts {
        let run = runs.get(&(gpu, meter)).and_then(|runs| runs.get(run.checked_sub(1)?));
        let (Some(run), Some((uuid, model))) = (run, models.get(gpu)) else { continue };
        let is_booked = state.is_settled() && meter == charged(meters.get(gpu));
        let line = begun(source, (uuid, *model), (meter, state, &who), run, is_booked);
        lines.push(with_amount(line, draft, run.price.map(|(_, price)| price))?);
    }
    lines.extend(disputed(source, &models, &meters));
    sort(&mut lines, |gpu| models.iter().position(|(known, _)| known == gpu));
    let mut in_money = Priced {
        currency: prices.currency().to_owned(),
        prices_sha256: prices.digest().to_string(),
        booked: Sum::of(&[])?,
        totals: Vec::new(),
        unmatched: unmatched(source.ledger, prices),
        lines,
    };
    totals(&mut in_money)?;
    Ok(in_money)
}

/// By what a GPU is charged: the meters that the list knows for it, and held where it knows neither of the
/// two that can be booked.
fn meters(prices: &PriceList, gpu: &GpuUuid, model: Option<&str>) -> Vec<Meter> {
    let known = |meter: &Meter| prices.charges(gpu, model, *meter);
    let has_booked = known(&Meter::Held) || known(&Meter::Alone);
    let is_charged = |meter: &Meter| known(meter) || (*meter == Meter::Held && !has_booked);
    Meter::ALL.into_iter().filter(is_charged).collect()
}

/// The meter that is booked of a GPU.
fn charged(meters: Option<&Vec<Meter>>) -> Meter {
    match meters {
        Some(meters) if meters.contains(&Meter::Held) => Meter::Held,
        Some(_) => Meter::Alone,
        None => Meter::Held,
    }
}

/// The period, cut for each meter wherever its price of one of the GPUs changes: another meter's price does not make
/// what was sampled less exact. Ascending for each meter.
fn pieces(
    period: Span,
    prices: &PriceList,
    models: &[(GpuUuid, Option<&str>)],
) -> Vec<(Span, Vec<Meter>)> {
    let changes = prices.changes(period);
    let mut alike: BTreeMap<Vec<u64>, Vec<Meter>> = BTreeMap::new();
    for meter in Meter::ALL {
        let price = |gpu, model, at| prices.in_force(gpu, model, meter, at).map(|(place, _)| place);
        let concerns = |at: &&u64| {
            let before = at.saturating_sub(1);
            models.iter().any(|(gpu, model)| price(gpu, *model, **at) != price(gpu, *model, before))
        };
        alike.entry(changes.iter().filter(concerns).copied().collect()).or_default().push(meter);
    }
    let mut pieces = Vec::new();
    for (edges, meters) in alike {
        let mut from = period.from_ms();
        for to in edges.into_iter().chain([period.to_ms()]) {
            let piece = Span::new(std::mem::replace(&mut from, to), to);
            pieces.extend(piece.map(|piece| (piece, meters.clone())));
        }
    }
    pieces
}

fn extend<'a>(runs: &mut Vec<Run<'a>>, price: Option<(usize, &'a Price)>, piece: Span) {
    let place = |price: &Option<(usize, &Price)>| price.map(|(place, _)| place);
    match runs.last_mut() {
        Some(last) if place(&last.price) == place(&price) => {
            last.span = Span::new(last.span.from_ms(), piece.to_ms()).unwrap_or(last.span);
        }
        _ => runs.push(Run { price, span: piece }),
    }
}

/// One quantity onto its line.
fn add(
    drafts: &mut BTreeMap<Key, Draft>,
    one: &Measured,
    meter: Meter,
    booked: Meter,
    run: usize,
) -> Result<(), BillError> {
    let is_theirs = one.state.is_settled() || one.state == State::Open;
    let wide = |(low, high): (Ms, Ms)| (u128::from(low.0), u128::from(high.0));
    let exactly = |ms: Option<Ms>| ms.map(|ms| wide((ms, ms))).ok_or(Unpriced::Asleep);
    let quantity = match meter {
        // Whatever became of the row of whoever held it, and beside what is booked.
        Meter::Memory if one.state.is_of_memory() => match one.memory {
            Some(Memory::Known(memory)) => Ok((memory.0, memory.0)),
            Some(Memory::Unknown { why, .. }) => Err(why),
            None => Err(Unpriced::NoSamples),
        },
        _ if one.state.is_of_memory() || meter == Meter::Memory => return Ok(()),
        // A GPU's own time stands where its booked time does.
        _ if !is_theirs && meter == booked => exactly(one.held),
        _ if !is_theirs => return Ok(()),
        Meter::Held => exactly(one.held),
        Meter::Alone => exactly(one.alone),
        _ if !one.state.is_settled() || one.held == Some(Ms::ZERO) => return Ok(()),
        // Busy: of memory everything is said above.
        _ => one.busy.map(wide).ok_or(Unpriced::NoSamples),
    };
    if quantity.is_ok_and(|(_, high)| high == 0) {
        return Ok(());
    }
    let lack = match one.memory {
        Some(Memory::Unknown { why, ms }) => Some((why, ms)),
        Some(Memory::Known(_)) | None => None,
    };
    let key = (meter, one.state, one.who.clone(), one.gpu, run, lack.map(|(why, _)| why));
    let draft = drafts.entry(key).or_default();
    let lacks = lack.map_or(0, |(_, ms)| u128::from(ms.0));
    draft.unknown_ms = draft.unknown_ms.saturating_add(lacks);
    match quantity {
        Ok((low, high)) => {
            let overflow = || BillError::Overflow { what: "a priced time" };
            draft.low = draft.low.checked_add(low).ok_or_else(overflow)?;
            draft.high = draft.high.checked_add(high).ok_or_else(overflow)?;
        }
        Err(why) => draft.unknown = Some(why),
    }
    Ok(())
}

/// A line without its quantity and amount.
fn begun(
    source: &Source<'_>,
    (gpu, model): (&GpuUuid, Option<&str>),
    (meter, state, who): (Meter, State, &Who),
    run: &Run<'_>,
    is_booked: bool,
) -> PricedLine {
    let (line, account, title) = match who {
        Who::Line(name) => {
            // Lines are ranked by name.
            let rank = source.cut.lines.binary_search(name).ok();
            let rank = rank.and_then(|rank| u32::try_from(rank).ok());
            let user = name.uid.and_then(|uid| Some((source.users.get(&uid)?, uid)));
            let title = user.map(|(user, uid)| format!("{user} ({uid})"));
            let text = name.text.to_string();
            let key = rank.map(|rank| LineKey { rank, reason: None });
            (key, Some(text.clone()), Some(title.unwrap_or(text)))
        }
        Who::Reason(reason) => {
            let name = Some(UNATTRIBUTED.to_owned());
            (Some(LineKey::nameless(*reason)), name.clone(), name)
        }
        Who::Gpu => (None, None, None),
    };
    let (classified, named_by) = match who {
        Who::Line(name) => (name.is_classified, name.named_by),
        Who::Reason(_) | Who::Gpu => (None, None),
    };
    PricedLine {
        line,
        account,
        classified,
        named_by,
        title,
        gpu_uuid: gpu.clone(),
        gpu_name: model.map(str::to_owned),
        meter,
        basis: meter.basis(),
        state,
        nameless: line.and_then(|line| line.reason),
        is_booked,
        since: moment(run.span.from_ms()),
        until: moment(run.span.to_ms()),
        span: run.span,
        quantity_ms: None,
        quantity_ms_high: None,
        quantity_byte_ms: None,
        unknown_ms: None,
        per_hour: run.price.map(|(_, price)| price.per_hour),
        amount: None,
        amount_high: None,
        reason: None,
        exact: None,
    }
}

fn with_amount(
    mut line: PricedLine,
    draft: Draft,
    price: Option<&Price>,
) -> Result<PricedLine, BillError> {
    // A sample tells memory itself, and of busy time its bounds.
    let is_range = line.meter == Meter::Busy;
    let is_memory = line.meter == Meter::Memory;
    if draft.unknown.is_none() {
        let quantity = if is_memory { &mut line.quantity_byte_ms } else { &mut line.quantity_ms };
        *quantity = Some(draft.low);
        line.quantity_ms_high = is_range.then_some(draft.high);
    }
    line.unknown_ms = (draft.unknown_ms > 0).then_some(draft.unknown_ms);
    line.reason = match (line.state, price) {
        (State::Uncovered, _) => Some(Unpriced::Uncovered),
        (State::Undivided, _) => Some(Unpriced::Undivided),
        (_, None) => Some(Unpriced::NoPrice),
        _ => draft.unknown,
    };
    let (None, Some(price)) = (line.reason, price) else { return Ok(line) };
    let overflow = || BillError::Overflow { what: "an amount" };
    let of = if is_memory { Exact::of_memory } else { Exact::of };
    let exact = |quantity| of(quantity, price.per_hour).ok_or_else(overflow);
    let low = exact(draft.low)?;
    line.exact = Some(low);
    line.amount = Some(low.rounded().ok_or_else(overflow)?);
    if is_range {
        line.amount_high = Some(exact(draft.high)?.rounded().ok_or_else(overflow)?);
    }
    Ok(line)
}

/// What is in dispute has no interval to trust, and no price.
fn disputed(
    source: &Source<'_>,
    models: &[(GpuUuid, Option<&str>)],
    meters: &[Vec<Meter>],
) -> Vec<PricedLine> {
    let run = Run { price: None, span: source.bill.period };
    let mut raw: BTreeMap<(Who, usize), u128> = BTreeMap::new();
    for line in &source.bill.disputed {
        if let Some(place) = models.iter().position(|(gpu, _)| *gpu == line.gpu) {
            let sum = raw.entry((who(source.cut, line.account), place)).or_default();
            *sum = sum.saturating_add(line.raw_ms);
        }
    }
    let lines = raw.into_iter().filter_map(|((who, place), raw_ms)| {
        let (gpu, model) = models.get(place)?;
        let meter = charged(meters.get(place));
        let line = begun(source, (gpu, *model), (meter, State::Disputed, &who), &run, false);
        let reason = Some(Unpriced::Disputed);
        Some(PricedLine { quantity_ms: Some(raw_ms), reason, ..line })
    });
    lines.collect()
}

fn weights(source: &Source<'_>) -> BTreeMap<(usize, Who), u64> {
    let mut weights = BTreeMap::new();
    // As where the bill's own lines are divided.
    if source.ask.share == crate::bill::SharePolicy::Memory {
        for (gpu, of_gpu) in source.cut.gpus.iter().enumerate() {
            for (line, of) in &of_gpu.memory.lines {
                if let Some(weight) = of.weight() {
                    weights.insert((gpu, who(source.cut, *line)), weight);
                }
            }
        }
    }
    if source.ask.share == crate::bill::SharePolicy::Busy {
        for (gpu, lines) in source.sampled.iter().enumerate() {
            for (line, sampled) in lines {
                if let Some(weight) = sampled.weight() {
                    weights.insert((gpu, who(source.cut, *line)), weight);
                }
            }
        }
    }
    weights
}

/// The order of the lines on a bill. `place`: where a GPU stands on it.
fn sort(lines: &mut [PricedLine], place: impl Fn(&GpuUuid) -> Option<usize>) {
    lines.sort_by_cached_key(|line| {
        let name = (line.title.clone(), line.named_by, line.nameless);
        (line.meter, line.state, name, place(&line.gpu_uuid), line.span, line.reason)
    });
}

/// Orders the lines of several hosts as those of one bill, and adds them up.
pub(in crate::bill::report) fn merged(priced: &mut Priced, gpus: &[Gpu]) -> Result<(), BillError> {
    let places: BTreeMap<GpuUuid, usize> =
        gpus.iter().map(|gpu| gpu.gpu_uuid.clone()).zip(0..).collect();
    sort(&mut priced.lines, |gpu| places.get(gpu).copied());
    totals(priced)
}

/// Adds the lines up, as they are printed.
pub(in crate::bill::report) fn totals(priced: &mut Priced) -> Result<(), BillError> {
    let booked: Vec<&PricedLine> = priced.lines.iter().filter(|line| line.is_booked).collect();
    let booked = Sum::of(&booked)?;
    let mut groups: BTreeMap<(Meter, State), Vec<&PricedLine>> = BTreeMap::new();
    for line in &priced.lines {
        groups.entry((line.meter, line.state)).or_default().push(line);
    }
    let mut totals = Vec::with_capacity(groups.len());
    for ((meter, state), lines) in groups {
        totals.push(Total { meter, basis: meter.basis(), state, sum: Sum::of(&lines)? });
    }
    priced.booked = booked;
    priced.totals = totals;
    Ok(())
}

impl Sum {
    /// Of these lines, as they are printed.
    ///
    /// # Errors
    /// [`BillError::Overflow`] past 7.9 × 10²⁴.
    pub fn of(lines: &[&PricedLine]) -> Result<Self, BillError> {
        let added = |amount: fn(&PricedLine) -> Option<Amount>| {
            let mut amounts = lines.iter().filter_map(|line| amount(line));
            let sum = amounts.try_fold(Amount::ZERO, Amount::checked_add);
            sum.ok_or(BillError::Overflow { what: "an amount" })
        };
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let unknown = lines.iter().filter(|line| line.amount.is_none()).count();
        let is_known = unknown < lines.len() || lines.is_empty();
        let amount = added(|line| line.amount)?;
        let has_range = lines.iter().any(|line| line.amount_high.is_some());
        let high = added(|line| line.amount_high)?;
        Ok(Self {
            amount: is_known.then_some(amount),
            amount_high: has_range.then_some(high),
            lines: count(lines.len()),
            unknown_lines: count(unknown),
        })
    }
}
