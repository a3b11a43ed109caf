//! Files that entries name by their SHA-256: rules and prices that were in force, and the bills of closed periods.
//!
//! They lie in `files/` of the state directory, each under its digest in hex. A file is on the disk before the entry
//! that names it, is never changed, and is read back only as what its name says.

use std::io::Read as _;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::StoreError;
use super::place::{Place, StateDir, io};
use crate::journal::Digest;
use crate::journal::chain::sha256;
use crate::journal::entry::{Entry, Evidence, Figures};

/// The directory's name in the state directory.
const DIRECTORY: &str = "files";
/// The largest file that is kept or read: a bill by process of a million settlements has its room in it.
const BYTES_MAX: usize = 1 << 30;

/// The files beside one journal.
#[derive(Debug)]
pub struct Files {
    place: Place,
}

impl Files {
    /// Those of a directory that has a journal; the room for them is made where there is none yet.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without a directory, [`StoreError::Full`], and what the system says.
    pub fn of_writer(dir: &StateDir) -> Result<Self, StoreError> {
        let state = Place::of(dir)?;
        state.make_directory(DIRECTORY)?;
        Ok(Self { place: Place::of(&StateDir::at(state.file(DIRECTORY)))? })
    }

    /// Those of a directory, as they are; `None` where none was ever kept.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without a directory; it may not be read.
    pub fn of_reader(dir: &StateDir) -> Result<Option<Self>, StoreError> {
        let state = Place::of(dir)?;
        match Place::of(&StateDir::at(state.file(DIRECTORY))) {
            Ok(place) => Ok(Some(Self { place })),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a file. It is on the disk when this returns, whoever kept the same bytes before.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Strange`] of one that is too large or of a name that is no file of ours, and
    /// what the system says. Nothing new has the name then.
    pub fn keep(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = sha256(bytes);
        let name = digest.to_string();
        if bytes.len() > BYTES_MAX {
            let what =
                format!("a file to be kept has {} bytes, at most {BYTES_MAX} may be", bytes.len());
            return Err(StoreError::Strange { path: self.place.file(&name), what });
        }
        // One that was damaged since is put right by this.
        if matches!(self.read(digest), Ok(Some(_))) {
            return Ok(digest);
        }
        let unfinished = format!("{name}.{}.new", std::process::id());
        let written = self.write(&unfinished, bytes);
        let kept = written.and_then(|()| self.place.rename(&unfinished, &name));
        if kept.is_err() {
            // What is left of it is in nobody's way; the first error is what matters.
            drop(self.place.remove(&unfinished));
        }
        kept.map(|()| digest)
    }

    /// A file that was kept; `None` where it is not here.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where it is not what its name says; it may not be read.
    pub fn read(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let name = digest.to_string();
        let Some(file) = self.place.open(&name, OFlags::RDONLY)? else { return Ok(None) };
        let path = self.place.file(&name);
        let mut bytes = Vec::new();
        let most = u64::try_from(BYTES_MAX).unwrap_or(u64::MAX);
        let read = file.take(most).read_to_end(&mut bytes);
        read.map_err(|cause| StoreError::Io { doing: "read", path: path.clone(), cause })?;
        if sha256(&bytes) == digest {
            return Ok(Some(bytes));
        }
        Err(StoreError::Damaged {
            path,
            what: "its bytes are not those that its name says".to_owned(),
        })
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.place.remove(name)?;
        let file = self.place.make(name)?;
        let path = self.place.file(name);
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            let place = u64::try_from(written).unwrap_or(u64::MAX);
            let count = rustix::io::pwrite(&file, rest, place).map_err(io("write", &path))?;
            if count == 0 {
                return Err(io("write", &path)(Errno::IO));
            }
            written = written.saturating_add(count);
        }
        self.place.give_to_owner(&file, &path)?;
        rustix::fs::fsync(&file).map_err(io("sync", &path))
    }
}

/// The files that an entry names.
#[must_use]
pub fn files_of(entry: &Entry, evidence: &Evidence) -> Vec<Digest> {
    match (&entry.figures, evidence) {
        (Figures::Closed(closed), _) => {
            let documents = closed.documents.iter().map(|(_, digest)| *digest);
            documents.chain(closed.prices).collect()
        }
        (_, Evidence::Settlement(evidence)) => {
            evidence.provenance.iter().filter_map(|provenance| provenance.rules).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::of_writer(&StateDir::at(folder.path())).unwrap();
        (folder, files)
    }

    #[test]
    fn a_file_is_found_by_its_digest_and_by_nothing_else() {
        let (folder, files) = files();
        let digest = files.keep(b"[[rule]]").unwrap();
        assert_eq!(files.keep(b"[[rule]]").unwrap(), digest, "twice is once");
        assert_eq!(files.read(digest).unwrap().unwrap(), b"[[rule]]");
        assert_eq!(files.read(sha256(b"other")).unwrap(), None);
        let names: Vec<_> = std::fs::read_dir(folder.path().join("files")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let reader = Files::of_reader(&StateDir::at(folder.path())).unwrap().unwrap();
        assert!(reader.read(digest).unwrap().is_some());
        let empty = tempfile::tempdir().unwrap();
        assert!(Files::of_reader(&StateDir::at(empty.path())).unwrap().is_none());
    }

    #[test]
    fn what_was_changed_is_damage_and_is_put_right_when_the_same_bytes_are_kept_again() {
        let (folder, files) = files();
        let digest = files.keep(b"a").unwrap();
        let path = folder.path().join("files").join(digest.to_string());
        std::fs::write(&path, b"b").unwrap();
        let error = files.read(digest).unwrap_err().to_string();
        assert!(error.contains(&digest.to_string()) && error.contains("not those"), "{error}");
        files.keep(b"a").unwrap();
        assert_eq!(files.read(digest).unwrap().unwrap(), b"a");
    }

    #[test]
    fn links_are_refused_and_modes_are_private_under_any_umask() {
        use std::os::unix::fs::PermissionsExt as _;
        let (folder, files) = files();
        let digest = files.keep(b"a").unwrap();
        let directory = folder.path().join("files");
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join(digest.to_string()))), (0o700, 0o600));
        let target = folder.path().join("target");
        std::fs::write(&target, b"c").unwrap();
        let name = directory.join(sha256(b"c").to_string());
        std::os::unix::fs::symlink(&target, &name).unwrap();
        let error = files.read(sha256(b"c")).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
    }
}
