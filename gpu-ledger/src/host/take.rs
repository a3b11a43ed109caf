//! One read taken in: every finding becomes what it means here, and a note.

use std::collections::BTreeMap;

use super::note::{Forgotten, News, Opened, Settled};
use super::rows::RowlessTold;
use super::{Host, HostError, UNKNOWNS_MAX};
use crate::accounting::reading::{Finding, ListingState, OpenRow};
use crate::accounting::worker::ReadOutcome;
use crate::accounting::{FinalRow, Row, RowKey};
use crate::clock::{BootPlace, Stamp};
use crate::kernel::ProcessKey;
use crate::settlement::{Attribution, missed_in_coverage, settle};
use crate::unit::{GpuUuid, Pid};
use crate::unknown::{Flag, Unknown, UnknownReason};

impl Host {
    pub(super) fn take_read(&mut self, outcome: &ReadOutcome) -> Result<(), HostError> {
        // An empty list is in doubt only until a later one tells more: the last read's doubt counts.
        let lasting = outcome.unknowns.iter();
        let lasting = lasting.filter(|unknown| unknown.reason != UnknownReason::EmptyAccountedList);
        for unknown in lasting {
            self.note_unknown(unknown);
        }
        let Some(gpu) = self.gpus.get_mut(&outcome.gpu) else { return Ok(()) };
        let was_released = gpu.released().is_some();
        let (gaps, merged) = gpu.take(outcome);
        let seen_again = was_released && gpu.released().is_none();
        let mut gaps = gaps.into_iter();
        let uuid = &outcome.gpu;
        if seen_again {
            self.push(gaps.next().map(News::Gap));
        }
        if merged > 0 {
            self.forgot(Forgotten::Gaps, Some(uuid), merged);
        }
        for finding in &outcome.findings {
            match finding {
                Finding::Gap(_) => self.push(gaps.next().map(News::Gap)),
                other => self.take_finding(other, uuid)?,
            }
        }
        if outcome.listing == ListingState::Listed {
            self.compare_journal(uuid, outcome.window.ended);
        }
        self.tell_rowless(uuid, outcome.window.ended);
        Ok(())
    }

    fn take_finding(&mut self, finding: &Finding, uuid: &GpuUuid) -> Result<(), HostError> {
        let gpu = uuid.clone();
        let news = match finding {
            // What was over before anything was watched belongs to no period of a single trace.
            Finding::AlreadyDead(row) => {
                if self.settings.books_the_already_dead || !self.is_from_before(&row.row) {
                    self.book(row, true)?;
                }
                return Ok(());
            }
            Finding::Final(row) | Finding::NoStartTime(row) => return self.book(row, false),
            Finding::Opened(open) | Finding::Masked(open) => self.opened(open),
            Finding::OpenLost { row, cause, ended_before } => {
                if let Some(key) = row.row.as_ref().and_then(Row::key) {
                    self.journaled.remove(&key);
                }
                // Whoever it was about may hold the device still, without a row from now on.
                if let Some(gpu) = self.gpus.get_mut(uuid) {
                    gpu.request(false, true);
                }
                let (attribution, whose) = self.whose_open(row);
                let process = self.process_of_open(row, &attribution);
                News::OpenLost {
                    row: Box::new(row.clone()),
                    cause: *cause,
                    ended_before: *ended_before,
                    whose: Box::new(whose),
                    process,
                    of_command: process.is_some_and(|key| self.is_in_command(&key)),
                }
            }
            Finding::Conflict { key, booked, now } => News::Conflict {
                key: key.clone(),
                booked: Box::new(booked.clone()),
                now: Box::new(now.clone()),
            },
            Finding::EpochBegan { at } => {
                // Who opened the device before has no row: the first read is followed by such a
                // question anyway, a later beginning is not.
                if let Some(rows) = self.gpus.get_mut(uuid).filter(|rows| rows.reads > 1) {
                    rows.request(false, true);
                }
                News::EpochBegan { gpu, at: *at }
            }
            Finding::EpochEnded { at, cause } => {
                // No row tells any more who holds the device.
                if let Some(rows) = self.gpus.get_mut(uuid) {
                    rows.request(false, true);
                }
                News::EpochEnded { gpu, at: *at, cause: *cause }
            }
            Finding::KeysForgotten { count } => {
                self.forgot(Forgotten::BookedKeys, Some(uuid), *count);
                return Ok(());
            }
            Finding::JunkPids { count } => {
                self.forgot(Forgotten::JunkPids, Some(uuid), *count);
                return Ok(());
            }
            Finding::Gap(_) | Finding::ObservedIdle { .. } => return Ok(()),
        };
        self.push(Some(news));
        Ok(())
    }

