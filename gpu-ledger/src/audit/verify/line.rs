//! One line of `entries.jsonl` or `context.jsonl`: its bytes against its hash, and what is readable of it against
//! its bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Wrong;
use super::books::BookedKey;
use crate::journal::canon::{self, Texts};
use crate::journal::chain::{Kept, booking_key, sha256};
use crate::journal::entry::{Evidence, Figures, Moment, SettlementEvidence, SettlementFigures};
use crate::journal::form::{self, Printer};
use crate::journal::{ChainError, Digest};
use crate::unit::WallUs;

/// An entry of which everything is proven that it proves by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) seq: u64,
    pub(super) hash: Digest,
    pub(super) previous: Digest,
    pub(super) leaf: Digest,
    pub(super) at: Moment,
    pub(super) figures: Figures,
    /// Of a settlement.
    pub(super) key: Option<BookedKey>,
    /// What of it cannot be.
    pub(super) wrong: Vec<&'static str>,
    /// Its path in the tree, where it brings one.
    pub(super) proof: Vec<Digest>,
}

/// What a line must bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Brings {
    /// The entry alone.
    Entry,
    /// And its path in the tree.
    Proof,
}

/// Room that one line after the other is proven in.
#[derive(Debug, Default)]
pub(super) struct Prover {
    printer: Printer,
    texts: Texts,
    body: Vec<u8>,
    evidence: Vec<u8>,
    made: String,
}

const NO_LINE: &str = "is not a line of this format";
const NOT_CANONICAL: &str = "its bytes are not canonical";
const OTHER_READABLE: &str = "its readable part is not what its bytes say";

impl Prover {
    /// Proves a line, without its end.
    pub(super) fn prove(&mut self, line: &[u8], brings: Brings) -> Result<Line, Wrong> {
        let (parts, readable) = Parts::of(line).ok_or(NO_LINE)?;
        decode(parts.body, &mut self.body)?;
        decode(parts.evidence, &mut self.evidence)?;
        let Parts { seq, hash, previous, .. } = parts;
        let evidence = sha256(&self.evidence);
        let kept = Kept { seq, body: &self.body, evidence, previous, hash };
        let leaf = kept.proven_leaf().map_err(|error| match error {
            ChainError::Hash { .. } => Wrong::from("its bytes have another hash"),
            _ => Wrong::from(NOT_CANONICAL),
        })?;
        let (at, figures) = self.entry()?;
        let evidence: Evidence =
            canon::decode_sharing(&self.evidence, &self.texts).map_err(|_| NOT_CANONICAL)?;
        let rest = self.readable(readable)?;
        let proof = match brings {
            Brings::Entry if rest == b"}" => Vec::new(),
            Brings::Entry => return Err(OTHER_READABLE.into()),
            Brings::Proof => path(rest).ok_or(OTHER_READABLE)?,
        };
        let (mut key, mut wrong) = (None, Vec::new());
        if let Figures::Settlement(settlement) = &figures {
            let booked = booking_key(settlement, &evidence).map_err(|_| NOT_CANONICAL)?;
            key = Some(BookedKey::of(sha256(&booked), seq));
            wrong = cannot_be(settlement, &evidence);
        }
        Ok(Line { seq, hash, previous, leaf, at, figures, key, wrong, proof })
    }

    /// The entry; that its bytes are the only ones it could have is the other way round.
    fn entry(&self) -> Result<(Moment, Figures), Wrong> {
        let entry: (Moment, Figures) =
            canon::decode_sharing(&self.body, &self.texts).map_err(|_| NOT_CANONICAL)?;
        match canon::encode(&entry) {
            Ok(again) if again == self.body => Ok(entry),
            _ => Err(NOT_CANONICAL.into()),
        }
    }

    /// What follows the readable part, which is made again from the bytes.
    fn readable<'l>(&mut self, line: &'l [u8]) -> Result<&'l [u8], Wrong> {
        self.made.clear();
        let print = |printer: &mut Printer, form, bytes, made: &mut String| {
            printer.print(form, bytes, made).map_err(|_| Wrong::from(NOT_CANONICAL))
        };
        print(&mut self.printer, &form::ENTRY, &self.body, &mut self.made)?;
        self.made.push_str(",\"because\":");
        print(&mut self.printer, &form::EVIDENCE, &self.evidence, &mut self.made)?;
        Ok(line.strip_prefix(self.made.as_bytes()).ok_or(OTHER_READABLE)?)
    }
}

