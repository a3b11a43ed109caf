//! What came to a closed period since its bill was fixed: entry by entry, each with what it changes on that bill.
//!
//! The bill is made again after each entry, with the options that the period was closed with, and compared with the
//! one before. So the adjustments add up: the closed bill and all of them are the bill made afresh.

use std::collections::BTreeMap;

use super::figures::{Difference, Figures};
use super::report::{Adjustment, AdjustmentKind, Ask, Head, Outside, report};
use super::{BillError, Ledger};
use crate::journal::entry::{Change, Entry, Figures as EntryFigures};
use crate::rendering::rfc3339;
use crate::unit::{GpuUuid, Span, WallUs};

/// Entries that are told one by one of one period; what is beyond is told together.
pub const ADJUSTMENTS_TOLD_MAX: usize = 100;

/// What entries that came later change on a closed period's bill. `base`: the ledger that the last bill which tells of
/// it was made of; `late`: what was entered since, in its order; `fresh`: the ledger of all of it. `ask`: the period
/// and the options that it was closed with.
///
/// # Errors
/// Those of [`report`].
pub fn adjusted(
    base: &Ledger,
    late: &[Entry],
    fresh: &Ledger,
    (ask, head, outside): (&Ask, Head, &Outside),
) -> Result<Vec<Adjustment>, BillError> {
    let of = |ledger: &Ledger, gpu: &GpuUuid| {
        let ask = Ask { gpus: vec![gpu.clone()], ..ask.clone() };
        let report = report(ledger, &ask, head, outside)?;
        Ok::<_, BillError>(Figures::of(&report, Some(&gpu.0)))
    };
    let mut now: BTreeMap<GpuUuid, Figures> = BTreeMap::new();
    for (_, gpu) in fresh.gpus() {
        let figures = of(base, &gpu)?;
        now.insert(gpu, figures);
    }
    let mut ledger = base.clone();
    let mut adjustments = Vec::new();
    let late: Vec<&Entry> =
        late.iter().filter(|entry| may_change(entry, ask.period.span)).collect();
    for entry in late.iter().take(ADJUSTMENTS_TOLD_MAX) {
        let about = gpu_of(entry, &ledger);
        ledger.take(entry)?;
        let mut changes: Vec<Difference> = Vec::new();
        for (gpu, before) in &mut now {
            if about.as_ref().is_none_or(|about| about == gpu) {
                let after = of(&ledger, gpu)?;
                changes.extend(before.differences(&after));
                *before = after;
            }
        }
        if !changes.is_empty() {
            let (kind, of) = kind_of(entry);
            adjustments.push(Adjustment {
                seq: Some(entry.seq),
                learnt_at: Some(rfc3339(entry.at.stamp.wall)),
                learnt: Some(entry.at.stamp.wall),
                kind,
                of,
                changes,
            });
        }
    }
    // What no single entry of these changed: marks that told up to when was seen, and what is beyond the bound.
    let mut rest: Vec<Difference> = Vec::new();
    for (gpu, before) in &now {
        rest.extend(before.differences(&of(fresh, gpu)?));
    }
    if !rest.is_empty() {
        let kind = if late.len() > ADJUSTMENTS_TOLD_MAX {
            AdjustmentKind::Several
        } else {
            AdjustmentKind::Seen
        };
        let (seq, learnt_at, learnt, of) = (None, None, None, None);
        adjustments.push(Adjustment { seq, learnt_at, learnt, kind, of, changes: rest });
    }
    Ok(adjustments)
}

/// Whether an entry can change a figure of a period.
pub(crate) fn may_change(entry: &Entry, period: Span) -> bool {
    let meets = |from_ms: u64, to_ms: u64| from_ms < period.to_ms() && period.from_ms() <= to_ms;
    match &entry.figures {
        EntryFigures::Settlement(one) => {
            let read_ms = one.read_at.wall.ms();
            let start_ms = one.start.map_or(read_ms, WallUs::ms);
            let end_ms = start_ms.saturating_add(one.held.0);
            meets(start_ms.min(read_ms), end_ms.max(read_ms))
        }
        EntryFigures::Gap(gap) => {
            let (from, to) = (gap.from.wall.ms(), gap.to.wall.ms());
            meets(from.min(to), from.max(to))
        }
        EntryFigures::Memory(stretch) => {
            let hour_ms = stretch.hour_ms();
            meets(hour_ms, hour_ms.saturating_add(crate::memory::HOUR_MS).max(stretch.to.ms()))
        }
        EntryFigures::Correction(_) | EntryFigures::Conflict(_) => true,
        EntryFigures::Open(_)
        | EntryFigures::Epoch(_)
        | EntryFigures::Coverage(_)
        | EntryFigures::Mark(_)
        | EntryFigures::Key(_)
        | EntryFigures::Closed(_) => false,
    }
}

/// The only GPU whose figures an entry can change; `None` where it may be any.
fn gpu_of(entry: &Entry, ledger: &Ledger) -> Option<GpuUuid> {
    match &entry.figures {
        EntryFigures::Settlement(one) => Some(one.gpu.clone()),
        EntryFigures::Memory(stretch) => Some(stretch.gpu.clone()),
        EntryFigures::Gap(gap) => gap.gpu.clone(),
        EntryFigures::Correction(correction) => ledger.gpu_of(correction.of),
        EntryFigures::Conflict(conflict) => ledger.gpu_of(conflict.of),
        _ => None,
    }
}

/// What it is, and which entry it is about.
fn kind_of(entry: &Entry) -> (AdjustmentKind, Option<u64>) {
    match &entry.figures {
        EntryFigures::Settlement(one) => match one.opened {
            Some(opened) => (AdjustmentKind::OpenSettled, Some(opened)),
            None => (AdjustmentKind::SettledLate, None),
        },
        EntryFigures::Correction(correction) => {
            let kind = match correction.change {
                Change::Account(_) => AdjustmentKind::AccountCorrected,
                Change::Ended { .. } => AdjustmentKind::OpenEnded,
            };
            (kind, Some(correction.of))
        }
        EntryFigures::Conflict(conflict) => (AdjustmentKind::Conflict, Some(conflict.of)),
        EntryFigures::Gap(_) => (AdjustmentKind::GapTold, None),
        EntryFigures::Memory(_) => (AdjustmentKind::MemoryTold, None),
        _ => (AdjustmentKind::Seen, None),
    }
}

#[cfg(test)]
#[path = "adjusted_tests.rs"]
mod tests;
