//! What of a record could not be read: which members, in its header, and how many, in the counter.
//!
//! No read in this crate has a default. One that failed is `None`, and a `None` leaves only through
//! here, with the flag that makes user space call the member unknown.
//!
//! Both are noted where the verifier keeps no account of values, in the record and in a map: in registers or on the
//! stack each of two dozen reads that may fail would double the states that it walks, and that of Linux 6.1 gave up
//! at a million instructions (`kernel/bpf/verifier.c`, `BPF_COMPLEXITY_LIMIT_INSNS`).

use core::marker::PhantomData;
use core::ptr;

use crate::ring::Counting;

/// Of one record.
pub(crate) struct Unread<C> {
    /// Of the record's header: of [`gpu_ledger_ebpf::flag`].
    flags: *mut u32,
    /// Members that could not be read, of this CPU.
    faults: *mut u64,
    counting: PhantomData<C>,
}

impl<C: Counting> Unread<C> {
    /// Nothing so far. `flags` are the record's, `faults` the counter.
    #[inline(always)]
    pub(crate) fn nothing(flags: *mut u32, faults: *mut u64) -> Self {
        // SAFETY: the flags of a record that is being made.
        unsafe { ptr::write_volatile(flags, 0) };
        Self { flags, faults, counting: PhantomData }
    }

    /// Notes a member that could not be read.
    #[inline(always)]
    pub(crate) fn note(&self, flag: u32) {
        self.say(flag);
        C::add(self.faults, 1);
    }

    /// Notes what is known, and is less than all.
    #[inline(always)]
    pub(crate) fn say(&self, flag: u32) {
        // SAFETY: the flags of a record that is being made; nobody else has it yet.
        let flags = unsafe { ptr::read_volatile(self.flags) };
        // SAFETY: as above.
        unsafe { ptr::write_volatile(self.flags, flags | flag) };
    }

    /// Puts what was read into its place on the wire; or what fills it, once `flag` says that it does.
    #[inline(always)]
    pub(crate) fn put<T: Copy>(&self, place: *mut T, read: Option<T>, flag: u32, filler: T) {
        let value = if let Some(value) = read {
            value
        } else {
            self.note(flag);
            filler
        };
        // SAFETY: `place` is a member of a record that is being made. Volatile: it is stored here, and nothing of it
        // is kept.
        unsafe { ptr::write_volatile(place, value) };
    }
}
