//! Opening what others wrote: below one folder, no links, plain files, up to a size.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use super::FilesError;

/// Entries of a folder that are looked at: namespaces of containerd, user namespaces of Docker.
const ENTRIES_MAX: usize = 256;

/// An open folder.
pub(super) struct Folder {
    fd: OwnedFd,
    /// As it is named in errors.
    path: PathBuf,
    /// Files of anybody else are not read.
    owner: Option<u32>,
}

impl Folder {
    /// Opens a folder by its whole path, links included. `None` where there is none.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, FilesError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(CWD, path, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { fd, path: path.to_path_buf(), owner: None })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(unread(path, errno)),
        }
    }

    /// From here on nothing is read that does not belong to this user.
    pub(super) fn owned_by(self, owner: u32) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// A folder below this one.
    pub(super) fn folder(&self, below: &str) -> Result<Option<Self>, FilesError> {
        let opened = self.open_below(below, OFlags::DIRECTORY)?;
        Ok(opened.map(|(fd, path)| Self { fd, path, owner: self.owner }))
    }

    /// The names of what is in it, no more than [`ENTRIES_MAX`].
    pub(super) fn entries(&self) -> Result<Vec<String>, FilesError> {
        let failed = |errno| unread(&self.path, errno);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)?.take(ENTRIES_MAX) {
            let entry = entry.map_err(failed)?;
            // A name of a runtime's own is text; `.` and `..` lead nowhere.
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// A file below this folder, of at most so many bytes. `None` where there is none.
    pub(super) fn read(&self, below: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, FilesError> {
        let Some(file) = self.file(below)? else { return Ok(None) };
        let path = || self.path(below);
        let mut bytes = Vec::new();
        let most = bytes_max.saturating_add(1);
        let read = file.take(most).read_to_end(&mut bytes);
        read.map_err(|cause| FilesError::Unread { path: path(), cause })?;
        match u64::try_from(bytes.len()) {
            Ok(length) if length <= bytes_max => Ok(Some(bytes)),
            _ => Err(FilesError::Refused {
                path: path(),
                why: "it is larger than what a runtime writes",
            }),
        }
    }

    /// A file below this folder, open for reading. `None` where there is none.
    pub(super) fn file(&self, below: &str) -> Result<Option<File>, FilesError> {
        let Some((fd, path)) = self.open_below(below, OFlags::empty())? else { return Ok(None) };
        let found = fstat(&fd).map_err(|errno| unread(&path, errno))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(FilesError::Refused { path, why: "it is no plain file" });
        }
        if self.owner.is_some_and(|owner| owner != found.st_uid) {
            let why = "it belongs to another than the container's owner";
            return Err(FilesError::Refused { path, why });
        }
        Ok(Some(File::from(fd)))
    }

    /// As it is named in errors.
    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.path.join(below)
    }

    /// Links are for whoever can write here to make: none is followed, and nothing leads out of the folder. A
    /// pipe does not wait for its writer.
    fn open_below(
        &self,
        below: &str,
        kind: OFlags,
    ) -> Result<Option<(OwnedFd, PathBuf)>, FilesError> {
        let path = self.path(below);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | kind;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match openat2(&self.fd, below.as_bytes(), flags, Mode::empty(), resolve) {
            Ok(fd) => Ok(Some((fd, path))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(Errno::LOOP) => {
                Err(FilesError::Refused { path, why: "a link leads there, and none is followed" })
            }
            Err(errno) => Err(unread(&path, errno)),
        }
    }
}

fn unread(path: &Path, errno: Errno) -> FilesError {
    FilesError::Unread { path: path.to_path_buf(), cause: errno.into() }
}
