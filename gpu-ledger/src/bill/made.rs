//! Made journals for the tests of the bill: entries sealed by the real chain.
#![expect(clippy::arithmetic_side_effects, reason = "made moments are small numbers")]

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::accounting::{Busy, BusySource, Window};
use crate::attribution::{Label, Labels};
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::identity::Basis;
use crate::journal::entry::{
    BootId, Change, ConflictFigures, Correction, CoverageEdge, Draft, Epoch, EpochEdge, Evidence,
    Figures, GpuMark, Mark, Moment, OpenFigures, OpenKind, SettlementFigures,
};
use crate::journal::{Entry, Recovered};
use crate::memory::{ByteMs, Device, Held, Holder, Holding, Pace, Sampling, Stretch};
use crate::residency::verdict::VoidReason;
use crate::settlement::{Account, Balance, Ground};
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{DisputeReason, GapCause, NamelessReason};

/// 2026-11-30T00:00:00Z.
pub(crate) const DAY_MS: u64 = 1_795_996_800_000;

/// A moment, `ms` after the day began.
pub(crate) fn stamp(ms: u64) -> Stamp {
    let ns = (1_000_000_000 + ms) * 1_000_000;
    Stamp { boot: BootNs(ns), mono_ns: ns, wall: WallUs((DAY_MS + ms) * 1_000) }
}

pub(crate) fn gpu(index: u64) -> GpuUuid {
    GpuUuid(Arc::from(format!("GPU-{index}a2b3c4d-0000-0000-0000-000000000001")))
}

pub(crate) fn program(name: &str) -> Account {
    Account::by(Ground::Program, name)
}

/// A settlement in the making.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) gpu: u64,
    pub(crate) pid: u32,
    pub(crate) start_ms: Option<u64>,
    pub(crate) held_ms: u64,
    pub(crate) account: Account,
    pub(crate) dispute: Option<DisputeReason>,
    pub(crate) opened: Option<u64>,
    pub(crate) busy: Option<(u64, u64)>,
    pub(crate) peak_mib: Option<u64>,
    pub(crate) uid: Option<u32>,
    pub(crate) asleep_ms: Option<u64>,
}

impl Row {
    pub(crate) fn of(name: &str, pid: u32, start_ms: u64, held_ms: u64) -> Self {
        Self {
            gpu: 0,
            pid,
            start_ms: Some(start_ms),
            held_ms,
            account: program(name),
            dispute: None,
            opened: None,
            busy: Some((held_ms / 10, held_ms / 5)),
            peak_mib: Some(512),
            uid: Some(1_000),
            asleep_ms: Some(0),
        }
    }
}

/// A journal as it grows.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) end: Recovered,
    pub(crate) entries: Vec<Entry>,
}

impl Journal {
    /// With the agent at work from the beginning on, and so many GPUs in sight.
    pub(crate) fn began(at_ms: u64, gpus: u64) -> Self {
        let mut journal = Self::default();
        journal.agent_began(at_ms);
        for index in 0..gpus {
            journal.epoch_began(at_ms, index);
        }
        journal
    }

    pub(crate) fn enter(&mut self, at_ms: u64, figures: Figures) -> u64 {
        let at = Moment { boot: BootId(7), stamp: stamp(at_ms) };
        let draft = Draft { at, figures, evidence: Evidence::None, argv: None };
        let sealed = self.end.seal(draft).expect("a made entry follows");
        self.entries.push(sealed.entry);
        self.end.head.seq
    }

    pub(crate) fn agent_began(&mut self, at_ms: u64) {
        let began = CoverageEdge::Began {
            at: stamp(at_ms),
            host: Arc::from("gpuhost"),
            device_touch: true,
            process_events: true,
        };
        self.enter(at_ms, Figures::Coverage(began));
    }

    pub(crate) fn agent_ended(&mut self, at_ms: u64) {
        self.enter(at_ms, Figures::Coverage(CoverageEdge::Ended { at: stamp(at_ms) }));
    }

    pub(crate) fn epoch_began(&mut self, at_ms: u64, index: u64) {
        let name = Some(Arc::from("NVIDIA H200"));
        let edge = EpochEdge::Began { index: u32::try_from(index).unwrap(), name };
        self.enter(at_ms, Figures::Epoch(Epoch { gpu: gpu(index), at: stamp(at_ms), edge }));
    }

