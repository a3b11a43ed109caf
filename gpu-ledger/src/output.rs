//! Where a report goes: a stream, or a file that is complete or untouched.
//!
//! Purpose: the one way in which a finished page leaves this product. May touch: the file it is given, and
//! the standard streams. May not: write half a report over a whole one.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::escape::escape;
use crate::journal::store::is_of_a_journal;

/// Why a report could not be put where it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The file cannot be written.
    #[error("cannot write {path}: {cause}; give --output another file, or - for stdout")]
    File {
        /// Which, safe to print.
        path: String,
        /// Why.
        cause: io::Error,
    },
    /// It is a journal's own.
    #[error(
        "{path} is a file of the journal, which a report would destroy; give --output another file"
    )]
    Journal {
        /// Which, safe to print.
        path: String,
    },
    /// The stream cannot be written.
    #[error("cannot write the report: {0}")]
    Stream(io::Error),
}

impl OutputError {
    fn file(path: &Path, cause: io::Error) -> Self {
        Self::File { path: escape(path.as_os_str().as_encoded_bytes()).to_string(), cause }
    }
}

/// Where the report goes. Opened before anything is run, so that a wrong name costs nothing.
pub(crate) enum Output {
    Stdout,
    Stderr,
    /// Written beside, then renamed over: a reader never sees half a report.
    Beside {
        path: PathBuf,
        draft: PathBuf,
    },
    /// No regular file (a pipe, a device): written as it is.
    Stream {
        path: PathBuf,
        file: File,
    },
}

impl Output {
    /// `-` is stdout; no path is stdout too, or stderr where a command owns stdout.
    pub(crate) fn open(path: Option<PathBuf>, to_stdout: bool) -> Result<Self, OutputError> {
        match path {
            None if to_stdout => Ok(Self::Stdout),
            None => Ok(Self::Stderr),
            Some(path) if path.as_os_str() == "-" => Ok(Self::Stdout),
            Some(path) => Self::open_file(path),
        }
    }

