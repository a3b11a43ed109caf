//! What stands around the figures: coverage, gaps, unknowns.

use super::{CoverageLines, GapLine, Report, UnknownLine};
use crate::bill::Ledger;
use crate::bill::ledger::{Cut, CutBooks, CutGpu, outside};
use crate::rendering::rfc3339;
use crate::unit::{GpuUuid, Ms, Span, WallUs};
use crate::unknown::{GapCause, UnknownReason};

/// Milliseconds since 1970 as RFC 3339 text.
pub(super) fn moment(ms: u64) -> String {
    rfc3339(WallUs(ms.saturating_mul(1_000)))
}

/// When process events were received, and every gap that meets the period.
pub(super) fn coverage(ledger: &Ledger, cut: &Cut<'_>, period: Span) -> CoverageLines {
    let processes = ledger.processes(period);
    let span = processes.map(|(span, _)| span);
    CoverageLines {
        start: span.map(|span| moment(span.from_ms())),
        end: span.map(|span| moment(span.to_ms())),
        covered_ms: processes.map_or(Ms::ZERO, |(_, covered)| covered),
        gaps: cut
            .gaps
            .iter()
            .map(|gap| GapLine {
                host: None,
                from: rfc3339(gap.from.wall),
                to: rfc3339(gap.to.wall),
                cause: gap.cause,
                gpu: gap.gpu.clone(),
                size: gap.size,
            })
            .collect(),
    }
}

/// What of the period the entries are not of, each an UNKNOWN.
pub(super) fn not_here(ledger: &Ledger, period: Span) -> Vec<UnknownLine> {
    let lines = ledger.not_here(period).into_iter().map(|span| UnknownLine {
        host: None,
        reason: UnknownReason::ValueNotAvailable.to_string(),
        subject: format!(
            "everything from {} to {}: outside of what was given",
            moment(span.from_ms()),
            moment(span.to_ms())
        ),
        gpu: None,
        call: None,
        code: None,
        remedy: Some("give the bundle of that time too, or ask for a shorter period".to_owned()),
        is_evidence: false,
    });
    lines.collect()
}

/// When within the period a GPU was in sight, or held by one that settled: in ascending order, none overlaps another.
pub(super) fn told_of(
    ledger: &Ledger,
    gpu: &CutGpu<'_>,
    books: &CutBooks<'_>,
    period: Span,
) -> Vec<Span> {
    let here = |span: Span| {
        let not_here = ledger.not_here(span).into_iter();
        outside(span, not_here)
    };
    let seen = gpu.sight.spans().filter_map(|span| span.overlap(period)).flat_map(here);
    let seen = joined(seen.collect());
    let is_seen = |span: Span| {
        let place = seen.partition_point(|one| one.to_ms() < span.to_ms());
        seen.get(place).is_some_and(|one| one.from_ms() <= span.from_ms())
    };
    let held = books.settlements.iter().filter(|row| row.placing().dispute.is_none());
    let held = held.filter_map(|row| row.placing().span()?.overlap(period));
    let unseen: Vec<Span> = held.filter(|span| !is_seen(*span)).collect();
    few(if unseen.is_empty() { seen } else { joined([seen, unseen].concat()) })
}

/// Stretches of time that are kept of a GPU.
const TOLD_MAX: usize = 512;
/// What lies between two of them is passed over from here on, where there are more.
const BETWEEN_MS: u64 = 60_000;

/// As many as are kept: where there are more, what lies shortest between two of them is taken as told too. A GPU that two
/// hosts had within that time of each other is then taken for one that both claim, and refused, never billed twice.
fn few(mut spans: Vec<Span>) -> Vec<Span> {
    let mut between_ms = BETWEEN_MS;
    while spans.len() > TOLD_MAX {
        let mut joined: Vec<Span> = Vec::new();
        for span in spans {
            let last = joined
                .last_mut()
                .filter(|last| span.from_ms().saturating_sub(last.to_ms()) <= between_ms);
            match last.map(|last| (last.from_ms(), last)) {
                Some((from_ms, last)) => *last = Span::new(from_ms, span.to_ms()).unwrap_or(*last),
                None => joined.push(span),
            }
        }
        spans = joined;
        between_ms = between_ms.saturating_mul(2);
    }
    spans
}

/// The same time, in ascending order and each moment once.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| (span.from_ms(), span.to_ms()));
    let mut all: Vec<Span> = Vec::new();
    for span in spans.into_iter().filter(|span| span.length() > Ms::ZERO) {
        match all.last_mut() {
            Some(last) if span.from_ms() <= last.to_ms() => {
                let to_ms = last.to_ms().max(span.to_ms());
                *last = Span::new(last.from_ms(), to_ms).unwrap_or(*last);
            }
            _ => all.push(span),
        }
    }
    all
}

