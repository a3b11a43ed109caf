//! Whether a window is open in which a phase can begin.

use std::path::{Path, PathBuf};

use super::error::FilesError;
use super::manifest::Manifest;
use super::rows::{Rows, last};
use super::whole::read;
use super::{EVENTS, ITERATION, ITERATIONS_MAX, MANIFEST, SAMPLES, iteration_folder};
use crate::residency::events::Event;
use crate::residency::sample::Sample;
use crate::unit::BootNs;

/// Whether the newest window has its last row.
pub(super) fn is_between_windows(batch: &Path) -> bool {
    let newest = newest(batch);
    newest.is_some_and(|(_, folder)| is_over(&folder))
}

fn newest(batch: &Path) -> Option<(u64, PathBuf)> {
    let begun = (1..=ITERATIONS_MAX).map_while(|number| {
        let folder = batch.join(iteration_folder(number));
        folder.is_dir().then_some((number, folder))
    });
    begun.last()
}

fn is_over(folder: &Path) -> bool {
    let has_end = matches!(last::<Event>(&folder.join(EVENTS)), Ok(Some(Event::End { .. })));
    has_end || folder.join(ITERATION).exists()
}

/// A phase belongs to the iteration in which it is marked: between two of them, and before the first sample of
/// one, there is none, and whoever marks is told so.
pub fn can_be_marked(batch: &Path, at: BootNs) -> Result<(), FilesError> {
    let none = |why: &str| {
        let why = format!(
            "no phase can begin now: {why}. Phases are marked between the first sample of an iteration (READY, or \
             when its command starts) and its end"
        );
        Err(FilesError::document(batch, &why))
    };
    let path = batch.join(MANIFEST);
    let bytes = match read(&path) {
        Err(error) if error.is_missing() => {
            return Err(FilesError::NoBatch { path: batch.to_path_buf() });
        }
        bytes => bytes?,
    };
    let (manifest, _) = Manifest::read(&path, &bytes)?;
    let Some((number, folder)) = newest(batch) else { return none("no iteration has begun") };
    if is_over(&folder) {
        return none(&format!("iteration {number} is over, and no other has begun"));
    }
    let mut t0 = None;
    let mut rows = Rows::<Sample>::open(&folder.join(SAMPLES))?;
    while t0.is_none()
        && let Some(sample) = rows.row()?
    {
        t0 = sample.landed_at_ns;
    }
    let Some(passed) = t0.and_then(|t0| at.since(t0)) else {
        return none(&format!("iteration {number} has no sample yet"));
    };
    match manifest.requested_duration_ms {
        Some(duration) if passed > duration.0 => {
            none(&format!("the {duration} ms of iteration {number} are over"))
        }
        _ => Ok(()),
    }
}
