//! The gaps of the journal, summed, as a status has them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::status::rfc3339;
use crate::journal::store::{Reader, StoreError};
use crate::metrics::{GapCount, LastGap};
use crate::unit::Ms;
use crate::unknown::GapCause;

/// Gaps that are read for a status where no daemon has summed them.
const SUMMED_MAX: u32 = 100_000;

/// Gaps of one cause, whenever they were.
#[derive(Serialize, Debug)]
pub(crate) struct GapSum {
    pub(crate) cause: GapCause,
    pub(crate) count: u64,
    pub(crate) length_ms: Ms,
    /// Events or rows that were lost in them; null where that is not known of each.
    pub(crate) size: Option<u64>,
    /// The last one.
    pub(crate) last: Option<LastGapStatus>,
}

/// The last gap of a cause.
#[derive(Serialize, Debug)]
pub(crate) struct LastGapStatus {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) size: Option<u64>,
}

impl GapSum {
    pub(super) fn all(gaps: &BTreeMap<GapCause, GapCount>) -> Vec<Self> {
        let last = |last: LastGap| LastGapStatus {
            from: rfc3339(last.from),
            to: rfc3339(last.to),
            size: last.size,
        };
        let gaps = gaps.iter().map(|(cause, gap)| Self {
            cause: *cause,
            count: gap.count,
            length_ms: gap.length,
            size: gap.size,
            last: gap.last.map(last),
        });
        gaps.collect()
    }
}

/// Those of a journal; `None` where some are in archives, or they are too many to be read for a status.
pub(super) fn gaps_of(reader: &Reader) -> Result<Option<Vec<GapSum>>, StoreError> {
    let mut gaps: BTreeMap<GapCause, GapCount> = BTreeMap::new();
    if reader.base() > 0 {
        return Ok(None);
    }
    let is_whole = reader.gaps(SUMMED_MAX, |gap| gaps.entry(gap.cause).or_default().add(gap))?;
    Ok(is_whole.then(|| GapSum::all(&gaps)))
}
