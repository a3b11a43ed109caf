//! Settlements with everything that they rest on, made.

use std::sync::Arc;

use bytes::Bytes;

use crate::accounting::{Row as DriverRow, Window};
use crate::argv::{CmdlineMode, StoredText};
use crate::attribution::rules::RuleSet;
use crate::attribution::{Attributed, Attributor, Label, Labels};
use crate::bill::made::{Row, gpu, stamp};
use crate::billing::{Why, journaled_process};
use crate::coverage::Gap;
use crate::explain::evidence::of;
use crate::explain::{Chosen, EXPLAINED_MAX, Explained, Explanation, FORMAT, RulesAtHand, VERSION};
use crate::identity::{Basis, User};
use crate::journal::Digest;
use crate::journal::entry::{
    Ancestor, ArgvEvidence, BootId, BorneImage, BorneImages, DriverSaid, Evidence, Figures,
    IdentityEvidence, KeptArgv, Moment, NamelessEvidence, SettlementEvidence, SettlementFigures,
};
use crate::kernel::{Argv, ArgvState, CgroupId, LoginUid, ProcessKey};
use crate::settlement::{Account, Candidate, Fit, Ground};
use crate::unit::{BootNs, Bytes as Memory, Ms, Pid};
use crate::unknown::{GapCause, NamelessReason, Observed, UnknownReason};

/// When made rows begin, in milliseconds of the made day.
pub(super) const START_MS: u64 = 3_600_000;
/// How long they hold.
pub(super) const HELD_MS: u64 = 1_200_000;
const PID: u32 = 4_711;
/// A container's id.
pub(super) const ID: &str = "3f2a9c0d1e4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeef";

/// A process that held a GPU.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) words: Vec<&'static str>,
    pub(super) program: &'static str,
    pub(super) ancestors: Vec<&'static str>,
    /// Hierarchy and path.
    pub(super) groups: Vec<(u32, String)>,
    /// What was stored of its container, beside its place.
    pub(super) names: Vec<(Label, &'static str)>,
    /// What it was called when it was booked, where what is stored now does not give that.
    pub(super) booked: Option<&'static str>,
    /// The mode in force then, where the entry says it.
    pub(super) mode: Option<CmdlineMode>,
    /// Its arguments are still there.
    pub(super) is_kept: bool,
}

impl Made {
    pub(super) fn of(program: &'static str) -> Self {
        Self {
            words: vec![program, "--port", "8080"],
            program,
            ancestors: vec!["bash", "systemd"],
            groups: vec![(0, "/user.slice/user-1000.slice/session-7.scope".to_owned())],
            names: Vec::new(),
            booked: None,
            mode: Some(CmdlineMode::Full),
            is_kept: true,
        }
    }

    pub(super) fn within(mut self, path: &str) -> Self {
        self.groups = vec![(0, path.to_owned())];
        self
    }

    fn argv(&self) -> Argv {
        let mut bytes = Vec::new();
        for word in &self.words {
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(0);
        }
        let true_length = u64::try_from(bytes.len()).ok();
        Argv { bytes: Bytes::from(bytes), true_length, state: ArgvState::Whole }
    }

    fn identity(&self) -> IdentityEvidence {
        let argv = self.argv();
        let key = |pid: u32| ProcessKey { pid: Pid(pid), start: stamp(START_MS - 250).boot };
        let ancestors = self.ancestors.iter().zip(1..);
        let group = |(hierarchy, path): &(u32, String)| {
            (CgroupId { hierarchy: *hierarchy, id: 9 }, Some(Bytes::from(path.clone())))
        };
        IdentityEvidence {
            boot: BootId(7),
            key: key(PID),
            start_is_exact: true,
            fit: Fit::Contains,
            basis: Basis::Exec,
            image_since: stamp(START_MS - 240).boot,
            filename: Bytes::from(format!("/usr/bin/{}", self.program)),
            exe: Some((8, 9)),
            argv: ArgvEvidence {
                commitment: Some(Digest([3; 32])),
                captured_length: u64::try_from(argv.bytes.len()).unwrap(),
                true_length: argv.true_length,
                state: argv.state,
                mode: self.mode,
            },
            user: User { uid: Some(1_000), euid: Some(1_000), login_uid: LoginUid::Set(1_000) },
            ancestors: ancestors
                .map(|(one, pid)| Ancestor { key: key(pid), program: Some(Arc::from(*one)) })
                .collect(),
            cgroups: self.groups.iter().map(group).collect(),
            borne: Some(BorneImages {
                images: vec![
                    BorneImage {
                        since: stamp(START_MS - 250).boot,
                        basis: Basis::Fork,
                        program: Some(Arc::from("bash")),
                    },
                    BorneImage {
                        since: stamp(START_MS - 240).boot,
                        basis: Basis::Exec,
                        program: Some(Arc::from(self.program)),
                    },
                ],
                forgotten: 0,
            }),
            ended: None,
        }
    }

    /// As it is booked under these rules and told with those at hand.
    pub(super) fn told(&self, in_force: &str, at_hand: Option<&str>) -> Explained {
        let at_hand = at_hand.map(|text| RulesAtHand {
            file: Some("/etc/gpu-ledger/rules.toml".into()),
            set: Arc::new(RuleSet::parse(text.as_bytes()).unwrap()),
        });
        self.told_by(in_force, at_hand.as_ref())
    }

