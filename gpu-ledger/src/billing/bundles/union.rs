//! The entries of several bundles of one journal, as one: ascending, each number once.

use std::collections::BTreeSet;
use std::iter::Peekable;

use anyhow::{Context as _, bail};

use super::shown;
use crate::audit::BundleError;
use crate::audit::bill::Ending;
use crate::audit::read::{Bundle, BundleEntry};
use crate::journal::chain::Recovered;
use crate::journal::entry::{Change, Entry, Figures};

/// Numbers of open entries that an error lists.
const TOLD_MAX: usize = 10;

type Entries<'b> = Box<dyn Iterator<Item = Result<BundleEntry, BundleError>> + 'b>;

/// One bundle as it is read.
struct Source<'b> {
    path: String,
    entries: Peekable<Entries<'b>>,
    /// The end of the journal as it has it.
    ending: Ending,
    is_over: bool,
}

/// All of them.
pub(super) struct Union<'b> {
    sources: Vec<Source<'b>>,
    /// Open entries at the end of a bundle, of which nothing more was read yet.
    awaited: BTreeSet<u64>,
}

impl<'b> Union<'b> {
    pub(super) fn of(bundles: &'b [Bundle]) -> anyhow::Result<Self> {
        let mut sources = Vec::with_capacity(bundles.len());
        for bundle in bundles {
            let path = shown(bundle.path());
            let entries = bundle.all().with_context(|| format!("cannot read {path}"))?;
            let entries: Entries<'b> = Box::new(entries);
            let entries = entries.peekable();
            sources.push(Source { path, entries, ending: Ending::default(), is_over: false });
        }
        Ok(Self { sources, awaited: BTreeSet::new() })
    }

    /// The next entry.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<BundleEntry>> {
        let mut found: Option<(BundleEntry, usize)> = None;
        let first = self.sources.iter_mut().filter_map(Source::seq).min();
        for (place, source) in self.sources.iter_mut().enumerate() {
            if source.seq().is_some_and(|seq| Some(seq) > first) {
                continue;
            }
            let Some(next) = source.entries.next() else {
                // What is left open here another one must tell of.
                if !std::mem::replace(&mut source.is_over, true) {
                    self.awaited.extend(source.ending.recovered().unresolved.keys());
                }
                continue;
            };
            let next = next.with_context(|| format!("cannot read {}", source.path))?;
            source.ending.take(&next.entry);
            match &found {
                None => found = Some((next, place)),
                Some((one, _)) if one.entry.hash == next.entry.hash => {}
                Some((one, other)) => {
                    let other = self.sources.get(*other).map_or("another", |one| &one.path);
                    let path = self.sources.get(place).map_or("another", |one| &one.path);
                    bail!(
                        "{other} and {path} are of one journal, and have two entries {}; one of them was made of a \
                         journal that was written again",
                        one.entry.seq
                    );
                }
            }
        }
        if let Some((one, _)) = &found {
            self.told(&one.entry);
        }
        Ok(found.map(|(one, _)| one))
    }

    fn told(&mut self, entry: &Entry) {
        match &entry.figures {
            Figures::Settlement(settlement) => {
                settlement.opened.map(|opened| self.awaited.remove(&opened));
            }
            Figures::Correction(correction) => {
                if let Change::Ended { .. } = correction.change {
                    self.awaited.remove(&correction.of);
                }
            }
            _ => {}
        }
    }

    /// That of everything that was open at the end of a bundle is told what became of it: otherwise its time would
    /// be called free.
    pub(super) fn all_is_told(&mut self, end: &Recovered) -> anyhow::Result<()> {
        self.awaited.retain(|seq| !end.unresolved.contains_key(seq));
        if self.awaited.is_empty() {
            return Ok(());
        }
        let told: Vec<String> = self.awaited.iter().take(TOLD_MAX).map(u64::to_string).collect();
        let paths: Vec<&str> = self.sources.iter().map(|one| one.path.as_str()).collect();
        bail!(
            "{} do not follow each other: what became of {} open entries ({}) is in none of them; give the bundle of the \
             time in between too, or bill them one by one",
            paths.join(" and "),
            self.awaited.len(),
            told.join(", ")
        )
    }
}

impl Source<'_> {
    /// The number of its next entry: what is wrong comes first.
    fn seq(&mut self) -> Option<u64> {
        Some(self.entries.peek()?.as_ref().map_or(0, |one| one.entry.seq))
    }
}