    fn open_file(path: PathBuf) -> Result<Self, OutputError> {
        let failed = |cause| OutputError::file(&path, cause);
        if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        match std::fs::metadata(&path) {
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(&path).map_err(failed)?;
                Ok(Self::Stream { path, file })
            }
            // A link is followed, so that what is replaced is the file and not the link.
            Ok(_) => Self::beside(std::fs::canonicalize(&path).map_err(failed)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A link to nowhere would be replaced, which nobody asked for.
                if std::fs::symlink_metadata(&path).is_ok() {
                    Err(failed(error))
                } else {
                    Self::beside(path)
                }
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn beside(path: PathBuf) -> Result<Self, OutputError> {
        let failed = |cause| OutputError::file(&path, cause);
        if path.file_name().is_none() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if is_of_a_journal(&path) {
            let path = escape(path.as_os_str().as_encoded_bytes()).to_string();
            return Err(OutputError::Journal { path });
        }
        // Not made of the file's name, which may be as long as a name can be.
        let draft = path.with_file_name(format!(".gpu-ledger-{}.draft", std::process::id()));
        // Tried and taken away again: a trace that is killed must not leave a draft behind.
        drop(create(&draft).map_err(failed)?);
        std::fs::remove_file(&draft).map_err(failed)?;
        Ok(Self::Beside { path, draft })
    }

    /// Writes the whole report. A reader that closed its end has seen enough: no error.
    pub(crate) fn write(self, page: &str) -> Result<(), OutputError> {
        self.write_bytes(page.as_bytes())
    }

    /// The same of one that is no text.
    pub(crate) fn write_bytes(mut self, page: &[u8]) -> Result<(), OutputError> {
        match &mut self {
            Self::Stdout => bytes_to_stdout(page).map_err(OutputError::Stream),
            Self::Stderr => stream(&mut io::stderr().lock(), page),
            Self::Stream { path, file } => {
                let written = pipe_closed_is_fine(file.write_all(page));
                written.map_err(|cause| OutputError::file(path, cause))
            }
            Self::Beside { path, draft } => {
                replace(path, draft, page).map_err(|cause| OutputError::file(path, cause))
            }
        }
    }

    /// Begins a report that is written piece by piece; a file is its own only once it is finished.
    pub(crate) fn begin(self) -> Result<Pieces, OutputError> {
        let to: Box<dyn io::Write + Send> = match &self {
            Self::Stdout => {
                drop(stdout().map_err(OutputError::Stream)?);
                Box::new(io::stdout())
            }
            Self::Stderr => Box::new(io::stderr()),
            Self::Stream { path, file } => {
                Box::new(file.try_clone().map_err(|cause| OutputError::file(path, cause))?)
            }
            Self::Beside { path, draft } => {
                let file = draft_of(path, draft).map_err(|cause| OutputError::file(path, cause))?;
                Box::new(file)
            }
        };
        Ok(Pieces { output: self, to: io::BufWriter::new(to), is_gone: false })
    }

    /// As the cause of an error says it.
    fn failed(&self, cause: io::Error) -> OutputError {
        match self {
            Self::Stdout | Self::Stderr => OutputError::Stream(cause),
            Self::Stream { path, .. } | Self::Beside { path, .. } => OutputError::file(path, cause),
        }
    }
}

/// A report as it is written.
pub(crate) struct Pieces {
    output: Output,
    to: io::BufWriter<Box<dyn io::Write + Send>>,
    /// Whoever read it has seen enough.
    is_gone: bool,
}

impl Pieces {
    /// The report is whole: a file takes its place.
    pub(crate) fn finish(mut self) -> Result<(), OutputError> {
        let flushed = if self.is_gone { Ok(()) } else { self.to.flush() };
        let placed = pipe_closed_is_fine(flushed).and_then(|()| match &self.output {
            Output::Beside { path, draft } => {
                File::open(draft)?.sync_all()?;
                std::fs::rename(draft, path)
            }
            Output::Stdout | Output::Stderr | Output::Stream { .. } => Ok(()),
        });
        placed.map_err(|cause| self.output.failed(cause))
    }

    fn or_gone<T>(&mut self, written: io::Result<T>, instead: T) -> io::Result<T> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_gone = true;
                Ok(instead)
            }
            // Whoever writes rows into this knows no file to name.
            Err(error) => Err(io::Error::new(error.kind(), self.output.failed(error))),
            Ok(written) => Ok(written),
        }
    }
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_gone {
            return Ok(bytes.len());
        }
        let written = self.to.write(bytes);
        self.or_gone(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_gone {
            return Ok(());
        }
        let flushed = self.to.flush();
        self.or_gone(flushed, ())
    }
}

impl Drop for Output {
    /// A draft that was not renamed, because nothing ran or the disk was full, does not stay behind.
    fn drop(&mut self) {
        if let Self::Beside { draft, .. } = self {
            // Renamed by now, in the usual case.
            let _ = std::fs::remove_file(draft);
        }
    }
}

fn create(draft: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(draft)
}

/// A draft of what will take a file's place, and takes over who may read it.
fn draft_of(path: &Path, draft: &Path) -> io::Result<File> {
    let file = create(draft)?;
    if let Ok(old) = std::fs::metadata(path) {
        fchown(&file, Some(old.uid()), Some(old.gid()))?;
        file.set_permissions(old.permissions())?;
    }
    Ok(file)
}

fn replace(path: &Path, draft: &Path, page: &[u8]) -> io::Result<()> {
    let mut file = draft_of(path, draft)?;
    file.write_all(page)?;
    file.sync_all()?;
    std::fs::rename(draft, path)
}

fn stream(to: &mut impl io::Write, page: &[u8]) -> Result<(), OutputError> {
    let written = to.write_all(page).and_then(|()| to.flush());
    pipe_closed_is_fine(written).map_err(OutputError::Stream)
}