fn decode(base64: &[u8], bytes: &mut Vec<u8>) -> Result<(), Wrong> {
    bytes.clear();
    Ok(STANDARD.decode_vec(base64, bytes).map_err(|_| NO_LINE)?)
}

/// The machine's part of a line.
struct Parts<'l> {
    seq: u64,
    hash: Digest,
    previous: Digest,
    body: &'l [u8],
    evidence: &'l [u8],
}

impl<'l> Parts<'l> {
    /// And the rest of the line.
    fn of(line: &'l [u8]) -> Option<(Self, &'l [u8])> {
        let line = line.strip_prefix(b"{\"seq\":")?;
        let (digits, line) = line.split_at_checked(line.iter().position(|byte| *byte == b',')?)?;
        let line = line.strip_prefix(b",\"hash\":\"")?;
        let (hash, line) = digest(line)?;
        let line = line.strip_prefix(b"\",\"previous\":\"")?;
        let (previous, line) = digest(line)?;
        let line = line.strip_prefix(b"\",\"body\":\"")?;
        let (body, line) = quoted(line)?;
        let line = line.strip_prefix(b",\"evidence\":\"")?;
        let (evidence, line) = quoted(line)?;
        let line = line.strip_prefix(b",\"entry\":")?;
        Some((Self { seq: number(digits)?, hash, previous, body, evidence }, line))
    }
}

/// A number as it is printed.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let is_plain =
        digits.iter().all(u8::is_ascii_digit) && (digits == b"0" || !digits.starts_with(b"0"));
    std::str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()
}

/// What stands before the next quotation mark, and what after it.
fn quoted(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(|byte| *byte == b'"')?;
    let (inside, rest) = line.split_at_checked(end)?;
    Some((inside, rest.get(1..)?))
}

/// 32 bytes in lower-case hexadecimal, and the rest.
fn digest(line: &[u8]) -> Option<(Digest, &[u8])> {
    let (digits, rest) = line.split_first_chunk::<64>()?;
    Some((hex(digits)?, rest))
}

/// 32 bytes in lower-case hexadecimal.
pub(super) fn hex(digits: &[u8]) -> Option<Digest> {
    let four = |digit: &u8| match digit {
        b'0'..=b'9' => Some(digit.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(digit.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    };
    let mut bytes = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = four(high)? << 4 | four(low)?;
    }
    Some(Digest(bytes))
}

/// The path that ends a line.
fn path(rest: &[u8]) -> Option<Vec<Digest>> {
    let hashes = rest.strip_prefix(b",\"proof\":[")?.strip_suffix(b"]}")?;
    let mut path = Vec::new();
    if hashes.is_empty() {
        return Some(path);
    }
    for hash in hashes.split(|byte| *byte == b',') {
        path.push(hex(hash.strip_prefix(b"\"")?.strip_suffix(b"\"")?)?);
    }
    Some(path)
}

/// What of a settlement cannot be: booked is what a final row of the driver says, and nothing else.
fn cannot_be(settlement: &SettlementFigures, evidence: &Evidence) -> Vec<&'static str> {
    let Evidence::Settlement(evidence) = evidence else {
        return vec!["is booked without a row of the driver"];
    };
    let SettlementEvidence { row, seen, .. } = evidence.as_ref();
    let is_of_row = row.gpu == settlement.gpu
        && row.pid == settlement.pid
        && row.start == settlement.start
        && row.held == settlement.held
        && row.memory_peak.known() == settlement.memory_peak.as_ref()
        && seen.ended == settlement.read_at;
    let faults = [
        (!is_of_row, "its figures are not those of its row"),
        (row.running, "is booked of a row that is not final"),
        (row.start == Some(WallUs(0)), "is booked of a row that began in 1970"),
    ];
    faults.into_iter().filter_map(|(is_wrong, what)| is_wrong.then_some(what)).collect()
}
