//! A file that rows are appended to: buffered, and never short of a row without saying so.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::error::FilesError;

/// Rows are gathered up to here.
const BUFFER_BYTES: usize = 64 << 10;

/// Rows that are being written.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    buffered: u64,
    /// Bytes of whole rows in the file.
    whole_bytes: u64,
    lost: u64,
    has_failed: bool,
}

impl Log {
    pub(super) fn create(path: &Path) -> Result<Self, FilesError> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        Ok(Self {
            path: path.to_path_buf(),
            file: file.map_err(FilesError::io("write", path))?,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            buffered: 0,
            whole_bytes: 0,
            lost: 0,
            has_failed: false,
        })
    }

    /// Rows that are not in the file, and will not be.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Appends a row, which ends with the end of a line. After a failure none is taken any more, so that
    /// there is no hole: each is counted.
    pub(super) fn push(&mut self, row: &[u8]) -> Result<(), FilesError> {
        if self.has_failed {
            self.lost = self.lost.saturating_add(1);
            return Err(self.not_written());
        }
        self.buffer.extend_from_slice(row);
        self.buffered = self.buffered.saturating_add(1);
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Hands what was gathered to the system.
    pub(super) fn flush(&mut self) -> Result<(), FilesError> {
        if self.has_failed {
            return Err(self.not_written());
        }
        let (written, failure) = self.write();
        let bytes = self.buffer.get(..written).unwrap_or_default();
        let whole =
            bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at.saturating_add(1));
        let rows = bytes.split(|byte| *byte == b'\n').count().saturating_sub(1);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        self.whole_bytes = self.whole_bytes.saturating_add(count(whole));
        let left = self.buffered.saturating_sub(count(rows));
        self.buffer.clear();
        self.buffered = 0;
        let Some(source) = failure else { return Ok(()) };
        self.has_failed = true;
        self.lost = self.lost.saturating_add(left);
        // Half a row would make the rows after it unreadable.
        let cut = self.file.set_len(self.whole_bytes);
        cut.map_err(FilesError::io("shorten", &self.path))?;
        Err(FilesError::io("write", &self.path)(source))
    }

    /// How many bytes were taken, and what went wrong then.
    fn write(&mut self) -> (usize, Option<io::Error>) {
        let mut written: usize = 0;
        while let Some(rest) = self.buffer.get(written..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Ok(count) => written = written.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, None)
    }

    /// Writes the row that says how it ended, also where others could not be written; then all of it is
    /// on the disk.
    pub(super) fn close(&mut self, last: Option<&[u8]>) -> Result<(), FilesError> {
        if let Some(last) = last {
            self.has_failed = false;
            self.buffer.extend_from_slice(last);
            self.buffered = self.buffered.saturating_add(1);
        }
        let flushed = if self.has_failed { Ok(()) } else { self.flush() };
        flushed.and(self.file.sync_all().map_err(FilesError::io("write", &self.path)))
    }

    fn not_written(&self) -> FilesError {
        FilesError::NotWritten { path: self.path.clone(), rows: self.lost }
    }
}
