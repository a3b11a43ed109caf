//! The file of a bolt database, read while its owner writes it.
//!
//! bbolt keeps a tree of pages, and a transaction overwrites no page that the one before it reached (bbolt 1.3.7,
//! `freelist.go`: what a transaction frees is kept until the next one has begun). So what was read is of one piece
//! if no transaction has ended meanwhile. Its lock (`bolt_unix.go`, `flock`) is its owner's for as long as that
//! runs, and no matter of ours: nothing is written, nothing locked, nobody waited for.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;

use super::FilesError;
use super::reading::Folder;

/// How often one looks anew because a transaction has ended meanwhile. Each takes a disk's write, a look some
/// hundred microseconds.
const TRIES: usize = 16;
/// Pages of one look: some ten are on the way to a container.
const PAGES_MAX: usize = 256;
/// Bytes of one page and what overflows it, which a large value does.
const PAGE_BYTES_MAX: u64 = 4 << 20;
/// Bytes of one look, pages and what is listed of them.
const BYTES_MAX: u64 = 16 << 20;
/// Entries of a bucket that are listed.
const ENTRIES_MAX: usize = 256;
/// Bytes before the entries of a page, and of each of them (bbolt, `page.go`).
const HEADER: usize = 16;
const ENTRY: usize = 16;
/// Kinds of pages (bbolt, `page.go`). One that is compressed, as no release writes yet, is neither.
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
/// The flag of an entry that is a bucket (bbolt, `bucket.go`).
const IS_BUCKET: u32 = 1;
/// A meta page from its magic to before its sum, and what it begins with (bbolt, `db.go`).
const META: usize = 56;
const MAGIC: u32 = 0xed0c_daed;
const VERSION: u32 = 2;

/// Why nothing can be told.
#[derive(Debug)]
pub(super) enum Fault {
    /// The file cannot be read.
    Unread(std::io::Error),
    /// It is no such database, or a damaged one.
    Form,
    /// It is written faster than it is read.
    Unsteady,
}

/// What is stored under a key.
pub(super) enum Value {
    /// Bytes.
    Bytes(Vec<u8>),
    /// More keys.
    Bucket(Bucket),
}

/// Keys and what is stored under them.
pub(super) enum Bucket {
    /// On a page of its own.
    Page(u64),
    /// As a page within another.
    Inline(Vec<u8>),
}

/// One look at one state of the database.
pub(super) struct Look<'f> {
    file: &'f File,
    page_size: u64,
    root: u64,
    pages_left: usize,
    bytes_left: u64,
}

