//! What stands in each run of entries: what lets a reader of a period pass over the others. Pure.

use std::collections::BTreeMap;

use crate::journal::Digest;
use crate::journal::canon::{self, CanonError, canonical_record};
use crate::journal::chain::{Recovered, sha256};
use crate::journal::entry::{Change, Entry, Figures, Moment, OpenFigures, SettlementFigures};
use crate::memory::HOUR_MS;
use crate::settlement::Balance;
use crate::unit::{GpuUuid, Span, WallUs};

/// Entries of a segment. Small enough that the entries after the last one are read in a blink, large
/// enough that the segments of a million settlements are few hundred.
pub(super) const SEGMENT_ENTRIES: u64 = if cfg!(test) { 32 } else { 4_096 };
/// Height of the subtree of their leaves.
pub(super) const SEGMENT_LEVEL: u32 = SEGMENT_ENTRIES.ilog2();
const _: () = assert!(SEGMENT_ENTRIES.is_power_of_two(), "a segment is a subtree");
/// Settlements that reach over more than this stand one by one: else a server that ran for a month
/// would make its segment meet every day of that month.
const NEAR_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// What a segment's digested bytes begin with.
const DOMAIN: &str = "gpu-ledger segment 1";

/// A half-open interval of wall-clock milliseconds, never empty.
pub(super) type Reach = (u64, u64);
/// What bears on every period.
const ALWAYS: Reach = (0, u64::MAX);

/// A run of entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    /// Number of its first entry.
    pub(super) first: u64,
    /// Number of its last one.
    pub(super) last: u64,
    /// Hash of the entry before the first.
    pub(super) previous: Digest,
    /// From the earliest to the latest that its settlements and gaps shorter than a day bear on.
    pub(super) near: Option<Reach>,
    /// Every other entry that bears on a period.
    pub(super) far: Vec<Far>,
    /// The last mark up to its end, be it in another segment.
    pub(super) last_mark: Option<u64>,
    /// The chain at its end.
    pub(super) end: End,
}

/// An entry that is looked up by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Far {
    /// Its number.
    pub(super) seq: u64,
    /// The entry that it is about, which is wanted with it.
    pub(super) of: Option<u64>,
    /// What it bears on.
    pub(super) from: u64,
    /// First millisecond after.
    pub(super) to: u64,
}

/// [`Recovered`] at the end of a segment; of what is open, the numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct End {
    pub(super) hash: Digest,
    pub(super) booked: Vec<(GpuUuid, Balance)>,
    pub(super) unresolved: Vec<u64>,
    pub(super) last: Option<Moment>,
    pub(super) began: Option<Moment>,
    pub(super) ended_in_order: bool,
}

canonical_record! {
    Segment { first, last, previous, near, far, last_mark, end }
    Far { seq, of, from, to }
    End { hash, booked, unresolved, last, began, ended_in_order }
}

impl Segment {
    /// Its canonical bytes and their digest.
    pub(super) fn sealed(&self) -> Result<(Vec<u8>, Digest), CanonError> {
        let body = canon::encode(self)?;
        let digest = digest_of(&body)?;
        Ok((body, digest))
    }

    /// Of bytes whose digest is the one given.
    pub(super) fn read(body: &[u8], digest: Digest) -> Result<Option<Self>, CanonError> {
        if digest_of(body)? == digest { canon::decode(body).map(Some) } else { Ok(None) }
    }

    /// Whether its entries must be read for a period.
    pub(super) fn is_near(&self, period: Reach) -> bool {
        self.near.is_some_and(|near| meet(near, period))
    }
}

fn digest_of(body: &[u8]) -> Result<Digest, CanonError> {
    let bound = (std::sync::Arc::<str>::from(DOMAIN), bytes::Bytes::copy_from_slice(body));
    Ok(sha256(&canon::encode(&bound)?))
}

impl End {
    pub(super) fn of(end: &Recovered) -> Self {
        Self {
            hash: end.head.hash,
            booked: end.head.booked.iter().map(|(gpu, sum)| (gpu.clone(), *sum)).collect(),
            unresolved: end.unresolved.keys().copied().collect(),
            last: end.last,
            began: end.began,
            ended_in_order: end.ended_in_order,
        }
    }

    /// What a follower that begins after entry `seq` knows. `open` are the entries that are unresolved.
    pub(super) fn recovered(&self, seq: u64, open: BTreeMap<u64, OpenFigures>) -> Recovered {
        let mut end = Recovered { unresolved: open, ..Recovered::default() };
        (end.head.seq, end.head.hash) = (seq, self.hash);
        end.head.booked = self.booked.iter().cloned().collect();
        (end.last, end.began, end.ended_in_order) = (self.last, self.began, self.ended_in_order);
        end
    }
}

/// Whether two half-open intervals have a millisecond in common.
pub(super) const fn meet(a: Reach, b: Reach) -> bool {
    a.0 < b.1 && b.0 < a.1
}

/// The segment that is being filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Growing {
    first: u64,
    previous: Digest,
    near: Option<Reach>,
    pub(super) far: Vec<Far>,
    pub(super) last_mark: Option<u64>,
}

impl Growing {
    /// After the end of the last segment, or of nothing.
    pub(super) const fn after(seq: u64, hash: Digest, last_mark: Option<u64>) -> Self {
        // The chain refuses the number after the last one.
        let first = seq.saturating_add(1);
        Self { first, previous: hash, near: None, far: Vec::new(), last_mark }
    }

