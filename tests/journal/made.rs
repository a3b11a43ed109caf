//! Made histories: drafts of every kind, from a seed.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes as RawBytes;
use gpu_ledger::accounting::reading::ModeAround;
use gpu_ledger::accounting::{Busy, BusySource, Row, Window};
use gpu_ledger::argv::{CmdlineMode, Stored, stored, stored_file};
use gpu_ledger::clock::Stamp;
use gpu_ledger::coverage::Gap;
use gpu_ledger::identity::{Basis, User};
use gpu_ledger::journal::entry::{
    AgentFacts, Ancestor, ArgvEvidence, Change, ClosedPeriod, Correction, CoverageEdge, DriverSaid,
    Epoch, EpochEdge, GpuMark, IdentityEvidence, KeptArgv, KeyChange, Mark, OpenEvidence,
    OpenFigures, OpenKind, Provenance, SettlementEvidence, SettlementFigures,
};
use gpu_ledger::journal::note::SigningKey;
use gpu_ledger::journal::{
    BootId, CommitmentKey, Digest, Draft, Evidence, Figures, Moment, Recovered,
};
use gpu_ledger::kernel::{Argv, ArgvState, CgroupId, LoginUid, ProcessKey};
use gpu_ledger::memory::{
    Beyond, ByteMs, Device, Held, Holder, Holding, Pace, SLOT_MS, Sampling, Stretch,
};
use gpu_ledger::residency::verdict::VoidReason;
use gpu_ledger::settlement::{Account, Balance, Fit, Ground, RuleId};
use gpu_ledger::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use gpu_ledger::unknown::{DisputeReason, Flag, GapCause, NamelessReason, Observed, UnknownReason};
use nvsim::random::Random;

/// When made histories begin: 2023-11-14.
pub const EPOCH_MS: u64 = 1_700_000_000_000;
pub const DAY_MS: u64 = 86_400_000;

/// A folder that goes with its handle; in memory where there is such a place. What these tests ask does
/// not depend on how long a disk takes to sync, and there are thousands of syncs in them.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn stamp(ms: u64) -> Stamp {
    let ns = ms.saturating_sub(EPOCH_MS).saturating_mul(1_000_000);
    Stamp { boot: BootNs(ns), mono_ns: ns, wall: WallUs(ms.saturating_mul(1_000)) }
}

pub fn window(ms: u64) -> Window {
    Window { began: stamp(ms), ended: stamp(ms.saturating_add(1)) }
}

pub fn gpu(number: u64) -> GpuUuid {
    GpuUuid(Arc::from(format!("GPU-{number:08x}-0000-0000-0000-000000000001")))
}

pub fn draft(ms: u64, figures: Figures, evidence: Evidence) -> Draft {
    let at = Moment { boot: BootId(7), stamp: stamp(ms) };
    Draft { at, figures, evidence, argv: None }
}

fn said() -> DriverSaid {
    DriverSaid {
        kind: Arc::from("simulated"),
        version: Some(Arc::from("595.45.04")),
        stats_v2: true,
        gpu_index: 0,
        gpu_name: Some(Arc::from("NVIDIA H200")),
    }
}

/// What a settlement is made of.
#[derive(Clone, Debug)]
pub struct Job {
    pub gpu: u64,
    pub pid: u32,
    pub start_ms: Option<u64>,
    pub held_ms: u64,
    pub read_ms: u64,
    pub account: Account,
    pub opened: Option<u64>,
    pub dispute: Option<DisputeReason>,
    /// How much of its arguments is kept.
    pub cmdline: CmdlineMode,
}

impl Job {
    pub fn of(pid: u32, start_ms: u64, held_ms: u64) -> Self {
        Self {
            gpu: 1,
            pid,
            start_ms: Some(start_ms),
            held_ms,
            read_ms: start_ms.saturating_add(held_ms).saturating_add(100),
            account: Account::by(Ground::Unit, format!("service-{}", pid % 17)),
            opened: None,
            dispute: None,
            cmdline: CmdlineMode::Full,
        }
    }

    fn row(&self) -> Row {
        Row {
            gpu: gpu(self.gpu),
            pid: Pid(self.pid),
            start: self.start_ms.map(|ms| stamp(ms).wall),
            held: Ms(self.held_ms),
            running: false,
            memory_peak: Observed::Known(Bytes(1 << 30)),
            utilization: Observed::Unknown(UnknownReason::ValueNotAvailable),
            sums: None,
        }
    }

