//! Proves a bundle, from nothing but its files.
//!
//! ```text
//! names ─► manifest ─► key ─► signature ─► every file's bytes ─► checkpoint, range, form of entries
//!      ─► entries beside the range, each with its path ─► the range, leaf by leaf ─► root ─► keys ─► witness
//! ```
//! Purpose: whoever is billed can check the bill without us: `assets/verify.py` says the same, byte for byte, on
//! every input, and a test holds the two against each other. May touch: the bundle, for reading. May not: use any
//! arithmetic of [`crate`]`::bill` or of a state directory, or believe anything that is not proven.
//! Memory: a few blocks of lines, and 24 bytes a settlement.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod books;
mod folder;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod keys;
mod line;
mod period;
mod proof;
mod read;
mod stream;
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the program of the bundle is the other implementation"
)]
mod tests;
pub mod unknown;
mod verdict;
mod whole;

pub use folder::{Files, Folder};
pub use period::Moment;
pub(super) use proof::ProofHead;
pub use verdict::{
    Completeness, CompletenessWord, Fault, Freshness, GapTold, Integrity, IntegrityWord,
    KeyVerdict, KeyWord, Of, Proven, Scope, UnknownTold, Verdict, Witness,
};

use std::borrow::Cow;
use std::io;
use std::path::Path;

use crate::journal::note::VerifyingKey;

/// Who is believed beside the bundle.
#[derive(Clone, Default, Debug)]
pub struct Known {
    /// A key of the journal.
    pub key: Option<VerifyingKey>,
    /// An older checkpoint, as its note.
    pub witness: Option<Vec<u8>>,
}

/// Proves a bundle's folder, or the file of one proven settlement.
#[must_use]
pub fn verify(path: &Path, known: &Known) -> Verdict {
    if path.is_file() {
        let bytes = std::fs::File::open(path).map_err(Wrong::from).and_then(folder::small);
        return proof::verify(bytes, known);
    }
    whole::verify(&Folder(path.to_owned()), known, None)
}

/// What is wrong with one thing: words that `assets/verify.py` has too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong(Cow<'static, str>);

impl From<&'static str> for Wrong {
    fn from(what: &'static str) -> Self {
        Self(Cow::Borrowed(what))
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self(Cow::Owned(what))
    }
}

impl From<io::Error> for Wrong {
    fn from(_: io::Error) -> Self {
        Self::from("cannot be read")
    }
}
