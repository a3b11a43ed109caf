//! Gaps under a bound: past it the oldest become fewer that cover them all.

use std::collections::BTreeMap;

use crate::coverage::Gap;
use crate::unit::GpuUuid;
use crate::unknown::GapCause;

/// Gaps kept one by one, of process events and of each GPU's rows.
pub const GAPS_MAX: usize = 4_096;

/// Merges the older half of too many gaps, those of one cause into one that covers them all: what was
/// seen in between is then in doubt as well, and nothing that was not seen is called seen. The last
/// `open` ones are still growing and stay. Returns how many became part of another.
pub(super) fn bound(gaps: &mut Vec<Gap>, open: usize) -> u64 {
    if gaps.len() <= GAPS_MAX {
        return 0;
    }
    let before = gaps.len();
    let half = (before / 2).min(before.saturating_sub(open));
    let younger = gaps.split_off(half);
    let mut merged: BTreeMap<(GapCause, Option<GpuUuid>), Gap> = BTreeMap::new();
    for gap in gaps.drain(..) {
        merged
            .entry((gap.cause, gap.gpu.clone()))
            .and_modify(|whole| cover(whole, &gap))
            .or_insert(gap);
    }
    gaps.extend(merged.into_values());
    gaps.sort_by_key(|gap| (gap.from, gap.to));
    gaps.extend(younger);
    u64::try_from(before.saturating_sub(gaps.len())).unwrap_or(u64::MAX)
}

/// Makes a gap reach over another of its kind as well.
pub(super) fn cover(whole: &mut Gap, part: &Gap) {
    whole.from = whole.from.min(part.from);
    whole.to = whole.to.max(part.to);
    whole.size = whole.size.zip(part.size).and_then(|(one, other)| one.checked_add(other));
}
