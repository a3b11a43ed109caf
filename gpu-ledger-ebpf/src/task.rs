//! All reads of kernel structures.
//!
//! Nothing here knows a layout: each member lies where the loader's [`Offsets`] say. A chain stops
//! at the first null pointer. Two ways of reading exist, because two kinds of pointer do: those
//! the verifier knows (arguments of a BTF tracepoint), and plain addresses.

use core::ptr;

use aya_ebpf::helpers::bpf_probe_read_kernel;
use gpu_ledger_ebpf::{ABSENT, CGROUPS, Cgroup, NO_LOGIN_UID, Offsets, Subject};

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

/// The address of a kernel structure.
pub(crate) type Address = *const u8;

/// A way to read kernel memory.
pub(crate) trait Memory {
    /// 4 bytes at `base + offset`.
    fn u32(base: Address, offset: u32) -> u32;
    /// 8 bytes at `base + offset`.
    fn u64(base: Address, offset: u32) -> u64;
    /// A pointer at `base + offset`.
    fn pointer(base: Address, offset: u32) -> Address;
}

/// Direct loads through pointers that the verifier follows by BTF; a fault reads as 0.
pub(crate) struct Typed;

/// Copies by helper, from any address; a fault reads as 0.
pub(crate) struct Copied;

/// The place `offset` bytes into the structure at `base`.
#[inline(always)]
fn member<T>(base: Address, offset: u32) -> *const T {
    base.wrapping_add(offset.try_into().unwrap_or(0)).cast()
}

impl Memory for Typed {
    #[inline(always)]
    fn u32(base: Address, offset: u32) -> u32 {
        // SAFETY: the verifier proves that a 4-byte member lies there.
        unsafe { ptr::read_volatile(member(base, offset)) }
    }

    #[inline(always)]
    fn u64(base: Address, offset: u32) -> u64 {
        // SAFETY: the verifier proves that an 8-byte member lies there.
        unsafe { ptr::read_volatile(member(base, offset)) }
    }

    #[inline(always)]
    fn pointer(base: Address, offset: u32) -> Address {
        // SAFETY: the verifier proves that a pointer member lies there.
        unsafe { ptr::read_volatile(member(base, offset)) }
    }
}

impl Memory for Copied {
    #[inline(always)]
    fn u32(base: Address, offset: u32) -> u32 {
        // SAFETY: the helper takes any address and reports a fault.
        unsafe { bpf_probe_read_kernel(member(base, offset)) }.unwrap_or(0)
    }

    #[inline(always)]
    fn u64(base: Address, offset: u32) -> u64 {
        // SAFETY: the helper takes any address and reports a fault.
        unsafe { bpf_probe_read_kernel(member(base, offset)) }.unwrap_or(0)
    }

    #[inline(always)]
    fn pointer(base: Address, offset: u32) -> Address {
        // SAFETY: the helper takes any address and reports a fault.
        unsafe { bpf_probe_read_kernel(member(base, offset)) }.unwrap_or(ptr::null())
    }
}

/// `signal->flags` once a whole group exits (`include/linux/sched/signal.h`).
const SIGNAL_GROUP_EXIT: u32 = 4;

/// The thread group's leader.
#[inline(always)]
pub(crate) fn leader<M: Memory>(task: Address) -> Address {
    M::pointer(task, offset!(task_group_leader))
}

/// Whether a task is the first thread of its group, so that its fork made a process.
#[inline(always)]
pub(crate) fn is_process<M: Memory>(task: Address) -> bool {
    M::u32(task, offset!(task_pid)) == M::u32(task, offset!(task_tgid))
}

/// Whether no thread of the group is alive any more.
#[inline(always)]
pub(crate) fn is_group_dead<M: Memory>(task: Address) -> bool {
    let signal = M::pointer(task, offset!(task_signal));
    !signal.is_null() && M::u32(signal, offset!(signal_live)) == 0
}

/// What wait(2) will report, by the kernel's own rule (`kernel/exit.c`, `wait_task_zombie`).
#[inline(always)]
pub(crate) fn wait_status<M: Memory>(task: Address) -> u32 {
    let signal = M::pointer(task, offset!(task_signal));
    if !signal.is_null() && M::u32(signal, offset!(signal_flags)) & SIGNAL_GROUP_EXIT != 0 {
        return M::u32(signal, offset!(signal_group_exit_code));
    }
    let leader = leader::<M>(task);
    if leader.is_null() { 0 } else { M::u32(leader, offset!(task_exit_code)) }
}

