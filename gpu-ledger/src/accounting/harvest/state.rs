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
    /// It was there when the list was taken, and not any more when it was asked for: the next list tells
    /// whether it went in the store's order or with all the others.
    pub(super) left: bool,
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
    /// The list was taken after this moment.
    taken_after: Option<WallUs>,
    /// At most so many rows were dead when the list was taken.
    pub(super) dead_at_most: usize,
    /// Dead rows of the last list that this one still showed, and that were gone when asked for.
    pub(super) left: BTreeMap<Pid, DeadRow>,
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
                    PidState::Dead(DeadRow { row: row.clone(), before_list, left: false })
                }
                (Some(Answer::Gone), _) => PidState::Gone,
                (None, Some(was)) if !was.left => {
                    PidState::Dead(DeadRow { row: was.row.clone(), before_list: true, left: false })
                }
                (Some(Answer::Unread(_)) | None, _) => PidState::Unread,
            };
            listed.states.insert(pid, state);
            listed.order.push(pid);
        }
        listed.taken_after = Some(window.began.wall);
        let alive = listed.states.iter().filter(|(pid, state)| {
            matches!(state, PidState::Live(row) if listed.showed_running(**pid, row))
        });
        listed.dead_at_most = listed.states.len().saturating_sub(alive.count());
        listed.find_left(listing, last);
        listed
    }

    /// Whether a row that was found running is what the list showed of its pid. One that began after the list was
    /// taken is not, and a pid that is listed twice had a dead row then, whatever is left of it.
    pub(super) fn showed_running(&self, pid: Pid, row: &Row) -> bool {
        let began_before =
            row.start.zip(self.taken_after).is_none_or(|(start, taken_after)| start < taken_after);
        began_before && !self.twice.contains(&pid)
    }

    /// Finds the dead rows that went between the list and the question. Questions take time, and are not asked
    /// in the store's order: one that was asked early may have found an older row than one that was asked
    /// late. The dead store is a queue (open-gpu-kernel-modules 595.45.04, `gpu_acct.c`), so what stands
    /// before a row that is still itself is older than that, and no later span of its pid.
    fn find_left(&mut self, listing: &Listing, last: &[DeadRow]) {
        let places: BTreeMap<Pid, usize> =
            last.iter().enumerate().map(|(place, was)| (was.row.pid, place)).collect();
        // The oldest place of what stands further back and is proven to be itself.
        let mut itself_from = None;
        for pid in self.order.iter().rev() {
            let Some((&place, was)) = places.get(pid).and_then(|p| Some((p, last.get(*p)?))) else {
                continue;
            };
            let went = match self.states.get(pid) {
                Some(PidState::Gone) => true,
                Some(PidState::Live(row)) => !self.showed_running(*pid, row),
                Some(PidState::Dead(dead)) => {
                    let asked = matches!(listing.answers.get(pid), Some(Answer::Row(_)));
                    // Without a start time nothing tells it from a later span.
                    if asked && was.row.start.is_some() && was.is(&dead.row) {
                        itself_from = Some(itself_from.map_or(place, |from| place.min(from)));
                    }
                    false
                }
                Some(PidState::Unread) | None => false,
            };
            if went && itself_from.is_some_and(|from| place < from) {
                let left = DeadRow { row: was.row.clone(), before_list: true, left: true };
                self.left.insert(*pid, left);
            }
        }
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

    /// The base of the next proof, in the store's order: what the list showed as dead, and behind that what died
    /// while it was read, wherever the list has its pid: it may have taken the place of an older row.
    pub(super) fn base(&self) -> Vec<DeadRow> {
        let rows = self.order.iter().filter_map(|pid| match self.states.get(pid) {
            Some(PidState::Dead(dead)) => Some(dead),
            _ => self.left.get(pid),
        });
        let (mut before, since): (Vec<_>, Vec<_>) = rows.cloned().partition(|row| row.before_list);
        before.extend(since);
        before
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
