//! The state directory: whose it is, on what it lies, and who holds it.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::error::StoreError;
use crate::journal::commitment::{CommitmentKey, KEY_LENGTH};

/// Mode of every file.
const FILE_MODE: u32 = 0o600;
/// Mode of the directory, where it is made here.
const DIRECTORY_MODE: u32 = 0o700;
/// What others must not be able to do with a directory of ours: write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A directory that holds, or is to hold, a journal. A name: nothing is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// At this path.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Of its journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.join("ledger.db")
    }
}

/// What a writer should be told, though it can go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Warning {
    /// The directory does not survive a reboot.
    Volatile {
        /// On which file system.
        kind: &'static str,
    },
    /// The key of argument commitments was not there beside a journal that has entries: a new one was
    /// made, and texts kept under the old one can no longer be proven.
    KeyMadeAnew,
    /// There is no reserve for the entry that says the disk is full.
    NoBallast {
        /// Why.
        cause: String,
    },
    /// Not all of the tree is known, and no checkpoint can be signed.
    TreeUnknown {
        /// Why, and what to do.
        cause: String,
    },
    /// Nothing outside the database says up to where it was acknowledged (`ledger.head` is missing), so
    /// entries cut off its end would not be missed.
    NoWitness,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volatile { kind } => {
                write!(f, "the journal lies on {kind} and is gone after a reboot")
            }
            Self::KeyMadeAnew => f.write_str(
                "argv.key was missing and was made anew: argument texts kept so far cannot be proven",
            ),
            Self::NoBallast { cause } => write!(
                f,
                "no space is kept in reserve ({cause}): that the disk was full may not be journaled"
            ),
            Self::TreeUnknown { cause } => write!(f, "no checkpoint can be signed: {cause}"),
            Self::NoWitness => f.write_str(
                "ledger.head was missing: entries cut off the journal's end would not be missed",
            ),
        }
    }
}

/// Files that a journal has beside it, whatever state it is in.
const FILES: [&str; 14] = [
    "ledger.db",
    "ledger.db-wal",
    "ledger.db-shm",
    "ledger.db.new",
    "ledger.db.new-journal",
    "ledger.head",
    "ledger.lock",
    "ledger.ballast",
    "argv.key",
    "argv.key.new",
    "ledger.key",
    "ledger.key.next",
    "checkpoint",
    "checkpoint.next",
];
/// Those that must stay the same files while it is written: whoever opens it next goes by them.
const GUARDED: [&str; 3] = ["ledger.db", "ledger.head", "ledger.lock"];

/// Whether a path is that of a journal's own file, which no report may take the place of.
#[must_use]
pub fn is_of_a_journal(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else { return false };
    let is_archive = name.starts_with("archive-") && name.ends_with(".db");
    (is_archive || FILES.contains(&&*name)) && path.with_file_name("ledger.lock").exists()
}

/// A directory that was looked at.
#[derive(Debug)]
pub(super) struct Place {
    /// Without symbolic links.
    pub(super) path: PathBuf,
    directory: File,
}

