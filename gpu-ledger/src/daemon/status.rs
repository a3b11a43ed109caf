//! How everything is: what `status` and `live` answer.

use std::sync::Arc;

use serde::Serialize;

use super::Daemon;
use super::gaps::GapSum;
use super::request::{OTHER_USERS, Peer};
use super::rules::{RefusedStatus, RulesStatus};
use super::seal_status::CheckpointStatus;
use super::writer::Condition;
use crate::accounting::busy::{self, ProcessSamples};
use crate::accounting::reading::{Holder, OpenRow};
use crate::accounting::{Busy, Row};
use crate::bill::over_at;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::host::{GpuRows, Host};
use crate::journal::store::{Reader, StoreError};
use crate::memory::{Hours, Meter, Pace, Voids};
use crate::metrics::health::{Health, JournalLack, Vitals};
use crate::residency::moment::Length;
use crate::settlement::NamedBy;
use crate::unit::{GpuUuid, Ms, WallUs};
use crate::unknown::{GapCause, Observed, Unknown, UnknownReason};

/// Everything, in the form `gpu-ledger/schema/status.v1.schema.json`.
#[derive(Serialize, Debug)]
pub(crate) struct Status {
    pub(crate) format: &'static str,
    pub(crate) version: u32,
    pub(crate) as_of: String,
    pub(crate) host: String,
    pub(crate) daemon: Option<DaemonStatus>,
    /// The rules in force; null where no daemon answers, as the next two.
    pub(crate) rules: Option<RulesStatus>,
    /// How much of command lines is stored.
    pub(crate) cmdline: Option<&'static str>,
    /// Null, too, where the last reload was not refused.
    pub(crate) reload_refused: Option<RefusedStatus>,
    /// Since when the operator's files are being read again; null where they are not.
    pub(crate) reloading_since: Option<String>,
    pub(crate) coverage: CoverageStatus,
    pub(crate) gpus: Vec<GpuStatus>,
    pub(crate) open: Vec<OpenStatus>,
    pub(crate) no_driver_row: Vec<RowlessStatus>,
    pub(crate) journal: JournalStatus,
    pub(crate) checkpoint: CheckpointStatus,
    /// The last notes, newest first; none for whoever does not see all.
    pub(crate) notes: Vec<NoteStatus>,
    pub(crate) queue: Option<QueueStatus>,
    pub(crate) driver: Option<DriverStatus>,
    pub(crate) unknown: Vec<UnknownStatus>,
    pub(crate) health: HealthStatus,
}

#[derive(Serialize, Debug)]
pub(crate) struct DaemonStatus {
    pub(crate) pid: u32,
    pub(crate) version: &'static str,
    pub(crate) ready: bool,
}

#[derive(Serialize, Debug)]
pub(crate) struct CoverageStatus {
    /// Since when the run that answers, or the last one, watches.
    pub(crate) began: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) process_events: Option<bool>,
    pub(crate) device_touch: Option<bool>,
    pub(crate) device_touch_off_because: Option<String>,
    /// Times in this run in which process events were not received, lost ones included.
    pub(crate) event_gaps: Option<usize>,
    /// Events that were lost; null where a loss could not be counted.
    pub(crate) events_lost: Option<u64>,
    /// Every gap that stands in the journal, by cause; null before they are summed.
    pub(crate) journal_gaps: Option<Vec<GapSum>>,
}

#[derive(Serialize, Debug)]
pub(crate) struct GpuStatus {
    pub(crate) uuid: GpuUuid,
    pub(crate) index: u32,
    pub(crate) name: Observed<String>,
    pub(crate) accounting_on: Option<bool>,
    pub(crate) last_good_read: Option<String>,
    pub(crate) last_good_read_age_ms: Option<Ms>,
    /// Dead rows that the driver keeps; a full store of them is its usual state on a busy host.
    pub(crate) dead_rows: Option<usize>,
    /// How many more it can take before one goes unread.
    pub(crate) eviction_margin_rows: Option<u64>,
    pub(crate) open_rows: usize,
    pub(crate) released: bool,
    pub(crate) hangs: bool,
    pub(crate) reads: u64,
    /// How its memory is sampled; null where it is not.
    pub(crate) memory: Option<MemoryStatus>,
}

