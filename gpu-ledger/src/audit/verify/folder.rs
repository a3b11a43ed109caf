//! The files of a bundle, on the disk or in a test's memory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};

use super::Wrong;

/// Bytes of a file that is read at once.
pub(super) const SMALL_MAX: u64 = 16 << 20;
/// Files of a bundle at most, beside its manifest and that one's signature.
pub(super) const FILES_MAX: usize = 4_096;

/// The files of a bundle. Nothing of what they are is believed.
pub trait Files: Sync {
    /// Every name, with whether it is a plain file.
    ///
    /// # Errors
    /// What cannot be looked at.
    fn names(&self) -> Result<BTreeMap<Vec<u8>, bool>, Wrong>;

    /// A file and its size. A link is not followed, and nothing is waited for.
    ///
    /// # Errors
    /// Of the system.
    fn open(&self, name: &str) -> io::Result<(Box<dyn Read + Send + '_>, u64)>;

    /// A small file, whole.
    ///
    /// # Errors
    /// Where it cannot be read, or is not small.
    fn small(&self, name: &str) -> Result<Vec<u8>, Wrong> {
        let (file, _) = self.open(name)?;
        small(file)
    }
}

/// All of a reader, where that is not much.
pub(super) fn small(file: impl Read) -> Result<Vec<u8>, Wrong> {
    let mut bytes = Vec::new();
    file.take(SMALL_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(length) if length <= SMALL_MAX => Ok(bytes),
        _ => Err(Wrong::from("is larger than 16 MiB")),
    }
}

/// On the disk.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    fn look(
        &self,
        below: Option<&OsStr>,
        found: &mut BTreeMap<Vec<u8>, bool>,
    ) -> Result<(), Wrong> {
        let path = below.map_or_else(|| self.0.clone(), |below| self.0.join(below));
        for entry in std::fs::read_dir(path).map_err(unlisted)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            if kind.is_dir() && below.is_none() {
                self.look(Some(&name), found)?;
            } else {
                let before = below.map(|below| [below.as_bytes(), b"/"].concat());
                let name = [before.unwrap_or_default().as_slice(), name.as_bytes()].concat();
                found.insert(name, kind.is_file());
            }
            if found.len() > FILES_MAX.saturating_add(2) {
                return Err(Wrong::from("holds more files than a bundle has"));
            }
        }
        Ok(())
    }
}

fn unlisted(error: io::Error) -> Wrong {
    match error.kind() {
        io::ErrorKind::NotFound => Wrong::from("is not there"),
        io::ErrorKind::NotADirectory => Wrong::from("is not a folder"),
        _ => error.into(),
    }
}

impl Files for Folder {
    fn names(&self) -> Result<BTreeMap<Vec<u8>, bool>, Wrong> {
        let mut found = BTreeMap::new();
        self.look(None, &mut found)?;
        Ok(found)
    }

    fn open(&self, name: &str) -> io::Result<(Box<dyn Read + Send + '_>, u64)> {
        let file = open_plain(&self.0.join(name))?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            // Else only whoever reads it would find that.
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok((Box::new(file), metadata.len()))
    }
}

/// Opens what may be a link or a pipe without following or waiting.
pub(super) fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(openat(rustix::fs::CWD, path, flags, Mode::empty())?.into())
}

/// At most 100 bytes of a stranger's text, printable.
pub(super) fn shown(text: &[u8]) -> String {
    const SHOWN_MAX: usize = 100;
    let mut out = String::new();
    for (at, byte) in text.iter().enumerate() {
        if at == SHOWN_MAX {
            out.push_str("...");
            break;
        }
        match byte {
            b'\\' | 0..0x20 | 0x7f.. => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\x{byte:02x}");
            }
            plain => out.push(char::from(*plain)),
        }
    }
    out
}
