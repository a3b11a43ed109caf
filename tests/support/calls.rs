//! A program that asks before it changes the file system: each change can pass, fail, or be its last act.
//!
//! The kernel asks (`seccomp_unotify(2)`), so a call is seen whichever library and thread makes it, and the
//! program under test has no part in it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal};

/// Where a watched program has the descriptor that we take from it.
const LISTENER: RawFd = 210;
/// Longest path that is read out of a program.
const PATH_MAX: usize = 4_096;

/// A change that is about to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Write {
        path: PathBuf,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Of a file, or of a folder and the names in it.
    Sync {
        path: PathBuf,
    },
    /// To a length.
    Cut {
        path: PathBuf,
        length: u64,
    },
    /// Up to a length, where it is shorter.
    Allocate {
        path: PathBuf,
        length: u64,
    },
    /// A file under a name that is not there.
    Create {
        path: PathBuf,
    },
    Folder {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    /// A name that is there.
    Remove {
        path: PathBuf,
    },
    /// Words on its standard output.
    Said {
        bytes: Vec<u8>,
    },
}

/// What becomes of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Passes,
    /// The call returns this error.
    Fails(i32),
    /// The program is killed before it is made.
    Kills,
}

impl Change {
    /// What it is about, unless it is what is said.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Write { path, .. }
            | Self::Sync { path }
            | Self::Cut { path, .. }
            | Self::Allocate { path, .. }
            | Self::Create { path }
            | Self::Folder { path }
            | Self::Remove { path }
            | Self::Rename { from: path, .. } => Some(path),
            Self::Said { .. } => None,
        }
    }

    /// What is done, in a word.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Write { .. } => "write",
            Self::Sync { .. } => "sync",
            Self::Cut { .. } => "cut",
            Self::Allocate { .. } => "allocate",
            Self::Create { .. } => "create",
            Self::Folder { .. } => "folder",
            Self::Rename { .. } => "rename",
            Self::Remove { .. } => "remove",
            Self::Said { .. } => "said",
        }
    }
}

/// Makes the program that this command starts ask about every change.
pub(crate) fn ask(command: &mut Command) {
    let filter = filter();
    let install = move || install(&filter);
    // SAFETY: between fork and exec it makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(install) };
}

/// Judges the changes that a program makes below a folder, and what it says. Ends with the program.
pub(crate) fn judge(
    child: &Child,
    folder: &Path,
    judge: impl FnMut(Change) -> Verdict + Send + 'static,
) -> JoinHandle<()> {
    let pid = Pid::from_child(child);
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let listener = rustix::process::pidfd_getfd(pidfd, LISTENER, PidfdGetfdFlags::empty()).unwrap();
    let judging = Judging { pid, folder: std::fs::canonicalize(folder).unwrap(), listener, judge };
    std::thread::spawn(move || judging.run())
}

/// The calls that change something. Of `openat` only what can make a file.
const CALLS: &[libc::c_long] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fallocate,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
];

/// Classic BPF over `struct seccomp_data` (`include/uapi/linux/seccomp.h`).
fn filter() -> Vec<libc::sock_filter> {
    const NUMBER_OFFSET: u32 = 0;
    const FLAGS_OFFSET: u32 = 16 + 2 * 8;
    let step = |code: u32, k: u32, jt: usize, jf: usize| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: u8::try_from(jt).unwrap(),
        jf: u8::try_from(jf).unwrap(),
        k,
    };
    let load = |offset| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    let ends = |verdict| step(libc::BPF_RET | libc::BPF_K, verdict, 0, 0);
    let equals = |call: libc::c_long, jt| {
        let call = u32::try_from(call).unwrap();
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call, jt, 0)
    };
    let count = CALLS.len();
    let mut steps = vec![load(NUMBER_OFFSET)];
    // To the last step but one of: openat, pass, load flags, creates?, pass, ask.
    steps.extend(CALLS.iter().enumerate().map(|(place, call)| equals(*call, count - place + 4)));
    steps.push(equals(libc::SYS_openat, 1));
    steps.push(ends(libc::SECCOMP_RET_ALLOW));
    steps.push(load(FLAGS_OFFSET));
    let creates = u32::try_from(libc::O_CREAT).unwrap();
    steps.push(step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, creates, 1, 0));
    steps.push(ends(libc::SECCOMP_RET_ALLOW));
    steps.push(ends(libc::SECCOMP_RET_USER_NOTIF));
    steps
}

fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let (doing, flag) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the kernel copies the program, which lives until this returns.
    let made = unsafe { libc::syscall(libc::SYS_seccomp, doing, flag, &raw const program) };
    let made = RawFd::try_from(made).map_err(|_| io::ErrorKind::InvalidData)?;
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // Under a number that we know, and kept over exec.
    // SAFETY: it takes two numbers.
    let kept = unsafe { libc::dup2(made, LISTENER) };
    if kept < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

struct Judging<J> {
    pid: Pid,
    folder: PathBuf,
    listener: OwnedFd,
    judge: J,
}

impl<J: FnMut(Change) -> Verdict> Judging<J> {
    fn run(mut self) {
        loop {
            let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
            match rustix::event::poll(&mut ready, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => panic!("poll: {errno}"),
            }
            if ready[0].revents().contains(PollFlags::IN) {
                self.one();
            } else if ready[0].revents().contains(PollFlags::HUP) {
                return;
            }
        }
    }

