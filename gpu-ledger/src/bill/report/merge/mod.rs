//! One bill of several hosts, from the bill of each.
//!
//! No GPU is in two hosts at a time, so statements stand beside each other, and what an account held is the sum of
//! what it held on each. Accounts are one by their names; users by their ids and names, as an id is another
//! person's on another host; GPUs are told apart by their hosts.
//!
//! The order in which the parts come says nothing. A bill of one host is that host's own.

mod lines;

use std::collections::BTreeMap;

use serde::Serialize;

use self::lines::{Ranks, accounts};
use super::assemble::{Made, made, shown};
use super::coverage::moment;
use super::left_out::{Unmet, shown as shown_sums};
use super::memory::most_first;
use super::priced::merged;
use super::{
    Ask, CoverageLines, Head, JournalHead, LeftOut, LifetimeClass, MemoryHeld, Outside,
    ReadingLine, Report,
};
use crate::bill::chosen::no_such_line;
use crate::bill::{BillError, Ledger, LineName};
use crate::journal::chain::sha256;
use crate::unit::{GpuUuid, Ms, Span};

/// What the SHA-256 begins with that names a bill of several hosts.
const DOMAIN: &str = "gpu-ledger-bill of hosts 1\n";

/// One host on a bill of several.
#[derive(Clone, Debug, Serialize)]
pub struct HostLine {
    /// Its name; null where no entry has it.
    pub host: Option<String>,
    /// Which journal: hex, made with it.
    pub journal: String,
    /// Of its own bill: of the same period, made in the same way.
    pub bill_id: String,
    /// Up to when its journal speaks (RFC 3339); null where it has no entry.
    pub as_of: Option<String>,
    /// Where its journal ended.
    pub journal_head: Option<JournalHead>,
    /// How its entries came to whoever made this bill.
    pub reading: ReadingLine,
    /// `real` or `simulated`; null where no entry says.
    pub driver: Option<String>,
    /// Driver version; null where no entry says.
    pub driver_version: Option<String>,
    /// Its GPUs that are on the bill.
    pub gpus: Vec<GpuUuid>,
    /// What of the period lies outside of what was given of it: uncovered, and UNKNOWN.
    pub not_here: Vec<Stretch>,
    /// When and what could be seen; its gaps stand under `coverage.gaps`.
    pub covered_ms: Ms,
    /// The first moment of the period at which process events were received (RFC 3339); null where none were.
    pub covered_from: Option<String>,
    /// The last one.
    pub covered_to: Option<String>,
    /// Settlements that meet the period.
    pub settlements_total: u64,
    /// Their milliseconds.
    pub span_ms_total: u128,
    /// Up to when it speaks, in the period's zone, for people.
    #[serde(skip)]
    pub local_as_of: Option<String>,
}

/// A stretch of time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stretch {
    /// Its first moment (RFC 3339).
    pub from: String,
    /// The first moment after it.
    pub to: String,
}

/// The bill of one host, and what a bill of several is made of beside it.
#[derive(Clone, Debug)]
pub struct Part {
    report: Report,
    lines: Vec<LineName>,
    told: BTreeMap<GpuUuid, Vec<Span>>,
    unmet: Unmet,
    users: BTreeMap<u32, String>,
    journal: String,
    as_of_ms: Option<u64>,
    not_here: Vec<Span>,
}

/// Makes the bill of one host among several. `journal`: in hex, which one it is of.
///
/// # Errors
/// Those of [`super::report()`], but for names that no line has: another host may have them.
pub fn part(
    ledger: &Ledger,
    ask: &Ask,
    head: Head,
    outside: &Outside,
    journal: String,
) -> Result<Part, BillError> {
    let Made { report, lines, told, unmet } = made(ledger, ask, head, outside)?;
    let not_here = ledger.not_here(report.period.span);
    let users = outside.users.clone();
    let as_of_ms = ledger.as_of_ms();
    Ok(Part { report, lines, told, unmet, users, journal, as_of_ms, not_here })
}

