//! A journal and its bundle, made without the exporter: what is verified here is the format.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::accounting::{Row, Window};
use crate::audit::verify::whole::verify;
use crate::audit::verify::{Files, Known, Verdict, Wrong};
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::journal::Digest;
use crate::journal::canon::{self, Canonical as _, Writer};
use crate::journal::chain::sha256;
use crate::journal::entry::{
    AgentFacts, BootId, Change, Correction, CoverageEdge, DriverSaid, Epoch, EpochEdge, Evidence,
    Figures, GpuMark, Mark, Moment, NamelessEvidence, OpenEvidence, OpenFigures, OpenKind,
    SettlementEvidence, SettlementFigures,
};
use crate::journal::form::{ENTRY, EVIDENCE, Printer, schema};
use crate::journal::note::{Checkpoint, SigningKey};
use crate::journal::tree::{self, Frontier, Subtree, Subtrees, TreeError};
use crate::settlement::{Account, Balance, Ground};
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{GapCause, NamelessReason, Observed, UnknownReason};

pub(super) const ORIGIN: &str = "gpu-ledger/0011223344556677";
/// What the wall clock showed at boot.
const BEGAN_MS: u64 = 1_780_000_000_000;

pub(super) fn wall(ms: u64) -> WallUs {
    WallUs((BEGAN_MS + ms) * 1_000)
}

pub(super) fn stamp(ms: u64) -> Stamp {
    Stamp { boot: BootNs(ms * 1_000_000), mono_ns: ms * 1_000_000, wall: wall(ms) }
}

pub(super) fn window(ms: u64) -> Window {
    Window { began: stamp(ms), ended: stamp(ms + 1) }
}

pub(super) fn gpu(number: u32) -> GpuUuid {
    GpuUuid(Arc::from(format!("GPU-{number:08x}-0000-0000-0000-000000000000")))
}

/// What an entry says, with what it rests on.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) at: Moment,
    pub(super) figures: Figures,
    pub(super) evidence: Evidence,
    /// Its canonical bytes, where they are not those of what it says.
    pub(super) body: Option<Vec<u8>>,
}

pub(super) fn said(ms: u64, figures: Figures, evidence: Evidence) -> Said {
    Said { at: Moment { boot: BootId(7), stamp: stamp(ms) }, figures, evidence, body: None }
}

pub(super) fn row(gpu: &GpuUuid, pid: u32, start: Option<WallUs>, held: u64) -> Row {
    Row {
        gpu: gpu.clone(),
        pid: Pid(pid),
        start,
        held: Ms(held),
        running: false,
        memory_peak: Observed::Known(Bytes(1 << 20)),
        utilization: Observed::Unknown(UnknownReason::ValueNotAvailable),
        sums: None,
    }
}

pub(super) fn settlement(
    at: u64,
    gpu: &GpuUuid,
    (pid, start, held): (u32, Option<u64>, u64),
    account: Account,
    opened: Option<u64>,
) -> Said {
    let start = start.map(wall);
    let row = row(gpu, pid, start, held);
    let figures = SettlementFigures {
        gpu: gpu.clone(),
        pid: Pid(pid),
        start,
        held: Ms(held),
        read_at: window(at).ended,
        account,
        program: Some(Arc::from("train")),
        uid: Some(1_000),
        basis: None,
        flags: BTreeSet::new(),
        dispute: None,
        asleep: None,
        busy: None,
        memory_peak: Some(Bytes(1 << 20)),
        opened,
        labels: Vec::new(),
        booked: Balance::default(),
    };
    let driver = DriverSaid {
        kind: Arc::from("simulated"),
        version: None,
        stats_v2: false,
        gpu_index: 0,
        gpu_name: None,
    };
    let evidence = SettlementEvidence {
        host: Arc::from("h"),
        driver,
        row,
        seen: window(at),
        identity: None,
        nameless: Some(NamelessEvidence { gap: None, candidates: Vec::new() }),
        provenance: None,
    };
    said(at + 2, Figures::Settlement(Box::new(figures)), Evidence::Settlement(Box::new(evidence)))
}

