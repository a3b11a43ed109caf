//! The sections around the accounts: what is not theirs, and what could not be seen.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use super::hosts::write_received;
use super::moments::between;
use super::{
    LINES_SHOWN_MAX, NAME_WIDTH, WIDE_NAME_WIDTH, absent, name_cell, safe, short, write_left,
    write_more, write_wrapped,
};
use crate::bill::report::{LeftOut, NoDriverRow, Open, Report, Settled};
use crate::rendering::{cell, clip, or_unknown, percent};
use crate::settlement::told_apart;
use crate::unit::{Ms, Pid};
use crate::unknown::GapCause;

/// Dead rows that the driver keeps (open-gpu-kernel-modules 515 to 595, `g_gpu_acct_nvoc.h`).
const DEAD_ROWS_KEPT: u64 = 128;

/// Columns of an account beside a settlement's id, which has up to 41.
const ACCOUNT_WIDTH: usize = 23;
/// Columns of it on a line of its own.
const ACCOUNT_BELOW_WIDTH: usize = 66;

/// Every settlement, where the bill is made by process.
pub(super) fn write_processes(page: &mut String, report: &Report) -> fmt::Result {
    let Some(settlements) = &report.settlements else { return Ok(()) };
    writeln!(
        page,
        "\n  {:NAME_WIDTH$} {:>9} {:>6} {:>10} {:>10} {:>10} {:>8}",
        "process", "pid", "gpu", "in period", "alone", "shared", "peak"
    )?;
    for one in settlements.iter().take(LINES_SHOWN_MAX) {
        write_process(page, report, one)?;
    }
    write_more(page, settlements.len())?;
    if settlements.is_empty() {
        return Ok(());
    }
    writeln!(page, "gpu-ledger explain ID says why one of them stands where it does")
}

fn write_process(page: &mut String, report: &Report, one: &Settled) -> fmt::Result {
    let name = one.program.as_deref().map_or(Cow::Borrowed(&*one.account), told_apart);
    writeln!(
        page,
        "{} {:>9} {:>6} {:>10} {:>10} {:>10} {:>8}",
        report.shown.cell("  ", &name, NAME_WIDTH),
        one.pid,
        cell(short(report, &one.gpu_uuid).trim_start_matches("GPU "), 6).trim_end(),
        or_unknown(one.in_period_ms),
        or_unknown(one.alone_ms),
        or_unknown(one.shared_ms),
        or_unknown(one.max_memory_bytes),
    )?;
    write_id(page, report, one, &name)?;
    write_unseen(page, one.uncovered_ms)?;
    let mut marks: Vec<String> = one.flags.iter().map(ToString::to_string).collect();
    marks.extend(one.reason.map(|why| format!("unattributed {why}")));
    marks.extend(one.dispute.map(|why| format!("DISPUTED {why}, {} raw", one.held_ms)));
    if marks.is_empty() { Ok(()) } else { writeln!(page, "      {}", marks.join(", ")) }
}

/// By what it can be asked after; and its account, where that is not what the line is called.
fn write_id(page: &mut String, report: &Report, one: &Settled, name: &str) -> fmt::Result {
    write!(page, "      {}", one.id)?;
    let called = report.shown.called(&one.account, one.named_by);
    if one.reason.is_none() && called != name {
        if let Some(account) = report.shown.fitted(&called, ACCOUNT_WIDTH) {
            write!(page, "  account {account}")?;
        } else {
            let account = report.shown.told(&called, ACCOUNT_BELOW_WIDTH);
            write!(page, "\n      account {account}")?;
        }
    }
    writeln!(page)
}

pub(super) fn write_unattributed(page: &mut String, report: &Report) -> fmt::Result {
    let left = left_out(report, |left| left.unattributed);
    if report.unattributed.is_empty() {
        return writeln!(page, "\nunattributed: {}", absent(report, left));
    }
    writeln!(page, "\nunattributed: settled, and nobody can say whose")?;
    for line in &report.unattributed {
        writeln!(
            page,
            "  {:WIDE_NAME_WIDTH$} {:<14} {:>8} settlements {:>12}",
            line.reason,
            short(report, &line.gpu_uuid),
            line.count,
            line.held_ms
        )?;
    }
    write_left(page, left)
}

pub(super) fn write_disputed(page: &mut String, report: &Report) -> fmt::Result {
    let left = left_out(report, |left| left.disputed);
    if report.disputed.is_empty() {
        let words = if left > 0 { absent(report, left) } else { "nothing".to_owned() };
        return writeln!(page, "disputed: {words}");
    }
    writeln!(page, "disputed: as the driver gave it, not priced")?;
    for line in &report.disputed {
        writeln!(
            page,
            "{} {:<10} {:>6} settlements {:>20} ms raw",
            name_cell(report, &line.account, line.named_by, NAME_WIDTH),
            line.reason,
            line.count,
            line.raw_ms
        )?;
    }
    write_left(page, left)
}

