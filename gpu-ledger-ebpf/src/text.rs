//! Records with text: built in a per-CPU scratch value, since a BPF stack holds 512 bytes.
//!
//! Lengths are clamped right before each use: older verifiers forget the bounds of a number that
//! was spilled to the stack in between.
#![expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "each is bounded on the line before; a checked conversion is a branch that the \
              verifier has to walk"
)]

use core::mem::size_of;
use core::ptr;

use aya_ebpf::helpers::generated::{
    bpf_probe_read_kernel, bpf_probe_read_kernel_str, bpf_probe_read_user,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::BtfTracePointContext;
use aya_log_ebpf::warn;
use gpu_ledger_ebpf::{ARGV_MAX, CGROUP_PATH_MAX, CgroupHead, ExecHead, FILENAME_MAX, flag, kind};

use crate::ring::{Alone, Ticket};
use crate::task::{self, Address, Typed};

/// Bytes of the longest records.
const EXEC_MAX: usize = size_of::<ExecHead>() + FILENAME_MAX + ARGV_MAX;
const CGROUP_MAX: usize = size_of::<CgroupHead>() + CGROUP_PATH_MAX;

#[repr(C)]
struct ExecScratch {
    head: ExecHead,
    /// File name, then arguments; the byte more is for the last possible NUL.
    text: [u8; FILENAME_MAX + ARGV_MAX + 1],
}

#[repr(C)]
struct CgroupScratch {
    head: CgroupHead,
    path: [u8; CGROUP_PATH_MAX + 1],
}

#[map]
static EXEC_SCRATCH: PerCpuArray<ExecScratch> = PerCpuArray::with_max_entries(1, 0);

#[map]
static CGROUP_SCRATCH: PerCpuArray<CgroupScratch> = PerCpuArray::with_max_entries(1, 0);

/// A record of kind exec: `task` bears a new image, `program` is its `linux_binprm`.
#[inline(always)]
pub(crate) fn exec(ctx: &BtfTracePointContext, task: Address, program: Address) {
    let Some(ticket) = Ticket::take::<Alone>(kind::EXEC) else { return };
    let Some(scratch) = EXEC_SCRATCH.get_ptr_mut(0) else { return };
    // SAFETY: the map's value is an `ExecScratch`; no other program runs on this CPU meanwhile.
    let head = unsafe { &raw mut (*scratch).head };
    // SAFETY: as above.
    let text: *mut u8 = unsafe { &raw mut (*scratch).text }.cast();

    let (filename_length, text_flags) =
        kernel_text::<FILENAME_MAX>(&ticket, text, task::filename::<Typed>(program));
    let mm = task::memory_map::<Typed>(task);
    let mut image = Image { argv_true_length: 0, argv_start: 0, exe_device: 0, exe_inode: 0 };
    if !mm.is_null() {
        (image.argv_start, image.argv_true_length) = task::arguments::<Typed>(mm);
        (image.exe_device, image.exe_inode) = task::executable::<Typed>(mm);
    }
    let after_name = text.wrapping_add(at_most::<FILENAME_MAX>(filename_length));
    let (argv_length, argv_flags) = argv(&ticket, after_name, &image);
    let length = size_of::<ExecHead>()
        + at_most::<FILENAME_MAX>(filename_length)
        + at_most::<ARGV_MAX>(argv_length);
    let record = ExecHead {
        header: ticket.header(length.try_into().unwrap_or(0), text_flags | argv_flags),
        subject: task::subject::<Typed>(task, task::parent::<Typed>(task)),
        argv_true_length: image.argv_true_length,
        exe_inode: image.exe_inode,
        exe_device: image.exe_device,
        filename_length,
        argv_length,
        padding: 0,
    };
    // SAFETY: `head` points into the map's value.
    unsafe { head.write(record) };
    let length = size_of::<ExecHead>()
        + at_most::<FILENAME_MAX>(filename_length)
        + at_most::<ARGV_MAX>(argv_length);
    ticket.submit_bytes::<Alone, EXEC_MAX>(scratch.cast_const().cast(), length);
    if argv_flags & flag::ARGV_FAULTED != 0 {
        // Never seen in the wild; the record is out already, with its flag.
        warn!(ctx, "argv of process {} could not be read", record.subject.tgid);
    }
}

struct Image {
    argv_true_length: u64,
    argv_start: u64,
    exe_device: u32,
    exe_inode: u64,
}

/// Copies the arguments to `place`; how many bytes, and what is missing.
#[inline(always)]
fn argv(ticket: &Ticket, place: *mut u8, image: &Image) -> (u32, u32) {
    if ticket.must_shed() {
        ticket.count_shed::<Alone>();
        return (0, flag::ARGV_SHED);
    }
    let mut wanted = image.argv_true_length;
    let mut flags = 0;
    if wanted > ARGV_MAX as u64 {
        wanted = ARGV_MAX as u64;
        flags = flag::ARGV_TRUNCATED;
    }
    let length = wanted as u32;
    let from = ptr::with_exposed_provenance(image.argv_start as usize);
    // SAFETY: the verifier proves room for at most ARGV_MAX bytes; the helper takes any address.
    if unsafe { bpf_probe_read_user(place.cast(), length, from) } != 0 {
        ticket.count_fault::<Alone>();
        return (0, flag::ARGV_FAULTED);
    }
    (length, flags)
}

/// A record of kind cgroup made.
#[inline(always)]
pub(crate) fn cgroup_made(group: Address, path: Address) {
    let Some(ticket) = Ticket::take::<Alone>(kind::CGROUP_MADE) else { return };
    let Some(scratch) = CGROUP_SCRATCH.get_ptr_mut(0) else { return };
    // SAFETY: the map's value is a `CgroupScratch`; no other program runs on this CPU meanwhile.
    let head = unsafe { &raw mut (*scratch).head };
    // SAFETY: as above.
    let text: *mut u8 = unsafe { &raw mut (*scratch).path }.cast();
    let (path_length, flags) = kernel_text::<CGROUP_PATH_MAX>(&ticket, text, path);
    let length = size_of::<CgroupHead>() + at_most::<CGROUP_PATH_MAX>(path_length);
    let record = CgroupHead {
        header: ticket.header(length.try_into().unwrap_or(0), flags),
        cgroup: task::cgroup::<Typed>(group),
        path_length,
        padding: 0,
    };
    // SAFETY: `head` points into the map's value.
    unsafe { head.write(record) };
    let length = size_of::<CgroupHead>() + at_most::<CGROUP_PATH_MAX>(path_length);
    ticket.submit_bytes::<Alone, CGROUP_MAX>(scratch.cast_const().cast(), length);
}

/// Copies a NUL-terminated kernel string of at most `MAX` bytes to `place`, which has room for one
/// more; its length without the NUL, and what is missing.
#[inline(always)]
fn kernel_text<const MAX: usize>(ticket: &Ticket, place: *mut u8, text: Address) -> (u32, u32) {
    let room = MAX as u32 + 1;
    // SAFETY: the verifier proves the room; the helper takes any address.
    let copied = unsafe { bpf_probe_read_kernel_str(place.cast(), room, text.cast()) };
    if copied <= 0 {
        ticket.count_fault::<Alone>();
        return (0, flag::TEXT_FAULTED);
    }
    let length = copied as u32 - 1;
    if length < MAX as u32 {
        return (length, 0);
    }
    // The copy ends here either way; whether the string does, its next byte tells.
    let mut next = 1_u8;
    let end: *const u8 = text.wrapping_add(MAX);
    // SAFETY: the destination is one byte on the stack; the helper takes any address.
    let fault = unsafe { bpf_probe_read_kernel((&raw mut next).cast(), 1, end.cast()) };
    (MAX as u32, if fault == 0 && next == 0 { 0 } else { flag::TEXT_TRUNCATED })
}

/// A length as the verifier can see it bounded.
#[inline(always)]
fn at_most<const MAX: usize>(length: u32) -> usize {
    let length = length as usize;
    if length > MAX { MAX } else { length }
}
