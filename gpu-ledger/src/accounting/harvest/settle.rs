//! A complete list taken in: rows handed out, losses counted, the next proof's base laid.

use std::collections::BTreeMap;

use super::booked::Recall;
use super::continuity::{DEAD_ROWS_MAX, Verdict, judge};
use super::gone::{Doubt, Lost, add_tracked};
use super::state::{DeadRow, Listed, PidState, ended_before};
use super::tracked::{Fate, Tracked, fate, loss};
use super::{Harvest, LastList};
use crate::accounting::reading::{Answer, Finding, Listing, Observation, OpenRow};
use crate::accounting::{FinalRow, Row, Window};
use crate::unit::Pid;
use crate::unknown::{GapCause, UnknownReason};

impl Harvest {
    pub(super) fn settle(&mut self, listing: &Listing, window: Window, out: &mut Observation) {
        if listing.junk_pids > 0 {
            out.findings.push(Finding::JunkPids { count: listing.junk_pids });
        }
        let old = self.last.as_ref().map_or(&[][..], |last| &last.dead);
        let now = Listed::resolve(listing, old, window);
        let verdict = match &self.last {
            Some(last) => judge(old, &now, |row| self.was_open(row, last)),
            None => Verdict::default(),
        };
        let unread = listing.answers.values().filter_map(|answer| match answer {
            Answer::Unread(unknown) => Some(unknown.clone()),
            Answer::Row(_) | Answer::Gone => None,
        });
        out.unknowns.extend(unread);
        self.hand_out(&now, window, out);

        // A list of which one question failed proves nothing: the base stays the older one.
        let whole = now.is_whole();
        let around = if whole && !self.dead_rows_hidden { verdict.cause } else { None };
        self.follow(&now, window, around, out);
        if whole && self.last.is_some() && around.is_none() {
            self.weigh_exits(verdict.witnessed);
        }
        if let Some(cause) = around {
            let from = self.last.as_ref().map_or(window.began, |last| last.window.began);
            let size = self.size_around(out.findings.iter().filter(|finding| {
                matches!(finding, Finding::OpenLost { cause: of, ended_before: None, .. } if *of == cause)
            }));
            out.findings.push(self.gap(cause, from, window.ended, size));
        }
        if self.dead_rows_hidden {
            out.unknowns.push(self.unknown(UnknownReason::DeadRowsHiddenByPidNamespace));
        }
        if whole {
            self.say_if_empty(&now, out);
            self.rebase(&now, verdict, window, out);
        }
    }

    /// Touching exits since the last complete list that no row is known of: neither one that was handed
    /// out, nor one that is counted as lost by its key, nor one that is listed and in doubt. Rows that
    /// died after the list was asked for are weighed against the next read's exits, and not against
    /// these as well.
    fn exits_without_row(&self) -> Option<u64> {
        let rows = self.new_rows.saturating_sub(self.early_rows).saturating_add(self.lost_rows);
        let rows = rows.saturating_add(self.doubtful().count());
        self.exits.map(|exits| exits.saturating_sub(rows))
    }

