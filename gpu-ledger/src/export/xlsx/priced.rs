//! The bill in money, on its first sheet: a row for each priced line, and the sums of them.

use super::XlsxBillError;
use super::bill::{BAD, GOOD, count_of};
use super::sheet::{Cell, Rows, Sheet, place};
use crate::bill::report::{Priced, PricedLine, Report};
use crate::prices::Amount;

/// Columns by their places.
const METER: u16 = 3;
const STATE: u16 = 5;
const BOOKED: u16 = 6;
const AMOUNT: u16 = 10;

pub(super) fn write(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    let Some(priced) = &report.priced else { return Ok(()) };
    let amount = format!("amount ({})", priced.currency);
    sheet.head(&[
        "in money: account",
        "gpu_uuid",
        "named_by",
        "meter",
        "basis",
        "state",
        "booked",
        "quantity_ms",
        "quantity_byte_ms",
        "per_hour",
        &amount,
        "upper end",
        "why UNKNOWN",
        "since",
        "until",
    ])?;
    let rows = Rows { first: sheet.next(), count: count_of(priced.lines.len()) };
    for line in &priced.lines {
        sheet.cells(row(line))?;
    }
    sums(sheet, priced, rows)?;
    sheet.skip(1);
    Ok(())
}

fn row(line: &PricedLine) -> Vec<Cell<'_>> {
    let word = |word: &str| Cell::Text(word.to_owned());
    let is_memory = line.state.is_of_memory();
    vec![
        line.title.as_deref().map_or(Cell::Empty, Cell::Name),
        Cell::Text(line.gpu_uuid.to_string()),
        line.named_by.map_or(Cell::Empty, |by| Cell::Text(by.to_string())),
        word(line.meter.as_str()),
        word(line.basis.as_str()),
        word(line.state.as_str()),
        word(if line.is_booked { "yes" } else { "no" }),
        if is_memory { Cell::Empty } else { Cell::Number(line.quantity_ms) },
        // More than a spreadsheet's numbers hold, as a rule.
        match line.quantity_byte_ms {
            Some(of) => Cell::Text(of.to_string()),
            None if is_memory => Cell::Number(None),
            None => Cell::Empty,
        },
        line.per_hour.map_or(Cell::Number(None), |rate| Cell::Text(rate.to_string())),
        Cell::Amount(line.amount),
        line.amount_high.map_or(Cell::Empty, |high| Cell::Amount(Some(high))),
        line.reason.map_or(Cell::Empty, |reason| word(reason.as_str())),
        Cell::Text(line.since.clone()),
        Cell::Text(line.until.clone()),
    ]
}

/// What is booked, and each meter and state: as formulas, beside what the bill says.
fn sums(sheet: &mut Sheet<'_>, priced: &Priced, rows: Rows) -> Result<(), XlsxBillError> {
    sheet.head(&[
        "sums of these lines",
        "meter",
        "state",
        "added up",
        "the bill's own",
        "check",
        "UNKNOWN lines",
    ])?;
    let range = |column| rows.range(column).unwrap_or_default();
    let booked = format!("=SUMIF({},\"yes\",{})", range(BOOKED), range(AMOUNT));
    sum(sheet, ["booked", "", ""], booked, priced.booked.amount, priced.booked.unknown_lines)?;
    for total in &priced.totals {
        let (meter, state) = (total.meter.as_str(), total.state.as_str());
        let formula = format!(
            "=SUMIFS({},{},\"{meter}\",{},\"{state}\")",
            range(AMOUNT),
            range(METER),
            range(STATE)
        );
        sum(sheet, ["", meter, state], formula, total.sum.amount, total.sum.unknown_lines)?;
    }
    Ok(())
}

fn sum(
    sheet: &mut Sheet<'_>,
    names: [&str; 3],
    formula: String,
    amount: Option<Amount>,
    unknown: u64,
) -> Result<(), XlsxBillError> {
    let row = sheet.next();
    let [added, own] = [3, 4].map(|column| place(row, column));
    let mut cells: Vec<Cell<'_>> = names.map(|name| Cell::Text(name.to_owned())).into();
    cells.push(Cell::AmountSum(formula, amount));
    cells.push(Cell::Amount(amount));
    cells.push(match amount {
        Some(_) => Cell::Verdict(
            format!("=IF(ROUND({added}-{own},4)=0,\"{GOOD}\",\"{BAD}\")"),
            // The bill's own sum is of these very lines, or there is no bill.
            GOOD,
        ),
        None => Cell::Empty,
    });
    cells.push(Cell::number(Some(unknown)));
    sheet.cells(cells)
}