pub(super) fn named(name: &str) -> Account {
    Account::by(Ground::Program, name)
}

pub(super) fn open(ms: u64, gpu: &GpuUuid, pid: u32) -> Said {
    let figures = OpenFigures {
        kind: OpenKind::Row,
        gpu: gpu.clone(),
        pid: Pid(pid),
        start: Some(wall(ms)),
        first_seen: window(ms),
        account: named("train"),
        program: None,
        uid: None,
        basis: None,
        labels: Vec::new(),
        memory: None,
    };
    let evidence = OpenEvidence { row: None, identity: None };
    said(ms + 2, Figures::Open(Box::new(figures)), Evidence::Open(Box::new(evidence)))
}

pub(super) fn mark(ms: u64, gpus: &[GpuUuid], unresolved: Vec<u64>) -> Said {
    let gpus = gpus.iter().map(|gpu| GpuMark {
        gpu: gpu.clone(),
        last_good: Some(window(ms - 1)),
        dead_rows: Some(3),
        doubted_since: None,
    });
    let processes_until = stamp(ms);
    let mark = Mark { processes_until, gpus: gpus.collect(), unresolved, note: None };
    said(ms, Figures::Mark(mark), Evidence::None)
}

pub(super) fn gap(ms: u64, cause: GapCause, to: u64) -> Said {
    let gap = Gap { cause, gpu: None, from: stamp(ms), to: stamp(to), size: Some(3) };
    said(to, Figures::Gap(gap), Evidence::None)
}

pub(super) fn ended(ms: u64, of: u64, cause: Option<GapCause>) -> Said {
    let change = Change::Ended { last_seen: stamp(ms), cause };
    said(ms, Figures::Correction(Correction { of, change }), Evidence::None)
}

fn began(gpus: &[GpuUuid]) -> Vec<Said> {
    let edge = CoverageEdge::Began {
        at: stamp(0),
        host: Arc::from("h"),
        device_touch: true,
        process_events: true,
    };
    let facts = AgentFacts {
        version: Arc::from("0.1.0"),
        object: Digest([9; 32]),
        kernel: Arc::from("6.18"),
    };
    let mut all = vec![said(0, Figures::Coverage(edge), Evidence::Coverage(facts))];
    all.extend(gpus.iter().map(|gpu| {
        let edge = EpochEdge::Began { index: 0, name: None };
        let epoch = Epoch { gpu: gpu.clone(), at: stamp(1), edge };
        said(1, Figures::Epoch(epoch), Evidence::None)
    }));
    all
}

/// Fifty entries in which everything is known but what `unknown` makes unknown.
pub(super) fn fifty() -> Vec<Said> {
    let gpus = [gpu(1), gpu(2)];
    let mut all = began(&gpus);
    let mut ms = 10;
    for number in 0..14_u32 {
        let gpu = &gpus[usize::try_from(number % 2).unwrap()];
        let pid = 100 + number;
        all.push(open(ms, gpu, pid));
        let opened = u64::try_from(all.len()).unwrap();
        if number % 3 == 1 {
            all.push(mark(ms + 5, &gpus, vec![opened]));
        }
        let of_row = (pid, Some(ms), u64::from(number) * 7);
        all.push(settlement(ms + 200, gpu, of_row, named("train \"x\" ß\n"), Some(opened)));
        if number % 2 == 0 {
            all.push(settlement(ms + 210, gpu, (900 + number, Some(ms), 5), named("b"), None));
        }
        ms += 1_000;
    }
    while all.len() < 50 {
        ms += 1_000;
        all.push(mark(ms, &gpus, Vec::new()));
    }
    all.truncate(50);
    balanced(all)
}

/// What is not known, too.
pub(super) fn unknown() -> Vec<Said> {
    let gpus = [gpu(1)];
    let mut all = began(&gpus);
    let nameless = Account::Unattributed(NamelessReason::EventLost);
    all.push(settlement(400, &gpus[0], (7, Some(100), 40), nameless, None));
    all.push(settlement(500, &gpus[0], (8, None, 50), named("a"), None));
    all.push(gap(600, GapCause::EventLost, 700));
    all.push(open(800, &gpus[0], 9));
    all.push(open(810, &gpus[0], 10));
    all.push(ended(900, 7, Some(GapCause::EpochBroken)));
    all.push(mark(1_000, &gpus, vec![6]));
    balanced(all)
}

