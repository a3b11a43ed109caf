//! From a watched host to its report. The figures are the bill's; here they only find their fields.

mod departed;
mod running;
mod surroundings;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitStatus;

use anyhow::Context as _;
use base64::Engine as _;

use crate::accounting::sight::Asked;
use crate::argv::{CmdlineMode, Stored, StoredText, redact_word, redact_words, stored};
use crate::bill::{Bill, Booked, GpuBooks, GpuLine, Line, Parts, UnattributedLine, bill, booked};
use crate::clock::{BootPlace, Timeline};
use crate::escape::escape;
use crate::host::GpuRows;
use crate::identity::{ImageContent, argv_words};
use crate::kernel::{Argv, ArgvState};
use crate::observer::EventCounts;
use crate::session::report::{self, Account as AccountLine, Block, Command, Report, Settled};
use crate::session::watch::{Entry, Watch};
use crate::session::{TraceOptions, Watched};
use crate::settlement::{Account, Settlement};
use crate::unit::{BootNs, Ms, Span};
use crate::unknown::NamelessReason;

/// An account within its part of the host: the command's `python` is another account than the
/// rest of the host's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Party {
    of_command: bool,
    account: Account,
}

impl Party {
    /// Its name; the reason for having none stands elsewhere.
    fn name(&self) -> String {
        account_name(&self.account)
    }
}

impl Line for Party {
    fn unattributed(&self) -> Option<NamelessReason> {
        self.account.unattributed()
    }
}

/// What the report is about, by the boot clock.
struct Period {
    asked: Asked,
    timeline: Timeline,
    /// The same on the bill's grid.
    span: Span,
    /// When the last read of every GPU was asked for. Where none was over the period ends before that.
    last_asked: BootNs,
}

/// Stops the watching and says what came of it.
pub(super) fn report(
    options: &TraceOptions,
    watch: &mut Watch,
    watched: Watched,
    status: Option<ExitStatus>,
) -> anyhow::Result<Report> {
    let events = watch.observer.stop()?.map(|counts| {
        let EventCounts { produced, received, lost } = counts;
        report::Events { produced, received, lost }
    });
    watch.keep_notes();
    let period = period(watch, watched)?;
    let (open, over) = running::open_rows(watch, &period);
    let rowless = departed::rowless(watch, &period, over);
    let mut books: Vec<GpuBooks<Party>> = Vec::new();
    for (uuid, gpu) in watch.host().gpus() {
        let settled = watch.entries.iter().filter(|entry| entry.settlement.row.gpu == *uuid);
        let open = open.iter().filter(|one| one.gpu == *uuid);
        let open = open.filter_map(|one| one.holding.clone());
        let rowless = rowless.iter().filter(|one| one.gpu == *uuid);
        let rowless = rowless.filter_map(departed::Holder::holding);
        let mut uncovered = surroundings::uncovered(watch, &period, gpu);
        uncovered.extend(settled.clone().filter_map(|entry| anywhere_within(entry, &period)));
        books.push(GpuBooks {
            gpu: uuid.clone(),
            settlements: settled.map(|entry| on_this_bill(entry, &period)).collect(),
            running: open.chain(rowless).collect(),
            uncovered,
        });
    }
    let bill = bill(period.span, &books)?;
    let (command, host) = blocks(watch, &bill, options.cmdline);
    let words = words_of(&options.argv, options.cmdline);
    let driver = watch.observer.driver_facts();
    Ok(Report {
        format: report::FORMAT,
        version: report::VERSION,
        driver: driver.map(|facts| facts.kind.as_str()),
        driver_version: driver.and_then(|facts| facts.version.clone().ok()),
        test_clock: watch.observer.clock().is_shifted(),
        command: (!options.argv.is_empty()).then(|| Command {
            argv: words.iter().map(|word| text_of(word)).collect(),
            line: escape(&words.join(&b' ')).to_string(),
            exit_status: status.map(super::exit_status_of),
            processes: events.map(|_| processes(watch)),
            block: command,
        }),
        host,
        gpus: statements(watch, &period, &bill),
        unattributed: bill.unattributed.iter().map(unattributed).collect(),
        disputed: disputed(watch),
        open: open.iter().map(running::Running::open).collect(),
        no_driver_row: rowless.iter().map(departed::Holder::no_driver_row).collect(),
        unknown: surroundings::unknown_lines(watch),
        missed_in_coverage: events.and_then(|_| surroundings::missed(watch)),
        events,
        device_touch: surroundings::device_touch(watch),
        coverage: surroundings::coverage(watch, &period),
    })
}