pub(super) fn write_open(page: &mut String, report: &Report) -> fmt::Result {
    let left = left_out(report, |left| left.open);
    if report.open.is_empty() {
        return writeln!(page, "open: {}", absent(report, left));
    }
    writeln!(page, "open: running still, accrued within the period, not booked")?;
    for open in report.open.iter().take(LINES_SHOWN_MAX) {
        write_open_line(page, report, open)?;
    }
    write_more(page, report.open.len())?;
    write_left(page, left)
}

fn write_open_line(page: &mut String, report: &Report, open: &Open) -> fmt::Result {
    writeln!(
        page,
        "{} {:<12} pid {:<8} so far {:>12}",
        name_cell(report, &open.account, open.named_by, WIDE_NAME_WIDTH),
        short(report, &open.gpu_uuid),
        pid(open.pid),
        or_unknown(open.accrued_ms),
    )?;
    write_unseen(page, open.uncovered_ms)?;
    let mut marks: Vec<String> = open.nameless.iter().map(ToString::to_string).collect();
    marks.extend(open.reason.clone());
    if marks.is_empty() { Ok(()) } else { writeln!(page, "      {}", marks.join(", ")) }
}

/// What of a span fell in time that was not seen, where any did.
fn write_unseen(page: &mut String, uncovered: Option<Ms>) -> fmt::Result {
    match uncovered {
        Some(ms) if ms > Ms::ZERO => {
            writeln!(page, "      of it {ms} where nobody saw who shared it")
        }
        _ => Ok(()),
    }
}

/// A pid; nothing where it is another user's.
fn pid(pid: Option<Pid>) -> String {
    pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())
}

pub(super) fn write_no_driver_row(page: &mut String, report: &Report) -> fmt::Result {
    let left = left_out(report, |left| left.no_driver_row);
    if report.no_driver_row.is_empty() {
        return writeln!(page, "no driver row: {}", absent(report, left));
    }
    writeln!(page, "no driver row: holds or held a GPU and is never billed; it shares")?;
    for one in report.no_driver_row.iter().take(LINES_SHOWN_MAX) {
        write_rowless(page, report, one)?;
    }
    write_more(page, report.no_driver_row.len())?;
    write_left(page, left)
}

fn write_rowless(page: &mut String, report: &Report, one: &NoDriverRow) -> fmt::Result {
    writeln!(
        page,
        "{} {:<12} pid {:<8} seen for {:>12}",
        name_cell(report, &one.account, one.named_by, WIDE_NAME_WIDTH),
        short(report, &one.gpu_uuid),
        pid(one.pid),
        or_unknown(one.seen_ms),
    )?;
    let state = match (one.ended, one.lost) {
        (true, Some(cause)) => format!(", its row was lost: {cause}"),
        (true, None) => ", ended".to_owned(),
        (false, _) => String::new(),
    };
    let memory = one.memory_bytes.map_or("unknown".to_owned(), |held| format!("{held} at first"));
    writeln!(page, "      age {}, memory {memory}{state}", or_unknown(one.age_ms))
}

pub(super) fn write_coverage(page: &mut String, report: &Report) -> fmt::Result {
    let coverage = &report.coverage;
    match (&report.hosts, &coverage.start, &coverage.end) {
        (Some(hosts), ..) => write_received(page, hosts)?,
        (None, Some(start), Some(end)) => {
            let covered = coverage.covered_ms;
            let received = between(report, start, end);
            writeln!(page, "process events {received}\n  {covered} covered")?;
        }
        _ => writeln!(page, "process events: none were received in the period")?,
    }
    for gpu in &report.gpus {
        let at = short(report, &gpu.gpu_uuid);
        match gpu.dead_rows_last {
            // The usual state of a busy host: what went unread is a gap, and stands below.
            Some(seen) if seen >= DEAD_ROWS_KEPT => writeln!(
                page,
                "  {at}: all {DEAD_ROWS_KEPT} dead rows kept are in use, the oldest give way"
            )?,
            Some(seen) => {
                writeln!(
                    page,
                    "  {at}: {seen} of {DEAD_ROWS_KEPT} dead rows kept at the last mark"
                )?;
            }
            None => {}
        }
    }
    for gpu in report.gpus.iter().filter(|gpu| gpu.unread_ms > Ms::ZERO) {
        let at = short(report, &gpu.gpu_uuid);
        writeln!(page, "not read yet: the last {} of {at}", gpu.unread_ms)?;
    }
    let mut all_seen = !report.gpus.is_empty();
    for gpu in &report.gpus {
        let unseen = gpu.uncovered_ms.0.saturating_sub(gpu.unread_ms.0);
        if unseen > 0 {
            all_seen = false;
            writeln!(page, "not seen: {} of {}", Ms(unseen), short(report, &gpu.gpu_uuid))?;
        }
    }
    if coverage.gaps.is_empty() && all_seen {
        writeln!(page, "not seen: nothing; {} causes checked", GapCause::ALL.len())?;
    }
    write_gaps(page, report)
}

