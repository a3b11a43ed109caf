//! The bill for people: at most 80 columns, nothing raw from a process, nothing left out that a reader
//! would need to trust the number above it.

mod around;
mod closed;
mod memory;
mod moments;
mod priced;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod told_tests;

pub use around::left_out_words;
pub use closed::{adjusted_words, adjustment_words, closed_words, difference_words};
pub use priced::unmatched_words;

use std::fmt::{self, Write as _};

use unicode_width::UnicodeWidthStr as _;

use super::report::{Account, ClockBehind, Gpu, Proven, ReadingLine, Report};
use crate::escape::printable;
use crate::rendering::{clip, exact, or_unknown, percent};
use crate::settlement::NamedBy;
use crate::unit::{GpuUuid, Ms};

/// Columns of a line's name.
pub(super) const NAME_WIDTH: usize = 17;
/// Columns of a line's name where less stands beside it.
const WIDE_NAME_WIDTH: usize = 26;
/// Columns of a sentence, behind its indent.
const WRAPPED_WIDTH: usize = 78;
/// Lines of one section that are shown; the rest is counted, and whole in JSON.
const LINES_SHOWN_MAX: usize = 40;

/// The whole bill.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = write_report(&mut page, report);
    page
}

fn write_report(page: &mut String, report: &Report) -> fmt::Result {
    write_head(page, report)?;
    for gpu in &report.gpus {
        write_statement(page, gpu)?;
    }
    write_accounts(page, report)?;
    write_namesakes(page, report)?;
    write_sampled(page, report)?;
    memory::write_memory(page, report)?;
    priced::write_priced(page, report)?;
    around::write_processes(page, report)?;
    around::write_unattributed(page, report)?;
    around::write_disputed(page, report)?;
    around::write_open(page, report)?;
    around::write_no_driver_row(page, report)?;
    around::write_coverage(page, report)?;
    around::write_lifetimes(page, report)?;
    closed::write_adjustments(page, report)?;
    around::write_left_out(page, report)?;
    around::write_unknown(page, report)
}

fn write_head(page: &mut String, report: &Report) -> fmt::Result {
    let period = &report.period;
    let host = report.host.as_deref().unwrap_or("unknown host");
    writeln!(page, "gpu-ledger bill {}, {}", report.bill_id, clip(&safe(host), 46))?;
    match (report.driver.as_deref(), &report.driver_version) {
        (Some("simulated"), _) => writeln!(page, "SIMULATED DRIVER: no GPU was used")?,
        (Some(_), Some(version)) => writeln!(page, "driver {}", clip(&safe(version), 60))?,
        (Some(_), None) => writeln!(page, "driver version unknown")?,
        (None, _) => writeln!(page, "driver unknown: no entry says which one was asked")?,
    }
    let [since, until] = &period.local;
    writeln!(page, "from {since} to {until}: {}", period.length_ms)?;
    writeln!(page, "time zone {}", clip(&safe(&period.zone), 68))?;
    let hash: String = report.journal_head.hash.chars().take(16).collect();
    let as_of = period.local_as_of.as_deref().unwrap_or("unknown, the journal is empty");
    writeln!(page, "as of {as_of}, journal {}:{hash}", report.journal_head.seq)?;
    writeln!(page, "{}", tree_words(report))?;
    if let Some(ClockBehind { local: [now, latest], .. }) = &report.clock_behind {
        writeln!(
            page,
            "WARNING the clock was set back, or is behind the journal's: it is\n  {now}, and the \
             journal speaks of moments up to\n  {latest}"
        )?;
    }
    closed::write_closed(page, report)?;
    write_reading(page, &report.reading)
}

fn tree_words(report: &Report) -> String {
    let head = &report.journal_head;
    match (&head.tree, head.tree_unknown) {
        (Some(root), _) => format!("tree {root}"),
        (None, why) => format!("tree UNKNOWN: {}", why.unwrap_or("no reason was given")),
    }
}

/// Which bill it is, of which entries: for forms that have no place for it.
#[must_use]
pub fn version_words(report: &Report) -> String {
    let head = &report.journal_head;
    let as_of = report.as_of.as_deref().unwrap_or("unknown");
    format!(
        "bill {}, as of {as_of}, journal {}:{}, {}",
        report.bill_id,
        head.seq,
        head.hash,
        tree_words(report)
    )
}

