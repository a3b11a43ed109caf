//! The already living, read from procfs.
//!
//! Purpose: what a process was at the moment of the reading, as values. May touch: the procfs under
//! the folder it is given. May not: take a process that ended while it was read for an error, assume
//! UTF-8, or mix two holders of one pid (`stat` is read before and after, and must name one start).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::io::Errno;

use crate::clock::Clock;
use crate::identity::cgroup::CgroupMounts;
use crate::identity::{IdentityError, User};
use crate::kernel::{Argv, ArgvState, CgroupId, LoginUid};
use crate::unit::{BootNs, Pid};

/// Argument bytes kept of a process, as many as the kernel side captures: the two are compared.
pub const ARGV_KEPT_MAX: usize = gpu_ledger_ebpf::ARGV_MAX;

/// `PF_KTHREAD` of `include/linux/sched.h`, in field 9 of `/proc/PID/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// `loginuid` of a process to which none was ever set (`INVALID_UID`).
const LOGIN_UID_UNSET: u32 = u32::MAX;

/// What procfs showed of one living process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenProcess {
    /// Thread group id.
    pub pid: Pid,
    /// Start since boot in clock ticks (field 22 of `stat`), floored.
    pub start_ticks: u64,
    /// Its parent when it was read, which need not be the one it was born under; 0 = none.
    pub parent: Pid,
    /// Its name in the kernel, at most 15 bytes, any bytes.
    pub comm: Bytes,
    /// Its arguments as they lie in its memory now, a rewritten title included.
    pub argv: Argv,
    /// Where its `exe` link points; empty for a kernel thread or where reading it is not allowed.
    pub exe_path: Bytes,
    /// Device (packed as the kernel does, `MKDEV`) and inode of the executable, where known. On
    /// overlayfs they may differ from those of an exec event.
    pub exe: Option<(u64, u64)>,
    /// Whose it is.
    pub user: User,
    /// Control groups with their paths, of the hierarchies that kernel events name.
    pub cgroups: Vec<(CgroupId, Bytes)>,
    /// Whether it is a thread of the kernel.
    pub is_kernel_thread: bool,
}

/// All living processes, read one after another between two moments.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Before the first process was read.
    pub began: BootNs,
    /// After the last one was.
    pub ended: BootNs,
    /// By pid. A zombie is not among them: it has ended.
    pub processes: Vec<SeenProcess>,
    /// Pids whose files could not be read or made no sense; whether they live is not known.
    pub unreadable: BTreeSet<Pid>,
}

/// A mounted procfs.
#[derive(Clone, Debug)]
pub struct Procfs {
    root: PathBuf,
}

/// What `stat` says.
struct Stat {
    comm: Bytes,
    state: u8,
    parent: Pid,
    flags: u64,
    threads: u64,
    start_ticks: u64,
}

impl Stat {
    /// A zombie, or one being removed. A leader that left its other threads running is one too in
    /// its own files, but its process lives on.
    const fn leader_is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

impl Procfs {
    /// The procfs mounted at `root`, on a host `/proc`.
    #[must_use]
    pub const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Every living process.
    ///
    /// # Errors
    /// The list itself cannot be read. A single process never makes an error: it is gone, or named
    /// among the unreadable.
    pub fn snapshot(
        &self,
        clock: &Clock,
        mounts: &CgroupMounts,
    ) -> Result<Snapshot, IdentityError> {
        let began = clock.now().boot;
        let mut unreadable = BTreeSet::new();
        let mut processes = Vec::new();
        for pid in self.pids()? {
            match self.read(pid, mounts) {
                Ok(Some(seen)) => processes.push(seen),
                Ok(None) => {}
                Err(_) => {
                    unreadable.insert(pid);
                }
            }
        }
        Ok(Snapshot { began, ended: clock.now().boot, processes, unreadable })
    }

