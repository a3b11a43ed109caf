//! From a watched host to its report. The figures are the bill's; here they only find their fields.

mod running;
mod surroundings;

use std::collections::BTreeMap;
use std::process::ExitStatus;

use base64::Engine as _;

use crate::bill::{Bill, GpuBooks, GpuLine, Line, Parts, UnattributedLine, bill, booked};
use crate::clock::Stamp;
use crate::escape::escape;
use crate::identity::{ImageContent, argv_words};
use crate::kernel::ArgvState;
use crate::session::TraceOptions;
use crate::session::report::{self, Account as AccountLine, Block, Command, Report, Settled};
use crate::session::rows::GpuRows;
use crate::session::watch::{Entry, Watch};
use crate::settlement::Account;
use crate::unit::{Ms, Span};
use crate::unknown::NamelessReason;

/// An account within its part of the host: the command's `python` is another account than the
/// rest of the host's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Party {
    of_command: bool,
    account: Account,
}

impl Line for Party {
    fn unattributed(&self) -> Option<NamelessReason> {
        self.account.unattributed()
    }
}

/// Stops the watching and says what came of it.
pub(super) fn report(
    options: &TraceOptions,
    watch: &mut Watch,
    began: Stamp,
    status: Option<ExitStatus>,
) -> anyhow::Result<Report> {
    let events = watch.processes.stop();
    let period = period(watch, began);
    let open = running::open_rows(watch, period);
    let rowless = running::rowless(watch, period);
    let mut books: Vec<GpuBooks<Party>> = Vec::new();
    for (uuid, gpu) in &watch.gpus {
        let settled = watch.entries.iter().filter(|entry| entry.settlement.row.gpu == *uuid);
        let running = open.iter().chain(&rowless).filter(|one| one.gpu == *uuid);
        books.push(GpuBooks {
            gpu: uuid.clone(),
            settlements: settled.map(|entry| booked(&entry.settlement, party(entry))).collect(),
            running: running.filter_map(|one| one.holding.clone()).collect(),
            uncovered: surroundings::uncovered(watch, gpu, period),
        });
    }
    let bill = bill(period, &books)?;
    let (command, host) = blocks(watch, &bill);
    let argv = options.argv.iter().map(|word| text_of(word.as_encoded_bytes()));
    let driver = watch.driver.as_ref().map(|(facts, _)| facts);
    Ok(Report {
        format: report::FORMAT,
        version: report::VERSION,
        driver: driver.map(|facts| facts.kind.as_str()),
        driver_version: driver.and_then(|facts| facts.version.clone().ok()),
        test_clock: watch.clock.is_shifted(),
        command: (!options.argv.is_empty()).then(|| Command {
            argv: argv.collect(),
            exit_status: status.map(super::exit_status_of),
            processes: events.map(|_| processes(watch)),
            block: command,
        }),
        host,
        gpus: watch.gpus.values().zip(&bill.gpus).map(|(gpu, line)| statement(gpu, line)).collect(),
        unattributed: bill.unattributed.iter().map(unattributed).collect(),
        disputed: disputed(watch),
        open: open.iter().map(running::Running::open).collect(),
        no_driver_row: rowless.iter().map(running::Running::no_driver_row).collect(),
        unknown: surroundings::unknown_lines(watch),
        // Without rows there was nothing to miss, and nobody knows what would have been.
        missed_in_coverage: events.and(driver).map(|_| surroundings::missed(watch)),
        events,
        device_touch: surroundings::device_touch(watch),
        coverage: surroundings::coverage(watch),
    })
}

/// What ran under the command, most first.
fn processes(watch: &Watch) -> Vec<report::Processes> {
    let programs = watch.programs_of_command().into_iter();
    let mut processes: Vec<report::Processes> = programs
        .map(|(program, (ended, running))| report::Processes { program, ended, running })
        .collect();
    processes.sort_by_key(|one| std::cmp::Reverse(one.ended.saturating_add(one.running)));
    processes
}

