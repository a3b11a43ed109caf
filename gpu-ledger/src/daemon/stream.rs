//! The lines of a streamed reading, as both ends know them.
//!
//! One line an entry, then one last line. Until that one has come, nothing of the stream is worth
//! anything: that it is whole is said there alone.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::journal::canon::{self, Canonical};
use crate::journal::chain::{self, Kept, Recovered};
use crate::journal::entry::{Entry, Figures, Moment, OpenFigures};
use crate::journal::{Digest, Head};
use crate::settlement::Balance;
use crate::unit::GpuUuid;

/// Any line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Line {
    /// [`super::VERSION`], on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u32>,
    /// An entry.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) entry: Option<EntryLine>,
    /// The last line of a whole stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<End>,
    /// Why there is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// An entry. Bytes are in base64.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EntryLine {
    /// Its number.
    pub(crate) seq: u64,
    /// Canonical bytes of its moment and figures, as far as the reader may see them.
    pub(crate) body: String,
    /// What the body is sealed with, for those who see all of it and can compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seal: Option<SealLine>,
}

/// The chain's part of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SealLine {
    evidence: String,
    previous: String,
    hash: String,
}

/// What was ever booked of one GPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct BookedLine {
    gpu: GpuUuid,
    count: u64,
    /// A text: more than 64 bits.
    held_ms: String,
}

/// An open entry that is not over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct UnresolvedLine {
    seq: u64,
    open: String,
}

/// The end of the journal that was read, and what stands beside its figures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct End {
    /// Number of the last entry.
    pub(crate) seq: u64,
    /// Its hash.
    pub(crate) hash: String,
    booked: Vec<BookedLine>,
    unresolved: Vec<UnresolvedLine>,
    /// Canonical bytes of the moment up to which the journal speaks.
    last: Option<String>,
    /// Entries that were sent.
    pub(crate) sent: u64,
    /// Number of the last entry that was archived and is not there any more.
    pub(crate) missing: u64,
    /// Whether something outside of the database says where it ends.
    pub(crate) witnessed: bool,
    /// Whether the reader sees everybody's lines; other users' are folded into one otherwise.
    pub(crate) sees_all: bool,
    /// Whom the reader was taken for.
    pub(crate) uid: u32,
    /// `real` or `simulated`.
    pub(crate) driver: Option<String>,
    /// Its version.
    pub(crate) driver_version: Option<String>,
    /// Start of the process behind an open entry, by the entry's number, in ms since 1970.
    pub(crate) born_ms: BTreeMap<u64, u64>,
}

/// Why a line is not what it must be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// Bytes that are none.
    #[error("entry {seq}: {cause}")]
    Base64 {
        /// Its number.
        seq: u64,
        /// What is wrong.
        cause: base64::DecodeError,
    },
    /// No digest.
    #[error("entry {seq} has a digest of another length")]
    Digest {
        /// Its number.
        seq: u64,
    },
    /// Bytes that are no value of ours.
    #[error("entry {seq}: {cause}")]
    Canon {
        /// Its number.
        seq: u64,
        /// What is wrong.
        cause: canon::CanonError,
    },
    /// It was changed on the way, or before.
    #[error(transparent)]
    Chain(#[from] chain::ChainError),
    /// It lacks what it was sealed with.
    #[error("entry {seq} came without its seal")]
    Unsealed {
        /// Its number.
        seq: u64,
    },
    /// A sum that is no number.
    #[error("the sum {0:?} is no number")]
    Sum(String),
    /// It does not end where it says.
    #[error("the stream ends with another entry than the journal")]
    End,
    /// Entries were left out on the way.
    #[error("{sent} entries were sent, and {taken} came")]
    Count {
        /// As the last line says.
        sent: u64,
        /// Counted here.
        taken: u64,
    },
}

impl EntryLine {
    /// Of an entry; sealed, where nothing was taken out of it.
    pub(crate) fn of(entry: &Entry, sealed: bool) -> Result<Self, canon::CanonError> {
        let body = canon::encode(&(entry.at, entry.figures.clone()))?;
        let seal = sealed.then(|| SealLine {
            evidence: STANDARD.encode(entry.evidence.0),
            previous: STANDARD.encode(entry.previous.0),
            hash: STANDARD.encode(entry.hash.0),
        });
        Ok(Self { seq: entry.seq, body: STANDARD.encode(body), seal })
    }

