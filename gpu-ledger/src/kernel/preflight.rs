//! What this machine must offer before anything is attached, each with cause and remedy.
//!
//! Purpose: `doctor` and every refusal to start say *which* prerequisite is missing. May touch:
//! procfs, sysfs and probing system calls; changes nothing. Nothing is inferred from the kernel's
//! version.

use std::fmt;
use std::path::Path;

use aya::maps::MapType;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::btf::Btf;
use super::{KernelError, mounts, offsets, read_file, tracer};

/// A prerequisite.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Prerequisite {
    /// The kernel's BTF, with every type and member that is read.
    KernelTypes,
    /// The BPF ring buffer (5.8).
    RingBuffer,
    /// `CAP_BPF`: creates maps and loads programs.
    CapBpf,
    /// `CAP_PERFMON`: lets programs read kernel memory.
    CapPerfmon,
    /// `CAP_NET_ADMIN`: loads the program that sees device opens.
    CapNetAdmin,
    /// A mounted cgroup v2 tree: where that program is attached.
    CgroupV2,
    /// The initial pid namespace: the driver and the events speak of its pids.
    PidNamespace,
    /// The initial time namespace: procfs shifts start times by the reader's.
    TimeNamespace,
    /// A procfs that shows this pid namespace and other people's processes.
    HostProcfs,
    /// No kernel lockdown that forbids reading kernel memory.
    Lockdown,
    /// Memory that may be locked: counted for maps before 5.11.
    LockedMemory,
}

/// What lacks where a prerequisite is not met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Process events: without them nobody is named.
    Tracing,
    /// Device touch: everything else works without.
    DeviceTouch,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is there.
    Met,
    /// It is not.
    Missing {
        /// What was seen.
        cause: String,
        /// What to do.
        remedy: &'static str,
    },
    /// It could not be seen; the self-test tells.
    NotSeen {
        /// Why.
        cause: String,
    },
}

/// A prerequisite and what was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which.
    pub prerequisite: Prerequisite,
    /// What it is for.
    pub need: Need,
    /// What was found.
    pub outcome: Outcome,
}

impl fmt::Display for Prerequisite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::KernelTypes => "kernel types (BTF)",
            Self::RingBuffer => "BPF ring buffer",
            Self::CapBpf => "CAP_BPF",
            Self::CapPerfmon => "CAP_PERFMON",
            Self::CapNetAdmin => "CAP_NET_ADMIN",
            Self::CgroupV2 => "cgroup v2",
            Self::PidNamespace => "initial pid namespace",
            Self::TimeNamespace => "initial time namespace",
            Self::HostProcfs => "procfs of the host",
            Self::Lockdown => "no confidentiality lockdown",
            Self::LockedMemory => "locked memory",
        })
    }
}

/// Capability numbers (`include/uapi/linux/capability.h`).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Inodes of the initial namespaces (`include/linux/proc_ns.h`).
const INITIAL_PID_NAMESPACE: u64 = 0xefff_fffc;
const INITIAL_TIME_NAMESPACE: u64 = 0xefff_fffa;

/// Looks at every prerequisite, in the order of [`Prerequisite`]. `proc_root` and `sys_root` are
/// where procfs and sysfs are mounted.
#[must_use]
pub fn findings(proc_root: &Path, sys_root: &Path) -> Vec<Finding> {
    let held = effective_capabilities(proc_root);
    let capability = |number| outcome_of_capability(held.as_ref(), number);
    let rows = [
        (Prerequisite::KernelTypes, Need::Tracing, kernel_types(sys_root)),
        (Prerequisite::RingBuffer, Need::Tracing, ring_buffer()),
        (Prerequisite::CapBpf, Need::Tracing, capability(CAP_BPF)),
        (Prerequisite::CapPerfmon, Need::Tracing, capability(CAP_PERFMON)),
        (Prerequisite::CapNetAdmin, Need::DeviceTouch, capability(CAP_NET_ADMIN)),
        (Prerequisite::CgroupV2, Need::DeviceTouch, cgroup_v2(proc_root)),
        (Prerequisite::PidNamespace, Need::Tracing, pid_namespace(proc_root)),
        (Prerequisite::TimeNamespace, Need::Tracing, time_namespace(proc_root)),
        (Prerequisite::HostProcfs, Need::Tracing, host_procfs(proc_root)),
        (Prerequisite::Lockdown, Need::Tracing, lockdown(sys_root)),
        (Prerequisite::LockedMemory, Need::Tracing, locked_memory(capability(CAP_SYS_RESOURCE))),
    ];
    rows.map(|(prerequisite, need, outcome)| Finding { prerequisite, need, outcome }).into()
}

