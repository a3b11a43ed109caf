//! What runs still: rows that are open.

use crate::accounting::Row;
use crate::accounting::reading::OpenRow;
use crate::bill::{Holding, Kind, accrued, over_at};
use crate::clock::BootPlace;
use crate::host::GpuRows;
use crate::kernel::ProcessKey;
use crate::session::assemble::departed::Holder;
use crate::session::assemble::{Party, Period};
use crate::session::report::Open;
use crate::session::watch::Watch;
use crate::unit::{Bytes, GpuUuid, Ms, Pid, Span, WallUs};
use crate::unknown::Observed;

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
    reason: Option<String>,
}

/// Rows that are open at the period's end, and those that were over by then and were not read final.
pub(super) fn open_rows(watch: &Watch, period: &Period) -> (Vec<Running>, Vec<Holder>) {
    let (mut running, mut over) = (Vec::new(), Vec::new());
    for gpu in watch.host().gpus().values() {
        for row in &gpu.open {
            match over_at(
                watch.host().end_of_open(row),
                row.last_seen.began.boot,
                period.last_asked,
            ) {
                Some(at) => {
                    let cause = gpu.sight.why_unseen();
                    over.push(Holder::of_row(watch, row, (cause, at), identity_of(watch, row)));
                }
                None => running.push(open_row(watch, gpu, row, period)),
            }
        }
    }
    (running, over)
}

/// What the driver last said of a row, where that has a start; else a dead row of its pid hides it.
fn standing_row(open: &OpenRow) -> Option<&Row> {
    open.row.as_ref().filter(|row| row.start.is_some())
}

/// Whose a row is: by its start, or, where that is hidden, by whoever bears the pid now.
pub(super) fn identity_of(watch: &Watch, open: &OpenRow) -> (Party, Option<ProcessKey>) {
    let Some(row) = standing_row(open) else {
        return (watch.bearer_as_party(&open.gpu, open.pid), watch.host().key_of_bearer(open.pid));
    };
    let standing = watch.host().standing(row);
    let party = Party { of_command: standing.of_command, account: standing.account };
    (party, watch.host().attribution(row).named().map(|named| named.key))
}

fn open_row(watch: &Watch, gpu: &GpuRows, open: &OpenRow, period: &Period) -> Running {
    let (party, _) = identity_of(watch, open);
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
        // The account says that nobody knows whose it is, not why.
        (None, Observed::Known(_)) => party.account.unattributed().map(|why| why.to_string()),
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
        reason,
    }
}

fn memory_of(gpu: &GpuRows, pid: Pid) -> Option<Bytes> {
    let holder = gpu.holders.iter().find(|holder| holder.pid == pid)?;
    holder.memory.known().copied()
}

impl Watch {
    pub(super) fn bearer_as_party(&self, gpu: &GpuUuid, pid: Pid) -> Party {
        let bearer = self.host().bearer(gpu, pid);
        let of_command = bearer.key.is_some_and(|key| self.host().is_in_command(&key));
        Party { of_command, account: bearer.account }
    }
}

impl Running {
    /// As a line of `open`.
    pub(super) fn open(&self) -> Open {
        Open {
            gpu_uuid: self.gpu.clone(),
            pid: self.pid,
            start_time_us: self.start,
            accrued_ms: self.accrued,
            memory_bytes: self.memory,
            account: self.party.name(),
            named_by: self.party.account.named_by(),
            of_command: self.party.of_command,
            reason: self.reason.clone(),
        }
    }
}
