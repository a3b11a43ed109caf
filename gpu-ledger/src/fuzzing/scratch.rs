//! A folder for parsers that read files: one for each thread, in memory where the host has such a place.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Goes with its thread.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

fn made() -> Scratch {
    let memory = Path::new("/dev/shm");
    let above = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = above.join(format!("gpu-ledger-fuzzing-{}-{number}", std::process::id()));
    drop(fs::create_dir_all(&path));
    Scratch(path)
}

/// Hands out a folder of this thread, which is as it was left the time before.
pub(crate) fn with<T>(work: impl FnOnce(&Path) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| work(&scratch.get_or_insert_with(made).0))
}

/// Writes a file, with the folders that it stands in.
///
/// # Errors
/// What the system says: nothing can be told of a parser then.
pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    if let Some(above) = path.parent() {
        drop(fs::create_dir_all(above));
    }
    let written = fs::write(&path, bytes);
    assert!(written.is_ok(), "{}: {written:?}", path.display());
}
