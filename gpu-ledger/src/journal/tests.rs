//! The chain against its own rules: every entry that is changed, moved, doubled or left out is found.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes as RawBytes;

use super::chain::{ChainError, Kept, Recovered, Sealed, booking_key, read_evidence};
use super::entry::{
    AgentFacts, Ancestor, ArgvEvidence, BootId, BorneImage, BorneImages, Change, ClosedPeriod,
    ConflictFigures, Correction, CoverageEdge, Draft, DriverSaid, Epoch, EpochEdge, Evidence,
    Figures, GpuMark, IdentityEvidence, KeyChange, Mark, Moment, OpenEvidence, OpenFigures,
    OpenKind, Provenance, SettlementEvidence, SettlementFigures,
};
use super::{Digest, chain};
use crate::accounting::reading::ModeAround;
use crate::accounting::{Busy, BusySource, Row, Window};
use crate::argv::CmdlineMode;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::identity::{Basis, Ended, User};
use crate::kernel::{ArgvState, CgroupId, LoginUid, ProcessKey};
use crate::settlement::{Account, Balance, Fit, Ground};
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{Flag, GapCause, Observed, UnknownReason};

fn stamp(ms: u64) -> Stamp {
    let ns = ms * 1_000_000;
    Stamp { boot: BootNs(ns), mono_ns: ns, wall: WallUs(1_700_000_000_000_000 + ms * 1_000) }
}

fn window(ms: u64) -> Window {
    Window { began: stamp(ms), ended: stamp(ms + 1) }
}

fn gpu() -> GpuUuid {
    GpuUuid(Arc::from("GPU-00000000-0000-0000-0000-000000000001"))
}

fn draft(ms: u64, figures: Figures, evidence: Evidence) -> Draft {
    let at = Moment { boot: BootId(7), stamp: stamp(ms) };
    Draft { at, figures, evidence, argv: None }
}

fn row(pid: u32, start: Option<WallUs>, held: u64) -> Row {
    Row {
        gpu: gpu(),
        pid: Pid(pid),
        start,
        held: Ms(held),
        running: false,
        memory_peak: Observed::Known(Bytes(1 << 30)),
        utilization: Observed::Unknown(UnknownReason::ValueNotAvailable),
        sums: None,
    }
}

fn said() -> DriverSaid {
    DriverSaid {
        kind: Arc::from("simulated"),
        version: Some(Arc::from("595.45.04")),
        stats_v2: true,
        gpu_index: 0,
        gpu_name: None,
    }
}

fn identity(pid: u32) -> IdentityEvidence {
    let key = ProcessKey { pid: Pid(pid), start: BootNs(5) };
    IdentityEvidence {
        boot: BootId(7),
        key,
        start_is_exact: true,
        fit: Fit::Contains,
        basis: Basis::Exec,
        image_since: BootNs(6),
        filename: RawBytes::from_static(b"/usr/bin/\xffodd"),
        exe: Some((8, 9)),
        argv: ArgvEvidence {
            commitment: Some(Digest([3; 32])),
            captured_length: 10,
            true_length: Some(12),
            state: ArgvState::Truncated,
            mode: None,
        },
        user: User { uid: Some(1_000), euid: None, login_uid: LoginUid::Set(7) },
        ancestors: vec![Ancestor { key, program: Some(Arc::from("bash")) }],
        cgroups: vec![(CgroupId { hierarchy: 0, id: 4 }, Some(RawBytes::from_static(b"/a")))],
        borne: None,
        ended: Some(Ended { at: BootNs(9), is_seen: true, wait_status: None }),
    }
}

fn settlement(pid: u32, start_ms: Option<u64>, held: u64, opened: Option<u64>) -> Draft {
    let start = start_ms.map(|ms| stamp(ms).wall);
    let read = window(start_ms.unwrap_or(0) + held);
    let figures = SettlementFigures {
        gpu: gpu(),
        pid: Pid(pid),
        start,
        held: Ms(held),
        read_at: read.ended,
        account: Account::Unclassified { name: Arc::from("python train.py"), ground: None },
        program: Some(Arc::from("train.py")),
        uid: Some(1_000),
        basis: Some(Basis::Exec),
        flags: BTreeSet::from([Flag::SettledWhileAlive]),
        dispute: None,
        asleep: Some(Ms(1)),
        busy: Some(Busy { low: Ms(1), high: Ms(2), samples: None, source: BusySource::StatsV1 }),
        memory_peak: Some(Bytes(1 << 30)),
        opened,
        labels: vec![(Arc::from("unit"), Arc::from("x.service"))],
        booked: Balance::default(),
    };
    let evidence = SettlementEvidence {
        host: Arc::from("host"),
        driver: said(),
        row: row(pid, start, held),
        seen: read,
        identity: Some(identity(pid)),
        nameless: None,
        provenance: None,
    };
    draft(
        start_ms.unwrap_or(0) + held,
        Figures::Settlement(Box::new(figures)),
        Evidence::Settlement(Box::new(evidence)),
    )
}