#[derive(Serialize, Debug)]
pub(crate) struct MemoryStatus {
    pub(crate) period_ms: Length,
    pub(crate) cap_ms: Length,
    /// When the newest sample landed; null before the first.
    pub(crate) last_sample: Option<String>,
    /// How old it is now, from before it was asked for.
    pub(crate) last_sample_age_ms: Option<Ms>,
    /// Samples in this run.
    pub(crate) samples: u64,
    /// Passes that brought none.
    pub(crate) failed: u64,
    /// Hours in the journal, of all runs, that are over and valid as far as they were covered; null, as the next two,
    /// while the journal's sums are not read.
    pub(crate) hours_valid: Option<u64>,
    /// Hours in the journal that are void.
    pub(crate) hours_void: Option<u64>,
    /// Why they are, each with how often.
    pub(crate) void_reasons: Option<Voids>,
    /// Why the last pass brought none.
    pub(crate) lack: Option<UnknownReason>,
    /// The call that is under way and late.
    pub(crate) hangs_in: Option<&'static str>,
}

#[derive(Serialize, Debug)]
pub(crate) struct OpenStatus {
    pub(crate) gpu_uuid: GpuUuid,
    pub(crate) pid: Option<u32>,
    pub(crate) start: Option<String>,
    pub(crate) start_time_us: Option<WallUs>,
    pub(crate) start_unknown_because: Option<UnknownReason>,
    pub(crate) accrued_ms: Option<Ms>,
    pub(crate) account: String,
    /// What gave it that name; null where it has none, or is another user's.
    pub(crate) named_by: Option<NamedBy>,
    pub(crate) program: Option<String>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) memory_peak_bytes: Option<u64>,
    /// Percent of its life in which a kernel of it ran, floored.
    pub(crate) utilization_percent: Option<u32>,
    /// Busy at least this long of its life up to the last read; null where nothing was sampled.
    pub(crate) busy_ms_low: Option<Ms>,
    /// At most this long.
    pub(crate) busy_ms_high: Option<Ms>,
    /// From how many samples; null where the source does not say.
    pub(crate) busy_samples: Option<u64>,
    /// `stats_v2` or `stats_v1`.
    pub(crate) busy_source: Option<&'static str>,
}

#[derive(Serialize, Debug)]
pub(crate) struct RowlessStatus {
    pub(crate) gpu_uuid: GpuUuid,
    pub(crate) pid: Option<u32>,
    pub(crate) since: String,
    pub(crate) age_ms: Ms,
    pub(crate) account: String,
    /// What gave it that name; null where it has none, or is another user's.
    pub(crate) named_by: Option<NamedBy>,
    pub(crate) memory_bytes: Option<u64>,
}

#[derive(Serialize, Debug)]
pub(crate) struct JournalStatus {
    pub(crate) state_dir: String,
    pub(crate) head_seq: u64,
    pub(crate) head_hash: String,
    pub(crate) unresolved: usize,
    pub(crate) settlements: u64,
    pub(crate) last_commit: Option<String>,
    pub(crate) last_commit_took_ms: Option<u64>,
    pub(crate) condition: &'static str,
}

/// What somebody had remembered.
#[derive(Clone, Serialize, Debug)]
pub(crate) struct NoteStatus {
    pub(crate) at: String,
    pub(crate) note: Arc<str>,
}

/// Notes that a status shows.
pub(crate) const NOTES_SHOWN_MAX: u32 = 5;

/// The last notes of a journal, newest first.
pub(crate) fn notes_of(reader: &Reader) -> Result<Vec<NoteStatus>, StoreError> {
    let notes = reader.notes(NOTES_SHOWN_MAX)?.into_iter();
    Ok(notes.map(|(at, note)| NoteStatus { at: rfc3339(at.stamp.wall), note }).collect())
}

