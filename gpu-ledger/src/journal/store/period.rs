//! Everything that bears on a period, proven, without reading the rest.

use std::collections::BTreeSet;

use rusqlite::OptionalExtension as _;

use super::database::Database;
use super::error::StoreError;
use super::projection::big;
use super::reader::Reader;
use super::segment::{End, Growing, Reach, Segment, meet};
use crate::journal::chain::{Kept, Recovered};
use crate::journal::entry::Entry;
use crate::unit::WallUs;

/// Which entries are read: all of them, unless it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Extent {
    /// None up to this number, which whoever asks has taken in before.
    pub after: u64,
    /// The journal as it stood when this entry was its last: none after it, and its end is the end there.
    pub head: Option<u64>,
}

impl Extent {
    /// The journal as it stood when this entry was its last.
    #[must_use]
    pub const fn at(head: u64) -> Self {
        Self { after: 0, head: Some(head) }
    }
}

/// What a reading of a period ended with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeriodRead {
    /// The end of the whole journal: what is open, what was ever booked, up to when.
    pub end: Recovered,
    /// The last mark, be it outside the period.
    pub last_mark: Option<Entry>,
    /// Number of the last entry that was archived away: a bill of a period that begins before the first
    /// entry after it needs the archives too. 0 where none was.
    pub base: u64,
    /// Entries that were visited.
    pub visited: u64,
    /// Whether something outside of the database (`ledger.head`) says up to where it was acknowledged, so
    /// that entries cut off its end would be missed; `None` where there is nothing to cut off, or of an
    /// archive, which says itself where it ends.
    pub witnessed: Option<bool>,
}

impl Reader {
    /// Gives `visit` every entry that bears on the wall-clock milliseconds `[from_ms, to_ms)`, in order of
    /// number and each once:
    /// settlements whose span, or the moment they were read at, meets it; gaps that meet it; every edge of
    /// an epoch and of coverage; corrections and conflicts about an entry that meets it, with that entry,
    /// wherever they stand; marks in it that have a note; the last mark before every edge of coverage, and
    /// everything from the last mark of all on. Further entries may come. What is open at the end is in
    /// [`PeriodRead::end`].
    ///
    /// **What was visited is worth nothing unless this returns `Ok`**: that nothing is missing is known
    /// at the end.
    ///
    /// # Errors
    /// Those of the database, of which [`StoreError::Damaged`] and [`StoreError::LostEntries`] say that no
    /// figure can be given.
    pub fn period(
        &self,
        from_ms: u64,
        to_ms: u64,
        visit: impl FnMut(&Entry),
    ) -> Result<PeriodRead, StoreError> {
        self.period_within((from_ms, to_ms), Extent::default(), visit)
    }

    /// As [`Self::period`], of a part of the journal. That a head lies on the way to the end that was acknowledged is
    /// proven as everything else is: what follows it is read up to the end of its segment, which must come out as
    /// that segment says.
    ///
    /// # Errors
    /// As [`Self::period`]; [`StoreError::NoSuchHead`] of one that is not here.
    pub fn period_within(
        &self,
        (from_ms, to_ms): (u64, u64),
        extent: Extent,
        mut visit: impl FnMut(&Entry),
    ) -> Result<PeriodRead, StoreError> {
        self.at_one_moment(|witness| {
            let mut segments = self.database.segments()?;
            let mut tail = Tail::read(&self.database, segments.last(), &mut |_| Ok(()))?;
            let has_end = self.is_in_place() && tail.end.head.seq > 0;
            let witnessed = has_end.then_some(witness.is_some());
            self.meet_witness(&tail.end, witness)?;
            if let Some(head) = extent.head {
                tail = self.cut_at(head, &mut segments, tail)?;
            }
            let mut reading = Reading {
                database: &self.database,
                wanted: wanted(&segments, &tail, (from_ms, to_ms), self.base()),
                last_mark: tail.growing.last_mark,
                after: extent.after,
                visited: 0,
                visit: &mut visit,
            };
            reading.segments(&segments, (from_ms, to_ms))?;
            reading.tail(&tail.entries);
            let visited = reading.visited;
            let base = self.base();
            let last_mark = match tail.growing.last_mark.filter(|seq| *seq > base) {
                Some(seq) => self.database.entry(seq)?,
                None => None,
            };
            Ok(PeriodRead { end: tail.end, last_mark, base, visited, witnessed })
        })
    }

