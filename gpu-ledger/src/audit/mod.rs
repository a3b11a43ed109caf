//! The bundle that a bill can be checked with by whoever has nothing else.
//!
//! ```text
//! journal ─► select (which entries) ─► bundle (files, signed) ─► read ─► ending + bill (the same bill again)
//! ```
//! Purpose: everything that a bill of a period is made of, in plain files whose every byte is under the root of a signed
//! checkpoint. May touch: the journal's files for reading, the folder that is made, a bundle's folder for reading.
//! May not: put anything into a bundle that comes from the clock rather than from an entry, follow a link, or hold what
//! grows with the period, the bill's ledger aside.
//! Invariants: the same journal, period and checkpoint give the same bytes; the bill in a bundle is made of the entries in
//! it and of nothing else.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod bill;
pub mod bundle;
pub mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod layout;
pub mod line;
#[cfg(test)]
pub(crate) mod made;
pub mod manifest;
pub mod prove;
pub mod range;
pub mod read;
pub mod replay;
pub mod select;
#[cfg(test)]
mod tests;
pub mod verify;

pub use error::BundleError;
pub use read::{Bundle, BundleEntry, Place};
