//! The report for people: at most 80 columns, nothing raw from a process, nothing left out that a
//! reader would need to trust the number above it.

use std::fmt::{self, Write as _};

use crate::bill::Shown;
use crate::rendering::{cell, clip, exact, or_unknown, percent};
use crate::session::report::{Account, Block, Gpu, NoDriverRow, Open, Processes, Report, Settled};
use crate::unit::{Bytes, GpuUuid, Ms};
use crate::unknown::GapCause;

/// Process lines shown under one account; the rest is counted, and whole in `--json`.
const PROCESSES_SHOWN_MAX: usize = 4;
/// What a section says that only a driver could fill.
const NO_DRIVER: &str = "unknown, no driver answered";
/// Columns of the account's name.
const NAME_WIDTH: usize = 22;
/// Dead rows that the driver keeps (open-gpu-kernel-modules 515 to 595, `g_gpu_acct_nvoc.h`).
const DEAD_ROWS_KEPT: u64 = 128;

/// The whole report.
#[must_use]
pub(super) fn render(report: &Report) -> String {
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
    let shown = shown(report);
    if let Some(command) = &report.command {
        let status = match command.exit_status {
            Some(status) => format!("exit status {status}"),
            None => "exit status unknown".to_owned(),
        };
        let words = clip(&command.line, 76 - status.len() - "command ()".len());
        writeln!(page, "\ncommand {words} ({status})")?;
        if let Some(processes) = &command.processes {
            writeln!(page, "  ran: {}", clip(&ran(processes), 72))?;
        }
        let nothing = "held no GPU that the driver has a row for";
        write_block(page, &shown, &command.block, &nothing_settled(report, true, nothing))?;
        writeln!(page, "\nrest of the host")?;
    } else {
        writeln!(page, "\nhost")?;
    }
    write_block(page, &shown, &report.host, &nothing_settled(report, false, "nothing settled"))?;
    write_legend(page, report)?;
    write_unattributed(page, report)?;
    write_disputed(page, report, &shown)?;
    write_open(page, report, &shown)?;
    write_coverage(page, report)
}

/// How accounts are told apart, the same in every section.
fn shown(report: &Report) -> Shown {
    let of_command = report.command.as_ref().map(|command| &command.block);
    let settled = of_command.into_iter().chain([&report.host]).flat_map(|block| &block.accounts);
    let names = (settled.map(|one| (&one.account, one.named_by)))
        .chain(report.disputed.iter().map(|one| (&one.account, one.named_by)))
        .chain(report.open.iter().map(|one| (&one.account, one.named_by)))
        .chain(report.no_driver_row.iter().map(|one| (&one.account, one.named_by)));
    Shown::of_accounts(names.map(|(name, named_by)| (name.as_str(), named_by)))
}

fn write_head(page: &mut String, report: &Report) -> fmt::Result {
    let driver = match (report.driver, &report.driver_version) {
        (Some("simulated"), _) => "SIMULATED DRIVER: no GPU was used".to_owned(),
        (Some(_), Some(version)) => format!("driver {version}"),
        (Some(_), None) => "driver version unknown".to_owned(),
        (None, _) => "no driver answered: see unknown below".to_owned(),
    };
    writeln!(page, "gpu-ledger trace: {driver}")?;
    if report.test_clock {
        writeln!(page, "TEST CLOCK: the wall clock is shifted by GPU_LEDGER_TEST_CLOCK")?;
    }
    Ok(())
}

fn write_statement(page: &mut String, gpu: &Gpu) -> fmt::Result {
    let name = clip(&gpu.gpu_name, 48);
    let whole = gpu.period_ms;
    writeln!(page, "GPU {} {name}, period {}", gpu.gpu_index, exact(whole, whole))?;
    let part = |name: &str, ms: Ms| format!("{name} {} ({})", exact(ms, whole), percent(ms, whole));
    writeln!(
        page,
        "  {} + {}\n  + {} + {} = period",
        part("alone", gpu.alone_ms),
        part("shared", gpu.shared_ms),
        part("free", gpu.free_ms),
        part("uncovered", gpu.uncovered_ms),
    )
}