    /// The segments and the tail of the journal as it stood when entry `head` was its last. `tail`: that of the
    /// whole, which is proven.
    fn cut_at(
        &self,
        head: u64,
        segments: &mut Vec<Segment>,
        tail: Tail,
    ) -> Result<Tail, StoreError> {
        let last = tail.end.head.seq;
        if head == last {
            return Ok(tail);
        }
        if head > last || head < self.base().max(1) {
            return Err(self.no_such_head(head, last));
        }
        let whole = segments.partition_point(|segment| segment.last <= head);
        let within = segments.get(whole).cloned();
        segments.truncate(whole);
        let tail = Tail::read_until(&self.database, segments.last(), head, &mut |_| Ok(()))?;
        if let Some(within) = within {
            let mut end = tail.end.clone();
            self.database.follow(&mut end, within.last, &mut |_| Ok(()))?;
            if (end.head.seq, &End::of(&end)) != (within.last, &within.end) {
                let what = format!("the segment that ends with entry {}", within.last);
                return Err(self.database.damaged(&what));
            }
        }
        if tail.end.head.seq == head {
            Ok(tail)
        } else {
            Err(self.database.damaged(&format!("entry {head} is missing")))
        }
    }

    /// That a head is not here.
    fn no_such_head(&self, asked: u64, last: u64) -> StoreError {
        let first = self.base().saturating_add(1);
        StoreError::NoSuchHead { path: self.database.path.clone(), asked, first, last }
    }

    /// Number of the last entry that was learnt at a moment of the wall clock or before it, clocks that were set
    /// back notwithstanding: every entry after it was learnt later. `None` where every entry that is here was.
    ///
    /// # Errors
    /// Those of the database.
    pub fn last_learnt_by(&self, moment: WallUs) -> Result<Option<u64>, StoreError> {
        self.at_one_moment(|_| {
            let database = &self.database;
            let sql = "SELECT seq FROM entry WHERE at_us <= ? ORDER BY seq DESC LIMIT 1";
            let found = database.connection.prepare_cached(sql).and_then(|mut statement| {
                let row = statement.query_row([big(moment.0)], |row| row.get::<_, u64>(0));
                row.optional()
            });
            let found = found.map_err(|cause| database.fail(cause))?;
            // The column is for people: what it says is proven by the entries on both sides.
            let is_by = |seq: u64| -> Result<Option<bool>, StoreError> {
                Ok(database.entry(seq)?.map(|entry| entry.at.stamp.wall <= moment))
            };
            let next = found.unwrap_or(self.base()).saturating_add(1);
            let is_last = is_by(next)? != Some(true);
            let is_found = match found {
                Some(seq) => is_by(seq)? == Some(true),
                None => true,
            };
            if is_found && is_last {
                return Ok(found);
            }
            Err(database.damaged(&format!("the column at_us near entry {next}")))
        })
    }
}

/// What stands after the last segment: fewer entries than a segment has, always read.
pub(super) struct Tail {
    pub(super) entries: Vec<Entry>,
    pub(super) growing: Growing,
    pub(super) end: Recovered,
}