/// What ran under the command, most first.
fn processes(watch: &Watch) -> Vec<report::Processes> {
    let programs = watch.host().programs_of_command().into_iter();
    let mut processes: Vec<report::Processes> = programs
        .map(|(program, (ended, running))| report::Processes { program, ended, running })
        .collect();
    processes.sort_by_key(|one| std::cmp::Reverse(one.ended.saturating_add(one.running)));
    processes
}

/// From the first reads' end to the beginning of the oldest of the last ones: in between
/// every GPU's rows were in sight. Where no last read came, to the moment at which they were asked for.
fn period(watch: &Watch, Watched { began, last_asked }: Watched) -> anyhow::Result<Period> {
    // A GPU that could not be read at the end has an uncovered tail, and cuts nobody else's period.
    let last = watch.host().gpus().values().filter_map(|gpu| gpu.sight.last_good());
    let last = last.map(|window| window.began).filter(|read| read.boot >= last_asked.boot);
    let ended = last.min().unwrap_or(last_asked);
    // The clocks were read when the watching began, so there is a timeline.
    let timeline = watch.host().clock_history().timeline();
    let timeline = timeline.context("the clocks were never read: a bug of gpu-ledger")?;
    let until = ended.max(watch.host().coverage().end);
    let span = timeline.span(began.boot, ended.boot);
    Ok(Period {
        asked: Asked { from: began, to: ended, until, opens_watched: false },
        timeline,
        span,
        last_asked: last_asked.boot,
    })
}

/// A settlement as it goes onto this trace's bill. What cannot be placed belongs to the period that it
/// was read in, and a trace's is over when its last reads begin: what they brought is still its own.
fn on_this_bill(entry: &Entry, period: &Period) -> Booked<Party> {
    let last_ms = period.span.to_ms().saturating_sub(1).max(period.span.from_ms());
    let mut booked = booked(&entry.settlement, party(entry), period.timeline);
    if let Booked::Disputed { at_ms, .. } | Booked::NoStartTime { at_ms, .. } = &mut booked {
        *at_ms = (*at_ms).clamp(period.span.from_ms(), last_ms);
    }
    booked
}

/// Where a row may lie whose start the stepped clock showed twice: who held the GPU then, and whether alone,
/// nobody can say.
fn anywhere_within(entry: &Entry, period: &Period) -> Option<Span> {
    let Some(BootPlace::Twice(..)) = entry.settlement.started else { return None };
    match on_this_bill(entry, period) {
        Booked::Disputed { likely, .. } => likely.map(|holding| holding.span),
        Booked::Placed(_) | Booked::NoStartTime { .. } => None,
    }
}

fn party(entry: &Entry) -> Party {
    Party { of_command: entry.of_command, account: entry.account.clone() }
}

/// The command's part and the rest of the host.
fn blocks(watch: &Watch, bill: &Bill<Party>, mode: CmdlineMode) -> (Block, Block) {
    let (mut command, mut host) = (Block::default(), Block::default());
    let mut lines = Vec::new();
    for line in &bill.accounts {
        if line.settlements == 0 {
            // What only runs or has no row stands under `open` and `no_driver_row`.
            continue;
        }
        let block = if line.account.of_command { &mut command } else { &mut host };
        block.accounts.push(AccountLine {
            account: line.account.account.title(),
            named_by: line.account.account.named_by(),
            settlements: line.settlements,
            held_ms: line.settled.held(),
            alone_ms: line.settled.alone,
            shared_ms: line.settled.shared,
            uncovered_ms: line.settled.uncovered,
            span_ms_total: line.span_total,
        });
    }
    for (gpu, line) in watch.host().gpus().values().zip(&bill.gpus) {
        let of_gpu =
            watch.entries.iter().filter(|entry| entry.settlement.row.gpu == gpu.facts.uuid);
        for (entry, parts) in of_gpu.zip(&line.settlements) {
            lines.push((entry, settled(gpu, entry, parts.unwrap_or(Parts::NONE), mode)));
        }
    }
    lines.sort_by_key(|(entry, line)| (began_at(&entry.settlement), line.pid));
    for (entry, line) in lines {
        let block = if entry.of_command { &mut command } else { &mut host };
        block.settlements.push(line);
    }
    for block in [&mut command, &mut host] {
        block.accounts.sort_by(|a, b| b.held_ms.cmp(&a.held_ms).then(a.account.cmp(&b.account)));
    }
    (command, host)
}

