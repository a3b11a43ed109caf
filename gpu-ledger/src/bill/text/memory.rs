//! Memory held, beside everything else.

use std::fmt::{self, Write as _};

use super::moments::second;
use super::{LINES_SHOWN_MAX, WIDE_NAME_WIDTH, name_cell, short, write_more, write_wrapped};
use crate::bill::report::{Account, MemoryGpu, MemoryLine, Report};
use crate::memory::ByteMs;
use crate::unit::Ms;

/// Nothing where nobody sampled it: that has a line of its own.
pub(super) fn write_memory(page: &mut String, report: &Report) -> fmt::Result {
    if !report.memory.is_sampled() {
        return Ok(());
    }
    for gpu in &report.memory.gpus {
        write_gpu(page, report, gpu)?;
    }
    Ok(())
}

fn write_gpu(page: &mut String, report: &Report, gpu: &MemoryGpu) -> fmt::Result {
    let gpu_word = short(report, &gpu.gpu_uuid);
    writeln!(page, "\nmemory held on {gpu_word}: sampled, evidence beside the bill, in no total")?;
    writeln!(page, "  {:WIDE_NAME_WIDTH$} {:>20} {:>18}", "", "GiB·s", "UNKNOWN for")?;
    let of_gpu = |line: &&MemoryLine| line.gpu_uuid == gpu.gpu_uuid;
    let lines: Vec<&MemoryLine> = report.memory.lines.iter().filter(of_gpu).collect();
    for line in lines.iter().take(LINES_SHOWN_MAX) {
        let name = match line.nameless {
            Some(reason) => format!("{}: {reason}", line.account),
            None => title(report, line),
        };
        let unknown = line.of.unknown_ms();
        let row = format!(
            "{} {:>20} {:>18}",
            name_cell(report, &name, line.named_by, WIDE_NAME_WIDTH),
            line.byte_ms.as_ref().map_or("UNKNOWN".to_owned(), |_| line.of.held.memory.to_string()),
            if unknown > 0 { Ms(unknown).to_string() } else { String::new() },
        );
        writeln!(page, "{}", row.trim_end())?;
    }
    write_more(page, lines.len())?;
    let is_part = report.left_out.as_ref().is_some_and(|left| left.accounts > 0);
    let mut sum = |name: &str, memory: Option<ByteMs>| {
        let memory = memory.map_or("UNKNOWN".to_owned(), |memory| memory.to_string());
        writeln!(page, "  {name:WIDE_NAME_WIDTH$} {memory:>20}")
    };
    let device = gpu.device;
    if let Some(beyond) = gpu.beyond {
        sum("holders without a line", Some(beyond))?;
    }
    sum("of no process", device.map(|device| device.unattributed))?;
    let excess = device.map(|device| device.excess);
    if excess.is_some_and(|excess| excess > ByteMs::default()) {
        sum("- listed beyond what is used", excess)?;
    }
    sum(if is_part { "used by all" } else { "= used" }, device.map(|device| device.used))?;
    write_wrapped(page, &sizes(report, gpu))
}

/// As the line of the bill is called that it stands beside.
fn title(report: &Report, line: &MemoryLine) -> String {
    let beside = report.accounts.iter().find(|of| of.line == line.line);
    beside.map_or_else(|| line.account.clone(), Account::title)
}

/// How it was sampled, and what of the period has no figure.
fn sizes(report: &Report, gpu: &MemoryGpu) -> String {
    let mut words = format!("known for {}", gpu.covered_ms);
    if let Some(until) = &gpu.known_until {
        let _ = write!(words, ", up to {}", second(report, until));
    }
    if let (Some(period), Some(cap)) = (gpu.period_ms, gpu.cap_ms) {
        let _ = write!(
            words,
            "; sampled every {period} ms, none older than {cap} ms: each beginning and end may be off by \
             as much, and what lived for less may have been missed"
        );
    }
    if gpu.void_ms > Ms::ZERO || gpu.void_hours > 0 {
        let reasons = gpu.void_reasons();
        let hours = if gpu.void_hours == 1 { "hour is" } else { "hours are" };
        let (void, count) = (gpu.void_ms, gpu.void_hours);
        let _ = write!(words, "; UNKNOWN for {void}, as {count} {hours} void: {reasons}");
    }
    if gpu.cut_ms > Ms::ZERO {
        let cut = gpu.cut_ms;
        let _ = write!(words, "; UNKNOWN for {cut} of quarters of an hour that the period cuts");
    }
    if gpu.uncovered_ms > Ms::ZERO {
        let _ = write!(words, "; UNKNOWN for {} that was not sampled", gpu.uncovered_ms);
    }
    if gpu.is_hour_open {
        words.push_str(
            "; its last hour is not over, and one sample that comes too late will void all of it",
        );
    }
    if gpu.pending_ms > Ms::ZERO {
        let _ = write!(words, "; the last {} are not entered yet", gpu.pending_ms);
    }
    words
}
