//! The chain: from drafts to entries, and from bytes back to what they prove. Pure.
//!
//! An entry's hash is the SHA-256 of the canonical bytes of the list (`gpu-ledger entry`, version,
//! number, hash before it, body, digest of its evidence); its body is the canonical form of (moment,
//! figures). So a bill, which reads bodies only, proves every figure it sums.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Digest;
use super::canon::{self, CanonError, Canonical as _, Texts, Writer};
use super::entry::{
    Change, CoverageEdge, Draft, Entry, Evidence, Figures, Moment, OpenFigures, SettlementFigures,
};
use super::tree;
use crate::accounting::RowKey;
use crate::settlement::Balance;
use crate::unit::GpuUuid;
use crate::unknown::GapCause;

/// Version of the entry's form.
pub const VERSION: u32 = 1;
/// What every entry's hashed bytes begin with.
const DOMAIN: &[u8] = b"gpu-ledger entry";

/// Hashed bytes around a body, rounded up.
const AROUND_BODY: usize = 160;

/// What an entry contradicts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChainError {
    /// Its bytes are no entry.
    #[error("entry {seq}: {cause}")]
    Bytes {
        /// Its number.
        seq: u64,
        /// What is wrong.
        cause: CanonError,
    },
    /// It does not follow the one before it.
    #[error(
        "entry {found} stands where entry {wanted} must: the journal has a hole or was reordered"
    )]
    Number {
        /// The number that must stand there.
        wanted: u64,
        /// The number that does.
        found: u64,
    },
    /// It names another hash as the one before it.
    #[error("entry {seq} does not follow the entry before it: one of the two was changed")]
    Previous {
        /// Its number.
        seq: u64,
    },
    /// Its own hash is not that of its bytes.
    #[error("entry {seq} was changed: its bytes have hash {computed}, it was sealed as {sealed}")]
    Hash {
        /// Its number.
        seq: u64,
        /// Of the bytes.
        computed: Digest,
        /// As it stands.
        sealed: Digest,
    },
    /// Its evidence is not what it was sealed with.
    #[error("the evidence of entry {seq} was changed")]
    Evidence {
        /// Its number.
        seq: u64,
    },
    /// Its cumulative figures are not the sum of what was booked before.
    #[error(
        "entry {seq} says that {} settlements of {} ms were booked of gpu {gpu}, the entries before \
         it add up to {} of {} ms",
        said.count, said.held_ms, summed.count, summed.held_ms
    )]
    Balance {
        /// Its number.
        seq: u64,
        /// Which GPU.
        gpu: GpuUuid,
        /// What it says.
        said: Balance,
        /// The sum.
        summed: Balance,
    },
    /// It names an entry that is not there, or not of that kind, or over already.
    #[error("entry {seq} names entry {of} as open, which it is not")]
    NotOpen {
        /// Its number.
        seq: u64,
        /// The number it names.
        of: u64,
    },
    /// A mark's list of open entries is not what the entries before it leave open.
    #[error("mark {seq} lists other open entries than the entries before it leave open")]
    Unresolved {
        /// Its number.
        seq: u64,
    },
    /// The number after the last has no room.
    #[error("the journal has 2^64 - 1 entries")]
    Full,
}

/// The end of the chain, and the sums that the next entry continues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// Number of the last entry; 0 before the first.
    pub seq: u64,
    /// Its hash.
    pub hash: Digest,
    /// What was ever booked, by GPU.
    pub booked: BTreeMap<GpuUuid, Balance>,
}

impl Default for Head {
    fn default() -> Self {
        Self { seq: 0, hash: Digest::NONE, booked: BTreeMap::new() }
    }
}

/// What a reader of the journal's end knows: enough to go on writing, and to name what is open.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recovered {
    /// The end of the chain.
    pub head: Head,
    /// Open entries that neither settled nor ended, by number.
    pub unresolved: BTreeMap<u64, OpenFigures>,
    /// When the last entry was learnt that was entered in its turn: up to then everything is entered. A full
    /// disk alone is told ahead of what still waits.
    pub last: Option<Moment>,
    /// When the agent that wrote last had begun, where the journal still says.
    pub began: Option<Moment>,
    /// That agent ended in order.
    pub ended_in_order: bool,
}

