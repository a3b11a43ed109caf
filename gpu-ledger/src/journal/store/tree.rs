//! The Merkle tree as it is kept: the root of each full run of entries, and the entries themselves.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Transaction, TransactionBehavior, params_from_iter};

use super::database::Database;
use super::error::StoreError;
use super::parts::archives_of;
use super::place::{Place, StateDir};
use super::projection::big;
use super::reader::Reader;
use super::schema::has_subtrees;
use super::segment::{SEGMENT_ENTRIES, SEGMENT_LEVEL};
use crate::journal::Digest;
use crate::journal::canon::{self, CanonError};
use crate::journal::chain::sha256;
use crate::journal::tree::{self, Frontier, Subtree, Subtrees, TreeError};

/// What the digested bytes of a run begin with.
const DOMAIN: &str = "gpu-ledger subtree 1";
/// Enters a run.
pub(super) const INSERT_RUN: &str = "INSERT INTO subtree VALUES (?, ?, ?)";

/// A full run of entries: as many as a segment has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// Runs before it.
    pub(super) number: u64,
    /// Of the tree of its leaves.
    pub(super) root: Digest,
}

impl Run {
    fn digest(self) -> Result<Digest, CanonError> {
        let bound = (std::sync::Arc::<str>::from(DOMAIN), (self.number, self.root));
        Ok(sha256(&canon::encode(&bound)?))
    }

    /// Its row.
    pub(super) fn columns(self) -> Result<[Value; 3], CanonError> {
        let blob = |digest: Digest| Value::Blob(digest.0.to_vec());
        Ok([big(self.number), blob(self.root), blob(self.digest()?)])
    }
}

/// The right end of a tree that grows.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    /// Of the full runs; `None` where not all of them are known.
    runs: Option<Frontier>,
    /// Of the run that is being filled.
    leaves: Frontier,
}

impl Growth {
    /// After these runs, with the leaves that follow them.
    pub(super) const fn new(runs: Option<Frontier>, leaves: Frontier) -> Self {
        Self { runs, leaves }
    }

    /// Takes in the next leaf.
    pub(super) fn add(&mut self, leaf: Digest) {
        self.leaves.append(leaf);
    }

    /// Closes the run that the last leaf filled; `None` where it is not full.
    pub(super) fn fill(&mut self) -> Option<Run> {
        let begin = self.leaves.begin();
        let is_full = self.leaves.end().checked_sub(begin) == Some(SEGMENT_ENTRIES);
        let root = self.leaves.whole().filter(|_| is_full)?;
        self.leaves = Frontier::starting_at(self.leaves.end());
        if let Some(runs) = &mut self.runs {
            runs.append_subtree(SEGMENT_LEVEL, root).ok()?;
        }
        Some(Run { number: begin / SEGMENT_ENTRIES, root })
    }

    /// Leaves, and the root of the tree of all of them; `None` where it is unknown.
    pub(super) fn head(&self) -> Option<(u64, Digest)> {
        let mut whole = self.runs.clone()?;
        let hashes: Vec<Digest> = self.leaves.hashes().collect();
        whole.append_range(self.leaves.end(), &hashes).ok()?;
        Some((whole.end(), whole.root()?))
    }
}

/// The tree of the first `count` runs; `None` where one of them is not known.
pub(super) fn frontier_of(known: &BTreeMap<u64, Digest>, count: u64) -> Option<Frontier> {
    let mut frontier = Frontier::default();
    for number in 0..count {
        frontier.append_subtree(SEGMENT_LEVEL, *known.get(&number)?).ok()?;
    }
    Some(frontier)
}

/// That a run is not known whose entries are not here.
pub(super) fn unknown(journal: &Path, number: u64) -> StoreError {
    let before = number.saturating_mul(SEGMENT_ENTRIES);
    let (first, last) = (before.saturating_add(1), before.saturating_add(SEGMENT_ENTRIES));
    StoreError::TreeUnknown { path: journal.to_owned(), first, last }
}

