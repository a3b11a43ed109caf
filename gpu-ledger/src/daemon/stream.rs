//! The lines of a streamed reading, as both ends know them.
//!
//! One line an entry, then one last line. Until that one has come, nothing of the stream is worth
//! anything: that it is whole is said there alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::argv::StoredText;
use crate::billing::Why;
use crate::journal::canon::{self, Canonical};
use crate::journal::chain::{self, Kept, Recovered};
use crate::journal::entry::{Entry, Evidence, Figures, KeptArgv, Moment, OpenFigures};
use crate::journal::{Digest, Head};
use crate::kernel::{Argv, ArgvState};
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
    /// What it rests on, where that was asked for and may be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<WhyLine>,
}

/// What an entry rests on.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WhyLine {
    /// Canonical bytes of its evidence.
    evidence: String,
    /// Canonical bytes of the arguments as they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    argv: Option<String>,
}

/// The arguments are in it, in base64.
impl fmt::Debug for WhyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_argv = self.argv.is_some();
        f.debug_struct("WhyLine").field("has_argv", &has_argv).finish_non_exhaustive()
    }
}

/// Kept arguments, their mode apart, which the evidence says: commitment, bytes, true length, state, and the word for how they differ from what was captured.
type ArgvParts = ((Digest, Bytes), (Option<u64>, (ArgvState, Arc<str>)));

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
    /// Root of the tree over the entries, in hex; `None` where it is not known.
    #[serde(default)]
    tree: Option<String>,
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
    /// Arguments that are kept in no way that we know.
    #[error("the arguments of entry {seq} are kept in a way that is not known here")]
    Argv {
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
    /// It is not what was asked for, or not what it was before.
    #[error("entry {seq} is another than the one that was sent before")]
    Other {
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
        Ok(Self { seq: entry.seq, body: STANDARD.encode(body), seal, why: None })
    }

    /// The same, with what it rests on.
    pub(crate) fn with(mut self, why: &Why) -> Result<Self, canon::CanonError> {
        let argv = why.argv.as_ref().map(|kept| {
            let KeptArgv { commitment, mode: _, argv, text } = kept;
            let state: (ArgvState, Arc<str>) = (argv.state, text.as_str().into());
            let parts: ArgvParts = ((*commitment, argv.bytes.clone()), (argv.true_length, state));
            canon::encode(&parts).map(|parts| STANDARD.encode(parts))
        });
        let evidence = STANDARD.encode(canon::encode(&why.evidence)?);
        self.why = Some(WhyLine { evidence, argv: argv.transpose()? });
        Ok(self)
    }

    /// What this entry of it rests on. Proven by the digest that it was sealed with, where the entry itself was;
    /// of arguments that they are those which the evidence commits to is the daemon's word.
    pub(crate) fn why(&self, entry: &Entry, proven: bool) -> Result<Option<Why>, StreamError> {
        let Some(line) = &self.why else { return Ok(None) };
        let seq = self.seq;
        let evidence = bytes(seq, &line.evidence)?;
        let evidence: Evidence = if proven {
            chain::read_evidence(seq, entry.evidence, &evidence)?
        } else {
            value(seq, &evidence)?
        };
        let argv = line.argv.as_ref().map(|argv| -> Result<KeptArgv, StreamError> {
            let parts: ArgvParts = value(seq, &bytes(seq, argv)?)?;
            let ((commitment, bytes), (true_length, (state, text))) = parts;
            let text = StoredText::of(&text).ok_or(StreamError::Argv { seq })?;
            let mode = evidence.argv_place().and_then(|place| place.mode);
            Ok(KeptArgv { commitment, mode, argv: Argv { bytes, true_length, state }, text })
        });
        Ok(Some(Why { at: entry.at, evidence, argv: argv.transpose()? }))
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
    pub(crate) tree: Option<Digest>,
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
        let Beside {
            sent,
            missing,
            witnessed,
            sees_all,
            uid,
            driver,
            driver_version,
            tree,
            born_ms,
        } = beside;
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
            tree: tree.map(|root| root.to_string()),
            born_ms,
        })
    }

    /// The root of the tree over the entries, as the daemon tells it.
    pub(crate) fn tree(&self) -> Option<Digest> {
        self.tree.as_deref().and_then(Digest::of_hex)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::made::{Journal, Row};
    use crate::journal::entry::Evidence;

    /// An entry with what it rests on, as it comes from the stream.
    fn sent(change: impl FnOnce(&mut WhyLine)) -> Result<Option<Why>, StreamError> {
        let mut journal = Journal::began(0, 1);
        journal.settle(20, Row::of("mine", 7, 1, 9));
        let mut entry = journal.entries.last().unwrap().clone();
        entry.evidence = chain::sha256(&canon::encode(&Evidence::None).unwrap());
        let mut line = EntryLine::of(&entry, true).unwrap().with(&why(&entry)).unwrap();
        change(line.why.as_mut().unwrap());
        let line: EntryLine = serde_json::from_str(&serde_json::to_string(&line).unwrap()).unwrap();
        let read = line.why(&entry, true);
        if let Ok(read) = &read {
            assert_eq!(*read, Some(why(&entry)));
        }
        read
    }

    fn why(entry: &Entry) -> Why {
        let argv = Argv {
            bytes: Bytes::from_static(b"a\0\xff"),
            true_length: Some(9),
            state: ArgvState::Truncated,
        };
        let commitment = Digest([7; 32]);
        let argv = Some(KeptArgv { commitment, mode: None, argv, text: StoredText::Redacted });
        Why { at: entry.at, evidence: Evidence::None, argv }
    }

    #[test]
    fn what_an_entry_rests_on_comes_as_it_was_sent_and_not_when_it_was_changed() {
        assert!(sent(|_| {}).unwrap().is_some());
        let other = STANDARD.encode(canon::encode(&7_u64).unwrap());
        assert!(matches!(sent(|line| line.evidence = other.clone()), Err(StreamError::Chain(_))));
        assert!(matches!(sent(|line| line.argv = Some(other)), Err(StreamError::Canon { .. })));
        let no_base64 = Some("*".to_owned());
        assert!(matches!(sent(|line| line.argv = no_base64), Err(StreamError::Base64 { .. })));
    }
}