fn open(pid: u32, ms: u64) -> Draft {
    let figures = OpenFigures {
        kind: OpenKind::Row,
        gpu: gpu(),
        pid: Pid(pid),
        start: Some(stamp(ms).wall),
        first_seen: window(ms),
        account: Account::Unclassified { name: Arc::from("train.py"), ground: None },
        program: None,
        uid: None,
        basis: None,
        labels: Vec::new(),
        memory: None,
    };
    let evidence = OpenEvidence { row: None, identity: Some(identity(pid)) };
    draft(ms, Figures::Open(Box::new(figures)), Evidence::Open(Box::new(evidence)))
}

fn mark(ms: u64, unresolved: Vec<u64>) -> Draft {
    let of_gpu = GpuMark {
        gpu: gpu(),
        last_good: Some(window(ms)),
        dead_rows: Some(3),
        doubted_since: None,
    };
    let mark = Mark {
        processes_until: stamp(ms),
        gpus: vec![of_gpu],
        unresolved,
        note: Some(Arc::from("before the driver's upgrade")),
    };
    draft(ms, Figures::Mark(mark), Evidence::None)
}

fn key() -> KeyChange {
    KeyChange {
        key: Arc::from("gpu-ledger/0123456789abcdef+00000000+AQ=="),
        previous: Some(Arc::from("gpu-ledger/0123456789abcdef+11111111+AQ==")),
        signature: Some(RawBytes::from_static(&[9; 64])),
    }
}

fn closed() -> ClosedPeriod {
    ClosedPeriod {
        name: Arc::from("2023-10"),
        from: stamp(0).wall,
        to: stamp(50).wall,
        zone: Arc::from("Europe/Vienna"),
        through: 9,
        tree: Digest([3; 32]),
        by: Arc::from("account"),
        share: Arc::from("none"),
        prices: Some(Digest([4; 32])),
        documents: vec![(Arc::from("csv"), Digest([5; 32])), (Arc::from("json"), Digest([6; 32]))],
        version: Arc::from("0.1.0"),
    }
}

fn provenance() -> Provenance {
    Provenance {
        library: Some(Arc::from("13.595.45.04")),
        mode: ModeAround { before: true, after: true },
        rules: Some(Digest([7; 32])),
        agent: AgentFacts {
            version: Arc::from("0.1.0"),
            object: Digest([8; 32]),
            kernel: Arc::from("6.12.0"),
        },
    }
}

/// One of every kind, and of every form.
pub(super) fn history() -> Vec<Draft> {
    let mut settled = settlement(14, Some(100), 2, None);
    let Evidence::Settlement(evidence) = &mut settled.evidence else { unreachable!() };
    evidence.provenance = Some(provenance());
    evidence.identity.as_mut().unwrap().borne = Some(BorneImages {
        images: vec![BorneImage {
            since: BootNs(1),
            basis: Basis::Fork,
            program: Some(Arc::from("bash")),
        }],
        forgotten: 2,
    });
    let mut history = first_history();
    history.extend([
        settled,
        draft(103, Figures::Key(Box::new(key())), Evidence::None),
        draft(104, Figures::Closed(Box::new(closed())), Evidence::None),
    ]);
    history
}

/// One of every kind that there was first.
fn first_history() -> Vec<Draft> {
    let began = CoverageEdge::Began {
        at: stamp(0),
        host: Arc::from("host"),
        device_touch: true,
        process_events: true,
    };
    let edge = EpochEdge::Began { index: 0, name: Some(Arc::from("NVIDIA H200")) };
    let epoch = Epoch { gpu: gpu(), at: stamp(1), edge };
    let gap = Gap {
        cause: GapCause::EventLost,
        gpu: None,
        from: stamp(40),
        to: stamp(50),
        size: Some(7),
    };
    let ended = Change::Ended { last_seen: stamp(60), cause: Some(GapCause::RowOverwritten) };
    let read_at = stamp(90);
    let conflict = Evidence::Conflict { row: Box::new(row(10, None, 1)), seen: window(90) };
    vec![
        draft(0, Figures::Coverage(began), Evidence::None),
        draft(1, Figures::Epoch(epoch), Evidence::Epoch(said())),
        open(10, 10),
        open(11, 20),
        settlement(12, Some(25), 5, None),
        draft(50, Figures::Gap(gap), Evidence::None),
        settlement(10, Some(10), 45, Some(3)),
        draft(60, Figures::Correction(Correction { of: 4, change: ended }), Evidence::None),
        settlement(13, None, 3, None),
        mark(70, Vec::new()),
        draft(90, Figures::Conflict(ConflictFigures { of: 7, read_at }), conflict),
        draft(99, Figures::Coverage(CoverageEdge::Ended { at: stamp(99) }), Evidence::None),
    ]
}

