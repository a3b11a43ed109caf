//! The kernel and what this process may do there.

use std::path::Path;

use super::{Area, Check, Status};
use crate::adjtimex;
use crate::kernel::preflight::{self, Finding, Need, Outcome, Prerequisite};

/// The names for other programs.
const fn id(prerequisite: Prerequisite) -> &'static str {
    match prerequisite {
        Prerequisite::KernelTypes => "kernel-types",
        Prerequisite::RingBuffer => "ring-buffer",
        Prerequisite::CapBpf => "cap-bpf",
        Prerequisite::CapPerfmon => "cap-perfmon",
        Prerequisite::CapNetAdmin => "cap-net-admin",
        Prerequisite::CgroupV2 => "cgroup-v2",
        Prerequisite::PidNamespace => "pid-namespace",
        Prerequisite::TimeNamespace => "time-namespace",
        Prerequisite::HostProcfs => "procfs",
        Prerequisite::Lockdown => "lockdown",
        Prerequisite::LockedMemory => "locked-memory",
    }
}

/// What is there where the prerequisite is met.
const fn met(prerequisite: Prerequisite) -> &'static str {
    match prerequisite {
        Prerequisite::KernelTypes => "the kernel's types (BTF) have every member that is read",
        Prerequisite::RingBuffer => "the kernel has the BPF ring buffer",
        Prerequisite::CapBpf => "CAP_BPF is held",
        Prerequisite::CapPerfmon => "CAP_PERFMON is held",
        Prerequisite::CapNetAdmin => "CAP_NET_ADMIN is held",
        Prerequisite::CgroupV2 => "the whole cgroup v2 tree is mounted",
        Prerequisite::PidNamespace => "this is the host's pid namespace",
        Prerequisite::TimeNamespace => "this is the host's time namespace",
        Prerequisite::HostProcfs => "procfs shows the host's processes",
        Prerequisite::Lockdown => "no lockdown forbids programs to read kernel memory",
        Prerequisite::LockedMemory => "locked memory has no limit",
    }
}

/// Everything about the host. `device_touch` is whether it is wanted.
pub(super) fn checks(proc_root: &Path, sys_root: &Path, device_touch: bool) -> Vec<Check> {
    let findings = preflight::findings(proc_root, sys_root);
    let mut checks = of_findings(&findings, sys_root);
    checks.push(touch(&findings, device_touch));
    checks.push(hidden_pids(proc_root));
    checks.push(clock());
    checks
}

fn of_findings(findings: &[Finding], sys_root: &Path) -> Vec<Check> {
    let tracing = findings.iter().filter(|finding| finding.need == Need::Tracing);
    tracing.map(|finding| of_finding(finding, sys_root)).collect()
}

fn of_finding(finding: &Finding, sys_root: &Path) -> Check {
    let (check, prerequisite) = (id(finding.prerequisite), finding.prerequisite);
    let ok = |found: &str| Check::ok(Area::Host, check, found);
    match &finding.outcome {
        Outcome::Met => ok(met(prerequisite)),
        Outcome::Missing { cause, remedy } => {
            let missing = Check::new(Area::Host, check, Status::Missing, cause.clone());
            missing.with_remedy(*remedy).with_reason(reason_of(prerequisite))
        }
        Outcome::NotSeen { .. }
            if prerequisite == Prerequisite::Lockdown && lacks_lockdown(sys_root) =>
        {
            ok("the kernel has no lockdown")
        }
        // Only kernels before 5.11 count maps against it, and the daemon's unit lifts it.
        Outcome::NotSeen { cause } if prerequisite == Prerequisite::LockedMemory => {
            let warn = Check::new(Area::Host, check, Status::Warn, cause.clone());
            warn.with_remedy("before Linux 5.11: set LimitMEMLOCK=infinity, or run as root")
        }
        Outcome::NotSeen { cause } => {
            let unknown = Check::new(Area::Host, check, Status::Unknown, cause.clone());
            unknown.with_remedy(match prerequisite {
                Prerequisite::Lockdown => {
                    "mount securityfs (it is at /sys/kernel/security) and read it as root"
                }
                _ => "run as root to see it",
            })
        }
    }
}

/// What the product says for want of it.
const fn reason_of(prerequisite: Prerequisite) -> crate::unknown::UnknownReason {
    match prerequisite {
        Prerequisite::PidNamespace => crate::unknown::UnknownReason::DeadRowsHiddenByPidNamespace,
        _ => crate::unknown::UnknownReason::ProcessEventsUnavailable,
    }
}

/// With securityfs in place, a missing file says that there is no such security module.
fn lacks_lockdown(sys_root: &Path) -> bool {
    let folder = sys_root.join("kernel/security");
    folder.join("lsm").exists() && !folder.join("lockdown").exists()
}

/// Who opens a GPU: wanted by some, needed by none.
fn touch(findings: &[Finding], wanted: bool) -> Check {
    let check = "device-touch";
    if !wanted {
        return Check::ok(Area::Host, check, "not wanted: device_touch = false");
    }
    let lacks = findings.iter().filter(|finding| finding.need == Need::DeviceTouch);
    for finding in lacks {
        let (status, cause, remedy) = match &finding.outcome {
            Outcome::Met => continue,
            Outcome::Missing { cause, remedy } => (Status::Warn, cause, *remedy),
            Outcome::NotSeen { cause } => (Status::Unknown, cause, "run as root to see it"),
        };
        let cause = format!("nobody sees who opens a GPU: {cause}");
        let check = Check::new(Area::Host, check, status, cause);
        return check
            .with_remedy(format!("{remedy}; or set device_touch = false"))
            .with_reason(crate::unknown::UnknownReason::DeviceTouchOff);
    }
    Check::ok(Area::Host, check, "who opens a GPU can be seen")
}

