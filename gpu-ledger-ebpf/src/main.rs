//! The kernel programs: thin, stateless, and always answering.
//!
//! Each takes a number (`ring`), reads what its record needs (`task`), and submits. The kernel
//! prototypes they hang on, unchanged from Linux 5.10 to 6.18 but where said
//! (`include/trace/events/{sched,cgroup}.h`):
//! fork `(task *parent, task *child)`, exec `(task *, pid_t old_pid, linux_binprm *)`,
//! exit `(task *)`, with `bool group_dead` behind it since 6.16, mkdir `(cgroup *, const char *path)`.
#![no_std]
#![no_main]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]
#![expect(
    clippy::inline_always,
    reason = "the verifier follows one function: a call would lose the types of its pointers"
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "the program macros hand the context over by value"
)]

mod ring;
mod task;
mod text;
mod unread;

use core::ptr;

use aya_ebpf::bindings::BPF_DEVCG_DEV_CHAR;
use aya_ebpf::helpers::generated::bpf_get_current_task;
use aya_ebpf::macros::{btf_tracepoint, cgroup_device};
use aya_ebpf::programs::{BtfTracePointContext, DeviceContext};
use gpu_ledger_ebpf::{
    DEVICE_MAJORS_MAX, ExitRecord, ForkRecord, NO_MAJOR, TouchRecord, flag, kind,
};

use ring::{Alone, Counting, Preemptible, Ticket, length_of};
use task::{Address, Copied, Typed, member, put};

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Majors to report, set by the loader.
#[unsafe(no_mangle)]
static DEVICE_MAJORS: [u32; DEVICE_MAJORS_MAX] = [NO_MAJOR; DEVICE_MAJORS_MAX];

#[btf_tracepoint(function = "sched_process_fork")]
fn process_fork(ctx: BtfTracePointContext) -> i32 {
    let parent: Address = ctx.arg(0);
    let child: Address = ctx.arg(1);
    let is_process = task::is_process::<Typed>(child);
    if is_process == Some(false) {
        return 0;
    }
    let Some(ticket) = Ticket::take::<Alone>(kind::FORK) else { return 0 };
    if is_process.is_none() {
        ticket.abandon::<Alone>();
        return 0;
    }
    let Some(mut room) = ticket.room::<Alone, ForkRecord>() else { return 0 };
    let record = room.as_mut_ptr();
    let header = member!(record, header);
    let unread = ticket.unread::<Alone>(header);
    let place = member!(record, subject);
    if task::subject::<Typed, _>(child, Some(parent), place, &unread).is_none() {
        ticket.take_back::<Alone, _>(room);
        return 0;
    }
    ticket.head(header, length_of::<ForkRecord>());
    ticket.submit(room);
    0
}

#[btf_tracepoint(function = "sched_process_exec")]
fn process_exec(ctx: BtfTracePointContext) -> i32 {
    text::exec(&ctx, ctx.arg(0), ctx.arg(2));
    0
}

#[btf_tracepoint(function = "sched_process_exit")]
fn process_exit_by_live(ctx: BtfTracePointContext) -> i32 {
    let task: Address = ctx.arg(0);
    match task::is_group_dead::<Typed>(task) {
        Some(true) => process_exit(task),
        Some(false) => {}
        // Perhaps an exit: it counts as lost.
        None => {
            if let Some(ticket) = Ticket::take::<Alone>(kind::EXIT) {
                ticket.abandon::<Alone>();
            }
        }
    }
    0
}

#[btf_tracepoint(function = "sched_process_exit")]
fn process_exit_by_group(ctx: BtfTracePointContext) -> i32 {
    let group_dead: u64 = ctx.arg(1);
    // A bool's upper bytes are not promised to be clear.
    if group_dead & 0xff != 0 {
        process_exit(ctx.arg(0));
    }
    0
}