    /// One process; `None` where it is gone, ends while it is read, or is a zombie.
    ///
    /// # Errors
    /// A file of it cannot be read though it lives, or has another form than procfs gives it.
    pub fn read(
        &self,
        pid: Pid,
        mounts: &CgroupMounts,
    ) -> Result<Option<SeenProcess>, IdentityError> {
        let folder = self.root.join(pid.to_string());
        let Some(before) = stat(&folder)? else { return Ok(None) };
        if before.leader_is_dead() && before.threads <= 1 {
            return Ok(None);
        }
        let Some(seen) = read_between(&folder, pid, &before, mounts)? else { return Ok(None) };
        match stat(&folder)? {
            Some(after) if after.start_ticks == before.start_ticks => Ok(Some(seen)),
            _ => Ok(None),
        }
    }

    /// When a living process started, in clock ticks since boot; `None` where it is gone or cannot be read.
    #[must_use]
    pub fn start_ticks(&self, pid: Pid) -> Option<u64> {
        stat(&self.root.join(pid.to_string())).ok().flatten().map(|stat| stat.start_ticks)
    }

    fn pids(&self) -> Result<BTreeSet<Pid>, IdentityError> {
        let failed = |cause| IdentityError::Read { path: self.root.clone(), cause };
        let mut pids = BTreeSet::new();
        for entry in std::fs::read_dir(&self.root).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            // Everything else in the folder is no process.
            if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
                pids.insert(Pid(pid));
            }
        }
        Ok(pids)
    }
}

/// What lies between the two readings of `stat`.
fn read_between(
    folder: &Path,
    pid: Pid,
    stat: &Stat,
    mounts: &CgroupMounts,
) -> Result<Option<SeenProcess>, IdentityError> {
    let is_kernel_thread = stat.flags & KERNEL_THREAD != 0;
    let memory = if stat.leader_is_dead() { living_thread(folder)? } else { Some(folder.into()) };
    let Some(memory) = memory else { return Ok(None) };
    let Some(argv) = cmdline(&memory.join("cmdline"), is_kernel_thread)? else { return Ok(None) };
    let Some(user) = user(folder)? else { return Ok(None) };
    let Some(cgroup_lines) = alive(folder.join("cgroup"), |path| std::fs::read(path))? else {
        return Ok(None);
    };
    let (exe_path, exe) = executable(&memory.join("exe"))?;
    Ok(Some(SeenProcess {
        pid,
        start_ticks: stat.start_ticks,
        parent: stat.parent,
        comm: stat.comm.clone(),
        argv,
        exe_path,
        exe,
        user,
        cgroups: mounts.groups_of(&cgroup_lines),
        is_kernel_thread,
    }))
}

/// A thread that still has the memory which a leader that exited first has no more.
fn living_thread(folder: &Path) -> Result<Option<PathBuf>, IdentityError> {
    let Some(threads) = alive(folder.join("task"), |path| std::fs::read_dir(path))? else {
        return Ok(None);
    };
    let with_memory = |thread: &PathBuf| std::fs::read_link(thread.join("exe")).is_ok();
    Ok(threads.filter_map(Result::ok).map(|entry| entry.path()).find(with_memory))
}

/// The two errors with which procfs says that the process is gone.
fn says_gone(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::SRCH].iter().any(|gone| error.raw_os_error() == Some(gone.raw_os_error()))
}

/// The outcome of reading `path`, or `None` where its process is gone.
fn alive<T>(
    path: PathBuf,
    read: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<Option<T>, IdentityError> {
    match read(&path) {
        Ok(outcome) => Ok(Some(outcome)),
        Err(error) if says_gone(&error) => Ok(None),
        Err(cause) => Err(IdentityError::Read { path, cause }),
    }
}

fn stat(folder: &Path) -> Result<Option<Stat>, IdentityError> {
    let path = folder.join("stat");
    let Some(line) = alive(path.clone(), |path| std::fs::read(path))? else { return Ok(None) };
    parse_stat(&line)
        .map(Some)
        .ok_or(IdentityError::Malformed { path, field: "name, state, parent and start time" })
}

/// The name may hold spaces and parentheses, so the fields begin after the last closing one.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let comm = Bytes::copy_from_slice(line.get(open + 1..close)?);
    let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first of them is field 3 of proc_pid_stat(5).
    let field = |number: usize| fields.get(number - 3);
    Some(Stat {
        comm,
        state: *field(3)?.as_bytes().first()?,
        parent: Pid(field(4)?.parse().ok()?),
        flags: field(9)?.parse().ok()?,
        threads: field(20)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
    })
}