/// What device touch lacks, with what to do; `None` where nothing that is looked at.
pub(super) fn touch_lack(proc_root: &Path) -> Option<String> {
    let held = effective_capabilities(proc_root);
    let looked = [outcome_of_capability(held.as_ref(), CAP_NET_ADMIN), cgroup_v2(proc_root)];
    looked.into_iter().find_map(|outcome| match outcome {
        Outcome::Missing { cause, remedy } => Some(format!("{cause}; {remedy}")),
        Outcome::Met | Outcome::NotSeen { .. } => None,
    })
}

/// Lifts the limit on locked memory, which kernels before 5.11 count maps against. Where that is
/// not allowed the limit stays, and a map that does not fit says so when it is created.
pub fn raise_locked_memory() {
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        tracing::debug!("the limit on locked memory stays: raising it needs CAP_SYS_RESOURCE");
    }
}

fn missing(cause: impl fmt::Display, remedy: &'static str) -> Outcome {
    Outcome::Missing { cause: cause.to_string(), remedy }
}

fn not_seen(cause: impl fmt::Display) -> Outcome {
    Outcome::NotSeen { cause: cause.to_string() }
}

fn kernel_types(sys_root: &Path) -> Outcome {
    let path = sys_root.join("kernel/btf/vmlinux");
    let remedy = "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (Debian 11, RHEL 8.6 and later)";
    let bytes = match read_file(&path) {
        Ok(bytes) => bytes,
        Err(error) => return missing(error, remedy),
    };
    let resolved = Btf::parse(bytes).and_then(|btf| {
        offsets::resolve(&btf)?;
        tracer::TRACEPOINTS.iter().try_for_each(|name| btf.tracepoint_arguments(name).map(drop))
    });
    match resolved {
        Ok(()) => Outcome::Met,
        Err(error) => missing(error, "report this kernel: gpu-ledger does not know its types"),
    }
}

fn ring_buffer() -> Outcome {
    match aya::sys::is_map_supported(MapType::RingBuf) {
        Ok(true) => Outcome::Met,
        Ok(false) => missing("the kernel has no BPF ring buffer", "boot Linux 5.8 or later"),
        Err(error) => not_seen(format_args!("{}: {}", error.call, error.io_error)),
    }
}

/// The effective capabilities as the kernel prints them, a bit a capability.
pub(super) fn effective_capabilities(proc_root: &Path) -> Result<u64, KernelError> {
    let path = proc_root.join("self/status");
    let text = read_file(&path)?;
    let text = String::from_utf8_lossy(&text);
    let mask = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let what = "no line `CapEff:` with a hexadecimal number";
    let wrong = || KernelError::Text { path: path.display().to_string(), what };
    u64::from_str_radix(mask.ok_or_else(wrong)?.trim(), 16).map_err(|_| wrong())
}

fn outcome_of_capability(held: Result<&u64, &KernelError>, number: u32) -> Outcome {
    let mask = match held {
        Ok(mask) => mask,
        Err(error) => return not_seen(error),
    };
    // CAP_SYS_ADMIN stands for each of them (`include/linux/capability.h`, `bpf_capable`).
    if [number, CAP_SYS_ADMIN].iter().any(|bit| mask >> bit & 1 == 1) {
        return Outcome::Met;
    }
    let (name, remedy) = match number {
        CAP_BPF => ("CAP_BPF", "run as root, or grant CAP_BPF to the service"),
        CAP_PERFMON => ("CAP_PERFMON", "run as root, or grant CAP_PERFMON to the service"),
        _ => ("CAP_NET_ADMIN", "run as root, or grant CAP_NET_ADMIN to the service"),
    };
    missing(format_args!("{name} is not held (CapEff {mask:016x})"), remedy)
}

