//! The key that signs checkpoints of the tree, and the last one that it signed.
//!
//! The key lies in `ledger.key`, its entry says from when on it signs. A new one is on the disk under a name of its
//! own before its entry is, and takes the place of the old one after: whenever that is interrupted, the entry says which of
//! the two it is. Nothing is signed that does not continue the checkpoint that was signed last (`checkpoint`): whoever
//! holds that one can prove it of every later one.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use zeroize::Zeroizing;

use super::database::Database;
use super::error::StoreError;
use super::parts::archives_of;
use super::place::{Place, StateDir, io};
use super::schema::has_subtrees;
use super::tree::{self, Tree};
use super::writer::Store;
use crate::journal::Digest;
use crate::journal::entry::{Draft, Evidence, Figures, KeyChange, Moment};
use crate::journal::note::{
    Checkpoint, NOTE_BYTES_MAX, Note, NoteError, SEED_LENGTH, SigningKey, VerifyingKey,
    key_change_text, origin_of,
};
use crate::journal::tree::{check_consistency, consistency};

/// The key.
const KEY: &str = "ledger.key";
/// The key that is to take its place.
const NEXT_KEY: &str = "ledger.key.next";
/// The checkpoint that was signed last.
const LAST: &str = "checkpoint";
/// The one that is being written.
const NEXT: &str = "checkpoint.next";
/// Bytes of a key's file at most: its name has 255.
const KEY_BYTES_MAX: u64 = 512;
/// How often it is tried to be the only one who signs, and how long is waited between two tries.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// A checkpoint with its signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signed {
    /// What is signed.
    pub checkpoint: Checkpoint,
    /// The signed note.
    pub note: Arc<str>,
}

/// Who signs checkpoints of one journal.
#[derive(Debug)]
pub struct Signer {
    place: Place,
    key: SigningKey,
    /// Of the key: whoever signs holds it locked.
    file: File,
}

impl Signer {
    /// The key of a directory's journal; `None` where it has none. For root and the daemon's user, beside a running daemon
    /// too.
    ///
    /// # Errors
    /// [`StoreError::Strange`] of a key that others can read, or that is none; it may not be read.
    pub fn open(dir: &StateDir) -> Result<Option<Self>, StoreError> {
        Self::read(Place::of(dir)?, KEY)
    }

    fn read(place: Place, name: &str) -> Result<Option<Self>, StoreError> {
        let Some(file) = place.open(name, OFlags::RDONLY)? else { return Ok(None) };
        let path = place.file(name);
        let strange = |what: String| StoreError::Strange { path: path.clone(), what };
        let found = rustix::fs::fstat(&file).map_err(io("look at", &path))?;
        if found.st_mode & 0o077 != 0 {
            let mode = found.st_mode & 0o7777;
            return Err(strange(format!("it is a secret that others can read (mode {mode:o})")));
        }
        let owner = place.owner()?;
        if found.st_uid != owner {
            let user = found.st_uid;
            return Err(strange(format!("it belongs to user {user}, its directory to {owner}")));
        }
        let mut text = Zeroizing::new(String::with_capacity(1 << 10));
        let read = (&file).take(KEY_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|cause| StoreError::Io { doing: "read", path: path.clone(), cause })?;
        let key = SigningKey::from_secret_text(&text);
        let key = key.map_err(|error| strange(error.to_string()))?;
        Ok(Some(Self { place, key, file }))
    }

    /// Makes a key of this name under a file name.
    fn make(dir: &StateDir, file: &str, name: &str) -> Result<Self, StoreError> {
        let place = Place::of(dir)?;
        let path = place.file(file);
        let mut seed = Zeroizing::new([0; SEED_LENGTH]);
        random(seed.as_mut_slice()).map_err(io("make", &path))?;
        let text = SigningKey::from_seed(name, &seed)?.secret_text();
        write(&place, file, format_args!("{}\n", text.as_str()))?;
        place.sync()?;
        Self::read(place, file)?.ok_or_else(|| io("make", &path)(Errno::NOENT))
    }