fn sealed(drafts: Vec<Draft>) -> (Recovered, Vec<Sealed>) {
    let mut end = Recovered::default();
    let entries = drafts.into_iter().map(|draft| end.seal(draft).unwrap()).collect();
    (end, entries)
}

fn kept(sealed: &Sealed) -> Kept<'_> {
    sealed.kept()
}

#[test]
fn a_leaf_is_over_the_bytes_that_the_hash_is_over() {
    let (_, entries) = sealed(history());
    for kept in entries.iter().map(kept) {
        // The list as it is written down in the module's first lines, made by the general encoder.
        let mut writer = super::canon::Writer::default();
        writer.list(|writer| {
            writer.atom(b"gpu-ledger entry");
            writer.atom(&1_u32.to_be_bytes());
            writer.atom(&kept.seq.to_be_bytes());
            writer.atom(&kept.previous.0);
            writer.atom(kept.body);
            writer.atom(&kept.evidence.0);
        });
        let bytes = writer.finish().unwrap();
        assert_eq!(kept.hash, chain::sha256(&bytes));
        assert_eq!(kept.leaf().unwrap(), super::tree::leaf(&bytes));
        assert_eq!(kept.proven_leaf().unwrap(), super::tree::leaf(&bytes));
        let changed = Kept { hash: Digest::NONE, ..kept };
        assert!(matches!(changed.proven_leaf(), Err(ChainError::Hash { .. })));
    }
}

fn replayed(entries: &[Sealed]) -> Result<Recovered, ChainError> {
    let mut end = Recovered::default();
    for one in entries {
        end.follow(kept(one))?;
        read_evidence(one.entry.seq, one.entry.evidence, &one.evidence)?;
    }
    Ok(end)
}

#[test]
fn what_is_sealed_is_read_back_and_ends_the_same() {
    let (end, entries) = sealed(history());
    assert_eq!(replayed(&entries).unwrap(), end);
    assert_eq!(end.head.booked[&gpu()], Balance { count: 4, held_ms: 55 });
    assert!(end.unresolved.is_empty() && end.ended_in_order);
    for one in &entries {
        assert_eq!(chain::read(kept(one)).unwrap(), one.entry);
    }
}

#[test]
fn a_bit_that_is_turned_anywhere_in_an_entry_is_found() {
    let (_, entries) = sealed(history());
    for one in &entries {
        let seq = one.entry.seq;
        let is_found =
            |changed: &Sealed| matches!(chain::read(kept(changed)), Err(ChainError::Hash { .. }));
        for bit in 0..one.body.len() * 8 {
            let mut changed = one.clone();
            changed.body[bit / 8] ^= 1 << (bit % 8);
            assert!(is_found(&changed), "{seq} {bit}");
        }
        let mut evidence = one.evidence.clone();
        for bit in 0..evidence.len() * 8 {
            evidence[bit / 8] ^= 1 << (bit % 8);
            let read = read_evidence(seq, one.entry.evidence, &evidence);
            assert_eq!(read, Err(ChainError::Evidence { seq }), "{bit}");
            evidence[bit / 8] ^= 1 << (bit % 8);
        }
        let digests: [fn(&mut Sealed) -> &mut Digest; 3] = [
            |one| &mut one.entry.hash,
            |one| &mut one.entry.previous,
            |one| &mut one.entry.evidence,
        ];
        for (digest, bit) in digests.into_iter().flat_map(|of| (0..256).map(move |bit| (of, bit))) {
            let mut changed = one.clone();
            digest(&mut changed).0[bit / 8] ^= 1 << (bit % 8);
            assert!(is_found(&changed), "{seq} {bit}");
        }
    }
}

#[test]
fn an_entry_left_out_doubled_or_moved_is_found() {
    let (_, entries) = sealed(history());
    for place in 0..entries.len() {
        let mut without = entries.clone();
        without.remove(place);
        // Without the last one the chain is whole: only an outside witness knows that it was longer.
        assert_eq!(replayed(&without).is_err(), place + 1 < entries.len());
        let mut doubled = entries.clone();
        doubled.insert(place, entries[place].clone());
        assert!(replayed(&doubled).is_err());
        for other in place + 1..entries.len() {
            let mut swapped = entries.clone();
            swapped.swap(place, other);
            assert!(replayed(&swapped).is_err());
        }
    }
}