    /// The draft; its arguments are kept where a key is given.
    pub fn draft(&self, key: Option<&CommitmentKey>) -> Draft {
        let read = window(self.read_ms);
        let named = !matches!(self.account, Account::Unattributed(_));
        let figures = SettlementFigures {
            gpu: gpu(self.gpu),
            pid: Pid(self.pid),
            start: self.start_ms.map(|ms| stamp(ms).wall),
            held: Ms(self.held_ms),
            read_at: read.ended,
            account: self.account.clone(),
            program: named.then(|| Arc::from("train.py")),
            uid: named.then_some(1_000),
            basis: named.then_some(Basis::Exec),
            flags: if self.held_ms == 0 {
                BTreeSet::from([Flag::Below1Ms])
            } else {
                BTreeSet::new()
            },
            dispute: self.dispute,
            asleep: Some(Ms(0)),
            busy: Some(Busy {
                low: Ms(1),
                high: Ms(2),
                samples: Some(9),
                source: BusySource::StatsV2,
            }),
            memory_peak: Some(Bytes(1 << 30)),
            opened: self.opened,
            labels: vec![(Arc::from("unit"), Arc::from("train.service"))],
            booked: Balance::default(),
        };
        let argv = Argv {
            bytes: RawBytes::from(format!("python3\0train.py\0--run={}\0", self.pid % 40)),
            true_length: Some(30),
            state: ArgvState::Whole,
        };
        let commitment = key.map(|key| key.commit(&argv).unwrap());
        let evidence = SettlementEvidence {
            host: Arc::from("host"),
            driver: said(),
            row: self.row(),
            seen: read,
            identity: named.then(|| identity(self.pid, &argv, commitment, self.cmdline)),
            nameless: None,
            provenance: Some(Provenance {
                library: Some(Arc::from("13.595.45.04")),
                mode: ModeAround { before: true, after: true },
                rules: None,
                agent: AgentFacts {
                    version: Arc::from("0.1.0"),
                    object: Digest([8; 32]),
                    kernel: Arc::from("6.12.0"),
                },
            }),
        };
        let mut draft = draft(
            self.read_ms,
            Figures::Settlement(Box::new(figures)),
            Evidence::Settlement(Box::new(evidence)),
        );
        let Stored { bytes, text } = stored(&argv, self.cmdline);
        draft.argv = commitment.filter(|_| named).zip(bytes).map(|(commitment, bytes)| KeptArgv {
            commitment,
            mode: Some(self.cmdline),
            argv: Argv { bytes, ..argv },
            text,
        });
        draft
    }
}

fn identity(
    pid: u32,
    argv: &Argv,
    commitment: Option<Digest>,
    mode: CmdlineMode,
) -> IdentityEvidence {
    let key = ProcessKey { pid: Pid(pid), start: BootNs(5) };
    IdentityEvidence {
        boot: BootId(7),
        key,
        start_is_exact: true,
        fit: Fit::Contains,
        basis: Basis::Exec,
        image_since: BootNs(6),
        filename: stored_file(b"/usr/bin/python3", mode).into_owned().into(),
        exe: Some((8, 9)),
        argv: ArgvEvidence {
            commitment,
            captured_length: u64::try_from(argv.bytes.len()).unwrap_or(u64::MAX),
            true_length: argv.true_length,
            state: argv.state,
            mode: commitment.map(|_| mode),
        },
        user: User { uid: Some(1_000), euid: Some(1_000), login_uid: LoginUid::Unset },
        ancestors: vec![Ancestor { key, program: Some(Arc::from("bash")) }],
        cgroups: vec![(
            CgroupId { hierarchy: 0, id: 4 },
            Some(RawBytes::from_static(b"/system.slice/train.service")),
        )],
        borne: None,
        ended: None,
    }
}

pub fn open(pid: u32, ms: u64) -> Draft {
    let figures = OpenFigures {
        kind: OpenKind::Row,
        gpu: gpu(1),
        pid: Pid(pid),
        start: Some(stamp(ms).wall),
        first_seen: window(ms),
        account: Account::by(Ground::Unit, "server"),
        program: Some(Arc::from("server")),
        uid: Some(1_000),
        basis: Some(Basis::Exec),
        labels: Vec::new(),
        memory: None,
    };
    let argv = Argv { bytes: RawBytes::new(), true_length: None, state: ArgvState::Unreadable };
    let evidence =
        OpenEvidence { row: None, identity: Some(identity(pid, &argv, None, CmdlineMode::Full)) };
    draft(ms, Figures::Open(Box::new(figures)), Evidence::Open(Box::new(evidence)))
}