    fn opened(&self, open: &OpenRow) -> News {
        let (attribution, whose) = self.whose_open(open);
        News::Opened(Box::new(Opened { row: open.clone(), attribution, whose }))
    }

    fn book(&mut self, row: &FinalRow, already_dead: bool) -> Result<(), HostError> {
        let pid = row.row.pid;
        let rowless_since = self.gpus.get(&row.row.gpu).and_then(|gpu| gpu.rowless_since(pid));
        let mut settlement = settle(row, &self.evidence(&row.row, rowless_since))?;
        if settlement.attribution.named().is_some_and(|named| self.is_moved(named)) {
            settlement.flags.insert(Flag::CgroupMoved);
        }
        self.books.book(row, &settlement)?;
        let of_command = self.is_of_command(&settlement.attribution);
        let whose = self.whose(&row.row, &settlement.attribution);
        if let Some(gpu) = self.gpus.get_mut(&row.row.gpu) {
            gpu.forget_kind(pid);
        }
        // Nobody was seen to open the GPU for it, though everybody was watched: opens do not tell all.
        let is_untouched = match settlement.attribution.named() {
            Some(named) => {
                self.awaiting_row.remove(&named.key);
                let lifetime = self.processes.lifetimes.get(&named.key);
                lifetime.is_some_and(|life| life.touched.is_none())
            }
            None => missed_in_coverage([&settlement], self.coverage()) > 0,
        };
        if is_untouched
            && self.processes.touches_watched
            && let Some(gpu) = self.gpus.get_mut(&row.row.gpu)
        {
            gpu.rows_untouched = gpu.rows_untouched.saturating_add(1);
        }
        if let Some(key) = row.row.key() {
            self.journaled.remove(&key);
        }
        let row = row.clone();
        let settled = Settled { row, settlement, whose, of_command, already_dead };
        self.push(Some(News::Settled(Box::new(settled))));
        self.await_acknowledgement(pid);
        Ok(())
    }

    /// Whether a row was over when coverage began. One that has no one place on the boot clock may have
    /// been seen.
    fn is_from_before(&self, row: &Row) -> bool {
        let Some(BootPlace::Once(start)) = self.place_of(row) else { return false };
        let end = row.held.0.checked_mul(1_000_000).map(|held_ns| start.plus_ns(held_ns));
        end.is_some_and(|end| end <= self.processes.coverage.start.boot)
    }

    /// The first list of a GPU shows which of the rows that an earlier run left open can still come.
    fn compare_journal(&mut self, uuid: &GpuUuid, at: Stamp) {
        let Some(gpu) = self.gpus.get_mut(uuid) else { return };
        if std::mem::replace(&mut gpu.journal_compared, true) {
            return;
        }
        let Some(gpu) = self.gpus.get(uuid) else { return };
        let runs = |key: &RowKey| {
            let mut open = gpu.open.iter().filter(|open| open.pid == key.pid);
            open.any(|open| self.may_have_begun_at(open, key.start))
        };
        let lost: Vec<RowKey> =
            self.journaled.keys().filter(|key| key.gpu == *uuid && !runs(key)).cloned().collect();
        for key in lost {
            if let Some(named) = self.journaled.remove(&key) {
                self.push(Some(News::OpenUnresolved { key, named: Box::new(named), at }));
            }
        }
    }