/// Rows of a GPU that may have been lost unread; `None` where a gap does not know its number.
pub(super) fn possibly_lost(cut: &Cut<'_>, gpu: &CutGpu<'_>) -> Option<u64> {
    // Whoever held it while its list was not believed may have left a row that was thrown away.
    if gpu.is_doubted {
        return None;
    }
    let of_this = cut.gaps.iter().filter(|gap| gap.gpu.as_ref() == Some(&gpu.sight.gpu));
    let of_rows = of_this.filter(|gap| {
        matches!(
            gap.cause,
            GapCause::RowsPossiblyEvicted
                | GapCause::ClearedOrReset
                | GapCause::RowOverwritten
                | GapCause::RowVanished
        )
    });
    of_rows.map(|gap| gap.size).try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?)))
}

/// How many settlements lack a piece of evidence, and up to which entry the journal is not here.
#[derive(Clone, Default, Debug)]
pub(super) struct Missing {
    /// What of memory held has no figure, by GPU.
    pub(super) memory: Vec<(GpuUuid, &'static str, String)>,
    pub(super) archived: u64,
    pub(super) samples: u64,
    pub(super) peaks: u64,
    pub(super) lines: u64,
}

/// Every UNKNOWN, once.
pub(super) fn unknown(
    report: &Report,
    missing: Missing,
    doubted: Vec<GpuUuid>,
) -> Vec<UnknownLine> {
    let line = |reason: UnknownReason, subject: String, is_evidence| UnknownLine {
        host: None,
        reason: reason.to_string(),
        subject,
        gpu: None,
        call: None,
        code: None,
        remedy: None,
        is_evidence,
    };
    let mut lines = Vec::new();
    if report.gpus.is_empty() {
        lines.push(line(UnknownReason::NoGpuFound, "every figure".to_owned(), false));
    }
    if missing.archived > 0 {
        let subject =
            format!("entries 1 to {}: archived, and no archive is here", missing.archived);
        lines.push(line(UnknownReason::ValueNotAvailable, subject, false));
    }
    for gpu in doubted {
        lines.push(UnknownLine {
            gpu: Some(gpu),
            ..line(
                UnknownReason::EmptyAccountedList,
                "whether nobody held it: its list was empty, as after a reset of the mode"
                    .to_owned(),
                false,
            )
        });
    }
    for open in &report.open {
        if let Some(reason) = &open.reason {
            let whose =
                open.pid.map_or("another user's process".to_owned(), |pid| format!("pid {pid}"));
            lines.push(UnknownLine {
                host: None,
                reason: reason.clone(),
                subject: format!("accrued time of {whose}"),
                gpu: Some(open.gpu_uuid.clone()),
                call: None,
                code: None,
                remedy: None,
                is_evidence: false,
            });
        }
    }
    if missing.lines > 0 {
        let subject = format!("{} of {} settlements", report.by, missing.lines);
        lines.push(line(UnknownReason::ValueNotAvailable, subject, false));
    }
    if missing.samples > 0 {
        let subject = format!("busy of {} settlements", missing.samples);
        lines.push(line(UnknownReason::NoSamples, subject, true));
    }
    if missing.peaks > 0 {
        let subject = format!("peak memory of {} settlements", missing.peaks);
        lines.push(line(UnknownReason::ValueNotAvailable, subject, true));
    }
    if !report.accounts.is_empty() && !report.memory.is_sampled() {
        lines.push(line(UnknownReason::NoSamples, "memory held".to_owned(), true));
    }
    for (gpu, reason, subject) in missing.memory {
        let of = line(UnknownReason::NoSamples, subject, true);
        lines.push(UnknownLine { gpu: Some(gpu), reason: reason.to_owned(), ..of });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_ms: u64, to_ms: u64) -> Span {
        Span::new(from_ms, to_ms).unwrap()
    }

    /// Memory of a bill of many hosts must not grow with what each of them booked.
    #[test]
    fn more_time_is_told_of_where_there_are_too_many_stretches_and_never_less() {
        let many: Vec<Span> = (0..10_000).map(|n| span(n * 600_000, n * 600_000 + 1_000)).collect();
        let kept = few(many.clone());
        assert!(kept.len() <= TOLD_MAX && !kept.is_empty(), "{}", kept.len());
        let covers = |one: &Span| {
            kept.iter().any(|all| all.from_ms() <= one.from_ms() && one.to_ms() <= all.to_ms())
        };
        assert!(many.iter().all(covers));
        assert_eq!(few(many[..TOLD_MAX].to_vec()), many[..TOLD_MAX]);
        // Where one host had it long after the other, they stay apart.
        let apart = [many, vec![span(u64::MAX - 10, u64::MAX - 5)]].concat();
        assert_eq!(few(apart).last(), Some(&span(u64::MAX - 10, u64::MAX - 5)));
    }
}
