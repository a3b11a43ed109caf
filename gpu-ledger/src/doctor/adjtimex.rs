//! Whether the kernel's clock is kept right by somebody: adjtimex(2), asked and not set.
#![expect(unsafe_code, reason = "neither rustix nor nix has a safe adjtimex")]

use std::io;

use nix::libc;

/// Whether a time service disciplines the clock (`STA_UNSYNC` is off).
///
/// # Errors
/// What the kernel said; a sandbox may forbid to ask.
pub(super) fn is_synchronized() -> io::Result<bool> {
    // SAFETY: `timex` is a C struct of integers, for which all zeroes is a value; `modes` 0 sets nothing.
    let mut asked: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `timex` of this process's own, which the kernel fills.
    let state = unsafe { libc::adjtimex(&raw mut asked) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(asked.status & libc::STA_UNSYNC == 0)
}
