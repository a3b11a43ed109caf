//! All reads of kernel structures.
//!
//! Nothing here knows a layout: each member lies where the loader's [`Offsets`] say. Two ways of
//! reading exist, because two kinds of pointer do: those the verifier knows (arguments of a BTF
//! tracepoint), and plain addresses.
//!
//! A read that failed is `None`, never a number. A copy by helper reports its fault. A direct load
//! cannot: the kernel's exception table puts 0 into the register and lets the program go on
//! (`arch/x86/net/bpf_jit_comp.c`, `ex_handler_bpf`), so a fault looks like a member that is 0. Hence:
//! - a pointer that is null counts as not read. None that is followed here is ever null in a task
//!   that lives, forks, execs or exits; so a fault on the way to a member is always noticed.
//! - a member that cannot be 0 counts as not read where it is: tgid and start, kernfs id, a v1
//!   hierarchy's number, device and inode of an executable, the place of argv.
//! - what remains are members that may be 0: `signal`'s `live`, `flags` and `group_exit_code`, the
//!   leader's `exit_code`, the hierarchy of a cgroup just made. A fault there would be taken for 0.
//!   Each lies in a structure whose address was just read and which the task, or the kernel for the
//!   length of the tracepoint, holds; `loginuid` lies in the task itself, the tracepoint's argument.

use core::ptr;

use aya_ebpf::helpers::bpf_probe_read_kernel;
use gpu_ledger_ebpf::{
    ABSENT, BOOT_TGID_MAX, CGROUPS, Cgroup, NO_LOGIN_UID, Offsets, Subject, flag,
};

use crate::ring::Counting;
use crate::unread::Unread;

/// Set by the loader before the programs are verified, and frozen then.
#[unsafe(no_mangle)]
static OFFSETS: Offsets = Offsets::NONE;

/// The offset of one member. A volatile read, or the compiler would fold in what stands above.
macro_rules! offset {
    ($member:ident) => {
        // SAFETY: a reference to a static is valid for reads.
        unsafe { ptr::read_volatile(&raw const OFFSETS.$member) }
    };
}

/// A member of a record that is being made.
macro_rules! member {
    ($record:expr, $member:ident) => {
        // SAFETY: the record is whole as far as memory goes.
        unsafe { &raw mut (*$record).$member }
    };
}

/// Puts what is known into its place, there and then: what stays in a register or on the stack is one more thing that
/// the verifier tells states apart by.
macro_rules! put {
    ($record:expr, $member:ident, $value:expr) => {{
        let value = $value;
        let place = crate::task::member!($record, $member);
        // SAFETY: a member of a record that is being made.
        unsafe { core::ptr::write_volatile(place, value) };
    }};
}

pub(crate) use {member, put};

/// The address of a kernel structure.
pub(crate) type Address = *const u8;

/// A way to read kernel memory. `None` is a read that is known to have failed.
pub(crate) trait Memory {
    /// 4 bytes at `base + offset`.
    fn u32(base: Address, offset: u32) -> Option<u32>;
    /// 8 bytes at `base + offset`.
    fn u64(base: Address, offset: u32) -> Option<u64>;
    /// A pointer at `base + offset` that is never null where the read succeeds.
    fn pointer(base: Address, offset: u32) -> Option<Address>;
}

/// Direct loads through pointers that the verifier follows by BTF; a fault reads as 0.
pub(crate) struct Typed;

/// Copies by helper, from any address; a fault is reported.
pub(crate) struct Copied;

/// The place `offset` bytes into the structure at `base`.
#[inline(always)]
#[expect(clippy::as_conversions, reason = "an address has more bits than an offset")]
fn at<T>(base: Address, offset: u32) -> *const T {
    base.wrapping_add(offset as usize).cast()
}

impl Memory for Typed {
    #[inline(always)]
    fn u32(base: Address, offset: u32) -> Option<u32> {
        // SAFETY: the verifier proves that a 4-byte member lies there.
        Some(unsafe { ptr::read_volatile(at(base, offset)) })
    }

    #[inline(always)]
    fn u64(base: Address, offset: u32) -> Option<u64> {
        // SAFETY: the verifier proves that an 8-byte member lies there.
        Some(unsafe { ptr::read_volatile(at(base, offset)) })
    }

    #[inline(always)]
    fn pointer(base: Address, offset: u32) -> Option<Address> {
        // SAFETY: the verifier proves that a pointer member lies there.
        let found: Address = unsafe { ptr::read_volatile(at(base, offset)) };
        if found.is_null() { None } else { Some(found) }
    }
}

impl Memory for Copied {
    #[inline(always)]
    fn u32(base: Address, offset: u32) -> Option<u32> {
        // SAFETY: the helper takes any address and reports a fault.
        unsafe { bpf_probe_read_kernel(at(base, offset)) }.ok()
    }

    #[inline(always)]
    fn u64(base: Address, offset: u32) -> Option<u64> {
        // SAFETY: the helper takes any address and reports a fault.
        unsafe { bpf_probe_read_kernel(at(base, offset)) }.ok()
    }

