//! One final row in, one settlement out.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::clockwork::Edges;
use super::identify::{identify, lifespans, nameless};
use super::lifespan::Lifespan;
use super::{Attribution, Evidence, Named, Settlement, SettlementError, SettlementId};
use crate::accounting::FinalRow;
use crate::clock::BootPlace;
use crate::coverage::Coverage;
use crate::unit::{BootNs, Ms};
use crate::unknown::{Flag, NamelessReason};

/// Settles one final row: whose it was, or why nobody can say; with the driver's milliseconds as
/// they are, whatever the answer.
///
/// # Errors
/// [`SettlementError::NotFinal`] where the row still runs.
pub fn settle(row: &FinalRow, evidence: &Evidence<'_>) -> Result<Settlement, SettlementError> {
    if row.row.running {
        return Err(SettlementError::NotFinal { gpu: row.row.gpu.clone(), pid: row.row.pid });
    }
    let edges = Edges::of(row, evidence);
    let dispute = edges.dispute(row, evidence);
    let spans = lifespans(&row.row, evidence);
    let mut attribution = identify(&row.row, evidence);
    // A disputed end proves nothing about whom it reached.
    if let (None, Some(moments), Some(named)) = (dispute, edges.moments(), attribution.named())
        && reaches_another(moments, named, &spans, evidence)
    {
        let at = Some(moments.0);
        attribution = nameless(NamelessReason::RowSpansTwoLifetimes, None, &spans, at);
    }
    Ok(Settlement {
        id: SettlementId::of(&row.row),
        host: Arc::clone(evidence.host),
        row: row.row.clone(),
        seen: row.seen,
        span: edges.span,
        started: edges.start,
        flags: flags(row, &attribution, edges.moments(), &spans, evidence),
        attribution,
        dispute,
        asleep: edges.asleep(evidence),
        busy: row.busy.clone(),
    })
}

/// Whether a span reaches into a second lifetime of its pid.
///
/// That a span outlives its process is normal: descriptors close late, or another process holds a
/// duplicate. While a duplicate is held, a new process that is given the pid joins the old
/// entry. It can only have done so if it was born before the entry closed; the end that is compared
/// is the proven one, so a birth in the last, uncounted fraction of a millisecond is no proof. A
/// successor whose own birth is only known to the tick is taken to have been born at the beginning of it.
fn reaches_another(
    (start, end): (BootNs, BootNs),
    named: &Named,
    spans: &[Lifespan<'_>],
    evidence: &Evidence<'_>,
) -> bool {
    let later = |born: BootNs| born > start && born < end;
    let others = spans.iter().filter(|span| span.lifetime.key.start > named.key.start);
    others.into_iter().any(|other| later(other.start))
        || evidence.evictions.iter().any(|eviction| later(eviction.born))
}

fn flags(
    row: &FinalRow,
    attribution: &Attribution,
    moments: Option<(BootNs, BootNs)>,
    spans: &[Lifespan<'_>],
    evidence: &Evidence<'_>,
) -> BTreeSet<Flag> {
    let mut flags = BTreeSet::new();
    if row.row.held == Ms::ZERO {
        flags.insert(Flag::Below1Ms);
    }
    let Some(named) = attribution.named() else { return flags };
    let lived_on = spans
        .iter()
        .any(|span| span.lifetime.key == named.key && span.alive_after(row.seen.ended.boot));
    // Only said where its exit would have been received by then.
    if lived_on && evidence.coverage.sees_processes_at(row.seen.ended.boot) {
        flags.insert(Flag::SettledWhileAlive);
    }
    if let (Some(rowless), Some((start, _))) = (evidence.rowless_since, moments)
        && named.key.start <= rowless
        && rowless < start
    {
        flags.insert(Flag::StartedBeforeAccounting);
    }
    flags
}

/// How many settlements ought to have a name and have none: their start lies where process events
/// were received without a gap. Anything but 0 is an error of this product.
///
/// A row that spans two lifetimes is not among them: both are known, and neither alone is right. One
/// whose start the clock showed never, or twice with only one of the two in sight, lies in
/// no covered interval. What an earlier agent saw and this one could not know is `agent-down`, and no
/// error either.
#[must_use]
pub fn missed_in_coverage<'a>(
    settlements: impl IntoIterator<Item = &'a Settlement>,
    coverage: &Coverage,
) -> usize {
    let missed = settlements.into_iter().filter(|settlement| {
        let sees = |at| coverage.sees_processes_at(at) && coverage.agent_down_after(at).is_none();
        let in_sight = match settlement.started {
            Some(BootPlace::Once(at)) => sees(at),
            Some(BootPlace::Twice(one, other)) => sees(one) && sees(other),
            Some(BootPlace::Skipped) | None => false,
        };
        let reason = settlement.attribution.reason();
        in_sight && reason.is_some_and(|reason| reason != NamelessReason::RowSpansTwoLifetimes)
    });
    missed.count()
}
