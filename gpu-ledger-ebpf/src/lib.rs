//! The wire format between the kernel programs and user space: the one definition both sides share.
//!
//! Every record is a [`Header`] followed by what its kind needs. Integers are little-endian (the
//! object is built for `bpfel`), padding is explicit and written as zero, and the layout is
//! asserted below, so that a change on one side alone cannot compile. Text is length and bytes and
//! is never assumed to be UTF-8. User space reads fields at `offset_of!`; nothing is ever cast.
//!
//! The other direction, from loader to programs, are read-only globals: [`Offsets`] and a few
//! numbers, named by the constants in [`global`].
#![no_std]

mod offsets;

pub use offsets::{ABSENT, OFFSET_COUNT, Offsets};

use core::mem::{offset_of, size_of};

/// Version of everything in this file; in every record's header.
pub const WIRE_VERSION: u16 = 3;

/// The kinds of record, and the index of each in [`Counters`]. Index 0 is unused, so that a
/// zeroed record is of no kind.
pub mod kind {
    /// A new process.
    pub const FORK: u16 = 1;
    /// A new image.
    pub const EXEC: u16 = 2;
    /// A process's last thread exits.
    pub const EXIT: u16 = 3;
    /// A control group was made.
    pub const CGROUP_MADE: u16 = 4;
    /// A watched character device was touched.
    pub const DEVICE_TOUCH: u16 = 5;
    /// One more than the highest kind.
    pub const COUNT: usize = 6;
}

/// What a record could not carry, in [`Header::flags`]. A member that is flagged unknown is zero on
/// the wire and says nothing: the flag alone decides, since zero is also root, exit status 0 and v2.
/// There is no flag for whom a record is about: one that cannot say it is lost, and counted so.
pub mod flag {
    /// argv was longer than [`super::ARGV_MAX`]; its beginning is there.
    pub const ARGV_TRUNCATED: u32 = 1;
    /// The copy of argv from user memory faulted; none of it is there.
    pub const ARGV_FAULTED: u32 = 1 << 1;
    /// The ring was nearly full, argv was not read.
    pub const ARGV_SHED: u32 = 1 << 2;
    /// The text (file name or cgroup path) was longer than its bound; its beginning is there.
    pub const TEXT_TRUNCATED: u32 = 1 << 3;
    /// The text could not be read from kernel memory; none of it is there.
    pub const TEXT_FAULTED: u32 = 1 << 4;
    /// Where argv lies could not be read: its true length is unknown, and none of it is there.
    pub const ARGV_PLACE_UNKNOWN: u32 = 1 << 5;
    /// [`super::Subject`]'s `parent_tgid` and `parent_start_ns`.
    pub const PARENT_UNKNOWN: u32 = 1 << 6;
    /// `uid` and `euid`.
    pub const USER_UNKNOWN: u32 = 1 << 7;
    /// `login_uid`.
    pub const LOGIN_UID_UNKNOWN: u32 = 1 << 8;
    /// At least one of `cgroups`.
    pub const CGROUPS_UNKNOWN: u32 = 1 << 9;
    /// `exe_device` and `exe_inode`.
    pub const EXECUTABLE_UNKNOWN: u32 = 1 << 10;
    /// `wait_status`.
    pub const WAIT_STATUS_UNKNOWN: u32 = 1 << 11;

    /// Those of every record about a process.
    pub const OF_SUBJECT: u32 = PARENT_UNKNOWN | USER_UNKNOWN | LOGIN_UID_UNKNOWN | CGROUPS_UNKNOWN;
    /// Those that say why argv is not whole.
    pub const OF_ARGV: u32 = ARGV_TRUNCATED | ARGV_FAULTED | ARGV_SHED | ARGV_PLACE_UNKNOWN;
    /// Those of a file name or a path.
    pub const OF_TEXT: u32 = TEXT_TRUNCATED | TEXT_FAULTED;

    /// Those that a kind of record can carry; `None` for a kind there is not.
    #[must_use]
    pub const fn of_kind(kind: u16) -> Option<u32> {
        match kind {
            super::kind::FORK | super::kind::DEVICE_TOUCH => Some(OF_SUBJECT),
            super::kind::EXEC => Some(OF_SUBJECT | OF_ARGV | OF_TEXT | EXECUTABLE_UNKNOWN),
            super::kind::EXIT => Some(OF_SUBJECT | WAIT_STATUS_UNKNOWN),
            super::kind::CGROUP_MADE => Some(OF_TEXT),
            _ => None,
        }
    }
}

/// Highest tgid that the kernel gives out before its first tick may have come: init is 1, kthreadd
/// is 2 (`init/main.c`, `rest_init`). Only these may have started at 0, and only their parent is
/// the idle task, whose tgid and start are 0.
pub const BOOT_TGID_MAX: u32 = 2;

