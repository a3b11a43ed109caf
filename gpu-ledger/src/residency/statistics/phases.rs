//! Phases: what users call the stretches of a window.

use super::super::timeline::Window;
use crate::unit::BootNs;

/// The most phases that are told apart in a window; what comes after belongs to the last.
pub const PHASES_MAX: usize = 64;

/// From a mark to the next, or to the window's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// Its mark's name; `None`: the stretch before any mark.
    pub name: Option<String>,
    /// The how many-th of its name.
    pub occurrence: u64,
    /// Its beginning.
    pub from: BootNs,
}

/// The phases of a window, in order and without a gap between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phases {
    list: Vec<Phase>,
    /// Marks that were not made phases of.
    beyond: u64,
}

impl Phases {
    /// From marks in any order. The last one before the window is in force when it begins; of several at
    /// one moment the last counts.
    #[must_use]
    pub fn of(marks: &[(BootNs, String)], window: Window) -> Self {
        let mut marks: Vec<&(BootNs, String)> =
            marks.iter().filter(|(at, _)| *at < window.end()).collect();
        marks.sort_by_key(|(at, _)| *at);
        let mut phases =
            Self { list: vec![Phase { name: None, occurrence: 1, from: window.t0 }], beyond: 0 };
        for (at, name) in marks {
            phases.begin(window.t0.max(*at), name);
        }
        phases
    }

    fn begin(&mut self, from: BootNs, name: &str) {
        // A phase that ended in the moment it began is none.
        self.list.pop_if(|last| last.from == from);
        if self.list.len() >= PHASES_MAX {
            self.beyond = self.beyond.saturating_add(1);
            return;
        }
        let same = |phase: &&Phase| phase.name.as_deref() == Some(name);
        let before = u64::try_from(self.list.iter().filter(same).count()).unwrap_or(u64::MAX);
        let occurrence = before.saturating_add(1);
        self.list.push(Phase { name: Some(name.to_owned()), occurrence, from });
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> &[Phase] {
        &self.list
    }

    /// How many marks came after [`PHASES_MAX`] phases.
    #[must_use]
    pub const fn beyond(&self) -> u64 {
        self.beyond
    }

    /// `[from, to)`, cut at their beginnings: which phase, and how many ns of it. An empty stretch is in
    /// the phase of its moment.
    pub fn cut(&self, from: BootNs, to: BootNs) -> impl Iterator<Item = (usize, u64)> {
        let begun = self.list.partition_point(|phase| phase.from <= from);
        let first = begun.saturating_sub(1);
        (first..self.list.len()).map_while(move |index| {
            let phase = self.list.get(index)?;
            let next = self.list.get(index.saturating_add(1)).map_or(to, |next| next.from);
            let start = if index == first { from } else { phase.from };
            let is_here = index == first || start < to;
            is_here.then(|| (index, next.min(to).0.saturating_sub(start.0)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{BootNs, PHASES_MAX, Phases, Window};
    use crate::residency::moment::Length;

    const WINDOW: Window =
        Window { t0: BootNs(1_000), timeline_period: Length(10), duration: Length(100) };

    fn phases(marks: &[(u64, &str)]) -> Phases {
        let marks: Vec<_> = marks.iter().map(|(at, name)| (BootNs(*at), (*name).into())).collect();
        Phases::of(&marks, WINDOW)
    }

    fn told(phases: &Phases) -> Vec<(Option<&str>, u64, u64)> {
        let list = phases.list().iter();
        list.map(|phase| (phase.name.as_deref(), phase.occurrence, phase.from.0)).collect()
    }

    #[test]
    fn marks_make_phases() {
        assert_eq!(told(&phases(&[])), [(None, 1, 1_000)]);
        let marks = [(1_050, "b"), (1_020, "a"), (1_080, "a"), (1_100, "too late")];
        let all = [(None, 1, 1_000), (Some("a"), 1, 1_020), (Some("b"), 1, 1_050)];
        let phases_of = phases(&marks);
        assert_eq!(told(&phases_of)[..3], all);
        assert_eq!(told(&phases_of)[3..], [(Some("a"), 2, 1_080)]);
    }

    #[test]
    fn the_last_mark_before_the_window_is_in_force_when_it_begins() {
        let marks = [(10, "warm"), (900, "load"), (1_030, "x"), (1_030, "y")];
        assert_eq!(told(&phases(&marks)), [(Some("load"), 1, 1_000), (Some("y"), 1, 1_030)]);
    }

    #[test]
    fn a_stretch_is_cut_where_phases_begin_and_nothing_is_lost() {
        let phases = phases(&[(1_020, "a"), (1_025, "b")]);
        let cut = |from, to| phases.cut(BootNs(from), BootNs(to)).collect::<Vec<_>>();
        assert_eq!(cut(1_010, 1_020), [(0, 10)]);
        assert_eq!(cut(1_010, 1_030), [(0, 10), (1, 5), (2, 5)]);
        assert_eq!(cut(1_020, 1_020), [(1, 0)]);
        assert_eq!(cut(1_100, 1_100), [(2, 0)]);
    }

    #[test]
    fn marks_beyond_the_bound_are_counted_and_belong_to_the_last() {
        let marks: Vec<_> = (0..99).map(|at| (BootNs(1_000 + at), format!("p{at}"))).collect();
        let phases = Phases::of(&marks, WINDOW);
        assert_eq!((phases.list().len(), phases.beyond()), (PHASES_MAX, 99 - 64));
    }
}