/// The argument bytes; `None` where the process is gone.
fn cmdline(path: &Path, is_kernel_thread: bool) -> Result<Option<Argv>, IdentityError> {
    let Some((kept, true_length)) = alive(path.into(), read_bounded)? else { return Ok(None) };
    let (state, true_length) = match (kept.len(), true_length) {
        // Exiting, or emptied by the process itself: its arguments are not to be had.
        (0, _) if !is_kernel_thread => (ArgvState::Unreadable, None),
        (kept, whole) if u64::try_from(kept).is_ok_and(|kept| kept < whole) => {
            (ArgvState::Truncated, Some(whole))
        }
        (_, whole) => (ArgvState::Whole, Some(whole)),
    };
    Ok(Some(Argv { bytes: kept.into(), true_length, state }))
}

/// The first `ARGV_KEPT_MAX` bytes and the length of all of them.
fn read_bounded(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let mut file = File::open(path)?;
    let mut kept = Vec::new();
    let mut length: u64 = 0;
    let mut buffer = [0; ARGV_KEPT_MAX];
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok((kept, length)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let room = ARGV_KEPT_MAX.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
        length = length.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
}

/// The executable's path, device and inode. A kernel thread has none; another user's may not be
/// read without the right to trace it.
fn executable(link: &Path) -> Result<(Bytes, Option<(u64, u64)>), IdentityError> {
    let hidden =
        |error: &io::Error| says_gone(error) || error.kind() == io::ErrorKind::PermissionDenied;
    let failed = |cause| IdentityError::Read { path: link.into(), cause };
    let path = match std::fs::read_link(link) {
        Ok(path) => Bytes::from(path.into_os_string().into_vec()),
        Err(error) if hidden(&error) => Bytes::new(),
        Err(error) => return Err(failed(error)),
    };
    // The link of a deleted file still leads to it.
    let exe = match std::fs::metadata(link) {
        Ok(file) => {
            let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
            Some((u64::from(major) << 20 | u64::from(minor), file.ino()))
        }
        Err(error) if hidden(&error) => None,
        Err(error) => return Err(failed(error)),
    };
    Ok((path, exe))
}

fn user(folder: &Path) -> Result<Option<User>, IdentityError> {
    let path = folder.join("status");
    let Some(status) = alive(path.clone(), |path| std::fs::read(path))? else { return Ok(None) };
    let (uid, euid) =
        parse_uids(&status).ok_or(IdentityError::Malformed { path, field: "line Uid" })?;
    let path = folder.join("loginuid");
    // Absent where the kernel keeps no audit; then nobody has one.
    let login_uid = match alive(path.clone(), |path| std::fs::read_to_string(path))? {
        None => LoginUid::Unset,
        Some(text) => {
            let id: u32 = text
                .trim()
                .parse()
                .map_err(|_| IdentityError::Malformed { path, field: "login user id" })?;
            if id == LOGIN_UID_UNSET { LoginUid::Unset } else { LoginUid::Set(id) }
        }
    };
    Ok(Some(User { uid: Some(uid), euid: Some(euid), login_uid }))
}

/// Real and effective user id. The name in the first line cannot fake the line: procfs escapes
/// line ends in it (`fs/proc/array.c`, `proc_task_name`).
fn parse_uids(status: &[u8]) -> Option<(u32, u32)> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    let mut ids = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    Some((ids.next()?.parse().ok()?, ids.next()?.parse().ok()?))
}

#[cfg(test)]
#[path = "procfs_tests.rs"]
mod tests;
