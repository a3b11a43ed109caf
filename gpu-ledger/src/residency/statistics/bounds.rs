//! Between which figures an integral lies, by what the samples show.
//!
//! A curve holds a sample until the next, which is no statement about what was between them. This is one: where what
//! changed between two samples went from the one to the other, the integral of the truth lies between that of the
//! lesser and that of the greater of both. What came and went between them is in none. A process that one sample lists
//! and its neighbour does not held nothing at the neighbour's moment.
//!
//! A reading is of some instant in its bracket, so within a bracket the neighbours on both sides count. What was held
//! after the last reading of a window nobody read again: it is held, in both figures, and told apart.

use std::collections::{BTreeMap, BTreeSet};

use super::phases::Phases;
use crate::residency::moment::Length;
use crate::residency::timeline::Window;
use crate::unit::BootNs;

/// What was read in one pass: of each holder how many bytes; `None`: it was listed, and nobody said with how much.
#[derive(Clone, Debug)]
pub(super) struct Frame<Id> {
    pub(super) before: BootNs,
    pub(super) after: BootNs,
    pub(super) values: BTreeMap<Id, Option<u64>>,
}

/// The least and the most that an integral may be, in byte·ns; `None` where a reading of it is not known.
pub(super) type Range = Option<(u128, u128)>;

/// Ranges of one stretch, by holder.
#[derive(Clone, Debug)]
pub(super) struct Ranges<Id>(BTreeMap<Id, Range>);

impl<Id: Ord + Copy> Ranges<Id> {
    fn add(&mut self, id: Id, values: Range, ns: u64) {
        let sum = self.0.entry(id).or_insert(Some((0, 0)));
        let add = |sum: u128, value: u128| sum.saturating_add(value.saturating_mul(u128::from(ns)));
        *sum = match (*sum, values) {
            (Some((low, high)), Some((least, most))) => Some((add(low, least), add(high, most))),
            _ => None,
        };
    }

    /// Of one holder, with the figure that was held within.
    pub(super) fn of(&self, id: Id, held: u128) -> Range {
        let (low, high) = (*self.0.get(&id)?)?;
        Some((low.min(held), high.max(held)))
    }
}

/// Follows readings through a window and its phases.
#[derive(Debug)]
pub(super) struct Bounds<Id> {
    window: Window,
    previous: Option<Frame<Id>>,
    current: Option<Frame<Id>>,
    /// Of the whole window, then of each phase.
    whole: Ranges<Id>,
    parts: Vec<Ranges<Id>>,
    gap_max: Length,
}

impl<Id: Ord + Copy> Bounds<Id> {
    pub(super) fn new(window: Window, phases: &Phases) -> Self {
        let none = Ranges(BTreeMap::new());
        let parts = vec![none.clone(); phases.list().len()];
        Self { window, previous: None, current: None, whole: none, parts, gap_max: Length(0) }
    }

    /// The next reading.
    pub(super) fn push(&mut self, next: Frame<Id>, phases: &Phases) {
        if let Some(current) = self.current.take() {
            let previous = self.previous.take();
            let around: Vec<&Frame<Id>> = previous.iter().chain([&current, &next]).collect();
            self.add(current.before, current.after, &around, phases);
            self.add(current.after, next.before, &[&current, &next], phases);
            if next.after > self.window.t0 && current.before < self.window.end() {
                let gap = Length(next.after.0.saturating_sub(current.before.0));
                self.gap_max = self.gap_max.max(gap);
            }
            self.previous = Some(current);
        }
        self.current = Some(next);
    }

    /// No reading is left. What was held after the last one, and for how long.
    pub(super) fn finish(mut self, phases: &Phases) -> Bounded<Id> {
        let mut open = Length(0);
        if let Some(current) = self.current.take() {
            let previous = self.previous.take();
            let around: Vec<&Frame<Id>> = previous.iter().chain([&current]).collect();
            self.add(current.before, current.after, &around, phases);
            let end = self.window.end();
            self.add(current.after, end, &[&current], phases);
            open = Length(end.0.saturating_sub(current.after.max(self.window.t0).0));
        }
        Bounded { whole: self.whole, parts: self.parts, gap_max: self.gap_max, open }
    }

    /// Adds `[from, to)`, for which what these frames show counts, to the window and its phases.
    fn add(&mut self, from: BootNs, to: BootNs, frames: &[&Frame<Id>], phases: &Phases) {
        let (from, to) = (from.max(self.window.t0), to.min(self.window.end()));
        if from >= to {
            return;
        }
        let ids: BTreeSet<Id> =
            frames.iter().flat_map(|frame| frame.values.keys().copied()).collect();
        let cut: Vec<(usize, u64)> = phases.cut(from, to).collect();
        let ns = to.0.saturating_sub(from.0);
        for id in ids {
            let values =
                frames.iter().map(|frame| frame.values.get(&id).copied().unwrap_or(Some(0)));
            let values: Option<Vec<u64>> = values.collect();
            let range = values.and_then(|values| {
                let (least, most) = (values.iter().min()?, values.iter().max()?);
                Some((u128::from(*least), u128::from(*most)))
            });
            self.whole.add(id, range, ns);
            for (index, ns) in &cut {
                if let Some(part) = self.parts.get_mut(*index) {
                    part.add(id, range, *ns);
                }
            }
        }
    }
}

