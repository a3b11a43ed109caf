//! The bills of a life, made by the product's own ledger of the journal's entries.

use std::collections::BTreeMap;

use gpu_ledger::bill::ledger::{Cut, Which};
use gpu_ledger::bill::{By, Ledger, LineKey, Parts, bill};
use gpu_ledger::journal::{Entry, Recovered};
use gpu_ledger::unit::{GpuUuid, Span};
use nvsim::random::Random;

use super::audit::{Checked, ensure};
use super::truth::{At, RowId, TruthRow};

/// A row's edges lie within so many milliseconds of those on a bill: the driver floors them.
const EDGE_MS: u64 = 2;

/// Everything that a bill says, by what it is of.
type Sums = BTreeMap<String, u128>;

/// The ledger of a journal as it grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bills {
    ledger: Ledger,
    first_ms: Option<u64>,
}

impl Bills {
    pub(crate) fn take(&mut self, entry: &Entry) -> Checked {
        self.first_ms.get_or_insert(entry.at.stamp.wall.ms());
        self.ledger.take(entry).map_err(|error| format!("bill: {error}"))
    }

    fn finished(&self, end: &Recovered) -> Result<Ledger, String> {
        let mut ledger = self.ledger.clone();
        ledger.finish(end).map_err(|error| format!("bill: {error}"))?;
        Ok(ledger)
    }

    /// The bills of two adjacent periods are that of both, for every GPU and line, and that of all time is
    /// what was ever booked.
    pub(crate) fn close(&self, end: &Recovered, random: &mut Random) -> Checked {
        let (Some(first), Some(last)) = (self.first_ms, self.ledger.as_of_ms()) else {
            return Ok(());
        };
        let ledger = self.finished(end)?;
        let from = first.min(last).saturating_sub(5_000);
        let length = first.max(last) + 5_000 - from;
        let mut cuts = [(); 3].map(|()| from + random.below(length));
        cuts.sort_unstable();
        let [from, cut, to] = cuts;
        let by = By::ALL[random.below(By::ALL.len() as u64) as usize];
        let made = |from, to| sums(&ledger, Span::new(from, to).unwrap(), by);
        let (whole, one, other) = (made(from, to)?, made(from, cut)?, made(cut, to)?);
        let mut both = one;
        for (key, ms) in other {
            *both.entry(key).or_insert(0) += ms;
        }
        ensure(whole == both, || {
            let differs = |key: &&String| whole.get(*key) != both.get(*key);
            let keys = whole.keys().chain(both.keys()).filter(differs);
            let differ =
                keys.map(|key| format!("{key}: {:?}, {:?}; ", both.get(key), whole.get(key)));
            format!(
                "bill: {from}..{cut} and {cut}..{to} are not {from}..{to}: {}",
                differ.collect::<String>()
            )
        })?;
        let always = Span::new(0, u64::MAX).unwrap();
        let cut = ledger.cut(Which { period: always, by, gpus: &[] });
        let found = bill(always, &cut.books).map_err(|error| format!("bill: {error}"))?;
        found.agrees_with(&end.head.booked).map_err(|error| format!("bill: {error}"))
    }

    /// No moment in which one of these rows held its GPU is called free. `gpus`: the GPUs by their places.
    pub(crate) fn nothing_held_is_free<'a>(
        &self,
        end: &Recovered,
        gpus: &[GpuUuid],
        held: impl Iterator<Item = (&'a RowId, &'a TruthRow)>,
    ) -> Checked {
        let ledger = self.finished(end)?;
        let always = Span::new(0, u64::MAX).unwrap();
        let cut = ledger.cut(Which { period: always, by: By::Account, gpus: &[] });
        let not_free: Vec<Vec<Span>> = gpus.iter().map(|gpu| not_free(&cut, gpu)).collect();
        for (id, row) in held {
            let (card, pid, start_us) = *id;
            let Some(ended) = row.ended else { continue };
            let since = row.listed.map_or(start_us / 1_000, |listed| wall_ms(id, row, listed));
            let (from, to) = (since + EDGE_MS, wall_ms(id, row, ended).saturating_sub(EDGE_MS));
            let free = first_free(&not_free[card], from, to);
            ensure(free.is_none(), || {
                format!(
                    "bill: GPU {card} is free at {free:?} ms, when pid {pid} held it from {from} to {to}: \
                     {row:?}"
                )
            })?;
        }
        Ok(())
    }
}

/// What the wall clock showed at a moment of the boot in which a row was opened, where nobody set it.
fn wall_ms((_, _, start_us): &RowId, row: &TruthRow, at: At) -> u64 {
    let since_ns = at.1.0.saturating_sub(row.opened.1.0);
    (start_us + since_ns / 1_000) / 1_000
}

/// When a GPU was not free: somebody is known to have held it, or it was not seen.
fn not_free(cut: &Cut<'_>, gpu: &GpuUuid) -> Vec<Span> {
    let Some(books) = cut.books.iter().find(|books| books.gpu == *gpu) else {
        return vec![Span::new(0, u64::MAX).unwrap()];
    };
    let held = books.holdings().map(|holding| holding.span);
    let mut spans: Vec<Span> = held.chain(books.uncovered.iter().copied()).collect();
    spans.sort_unstable_by_key(|span| (span.from_ms(), span.to_ms()));
    spans
}

fn first_free(not_free: &[Span], from: u64, to: u64) -> Option<u64> {
    let mut reached = from;
    for span in not_free {
        if span.from_ms() > reached {
            break;
        }
        reached = reached.max(span.to_ms());
    }
    (reached < to).then_some(reached)
}

fn sums(ledger: &Ledger, period: Span, by: By) -> Result<Sums, String> {
    let cut = ledger.cut(Which { period, by, gpus: &[] });
    let bill = bill(period, &cut.books).map_err(|error| format!("bill: {error}"))?;
    let mut sums = Sums::new();
    let mut add = |key: String, ms: u128| *sums.entry(key).or_insert(0) += ms;
    let line = |key: LineKey| {
        cut.line(key).map_or_else(|| format!("{key:?}"), |name| name.text.to_string())
    };
    for gpu in &bill.gpus {
        let (uuid, statement) = (&gpu.gpu, &gpu.statement);
        add(format!("{uuid} alone"), statement.alone.0.into());
        add(format!("{uuid} shared"), statement.shared.0.into());
        add(format!("{uuid} free"), statement.free.0.into());
        add(format!("{uuid} uncovered"), statement.uncovered.0.into());
        add(format!("{uuid} period"), period.length().0.into());
    }
    for one in &bill.accounts {
        let name = line(one.account);
        let mut add_parts = |what: &str, parts: Parts| {
            add(format!("{name} {what} alone"), parts.alone.0.into());
            add(format!("{name} {what} shared"), parts.shared.0.into());
            add(format!("{name} {what} uncovered"), parts.uncovered.0.into());
        };
        add_parts("settled", one.settled);
        add_parts("open", one.open);
        add_parts("both", one.settled_or_open);
        add_parts("rowless", one.no_driver_row);
        add(format!("{name} spans"), one.span_total.0.into());
    }
    for one in &bill.unattributed {
        add(format!("{} {} held", one.gpu, one.reason), one.held.0.into());
        add(format!("{} {} spans", one.gpu, one.reason), one.span_total.0.into());
    }
    for one in &bill.disputed {
        add(format!("{} {} {}", one.gpu, line(one.account), one.reason), one.raw_ms);
    }
    add("all".to_owned(), bill.span_ms_total);
    sums.retain(|_, ms| *ms > 0);
    Ok(sums)
}
