//! Of closed periods: that this one meets some, and what came to them since.

use std::fmt::{self, Write as _};

use jiff::tz::TimeZone;

use super::{LINES_SHOWN_MAX, safe, write_wrapped};
use crate::bill::figures::{Difference, Figure, Section};
use crate::bill::period::{moment_of, show};
use crate::bill::report::{AdjustedPeriod, Adjustment, ClosedLine, Report};
use crate::rendering::{cell, clip};
use crate::unit::Ms;

/// Columns of whose a figure is.
const WHOSE_WIDTH: usize = 30;
/// Columns of which figure it is.
const FIGURE_WIDTH: usize = 24;

/// Under the head: which closed periods the bill meets, and whether it is made as they were closed.
pub(super) fn write_closed(page: &mut String, report: &Report) -> fmt::Result {
    for closed in &report.closed_periods {
        write_wrapped(page, &closed_words(closed))?;
    }
    Ok(())
}

/// How a bill stands to a closed period that it meets.
#[must_use]
pub fn closed_words(closed: &ClosedLine) -> String {
    let ClosedLine { name, entry, through, .. } = closed;
    let name = safe(name);
    if closed.is_as_closed {
        format!(
            "{name} is closed (entry {entry}): this is made of the entries up to {through}, as the bill that it was \
             closed with; --as-of now takes those that came later"
        )
    } else {
        format!(
            "{name} is closed (entry {entry}), and this is not the bill that it was closed with: entries after \
             {through} are on it"
        )
    }
}

/// That a form of rows has no place for adjustments, where there are any.
#[must_use]
pub fn adjusted_words(report: &Report) -> Option<String> {
    let periods = &report.adjustments.as_ref()?.periods;
    let entries = periods.iter().fold(0_usize, |sum, one| sum.saturating_add(one.entries.len()));
    (entries > 0).then(|| {
        let names: Vec<String> = periods.iter().map(|one| safe(&one.period.name)).collect();
        format!(
            "{entries} adjustments to closed periods ({}) are on this bill, in --format table and json",
            names.join(", ")
        )
    })
}

/// What came to closed periods since.
pub(super) fn write_adjustments(page: &mut String, report: &Report) -> fmt::Result {
    let Some(adjustments) = &report.adjustments else { return Ok(()) };
    if adjustments.periods.is_empty() {
        return writeln!(page, "\nadjustments to closed periods: none");
    }
    writeln!(page, "\nadjustments to closed periods: learnt since, on no line above")?;
    if adjustments.is_in_lines {
        write_wrapped(
            page,
            "this bill's own period holds time of closed ones: what is told here is on the lines above as well",
        )?;
    }
    for period in &adjustments.periods {
        write_period(page, report, period)?;
    }
    Ok(())
}

fn write_period(page: &mut String, report: &Report, period: &AdjustedPeriod) -> fmt::Result {
    let AdjustedPeriod { period: closed, after_entry, to_entry, .. } = period;
    writeln!(
        page,
        "  {}, closed by entry {}: entries {} to {to_entry}",
        clip(&safe(&closed.name), 30),
        closed.entry,
        after_entry.saturating_add(1)
    )?;
    for one in period.entries.iter().take(LINES_SHOWN_MAX) {
        write_entry(page, report, one, period)?;
    }
    if let Some(more) = period.entries.len().checked_sub(LINES_SHOWN_MAX)
        && more > 0
    {
        writeln!(page, "    … {more} more, all of them in --format json")?;
    }
    let total = &period.total;
    writeln!(page, "    held in all {}", signed_ms(total.held_ms))?;
    if let (Some(Figure::Money(Some(booked))), Some(currency)) = (total.booked, &period.currency) {
        let unknown = match total.booked_unknown {
            0 => String::new(),
            lines => format!(", and {lines} UNKNOWN"),
        };
        writeln!(page, "    booked in all {booked:+} {}{unknown}", safe(currency))?;
    }
    if let Some(why) = &period.prices_unknown {
        write_wrapped(page, &format!("no amounts: {why}"))?;
    }
    Ok(())
}