#[derive(Serialize, Debug)]
pub(crate) struct QueueStatus {
    pub(crate) length: usize,
    pub(crate) capacity: usize,
    pub(crate) overflowed: u64,
}

#[derive(Serialize, Debug)]
pub(crate) struct DriverStatus {
    pub(crate) kind: &'static str,
    pub(crate) driver_version: Option<String>,
    pub(crate) calls: u64,
    pub(crate) call_latency_mean_us: Option<u64>,
    pub(crate) call_latency_max_us: Option<u64>,
}

#[derive(Serialize, Debug)]
pub(crate) struct UnknownStatus {
    pub(crate) reason: String,
    pub(crate) gpu_uuid: Option<GpuUuid>,
    pub(crate) call: Option<&'static str>,
    pub(crate) code: Option<u32>,
}

impl UnknownStatus {
    pub(crate) fn of(unknown: &Unknown) -> Self {
        let (gpu_uuid, call, code) = (unknown.gpu.clone(), unknown.call, unknown.code);
        Self { reason: unknown.word(), gpu_uuid, call, code }
    }
}

#[derive(Serialize, Debug)]
pub(crate) struct HealthStatus {
    pub(crate) well: bool,
    pub(crate) reasons: Vec<HealthLine>,
}

#[derive(Serialize, Debug)]
pub(crate) struct HealthLine {
    pub(crate) reason: &'static str,
    pub(crate) detail: String,
}

/// RFC 3339, to the millisecond.
pub(crate) fn rfc3339(wall: WallUs) -> String {
    let ms = i64::try_from(wall.ms()).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => format!("{} us since 1970", wall.0),
    }
}

impl Daemon {
    /// How everything is, as this client may see it.
    pub(super) fn status(&self, peer: Peer) -> Status {
        let (host, now) = (self.observer.host(), self.clock.now());
        let progress = self.writer.progress.borrow().clone();
        let health = self.health(now);
        let reasons = health
            .reasons
            .iter()
            .map(|(reason, detail)| HealthLine { reason: reason.as_str(), detail: detail.clone() });
        let booked = progress.head.booked.values().map(|balance| balance.count).sum();
        Status {
            format: "gpu-ledger-status",
            version: 1,
            as_of: rfc3339(now.wall),
            host: host.name().to_string(),
            daemon: Some(DaemonStatus {
                pid: std::process::id(),
                version: env!("CARGO_PKG_VERSION"),
                ready: self.readiness.is_told(),
            }),
            rules: Some(self.rules_status()),
            cmdline: Some(self.config.cmdline.as_str()),
            reload_refused: self.refused_status(peer),
            reloading_since: self.readings.since().map(|since| rfc3339(since.wall)),
            coverage: self.coverage_status(host),
            gpus: host.gpus().values().map(|gpu| self.gpu_status(gpu, now)).collect(),
            open: opens(host, peer, now),
            no_driver_row: rowless(host, peer, now),
            journal: JournalStatus {
                state_dir: self.config.state_dir.display().to_string(),
                head_seq: progress.head.seq,
                head_hash: progress.head.hash.to_string(),
                unresolved: progress.unresolved,
                settlements: booked,
                last_commit: progress.committed.map(|(at, _)| rfc3339(at.wall)),
                last_commit_took_ms: progress
                    .committed
                    .and_then(|(_, took)| u64::try_from(took.as_millis()).ok()),
                condition: match progress.condition {
                    Condition::Well => "well",
                    Condition::Full(_) => "disk-full",
                    Condition::Busy(_) => "busy",
                    Condition::Failed(_) => "failed",
                },
            },
            checkpoint: self.checkpoint_status(now),
            notes: if peer.sees_all { self.desk.notes.clone() } else { Vec::new() },
            queue: Some(QueueStatus {
                length: self.queue.length(),
                capacity: self.config.journal.queue_length,
                overflowed: self.overflow.total(),
            }),
            driver: self.driver_status(host),
            unknown: self.unknown_now(host).iter().map(UnknownStatus::of).collect(),
            health: HealthStatus { well: health.is_well(), reasons: reasons.collect() },
        }
    }