    /// Tells which holders have no row now, and which of those that were told have gone.
    fn tell_rowless(&mut self, uuid: &GpuUuid, at: Stamp) {
        let Some(gpu) = self.gpus.get(uuid) else { return };
        let without_row =
            gpu.rowless().filter(|(holder, _)| !gpu.open.iter().any(|open| open.pid == holder.pid));
        let now: BTreeMap<Pid, _> = without_row
            .map(|(holder, since)| {
                (holder.pid, (holder.clone(), since, self.key_of_bearer(holder.pid)))
            })
            .collect();
        let same = |told: Option<ProcessKey>, key: Option<ProcessKey>| match (told, key) {
            // A start known to the tick may have become exact since.
            (Some(told), Some(key)) => {
                let told = self.processes.lifetimes.get(&told).map(|life| life.key);
                told.is_none_or(|told| told == key)
            }
            _ => true,
        };
        let gone: Vec<(Pid, RowlessTold)> = gpu
            .rowless_told
            .iter()
            .filter(|(pid, told)| now.get(pid).is_none_or(|(_, _, key)| !same(told.key, *key)))
            .map(|(pid, told)| (*pid, *told))
            .collect();
        for (pid, told) in gone {
            let RowlessTold { since, last_seen, key } = told;
            let gpu = uuid.clone();
            let exit = key.and_then(|key| self.end_of(&key)).filter(|exit| *exit <= at.boot);
            let exit = exit.and_then(|exit| self.processes.history.stamp_of(exit));
            self.push(Some(News::RowlessGone { gpu, pid, key, since, last_seen, exit, at }));
            if let Some(gpu) = self.gpus.get_mut(uuid) {
                gpu.rowless_told.remove(&pid);
                if now.contains_key(&pid) {
                    gpu.restart_rowless(pid, at);
                }
            }
        }
        for (pid, (holder, since, key)) in now {
            let Some(gpu) = self.gpus.get_mut(uuid) else { return };
            let last_seen = gpu.rowless_last_seen(pid).unwrap_or(since);
            if let Some(told) = gpu.rowless_told.get_mut(&pid) {
                told.last_seen = last_seen;
                continue;
            }
            let since = gpu.rowless().find(|(one, _)| one.pid == pid).map_or(since, |one| one.1);
            gpu.rowless_told.insert(pid, RowlessTold { since, last_seen, key });
            // On whose account it stands is made out once, when it is told.
            let (gpu, bearer) = (uuid.clone(), Box::new(self.bearer(uuid, pid)));
            self.push(Some(News::RowlessSeen { gpu, since, holder, bearer }));
        }
    }

    /// Keeps an UNKNOWN and tells it, the first time.
    pub fn note_unknown(&mut self, unknown: &Unknown) {
        if self.unknowns.contains(unknown) {
            return;
        }
        if self.unknowns.len() >= UNKNOWNS_MAX {
            self.forgot(Forgotten::Unknowns, unknown.gpu.as_ref(), 1);
            return;
        }
        self.unknowns.insert(unknown.clone());
        self.push(Some(News::Unknown(unknown.clone())));
    }
}

/// The row that a finding brings.
pub(super) const fn row_of(finding: &Finding) -> Option<&FinalRow> {
    match finding {
        Finding::AlreadyDead(row) | Finding::Final(row) | Finding::NoStartTime(row) => Some(row),
        Finding::Opened(_)
        | Finding::Masked(_)
        | Finding::OpenLost { .. }
        | Finding::Conflict { .. }
        | Finding::Gap(_)
        | Finding::EpochBegan { .. }
        | Finding::EpochEnded { .. }
        | Finding::ObservedIdle { .. }
        | Finding::JunkPids { .. }
        | Finding::KeysForgotten { .. } => None,
    }
}

impl Attribution {
    /// Nobody's, with nobody who came near.
    #[must_use]
    pub(crate) fn nobody(reason: crate::unknown::NamelessReason) -> Self {
        let nameless = crate::settlement::Nameless { reason, gap: None, candidates: Vec::new() };
        Self::Nameless(Box::new(nameless))
    }
}