    #[inline(always)]
    fn pointer(base: Address, offset: u32) -> Option<Address> {
        // SAFETY: the helper takes any address and reports a fault.
        let found: Address = unsafe { bpf_probe_read_kernel(at(base, offset)) }.ok()?;
        if found.is_null() { None } else { Some(found) }
    }
}

/// `signal->flags` once a whole group exits (`include/linux/sched/signal.h`).
const SIGNAL_GROUP_EXIT: u32 = 4;

/// The thread group's leader.
#[inline(always)]
fn leader<M: Memory>(task: Address) -> Option<Address> {
    M::pointer(task, offset!(task_group_leader))
}

/// Whether a task is the first thread of its group, so that its fork made a process.
#[inline(always)]
pub(crate) fn is_process<M: Memory>(task: Address) -> Option<bool> {
    let pid = M::u32(task, offset!(task_pid))?;
    let tgid = M::u32(task, offset!(task_tgid))?;
    // Nobody is forked as 0, the idle task.
    if pid == 0 || tgid == 0 { None } else { Some(pid == tgid) }
}

/// Whether no thread of the group is alive any more.
#[inline(always)]
pub(crate) fn is_group_dead<M: Memory>(task: Address) -> Option<bool> {
    let signal = M::pointer(task, offset!(task_signal))?;
    Some(M::u32(signal, offset!(signal_live))? == 0)
}

/// What wait(2) will report, by the kernel's own rule (`kernel/exit.c`, `wait_task_zombie`).
#[inline(always)]
pub(crate) fn wait_status<M: Memory>(task: Address) -> Option<u32> {
    let signal = M::pointer(task, offset!(task_signal))?;
    if M::u32(signal, offset!(signal_flags))? & SIGNAL_GROUP_EXIT != 0 {
        return M::u32(signal, offset!(signal_group_exit_code));
    }
    M::u32(leader::<M>(task)?, offset!(task_exit_code))
}

/// Puts whom `task` belongs to into its place in a record; `None` where its own identity could not be read. `parent` is
/// any thread of the parent.
#[inline(always)]
pub(crate) fn subject<M: Memory, C: Counting>(
    task: Address,
    parent: Option<Address>,
    place: *mut Subject,
    unread: &Unread<C>,
) -> Option<()> {
    let (tgid, start_ns) = process::<M>(task)?;
    if !is_identity(tgid, start_ns) {
        return None;
    }
    put!(place, tgid, tgid);
    put!(place, start_ns, start_ns);
    put!(place, padding, 0);
    let parent = parent_of::<M>(tgid, parent);
    unread.put(member!(place, parent_tgid), parent.map(|it| it.0), flag::PARENT_UNKNOWN, 0);
    put!(place, parent_start_ns, parent.map_or(0, |it| it.1));
    let ids = user_ids(task);
    unread.put(member!(place, uid), ids.map(|it| it.0), flag::USER_UNKNOWN, 0);
    put!(place, euid, ids.map_or(0, |it| it.1));
    unread.put(member!(place, login_uid), login_uid::<M>(task), flag::LOGIN_UID_UNKNOWN, 0);
    cgroups::<M, C>(task, member!(place, cgroups).cast(), unread);
    Some(())
}

/// The parent as getppid(2) means it.
#[inline(always)]
pub(crate) fn parent<M: Memory>(task: Address) -> Option<Address> {
    M::pointer(task, offset!(task_real_parent))
}

/// The identity of a parent; that of init's and kthreadd's is 0 and 0.
#[inline(always)]
fn parent_of<M: Memory>(child_tgid: u32, parent: Option<Address>) -> Option<(u32, u64)> {
    let (tgid, start_ns) = process::<M>(parent?)?;
    let is_idle_task = tgid == 0 && start_ns == 0 && child_tgid <= BOOT_TGID_MAX;
    if is_idle_task || is_identity(tgid, start_ns) { Some((tgid, start_ns)) } else { None }
}

#[inline(always)]
fn process<M: Memory>(task: Address) -> Option<(u32, u64)> {
    let start_ns = M::u64(leader::<M>(task)?, offset!(task_start_boottime))?;
    Some((M::u32(task, offset!(task_tgid))?, start_ns))
}

/// Whether a process can have it: zeros are what a direct load that faulted reads.
#[inline(always)]
const fn is_identity(tgid: u32, start_ns: u64) -> bool {
    tgid != 0 && (start_ns != 0 || tgid <= BOOT_TGID_MAX)
}

/// Real and effective user id. Always copied: the member is marked as RCU-protected and what the
/// verifier makes of that differs between kernels.
#[inline(always)]
fn user_ids(task: Address) -> Option<(u32, u32)> {
    let cred = Copied::pointer(task, offset!(task_real_cred))?;
    Some((Copied::u32(cred, offset!(cred_uid))?, Copied::u32(cred, offset!(cred_euid))?))
}

#[inline(always)]
fn login_uid<M: Memory>(task: Address) -> Option<u32> {
    let place = offset!(task_loginuid);
    if place == ABSENT { Some(NO_LOGIN_UID) } else { M::u32(task, place) }
}