    pub(crate) fn epoch_ended(&mut self, at_ms: u64, index: u64) {
        let edge = EpochEdge::Ended { cause: GapCause::AccountingOff };
        self.enter(at_ms, Figures::Epoch(Epoch { gpu: gpu(index), at: stamp(at_ms), edge }));
    }

    /// Everything was seen up to here, of each of these GPUs.
    pub(crate) fn mark(&mut self, at_ms: u64, gpus: u64) {
        self.mark_of(at_ms, &(0..gpus).map(|index| (index, at_ms)).collect::<Vec<_>>());
    }

    pub(crate) fn mark_of(&mut self, at_ms: u64, last_good_ms: &[(u64, u64)]) {
        let gpus = last_good_ms.iter().map(|(index, good_ms)| GpuMark {
            gpu: gpu(*index),
            last_good: Some(Window { began: stamp(*good_ms), ended: stamp(*good_ms) }),
            dead_rows: Some(3),
            doubted_since: None,
        });
        let mark = Mark {
            processes_until: stamp(at_ms),
            gpus: gpus.collect(),
            unresolved: self.end.unresolved.keys().copied().collect(),
            note: None,
        };
        self.enter(at_ms, Figures::Mark(mark));
    }

    /// The list of the first GPU is empty since then, and was not believed at the last read.
    pub(crate) fn mark_in_doubt(&mut self, at_ms: u64, since_ms: u64) {
        let of_gpu = GpuMark {
            gpu: gpu(0),
            last_good: Some(Window { began: stamp(at_ms), ended: stamp(at_ms) }),
            dead_rows: Some(0),
            doubted_since: Some(stamp(since_ms)),
        };
        let mark = Mark {
            processes_until: stamp(at_ms),
            gpus: vec![of_gpu],
            unresolved: self.end.unresolved.keys().copied().collect(),
            note: None,
        };
        self.enter(at_ms, Figures::Mark(mark));
    }

    pub(crate) fn open(
        &mut self,
        at_ms: u64,
        kind: OpenKind,
        index: u64,
        pid: u32,
        start_ms: u64,
        account: Account,
    ) -> u64 {
        let open = OpenFigures {
            kind,
            gpu: gpu(index),
            pid: Pid(pid),
            start: (kind == OpenKind::Row).then(|| stamp(start_ms).wall),
            // One that is hidden may have begun at any time since then, where that is said.
            first_seen: Window {
                began: stamp(if kind == OpenKind::Masked && start_ms > 0 {
                    start_ms
                } else {
                    at_ms
                }),
                ended: stamp(at_ms),
            },
            account,
            program: None,
            uid: None,
            basis: Some(Basis::Exec),
            labels: labels_of(pid),
            memory: (kind == OpenKind::NoDriverRow).then_some(Bytes(3 << 30)),
        };
        self.enter(at_ms, Figures::Open(Box::new(open)))
    }

    pub(crate) fn ended(&mut self, at_ms: u64, of: u64, cause: Option<GapCause>) {
        let change = Change::Ended { last_seen: stamp(at_ms), cause };
        self.enter(at_ms, Figures::Correction(Correction { of, change }));
    }

    pub(crate) fn moved(&mut self, at_ms: u64, of: u64, account: Account) {
        let change = Change::Account(account);
        self.enter(at_ms, Figures::Correction(Correction { of, change }));
    }

    pub(crate) fn conflict(&mut self, at_ms: u64, of: u64) {
        let read_at = stamp(at_ms);
        self.enter(at_ms, Figures::Conflict(ConflictFigures { of, read_at }));
    }

    pub(crate) fn gap(
        &mut self,
        cause: GapCause,
        of: Option<u64>,
        from_ms: u64,
        to_ms: u64,
        size: Option<u64>,
    ) {
        let (from, to) = (stamp(from_ms), stamp(to_ms));
        self.enter(to_ms, Figures::Gap(Gap { cause, gpu: of.map(gpu), from, to, size }));
    }