/// From the first reads' end to the beginning of the oldest of the last ones: in between
/// every GPU's rows were in sight.
fn period(watch: &Watch, began: Stamp) -> Span {
    // A GPU that could not be read at the end has an uncovered tail, and cuts nobody else's period.
    let read_at_the_end = |read: &Stamp| watch.finishing.is_none_or(|asked| read.boot >= asked);
    let last = || watch.gpus.values().filter_map(|gpu| gpu.last_good).map(|window| window.began);
    let ended = last().filter(read_at_the_end).min().or_else(|| last().max());
    let ended = ended.filter(|read| read.boot >= began.boot);
    let ended = ended.unwrap_or_else(|| watch.clock.now());
    let from_ms = began.wall.ms();
    let stepped = watch.processes.history.stepped_between(began.boot, ended.boot);
    let by_wall = Span::new(from_ms, ended.wall.ms()).filter(|_| !stepped);
    // A stepped wall clock says nothing of how long the trace took; the boot clock does.
    let elapsed_ms = ended.boot.0.saturating_sub(began.boot.0) / 1_000_000;
    let by_boot = || Span::new(from_ms, from_ms.saturating_add(elapsed_ms));
    by_wall.or_else(by_boot).unwrap_or_else(|| Span::at(from_ms))
}

fn party(entry: &Entry) -> Party {
    Party { of_command: entry.of_command, account: entry.account.clone() }
}

/// The command's part and the rest of the host.
fn blocks(watch: &Watch, bill: &Bill<Party>) -> (Block, Block) {
    let (mut command, mut host) = (Block::default(), Block::default());
    for line in &bill.accounts {
        if line.settlements == 0 {
            // What only runs or has no row stands under `open` and `no_driver_row`.
            continue;
        }
        let block = if line.account.of_command { &mut command } else { &mut host };
        block.accounts.push(AccountLine {
            account: line.account.account.to_string(),
            settlements: line.settlements,
            held_ms: line.settled.held(),
            alone_ms: line.settled.alone,
            shared_ms: line.settled.shared,
            uncovered_ms: line.settled.uncovered,
            span_ms_total: line.span_total,
        });
    }
    for (gpu, line) in watch.gpus.values().zip(&bill.gpus) {
        let of_gpu =
            watch.entries.iter().filter(|entry| entry.settlement.row.gpu == gpu.facts.uuid);
        for (entry, parts) in of_gpu.zip(&line.settlements) {
            let block = if entry.of_command { &mut command } else { &mut host };
            block.settlements.push(settled(gpu, entry, parts.unwrap_or(Parts::NONE)));
        }
    }
    for block in [&mut command, &mut host] {
        block.accounts.sort_by(|a, b| b.held_ms.cmp(&a.held_ms).then(a.account.cmp(&b.account)));
        block.settlements.sort_by_key(|one| (one.start_time_us, one.pid));
    }
    (command, host)
}

fn settled(gpu: &GpuRows, entry: &Entry, parts: Parts) -> Settled {
    let settlement = &entry.settlement;
    let named = settlement.attribution.named();
    let content = named.map(|named| &*named.image.content);
    let seen = parts.alone.0.saturating_add(parts.shared.0);
    // A percentage of a span that contradicts the clock is none.
    let busy = settlement.busy.as_ref().filter(|_| settlement.dispute.is_none());
    let uncovered = match settlement.dispute {
        None => Ms(settlement.row.held.0.saturating_sub(seen)),
        Some(_) => parts.uncovered,
    };
    Settled {
        id: settlement.id.to_string(),
        host: settlement.host.to_string(),
        gpu_uuid: gpu.facts.uuid.clone(),
        gpu_index: gpu.facts.index,
        gpu_name: gpu.name(),
        pid: settlement.row.pid,
        start_time_us: settlement.row.start,
        held_ms: settlement.row.held,
        alone_ms: parts.alone,
        shared_ms: parts.shared,
        uncovered_ms: uncovered,
        asleep_ms: settlement.asleep.known().copied(),
        busy_ms_low: busy.map(|busy| busy.low),
        busy_ms_high: busy.map(|busy| busy.high),
        busy_samples: busy.and_then(|busy| busy.samples),
        busy_source: busy.map(|busy| busy.source.as_str()),
        max_memory_bytes: settlement.row.memory_peak.known().copied(),
        account: account_name(&entry.account),
        program: entry.program.as_ref().map(ToString::to_string),
        argv: content.and_then(argv),
        argv_b64: content.and_then(argv_b64),
        argv_length: content.map(|content| content.argv.true_length),
        argv_truncated: content.map(|content| content.argv.state != ArgvState::Whole),
        basis: settlement.attribution.basis(),
        reason: settlement.attribution.reason(),
        dispute: settlement.dispute,
        flags: settlement.flags.iter().copied().collect(),
    }
}

