//! `marks.jsonl`: where a phase begins, told by other processes while the batch is recorded.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use super::error::FilesError;
use super::manifest::{Manifest, ManifestStatus};
use super::rows::Rows;
use super::whole::{open, read};
use super::{MANIFEST, MARKS};
use crate::escape::is_unprintable;
use crate::rendering::json;
use crate::residency::events::Event;
use crate::unit::BootNs;

/// Characters of a phase's name, which is a label on plots.
pub const PHASE_CHARACTERS_MAX: usize = 80;
/// Bytes of all phases of a batch: tens of thousands of them.
const MARKS_BYTES_MAX: u64 = 4 << 20;
/// How often a file is tried that another has locked, and how long apart. A mark takes a moment.
const LOCK_TRIES: u32 = 200;
const LOCK_APART: Duration = Duration::from_millis(10);

/// A phase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// When it begins.
    pub at: BootNs,
    /// What its user calls it.
    pub name: String,
}

/// Whether the lock was got: nobody else writes until the file is dropped.
pub(super) fn lock(file: &File) -> bool {
    for _ in 0..LOCK_TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return true,
            Err(_) => std::thread::sleep(LOCK_APART),
        }
    }
    false
}

/// Marks in a batch that is being recorded that a phase begins at `at`.
pub fn mark(batch: &Path, at: BootNs, name: &str) -> Result<(), FilesError> {
    let path = batch.join(MARKS);
    let is_label = (1..=PHASE_CHARACTERS_MAX).contains(&name.chars().count());
    if !is_label || name.chars().any(is_unprintable) {
        let why = format!(
            "a phase's name has 1 to {PHASE_CHARACTERS_MAX} characters, all of which can be printed"
        );
        return Err(FilesError::document(&path, &why));
    }
    let failed = |error| FilesError::io("write", &path)(error);
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let opened = OpenOptions::new().append(true).custom_flags(flags).open(&path);
    let mut file = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(FilesError::NoBatch { path: batch.to_path_buf() });
        }
        opened => opened.map_err(failed)?,
    };
    if !lock(&file) {
        return Err(failed(std::io::ErrorKind::WouldBlock.into()));
    }
    let manifest = batch.join(MANIFEST);
    let (manifest, _) = Manifest::read(&manifest, &read(&manifest)?)?;
    if manifest.status == ManifestStatus::Closed {
        return Err(FilesError::Closed { path: batch.to_path_buf() });
    }
    let row = json(&Event::Mark { at_ns: at, name: name.to_owned() });
    let row = row.map_err(|error| FilesError::document(&path, &error))?;
    let length = file.metadata().map_err(failed)?.len();
    bounded(&path, length)?;
    if let Err(error) = file.write_all(row.as_bytes()) {
        // Half a row would make those after it unreadable.
        file.set_len(length).map_err(failed)?;
        return Err(failed(error));
    }
    file.sync_all().map_err(failed)
}

fn bounded(path: &Path, length: u64) -> Result<(), FilesError> {
    if length < MARKS_BYTES_MAX {
        return Ok(());
    }
    let why = format!("{MARKS_BYTES_MAX} bytes of phases are all that a batch takes");
    Err(FilesError::document(path, &why))
}

/// The phases of a batch, in the order they were marked.
pub fn marks(batch: &Path) -> Result<Vec<Phase>, FilesError> {
    let path = batch.join(MARKS);
    let length = open(&path)?.metadata().map_err(FilesError::io("read", &path))?.len();
    bounded(&path, length)?;
    let mut rows = Rows::<Event>::open(&path)?;
    let mut phases = Vec::new();
    while let Some(event) = rows.row()? {
        let Event::Mark { at_ns, name } = event else {
            return Err(rows.wrong("this is no phase"));
        };
        phases.push(Phase { at: at_ns, name });
    }
    Ok(phases)
}