/// What stands where a table would be empty: that nothing was held only where somebody would have seen it.
fn nothing_settled(report: &Report, of_command: bool, seen: &str) -> String {
    // What runs on is no more than not settled yet.
    let open = report.open.iter().filter(|open| open.of_command == of_command).count();
    let words = match (report.driver, report.events) {
        (None, _) => "not known: no driver answered",
        (Some(_), None) => "not known: no process could be named",
        (Some(_), Some(_)) if open > 0 => {
            return format!("nothing settled; {open} open, see below");
        }
        (Some(_), Some(_)) if report.gpus.iter().any(|gpu| gpu.uncovered_ms > Ms::ZERO) => {
            "nothing that was seen: a GPU is uncovered in part"
        }
        (Some(_), Some(_)) if !report.no_driver_row.is_empty() => "nothing settled",
        (Some(_), Some(_)) => seen,
    };
    words.to_owned()
}

/// What the columns mean, where there is a table.
fn write_legend(page: &mut String, report: &Report) -> fmt::Result {
    let of_command = report.command.as_ref().map(|command| &command.block);
    if of_command.into_iter().chain([&report.host]).all(|block| block.accounts.is_empty()) {
        return Ok(());
    }
    writeln!(
        page,
        "\nan account's held is within the period; alone: no other account held the GPU.\n\
         a line pid@gpu is one whole row; alone: no other process held the GPU."
    )
}

fn write_block(page: &mut String, shown: &Shown, block: &Block, empty: &str) -> fmt::Result {
    if block.accounts.is_empty() {
        return writeln!(page, "  {empty}");
    }
    writeln!(
        page,
        "  {:NAME_WIDTH$} {:>5} {:>9} {:>9} {:>9} {:>10} {:>8}",
        "account", "count", "held", "alone", "shared", "busy", "peak"
    )?;
    for account in &block.accounts {
        let own: Vec<&Settled> = block
            .settlements
            .iter()
            .filter(|one| (&one.account, one.named_by) == (&account.account, account.named_by))
            .collect();
        write_account(page, shown, account, &own)?;
    }
    Ok(())
}

/// The command's processes by program: `whisper-cli 200, sh 1`.
fn ran(processes: &[Processes]) -> String {
    if processes.is_empty() {
        return "nothing".to_owned();
    }
    let words = processes.iter().map(|one| {
        let running = match one.running {
            0 => String::new(),
            running => format!(" ({running} still running)"),
        };
        format!("{} {}{running}", one.program, one.ended.saturating_add(one.running))
    });
    words.collect::<Vec<_>>().join(", ")
}

fn write_account(
    page: &mut String,
    shown: &Shown,
    account: &Account,
    own: &[&Settled],
) -> fmt::Result {
    writeln!(
        page,
        "{} {:>5} {:>9} {:>9} {:>9} {:>10} {:>8}",
        shown.cell("  ", &shown.called(&account.account, account.named_by), NAME_WIDTH),
        account.settlements,
        account.held_ms,
        account.alone_ms,
        account.shared_ms,
        busy(own),
        peak(own),
    )?;
    if account.uncovered_ms > Ms::ZERO {
        writeln!(page, "    of that {} where nobody saw who shared it", account.uncovered_ms)?;
    }
    let mut own = own.to_vec();
    own.sort_by_key(|one| std::cmp::Reverse(one.held_ms));
    for one in own.iter().take(PROCESSES_SHOWN_MAX) {
        let basis = match (one.basis, one.reason) {
            (Some(basis), _) => basis.as_str(),
            (None, Some(reason)) => reason.as_str(),
            (None, None) => "unknown",
        };
        let name = format!("  {}@{} {basis}", one.pid, one.gpu_index);
        writeln!(
            page,
            "  {} {:>5} {:>9} {:>9} {:>9} {:>10} {:>8}",
            cell(&name, NAME_WIDTH),
            "",
            one.held_ms,
            one.alone_ms,
            one.shared_ms,
            busy(&[*one]),
            peak(&[*one]),
        )?;
        // The columns above fill the line.
        let mut marks: Vec<String> = one.flags.iter().map(ToString::to_string).collect();
        marks.extend(one.dispute.map(|why| format!("DISPUTED {why}")));
        if !marks.is_empty() {
            writeln!(page, "      {}", marks.join(", "))?;
        }
    }
    match own.len().checked_sub(PROCESSES_SHOWN_MAX) {
        Some(more) if more > 0 => writeln!(page, "    … {more} more, all of them in --json"),
        _ => Ok(()),
    }
}

