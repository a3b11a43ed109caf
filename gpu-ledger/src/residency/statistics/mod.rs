//! What a valid curve says in numbers, and how sure one may be of them.
//!
//! ```text
//! points ─► window ─► statistics of one iteration ─► measure ─► bootstrap
//!            per phase, per process                  one number   over iterations
//! ```
//!
//! Purpose: everything a reader cites of a batch, and nothing of a void one: whoever folds must show a
//! [`Sound`]. Sums and times are exact integers; floats stand where a number is an estimate.
//! May touch: nothing. May not: fill a gap, count what was not read as nothing, give a mean without its n.
//!
//! # How a number comes about
//! What a sample showed holds from its landing until that of the next, but never past the moment at which it is as
//! old as the cap. What is left is *missing* time: it is in no mean and no percentile, and it is told.

pub mod bootstrap;
mod bounds;
pub mod fixed;
mod histogram;
pub mod measure;
pub mod normal;
pub mod people;
pub mod phases;
pub mod series;
pub mod window;

#[cfg(test)]
pub(in crate::residency) mod tests;

use super::verdict::{Verdict, Void};

/// Proof that a batch's data are valid. Only a verdict gives it, and without it nothing is computed.
///
/// The verdict is that of the whole **batch**: one iteration in it that is void by itself makes all void.
#[derive(Clone, Copy, Debug)]
pub struct Sound(());

/// A batch whose data are void: no number is made of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the batch is void ({}): no statistics are computed from it; record it again, or look at the \
         curve alone with `residency plot --show-void`",
    reasons(.0)
)]
pub struct VoidBatch(pub Vec<Void>);

impl Sound {
    /// The proof, where the verdict of a batch gives one.
    pub fn of_batch(verdict: &Verdict) -> Result<Self, VoidBatch> {
        if verdict.data.is_empty() { Ok(Self(())) } else { Err(VoidBatch(verdict.data.clone())) }
    }
}

/// `age_over_cap 3 (first at point 17), points_missing 3`.
#[must_use]
pub fn reasons(voids: &[Void]) -> String {
    let said = |void: &Void| {
        let first = void.first_point.map(|point| format!(" (first at point {point})"));
        format!("{} {}{}", void.reason, void.count, first.unwrap_or_default())
    };
    voids.iter().map(said).collect::<Vec<_>>().join(", ")
}