    /// The key that checks what this one signs.
    #[must_use]
    pub const fn public(&self) -> &VerifyingKey {
        self.key.public()
    }

    /// Signs the text of another document than a checkpoint, as a note.
    ///
    /// # Errors
    /// [`StoreError::Note`] where no note can have that text.
    pub fn sign_note(&self, text: &str) -> Result<String, StoreError> {
        Ok(self.key.sign_note(text)?)
    }

    /// The checkpoint that was signed last; `None` before the first. It may be by the key before.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where it is none.
    pub fn last(&self) -> Result<Option<Signed>, StoreError> {
        let Some(file) = self.place.open(LAST, OFlags::RDONLY)? else { return Ok(None) };
        let path = self.place.file(LAST);
        let mut text = String::new();
        let most = u64::try_from(NOTE_BYTES_MAX).unwrap_or(u64::MAX);
        let read = file.take(most).read_to_string(&mut text);
        read.map_err(|cause| StoreError::Io { doing: "read", path: path.clone(), cause })?;
        let opened = Note::parse(text.as_bytes()).and_then(|note| {
            match note.verify(&[self.public()]) {
                // By the key before this one, which its entry names.
                Err(NoteError::Unsigned { .. }) => Checkpoint::parse(note.unproven_text()),
                verified => Checkpoint::parse(verified?),
            }
        });
        match opened {
            Ok(checkpoint) => Ok(Some(Signed { checkpoint, note: text.into() })),
            Err(error) => Err(StoreError::Damaged { path, what: error.to_string() }),
        }
    }

    /// When the last one was signed, by the time of its file, in microseconds since 1970.
    fn last_at(&self) -> Option<u64> {
        let found = std::fs::metadata(self.place.file(LAST)).ok()?.modified().ok()?;
        u64::try_from(found.duration_since(std::time::UNIX_EPOCH).ok()?.as_micros()).ok()
    }

    /// Signs the tree of the first `size` entries. Where that is more than was ever signed, it is what the next one
    /// must continue. The same size gives the same bytes each time.
    ///
    /// # Errors
    /// [`StoreError::Inconsistent`] where the tree does not continue, or lead to, the checkpoint that was signed last;
    /// [`StoreError::TreeUnknown`] and [`StoreError::Archived`] where that cannot be told; those of the database.
    pub fn sign(&self, tree: &mut Tree<'_>, size: u64) -> Result<Signed, StoreError> {
        let _alone = self.alone()?;
        let root = tree.root_at(size)?;
        let last = self.last()?;
        if let Some(Signed { checkpoint: last, .. }) = &last {
            let proven = prove(tree, (size, root), (last.size, last.root));
            proven.map_err(|error| match error {
                StoreError::Tree(cause) => StoreError::Inconsistent {
                    path: self.place.path.clone(),
                    signed: last.size,
                    size: tree.size(),
                    cause,
                },
                error => error,
            })?;
        }
        let checkpoint = Checkpoint { origin: self.public().name().into(), size, root };
        let note = checkpoint.sign(&self.key)?;
        let is_kept = last.is_some_and(|last| {
            last.checkpoint.size > size || (last.checkpoint.size == size && *last.note == *note)
        });
        if !is_kept {
            write(&self.place, NEXT, format_args!("{note}"))?;
            self.place.rename(NEXT, LAST)?;
        }
        Ok(Signed { checkpoint, note: note.into() })
    }

    /// Nobody else signs for as long as the value lives.
    fn alone(&self) -> Result<Alone<'_>, StoreError> {
        let path = self.place.file(KEY);
        for _ in 0..LOCK_TRIES {
            match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Alone(&self.file)),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
                Err(errno) => return Err(io("lock", &path)(errno)),
            }
        }
        Err(StoreError::Busy { path })
    }
}

struct Alone<'a>(&'a File);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // If it fails, closing the file gives it back.
        let _given_back = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

