//! The settlements of one GPU on the bill of a period, each made when it is looked at.

use std::sync::Arc;

use super::Ledger;
use super::settled::Seen;
use crate::accounting::Busy;
use crate::attribution::Labels;
use crate::bill::lines::{Settlements, meets, within};
use crate::bill::{Booked, LineKey, Placing};
use crate::identity::Basis;
use crate::settlement::Account;
use crate::unit::{Bytes, Ms, Span, WallUs};
use crate::unknown::Flag;

/// Settlements of a ledger, each with its line.
#[derive(Clone, Debug)]
pub struct CutRows<'a> {
    ledger: &'a Ledger,
    /// The line of everybody who is on this bill, by the number of whose they are.
    lines: Arc<[LineKey]>,
    /// Where they are among all settlements.
    places: Vec<u32>,
}

impl<'a> CutRows<'a> {
    pub(super) const fn new(ledger: &'a Ledger, lines: Arc<[LineKey]>, places: Vec<u32>) -> Self {
        Self { ledger, lines, places }
    }

    /// Each of them, in the order of their entries.
    pub fn iter(&self) -> impl Iterator<Item = CutRow<'a>> {
        self.places.iter().filter_map(|place| self.row(*place))
    }

    fn row(&self, place: u32) -> Option<CutRow<'a>> {
        let seen = self.ledger.settled.at(place)?;
        // Whoever is on the bill has a line.
        let line = *self.lines.get(usize::try_from(seen.whose_number).ok()?)?;
        Some(CutRow { ledger: self.ledger, seen, line })
    }
}

impl Settlements<LineKey> for CutRows<'_> {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn booked(&self, place: usize) -> Option<Booked<LineKey>> {
        Some(self.row(*self.places.get(place)?)?.booked())
    }
}

/// A settlement on a bill, beside its place in the interval algebra.
#[derive(Clone, Debug)]
pub struct CutRow<'a> {
    ledger: &'a Ledger,
    seen: Seen<'a>,
    /// On which line.
    pub line: LineKey,
}

impl CutRow<'_> {
    /// Number of its entry.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seen.seq
    }

    /// The driver's `startTime`, where it gave one.
    #[must_use]
    pub const fn start(&self) -> Option<WallUs> {
        self.seen.start
    }

    /// What decides its place.
    #[must_use]
    pub fn placing(&self) -> Placing {
        self.seen.placing()
    }

    /// As it goes onto the bill.
    #[must_use]
    pub fn booked(&self) -> Booked<LineKey> {
        self.placing().booked(self.line)
    }

    /// Whether it is counted on the bill of a period: not where it is only known to have shared.
    #[must_use]
    pub fn counts(&self, period: Span) -> bool {
        match self.booked() {
            Booked::Placed(holding) => meets(holding.span, period),
            Booked::Disputed { at_ms, .. } | Booked::NoStartTime { at_ms, .. } => {
                within(at_ms, period)
            }
        }
    }

    /// What of a period it held, where it has its place on the clock and counts there: nothing, where it was shorter
    /// than a millisecond.
    #[must_use]
    pub fn held_of(&self, period: Span) -> Option<Ms> {
        match self.booked() {
            Booked::Placed(holding) if meets(holding.span, period) => {
                Some(holding.span.overlap(period).map_or(Ms::ZERO, Span::length))
            }
            Booked::Placed(_) | Booked::Disputed { .. } | Booked::NoStartTime { .. } => None,
        }
    }

    /// Whether it is another user's than the reader's.
    #[must_use]
    pub const fn is_folded(&self) -> bool {
        self.seen.whose.is_folded
    }

    /// Of which account.
    #[must_use]
    pub fn account(&self) -> Option<&Account> {
        self.ledger.accounts.name(self.seen.whose.account)
    }

    /// The program, where it is known.
    #[must_use]
    pub fn program(&self) -> Option<&Arc<str>> {
        self.ledger.programs.name(self.seen.whose.program?)
    }

    /// The real user id, where it is known.
    #[must_use]
    pub const fn uid(&self) -> Option<u32> {
        self.seen.whose.uid
    }

    /// By what else it can be billed; `None` where the ledger keeps no labels.
    #[must_use]
    pub fn labels(&self) -> Option<&Labels> {
        self.ledger.labels.name(self.seen.whose.labels)
    }

    /// What the name rests on.
    #[must_use]
    pub const fn basis(&self) -> Option<Basis> {
        self.seen.basis()
    }

    /// What a reader should know.
    #[must_use]
    pub fn flags(&self) -> &[Flag] {
        self.seen.flags()
    }

    /// Time asleep within the span, where observed.
    #[must_use]
    pub const fn asleep(&self) -> Option<Ms> {
        self.seen.asleep()
    }

    /// How busy it kept the GPU; a percentage of a span that contradicts the clock is none.
    #[must_use]
    pub fn busy(&self) -> Option<&Busy> {
        self.seen.busy.as_ref().filter(|_| self.seen.dispute().is_none())
    }

    /// Peak device memory, where known.
    #[must_use]
    pub const fn memory_peak(&self) -> Option<Bytes> {
        self.seen.memory_peak
    }
}
