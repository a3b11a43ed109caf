//! Holders of which no row can be read: those that never had one, and those whose row was lost.
//!
//! What a read saw held was held, whatever became of the row afterwards: each stands in the interval
//! algebra from its row's start, or from when it was first seen, until it was last known to hold the GPU.

use crate::accounting::reading::OpenRow;
use crate::bill::{Holding, Kind, accrued};
use crate::clock::{BootPlace, Timeline};
use crate::host::GpuRows;
use crate::kernel::ProcessKey;
use crate::session::assemble::running::identity_of;
use crate::session::assemble::{Party, Period};
use crate::session::report::NoDriverRow;
use crate::session::watch::Watch;
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, Span, WallUs};
use crate::unknown::GapCause;

/// One process that holds or held a GPU without a row.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) gpu: GpuUuid,
    pid: Pid,
    process: Option<ProcessKey>,
    party: Party,
    /// Its row's start.
    start: Option<WallUs>,
    /// Since when it is known to have held the GPU.
    started: Option<BootPlace>,
    /// The same as far as reads alone say: at the latest when one first saw it.
    first_seen: BootNs,
    /// Until when it is known to have held it.
    until: BootNs,
    is_over: bool,
    lost: Option<GapCause>,
    memory: Option<Bytes>,
    /// Its place in the interval algebra.
    span: Option<Span>,
    /// That of the period.
    seen: Option<Ms>,
    age: Option<Ms>,
}

impl Holder {
    /// Of a row that nobody will read final, for this cause, held until this moment at least.
    pub(super) fn of_row(
        watch: &Watch,
        row: &OpenRow,
        (cause, until): (GapCause, BootNs),
        (party, process): (Party, Option<ProcessKey>),
    ) -> Self {
        let first_seen = row.first_seen.ended.boot;
        let started = match row.start {
            Some(start) => watch.host().clock_history().boot_of(start),
            None => Some(BootPlace::Once(first_seen)),
        };
        // One that opened the device while it was being read began after the read did.
        let until = match started {
            Some(BootPlace::Once(at)) if at > until => row.last_seen.ended.boot.max(until),
            _ => until,
        };
        Self {
            gpu: row.gpu.clone(),
            pid: row.pid,
            process,
            party,
            start: row.start,
            started,
            first_seen,
            until,
            is_over: true,
            lost: Some(cause),
            memory: None,
            span: None,
            seen: None,
            age: None,
        }
    }

    fn without_row(
        (gpu, pid, process): (GpuUuid, Pid, Option<ProcessKey>),
        party: Party,
        (from, until): (BootNs, BootNs),
    ) -> Self {
        Self {
            gpu,
            pid,
            process,
            party,
            start: None,
            started: Some(BootPlace::Once(from)),
            first_seen: from,
            until,
            is_over: true,
            lost: None,
            memory: None,
            span: None,
            seen: None,
            age: None,
        }
    }

    /// Whether that is a row of the same process, lost before this was over.
    fn continues(&self, lost: &Self) -> bool {
        self.process.is_some()
            && (&self.gpu, self.pid, self.process) == (&lost.gpu, lost.pid, lost.process)
            && lost.until <= self.until
    }

    /// The row and what came after it are one: who holds the device without a row opened it before rows
    /// were kept again, so it never let go in between.
    fn join(&mut self, lost: Self) {
        let Self { party, start, started, first_seen, lost, .. } = lost;
        (self.party, self.start, self.started) = (party, start, started);
        (self.first_seen, self.lost) = (first_seen, lost);
    }

    /// Finds its place on the bill.
    fn placed(mut self, timeline: Timeline, period: Span) -> Self {
        // Where the clock was stepped, it held the GPU at least since a read saw it.
        let seen =
            (self.first_seen <= self.until).then(|| timeline.span(self.first_seen, self.until));
        let span = accrued(self.started, self.until, timeline).known().copied();
        self.span = span.or(seen);
        self.seen = span.map(|span| span.overlap(period).map_or(Ms::ZERO, Span::length));
        self.age = self
            .process
            .and_then(|process| self.until.since(process.start))
            .map(|ns| Ms(ns / 1_000_000));
        self
    }