/// That two trees are of one log, whichever of them is the older.
fn prove(tree: &mut Tree<'_>, now: (u64, Digest), last: (u64, Digest)) -> Result<(), StoreError> {
    let (old, new) = if last.0 <= now.0 { (last, now) } else { (now, last) };
    let path = consistency(tree, old.0, new.0)?;
    Ok(check_consistency(old, new, &path)?)
}

/// Writes a file of its owner's alone, synced.
fn write(place: &Place, name: &str, text: std::fmt::Arguments<'_>) -> Result<(), StoreError> {
    let path = place.file(name);
    place.remove(name)?;
    let mut file = place.make(name)?;
    place.give_to_owner(&file, &path)?;
    let text = Zeroizing::new(text.to_string());
    let written = std::io::Write::write_all(&mut file, text.as_bytes());
    written.map_err(|cause| match cause.raw_os_error().map(Errno::from_raw_os_error) {
        Some(errno) => io("write", &path)(errno),
        None => StoreError::Io { doing: "write", path: path.clone(), cause },
    })?;
    rustix::fs::fsync(&file).map_err(io("sync", &path))
}

fn random(bytes: &mut [u8]) -> Result<(), Errno> {
    let wanted = bytes.len();
    let got = rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty())?;
    if got == wanted { Ok(()) } else { Err(Errno::IO) }
}

/// The key that the entries of one file say signs; `None` where none of them does.
fn key_said(database: &Database) -> Result<Option<Arc<str>>, StoreError> {
    // There are keys since there are subtrees.
    if !has_subtrees(database)? {
        return Ok(None);
    }
    let sql = "SELECT max(seq) FROM signing_key WHERE seq >= ?";
    let Some(seq) = database.one(sql, 0, |row| row.get::<_, Option<u64>>(0))?.flatten() else {
        return Ok(None);
    };
    match database.entry(seq)?.map(|entry| entry.figures) {
        Some(Figures::Key(change)) => Ok(Some(change.key)),
        _ => Err(database.damaged(&format!("entry {seq} is no key"))),
    }
}

