//! Phases: the moments that a workload names while it is recorded, in `marks.jsonl`.
//!
//! Appended by other processes than the recorder, each row in one write, so that rows of several never mix.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::unit::BootNs;

/// The file in a batch's folder.
pub const MARKS_FILE: &str = "marks.jsonl";
/// What tells a recorded command where its batches are, parted by colons.
pub const BATCHES_VARIABLE: &str = "GPU_LEDGER_RESIDENCY";
/// A name is a label of a plot.
pub const NAME_CHARACTERS_MAX: usize = 80;

/// One row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// When the phase begins, on `CLOCK_BOOTTIME`.
    pub at_ns: BootNs,
    /// What the user calls it.
    pub name: String,
}

/// A phase that cannot be marked.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// A name that no plot could show.
    #[error("a phase's name has 1 to {NAME_CHARACTERS_MAX} characters and no control characters")]
    Name,
    /// Not a batch that is being recorded.
    #[error("{path}: cannot mark a phase ({source}); give --batch a folder that `residency record` is \
             writing, as the user who records")]
    File {
        /// The marks' file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A batch that is finished.
    #[error("{path}: this batch is finished; a phase is marked while it is recorded")]
    Finished {
        /// The batch's folder.
        path: PathBuf,
    },
}

/// Marks that a phase begins now, in one batch.
pub fn mark(batch: &Path, at_ns: BootNs, name: &str) -> Result<(), MarkError> {
    let length = name.chars().count();
    if length == 0 || length > NAME_CHARACTERS_MAX || name.chars().any(char::is_control) {
        return Err(MarkError::Name);
    }
    if batch.join("summary.json").exists() {
        return Err(MarkError::Finished { path: batch.to_path_buf() });
    }
    let path = batch.join(MARKS_FILE);
    // Made by the recorder: without it this is no batch.
    let written = OpenOptions::new().append(true).open(&path).and_then(|mut file| {
        let mut row = serde_json::to_vec(&Mark { at_ns, name: name.to_owned() })?;
        row.push(b'\n');
        file.write_all(&row)
    });
    written.map_err(|source| MarkError::File { path, source })
}

#[cfg(test)]
mod tests {
    use super::{Mark, MarkError, mark};
    use crate::unit::BootNs;

    #[test]
    fn rows_are_appended_to_a_batch_that_is_being_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let batch = folder.path();
        assert!(matches!(mark(batch, BootNs(1), "load"), Err(MarkError::File { .. })));
        std::fs::write(batch.join("marks.jsonl"), "").unwrap();
        mark(batch, BootNs(1), "load").unwrap();
        mark(batch, BootNs(2), "burst \"2\"").unwrap();
        let text = std::fs::read_to_string(batch.join("marks.jsonl")).unwrap();
        let rows: Vec<Mark> =
            text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        assert_eq!(rows[1], Mark { at_ns: BootNs(2), name: "burst \"2\"".to_owned() });
        for wrong in ["", "a\nb", "\u{1b}[31m", &"x".repeat(81)] {
            assert!(matches!(mark(batch, BootNs(3), wrong), Err(MarkError::Name)), "{wrong:?}");
        }
        std::fs::write(batch.join("summary.json"), "{}").unwrap();
        assert!(matches!(mark(batch, BootNs(4), "late"), Err(MarkError::Finished { .. })));
    }
}
