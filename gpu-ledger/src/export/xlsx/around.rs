//! The sheets around the lines: what nobody can name, what could not be seen, and what the words mean.

use super::bill::{count_of, sum_of};
use super::sheet::{Cell, Rows, Sheet, place};
use super::{XlsxBillError, moment};
use crate::bill::report::{Report, Unattributed};
use crate::export::words as meaning;
use crate::unit::{GpuUuid, Ms};

/// Where the lines of the sheet `unattributed` begin: below its head.
const UNATTRIBUTED_FROM: u32 = 1;
/// Columns of its counts and of its milliseconds.
const COUNTS: u16 = 3;
const SPANS: u16 = 5;

/// Where the settlements and milliseconds of the sheet `unattributed` are added up, seen from another sheet.
pub(super) fn sums_of_unattributed(report: &Report) -> [String; 2] {
    let row = UNATTRIBUTED_FROM.saturating_add(count_of(report.unattributed.len()));
    [COUNTS, SPANS].map(|column| format!("unattributed!{}", place(row, column)))
}

pub(super) fn unattributed(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    sheet.widths(&[44, 10, 26, 14, 16, 16, 16, 100])?;
    sheet.head(&[
        "gpu_uuid",
        "gpu_index",
        "reason",
        "settlements",
        "held_ms",
        "span_ms_total",
        "share_ms",
        "what the reason means",
    ])?;
    let rows = Rows { first: sheet.next(), count: count_of(report.unattributed.len()) };
    for line in &report.unattributed {
        sheet.cells(vec![
            Cell::Text(line.gpu_uuid.to_string()),
            Cell::number(index_of(report, &line.gpu_uuid)),
            Cell::Text(line.reason.to_string()),
            Cell::number(Some(line.count)),
            Cell::number(Some(line.held_ms.0)),
            Cell::number(Some(line.span_ms_total.0)),
            line.share_ms.map_or(Cell::Empty, |ms| Cell::number(Some(ms.0))),
            Cell::Text(meaning::of_nameless(line.reason).to_owned()),
        ])?;
    }
    let sum = |of: fn(&Unattributed) -> u64| {
        report.unattributed.iter().fold(0_u128, |sum, line| sum.saturating_add(of(line).into()))
    };
    sheet.cells(vec![
        Cell::Text("all of these lines".to_owned()),
        Cell::Empty,
        Cell::Empty,
        sum_of(rows, COUNTS, sum(|line| line.count)),
        sum_of(rows, 4, sum(|line| line.held_ms.0)),
        sum_of(rows, SPANS, sum(|line| line.span_ms_total.0)),
    ])
}

fn index_of(report: &Report, gpu: &GpuUuid) -> Option<u32> {
    report.gpus.iter().find(|one| one.gpu_uuid == *gpu)?.gpu_index
}

pub(super) fn coverage(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    sheet.widths(&[34, 30, 20, 30, 20, 44, 16, 90])?;
    let coverage = &report.coverage;
    sheet.head(&["process events", "RFC 3339", "microseconds since 1970"])?;
    for (name, at) in [("received from", &coverage.start), ("received to", &coverage.end)] {
        let [text, us] = moment(at.as_deref());
        sheet.cells(vec![Cell::Text(name.to_owned()), text, us])?;
    }
    sheet.cells(vec![
        Cell::Text("of that covered, ms".to_owned()),
        Cell::number(Some(coverage.covered_ms.0)),
    ])?;
    sheet.skip(1);
    sheet.head(&["GPU", "uncovered_ms", "of that not read yet, ms", "rows possibly lost"])?;
    for gpu in &report.gpus {
        sheet.cells(vec![
            Cell::Text(gpu.gpu_uuid.to_string()),
            Cell::number(Some(gpu.uncovered_ms.0)),
            Cell::number(Some(gpu.unread_ms.0)),
            Cell::number(gpu.possibly_lost),
        ])?;
    }
    sheet.skip(1);
    gaps(sheet, report)?;
    unknowns(sheet, report)
}

fn gaps(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    let gaps = &report.coverage.gaps;
    if gaps.is_empty() {
        let unseen = |gpu: &crate::bill::report::Gpu| gpu.uncovered_ms > Ms::ZERO;
        let any = report.gpus.iter().any(unseen);
        sheet.note(if any { "no gap was entered" } else { "not seen: nothing" })?;
        sheet.skip(1);
        return Ok(());
    }
    sheet.head(&[
        "gap: its cause",
        "from (RFC 3339)",
        "from_us",
        "to (RFC 3339)",
        "to_us",
        "gpu_uuid",
        "size",
        "what the cause means",
    ])?;
    for gap in gaps {
        let ([from, from_us], [to, to_us]) = (moment(Some(&gap.from)), moment(Some(&gap.to)));
        let of = gap.gpu.as_ref().map_or("every GPU".to_owned(), ToString::to_string);
        let cause = Cell::Text(gap.cause.to_string());
        let means = Cell::Text(meaning::of_gap(gap.cause).to_owned());
        let size = Cell::number(gap.size);
        sheet.cells(vec![cause, from, from_us, to, to_us, Cell::Text(of), size, means])?;
    }
    sheet.skip(1);
    Ok(())
}

fn unknowns(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    if report.unknown.is_empty() {
        return Ok(sheet.note("unknown 0")?);
    }
    sheet.head(&[
        "UNKNOWN: reason",
        "of what",
        "",
        "gpu_uuid",
        "evidence only",
        "what would make it known",
    ])?;
    for line in &report.unknown {
        sheet.cells(vec![
            Cell::Text(line.reason.clone()),
            Cell::Name(&line.subject),
            Cell::Empty,
            line.gpu.as_ref().map_or(Cell::Empty, |gpu| Cell::Text(gpu.to_string())),
            Cell::Text(if line.is_evidence { "yes" } else { "no" }.to_owned()),
            line.remedy.as_deref().map_or(Cell::Empty, Cell::Name),
        ])?;
    }
    Ok(())
}

pub(super) fn words(sheet: &mut Sheet<'_>) -> Result<(), XlsxBillError> {
    sheet.widths(&[28, 120])?;
    sheet.head(&["word", "meaning"])?;
    for (word, means) in meaning::all() {
        sheet.wrapped(&[word, means])?;
    }
    Ok(())
}