/// What a file system is to a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ground {
    Local,
    Volatile(&'static str),
    Network(&'static str),
}

/// By `statfs`' magic number (`include/uapi/linux/magic.h`; Lustre's from its own `lustre_user.h`).
const fn ground(magic: u64) -> Ground {
    match magic {
        0x6969 => Ground::Network("NFS"),
        0x0bd0_0bd0 => Ground::Network("Lustre"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Ground::Network("SMB"),
        0x0102_1994 => Ground::Volatile("tmpfs"),
        0x8584_58f6 => Ground::Volatile("ramfs"),
        _ => Ground::Local,
    }
}

impl Place {
    /// The directory of a writer: made where it is missing, refused where others could write in it.
    pub(super) fn prepare(dir: &StateDir) -> Result<(Self, Option<Warning>), StoreError> {
        let made = match rustix::fs::mkdir(dir.path(), Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(io("make", dir.path())(errno)),
        };
        let place = Self::of(dir)?;
        if made {
            // Whatever the umask took away.
            let private = Mode::from_raw_mode(DIRECTORY_MODE);
            rustix::fs::fchmod(&place.directory, private).map_err(io("chmod", &place.path))?;
            // Else it may be gone after a power failure, with everything that was synced in it.
            let above = rustix::fs::openat(
                &place.directory,
                "..",
                OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY,
                Mode::empty(),
            );
            let synced = above.and_then(rustix::fs::fsync);
            synced.map_err(io("sync the directory above", &place.path))?;
        }
        place.refuse_what_others_can_write()?;
        let found = rustix::fs::fstatfs(&place.directory).map_err(io("look at", &place.path))?;
        // The type of `f_type` differs between architectures; a magic number has 32 bits.
        let magic = u64::try_from(found.f_type).unwrap_or(u64::MAX) & 0xffff_ffff;
        match ground(magic) {
            Ground::Local => Ok((place, None)),
            Ground::Volatile(kind) => Ok((place, Some(Warning::Volatile { kind }))),
            Ground::Network(kind) => Err(StoreError::Network { path: place.path, kind }),
        }
    }

    /// The directory of a reader, as it is.
    pub(super) fn of(dir: &StateDir) -> Result<Self, StoreError> {
        let path = std::fs::canonicalize(dir.path()).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::NotFound => StoreError::Missing { path: dir.path().to_owned() },
            _ => StoreError::Io { doing: "find", path: dir.path().to_owned(), cause },
        })?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let directory = rustix::fs::open(&path, flags, Mode::empty()).map_err(io("open", &path))?;
        Ok(Self { path, directory: directory.into() })
    }

    /// Which files stand where the journal's next opener looks for them: not in the directory that is open here,
    /// which may have been moved away.
    pub(super) fn standing(&self) -> Result<Standing, StoreError> {
        let mut files = Vec::with_capacity(GUARDED.len());
        for name in GUARDED {
            let path = self.file(name);
            match rustix::fs::lstat(&path) {
                Ok(found) => files.push((path, found.st_dev, found.st_ino)),
                Err(Errno::NOENT | Errno::NOTDIR) => return Err(StoreError::Removed { path }),
                Err(errno) => return Err(io("look at", &path)(errno)),
            }
        }
        Ok(Standing(files))
    }

    /// The directory itself, and every one above it that somebody could exchange it in.
    fn refuse_what_others_can_write(&self) -> Result<(), StoreError> {
        let own = rustix::fs::fstat(&self.directory).map_err(io("look at", &self.path))?;
        if own.st_uid != rustix::process::geteuid().as_raw() {
            let (owner, us) = (own.st_uid, rustix::process::geteuid().as_raw());
            let name = user_name(owner);
            let what = format!(
                "it belongs to user {owner}, and this is user {us}; run it as that one, as in \
                 `sudo -u {name} gpu-ledger …`, or name another directory with --state-dir"
            );
            return Err(StoreError::Strange { path: self.path.clone(), what });
        }
        for (above, path) in self.path.ancestors().enumerate() {
            let found = rustix::fs::stat(path).map_err(io("look at", path))?;
            let mode = found.st_mode & 0o7777;
            // In a sticky directory (/tmp) others can make entries, but not exchange ours.
            let kept = above > 0 && (mode & STICKY != 0 || mode & 0o002 == 0);
            if mode & WRITABLE_BY_OTHERS != 0 && !kept {
                return Err(StoreError::Writable { path: path.to_owned(), mode });
            }
        }
        Ok(())
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file in it, never through a symbolic link, and refuses what is not a plain file of ours.
    /// `None` where it is not there.
    pub(super) fn open(&self, name: &str, flags: OFlags) -> Result<Option<File>, StoreError> {
        let path = self.file(name);
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(FILE_MODE);
        let file: File = match rustix::fs::openat(&self.directory, name, flags, mode) {
            Ok(file) => file.into(),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(strange(&path, "it is a symbolic link".to_owned())),
            Err(errno) => return Err(io("open", &path)(errno)),
        };
        let found = rustix::fs::fstat(&file).map_err(io("look at", &path))?;
        refuse_strange(&path, &found)?;
        Ok(Some(file))
    }

    /// Whether a plain file of that name is there. Looks without opening it.
    pub(super) fn has_plain(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.file(name);
        match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => refuse_strange(&path, &found).map(|()| true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(io("look at", &path)(errno)),
        }
    }

    /// Refuses a file that this user may not read, by the system's own word for it.
    pub(super) fn refuse_unreadable(&self, name: &str) -> Result<(), StoreError> {
        let access = rustix::fs::accessat(&self.directory, name, Access::READ_OK, AtFlags::EACCESS);
        access.map_err(io("read", &self.file(name)))
    }

    /// Opens a file for writing and makes it where it is missing, mode 0600 under any umask.
    pub(super) fn make(&self, name: &str) -> Result<File, StoreError> {
        let path = self.file(name);
        let file = self.open(name, OFlags::RDWR | OFlags::CREATE)?;
        // Made by this very call: it can only be gone if somebody takes it away.
        let file = file.ok_or_else(|| io("make", &path)(Errno::NOENT))?;
        let mode = Mode::from_raw_mode(FILE_MODE);
        rustix::fs::fchmod(&file, mode).map_err(io("chmod", &path))?;
        Ok(file)
    }

    /// Makes a directory in it where there is none, its owner's alone and that of this one's owner.
    pub(super) fn make_directory(&self, name: &str) -> Result<(), StoreError> {
        let path = self.file(name);
        let mode = Mode::from_raw_mode(DIRECTORY_MODE);
        match rustix::fs::mkdirat(&self.directory, name, mode) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(()),
            Err(errno) => return Err(io("make", &path)(errno)),
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&self.directory, name, flags, Mode::empty());
        let directory = opened.map_err(io("open", &path))?;
        // Whatever the umask took away.
        rustix::fs::fchmod(&directory, mode).map_err(io("chmod", &path))?;
        self.give_to_owner(&directory, &path)?;
        self.sync()
    }

    /// The user whose directory it is.
    pub(super) fn owner(&self) -> Result<u32, StoreError> {
        let found = rustix::fs::fstat(&self.directory).map_err(io("look at", &self.path))?;
        Ok(found.st_uid)
    }

    /// What root makes in a directory of the daemon's is the daemon's.
    pub(super) fn give_to_owner(&self, made: impl AsFd, path: &Path) -> Result<(), StoreError> {
        let owner = rustix::fs::fstat(&self.directory).map_err(io("look at", &self.path))?;
        if !rustix::process::geteuid().is_root() || owner.st_uid == 0 {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
        rustix::fs::fchown(made, Some(uid), Some(gid)).map_err(io("chown", path))
    }

    /// Takes a name away, where it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(io("remove", &self.file(name))(errno)),
        }
    }

    /// Puts a finished file in its place, durably.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        rustix::fs::renameat(&self.directory, from, &self.directory, to)
            .map_err(io("rename", &self.file(from)))?;
        self.sync()
    }

    /// Names that were made or changed are on the disk when this returns.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        rustix::fs::fsync(&self.directory).map_err(io("sync", &self.path))
    }

    /// Takes the writer's lock, for as long as the value lives; whoever dies gives it back.
    pub(super) fn lock(&self) -> Result<Lock, StoreError> {
        let mut file = self.make("ledger.lock")?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // Only to say who: the lock, not the text, is what keeps us out.
                let read = file.read_to_string(&mut text);
                let holder = read.ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::Held { path: self.path.clone(), holder });
            }
            Err(errno) => return Err(io("lock", &self.file("ledger.lock"))(errno)),
        }
        let pid = format!("{}\n", std::process::id());
        let written = rustix::fs::ftruncate(&file, 0)
            .and_then(|()| rustix::io::pwrite(&file, pid.as_bytes(), 0));
        match written {
            // On a full disk the lock holds all the same, only nameless.
            Ok(_) | Err(Errno::NOSPC) => Ok(Lock { file }),
            Err(errno) => Err(io("write", &self.file("ledger.lock"))(errno)),
        }
    }

    /// The key of argument commitments, and whether it was made now.
    pub(super) fn commitment_key(&self) -> Result<(CommitmentKey, bool), StoreError> {
        if let Some(key) = self.kept_key()? {
            return Ok((key, false));
        }
        let mut bytes = [0; KEY_LENGTH];
        let path = self.file("argv.key");
        let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        if got.map_err(io("make", &path))? != KEY_LENGTH {
            return Err(io("make", &path)(Errno::IO));
        }
        self.remove("argv.key.new")?;
        let file = self.make("argv.key.new")?;
        rustix::io::pwrite(&file, &bytes, 0).map_err(io("write", &path))?;
        rustix::fs::fsync(&file).map_err(io("sync", &path))?;
        self.rename("argv.key.new", "argv.key")?;
        Ok((CommitmentKey::new(bytes), true))
    }

    /// The key, where there is one.
    pub(super) fn kept_key(&self) -> Result<Option<CommitmentKey>, StoreError> {
        let Some(mut file) = self.open("argv.key", OFlags::RDONLY)? else { return Ok(None) };
        let path = self.file("argv.key");
        let found = rustix::fs::fstat(&file).map_err(io("look at", &path))?;
        if found.st_mode & 0o077 != 0 {
            let what =
                format!("it is a secret that others can read (mode {:o})", found.st_mode & 0o7777);
            return Err(StoreError::Strange { path, what });
        }
        let mut bytes = Vec::new();
        let read = file.by_ref().take(64).read_to_end(&mut bytes);
        read.map_err(|cause| StoreError::Io { doing: "read", path: path.clone(), cause })?;
        match <[u8; KEY_LENGTH]>::try_from(bytes) {
            Ok(bytes) => Ok(Some(CommitmentKey::new(bytes))),
            Err(bytes) => {
                let what = format!("a key has {KEY_LENGTH} bytes, it has {}", bytes.len());
                Err(StoreError::Strange { path, what })
            }
        }
    }

    /// Bytes that an unprivileged user can still write on its file system.
    pub(super) fn available(&self) -> Result<u64, StoreError> {
        let found =
            rustix::fs::fstatvfs(self.directory.as_fd()).map_err(io("look at", &self.path))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

fn strange(path: &Path, what: String) -> StoreError {
    StoreError::Strange { path: path.to_owned(), what }
}

/// Refuses what is no regular file, and what another name could change behind our back.
fn refuse_strange(path: &Path, found: &rustix::fs::Stat) -> Result<(), StoreError> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if found.st_nlink == 1 => Ok(()),
        FileType::RegularFile => Err(strange(path, format!("it has {} names", found.st_nlink))),
        FileType::Symlink => Err(strange(path, "it is a symbolic link".to_owned())),
        _ => Err(strange(path, "it is no regular file".to_owned())),
    }
}

