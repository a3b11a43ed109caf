//! A bundle's folder, opened for reading.
//!
//! What comes out is what the files say: each entry proven by its own hash, and nothing beyond that. That the files are
//! those of the manifest, and the entries those of the tree, is for verification, which is to come before.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::iter::Peekable;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use super::error::{BundleError, shown};
use super::layout::{
    CONTEXT, DOCUMENT_BYTES_MAX, ENTRIES, FILES_MAX, LINE_BYTES_MAX, MANIFEST, MANIFEST_SIG, RANGE,
};
use super::line::Parsed;
use super::manifest::Manifest;
use super::range::Range;
use crate::journal::canon::Texts;
use crate::journal::chain::{self, read_evidence, sha256};
use crate::journal::{ChainError, Digest, Entry, Evidence};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Why a folder is no bundle.
const NO_MANIFEST: &str = "it has no manifest.json";

/// A bundle whose names, sizes, manifest and range are as they must be.
#[derive(Debug)]
pub struct Bundle {
    path: PathBuf,
    folder: OwnedFd,
    manifest: Manifest,
    range: Range,
}

/// Where an entry stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the range.
    Range,
    /// Beside it.
    Context,
}

impl Place {
    /// The file it is in.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Range => ENTRIES,
            Self::Context => CONTEXT,
        }
    }
}

/// An entry of a bundle, proven by its own hash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleEntry {
    /// Where it stands.
    pub place: Place,
    /// The entry.
    pub entry: Entry,
    /// Canonical bytes of its moment and figures.
    pub body: Vec<u8>,
    /// Canonical bytes of its evidence, which are those that it names.
    pub evidence: Vec<u8>,
}

impl BundleEntry {
    /// What it rests on.
    ///
    /// # Errors
    /// Bytes that are no evidence, as another version may have written.
    pub fn because(&self) -> Result<Evidence, ChainError> {
        read_evidence(self.entry.seq, self.entry.evidence, &self.evidence)
    }
}

impl Bundle {
    /// Opens one.
    ///
    /// # Errors
    /// [`BundleError::Strange`] of what is no bundle, [`BundleError::Version`] of one of another version,
    /// [`BundleError::Wrong`] of a file that is missing, is no plain file, has another size than the manifest says or
    /// is not named there; what the system says.
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        let strange =
            |what: &str| BundleError::Strange { path: shown(path), what: what.to_owned() };
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOTDIR) => return Err(strange("it is no folder")),
            Err(errno) => return Err(BundleError::io("open", path)(errno.into())),
        };
        let mut found = BTreeMap::new();
        list(&folder, "", &mut found).map_err(BundleError::io("read", path))?;
        if !found.contains_key(MANIFEST) {
            return Err(strange(NO_MANIFEST));
        }
        let bytes = document(&folder, MANIFEST)?;
        let manifest = Manifest::parse(&bytes).map_err(|error| match error {
            BundleError::Version { version, .. } => {
                BundleError::Version { path: shown(path), version }
            }
            error => error,
        })?;
        compare(found, &manifest)?;
        let range = Range::parse(&document(&folder, RANGE)?, &manifest)?;
        Ok(Self { path: path.to_path_buf(), folder, manifest, range })
    }

    /// Its folder, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is of.
    #[must_use]
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What stands beside its range.
    #[must_use]
    pub const fn range(&self) -> &Range {
        &self.range
    }

    /// Whether the manifest names a file.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.manifest.files.iter().any(|file| file.name == name)
    }

    /// One of its files.
    ///
    /// # Errors
    /// [`BundleError::Wrong`] of one that the manifest does not name, or that is no plain file.
    pub fn file(&self, name: &str) -> Result<File, BundleError> {
        if self.has(name) || matches!(name, MANIFEST | MANIFEST_SIG) {
            plain(&self.folder, name)
        } else {
            Err(BundleError::wrong(name, "is not there"))
        }
    }

    /// All of one of its files that is not large.
    ///
    /// # Errors
    /// As [`Self::file`]; one of more than [`DOCUMENT_BYTES_MAX`] bytes.
    pub fn document(&self, name: &str) -> Result<Vec<u8>, BundleError> {
        read_document(self.file(name)?, name)
    }

    /// The entries of the range, or those beside it, as they stand in their file.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn entries(&self, place: Place) -> Result<Entries, BundleError> {
        let file = self.file(place.file())?;
        let reader = BufReader::with_capacity(CHUNK_BYTES, file);
        Ok(Entries {
            reader,
            place,
            line: Vec::new(),
            texts: Texts::default(),
            last: 0,
            ended: false,
        })
    }

    /// All entries, those of the range and those beside it, ascending by number.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn all(
        &self,
    ) -> Result<impl Iterator<Item = Result<BundleEntry, BundleError>>, BundleError> {
        let range = self.entries(Place::Range)?.peekable();
        Ok(Merged { range, context: self.entries(Place::Context)?.peekable() })
    }

    /// The bytes of the files below a folder of the bundle, by their names there.
    ///
    /// # Errors
    /// As [`Self::document`].
    pub fn below(&self, folder: &str) -> Result<BTreeMap<String, Vec<u8>>, BundleError> {
        let mut files = BTreeMap::new();
        for listed in &self.manifest.files {
            let name = listed.name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
            if let Some(name) = name {
                files.insert(name.to_owned(), self.document(&listed.name)?);
            }
        }
        Ok(files)
    }
}

