//! The Merkle tree over the entries. Pure.
//!
//! Entry `seq` is leaf `seq - 1` of the tree of RFC 6962 and RFC 9162, section 2.1: a leaf is SHA-256 of 0x00 and the
//! bytes that the entry's own hash is over ([`super::chain::Kept::leaf`]), a node that of 0x01 and its two children.
//! A perfect subtree whose leaves begin at a multiple of their number never changes once it is full, so
//! every hash that is asked for here is made of those.

use sha2::{Digest as _, Sha256};

use super::Digest;

/// What is hashed before a leaf (RFC 6962, 2.1).
pub(super) const LEAF: u8 = 0;
/// What is hashed before two children (RFC 6962, 2.1).
const NODE: u8 = 1;

/// Hashes of a compact range at most, and of an inclusion proof: a tree has fewer than 2^64 leaves.
pub const HASHES_MAX: usize = 128;

/// Why hashes prove nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TreeError {
    /// The tree is not so large.
    #[error("leaf {leaf} is not in a tree of {size}")]
    Outside {
        /// What was asked of.
        leaf: u64,
        /// Leaves of the tree.
        size: u64,
    },
    /// A subtree that does not continue what is there.
    #[error("a subtree of 2^{level} leaves cannot begin at leaf {leaf}")]
    Misaligned {
        /// Where it would begin.
        leaf: u64,
        /// Its height.
        level: u32,
    },
    /// A proof or a range has too few or too many hashes.
    #[error("the number of hashes is not that of such a proof")]
    Length,
    /// The hashes come out at another root.
    #[error("the hashes come out at another root: {found} and not {wanted}")]
    Root {
        /// What they come out at.
        found: Digest,
        /// What they must.
        wanted: Digest,
    },
}

/// The hash of a leaf of these bytes.
#[must_use]
pub fn leaf(bytes: &[u8]) -> Digest {
    Digest(Sha256::new().chain_update([LEAF]).chain_update(bytes).finalize().into())
}

/// The hash of a node with these children.
#[must_use]
pub fn node(left: Digest, right: Digest) -> Digest {
    let hash = Sha256::new().chain_update([NODE]).chain_update(left.0).chain_update(right.0);
    Digest(hash.finalize().into())
}

/// The root of the tree without a leaf.
#[must_use]
pub fn empty() -> Digest {
    Digest(Sha256::digest([]).into())
}

/// A perfect subtree whose leaves begin at a multiple of their number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subtree {
    /// Its height: it has 2^level leaves.
    pub level: u32,
    /// How many subtrees of this height stand left of it.
    pub index: u64,
}

impl Subtree {
    /// Its first leaf.
    #[must_use]
    pub fn begin(self) -> u64 {
        self.index.checked_shl(self.level).unwrap_or(0)
    }

    /// The leaf after its last; 2^64 has no number, and no tree is that large.
    #[must_use]
    pub fn end(self) -> u64 {
        self.begin().saturating_add(leaves(self.level))
    }

    /// Its left and its right half; `None` of a leaf.
    #[must_use]
    pub fn halves(self) -> Option<(Self, Self)> {
        let level = self.level.checked_sub(1)?;
        let index = self.index.saturating_mul(2);
        Some((Self { level, index }, Self { level, index: index.saturating_add(1) }))
    }
}

/// Leaves of a subtree of this height.
fn leaves(level: u32) -> u64 {
    1_u64.checked_shl(level).unwrap_or(u64::MAX)
}

/// The largest subtrees that the leaves from `begin` to before `end` consist of, left to right.
pub fn subtrees(begin: u64, end: u64) -> impl Iterator<Item = Subtree> {
    let mut at = begin;
    std::iter::from_fn(move || {
        let fits = end.checked_sub(at)?.checked_ilog2()?;
        let level = fits.min(at.trailing_zeros());
        let subtree = Subtree { level, index: at.checked_shr(level).unwrap_or(0) };
        at = subtree.end();
        Some(subtree)
    })
}

/// The hashes of the largest subtrees of neighbouring leaves: what a tree must know of them to go on. From leaf 0
/// on its root is known too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frontier {
    begin: u64,
    end: u64,
    /// Left to right, with their heights.
    hashes: Vec<(u32, Digest)>,
}

impl Frontier {
    /// Of no leaf yet, the next one being this.
    #[must_use]
    pub const fn starting_at(begin: u64) -> Self {
        Self { begin, end: begin, hashes: Vec::new() }
    }

    /// Of the leaves from `begin` to before `end`, with the hashes of [`subtrees`] in that order.
    ///
    /// # Errors
    /// [`TreeError::Length`] where they are not as many, [`TreeError::Outside`] where it ends before it begins.
    pub fn of(begin: u64, end: u64, hashes: &[Digest]) -> Result<Self, TreeError> {
        let mut frontier = Self::starting_at(begin);
        frontier.append_range(end, hashes)?;
        Ok(frontier)
    }

