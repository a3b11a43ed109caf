//! A journal and its archives: which of them are here, and whether each continues the one before it.

use std::path::{Path, PathBuf};

use super::check::{CheckReport, Fault, check_file};
use super::error::StoreError;
use super::place::StateDir;
use super::reader::Reader;
use super::segment::SEGMENT_ENTRIES;
use super::tree::frontier_of;
use crate::journal::Digest;

/// An archive by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ArchiveFile {
    /// Where.
    pub(super) path: PathBuf,
    /// Number of its last entry, as its name says.
    pub(super) last: u64,
}

/// `archive-<journal>-<first>-<last>.db` in a state directory; that one is of this journal its content says.
///
/// # Errors
/// Where the directory cannot be listed.
pub(super) fn archives_in(dir: &StateDir) -> Result<Vec<ArchiveFile>, StoreError> {
    let failed = |cause| StoreError::Io { doing: "list", path: dir.path().to_owned(), cause };
    let mut archives = Vec::new();
    for entry in std::fs::read_dir(dir.path()).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let parts =
            name.as_deref().and_then(|name| name.strip_prefix("archive-")?.strip_suffix(".db"));
        let last = parts.and_then(|parts| parts.rsplit('-').next()?.parse().ok());
        archives.extend(last.map(|last| ArchiveFile { path, last }));
    }
    archives.sort_by(|one, other| (one.last, &one.path).cmp(&(other.last, &other.path)));
    Ok(archives)
}

/// The archives of a journal that lie in a directory, oldest first, each continued by the next and the last one by what
/// begins after entry `base`; and the number of the last entry that was archived and is not here.
///
/// # Errors
/// Where the directory cannot be listed, or an archive not be opened.
pub(crate) fn archives_of(
    dir: &StateDir,
    journal: &[u8],
    base: u64,
) -> Result<(Vec<Reader>, u64), StoreError> {
    let (mut archives, mut missing) = (Vec::new(), base);
    let candidates = if missing > 0 { archives_in(dir)? } else { Vec::new() };
    // Backwards from the journal: each must end where the next begins.
    while let Some(found) = candidates.iter().find(|one| missing > 0 && one.last == missing) {
        let archive = Reader::open_file(&found.path)?;
        if archive.journal() != journal || archive.base() >= missing {
            break;
        }
        missing = archive.base();
        archives.push(archive);
    }
    archives.reverse();
    Ok((archives, missing))
}

/// One archive, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckedArchive {
    /// Its file.
    pub path: PathBuf,
    /// What was checked; nothing where it could not be opened, which is then a fault.
    pub report: CheckReport,
}

/// The archives beside a journal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckedArchives {
    /// Those that it continues, newest first.
    pub archives: Vec<CheckedArchive>,
    /// Number of the last entry that was archived and is not here; 0 where every entry is.
    pub missing: u64,
}

/// Checks the archives that lie beside the journal of a directory: each by itself, and that it ends with the
/// entry that what follows it continues.
///
/// # Errors
/// Where the journal cannot be opened, or its directory not be listed.
pub fn check_archives(dir: &StateDir) -> Result<CheckedArchives, StoreError> {
    let reader = Reader::open(dir)?;
    let mut checked = CheckedArchives { missing: reader.base(), ..CheckedArchives::default() };
    let candidates = if checked.missing > 0 { archives_in(dir)? } else { Vec::new() };
    let mut continued = continued_by(&reader)?;
    // Backwards from the journal: each must end where the next begins.
    while checked.missing > 0 {
        let mut ends_there = candidates.iter().filter(|one| one.last == checked.missing);
        // Another journal's archive may lie there too, under its own name.
        let ours = ends_there.find_map(|found| match Reader::open_file(&found.path) {
            Ok(archive) if archive.journal() != reader.journal() => None,
            opened => Some((found, opened)),
        });
        let Some((found, opened)) = ours else { break };
        let (report, archive) = match opened {
            Ok(archive) => (of_archive(&found.path, (checked.missing, continued)), Some(archive)),
            Err(error) => (unread(&error), None),
        };
        checked.archives.push(CheckedArchive { path: found.path.clone(), report });
        match archive {
            Some(archive) if archive.base() < checked.missing => {
                checked.missing = archive.base();
                continued = continued_by(&archive)?;
            }
            _ => break,
        }
    }
    Ok(checked)
}

/// What a part knows of what stands before its first entry.
#[derive(Clone, Copy, Debug)]
struct Continued {
    /// The hash of the entry before; `None` where nothing was archived.
    hash: Option<Digest>,
    /// The root of the tree of all that stands before; `None` where that is not known.
    root: Option<Digest>,
}

fn continued_by(part: &Reader) -> Result<Continued, StoreError> {
    let segments = part.database.segments()?;
    let before = segments.iter().find(|segment| segment.last == part.base());
    let left = frontier_of(&part.database.runs()?, part.base() / SEGMENT_ENTRIES);
    Ok(Continued {
        hash: before.map(|segment| segment.end.hash),
        root: left.and_then(|left| left.root()),
    })
}

fn of_archive(path: &Path, (last, continued): (u64, Continued)) -> CheckReport {
    let mut report = match check_file(path) {
        Ok(report) => report,
        Err(error) => return unread(&error),
    };
    let mut fault = |what: String| {
        report.faults_total = report.faults_total.saturating_add(1);
        report.faults.push(Fault { seq: None, what });
    };
    if report.head.seq != last || continued.hash.is_some_and(|hash| hash != report.head.hash) {
        fault(format!("it does not end with the entry {last} that what follows it continues"));
    }
    if report.root.zip(continued.root).is_some_and(|(here, there)| here != there) {
        fault("its entries make another tree than what follows it says".to_owned());
    }
    report
}

fn unread(error: &StoreError) -> CheckReport {
    let faults = vec![Fault { seq: None, what: error.to_string() }];
    CheckReport { faults_total: 1, faults, ..CheckReport::default() }
}
