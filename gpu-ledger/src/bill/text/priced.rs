//! The bill in money: a line each, and totals that are the sums of the lines above them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::moments::between;
use super::{LINES_SHOWN_MAX, NAME_WIDTH, name_cell, safe, short, write_wrapped};
use crate::bill::SharePolicy;
use crate::bill::report::{Priced, PricedLine, Report, State, Sum, Unpriced};
use crate::calling::listed;
use crate::prices::{Amount, Meter, MeterBasis};
use crate::rendering::cell;
use crate::unit::Ms;

/// What is printed for an amount that nobody knows.
const UNKNOWN: &str = "UNKNOWN";

pub(super) fn write_priced(page: &mut String, report: &Report) -> fmt::Result {
    let Some(priced) = &report.priced else { return Ok(()) };
    let currency = &priced.currency;
    let (exact, sampled): (Vec<_>, Vec<_>) =
        priced.lines.iter().partition(|line| line.basis == MeterBasis::Exact);
    if priced.lines.is_empty() {
        writeln!(page, "\npriced in {currency}: nothing")?;
        return unmatched_words(priced).map_or(Ok(()), |words| write_wrapped(page, &words));
    }
    writeln!(page, "\npriced in {currency}, each line rounded to four digits")?;
    write_lines(page, report, priced, &exact)?;
    if !sampled.is_empty() {
        writeln!(page, "\npriced in {currency}, sampled: evidence, in no booked total")?;
        write_lines(page, report, priced, &sampled)?;
    }
    writeln!(page, "  booked: {}", sum(&priced.booked, currency))?;
    let is_shared = report.accounts.iter().any(|line| line.shared_ms > Ms::ZERO);
    if report.share == SharePolicy::None.as_str() && is_shared {
        write_wrapped(
            page,
            "shared time stands in full with all who shared it, so that this is more than the GPU's time costs, and \
             with another --by another sum; --share equal divides it",
        )?;
    }
    if [SharePolicy::Busy, SharePolicy::Memory].iter().any(|policy| report.share == policy.as_str())
    {
        write_wrapped(
            page,
            &format!(
                "shared time is divided by what was sampled over this period (--share {}): bills of its parts divide \
                 it otherwise; --share equal adds up",
                report.share
            ),
        )?;
    }
    unmatched_words(priced).map_or(Ok(()), |words| write_wrapped(page, &words))
}

/// Prices of GPUs that are not there, if any.
#[must_use]
pub fn unmatched_words(priced: &Priced) -> Option<String> {
    let told = priced.unmatched.iter().map(|one| {
        let nearest = one.nearest.as_ref().map(|name| format!(", and there is {name:?}"));
        format!("{:?} (line {}{})", one.gpu, one.line, nearest.unwrap_or_default())
    });
    let words = format!("prices of no GPU in this journal: {}", listed(told));
    (!priced.unmatched.is_empty()).then(|| safe(&words))
}

/// Lines of one basis, and the totals of each meter and state.
fn write_lines(
    page: &mut String,
    report: &Report,
    priced: &Priced,
    lines: &[&PricedLine],
) -> fmt::Result {
    writeln!(
        page,
        "  {:NAME_WIDTH$} {:4} {:6} {:12} {:>10} {:>11} {:>12}",
        "whose", "gpu", "meter", "state", "time", "an hour", "amount"
    )?;
    for group in by_amount(lines) {
        for line in group.shown {
            write_line(page, report, line)?;
        }
        if !group.folded.is_empty() {
            let (meter, state) = group.of;
            // Of lines whose sum is on the bill already.
            let folded = Sum::of(&group.folded)
                .map_or_else(|_| UNKNOWN.to_owned(), |folded| sum(&folded, &priced.currency));
            let count = group.folded.len();
            let words = format!(
                "… {count} more {meter} {}: {folded}; all of them in --format json",
                state.as_str()
            );
            write_wrapped(page, &words)?;
        }
    }
    let basis = lines.first().map(|line| line.basis);
    for total in priced.totals.iter().filter(|total| Some(total.basis) == basis) {
        let (meter, state) = (total.meter, total.state.as_str());
        writeln!(page, "  {meter} {state}: {}", sum(&total.sum, &priced.currency))?;
    }
    Ok(())
}

