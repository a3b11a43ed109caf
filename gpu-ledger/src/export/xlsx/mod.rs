//! A bill as a workbook (feature `xlsx`): the sheets `bill`, `unattributed`, `coverage` and `words`.
//!
//! Totals are formulas over the lines, each with the figure that the bill has as its stored result, so that
//! whoever only reads sees it, and whoever computes anew compares. A check says whether what the lines add up to
//! is what the bill says. Names are text, never formulas. Moments are RFC 3339 text beside microseconds since 1970 as
//! text, ids and hashes text: no spreadsheet makes a number of them. What nobody knows is the word UNKNOWN, which no
//! sum takes in; a figure beyond 2^53 is text, and so is its sum.

mod around;
mod bill;
mod priced;
mod sheet;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rust_xlsxwriter::{DocProperties, ExcelDateTime, Workbook, XlsxError};

use self::sheet::{Cell, Formats, Sheet};
use crate::bill::report::Report;

/// Lines of one table of a sheet, of 1,048,576 rows a sheet can have: a bill has five tables.
pub const LINES_MAX: usize = 200_000;

/// Why there is no workbook.
#[derive(Debug, thiserror::Error)]
pub enum XlsxBillError {
    /// More lines than a sheet has rows.
    #[error(
        "{lines} {what} are more than the {LINES_MAX} that a sheet of a workbook takes; take --format csv or parquet, or \
         a shorter period"
    )]
    Lines {
        /// Of what.
        what: &'static str,
        /// How many.
        lines: usize,
    },
    /// The writer refused.
    #[error(
        "the workbook cannot be written: {0}; this is a bug, please report it with the bill as --format json"
    )]
    Writer(#[from] XlsxError),
}

/// The workbook's bytes.
///
/// # Errors
/// [`XlsxBillError`].
pub fn bill(report: &Report) -> Result<Vec<u8>, XlsxBillError> {
    for (what, lines) in [
        ("accounts", report.accounts.len()),
        ("open rows", report.open.len()),
        ("holders without a driver row", report.no_driver_row.len()),
        ("disputed lines", report.disputed.len()),
        ("unattributed lines", report.unattributed.len()),
        ("gaps", report.coverage.gaps.len()),
        ("lines in money", report.priced.as_ref().map_or(0, |priced| priced.lines.len())),
    ] {
        if lines > LINES_MAX {
            return Err(XlsxBillError::Lines { what, lines });
        }
    }
    let mut book = Workbook::new();
    book.set_properties(&properties(report)?);
    let formats = Formats::new();
    // In the order of their tabs; what the first one refers to in the second is known before.
    for name in ["bill", "unattributed", "coverage", "words"] {
        book.add_worksheet().set_name(name)?;
    }
    let mut sheet = |name: &str, fill: &dyn Fn(&mut Sheet<'_>) -> Result<(), XlsxBillError>| {
        let mut sheet = Sheet::new(book.worksheet_from_name(name)?, &formats);
        fill(&mut sheet)?;
        sheet.print(&format!("gpu-ledger bill {}", report.bill_id));
        Ok::<(), XlsxBillError>(())
    };
    sheet("bill", &|sheet| bill::write(sheet, report))?;
    sheet("unattributed", &|sheet| around::unattributed(sheet, report))?;
    sheet("coverage", &|sheet| around::coverage(sheet, report))?;
    sheet("words", &around::words)?;
    Ok(book.save_to_buffer()?)
}

/// Made at the moment that the bill is as of, whenever it really was: the same bill gives the same bytes.
fn properties(report: &Report) -> Result<DocProperties, XlsxError> {
    let at = report.as_of.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let at = at.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned_datetime(TimeZone::UTC).datetime();
    let unsigned = |part: i8| u8::try_from(part).unwrap_or(0);
    // A workbook's calendar begins with 1900.
    let year = u16::try_from(at.year()).unwrap_or(1970);
    let made = ExcelDateTime::from_ymd(year, unsigned(at.month()), unsigned(at.day()))?;
    let made =
        made.and_hms(u16::from(unsigned(at.hour())), unsigned(at.minute()), unsigned(at.second()))?;
    Ok(DocProperties::new()
        .set_title(format!("gpu-ledger bill {}", report.bill_id))
        .set_author("gpu-ledger")
        .set_creation_datetime(&made))
}

/// A moment as the report has it (RFC 3339), beside its microseconds since 1970; UNKNOWN where there is none.
fn moment(text: Option<&str>) -> [Cell<'static>; 2] {
    let Some(text) = text else { return [Cell::Number(None), Cell::Number(None)] };
    let us = text.parse::<Timestamp>().map(Timestamp::as_microsecond);
    // Past the calendar's end the text is the number itself.
    let us =
        us.map_or_else(|_| text.trim_end_matches(" us since 1970").to_owned(), |us| us.to_string());
    [Cell::Text(text.to_owned()), Cell::Text(us)]
}
