//! Made notes, drafted, bound and sealed: what the chain accepts is right, and it refuses the rest.

mod cmdline;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes as RawBytes;

use super::*;
use crate::accounting::reading::Holder;
use crate::accounting::{FinalRow, Row};
use crate::host::{Bearer, Whose};
use crate::identity::{Basis, Image, ImageContent, User};
use crate::journal::Recovered;
use crate::journal::entry::{Entry, OpenEvidence, OpenFigures};
use crate::kernel::{Argv, ArgvState, LoginUid, ProcessKey};
use crate::settlement::{Account, Attribution, Fit, Ground, Named, Settlement, SettlementId};
use crate::unit::{BootNs, Ms, Pid, Span, WallUs};
use crate::unknown::{Observed, UnknownReason};

const BOOT: BootId = BootId(7);

fn stamp(ms: u64) -> Stamp {
    let ns = ms * 1_000_000;
    Stamp { boot: BootNs(ns), mono_ns: ns, wall: WallUs(1_790_000_000_000_000 + ms * 1_000) }
}

fn gpu() -> GpuUuid {
    GpuUuid(Arc::from("GPU-2f9a1b3c-0000-0000-0000-000000000000"))
}

fn row(pid: u32, start_ms: u64, held_ms: u64) -> Row {
    let nothing = UnknownReason::ValueNotAvailable;
    Row {
        gpu: gpu(),
        pid: Pid(pid),
        start: Some(stamp(start_ms).wall),
        held: Ms(held_ms),
        running: held_ms == 0,
        memory_peak: Observed::Unknown(nothing),
        utilization: Observed::Unknown(nothing),
        sums: None,
    }
}

fn named(pid: u32) -> Named {
    let argv = Argv {
        bytes: RawBytes::from_static(b"train.py\0--lr\0"),
        true_length: Some(14),
        state: ArgvState::Whole,
    };
    let content = ImageContent { argv, filename: RawBytes::from_static(b"/bin/train"), exe: None };
    Named {
        key: ProcessKey { pid: Pid(pid), start: BootNs(1) },
        start_is_exact: true,
        image: Image {
            since: BootNs(1),
            basis: Basis::Exec,
            content: Arc::new(content),
            user: User { uid: Some(1_000), euid: Some(1_000), login_uid: LoginUid::Unset },
        },
        parent: None,
        cgroups: Vec::new(),
        ended: None,
        fit: Fit::Contains,
    }
}

fn whose() -> Whose {
    let account = Account::by(Ground::Program, "train");
    Whose {
        account,
        labels: Vec::new(),
        program: None,
        ancestors: Vec::new(),
        cgroups: Vec::new(),
        borne: None,
        rules: None,
    }
}

fn window(ms: u64) -> Window {
    Window { began: stamp(ms), ended: stamp(ms + 1) }
}

fn opened(pid: u32, start_ms: Option<u64>, seen_ms: u64) -> News {
    let shown = start_ms.map(|start| row(pid, start, 0));
    let row = OpenRow {
        gpu: gpu(),
        pid: Pid(pid),
        start: shown.as_ref().and_then(|row| row.start),
        reason: shown.is_none().then_some(UnknownReason::MaskedByDeadRow),
        row: shown,
        behind: None,
        first_seen: window(seen_ms),
        last_seen: window(seen_ms),
    };
    let attribution = Attribution::Named(Box::new(named(pid)));
    News::Opened(Box::new(Opened { row, attribution, whose: whose() }))
}

fn settled(pid: u32, start_ms: u64, held_ms: u64) -> News {
    let row = row(pid, start_ms, held_ms);
    let seen = window(start_ms + held_ms);
    let settlement = Settlement {
        id: SettlementId::of(&row),
        host: "host".into(),
        span: row.start.and_then(|start| Span::of_row(start, row.held)),
        started: None,
        attribution: Attribution::Named(Box::new(named(pid))),
        flags: std::collections::BTreeSet::new(),
        dispute: None,
        asleep: Observed::Known(Ms::ZERO),
        busy: None,
        row: row.clone(),
        seen,
    };
    let row = FinalRow { row, seen, busy: None };
    let (of_command, already_dead) = (false, false);
    News::Settled(Box::new(Settled { row, settlement, whose: whose(), of_command, already_dead }))
}

/// A journal without a disk: what the chain accepts, each key once.
#[derive(Default)]
struct Made {
    end: Recovered,
    entries: Vec<Entry>,
    keys: BTreeMap<RowKey, u64>,
    binder: Binder,
    pending: VecDeque<Pending>,
    batches: usize,
}

