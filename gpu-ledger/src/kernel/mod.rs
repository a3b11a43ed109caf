//! Kernel events: who, at the moment it happens.
//!
//! Purpose: bytes from the ring become typed events. May touch: bpf(2), BTF, the ring and
//! the counters of our own programs. May not: read procfs (that is `identity`), assume UTF-8, or
//! drop a record uncounted, or give a number for a member that the programs could not read.
//! Invariant: any bytes give an [`Event`] or a named error; per CPU, received + lost = produced.

pub mod btf;
pub mod devices;
pub mod error;
mod fault_log;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod loss;
pub mod mounts;
pub mod offsets;
pub mod preflight;
pub mod selftest;
pub mod tracer;
pub mod wire;
mod witness;

pub use error::KernelError;
pub use loss::{Counts, Loss, PerKind, SequenceTracker};
pub use tracer::{DeviceTouchState, Tracer, TracerOptions, object};
pub use wire::WireError;

use std::fmt;
use std::path::Path;

use bytes::Bytes;

use crate::argv::redact;
use crate::unit::{BootNs, Pid};

/// A whole file of procfs or sysfs, any bytes.
fn read_file(path: &Path) -> Result<Vec<u8>, KernelError> {
    let named = |cause| KernelError::File { path: path.display().to_string(), cause };
    std::fs::read(path).map_err(named)
}

/// A process within one boot: its tgid and the boot time at which its leader started.
/// Constant over exec, also over an exec from a thread (`fs/exec.c`, `de_thread`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessKey {
    /// Thread group id in the initial pid namespace.
    pub pid: Pid,
    /// `group_leader->start_boottime`, to the nanosecond.
    pub start: BootNs,
}

/// The kernfs id of a hierarchy's root: the first that is given out (`fs/kernfs/dir.c`,
/// `kernfs_create_root`).
pub const ROOT_GROUP_ID: u64 = 1;

/// A control group: the hierarchy's id (0 = cgroup v2) and the group's kernfs id in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CgroupId {
    /// `cgroup_root.hierarchy_id`; 0 is the default (v2) hierarchy.
    pub hierarchy: u32,
    /// kernfs node id; in v2 also the inode of its directory.
    pub id: u64,
}

/// The audit login uid (`task->loginuid`), which outlives sudo and su.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginUid {
    /// Who logged in.
    Set(u32),
    /// It was never set, or this kernel keeps none.
    Unset,
    /// It could not be read.
    Unread,
}

impl LoginUid {
    /// Who logged in; `None` where nobody did, or it could not be read.
    #[must_use]
    pub const fn uid(self) -> Option<u32> {
        match self {
            Self::Set(uid) => Some(uid),
            Self::Unset | Self::Unread => None,
        }
    }
}

/// What every process event says about its subject (of a fork: the child). `None` is what the
/// kernel programs could not read; a record that cannot say whom it is about counts as lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The process.
    pub key: ProcessKey,
    /// Its parent when the event happened; of a fork, the process that forked. Of init and kthreadd
    /// the idle task, which is pid 0 and started at 0.
    pub parent: Option<ProcessKey>,
    /// Real user id.
    pub uid: Option<u32>,
    /// Effective user id.
    pub euid: Option<u32>,
    /// Audit login uid.
    pub login_uid: LoginUid,
    /// The v2 cgroup, and those of the v1 hierarchies that carry one of [`gpu_ledger_ebpf::CONTROLLERS`],
    /// in that order. `None` where one of them could not be read.
    pub cgroups: Option<Vec<CgroupId>>,
    /// When, on the boot clock.
    pub at: BootNs,
    /// CPU that produced the record.
    pub cpu: u32,
    /// Number of the record on that CPU, lost ones counted.
    pub seq: u64,
}

/// The argument bytes of a new image as they lie in memory: NUL-separated, any bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Argv {
    /// What was captured, at most `ARGV_MAX` bytes of it.
    pub bytes: Bytes,
    /// `arg_end - arg_start`; `None` where these could not be read.
    pub true_length: Option<u64>,
    /// Why `bytes` are fewer than `true_length`, or none at all.
    pub state: ArgvState,
}

/// Without secrets: what is printed for those who look for a fault, a panic's text among it, is read by others too.
impl fmt::Debug for Argv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redacted = redact(&self.bytes, self.state == ArgvState::Truncated);
        let bytes = redacted.map_or_else(|| self.bytes.clone(), Bytes::from);
        let mut shown = f.debug_struct("Argv");
        shown.field("bytes", &bytes).field("true_length", &self.true_length);
        shown.field("state", &self.state).finish()
    }
}

/// How complete the captured argument bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgvState {
    /// All of them.
    Whole,
    /// Cut at the capture limit.
    Truncated,
    /// Not captured: the ring was nearly full, and identity goes first.
    Shed,
    /// The copy from user memory faulted, or where to copy from could not be read.
    Unreadable,
}

/// A new image, from `sched_process_exec`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exec {
    /// Who.
    pub subject: Subject,
    /// Its arguments.
    pub argv: Argv,
    /// The file name given to exec, any bytes (`bprm->filename`). Empty only where it could not be
    /// read: exec refuses an empty one.
    pub filename: Bytes,
    /// Executable's device, as `st_dev` packs it in the kernel (`MKDEV`), and its inode; `None` where
    /// one of them could not be read.
    pub exe: Option<(u64, u64)>,
}

/// A new process, from `sched_process_fork`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fork {
    /// The child.
    pub subject: Subject,
}

/// The last thread of a process is exiting, from `sched_process_exit`. Its descriptors close later.
/// Several threads may report the same exit; the first one counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Who.
    pub subject: Subject,
    /// Wait status (`signal->group_exit_code` or the task's own `exit_code`); `None` where it could
    /// not be read.
    pub wait_status: Option<u32>,
}

/// A control group was made: its name, while there is one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CgroupMade {
    /// Which.
    pub cgroup: CgroupId,
    /// Its path from the hierarchy's root, any bytes; `None` where it could not be read.
    pub path: Option<Bytes>,
    /// When.
    pub at: BootNs,
    /// CPU that produced the record.
    pub cpu: u32,
    /// Number of the record on that CPU.
    pub seq: u64,
}

/// A process opened (or was checked for access to) an NVIDIA character device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceTouch {
    /// Who.
    pub subject: Subject,
    /// Device major.
    pub major: u32,
    /// Device minor; under major `nvidia` the GPU's minor number, 255 = the control device.
    pub minor: u32,
}

/// One record of the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A new process.
    Fork(Fork),
    /// A new image.
    Exec(Exec),
    /// An exit.
    Exit(Exit),
    /// A new control group.
    CgroupMade(CgroupMade),
    /// A device touch.
    DeviceTouch(DeviceTouch),
}

impl Event {
    /// When it happened.
    #[must_use]
    pub const fn at(&self) -> BootNs {
        match self {
            Self::Fork(fork) => fork.subject.at,
            Self::Exec(exec) => exec.subject.at,
            Self::Exit(exit) => exit.subject.at,
            Self::CgroupMade(made) => made.at,
            Self::DeviceTouch(touch) => touch.subject.at,
        }
    }
}