    /// The entry, and whether its bytes were proven to be those it was sealed with.
    pub(crate) fn entry(&self) -> Result<(Entry, bool), StreamError> {
        let seq = self.seq;
        let body = bytes(seq, &self.body)?;
        let Some(seal) = &self.seal else {
            let (at, figures): (Moment, Figures) = value(seq, &body)?;
            let none = Digest::NONE;
            let entry = Entry { seq, at, figures, evidence: none, previous: none, hash: none };
            return Ok((entry, false));
        };
        let kept = Kept {
            seq,
            body: &body,
            evidence: digest(seq, &seal.evidence)?,
            previous: digest(seq, &seal.previous)?,
            hash: digest(seq, &seal.hash)?,
        };
        Ok((chain::read(kept)?, true))
    }
}

/// What goes onto the last line beside the journal's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Beside {
    pub(crate) sent: u64,
    pub(crate) missing: u64,
    pub(crate) witnessed: bool,
    pub(crate) sees_all: bool,
    pub(crate) uid: u32,
    pub(crate) driver: Option<String>,
    pub(crate) driver_version: Option<String>,
    pub(crate) born_ms: BTreeMap<u64, u64>,
}

impl End {
    pub(crate) fn of(
        end: &Recovered,
        unresolved: impl Iterator<Item = (u64, OpenFigures)>,
        beside: Beside,
    ) -> Result<Self, canon::CanonError> {
        let unresolved = unresolved.map(|(seq, open)| {
            Ok(UnresolvedLine { seq, open: STANDARD.encode(canon::encode(&open)?) })
        });
        let booked = end.head.booked.iter().map(|(gpu, sum)| BookedLine {
            gpu: gpu.clone(),
            count: sum.count,
            held_ms: sum.held_ms.to_string(),
        });
        let last = end.last.map(|last| canon::encode(&last)).transpose()?;
        let Beside { sent, missing, witnessed, sees_all, uid, driver, driver_version, born_ms } =
            beside;
        Ok(Self {
            seq: end.head.seq,
            hash: STANDARD.encode(end.head.hash.0),
            booked: booked.collect(),
            unresolved: unresolved.collect::<Result<_, canon::CanonError>>()?,
            last: last.map(|last| STANDARD.encode(last)),
            sent,
            missing,
            witnessed,
            sees_all,
            uid,
            driver,
            driver_version,
            born_ms,
        })
    }

    /// The end of the journal, as far as a bill needs it.
    pub(crate) fn recovered(&self) -> Result<Recovered, StreamError> {
        let seq = self.seq;
        let mut booked = BTreeMap::new();
        for line in &self.booked {
            let sum = line.held_ms.parse().map_err(|_| StreamError::Sum(line.held_ms.clone()))?;
            booked.insert(line.gpu.clone(), Balance { count: line.count, held_ms: sum });
        }
        let mut unresolved = BTreeMap::new();
        for line in &self.unresolved {
            let open = bytes(line.seq, &line.open)?;
            unresolved.insert(line.seq, value(line.seq, &open)?);
        }
        let last = match &self.last {
            Some(last) => Some(value(seq, &bytes(seq, last)?)?),
            None => None,
        };
        let head = Head { seq, hash: digest(seq, &self.hash)?, booked };
        Ok(Recovered { head, unresolved, last, began: None, ended_in_order: false })
    }
}

fn bytes(seq: u64, text: &str) -> Result<Vec<u8>, StreamError> {
    STANDARD.decode(text).map_err(|cause| StreamError::Base64 { seq, cause })
}

fn value<T: Canonical>(seq: u64, bytes: &[u8]) -> Result<T, StreamError> {
    canon::decode(bytes).map_err(|cause| StreamError::Canon { seq, cause })
}

fn digest(seq: u64, text: &str) -> Result<Digest, StreamError> {
    let bytes = bytes(seq, text)?;
    bytes.try_into().map(Digest).map_err(|_| StreamError::Digest { seq })
}