/// Whom `task` belongs to. `parent` is any thread of the parent.
#[inline(always)]
pub(crate) fn subject<M: Memory>(task: Address, parent: Address) -> Subject {
    let (uid, euid) = user_ids(task);
    let (parent_tgid, parent_start_ns) = process::<M>(parent);
    let (tgid, start_ns) = process::<M>(task);
    Subject {
        start_ns,
        parent_start_ns,
        tgid,
        parent_tgid,
        uid,
        euid,
        login_uid: login_uid::<M>(task),
        padding: 0,
        cgroups: cgroups::<M>(task),
    }
}

/// The parent as getppid(2) means it.
#[inline(always)]
pub(crate) fn parent<M: Memory>(task: Address) -> Address {
    M::pointer(task, offset!(task_real_parent))
}

#[inline(always)]
fn process<M: Memory>(task: Address) -> (u32, u64) {
    if task.is_null() {
        return (0, 0);
    }
    let leader = leader::<M>(task);
    let start_ns = if leader.is_null() { 0 } else { M::u64(leader, offset!(task_start_boottime)) };
    (M::u32(task, offset!(task_tgid)), start_ns)
}

/// Real and effective user id. Always copied: the member is marked as RCU-protected and what the
/// verifier makes of that differs between kernels.
#[inline(always)]
fn user_ids(task: Address) -> (u32, u32) {
    let cred = Copied::pointer(task, offset!(task_real_cred));
    (Copied::u32(cred, offset!(cred_uid)), Copied::u32(cred, offset!(cred_euid)))
}

#[inline(always)]
fn login_uid<M: Memory>(task: Address) -> u32 {
    let place = offset!(task_loginuid);
    if place == ABSENT { NO_LOGIN_UID } else { M::u32(task, place) }
}

const NO_CGROUP: Cgroup = Cgroup { id: 0, hierarchy: 0, present: 0 };

#[inline(always)]
fn cgroups<M: Memory>(task: Address) -> [Cgroup; CGROUPS] {
    let set = M::pointer(task, offset!(task_cgroups));
    if set.is_null() {
        return [NO_CGROUP; CGROUPS];
    }
    let v2 = M::pointer(set, offset!(css_set_dfl_cgrp));
    [
        cgroup::<M>(v2),
        controller::<M>(set, offset!(css_set_memory)),
        controller::<M>(set, offset!(css_set_pids)),
    ]
}

/// The group in the hierarchy that carries a controller, unless that is v2, which is known already.
#[inline(always)]
fn controller<M: Memory>(set: Address, place: u32) -> Cgroup {
    if place == ABSENT {
        return NO_CGROUP;
    }
    let state = M::pointer(set, place);
    if state.is_null() {
        return NO_CGROUP;
    }
    let found = cgroup::<M>(M::pointer(state, offset!(css_cgroup)));
    if found.hierarchy == 0 { NO_CGROUP } else { found }
}

/// A control group's hierarchy and id.
#[inline(always)]
pub(crate) fn cgroup<M: Memory>(group: Address) -> Cgroup {
    if group.is_null() {
        return NO_CGROUP;
    }
    let node = M::pointer(group, offset!(cgroup_kn));
    let root = M::pointer(group, offset!(cgroup_root));
    if node.is_null() || root.is_null() {
        return NO_CGROUP;
    }
    Cgroup {
        id: M::u64(node, offset!(kernfs_node_id)),
        hierarchy: M::u32(root, offset!(cgroup_root_hierarchy_id)),
        present: 1,
    }
}

/// Where the new image's arguments lie in user memory: start, and length in bytes.
#[inline(always)]
pub(crate) fn arguments<M: Memory>(mm: Address) -> (u64, u64) {
    let start = M::u64(mm, offset!(mm_arg_start));
    (start, M::u64(mm, offset!(mm_arg_end)).saturating_sub(start))
}

/// Device and inode of the executable; zeros where there is none (a kernel thread's helper).
#[inline(always)]
pub(crate) fn executable<M: Memory>(mm: Address) -> (u32, u64) {
    let file = M::pointer(mm, offset!(mm_exe_file));
    if file.is_null() {
        return (0, 0);
    }
    let inode = M::pointer(file, offset!(file_f_inode));
    if inode.is_null() {
        return (0, 0);
    }
    let block = M::pointer(inode, offset!(inode_i_sb));
    let device = if block.is_null() { 0 } else { M::u32(block, offset!(super_block_s_dev)) };
    (device, M::u64(inode, offset!(inode_i_ino)))
}

/// The memory of a task; null for kernel threads.
#[inline(always)]
pub(crate) fn memory_map<M: Memory>(task: Address) -> Address {
    M::pointer(task, offset!(task_mm))
}

/// Address of the file name given to exec, in kernel memory.
#[inline(always)]
pub(crate) fn filename<M: Memory>(program: Address) -> Address {
    M::pointer(program, offset!(binprm_filename))
}