fn pipe_closed_is_fine(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Stdout was closed when this process began, and is something else now.
static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Notes that stdout leads nowhere.
pub(crate) fn stdout_is_closed() {
    STDOUT_IS_CLOSED.store(true, Ordering::Relaxed);
}

/// Stdout, where there is one.
pub(crate) fn stdout() -> io::Result<io::StdoutLock<'static>> {
    if STDOUT_IS_CLOSED.load(Ordering::Relaxed) {
        return Err(io::Error::other("stdout is closed"));
    }
    Ok(io::stdout().lock())
}

/// Writes a page to stdout. Whoever reads only its beginning has had enough: no error.
pub(crate) fn to_stdout(page: &str) -> io::Result<()> {
    bytes_to_stdout(page.as_bytes())
}

fn bytes_to_stdout(page: &[u8]) -> io::Result<()> {
    let mut stdout = stdout()?;
    pipe_closed_is_fine(stdout.write_all(page).and_then(|()| stdout.flush()))
}

/// A line of ours on stderr, beside whatever the command writes there.
pub(crate) fn complain(line: &str) {
    // Nothing can be done where even stderr is closed.
    let _ = writeln!(io::stderr(), "gpu-ledger: {line}");
}

/// The last resort for a report whose file is lost.
pub(crate) fn to_stderr(page: &str) {
    // As above.
    let _ = io::stderr().write_all(page.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_replaces_the_old_one_and_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        std::fs::write(&path, "old").unwrap();
        Output::open(Some(path.clone()), false).unwrap().write("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_report_in_pieces_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        std::fs::write(&path, "old").unwrap();
        let pieces = || Output::open(Some(path.clone()), false).unwrap().begin().unwrap();
        let mut given_up = pieces();
        given_up.write_all(b"half").unwrap();
        drop(given_up);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        let mut whole = pieces();
        whole.write_all(b"one,").unwrap();
        whole.write_all(b"two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        whole.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one,two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut full = Output::open(Some("/dev/full".into()), false).unwrap().begin().unwrap();
        full.write_all(b"row").unwrap();
        let error = full.finish().unwrap_err().to_string();
        assert!(error.starts_with("cannot write /dev/full: No space left on device"), "{error}");
        // What is found out before the end names the same.
        let mut full = Output::open(Some("/dev/full".into()), false).unwrap().begin().unwrap();
        let found = full.write_all(&vec![b'x'; 1 << 20]).unwrap_err();
        assert_eq!((found.kind(), found.to_string()), (io::ErrorKind::StorageFull, error));
    }

    #[test]
    fn no_report_takes_the_place_of_a_journals_file_also_not_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("ledger.db");
        let link = folder.path().join("bill.json");
        std::fs::write(folder.path().join("ledger.lock"), "").unwrap();
        std::fs::write(&journal, "the books").unwrap();
        std::os::unix::fs::symlink(&journal, &link).unwrap();
        for path in [&journal, &link, &folder.path().join("ledger.db-wal")] {
            let error = Output::open(Some(path.clone()), false).err().unwrap().to_string();
            assert!(error.contains("a file of the journal"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&journal).unwrap(), "the books");
    }

    #[test]
    fn an_output_that_is_given_up_leaves_the_old_report() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        std::fs::write(&path, "old").unwrap();
        drop(Output::open(Some(path.clone()), false).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_said_before_anything_runs() {
        let error = Output::open(Some("/nonexistent/report".into()), false).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/report"), "{error}");
    }

    #[test]
    fn what_takes_a_files_place_takes_over_who_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        Output::open(Some(path.clone()), false).unwrap().write("new").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_name_that_can_only_be_a_folders_is_refused_and_the_longest_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Output::open(Some(folder.path().join("report/")), false).is_err());
        let long = folder.path().join("r".repeat(255));
        Output::open(Some(long.clone()), false).unwrap().write("new").unwrap();
        assert_eq!(std::fs::read_to_string(long).unwrap(), "new");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let full = Output::open(Some("/dev/full".into()), false).unwrap();
        assert!(full.write("report").is_err());
    }
}