/// All ranges of a window.
#[derive(Debug)]
pub(super) struct Bounded<Id> {
    pub(super) whole: Ranges<Id>,
    pub(super) parts: Vec<Ranges<Id>>,
    /// The longest time from one reading to the next: so far may any edge be off.
    pub(super) gap_max: Length,
    /// How long the last reading was held, after which none came.
    pub(super) open: Length,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(duration: u64) -> Window {
        Window { t0: BootNs(1_000), timeline_period: Length(10), duration: Length(duration) }
    }

    fn frame(before: u64, after: u64, values: &[(u8, Option<u64>)]) -> Frame<u8> {
        let values = values.iter().copied().collect();
        Frame { before: BootNs(before), after: BootNs(after), values }
    }

    fn bounded(duration: u64, marks: &[(u64, &str)], frames: Vec<Frame<u8>>) -> Bounded<u8> {
        let window = window(duration);
        let marks: Vec<_> = marks.iter().map(|(at, name)| (BootNs(*at), (*name).into())).collect();
        let phases = Phases::of(&marks, window);
        let mut bounds = Bounds::new(window, &phases);
        for frame in frames {
            bounds.push(frame, &phases);
        }
        bounds.finish(&phases)
    }

    #[test]
    fn a_table_by_hand() {
        // T0 is the landing of the first; 4 for 90, a bracket of 10 between 4 and 8, 8 for 90, …
        let frames = vec![
            frame(990, 1_000, &[(1, Some(4))]),
            frame(1_090, 1_100, &[(1, Some(4)), (2, Some(7))]),
            frame(1_190, 1_200, &[(1, Some(8)), (2, None)]),
            frame(1_290, 1_300, &[(1, Some(8))]),
        ];
        let told = bounded(350, &[(1_150, "later")], frames);
        // [1000,1090) 4..4, [1090,1100) 4..8, [1100,1190) 4..8, [1190,1200) 4..8, then 8; the last 50 held.
        let low = 4 * 200 + 8 * 150;
        let high = 4 * 90 + 8 * 260;
        assert_eq!(told.whole.of(1, low), Some((low, high)));
        assert_eq!((told.open, told.gap_max), (Length(50), Length(110)));
        // Of the second nobody said how much when it was last listed.
        assert_eq!(told.whole.of(2, 0), None);
        let phases: Vec<Range> = told.parts.iter().map(|part| part.of(1, 0)).collect();
        let sum = |of: fn((u128, u128)) -> u128| {
            phases.iter().map(|range| of(range.unwrap())).sum::<u128>()
        };
        assert_eq!(sum(|(_, high)| high), high, "phases add up");
    }

    #[test]
    fn a_process_held_nothing_where_its_neighbours_do_not_list_it() {
        let frames = vec![
            frame(1_000, 1_000, &[]),
            frame(1_100, 1_100, &[(2, Some(6))]),
            frame(1_200, 1_200, &[]),
        ];
        let told = bounded(200, &[], frames);
        // It held 6 at one instant: for no time at least, for both gaps at most.
        assert_eq!(told.whole.of(2, 600), Some((0, 1_200)));
        assert_eq!(told.open, Length(0));
    }

    proptest! {
        /// Whatever a truth does that goes from sample to sample without turning, its integral is in the range.
        #[test]
        fn the_truth_lies_within(
            steps in prop::collection::vec((1_u64..200, 0_u64..1_000, 0_u64..200, 0_u64..20), 2..40),
        ) {
            // Between two samples the truth holds the old value for a part of the gap, then the new one.
            let (mut at, mut frames, mut truth) = (1_000_u64, Vec::new(), 0_u128);
            let mut last: Option<(u64, u64)> = None;
            for (gap, value, when, bracket) in steps {
                at += gap;
                // Read at `at`, somewhere in its bracket.
                let before = at - (bracket % gap.max(1));
                if let Some((read_at, old)) = last {
                    let turn = (read_at + when).clamp(read_at, at);
                    truth += u128::from(old) * u128::from(turn - read_at);
                    truth += u128::from(value) * u128::from(at - turn);
                }
                frames.push(frame(before, at, &[(1, Some(value))]));
                last = Some((at, value));
            }
            let t0 = frames[0].after;
            let end = frames[frames.len() - 1].after;
            let window = Window {
                t0, timeline_period: Length(10), duration: Length(end.0 - t0.0),
            };
            let phases = Phases::of(&[], window);
            let mut bounds = Bounds::new(window, &phases);
            for frame in frames {
                bounds.push(frame, &phases);
            }
            let told = bounds.finish(&phases);
            if end > t0 {
                let (low, high) = told.whole.0[&1].unwrap();
                prop_assert!(low <= truth && truth <= high, "{low} {truth} {high}");
            }
        }
    }
}