const NO_CGROUP: Cgroup = Cgroup { id: 0, hierarchy: 0, present: 0 };

#[inline(always)]
fn cgroups<M: Memory, C: Counting>(task: Address, place: *mut Cgroup, unread: &Unread<C>) {
    let Some(set) = M::pointer(task, offset!(task_cgroups)) else {
        unread.note(flag::CGROUPS_UNKNOWN);
        for at in 0..CGROUPS {
            // SAFETY: `place` has room for so many.
            unsafe { ptr::write_volatile(place.wrapping_add(at), NO_CGROUP) };
        }
        return;
    };
    let v2 = M::pointer(set, offset!(css_set_dfl_cgrp));
    let v2_root = v2.and_then(|group| M::pointer(group, offset!(cgroup_root)));
    let put = |at, read| {
        unread.put(place.wrapping_add(at), read, flag::CGROUPS_UNKNOWN, NO_CGROUP);
    };
    // In the order of CONTROLLERS.
    put(0, v2.and_then(default_cgroup::<M>));
    put(1, controller::<M>(set, offset!(css_set_cpuset), v2_root));
    put(2, controller::<M>(set, offset!(css_set_devices), v2_root));
    put(3, controller::<M>(set, offset!(css_set_freezer), v2_root));
    put(4, controller::<M>(set, offset!(css_set_memory), v2_root));
    put(5, controller::<M>(set, offset!(css_set_pids), v2_root));
}

/// The group in v2, whose hierarchy is 0 by definition.
#[inline(always)]
fn default_cgroup<M: Memory>(group: Address) -> Option<Cgroup> {
    Some(Cgroup { id: cgroup_id::<M>(group)?, hierarchy: 0, present: 1 })
}

/// The group in the hierarchy that carries a controller, unless that is v2, which is known already: a
/// controller that is mounted nowhere is v2's too.
#[inline(always)]
fn controller<M: Memory>(set: Address, place: u32, v2_root: Option<Address>) -> Option<Cgroup> {
    if place == ABSENT {
        return Some(NO_CGROUP);
    }
    let state = M::pointer(set, place)?;
    let group = M::pointer(state, offset!(css_cgroup))?;
    let root = M::pointer(group, offset!(cgroup_root))?;
    // A hierarchy that reads as 0 and is not v2's own is one that was not read.
    if root == v2_root? {
        return Some(NO_CGROUP);
    }
    let hierarchy = M::u32(root, offset!(cgroup_root_hierarchy_id))?;
    if hierarchy == 0 {
        return None;
    }
    Some(Cgroup { id: cgroup_id::<M>(group)?, hierarchy, present: 1 })
}

/// A control group's hierarchy and id.
#[inline(always)]
pub(crate) fn cgroup<M: Memory>(group: Address) -> Option<Cgroup> {
    let root = M::pointer(group, offset!(cgroup_root))?;
    let hierarchy = M::u32(root, offset!(cgroup_root_hierarchy_id))?;
    Some(Cgroup { id: cgroup_id::<M>(group)?, hierarchy, present: 1 })
}

/// Ids are given out from 1 (`fs/kernfs/dir.c`, `__kernfs_new_node`).
#[inline(always)]
fn cgroup_id<M: Memory>(group: Address) -> Option<u64> {
    let node = M::pointer(group, offset!(cgroup_kn))?;
    let id = M::u64(node, offset!(kernfs_node_id))?;
    if id == 0 { None } else { Some(id) }
}

/// Where the new image's arguments lie in user memory: start, and length in bytes. The kernel has
/// just put them on the new stack, so neither end is 0.
#[inline(always)]
pub(crate) fn arguments<M: Memory>(mm: Address) -> Option<(u64, u64)> {
    let start = M::u64(mm, offset!(mm_arg_start))?;
    let end = M::u64(mm, offset!(mm_arg_end))?;
    if start == 0 || end < start { None } else { Some((start, end.wrapping_sub(start))) }
}

/// Device and inode of the executable. Device 0 is no device; no file system that is executed from
/// numbers an inode 0 (`fs/inode.c`, `get_next_ino`).
#[inline(always)]
pub(crate) fn executable<M: Memory>(mm: Address) -> Option<(u32, u64)> {
    let file = M::pointer(mm, offset!(mm_exe_file))?;
    let inode = M::pointer(file, offset!(file_f_inode))?;
    let device = M::u32(M::pointer(inode, offset!(inode_i_sb))?, offset!(super_block_s_dev))?;
    let number = M::u64(inode, offset!(inode_i_ino))?;
    if device == 0 || number == 0 { None } else { Some((device, number)) }
}

/// The memory of a task that bears a new image.
#[inline(always)]
pub(crate) fn memory_map<M: Memory>(task: Address) -> Option<Address> {
    M::pointer(task, offset!(task_mm))
}

/// Address of the file name given to exec, in kernel memory.
#[inline(always)]
pub(crate) fn filename<M: Memory>(program: Address) -> Option<Address> {
    M::pointer(program, offset!(binprm_filename))
}