impl Tail {
    /// `keep` is given what is kept of each entry, proven.
    pub(super) fn read(
        database: &Database,
        last: Option<&Segment>,
        keep: &mut dyn FnMut(Kept<'_>) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        Self::read_until(database, last, u64::MAX, keep)
    }

    /// The same, no further than this entry.
    fn read_until(
        database: &Database,
        last: Option<&Segment>,
        until: u64,
        keep: &mut dyn FnMut(Kept<'_>) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let mut end = database.recovered(last)?;
        let last_mark = last.and_then(|segment| segment.last_mark);
        let mut growing = Growing::after(end.head.seq, end.head.hash, last_mark);
        let mut entries = Vec::new();
        let first = end.head.seq.saturating_add(1);
        database.raw((first, until), &mut |kept| {
            let entry = end.follow(kept).map_err(|error| database.broken(&error))?;
            keep(kept)?;
            let named = database.named(&entry)?;
            growing.add(&entry, named.as_ref());
            entries.push(entry);
            Ok(())
        })?;
        Ok(Self { entries, growing, end })
    }
}

/// Numbers of the entries that bear on a period one by one, with those that they are about.
fn wanted(segments: &[Segment], tail: &Tail, period: Reach, base: u64) -> BTreeSet<u64> {
    let far = segments.iter().flat_map(|segment| &segment.far).chain(&tail.growing.far);
    far.filter(|far| meet((far.from, far.to), period))
        .flat_map(|far| [Some(far.seq), far.of].into_iter().flatten())
        // What was archived is in the archive.
        .filter(|seq| *seq > base)
        .collect()
}

struct Reading<'a> {
    database: &'a Database,
    wanted: BTreeSet<u64>,
    last_mark: Option<u64>,
    after: u64,
    visited: u64,
    visit: &'a mut dyn FnMut(&Entry),
}

impl Reading<'_> {
    /// Reads segments that bear on the period whole, runs of them in one go, and of the others what
    /// bears on it by itself.
    fn segments(&mut self, segments: &[Segment], period: Reach) -> Result<(), StoreError> {
        let base = self.database.origin.base;
        let mut run: &[Segment] = &[];
        for (place, segment) in segments.iter().enumerate() {
            if segment.last <= self.after {
                continue;
            }
            let follows_mark = self.last_mark.is_some_and(|mark| mark <= segment.last);
            let is_near = segment.last > base && (follows_mark || segment.is_near(period));
            if is_near {
                // Grows the run by this segment: runs are made of neighbours.
                let begin = place.saturating_sub(run.len());
                run = segments.get(begin..=place).unwrap_or_default();
                continue;
            }
            self.run(segments, std::mem::take(&mut run))?;
            self.singly(segment)?;
        }
        self.run(segments, run)
    }

    /// One entry after the other, each proven to follow.
    fn run(&mut self, segments: &[Segment], run: &[Segment]) -> Result<(), StoreError> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let database = self.database;
        let before = segments.iter().take_while(|segment| segment.last < first.first).last();
        let mut end = database.recovered(before)?;
        let mut edges = run.iter().peekable();
        database.proven((first.first, last.last), &mut |entry| {
            end.follow_read(entry).map_err(|error| database.broken(&error))?;
            if let Some(segment) = edges.next_if(|segment| segment.last == entry.seq)
                && segment.end != End::of(&end)
            {
                let what = format!("the segment that ends with entry {}", segment.last);
                return Err(database.damaged(&what));
            }
            self.give(entry);
            Ok(())
        })?;
        if end.head.seq == last.last {
            Ok(())
        } else {
            Err(database.damaged(&format!("entry {} is missing", end.head.seq.saturating_add(1))))
        }
    }

    fn singly(&mut self, segment: &Segment) -> Result<(), StoreError> {
        let range = segment.first..=segment.last;
        let numbers: Vec<u64> = self.wanted.range(range).copied().collect();
        for seq in numbers {
            let missing = || self.database.damaged(&format!("entry {seq} is missing"));
            let entry = self.database.entry(seq)?.ok_or_else(missing)?;
            self.give(&entry);
        }
        Ok(())
    }

    fn tail(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.give(entry);
        }
    }

    fn give(&mut self, entry: &Entry) {
        if entry.seq <= self.after {
            return;
        }
        self.visited = self.visited.saturating_add(1);
        (self.visit)(entry);
    }
}