/// An entry with the bytes that are kept of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// The entry.
    pub entry: Entry,
    /// Canonical bytes of its moment and figures.
    pub body: Vec<u8>,
    /// Canonical bytes of its evidence.
    pub evidence: Vec<u8>,
}

/// What is kept of one entry, as it is read back.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Its number.
    pub seq: u64,
    /// Canonical bytes of its moment and figures.
    pub body: &'a [u8],
    /// Digest of its evidence.
    pub evidence: Digest,
    /// Hash of the entry before it.
    pub previous: Digest,
    /// Its own hash.
    pub hash: Digest,
}

impl Recovered {
    /// Makes an entry of a draft: numbers it, continues the sums, chains it.
    ///
    /// # Errors
    /// [`ChainError::Full`], [`ChainError::Bytes`], [`ChainError::NotOpen`] and
    /// [`ChainError::Unresolved`], as for entries read back; nothing is changed then.
    pub fn seal(&mut self, draft: Draft) -> Result<Sealed, ChainError> {
        let seq = self.head.seq.checked_add(1).ok_or(ChainError::Full)?;
        let broken = |cause| ChainError::Bytes { seq, cause };
        let Draft { at, mut figures, evidence, argv: _ } = draft;
        if let Figures::Settlement(settlement) = &mut figures {
            settlement.booked = self.booked_with(settlement);
        }
        let evidence = canon::encode(&evidence).map_err(broken)?;
        let body = canon::encode(&(at, figures.clone())).map_err(broken)?;
        let (evidence_digest, previous) = (sha256(&evidence), self.head.hash);
        let hash = hash_of(seq, previous, &body, evidence_digest).map_err(broken)?;
        let entry = Entry { seq, at, figures, evidence: evidence_digest, previous, hash };
        self.take(&entry)?;
        Ok(Sealed { entry, body, evidence })
    }

    /// Reads the next entry back and proves that it follows.
    ///
    /// # Errors
    /// What it contradicts; nothing is changed then.
    pub fn follow(&mut self, kept: Kept<'_>) -> Result<Entry, ChainError> {
        let entry = read(kept)?;
        self.follow_read(&entry)?;
        Ok(entry)
    }

    /// As [`Self::follow`], of an entry that [`read`] proved already.
    ///
    /// # Errors
    /// What it contradicts; nothing is changed then.
    pub fn follow_read(&mut self, entry: &Entry) -> Result<(), ChainError> {
        let wanted = self.head.seq.checked_add(1).ok_or(ChainError::Full)?;
        if entry.seq != wanted {
            return Err(ChainError::Number { wanted, found: entry.seq });
        }
        if entry.previous != self.head.hash {
            return Err(ChainError::Previous { seq: entry.seq });
        }
        self.take(entry)
    }

    /// Continues from an entry whose bytes are proven, the first one after `self`.
    fn take(&mut self, entry: &Entry) -> Result<(), ChainError> {
        let seq = entry.seq;
        let wanted = self.head.seq.checked_add(1).ok_or(ChainError::Full)?;
        if seq != wanted {
            return Err(ChainError::Number { wanted, found: seq });
        }
        match &entry.figures {
            Figures::Settlement(settlement) => self.take_settlement(seq, settlement)?,
            Figures::Open(open) => {
                self.unresolved.insert(seq, OpenFigures::clone(open));
            }
            Figures::Correction(correction) => {
                if let Change::Ended { .. } = correction.change {
                    self.resolve(seq, correction.of)?;
                }
            }
            Figures::Mark(mark) => {
                if !mark.unresolved.iter().eq(self.unresolved.keys()) {
                    return Err(ChainError::Unresolved { seq });
                }
            }
            Figures::Coverage(CoverageEdge::Began { .. }) => {
                (self.began, self.ended_in_order) = (Some(entry.at), false);
            }
            Figures::Coverage(CoverageEdge::Ended { .. }) => self.ended_in_order = true,
            Figures::Conflict(_)
            | Figures::Gap(_)
            | Figures::Epoch(_)
            | Figures::Memory(_)
            | Figures::Key(_)
            | Figures::Closed(_) => {}
        }
        // That the disk is full is entered out of turn: what was learnt before it may still wait, and is lost
        // with the agent. Keys and closed periods are entered when somebody asks, and with no daemon too.
        let out_of_turn = match &entry.figures {
            Figures::Gap(gap) => gap.cause == GapCause::DiskFull,
            Figures::Key(_) | Figures::Closed(_) => true,
            _ => false,
        };
        if !out_of_turn {
            self.last = Some(entry.at);
        }
        (self.head.seq, self.head.hash) = (seq, entry.hash);
        Ok(())
    }