    /// What cannot be said at present: what lasts, and what the last reads lacked.
    pub(super) fn unknown_now(&self, host: &Host) -> Vec<Unknown> {
        let of_driver = self.driver_lack.iter();
        let of_reads = host.gpus().values().flat_map(|gpu| &gpu.unknowns);
        let mut unknown: Vec<Unknown> =
            self.lacks.iter().chain(of_driver).chain(of_reads).cloned().collect();
        let now = self.clock.now();
        unknown.extend(host.gpus().keys().filter_map(|gpu| {
            let call = self.late_sampling(gpu, now)?;
            Some(Unknown {
                reason: UnknownReason::NvmlCallTimeout,
                detail: Some("memory held".to_owned()),
                gpu: Some(gpu.clone()),
                call: Some(call),
                code: None,
            })
        }));
        unknown.sort();
        unknown.dedup();
        unknown
    }

    fn coverage_status(&self, host: &Host) -> CoverageStatus {
        let coverage = host.coverage();
        // That nobody watched before this run is no gap of it, but one of the journal.
        let of_run = |gap: &&Gap| gap.cause != GapCause::AgentDown && gap.to.boot > self.began.boot;
        let gaps = coverage.gaps.iter().filter(of_run);
        let lost = gaps.clone().filter(|gap| gap.cause == GapCause::EventLost);
        let events_lost = lost.map(|gap| gap.size).sum();
        let tally = self.tally.lock();
        let journal_gaps = tally.is_whole.then(|| GapSum::all(&tally.gaps));
        let off = self.observer.touch_off_because();
        CoverageStatus {
            began: Some(rfc3339(self.began.wall)),
            until: Some(rfc3339(coverage.end.wall)),
            process_events: Some(self.observer.sees_events()),
            device_touch: Some(off.is_none()),
            device_touch_off_because: off,
            event_gaps: Some(gaps.count()),
            events_lost,
            journal_gaps,
        }
    }

    fn gpu_status(&self, gpu: &GpuRows, now: Stamp) -> GpuStatus {
        let good = gpu.sight.last_good();
        let touches_watched = self.observer.host().touches_watched();
        GpuStatus {
            uuid: gpu.facts.uuid.clone(),
            index: gpu.facts.index,
            name: gpu.facts.name.clone(),
            accounting_on: good.map(|_| !gpu.accounting_off),
            last_good_read: good.map(|window| rfc3339(window.ended.wall)),
            last_good_read_age_ms: good.and_then(|window| age(window.ended, now)),
            dead_rows: gpu.dead_rows,
            eviction_margin_rows: gpu.eviction_margin_rows(touches_watched),
            open_rows: gpu.open.len(),
            released: self.observer.released().contains(&gpu.facts.uuid),
            hangs: gpu.is_stalled(),
            reads: gpu.reads,
            memory: self.memory_status(gpu, now),
        }
    }