/// The lines of one meter and state.
struct Group<'l> {
    of: (Meter, State),
    shown: Vec<&'l PricedLine>,
    /// What there is no room for.
    folded: Vec<&'l PricedLine>,
}

/// The largest amounts first, in each meter and state; those are shown that are the largest of all of them, and
/// before them none that is UNKNOWN.
fn by_amount<'l>(lines: &[&'l PricedLine]) -> Vec<Group<'l>> {
    let mut largest = lines.to_vec();
    largest.sort_by_key(|line| std::cmp::Reverse(line.amount_high.or(line.amount)));
    let mut groups: BTreeMap<(Meter, State), Group<'l>> = BTreeMap::new();
    for (place, line) in largest.into_iter().enumerate() {
        let of = (line.meter, line.state);
        let empty = || Group { of, shown: Vec::new(), folded: Vec::new() };
        let group = groups.entry(of).or_insert_with(empty);
        if place < LINES_SHOWN_MAX { &mut group.shown } else { &mut group.folded }.push(line);
    }
    groups.into_values().collect()
}

fn write_line(page: &mut String, report: &Report, line: &PricedLine) -> fmt::Result {
    let gpu = short(report, &line.gpu_uuid);
    writeln!(
        page,
        "{} {} {:6} {:12} {:>10} {:>11} {:>12}",
        name_cell(report, line.title.as_deref().unwrap_or("-"), line.named_by, NAME_WIDTH),
        cell(gpu.trim_start_matches("GPU "), 4),
        line.meter,
        line.state.as_str(),
        quantity(line),
        line.per_hour.map_or_else(|| "-".to_owned(), |rate| rate.to_string()),
        amount(line.amount),
    )?;
    let mut marks: Vec<String> = line.nameless.iter().map(ToString::to_string).collect();
    marks.extend(line.reason.map(|reason| reason.as_str().to_owned()));
    let at_most = if line.reason == Some(Unpriced::MemoryCut) { "at most " } else { "" };
    marks.extend(line.unknown_ms.map(|ms| format!("for {at_most}{}", time(Some(ms)))));
    if let Some(high) = line.amount_high {
        marks.push(format!("at most {} and {high}", time(line.quantity_ms_high)));
    }
    if line.span != report.period.span {
        marks.push(between(report, &line.since, &line.until));
    }
    if marks.is_empty() { Ok(()) } else { writeln!(page, "      {}", marks.join(", ")) }
}

fn amount(amount: Option<Amount>) -> String {
    amount.map_or_else(|| UNKNOWN.to_owned(), |amount| amount.to_string())
}

/// Hours of one GiB where it is memory, cut to what there is room for.
fn quantity(line: &PricedLine) -> String {
    match (line.meter, line.quantity_byte_ms) {
        (Meter::Memory, Some(byte_ms)) => {
            let thousandths = (byte_ms >> 30) / 3_600;
            let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
            // As many digits as the column has room for.
            match whole {
                0..10 => format!("{whole}.{part:03} GiBh"),
                10..100 => format!("{whole}.{:02} GiBh", part / 10),
                100..1_000 => format!("{whole}.{} GiBh", part / 100),
                _ => format!("{whole} GiBh"),
            }
        }
        _ => time(line.quantity_ms),
    }
}

/// Time for people; what is longer than they can read is not cut to what they can.
fn time(ms: Option<u128>) -> String {
    match ms.map(u64::try_from) {
        None => "-".to_owned(),
        Some(Ok(ms)) => Ms(ms).to_string(),
        Some(Err(_)) => ">2^64 ms".to_owned(),
    }
}

/// `1.2500 EUR`, and what is in it not.
fn sum(sum: &Sum, currency: &str) -> String {
    let known = match (sum.amount, sum.amount_high) {
        (None, _) => UNKNOWN.to_owned(),
        (Some(low), None) => format!("{low} {currency}"),
        (Some(low), Some(high)) => format!("{low} to {high} {currency}"),
    };
    match (sum.unknown_lines, sum.amount) {
        (0, _) | (_, None) => known,
        (unknown, Some(_)) => format!("{known}, and {unknown} of {} lines {UNKNOWN}", sum.lines),
    }
}
