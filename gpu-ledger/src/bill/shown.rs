//! How lines are told apart on a page: no more of an id than that takes, and what named those that are called alike.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use unicode_width::UnicodeWidthStr as _;

use crate::attribution::{SHORT_ID_DIGITS, id_within, with_short_id};
use crate::escape::printable;
use crate::rendering::{CUT, cell, clip};
use crate::settlement::{NamedBy, marked, unmarked};

/// Columns of a page.
const PAGE_WIDTH: usize = 80;

/// By so many digits an id grows until it is the only one.
const DIGITS_STEP: usize = 4;

/// What a page shows otherwise than the report has it: the same in every section, and of lines that a section
/// has no room for as well.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shown {
    /// Names with the id of a container in them, cut.
    names: BTreeMap<String, String>,
    /// Every name as it is shown where there is room for it.
    all: BTreeSet<String>,
    /// What several accounts are called.
    alike: BTreeSet<String>,
}

impl Shown {
    /// Of all names on a page.
    pub fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let every: BTreeSet<&str> = names.into_iter().collect();
        let (mut long, whole): (Vec<&str>, Vec<&str>) =
            every.iter().copied().partition(|name| id_within(name).is_some());
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
        let mut shown = Self { names, ..Self::default() };
        shown.all = every.into_iter().map(|name| shown.name(name)).collect();
        shown
    }

    /// Of all names on a page, of which some are of accounts, that were named by something.
    pub fn of_accounts<'n>(names: impl IntoIterator<Item = (&'n str, Option<NamedBy>)>) -> Self {
        let mut by_name: BTreeMap<&str, BTreeSet<NamedBy>> = BTreeMap::new();
        for (name, named_by) in names {
            by_name.entry(name).or_default().extend(named_by);
        }
        let alike = by_name.iter().filter(|(_, by)| by.len() > 1);
        let marked: Vec<String> =
            alike.clone().flat_map(|(name, by)| by.iter().map(|by| marked(name, *by))).collect();
        let all = by_name.keys().copied().chain(marked.iter().map(String::as_str));
        Self { alike: alike.map(|(name, _)| (*name).to_owned()).collect(), ..Self::of(all) }
    }

    /// What an account is called on the page: with what named it, where that alone tells it from another.
    #[must_use]
    pub fn called<'n>(&self, name: &'n str, named_by: Option<NamedBy>) -> Cow<'n, str> {
        match named_by.filter(|_| self.alike.contains(name)) {
            Some(named_by) => Cow::Owned(marked(name, named_by)),
            None => Cow::Borrowed(name),
        }
    }

    /// A name for people, safe to print, with no more of an id than tells it from the others.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        let name = self.names.get(name).map_or(name, String::as_str);
        printable(name.as_bytes()).to_string()
    }

    /// A name in at most `width` columns; `None` where another begins with what they have of it.
    #[must_use]
    pub fn fitted(&self, name: &str, width: usize) -> Option<String> {
        let name = self.name(name);
        let cut = clip(&name, width);
        if name.width() <= width {
            return Some(cut);
        }
        if unmarked(&name).is_some_and(|(title, _)| self.alike.contains(title)) {
            return None;
        }
        let begin = cut.trim_end_matches(CUT);
        let from = self.all.range::<str, _>((Bound::Included(begin), Bound::Unbounded));
        let mut alike = from.take_while(|other| other.starts_with(begin));
        alike.all(|other| *other == name).then_some(cut)
    }

    /// A name in about `width` columns: whole where fewer than all of it would be another's too.
    #[must_use]
    pub fn told(&self, name: &str, width: usize) -> String {
        self.fitted(name, width).unwrap_or_else(|| self.name(name))
    }

    /// `indent` and a name in its column; on a line of its own above it, where the column would not tell it from
    /// another.
    #[must_use]
    pub fn cell(&self, indent: &str, name: &str, width: usize) -> String {
        if let Some(fitted) = self.fitted(name, width) {
            return format!("{indent}{}", cell(&fitted, width));
        }
        let above = self.told(name, PAGE_WIDTH.saturating_sub(indent.width()));
        let blank = indent.width().saturating_add(width);
        format!("{indent}{above}\n{:blank$}", "")
    }

    /// Whether several accounts are called alike.
    #[must_use]
    pub fn any_alike(&self) -> bool {
        !self.alike.is_empty()
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
        let shown = Shown::of(names.iter().map(String::as_str));
        let shown: Vec<String> = names.iter().map(|name| shown.name(name)).collect();
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

    #[test]
    fn a_name_is_cut_for_a_column_only_where_no_other_begins_so() {
        let long = |end: &str| format!("{}{end}", "語音".repeat(40));
        let names = [
            "pod 0a1b2c3d-1111-2222-3333-444455550001",
            "pod 0a1b2c3d-1111-2222-3333-444455550002",
            // Just as wide as the column, and begins as the one below is cut.
            "train-llama-70b!",
            "train-llama-70b-instruct",
            "a-very-long-program-name",
            &long("1"),
            &long("2"),
        ];
        let shown = Shown::of(names);
        let fitted = names.map(|name| shown.fitted(name, 16));
        let (pod, exact) = (None, Some("train-llama-70b!".to_owned()));
        let cut = Some("a-very-long-pro…".to_owned());
        assert_eq!(fitted, [pod.clone(), pod, exact, None, cut, None, None]);
        assert_eq!(shown.cell("* ", names[0], 16), format!("* {}\n{}", names[0], " ".repeat(18)));
        assert_eq!(shown.cell("", "ollama", 8), "ollama  ");
        // Wider than a page, where less would be two.
        assert!(shown.cell("  ", names[5], 16).starts_with(&format!("  {}\n ", names[5])));
        assert_eq!(Shown::of([names[5]]).cell("", names[5], 16), "語音語音語音語… ");
    }
}