/// Makes one bill of the hosts, all of them asked the same; `None` of none.
///
/// # Errors
/// [`BillError::SameGpu`] where two journals tell of one GPU at one time; [`BillError::NoSuchLine`] where no line of
/// any host is called so; [`BillError::Overflow`], and [`BillError::Lines`] where the sum does not close.
pub fn merge(mut parts: Vec<Part>) -> Result<Option<Report>, BillError> {
    parts.sort_by(|a, b| {
        (&a.report.host, &a.journal, &a.report.bill_id).cmp(&(
            &b.report.host,
            &b.journal,
            &b.report.bill_id,
        ))
    });
    every_name_is_somewhere(&parts)?;
    if parts.len() < 2 {
        return Ok(parts.pop().map(|part| part.report));
    }
    every_gpu_is_one_hosts(&parts)?;
    let ranks = Ranks::of(&parts);
    for part in &mut parts {
        ranks.apply(part);
    }
    let hosts: Vec<HostLine> = parts.iter().map(host_line).collect();
    let as_of_ms = parts.iter().map(|part| part.as_of_ms).min().flatten();
    let first_as_of = parts.iter().find(|part| part.as_of_ms == as_of_ms);
    let local_as_of = first_as_of.and_then(|part| part.report.period.local_as_of.clone());
    let bill_id = bill_id(&hosts);
    let mut reports = parts.into_iter().map(named);
    let Some(mut whole) = reports.next() else { return Ok(None) };
    for report in reports {
        add(&mut whole, report)?;
    }
    whole.bill_id = bill_id;
    whole.as_of = as_of_ms.map(moment);
    whole.period.local_as_of = local_as_of;
    (whole.journal_head, whole.host) = (None, None);
    whole.driver = driver(&hosts);
    whole.driver_version = same(hosts.iter().map(|host| host.driver_version.as_ref())).cloned();
    whole.hosts = Some(hosts);
    whole.accounts = accounts(std::mem::take(&mut whole.accounts), whole.memory.is_told())?;
    most_first(&mut whole.memory.lines);
    if let Some(settlements) = &mut whole.settlements {
        settlements.sort_by_key(|one| (one.start_time_us, one.seq));
    }
    if let Some(priced) = &mut whole.priced {
        merged(priced, &whole.gpus)?;
    }
    whole.shown = shown(&whole, &ranks.names());
    close(&whole)?;
    Ok(Some(whole))
}

/// A name that no host has is none.
fn every_name_is_somewhere(parts: &[Part]) -> Result<(), BillError> {
    let Some(first) = parts.first() else { return Ok(()) };
    let is_nowhere = |word: &&String| parts.iter().all(|part| part.unmet.words.contains(word));
    match first.unmet.words.iter().find(is_nowhere) {
        None => Ok(()),
        Some(word) => {
            let known = parts.iter().flat_map(|part| &part.unmet.known);
            Err(no_such_line(word, known.map(String::as_str)))
        }
    }
}

/// Time of one GPU that two journals tell of would be billed twice.
fn every_gpu_is_one_hosts(parts: &[Part]) -> Result<(), BillError> {
    let mut told: BTreeMap<&GpuUuid, Vec<(Span, &Part)>> = BTreeMap::new();
    for part in parts {
        for (gpu, spans) in &part.told {
            told.entry(gpu).or_default().extend(spans.iter().map(|span| (*span, part)));
        }
    }
    for (gpu, mut spans) in told {
        spans.sort_by_key(|(span, _)| (span.from_ms(), span.to_ms()));
        // What one journal tells does not overlap itself.
        for (one, other) in spans.iter().zip(spans.iter().skip(1)) {
            if let Some(both) = one.0.overlap(other.0) {
                let name = |part: &Part| {
                    let host = part.report.host.as_deref().unwrap_or("unknown host");
                    let journal: String = part.journal.chars().take(8).collect();
                    format!("{} (journal {journal})", crate::escape::printable(host.as_bytes()))
                };
                return Err(BillError::SameGpu {
                    gpu: gpu.clone(),
                    hosts: [name(one.1), name(other.1)],
                    from: moment(both.from_ms()),
                    to: moment(both.to_ms()),
                });
            }
        }
    }
    Ok(())
}

