//! The proofs that no row was lost between two complete lists, or what was lost.
//!
//! The dead store is a queue of [`DEAD_ROWS_MAX`] with one place per pid
//! (open-gpu-kernel-modules 595.45.04, `generated/g_gpu_acct_nvoc.h`, `gpu_acct.c`): while any dead
//! row of the last list is still there, nothing younger was evicted; while the store is not full,
//! nothing was evicted at all, so a row that is missing then was cleared.

use super::state::{DeadRow, Listed, PidState};
use crate::accounting::Row;
use crate::unknown::GapCause;

/// Dead rows the driver keeps per GPU, the same from 515 to 595. Never taken from the advertised
/// buffer size, which is this plus the live ones.
pub const DEAD_ROWS_MAX: usize = 128;

/// How the dead rows of the last list fared.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// The loss that must be assumed, if any.
    pub(super) cause: Option<GapCause>,
    /// A dead row of the last list is still there: then nothing was cleared in between.
    pub(super) witnessed: bool,
    /// Rows of the last list whose going is explained: replaced, or evicted in order.
    pub(super) gone_for_good: Vec<DeadRow>,
    /// Rows of the last list that are missing without proof that they cannot come back.
    pub(super) missing: Vec<DeadRow>,
}

/// Judges a list by the dead rows of the one before. `was_open` says of a row that is dead now whether
/// the list before showed it running: that it took the place of its pid's older row is then as it
/// should be, and the newer row is as good a witness as the older one would have been.
pub(super) fn judge(last: &[DeadRow], now: &Listed, was_open: impl Fn(&Row) -> bool) -> Verdict {
    let full = now.dead_at_most >= DEAD_ROWS_MAX;
    let mut verdict = Verdict::default();
    let (mut survivor, mut witness) = (None, false);
    let (mut absent, mut unfound) = (Vec::new(), Vec::new());
    let mut replaced_as_seen = false;
    for (place, was) in last.iter().enumerate() {
        // It was still there when the list was taken: neither a witness nor missing.
        if now.left.contains_key(&was.row.pid) {
            continue;
        }
        match now.states.get(&was.row.pid) {
            Some(PidState::Dead(dead)) if was.is(&dead.row) => {
                survivor = survivor.or(Some(place));
                witness |= was.before_list;
            }
            Some(PidState::Dead(dead)) => {
                // One that may have died after the list was taken is listed beside the older row, unless that was
                // cleared away before.
                let at_list = dead.before_list || now.twice.contains(&was.row.pid);
                replaced_as_seen |= at_list && was_open(&dead.row);
                verdict.gone_for_good.push(was.clone());
            }
            // The question failed: neither a witness nor missing.
            Some(PidState::Unread) => {}
            // It went after the list was taken, or a later span of its pid did. Which of the two it was, and
            // whether in turn or with all the others, nobody can say.
            Some(PidState::Gone) if !now.is_all_gone() => unfound.push(was.clone()),
            Some(PidState::Live(row)) if !now.showed_running(was.row.pid, row) => {
                unfound.push(was.clone());
            }
            Some(PidState::Live(_) | PidState::Gone) | None => absent.push((place, was.clone())),
        }
    }
    // Younger rows still listed than all that are missing: the store's own order of eviction.
    let in_order = survivor.is_some_and(|first| absent.iter().all(|(place, _)| *place < first));
    let in_turn = absent.is_empty() || full && in_order;
    verdict.cause = if full && !witness {
        Some(GapCause::RowsPossiblyEvicted)
    } else if !in_turn {
        Some(GapCause::ClearedOrReset)
    } else if !unfound.is_empty() {
        Some(GapCause::RowsPossiblyEvicted)
    } else if full && in_order {
        None
    } else if survivor.is_none() && !verdict.gone_for_good.is_empty() && !replaced_as_seen {
        Some(GapCause::RowOverwritten)
    } else {
        None
    };
    verdict.witnessed = survivor.is_some();
    let evicted_in_order = verdict.cause.is_none();
    for was in absent.into_iter().map(|(_, was)| was).chain(unfound) {
        if evicted_in_order {
            verdict.gone_for_good.push(was);
        } else {
            verdict.missing.push(was);
        }
    }
    verdict
}
