//! Databases of bolt, made page by page.

use std::collections::BTreeMap;
use std::path::Path;

const HEADER: usize = 16;

/// What is to stand under a key.
pub(super) enum Made {
    Bytes(Vec<u8>),
    /// On pages of its own.
    Bucket(Keys),
    /// Within its parent's page.
    Inline(Keys),
}

pub(super) type Keys = BTreeMap<Vec<u8>, Made>;

pub(super) fn keys<const N: usize>(entries: [(&str, Made); N]) -> Keys {
    entries.into_iter().map(|(key, made)| (key.as_bytes().to_vec(), made)).collect()
}

pub(super) fn bytes(bytes: impl AsRef<[u8]>) -> Made {
    Made::Bytes(bytes.as_ref().to_vec())
}

/// `google.protobuf.Any` with this JSON.
pub(super) fn any(json: &str) -> Made {
    let mut any = vec![0x0a, 3, b'u', b'r', b'l', 0x12];
    let mut length = json.len();
    while length > 0x7f {
        any.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    any.push(u8::try_from(length).unwrap());
    any.extend(json.as_bytes());
    Made::Bytes(any)
}

/// Pages as they are filled, from a number on.
pub(super) struct Pages {
    size: usize,
    /// Entries of one page.
    fanout: usize,
    first: usize,
    bytes: Vec<u8>,
}

impl Pages {
    pub(super) fn from(first: usize, size: usize, fanout: usize) -> Self {
        Self { size, fanout, first, bytes: Vec::new() }
    }

    /// Where they begin in the file, and what stands there.
    pub(super) fn into_bytes(self) -> (usize, Vec<u8>) {
        (self.first * self.size, self.bytes)
    }

    /// The number of the page at which this begins.
    pub(super) fn bucket(&mut self, keys: &Keys) -> u64 {
        let mut entries = Vec::new();
        for (key, made) in keys {
            let (flags, value) = match made {
                Made::Bytes(bytes) => (0_u32, bytes.clone()),
                Made::Bucket(keys) => (1, [self.bucket(keys), 0].map(u64::to_ne_bytes).concat()),
                Made::Inline(keys) => {
                    let page = inline(keys);
                    (1, [[0; HEADER].as_slice(), &page].concat())
                }
            };
            entries.push((key.clone(), flags, value));
        }
        let mut level: Vec<(Vec<u8>, u64)> = Vec::new();
        for entries in chunks(&entries, self.fanout) {
            let from = entries.first().map_or(Vec::new(), |(key, _, _)| key.clone());
            let page = self.put(&leaf(entries));
            level.push((from, page));
        }
        while level.len() > 1 {
            let lower = std::mem::take(&mut level);
            for entries in chunks(&lower, self.fanout) {
                let page = self.put(&branch(entries));
                level.push((entries[0].0.clone(), page));
            }
        }
        level[0].1
    }

    /// Gives a page its number, and pages enough.
    fn put(&mut self, page: &[u8]) -> u64 {
        let number = self.first + self.bytes.len() / self.size;
        let count = page.len().div_ceil(self.size);
        let at = self.bytes.len();
        self.bytes.extend(page);
        self.bytes.resize(at + count * self.size, 0);
        let number = u64::try_from(number).unwrap();
        self.bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        let overflow = u32::try_from(count - 1).unwrap();
        self.bytes[at + 12..at + 16].copy_from_slice(&overflow.to_ne_bytes());
        number
    }
}

/// An empty bucket has a page, too.
fn chunks<T>(entries: &[T], size: usize) -> Vec<&[T]> {
    if entries.is_empty() { vec![entries] } else { entries.chunks(size).collect() }
}

fn inline(keys: &Keys) -> Vec<u8> {
    let entries = keys.iter().map(|(key, made)| match made {
        Made::Bytes(bytes) => (key.clone(), 0, bytes.clone()),
        Made::Bucket(_) | Made::Inline(_) => panic!("bolt has no bucket in an inline one"),
    });
    leaf(&entries.collect::<Vec<_>>())
}

fn page(kind: u16, entries: Vec<([u32; 4], Vec<u8>)>) -> Vec<u8> {
    let mut page = vec![0; HEADER];
    page[8..10].copy_from_slice(&kind.to_ne_bytes());
    page[10..12].copy_from_slice(&u16::try_from(entries.len()).unwrap().to_ne_bytes());
    let mut content = Vec::new();
    let left = entries.len();
    for (n, (mut entry, bytes)) in entries.into_iter().enumerate() {
        // A branch has its place first, a leaf its flags.
        let place = usize::from(kind != 1);
        entry[place] = u32::try_from((left - n) * 16 + content.len()).unwrap();
        page.extend(entry.map(u32::to_ne_bytes).concat());
        content.extend(bytes);
    }
    page.extend(content);
    page
}

fn leaf(entries: &[(Vec<u8>, u32, Vec<u8>)]) -> Vec<u8> {
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let entries = entries.iter().map(|(key, flags, value)| {
        ([*flags, 0, size(key), size(value)], [key.as_slice(), value].concat())
    });
    page(2, entries.collect())
}

fn branch(entries: &[(Vec<u8>, u64)]) -> Vec<u8> {
    let entries = entries.iter().map(|(key, page)| {
        let words = page.to_ne_bytes();
        let word = |at: usize| u32::from_ne_bytes(words[at..at + 4].try_into().unwrap());
        ([0, u32::try_from(key.len()).unwrap(), word(0), word(4)], key.clone())
    });
    page(1, entries.collect())
}

/// A meta page: where it lies, and what stands there.
pub(super) fn meta(size: usize, root: u64, transaction: u64) -> (usize, Vec<u8>) {
    let mut page = vec![0; HEADER];
    page[8..10].copy_from_slice(&4_u16.to_ne_bytes());
    let words = [0xed0c_daed, 2, u32::try_from(size).unwrap(), 0].map(u32::to_ne_bytes).concat();
    // Root and its sequence, freelist, pages, transaction.
    let rest = [root, 0, u64::MAX, 100, transaction].map(u64::to_ne_bytes).concat();
    let meta = [words, rest].concat();
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for byte in &meta {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    page.extend(meta);
    page.extend(sum.to_ne_bytes());
    (usize::try_from(transaction % 2).unwrap() * size, page)
}

/// A whole database.
pub(super) fn database(keys: &Keys, size: usize, fanout: usize) -> Vec<u8> {
    let mut pages = Pages::from(2, size, fanout);
    let root = pages.bucket(keys);
    let (from, content) = pages.into_bytes();
    let mut file = vec![0; from];
    file.extend(content);
    for transaction in [6, 7] {
        // The older one leads nowhere.
        let (at, page) = meta(size, if transaction == 7 { root } else { 1 << 40 }, transaction);
        file[at..at + page.len()].copy_from_slice(&page);
    }
    file
}

pub(super) fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}
