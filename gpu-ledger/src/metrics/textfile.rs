//! The file that node_exporter's textfile collector reads.
//!
//! Purpose: a reader sees the old text or the new one, never half of either. May touch: the file's
//! folder. May not: follow a link there, or write into a folder that anybody may write to.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Everybody may read meters: the collector runs as a user of its own.
const MODE: u32 = 0o644;
/// A file of ours is far smaller; another's is not read.
const BYTES_MAX: u64 = 64 << 20;

/// Why the file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TextfileError {
    /// It cannot be read or written.
    #[error("{path}: {cause}; let the daemon's user read and write in this folder (ReadWritePaths= of its unit), or set metrics.textfile", path = path.display())]
    File {
        /// What it was about.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The path has no folder or no name.
    #[error("{path}: no path of a file; set metrics.textfile to one that ends in .prom", path = path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Anybody could put a link where the file goes.
    #[error("{folder}: anybody may write to this folder; chmod o-w, or set metrics.textfile to a file elsewhere", folder = folder.display())]
    FolderOpenToAll {
        /// The folder.
        folder: PathBuf,
    },
}

/// Writes the text beside the file and renames it into its place.
pub fn write(path: &Path, text: &str) -> Result<(), TextfileError> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(TextfileError::NoFile { path: path.to_path_buf() });
    };
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |cause| TextfileError::File { path, cause }
    };
    let mode = std::fs::metadata(folder).map_err(failed(folder))?.mode();
    if mode & 0o002 != 0 {
        return Err(TextfileError::FolderOpenToAll { folder: folder.to_path_buf() });
    }
    // A name of its own, hidden, and not ending in .prom: the collector does not look at it.
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(".new");
    let beside = folder.join(beside);
    // What a killed writer left. It may also be a link, which is removed and not followed.
    match std::fs::remove_file(&beside) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(&beside)(error)),
    }
    let written = fill(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|error| {
        // The old file stays as it is; of the new one nothing shall.
        let _ = std::fs::remove_file(&beside);
        failed(path)(error)
    })
}

fn fill(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
    // Whatever the umask.
    file.set_permissions(std::fs::Permissions::from_mode(MODE))?;
    file.write_all(text.as_bytes())?;
    // A rename may reach the disk before what was written.
    file.sync_data()
}

/// The file as it stands, `None` where there is none: what a scraper has seen last, for
/// [`super::HeldPage`].
pub fn read(path: &Path) -> Result<Option<String>, TextfileError> {
    let failed = |cause| TextfileError::File { path: path.to_path_buf(), cause };
    let flags = i32::try_from(OFlags::NOFOLLOW.bits())
        .map_err(|_| TextfileError::NoFile { path: path.to_path_buf() })?;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_file_is_replaced_whole_and_readable_to_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.prom");
        assert_eq!(read(&path).unwrap(), None);
        let before = {
            write(&path, "old\n").unwrap();
            File::open(&path).unwrap()
        };
        write(&path, "new\n").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("new\n"));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, MODE);
        assert_eq!(names(folder.path()), ["gpu.prom"]);
        // Whoever had it open still reads the old one, whole.
        let mut text = String::new();
        (&before).read_to_string(&mut text).unwrap();
        assert_eq!(text, "old\n");
    }

    #[test]
    fn links_in_the_folder_are_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "mine").unwrap();
        let path = folder.path().join("gpu.prom");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join(".gpu.prom.new")).unwrap();
        assert!(read(&path).is_err());
        write(&path, "text\n").unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
    }

    #[test]
    fn errors_name_the_path_and_leave_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none/gpu.prom");
        let error = write(&missing, "x").unwrap_err().to_string();
        assert!(error.contains("none") && error.contains("ReadWritePaths"), "{error}");
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = write(&open.join("gpu.prom"), "x").unwrap_err().to_string();
        assert!(error.contains("anybody may write"), "{error}");
        assert!(names(&open).is_empty());
        // A folder stands in the file's place.
        let taken = folder.path().join("taken.prom");
        std::fs::create_dir(&taken).unwrap();
        std::fs::write(taken.join("x"), "").unwrap();
        assert!(write(&taken, "x").is_err());
        assert_eq!(names(folder.path()), ["open", "taken.prom"]);
        assert!(matches!(write(Path::new("/"), "x"), Err(TextfileError::NoFile { .. })));
    }
}