/// The files that a running daemon holds open, by device and inode.
#[derive(Debug)]
pub(super) struct Standing(Vec<(PathBuf, u64, u64)>);

impl Standing {
    /// That each of them is the same file as before.
    pub(super) fn is_still(&self, now: &Self) -> Result<(), StoreError> {
        match self.0.iter().zip(&now.0).find(|(before, now)| before != now) {
            None => Ok(()),
            Some(((path, ..), _)) => Err(StoreError::Removed { path: path.clone() }),
        }
    }
}

/// That nobody else writes.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Drop for Lock {
    /// Gives the lock back by name: it belongs to the open file and not to this descriptor (flock(2)), so a
    /// child that another thread is about to start would hold it until its exec closes the copy.
    fn drop(&mut self) {
        // If it fails, closing the file gives it back.
        let _given_back = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// What sudo(8) takes for a user.
fn user_name(uid: u32) -> String {
    match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => crate::escape::escape(user.name.as_bytes()).to_string(),
        Ok(None) | Err(_) => format!("'#{uid}'"),
    }
}

/// Turns an error number into the error of a call on `path`.
pub(super) fn io(doing: &'static str, path: &Path) -> impl Fn(Errno) -> StoreError {
    let path = path.to_owned();
    move |errno| match errno {
        Errno::NOSPC | Errno::DQUOT => StoreError::Full { path: path.clone() },
        _ => StoreError::Io { doing, path: path.clone(), cause: errno.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_given_back_is_free_though_a_child_still_has_a_copy_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(&StateDir::at(folder.path())).unwrap();
        let lock = place.lock().unwrap();
        let copy = lock.file.try_clone().unwrap();
        assert!(matches!(place.lock(), Err(StoreError::Held { .. })));
        drop(lock);
        drop(place.lock().unwrap());
        drop(copy);
    }

    #[test]
    fn a_journals_files_are_known_by_name_and_only_beside_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let head = folder.path().join("ledger.head");
        assert!(!is_of_a_journal(&head), "nobody's");
        std::fs::write(folder.path().join("ledger.lock"), "").unwrap();
        assert!(is_of_a_journal(&head));
        assert!(!is_of_a_journal(&folder.path().join("bill.csv")));
    }

    #[test]
    fn network_file_systems_are_refused_and_volatile_ones_named() {
        assert_eq!(ground(0x6969), Ground::Network("NFS"));
        assert_eq!(ground(0x0bd0_0bd0), Ground::Network("Lustre"));
        assert_eq!(ground(0x0102_1994), Ground::Volatile("tmpfs"));
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x794c_7630] {
            assert_eq!(ground(local), Ground::Local, "ext4, XFS, btrfs, overlayfs");
        }
    }
}
