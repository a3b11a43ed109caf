//! What runs still: rows that are open, and holders that have none.

use crate::accounting::reading::OpenRow;
use crate::bill::{Holding, Kind, accrued};
use crate::clock::BootPlace;
use crate::host::GpuRows;
use crate::session::assemble::{Party, Period};
use crate::session::report::{NoDriverRow, Open};
use crate::session::watch::Watch;
use crate::settlement::Account;
use crate::unit::{Bytes, GpuUuid, Ms, Pid, Span, WallUs};
use crate::unknown::Observed;

/// The name of the account of those whose name nobody knows.
pub(super) const UNATTRIBUTED: &str = "unattributed";

/// One process that holds a GPU now.
pub(super) struct Running {
    pub(super) gpu: GpuUuid,
    /// Its place in the interval algebra; `None` where it has no interval.
    pub(super) holding: Option<Holding<Party>>,
    pid: Pid,
    start: Option<WallUs>,
    accrued: Option<Ms>,
    memory: Option<Bytes>,
    party: Party,
    age: Option<Ms>,
    reason: Option<String>,
}

/// Rows that are open at the period's end.
pub(super) fn open_rows(watch: &Watch, period: &Period) -> Vec<Running> {
    let rows =
        watch.host().gpus().values().flat_map(|gpu| gpu.open.iter().map(move |row| (gpu, row)));
    rows.map(|(gpu, row)| open_row(watch, gpu, row, period)).collect()
}

fn open_row(watch: &Watch, gpu: &GpuRows, open: &OpenRow, period: &Period) -> Running {
    let standing = open.row.as_ref().filter(|row| row.start.is_some());
    let party = match standing.map(|row| watch.host().standing(row)) {
        Some(standing) => Party { of_command: standing.of_command, account: standing.account },
        // Hidden behind a dead row of its pid: whoever bears the pid now.
        None => watch.bearer_as_party(open.pid),
    };
    let (started, kind) = match open.start {
        Some(start) => (watch.host().clock_history().boot_of(start), Kind::Open),
        // It holds the device at least since it was first seen; it shares, and accrues nothing.
        None => (Some(BootPlace::Once(open.first_seen.ended.boot)), Kind::NoDriverRow),
    };
    // One that was first seen after the period has accrued nothing in it.
    let now = match started {
        Some(BootPlace::Once(at)) if at > period.asked.to.boot => at,
        _ => period.asked.to.boot,
    };
    let span = accrued(started, now, period.timeline);
    let reason = match (open.reason, &span) {
        (Some(reason), _) => Some(reason.to_string()),
        (None, Observed::Unknown(reason)) => Some(reason.to_string()),
        (None, Observed::Known(_)) => None,
    };
    let span = span.known().copied();
    Running {
        gpu: gpu.facts.uuid.clone(),
        holding: span.map(|span| Holding { span, pid: open.pid, account: party.clone(), kind }),
        pid: open.pid,
        start: open.start,
        accrued: open.start.and(span).map(Span::length),
        memory: memory_of(gpu, open.pid),
        party,
        age: None,
        reason,
    }
}

/// Holders that the driver keeps no row for.
pub(super) fn rowless(watch: &Watch, period: &Period) -> Vec<Running> {
    let holders =
        watch.host().gpus().values().flat_map(|gpu| gpu.rowless().map(move |one| (gpu, one)));
    let running = holders.map(|(gpu, (holder, since))| {
        let pid = holder.pid;
        let party = watch.bearer_as_party(pid);
        let start = watch.host().bearer(pid).key.map(|key| key.start);
        // One that was there at the first look held the GPU from the period's first moment.
        let first = gpu.sight.first_good();
        let at_first_look = first.is_some_and(|first| since.boot <= first.ended.boot);
        let (from, to) = (period.asked.from.boot, period.asked.to.boot);
        let from = if at_first_look { from } else { since.boot };
        let span = (from <= to).then(|| period.timeline.span(from, to));
        let kind = Kind::NoDriverRow;
        let now = watch.host().coverage().end.boot;
        Running {
            gpu: gpu.facts.uuid.clone(),
            holding: span.map(|span| Holding { span, pid, account: party.clone(), kind }),
            pid,
            start: None,
            accrued: None,
            memory: holder.memory.known().copied(),
            party,
            age: start.and_then(|start| now.since(start)).map(|ns| Ms(ns / 1_000_000)),
            reason: None,
        }
    });
    running.collect()
}

fn memory_of(gpu: &GpuRows, pid: Pid) -> Option<Bytes> {
    let holder = gpu.holders.iter().find(|holder| holder.pid == pid)?;
    holder.memory.known().copied()
}

impl Watch {
    fn bearer_as_party(&self, pid: Pid) -> Party {
        let bearer = self.host().bearer(pid);
        let of_command = bearer.key.is_some_and(|key| self.host().is_in_command(&key));
        Party { of_command, account: bearer.account }
    }
}

impl Running {
    fn account(&self) -> String {
        match &self.party.account {
            Account::Unattributed(_) => UNATTRIBUTED.to_owned(),
            account => account.to_string(),
        }
    }

    /// As a line of `open`.
    pub(super) fn open(&self) -> Open {
        Open {
            gpu_uuid: self.gpu.clone(),
            pid: self.pid,
            start_time_us: self.start,
            accrued_ms: self.accrued,
            memory_bytes: self.memory,
            account: self.account(),
            of_command: self.party.of_command,
            reason: self.reason.clone(),
        }
    }

    /// As a line of `no_driver_row`.
    pub(super) fn no_driver_row(&self) -> NoDriverRow {
        NoDriverRow {
            gpu_uuid: self.gpu.clone(),
            pid: self.pid,
            account: self.account(),
            age_ms: self.age,
            memory_bytes: self.memory,
        }
    }
}
