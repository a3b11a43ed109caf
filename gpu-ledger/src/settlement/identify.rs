//! Whose a row's start was: the lifetime of its pid that contains it.

use super::lifespan::{JOIN_TOLERANCE_NS, Lifespan};
use super::{Attribution, Candidate, Evidence, Fit, Named, Nameless};
use crate::accounting::Row;
use crate::clock::BootPlace;
use crate::coverage::{Coverage, Gap};
use crate::identity::{Basis, Image};
use crate::unit::{BootNs, WallUs};
use crate::unknown::{GapCause, NamelessReason};

/// Whose an open or final row is, by its start alone; or, where that finds nobody, by what the
/// journal remembers of this very row.
#[must_use]
pub fn identify(row: &Row, evidence: &Evidence<'_>) -> Attribution {
    let own = identify_by_start(row, evidence);
    match evidence.journaled {
        Some(journaled) if knows_better(journaled, &own, row) => {
            let mut named = journaled.clone();
            named.image.basis = Basis::Journal;
            Attribution::Named(Box::new(named))
        }
        _ => own,
    }
}

/// Whether what the journal remembers says more than what is known now. It named the row while it ran;
/// what procfs shows of the same process after a restart is what it runs now, perhaps
/// another image than the one that the row began under.
fn knows_better(journaled: &Named, own: &Attribution, row: &Row) -> bool {
    let of_row = journaled.key.pid == row.pid;
    of_row
        && match own {
            Attribution::Nameless(_) => true,
            Attribution::Named(own) => {
                own.image.basis == Basis::Procfs
                    && journaled.image.basis != Basis::Procfs
                    && own.key.start.ticks() == journaled.key.start.ticks()
            }
        }
}

fn identify_by_start(row: &Row, evidence: &Evidence<'_>) -> Attribution {
    let Some(start) = row.start else {
        return nameless(NamelessReason::NoStartTime, None, &[], None);
    };
    let spans = lifespans(row, evidence);
    let ended = end_of(row, evidence);
    let identify_at = |at| identify_at((at, ended), &spans, evidence);
    match evidence.clock.boot_of(start) {
        Some(BootPlace::Once(at)) => identify_at(at),
        // After a step back the same time lies ahead as well, where no start can have been yet.
        Some(BootPlace::Twice(first, second)) if second > evidence.coverage.end.boot => {
            identify_at(first)
        }
        Some(BootPlace::Twice(first, second)) => {
            let (one, other) = (identify_at(first), identify_at(second));
            if same_answer(&one, &other) { one } else { unplaced(&spans, Some(first)) }
        }
        // No moment of this boot is known to have shown that time, so every lifetime of the
        // pid fits as badly as the others.
        Some(BootPlace::Skipped) | None => unplaced(&spans, None),
    }
}

/// Where the end of a final row lies; at the beginning of time where that is not one moment.
fn end_of(row: &Row, evidence: &Evidence<'_>) -> Option<BootNs> {
    let wall_end = || row.start?.0.checked_add(row.held.0.checked_mul(1_000)?).map(WallUs);
    let place = || match evidence.clock.boot_of(wall_end()?)? {
        // It is over: one that lies ahead was stamped after a step that nobody saw.
        BootPlace::Once(at) if at > evidence.coverage.end.boot.plus_ns(JOIN_TOLERANCE_NS) => None,
        BootPlace::Once(at) => Some(at),
        // The same time that comes again is not when it ended.
        BootPlace::Twice(first, second) if second > evidence.coverage.end.boot => Some(first),
        BootPlace::Twice(..) | BootPlace::Skipped => None,
    };
    (!row.running).then(|| place().unwrap_or(BootNs(0)))
}

/// The lifetimes of the row's own pid, by start.
pub(super) fn lifespans<'a>(row: &Row, evidence: &Evidence<'a>) -> Vec<Lifespan<'a>> {
    let own = evidence.lifetimes.iter().copied();
    let own: Vec<_> = own.filter(|lifetime| lifetime.key.pid == row.pid).collect();
    Lifespan::all(&own)
}

fn same_answer(one: &Attribution, other: &Attribution) -> bool {
    match (one, other) {
        (Attribution::Named(one), Attribution::Named(other)) => {
            one.key == other.key && one.image == other.image
        }
        (Attribution::Nameless(one), Attribution::Nameless(other)) => one.reason == other.reason,
        (Attribution::Named(_), Attribution::Nameless(_))
        | (Attribution::Nameless(_), Attribution::Named(_)) => false,
    }
}

