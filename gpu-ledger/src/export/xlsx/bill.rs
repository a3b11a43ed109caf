//! The first sheet: what bill it is, its control totals, the statement of each GPU, and the lines.

use super::sheet::{Cell, Rows, Sheet, place};
use super::{XlsxBillError, moment, priced};
use crate::bill::report::{Account, Report};
use crate::unit::Ms;

/// What a check says where the figures agree.
pub(super) const GOOD: &str = "good";
/// And where they do not.
pub(super) const BAD: &str = "DOES NOT AGREE";

/// Rows of the block of control totals, its head and the blank row behind it included.
const CONTROL_ROWS: u32 = 9;

/// Where the count and the milliseconds of each kind of line are added up, as addresses of cells.
struct Added {
    accounts: [String; 2],
    disputed: [String; 2],
}

pub(super) fn write(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    sheet.widths(&[34, 26, 18, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 18, 18])?;
    head(sheet, report)?;
    let control = sheet.next();
    sheet.skip(CONTROL_ROWS);
    statements(sheet, report)?;
    let accounts = accounts(sheet, report)?;
    let disputed = disputed(sheet, report)?;
    open(sheet, report)?;
    rowless(sheet, report)?;
    priced::write(sheet, report)?;
    control_totals(sheet, control, report, &Added { accounts, disputed })
}

fn head(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    sheet.title(&format!("gpu-ledger bill {}", report.bill_id))?;
    if report.driver.as_deref() == Some("simulated") {
        sheet.note("SIMULATED DRIVER: no GPU was used")?;
    }
    if !report.is_known() {
        sheet.note("Not everything on this bill is known, or was seen: the sheet coverage says what and why.")?;
    }
    let text =
        |name: &str, value: &str| vec![Cell::Text(name.to_owned()), Cell::Text(value.to_owned())];
    let at = |name: &str, value: Option<&str>| {
        let [text, us] = moment(value);
        vec![Cell::Text(name.to_owned()), text, us]
    };
    let host = report.host.as_deref();
    sheet.head(&["", "", "microseconds since 1970"])?;
    sheet.cells(text("bill id", &report.bill_id))?;
    sheet
        .cells(vec![Cell::Text("host".to_owned()), host.map_or(Cell::Number(None), Cell::Name)])?;
    sheet.cells(at("period from", Some(&report.period.since)))?;
    sheet.cells(at("period to (not included)", Some(&report.period.until)))?;
    sheet.cells(text("asked for in the time zone", &report.period.zone))?;
    sheet.cells(at("as of", report.as_of.as_deref()))?;
    if let Some(head) = &report.journal_head {
        sheet.cells(text("journal head: number of the entry", &head.seq.to_string()))?;
        sheet.cells(text("journal head: its hash", &head.hash))?;
        let tree = head.tree.clone().map_or(Cell::Number(None), Cell::Text);
        sheet.cells(vec![
            Cell::Text("journal head: root of the tree over all entries".to_owned()),
            tree,
        ])?;
    }
    let driver = report.driver_version.as_deref();
    sheet.cells(vec![
        Cell::Text("driver version".to_owned()),
        driver.map_or(Cell::Number(None), Cell::Name),
    ])?;
    sheet.cells(text("a line stands for", report.by))?;
    sheet.cells(text("shared time is divided by", report.share))?;
    if let Some(priced) = &report.priced {
        sheet.cells(text("prices (SHA-256)", &priced.prices_sha256))?;
    }
    sheet.skip(1);
    Ok(())
}

