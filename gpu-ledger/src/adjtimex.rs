//! Whether the kernel's clock is kept right by somebody: adjtimex(2), asked and not set.
#![expect(unsafe_code, reason = "neither rustix nor nix has a safe adjtimex")]

use std::io;

use nix::libc;

/// What the kernel knows of its wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// Whether a time service disciplines it (`STA_UNSYNC` is off).
    pub(crate) is_synchronized: bool,
    /// How far off that service thinks it is (`esterror`), in µs; `None`: it did not say. A service that
    /// has no estimate leaves 0 there, as systemd-timesyncd does.
    pub(crate) est_error_us: Option<u64>,
}

/// Asks.
///
/// # Errors
/// What the kernel said; a sandbox may forbid to ask.
pub(crate) fn kept() -> io::Result<Kept> {
    // SAFETY: `timex` is a C struct of integers, for which all zeroes is a value; `modes` 0 sets nothing.
    let mut asked: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `timex` of this process's own, which the kernel fills.
    let state = unsafe { libc::adjtimex(&raw mut asked) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    let est_error_us = u64::try_from(asked.esterror).ok().filter(|error| *error > 0);
    Ok(Kept { is_synchronized: asked.status & libc::STA_UNSYNC == 0, est_error_us })
}
