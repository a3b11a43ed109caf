//! What fuzzing asks of the readers of the ring and of BTF (`fuzz/README.md`).

use std::mem::offset_of;
use std::path::Path;

use bytes::Bytes;
use gpu_ledger_ebpf::{ARGV_MAX, CGROUP_PATH_MAX, FILENAME_MAX, Header, flag};

use super::btf::Btf;
use super::{Argv, ArgvState, Event, LoginUid, Subject, offsets, wire, witness};
use crate::unit::Pid;

/// A record of the ring: an event or a named error; a member that a flag calls unknown is unknown and never a number,
/// and no text is longer than its bound or than the record.
///
/// # Panics
/// Where that does not hold.
pub fn ring(bytes: &[u8]) {
    let record = Bytes::copy_from_slice(bytes);
    let head = wire::parse_head(&record);
    let Ok(event) = wire::parse(&record) else { return };
    let flags = bytes.get(offset_of!(Header, flags)..).and_then(<[u8]>::first_chunk);
    let flags = flags.copied().map_or(0, u32::from_le_bytes);
    let is = |unknown: u32| flags & unknown != 0;
    match &event {
        Event::Fork(fork) => subject(&fork.subject, flags),
        Event::Exit(exit) => {
            subject(&exit.subject, flags);
            assert_eq!(exit.wait_status.is_none(), is(flag::WAIT_STATUS_UNKNOWN));
        }
        Event::DeviceTouch(touch) => subject(&touch.subject, flags),
        Event::Exec(exec) => {
            subject(&exec.subject, flags);
            assert_eq!(exec.exe.is_none(), is(flag::EXECUTABLE_UNKNOWN));
            assert!(exec.filename.len() <= FILENAME_MAX && exec.argv.bytes.len() <= ARGV_MAX);
            arguments(&exec.argv, flags);
        }
        Event::CgroupMade(made) => {
            assert_eq!(made.path.is_none(), is(flag::TEXT_FAULTED));
            assert!(made.path.as_ref().is_none_or(|path| path.len() <= CGROUP_PATH_MAX));
        }
    }
    assert!(head.is_ok(), "a record whose head is none: {event:?}");
}

fn arguments(argv: &Argv, flags: u32) {
    let kept = u64::try_from(argv.bytes.len()).ok();
    assert_eq!(argv.true_length.is_none(), flags & flag::ARGV_PLACE_UNKNOWN != 0);
    match argv.state {
        ArgvState::Whole => assert_eq!(kept, argv.true_length),
        ArgvState::Truncated => assert!(kept < argv.true_length),
        ArgvState::Shed | ArgvState::Unreadable => assert!(argv.bytes.is_empty()),
    }
}

fn subject(subject: &Subject, flags: u32) {
    let is = |unknown: u32| flags & unknown != 0;
    assert_ne!(subject.key.pid, Pid(0));
    assert_eq!(subject.parent.is_none(), is(flag::PARENT_UNKNOWN));
    assert_eq!(
        (subject.uid.is_none(), subject.euid.is_none()),
        (is(flag::USER_UNKNOWN), is(flag::USER_UNKNOWN))
    );
    assert_eq!(subject.login_uid == LoginUid::Unread, is(flag::LOGIN_UID_UNKNOWN));
    assert_eq!(subject.cgroups.is_none(), is(flag::CGROUPS_UNKNOWN));
}

/// Type information: a table or a named error, and of any table an answer or a named error to everything that is asked,
/// in bounded time.
pub fn btf(bytes: &[u8]) {
    let Ok(btf) = Btf::parse(bytes.to_vec()) else { return };
    let outer = btf.member("outer", &["deep", "first", "many"]);
    if let Ok(member) = outer {
        drop(btf.array_length(member));
    }
    drop(btf.enumerator("cgroup_subsys_id", "cpuset_cgrp_id"));
    drop(btf.tracepoint_arguments("sched_process_exit"));
    drop(offsets::resolve(&btf));
}

/// Parent and start as the self-test's own reader of `stat` has them.
pub(crate) fn stat(process: &Path) -> Option<(Pid, u64)> {
    witness::stat(process).ok()
}

/// Everything else of procfs that this room reads, below a made one.
pub(crate) fn procfs(proc_root: &Path, process: &Path) {
    drop(super::devices::nvidia_majors(proc_root));
    drop(super::mounts::cgroup_mounts(proc_root));
    drop(super::mounts::cgroup2_root(proc_root));
    drop(super::preflight::effective_capabilities(proc_root));
    drop(witness::executables(process));
    drop(witness::cgroups(proc_root, process));
    drop(witness::user_ids(process));
    drop(witness::login_uid(process));
}