/// Since when a row held its GPU, by the boot clock; of one that has no one place there, when it was
/// read.
fn began_at(settlement: &Settlement) -> BootNs {
    match settlement.started {
        Some(BootPlace::Once(at)) => at,
        Some(BootPlace::Twice(..) | BootPlace::Skipped) | None => settlement.seen.ended.boot,
    }
}

fn settled(gpu: &GpuRows, entry: &Entry, parts: Parts, mode: CmdlineMode) -> Settled {
    let settlement = &entry.settlement;
    let named = settlement.attribution.named();
    let content = named.map(|named| &*named.image.content);
    let (argv, argv_b64) = arguments(content, mode);
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
        named_by: entry.account.named_by(),
        program: entry.program.as_ref().map(ToString::to_string),
        argv,
        argv_b64,
        argv_length: content.and_then(|content| content.argv.true_length),
        argv_truncated: content.map(|content| content.argv.state != ArgvState::Whole),
        basis: settlement.attribution.basis(),
        reason: settlement.attribution.reason(),
        dispute: settlement.dispute,
        flags: settlement.flags.iter().copied().collect(),
    }
}

/// The words that are shown of what was captured, and its bytes where they are no text; null where none were
/// captured, or none are shown.
fn arguments(
    content: Option<&ImageContent>,
    mode: CmdlineMode,
) -> (Option<Vec<String>>, Option<String>) {
    let captured = content.map(|content| &content.argv);
    let captured =
        captured.filter(|argv| matches!(argv.state, ArgvState::Whole | ArgvState::Truncated));
    let Some(captured) = captured else { return (None, None) };
    let Stored { bytes: Some(bytes), text } = stored(captured, mode) else { return (None, None) };
    let shown = Argv { bytes, ..captured.clone() };
    let words = argv_words(&shown);
    let is_text = words.iter().all(|word| std::str::from_utf8(word).is_ok());
    let coded = (!is_text && text == StoredText::Captured)
        .then(|| base64::engine::general_purpose::STANDARD.encode(&shown.bytes));
    (Some(words.into_iter().map(text_of).collect()), coded)
}

/// Text as it is; bytes that are none with `\xHH` for what is not.
fn text_of(word: &[u8]) -> String {
    std::str::from_utf8(word).map_or_else(|_| escape(word).to_string(), str::to_owned)
}

/// The words of the command that are shown.
fn words_of(command: &[OsString], mode: CmdlineMode) -> Vec<Vec<u8>> {
    let words: Vec<&[u8]> = command.iter().map(|word| word.as_encoded_bytes()).collect();
    let owned = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
    match mode {
        CmdlineMode::None => Vec::new(),
        CmdlineMode::Exe => {
            words.iter().take(1).map(|word| redact_word(word).into_owned()).collect()
        }
        CmdlineMode::Redacted => redact_words(&words, false).map_or_else(
            || owned(&words),
            |words| words.into_iter().map(Cow::into_owned).collect(),
        ),
        CmdlineMode::Full => owned(&words),
    }
}

fn statements(watch: &Watch, period: &Period, bill: &Bill<Party>) -> Vec<report::Gpu> {
    let gpus = watch.host().gpus().values().zip(&bill.gpus);
    let statements = gpus
        .map(|(gpu, line)| statement(gpu, line, surroundings::possibly_lost(watch, period, gpu)));
    statements.collect()
}

fn statement(gpu: &GpuRows, line: &GpuLine<Party>, possibly_lost: Option<u64>) -> report::Gpu {
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
        possibly_lost,
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

/// Every disputed settlement that was read in this trace, be its period too short to hold one.
fn disputed(watch: &Watch) -> Vec<report::Disputed> {
    let mut lines = BTreeMap::new();
    for entry in &watch.entries {
        let Some(reason) = entry.settlement.dispute else { continue };
        let row = &entry.settlement.row;
        let named = (account_name(&entry.account), entry.account.named_by());
        let key = (row.gpu.clone(), named, entry.of_command, reason);
        let (count, raw_ms) = lines.entry(key).or_insert((0_u64, 0_u128));
        *count = count.saturating_add(1);
        *raw_ms = raw_ms.saturating_add(u128::from(row.held.0));
    }
    let lines =
        lines.into_iter().map(|((gpu_uuid, (account, named_by), of_command, reason), sums)| {
            let (count, raw_ms) = sums;
            report::Disputed { gpu_uuid, account, named_by, of_command, reason, count, raw_ms }
        });
    lines.collect()
}

fn account_name(account: &Account) -> String {
    match account {
        // The reason has a field of its own.
        Account::Unattributed(_) => report::UNATTRIBUTED.to_owned(),
        account => account.title(),
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