impl Settlements for BTreeMap<RowKey, u64> {
    type Error = Infallible;

    fn booked(&self, key: &RowKey) -> Result<Option<u64>, Infallible> {
        Ok(self.get(key).copied())
    }
}

impl Made {
    /// Enters everything that waits, as a writer does.
    fn enter(&mut self, drafts: Vec<Pending>) {
        self.pending.extend(drafts);
        while !self.pending.is_empty() {
            let Ok(mut bound) = self.binder.bind(&self.pending, 64, &self.end, &self.keys);
            assert!(bound.taken > 0, "nothing moves: {:?}", self.pending);
            let mut numbers = Vec::new();
            for draft in std::mem::take(&mut bound.drafts) {
                let key = match &draft.figures {
                    Figures::Settlement(settlement) => settlement.key(),
                    _ => None,
                };
                if key.as_ref().is_some_and(|key| self.keys.contains_key(key)) {
                    numbers.push(None);
                    continue;
                }
                let entry = self.end.seal(draft).expect("the chain takes it").entry;
                self.keys.extend(key.map(|key| (key, entry.seq)));
                numbers.push(Some(entry.seq));
                self.entries.push(entry);
            }
            self.binder.entered(&bound, &numbers, &self.end);
            self.pending.drain(..bound.taken);
            self.batches += 1;
        }
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.figures.kind()).collect()
    }

    /// What is open, as a restart takes it over.
    fn earlier(&self) -> Vec<Earlier> {
        let open = |(seq, open): (&u64, &OpenFigures)| {
            let evidence = OpenEvidence { row: None, identity: None };
            let at = self.entries.iter().find(|entry| entry.seq == *seq).unwrap().at;
            Earlier { seq: *seq, at, open: open.clone(), evidence }
        };
        self.end.unresolved.iter().map(open).collect()
    }
}

fn drafter() -> Drafter {
    let agent = AgentFacts {
        version: "1".into(),
        object: crate::journal::Digest::NONE,
        kernel: "6.1".into(),
    };
    Drafter::new(BOOT, "host".into(), agent, CommitmentKey::new([1; 32]))
}

fn notes(drafter: &mut Drafter, news: impl IntoIterator<Item = News>) -> Vec<Pending> {
    let mut drafts = Vec::new();
    for (number, news) in (1..).zip(news) {
        drafts.extend(drafter.draft(Note { number, at: stamp(500), news }));
    }
    drafts
}

fn mark() -> Pending {
    let figures = Figures::Mark(Mark {
        processes_until: stamp(500),
        gpus: Vec::new(),
        unresolved: Vec::new(),
        note: None,
    });
    Pending::of(Moment { boot: BOOT, stamp: stamp(500) }, figures, Evidence::None)
}

#[test]
fn a_settlement_names_the_open_entry_of_its_own_batch() {
    let (mut made, mut drafter) = (Made::default(), drafter());
    let news = [opened(1, Some(10), 20), opened(2, Some(11), 20), settled(1, 10, 30)];
    let mut drafts = notes(&mut drafter, news);
    assert!(drafts.iter().all(|one| one.draft.argv.is_some() && one.note.is_some()));
    drafts.push(mark());
    made.enter(drafts);
    assert_eq!(made.kinds(), ["open", "open", "settlement", "mark"]);
    assert_eq!(made.batches, 1);
    let Figures::Settlement(settlement) = &made.entries[2].figures else { panic!() };
    assert_eq!((settlement.opened, settlement.uid), (Some(1), Some(1_000)));
    let Figures::Mark(mark) = &made.entries[3].figures else { panic!() };
    assert_eq!(mark.unresolved, [2]);
}

#[test]
fn after_a_restart_an_open_row_is_entered_once_and_settles_its_own_entry() {
    let (mut made, mut first) = (Made::default(), drafter());
    made.enter(notes(&mut first, [opened(1, Some(10), 20), opened(2, Some(11), 20)]));
    let mut second = drafter();
    assert_eq!(second.resume(made.earlier(), &BTreeMap::new(), stamp(400)), []);
    assert!(second.has_earlier());
    made.enter(notes(&mut second, [opened(1, Some(10), 410), settled(2, 11, 300)]));
    assert_eq!(made.kinds(), ["open", "open", "settlement"]);
    assert!(!second.has_earlier());
    made.enter(notes(&mut second, [settled(1, 10, 600)]));
    assert!(made.end.unresolved.is_empty());
}