    /// Memory held from `from_ms` on by these, as (account, pid, bytes), in one stretch; used is 100 bytes more.
    pub(crate) fn memory(
        &mut self,
        (from_ms, to_ms): (u64, u64),
        holders: &[(Account, u32, u64)],
        voids: &[VoidReason],
    ) {
        let stretch = Self::stretch_of((from_ms, to_ms), holders, voids);
        self.enter(to_ms, Figures::Memory(Box::new(stretch)));
    }

    /// The same, not entered.
    pub(crate) fn stretch_of(
        (from_ms, to_ms): (u64, u64),
        holders: &[(Account, u32, u64)],
        voids: &[VoidReason],
    ) -> Stretch {
        let ms = to_ms - from_ms;
        let holdings = holders.iter().map(|(account, pid, bytes)| Holding {
            holder: Holder {
                pid: Pid(*pid),
                start: Some(BootNs((*pid).into())),
                account: account.clone(),
                program: None,
                uid: Some(1_000),
                basis: Some(Basis::Exec),
                labels: labels_of(*pid),
            },
            held: Held { memory: ByteMs::of(*bytes, ms), known_ms: ms, unsaid_ms: 0 },
        });
        let all: u64 = holders.iter().map(|(_, _, bytes)| *bytes).sum();
        let device = Device {
            used: ByteMs::of(all + 100, ms),
            unattributed: ByteMs::of(100, ms),
            excess: ByteMs::default(),
        };
        Stretch {
            gpu: gpu(0),
            from: stamp(from_ms).wall,
            to: stamp(to_ms).wall,
            pace: Pace::of(std::time::Duration::from_secs(5)),
            sampling: Sampling { samples: ms / 5_000, ..Sampling::default() },
            device,
            holders: holdings.collect(),
            beyond: None,
            voids: voids.iter().map(|reason| (*reason, 1)).collect(),
            is_cut_by_step: false,
        }
    }

    pub(crate) fn settle(&mut self, read_ms: u64, row: Row) -> u64 {
        let basis = row.account.unattributed().is_none().then_some(Basis::Exec);
        let name = match &row.account {
            Account::Unclassified { name, .. } => Some(Arc::clone(name)),
            Account::Ruled { .. } | Account::Unattributed(_) => None,
        };
        let labels = if basis.is_some() { labels_of(row.pid) } else { Vec::new() };
        let figures = SettlementFigures {
            gpu: gpu(row.gpu),
            pid: Pid(row.pid),
            start: row.start_ms.map(|ms| stamp(ms).wall),
            held: Ms(row.held_ms),
            read_at: stamp(read_ms),
            account: row.account,
            program: name,
            uid: row.uid.filter(|_| basis.is_some()),
            basis,
            flags: BTreeSet::new(),
            dispute: row.dispute,
            asleep: row.asleep_ms.map(Ms),
            busy: row.busy.map(|(low, high)| Busy {
                low: Ms(low),
                high: Ms(high),
                samples: None,
                source: BusySource::StatsV1,
            }),
            memory_peak: row.peak_mib.map(|mib| Bytes(mib << 20)),
            opened: row.opened,
            labels,
            booked: Balance::default(),
        };
        self.enter(read_ms, Figures::Settlement(Box::new(figures)))
    }
}

/// Where made processes ran, by their pids: some in a container, some of which nobody knows where, and some from
/// before there were labels.
fn labels_of(pid: u32) -> Labels {
    let label = |label: Label, value: &str| (Arc::from(label.as_str()), Arc::from(value));
    let kind = if pid.is_multiple_of(2) { "compute" } else { "unknown" };
    match pid % 5 {
        0 => Vec::new(),
        1 => vec![
            label(Label::Container, &"ab".repeat(32)),
            label(Label::ContainerName, "xtts"),
            label(Label::Ground, "container"),
            label(Label::Kind, kind),
            label(Label::Service, "xtts"),
        ],
        2 => vec![
            label(Label::Kind, kind),
            label(Label::Place, "unknown"),
            label(Label::Service, "train.py"),
        ],
        place => vec![
            label(Label::Job, &format!("slurm {place}")),
            label(Label::Kind, kind),
            label(Label::PodUid, "11112222-3333-4444-5555-666677778888"),
            label(Label::Service, &format!("slurm {place}")),
            label(Label::Unit, "ollama.service"),
        ],
    }
}

/// The reason that made settlements without a name have.
pub(crate) const NAMELESS: Account = Account::Unattributed(NamelessReason::EventLost);