    /// The call by which memory is sampled, where it is under way for longer than a call may take.
    fn late_sampling(&self, gpu: &GpuUuid, now: Stamp) -> Option<&'static str> {
        self.config.memory_period?;
        let call = self.observer.driver()?.sampling(gpu)?;
        let deadline = u64::try_from(self.config.call_deadline.as_nanos()).unwrap_or(u64::MAX);
        let is_late = now.boot.since(call.since.boot).is_some_and(|ns| ns > deadline);
        is_late.then_some(call.call)
    }

    fn memory_status(&self, gpu: &GpuRows, now: Stamp) -> Option<MemoryStatus> {
        let pace = Pace::of(self.config.memory_period?);
        let host = self.observer.host();
        let tallied = host.memory_of(&gpu.facts.uuid).map(Meter::tallied).unwrap_or_default();
        let landed = tallied.newest.and_then(|(_, at)| host.clock_history().stamp_of(at));
        let age = tallied.newest.and_then(|(before, _)| now.boot.since(before));
        let tally = self.tally.lock();
        let hours = tally.memory_hours.get(&gpu.facts.uuid).cloned().unwrap_or_default();
        let hours = tally.is_whole.then_some(hours);
        drop(tally);
        Some(MemoryStatus {
            period_ms: pace.period,
            cap_ms: pace.cap,
            last_sample: landed.map(|stamp| rfc3339(stamp.wall)),
            last_sample_age_ms: age.map(|ns| Ms(ns / 1_000_000)),
            samples: tallied.samples,
            failed: tallied.failed,
            hours_valid: hours.as_ref().map(Hours::valid),
            hours_void: hours.as_ref().map(Hours::void),
            void_reasons: hours.map(|hours| hours.reasons().clone()),
            lack: tallied.lack,
            hangs_in: self.late_sampling(&gpu.facts.uuid, now),
        })
    }

    fn driver_status(&self, host: &Host) -> Option<DriverStatus> {
        let facts = self.observer.driver_facts().filter(|_| self.observer.driver().is_some())?;
        let mut cost = facts.cost.clone();
        for gpu in host.gpus().values() {
            cost.add(&gpu.cost);
        }
        let calls: u64 = cost.calls.values().map(|call| call.count).sum();
        let total: u64 = cost.calls.values().map(|call| call.latency_total_ns).sum();
        let most = cost.calls.values().map(|call| call.latency_max_ns).max();
        Some(DriverStatus {
            kind: facts.kind.as_str(),
            driver_version: facts.version.as_ref().ok().cloned(),
            calls,
            call_latency_mean_us: total.checked_div(calls).map(|ns| ns / 1_000),
            call_latency_max_us: most.map(|ns| ns / 1_000),
        })
    }

    /// Whether all is well, and why not.
    pub(super) fn health(&self, now: Stamp) -> Health {
        let host = self.observer.host();
        let released = self.observer.released();
        let read = host.gpus().values().filter(|gpu| !released.contains(&gpu.facts.uuid));
        let read_ages = read.map(|gpu| {
            let age = gpu.sight.last_good().and_then(|window| age(window.ended, now));
            let why = gpu.unknowns.first().map_or(UnknownReason::DriverNotReady, |one| one.reason);
            (gpu.facts.uuid.clone(), age.map_or(Observed::Unknown(why), Observed::Known))
        });
        let lack = match &self.writer.progress.borrow().condition {
            Condition::Well => None,
            Condition::Full(since) => {
                Some(JournalLack::DiskFull(format!("since {}", rfc3339(since.wall))))
            }
            Condition::Busy(since) => Some(JournalLack::NotWritable(format!(
                "another program holds it since {}",
                rfc3339(since.wall)
            ))),
            Condition::Failed(why) => Some(JournalLack::NotWritable(why.clone())),
        };
        let events = self.lacks.iter().map(ToString::to_string);
        Health::of(&Vitals {
            has_stopped: self.has_stopped,
            // At the start nothing can have been read yet.
            read_ages: if self.readiness.is_reading() { Vec::new() } else { read_ages.collect() },
            driver_lacks: self.driver_lack.as_ref().map(ToString::to_string),
            events_lack: events.reduce(|all, one| format!("{all}, {one}")),
            journal_lacks: lack,
            checkpoint_lack: self.checkpoint_lack(),
        })
    }
}

fn age(then: Stamp, now: Stamp) -> Option<Ms> {
    now.boot.since(then.boot).map(|ns| Ms(ns / 1_000_000))
}

fn opens(host: &Host, peer: Peer, now: Stamp) -> Vec<OpenStatus> {
    let rows = host.gpus().values().flat_map(|gpu| gpu.open.iter().map(move |open| (gpu, open)));
    rows.map(|(gpu, open)| open_status(host, gpu, open, peer, now)).collect()
}