fn unplaced(spans: &[Lifespan<'_>], at: Option<BootNs>) -> Attribution {
    nameless(NamelessReason::PidAmbiguous, None, spans, at)
}

/// Whose a row was that began `at` and, once final, ended when it did.
fn identify_at(
    (at, ended): (BootNs, Option<BootNs>),
    spans: &[Lifespan<'_>],
    evidence: &Evidence<'_>,
) -> Attribution {
    match choose(at, spans, evidence) {
        // Nothing that was read can have begun later: the clock was set back since, unobserved.
        Choice::One(..) if evidence.coverage.end.boot.plus_ns(JOIN_TOLERANCE_NS) < at => {
            unplaced(spans, Some(at))
        }
        Choice::One(span, fit) => name((at, ended), span, fit, spans, evidence),
        Choice::Forgotten => nameless(NamelessReason::IdentityEvicted, None, spans, Some(at)),
        Choice::Several => nameless(NamelessReason::PidAmbiguous, None, spans, Some(at)),
        Choice::Nobody => {
            let (reason, gap) = unseen(at, evidence.coverage);
            nameless(reason, gap, spans, Some(at))
        }
    }
}

enum Choice<'a, 'b> {
    One(&'b Lifespan<'a>, Fit),
    Forgotten,
    Several,
    Nobody,
}

/// The best fit wins; two of the same fit are not told apart.
fn choose<'a, 'b>(
    at: BootNs,
    spans: &'b [Lifespan<'a>],
    evidence: &Evidence<'_>,
) -> Choice<'a, 'b> {
    for fit in [Fit::Contains, Fit::MayContain, Fit::WithinTolerance] {
        // Merely near is only good enough where nobody else of this pid can have lived unseen.
        let in_sight = |nearest: BootNs| {
            fit != Fit::WithinTolerance || sees_between(evidence.coverage, at, nearest)
        };
        let mut fitting =
            spans.iter().filter(|span| span.fit(at) == fit && in_sight(span.nearest(at)));
        let forgotten = evidence
            .evictions
            .iter()
            .any(|eviction| eviction.fit(at) == fit && in_sight(eviction.nearest(at)));
        match (fitting.next(), fitting.next(), forgotten) {
            (None, _, false) => {}
            (None, _, true) => return Choice::Forgotten,
            (Some(span), None, false) => return Choice::One(span, fit),
            (Some(_), _, _) => return Choice::Several,
        }
    }
    Choice::Nobody
}

fn sees_between(coverage: &Coverage, one: BootNs, other: BootNs) -> bool {
    let (from, to) = (one.min(other), one.max(other));
    coverage.start.boot <= from
        && to <= coverage.end.boot
        && coverage.event_gap_between(from, to).is_none()
}

/// The row of a lifetime, where its image at that moment is certain.
fn name(
    (at, ended): (BootNs, Option<BootNs>),
    span: &Lifespan<'_>,
    fit: Fit,
    spans: &[Lifespan<'_>],
    evidence: &Evidence<'_>,
) -> Attribution {
    let hidden = hiding_gap(at, span, evidence.coverage);
    if let Some(gap) = hidden {
        return nameless(reason_of(gap), Some(gap.clone()), spans, Some(at));
    }
    match image_in_force(at, span) {
        InForce::Image(image) if is_looked_at_late(image, at, ended, evidence.coverage) => {
            let (reason, gap) = unseen(at, evidence.coverage);
            nameless(reason, gap, spans, Some(at))
        }
        InForce::Image(image) => Attribution::Named(Box::new(Named {
            key: span.lifetime.key,
            start_is_exact: span.lifetime.start_is_exact,
            image: image.clone(),
            parent: span.lifetime.parent,
            cgroups: span.lifetime.cgroups.clone(),
            ended: span.lifetime.ended,
            fit,
        })),
        InForce::InDoubt(reason) => {
            let gap = last_gap_before(at, evidence.coverage)
                .filter(|_| reason != NamelessReason::IdentityEvicted);
            nameless(reason, gap.cloned(), spans, Some(at))
        }
        InForce::NeverSeen => {
            // It was born in sight to a parent that was not: that one was lost in a gap, or was
            // gone before coverage began.
            let gap = last_gap_before(at, evidence.coverage);
            let reason = gap.map_or(NamelessReason::PredatesCoverage, reason_of);
            nameless(reason, gap.cloned(), spans, Some(at))
        }
    }
}

/// A gap in process events around `at` that may hide another process of the pid, or another image of
/// this one. What lives on when the gap ends is looked at again there, so a process that is found to
/// run the same image then ran it all through the gap.
fn hiding_gap<'c>(at: BootNs, span: &Lifespan<'_>, coverage: &'c Coverage) -> Option<&'c Gap> {
    let around = coverage
        .gaps
        .iter()
        .filter(|gap| gap.blinds_processes() && gap.from.boot <= at && at <= gap.to.boot);
    around.into_iter().find(|gap| {
        let end = gap.to.boot;
        let changed =
            span.lifetime.images.iter().any(|image| at < image.since && image.since <= end);
        changed || !span.outlived(end)
    })
}

/// Whether procfs was looked at only when the row was over. What a process is found to run is what it ran
/// while it held the GPU as long as it still does: an exec closes the driver's descriptors (they are opened with
/// `O_CLOEXEC`), and behind its back it may have been another program before.
fn is_looked_at_late(
    image: &Image,
    at: BootNs,
    ended: Option<BootNs>,
    coverage: &Coverage,
) -> bool {
    if image.basis != Basis::Procfs {
        return false;
    }
    let before = (at < coverage.start.boot).then_some(coverage.start.boot);
    let lost = coverage.event_gap_at(at).map(|gap| gap.to.boot);
    // An agent that was then down may have seen it, and what it knew went with it.
    let down = coverage.agent_down_after(at).map(|gap| gap.to.boot);
    let looked = before.max(lost).max(down);
    ended.zip(looked).is_some_and(|(ended, looked)| ended < looked)
}

enum InForce<'a> {
    Image(&'a Image),
    /// It may have been another one than those that are known.
    InDoubt(NamelessReason),
    NeverSeen,
}

fn image_in_force<'a>(at: BootNs, span: &Lifespan<'a>) -> InForce<'a> {
    let lifetime = span.lifetime;
    if let Some(gap) = lifetime.image_gap_at(at) {
        return InForce::InDoubt(gap.reason);
    }
    match (lifetime.image_at(at), lifetime.images.first()) {
        (Some(image), _) => InForce::Image(image),
        // A first image from birth on: the row begins before it by no more than the clock's error.
        (None, Some(first)) if span.is_birth(first.since) => InForce::Image(first),
        (None, _) => InForce::NeverSeen,
    }
}

