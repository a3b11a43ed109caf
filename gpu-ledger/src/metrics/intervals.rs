//! A set of milliseconds, as intervals that neither meet nor touch.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::collections::BTreeMap;

/// Half-open intervals.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Intervals {
    /// From where to where.
    ends: BTreeMap<u64, u64>,
    length: u64,
}

impl Intervals {
    /// Adds `[from, to)`; nothing where it is empty.
    pub(super) fn insert(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from, to);
        let before = self.ends.range(..=from).next_back().map(|(start, end)| (*start, *end));
        if let Some((start, end)) = before
            && end >= from
        {
            self.remove(start, end);
            (from, to) = (start, to.max(end));
        }
        while let Some((start, end)) = self.ends.range(from..=to).next().map(|(s, e)| (*s, *e)) {
            self.remove(start, end);
            to = to.max(end);
        }
        self.add(from, to);
    }

    /// Forgets everything before `at`.
    pub(super) fn cut_below(&mut self, at: u64) {
        while let Some((start, end)) = self.ends.first_key_value().map(|(s, e)| (*s, *e)) {
            if start >= at {
                return;
            }
            self.remove(start, end);
            if end > at {
                self.add(at, end);
            }
        }
    }

    /// How much lies before `at`.
    pub(super) fn measure_below(&self, at: u64) -> u64 {
        let last = self.ends.range(..at).next_back();
        let across = last.map_or(0, |(_, end)| end.saturating_sub(at));
        let after = self
            .ends
            .range(at..)
            .fold(across, |sum, (start, end)| sum.saturating_add(end.saturating_sub(*start)));
        self.length.saturating_sub(after)
    }

    /// How many intervals.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Where the first one ends.
    pub(super) fn first_end(&self) -> Option<u64> {
        self.ends.first_key_value().map(|(_, end)| *end)
    }

    fn add(&mut self, from: u64, to: u64) {
        self.ends.insert(from, to);
        self.length = self.length.saturating_add(to.saturating_sub(from));
    }

    fn remove(&mut self, from: u64, to: u64) {
        self.ends.remove(&from);
        self.length = self.length.saturating_sub(to.saturating_sub(from));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn intervals_are_a_set_of_milliseconds(
            inserts in prop::collection::vec((0_u64..60, 0_u64..20), 0..30),
            cut in 0_u64..80,
            at in 0_u64..90,
        ) {
            let mut intervals = Intervals::default();
            let mut set = std::collections::BTreeSet::new();
            for (from, length) in inserts {
                intervals.insert(from, from + length);
                set.extend(from..from + length);
                prop_assert_eq!(usize::try_from(intervals.length), Ok(set.len()));
            }
            intervals.cut_below(cut);
            set.retain(|ms| *ms >= cut);
            prop_assert_eq!(usize::try_from(intervals.measure_below(at)), Ok(set.range(..at).count()));
            prop_assert_eq!(usize::try_from(intervals.length), Ok(set.len()));
            let runs = set.iter().filter(|ms| **ms == 0 || !set.contains(&(**ms - 1))).count();
            prop_assert_eq!(intervals.count(), runs);
        }
    }
}