impl Database {
    /// The roots of the runs that are kept, each proven by its digest.
    pub(super) fn runs(&self) -> Result<BTreeMap<u64, Digest>, StoreError> {
        let fail = |cause| self.fail(cause);
        if !has_subtrees(self)? {
            return Ok(BTreeMap::new());
        }
        let sql = "SELECT number, root, digest FROM subtree ORDER BY number";
        let mut statement = self.connection.prepare_cached(sql).map_err(fail)?;
        let mut rows = statement.query([]).map_err(fail)?;
        let mut runs = BTreeMap::new();
        while let Some(row) = rows.next().map_err(fail)? {
            let number = row.get(0).map_err(fail)?;
            let run = Run { number, root: Digest(row.get(1).map_err(fail)?) };
            if run.digest()? != Digest(row.get(2).map_err(fail)?) {
                return Err(self.damaged(&format!("the root of run {number} of its tree")));
            }
            runs.insert(number, run.root);
        }
        Ok(runs)
    }
}

/// The tree of the full runs up to leaf `end`. Those that an older version did not keep are derived here from their
/// entries, and kept.
///
/// # Errors
/// [`StoreError::TreeUnknown`] where entries were archived then and are not here; those of the database.
pub(super) fn complete(
    database: &Database,
    place: &Place,
    end: u64,
) -> Result<Frontier, StoreError> {
    let count = end / SEGMENT_ENTRIES;
    let known = database.runs()?;
    if let Some(frontier) = frontier_of(&known, count) {
        return Ok(frontier);
    }
    let origin = &database.origin;
    let base = origin.base / SEGMENT_ENTRIES;
    let (archives, _) = match known.range(..base).count() {
        found if u64::try_from(found) == Ok(base) => (Vec::new(), 0),
        _ => archives_of(&StateDir::at(&place.path), &origin.journal, origin.base)?,
    };
    let mut tree = Tree::of(&archives, database, end)?;
    let fail = |cause| database.fail(cause);
    let transaction =
        Transaction::new_unchecked(&database.connection, TransactionBehavior::Immediate);
    let transaction = transaction.map_err(fail)?;
    // What is here is kept, whatever is not.
    let mut missing = None;
    for number in 0..count {
        if known.contains_key(&number) {
            continue;
        }
        match tree.run(number) {
            Ok(root) => {
                let columns = Run { number, root }.columns()?;
                transaction.execute(INSERT_RUN, params_from_iter(columns)).map_err(fail)?;
            }
            Err(error) => missing = missing.or(Some(error)),
        }
    }
    transaction.commit().map_err(fail)?;
    match missing {
        Some(error) => Err(error),
        None => frontier_of(&tree.runs, count).ok_or_else(|| unknown(&database.path, 0)),
    }
}

/// The Merkle tree over the entries of a journal: entry `seq` is leaf `seq - 1`. Of full runs of entries the roots are
/// kept; what stands below them is made of the entries, each proven by its hash, a run at a time.
#[derive(Debug)]
pub struct Tree<'a> {
    /// Oldest first, the journal last.
    parts: Vec<&'a Database>,
    size: u64,
    runs: BTreeMap<u64, Digest>,
    /// The leaves of the run that was read last, by its number.
    read: Option<(u64, Vec<Digest>)>,
}

impl<'a> Tree<'a> {
    pub(super) fn of(
        archives: impl IntoIterator<Item = &'a Reader>,
        journal: &'a Database,
        size: u64,
    ) -> Result<Self, StoreError> {
        let archives = archives.into_iter().map(|archive| &archive.database);
        let parts = archives.chain([journal]).collect();
        Ok(Self { parts, size, runs: journal.runs()?, read: None })
    }

    /// Entries when it was opened.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The root of the tree of the first `size` entries.
    ///
    /// # Errors
    /// [`StoreError::Tree`] where there are not so many; [`StoreError::TreeUnknown`] and [`StoreError::Archived`]; those
    /// of the database.
    pub fn root_at(&mut self, size: u64) -> Result<Digest, StoreError> {
        let root = self.range(0, size)?.root();
        root.ok_or_else(|| TreeError::Length.into())
    }

    /// What the tree knows of the leaves from `begin` to before `end`: the compact range.
    ///
    /// # Errors
    /// As [`Self::root_at`].
    pub fn range(&mut self, begin: u64, end: u64) -> Result<Frontier, StoreError> {
        tree::range(self, begin, end)
    }

    /// The proof that an entry is in the tree of the first `size` entries.
    ///
    /// # Errors
    /// As [`Self::root_at`].
    pub fn inclusion(&mut self, seq: u64, size: u64) -> Result<Vec<Digest>, StoreError> {
        let leaf = seq.checked_sub(1).ok_or(TreeError::Outside { leaf: 0, size })?;
        tree::inclusion(self, leaf, size)
    }