/// What stands in a folder: a plain file's size, or that it is none.
type Found = BTreeMap<String, Option<u64>>;

/// Lists a folder and those directly in it, up to the number that a bundle has at most.
fn list(folder: &OwnedFd, before: &str, found: &mut Found) -> std::io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if name == "." || name == ".." {
            continue;
        }
        if found.len() > FILES_MAX {
            return Ok(());
        }
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(folder, entry.file_name(), flags)?;
        let path = format!("{before}{name}");
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                found.insert(path, u64::try_from(stat.st_size).ok());
            }
            FileType::Directory if before.is_empty() => {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let below = openat(folder, entry.file_name(), flags, Mode::empty())?;
                list(&below, &format!("{name}/"), found)?;
            }
            _ => {
                found.insert(path, None);
            }
        }
    }
    Ok(())
}

/// Every file that the manifest names, of its size, and no other.
fn compare(mut found: Found, manifest: &Manifest) -> Result<(), BundleError> {
    if !matches!(found.remove(MANIFEST_SIG), Some(Some(_))) {
        return Err(BundleError::wrong(MANIFEST_SIG, "is missing"));
    }
    found.remove(MANIFEST);
    for listed in &manifest.files {
        let wrong = |what: &str| Err(BundleError::wrong(&listed.name, what));
        match found.remove(&listed.name) {
            None => return wrong("is missing"),
            Some(None) => return wrong("is no plain file"),
            Some(size) if size != listed.size() => {
                return wrong("has another size than the manifest says");
            }
            Some(_) => {}
        }
    }
    match found.into_keys().next() {
        None => Ok(()),
        Some(name) => {
            let name = shown(Path::new(&name));
            Err(BundleError::wrong(&name, "is not named by the manifest"))
        }
    }
}

/// Opens a plain file below a folder, following no link and waiting for nobody.
fn plain(folder: &OwnedFd, name: &str) -> Result<File, BundleError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match name.split_once('/') {
        None => openat(folder, name, flags, Mode::empty()),
        Some((folder_name, name)) => {
            let flags_folder = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(folder, folder_name, flags_folder, Mode::empty())
                .and_then(|below| openat(below, name, flags, Mode::empty()))
        }
    };
    let file: File = match opened {
        Ok(file) => file.into(),
        Err(Errno::LOOP) => return Err(BundleError::wrong(name, "is a link")),
        Err(errno) => return Err(BundleError::io("open", Path::new(name))(errno.into())),
    };
    let found = file.metadata().map_err(BundleError::io("look at", Path::new(name)))?;
    if found.is_file() { Ok(file) } else { Err(BundleError::wrong(name, "is no plain file")) }
}

fn document(folder: &OwnedFd, name: &str) -> Result<Vec<u8>, BundleError> {
    read_document(plain(folder, name)?, name)
}

fn read_document(file: File, name: &str) -> Result<Vec<u8>, BundleError> {
    let most = u64::try_from(DOCUMENT_BYTES_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(BundleError::io("read", Path::new(name)))?;
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(BundleError::wrong(name, format!("has more than {DOCUMENT_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// The entries of one file, one after the other; none after the first error.
#[derive(Debug)]
pub struct Entries {
    reader: BufReader<File>,
    place: Place,
    line: Vec<u8>,
    texts: Texts,
    last: u64,
    ended: bool,
}

impl Entries {
    fn read(&mut self) -> Result<Option<BundleEntry>, BundleError> {
        let name = self.place.file();
        self.line.clear();
        let most = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        let read = self.reader.by_ref().take(most).read_until(b'\n', &mut self.line);
        if read.map_err(BundleError::io("read", Path::new(name)))? == 0 {
            return Ok(None);
        }
        let last = self.last;
        let wrong = |what: &str| BundleError::wrong(name, format!("{what} after entry {last}"));
        let Some(line) = self.line.strip_suffix(b"\n") else {
            let is_long = self.line.len() > LINE_BYTES_MAX;
            let what =
                if is_long { "has a line of more than 16 MiB" } else { "ends inside a line" };
            return Err(wrong(what));
        };
        let parsed = Parsed::of(line).ok_or_else(|| wrong("has a line that is no entry's"))?;
        if parsed.seq <= self.last {
            return Err(wrong("has an entry out of order"));
        }
        let digest: Digest = sha256(&parsed.evidence);
        let entry = chain::read_sharing(parsed.raw(digest).kept, &self.texts)?;
        self.last = entry.seq;
        let Parsed { body, evidence, .. } = parsed;
        Ok(Some(BundleEntry { place: self.place, entry, body, evidence }))
    }
}

impl Iterator for Entries {
    type Item = Result<BundleEntry, BundleError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read().transpose();
        self.ended = !matches!(read, Some(Ok(_)));
        read
    }
}

/// Two files as one, ascending.
struct Merged {
    range: Peekable<Entries>,
    context: Peekable<Entries>,
}

impl Iterator for Merged {
    type Item = Result<BundleEntry, BundleError>;

    fn next(&mut self) -> Option<Self::Item> {
        let seq = |next: Option<&Result<BundleEntry, BundleError>>| {
            // What is wrong comes first.
            next.map(|next| next.as_ref().map_or(0, |one| one.entry.seq))
        };
        match (seq(self.range.peek()), seq(self.context.peek())) {
            (Some(range), Some(context)) if context < range => self.context.next(),
            (None, _) => self.context.next(),
            _ => self.range.next(),
        }
    }
}