/// Names of the object's maps.
pub mod map {
    /// The ring of records.
    pub const EVENTS: &str = "EVENTS";
    /// One [`super::Counters`] per CPU.
    pub const COUNTERS: &str = "COUNTERS";
}

/// Names of the object's read-only globals, which the loader sets.
pub mod global {
    /// [`super::Offsets`].
    pub const OFFSETS: &str = "OFFSETS";
    /// `u64`: bytes in the ring above which the reader is woken.
    pub const WAKE_ABOVE: &str = "WAKE_ABOVE";
    /// `u64`: bytes in the ring above which argv is shed.
    pub const SHED_ABOVE: &str = "SHED_ABOVE";
    /// `[u32; DEVICE_MAJORS_MAX]`: majors to report, padded with [`super::NO_MAJOR`].
    pub const DEVICE_MAJORS: &str = "DEVICE_MAJORS";
}

/// Names of the object's programs.
pub mod program {
    /// On `sched_process_fork`.
    pub const FORK: &str = "process_fork";
    /// On `sched_process_exec`.
    pub const EXEC: &str = "process_exec";
    /// On `sched_process_exit` where the tracepoint has one argument: last thread by
    /// `signal->live`, which several threads may see at 0.
    pub const EXIT_BY_LIVE: &str = "process_exit_by_live";
    /// On `sched_process_exit` where the tracepoint says itself that the group is dead
    /// (Linux 6.16, "exit: move and extend sched_process_exit() tracepoint").
    pub const EXIT_BY_GROUP: &str = "process_exit_by_group";
    /// On `cgroup_mkdir`.
    pub const CGROUP_MADE: &str = "cgroup_made";
    /// `cgroup_device` for kernels with atomic fetch-and-add (5.12).
    pub const DEVICE_TOUCH_ATOMIC: &str = "device_touch_atomic";
    /// `cgroup_device` for kernels without.
    pub const DEVICE_TOUCH_PLAIN: &str = "device_touch_plain";
}

/// Most argument bytes a record carries.
pub const ARGV_MAX: usize = 4_096;
/// Most bytes of the file name given to exec: `PATH_MAX`, which the kernel bounds it by
/// (`fs/namei.c`, `getname_flags`), but for `/dev/fd/N/` in front of a path of execveat.
pub const FILENAME_MAX: usize = 4_096;
/// Most bytes of a cgroup's path: the kernel's own bound for this tracepoint
/// (`kernel/cgroup/cgroup.c`, `TRACE_CGROUP_PATH_LEN`).
pub const CGROUP_PATH_MAX: usize = 1_024;
/// The v1 controllers whose groups a record names, in the order of [`Subject::cgroups`]. In these runtimes
/// and batch schedulers put what they run; Slurm may have a job in `freezer`, `devices` or `cpuset` alone
/// (slurm.conf(5), `ProctrackType`; cgroup.conf(5), `ConstrainDevices`, `ConstrainCores`). Where two
/// hierarchies tell as much the later one is believed, so those that hold every process of a unit stand last.
pub const CONTROLLERS: [&str; 5] = ["cpuset", "devices", "freezer", "memory", "pids"];
/// cgroups per record: v2, then one for each of [`CONTROLLERS`].
pub const CGROUPS: usize = 1 + CONTROLLERS.len();
/// Most device majors that can be watched.
pub const DEVICE_MAJORS_MAX: usize = 16;
/// Fills unused places of `DEVICE_MAJORS`; no device has it (majors are 12 bits).
pub const NO_MAJOR: u32 = u32::MAX;
/// A login uid that was never set, or that this kernel does not keep (`AUDIT_UID_UNSET`).
pub const NO_LOGIN_UID: u32 = u32::MAX;

/// Begins every record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Header {
    /// [`WIRE_VERSION`].
    pub version: u16,
    /// One of [`kind`].
    pub kind: u16,
    /// Bytes of the whole record, this header included.
    pub length: u32,
    /// Number of the record on its CPU, from 0, lost ones counted.
    pub seq: u64,
    /// `CLOCK_BOOTTIME` in nanoseconds.
    pub at_ns: u64,
    /// The CPU.
    pub cpu: u32,
    /// Of [`flag`].
    pub flags: u32,
}

/// A control group by hierarchy and kernfs id.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Cgroup {
    /// `cgroup->kn->id`.
    pub id: u64,
    /// `cgroup->root->hierarchy_id`; 0 is v2.
    pub hierarchy: u32,
    /// 1 where this place holds a cgroup; 0 where there is none, or under
    /// [`flag::CGROUPS_UNKNOWN`] where it could not be read.
    pub present: u32,
}