fn cgroup_v2(proc_root: &Path) -> Outcome {
    match mounts::cgroup2_root(proc_root) {
        Ok(Some(_)) => Outcome::Met,
        Ok(None) => missing(
            "the whole cgroup v2 tree is mounted nowhere",
            "mount it: mount -t cgroup2 none /sys/fs/cgroup/unified",
        ),
        Err(error) => not_seen(error),
    }
}

/// The inode in the text of a namespace link such as `pid:[4026531836]`; `Ok(None)` where the
/// kernel has no such namespace.
fn namespace(proc_root: &Path, name: &str) -> Result<Option<u64>, KernelError> {
    let path = proc_root.join("self/ns").join(name);
    let target = match std::fs::read_link(&path) {
        Ok(target) => target,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && proc_root.exists() => {
            return Ok(None);
        }
        Err(cause) => return Err(KernelError::File { path: path.display().to_string(), cause }),
    };
    let target = target.to_string_lossy().into_owned();
    let digits = target.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
    let what = "not a namespace link";
    let wrong = || KernelError::Text { path: path.display().to_string(), what };
    digits.and_then(|digits| digits.parse().ok()).map(Some).ok_or_else(wrong)
}

fn pid_namespace(proc_root: &Path) -> Outcome {
    match namespace(proc_root, "pid") {
        Ok(Some(INITIAL_PID_NAMESPACE)) => Outcome::Met,
        Ok(Some(other)) => missing(
            format_args!("runs in pid namespace {other}, the host's is {INITIAL_PID_NAMESPACE}"),
            "run it on the host, or in a container with the host's pid namespace (--pid=host)",
        ),
        Ok(None) => not_seen("procfs shows no namespaces"),
        Err(error) => not_seen(error),
    }
}

fn time_namespace(proc_root: &Path) -> Outcome {
    match namespace(proc_root, "time") {
        // A kernel without time namespaces has only the initial one.
        Ok(Some(INITIAL_TIME_NAMESPACE) | None) => Outcome::Met,
        Ok(Some(other)) => missing(
            format_args!("runs in time namespace {other}, the host's is {INITIAL_TIME_NAMESPACE}"),
            "run it outside of time namespaces: procfs shifts every start time there",
        ),
        Err(error) => not_seen(error),
    }
}

fn host_procfs(proc_root: &Path) -> Outcome {
    let remedy = "mount the host's procfs there, without hidepid";
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    match std::fs::read_link(proc_root.join("self")) {
        Ok(shown) if shown == Path::new(&own) => {}
        Ok(shown) => {
            let shown = shown.display();
            return missing(format_args!("procfs calls process {own} {shown}"), remedy);
        }
        Err(error) => {
            let path = proc_root.join("self");
            return missing(format_args!("{}: {error}", path.display()), remedy);
        }
    }
    match read_file(&proc_root.join("1/stat")) {
        Ok(_) => Outcome::Met,
        Err(error) => missing(error, remedy),
    }
}

fn lockdown(sys_root: &Path) -> Outcome {
    let text = match read_file(&sys_root.join("kernel/security/lockdown")) {
        Ok(text) => text,
        // No such file: no lockdown in this kernel, or securityfs is not mounted.
        Err(error) => return not_seen(error),
    };
    // The mode in force stands in brackets. Integrity still lets programs read.
    if String::from_utf8_lossy(&text).contains("[confidentiality]") {
        return missing(
            "kernel lockdown is in confidentiality mode: no program may read kernel memory",
            "boot with lockdown=integrity",
        );
    }
    Outcome::Met
}

