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
use crate::task::{self, Address, Typed, member, put};
use crate::unread::Unread;

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
    let Some(scratch) = EXEC_SCRATCH.get_ptr_mut(0) else { return ticket.abandon::<Alone>() };
    // SAFETY: the map's value is an `ExecScratch`; no other program runs on this CPU meanwhile.
    let head = unsafe { &raw mut (*scratch).head };
    // SAFETY: as above.
    let text: *mut u8 = unsafe { &raw mut (*scratch).text }.cast();

    let header = member!(head, header);
    let unread = ticket.unread::<Alone>(header);
    let parent = task::parent::<Typed>(task);
    let place = member!(head, subject);
    if task::subject::<Typed, _>(task, parent, place, &unread).is_none() {
        return ticket.abandon::<Alone>();
    }
    let mm = task::memory_map::<Typed>(task);
    let executable = mm.and_then(task::executable::<Typed>);
    let device = executable.map(|it| it.0);
    unread.put(member!(head, exe_device), device, flag::EXECUTABLE_UNKNOWN, 0);
    put!(head, exe_inode, executable.map_or(0, |it| it.1));
    let arguments = mm.and_then(task::arguments::<Typed>);
    put!(head, argv_true_length, arguments.map_or(0, |(_, length)| length));
    let filename_length =
        kernel_text::<FILENAME_MAX>(text, task::filename::<Typed>(program), &unread);
    put!(head, filename_length, filename_length);
    let after_name = text.wrapping_add(at_most::<FILENAME_MAX>(filename_length));
    let captured = argv(&ticket, after_name, arguments, &unread);
    let argv_length = match captured {
        Ok(length) => length,
        Err(flag) => {
            unread.note(flag);
            0
        }
    };
    put!(head, argv_length, argv_length);
    put!(head, padding, 0);
    let length = size_of::<ExecHead>()
        + at_most::<FILENAME_MAX>(filename_length)
        + at_most::<ARGV_MAX>(argv_length);
    ticket.head(header, length as u32);
    // Clamped again: the header was written in between.
    let length = size_of::<ExecHead>()
        + at_most::<FILENAME_MAX>(filename_length)
        + at_most::<ARGV_MAX>(argv_length);
    ticket.submit_bytes::<Alone, EXEC_MAX>(scratch.cast_const().cast(), length);
    if captured.is_err() {
        // Never seen in the wild; the record is out already, with its flag.
        let tgid = member!(place, tgid);
        // SAFETY: the record that was just made.
        let tgid = unsafe { ptr::read_volatile(tgid) };
        warn!(ctx, "argv of process {} could not be read", tgid);
    }
}

/// Copies the arguments, which lie at a start with a length, to `place`; how many bytes, or the
/// flag that says why they could not be read.
#[inline(always)]
fn argv(
    ticket: &Ticket,
    place: *mut u8,
    arguments: Option<(u64, u64)>,
    unread: &Unread<Alone>,
) -> Result<u32, u32> {
    let Some((start, mut wanted)) = arguments else {
        return Err(flag::ARGV_PLACE_UNKNOWN);
    };
    if ticket.must_shed() {
        ticket.count_shed::<Alone>();
        unread.say(flag::ARGV_SHED);
        return Ok(0);
    }
    let mut flags = 0;
    if wanted > ARGV_MAX as u64 {
        wanted = ARGV_MAX as u64;
        flags = flag::ARGV_TRUNCATED;
    }
    let length = wanted as u32;
    let from = ptr::with_exposed_provenance(start as usize);
    // SAFETY: the verifier proves room for at most ARGV_MAX bytes; the helper takes any address.
    if unsafe { bpf_probe_read_user(place.cast(), length, from) } != 0 {
        return Err(flag::ARGV_FAULTED);
    }
    unread.say(flags);
    Ok(length)
}

/// A record of kind cgroup made.
#[inline(always)]
pub(crate) fn cgroup_made(group: Address, path: Address) {
    let Some(ticket) = Ticket::take::<Alone>(kind::CGROUP_MADE) else { return };
    let Some(scratch) = CGROUP_SCRATCH.get_ptr_mut(0) else { return ticket.abandon::<Alone>() };
    // SAFETY: the map's value is a `CgroupScratch`; no other program runs on this CPU meanwhile.
    let head = unsafe { &raw mut (*scratch).head };
    // SAFETY: as above.
    let text: *mut u8 = unsafe { &raw mut (*scratch).path }.cast();
    let Some(cgroup) = task::cgroup::<Typed>(group) else { return ticket.abandon::<Alone>() };
    let header = member!(head, header);
    let unread = ticket.unread::<Alone>(header);
    put!(head, cgroup, cgroup);
    let path_length = kernel_text::<CGROUP_PATH_MAX>(text, Some(path), &unread);
    put!(head, path_length, path_length);
    put!(head, padding, 0);
    let length = size_of::<CgroupHead>() + at_most::<CGROUP_PATH_MAX>(path_length);
    ticket.head(header, length as u32);
    let length = size_of::<CgroupHead>() + at_most::<CGROUP_PATH_MAX>(path_length);
    ticket.submit_bytes::<Alone, CGROUP_MAX>(scratch.cast_const().cast(), length);
}

/// Copies a NUL-terminated kernel string of at most `MAX` bytes to `place`, which has room for one
/// more; its length without the NUL.
#[inline(always)]
fn kernel_text<const MAX: usize>(
    place: *mut u8,
    text: Option<Address>,
    unread: &Unread<Alone>,
) -> u32 {
    let Some(text) = text else {
        unread.note(flag::TEXT_FAULTED);
        return 0;
    };
    let room = MAX as u32 + 1;
    // SAFETY: the verifier proves the room; the helper takes any address.
    let copied = unsafe { bpf_probe_read_kernel_str(place.cast(), room, text.cast()) };
    if copied <= 0 {
        unread.note(flag::TEXT_FAULTED);
        return 0;
    }
    let length = copied as u32 - 1;
    if length < MAX as u32 {
        return length;
    }
    // The copy ends here either way; whether the string does, its next byte tells.
    let mut next = 1_u8;
    let end: *const u8 = text.wrapping_add(MAX);
    // SAFETY: the destination is one byte on the stack; the helper takes any address.
    if unsafe { bpf_probe_read_kernel((&raw mut next).cast(), 1, end.cast()) } != 0 {
        // Perhaps it goes on.
        unread.note(flag::TEXT_TRUNCATED);
    } else if next != 0 {
        unread.say(flag::TEXT_TRUNCATED);
    }
    MAX as u32
}

/// A length as the verifier can see it bounded.
#[inline(always)]
fn at_most<const MAX: usize>(length: u32) -> usize {
    let length = length as usize;
    if length > MAX { MAX } else { length }
}