/// Whom a process record is about.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Subject {
    /// `group_leader->start_boottime`, ns.
    pub start_ns: u64,
    /// The same of the parent.
    pub parent_start_ns: u64,
    /// Thread group id.
    pub tgid: u32,
    /// The parent's.
    pub parent_tgid: u32,
    /// `cred->uid`.
    pub uid: u32,
    /// `cred->euid`.
    pub euid: u32,
    /// `task->loginuid`, or [`NO_LOGIN_UID`].
    pub login_uid: u32,
    /// Zero.
    pub padding: u32,
    /// v2, then those of [`CONTROLLERS`].
    pub cgroups: [Cgroup; CGROUPS],
}

/// [`kind::FORK`]; the subject is the child, its parent the process that forked.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ForkRecord {
    /// Header.
    pub header: Header,
    /// The child.
    pub subject: Subject,
}

/// [`kind::EXIT`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ExitRecord {
    /// Header.
    pub header: Header,
    /// Who exits.
    pub subject: Subject,
    /// As wait(2) will report it.
    pub wait_status: u32,
    /// Zero.
    pub padding: u32,
}

/// [`kind::DEVICE_TOUCH`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TouchRecord {
    /// Header.
    pub header: Header,
    /// Who touched.
    pub subject: Subject,
    /// Device major.
    pub major: u32,
    /// Device minor.
    pub minor: u32,
}

/// [`kind::EXEC`], up to its text: `filename_length` bytes of file name, then `argv_length` bytes
/// of arguments follow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ExecHead {
    /// Header.
    pub header: Header,
    /// Who bears the new image.
    pub subject: Subject,
    /// `mm->arg_end - mm->arg_start`.
    pub argv_true_length: u64,
    /// `mm->exe_file->f_inode->i_ino`.
    pub exe_inode: u64,
    /// `mm->exe_file->f_inode->i_sb->s_dev`: major << 20 | minor.
    pub exe_device: u32,
    /// Bytes of file name, its NUL not among them.
    pub filename_length: u32,
    /// Bytes of arguments.
    pub argv_length: u32,
    /// Zero.
    pub padding: u32,
}

/// [`kind::CGROUP_MADE`], up to its text: `path_length` bytes of path follow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CgroupHead {
    /// Header.
    pub header: Header,
    /// Which.
    pub cgroup: Cgroup,
    /// Bytes of path, its NUL not among them.
    pub path_length: u32,
    /// Zero.
    pub padding: u32,
}

/// What the programs count, one per CPU. A record is counted as produced, and takes its number,
/// before anything is read for it and the ring is asked for room; it is lost when whom it is about
/// cannot be read, or when the ring refuses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Counters {
    /// The next record's number, hence how many were produced.
    pub next_seq: u64,
    /// `CLOCK_BOOTTIME` of the last loss in nanoseconds; 0 = none yet.
    pub last_lost_ns: u64,
    /// Produced, by kind.
    pub produced: [u64; kind::COUNT],
    /// Lost, by kind.
    pub lost: [u64; kind::COUNT],
    /// Records whose argv was shed.
    pub argv_shed: u64,
    /// Reads of user or kernel memory that faulted, or gave what cannot be.
    pub read_faults: u64,
    /// The most bytes the ring held when a record was made.
    pub ring_fill_max: u64,
}

/// 64-bit words in [`Counters`]: how user space reads it, without a cast.
pub const COUNTERS_WORDS: usize = size_of::<Counters>() / 8;

// The layout, in numbers. A change here is a change of WIRE_VERSION.
const _: () = {
    assert!(size_of::<Header>() == 32 && offset_of!(Header, seq) == 8);
    assert!(offset_of!(Header, at_ns) == 16 && offset_of!(Header, cpu) == 24);
    assert!(size_of::<Cgroup>() == 16 && offset_of!(Cgroup, hierarchy) == 8);
    assert!(size_of::<Subject>() == 136 && offset_of!(Subject, tgid) == 16);
    assert!(offset_of!(Subject, login_uid) == 32 && offset_of!(Subject, cgroups) == 40);
    assert!(size_of::<ForkRecord>() == 168 && offset_of!(ForkRecord, subject) == 32);
    assert!(size_of::<ExitRecord>() == 176 && offset_of!(ExitRecord, wait_status) == 168);
    assert!(size_of::<TouchRecord>() == 176 && offset_of!(TouchRecord, major) == 168);
    assert!(size_of::<ExecHead>() == 200 && offset_of!(ExecHead, argv_true_length) == 168);
    assert!(offset_of!(ExecHead, exe_device) == 184 && offset_of!(ExecHead, argv_length) == 192);
    assert!(size_of::<CgroupHead>() == 56 && offset_of!(CgroupHead, path_length) == 48);
    assert!(size_of::<Counters>() == 136 && COUNTERS_WORDS == 17);
    assert!(offset_of!(Counters, produced) == 16 && offset_of!(Counters, lost) == 64);
    assert!(size_of::<Offsets>() == OFFSET_COUNT * 4);
};