/// With the sums that settlements must carry.
pub(super) fn balanced(mut all: Vec<Said>) -> Vec<Said> {
    let mut booked: BTreeMap<GpuUuid, Balance> = BTreeMap::new();
    for one in &mut all {
        if let Figures::Settlement(settlement) = &mut one.figures {
            let sum = booked.entry(settlement.gpu.clone()).or_default();
            *sum = sum.plus(settlement.held);
            settlement.booked = *sum;
        }
    }
    all
}

/// The journal of some entries.
pub(super) struct Journal {
    pub(super) said: Vec<Said>,
    pub(super) key: SigningKey,
    pub(super) period: (u64, u64),
}

/// What is kept of an entry.
#[derive(Clone)]
struct Sealed {
    seq: u64,
    hash: Digest,
    previous: Digest,
    body: Vec<u8>,
    evidence: Vec<u8>,
    leaf: Digest,
}

/// Leaves, of which every subtree can be had.
struct Leaves<'a>(&'a [Sealed]);

impl Subtrees for Leaves<'_> {
    type Error = TreeError;

    fn hash_of(&mut self, subtree: Subtree) -> Result<Digest, TreeError> {
        let mut frontier = Frontier::starting_at(subtree.begin());
        for leaf in subtree.begin()..subtree.end() {
            frontier.append(self.0[usize::try_from(leaf).unwrap()].leaf);
        }
        Ok(frontier.whole().unwrap())
    }
}

/// Which part of a journal goes into a bundle.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) size: u64,
    /// Entries beside the range; the last of the tree is there anyway.
    pub(super) beside: Vec<u64>,
    pub(super) consistency: Vec<u64>,
}

pub(super) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed(ORIGIN, &[seed; 32]).unwrap()
}

/// The files of a bundle, in memory.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub(super) struct Bundle(pub(super) BTreeMap<String, Vec<u8>>);

impl Files for Bundle {
    fn names(&self) -> Result<BTreeMap<Vec<u8>, bool>, Wrong> {
        Ok(self.0.keys().map(|name| (name.clone().into_bytes(), true)).collect())
    }

    fn open(&self, name: &str) -> io::Result<(Box<dyn Read + Send + '_>, u64)> {
        let bytes = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok((Box::new(bytes.as_slice()), u64::try_from(bytes.len()).unwrap()))
    }
}

impl Journal {
    pub(super) fn of(said: Vec<Said>) -> Self {
        Self { said, key: key(1), period: (BEGAN_MS + 5, BEGAN_MS + 900) }
    }