/// What a reader must know of how the figures came to them, where that is not by their own proof.
fn write_reading(page: &mut String, reading: &ReadingLine) -> fmt::Result {
    match (reading.proven, reading.only_uid) {
        (Proven::Journal, _) => {}
        (Proven::Entries, _) => writeln!(
            page,
            "read through the daemon: every entry was proven here; that none is missing is\n  \
             the daemon's word"
        )?,
        (Proven::Nothing, only_uid) => {
            writeln!(page, "read through the daemon: its word, nothing of it was proven here")?;
            if let Some(uid) = only_uid {
                let who = match &reading.only_user {
                    Some(user) => format!("{} ({uid})", clip(&safe(user), 20)),
                    None => format!("uid {uid}"),
                };
                writeln!(page, "  lines of {who} alone; others' are folded into one")?;
            }
        }
    }
    if let Some(words) = missing_words(reading) {
        writeln!(page, "WARNING {words}")?;
    }
    if !reading.end_witnessed {
        writeln!(
            page,
            "WARNING ledger.head is missing beside the journal: entries cut off its end\n  would \
             not be missed; the daemon makes it anew when it starts"
        )?;
    }
    Ok(())
}

/// That a part of the journal is not here, where it is so.
#[must_use]
pub fn missing_words(reading: &ReadingLine) -> Option<String> {
    let last = reading.missing_to;
    (last > 0).then(|| {
        format!(
            "entries 1 to {last} were archived, and no archive is here:\n  what they say is not on \
             this bill, and the period all begins after them"
        )
    })
}

fn write_statement(page: &mut String, gpu: &Gpu) -> fmt::Result {
    writeln!(page, "\n{}", clip(&title(gpu), 80))?;
    let whole = gpu.period_ms;
    let part = |name: &str, ms: Ms| format!("{name} {} ({})", exact(ms, whole), percent(ms, whole));
    writeln!(
        page,
        "  {} + {}\n  + {} + {}\n  = {}",
        part("alone", gpu.alone_ms),
        part("shared", gpu.shared_ms),
        part("free", gpu.free_ms),
        part("uncovered", gpu.uncovered_ms),
        exact(whole, whole),
    )
}

/// `GPU 0 NVIDIA H200`; its UUID for what no entry says.
fn title(gpu: &Gpu) -> String {
    let name = gpu.gpu_name.as_deref().unwrap_or(&gpu.gpu_uuid.0);
    match gpu.gpu_index {
        Some(index) => format!("GPU {index} {}", safe(name)),
        None => format!("GPU {}", safe(&gpu.gpu_uuid.0)),
    }
}

/// `GPU 0`, or `GPU ` and the first of its UUID.
fn short(report: &Report, uuid: &GpuUuid) -> String {
    let gpu = report.gpus.iter().find(|gpu| gpu.gpu_uuid == *uuid);
    match gpu.and_then(|gpu| gpu.gpu_index) {
        Some(index) => format!("GPU {index}"),
        None => format!("GPU {}", safe(uuid.short())),
    }
}

fn write_accounts(page: &mut String, report: &Report) -> fmt::Result {
    let word = match report.by {
        "account" | "process" => "account",
        other => other,
    };
    if report.accounts.is_empty() {
        let left = report.left_out.as_ref().map_or(0, |left| left.accounts);
        return writeln!(page, "\n{word}s: {}", absent(report, left));
    }
    let whole = report.gpus.iter().fold(0_u64, |sum, gpu| sum.saturating_add(gpu.period_ms.0));
    let of = if report.gpus.len() == 1 { "of GPU" } else { "of GPUs" };
    writeln!(
        page,
        "\n  {:NAME_WIDTH$} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8}",
        word, "count", "held", "alone", "shared", "open", of
    )?;
    for line in report.accounts.iter().take(LINES_SHOWN_MAX) {
        writeln!(
            page,
            "{} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8}",
            name_cell(report, &line.title(), line.named_by, NAME_WIDTH),
            line.settlements,
            line.held_ms,
            line.alone_ms,
            line.shared_ms,
            line.open_ms,
            percent(line.settled_or_open_ms, Ms(whole)),
        )?;
        write_beside(page, line)?;
    }
    write_more(page, report.accounts.len())?;
    let other = if report.by == "gpu" { "process" } else { word };
    write_left(page, report.left_out.as_ref().map_or(0, |left| left.accounts))?;
    writeln!(
        page,
        "held is settled, open accrues and is replaced when it settles; alone: no other\n\
         {other} held the GPU. of GPU: held and open together.\n\
         Times of a minute or more are cut to seconds here, not in --format json and csv."
    )
}

/// What stands behind names that are called alike.
fn write_namesakes(page: &mut String, report: &Report) -> fmt::Result {
    if !report.shown.any_alike() {
        return Ok(());
    }
    writeln!(
        page,
        "Several accounts here are called alike, and (unit), (program), (rule) and the like\nsay what \
         named each: --account NAME means all of them, 'NAME (unit)' that one."
    )
}

/// A name in its column or above it.
fn name_cell(report: &Report, name: &str, named_by: Option<NamedBy>, width: usize) -> String {
    report.shown.cell("  ", &report.shown.called(name, named_by), width)
}

