//! The store against a model, against damage, and against other programs. Segments are short here (32
//! entries), so that small journals have many.

#[expect(
    unreachable_pub,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "shared with the tests of the built library"
)]
#[path = "../../../../../tests/journal/made.rs"]
pub(crate) mod made;

#[expect(dead_code, reason = "shared with the tests of the built library and of the daemon")]
#[expect(unsafe_code, reason = "asks the kernel for the calls of another process")]
#[path = "../../../../../tests/support/calls.rs"]
mod calls;
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "shared with the tests of the built library"
)]
#[path = "../../../../../tests/journal/reboot.rs"]
mod reboot;

mod append_only;
mod archiving;
mod beside;
mod damage;
mod erasing;
mod heads;
mod killed;
mod model;
mod modes;
mod older;
mod signing;
mod tree;

use std::path::Path;

use made::{Expected, Maker};

use super::{Reader, StateDir, Store};
use crate::journal::entry::{Draft, Entry};
use crate::journal::{CommitmentKey, Recovered};

/// A journal in a folder that goes with it.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(made::folder())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn dir(&self) -> StateDir {
        StateDir::at(self.path())
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.dir()).unwrap().0
    }

    fn reader(&self) -> Reader {
        Reader::open(&self.dir()).unwrap()
    }

    /// Every file of it in another folder, but for the reserve, which holds nothing.
    fn copy(&self) -> Self {
        let copy = Self::new();
        for file in std::fs::read_dir(self.path()).unwrap() {
            let file = file.unwrap();
            if file.file_name() == "ledger.ballast" {
                continue;
            }
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        copy
    }
}

/// `count` drafts of a seed, entered in batches; what the pure chain makes of them.
fn filled(folder: &Folder, seed: u64, count: u64) -> (Vec<Entry>, Recovered) {
    let mut store = folder.store();
    let mut maker = Maker::seeded(seed, Some(store.commitment_key().clone()));
    let mut model = Recovered::default();
    let mut entries = Vec::new();
    while model.head.seq < count {
        let mut batch = Vec::new();
        for _ in 0..40 {
            let (draft, expected) = maker.next(&model);
            if expected == Expected::Entered {
                entries.push(model.seal(draft.clone()).unwrap().entry);
                batch.push(draft);
            }
        }
        store.append(batch).unwrap();
    }
    assert_eq!(store.end(), &model);
    (entries, model)
}

/// All entries that a reader gives for a period.
fn read(reader: &Reader, from_ms: u64, to_ms: u64) -> Result<Vec<Entry>, super::StoreError> {
    let mut entries = Vec::new();
    reader.period(from_ms, to_ms, |entry| entries.push(entry.clone()))?;
    Ok(entries)
}

/// A settlement of its own.
fn settlement(pid: u32, key: Option<&CommitmentKey>) -> Draft {
    made::Job::of(pid, made::EPOCH_MS + u64::from(pid) * 1_000, 500).draft(key)
}