    pub(super) fn holding(&self) -> Option<Holding<Party>> {
        let (pid, account, kind) = (self.pid, self.party.clone(), Kind::NoDriverRow);
        Some(Holding { span: self.span?, pid, account, kind })
    }

    /// As a line of `no_driver_row`.
    pub(super) fn no_driver_row(&self) -> NoDriverRow {
        NoDriverRow {
            gpu_uuid: self.gpu.clone(),
            pid: self.pid,
            account: self.party.name(),
            named_by: self.party.account.named_by(),
            start_time_us: self.start,
            age_ms: self.age,
            seen_ms: self.seen,
            ended: self.is_over,
            lost: self.lost,
            memory_bytes: self.memory,
        }
    }
}

/// Every holder without a row that can be read, by GPU and by when it was first seen. `over`: rows that
/// were open at their last reading, and are not any more.
pub(super) fn rowless(watch: &Watch, period: &Period, over: Vec<Holder>) -> Vec<Holder> {
    let mut lost = over;
    lost.extend(lost_rows(watch));
    let mut all: Vec<Holder> = gone(watch).chain(holding_now(watch, period)).collect();
    for holder in &mut all {
        let latest = lost
            .iter()
            .enumerate()
            .filter(|(_, row)| holder.continues(row))
            .max_by_key(|(_, row)| row.until)
            .map(|(place, _)| place);
        if let Some(place) = latest {
            holder.join(lost.swap_remove(place));
        }
    }
    all.append(&mut lost);
    all.sort_by(|a, b| (&a.gpu, a.first_seen, a.pid).cmp(&(&b.gpu, b.first_seen, b.pid)));
    all.into_iter().map(|holder| holder.placed(period.timeline, period.span)).collect()
}

/// Rows that were lost, and those that no read found again.
fn lost_rows(watch: &Watch) -> Vec<Holder> {
    let told = watch.lost.iter().map(|lost| {
        let party = Party { of_command: lost.of_command, account: lost.account.clone() };
        let last = (lost.cause, lost.row.last_seen.began.boot);
        Holder::of_row(watch, &lost.row, last, (party, lost.process))
    });
    let unseen = watch.host().gpus().values().flat_map(|gpu| {
        gpu.out_of_sight.iter().map(|row| {
            let last = (gpu.sight.why_unseen(), row.last_seen.began.boot);
            Holder::of_row(watch, row, last, identity_of(watch, row))
        })
    });
    told.chain(unseen).collect()
}

/// Holders that were seen without a row, and are gone.
fn gone(watch: &Watch) -> impl Iterator<Item = Holder> {
    watch.gone.iter().map(|gone| {
        let party = Party { of_command: gone.of_command, account: gone.account.clone() };
        let who = (gone.gpu.clone(), gone.pid, gone.process);
        Holder::without_row(who, party, (gone.since, gone.until))
    })
}

/// Holders that were seen without a row, and are not known to be gone.
fn holding_now(watch: &Watch, period: &Period) -> impl Iterator<Item = Holder> {
    let gpus = watch.host().gpus().values();
    let holders = gpus.flat_map(|gpu| gpu.rowless().map(move |one| (gpu, one)));
    let (from, to) = (period.asked.from.boot, period.asked.to.boot);
    let last_asked = period.last_asked;
    holders.map(move |(gpu, (holder, since))| {
        let bearer = watch.host().bearer(&gpu.facts.uuid, holder.pid);
        let exit = watch.host().end_of_bearer(holder.pid).filter(|exit| *exit < last_asked);
        // Where it ended, that is when it let go.
        let until = exit.unwrap_or(to).max(since.boot);
        let since = if is_at_first_look(gpu, since.boot) { from } else { since.boot };
        let who = (gpu.facts.uuid.clone(), holder.pid, bearer.key);
        let party = watch.bearer_as_party(&gpu.facts.uuid, holder.pid);
        let holder_now = Holder::without_row(who, party, (since, until));
        let memory = holder.memory.known().copied();
        Holder { memory, is_over: exit.is_some(), ..holder_now }
    })
}

/// One that was there at the first look held the GPU from the period's first moment.
fn is_at_first_look(gpu: &GpuRows, since: BootNs) -> bool {
    gpu.sight.first_good().is_some_and(|first| since <= first.ended.boot)
}
