//! Why a bundle cannot be read or made.

use std::io;
use std::path::Path;

use crate::escape::escape;
use crate::journal::ChainError;
use crate::journal::canon::CanonError;
use crate::journal::note::NoteError;
use crate::journal::store::StoreError;
use crate::journal::tree::TreeError;

/// Why a bundle cannot be read or made.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The system refused.
    #[error("cannot {doing} {path}: {cause}")]
    Io {
        /// What.
        doing: &'static str,
        /// Of what, safe to print.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// No bundle.
    #[error("{path} is not a bundle of gpu-ledger audit export: {what}")]
    Strange {
        /// What was named, safe to print.
        path: String,
        /// Why not.
        what: String,
    },
    /// A bundle of another version.
    #[error(
        "{path} is a bundle of version {version}, and this reads version 1; take the gpu-ledger that made it"
    )]
    Version {
        /// What was named, safe to print.
        path: String,
        /// Its version.
        version: u64,
    },
    /// One of its files is not what it must be: it was changed, or did not arrive whole.
    #[error(
        "{file} of the bundle {what}; it was changed or is not whole: have it sent again, or see gpu-ledger audit verify"
    )]
    Wrong {
        /// Which.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// There is something of that name.
    #[error("{path} exists; give --out a folder that does not")]
    Exists {
        /// Which, safe to print.
        path: String,
    },
    /// What another export left, or is making.
    #[error("{path} exists: another export makes it now, or was killed; remove it if none runs")]
    Partial {
        /// Which, safe to print.
        path: String,
    },
    /// Somebody asked it to stop.
    #[error("interrupted; nothing was left behind")]
    Interrupted,
    /// The journal has no entry.
    #[error("the journal is empty: there is nothing to export")]
    Empty,
    /// The journal does not have that entry.
    #[error(
        "--checkpoint {asked} is no entry of the journal, which has {last}; give a number from 1 to {last}"
    )]
    NoSuchCheckpoint {
        /// What was asked for.
        asked: u64,
        /// The last one.
        last: u64,
    },
    /// It was another key's to sign what is asked for.
    #[error(
        "at entry {size} the journal's key was {then}, which {now} has followed since: what is signed by today's key has \
         today's entry in it; leave --checkpoint out, or give a later one"
    )]
    OtherKey {
        /// The checkpoint.
        size: u64,
        /// The key in force there.
        then: String,
        /// The key that signs.
        now: String,
    },
    /// Entries that the tree needs are not here.
    #[error(
        "entries 1 to {last} were archived, and no archive beside the journal has them; put it back: without them no \
             proof can be made"
    )]
    Archived {
        /// The last that is missing.
        last: u64,
    },
    /// A zone that nobody else could find.
    #[error(
        "the time zone {0} has no name that another machine knows; give --utc, or set TZ to a zone such as Europe/Berlin"
    )]
    Zone(String),
    /// An older checkpoint that this journal does not continue.
    #[error("the witness {what}")]
    Witness {
        /// What is wrong.
        what: String,
    },
    /// The journal.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// An entry's bytes.
    #[error(transparent)]
    Canon(#[from] CanonError),
    /// The tree.
    #[error("the tree of the journal: {0}")]
    Tree(#[from] TreeError),
    /// A note or a key.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The bill.
    #[error(transparent)]
    Bill(#[from] crate::bill::BillError),
    /// What cannot be written as text or table, for no reason of the reader's.
    #[error("{0}")]
    Form(String),
}

impl BundleError {
    /// Whether something else has to be typed.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Exists { .. }
                | Self::NoSuchCheckpoint { .. }
                | Self::Witness { .. }
                | Self::Zone(_)
        )
    }

    /// Turns what the system says of a path into an error.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = shown(path);
        move |cause| Self::Io { doing, path: path.clone(), cause }
    }

    /// That a file is not what it must be.
    pub(super) fn wrong(file: &str, what: impl Into<String>) -> Self {
        Self::Wrong { file: file.to_owned(), what: what.into() }
    }
}

/// A path that is safe to print.
pub(super) fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes()).to_string()
}
