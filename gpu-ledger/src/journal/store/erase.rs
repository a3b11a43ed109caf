//! `journal redact`: texts of arguments that somebody has a right to see gone.
//!
//! An entry holds a commitment and no text, so the chain, its tree and every proof stay what they are. What SQLite deletes
//! is overwritten (`secure_delete`) and goes out of its log. Out of reach is what left the journal: bundles that were
//! handed out, backups, and blocks that the disk itself keeps.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::archive::{NEXT, UNFINISHED};
use super::database::{Database, failed};
use super::error::StoreError;
use super::parts::archives_of;
use super::place::StateDir;
use super::reader::Reader;
use super::schema;
use super::writer::{Store, begin};
use crate::journal::Digest;
use crate::journal::chain;
use crate::journal::entry::{Entry, Evidence};

/// What was deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Forgotten {
    /// Texts that were there, whatever mode kept them.
    pub texts: usize,
    /// Whether nothing of them is left in the database's log: somebody who read at that moment keeps it from being
    /// emptied, and then the next one who deletes nothing does it.
    pub log_is_empty: bool,
}

/// The texts that are to go.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Whose {
    /// Commitments that no other process has.
    pub own: BTreeSet<Digest>,
    /// Commitments that processes of others have as well: the same words were typed by both.
    pub shared: BTreeSet<Digest>,
}

impl Store {
    /// Deletes the texts of arguments, whatever mode kept them, and keeps none of them again.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn forget_argv(&mut self, commitments: &[Digest]) -> Result<Forgotten, StoreError> {
        self.refuse_poisoned()?;
        // An archiving that was killed may have left a copy of them; nobody archives beside a writer.
        for name in [NEXT, UNFINISHED] {
            self.place.remove(name)?;
            self.place.remove(&format!("{name}-journal"))?;
        }
        let forgotten = self.forget(commitments).and_then(|texts| {
            let log_is_empty = self.checkpoint("TRUNCATE")?;
            Ok(Forgotten { texts, log_is_empty })
        });
        if let Err(error) = &forgotten
            && !error.can_be_retried()
        {
            self.poison = Some(error.to_string());
        }
        forgotten
    }

    fn forget(&self, commitments: &[Digest]) -> Result<usize, StoreError> {
        let fail = |cause| self.database.fail(cause);
        let transaction = begin(&self.database)?;
        let mut texts = 0_usize;
        for commitment in commitments {
            let sql = "DELETE FROM argv WHERE commitment = ?";
            let deleted = transaction.execute(sql, params![commitment.0]).map_err(fail)?;
            texts = texts.saturating_add(deleted);
            if !self.database.is_erased(*commitment)? {
                let sql = "INSERT INTO erased VALUES (?)";
                transaction.execute(sql, params![commitment.0]).map_err(fail)?;
            }
        }
        transaction.commit().map_err(fail)?;
        Ok(texts)
    }
}

/// Deletes the texts of arguments in the archives beside a journal, which otherwise stay what they are; how many there
/// were.
///
/// # Errors
/// One is not to be opened, or cannot be written.
pub fn erase_in_archives(
    dir: &StateDir,
    commitments: &BTreeSet<Digest>,
) -> Result<usize, StoreError> {
    let mut texts = 0_usize;
    for path in archives(dir, &Reader::open(dir)?)?.into_iter().map(|archive| archive.database.path)
    {
        texts = texts.saturating_add(erase_in(&path, commitments)?);
    }
    Ok(texts)
}

fn archives(dir: &StateDir, journal: &Reader) -> Result<Vec<Reader>, StoreError> {
    archives_of(dir, journal.journal(), journal.base()).map(|(archives, _)| archives)
}

fn erase_in(path: &Path, commitments: &BTreeSet<Digest>) -> Result<usize, StoreError> {
    schema::refuse_foreign(path, false)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let fail = failed(path);
    let mut archive = Connection::open_with_flags(path, flags).map_err(&fail)?;
    archive.pragma_update_and_check(None, "secure_delete", 1, |_| Ok(())).map_err(&fail)?;
    archive.pragma_update(None, "synchronous", "FULL").map_err(&fail)?;
    let deleting = archive.transaction().map_err(&fail)?;
    let mut texts = 0_usize;
    for commitment in commitments {
        let sql = "DELETE FROM argv WHERE commitment = ?";
        let deleted = deleting.execute(sql, params![commitment.0]).map_err(&fail)?;
        texts = texts.saturating_add(deleted);
    }
    deleting.commit().map_err(&fail)?;
    archive.close().map_err(|(_, cause)| fail(cause))?;
    Ok(texts)
}

/// The texts that entries commit to, of the journal of a directory and the archives beside it: those of entries that
/// `is_theirs`, apart from what other entries have as well.
///
/// # Errors
/// Those of reading.
pub fn texts_of(
    dir: &StateDir,
    mut is_theirs: impl FnMut(&Entry, &Evidence) -> bool,
) -> Result<Whose, StoreError> {
    let (mut theirs, mut of_others) = (BTreeSet::new(), BTreeSet::new());
    let mut take = |entry: &Entry, evidence: &Evidence| {
        if let Some(place) = evidence.argv_place() {
            let set = if is_theirs(entry, evidence) { &mut theirs } else { &mut of_others };
            set.insert(place.commitment);
        }
    };
    let journal = Reader::open(dir)?;
    for archive in archives(dir, &journal)? {
        visit(&archive.database, &mut take)?;
    }
    journal.at_one_moment(|_| visit(&journal.database, &mut take))?;
    let (shared, own) = theirs.into_iter().partition(|one| of_others.contains(one));
    Ok(Whose { own, shared })
}

/// Every entry of one file with its evidence, each proven by its hash.
fn visit(database: &Database, take: &mut dyn FnMut(&Entry, &Evidence)) -> Result<(), StoreError> {
    database.raw((database.origin.base.saturating_add(1), u64::MAX), &mut |kept| {
        let entry = chain::read(kept).map_err(|error| database.broken(&error))?;
        take(&entry, &database.evidence_of(&entry)?);
        Ok(())
    })
}