#[test]
fn what_a_restart_finds_neither_open_nor_final_is_ended_where_it_was_last_seen() {
    let (mut made, mut first) = (Made::default(), drafter());
    made.enter(notes(&mut first, [opened(1, Some(10), 20)]));
    let mut second = drafter();
    let seen = BTreeMap::from([(gpu(), stamp(200))]);
    second.resume(made.earlier(), &seen, stamp(400));
    let key = row(1, 10, 0).key().unwrap();
    let unresolved = News::OpenUnresolved { key, named: Box::new(named(1)), at: stamp(410) };
    made.enter(notes(&mut second, [unresolved]));
    let Figures::Correction(correction) = &made.entries[1].figures else { panic!() };
    let change = Change::Ended { last_seen: stamp(200), cause: Some(GapCause::AgentDown) };
    assert_eq!(*correction, Correction { of: 1, change });
}

#[test]
fn what_another_boot_left_open_is_over() {
    let (mut made, mut first) = (Made::default(), drafter());
    made.enter(notes(&mut first, [opened(1, Some(10), 20)]));
    let mut earlier = made.earlier();
    earlier[0].at.boot = BootId(6);
    let mut second = drafter();
    let over = second.resume(earlier, &BTreeMap::new(), stamp(400));
    assert!(!second.has_earlier());
    made.enter(over);
    assert_eq!(made.kinds(), ["open", "correction"]);
    assert!(made.end.unresolved.is_empty());
}

#[test]
fn a_row_that_was_hidden_ends_as_such_when_it_shows_itself() {
    let (mut made, mut drafter) = (Made::default(), drafter());
    let news = [opened(1, None, 20), opened(1, Some(10), 20), settled(1, 10, 40)];
    made.enter(notes(&mut drafter, news));
    assert_eq!(made.kinds(), ["open", "correction", "open", "settlement"]);
    let Figures::Open(hidden) = &made.entries[0].figures else { panic!() };
    assert_eq!((hidden.kind, hidden.start), (OpenKind::Masked, None));
    assert!(made.end.unresolved.is_empty());
}

#[test]
fn what_had_no_room_is_as_if_it_had_never_been_learnt() {
    let (mut made, mut drafter) = (Made::default(), drafter());
    let lost = notes(&mut drafter, [opened(1, Some(10), 20), settled(1, 10, 30)]);
    for pending in lost.iter().rev() {
        drafter.dropped(pending);
    }
    made.enter(notes(&mut drafter, [opened(2, Some(11), 20)]));
    let lost = notes(&mut drafter, [settled(2, 11, 30)]);
    drafter.dropped(&lost[0]);
    // Everything is told once more.
    let again = [opened(2, Some(11), 20), settled(1, 10, 30), settled(2, 11, 30)];
    made.enter(notes(&mut drafter, again));
    assert_eq!(made.kinds(), ["open", "settlement", "settlement"]);
    let Figures::Settlement(first) = &made.entries[1].figures else { panic!() };
    let Figures::Settlement(second) = &made.entries[2].figures else { panic!() };
    assert_eq!((first.opened, second.opened), (None, Some(1)));
    assert!(made.end.unresolved.is_empty());
}

#[test]
fn a_booked_row_that_comes_again_shifts_no_number() {
    let (mut made, mut first) = (Made::default(), drafter());
    made.enter(notes(&mut first, [settled(1, 10, 30), opened(2, Some(11), 20)]));
    let mut second = drafter();
    second.resume(made.earlier(), &BTreeMap::new(), stamp(400));
    let news =
        [settled(1, 10, 30), opened(3, Some(12), 410), settled(3, 12, 500), settled(2, 11, 500)];
    let mut drafts = notes(&mut second, news);
    drafts.push(mark());
    made.enter(drafts);
    assert_eq!(made.kinds(), ["settlement", "open", "open", "settlement", "settlement", "mark"]);
    let Figures::Settlement(settlement) = &made.entries[3].figures else { panic!() };
    assert_eq!(settlement.opened, Some(3));
    assert!(made.batches > 2, "the number could not be foreseen");
}