/// Whether procfs hides other people's processes from some (`hidepid`, proc(5)).
pub(super) fn hidden_pids(proc_root: &Path) -> Check {
    let check = "hidepid";
    let path = proc_root.join("self/mountinfo");
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) => {
            let cause = format!("{}: {error}", path.display());
            return Check::new(Area::Host, check, Status::Unknown, cause)
                .with_remedy("mount the host's procfs there");
        }
    };
    match hidepid_of(&String::from_utf8_lossy(&text), &proc_root.display().to_string()) {
        None => Check::ok(Area::Host, check, "procfs hides nobody's processes"),
        Some(option) => {
            let seen = proc_root.join("1/stat");
            let (status, what) = if std::fs::read(seen).is_ok() {
                (Status::Warn, "not from this user")
            } else {
                (Status::Missing, "from this user too")
            };
            let cause = format!("procfs is mounted with {option}: it hides processes, {what}");
            let check = Check::new(Area::Host, check, status, cause);
            let remedy = format!(
                "mount -o remount,hidepid=0 {0}, or add the daemon's user to the group that gid= names",
                proc_root.display()
            );
            let reason = crate::unknown::UnknownReason::ProcessEventsUnavailable;
            if status == Status::Missing {
                check.with_remedy(remedy).with_reason(reason)
            } else {
                check.with_remedy(remedy)
            }
        }
    }
}

/// The option with which the procfs at this place hides processes.
fn hidepid_of<'a>(mountinfo: &'a str, place: &str) -> Option<&'a str> {
    // The last mount at a place is the one that is seen.
    let line = mountinfo.lines().rev().find(|line| line.split(' ').nth(4) == Some(place))?;
    let (_, after) = line.split_once(" - ")?;
    let options = after.strip_prefix("proc ")?.split(' ').nth(1)?;
    let option = options.split(',').find(|option| option.starts_with("hidepid="))?;
    (!["hidepid=0", "hidepid=off"].contains(&option)).then_some(option)
}

/// A clock that somebody keeps right is slewed; one that nobody keeps is stepped one day.
fn clock() -> Check {
    let check = "clock-sync";
    match adjtimex::kept().map(|kept| kept.is_synchronized) {
        Ok(true) => Check::ok(Area::Host, check, "a time service keeps the clock"),
        Ok(false) => {
            let cause = "no time service keeps the clock: what a step covers is disputed";
            Check::new(Area::Host, check, Status::Warn, cause)
                .with_remedy("start chrony or systemd-timesyncd (timedatectl set-ntp true)")
        }
        Err(error) => Check::new(Area::Host, check, Status::Unknown, format!("adjtimex: {error}"))
            .with_remedy("run it outside of the sandbox that forbids to ask"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "22 28 0:20 / /sys rw shared:7 - sysfs sysfs rw\n\
        23 28 0:21 / /proc rw,nosuid shared:14 - proc proc rw\n";

    #[test]
    fn hidepid_is_read_from_the_mount_that_is_seen() {
        let hiding = "99 23 0:50 / /proc rw shared:9 - proc none rw,gid=4,hidepid=invisible\n";
        assert_eq!(hidepid_of(PLAIN, "/proc"), None);
        assert_eq!(hidepid_of(&format!("{PLAIN}{hiding}"), "/proc"), Some("hidepid=invisible"));
        assert_eq!(hidepid_of(&format!("{hiding}{PLAIN}"), "/proc"), None);
        assert_eq!(hidepid_of(&hiding.replace("=invisible", "=0"), "/proc"), None);
        assert_eq!(hidepid_of(hiding, "/elsewhere"), None);
    }

    #[test]
    fn without_securityfs_lockdown_is_unknown_and_with_it_absent() {
        let folder = tempfile::tempdir().unwrap();
        let finding = Finding {
            prerequisite: Prerequisite::Lockdown,
            need: Need::Tracing,
            outcome: Outcome::NotSeen { cause: "no such file".to_owned() },
        };
        assert_eq!(of_finding(&finding, folder.path()).status, Status::Unknown);
        let security = folder.path().join("kernel/security");
        std::fs::create_dir_all(&security).unwrap();
        std::fs::write(security.join("lsm"), "capability,bpf").unwrap();
        assert_eq!(of_finding(&finding, folder.path()).status, Status::Ok);
    }

    #[test]
    fn device_touch_is_wanted_and_never_needed() {
        let lacks = Finding {
            prerequisite: Prerequisite::CapNetAdmin,
            need: Need::DeviceTouch,
            outcome: Outcome::Missing { cause: "not held".to_owned(), remedy: "grant it" },
        };
        let check = touch(std::slice::from_ref(&lacks), true);
        assert_eq!(check.status, Status::Warn);
        assert!(check.remedy.unwrap().contains("grant it; or set device_touch = false"));
        assert_eq!(touch(&[lacks], false).status, Status::Ok);
    }

    #[test]
    fn the_clock_is_asked_and_not_set() {
        // Whatever the answer here is: asking twice gives the same, and no error on a plain host.
        let (first, second) = (clock(), clock());
        assert_eq!(first.status, second.status);
        assert_ne!(first.status, Status::Missing);
    }
}
