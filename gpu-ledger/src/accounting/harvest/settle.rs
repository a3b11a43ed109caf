//! A complete list taken in: rows handed out, losses counted, the next proof's base laid.

use std::collections::BTreeMap;

use super::booked::Recall;
use super::continuity::{DEAD_ROWS_MAX, Verdict, judge};
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
        let all_gone = !now.order.is_empty()
            && now.states.values().all(|state| matches!(state, PidState::Gone));
        self.hand_out(&now, window, out);

        // A list of which one question failed proves nothing: the base stays the older one.
        let whole = !now.states.values().any(|state| matches!(state, PidState::Unread));
        let around = if whole && !self.dead_rows_hidden { verdict.cause } else { None };
        let from = self.last.as_ref().map_or(window.began, |last| last.window.began);
        if let Some(cause) = around {
            // Rows that died after the list was asked for are weighed against the next read's exits,
            // and not against these as well.
            let rows = self.new_rows.saturating_sub(self.early_rows);
            let lost = self.exits.map(|exits| exits.saturating_sub(rows));
            out.findings.push(self.gap(cause, from, window.ended, lost));
        }
        self.follow(&now, window, around, all_gone, out);
        if self.dead_rows_hidden {
            out.unknowns.push(self.unknown(UnknownReason::DeadRowsHiddenByPidNamespace));
        }
        if whole {
            self.say_if_empty(&now, out);
            self.rebase(&now, verdict, window, out);
        }
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
        let mut news = now.dead();
        let again = self.hands_out_again;
        news.retain(|dead| again || known.get(&dead.row.pid).copied() != Some(&dead.row));
        for DeadRow { row, before_list } in news {
            let final_row = FinalRow { row: row.clone(), seen: window, busy: None };
            let Some((key, start)) = row.key().zip(row.start) else {
                if self.nameless.get(&row.pid) != Some(&row) {
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
        all_gone: bool,
        out: &mut Observation,
    ) {
        let from = self.last.as_ref().map_or(window.began, |last| last.window.began);
        let whole = !now.states.values().any(|state| matches!(state, PidState::Unread));
        let (mut vanished, mut broken) = (self.vanished_strangers(now), 0_u64);
        for (pid, mut tracked) in std::mem::take(&mut self.tracked) {
            let fate = fate(pid, &tracked, now);
            match loss(fate, &tracked, around) {
                // The list may be incomplete: a loss is declared by a whole one only.
                Some(_) if !whole && fate == Fate::Missing => {
                    self.tracked.insert(pid, tracked);
                }
                Some(cause) => {
                    let ended_before = match fate {
                        Fate::Overwritten(next) => Some(next),
                        _ => None,
                    };
                    match cause {
                        GapCause::RowOverwritten if ended_before.is_some() => {
                            out.findings.push(self.gap(cause, from, window.ended, Some(1)));
                        }
                        GapCause::RowVanished => vanished += 1,
                        GapCause::EpochBroken if tracked.in_doubt.is_none() => broken += 1,
                        _ => {}
                    }
                    out.findings.push(Finding::OpenLost { row: tracked.open, cause, ended_before });
                }
                None if fate == Fate::Final => {}
                None => {
                    if fate != Fate::Unread {
                        tracked.in_doubt = None;
                        tracked.open.last_seen = window;
                    }
                    self.tracked.insert(pid, tracked);
                }
            }
        }
        if vanished > 0 {
            let (cause, reason) = if all_gone {
                (GapCause::EpochBroken, UnknownReason::AccountingModeReset)
            } else {
                (GapCause::RowVanished, UnknownReason::RowVanished)
            };
            out.findings.push(self.gap(cause, from, window.ended, Some(vanished)));
            out.unknowns.push(self.unknown(reason));
        }
        if broken > 0 {
            out.findings.push(self.gap(GapCause::EpochBroken, from, window.ended, Some(broken)));
        }
        self.take_up(now, window, out);
        if whole && std::mem::take(&mut self.hands_out_again) {
            for Tracked { open, .. } in self.tracked.values() {
                let told = out.findings.iter().any(|finding| {
                    matches!(finding, Finding::Opened(one) | Finding::Masked(one) if one == open)
                });
                if !told {
                    let open = open.clone();
                    let masked = open.row.is_none();
                    out.findings.push(if masked {
                        Finding::Masked(open)
                    } else {
                        Finding::Opened(open)
                    });
                }
            }
        }
    }

    /// Listed pids without a row when asked, of which nothing had been seen: neither a row that was
    /// handed out before nor one that is followed.
    fn vanished_strangers(&self, now: &Listed) -> u64 {
        let last = self.last.as_ref().map_or(&[][..], |last| &last.dead);
        let strangers = now.states.iter().filter(|(pid, state)| {
            matches!(state, PidState::Gone)
                && !self.tracked.contains_key(pid)
                && !last.iter().any(|was| was.row.pid == **pid)
        });
        u64::try_from(strangers.count()).unwrap_or(u64::MAX)
    }

    fn take_up(&mut self, now: &Listed, window: Window, out: &mut Observation) {
        for (&pid, state) in &now.states {
            let (row, masked_by) = match state {
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
                None => window,
            };
            self.take_up_one(pid, row, masked_by, (first_seen, window), out);
        }
    }

    fn take_up_one(
        &mut self,
        pid: Pid,
        row: Option<Row>,
        masked_by: Option<crate::unit::WallUs>,
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
        let open = OpenRow { gpu, pid, start, reason, row, first_seen, last_seen };
        let known =
            self.tracked.insert(pid, Tracked { open: open.clone(), masked_by, in_doubt: None });
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
        let dead = now.dead();
        // Rows that die while a list is being read can make it longer than the store is.
        self.dead_rows_max = self.dead_rows_max.max(dead.len().min(DEAD_ROWS_MAX));
        let was_empty = self.last.as_ref().filter(|last| !last.off_since);
        let empty_since = now
            .order
            .is_empty()
            .then(|| was_empty.and_then(|last| last.empty_since).unwrap_or(window.began));
        self.last = Some(LastList { window, dead, empty_since, off_since: false });
        self.exits = Some(0);
        self.new_rows = std::mem::take(&mut self.early_rows);
    }
}