fn host_line(part: &Part) -> HostLine {
    let report = &part.report;
    let stretch = |span: &Span| Stretch { from: moment(span.from_ms()), to: moment(span.to_ms()) };
    HostLine {
        host: report.host.clone(),
        journal: part.journal.clone(),
        bill_id: report.bill_id.clone(),
        as_of: report.as_of.clone(),
        journal_head: report.journal_head.clone(),
        reading: report.reading.clone(),
        driver: report.driver.clone(),
        driver_version: report.driver_version.clone(),
        gpus: report.gpus.iter().map(|gpu| gpu.gpu_uuid.clone()).collect(),
        not_here: part.not_here.iter().map(stretch).collect(),
        covered_ms: report.coverage.covered_ms,
        covered_from: report.coverage.start.clone(),
        covered_to: report.coverage.end.clone(),
        settlements_total: report.settlements_total,
        span_ms_total: report.span_ms_total,
        local_as_of: report.period.local_as_of.clone(),
    }
}

/// The bill's id: of the bills that it is made of.
fn bill_id(hosts: &[HostLine]) -> String {
    let mut text = DOMAIN.to_owned();
    for host in hosts {
        text.push_str(&host.journal);
        text.push(' ');
        text.push_str(&host.bill_id);
        text.push('\n');
    }
    sha256(text.as_bytes()).to_string().chars().take(16).collect()
}

/// The report of a host, with the host on everything that only says which GPU it is of, or none.
fn named(part: Part) -> Report {
    let mut report = part.report;
    let host = report.host.clone().or_else(|| Some("unknown host".to_owned()));
    report.gpus.iter_mut().for_each(|gpu| gpu.host.clone_from(&host));
    report.unknown.iter_mut().for_each(|line| line.host.clone_from(&host));
    report.coverage.gaps.iter_mut().for_each(|gap| gap.host.clone_from(&host));
    report
}

fn driver(hosts: &[HostLine]) -> Option<String> {
    let simulated = hosts.iter().find(|host| host.driver.as_deref() == Some("simulated"));
    match simulated {
        Some(host) => host.driver.clone(),
        None => same(hosts.iter().map(|host| host.driver.as_ref())).cloned(),
    }
}

/// What all of them are.
fn same<'s>(mut all: impl Iterator<Item = Option<&'s String>>) -> Option<&'s String> {
    let first = all.next().flatten()?;
    all.all(|other| other == Some(first)).then_some(first)
}

