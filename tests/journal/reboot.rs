//! What is on a disk after the power failed: of what was not synced, anything.
//!
//! The contents of a file are there as of its last sync; of each later write none, all, or some sectors,
//! in any order. A name is there as of the last sync of its folder; later changes of names are there up to
//! one of them, as a file system with a journal has it, or each or not, as POSIX allows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nvsim::random::Random;

use super::calls::Change;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

/// A folder's files by their paths, and its folders.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) folders: BTreeSet<PathBuf>,
}

impl Tree {
    /// What lies below a folder.
    pub(crate) fn of(root: &Path) -> Self {
        let mut tree = Self::default();
        let mut waiting = vec![root.to_owned()];
        while let Some(folder) = waiting.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    tree.folders.insert(path.clone());
                    waiting.push(path);
                } else {
                    tree.files.insert(path.clone(), std::fs::read(&path).unwrap());
                }
            }
        }
        tree
    }

    /// Makes it below another root.
    pub(crate) fn make(&self, from: &Path, to: &Path) {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        let place = |path: &Path| to.join(path.strip_prefix(from).unwrap());
        for folder in &self.folders {
            std::fs::DirBuilder::new().mode(0o700).create(place(folder)).unwrap();
        }
        for (path, bytes) in &self.files {
            let mut options = std::fs::OpenOptions::new();
            let mut file =
                options.write(true).create_new(true).mode(0o600).open(place(path)).unwrap();
            std::io::Write::write_all(&mut file, bytes).unwrap();
        }
    }
}

/// A change of a file's contents.
#[derive(Clone, Debug)]
enum Content {
    Write { offset: u64, bytes: Vec<u8> },
    Cut(u64),
    Allocate(u64),
}

#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<Content>,
}

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    File(usize),
    Folder,
}

/// A change of names within a folder.
#[derive(Clone, Debug)]
enum Naming {
    Set(PathBuf, Node),
    Gone(PathBuf),
    Moved(PathBuf, PathBuf, Node),
}

type Names = BTreeMap<PathBuf, Node>;

/// A disk, and what the kernel still holds back.
#[derive(Debug)]
pub(crate) struct Disk {
    files: Vec<File>,
    /// As processes see them.
    names: Names,
    /// As they are on the disk.
    durable: Names,
    /// By folder, in order.
    pending: BTreeMap<PathBuf, Vec<Naming>>,
}

impl Disk {
    /// Everything on it is durable.
    pub(crate) fn with(tree: &Tree) -> Self {
        let mut files = Vec::new();
        let mut names: Names =
            tree.folders.iter().map(|path| (path.clone(), Node::Folder)).collect();
        for (path, bytes) in &tree.files {
            names.insert(path.clone(), Node::File(files.len()));
            files.push(File { durable: bytes.clone(), pending: Vec::new() });
        }
        Self { files, durable: names.clone(), names, pending: BTreeMap::new() }
    }

    /// A change was made.
    pub(crate) fn change(&mut self, change: &Change) {
        match change {
            Change::Write { path, offset, bytes } => {
                self.content(path, Content::Write { offset: *offset, bytes: bytes.clone() });
            }
            Change::Cut { path, length } => self.content(path, Content::Cut(*length)),
            Change::Allocate { path, length } => self.content(path, Content::Allocate(*length)),
            Change::Create { path } => {
                self.files.push(File::default());
                self.name(Naming::Set(path.clone(), Node::File(self.files.len() - 1)));
            }
            Change::Folder { path } => self.name(Naming::Set(path.clone(), Node::Folder)),
            Change::Remove { path } => self.name(Naming::Gone(path.clone())),
            Change::Rename { from, to } => {
                let node = self.names[from];
                self.name(Naming::Moved(from.clone(), to.clone(), node));
            }
            Change::Sync { path } => self.sync(path),
            Change::Said { .. } => {}
        }
    }

    fn content(&mut self, path: &Path, content: Content) {
        // The shared memory of the log is written without calls, and made anew after a restart.
        let Some(Node::File(file)) = self.names.get(path) else {
            panic!("{} was never made", path.display());
        };
        self.files[*file].pending.push(content);
    }

    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        let folder = naming.folder().to_owned();
        self.pending.entry(folder).or_default().push(naming);
    }

    fn sync(&mut self, path: &Path) {
        if let Some(Node::File(file)) = self.names.get(path) {
            let file = &mut self.files[*file];
            for content in std::mem::take(&mut file.pending) {
                content.apply(&mut file.durable, |_| true);
            }
            return;
        }
        for naming in self.pending.remove(path).unwrap_or_default() {
            naming.apply(&mut self.durable);
        }
    }

    /// What is there after the power failed.
    pub(crate) fn after_power_loss(&self, random: &mut Random) -> Tree {
        let mut names = self.durable.clone();
        for pending in self.pending.values() {
            let in_order = random.below(2) == 0;
            let kept = random.below(pending.len() as u64 + 1) as usize;
            for (place, naming) in pending.iter().enumerate() {
                if if in_order { place < kept } else { random.below(2) == 0 } {
                    naming.apply(&mut names);
                }
            }
        }
        let mut tree = Tree::default();
        for (path, node) in &names {
            // A folder that is not there takes with it what is in it.
            let above = path.parent().unwrap();
            if self.names.contains_key(above) && !names.contains_key(above) {
                continue;
            }
            match node {
                Node::Folder => {
                    tree.folders.insert(path.clone());
                }
                Node::File(file) => {
                    let bytes = self.files[*file].after_power_loss(random);
                    tree.files.insert(path.clone(), bytes);
                }
            }
        }
        tree
    }
}

impl Naming {
    fn folder(&self) -> &Path {
        let (Self::Set(path, _) | Self::Gone(path) | Self::Moved(_, path, _)) = self;
        path.parent().unwrap()
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Self::Set(path, node) => drop(names.insert(path.clone(), *node)),
            Self::Gone(path) => drop(names.remove(path)),
            Self::Moved(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

impl File {
    fn after_power_loss(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        // All, none, up to some, or any.
        let how = random.below(4);
        let kept = random.below(self.pending.len() as u64 + 1) as usize;
        for (place, content) in self.pending.iter().enumerate() {
            let is_kept = match how {
                0 => true,
                1 => false,
                2 => place < kept,
                _ => random.below(2) == 0,
            };
            let is_torn = how > 1 && (place + 1 == kept || random.below(4) == 0);
            if is_kept {
                content.apply(&mut bytes, |_| !is_torn || random.below(2) == 0);
            }
        }
        bytes
    }
}

impl Content {
    /// Applies what is kept of it, sector by sector.
    fn apply(&self, to: &mut Vec<u8>, mut is_kept: impl FnMut(u64) -> bool) {
        match self {
            Self::Cut(length) => to.resize(usize::try_from(*length).unwrap(), 0),
            Self::Allocate(length) => {
                to.resize(to.len().max(usize::try_from(*length).unwrap()), 0);
            }
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len() as u64;
                for sector in (offset / SECTOR_BYTES)..end.div_ceil(SECTOR_BYTES) {
                    if !is_kept(sector) {
                        continue;
                    }
                    let from = (sector * SECTOR_BYTES).max(*offset);
                    let until = ((sector + 1) * SECTOR_BYTES).min(end);
                    let (place, past) = (from as usize, until as usize);
                    to.resize(to.len().max(past), 0);
                    let (first, last) = ((from - offset) as usize, (until - offset) as usize);
                    to[place..past].copy_from_slice(&bytes[first..last]);
                }
            }
        }
    }
}
