//! `marks.jsonl`: where a phase begins, told by other processes while the batch is recorded.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use sha2::{Digest as _, Sha256};

use super::during::is_between_windows;
use super::error::FilesError;
use super::manifest::{Manifest, ManifestStatus};
use super::rows::Rows;
use super::whole::{hex, open, read, sha256};
use super::{MANIFEST, MARKS};
use crate::escape::is_unprintable;
use crate::rendering::json;
use crate::residency::events::{Event, MarksSeen};
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
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(FilesError::document(&path, &no_right(&path)));
        }
        opened => opened.map_err(failed)?,
    };
    if !lock(&file) {
        let why = "others are marking phases, and none was let in for 2 s; mark it again";
        return Err(FilesError::document(&path, why));
    }
    let manifest = batch.join(MANIFEST);
    let (manifest, _) = Manifest::read(&manifest, &read(&manifest)?)?;
    if manifest.status == ManifestStatus::Closed {
        return Err(FilesError::Closed { path: batch.to_path_buf() });
    }
    // What the last window saw of phases is in its last row: none may come after that.
    if is_between_windows(batch) {
        return Err(FilesError::document(&path, "the iteration is over, and no other has begun"));
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

/// Who may mark phases, for whoever may not.
fn no_right(path: &Path) -> String {
    let owner = std::fs::symlink_metadata(path).map(|file| file.uid());
    owner.map_or_else(
        |_| {
            "no right to enter its folder; mark phases as the user who records, or record into a folder (--out) \
             that the command's user may enter"
                .to_owned()
        },
        |uid| {
            format!(
                "no right to write it; phases are marked by user id {uid}, as whom the recorded command runs, or by \
                 root"
            )
        },
    )
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

/// What is marked so far, and the lock under which nobody marks more; `None` where that cannot be read.
pub(super) fn seen(batch: &Path) -> Option<(MarksSeen, File)> {
    let path = batch.join(MARKS);
    let file = open(&path).ok()?;
    lock(&file);
    let bytes = read(&path).ok()?;
    let length = u64::try_from(bytes.len()).ok()?;
    Some((MarksSeen { bytes: length, sha256: sha256(&bytes) }, file))
}

/// What is wrong with the phases of a batch whose windows saw these when they ended, in their order.
pub(super) fn differs(bytes: &[u8], windows: &[&MarksSeen]) -> Option<&'static str> {
    let mut hasher = Sha256::new();
    let mut read = 0;
    for seen in windows {
        let length = usize::try_from(seen.bytes).unwrap_or(usize::MAX);
        let Some(more) = bytes.get(read..length) else {
            return Some("phases are missing that a window saw when it ended");
        };
        hasher.update(more);
        read = length;
        if hex(&hasher.clone().finalize()) != seen.sha256 {
            return Some("it is not what a window saw when it ended: phases were changed");
        }
    }
    let has_ended = !windows.is_empty() && read < bytes.len();
    has_ended
        .then_some("it goes on where the last window had seen all of it: something was added later")
}