pub fn gap(cause: GapCause, from_ms: u64, to_ms: u64) -> Draft {
    let gap = Gap { cause, gpu: None, from: stamp(from_ms), to: stamp(to_ms), size: Some(7) };
    draft(to_ms, Figures::Gap(gap), Evidence::None)
}

pub fn mark(ms: u64, model: &Recovered) -> Draft {
    let of_gpu = GpuMark {
        gpu: gpu(1),
        last_good: Some(window(ms)),
        dead_rows: Some(3),
        doubted_since: None,
    };
    let mark = Mark {
        processes_until: stamp(ms),
        gpus: vec![of_gpu],
        unresolved: model.unresolved.keys().copied().collect(),
        note: ms.is_multiple_of(3).then(|| Arc::from("before the upgrade")),
    };
    draft(ms, Figures::Mark(mark), Evidence::None)
}

/// A stretch of at most a quarter of an hour that ends there, by one holder and, where `kind` is 0, void.
pub fn memory(ms: u64, kind: u64) -> Draft {
    let from = (ms - ms % SLOT_MS).max(ms.saturating_sub(kind * 100_000));
    let length = ms - from;
    let holder = Holder {
        pid: Pid(77),
        start: (kind > 1).then_some(BootNs(ms)),
        account: Account::by(Ground::Program, "ollama"),
        program: Some(Arc::from("ollama")),
        uid: Some(1_000),
        basis: Some(Basis::Exec),
        labels: vec![(Arc::from("service"), Arc::from("ollama"))],
    };
    let held = Held { memory: ByteMs::of(u64::MAX / 4, length), known_ms: length, unsaid_ms: kind };
    let beyond = Beyond { holders: 2, held: Held { unsaid_ms: 9, ..Held::default() } };
    let stretch = Stretch {
        gpu: gpu(1),
        from: WallUs(from * 1_000),
        to: WallUs(ms * 1_000),
        pace: Pace::of(std::time::Duration::from_secs(5)),
        sampling: Sampling { samples: length / 5_000, failed: kind, ..Sampling::default() },
        device: Device { used: held.memory, ..Device::default() },
        holders: vec![Holding { holder, held }],
        beyond: (kind == 3).then_some(beyond),
        voids: if kind == 0 { vec![(VoidReason::AgeSupOverCap, 2)] } else { Vec::new() },
        is_cut_by_step: kind == 2,
    };
    draft(ms, Figures::Memory(Box::new(stretch)), Evidence::None)
}

pub fn ended(ms: u64, of: u64) -> Draft {
    let change = Change::Ended { last_seen: stamp(ms), cause: Some(GapCause::RowOverwritten) };
    draft(ms, Figures::Correction(Correction { of, change }), Evidence::None)
}

pub fn renamed(ms: u64, of: u64) -> Draft {
    let change = Change::Account(Account::Ruled { name: Arc::from("team-a"), rule: RuleId(3) });
    draft(ms, Figures::Correction(Correction { of, change }), Evidence::None)
}

/// What is to become of a draft.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// It is entered.
    Entered,
    /// Its row was booked before, with the same figures.
    Reoffered,
    /// Its row was booked before, with others.
    Conflicting,
}

/// Makes a history, draft by draft.
#[derive(Debug)]
pub struct Maker {
    random: Random,
    now_ms: u64,
    next_pid: u32,
    settled: Vec<(u64, Job)>,
    key: Option<CommitmentKey>,
}

/// A key that begins to sign.
pub fn key(now_ms: u64) -> Draft {
    let signing = SigningKey::from_seed("gpu-ledger/0123456789abcdef", &[7; 32]).unwrap();
    let key = signing.public().to_string().into();
    let key = KeyChange { key, previous: None, signature: None };
    draft(now_ms, Figures::Key(Box::new(key)), Evidence::None)
}

/// A period of long ago that is closed without a document, over a journal that had no entry then.
pub fn closed(now_ms: u64) -> Draft {
    let closed = ClosedPeriod {
        name: Arc::from("1970-01"),
        from: WallUs(0),
        to: WallUs(2_678_400_000_000),
        zone: Arc::from("UTC"),
        through: 0,
        tree: gpu_ledger::journal::tree::empty(),
        by: Arc::from("account"),
        share: Arc::from("none"),
        prices: None,
        documents: Vec::new(),
        version: Arc::from("0.1.0"),
    };
    draft(now_ms, Figures::Closed(Box::new(closed)), Evidence::None)
}