/// The captured words; null where none were captured.
fn argv(content: &ImageContent) -> Option<Vec<String>> {
    match content.argv.state {
        ArgvState::Whole | ArgvState::Truncated => {
            Some(argv_words(&content.argv).into_iter().map(text_of).collect())
        }
        ArgvState::Shed | ArgvState::Unreadable => None,
    }
}

/// The captured bytes where they are no text.
fn argv_b64(content: &ImageContent) -> Option<String> {
    let is_text =
        argv_words(&content.argv).into_iter().all(|word| std::str::from_utf8(word).is_ok());
    let bytes = &content.argv.bytes;
    (!is_text).then(|| base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// Text as it is; bytes that are none with `\xHH` for what is not.
fn text_of(word: &[u8]) -> String {
    std::str::from_utf8(word).map_or_else(|_| escape(word).to_string(), str::to_owned)
}

fn statement(gpu: &GpuRows, line: &GpuLine<Party>) -> report::Gpu {
    let statement = &line.statement;
    report::Gpu {
        gpu_uuid: gpu.facts.uuid.clone(),
        gpu_index: gpu.facts.index,
        gpu_name: gpu.name(),
        period_ms: statement.period.length(),
        alone_ms: statement.alone,
        shared_ms: statement.shared,
        free_ms: statement.free,
        uncovered_ms: statement.uncovered,
        dead_rows_seen_max: gpu.dead_rows_max.and_then(|rows| u64::try_from(rows).ok()),
        possibly_lost: gpu.possibly_lost(),
        reading: reading(gpu),
    }
}

fn reading(gpu: &GpuRows) -> report::Reading {
    let calls = gpu.cost.calls.values();
    report::Reading {
        reads: gpu.reads,
        calls: calls.clone().fold(0, |sum, call| sum.saturating_add(call.count)),
        cpu_us: gpu.cost.cpu_ns() / 1_000,
        call_latency_us_max: calls.fold(0, |most, call| most.max(call.latency_max_ns)) / 1_000,
        samples_unused: gpu.samples_unused,
        busy_disagreements: gpu.busy_disagreements,
    }
}

/// Every disputed settlement that was read in this trace. Not from the bill: a stepped wall clock may
/// put the reading itself outside of the period.
fn disputed(watch: &Watch) -> Vec<report::Disputed> {
    let mut lines = BTreeMap::new();
    for entry in &watch.entries {
        let Some(reason) = entry.settlement.dispute else { continue };
        let row = &entry.settlement.row;
        let key = (row.gpu.clone(), account_name(&entry.account), entry.of_command, reason);
        let (count, raw_ms) = lines.entry(key).or_insert((0_u64, 0_u128));
        *count = count.saturating_add(1);
        *raw_ms = raw_ms.saturating_add(u128::from(row.held.0));
    }
    let lines = lines.into_iter().map(|((gpu_uuid, account, of_command, reason), sums)| {
        let (count, raw_ms) = sums;
        report::Disputed { gpu_uuid, account, of_command, reason, count, raw_ms }
    });
    lines.collect()
}

fn account_name(account: &Account) -> String {
    match account {
        // The reason has a field of its own.
        Account::Unattributed(_) => running::UNATTRIBUTED.to_owned(),
        account => account.to_string(),
    }
}

fn unattributed(line: &UnattributedLine) -> report::Unattributed {
    report::Unattributed {
        gpu_uuid: line.gpu.clone(),
        reason: line.reason,
        count: line.count,
        held_ms: line.held,
    }
}
