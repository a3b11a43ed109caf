//! What of a record could not be read: which members, for its header, and how many, for the counter.
//!
//! No read in this crate has a default. One that failed is `None`, and a `None` leaves only through
//! here, with the flag that makes user space call the member unknown.

/// Of one record.
pub(crate) struct Unread {
    /// Of [`gpu_ledger_ebpf::flag`].
    pub(crate) flags: u32,
    /// Members that could not be read.
    pub(crate) faults: u64,
}

impl Unread {
    /// Nothing so far.
    #[inline(always)]
    pub(crate) const fn nothing() -> Self {
        Self { flags: 0, faults: 0 }
    }

    /// Notes a member that could not be read.
    #[inline(always)]
    pub(crate) fn note(&mut self, flag: u32) {
        self.flags |= flag;
        self.faults = self.faults.wrapping_add(1);
    }

    /// What was read; or what fills the member's place on the wire, once `flag` says that it does.
    #[inline(always)]
    pub(crate) fn or_flag<T>(&mut self, read: Option<T>, flag: u32, filler: T) -> T {
        if read.is_none() {
            self.note(flag);
        }
        read.unwrap_or(filler)
    }
}