impl Maker {
    pub fn seeded(seed: u64, key: Option<CommitmentKey>) -> Self {
        let random = Random::seeded(seed);
        Self { random, now_ms: EPOCH_MS + DAY_MS, next_pid: 100, settled: Vec::new(), key }
    }

    /// The next draft of a chain that ends like `model`. What is expected to be entered must be sealed into
    /// the model before the next one is made.
    pub fn next(&mut self, model: &Recovered) -> (Draft, Expected) {
        self.now_ms += self.random.below(2_400_000);
        let (now, seq) = (self.now_ms, model.head.seq + 1);
        let unresolved: Vec<u64> = model.unresolved.keys().copied().collect();
        let one_open = self.pick(&unresolved);
        let settled = self.random.below(self.settled.len() as u64) as usize;
        let earlier = self.settled.get(settled).cloned();
        let draft = match (self.random.below(100), one_open, earlier) {
            (0..12, ..) => open(self.pid(), now - self.random.below(1_000)),
            (12..16, Some(of), _) => ended(now, of),
            (16..20, _, Some((of, _))) => renamed(now, of),
            (20..26, ..) => {
                let causes = [GapCause::EventLost, GapCause::AgentDown, GapCause::DiskFull];
                let cause = causes[self.random.below(3) as usize];
                gap(cause, now - self.random.below(2 * DAY_MS), now)
            }
            (26..29, ..) => {
                let edge = if self.random.below(2) == 0 {
                    EpochEdge::Began { index: 0, name: Some(Arc::from("NVIDIA H200")) }
                } else {
                    EpochEdge::Ended { cause: GapCause::ClearedOrReset }
                };
                let epoch = Epoch { gpu: gpu(1), at: stamp(now), edge };
                draft(now, Figures::Epoch(epoch), Evidence::Epoch(said()))
            }
            (29..32, ..) => {
                let edge = if self.random.below(2) == 0 {
                    let (device_touch, process_events) = (true, true);
                    let host = Arc::from("host");
                    CoverageEdge::Began { at: stamp(now), host, device_touch, process_events }
                } else {
                    CoverageEdge::Ended { at: stamp(now) }
                };
                draft(now, Figures::Coverage(edge), Evidence::None)
            }
            (32..40, ..) => mark(now, model),
            (49..55, ..) => memory(now, self.random.below(4)),
            (55..56, ..) => key(now),
            (56..57, ..) => closed(now),
            (40..46, _, Some((_, job))) => {
                return (job.draft(self.key.as_ref()), Expected::Reoffered);
            }
            // Without a start other contents are another row.
            (46..49, _, Some((_, job))) if job.start_ms.is_some() => {
                let job = Job { held_ms: job.held_ms.wrapping_add(1), read_ms: now, ..job };
                return (job.draft(self.key.as_ref()), Expected::Conflicting);
            }
            (_, opened, _) => {
                let opened = if self.random.below(4) == 0 { opened } else { None };
                let job = self.job(opened, model);
                let draft = job.draft(self.key.as_ref());
                self.settled.push((seq, job));
                draft
            }
        };
        (draft, Expected::Entered)
    }

    fn job(&mut self, opened: Option<u64>, model: &Recovered) -> Job {
        let now = self.now_ms;
        let held = match self.random.below(20) {
            0 => 0,
            // A month, or what a wrapped `time` looks like.
            1 | 2 => self.random.between(DAY_MS, 40 * DAY_MS),
            3 => u64::MAX - self.random.below(1_000),
            _ => self.random.below(7_200_000),
        };
        let start = now.saturating_sub(held.min(50 * DAY_MS));
        let mut job = Job { read_ms: now, ..Job::of(self.pid(), start, held) };
        job.gpu = self.random.between(1, 2);
        match self.random.below(12) {
            0 => job.start_ms = None,
            1 => job.dispute = Some(DisputeReason::ClockStep),
            2 => job.account = Account::Unattributed(NamelessReason::EventLost),
            // Read days later: the agent was down.
            3 => job.read_ms = now + self.random.below(5 * DAY_MS),
            _ => {}
        }
        if let Some(open) = opened.and_then(|seq| Some((seq, model.unresolved.get(&seq)?))) {
            let (seq, open) = open;
            job.opened = Some(seq);
            job.pid = open.pid.0;
            job.gpu = 1;
            job.start_ms = open.start.map(WallUs::ms);
        }
        job
    }

    fn pid(&mut self) -> u32 {
        self.next_pid += 1;
        self.next_pid
    }

    fn pick(&mut self, from: &[u64]) -> Option<u64> {
        from.get(self.random.below(from.len() as u64) as usize).copied()
    }
}