#[test]
fn an_open_entry_whose_row_is_booked_already_is_ended() {
    let (mut made, mut first) = (Made::default(), drafter());
    made.enter(notes(&mut first, [settled(1, 10, 30), opened(1, Some(10), 20)]));
    assert_eq!(made.end.unresolved.len(), 1);
    let mut second = drafter();
    second.resume(made.earlier(), &BTreeMap::new(), stamp(400));
    made.enter(notes(&mut second, [settled(1, 10, 30)]));
    assert_eq!(made.kinds(), ["settlement", "open", "correction"]);
    assert!(made.end.unresolved.is_empty());
}

#[test]
fn a_conflict_names_the_settlement_it_is_about_or_is_none() {
    let (mut made, mut drafter) = (Made::default(), drafter());
    let (key, other) = (row(1, 10, 30).key().unwrap(), row(1, 10, 31));
    let conflict = |key: &RowKey| News::Conflict {
        key: key.clone(),
        booked: Box::new(row(1, 10, 30)),
        now: Box::new(other.clone()),
    };
    let stranger = row(9, 10, 30).key().unwrap();
    let news = [settled(1, 10, 30), conflict(&key), conflict(&stranger)];
    made.enter(notes(&mut drafter, news));
    assert_eq!(made.kinds(), ["settlement", "conflict"]);
    let Figures::Conflict(conflict) = &made.entries[1].figures else { panic!() };
    assert_eq!(conflict.of, 1);
}

#[test]
fn a_restart_knows_up_to_when_each_gpu_was_in_sight() {
    let mut edges = Edges::new(BOOT);
    let (mut seq, mut end) = (0, Vec::new());
    let mut enter = |boot: BootId, figures: Figures| {
        seq += 1;
        let (at, none) = (Moment { boot, stamp: stamp(seq) }, crate::journal::Digest::NONE);
        end.push(Entry { seq, at, figures, evidence: none, previous: none, hash: none });
    };
    let mark = |last_good: Option<u64>| Mark {
        processes_until: stamp(1),
        gpus: vec![GpuMark {
            gpu: gpu(),
            last_good: last_good.map(window),
            dead_rows: None,
            doubted_since: None,
        }],
        unresolved: Vec::new(),
        note: None,
    };
    let began = |at: u64| CoverageEdge::Began {
        at: stamp(at),
        host: Arc::from("host"),
        device_touch: true,
        process_events: true,
    };
    let ended = EpochEdge::Ended { cause: GapCause::AccountingOff };
    enter(BootId(1), Figures::Coverage(began(1)));
    enter(BOOT, Figures::Coverage(began(20)));
    enter(BOOT, Figures::Mark(mark(Some(100))));
    enter(BOOT, Figures::Epoch(Epoch { gpu: gpu(), at: stamp(300), edge: ended }));
    // The next run read nothing before it was killed.
    enter(BOOT, Figures::Coverage(began(400)));
    enter(BOOT, Figures::Mark(mark(None)));
    for entry in &end {
        edges.take(entry);
    }
    edges.take_before(&mark(Some(50)));
    let left = Left::of(edges, Vec::new(), None, |_| Ok::<_, Infallible>(None)).unwrap();
    assert_eq!(left.last_seen, BTreeMap::from([(gpu(), stamp(300))]));
}

/// A process that ended shares no longer; of one whose end nobody saw, the read that misses it has to do.
#[test]
fn a_holder_without_a_row_ends_with_its_process_where_that_was_seen() {
    for (exit_ms, over_ms) in [(Some(3_000), 3_000), (Some(1_000), 2_000), (None, 7_000)] {
        let mut drafter = drafter();
        let memory = Observed::Unknown(UnknownReason::ValueNotAvailable);
        let holder = Holder { pid: Pid(41), memory, compute: true, graphics: false, mps: false };
        let account = Account::by(Ground::Program, "train");
        let seen = News::RowlessSeen {
            gpu: gpu(),
            since: stamp(500),
            holder,
            bearer: Box::new(Bearer { key: None, image: None, account, labels: Vec::new() }),
        };
        let gone = News::RowlessGone {
            gpu: gpu(),
            pid: Pid(41),
            key: None,
            since: stamp(500),
            last_seen: stamp(2_000),
            exit: exit_ms.map(stamp),
            at: stamp(7_000),
        };
        let pending = notes(&mut drafter, [seen, gone]);
        let ends = pending.iter().find_map(|pending| match &pending.draft.figures {
            Figures::Correction(Correction { change: Change::Ended { last_seen, .. }, .. }) => {
                Some(*last_seen)
            }
            _ => None,
        });
        assert_eq!(ends, Some(stamp(over_ms)), "{exit_ms:?}");
    }
}
