//! Probing threads that cannot start a program: `record --deny-exec`.
//!
//! The rule that no program is run to ask the driver is measured in every batch; this makes it a rule of the kernel's
//! as well. The filter is the thread's alone (seccomp(2)), and that of threads which it starts: the user's command is
//! started by another.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};

/// What marks a system call of the x32 ABI (arch/x86/include/uapi/asm/unistd.h).
const X32_SYSCALL_BIT: libc::c_long = 0x4000_0000;

/// execve and execveat fail with EPERM on this thread from here on. Sets no_new_privs on it, as the kernel demands of
/// whoever has no CAP_SYS_ADMIN (Documentation/userspace-api/seccomp_filter.rst).
///
/// # Errors
/// Where the kernel has no seccomp, or this architecture is none that filters are made for.
pub(super) fn deny_exec() -> Result<(), String> {
    // x32 has its own numbers on the same machine (arch/x86/entry/syscalls/syscall_64.tbl of Linux 6.18, 520 and 545).
    let x32 = [520, 545].map(|call: libc::c_long| X32_SYSCALL_BIT | call);
    let x32 = x32.into_iter().filter(|_| cfg!(target_arch = "x86_64"));
    let denied = [libc::SYS_execve, libc::SYS_execveat].into_iter().chain(x32);
    let rules = denied.map(|call| (call, Vec::<SeccompRule>::new())).collect();
    let architecture = std::env::consts::ARCH.try_into();
    let architecture = architecture.map_err(|error| format!("{error}"))?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture);
    let program: BpfProgram = filter
        .and_then(SeccompFilter::try_into)
        .map_err(|error| format!("no filter can be made: {error}"))?;
    seccompiler::apply_filter(&program)
        .map_err(|error| format!("the kernel takes no seccomp filter: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::process::Command;

    /// On threads of their own: a filter stays for good.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "whether a program starts is what is tried")]
    fn no_program_starts_on_a_thread_that_denies_it_and_on_others_it_does() {
        let start = || Command::new("true").status();
        let denied = std::thread::spawn(move || {
            super::deny_exec().unwrap();
            start()
        });
        assert_eq!(denied.join().unwrap().unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(std::thread::spawn(start).join().unwrap().unwrap().success());
    }
}