fn locked_memory(raising_it: Outcome) -> Outcome {
    match (getrlimit(Resource::Memlock).maximum, raising_it) {
        // Who may lift the limit does so, [`raise_locked_memory`].
        (None, _) | (_, Outcome::Met) => Outcome::Met,
        (Some(bytes), _) => not_seen(format_args!(
            "at most {bytes} bytes may be locked; kernels before 5.11 count the ring against that"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up procfs and sysfs.
    fn root(files: &[(&str, &str)], links: &[(&str, &str)]) -> tempfile::TempDir {
        let made = tempfile::tempdir().unwrap();
        let prepare = |name: &str| {
            let path = made.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        for (name, text) in files {
            std::fs::write(prepare(name), text).unwrap();
        }
        for (name, target) in links {
            std::os::unix::fs::symlink(target, prepare(name)).unwrap();
        }
        made
    }

    fn capability(mask: &str, number: u32) -> Outcome {
        let made = root(&[("self/status", &format!("Name:\tx\nCapEff:\t{mask}\n"))], &[]);
        outcome_of_capability(effective_capabilities(made.path()).as_ref(), number)
    }

    #[test]
    fn a_missing_capability_is_named() {
        let Outcome::Missing { cause, remedy } = capability("0000004000000000", CAP_BPF) else {
            panic!("CAP_BPF is not in the mask")
        };
        assert!(cause.contains("CAP_BPF") && remedy.contains("CAP_BPF"));
        assert_eq!(capability("0000004000000000", CAP_PERFMON), Outcome::Met);
        assert!(matches!(capability("000000c000000000", CAP_NET_ADMIN), Outcome::Missing { .. }));
    }

    #[test]
    fn cap_sys_admin_stands_for_the_others() {
        for number in [CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN] {
            assert_eq!(capability("0000000000200000", number), Outcome::Met);
        }
    }

    #[test]
    fn a_status_without_capabilities_is_not_read_as_none_held() {
        assert!(matches!(capability("none", CAP_BPF), Outcome::NotSeen { .. }));
    }

    #[test]
    fn namespaces_other_than_the_initial_ones_are_said() {
        let made = root(
            &[],
            &[("self/ns/pid", "pid:[4026532000]"), ("self/ns/time", "time:[4026531834]")],
        );
        let Outcome::Missing { cause, .. } = pid_namespace(made.path()) else {
            panic!("4026532000 is not the initial pid namespace")
        };
        assert!(cause.contains("4026532000"));
        assert_eq!(time_namespace(made.path()), Outcome::Met);
        let older = root(&[], &[("self/ns/pid", "pid:[4026531836]")]);
        assert_eq!(pid_namespace(older.path()), Outcome::Met);
        assert_eq!(time_namespace(older.path()), Outcome::Met);
    }

    #[test]
    fn a_procfs_of_another_pid_namespace_is_said() {
        let made = root(&[("1/stat", "1 (init) S")], &[("self", "1000000000")]);
        assert!(matches!(host_procfs(made.path()), Outcome::Missing { .. }));
        let own = std::process::id().to_string();
        let hidden = root(&[], &[("self", &own)]);
        assert!(matches!(host_procfs(hidden.path()), Outcome::Missing { .. }));
    }

    #[test]
    fn lockdown_integrity_is_no_obstacle_and_confidentiality_is() {
        let file = "kernel/security/lockdown";
        let integrity = root(&[(file, "none [integrity] confidentiality\n")], &[]);
        assert_eq!(lockdown(integrity.path()), Outcome::Met);
        let confidentiality = root(&[(file, "none integrity [confidentiality]\n")], &[]);
        assert!(matches!(lockdown(confidentiality.path()), Outcome::Missing { .. }));
    }

    #[test]
    fn a_kernel_without_types_is_said_with_its_path() {
        let made = root(&[], &[]);
        let Outcome::Missing { cause, .. } = kernel_types(made.path()) else {
            panic!("there is no BTF in an empty folder")
        };
        assert!(cause.contains("kernel/btf/vmlinux"));
    }

    #[test]
    fn every_prerequisite_is_found_once_and_in_order() {
        let found = findings(Path::new("/proc"), Path::new("/sys"));
        assert!(found.windows(2).all(|pair| pair[0].prerequisite < pair[1].prerequisite));
        assert_eq!(found.len(), 11);
    }
}