#[inline(always)]
fn process_exit(task: Address) {
    let Some(ticket) = Ticket::take::<Alone>(kind::EXIT) else { return };
    let Some(mut room) = ticket.room::<Alone, ExitRecord>() else { return };
    let record = room.as_mut_ptr();
    let header = member!(record, header);
    let unread = ticket.unread::<Alone>(header);
    let parent = task::parent::<Typed>(task);
    let place = member!(record, subject);
    if task::subject::<Typed, _>(task, parent, place, &unread).is_none() {
        return ticket.take_back::<Alone, _>(room);
    }
    let wait_status = task::wait_status::<Typed>(task);
    unread.put(member!(record, wait_status), wait_status, flag::WAIT_STATUS_UNKNOWN, 0);
    put!(record, padding, 0);
    ticket.head(header, length_of::<ExitRecord>());
    ticket.submit(room);
}

#[btf_tracepoint(function = "cgroup_mkdir")]
fn cgroup_made(ctx: BtfTracePointContext) -> i32 {
    text::cgroup_made(ctx.arg(0), ctx.arg(1));
    0
}

#[cgroup_device]
fn device_touch_atomic(ctx: DeviceContext) -> i32 {
    device_touch::<Preemptible>(&ctx);
    ALLOW
}

#[cgroup_device]
fn device_touch_plain(ctx: DeviceContext) -> i32 {
    device_touch::<Alone>(&ctx);
    ALLOW
}

/// The only answer: this program watches, it never decides.
const ALLOW: i32 = 1;

/// `mknod` alone; bits above 16 of `access_type` (`include/uapi/linux/bpf.h`).
const ACCESS_MKNOD: u32 = 1;

#[inline(always)]
fn device_touch<C: Counting>(ctx: &DeviceContext) {
    // SAFETY: the context outlives the program.
    let access_type = field(unsafe { &raw const (*ctx.device).access_type });
    // SAFETY: as above.
    let major = field(unsafe { &raw const (*ctx.device).major });
    if access_type & 0xffff != BPF_DEVCG_DEV_CHAR
        || access_type >> 16 == ACCESS_MKNOD
        || !is_watched(major)
    {
        return;
    }
    // SAFETY: as above.
    let minor = field(unsafe { &raw const (*ctx.device).minor });
    let Some(ticket) = Ticket::take::<C>(kind::DEVICE_TOUCH) else { return };
    let Some(mut room) = ticket.room::<C, TouchRecord>() else { return };
    let record = room.as_mut_ptr();
    let header = member!(record, header);
    let unread = ticket.unread::<C>(header);
    let task = current_task();
    let parent = task::parent::<Copied>(task);
    let place = member!(record, subject);
    if task::subject::<Copied, _>(task, parent, place, &unread).is_none() {
        return ticket.take_back::<C, _>(room);
    }
    put!(record, major, major);
    put!(record, minor, minor);
    ticket.head(header, length_of::<TouchRecord>());
    ticket.submit(room);
}

/// The task that runs this program.
#[inline(always)]
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the target's addresses have 64 bits; on the host this only compiles"
)]
fn current_task() -> Address {
    // SAFETY: the helper has no preconditions.
    ptr::with_exposed_provenance(unsafe { bpf_get_current_task() } as usize)
}

/// One field of the context, which the kernel lets be read in whole words only.
#[inline(always)]
fn field(place: *const u32) -> u32 {
    // SAFETY: the verifier proves that the context has this field.
    unsafe { ptr::read_volatile(place) }
}

#[inline(always)]
fn is_watched(major: u32) -> bool {
    let first: *const u32 = (&raw const DEVICE_MAJORS).cast();
    (0..DEVICE_MAJORS_MAX).any(|place| {
        // SAFETY: `place` is inside the array; volatile, or the compiler would fold in the fill.
        let watched = unsafe { ptr::read_volatile(first.wrapping_add(place)) };
        watched == major
    })
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Nothing here panics; the verifier would refuse a program that could reach this.
    loop {}
}
