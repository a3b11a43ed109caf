//! A bill as a table of commas (RFC 4180): one row per line of the chosen dimension; by process one per
//! settlement, open row and holder without a driver row.
//!
//! It has rows and nothing around them: no period, no statement of a GPU, no gap, no UNKNOWN, no totals. The
//! table and JSON have those.
//!
//! A cell that a spreadsheet would take for a formula is led by an apostrophe, and so is one that begins with an
//! apostrophe: a leading one is never part of the name. Columns of numbers never are led, and a bare form leaves
//! everything as it is.

use super::report::{
    Account, MemoryHeld, MemoryLine, MemoryProcess, NoDriverRow, Open, Report, Settled,
    Unattributed,
};
use crate::escape::printable;
use crate::unit::GpuUuid;
use crate::unknown::NamelessReason;

/// The bill's lines as CSV, with a head.
///
/// # Errors
/// Where a row cannot be written, which memory never refuses.
pub fn csv(report: &Report, is_raw: bool) -> Result<String, csv::Error> {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    match &report.settlements {
        Some(settlements) => {
            writer.write_record(PROCESS)?;
            for one in settlements {
                writer.write_record(settled(one, is_raw))?;
            }
            for one in &report.open {
                writer.write_record(open(one, is_raw))?;
            }
            for one in &report.no_driver_row {
                writer.write_record(rowless(one, is_raw))?;
            }
            for one in report.memory.processes.iter().flatten() {
                writer.write_record(memory_held(one, report.memory.is_told(), is_raw))?;
            }
        }
        None => write_lines(&mut writer, report, is_raw)?,
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    String::from_utf8(bytes).map_err(|error| std::io::Error::other(error).into())
}

const LINE: [&str; 25] = [
    "line",
    "uid",
    "user",
    "gpu_uuid",
    "reason",
    "classified",
    "named_by",
    "settlements",
    "held_ms",
    "alone_ms",
    "shared_ms",
    "uncovered_ms",
    "span_ms_total",
    "open_ms",
    "open_uncovered_ms",
    "settled_or_open_ms",
    "no_driver_row_ms",
    "share_ms",
    "busy_ms_low",
    "busy_ms_high",
    "busy_unsampled_ms",
    "max_memory_bytes",
    "memory_held_byte_ms",
    "memory_unknown_ms",
    "raw_ms",
];

const PROCESS: [&str; 27] = [
    "id",
    "state",
    "account",
    "named_by",
    "gpu_uuid",
    "pid",
    "start_time_us",
    "held_ms",
    "in_period_ms",
    "alone_ms",
    "shared_ms",
    "uncovered_ms",
    "asleep_ms",
    "busy_ms_low",
    "busy_ms_high",
    "busy_samples",
    "busy_source",
    "max_memory_bytes",
    "process_start_ns",
    "memory_held_byte_ms",
    "memory_unknown_ms",
    "program",
    "uid",
    "basis",
    "reason",
    "dispute",
    "flags",
];

fn write_lines(
    writer: &mut csv::Writer<Vec<u8>>,
    report: &Report,
    is_raw: bool,
) -> Result<(), csv::Error> {
    writer.write_record(LINE)?;
    for line in &report.accounts {
        writer.write_record(account(line, is_raw))?;
    }
    for line in &report.unattributed {
        writer.write_record(unattributed(line, &report.memory))?;
    }
    // Whoever was seen to hold memory, and nothing else.
    let has_row = |line: &MemoryLine| match line.nameless {
        None => report.accounts.iter().any(|of| of.line == line.line),
        Some(reason) => report.unattributed.iter().any(|of| is_of(line, &of.gpu_uuid, reason)),
    };
    for line in report.memory.lines.iter().filter(|line| !has_row(line)) {
        let mut row = empty_row();
        put(&mut row, "line", text(&line.account, is_raw));
        put(&mut row, "gpu_uuid", line.gpu_uuid.to_string());
        put(&mut row, "reason", or_unknown(line.nameless));
        put(&mut row, "classified", or_unknown(line.classified));
        put(&mut row, "named_by", or_unknown(line.named_by));
        put_memory(&mut row, &report.memory, line);
        writer.write_record(row)?;
    }
    for line in &report.disputed {
        let mut row = empty_row();
        put(&mut row, "line", text(&line.account, is_raw));
        put(&mut row, "named_by", or_unknown(line.named_by));
        put(&mut row, "gpu_uuid", line.gpu_uuid.to_string());
        put(&mut row, "reason", line.reason.to_string());
        put(&mut row, "settlements", line.count.to_string());
        put(&mut row, "raw_ms", line.raw_ms.to_string());
        writer.write_record(row)?;
    }
    Ok(())
}

fn is_of(line: &MemoryLine, gpu: &GpuUuid, reason: NamelessReason) -> bool {
    line.nameless == Some(reason) && line.gpu_uuid == *gpu
}

fn put_memory(row: &mut [String], memory: &MemoryHeld, line: &MemoryLine) {
    put(row, "memory_held_byte_ms", or_unknown(line.byte_ms.as_ref()));
    let unknown = memory.is_told().then(|| line.of.unknown_ms());
    put(row, "memory_unknown_ms", or_unknown(unknown));
}

fn empty_row() -> Vec<String> {
    vec![String::new(); LINE.len()]
}

fn put(row: &mut [String], column: &str, value: String) {
    put_in(&LINE, row, column, value);
}

fn put_in(columns: &[&str], row: &mut [String], column: &str, value: String) {
    let place = columns.iter().position(|name| *name == column);
    if let Some(cell) = place.and_then(|place| row.get_mut(place)) {
        *cell = value;
    }
}

fn account(line: &Account, is_raw: bool) -> Vec<String> {
    let mut row = empty_row();
    let numbers = [
        ("settlements", Some(line.settlements)),
        ("held_ms", Some(line.held_ms.0)),
        ("alone_ms", Some(line.alone_ms.0)),
        ("shared_ms", Some(line.shared_ms.0)),
        ("uncovered_ms", Some(line.uncovered_ms.0)),
        ("span_ms_total", Some(line.span_ms_total.0)),
        ("open_ms", Some(line.open_ms.0)),
        ("open_uncovered_ms", Some(line.open_uncovered_ms.0)),
        ("settled_or_open_ms", Some(line.settled_or_open_ms.0)),
        ("no_driver_row_ms", Some(line.no_driver_row_ms.0)),
        ("share_ms", line.share_ms.map(|ms| ms.0)),
        ("busy_ms_low", line.busy_ms_low.map(|ms| ms.0)),
        ("busy_ms_high", line.busy_ms_high.map(|ms| ms.0)),
        ("busy_unsampled_ms", Some(line.busy_unsampled_ms.0)),
        ("max_memory_bytes", line.max_memory_bytes.map(|bytes| bytes.0)),
    ];
    put(&mut row, "line", text(&line.account, is_raw));
    put(&mut row, "uid", or_unknown(line.uid));
    put(&mut row, "user", or_unknown(line.user.as_deref().map(|user| text(user, is_raw))));
    put(&mut row, "classified", or_unknown(line.classified));
    put(&mut row, "named_by", or_unknown(line.named_by));
    for (column, number) in numbers {
        put(&mut row, column, or_unknown(number));
    }
    put(&mut row, "memory_held_byte_ms", or_unknown(line.memory_held_byte_ms.as_ref()));
    put(&mut row, "memory_unknown_ms", or_unknown(line.memory_unknown_ms.map(|ms| ms.0)));
    row
}

fn unattributed(line: &Unattributed, memory: &MemoryHeld) -> Vec<String> {
    let mut row = empty_row();
    put(&mut row, "line", "unattributed".to_owned());
    put(&mut row, "gpu_uuid", line.gpu_uuid.to_string());
    put(&mut row, "reason", line.reason.to_string());
    put(&mut row, "settlements", line.count.to_string());
    put(&mut row, "held_ms", line.held_ms.0.to_string());
    put(&mut row, "span_ms_total", line.span_ms_total.0.to_string());
    put(&mut row, "share_ms", or_unknown(line.share_ms.map(|ms| ms.0)));
    let is_its = |one: &&MemoryLine| is_of(one, &line.gpu_uuid, line.reason);
    if let Some(of_line) = memory.lines.iter().find(is_its) {
        put_memory(&mut row, memory, of_line);
    }
    row
}

fn settled(one: &Settled, is_raw: bool) -> [String; PROCESS.len()] {
    let ms = |ms: Option<crate::unit::Ms>| or_unknown(ms.map(|ms| ms.0));
    [
        one.id.clone(),
        "settled".to_owned(),
        text(&one.account, is_raw),
        or_unknown(one.named_by),
        one.gpu_uuid.to_string(),
        one.pid.to_string(),
        or_unknown(one.start_time_us.map(|start| start.0)),
        one.held_ms.0.to_string(),
        ms(one.in_period_ms),
        ms(one.alone_ms),
        ms(one.shared_ms),
        ms(one.uncovered_ms),
        ms(one.asleep_ms),
        ms(one.busy_ms_low),
        ms(one.busy_ms_high),
        or_unknown(one.busy_samples),
        one.busy_source.unwrap_or_default().to_owned(),
        or_unknown(one.max_memory_bytes.map(|bytes| bytes.0)),
        // Memory has rows of its own: a process without a row of the driver's holds some as well.
        String::new(),
        String::new(),
        String::new(),
        one.program.as_deref().map(|program| text(program, is_raw)).unwrap_or_default(),
        or_unknown(one.uid),
        or_unknown(one.basis.map(crate::identity::Basis::as_str)),
        or_unknown(one.reason),
        or_unknown(one.dispute),
        one.flags.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    ]
}

/// A row that still runs: accrued, not booked.
fn open(one: &Open, is_raw: bool) -> Vec<String> {
    let ms = |ms: Option<crate::unit::Ms>| or_unknown(ms.map(|ms| ms.0));
    let nameless = one.nameless.map(|why| why.to_string());
    process(&[
        ("state", "open".to_owned()),
        ("account", text(&one.account, is_raw)),
        ("named_by", or_unknown(one.named_by)),
        ("gpu_uuid", one.gpu_uuid.to_string()),
        ("pid", or_unknown(one.pid)),
        ("start_time_us", or_unknown(one.start_time_us.map(|start| start.0))),
        ("in_period_ms", ms(one.accrued_ms)),
        ("alone_ms", ms(one.alone_ms)),
        ("shared_ms", ms(one.shared_ms)),
        ("uncovered_ms", ms(one.uncovered_ms)),
        ("program", or_unknown(one.program.as_deref().map(|program| text(program, is_raw)))),
        ("uid", or_unknown(one.uid)),
        ("basis", or_unknown(one.basis.map(crate::identity::Basis::as_str))),
        ("reason", or_unknown(nameless.or_else(|| one.reason.clone()))),
    ])
}

/// A process without a row: never billed.
fn rowless(one: &NoDriverRow, is_raw: bool) -> Vec<String> {
    process(&[
        ("state", "no-driver-row".to_owned()),
        ("account", text(&one.account, is_raw)),
        ("named_by", or_unknown(one.named_by)),
        ("gpu_uuid", one.gpu_uuid.to_string()),
        ("pid", or_unknown(one.pid)),
        ("in_period_ms", or_unknown(one.seen_ms.map(|ms| ms.0))),
        ("program", or_unknown(one.program.as_deref().map(|program| text(program, is_raw)))),
        ("uid", or_unknown(one.uid)),
        ("reason", or_unknown(one.lost)),
    ])
}

/// What a process was seen to hold of memory, beside its rows.
fn memory_held(one: &MemoryProcess, is_told: bool, is_raw: bool) -> Vec<String> {
    process(&[
        ("state", "memory-held".to_owned()),
        ("account", text(&one.account, is_raw)),
        ("named_by", or_unknown(one.named_by)),
        ("gpu_uuid", one.gpu_uuid.to_string()),
        ("pid", or_unknown(one.pid)),
        ("process_start_ns", or_unknown(one.start_ns.map(|start| start.0))),
        ("memory_held_byte_ms", or_unknown(one.byte_ms.as_ref())),
        ("memory_unknown_ms", or_unknown(is_told.then_some(one.unknown_ms.0))),
    ])
}

/// A row of processes with these cells; what it does not have is empty.
fn process(cells: &[(&str, String)]) -> Vec<String> {
    let mut row = vec![String::new(); PROCESS.len()];
    for (column, value) in cells {
        put_in(&PROCESS, &mut row, column, value.clone());
    }
    row
}

/// An empty cell is what RFC 4180 has for a value that is not known; a zero would be a value.
fn or_unknown(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// What begins a formula in one spreadsheet or another, after blanks: their ASCII and full-width forms.
const FORMULA: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// A stranger's name as a cell.
pub(crate) fn text(name: &str, is_raw: bool) -> String {
    if is_raw {
        return name.to_owned();
    }
    cell_of(name)
}

/// The same where a spreadsheet is guarded.
pub(super) fn cell_of(name: &str) -> String {
    // So that a cell with an apostrophe in front is one whose name is what stands behind it.
    let is_led = name.starts_with('\'') || name.trim_start_matches(' ').starts_with(FORMULA);
    let shown = printable(name.as_bytes()).to_string();
    if is_led { format!("'{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_cell_that_is_put_has_its_column() {
        for columns in [&LINE[..], &PROCESS[..]] {
            assert_eq!(columns.iter().collect::<BTreeSet<_>>().len(), columns.len());
        }
    }

    #[test]
    fn a_name_that_a_spreadsheet_would_run_is_led_by_an_apostrophe() {
        for (name, cell) in [
            ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
            ("  +1", "'  +1"),
            ("-x", "'-x"),
            ("@sum", "'@sum"),
            ("\tx", "'\\x09x"),
            ("＝1", "'＝1"),
            ("'=HYPERLINK(1)", "''=HYPERLINK(1)"),
            ("'tis", "''tis"),
            (" 'tis", " 'tis"),
            ("a=b", "a=b"),
            ("a\nb", "a\\x0ab"),
            ("say \"hi\", all", "say \"hi\", all"),
        ] {
            assert_eq!(text(name, false), cell);
            assert_eq!(text(name, true), name);
        }
    }
}