    /// Takes in the next entry. `named` is the entry that it is about ([`names`]), where it is known.
    pub(super) fn add(&mut self, entry: &Entry, named: Option<&Figures>) {
        if let Figures::Mark(_) = entry.figures {
            self.last_mark = Some(entry.seq);
        }
        if let (Figures::Coverage(_), Some(mark)) = (&entry.figures, self.last_mark) {
            // Up to when the run before this edge saw everything bears on every period.
            self.far.push(Far { seq: mark, of: None, from: ALWAYS.0, to: ALWAYS.1 });
        }
        let Some((from, to)) = reach(entry, named) else { return };
        if is_near(&entry.figures, (from, to)) {
            let near = self.near.unwrap_or((from, to));
            self.near = Some((near.0.min(from), near.1.max(to)));
        } else {
            self.far.push(Far { seq: entry.seq, of: names(&entry.figures), from, to });
        }
    }

    /// The segment, where the entry that was added last fills it.
    pub(super) fn fill(&self, end: &Recovered) -> Option<Segment> {
        let last = end.head.seq;
        (last.checked_rem(SEGMENT_ENTRIES) == Some(0)).then(|| Segment {
            first: self.first,
            last,
            previous: self.previous,
            near: self.near,
            far: self.far.clone(),
            last_mark: self.last_mark,
            end: End::of(end),
        })
    }
}

/// Whether an entry stands among its neighbours for what it bears on, and not one by one.
const fn is_near(figures: &Figures, reach: Reach) -> bool {
    let is_near = reach.1.saturating_sub(reach.0) <= NEAR_MS_MAX;
    matches!(figures, Figures::Settlement(_) | Figures::Gap(_) | Figures::Memory(_)) && is_near
}

/// How an entry bears on a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bearing {
    /// Not by itself: what is open does by being unresolved, and a mark by being the last one.
    No,
    /// With its neighbours: most of what a period is made of.
    Near,
    /// One by one, wherever it stands.
    Far,
}

impl Bearing {
    /// That of an entry on the milliseconds from the first to before the second. `named`: the entry that it is about
    /// ([`names`]).
    #[must_use]
    pub fn of(entry: &Entry, named: Option<&Figures>, period: (u64, u64)) -> Self {
        match reach(entry, named) {
            Some(reach) if !meet(reach, period) => Self::No,
            Some(reach) if is_near(&entry.figures, reach) => Self::Near,
            Some(_) => Self::Far,
            None => Self::No,
        }
    }
}

/// The entry that an entry changes the reading of.
#[must_use]
pub const fn names(figures: &Figures) -> Option<u64> {
    match figures {
        Figures::Correction(correction) => Some(correction.of),
        Figures::Conflict(conflict) => Some(conflict.of),
        _ => None,
    }
}

/// The milliseconds that an entry bears on; `None` of one that bears on none by itself: what is open
/// counts by being unresolved, or by its settlement, and of marks only the last one counts.
fn reach(entry: &Entry, named: Option<&Figures>) -> Option<Reach> {
    match &entry.figures {
        Figures::Settlement(settlement) => Some(of_settlement(settlement)),
        Figures::Gap(gap) => Some(around([gap.from.wall.ms(), gap.to.wall.ms()])),
        Figures::Epoch(_) | Figures::Coverage(_) | Figures::Key(_) | Figures::Closed(_) => {
            Some(ALWAYS)
        }
        // Whoever reads a part of its hour must learn of what voids it.
        Figures::Memory(stretch) => {
            let hour = stretch.hour_ms();
            let end = hour.saturating_add(HOUR_MS.saturating_sub(1));
            Some(around([hour, stretch.to.ms(), end]))
        }
        Figures::Mark(mark) => {
            mark.note.as_ref().map(|_| around([entry.at.stamp.wall.ms(), entry.at.stamp.wall.ms()]))
        }
        Figures::Open(_) => None,
        Figures::Conflict(_) | Figures::Correction(_) => {
            let change = match &entry.figures {
                Figures::Correction(correction) => Some(&correction.change),
                _ => None,
            };
            Some(match (named, change) {
                (Some(Figures::Settlement(settlement)), _) => of_settlement(settlement),
                (Some(Figures::Open(open)), Some(Change::Ended { last_seen, .. })) => {
                    around([since(open), last_seen.wall.ms()])
                }
                (Some(Figures::Open(open)), _) => (since(open), u64::MAX),
                _ => ALWAYS,
            })
        }
    }
}

/// The span, and the moment it was read at: what is disputed or has no start is billed there.
fn of_settlement(settlement: &SettlementFigures) -> Reach {
    let read_at = settlement.read_at.wall.ms();
    let start = settlement.start;
    let span = start.and_then(|start| Span::of_row(start, settlement.held));
    let (from, to) = span.map_or((read_at, read_at), |span| (span.from_ms(), span.to_ms()));
    // A span that wrapped has a start all the same.
    around([from, to, read_at, start.map_or(from, WallUs::ms)])
}

fn since(open: &OpenFigures) -> u64 {
    let seen = open.first_seen.began.wall.ms();
    open.start.map_or(seen, |start| seen.min(start.ms()))
}

/// The shortest interval that has them all in it: clocks step, so they come in any order.
fn around<const N: usize>(ms: [u64; N]) -> Reach {
    let (from, to) = ms.iter().fold((u64::MAX, 0), |(from, to), ms| (from.min(*ms), to.max(*ms)));
    (from, to.saturating_add(1))
}
