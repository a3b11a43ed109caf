//! One settlement by itself: the file of `audit prove` ([`crate::audit::prove`]).

use serde::{Deserialize, Serialize};

use super::books::{Books, Stands};
use super::keys::key;
use super::line::{Brings, Line, Prover};
use super::period::{Moment, Period};
use super::read::{VERSION, of_version};
use super::verdict::{
    Fault, Freshness, Integrity, IntegrityWord, KeyVerdict, KeyWord, Of, Proven, Verdict, Witness,
};
use super::whole::{opened, opened_alone, point};
use super::{Known, Wrong};
use crate::journal::entry::Figures;
use crate::journal::form::schema;
use crate::journal::note::VerifyingKey;
use crate::journal::tree::check_inclusion;

/// The word of its format.
const FORMAT: &str = "gpu-ledger-audit-proof";
const OTHERWISE: &str = "is not written as this format writes it";

/// Its first line, but for the end.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::audit) struct ProofHead {
    format: String,
    version: u32,
    key: String,
    checkpoint: String,
}

impl ProofHead {
    /// Of this version.
    pub(in crate::audit) fn new(key: String, checkpoint: String) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, key, checkpoint }
    }
}

/// Proves it.
pub(super) fn verify(bytes: Result<Vec<u8>, Wrong>, known: &Known) -> Verdict {
    let checked = bytes.and_then(|bytes| check(&bytes, known));
    let faults = match &checked {
        Ok(_) => Vec::new(),
        Err(Wrong(what)) => vec![Fault { file: ".".to_owned(), seq: None, what: what.clone() }],
    };
    let verdict = if checked.is_ok() { IntegrityWord::Good } else { IntegrityWord::Failed };
    let faults_total = u64::from(checked.is_err());
    let word = if known.key.is_some() { KeyWord::Given } else { KeyWord::NotGiven };
    let key = KeyVerdict { verdict: word, vkey: None };
    let mut verdict = Verdict::new(Of::Proof, Integrity { verdict, faults, faults_total }, key);
    verdict.witness = known.witness.is_none().then_some(Witness::NotGiven);
    if let Ok(Checked { key, size, line, witness }) = checked {
        verdict.key.vkey = Some(key.to_string());
        verdict.witness = Some(witness);
        let learnt = Moment::of(line.at.stamp.wall);
        verdict.freshness = Some(Freshness { seq: size, learnt, period_seen_to_end: None });
        if let Figures::Settlement(settlement) = line.figures {
            verdict.settlement = Some(Proven {
                seq: line.seq,
                gpu: settlement.gpu.to_string(),
                pid: settlement.pid.0,
                start: settlement.start.map(Moment::of),
                held_ms: settlement.held.0,
            });
        }
    }
    verdict
}

struct Checked {
    key: VerifyingKey,
    size: u64,
    line: Line,
    witness: Witness,
}

fn check(bytes: &[u8], known: &Known) -> Result<Checked, Wrong> {
    of_version(bytes, FORMAT)?;
    let (head, entry, form) = parts(bytes).ok_or(OTHERWISE)?;
    if schema().is_ok_and(|schema| schema.trim_end().as_bytes() != form) {
        return Err("is not the form of entries of this version".into());
    }
    let key = key(&head.key)?;
    let point = point(opened_alone(head.checkpoint.as_bytes(), &key)?)?;
    if *point.origin != *key.name() {
        return Err("is of another journal".into());
    }
    let line = Prover::default().prove(entry, Brings::Proof)?;
    let leaf = line.seq.checked_sub(1).map(|leaf| (leaf, line.leaf));
    let is_in = |leaf| check_inclusion(leaf, (point.size, point.root), &line.proof).is_ok();
    if !leaf.is_some_and(is_in) {
        return Err("is not in the tree of the checkpoint".into());
    }
    if !matches!(line.figures, Figures::Settlement(_)) {
        return Err("is not of a settlement".into());
    }
    let mut wrong = None;
    let mut books = Books::new(Period { since: 0, until: u128::MAX });
    books.take((line.seq, &line.figures), Stands::Beside, |what| wrong = wrong.or(Some(what)));
    if let Some(what) = wrong.or(line.wrong.first().copied()) {
        return Err(what.into());
    }
    if known.key.as_ref().is_some_and(|given| *given != key) {
        return Err("is not signed by the key that was given".into());
    }
    let witness = match &known.witness {
        None => Witness::NotGiven,
        Some(note) => {
            let old = super::whole::point(opened(note, &[&key])?)?;
            let is_other = old.size == point.size && old.root != point.root;
            if old.origin != point.origin || is_other {
                return Err("has another root than the witness".into());
            }
            if old.size == point.size { Witness::Consistent } else { Witness::WitnessNotProvable }
        }
    };
    Ok(Checked { key, size: point.size, line, witness })
}

/// Its head, its entry and the form of entries, where it is written as this format writes it.
fn parts(bytes: &[u8]) -> Option<(ProofHead, &[u8], &[u8])> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let head = lines.next()?.strip_suffix(b",")?;
    let entry = lines.next()?.strip_prefix(b"\"entry\":")?.strip_suffix(b",")?;
    let form = lines.next()?.strip_prefix(b"\"schema\":")?.strip_suffix(b"}")?;
    if !lines.next()?.is_empty() || lines.next().is_some() {
        return None;
    }
    let text = [head, b"}"].concat();
    let head: ProofHead = serde_json::from_slice(&text).ok()?;
    let is_plain = !head.key.contains('"') && !head.checkpoint.contains('"');
    let made = serde_json::to_vec(&head).ok()?;
    (is_plain && made == text).then_some((head, entry, form))
}