/// What one state of a database below this folder tells. `None` where there is no database.
///
/// # Errors
/// Where no state of it could be read as a whole, or one was that is none.
pub(super) fn look<T>(
    folder: &Folder,
    below: &str,
    tell: impl FnMut(&mut Look<'_>) -> Result<Option<T>, Fault>,
) -> Result<Option<T>, FilesError> {
    let Some(file) = folder.file(below)? else { return Ok(None) };
    let path = || folder.path(below);
    look_into(&file, tell).map_err(|fault| match fault {
        Fault::Unread(cause) => FilesError::Unread { path: path(), cause },
        Fault::Form => FilesError::Form { path: path() },
        Fault::Unsteady => FilesError::Busy { path: path() },
    })
}

fn look_into<T>(
    file: &File,
    mut tell: impl FnMut(&mut Look<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    for _ in 0..TRIES {
        let before = Meta::newest(file)?;
        let mut look = Look {
            file,
            page_size: before.page_size,
            root: before.root,
            pages_left: PAGES_MAX,
            bytes_left: BYTES_MAX,
        };
        // What fails may fail because a page changed under it.
        let told = tell(&mut look);
        if Meta::newest(file)?.transaction == before.transaction {
            return told;
        }
    }
    Err(Fault::Unsteady)
}

impl Look<'_> {
    /// What is stored below these keys, each but the last one a bucket's.
    pub(super) fn below(&mut self, keys: &[&[u8]]) -> Result<Option<Value>, Fault> {
        let mut found = Value::Bucket(Bucket::Page(self.root));
        for key in keys {
            let Value::Bucket(bucket) = found else { return Ok(None) };
            match self.get(&bucket, key)? {
                Some(value) => found = value,
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    /// What is stored under this key.
    pub(super) fn get(&mut self, bucket: &Bucket, key: &[u8]) -> Result<Option<Value>, Fault> {
        let mut page = self.first(bucket)?;
        // The pages of a look end, whatever leads to whatever.
        loop {
            let mut next = None;
            for entry in entries(&page)? {
                match entry? {
                    Entry::Leaf { key: this, value, is_bucket } if this == key => {
                        return Value::read(value, is_bucket).map(Some);
                    }
                    Entry::Leaf { .. } => {}
                    // Keys below a branch are not before the branch's.
                    Entry::Branch { key: from, page } if next.is_none() || from <= key => {
                        next = Some(page);
                    }
                    Entry::Branch { .. } => break,
                }
            }
            let Some(next) = next else { return Ok(None) };
            page = self.page(next)?;
        }
    }

    /// Every key of a bucket and what is stored under it, no more than [`ENTRIES_MAX`], in order.
    pub(super) fn list(&mut self, bucket: &Bucket) -> Result<Vec<(Vec<u8>, Value)>, Fault> {
        let mut all = Vec::new();
        let mut open = vec![self.first(bucket)?];
        while let Some(page) = open.pop() {
            for entry in entries(&page)? {
                match entry? {
                    Entry::Leaf { key, value, is_bucket } => {
                        if all.len() < ENTRIES_MAX {
                            // Damaged ones may all have the same bytes.
                            let length = key.len().saturating_add(value.len());
                            let length = u64::try_from(length).map_err(|_| Fault::Form)?;
                            self.bytes_left =
                                self.bytes_left.checked_sub(length).ok_or(Fault::Form)?;
                            all.push((key.to_vec(), Value::read(value, is_bucket)?));
                        }
                    }
                    Entry::Branch { page, .. } if all.len() < ENTRIES_MAX => {
                        open.push(self.page(page)?);
                    }
                    Entry::Branch { .. } => {}
                }
            }
        }
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all)
    }

    fn first(&mut self, bucket: &Bucket) -> Result<Vec<u8>, Fault> {
        match bucket {
            Bucket::Page(page) => self.page(*page),
            Bucket::Inline(page) => Ok(page.clone()),
        }
    }

    fn page(&mut self, number: u64) -> Result<Vec<u8>, Fault> {
        self.pages_left = self.pages_left.checked_sub(1).ok_or(Fault::Form)?;
        let at = number.checked_mul(self.page_size).ok_or(Fault::Form)?;
        let mut header = [0; HEADER];
        read(self.file, &mut header, at)?;
        if u64_at(&header, 0)? != number {
            return Err(Fault::Form);
        }
        let pages = u64::from(u32_at(&header, 12)?).saturating_add(1);
        let length = pages.saturating_mul(self.page_size);
        self.bytes_left = self.bytes_left.checked_sub(length).ok_or(Fault::Form)?;
        let length = Some(length).filter(|length| *length <= PAGE_BYTES_MAX);
        let length = length.and_then(|length| usize::try_from(length).ok()).ok_or(Fault::Form)?;
        let mut page = vec![0; length];
        read(self.file, &mut page, at)?;
        Ok(page)
    }
}

impl Value {
    /// A bucket is the number of its page and a sequence; without a number the page follows (bbolt, `bucket.go`).
    fn read(value: &[u8], is_bucket: bool) -> Result<Self, Fault> {
        if !is_bucket {
            return Ok(Self::Bytes(value.to_vec()));
        }
        let bucket = match u64_at(value, 0)? {
            0 => Bucket::Inline(value.get(16..).ok_or(Fault::Form)?.to_vec()),
            page => Bucket::Page(page),
        };
        Ok(Self::Bucket(bucket))
    }
}

/// One of a page.
enum Entry<'p> {
    Branch { key: &'p [u8], page: u64 },
    Leaf { key: &'p [u8], value: &'p [u8], is_bucket: bool },
}

/// Those of a page. A key and a value lie as far behind their entry as it says.
fn entries(page: &[u8]) -> Result<impl Iterator<Item = Result<Entry<'_>, Fault>>, Fault> {
    let kind = u16_at(page, 8)?;
    if kind != BRANCH && kind != LEAF {
        return Err(Fault::Form);
    }
    let places = (0..usize::from(u16_at(page, 10)?)).map(|n| n.saturating_mul(ENTRY));
    Ok(places.map(move |place| {
        let entry = page.get(place.saturating_add(HEADER)..).ok_or(Fault::Form)?;
        if kind == BRANCH {
            let (key, _) = behind(entry, u32_at(entry, 0)?, u32_at(entry, 4)?, 0)?;
            return Ok(Entry::Branch { key, page: u64_at(entry, 8)? });
        }
        let (key, value) = behind(entry, u32_at(entry, 4)?, u32_at(entry, 8)?, u32_at(entry, 12)?)?;
        Ok(Entry::Leaf { key, value, is_bucket: u32_at(entry, 0)? & IS_BUCKET != 0 })
    }))
}

/// A key of so many bytes, and the value after it.
fn behind(entry: &[u8], at: u32, key: u32, value: u32) -> Result<(&[u8], &[u8]), Fault> {
    let size = |number: u32| usize::try_from(number).map_err(|_| Fault::Form);
    let from = entry.get(size(at)?..).ok_or(Fault::Form)?;
    let (key, rest) = from.split_at_checked(size(key)?).ok_or(Fault::Form)?;
    Ok((key, rest.get(..size(value)?).ok_or(Fault::Form)?))
}

/// What one of the two meta pages says, which are written in turn.
struct Meta {
    page_size: u64,
    root: u64,
    transaction: u64,
}

impl Meta {
    /// That of the last transaction that ended. The second page lies where the first one ends, whose size it tells;
    /// where the first is just being written, at any size that there is (bbolt, `db.go`,
    /// `getPageSizeFromSecondMeta`).
    fn newest(file: &File) -> Result<Self, Fault> {
        let mut newest = None::<Self>;
        for at in std::iter::once(0).chain((10..=24).map(|bits| 1_u64 << bits)) {
            let mut page = [0; HEADER + META + 8];
            match read(file, &mut page, at) {
                Ok(()) => {}
                Err(Fault::Form) => continue,
                Err(fault) => return Err(fault),
            }
            let found = Self::read(&page).filter(|meta| at == 0 || at == meta.page_size);
            if let Some(meta) = found
                && newest.as_ref().is_none_or(|newest| newest.transaction < meta.transaction)
            {
                newest = Some(meta);
            }
        }
        newest.ok_or(Fault::Form)
    }

    /// `None` of what is none, or half written.
    fn read(page: &[u8]) -> Option<Self> {
        let (meta, sum) = page.get(HEADER..)?.split_at_checked(META)?;
        let known = u32_at(meta, 0).ok()? == MAGIC && u32_at(meta, 4).ok()? == VERSION;
        if !known || u64_at(sum, 0).ok()? != fnv(meta) {
            return None;
        }
        let page_size = u64::from(u32_at(meta, 8).ok()?);
        Some(Self { page_size, root: u64_at(meta, 16).ok()?, transaction: u64_at(meta, 48).ok()? })
    }
}

/// FNV-1a of 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Reads all of it; what ends before is no such database.
fn read(file: &File, into: &mut [u8], at: u64) -> Result<(), Fault> {
    file.read_exact_at(into, at).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidInput => Fault::Form,
        _ => Fault::Unread(error),
    })
}

// Numbers are as the machine has them (bbolt, `unsafe.go`).
fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Fault> {
    array_at(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Fault> {
    array_at(bytes, at).map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Fault> {
    array_at(bytes, at).map(u64::from_ne_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Fault> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>());
    found.copied().ok_or(Fault::Form)
}