    fn one(&mut self) {
        // SAFETY: a structure of integers, which the kernel wants zeroed.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        let listener = self.listener.as_raw_fd();
        // SAFETY: the kernel writes one structure of this type.
        let got = unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) };
        if got < 0 {
            // Whoever asked was killed meanwhile.
            return;
        }
        let change = Asked { pid: asked.pid, data: asked.data, folder: &self.folder }.change();
        let verdict = change.map_or(Verdict::Passes, &mut self.judge);
        let (error, flags) = match verdict {
            Verdict::Passes => (0, u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap()),
            Verdict::Fails(errno) => (-errno, 0),
            Verdict::Kills => {
                rustix::process::kill_process(self.pid, Signal::KILL).unwrap();
                return;
            }
        };
        let answer = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags };
        // It fails where whoever asked was killed meanwhile.
        // SAFETY: the kernel reads one structure of this type.
        let _ = unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    }
}

/// A call that waits.
struct Asked<'a> {
    pid: u32,
    data: libc::seccomp_data,
    folder: &'a Path,
}

impl Asked<'_> {
    /// What it would change; `None` where that is nothing of ours.
    fn change(&self) -> Option<Change> {
        let [a, b, c, d, ..] = self.data.args;
        match libc::c_long::from(self.data.nr) {
            libc::SYS_write if a == 1 => Some(Change::Said { bytes: self.bytes(b, c) }),
            libc::SYS_write => {
                let path = self.file(a)?;
                Some(Change::Write { path, offset: self.position(a), bytes: self.bytes(b, c) })
            }
            libc::SYS_pwrite64 => {
                let path = self.file(a)?;
                Some(Change::Write { path, offset: d, bytes: self.bytes(b, c) })
            }
            libc::SYS_fsync | libc::SYS_fdatasync => Some(Change::Sync { path: self.file(a)? }),
            libc::SYS_ftruncate => Some(Change::Cut { path: self.file(a)?, length: b }),
            libc::SYS_fallocate => {
                assert_eq!(b, 0, "a mode of fallocate that is not known here");
                Some(Change::Allocate { path: self.file(a)?, length: c + d })
            }
            libc::SYS_renameat | libc::SYS_renameat2 => self.rename((a, b), (c, d)),
            libc::SYS_unlinkat => self.remove(a, b),
            libc::SYS_mkdirat => self.make(a, b, |path| Change::Folder { path }),
            libc::SYS_openat => self.make(a, b, |path| Change::Create { path }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.rename((CWD, a), (CWD, b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => self.remove(CWD, a),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.make(CWD, a, |path| Change::Folder { path }),
            number => {
                let of_ours = self.file(a);
                assert!(of_ours.is_none(), "call {number} on {of_ours:?} is not known here");
                None
            }
        }
    }

    fn rename(&self, from: (u64, u64), to: (u64, u64)) -> Option<Change> {
        let (from, to) = (self.named(from.0, from.1)?, self.named(to.0, to.1)?);
        Some(Change::Rename { from, to })
    }

    fn remove(&self, at: u64, name: u64) -> Option<Change> {
        let path = self.named(at, name)?;
        path.symlink_metadata().is_ok().then_some(Change::Remove { path })
    }

    fn make(&self, at: u64, name: u64, change: impl Fn(PathBuf) -> Change) -> Option<Change> {
        let path = self.named(at, name)?;
        path.symlink_metadata().is_err().then(|| change(path))
    }

    /// The file of a descriptor, where it is one in the folder and still has a name.
    fn file(&self, descriptor: u64) -> Option<PathBuf> {
        let link = self.descriptor("fd", descriptor);
        let path = std::fs::read_link(link).ok()?;
        let has_name = !path.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
        (has_name && path.starts_with(self.folder)).then_some(path)
    }

    fn named(&self, at: u64, name: u64) -> Option<PathBuf> {
        let bytes = self.bytes(name, u64::try_from(PATH_MAX).unwrap());
        let name = bytes.split(|byte| *byte == 0).next().unwrap();
        let name = Path::new(std::str::from_utf8(name).ok()?);
        let path = if name.is_absolute() {
            name.to_owned()
        } else {
            let from = if lower_half(at) == lower_half(CWD) {
                PathBuf::from(format!("/proc/{}/cwd", self.pid))
            } else {
                self.descriptor("fd", at)
            };
            std::fs::read_link(from).ok()?.join(name)
        };
        path.starts_with(self.folder).then_some(path)
    }

    fn descriptor(&self, of: &str, descriptor: u64) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{of}/{}", self.pid, lower_half(descriptor)))
    }

    fn position(&self, descriptor: u64) -> u64 {
        let text = std::fs::read_to_string(self.descriptor("fdinfo", descriptor)).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("pos:")).unwrap();
        line.trim().parse().unwrap()
    }

    /// Bytes of its memory, as many as there are.
    fn bytes(&self, address: u64, length: u64) -> Vec<u8> {
        let memory = File::open(format!("/proc/{}/mem", self.pid)).unwrap();
        let mut bytes = vec![0; usize::try_from(length).unwrap()];
        let mut have = 0;
        while have < bytes.len() {
            let from = address + u64::try_from(have).unwrap();
            match memory.read_at(&mut bytes[have..], from) {
                Ok(0) | Err(_) => break,
                Ok(count) => have += count,
            }
        }
        bytes.truncate(have);
        bytes
    }
}

/// `AT_FDCWD`, as a call has it in a register.
const CWD: u64 = 0xffff_ff9c;

/// A descriptor is an `int`: what the upper half of its register holds means nothing.
const fn lower_half(argument: u64) -> u64 {
    argument & 0xffff_ffff
}