/// Why nobody of the pid is known at `at`.
fn unseen(at: BootNs, coverage: &Coverage) -> (NamelessReason, Option<Gap>) {
    if let Some(gap) = coverage.event_gap_at(at) {
        return (reason_of(gap), Some(gap.clone()));
    }
    if at < coverage.start.boot {
        return (NamelessReason::PredatesCoverage, None);
    }
    if coverage.end.boot < at {
        return (NamelessReason::AgentDown, None);
    }
    // It was seen by an agent that was then down, and what that one knew went with it.
    if let Some(gap) = coverage.agent_down_after(at) {
        return (reason_of(gap), Some(gap.clone()));
    }
    // Seen, and yet unknown: it was born in the last gap before, or an event was lost uncounted. The
    // latter is an error of this product, and `missed_in_coverage` counts both.
    let gap = last_gap_before(at, coverage);
    (gap.map_or(NamelessReason::EventLost, reason_of), gap.cloned())
}

fn last_gap_before(at: BootNs, coverage: &Coverage) -> Option<&Gap> {
    let before = coverage.gaps.iter().filter(|gap| gap.blinds_processes() && gap.from.boot <= at);
    before.max_by_key(|gap| gap.from.boot)
}

fn reason_of(gap: &Gap) -> NamelessReason {
    match gap.cause {
        GapCause::AgentDown => NamelessReason::AgentDown,
        // Of the others only lost events blind process events: in the kernel's ring or in a queue.
        _ => NamelessReason::EventLost,
    }
}

/// A nameless attribution, with everybody of the pid as candidates.
pub(super) fn nameless(
    reason: NamelessReason,
    gap: Option<Gap>,
    spans: &[Lifespan<'_>],
    at: Option<BootNs>,
) -> Attribution {
    let candidates = spans.iter().map(|span| Candidate {
        key: span.lifetime.key,
        ended: span.lifetime.ended,
        fit: at.map_or(Fit::MayContain, |at| span.fit(at)),
    });
    Attribution::Nameless(Box::new(Nameless { reason, gap, candidates: candidates.collect() }))
}
