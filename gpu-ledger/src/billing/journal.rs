//! A journal's files as a bill's source: the journal itself, and the archives that lie beside it.

use std::path::PathBuf;

use super::Source;
use crate::bill::BillError;
use crate::bill::ledger::Ledger;
use crate::bill::report::{Head, Outside};
use crate::journal::entry::{DriverSaid, Entry, Evidence, Moment};
use crate::journal::store::{Reader, StateDir, StoreError};
use crate::unit::Span;

/// The journal of one state directory.
#[derive(Debug)]
pub struct JournalFiles {
    journal: Reader,
    /// Archives, oldest first, each continued by the next and the last one by the journal.
    archives: Vec<Reader>,
    /// Number of the last entry that was archived and is not here.
    missing: u64,
}

impl JournalFiles {
    /// Opens the journal of a directory, and its archives there.
    ///
    /// # Errors
    /// Those of [`Reader::open`]; a directory that cannot be listed.
    pub fn open(dir: &StateDir) -> Result<Self, StoreError> {
        let journal = Reader::open(dir)?;
        let mut archives = Vec::new();
        let mut missing = journal.base();
        let candidates = if missing > 0 { archives_in(dir)? } else { Vec::new() };
        // Backwards from the journal: each must end where the next begins.
        while let Some(found) = candidates.iter().find(|one| missing > 0 && one.last == missing) {
            let archive = Reader::open_file(&found.path)?;
            if archive.journal() != journal.journal() || archive.base() >= missing {
                break;
            }
            missing = archive.base();
            archives.push(archive);
        }
        archives.reverse();
        Ok(Self { journal, archives, missing })
    }

    /// Whoever has the entry of this number.
    fn reader_of(&self, seq: u64) -> &Reader {
        let newest_first = self.archives.iter().rev();
        let older = newest_first.take_while(|_| seq <= self.journal.base());
        older.filter(|archive| archive.base() < seq).last().unwrap_or(&self.journal)
    }
}

/// An archive by its name.
struct Archive {
    path: PathBuf,
    last: u64,
}

/// `archive-<journal>-<first>-<last>.db`; that one is of this journal its content says.
fn archives_in(dir: &StateDir) -> Result<Vec<Archive>, StoreError> {
    let failed = |cause| StoreError::Io { doing: "list", path: dir.path().to_owned(), cause };
    let mut archives = Vec::new();
    for entry in std::fs::read_dir(dir.path()).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let parts =
            name.as_deref().and_then(|name| name.strip_prefix("archive-")?.strip_suffix(".db"));
        let last = parts.and_then(|parts| parts.rsplit('-').next()?.parse().ok());
        archives.extend(last.map(|last| Archive { path, last }));
    }
    Ok(archives)
}

impl Source for JournalFiles {
    fn read(&mut self, period: Span, ledger: &mut Ledger) -> anyhow::Result<Head> {
        let (from_ms, to_ms) = (period.from_ms(), period.to_ms());
        let mut refused: Result<(), BillError> = Ok(());
        let mut take = |entry: Entry| {
            if refused.is_ok() {
                refused = ledger.take(&entry);
            }
        };
        for archive in &self.archives {
            archive.period(from_ms, to_ms, &mut take)?;
        }
        let read = self.journal.period(from_ms, to_ms, &mut take)?;
        refused?;
        ledger.finish(&read.end)?;
        Ok(Head { seq: read.end.head.seq, hash: read.end.head.hash })
    }

    fn outside(&mut self, ledger: &Ledger) -> anyhow::Result<Outside> {
        let mut outside = Outside { missing: self.missing, ..Outside::default() };
        for seq in ledger.epochs() {
            if let Some(Evidence::Epoch(said)) = self.reader_of(seq).evidence(seq)? {
                note_driver(&mut outside, &said);
            }
        }
        for seq in ledger.rowless() {
            let reader = self.reader_of(seq);
            if let (Some(entry), Some(Evidence::Open(open))) =
                (reader.entry(seq)?, reader.evidence(seq)?)
                && let Some(identity) = open.identity
                && identity.boot == entry.at.boot
                && let Some(born_ms) = wall_ms(entry.at, identity.key.start.0)
            {
                outside.born_ms.insert(seq, born_ms);
            }
        }
        Ok(outside)
    }
}

/// One simulated driver among several makes the bill a simulated one.
fn note_driver(outside: &mut Outside, said: &DriverSaid) {
    if outside.driver.as_deref() != Some("simulated") {
        outside.driver = Some(said.kind.to_string());
    }
    outside.driver_version = said.version.as_ref().map(ToString::to_string);
}

/// A moment of the boot clock on the wall clock of a moment of the same boot, in ms since 1970.
fn wall_ms(at: Moment, boot_ns: u64) -> Option<u64> {
    let before_us = at.stamp.boot.0.checked_sub(boot_ns)? / 1_000;
    Some(at.stamp.wall.0.checked_sub(before_us)? / 1_000)
}
