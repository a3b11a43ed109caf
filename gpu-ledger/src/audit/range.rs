//! `range.json`: what is known of the tree beside the range, and the sums that the range begins with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::BundleError;
use super::layout::{RANGE, RANGE_FORMAT, VERSION};
use super::manifest::{Manifest, OTHERWISE, of_version, same_again};
use crate::journal::Digest;
use crate::journal::tree::subtrees;
use crate::settlement::Balance;
use crate::unit::GpuUuid;

/// What stands beside the range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// First entry, last entry, and the last that the checkpoint covers.
    pub of: (u64, u64, u64),
    /// Hashes of the largest subtrees of the leaves before the range, left to right.
    pub left: Vec<Digest>,
    /// Of those after it.
    pub right: Vec<Digest>,
    /// What was ever booked before it, by GPU.
    pub booked: BTreeMap<GpuUuid, Balance>,
    /// Open entries before it that neither settled nor ended before it, ascending.
    pub unresolved: Vec<u64>,
    /// Proofs that an older tree is the beginning of this one.
    pub consistency: Vec<Consistency>,
}

/// The proof that the tree of one size is the beginning of that of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Consistency {
    /// The older size.
    pub from: u64,
    /// The size of the checkpoint.
    pub to: u64,
    /// The proof.
    pub hashes: Vec<Digest>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeText {
    format: String,
    version: u32,
    first: u64,
    last: u64,
    size: u64,
    left: Vec<String>,
    right: Vec<String>,
    opening: OpeningText,
    consistency: Vec<ConsistencyText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpeningText {
    booked: Vec<BookedText>,
    unresolved: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BookedText {
    gpu: String,
    count: u64,
    held_ms: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConsistencyText {
    from: u64,
    to: u64,
    hashes: Vec<String>,
}

fn text_of(text: &RangeText) -> serde_json::Result<String> {
    Ok(format!("{}\n", serde_json::to_string(text)?))
}

fn printed(hashes: &[Digest]) -> Vec<String> {
    hashes.iter().map(ToString::to_string).collect()
}

fn read(hashes: &[String]) -> Result<Vec<Digest>, BundleError> {
    let read = hashes.iter().map(|hash| Digest::of_hex(hash));
    read.collect::<Option<_>>().ok_or_else(|| BundleError::wrong(RANGE, OTHERWISE))
}

impl Range {
    /// As it is written, one line.
    ///
    /// # Errors
    /// Where it cannot be written as JSON, which it can.
    pub fn text(&self) -> serde_json::Result<String> {
        let (first, last, size) = self.of;
        let booked = self.booked.iter().map(|(gpu, balance)| BookedText {
            gpu: gpu.to_string(),
            count: balance.count,
            held_ms: balance.held_ms.to_string(),
        });
        let consistency = self.consistency.iter().map(|one| ConsistencyText {
            from: one.from,
            to: one.to,
            hashes: printed(&one.hashes),
        });
        let opening = OpeningText { booked: booked.collect(), unresolved: self.unresolved.clone() };
        text_of(&RangeText {
            format: RANGE_FORMAT.to_owned(),
            version: VERSION,
            first,
            last,
            size,
            left: printed(&self.left),
            right: printed(&self.right),
            opening,
            consistency: consistency.collect(),
        })
    }

    /// Reads that of a bundle with this manifest: every number, order and count is right, and the text is the one that it
    /// would be written as. That the hashes are those of the tree is not looked at.
    ///
    /// # Errors
    /// [`BundleError::Wrong`] and [`BundleError::Version`].
    pub fn parse(bytes: &[u8], manifest: &Manifest) -> Result<Self, BundleError> {
        let wrong = |what: &str| BundleError::wrong(RANGE, what);
        of_version(bytes, RANGE, RANGE_FORMAT)?;
        let text: RangeText = same_again(bytes, RANGE, text_of)?;
        let RangeText { first, last, size, opening, .. } = text;
        if (first, last, size) != (manifest.first, manifest.last, manifest.size) {
            return Err(wrong("is of another range than the manifest says"));
        }
        let mut booked = BTreeMap::new();
        for one in opening.booked {
            let held_ms = one.held_ms.parse().map_err(|_| wrong(OTHERWISE))?;
            let is_plain = one.held_ms == u128::to_string(&held_ms);
            let gpu = GpuUuid(one.gpu.into());
            let is_next = booked.last_key_value().is_none_or(|(last, _)| *last < gpu);
            if !is_plain || !is_next {
                return Err(wrong(OTHERWISE));
            }
            booked.insert(gpu, Balance { count: one.count, held_ms });
        }
        let consistency = text
            .consistency
            .iter()
            .map(|one| Ok(Consistency { from: one.from, to: one.to, hashes: read(&one.hashes)? }));
        let range = Self {
            of: (first, last, size),
            left: read(&text.left)?,
            right: read(&text.right)?,
            booked,
            unresolved: opening.unresolved,
            consistency: consistency.collect::<Result<_, BundleError>>()?,
        };
        let before = first.saturating_sub(1);
        if subtrees(0, before).count() != range.left.len()
            || subtrees(last, size).count() != range.right.len()
        {
            return Err(wrong("has not as many hashes as the range needs"));
        }
        let is_before = range.unresolved.iter().all(|seq| (1..first).contains(seq));
        if !is_before || !range.unresolved.is_sorted_by(|a, b| a < b) {
            return Err(wrong("has an opening that is not of entries before the range"));
        }
        Ok(range)
    }
}