    /// The proof that the tree of the first `from` entries is the beginning of that of the first `to`.
    ///
    /// # Errors
    /// As [`Self::root_at`].
    pub fn consistency(&mut self, from: u64, to: u64) -> Result<Vec<Digest>, StoreError> {
        tree::consistency(self, from, to)
    }

    /// The root of a full run.
    fn run(&mut self, number: u64) -> Result<Digest, StoreError> {
        if let Some(root) = self.runs.get(&number) {
            return Ok(*root);
        }
        let subtree = Subtree { level: SEGMENT_LEVEL, index: number };
        let root = match self.of_leaves(subtree) {
            Err(StoreError::Archived { path, .. }) => return Err(unknown(&path, number)),
            root => root?,
        };
        self.runs.insert(number, root);
        Ok(root)
    }

    /// The hash of a subtree within one run.
    fn of_leaves(&mut self, subtree: Subtree) -> Result<Digest, StoreError> {
        let number = subtree.begin() / SEGMENT_ENTRIES;
        let before = number.saturating_mul(SEGMENT_ENTRIES);
        let leaves = self.leaves(number)?;
        let mut frontier = Frontier::starting_at(subtree.begin());
        for (leaf, hash) in (before..).zip(leaves) {
            if (subtree.begin()..subtree.end()).contains(&leaf) {
                frontier.append(*hash);
            }
        }
        frontier.whole().ok_or_else(|| TreeError::Length.into())
    }

    /// The leaves of a run: proven to be what its kept root was made of, where it is full, and that each entry follows
    /// the one before it.
    fn leaves(&mut self, number: u64) -> Result<&[Digest], StoreError> {
        if self.read.as_ref().is_none_or(|(read, _)| *read != number) {
            let leaves = self.read_leaves(number)?;
            return Ok(&self.read.insert((number, leaves)).1);
        }
        Ok(self.read.as_ref().map_or(&[], |(_, leaves)| leaves))
    }

    fn read_leaves(&self, number: u64) -> Result<Vec<Digest>, StoreError> {
        let before = number.saturating_mul(SEGMENT_ENTRIES);
        let last = before.saturating_add(SEGMENT_ENTRIES).min(self.size);
        // The newest part that begins before it: each is continued by the next.
        let part = self.parts.iter().rev().find(|part| part.origin.base <= before);
        let journal = self.parts.last().map(|journal| journal.path.clone()).unwrap_or_default();
        let seq = before.saturating_add(1);
        let part = part.ok_or(StoreError::Archived { path: journal, seq })?;
        let (mut leaves, mut wanted) = (Vec::new(), seq);
        let mut previous = None;
        let mut frontier = Frontier::starting_at(before);
        part.raw((seq, last), &mut |kept| {
            let leaf = kept.proven_leaf().map_err(|error| part.broken(&error))?;
            if kept.seq != wanted || previous.is_some_and(|hash| hash != kept.previous) {
                return Err(part.damaged(&format!("entry {wanted} is missing, or was changed")));
            }
            (previous, wanted) = (Some(kept.hash), wanted.saturating_add(1));
            frontier.append(leaf);
            leaves.push(leaf);
            Ok(())
        })?;
        if wanted.checked_sub(1) != Some(last) {
            return Err(part.damaged(&format!("entry {wanted} is missing")));
        }
        let is_full = last.saturating_sub(before) == SEGMENT_ENTRIES;
        match self.runs.get(&number) {
            Some(root) if is_full && frontier.whole() != Some(*root) => Err(part.damaged(
                &format!("the tree of the entries from {seq} to {last} is another than was kept"),
            )),
            _ => Ok(leaves),
        }
    }
}

impl Subtrees for Tree<'_> {
    type Error = StoreError;

    fn hash_of(&mut self, subtree: Subtree) -> Result<Digest, StoreError> {
        let end = subtree.end();
        if end > self.size {
            return Err(TreeError::Outside { leaf: end.saturating_sub(1), size: self.size }.into());
        }
        match (subtree.level.cmp(&SEGMENT_LEVEL), subtree.halves()) {
            (std::cmp::Ordering::Equal, _) => self.run(subtree.index),
            (std::cmp::Ordering::Greater, Some((left, right))) => {
                Ok(tree::node(self.hash_of(left)?, self.hash_of(right)?))
            }
            _ => self.of_leaves(subtree),
        }
    }
}