/// The busy range in percent of the time held; `unknown` where one settlement's is.
fn busy(own: &[&Settled]) -> String {
    let mut sums = (0_u64, 0_u64, 0_u64);
    for one in own {
        let (Some(low), Some(high)) = (one.busy_ms_low, one.busy_ms_high) else {
            return "no samples".to_owned();
        };
        sums.0 = sums.0.saturating_add(low.0);
        sums.1 = sums.1.saturating_add(high.0);
        sums.2 = sums.2.saturating_add(one.held_ms.0);
    }
    let (low, high, held) = sums;
    let of_held = |ms: u64| ms.saturating_mul(100).checked_div(held);
    match (of_held(low), of_held(high)) {
        // What was held for less than a millisecond has no percentage.
        (None, _) | (_, None) => "no samples".to_owned(),
        (Some(0), Some(0 | 1)) => "<1 %".to_owned(),
        (Some(low), Some(high)) if low == high => format!("{low} %"),
        (Some(low), Some(high)) => format!("{low}..{high} %"),
    }
}

/// The largest peak; a single unknown among them makes the largest unknown too.
fn peak(own: &[&Settled]) -> String {
    let peaks: Option<Vec<Bytes>> = own.iter().map(|one| one.max_memory_bytes).collect();
    match peaks.and_then(|peaks| peaks.into_iter().max()) {
        Some(bytes) => bytes.to_string(),
        None => "unknown".to_owned(),
    }
}

fn write_unattributed(page: &mut String, report: &Report) -> fmt::Result {
    if report.unattributed.is_empty() {
        let nothing = if report.driver.is_none() { NO_DRIVER } else { "nothing" };
        return writeln!(page, "\nunattributed: {nothing}");
    }
    writeln!(page, "\nunattributed")?;
    for line in &report.unattributed {
        let gpu = index_of(report, &line.gpu_uuid);
        writeln!(
            page,
            "  {:<26} GPU {gpu} {:>8} settlements {:>12}",
            line.reason, line.count, line.held_ms
        )?;
    }
    Ok(())
}

fn write_disputed(page: &mut String, report: &Report, shown: &Shown) -> fmt::Result {
    if report.disputed.is_empty() {
        return Ok(());
    }
    writeln!(page, "disputed: as the driver gave it, not priced")?;
    for line in &report.disputed {
        let name = shown.cell("  ", &shown.called(&line.account, line.named_by), NAME_WIDTH);
        writeln!(
            page,
            "{name} {:<10} {:>8} settlements {:>20} ms raw",
            line.reason, line.count, line.raw_ms
        )?;
    }
    Ok(())
}

fn index_of(report: &Report, uuid: &GpuUuid) -> String {
    let gpu = report.gpus.iter().find(|gpu| gpu.gpu_uuid == *uuid);
    gpu.map_or_else(|| uuid.to_string(), |gpu| gpu.gpu_index.to_string())
}

