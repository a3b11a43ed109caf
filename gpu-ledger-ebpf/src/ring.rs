//! Numbering, counting and the ring: nothing leaves the kernel side but through here.
//!
//! A record takes its number before the ring is asked for room, so that one the ring refuses still
//! leaves a hole, and the holes must equal the lost counters.
//! Tracepoint programs run with preemption off, hence alone on their CPU's [`Counters`] as long as
//! everyone else changes them in one instruction: a `cgroup_device` program can be preempted.

use core::mem::size_of;
use core::{ptr, slice};

use aya_ebpf::Global;
use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};
use aya_ebpf::helpers::generated::{bpf_get_smp_processor_id, bpf_ktime_get_boot_ns};
use aya_ebpf::macros::map;
use aya_ebpf::maps::ring_buf::RingBufEntry;
use aya_ebpf::maps::{PerCpuArray, RingBuf};
use gpu_ledger_ebpf::{Counters, Header, WIRE_VERSION};

use crate::task::put;
use crate::unread::Unread;

/// The loader sets the real size.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(4_194_304, 0);

#[map]
static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(1, 0);

#[unsafe(no_mangle)]
static WAKE_ABOVE: Global<u64> = Global::new(u64::MAX);

#[unsafe(no_mangle)]
static SHED_ABOVE: Global<u64> = Global::new(u64::MAX);

/// How a program changes the counters of its CPU.
pub(crate) trait Counting {
    /// Adds `many` and gives what was there.
    fn add(place: *mut u64, many: u64) -> u64;
}

/// For programs that nothing on their CPU interrupts.
pub(crate) struct Alone;

/// For programs that can be preempted, on kernels with atomic fetch-and-add.
pub(crate) struct Preemptible;

impl Counting for Alone {
    #[inline(always)]
    fn add(place: *mut u64, many: u64) -> u64 {
        // SAFETY: `place` points into this CPU's map value, which outlives the program.
        let old = unsafe { ptr::read_volatile(place) };
        // SAFETY: as above.
        unsafe { ptr::write_volatile(place, old.wrapping_add(many)) };
        old
    }
}

impl Counting for Preemptible {
    #[inline(always)]
    fn add(place: *mut u64, many: u64) -> u64 {
        fetch_add(place, many)
    }
}

/// The target has no `AtomicU64::fetch_add`, since not every kernel has the instruction.
#[cfg(target_arch = "bpf")]
#[inline(always)]
fn fetch_add(place: *mut u64, many: u64) -> u64 {
    let mut many_then_old = many;
    // SAFETY: `place` points into this CPU's map value, aligned to 8.
    unsafe {
        core::arch::asm!(
            "{value} = atomic_fetch_add((u64 *)({place} + 0), {value})",
            value = inout(reg) many_then_old,
            place = in(reg) place,
        );
    }
    many_then_old
}

/// A length that the verifier sees bounded by `MAX`, right here. The compiler knows the bound
/// already and would drop a plain comparison, but the verifier of Linux 5.10 forgets what it knew of
/// a number that was spilled to the stack since.
#[cfg(target_arch = "bpf")]
#[inline(always)]
pub(crate) fn bounded<const MAX: usize>(length: usize) -> usize {
    let mut length = length;
    // SAFETY: compares and moves within one register, and jumps over one instruction of its own.
    unsafe {
        core::arch::asm!(
            "if {length} <= {max} goto +1",
            "{length} = {max}",
            length = inout(reg) length,
            max = const MAX,
            options(pure, nomem, nostack),
        );
    }
    length
}

/// The same on the host.
#[cfg(not(target_arch = "bpf"))]
pub(crate) fn bounded<const MAX: usize>(length: usize) -> usize {
    length.min(MAX)
}

/// Lints run on the host, where these programs only compile.
#[cfg(not(target_arch = "bpf"))]
fn fetch_add(place: *mut u64, many: u64) -> u64 {
    Alone::add(place, many)
}

/// A record's number, and where to count what becomes of it.
pub(crate) struct Ticket {
    counters: *mut Counters,
    kind: u16,
    seq: u64,
    at_ns: u64,
    cpu: u32,
    fill: u64,
}

impl Ticket {
    /// Takes the next number of this CPU. `None` only if the map has no value, which cannot be.
    #[inline(always)]
    pub(crate) fn take<C: Counting>(kind: u16) -> Option<Self> {
        let counters = COUNTERS.get_ptr_mut(0)?;
        // SAFETY: the helper has no preconditions.
        let at_ns = unsafe { bpf_ktime_get_boot_ns() };
        // SAFETY: the helper has no preconditions.
        let cpu = unsafe { bpf_get_smp_processor_id() };
        let fill = EVENTS.query(BPF_RB_AVAIL_DATA.into());
        // SAFETY: the map's value is a `Counters`.
        let seq = C::add(unsafe { &raw mut (*counters).next_seq }, 1);
        C::add(produced(counters, kind), 1);
        note_fill(counters, fill);
        Some(Self { counters, kind, seq, at_ns, cpu, fill })
    }

    /// Whether there is room for identity only.
    #[inline(always)]
    pub(crate) fn must_shed(&self) -> bool {
        self.fill > SHED_ABOVE.load()
    }