fn open_status(host: &Host, gpu: &GpuRows, open: &OpenRow, peer: Peer, now: Stamp) -> OpenStatus {
    let attribution = open.row.as_ref().map(|row| host.attribution(row));
    let named = attribution.as_ref().and_then(|one| one.named());
    let seen = peer.sees(named.and_then(|named| named.image.user.uid));
    let standing = open.row.as_ref().map(|row| host.standing(row));
    // Where its process is known to have ended it accrues no more, though no read has shown the row final yet.
    let over = over_at(host.end_of_open(open), open.last_seen.began.boot, now.boot);
    let over = over.and_then(|at| host.clock_history().stamp_of(at)).unwrap_or(now);
    let account =
        standing.map_or_else(|| host.bearer(&open.gpu, open.pid).account, |one| one.account);
    let program = named.and_then(|named| crate::identity::Program::of(&named.image.content));
    let holder = gpu.holders.iter().find(|holder| holder.pid == open.pid);
    let accrued = open.start.map(|start| Ms(over.wall.ms().saturating_sub(start.ms())));
    let busy = busy_so_far(open);
    OpenStatus {
        gpu_uuid: open.gpu.clone(),
        pid: seen.then_some(open.pid.0),
        start: open.start.map(rfc3339),
        start_time_us: open.start,
        start_unknown_because: open.reason,
        accrued_ms: accrued,
        account: if seen { account.title() } else { OTHER_USERS.to_owned() },
        named_by: account.named_by().filter(|_| seen),
        program: program.filter(|_| seen).map(|program| program.to_string()),
        memory_bytes: holder.and_then(memory),
        memory_peak_bytes: open
            .row
            .as_ref()
            .and_then(|row| row.memory_peak.known())
            .map(|one| one.0),
        utilization_percent: open.row.as_ref().and_then(|row| row.utilization.known()).copied(),
        busy_ms_low: busy.as_ref().map(|busy| busy.low),
        busy_ms_high: busy.as_ref().map(|busy| busy.high),
        busy_samples: busy.as_ref().and_then(|busy| busy.samples),
        busy_source: busy.as_ref().map(|busy| busy.source.as_str()),
    }
}

/// How busy a row that runs kept its GPU, up to the read that showed it last: its sums or its percentage, of what
/// it had accrued then.
fn busy_so_far(open: &OpenRow) -> Option<Busy> {
    let (row, start) = open.row.as_ref().zip(open.start)?;
    let held = open.last_seen.ended.wall.ms().checked_sub(start.ms()).map(Ms)?;
    // The samples by process are the reader's, who prices what is final by them.
    busy::of_row(&Row { held, ..row.clone() }, &ProcessSamples::default()).ok()
}

fn memory(holder: &Holder) -> Option<u64> {
    holder.memory.known().map(|bytes| bytes.0)
}

fn rowless(host: &Host, peer: Peer, now: Stamp) -> Vec<RowlessStatus> {
    let all = host.gpus().values().flat_map(|gpu| gpu.rowless().map(move |one| (gpu, one)));
    // One whose process ended is listed until the next read.
    let ended = |holder: &Holder, since: Stamp| {
        host.end_of_bearer(holder.pid).is_some_and(|exit| exit >= since.boot)
    };
    let all = all.filter(|(_, (holder, since))| !ended(holder, *since));
    all.map(|(gpu, (holder, since))| {
        let bearer = host.bearer(&gpu.facts.uuid, holder.pid);
        let seen = peer.sees(bearer.image.as_ref().and_then(|image| image.user.uid));
        RowlessStatus {
            gpu_uuid: gpu.facts.uuid.clone(),
            pid: seen.then_some(holder.pid.0),
            since: rfc3339(since.wall),
            age_ms: age(since, now).unwrap_or(Ms::ZERO),
            account: if seen { bearer.account.title() } else { OTHER_USERS.to_owned() },
            named_by: bearer.account.named_by().filter(|_| seen),
            memory_bytes: memory(holder),
        }
    })
    .collect()
}