/// What the lines add up to, beside what the bill says that it is.
fn control_totals(
    sheet: &mut Sheet<'_>,
    row: u32,
    report: &Report,
    added: &Added,
) -> Result<(), XlsxBillError> {
    let sums = |counts: &mut dyn Iterator<Item = (u64, u128)>| {
        counts.fold((0_u128, 0_u128), |(count, ms), (more, held)| {
            (count.saturating_add(more.into()), ms.saturating_add(held))
        })
    };
    let accounts = sums(
        &mut report.accounts.iter().map(|line| (line.settlements, line.span_ms_total.0.into())),
    );
    let nameless =
        sums(&mut report.unattributed.iter().map(|line| (line.count, line.span_ms_total.0.into())));
    let disputed = sums(&mut report.disputed.iter().map(|line| (line.count, line.raw_ms)));
    let left = report
        .left_out
        .as_ref()
        .map_or((0, 0), |left| (u128::from(left.settlements), left.span_ms_total));
    let lines = [accounts, nameless, disputed, left].into_iter().fold((0, 0), |sum, line| {
        (u128::saturating_add(sum.0, line.0), u128::saturating_add(sum.1, line.1))
    });
    let total = (u128::from(report.settlements_total), report.span_ms_total);
    let names = ["control totals", "settlements", "span_ms_total"];
    for (column, name) in (0_u16..).zip(names) {
        sheet.put(row, column, Cell::Text(name.to_owned()))?;
    }
    let unattributed = super::around::sums_of_unattributed(report);
    let kinds = [
        ("lines of this sheet: settled", accounts, Some(&added.accounts)),
        ("lines of the sheet unattributed", nameless, Some(&unattributed)),
        ("lines of this sheet: disputed, raw", disputed, Some(&added.disputed)),
        // Nothing on the sheets adds up to what is not on them.
        ("left out, as it was asked for", left, None),
    ];
    let (mut at, first) = (row.saturating_add(1), row.saturating_add(1));
    for (name, (count, ms), cells) in kinds {
        sheet.put(at, 0, Cell::Text(name.to_owned()))?;
        if let Some([count_at, ms_at]) = cells {
            sheet.put(at, 1, Cell::Sum(format!("={count_at}"), count))?;
            sheet.put(at, 2, Cell::Sum(format!("={ms_at}"), ms))?;
        } else {
            sheet.put(at, 1, Cell::Number(Some(count)))?;
            sheet.put(at, 2, Cell::Number(Some(ms)))?;
        }
        at = at.saturating_add(1);
    }
    let rows = Rows { first, count: 4 };
    let sum_at = at;
    sheet.put(at, 0, Cell::Text("all lines together".to_owned()))?;
    for (column, sum) in [(1, lines.0), (2, lines.1)] {
        sheet.put(at, column, sum_of(rows, column, sum))?;
    }
    at = at.saturating_add(1);
    sheet.put(at, 0, Cell::Text("the bill's own total".to_owned()))?;
    sheet.put(at, 1, Cell::Number(Some(total.0)))?;
    sheet.put(at, 2, Cell::Number(Some(total.1)))?;
    let formula = format!(
        "=IF(AND({}={},{}={}),\"{GOOD}\",\"{BAD}\")",
        place(sum_at, 1),
        place(at, 1),
        place(sum_at, 2),
        place(at, 2)
    );
    at = at.saturating_add(1);
    sheet.put(at, 0, Cell::Text("check".to_owned()))?;
    Ok(sheet.put(at, 1, Cell::Verdict(formula, if lines == total { GOOD } else { BAD }))?)
}

/// The sum of a column; of no row the figure alone.
pub(super) fn sum_of(rows: Rows, column: u16, sum: u128) -> Cell<'static> {
    match rows.range(column) {
        Some(range) => Cell::Sum(format!("=SUM({range})"), sum),
        None => Cell::Number(Some(sum)),
    }
}

fn statements(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    sheet.head(&[
        "statement of each GPU (gpu_uuid)",
        "gpu_name",
        "gpu_index",
        "alone_ms",
        "shared_ms",
        "free_ms",
        "uncovered_ms",
        "the four together",
        "period_ms",
        "check",
        "unread_ms (of uncovered)",
    ])?;
    for gpu in &report.gpus {
        let row = sheet.next();
        let parts = [gpu.alone_ms, gpu.shared_ms, gpu.free_ms, gpu.uncovered_ms];
        let sum = parts.iter().fold(0_u128, |sum, part| sum.saturating_add(part.0.into()));
        let [first, last, all, period] = [3, 6, 7, 8].map(|column| place(row, column));
        let verdict = if sum == u128::from(gpu.period_ms.0) { GOOD } else { BAD };
        let check = format!("=IF({all}={period},\"{GOOD}\",\"{BAD}\")");
        let ms = |ms: Ms| Cell::Number(Some(ms.0.into()));
        let mut cells = vec![
            Cell::Text(gpu.gpu_uuid.to_string()),
            gpu.gpu_name.as_deref().map_or(Cell::Number(None), Cell::Name),
            Cell::number(gpu.gpu_index),
        ];
        cells.extend(parts.map(ms));
        cells.push(Cell::Sum(format!("=SUM({first}:{last})"), sum));
        cells.push(ms(gpu.period_ms));
        cells.push(Cell::Verdict(check, verdict));
        cells.push(ms(gpu.unread_ms));
        sheet.cells(cells)?;
    }
    sheet.skip(1);
    Ok(())
}