    /// How much went with the dead rows of a store: the exits that left no row, and the rows seen open
    /// at least. The exit of one of those may be told with the next list only, and is then no further row.
    fn size_around<'a>(&mut self, swept: impl Iterator<Item = &'a Finding>) -> Option<u64> {
        let exits = self.exits_without_row()?;
        let swept = u64::try_from(swept.count()).unwrap_or(u64::MAX);
        self.early_rows = self.early_rows.saturating_add(swept.saturating_sub(exits));
        Some(exits.max(swept))
    }

    /// Weighs the exits since the last complete list against the rows that this one brought, where no
    /// gap does it.
    fn weigh_exits(&mut self, witnessed: bool) {
        let Some(exits) = self.exits else { return };
        let rows = self.new_rows.saturating_sub(self.early_rows).saturating_add(self.lost_rows);
        let without = if witnessed { &mut self.exits_owed } else { &mut self.exits_unwitnessed };
        *without = without.saturating_add(exits.saturating_sub(rows));
        let mut late = rows.saturating_sub(exits);
        for without in [&mut self.exits_owed, &mut self.exits_unwitnessed] {
            let paid = late.min(*without);
            *without = without.saturating_sub(paid);
            late = late.saturating_sub(paid);
        }
    }

    /// The rows that are lost if no further list comes.
    pub(super) fn doubtful(&self) -> Lost {
        let mut lost = Lost::default();
        self.gone.add_to(&mut lost);
        add_tracked(self.tracked.values(), &mut lost);
        lost
    }

    /// Whether the last list showed this row running, be it behind a dead row of its pid: then without
    /// a start, but no later span can have begun before that list was read.
    fn was_open(&self, row: &Row, last: &LastList) -> bool {
        self.tracked.get(&row.pid).is_some_and(|tracked| match tracked.open.start {
            Some(start) => row.start == Some(start),
            None => row.start.is_some_and(|start| start <= last.window.ended.wall),
        })
    }

    /// Hands out every final row that was not handed out before.
    fn hand_out(&mut self, now: &Listed, window: Window, out: &mut Observation) {
        let last = self.last.as_ref().map_or(&[][..], |last| &last.dead);
        let known: BTreeMap<Pid, &Row> = last.iter().map(|was| (was.row.pid, &was.row)).collect();
        // A question that failed may have been about a row that died since, too.
        let is_unread = |(pid, state): &(&Pid, &PidState)| {
            matches!(state, PidState::Unread) && !known.contains_key(pid)
        };
        self.unread_rows = now.states.iter().filter(is_unread).count();
        let mut news = now.dead();
        news.retain(|dead| {
            let row = &dead.row;
            self.tells_again(row.pid, row.start) || known.get(&row.pid).copied() != Some(row)
        });
        for DeadRow { row, before_list, .. } in news {
            let final_row = FinalRow { row: row.clone(), seen: window, busy: None };
            let Some((key, start)) = row.key().zip(row.start) else {
                if self.nameless.get(&row.pid) != Some(&row) {
                    self.unread_rows += usize::from(before_list);
                    self.nameless.insert(row.pid, row);
                    out.unknowns.push(self.unknown(UnknownReason::NoStartTime));
                    out.findings.push(Finding::NoStartTime(final_row));
                }
                continue;
            };
            let place = (row.pid, start);
            match self.booked.recall(place, &row) {
                Recall::Same => self.booked.present(place),
                Recall::Conflict(booked) => {
                    out.findings.push(Finding::Conflict { key, booked, now: row });
                }
                Recall::New => {
                    // Only the first list can show what was over before anyone looked; a row that
                    // ended while it was being read is news.
                    let before = self.last.is_none()
                        && self.begun.is_some_and(|begun| ended_before(&row, begun.wall));
                    let counted = known.get(&row.pid).copied() == Some(&row);
                    self.booked.insert(place, row);
                    self.new_rows += u64::from(!counted);
                    // Its exit may be counted with the next read.
                    self.early_rows += u64::from(!before_list && !counted);
                    self.unread_rows += usize::from(before_list && !before && !counted);
                    out.findings.push(if before {
                        Finding::AlreadyDead(final_row)
                    } else {
                        Finding::Final(final_row)
                    });
                }
            }
        }
    }

    /// Follows the rows seen open, and takes up new ones.
    fn follow(
        &mut self,
        now: &Listed,
        window: Window,
        around: Option<GapCause>,
        out: &mut Observation,
    ) {
        let since = self.last.as_ref().map_or(window.began, |last| last.window.began);
        let all_gone = now.is_all_gone();
        let cause = if all_gone { GapCause::EpochBroken } else { GapCause::RowVanished };
        let (doubt, mut lost) = (Doubt { since, cause }, Lost::default());
        let known = |pid: Pid| {
            let dead = self.last.as_ref().map_or(&[][..], |base| &base.dead);
            let dead = dead.iter().filter(|was| was.row.pid == pid).map(|was| was.row.start);
            dead.chain(self.tracked.get(&pid).map(|tracked| tracked.open.start)).collect()
        };
        let mut gone = std::mem::take(&mut self.gone);
        gone.take(now, doubt, window, known, &mut lost);
        self.gone = gone;
        for (pid, tracked) in std::mem::take(&mut self.tracked) {
            let followed = follow_one(pid, tracked, now, (window, around, doubt), &mut lost, out);
            self.tracked.extend(followed.map(|tracked| (pid, tracked)));
        }
        self.lost_rows = self.lost_rows.saturating_add(lost.count());
        for (cause, from, rows) in lost.each() {
            out.findings.push(self.gap(cause, from, window.ended, Some(rows)));
        }
        let any_gone = || self.tracked.values().any(|tracked| tracked.gone.is_some());
        if all_gone {
            out.unknowns.push(self.unknown(UnknownReason::AccountingModeReset));
        } else if self.gone.hides_any() || any_gone() {
            out.unknowns.push(self.unknown(UnknownReason::RowVanished));
        }
        self.take_up(now, window, out);
        if now.is_whole() {
            self.tell_open_again(out);
            self.again = None;
        }
    }

    fn tell_open_again(&self, out: &mut Observation) {
        let again =
            self.tracked.values().filter(|one| self.tells_again(one.open.pid, one.open.start));
        for Tracked { open, .. } in again {
            let told = out.findings.iter().any(|finding| {
                matches!(finding, Finding::Opened(one) | Finding::Masked(one) if one == open)
            });
            if !told {
                let open = open.clone();
                let masked = open.row.is_none();
                let finding = if masked { Finding::Masked } else { Finding::Opened };
                out.findings.push(finding(open));
            }
        }
    }

    fn take_up(&mut self, now: &Listed, window: Window, out: &mut Observation) {
        let before = self.last.as_ref().map_or(window.began, |last| last.window.began);
        for (&pid, state) in &now.states {
            let (row, behind) = match state {
                PidState::Live(row) => {
                    let booked = row.start.map(|start| self.booked.recall((pid, start), row));
                    if let (Some(Recall::Conflict(booked)), Some(key)) = (&booked, row.key()) {
                        let (booked, now) = (booked.clone(), row.clone());
                        out.findings.push(Finding::Conflict { key, booked, now });
                    }
                    // A key that was final cannot be open again.
                    if booked.is_some_and(|recall| recall != Recall::New) {
                        continue;
                    }
                    (Some(row.clone()), None)
                }
                // Listed twice, but the dead row may be the very one that was live when the list was
                // taken: only a row dead before the list hides another.
                PidState::Dead(dead) if now.twice.contains(&pid) && dead.before_list => {
                    (None, dead.row.start)
                }
                _ => continue,
            };
            let first_seen = match self.tracked.get_mut(&pid) {
                Some(tracked) if tracked.open.start.is_some() || row.is_none() => {
                    if row.is_some() {
                        tracked.open.row = row;
                    }
                    continue;
                }
                Some(tracked) => tracked.open.first_seen,
                None if row.is_none() => Window { began: before, ..window },
                None => window,
            };
            self.take_up_one(pid, row, behind, (first_seen, window), out);
        }
    }

    fn take_up_one(
        &mut self,
        pid: Pid,
        row: Option<Row>,
        behind: Option<crate::unit::WallUs>,
        (first_seen, last_seen): (Window, Window),
        out: &mut Observation,
    ) {
        let start = row.as_ref().and_then(|row| row.start);
        let reason = match (&row, start) {
            (None, _) => Some(UnknownReason::MaskedByDeadRow),
            (Some(_), None) => Some(UnknownReason::NoStartTime),
            (Some(_), Some(_)) => None,
        };
        let masked = row.is_none();
        let gpu = self.gpu.clone();
        let open = OpenRow { gpu, pid, start, reason, row, behind, first_seen, last_seen };
        let known =
            self.tracked.insert(pid, Tracked { open: open.clone(), in_doubt: None, gone: None });
        // A row without a start time is not news each time it is read.
        if known.is_some_and(|known| known.open.reason == reason) {
            return;
        }
        out.findings.push(if masked { Finding::Masked(open) } else { Finding::Opened(open) });
    }

    /// An empty list is no proof of an idle GPU: a mode that was reset looks the same.
    fn say_if_empty(&self, now: &Listed, out: &mut Observation) {
        if !now.order.is_empty() || self.dead_rows_hidden {
            return;
        }
        let since = self.last.as_ref().filter(|last| !last.off_since).and_then(|l| l.empty_since);
        match since {
            Some(since) if self.dead_rows_max == 0 && self.exits == Some(0) => {
                out.findings.push(Finding::ObservedIdle { since });
            }
            _ => {
                out.unknowns.push(self.unknown(UnknownReason::EmptyAccountedList));
            }
        }
    }

    /// Makes this list the base of the next proof.
    fn rebase(&mut self, now: &Listed, verdict: Verdict, window: Window, out: &mut Observation) {
        let mut forgotten = 0;
        for gone in verdict.gone_for_good {
            if let Some(start) = gone.row.start {
                self.booked.forget((gone.row.pid, start));
            }
            if now.dead_of(gone.row.pid).is_none() {
                self.nameless.remove(&gone.row.pid);
            }
        }
        for missing in verdict.missing {
            if let Some(start) = missing.row.start {
                forgotten += self.booked.absent((missing.row.pid, start));
            }
        }
        if forgotten > 0 {
            out.findings.push(Finding::KeysForgotten { count: forgotten });
        }
        if self.nameless.len() > super::ABSENT_KEYS_MAX {
            self.nameless.retain(|pid, _| now.states.contains_key(pid));
        }
        let dead = now.base();
        self.dead_rows_max = self.dead_rows_max.max(dead.len().min(DEAD_ROWS_MAX));
        let was_empty = self.last.as_ref().filter(|last| !last.off_since);
        let empty_since = now
            .order
            .is_empty()
            .then(|| was_empty.and_then(|last| last.empty_since).unwrap_or(window.began));
        self.last = Some(LastList { window, dead, empty_since, off_since: false });
        self.exits = Some(0);
        self.new_rows = std::mem::take(&mut self.early_rows);
        self.lost_rows = 0;
    }
}