/// What there is no column for.
fn write_beside(page: &mut String, line: &Account) -> fmt::Result {
    if line.uncovered_ms > Ms::ZERO {
        writeln!(page, "    of held, {} where nobody saw who shared it", line.uncovered_ms)?;
    }
    if line.open_uncovered_ms > Ms::ZERO {
        writeln!(page, "    of open, {} where nobody saw who shared it", line.open_uncovered_ms)?;
    }
    if line.no_driver_row_ms > Ms::ZERO {
        writeln!(
            page,
            "    beside it, {} without a driver row, never billed",
            line.no_driver_row_ms
        )?;
    }
    Ok(())
}

/// What stands where a section would be empty: that nothing was held only where somebody would have seen
/// it, and where nothing was `left` out as asked.
fn absent(report: &Report, left: u64) -> String {
    if left > 0 {
        return format!("{left} left out as asked");
    }
    let is_unseen = report.gpus.iter().any(|gpu| gpu.uncovered_ms > Ms::ZERO);
    let is_part = report.left_out.as_ref().is_some_and(|left| left.gpus > 0);
    let words = match (is_unseen, is_part) {
        _ if report.gpus.is_empty() => "unknown, the journal knows no GPU",
        (true, false) => "nothing that was seen: a GPU is uncovered in part",
        (true, true) => "nothing that was seen on the GPUs above: one is uncovered in part",
        (false, true) => "nothing on the GPUs above",
        (false, false) => "nothing",
    };
    words.to_owned()
}

/// What of a section is not shown because other lines were asked for.
fn write_left(page: &mut String, left: u64) -> fmt::Result {
    if left == 0 { Ok(()) } else { writeln!(page, "  {left} more left out as asked") }
}

/// Evidence and policy: beside the held time, never in it.
fn write_sampled(page: &mut String, report: &Report) -> fmt::Result {
    if report.accounts.is_empty() {
        return Ok(());
    }
    let share = report.undivided_ms.map_or(String::new(), |_| format!("share ({})", report.share));
    let head = format!("  {:WIDE_NAME_WIDTH$} {:>12} {:>10} {share:>16}", "", "busy", "peak");
    writeln!(page, "\nsampled: evidence beside the bill, in no total\n{}", head.trim_end())?;
    for line in report.accounts.iter().take(LINES_SHOWN_MAX) {
        let share = line.share_ms.map_or(String::new(), |share| share.to_string());
        let row = format!(
            "{} {:>12} {:>10} {share:>16}",
            name_cell(report, &line.title(), line.named_by, WIDE_NAME_WIDTH),
            busy(line),
            peak(line),
        );
        writeln!(page, "{}", row.trim_end())?;
    }
    write_more(page, report.accounts.len())?;
    if let Some(undivided) = report.undivided_ms {
        writeln!(page, "  shared time that the policy could not divide: {undivided}")?;
    }
    if report.memory.is_sampled() {
        return Ok(());
    }
    write_wrapped(
        page,
        "memory held over time: UNKNOWN, nothing of it is entered: it was not sampled, or the first quarter of an hour \
         is not over",
    )
}

/// The busy range in percent of the time held.
fn busy(line: &Account) -> String {
    let of_held = |ms: Ms| ms.0.saturating_mul(100).checked_div(line.span_ms_total.0);
    let (low, high) = (line.busy_ms_low.and_then(of_held), line.busy_ms_high.and_then(of_held));
    match (low, high) {
        (None, _) | (_, None) if line.settlements == 0 => "-".to_owned(),
        // What was held for less than a millisecond has no percentage.
        (None, _) | (_, None) => "no samples".to_owned(),
        (Some(0), Some(0 | 1)) => "<1 %".to_owned(),
        (Some(low), Some(high)) if low == high => format!("{low} %"),
        (Some(low), Some(high)) => format!("{low}..{high} %"),
    }
}

fn peak(line: &Account) -> String {
    if line.settlements == 0 { "-".to_owned() } else { or_unknown(line.max_memory_bytes) }
}

fn write_more(page: &mut String, lines: usize) -> fmt::Result {
    match lines.checked_sub(LINES_SHOWN_MAX) {
        Some(more) if more > 0 => writeln!(page, "  … {more} more, all of them in --format json"),
        _ => Ok(()),
    }
}

/// Words of ours in as many lines as they take.
fn write_wrapped(page: &mut String, words: &str) -> fmt::Result {
    let mut line = String::new();
    for word in words.split(' ') {
        let width = line.width().saturating_add(word.width());
        if !line.is_empty() && width >= WRAPPED_WIDTH {
            writeln!(page, "  {line}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&clip(word, WRAPPED_WIDTH));
    }
    writeln!(page, "  {line}")
}

/// A stranger's name, safe to print.
fn safe(name: &str) -> String {
    printable(name.as_bytes()).to_string()
}