/// The columns of figures that are added up: their name, and a line's figure.
type Figure = (&'static str, fn(&Account) -> u64);

const ADDED: [Figure; 11] = [
    ("settlements", |line| line.settlements),
    ("held_ms", |line| line.held_ms.0),
    ("alone_ms", |line| line.alone_ms.0),
    ("shared_ms", |line| line.shared_ms.0),
    ("uncovered_ms", |line| line.uncovered_ms.0),
    ("span_ms_total", |line| line.span_ms_total.0),
    ("open_ms", |line| line.open_ms.0),
    ("open_uncovered_ms", |line| line.open_uncovered_ms.0),
    ("settled_or_open_ms", |line| line.settled_or_open_ms.0),
    ("no_driver_row_ms", |line| line.no_driver_row_ms.0),
    ("busy_unsampled_ms", |line| line.busy_unsampled_ms.0),
];
/// The first of them.
const ADDED_FROM: u16 = 3;

/// The lines, and where their settlements and milliseconds are added up.
fn accounts(sheet: &mut Sheet<'_>, report: &Report) -> Result<[String; 2], XlsxBillError> {
    let mut columns = vec![report.by, "named_by", "uid"];
    columns.extend(ADDED.map(|(name, _)| name));
    columns.extend(["share_ms", "busy_ms_low", "busy_ms_high", "max_memory_bytes"]);
    columns.extend(["memory_held_byte_ms", "memory_unknown_ms"]);
    sheet.head(&columns)?;
    let rows = Rows { first: sheet.next(), count: count_of(report.accounts.len()) };
    for line in &report.accounts {
        let title = line.title();
        let mut cells = vec![
            Cell::Name(&title),
            line.named_by.map_or(Cell::Empty, |by| Cell::Text(by.to_string())),
            line.uid.map_or(Cell::Empty, |uid| Cell::Text(uid.to_string())),
        ];
        cells.extend(ADDED.map(|(_, of)| Cell::Number(Some(of(line).into()))));
        // Without a policy nothing was divided.
        cells.push(line.share_ms.map_or(Cell::Empty, |ms| Cell::Number(Some(ms.0.into()))));
        cells.push(Cell::number(line.busy_ms_low.map(|ms| ms.0)));
        cells.push(Cell::number(line.busy_ms_high.map(|ms| ms.0)));
        cells.push(Cell::number(line.max_memory_bytes.map(|bytes| bytes.0)));
        // More than 64 bits, as in JSON.
        cells.push(line.memory_held_byte_ms.clone().map_or(Cell::Number(None), Cell::Text));
        cells.push(Cell::number(line.memory_unknown_ms.map(|ms| ms.0)));
        sheet.cells(cells)?;
    }
    let at = sheet.next();
    let mut cells = vec![Cell::Text("all of these lines".to_owned()), Cell::Empty, Cell::Empty];
    for (column, (_, of)) in (ADDED_FROM..).zip(ADDED) {
        let figures = report.accounts.iter().map(of);
        let sum = figures.fold(0_u128, |sum, figure| sum.saturating_add(figure.into()));
        cells.push(sum_of(rows, column, sum));
    }
    sheet.cells(cells)?;
    sheet.skip(1);
    let column_of = |wanted: &str| {
        let found = (ADDED_FROM..).zip(ADDED).find(|(_, (name, _))| *name == wanted);
        found.map_or(ADDED_FROM, |(column, _)| column)
    };
    Ok([place(at, column_of("settlements")), place(at, column_of("span_ms_total"))])
}

pub(super) fn count_of(lines: usize) -> u32 {
    // No more than `LINES_MAX`.
    u32::try_from(lines).unwrap_or(u32::MAX)
}

fn disputed(sheet: &mut Sheet<'_>, report: &Report) -> Result<[String; 2], XlsxBillError> {
    sheet.head(&[
        "disputed, never priced",
        "named_by",
        "reason",
        "settlements",
        "raw_ms",
        "gpu_uuid",
    ])?;
    let rows = Rows { first: sheet.next(), count: count_of(report.disputed.len()) };
    for line in &report.disputed {
        sheet.cells(vec![
            Cell::Name(&line.account),
            line.named_by.map_or(Cell::Empty, |by| Cell::Text(by.to_string())),
            Cell::Text(line.reason.to_string()),
            Cell::number(Some(line.count)),
            Cell::Number(Some(line.raw_ms)),
            Cell::Text(line.gpu_uuid.to_string()),
        ])?;
    }
    let at = sheet.next();
    let (count, raw_ms) = report.disputed.iter().fold((0_u128, 0_u128), |(count, ms), line| {
        (count.saturating_add(line.count.into()), ms.saturating_add(line.raw_ms))
    });
    sheet.cells(vec![
        Cell::Text("all of these lines".to_owned()),
        Cell::Empty,
        Cell::Empty,
        sum_of(rows, 3, count),
        sum_of(rows, 4, raw_ms),
    ])?;
    sheet.skip(1);
    Ok([place(at, 3), place(at, 4)])
}

fn open(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    if report.open.is_empty() {
        return Ok(());
    }
    sheet.head(&[
        "open: runs still, not booked",
        "start (RFC 3339)",
        "start_time_us",
        "accrued_ms",
        "alone_ms",
        "shared_ms",
        "uncovered_ms",
        "pid",
        "uid",
        "reason",
        "program",
        "gpu_uuid",
    ])?;
    for one in &report.open {
        let start = one.start_time_us.map(crate::rendering::rfc3339);
        let [start, start_us] = moment(start.as_deref());
        let ms = |ms: Option<Ms>| Cell::number(ms.map(|ms| ms.0));
        let nameless = one.nameless.map(|why| why.to_string());
        sheet.cells(vec![
            Cell::Name(&one.account),
            start,
            start_us,
            ms(one.accrued_ms),
            ms(one.alone_ms),
            ms(one.shared_ms),
            ms(one.uncovered_ms),
            one.pid.map_or(Cell::Empty, |pid| Cell::Text(pid.to_string())),
            one.uid.map_or(Cell::Empty, |uid| Cell::Text(uid.to_string())),
            nameless.or_else(|| one.reason.clone()).map_or(Cell::Empty, Cell::Text),
            one.program.as_deref().map_or(Cell::Number(None), Cell::Name),
            Cell::Text(one.gpu_uuid.to_string()),
        ])?;
    }
    sheet.skip(1);
    Ok(())
}

fn rowless(sheet: &mut Sheet<'_>, report: &Report) -> Result<(), XlsxBillError> {
    if report.no_driver_row.is_empty() {
        return Ok(());
    }
    sheet.head(&[
        "no driver row: never billed",
        "first seen (RFC 3339)",
        "first_seen_us",
        "seen_ms",
        "age_ms",
        "pid",
        "uid",
        "ended",
        "lost",
        "program",
        "gpu_uuid",
    ])?;
    for one in &report.no_driver_row {
        let [seen, seen_us] = moment(Some(&one.first_seen));
        sheet.cells(vec![
            Cell::Name(&one.account),
            seen,
            seen_us,
            Cell::number(one.seen_ms.map(|ms| ms.0)),
            Cell::number(one.age_ms.map(|ms| ms.0)),
            one.pid.map_or(Cell::Empty, |pid| Cell::Text(pid.to_string())),
            one.uid.map_or(Cell::Empty, |uid| Cell::Text(uid.to_string())),
            Cell::Text(if one.ended { "yes" } else { "no" }.to_owned()),
            one.lost.map_or(Cell::Empty, |lost| Cell::Text(lost.to_string())),
            one.program.as_deref().map_or(Cell::Number(None), Cell::Name),
            Cell::Text(one.gpu_uuid.to_string()),
        ])?;
    }
    sheet.skip(1);
    Ok(())
}
