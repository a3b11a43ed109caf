//! The folder that is made: under another name until it is whole, and not at all where that fails.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::audit::error::{BundleError, shown};
use crate::audit::manifest::Listed;
use crate::journal::Digest;

/// Mode of the folder and of those in it: its group may read.
const FOLDER_MODE: u32 = 0o750;
/// Mode of every file.
const FILE_MODE: u32 = 0o640;
/// Bytes that are handed to the disk at once.
const CHUNK_BYTES: usize = 512 << 10;
/// Chunks of one file that wait for the disk at most.
const CHUNKS_WAITING: usize = 4;

/// A folder in the making.
#[derive(Debug)]
pub(super) struct Folder {
    out: PathBuf,
    above: OwnedFd,
    name: OsString,
    partial: OsString,
    folder: OwnedFd,
    /// Every file and folder in it, in the order in which they were made.
    made: Vec<(String, AtFlags)>,
    listed: Vec<Listed>,
    is_whole: bool,
}

impl Folder {
    /// Begins to make `out`, which must not be there.
    ///
    /// # Errors
    /// [`BundleError::Exists`], [`BundleError::Partial`], and what the system says.
    pub(super) fn begin(out: &Path) -> Result<Self, BundleError> {
        let failed = |errno: Errno| BundleError::io("make", out)(errno.into());
        let name = out.file_name().ok_or_else(|| failed(Errno::INVAL))?.to_os_string();
        let mut partial = name.clone();
        partial.push(".partial");
        let parent = match out.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let above = rustix::fs::open(parent, flags, Mode::empty()).map_err(failed)?;
        if rustix::fs::statat(&above, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(BundleError::Exists { path: shown(out) });
        }
        let mode = Mode::from_raw_mode(FOLDER_MODE);
        match rustix::fs::mkdirat(&above, &partial, mode) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                return Err(BundleError::Partial { path: shown(&out.with_file_name(&partial)) });
            }
            Err(errno) => return Err(failed(errno)),
        }
        let opened = open_folder(&above, &partial).and_then(|folder| {
            // Whatever the umask took away.
            rustix::fs::fchmod(&folder, mode).map(|()| folder)
        });
        let folder = opened.map_err(|errno| {
            // Empty as it is.
            let _ = rustix::fs::unlinkat(&above, &partial, AtFlags::REMOVEDIR);
            failed(errno)
        })?;
        let out = out.to_path_buf();
        let (made, listed) = (Vec::new(), Vec::new());
        Ok(Self { out, above, name, partial, folder, made, listed, is_whole: false })
    }

    /// Makes a folder in it.
    pub(super) fn folder(&mut self, name: &str) -> Result<(), BundleError> {
        let mode = Mode::from_raw_mode(FOLDER_MODE);
        let made = rustix::fs::mkdirat(&self.folder, name, mode);
        made.map_err(|errno| self.failed(name)(errno.into()))?;
        self.made.push((name.to_owned(), AtFlags::REMOVEDIR));
        let changed =
            open_folder(&self.folder, name).and_then(|made| rustix::fs::fchmod(made, mode));
        changed.map_err(|errno| self.failed(name)(errno.into()))
    }

    fn create(&mut self, name: &str) -> Result<File, BundleError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let made = rustix::fs::openat(&self.folder, name, flags, mode);
        let made = made.map_err(|errno| self.failed(name)(errno.into()))?;
        self.made.push((name.to_owned(), AtFlags::empty()));
        rustix::fs::fchmod(&made, mode).map_err(|errno| self.failed(name)(errno.into()))?;
        Ok(made.into())
    }

    /// Begins a file, whose bytes are hashed and written beside whoever makes them.
    pub(super) fn stream(&mut self, name: &str) -> Result<Stream, BundleError> {
        let file = self.create(name)?;
        let (chunks, waiting) = sync_channel(CHUNKS_WAITING);
        let writer = std::thread::Builder::new()
            .name("bundle".to_owned())
            .spawn(move || write_all(file, &waiting))
            .map_err(self.failed(name))?;
        Ok(Stream {
            name: name.to_owned(),
            chunk: Vec::new(),
            chunks: Some(chunks),
            writer: Some(writer),
        })
    }

    /// Ends a file, on the disk, and lists it.
    pub(super) fn end(&mut self, mut stream: Stream) -> Result<(), BundleError> {
        let ended = stream.end();
        let (bytes, digest) = ended.map_err(self.failed(&stream.name))?;
        self.listed.push(Listed::new(&stream.name, bytes, digest));
        Ok(())
    }

    /// Writes a whole file and lists it.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        self.add_unlisted(name, bytes)?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.listed.push(Listed::new(name, length, Digest(Sha256::digest(bytes).into())));
        Ok(())
    }

    /// Writes a whole file that the manifest does not name.
    pub(super) fn add_unlisted(&mut self, name: &str, bytes: &[u8]) -> Result<(), BundleError> {
        let mut file = self.create(name)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(self.failed(name))
    }

    /// The files so far.
    pub(super) fn listed(&self) -> Vec<Listed> {
        self.listed.clone()
    }

    /// Gives the folder its name, when everything in it is on the disk.
    ///
    /// # Errors
    /// [`BundleError::Exists`] where somebody was faster; what the system says.
    pub(super) fn finish(mut self) -> Result<(), BundleError> {
        let folders = self.made.iter().filter(|(_, kind)| *kind == AtFlags::REMOVEDIR);
        for (name, _) in folders {
            let synced = open_folder(&self.folder, name.as_str()).and_then(rustix::fs::fsync);
            synced.map_err(|errno| self.failed(name)(errno.into()))?;
        }
        let failed = |errno: Errno| BundleError::io("make", &self.out)(errno.into());
        rustix::fs::fsync(&self.folder).map_err(failed)?;
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.above, &self.partial, &self.above, &self.name, flags)
        {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(BundleError::Exists { path: shown(&self.out) }),
            // A file system without that flag (renameat2(2)): an empty folder at most is replaced.
            Err(Errno::INVAL) => {
                rustix::fs::renameat(&self.above, &self.partial, &self.above, &self.name)
                    .map_err(failed)?;
            }
            Err(errno) => return Err(failed(errno)),
        }
        self.is_whole = true;
        rustix::fs::fsync(&self.above).map_err(failed)
    }

    /// What an error of the system is about.
    fn failed(&self, name: &str) -> impl Fn(io::Error) -> BundleError + use<> {
        BundleError::io("write", &self.out.join(name))
    }
}

