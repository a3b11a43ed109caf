//! The folder of a batch: written so that a crash shows, read in a stream, proven from its raw rows.
//!
//! ```text
//! DIR/<batch_id>/manifest.json             first, status "open"; replaced at the end, status "closed"
//! DIR/<batch_id>/marks.jsonl               phases, appended by whoever calls `residency mark`
//! DIR/<batch_id>/iterations/0001/samples.jsonl, events.jsonl      raw rows
//!                                timeline.csv, iteration.json     derived from them
//! DIR/<batch_id>/summary.json              absent: the batch was cut off
//! DIR/<batch_id>/SHA256SUMS                last; `sha256sum -c` reads it
//! ```
//!
//! Purpose: raw rows are the only truth. What is derived is made by one function ([`derive()`]) when a window
//! has ended and again by [`verify()`], which compares bytes. May touch: the batch's folder. May not: follow a
//! link there, hold a window in memory, drop a row without counting it, trust a derived file.

mod batch;
mod csv;
mod derive;
mod during;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod held;
mod iteration;
mod log;
mod manifest;
mod marks;
mod recorded;
mod rows;
mod seed;
mod summary;
mod sums;
mod verify;
mod verify_text;
mod whole;

#[cfg(test)]
pub(crate) mod tests;

pub use batch::{Batch, BatchReport, IterationReport, IterationWriter};
pub use derive::{
    CommandStatus, CpuFigures, CurvePoint, Derived, Walked, WindowEnd, derive,
    events_beside_points, walk_proven,
};
pub use during::can_be_marked;
pub use error::FilesError;
pub use iteration::Iteration;
pub use manifest::{
    ClockSync, ClockSyncState, Manifest, ManifestGpu, ManifestStatus, SourceWindow, SourceWindows,
    TimestampDomain, WallAnchor, batch_id,
};
pub use marks::{PHASE_CHARACTERS_MAX, Phase, mark, marks};
pub use recorded::Recorded;
pub use rows::{Row, Rows, RowsRead, Torn};
pub use seed::Seed;
pub use summary::Summary;
pub use verify::{
    Checked, Finding, Verification, VerifiedIteration, VerifyReport, check, exit_status, verify,
    verify_all,
};
pub use whole::sha256_file;

use super::events::Labels;

/// The version of the folder and of every file in it. Since 2 every window repeats in its first row what its
/// batch was opened with.
pub const SCHEMA_VERSION: u32 = 2;

/// What the batch was recorded with.
pub const MANIFEST: &str = "manifest.json";
/// Phases.
pub const MARKS: &str = "marks.jsonl";
/// Sums, maxima and both verdicts.
pub const SUMMARY: &str = "summary.json";
/// The hash of every other file.
pub const SUMS: &str = "SHA256SUMS";
/// One folder for each window.
pub const ITERATIONS: &str = "iterations";
/// Raw: one row for each pass over the fields.
pub const SAMPLES: &str = "samples.jsonl";
/// Raw: what happened beside.
pub const EVENTS: &str = "events.jsonl";
/// Derived: one row for each point.
pub const TIMELINE: &str = "timeline.csv";
/// Derived: figures and reasons.
pub const ITERATION: &str = "iteration.json";

/// The files of a window.
pub const ITERATION_FILES: [&str; 4] = [EVENTS, ITERATION, SAMPLES, TIMELINE];

/// The longest row: a sample of all processes that a driver lists takes a third of it.
pub const ROW_BYTES_MAX: u64 = 1 << 20;
/// The largest document (manifest, summary): hashes of [`ITERATIONS_MAX`] windows take less.
pub const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
/// Windows of a batch: their folders have four digits.
pub const ITERATIONS_MAX: u64 = 9_999;

/// The folder of a window, from the batch's.
fn iteration_folder(number: u64) -> String {
    format!("{ITERATIONS}/{number:04}")
}
