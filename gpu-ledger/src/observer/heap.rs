//! Memory of the start, given back.
//!
//! Purpose: the kernel's types are parsed at the start and never needed again, but what was
//! allocated for them stays with the process. glibc returns only what lies at the end of the heap,
//! and only beyond twice the largest block that was mapped apart and freed, here the 9 MiB of a
//! table of types (mallopt(3), `M_MMAP_THRESHOLD`). May touch: the allocator.

/// Returns free memory to the system, wherever in the heap it lies. For the end of a start, or after a large
/// file was read, not for a loop: it walks the whole heap. Does nothing where the C library is not glibc.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    trim();
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a call of the C library that no safe wrapper offers")]
fn trim() {
    // SAFETY: it may be called from any thread at any time (malloc_trim(3): MT-Safe), and releases
    // pages of free chunks only.
    let returned = unsafe { libc::malloc_trim(0) };
    tracing::debug!(was_any_returned = returned == 1, "free memory given back");
}
