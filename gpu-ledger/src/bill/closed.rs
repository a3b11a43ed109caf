//! Periods whose bill is fixed: which they are, and which bill told last of what came to each of them since.

use crate::journal::entry::{ClosedPeriod, Moment};
use crate::unit::Span;

/// A period whose bill is fixed, and the entry that says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Closing {
    /// Number of the entry.
    pub seq: u64,
    /// When it was entered.
    pub at: Moment,
    /// What it fixed.
    pub period: ClosedPeriod,
}

impl Closing {
    /// The period; `None` where it ends before it begins.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        span_of(&self.period)
    }

    /// The document of this form, where it has one.
    #[must_use]
    pub fn document(&self, form: &str) -> Option<crate::journal::Digest> {
        let found = self.period.documents.iter().find(|(word, _)| **word == *form);
        found.map(|(_, digest)| *digest)
    }
}

fn span_of(period: &ClosedPeriod) -> Option<Span> {
    Span::new(period.from.ms(), period.to.ms()).filter(|span| span.from_ms() < span.to_ms())
}

/// Every closing that is in force: one that meets an earlier one fixes nothing, whoever entered it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Closings(Vec<Closing>);

impl Closings {
    /// Takes the next one.
    pub fn take(&mut self, seq: u64, at: Moment, period: &ClosedPeriod) {
        if let Some(span) = span_of(period)
            && self.meeting(span).next().is_none()
        {
            self.0.push(Closing { seq, at, period: period.clone() });
        }
    }

    /// All of them, in the order in which they were entered.
    pub fn all(&self) -> impl Iterator<Item = &Closing> {
        self.0.iter()
    }

    /// The one of this very period.
    #[must_use]
    pub fn of(&self, period: Span) -> Option<&Closing> {
        self.0.iter().find(|closing| closing.span() == Some(period))
    }

    /// Those that have a millisecond in common with a period.
    pub fn meeting(&self, period: Span) -> impl Iterator<Item = &Closing> {
        let meets = move |closing: &&Closing| {
            closing.span().is_some_and(|span| {
                span.from_ms() < period.to_ms() && period.from_ms() < span.to_ms()
            })
        };
        self.0.iter().filter(meets)
    }

    /// The first millisecond after the last closed period, where a bill tells what came to closed ones: the bill of
    /// the period that holds it. `None` where none is closed.
    #[must_use]
    pub fn end_ms(&self) -> Option<u64> {
        self.0.iter().filter_map(Closing::span).map(Span::to_ms).max()
    }

    /// Whether the bill of a period tells what came to closed ones.
    #[must_use]
    pub fn are_told_in(&self, period: Span) -> bool {
        self.end_ms().is_some_and(|end| period.from_ms() <= end && end < period.to_ms())
    }

    /// As they stood when entry `head` was the journal's last.
    #[must_use]
    pub fn at(&self, head: u64) -> Self {
        Self(self.0.iter().filter(|closing| closing.seq <= head).cloned().collect())
    }

    /// Number of the last entry that a closed period's own bill, or one closed later, tells of: what came after it
    /// is told in the next.
    #[must_use]
    pub fn told_through(&self, closing: &Closing) -> u64 {
        let tells = |later: &&Closing| {
            let known = self.at(later.period.through);
            let is_known = closing.seq <= later.period.through;
            is_known && later.span().is_some_and(|span| known.are_told_in(span))
        };
        let told = self.0.iter().filter(tells).map(|later| later.period.through).max();
        told.unwrap_or(0).max(closing.period.through)
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "made moments are small numbers")]
pub(crate) mod tests {
    use super::*;
    use crate::bill::made::{DAY_MS, stamp};
    use crate::journal::Digest;
    use crate::journal::entry::BootId;
    use crate::unit::WallUs;

    /// The closing of a period, in ms after the made day began, made of the entries up to `through`.
    pub(crate) fn period(from_ms: u64, to_ms: u64, through: u64) -> ClosedPeriod {
        ClosedPeriod {
            name: format!("{from_ms}..{to_ms}").into(),
            from: WallUs((DAY_MS + from_ms) * 1_000),
            to: WallUs((DAY_MS + to_ms) * 1_000),
            zone: "UTC".into(),
            through,
            tree: Digest([7; 32]),
            by: "account".into(),
            share: "none".into(),
            prices: None,
            documents: vec![("json".into(), Digest([8; 32]))],
            version: "0.1.0".into(),
        }
    }

    fn closings(all: &[(u64, u64, u64, u64)]) -> Closings {
        let mut closings = Closings::default();
        for (seq, from, to, through) in all {
            let at = Moment { boot: BootId(7), stamp: stamp(*to) };
            closings.take(*seq, at, &period(*from, *to, *through));
        }
        closings
    }

    fn span(from: u64, to: u64) -> Span {
        Span::new(DAY_MS + from, DAY_MS + to).unwrap()
    }

    #[test]
    fn of_two_that_meet_the_first_one_is_in_force() {
        let closings = closings(&[(5, 0, 10, 4), (7, 5, 15, 6), (9, 10, 20, 8), (11, 0, 10, 10)]);
        assert_eq!(closings.all().map(|one| one.seq).collect::<Vec<_>>(), [5, 9]);
        assert_eq!(closings.of(span(0, 10)).map(|one| one.seq), Some(5));
        assert_eq!(closings.of(span(0, 9)), None);
        assert_eq!(closings.meeting(span(9, 11)).count(), 2);
        assert_eq!(closings.meeting(span(20, 30)).count(), 0);
    }

    #[test]
    fn what_came_since_is_told_once_by_the_next_bill_that_is_closed() {
        let one = closings(&[(5, 0, 10, 4)]);
        assert!(one.are_told_in(span(10, 20)) && !one.are_told_in(span(0, 10)));
        assert!(!one.are_told_in(span(20, 30)), "it does not hold the end of the last");
        let two = closings(&[(5, 0, 10, 4), (9, 10, 20, 8)]);
        let told = |closings: &Closings| {
            closings.all().map(|one| closings.told_through(one)).collect::<Vec<_>>()
        };
        assert_eq!(told(&one), [4]);
        assert_eq!(told(&two), [8, 8], "the second told what came to the first up to its head");
        // Closed before the first was: its bill told nothing of it.
        let unknown = closings(&[(5, 0, 10, 4), (9, 10, 20, 4)]);
        assert_eq!(told(&unknown), [4, 4]);
        // A period was left out between them: neither told of the other.
        let apart = closings(&[(5, 0, 10, 4), (9, 20, 30, 8)]);
        assert_eq!(told(&apart), [4, 8]);
        // The later one was closed first, and so told nothing of the earlier one.
        let turned = closings(&[(5, 10, 20, 4), (9, 0, 10, 8)]);
        assert_eq!(told(&turned), [4, 8]);
    }
}
