//! Whether stdout was open when this process began. Before `main` std puts `/dev/null` in the place of a stream that is
//! closed (library/std/src/sys/pal/unix/mod.rs, `sanitize_standard_fds`), where an answer would vanish and count as
//! given.
#![expect(
    unsafe_code,
    reason = "what runs before main is named in a section of the file; a descriptor by its number"
)]

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the loader, before std's own beginning.
// SAFETY: the section holds addresses of functions that take nothing they need and return nothing.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the number is only asked about, within this call.
    let stdout = unsafe { BorrowedFd::borrow_raw(1) };
    let is_closed = rustix::io::fcntl_getfd(stdout) == Err(rustix::io::Errno::BADF);
    STDOUT_WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}