    /// The same, with or without a file of rules at hand.
    pub(super) fn told_by(&self, in_force: &str, at_hand: Option<&RulesAtHand>) -> Explained {
        let mut figures = figures(Account::by(Ground::Program, ""));
        figures.program = Some(Arc::from(self.program));
        figures.labels = self.labels();
        let rules = Arc::new(RuleSet::parse(in_force.as_bytes()).unwrap());
        let identity = self.identity();
        let process = journaled_process(&figures, &identity, Some(self.argv()));
        let attributor = Attributor::default().with_rules(&rules);
        let Attributed { account, labels } = process.see(|subject| attributor.attribute(subject));
        (figures.account, figures.labels) = (account, labels);
        if let Some(booked) = self.booked {
            let service = Label::Service.as_str();
            figures.account = Account::by(Ground::Program, booked);
            figures.labels.retain(|(word, _)| **word != *service);
            figures.labels.push((Arc::from(service), Arc::from(booked)));
        }
        let evidence = evidence(&figures, Some(identity), None);
        let argv = KeptArgv {
            commitment: Digest([3; 32]),
            mode: self.mode,
            argv: self.argv(),
            text: StoredText::Captured,
        };
        let why = Why { at: entered(), evidence, argv: self.is_kept.then_some(argv) };
        of(&chosen(figures), Some(why), at_hand)
    }

    fn labels(&self) -> Labels {
        let names = self.names.iter();
        names.map(|(label, value)| (Arc::from(label.as_str()), Arc::from(*value))).collect()
    }
}

fn entered() -> Moment {
    Moment { boot: BootId(7), stamp: stamp(START_MS + HELD_MS + 300) }
}

fn chosen(figures: SettlementFigures) -> Chosen {
    let (hash, began) = (Digest([0xab; 32]), Some(stamp(START_MS + 5_000)));
    Chosen { seq: 34, hash, figures, dispute: None, began }
}

fn figures(account: Account) -> SettlementFigures {
    let mut journal = crate::bill::made::Journal::began(0, 1);
    let row = Row { account, ..Row::of("", PID, START_MS, HELD_MS) };
    journal.settle(START_MS + HELD_MS + 300, row);
    let entry = journal.entries.pop().unwrap();
    let Figures::Settlement(figures) = entry.figures else { panic!() };
    *figures
}

fn evidence(
    figures: &SettlementFigures,
    identity: Option<IdentityEvidence>,
    nameless: Option<NamelessEvidence>,
) -> Evidence {
    let (began, ended) = (stamp(START_MS + HELD_MS + 290), stamp(START_MS + HELD_MS + 300));
    Evidence::Settlement(Box::new(SettlementEvidence {
        host: Arc::from("gpuhost"),
        driver: DriverSaid {
            kind: Arc::from("simulated"),
            version: Some(Arc::from("595.45.04")),
            stats_v2: true,
            gpu_index: 0,
            gpu_name: Some(Arc::from("NVIDIA H200")),
        },
        row: DriverRow {
            gpu: gpu(0),
            pid: Pid(PID),
            start: figures.start,
            held: Ms(HELD_MS),
            running: false,
            memory_peak: Observed::Known(Memory(1 << 30)),
            utilization: Observed::Unknown(UnknownReason::ValueNotAvailable),
            sums: None,
        },
        seen: Window { began, ended },
        identity,
        nameless,
        provenance: None,
    }))
}

/// One that nobody can name, for this reason, with the blind spot that it has.
pub(super) fn nameless(reason: NamelessReason) -> Explained {
    let mut figures = figures(Account::Unattributed(reason));
    let candidate = |born_ms: u64, fit| Candidate {
        key: ProcessKey { pid: Pid(PID), start: BootNs(stamp(born_ms).boot.0) },
        ended: None,
        fit,
    };
    let gap = |cause, size| Gap {
        cause,
        gpu: None,
        from: stamp(START_MS - 1_000),
        to: stamp(START_MS + 4_000),
        size,
    };
    let (gap, candidates) = match reason {
        NamelessReason::AgentDown => (Some(gap(GapCause::AgentDown, None)), Vec::new()),
        NamelessReason::EventLost => (Some(gap(GapCause::EventLost, Some(12))), Vec::new()),
        NamelessReason::PidAmbiguous | NamelessReason::RowSpansTwoLifetimes => {
            let two = vec![
                candidate(START_MS - 250, Fit::Contains),
                candidate(START_MS + 7_000, Fit::Outside),
            ];
            (None, two)
        }
        NamelessReason::PredatesCoverage
        | NamelessReason::IdentityEvicted
        | NamelessReason::NoStartTime => (None, Vec::new()),
    };
    if reason == NamelessReason::NoStartTime {
        figures.start = None;
    }
    let evidence = evidence(&figures, None, Some(NamelessEvidence { gap, candidates }));
    let why = Why { at: entered(), evidence, argv: None };
    of(&chosen(figures), Some(why), None)
}

/// What is said where the evidence is not here.
pub(super) fn bare(reason: Option<NamelessReason>) -> Explained {
    let account = reason.map_or(Account::by(Ground::Program, "old"), Account::Unattributed);
    of(&chosen(figures(account)), None, None)
}

pub(super) fn explanation(settlements: Vec<Explained>) -> Explanation {
    assert!(settlements.len() <= EXPLAINED_MAX);
    Explanation { format: FORMAT, version: VERSION, settlements, more: 0, only_uid: None }
}