#[test]
fn a_sum_that_is_not_what_was_booked_before_is_found_though_it_is_sealed() {
    let mut liar = Recovered::default();
    liar.head.booked.insert(gpu(), Balance { count: 1, held_ms: 1 });
    let one = liar.seal(settlement(10, Some(10), 5, None)).unwrap();
    let error = Recovered::default().follow(kept(&one)).unwrap_err();
    assert!(matches!(error, ChainError::Balance { said: Balance { count: 2, .. }, .. }));
}

#[test]
fn only_what_is_open_can_settle_or_end_and_once() {
    let (mut end, _) = sealed(vec![open(10, 10)]);
    let before = end.clone();
    let of_nobody = settlement(10, Some(10), 5, Some(9));
    assert_eq!(end.seal(of_nobody), Err(ChainError::NotOpen { seq: 2, of: 9 }));
    assert_eq!(end.seal(mark(20, Vec::new())), Err(ChainError::Unresolved { seq: 2 }));
    assert_eq!(end, before);
    end.seal(settlement(10, Some(10), 5, Some(1))).unwrap();
    let again = settlement(11, Some(11), 5, Some(1));
    assert_eq!(end.seal(again), Err(ChainError::NotOpen { seq: 3, of: 1 }));
}

#[test]
fn rows_without_a_start_are_told_apart_by_their_contents_and_others_by_their_key_alone() {
    let key = |draft: &Draft| {
        let Figures::Settlement(figures) = &draft.figures else { unreachable!() };
        booking_key(figures, &draft.evidence).unwrap()
    };
    assert_eq!(key(&settlement(10, Some(5), 1, None)), key(&settlement(10, Some(5), 2, Some(4))));
    assert_ne!(key(&settlement(10, Some(5), 1, None)), key(&settlement(11, Some(5), 1, None)));
    assert_ne!(key(&settlement(10, Some(5), 1, None)), key(&settlement(10, Some(6), 1, None)));
    assert_eq!(key(&settlement(10, None, 1, None)), key(&settlement(10, None, 1, None)));
    assert_ne!(key(&settlement(10, None, 1, None)), key(&settlement(10, None, 2, None)));
}

#[test]
fn the_first_version_of_the_form_stays_what_it_is() {
    let (end, entries) = sealed(first_history());
    // A change of any form changes these: it then needs another version and must still read this one.
    let hash = "0c9b91d90edd481243bb16eeef6c164ad29f4411d996ceaa66a1b405f62034ab";
    assert_eq!((entries.len(), end.head.hash.to_string().as_str()), (12, hash));
    // What came to it since without another.
    let (end, entries) = sealed(history());
    let hash = "ba8d96f7c9b505868ecd12d5a4117226b22fbe669b9f29a74417b118697e52fc";
    assert_eq!((entries.len(), end.head.hash.to_string().as_str()), (15, hash));
}

#[test]
fn what_may_be_absent_is_written_only_where_it_says_something_and_is_read_both_ways() {
    let plain = mark(5, Vec::new());
    let mut doubting = plain.clone();
    let Figures::Mark(figures) = &mut doubting.figures else { unreachable!() };
    figures.gpus[0].doubted_since = Some(stamp(3));
    let mut holding = open(10, 10);
    let Figures::Open(figures) = &mut holding.figures else { unreachable!() };
    figures.memory = Some(Bytes(7 << 30));
    let silent = settlement(10, Some(10), 5, None).evidence;
    let mut saying = silent.clone();
    let Evidence::Settlement(evidence) = &mut saying else { unreachable!() };
    evidence.identity.as_mut().unwrap().argv.mode = Some(CmdlineMode::None);
    let [silent, saying] = [silent, saying].map(|evidence| {
        let bytes = super::canon::encode(&evidence).unwrap();
        assert_eq!(super::canon::decode::<Evidence>(&bytes).unwrap(), evidence);
        bytes.len()
    });
    assert!(silent < saying, "{silent} {saying}");
    let mut named = settlement(10, Some(10), 5, None);
    let Figures::Settlement(figures) = &mut named.figures else { unreachable!() };
    figures.account = Account::by(Ground::Unit, "ollama");
    let lengths = [&plain, &doubting, &open(10, 10), &holding, &named].map(|draft| {
        let bytes = super::canon::encode(&draft.figures).unwrap();
        assert_eq!(super::canon::decode::<Figures>(&bytes).unwrap(), draft.figures);
        bytes.len()
    });
    assert!(lengths[0] < lengths[1] && lengths[2] < lengths[3], "{lengths:?}");
}
