//! What the store refuses, and what the disk does to it.

use std::path::PathBuf;

use crate::escape::printable;
use crate::journal::ChainError;
use crate::journal::canon::CanonError;
use crate::journal::note::NoteError;
use crate::journal::tree::TreeError;

/// Why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is none.
    #[error("{} has no journal (ledger.db); name another directory with --state-dir, or start the \
             daemon once", path.display())]
    Missing {
        /// In which directory.
        path: PathBuf,
    },
    /// Another process writes it.
    #[error("{} is written by {}; there is one daemon a journal: stop that one first \
             (`systemctl stop gpu-ledger`)", path.display(),
            holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    Held {
        /// The directory.
        path: PathBuf,
        /// The pid that it left in the lock file, where it did.
        holder: Option<u32>,
    },
    /// A file system whose locks do not keep a second writer of another host out.
    #[error("{} lies on {kind}, where a second writer on another host is not kept out; keep the \
             journal on a local disk", path.display())]
    Network {
        /// The directory.
        path: PathBuf,
        /// Which file system.
        kind: &'static str,
    },
    /// Others could replace the journal.
    #[error("{} can be written by other users (mode {mode:o}); chmod go-w it, or name another \
             directory", path.display())]
    Writable {
        /// Which directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file or directory of ours is another user's, no regular file, or has several names.
    #[error("{} is not ours to use: {what}", path.display())]
    Strange {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// No journal of this product. It was left as it is.
    #[error("{} is not a journal of gpu-ledger: {what}; it was left as it is, move it away to begin \
             a new journal", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// A newer version made it.
    #[error("{} has schema version {found}, this gpu-ledger knows {known}; use the newer gpu-ledger \
             that wrote it", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest one known here.
        known: u32,
    },
    /// Entries that were acknowledged are not there any more.
    #[error("{} ends with entry {found}, but entry {witnessed} was acknowledged: the database or its \
             -wal file was truncated, removed or replaced by an older copy; restore it, or move \
             ledger.head away to go on from entry {found}", path.display())]
    LostEntries {
        /// Which file.
        path: PathBuf,
        /// Last entry found.
        found: u64,
        /// Last entry that was acknowledged.
        witnessed: u64,
    },
    /// Somebody took a file of the open journal away: what is entered from here on is nobody's.
    #[error("{} was moved away, removed or replaced under the daemon, and nothing more is entered; put \
             it back before the daemon is started again, else it goes on with what stands there now",
            path.display())]
    Removed {
        /// Which file.
        path: PathBuf,
    },
    /// The database contradicts itself.
    #[error("{} is damaged: {}; keep it as it is, see `gpu-ledger journal check`, and restore a \
             copy", path.display(), printable(what.as_bytes()))]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong. SQLite quotes what stands in the file, which anybody may have written.
        what: String,
    },
    /// What is entered, or what was read back, contradicts the chain.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// What is entered has no canonical bytes.
    #[error(transparent)]
    Canon(#[from] CanonError),
    /// The disk is full. Nothing was written, and it can be tried again.
    #[error("no space left for {}; nothing of this was entered, free some and it goes on", path.display())]
    Full {
        /// Which file.
        path: PathBuf,
    },
    /// Somebody else holds the database. Nothing was written, and it can be tried again.
    #[error("{} is held by another program for too long; close what has it open", path.display())]
    Busy {
        /// Which file.
        path: PathBuf,
    },
    /// An earlier error left it open what is on the disk.
    #[error("{} must be opened again: {}", path.display(), printable(cause.as_bytes()))]
    Poisoned {
        /// Which file.
        path: PathBuf,
        /// The error that did it.
        cause: String,
    },
    /// SQLite failed.
    #[error("{}: {}", path.display(), printable(cause.to_string().as_bytes()))]
    Database {
        /// Which file.
        path: PathBuf,
        /// How. Said in the text, and so no source: whoever prints both would say it twice.
        cause: rusqlite::Error,
    },
    /// A system call failed.
    #[error("cannot {doing} {}: {cause}", path.display())]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not; likewise.
        cause: std::io::Error,
    },
    /// It has no such entry, so that it never ended with it.
    #[error("{} has entries {first} to {last} and no entry {asked}; give --head one of those{}", path.display(),
            if *first > 1 { ", or put the archives that it continues beside it" } else { "" })]
    NoSuchHead {
        /// Which file.
        path: PathBuf,
        /// The number that was asked for.
        asked: u64,
        /// Number of its first entry.
        first: u64,
        /// Number of its last one.
        last: u64,
    },
    /// Not all of the entries that the tree is made of are here.
    #[error("the tree of the journal is unknown: entries {first} to {last} were archived by an older version, and no \
             archive beside {} has them; put it there and start the daemon again", path.display())]
    TreeUnknown {
        /// The journal.
        path: PathBuf,
        /// The first entry that is missing.
        first: u64,
        /// The last one of its run.
        last: u64,
    },
    /// Entries that a proof needs were archived and are not here.
    #[error("entry {seq} was archived, and no archive beside {} has it; put it there again", path.display())]
    Archived {
        /// The journal.
        path: PathBuf,
        /// Its number.
        seq: u64,
    },
    /// The tree has no such proof, or one proves nothing.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The journal does not continue what was signed.
    #[error("{} has a tree of {size} entries that does not continue the checkpoint of {signed} entries that was signed \
             for it ({cause}): entries were changed or taken away since, and nothing more is signed; see `gpu-ledger \
             journal check`, and restore the journal that was signed", path.display())]
    Inconsistent {
        /// The directory.
        path: PathBuf,
        /// Entries of the checkpoint that was signed last.
        signed: u64,
        /// Entries that there are.
        size: u64,
        /// What does not come out.
        cause: TreeError,
    },
    /// The key is not the one that signs.
    #[error("nothing can be signed with {}: {what}; put the key back that signed so far, or, where it is lost: gpu-ledger \
             journal rotate-key --lost", path.display())]
    Key {
        /// The key's file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// No such note can be.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// Nothing can be archived.
    #[error("nothing to archive: {why}")]
    NothingToArchive {
        /// Why.
        why: String,
    },
}

impl StoreError {
    /// Whether the same call can succeed later, on the same open store.
    #[must_use]
    pub const fn can_be_retried(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Busy { .. } | Self::Chain(_) | Self::Canon(_))
    }

    /// Whether a file of the database could not be opened.
    pub(super) fn is_unopened(&self) -> bool {
        let code = match self {
            Self::Database { cause, .. } => cause.sqlite_error_code(),
            _ => None,
        };
        code == Some(rusqlite::ErrorCode::CannotOpen)
    }

    /// Whether all that is missing is the permission to look.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if cause.kind() == std::io::ErrorKind::PermissionDenied)
    }
}