/// One more host.
fn add(whole: &mut Report, more: Report) -> Result<(), BillError> {
    let Report {
        reading,
        clock_behind,
        gpus,
        accounts,
        unattributed,
        open,
        unknown,
        disputed,
        no_driver_row,
        lifetime_classes,
        settlements,
        settlements_total,
        span_ms_total,
        undivided_ms,
        memory,
        priced,
        coverage,
        left_out,
        ..
    } = more;
    add_reading(&mut whole.reading, &reading);
    whole.clock_behind = whole.clock_behind.take().or(clock_behind);
    whole.gpus.extend(gpus);
    whole.accounts.extend(accounts);
    whole.unattributed.extend(unattributed);
    whole.open.extend(open);
    whole.unknown.extend(unknown);
    whole.disputed.extend(disputed);
    whole.no_driver_row.extend(no_driver_row);
    add_classes(&mut whole.lifetime_classes, &lifetime_classes);
    if let (Some(all), Some(more)) = (&mut whole.settlements, settlements) {
        all.extend(more);
    }
    whole.settlements_total = whole.settlements_total.saturating_add(settlements_total);
    whole.span_ms_total = whole.span_ms_total.saturating_add(span_ms_total);
    whole.undivided_ms = match (whole.undivided_ms, undivided_ms) {
        (Some(one), Some(other)) => {
            let overflow = BillError::Overflow { what: "shared time" };
            Some(one.checked_add(other).ok_or(overflow)?)
        }
        (one, other) => one.or(other),
    };
    let MemoryHeld { gpus, lines, processes, .. } = memory;
    whole.memory.gpus.extend(gpus);
    whole.memory.lines.extend(lines);
    if let (Some(all), Some(more)) = (&mut whole.memory.processes, processes) {
        all.extend(more);
    }
    if let (Some(all), Some(more)) = (&mut whole.priced, priced) {
        // A price is of no GPU where no host has one that it is of.
        all.unmatched.retain(|one| {
            more.unmatched.iter().any(|other| (&other.gpu, other.line) == (&one.gpu, one.line))
        });
        all.lines.extend(more.lines);
    }
    let CoverageLines { covered_ms, gaps, .. } = coverage;
    (whole.coverage.start, whole.coverage.end) = (None, None);
    let covered = whole.coverage.covered_ms.checked_add(covered_ms);
    whole.coverage.covered_ms = covered.ok_or(BillError::Overflow { what: "covered time" })?;
    whole.coverage.gaps.extend(gaps);
    match (&mut whole.left_out, left_out) {
        (Some(all), Some(more)) => add_left_out(all, &more),
        (all, more) => *all = all.take().or(more),
    }
    Ok(())
}

fn add_reading(whole: &mut ReadingLine, more: &ReadingLine) {
    whole.proven = whole.proven.max(more.proven);
    whole.end_witnessed &= more.end_witnessed;
    whole.missing_to = whole.missing_to.max(more.missing_to);
}

fn add_classes(whole: &mut [LifetimeClass], more: &[LifetimeClass]) {
    for (sum, of) in whole.iter_mut().zip(more) {
        sum.count = sum.count.saturating_add(of.count);
        sum.span_ms_total = Ms(sum.span_ms_total.0.saturating_add(of.span_ms_total.0));
    }
}

fn add_left_out(whole: &mut LeftOut, more: &LeftOut) {
    for (sum, of) in [
        (&mut whole.gpus, more.gpus),
        (&mut whole.accounts, more.accounts),
        (&mut whole.settlements, more.settlements),
        (&mut whole.unattributed, more.unattributed),
        (&mut whole.disputed, more.disputed),
        (&mut whole.open, more.open),
        (&mut whole.open_ms.0, more.open_ms.0),
        (&mut whole.no_driver_row, more.no_driver_row),
    ] {
        *sum = sum.saturating_add(of);
    }
    whole.span_ms_total = whole.span_ms_total.saturating_add(more.span_ms_total);
}

/// Every GPU's parts are its period, and the lines are all settlements.
fn close(report: &Report) -> Result<(), BillError> {
    for gpu in &report.gpus {
        let parts = [gpu.shared_ms, gpu.free_ms, gpu.uncovered_ms];
        if parts.into_iter().try_fold(gpu.alone_ms, Ms::checked_add) != Some(gpu.period_ms) {
            return Err(BillError::Statement {
                period: report.period.span,
                alone: gpu.alone_ms,
                shared: gpu.shared_ms,
                free: gpu.free_ms,
                uncovered: gpu.uncovered_ms,
            });
        }
    }
    let (mut count, mut held_ms) = shown_sums(report);
    if let Some(left) = &report.left_out {
        count = count.saturating_add(left.settlements);
        held_ms = held_ms.saturating_add(left.span_ms_total);
    }
    if (count, held_ms) == (report.settlements_total, report.span_ms_total) {
        return Ok(());
    }
    Err(BillError::Lines {
        lines_count: count,
        lines_held_ms: held_ms,
        gpus_count: report.settlements_total,
        gpus_held_ms: report.span_ms_total,
    })
}
