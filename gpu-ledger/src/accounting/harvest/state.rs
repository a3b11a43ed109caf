//! What a complete list says of each pid on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::accounting::reading::{Answer, Listing};
use crate::accounting::{Row, Window};
use crate::unit::{Pid, WallUs};

/// A row of the dead store as the last complete list left it.
#[derive(Clone, Debug)]
pub(super) struct DeadRow {
    pub(super) row: Row,
    /// It was dead when the list was taken (and did not die between the list and the question), so
    /// every row that the list did not show died after it.
    pub(super) before_list: bool,
}

impl DeadRow {
    /// Whether `row` is this very row. Without a start time only the whole contents can tell.
    pub(super) fn is(&self, row: &Row) -> bool {
        if self.row.start.is_some() {
            self.row.pid == row.pid && self.row.start == row.start && !row.running
        } else {
            self.row == *row
        }
    }
}

/// What one listed pid turned out to be.
#[derive(Clone, Debug)]
pub(super) enum PidState {
    /// Its row is final.
    Dead(DeadRow),
    /// Its row is running, and no dead one hides it.
    Live(Row),
    /// The row went between the list and the question.
    Gone,
    /// The question failed.
    Unread,
}

/// A complete list, resolved.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) states: BTreeMap<Pid, PidState>,
    pub(super) twice: BTreeSet<Pid>,
    /// Pids in the list's order, each once.
    pub(super) order: Vec<Pid>,
    /// At most so many rows were dead when the list was taken.
    pub(super) dead_at_most: usize,
}

impl Listed {
    /// Resolves a list against what the last one left. A pid that was not asked about is a dead
    /// row in its old place.
    pub(super) fn resolve(listing: &Listing, last: &[DeadRow], window: Window) -> Self {
        let known: BTreeMap<Pid, &DeadRow> = last.iter().map(|dead| (dead.row.pid, dead)).collect();
        let mut listed = Self::default();
        for &pid in &listing.pids {
            if listed.states.contains_key(&pid) {
                listed.twice.insert(pid);
                continue;
            }
            let was = known.get(&pid).copied();
            let state = match (listing.answers.get(&pid), was) {
                (Some(Answer::Row(row)), _) if row.running => PidState::Live(row.clone()),
                (Some(Answer::Row(row)), was) => {
                    let same = was.is_some_and(|was| was.is(row));
                    let before_list = same || ended_before(row, window.began.wall);
                    PidState::Dead(DeadRow { row: row.clone(), before_list })
                }
                (Some(Answer::Gone), _) => PidState::Gone,
                (None, Some(was)) => {
                    PidState::Dead(DeadRow { row: was.row.clone(), before_list: true })
                }
                (Some(Answer::Unread(_)) | None, _) => PidState::Unread,
            };
            // A running row that began after the list was taken was not what the list showed.
            let live = matches!(&state, PidState::Live(row)
                if row.start.is_none_or(|start| start < window.began.wall));
            listed.dead_at_most += usize::from(!live);
            listed.states.insert(pid, state);
            listed.order.push(pid);
        }
        listed
    }

    /// Whether every question was answered: a list of which one failed proves nothing.
    pub(super) fn is_whole(&self) -> bool {
        !self.states.values().any(|state| matches!(state, PidState::Unread))
    }

    /// Whether rows are listed, and none of them could be found.
    pub(super) fn is_all_gone(&self) -> bool {
        !self.order.is_empty() && self.states.values().all(|state| matches!(state, PidState::Gone))
    }

    /// The dead rows in the store's order.
    pub(super) fn dead(&self) -> Vec<DeadRow> {
        let states = self.order.iter().filter_map(|pid| self.states.get(pid));
        states
            .filter_map(|state| match state {
                PidState::Dead(dead) => Some(dead.clone()),
                _ => None,
            })
            .collect()
    }

    /// The dead row of a pid.
    pub(super) fn dead_of(&self, pid: Pid) -> Option<&DeadRow> {
        match self.states.get(&pid) {
            Some(PidState::Dead(dead)) => Some(dead),
            _ => None,
        }
    }
}

/// Whether a final row's end, rounded up to the driver's millisecond, lies before `at`.
pub(super) fn ended_before(row: &Row, at: WallUs) -> bool {
    let held_us = row.held.0.checked_add(1).and_then(|ms| ms.checked_mul(1_000));
    let end = row.start.and_then(|start| start.0.checked_add(held_us?));
    end.is_some_and(|end| end <= at.0)
}