fn write_open(page: &mut String, report: &Report, shown: &Shown) -> fmt::Result {
    if report.open.is_empty() && report.no_driver_row.is_empty() {
        let nothing = if report.driver.is_none() { NO_DRIVER } else { "nothing" };
        return writeln!(page, "open: {nothing}");
    }
    if !report.open.is_empty() {
        writeln!(page, "open: not final yet, accrued and not booked")?;
    }
    for open in &report.open {
        write_open_line(page, open, shown)?;
    }
    if !report.no_driver_row.is_empty() {
        writeln!(page, "no driver row: holds or held a GPU, and no row of it could be read")?;
    }
    for one in &report.no_driver_row {
        let age = or_unknown(one.age_ms);
        let memory = or_unknown(one.memory_bytes);
        writeln!(
            page,
            "{} pid {:<8} age {age:>10}  holds {memory}",
            shown.cell("  ", &shown.called(&one.account, one.named_by), NAME_WIDTH),
            one.pid
        )?;
        write_how_long(page, one)?;
    }
    Ok(())
}

/// Beside the rest there is no room for it.
fn write_how_long(page: &mut String, one: &NoDriverRow) -> fmt::Result {
    let seen = or_unknown(one.seen_ms);
    let held = if one.ended { "held" } else { "holds it, so far" };
    match one.lost {
        Some(cause) => writeln!(page, "      {held} {seen}; its row was lost: {cause}"),
        None => writeln!(page, "      {held} {seen}"),
    }
}

fn write_open_line(page: &mut String, open: &Open, shown: &Shown) -> fmt::Result {
    let accrued = or_unknown(open.accrued_ms);
    let memory = or_unknown(open.memory_bytes);
    writeln!(
        page,
        "{} pid {:<8} so far {accrued:>9}  holds {memory}",
        shown.cell("  ", &shown.called(&open.account, open.named_by), NAME_WIDTH),
        open.pid
    )?;
    // Beside the rest there is no room for the longest of them.
    open.reason.as_ref().map_or(Ok(()), |reason| writeln!(page, "      {reason}"))
}

fn write_coverage(page: &mut String, report: &Report) -> fmt::Result {
    let coverage = &report.coverage;
    writeln!(page, "process events {} to {}", coverage.start, coverage.end)?;
    match report.events {
        Some(events) => writeln!(
            page,
            "  {} covered; events: {} produced = {} received + {} lost",
            coverage.covered_ms, events.produced, events.received, events.lost
        )?,
        None => writeln!(page, "  none received: no process could be named by its events")?,
    }
    for gpu in &report.gpus {
        match gpu.dead_rows_seen_max {
            Some(seen) => writeln!(
                page,
                "  GPU {}: at most {seen} of {DEAD_ROWS_KEPT} dead rows seen at once{}",
                gpu.gpu_index,
                if seen >= DEAD_ROWS_KEPT { ", the oldest give way" } else { "" }
            )?,
            None => writeln!(page, "  GPU {}: rows unknown", gpu.gpu_index)?,
        }
        write_reading(page, gpu)?;
    }
    write_touch(page, report)?;
    if report.driver.is_none() {
        writeln!(page, "not seen: what any GPU was used for; no driver answered")?;
    }
    for gpu in report.gpus.iter().filter(|gpu| gpu.uncovered_ms > Ms::ZERO) {
        writeln!(page, "not seen: {} of GPU {}", gpu.uncovered_ms, gpu.gpu_index)?;
    }
    let all_seen = report.gpus.iter().all(|gpu| gpu.uncovered_ms == Ms::ZERO);
    if coverage.gaps.is_empty() && report.driver.is_some() && all_seen {
        writeln!(page, "not seen: nothing; {} causes checked", GapCause::ALL.len())?;
    } else if !coverage.gaps.is_empty() {
        writeln!(page, "not seen:")?;
        for gap in &coverage.gaps {
            let size = gap.size.map_or("unknown size".to_owned(), |size| format!("size {size}"));
            let of_gpu = gap.gpu.as_ref().map(|gpu| format!("GPU {}: ", index_of(report, gpu)));
            let of_gpu = of_gpu.unwrap_or_default();
            writeln!(page, "  {of_gpu}{}, {size}\n    {} to {}", gap.cause, gap.from, gap.to)?;
        }
    }
    write_unknown(page, report)
}