/// What a list says of one row that was seen open: as it stands now, or `None` where it is over.
fn follow_one(
    pid: Pid,
    mut tracked: Tracked,
    now: &Listed,
    (window, around, doubt): (Window, Option<GapCause>, Doubt),
    lost: &mut Lost,
    out: &mut Observation,
) -> Option<Tracked> {
    let fate = fate(pid, &tracked, now);
    let Some(cause) = loss(fate, &tracked, around) else {
        match fate {
            Fate::Final => return None,
            Fate::Vanished => {
                tracked.gone.get_or_insert(doubt);
            }
            Fate::Open | Fate::Hidden => {
                (tracked.in_doubt, tracked.gone) = (None, None);
                tracked.open.last_seen = window;
            }
            Fate::Unread | Fate::Overwritten(_) | Fate::Missing => {}
        }
        return Some(tracked);
    };
    // The list may be incomplete: a loss is declared by a whole one only.
    if fate == Fate::Missing && !now.is_whole() {
        return Some(tracked);
    }
    let ended_before = if let Fate::Overwritten(next) = fate { Some(next) } else { None };
    // What goes with its epoch, or with the dead rows around it, is in their gap.
    let counted = ended_before.is_some()
        || (tracked.in_doubt.is_none()
            && (tracked.gone.is_some() || cause == GapCause::EpochBroken));
    if counted {
        // It may have been lost as early as when it was first not found.
        let since = tracked.gone.map_or(doubt.since, |gone| gone.since);
        lost.add(Doubt { since, cause }, 1);
    }
    out.findings.push(Finding::OpenLost { row: tracked.open, cause, ended_before });
    None
}