impl Store {
    /// The key that signs, as the last entry about one says; `None` where no entry that is here does.
    ///
    /// # Errors
    /// Those of the database, and of archives that are here.
    pub fn key_in_force(&self) -> Result<Option<Arc<str>>, StoreError> {
        if let Some(key) = key_said(&self.database)? {
            return Ok(Some(key));
        }
        let origin = &self.database.origin;
        let (archives, _) = archives_of(&self.dir(), &origin.journal, origin.base)?;
        for archive in archives.iter().rev() {
            if let Some(key) = key_said(&archive.database)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Who signs here. At the first start the key is made, with the machine's id in its name, and entered; a change of
    /// keys that was interrupted is brought to its end.
    ///
    /// # Errors
    /// [`StoreError::Key`] where another key signed so far; those of [`Self::append`].
    pub fn signer(&mut self, at: Moment, machine: Option<&[u8]>) -> Result<Signer, StoreError> {
        let dir = self.dir();
        let said = self.key_in_force()?;
        let is_said = |signer: &Signer| said.as_deref() == Some(&*signer.public().to_string());
        let next = Signer::read(Place::of(&dir)?, NEXT_KEY).ok().flatten();
        if next.is_some_and(|next| is_said(&next)) {
            self.place.rename(NEXT_KEY, KEY)?;
        }
        let signer = match (Signer::open(&dir)?, &said) {
            (Some(signer), Some(_)) if is_said(&signer) => return Ok(signer),
            (Some(signer), None) => signer,
            (None, None) => {
                // Whole, or not there at all.
                drop(Signer::make(&dir, NEXT_KEY, &name_of(machine, &dir)?)?);
                self.place.rename(NEXT_KEY, KEY)?;
                self.opened()?
            }
            (found, Some(said)) => {
                let what = match found {
                    Some(found) => format!("it is {} and not {said}", found.public()),
                    None => format!("it is missing: {said} signed so far"),
                };
                return Err(StoreError::Key { path: self.place.file(KEY), what });
            }
        };
        let key = signer.public().to_string().into();
        self.enter_key(at, KeyChange { key, previous: None, signature: None })?;
        Ok(signer)
    }

    /// Lets another key sign from here on, for which the key before signs. Where that one `is_lost`, nobody does, and
    /// everybody sees it.
    ///
    /// # Errors
    /// Those of [`Self::signer`] and [`Self::append`]; [`StoreError::Key`] where a key is said to be lost and is here.
    pub fn rotate_key(
        &mut self,
        at: Moment,
        machine: Option<&[u8]>,
        is_lost: bool,
    ) -> Result<Signer, StoreError> {
        let dir = self.dir();
        let current = match (self.signer(at, machine), is_lost) {
            (Ok(current), false) => Some(current),
            (Ok(_), true) => {
                let what = "it is not lost: it signed so far, and signs for the next one";
                return Err(StoreError::Key { path: self.place.file(KEY), what: what.to_owned() });
            }
            (Err(StoreError::Key { .. } | StoreError::Strange { .. }), true) => None,
            (Err(error), _) => return Err(error),
        };
        let said = self.key_in_force()?;
        // The log stays the same one.
        let name = match said.as_deref().map(str::parse::<VerifyingKey>) {
            Some(Ok(said)) => said.name().to_owned(),
            _ => name_of(machine, &dir)?,
        };
        let next = Signer::make(&dir, NEXT_KEY, &name)?;
        let signature = current.as_ref().map(|current| {
            let text = key_change_text(current.public(), next.public());
            Bytes::copy_from_slice(&current.key.sign(&text))
        });
        let key = next.public().to_string().into();
        self.enter_key(at, KeyChange { key, previous: said, signature })?;
        self.place.rename(NEXT_KEY, KEY)?;
        self.opened()
    }

    /// The key that was put in its place now.
    fn opened(&self) -> Result<Signer, StoreError> {
        let missing = || io("open", &self.place.file(KEY))(Errno::NOENT);
        Signer::open(&self.dir())?.ok_or_else(missing)
    }

    fn enter_key(&mut self, at: Moment, change: KeyChange) -> Result<(), StoreError> {
        let figures = Figures::Key(Box::new(change));
        self.append(vec![Draft { at, figures, evidence: Evidence::None, argv: None }]).map(drop)
    }

    /// Signs the tree of all entries, which is read from the disk for that.
    ///
    /// # Errors
    /// Those of [`Signer::sign`]; [`StoreError::Damaged`] where the disk has another tree than was entered.
    pub fn sign(&self, signer: &Signer) -> Result<Signed, StoreError> {
        let unknown = || tree::unknown(&self.database.path, 0);
        let (size, root) = self.tree_head().ok_or_else(unknown)?;
        let origin = &self.database.origin;
        let archives = match signer.last()? {
            Some(last) if last.checkpoint.size < origin.base => {
                archives_of(&self.dir(), &origin.journal, origin.base)?.0
            }
            _ => Vec::new(),
        };
        let mut tree = Tree::of(&archives, &self.database, size)?;
        if tree.root_at(size)? != root {
            return Err(self.database.damaged("its tree is another than was entered"));
        }
        signer.sign(&mut tree, size)
    }

    fn dir(&self) -> StateDir {
        StateDir::at(&self.place.path)
    }
}

/// The name of the first key: the origin of the machine's log.
fn name_of(machine: Option<&[u8]>, dir: &StateDir) -> Result<String, StoreError> {
    let mut made = [0; 16];
    if let Some(machine) = machine {
        return Ok(origin_of(machine));
    }
    random(&mut made).map_err(io("make", &dir.path().join(KEY)))?;
    Ok(origin_of(&made))
}

impl Signer {
    /// How far was signed, and when: size, and microseconds since 1970.
    ///
    /// # Errors
    /// Those of [`Self::last`].
    pub fn last_size(&self) -> Result<Option<(u64, Option<u64>)>, StoreError> {
        Ok(self.last()?.map(|last| (last.checkpoint.size, self.last_at())))
    }
}