fn write_reading(page: &mut String, gpu: &Gpu) -> fmt::Result {
    let reading = &gpu.reading;
    writeln!(
        page,
        "  GPU {}: {} reads, {} driver calls, {}.{:03} ms of CPU, slowest {}.{:03} ms",
        gpu.gpu_index,
        reading.reads,
        reading.calls,
        reading.cpu_us / 1_000,
        reading.cpu_us % 1_000,
        reading.call_latency_us_max / 1_000,
        reading.call_latency_us_max % 1_000,
    )?;
    if reading.busy_disagreements > 0 {
        writeln!(
            page,
            "  GPU {}: in {} reads busy samples of processes and device contradict each other",
            gpu.gpu_index, reading.busy_disagreements
        )?;
    }
    Ok(())
}

fn write_touch(page: &mut String, report: &Report) -> fmt::Result {
    let touch = &report.device_touch;
    let counts = (touch.touched, touch.without_row, touch.rows_untouched);
    if let (Some(touched), Some(without), Some(untouched)) = counts {
        return writeln!(
            page,
            "  device opens: {touched} processes, {without} ended without a row; \
             {untouched} rows of others"
        );
    }
    if touch.on {
        return writeln!(page, "  device opens: not counted, since process events were lost");
    }
    let why = touch.off_because.as_deref().unwrap_or("not asked for");
    writeln!(page, "  device-touch off: {}", clip(why, 58))
}

fn write_unknown(page: &mut String, report: &Report) -> fmt::Result {
    if report.unknown.is_empty() {
        writeln!(page, "unknown 0")?;
    }
    for line in &report.unknown {
        let gpu = line.gpu.as_ref().map_or("-", |gpu| &gpu.0);
        let code = line.code.map_or("-".to_owned(), |code| code.to_string());
        writeln!(
            page,
            "GPU_LEDGER_UNKNOWN reason={} gpu={gpu} call={} code={code}",
            line.reason,
            line.call.unwrap_or("-")
        )?;
    }
    match report.missed_in_coverage {
        Some(0) => writeln!(page, "missed_in_coverage 0"),
        Some(missed) => writeln!(
            page,
            "missed_in_coverage {missed}: a bug of gpu-ledger, please report it with --json"
        ),
        None => writeln!(
            page,
            "missed_in_coverage unknown: without rows or without events nobody can say"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::report::Disputed;
    use crate::unit::Pid;
    use crate::unknown::DisputeReason;

    #[test]
    fn containers_that_begin_alike_are_told_apart_in_every_section() {
        let docker = |end: &str| format!("docker 3f2a9c0d1e4b{end}{}", "0".repeat(51));
        let gpu_uuid = GpuUuid("GPU-0".into());
        let report = Report {
            disputed: vec![Disputed {
                gpu_uuid: gpu_uuid.clone(),
                account: docker("a"),
                named_by: None,
                of_command: false,
                reason: DisputeReason::ClockStep,
                count: 1,
                raw_ms: 9,
            }],
            open: vec![Open {
                gpu_uuid,
                pid: Pid(7),
                start_time_us: None,
                accrued_ms: Some(Ms(5)),
                memory_bytes: None,
                account: docker("b"),
                named_by: None,
                of_command: false,
                reason: None,
            }],
            ..Report::default()
        };
        let page = render(&report);
        for line in ["\n  docker 3f2a9c0d1e4ba0… clock-step ", "\n  docker 3f2a9c0d1e4bb0… pid 7 "]
        {
            assert!(page.contains(line), "{line:?} is not in\n{page}");
        }
    }
}