    /// Counts an argv that was shed.
    #[inline(always)]
    pub(crate) fn count_shed<C: Counting>(&self) {
        // SAFETY: the map's value is a `Counters`.
        C::add(unsafe { &raw mut (*self.counters).argv_shed }, 1);
    }

    /// What of a record cannot be read is noted in its flags and counted.
    #[inline(always)]
    pub(crate) fn unread<C: Counting>(&self, header: *mut Header) -> Unread<C> {
        // SAFETY: the header of a record that is being made.
        let flags = unsafe { &raw mut (*header).flags };
        // SAFETY: the map's value is a `Counters`.
        Unread::nothing(flags, unsafe { &raw mut (*self.counters).read_faults })
    }

    /// Puts everything into a record's header but its flags, which are there.
    #[inline(always)]
    pub(crate) fn head(&self, header: *mut Header, length: u32) {
        put!(header, version, WIRE_VERSION);
        put!(header, kind, self.kind);
        put!(header, length, length);
        put!(header, seq, self.seq);
        put!(header, at_ns, self.at_ns);
        put!(header, cpu, self.cpu);
    }

    /// Room in the ring for a record of fixed size, or counts it as lost.
    #[inline(always)]
    pub(crate) fn room<C: Counting, T: 'static>(&self) -> Option<RingBufEntry<T>> {
        let room = EVENTS.reserve::<T>(0);
        if room.is_none() {
            self.count_lost::<C>();
        }
        room
    }

    /// Submits a record that was made in the ring.
    #[inline(always)]
    pub(crate) fn submit<T>(&self, record: RingBufEntry<T>) {
        record.submit(self.wake_flags());
    }

    /// Gives a record up for which there was room already.
    #[inline(always)]
    pub(crate) fn take_back<C: Counting, T>(&self, record: RingBufEntry<T>) {
        record.discard(BPF_RB_NO_WAKEUP.into());
        self.abandon::<C>();
    }

    /// Submits `length` bytes, at most `MAX`, that lie in a map value, or counts them as lost.
    #[inline(always)]
    pub(crate) fn submit_bytes<C: Counting, const MAX: usize>(
        self,
        start: *const u8,
        length: usize,
    ) {
        let flags = self.wake_flags();
        let length = bounded::<MAX>(length);
        // SAFETY: the verifier proves that the map value holds `length` bytes.
        let bytes = unsafe { slice::from_raw_parts(start, length) };
        if EVENTS.output::<[u8]>(bytes, flags).is_err() {
            self.count_lost::<C>();
        }
    }

    /// A wake-up costs more than ten records (an interrupt to oneself), so there is none as long
    /// as the reader's timer is quick enough.
    #[inline(always)]
    fn wake_flags(&self) -> u64 {
        if self.fill > WAKE_ABOVE.load() {
            BPF_RB_FORCE_WAKEUP.into()
        } else {
            BPF_RB_NO_WAKEUP.into()
        }
    }

    /// Gives a record up that cannot say whom it is about, or whether it is due at all: it is lost
    /// as one that the ring refuses is.
    #[inline(always)]
    pub(crate) fn abandon<C: Counting>(&self) {
        // SAFETY: the map's value is a `Counters`.
        C::add(unsafe { &raw mut (*self.counters).read_faults }, 1);
        self.count_lost::<C>();
    }

    /// Counts a record that will not come: the number it took becomes a hole.
    #[inline(always)]
    fn count_lost<C: Counting>(&self) {
        C::add(lost(self.counters, self.kind), 1);
        // SAFETY: the map's value is a `Counters`.
        let last = unsafe { &raw mut (*self.counters).last_lost_ns };
        // SAFETY: as above; a store of 8 aligned bytes is one instruction.
        unsafe { ptr::write_volatile(last, self.at_ns) };
    }
}

/// Keeps the high-water mark. A preempted program may overwrite a higher one: it is for people.
#[inline(always)]
fn note_fill(counters: *mut Counters, fill: u64) {
    // SAFETY: the map's value is a `Counters`.
    let mark = unsafe { &raw mut (*counters).ring_fill_max };
    // SAFETY: as above.
    if unsafe { ptr::read_volatile(mark) } < fill {
        // SAFETY: as above.
        unsafe { ptr::write_volatile(mark, fill) };
    }
}

/// The counter of produced records of a kind. `kind` is a constant wherever this is inlined.
#[inline(always)]
fn produced(counters: *mut Counters, kind: u16) -> *mut u64 {
    // SAFETY: the map's value is a `Counters`.
    let first: *mut u64 = unsafe { &raw mut (*counters).produced }.cast();
    first.wrapping_add(kind.into())
}

/// The counter of lost records of a kind.
#[inline(always)]
fn lost(counters: *mut Counters, kind: u16) -> *mut u64 {
    // SAFETY: the map's value is a `Counters`.
    let first: *mut u64 = unsafe { &raw mut (*counters).lost }.cast();
    first.wrapping_add(kind.into())
}

/// `size_of` as the header's length field wants it.
#[inline(always)]
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "no conversion that is checked when compiling can be had of a generic size; the \
              assertion is one"
)]
pub(crate) const fn length_of<T>() -> u32 {
    const { assert!(size_of::<T>() <= u32::MAX as usize) };
    size_of::<T>() as u32
}