fn write_entry(
    page: &mut String,
    report: &Report,
    one: &Adjustment,
    period: &AdjustedPeriod,
) -> fmt::Result {
    writeln!(page, "    {}", adjustment_words(one, &report.period.time_zone))?;
    for change in one.changes.iter().filter(|change| is_told(change)) {
        writeln!(
            page,
            "      {} {} {}",
            cell(&whose(report, change), WHOSE_WIDTH),
            cell(&which(change), FIGURE_WIDTH),
            signed(change.difference, period.currency.as_deref())
        )?;
    }
    Ok(())
}

/// An entry that changes a bill: when it was learnt, its number, and what it is.
#[must_use]
pub fn adjustment_words(one: &Adjustment, zone: &TimeZone) -> String {
    let of = one.of.map(|of| format!(" (entry {of})")).unwrap_or_default();
    let words = one.kind.words();
    match (one.seq, one.learnt) {
        (Some(seq), Some(learnt)) => {
            format!("{}, entry {seq}: {words}{of}", show(moment_of(learnt.ms()), zone))
        }
        _ => words.to_owned(),
    }
}

/// A figure that two bills do not agree on, in one line.
#[must_use]
pub fn difference_words(one: &Difference) -> String {
    let place = &one.place;
    let gpu = place.gpu_uuid.as_deref().map(safe);
    let line = place.line.as_deref().map(safe);
    let whose: Vec<String> = [line, gpu].into_iter().flatten().collect();
    let told = |figure: Option<Figure>| match figure {
        None => "nothing".to_owned(),
        Some(Figure::Whole(number)) => number.to_string(),
        Some(Figure::Money(None)) => "UNKNOWN".to_owned(),
        Some(Figure::Money(Some(amount))) => amount.to_string(),
    };
    let difference = match one.difference {
        Figure::Whole(number) => format!("{number:+}"),
        Figure::Money(None) => "UNKNOWN".to_owned(),
        Figure::Money(Some(amount)) => format!("{amount:+}"),
    };
    format!(
        "{} {}: {} to {} ({difference})",
        whose.join(", "),
        match place.section {
            Section::Gpu | Section::Account => place.figure.to_owned(),
            _ => format!("{} {}", which(one), place.figure),
        },
        told(one.before),
        told(one.after)
    )
}

/// How many there are is in JSON alone, beside their time.
fn is_told(change: &Difference) -> bool {
    let is_count = matches!(change.place.figure, "settlements" | "count");
    !is_count && change.place.section != Section::Priced
}

fn whose(report: &Report, change: &Difference) -> String {
    let place = &change.place;
    let gpu = place.gpu_uuid.as_ref().map(|uuid| {
        let known = report.gpus.iter().find(|gpu| *gpu.gpu_uuid.0 == **uuid);
        match known.and_then(|gpu| gpu.gpu_index) {
            Some(index) => format!("GPU {index}"),
            None => format!(
                "GPU {}",
                uuid.trim_start_matches("GPU-").chars().take(8).collect::<String>()
            ),
        }
    });
    let line = place.line.as_deref().map(|line| clip(&safe(line), 20));
    [line, gpu.map(|gpu| safe(&gpu))].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn which(change: &Difference) -> String {
    let place = &change.place;
    let figure = place.figure.trim_end_matches("_ms").replace('_', " ");
    match place.section {
        Section::Gpu | Section::Account => figure,
        Section::Unattributed => format!("unattributed {}", place.reason.as_deref().unwrap_or("")),
        Section::Disputed => format!("disputed {}", place.reason.as_deref().unwrap_or("")),
        Section::Booked | Section::Priced => {
            format!(
                "{} {}",
                place.meter.as_deref().unwrap_or(""),
                place.state.as_deref().unwrap_or("")
            )
        }
    }
}

/// A difference as people read it.
fn signed(figure: Figure, currency: Option<&str>) -> String {
    match figure {
        Figure::Whole(ms) => signed_ms(ms),
        Figure::Money(None) => "UNKNOWN".to_owned(),
        Figure::Money(Some(amount)) => {
            format!("{amount:+} {}", safe(currency.unwrap_or_default())).trim_end().to_owned()
        }
    }
}

fn signed_ms(ms: i128) -> String {
    let length = Ms(u64::try_from(ms.unsigned_abs()).unwrap_or(u64::MAX));
    match ms {
        ..0 => format!("-{length}"),
        0 => length.to_string(),
        _ => format!("+{length}"),
    }
}