    fn take_settlement(
        &mut self,
        seq: u64,
        settlement: &SettlementFigures,
    ) -> Result<(), ChainError> {
        let summed = self.booked_with(settlement);
        if summed != settlement.booked {
            let (gpu, said) = (settlement.gpu.clone(), settlement.booked);
            return Err(ChainError::Balance { seq, gpu, said, summed });
        }
        if let Some(opened) = settlement.opened {
            self.resolve(seq, opened)?;
        }
        match self.head.booked.get_mut(&settlement.gpu) {
            Some(booked) => *booked = summed,
            None => drop(self.head.booked.insert(settlement.gpu.clone(), summed)),
        }
        Ok(())
    }

    fn resolve(&mut self, seq: u64, of: u64) -> Result<(), ChainError> {
        match self.unresolved.remove(&of) {
            Some(_) => Ok(()),
            None => Err(ChainError::NotOpen { seq, of }),
        }
    }

    fn booked_with(&self, settlement: &SettlementFigures) -> Balance {
        // A GPU that was never booked has nothing booked.
        let before = self.head.booked.get(&settlement.gpu).copied().unwrap_or_default();
        before.plus(settlement.held)
    }
}

/// Reads one entry back and proves that its bytes are those it was sealed with; not that it follows
/// any other.
///
/// # Errors
/// [`ChainError::Hash`] or [`ChainError::Bytes`].
pub fn read(kept: Kept<'_>) -> Result<Entry, ChainError> {
    read_with(kept, canon::decode)
}

/// As [`read`], with texts shared with the entries that were read before.
///
/// # Errors
/// As [`read`].
pub fn read_sharing(kept: Kept<'_>, texts: &Texts) -> Result<Entry, ChainError> {
    read_with(kept, |body| canon::decode_sharing(body, texts))
}

fn read_with(
    kept: Kept<'_>,
    decode: impl FnOnce(&[u8]) -> Result<(Moment, Figures), CanonError>,
) -> Result<Entry, ChainError> {
    let Kept { seq, body, evidence, previous, hash } = kept;
    let broken = |cause| ChainError::Bytes { seq, cause };
    let computed = hash_of(seq, previous, body, evidence).map_err(broken)?;
    if computed != hash {
        return Err(ChainError::Hash { seq, computed, sealed: hash });
    }
    let (at, figures) = decode(body).map_err(broken)?;
    Ok(Entry { seq, at, figures, evidence, previous, hash })
}

/// Reads the evidence of an entry back and proves that it is what the entry was sealed with.
///
/// # Errors
/// [`ChainError::Evidence`] or [`ChainError::Bytes`].
pub fn read_evidence(seq: u64, sealed: Digest, bytes: &[u8]) -> Result<Evidence, ChainError> {
    if sha256(bytes) != sealed {
        return Err(ChainError::Evidence { seq });
    }
    canon::decode(bytes).map_err(|cause| ChainError::Bytes { seq, cause })
}