/// Gaps by cause and GPU: how many, and what they hide; each of them where there are few.
fn write_gaps(page: &mut String, report: &Report) -> fmt::Result {
    let gaps = &report.coverage.gaps;
    if gaps.is_empty() {
        return Ok(());
    }
    writeln!(page, "gaps:")?;
    for gap in gaps.iter().take(LINES_SHOWN_MAX) {
        let size = gap.size.map_or("unknown size".to_owned(), |size| format!("size {size}"));
        let every = || match &gap.host {
            Some(host) => format!("every GPU of {}", clip(&safe(host), 30)),
            None => "every GPU".to_owned(),
        };
        let of = gap.gpu.as_ref().map_or_else(every, |gpu| short(report, gpu));
        let unseen = between(report, &gap.from, &gap.to);
        writeln!(page, "  {}, {of}, {size}\n    {unseen}", gap.cause)?;
    }
    write_more(page, gaps.len())
}

/// Whether the picture favours short-lived workers.
pub(super) fn write_lifetimes(page: &mut String, report: &Report) -> fmt::Result {
    let classes = &report.lifetime_classes;
    let whole = classes.iter().fold(0_u64, |sum, class| sum.saturating_add(class.span_ms_total.0));
    if classes.iter().all(|class| class.count == 0) {
        return Ok(());
    }
    writeln!(page, "\nwho it was held by, by how long they held (spans added up, overlaps twice)")?;
    if report.left_out.as_ref().is_some_and(|left| left.accounts > 0 || left.unattributed > 0) {
        writeln!(page, "  of the lines above alone")?;
    }
    for class in classes.iter().filter(|class| class.count > 0) {
        writeln!(
            page,
            "  {:WIDE_NAME_WIDTH$} {:>8} {:>14} {:>8}",
            class.words,
            class.count,
            class.span_ms_total,
            percent(class.span_ms_total, Ms(whole)),
        )?;
    }
    Ok(())
}

/// Of one kind, how many were left out as asked.
fn left_out(report: &Report, of: impl Fn(&LeftOut) -> u64) -> u64 {
    report.left_out.as_ref().map_or(0, of)
}

pub(super) fn write_left_out(page: &mut String, report: &Report) -> fmt::Result {
    match &report.left_out {
        Some(left) => writeln!(page, "\n{}", left_out_words(left)),
        None => Ok(()),
    }
}

/// What was left out, all of it.
#[must_use]
pub fn left_out_words(left: &LeftOut) -> String {
    let head = format!("left out as asked: {} GPUs, {} lines", left.gpus, left.accounts);
    if [left.accounts, left.settlements, left.open, left.no_driver_row] == [0; 4] {
        return head;
    }
    format!(
        "{head}; on the GPUs shown\n  {} settlements of {} ms, {} of them \
         unattributed and {} disputed;\n  {} open rows of {}, {} holders without a driver row",
        left.settlements,
        left.span_ms_total,
        left.unattributed,
        left.disputed,
        left.open,
        left.open_ms,
        left.no_driver_row,
    )
}

pub(super) fn write_unknown(page: &mut String, report: &Report) -> fmt::Result {
    let (count, ms) = (report.settlements_total, report.span_ms_total);
    match &report.left_out {
        Some(left) if left.settlements > 0 => writeln!(
            page,
            "\n{} settlements, {} ms on these lines; {count} settlements, {ms} ms in all",
            count.saturating_sub(left.settlements),
            ms.saturating_sub(left.span_ms_total)
        )?,
        _ => writeln!(page, "\n{count} settlements, {ms} ms in all")?,
    }
    if report.unknown.is_empty() {
        return writeln!(page, "unknown 0");
    }
    for line in &report.unknown {
        let gpu = line.gpu.as_ref().map_or("-".to_owned(), |gpu| safe(&gpu.0));
        let code = line.code.map_or("-".to_owned(), |code| code.to_string());
        let call = line.call.as_deref().unwrap_or("-");
        let subject = match &line.host {
            Some(host) => format!("{}: {}", clip(&safe(host), 40), safe(&line.subject)),
            None => safe(&line.subject),
        };
        writeln!(
            page,
            "GPU_LEDGER_UNKNOWN reason={} gpu={gpu} call={call} code={code}",
            line.reason
        )?;
        write_wrapped(page, &subject)?;
        if let Some(remedy) = &line.remedy {
            write_wrapped(page, &safe(remedy))?;
        }
    }
    Ok(())
}
