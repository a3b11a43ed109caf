//! Which entries a bundle has.
//!
//! The **range** is everything from the first to the last entry of those that stand among their neighbours for what they
//! bear on (settlements, gaps and memory of less than a day), and on to the first mark which says that the period was seen
//! to its end. What else a bill of the period reads, or that proves something, is **context**: it stands elsewhere, and
//! comes with its own proof. In both, ascending by number, is all that the bill is made of.

use std::collections::BTreeSet;

use super::error::BundleError;
use crate::billing::JournalFiles;
use crate::journal::chain::{self, Recovered};
use crate::journal::entry::{Entry, Figures};
use crate::journal::store::{Bearing, Extent, StoreError, names};
use crate::unit::Span;

/// Entries after the last near one among which the mark that follows the period is looked for; where none of them is one,
/// the last mark of all, which is context, says the same.
const MARK_WITHIN: u64 = 4_096;

/// Which entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// First entry of the range.
    pub first: u64,
    /// Its last one.
    pub last: u64,
    /// Number of the last entry that the checkpoint covers.
    pub size: u64,
    /// Entries beside the range, by number.
    pub context: BTreeSet<u64>,
    /// The chain before the range: what was booked and what was open.
    pub opening: Recovered,
}

/// Chooses the entries for a period, of the journal as it stood when entry `size` was its last.
///
/// # Errors
/// [`BundleError::Empty`], [`BundleError::NoSuchCheckpoint`], [`BundleError::Archived`]; those of the store.
pub fn select(files: &JournalFiles, span: Span, size: u64) -> Result<Selection, BundleError> {
    let period = (span.from_ms(), span.to_ms());
    let mut choosing =
        Choosing { files, period, near: None, context: BTreeSet::new(), last_mark: None };
    let mut went: Result<(), StoreError> = Ok(());
    let read = files.visit(period, Extent::at(size), &mut |entry| {
        if went.is_ok() {
            went = choosing.take(entry);
        }
    })?;
    went?;
    let Choosing { near, mut context, last_mark, .. } = choosing;
    // What is open at the end is proven to be by the last mark, which is visited whatever the period, and by everything
    // after it.
    context.extend(last_mark.unwrap_or(1)..=size);
    context.extend(read.end.unresolved.keys());
    let (first, last) = near.unwrap_or((size, size));
    let last = mark_after(files, (last, size), span.to_ms())?.unwrap_or(last);
    let opening = files.recovered_at(first.saturating_sub(1))?;
    context.extend(opening.unresolved.keys());
    context.retain(|seq| !(first..=last).contains(seq));
    Ok(Selection { first, last, size, context, opening })
}

struct Choosing<'f> {
    files: &'f JournalFiles,
    period: (u64, u64),
    near: Option<(u64, u64)>,
    context: BTreeSet<u64>,
    last_mark: Option<u64>,
}

impl Choosing<'_> {
    fn take(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let seq = entry.seq;
        match &entry.figures {
            Figures::Mark(_) => self.last_mark = Some(seq),
            // Up to when the run before this edge saw everything bears on every period.
            Figures::Coverage(_) => self.context.extend(self.last_mark),
            _ => {}
        }
        let of = names(&entry.figures);
        let named = of.map(|of| self.files.entry(of)).transpose()?.flatten();
        match Bearing::of(entry, named.as_ref().map(|named| &named.figures), self.period) {
            Bearing::No => {}
            Bearing::Near => {
                let (first, last) = self.near.unwrap_or((seq, seq));
                self.near = Some((first.min(seq), last.max(seq)));
            }
            Bearing::Far => {
                self.context.insert(seq);
                self.context.extend(named.map(|named| named.seq));
            }
        }
        Ok(())
    }
}

/// Number of the first mark after an entry which says that everything up to the period's end was seen; `None` where none
/// of the entries that follow is one.
fn mark_after(
    files: &JournalFiles,
    (after, size): (u64, u64),
    until_ms: u64,
) -> Result<Option<u64>, BundleError> {
    let mut found = None;
    // A few at a time: most often it is the next but one.
    for few in [64, MARK_WITHIN] {
        let last = after.saturating_add(few).min(size);
        if after >= last {
            break;
        }
        files.raw::<BundleError>((after.saturating_add(1), last), &mut |raw| {
            if found.is_none()
                && let Figures::Mark(mark) = chain::read(raw.kept)?.figures
                && mark.processes_until.wall.ms() >= until_ms
            {
                found = Some(raw.kept.seq);
            }
            Ok(())
        })?;
        if found.is_some() {
            break;
        }
    }
    Ok(found)
}
