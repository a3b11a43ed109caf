//! What stands around the figures: coverage, gaps, unknowns, device touches.

use std::collections::BTreeSet;

use crate::accounting::sight::Asked;
use crate::bill::blind_spans;
use crate::coverage::{Coverage, Gap};
use crate::host::GpuRows;
use crate::rendering::rfc3339;
use crate::session::assemble::Period;
use crate::session::report::{CoverageLines, DeviceTouch, GapLine, UnknownLine};
use crate::session::watch::Watch;
use crate::settlement::{Settlement, missed_in_coverage};
use crate::unit::{Ms, Span};
use crate::unknown::{GapCause, Observed, Unknown, UnknownReason};

/// The call that tells a row's figures.
const STATS: &str = "nvmlDeviceGetAccountingStats";

/// What is asked about one GPU.
fn asked(watch: &Watch, period: &Period, gpu: &GpuRows) -> Asked {
    // That one open of it was seen, be it our own, shows that they can be. Where rows came of processes
    // that were never seen to open a device, not all were.
    let seen_to_open =
        || gpu.facts.minor.known().is_some_and(|minor| watch.host().saw_open_of(*minor));
    let opens_watched =
        watch.touch_off_because.is_none() && gpu.rows_untouched == 0 && seen_to_open();
    Asked { opens_watched, ..period.asked }
}

/// When a GPU's holders could not be seen: in its gaps, and at no other time.
pub(super) fn uncovered(watch: &Watch, period: &Period, gpu: &GpuRows) -> Vec<Span> {
    let gaps = gpu.sight.gaps(&asked(watch, period, gpu));
    let seen = Coverage { start: period.asked.from, end: period.asked.until, gaps };
    blind_spans(period.span, period.timeline, &seen, &gpu.facts.uuid)
}

/// Rows that may have been lost unread; null where nobody could count them.
pub(super) fn possibly_lost(watch: &Watch, period: &Period, gpu: &GpuRows) -> Option<u64> {
    gpu.sight.possibly_lost(&asked(watch, period, gpu), watch.host().coverage())
}

/// Final rows that should have a name and have none. Where no GPU's rows were ever read there was
/// nothing to miss, and nobody knows what would have been.
pub(super) fn missed(watch: &Watch) -> Option<u64> {
    let mut gpus = watch.host().gpus().values();
    gpus.find(|gpu| gpu.dead_rows_max.is_some())?;
    let settlements = watch.entries.iter().map(|entry| &entry.settlement);
    let missed = missed_in_coverage(settlements, &watch.host().coverage_in_all());
    Some(u64::try_from(missed).unwrap_or(u64::MAX))
}

/// Coverage with all its gaps, those of events and those of each GPU's rows.
pub(super) fn coverage(watch: &Watch, period: &Period) -> CoverageLines {
    let coverage = watch.host().coverage_in_all();
    let of_rows =
        watch.host().gpus().values().flat_map(|gpu| gpu.sight.gaps(&asked(watch, period, gpu)));
    let mut gaps: Vec<Gap> = coverage.gaps.iter().cloned().chain(of_rows).collect();
    // Stamps are in the order of the boot clock.
    gaps.sort_by_key(|gap| (gap.from, gap.to, gap.cause));
    CoverageLines {
        start: rfc3339(coverage.start.wall),
        end: rfc3339(coverage.end.wall),
        covered_ms: covered(&coverage),
        gaps: gaps.iter().map(line).collect(),
    }
}

/// The time between start and end less the union of the gaps in process events, by the boot clock.
fn covered(coverage: &Coverage) -> Ms {
    let blind = coverage.gaps.iter().filter(|gap| gap.blinds_processes());
    let mut gaps: Vec<(u64, u64)> =
        blind.map(|gap| (gap.from.boot.0, gap.to.boot.0.min(coverage.end.boot.0))).collect();
    gaps.sort_unstable();
    let mut covered_ns = coverage.end.boot.0.saturating_sub(coverage.start.boot.0);
    let mut reached = coverage.start.boot.0;
    for (from, to) in gaps {
        covered_ns = covered_ns.saturating_sub(to.saturating_sub(from.max(reached)));
        reached = reached.max(to);
    }
    Ms(covered_ns / 1_000_000)
}

fn line(gap: &Gap) -> GapLine {
    GapLine {
        from: rfc3339(gap.from.wall),
        to: rfc3339(gap.to.wall),
        cause: gap.cause,
        gpu: gap.gpu.clone(),
        size: gap.size,
    }
}

/// Every UNKNOWN, once.
pub(super) fn unknown_lines(watch: &Watch) -> Vec<UnknownLine> {
    let last_reads = watch.host().gpus().values().flat_map(|gpu| &gpu.unknowns);
    let known_to_host = watch.host().unknowns().iter().chain(last_reads).cloned();
    let of_settlements = watch.entries.iter().flat_map(|entry| figures_unknown(&entry.settlement));
    let all: BTreeSet<Unknown> = known_to_host.chain(of_settlements).collect();
    let lines = all.into_iter().map(|unknown| UnknownLine {
        reason: unknown.word(),
        gpu: unknown.gpu.clone(),
        call: unknown.call,
        code: unknown.code,
        is_evidence: is_evidence(unknown.reason),
    });
    lines.collect()
}

/// The figures of a settlement that are null on its line, with their reasons.
fn figures_unknown(settlement: &Settlement) -> impl Iterator<Item = Unknown> {
    let row = &settlement.row;
    let why = [
        match &row.memory_peak {
            Observed::Unknown(reason) => Some((*reason, Some(STATS))),
            Observed::Known(_) => None,
        },
        match &settlement.asleep {
            Observed::Unknown(reason) => Some((*reason, None)),
            Observed::Known(_) => None,
        },
    ];
    why.into_iter().flatten().map(|(reason, call)| Unknown {
        gpu: Some(row.gpu.clone()),
        call,
        ..Unknown::of(reason)
    })
}

/// Whether it is about evidence (how busy, how much memory, who touched) and not about what is booked.
const fn is_evidence(reason: UnknownReason) -> bool {
    matches!(
        reason,
        UnknownReason::NoSamples
            | UnknownReason::ValueNotAvailable
            | UnknownReason::MaxMemoryZero
            | UnknownReason::SampleStale
            | UnknownReason::SleepNotObserved
            | UnknownReason::DeviceTouchOff
            | UnknownReason::ProcessListNotSupported
            | UnknownReason::MigNeedsPrivilege
    )
}

/// What watching device opens found.
pub(super) fn device_touch(watch: &Watch) -> DeviceTouch {
    let off_because = watch.touch_off_because.clone();
    let on = off_because.is_none();
    // Opens are events as well: where some were lost nobody knows how many.
    let coverage = watch.host().coverage_in_all();
    let none_lost = !coverage.gaps.iter().any(|gap| gap.cause == GapCause::EventLost);
    let is_counted = on && none_lost;
    let untouched =
        watch.host().gpus().values().fold(0_u64, |sum, gpu| sum.saturating_add(gpu.rows_untouched));
    DeviceTouch {
        on,
        off_because,
        touched: is_counted.then_some(watch.host().touched_count()),
        without_row: is_counted.then_some(watch.host().touched_without_row()),
        rows_untouched: is_counted.then_some(untouched),
    }
}
