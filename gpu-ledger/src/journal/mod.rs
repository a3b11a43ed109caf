//! The journal: what was booked, once and for ever.
//!
//! Purpose: numbered, hash-chained entries, and the database that keeps them. May touch: the state
//! directory, in `store/` alone. May not: read a source, change or delete an entry, acknowledge
//! what is not on the disk.
//! Invariants: numbers have no holes; an entry's hash covers its number, the hash before it, its
//! figures and the digest of its evidence; a settlement key is booked once; every settlement carries
//! what was ever booked of its GPU; a correction is a new entry that names the old one.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod canon;
pub mod chain;
pub mod commitment;
pub mod draft;
pub mod entry;
pub mod form;
mod forms;
pub mod keeping;
pub mod note;
pub mod store;
#[cfg(test)]
mod tests;
pub mod tree;

pub use chain::{ChainError, Head, Recovered};
pub use commitment::CommitmentKey;
pub use entry::{BootId, Draft, Entry, Evidence, Figures, Moment};

use std::fmt;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// What stands before the first entry.
    pub const NONE: Self = Self([0; 32]);

    /// Of 64 hex digits, as it is printed.
    #[must_use]
    pub fn of_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64
            || digits.iter().any(|digit| !matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