    /// The first leaf.
    #[must_use]
    pub const fn begin(&self) -> u64 {
        self.begin
    }

    /// The leaf after the last: of a tree, its size.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// The hashes, left to right.
    pub fn hashes(&self) -> impl Iterator<Item = Digest> {
        self.hashes.iter().map(|(_, hash)| *hash)
    }

    /// Adds the next leaf, by its hash.
    pub fn append(&mut self, leaf: Digest) {
        self.push(0, leaf);
    }

    /// Adds the subtree of the next 2^level leaves.
    ///
    /// # Errors
    /// [`TreeError::Misaligned`] where none can begin there; nothing is changed then.
    pub fn append_subtree(&mut self, level: u32, hash: Digest) -> Result<(), TreeError> {
        if level >= u64::BITS || self.end.trailing_zeros() < level {
            return Err(TreeError::Misaligned { leaf: self.end, level });
        }
        self.push(level, hash);
        Ok(())
    }

    /// Adds the leaves to before `end`, with the hashes of their [`subtrees`].
    ///
    /// # Errors
    /// [`TreeError::Length`] and [`TreeError::Outside`]; nothing is changed then.
    pub fn append_range(&mut self, end: u64, hashes: &[Digest]) -> Result<(), TreeError> {
        if end < self.end {
            return Err(TreeError::Outside { leaf: self.end, size: end });
        }
        if subtrees(self.end, end).count() != hashes.len() {
            return Err(TreeError::Length);
        }
        for (subtree, hash) in subtrees(self.end, end).zip(hashes) {
            self.push(subtree.level, *hash);
        }
        Ok(())
    }

    fn push(&mut self, mut level: u32, mut hash: Digest) {
        let mut index = self.end.checked_shr(level).unwrap_or(0);
        self.end = self.end.saturating_add(leaves(level));
        // A right half whose left one is here is one with it.
        while index % 2 == 1
            && let Some((_, left)) = self.hashes.pop_if(|(height, _)| *height == level)
        {
            hash = node(left, hash);
            (level, index) = (level.saturating_add(1), index / 2);
        }
        self.hashes.push((level, hash));
    }

    /// The root of the tree; `None` where it does not begin at leaf 0.
    #[must_use]
    pub fn root(&self) -> Option<Digest> {
        (self.begin == 0).then(|| self.folded().unwrap_or_else(empty))
    }

    /// The hash of its one subtree; `None` where it consists of more, or of none.
    #[must_use]
    pub fn whole(&self) -> Option<Digest> {
        match self.hashes.as_slice() {
            [(_, hash)] => Some(*hash),
            _ => None,
        }
    }

    /// Its hashes as one: that of a node of the tree where the tree has one of these leaves.
    fn folded(&self) -> Option<Digest> {
        self.hashes().collect::<Vec<_>>().into_iter().rev().reduce(|right, left| node(left, right))
    }
}

/// Who knows the hashes of full subtrees.
pub trait Subtrees {
    /// Why one cannot be had, and why a proof cannot.
    type Error: From<TreeError>;

    /// The hash of a subtree that is full.
    ///
    /// # Errors
    /// Of whoever keeps them.
    fn hash_of(&mut self, subtree: Subtree) -> Result<Digest, Self::Error>;
}

/// What the tree knows of the leaves from `begin` to before `end`.
///
/// # Errors
/// Those of `tree`.
pub fn range<S: Subtrees>(tree: &mut S, begin: u64, end: u64) -> Result<Frontier, S::Error> {
    let mut frontier = Frontier::starting_at(begin);
    for subtree in subtrees(begin, end) {
        let hash = tree.hash_of(subtree)?;
        frontier.push(subtree.level, hash);
    }
    Ok(frontier)
}

/// The hash of the node of these leaves.
fn node_of<S: Subtrees>(tree: &mut S, begin: u64, end: u64) -> Result<Digest, S::Error> {
    Ok(range(tree, begin, end)?.folded().unwrap_or_else(empty))
}

/// Where a tree of more than one leaf is split: the largest power of two below its size.
fn split(size: u64) -> u64 {
    leaves(size.saturating_sub(1).checked_ilog2().unwrap_or(0))
}

/// The proof that a leaf is in the tree of `size` leaves (RFC 9162, 2.1.3.1), from the leaf upwards.
///
/// # Errors
/// Those of `tree`; [`TreeError::Outside`].
pub fn inclusion<S: Subtrees>(tree: &mut S, leaf: u64, size: u64) -> Result<Vec<Digest>, S::Error> {
    if leaf >= size {
        return Err(TreeError::Outside { leaf, size }.into());
    }
    let (mut begin, mut end) = (0, size);
    let mut path = Vec::new();
    while end.saturating_sub(begin) > 1 {
        let middle = split(end.saturating_sub(begin)).saturating_add(begin);
        if leaf < middle {
            path.push(node_of(tree, middle, end)?);
            end = middle;
        } else {
            path.push(node_of(tree, begin, middle)?);
            begin = middle;
        }
    }
    path.reverse();
    Ok(path)
}