/// The SHA-256 of bytes.
#[must_use]
pub fn sha256(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// What an entry's hash and its leaf are over, but for the body, which is most of it and is hashed where it lies.
struct Around {
    bytes: Vec<u8>,
    /// Where the body stands between them.
    place: usize,
}

impl Around {
    fn of(seq: u64, previous: Digest, body: &[u8], evidence: Digest) -> Result<Self, CanonError> {
        let mut writer = Writer::with_room(AROUND_BODY);
        let mut place = 0;
        writer.list_around(body.len(), |writer| {
            writer.atom(DOMAIN);
            VERSION.put(writer);
            seq.put(writer);
            previous.0.put(writer);
            writer.atom_head(body.len());
            place = writer.written();
            evidence.0.put(writer);
        });
        Ok(Self { bytes: writer.finish()?, place })
    }

    /// The SHA-256 of all of it after `first`.
    fn sha256(&self, first: &[u8], body: &[u8]) -> Digest {
        let (before, after) = self.bytes.split_at_checked(self.place).unwrap_or((&self.bytes, &[]));
        let hash = Sha256::new().chain_update(first).chain_update(before).chain_update(body);
        Digest(hash.chain_update(after).finalize().into())
    }
}

fn hash_of(
    seq: u64,
    previous: Digest,
    body: &[u8],
    evidence: Digest,
) -> Result<Digest, CanonError> {
    Ok(Around::of(seq, previous, body, evidence)?.sha256(&[], body))
}

impl Kept<'_> {
    /// Its leaf in the tree ([`super::tree`]): over the bytes that its hash is over. That they are those
    /// is for [`read`] to prove.
    ///
    /// # Errors
    /// [`ChainError::Bytes`].
    pub fn leaf(&self) -> Result<Digest, ChainError> {
        let Self { seq, body, evidence, previous, hash: _ } = *self;
        let around = Around::of(seq, previous, body, evidence);
        let around = around.map_err(|cause| ChainError::Bytes { seq, cause })?;
        Ok(around.sha256(&[tree::LEAF], body))
    }

    /// As [`Self::leaf`], where the bytes have the entry's hash.
    ///
    /// # Errors
    /// [`ChainError::Bytes`] and [`ChainError::Hash`].
    pub fn proven_leaf(&self) -> Result<Digest, ChainError> {
        let Self { seq, body, evidence, previous, hash: sealed } = *self;
        let around = Around::of(seq, previous, body, evidence);
        let around = around.map_err(|cause| ChainError::Bytes { seq, cause })?;
        let computed = around.sha256(&[], body);
        if computed != sealed {
            return Err(ChainError::Hash { seq, computed, sealed });
        }
        Ok(around.sha256(&[tree::LEAF], body))
    }
}

impl Sealed {
    /// As it is read back.
    #[must_use]
    pub fn kept(&self) -> Kept<'_> {
        let Entry { seq, evidence, previous, hash, .. } = self.entry;
        Kept { seq, body: &self.body, evidence, previous, hash }
    }
}

/// The booking key's bytes, which the database keeps unique: (`startTime`, pid, GPU), and of a row without a
/// start time everything that the driver said, which is all there is to tell two of them apart. The start
/// stands first, so that keys come in about the order in which they are booked and are entered side by side.
///
/// # Errors
/// [`CanonError::TooLong`].
pub fn booking_key(
    settlement: &SettlementFigures,
    evidence: &Evidence,
) -> Result<Vec<u8>, CanonError> {
    if let Some(key) = settlement.key() {
        return key_of_row(&key);
    }
    match evidence {
        Evidence::Settlement(evidence) => {
            canon::encode(&(Arc::<str>::from("no-start-time"), evidence.row.clone()))
        }
        _ => canon::encode(&(settlement.gpu.clone(), settlement.pid)),
    }
}

/// The booking key's bytes of a row that has a start time.
///
/// # Errors
/// [`CanonError::TooLong`].
pub fn key_of_row(key: &RowKey) -> Result<Vec<u8>, CanonError> {
    canon::encode(&(key.start, (key.pid, key.gpu.clone())))
}