impl Drop for Folder {
    /// What is not whole is nothing.
    fn drop(&mut self) {
        if self.is_whole {
            return;
        }
        for (name, kind) in self.made.iter().rev() {
            // Nothing can be done where it is gone already.
            let _ = rustix::fs::unlinkat(&self.folder, name.as_str(), *kind);
        }
        let _ = rustix::fs::unlinkat(&self.above, &self.partial, AtFlags::REMOVEDIR);
    }
}

fn open_folder(above: &OwnedFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty())
}

type Written = io::Result<(u64, Digest)>;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Stream {
    name: String,
    chunk: Vec<u8>,
    chunks: Option<SyncSender<Vec<u8>>>,
    writer: Option<JoinHandle<Written>>,
}

fn write_all(mut file: File, chunks: &Receiver<Vec<u8>>) -> Written {
    let (mut hasher, mut bytes) = (Sha256::new(), 0_u64);
    for chunk in chunks {
        file.write_all(&chunk)?;
        hasher.update(&chunk);
        bytes = bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
    }
    file.sync_all()?;
    Ok((bytes, Digest(hasher.finalize().into())))
}

impl Stream {
    /// Waits for the writer, which ended.
    fn join(&mut self) -> Written {
        self.chunks = None;
        let Some(writer) = self.writer.take() else { return Err(io::ErrorKind::Other.into()) };
        writer.join().unwrap_or_else(|_| Err(io::Error::other("a thread that writes ended")))
    }

    fn send(&mut self) -> io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        let sent = self.chunks.as_ref().is_some_and(|chunks| chunks.send(chunk).is_ok());
        if sent {
            return Ok(());
        }
        // It ended because it could not write.
        self.join().map(|_| ())?;
        Err(io::ErrorKind::Other.into())
    }

    fn end(&mut self) -> Written {
        if !self.chunk.is_empty() {
            self.send()?;
        }
        self.join()
    }

    /// Writes, and says of which file an error is.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<(), BundleError> {
        let written = self.write_all(bytes);
        written.map_err(BundleError::io("write", Path::new(&self.name)))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Stream {
    /// Nobody writes any more when the folder goes.
    fn drop(&mut self) {
        self.chunks = None;
        if let Some(writer) = self.writer.take() {
            // What it wrote is thrown away.
            let _ = writer.join();
        }
    }
}