/// Checks the proof that a leaf is in a tree (RFC 9162, 2.1.3.2).
///
/// # Errors
/// [`TreeError`] where it does not prove it.
pub fn check_inclusion(
    (leaf, hash): (u64, Digest),
    (size, root): (u64, Digest),
    path: &[Digest],
) -> Result<(), TreeError> {
    if leaf >= size {
        return Err(TreeError::Outside { leaf, size });
    }
    let mut climb = Climb { at: leaf, last: size.saturating_sub(1) };
    let mut found = hash;
    for beside in path {
        found = if climb.is_right_child()? { node(*beside, found) } else { node(found, *beside) };
        climb.up();
    }
    climb.is_at(found, root)
}

/// The proof that the tree of `from` leaves is the beginning of that of `to` (RFC 9162, 2.1.4.1).
///
/// # Errors
/// Those of `tree`; [`TreeError::Outside`] where the older tree is the larger one.
pub fn consistency<S: Subtrees>(tree: &mut S, from: u64, to: u64) -> Result<Vec<Digest>, S::Error> {
    if from > to {
        return Err(TreeError::Outside { leaf: from, size: to }.into());
    }
    let mut path = Vec::new();
    if from == 0 {
        return Ok(path);
    }
    let (mut begin, mut end) = (0, to);
    while end > from {
        let middle = split(end.saturating_sub(begin)).saturating_add(begin);
        if from <= middle {
            path.push(node_of(tree, middle, end)?);
            end = middle;
        } else {
            path.push(node_of(tree, begin, middle)?);
            begin = middle;
        }
    }
    // Of the older tree as a whole its root is known to whoever checks.
    if begin > 0 {
        path.push(node_of(tree, begin, end)?);
    }
    path.reverse();
    Ok(path)
}

/// Checks the proof that a tree is the beginning of another (RFC 9162, 2.1.4.2). Every tree continues the empty one,
/// and itself.
///
/// # Errors
/// [`TreeError`] where it does not prove it.
pub fn check_consistency(
    (from, old): (u64, Digest),
    (to, new): (u64, Digest),
    path: &[Digest],
) -> Result<(), TreeError> {
    if from > to {
        return Err(TreeError::Outside { leaf: from, size: to });
    }
    if from == 0 || from == to {
        let wanted = if from == 0 { empty() } else { new };
        return match (path, old == wanted) {
            ([], true) => Ok(()),
            ([], false) => Err(TreeError::Root { found: old, wanted }),
            _ => Err(TreeError::Length),
        };
    }
    let mut climb = Climb { at: from.saturating_sub(1), last: to.saturating_sub(1) };
    while climb.at % 2 == 1 {
        climb.up();
    }
    // A perfect older tree is itself the subtree that the proof starts from.
    let (start, rest) = match path.split_first() {
        _ if from.is_power_of_two() => (old, path),
        Some((start, rest)) => (*start, rest),
        None => return Err(TreeError::Length),
    };
    if rest.is_empty() {
        return Err(TreeError::Length);
    }
    let (mut found_old, mut found_new) = (start, start);
    for beside in rest {
        if climb.is_right_child()? {
            found_old = node(*beside, found_old);
            found_new = node(*beside, found_new);
        } else {
            found_new = node(found_new, *beside);
        }
        climb.up();
    }
    if found_old != old {
        return Err(TreeError::Root { found: found_old, wanted: old });
    }
    climb.is_at(found_new, new)
}

/// A way from a leaf to the root, beside that of the last leaf (`fn` and `sn` of RFC 9162).
struct Climb {
    at: u64,
    last: u64,
}

impl Climb {
    /// Whether the next hash stands on the left. The last node of its row goes up unpaired until it is a right child.
    fn is_right_child(&mut self) -> Result<bool, TreeError> {
        if self.last == 0 {
            return Err(TreeError::Length);
        }
        let is_right = self.at % 2 == 1 || self.at == self.last;
        while is_right && self.at.is_multiple_of(2) && self.at > 0 {
            self.up();
        }
        Ok(is_right)
    }

    const fn up(&mut self) {
        (self.at, self.last) = (self.at / 2, self.last / 2);
    }

    fn is_at(&self, found: Digest, wanted: Digest) -> Result<(), TreeError> {
        match (self.last, found == wanted) {
            (0, true) => Ok(()),
            (0, false) => Err(TreeError::Root { found, wanted }),
            _ => Err(TreeError::Length),
        }
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
