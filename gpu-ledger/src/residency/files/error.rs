//! What can go wrong with a batch's files.

use std::io;
use std::path::{Path, PathBuf};

/// Why a batch could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The system said no.
    #[error("cannot {doing} {path}: {cause}{}", remedy(cause), path = path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Rows are missing, and are counted.
    #[error("{path}: {rows} rows could not be written: the batch is void (incomplete); free space there, and record again", path = path.display())]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// How many so far.
        rows: u64,
    },
    /// A batch is never written over another.
    #[error("{path}: there is a batch of this name; a batch's id is used once: record again", path = path.display())]
    Exists {
        /// Its folder.
        path: PathBuf,
    },
    /// A row is not what it must be.
    #[error("{path}:{line}: {why}", path = path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, counted from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A document is not what it must be.
    #[error("{path}: {why}", path = path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A link, a folder or a device stands where a file must.
    #[error("{path}: this is no regular file; a batch holds its files itself", path = path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Nothing was recorded there.
    #[error("{path}: no batch lies here: give the folder that holds a manifest.json, or one that holds such folders", path = path.display())]
    NoBatch {
        /// The folder.
        path: PathBuf,
    },
    /// A batch has an end.
    #[error("{path}: this batch is closed; a phase is marked while it is recorded", path = path.display())]
    Closed {
        /// Its folder.
        path: PathBuf,
    },
    /// More windows than a batch has folders for.
    #[error("{path}: a batch holds the iterations that it was opened for, at most 9999; begin another batch", path = path.display())]
    TooManyIterations {
        /// Its folder.
        path: PathBuf,
    },
    /// The last row must say how the window ended.
    #[error("{path}: an iteration ends with an event that says how", path = path.display())]
    NoEnd {
        /// The file of events.
        path: PathBuf,
    },
}

impl FilesError {
    /// For `map_err`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { doing, path: path.to_path_buf(), cause }
    }

    /// A document that says something wrong.
    pub(super) fn document(path: &Path, why: &(impl ToString + ?Sized)) -> Self {
        Self::Document { path: path.to_path_buf(), why: why.to_string() }
    }

    /// Whether there is no such file.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }

    /// Whether there was no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { cause, .. } => is_full(cause),
            Self::NotWritten { .. } => true,
            _ => false,
        }
    }
}

fn is_full(source: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn remedy(source: &io::Error) -> &'static str {
    if is_full(source) { "; free space there, and record again" } else { "" }
}
