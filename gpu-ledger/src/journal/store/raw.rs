//! Entries as they are kept, bytes and all, for whoever hands them on.

use rusqlite::params;
use rusqlite::types::Type;

use super::database::kept;
use super::error::StoreError;
use super::projection::big;
use super::reader::Reader;
use crate::journal::Digest;
use crate::journal::chain::{Kept, Recovered, sha256};

/// An entry as it is kept, with what it rests on; both are what it was sealed with.
#[derive(Clone, Copy, Debug)]
pub struct RawEntry<'b> {
    /// The entry.
    pub kept: Kept<'b>,
    /// Its leaf in the tree.
    pub leaf: Digest,
    /// Canonical bytes of its evidence.
    pub evidence: &'b [u8],
}

const WITH_EVIDENCE: &str = "SELECT e.seq, e.body, e.evidence_digest, e.previous, e.hash, v.bytes \
    FROM entry AS e LEFT JOIN evidence AS v ON v.seq = e.seq WHERE e.seq BETWEEN ? AND ? ORDER BY e.seq";

impl Reader {
    /// Gives `visit` the entries from `first` to `last`, without a hole, each proven by its hash, its evidence by its
    /// digest, and that it follows the one before it. What was archived is not here.
    ///
    /// # Errors
    /// [`StoreError::Damaged`], and where one of them is missing; those of the database and of `visit`.
    pub fn raw_entries<E: From<StoreError>>(
        &self,
        (first, last): (u64, u64),
        visit: &mut dyn FnMut(RawEntry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let database = &self.database;
        let fail = |cause| database.fail(cause);
        let mut statement = database.connection.prepare_cached(WITH_EVIDENCE).map_err(fail)?;
        let mut rows = statement.query(params![big(first), big(last)]).map_err(fail)?;
        let (mut wanted, mut previous) = (first, None);
        while let Some(row) = rows.next().map_err(fail)? {
            let kept = kept(row).map_err(fail)?;
            let evidence = row.get_ref(5).and_then(|bytes| {
                bytes.as_blob().map_err(|cause| {
                    rusqlite::Error::FromSqlConversionFailure(5, Type::Blob, Box::new(cause))
                })
            });
            let evidence = evidence.map_err(fail)?;
            let leaf = kept.proven_leaf().map_err(|error| database.broken(&error))?;
            if kept.seq != wanted || previous.is_some_and(|hash| hash != kept.previous) {
                return Err(database
                    .damaged(&format!("entry {wanted} is missing, or was changed"))
                    .into());
            }
            if sha256(evidence) != kept.evidence {
                return Err(database
                    .damaged(&format!("the evidence of entry {wanted} was changed"))
                    .into());
            }
            (wanted, previous) = (wanted.saturating_add(1), Some(kept.hash));
            visit(RawEntry { kept, leaf, evidence })?;
        }
        if wanted.checked_sub(1) == Some(last) {
            Ok(())
        } else {
            Err(database.damaged(&format!("entry {wanted} is missing")).into())
        }
    }

    /// What a follower knows after entry `seq`, which is here or the last before the first that is.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where it is not; those of the database.
    pub fn recovered_at(&self, seq: u64) -> Result<Recovered, StoreError> {
        let database = &self.database;
        let segments = database.segments()?;
        let before = segments.iter().take_while(|segment| segment.last <= seq).last();
        let mut end = database.recovered(before)?;
        database.follow(&mut end, seq, &mut |_| Ok(()))?;
        if end.head.seq == seq {
            Ok(end)
        } else {
            Err(database.damaged(&format!("entry {seq} is missing")))
        }
    }
}
