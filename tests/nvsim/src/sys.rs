//! System calls that rustix leaves out or leaves unsafe, one `unsafe` operation a block.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

/// Which side of a fork this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fork {
    /// The new process.
    Child,
    /// The old one, with the new one's pid.
    Parent(i32),
}

/// Forks without exec, as a prefork server does.
///
/// # Errors
/// What `fork(2)` says: no room for another process.
pub fn fork() -> io::Result<Fork> {
    // SAFETY: the callers in this crate are single-threaded, so no lock can be held by a thread
    // that the child lacks.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Ends this process at once, without running the exit handlers that it shares with its parent.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` takes a number and does not return; what it skips is skipped on purpose.
    unsafe { libc::_exit(status) }
}

/// The kernel's `struct clone_args`, as far as version 5.5 has it (`include/uapi/linux/sched.h`).
#[repr(C)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
}

/// Forks a process that gets exactly `pid`. Needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE in the
/// pid namespace, and the pid to be free.
///
/// # Errors
/// `EEXIST` while the pid is in use, `EPERM` without the capability.
pub fn fork_with_pid(pid: i32) -> io::Result<Fork> {
    let wanted = [pid];
    let address = u64::try_from(wanted.as_ptr().addr()).unwrap_or(u64::MAX);
    let arguments = CloneArguments {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: u64::from(libc::SIGCHLD.unsigned_abs()),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: address,
        set_tid_size: 1,
    };
    // SAFETY: the arguments outlive the call and have the size given; without CLONE_VM the child
    // has its own copy of everything, as after fork, and the callers are single-threaded.
    let made = unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>())
    };
    match made {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        made => i32::try_from(made).map(Fork::Parent).map_err(io::Error::other),
    }
}

/// A descriptor of the very process that connected, so that its pid cannot come to mean another;
/// none on kernels before 6.5, and for a peer that is reaped already.
#[must_use]
pub fn peer_pidfd(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    // `SO_PEERPIDFD` (include/uapi/asm-generic/socket.h of 6.5).
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut fd: RawFd = -1;
    let mut size = libc::socklen_t::try_from(size_of::<RawFd>()).ok()?;
    // SAFETY: both places are this function's own and as large as the call is told.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut fd).cast(),
            &raw mut size,
        )
    };
    if status != 0 || fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A descriptor that becomes readable when this process is asked to end (SIGTERM or SIGINT), which
/// from now on no longer end it by themselves.
///
/// # Errors
/// What `sigprocmask(2)` or `signalfd(2)` say.
pub fn termination_descriptor() -> io::Result<OwnedFd> {
    let mut asked = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` fills the whole set that it is given.
    unsafe { libc::sigemptyset(asked.as_mut_ptr()) };
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: the set was filled above, and both are signal numbers.
        unsafe { libc::sigaddset(asked.as_mut_ptr(), signal) };
    }
    // SAFETY: the set is whole; the old mask is not asked for.
    let status =
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, asked.as_ptr(), std::ptr::null_mut()) };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the set is whole; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, asked.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