    fn sealed(&self) -> Vec<Sealed> {
        let (mut all, mut previous) = (Vec::new(), Digest::NONE);
        for (number, one) in self.said.iter().enumerate() {
            let seq = u64::try_from(number).unwrap() + 1;
            let evidence = canon::encode(&one.evidence).unwrap();
            let body = canon::encode(&(one.at, one.figures.clone())).unwrap();
            let body = one.body.clone().unwrap_or(body);
            let mut writer = Writer::default();
            writer.list(|writer| {
                writer.atom(b"gpu-ledger entry");
                1_u32.put(writer);
                seq.put(writer);
                previous.0.put(writer);
                writer.atom(&body);
                sha256(&evidence).0.put(writer);
            });
            let hashed = writer.finish().unwrap();
            let (hash, leaf) = (sha256(&hashed), tree::leaf(&hashed));
            all.push(Sealed { seq, hash, previous, body, evidence, leaf });
            previous = hash;
        }
        all
    }

    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.said.len()).unwrap()
    }

    pub(super) fn all(&self) -> Part {
        let size = self.size();
        Part { first: 1, last: size, size, beside: Vec::new(), consistency: Vec::new() }
    }

    /// The checkpoint at a size.
    pub(super) fn checkpoint(&self, size: u64) -> String {
        let sealed = self.sealed();
        let root = tree::range(&mut Leaves(&sealed), 0, size).unwrap().root().unwrap();
        Checkpoint { origin: ORIGIN.into(), size, root }.sign(&self.key).unwrap()
    }

    /// The line of an entry, with its path in a tree of so many.
    pub(super) fn line(&self, seq: u64, size: Option<u64>) -> String {
        let sealed = self.sealed();
        line(&sealed[usize::try_from(seq - 1).unwrap()], size.map(|size| (size, sealed.as_slice())))
    }

    pub(super) fn bundle(&self, part: &Part) -> Bundle {
        let sealed = self.sealed();
        let at = |seq: u64| &sealed[usize::try_from(seq - 1).unwrap()];
        let mut files = BTreeMap::new();
        let entries: String =
            (part.first..=part.last).map(|seq| line(at(seq), None) + "\n").collect();
        files.insert("entries.jsonl".to_owned(), entries.into_bytes());
        let mut beside: BTreeSet<u64> = part.beside.iter().copied().collect();
        if part.size > part.last {
            beside.insert(part.size);
        }
        let beside: String = beside
            .into_iter()
            .map(|seq| line(at(seq), Some((part.size, &sealed))) + "\n")
            .collect();
        files.insert("context.jsonl".to_owned(), beside.into_bytes());
        files.insert("range.json".to_owned(), self.range(part, &sealed).into_bytes());
        files.insert("checkpoint".to_owned(), self.checkpoint(part.size).into_bytes());
        files.insert("key.pub".to_owned(), format!("{}\n", self.key.public()).into_bytes());
        files.insert("schema.json".to_owned(), schema().unwrap().into_bytes());
        files.insert("bill.csv".to_owned(), b"account,held_ms\ntrain,7\n".to_vec());
        let rules = b"# rules\n".to_vec();
        files.insert(format!("rules/{}.toml", sha256(&rules)), rules);
        let mut bundle = Bundle(files);
        bundle.seal(part, self.period, &self.key);
        bundle
    }

    fn range(&self, part: &Part, sealed: &[Sealed]) -> String {
        let mut leaves = Leaves(sealed);
        let mut hashes = |begin, end| {
            let frontier = tree::range(&mut leaves, begin, end).unwrap();
            frontier.hashes().map(|hash| hash.to_string()).collect::<Vec<_>>()
        };
        let (left, right) = (hashes(0, part.first - 1), hashes(part.last, part.size));
        let (mut booked, mut open) = (BTreeMap::new(), BTreeSet::new());
        for (seq, one) in (1..part.first).zip(&self.said) {
            match &one.figures {
                Figures::Settlement(settlement) => {
                    booked.insert(settlement.gpu.to_string(), settlement.booked);
                    settlement.opened.map(|opened| open.remove(&opened));
                }
                Figures::Open(_) => drop(open.insert(seq)),
                Figures::Correction(correction) => drop(open.remove(&correction.of)),
                _ => {}
            }
        }
        let booked: Vec<String> = booked
            .iter()
            .map(|(gpu, sum)| {
                let Balance { count, held_ms } = sum;
                format!(r#"{{"gpu":"{gpu}","count":{count},"held_ms":"{held_ms}"}}"#)
            })
            .collect();
        let consistency: Vec<String> = part
            .consistency
            .iter()
            .map(|from| {
                let proof = tree::consistency(&mut Leaves(sealed), *from, part.size).unwrap();
                let proof = proof.iter().map(ToString::to_string).collect::<Vec<_>>();
                let proof = serde_json::to_string(&proof).unwrap();
                format!(r#"{{"from":{from},"to":{},"hashes":{proof}}}"#, part.size)
            })
            .collect();
        let Part { first, last, size, .. } = part;
        let text = |hashes: &Vec<String>| serde_json::to_string(hashes).unwrap();
        let open: Vec<String> = open.iter().map(ToString::to_string).collect();
        format!(
            "{{\"format\":\"gpu-ledger-audit-range\",\"version\":1,\"first\":{first},\"last\":{last},\"size\":{size},\
             \"left\":{},\"right\":{},\"opening\":{{\"booked\":[{}],\"unresolved\":[{}]}},\"consistency\":[{}]}}\n",
            text(&left),
            text(&right),
            booked.join(","),
            open.join(","),
            consistency.join(",")
        )
    }
}

fn line(sealed: &Sealed, path: Option<(u64, &[Sealed])>) -> String {
    let Sealed { seq, hash, previous, body, evidence, .. } = sealed;
    let (mut entry, mut because) = (String::new(), String::new());
    let mut printer = Printer::default();
    // What is of no form is told as nothing.
    if printer.print(&ENTRY, body, &mut entry).is_err() {
        entry.push_str("null");
    }
    printer.print(&EVIDENCE, evidence, &mut because).unwrap();
    let proof = path.map(|(size, sealed)| {
        let path = tree::inclusion(&mut Leaves(sealed), seq - 1, size).unwrap();
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        format!(",\"proof\":{}", serde_json::to_string(&path).unwrap())
    });
    format!(
        "{{\"seq\":{seq},\"hash\":\"{hash}\",\"previous\":\"{previous}\",\"body\":\"{}\",\"evidence\":\"{}\",\
         \"entry\":{entry},\"because\":{because}{}}}",
        STANDARD.encode(body),
        STANDARD.encode(evidence),
        proof.unwrap_or_default()
    )
}

impl Bundle {
    /// Writes manifest and signature anew, over what is there.
    pub(super) fn seal(&mut self, part: &Part, (since, until): (u64, u64), key: &SigningKey) {
        let Part { first, last, size, .. } = part;
        let time = |ms| crate::rendering::rfc3339(WallUs(ms * 1_000));
        let head = format!(
            "{{\"format\":\"gpu-ledger-audit\",\"version\":1,\"origin\":\"{ORIGIN}\",\"journal\":\"00ff\",\"host\":\"h\",\
             \"period\":{{\"since_ms\":\"{since}\",\"until_ms\":\"{until}\",\"since\":\"{}\",\"until\":\"{}\",\
             \"zone\":\"UTC\"}},\"bill\":{{\"by\":\"account\",\"share\":\"equal\",\"prices\":null,\"now_ms\":\"{until}\",\
             \"users\":{{\"1000\":\"ann\"}}}},\"first\":{first},\"last\":{last},\"size\":{size},\
             \"program\":\"0.1.0\",\"files\":[\n",
            time(since),
            time(until)
        );
        let files = self.0.iter().filter(|(name, _)| !name.starts_with("manifest."));
        let files: Vec<String> = files
            .map(|(name, bytes)| {
                let (length, digest) = (bytes.len(), sha256(bytes));
                format!(r#"{{"name":"{name}","bytes":"{length}","sha256":"{digest}"}}"#)
            })
            .collect();
        self.set_manifest(&format!("{head}{}\n]}}\n", files.join(",\n")), key);
    }

    /// This manifest, signed.
    pub(super) fn set_manifest(&mut self, manifest: &str, key: &SigningKey) {
        let digest = sha256(manifest.as_bytes());
        let text = format!("gpu-ledger audit manifest v1\n{digest}\n");
        self.0.insert("manifest.json".to_owned(), manifest.to_owned().into_bytes());
        self.0.insert("manifest.sig".to_owned(), key.sign_note(&text).unwrap().into_bytes());
    }

    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8(self.0[name].clone()).unwrap()
    }

    pub(super) fn verdict(&self) -> Verdict {
        self.verdict_with(&Known::default())
    }

    pub(super) fn verdict_with(&self, known: &Known) -> Verdict {
        verify(self, known, None)
    }
}

/// `file: entry: what` of every fault.
pub(super) fn faults(verdict: &Verdict) -> Vec<String> {
    let faults = verdict.integrity.faults.iter();
    let told = faults.map(|fault| match fault.seq {
        Some(seq) => format!("{} {seq} {}", fault.file, fault.what),
        None => format!("{} {}", fault.file, fault.what),
    });
    told.collect()
}
