//! How lines are told apart on a page: no more of an id than that takes, and a mark beside what no rule named.

use std::collections::{BTreeMap, BTreeSet};

use super::LineKey;
use crate::attribution::{SHORT_ID_DIGITS, id_within, with_short_id};

/// By so many digits an id grows until it is the only one.
const DIGITS_STEP: usize = 4;

/// What a page shows otherwise than the report has it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shown {
    /// Names with the id of a container in them, cut.
    names: BTreeMap<String, String>,
    /// Lines by no rule that have the name of a line by one.
    namesakes: BTreeSet<LineKey>,
}

impl Shown {
    /// Of all names on a report.
    pub(super) fn of<'n>(all: impl Iterator<Item = &'n str>, namesakes: BTreeSet<LineKey>) -> Self {
        let all: BTreeSet<&str> = all.collect();
        let (mut long, whole): (Vec<&str>, Vec<&str>) =
            all.into_iter().partition(|name| id_within(name).is_some());
        let mut names = BTreeMap::new();
        let mut digits = SHORT_ID_DIGITS;
        while !long.is_empty() {
            let mut taken: BTreeMap<String, usize> = BTreeMap::new();
            let cut: Vec<String> =
                long.iter().map(|name| with_short_id(name, digits).into_owned()).collect();
            for name in cut.iter().map(String::as_str).chain(whole.iter().copied()) {
                let count = taken.entry(name.to_owned()).or_default();
                *count = count.saturating_add(1);
            }
            let mut left = Vec::new();
            for (name, cut) in long.into_iter().zip(cut) {
                // At its full length it is itself.
                if cut == name {
                    continue;
                }
                if taken.get(&cut) == Some(&1) {
                    names.insert(name.to_owned(), cut);
                } else {
                    left.push(name);
                }
            }
            long = left;
            digits = digits.saturating_add(DIGITS_STEP);
        }
        Self { names, namesakes }
    }

    /// A name for people.
    #[must_use]
    pub fn name<'n>(&'n self, name: &'n str) -> &'n str {
        self.names.get(name).map_or(name, String::as_str)
    }

    /// Whether another line has the name of this one, and has it by a rule.
    #[must_use]
    pub fn is_namesake(&self, line: LineKey) -> bool {
        self.namesakes.contains(&line)
    }

    /// Whether any line is such.
    #[must_use]
    pub fn any_namesake(&self) -> bool {
        !self.namesakes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_cut_as_far_as_it_is_the_only_one() {
        let id = |begin: &str| format!("{begin}{}", "0".repeat(64 - begin.len()));
        let (one, two, other) =
            (id("3f2a9c0d1e4baaaab"), id("3f2a9c0d1e4baaaac"), id("3f2a9c0d1e4c"));
        let names = [
            format!("docker {one}"),
            format!("docker {two}"),
            format!("docker {other}"),
            format!("podman {one}"),
            format!("xtts ({one})"),
            "docker 3f2a9c0d1e4c".to_owned(),
            "ollama".to_owned(),
        ];
        let shown = Shown::of(names.iter().map(String::as_str), BTreeSet::new());
        let shown: Vec<&str> = names.iter().map(|name| shown.name(name)).collect();
        assert_eq!(
            shown,
            [
                "docker 3f2a9c0d1e4baaaab000",
                "docker 3f2a9c0d1e4baaaac000",
                // Whatever is really called so.
                "docker 3f2a9c0d1e4c0000",
                "podman 3f2a9c0d1e4b",
                "xtts (3f2a9c0d1e4b)",
                "docker 3f2a9c0d1e4c",
                "ollama",
            ]
        );
    }
}
