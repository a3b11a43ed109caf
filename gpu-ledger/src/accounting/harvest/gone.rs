//! Listed pids of which the driver has no row when asked: each row is counted as lost once.
//!
//! NOT_FOUND for a listed pid says that its row cannot be read now, not that it never will: while the
//! pid stays on the list it may turn up again, and a driver that answers so for every row may do it
//! for many reads. So a row is in doubt from the first such answer on, and lost when the pid is
//! listed no more, when a row of it turns up that began later, or when nobody will read again.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{Listed, PidState};
use super::tracked::Tracked;
use crate::accounting::{Row, Window};
use crate::clock::Stamp;
use crate::unit::{Pid, WallUs};
use crate::unknown::GapCause;

/// Since when a row cannot be read, and what that is called if it is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// The last list before.
    pub(super) since: Stamp,
    /// As it looked at the first such answer.
    pub(super) cause: GapCause,
}

/// One pid that was listed without a row.
#[derive(Clone, Debug)]
struct Gone {
    doubt: Doubt,
    /// The first read that found no row: what begins after it is another one.
    read: Window,
    /// Listed rows of the pid of which nothing else is known: neither handed out nor followed.
    rows: u64,
    /// Starts of those that were known; `None` of one that was hidden behind a dead row.
    known: BTreeSet<Option<WallUs>>,
}

impl Gone {
    /// Rows that nobody knew and that are lost, where `found` is a row of the pid that began before they were
    /// asked for in vain, and stands twice on the list or once. The dead store keeps one row per pid: of a pid
    /// that was listed twice and is listed once now, one is gone for good.
    fn lost_beside(&self, found: &Row, twice: bool) -> u64 {
        let is_news = |start: Option<WallUs>| !self.known.contains(&start);
        let others_known = self.known.iter().any(|start| *start != found.start);
        let here = u64::from(is_news(found.start)) + u64::from(twice && !others_known);
        self.rows.saturating_sub(here)
    }
}

/// Lost rows by cause, with the last moment before.
#[derive(Debug, Default)]
pub(super) struct Lost(BTreeMap<GapCause, (Stamp, u64)>);

impl Lost {
    pub(super) fn add(&mut self, doubt: Doubt, rows: u64) {
        if rows == 0 {
            return;
        }
        let (since, count) = self.0.entry(doubt.cause).or_insert((doubt.since, 0));
        *since = doubt.since.min(*since);
        *count = count.saturating_add(rows);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.values().fold(0, |sum, (_, rows)| sum.saturating_add(*rows))
    }

    pub(super) fn each(self) -> impl Iterator<Item = (GapCause, Stamp, u64)> {
        self.0.into_iter().map(|(cause, (since, rows))| (cause, since, rows))
    }
}

/// Every pid that is listed without a row.
#[derive(Debug, Default)]
pub(super) struct GoneRows(BTreeMap<Pid, Gone>);

impl GoneRows {
    /// Takes in a list: what is lost by it, and which pids are newly without a row.
    pub(super) fn take(
        &mut self,
        now: &Listed,
        doubt: Doubt,
        window: Window,
        known_rows: impl Fn(Pid) -> BTreeSet<Option<WallUs>>,
        lost: &mut Lost,
    ) {
        let whole = now.is_whole();
        self.0.retain(|pid, gone| {
            let found = match now.states.get(pid) {
                Some(PidState::Gone | PidState::Unread) => return true,
                // The list may be incomplete: a loss is declared by a whole one only.
                None if !whole => return true,
                None => None,
                Some(PidState::Dead(dead)) => Some(&dead.row),
                Some(PidState::Live(row)) => Some(row),
            };
            let read = gone.read.ended.wall;
            let itself = found.filter(|row| row.start.is_none_or(|start| start <= read));
            let twice = now.twice.contains(pid);
            let rows = itself.map_or(gone.rows, |row| gone.lost_beside(row, twice));
            lost.add(gone.doubt, rows);
            false
        });
        for (pid, state) in &now.states {
            if matches!(state, PidState::Gone) {
                let listed = 1 + u64::from(now.twice.contains(pid));
                self.0.entry(*pid).or_insert_with(|| {
                    let known = known_rows(*pid);
                    let rows = listed.saturating_sub(u64::try_from(known.len()).unwrap_or(listed));
                    Gone { doubt, read: window, rows, known }
                });
            }
        }
    }

    /// Whether a row is in doubt that nobody knows.
    pub(super) fn hides_any(&self) -> bool {
        self.0.values().any(|gone| gone.rows > 0)
    }

    /// What is lost if no further list comes.
    pub(super) fn add_to(&self, lost: &mut Lost) {
        for gone in self.0.values() {
            lost.add(gone.doubt, gone.rows);
        }
    }
}

/// What is lost of the rows that were followed, if no further list comes.
pub(super) fn add_tracked<'a>(tracked: impl Iterator<Item = &'a Tracked>, lost: &mut Lost) {
    // What went with its epoch is in the epoch's gap.
    for doubt in tracked.filter(|one| one.in_doubt.is_none()).filter_map(|one| one.gone) {
        lost.add(doubt, 1);
    }
}
