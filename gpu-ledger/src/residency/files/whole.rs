//! Files that are there whole or not at all, and files that are read as what they are.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::DOCUMENT_BYTES_MAX;
use super::error::FilesError;
use crate::escape::is_unprintable;

/// Read from and written to at once.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// A file that grows under another name until it is whole. Dropped before that, nothing of it is left.
#[derive(Debug)]
pub(super) struct Whole {
    path: PathBuf,
    partial: PathBuf,
    writer: Option<BufWriter<Hashed>>,
}

#[derive(Debug)]
struct Hashed {
    file: File,
    hasher: Sha256,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Whole {
    /// Begins to write what will be called `path`.
    pub(super) fn create(path: &Path) -> Result<Self, FilesError> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".partial");
        let partial = path.with_file_name(name);
        // What a killed writer left.
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FilesError::io("write", &partial)(error));
            }
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&partial);
        let file = file.map_err(FilesError::io("write", &partial))?;
        let hashed = Hashed { file, hasher: Sha256::new() };
        let writer = Some(BufWriter::with_capacity(CHUNK_BYTES, hashed));
        Ok(Self { path: path.to_path_buf(), partial, writer })
    }

    /// Gives it its name, when all of it is on the disk. Its hash.
    pub(super) fn finish(mut self) -> Result<String, FilesError> {
        let failed = |error| FilesError::io("write", &self.path)(error);
        let Some(writer) = self.writer.take() else {
            return Err(failed(io::ErrorKind::Other.into()));
        };
        let named =
            writer.into_inner().map_err(io::IntoInnerError::into_error).and_then(|hashed| {
                hashed.file.sync_all()?;
                std::fs::rename(&self.partial, &self.path)?;
                Ok(hex(&hashed.hasher.finalize()))
            });
        let sha256 = named.map_err(|error| {
            let _ = std::fs::remove_file(&self.partial);
            failed(error)
        })?;
        if let Some(folder) = self.path.parent() {
            sync_folder(folder)?;
        }
        Ok(sha256)
    }

    /// What an error of [`Write`] is about.
    pub(super) fn failed(&self, error: io::Error) -> FilesError {
        FilesError::io("write", &self.path)(error)
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().ok_or(io::ErrorKind::Other)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().ok_or(io::ErrorKind::Other)?.flush()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            // Not flushed: it is thrown away.
            drop(writer.into_parts());
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// Writes a file at once. Its hash.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<String, FilesError> {
    let mut whole = Whole::create(path)?;
    whole.write_all(bytes).map_err(|error| whole.failed(error))?;
    whole.finish()
}

/// Makes what was done to a folder's names last.
pub(super) fn sync_folder(folder: &Path) -> Result<(), FilesError> {
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(FilesError::io("write", folder))
}

/// Opens a regular file: no link, and nothing whose opening waits for somebody.
pub(super) fn open(path: &Path) -> Result<File, FilesError> {
    let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits();
    let flags =
        i32::try_from(flags).map_err(|_| FilesError::NoFile { path: path.to_path_buf() })?;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(FilesError::NoFile { path: path.to_path_buf() });
        }
        Err(error) => return Err(FilesError::io("read", path)(error)),
    };
    let found = file.metadata().map_err(FilesError::io("read", path))?;
    if found.is_file() { Ok(file) } else { Err(FilesError::NoFile { path: path.to_path_buf() }) }
}

/// All of a document.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, FilesError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(DOCUMENT_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(FilesError::io("read", path))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= DOCUMENT_BYTES_MAX) {
        Ok(bytes)
    } else {
        Err(FilesError::document(path, &format!("more than {DOCUMENT_BYTES_MAX} bytes")))
    }
}

/// The SHA-256 of a file as sha256sum prints it, read in a stream.
pub fn sha256_file(path: &Path) -> Result<String, FilesError> {
    let mut file = open(path)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = match file.read(&mut chunk) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(FilesError::io("read", path)(error)),
        };
        hasher.update(chunk.get(..read).unwrap_or_default());
    }
}

/// The SHA-256 of bytes.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// In lower-case digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A document as JSON for people and programs. Characters that a terminal would act on are `\uXXXX`; they
/// stand within strings alone.
pub(super) fn pretty(path: &Path, document: &impl Serialize) -> Result<String, FilesError> {
    let plain = serde_json::to_string_pretty(document);
    let plain = plain.map_err(|error| FilesError::document(path, &error))?;
    let mut text = String::with_capacity(plain.len().saturating_add(1));
    for character in plain.chars() {
        if character == '\n' || !is_unprintable(character) {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text.push('\n');
    Ok(text)
}
