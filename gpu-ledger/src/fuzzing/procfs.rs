//! Files of procfs and cgroupfs, below a made root.

use std::path::Path;

use super::input::parts;
use super::scratch;
use crate::identity::{CgroupMounts, Procfs};
use crate::kernel::fuzzing as kernel;
use crate::residency::recorder::cpu;
use crate::unit::Pid;

const PID: Pid = Pid(7);
/// What the parts of an input are of a process.
const OF_PROCESS: [&str; 6] = ["stat", "status", "loginuid", "cmdline", "cgroup", "maps"];
/// And what they are of a host.
const OF_HOST: [&str; 6] =
    ["devices", "self/status", "self/mountinfo", "self/cgroup", "7/comm", "7/cgroup"];

/// The files of one process: seen, gone or an error; and where the self-test's reader, which is another, sees it as
/// well, both see the same parent and start.
///
/// # Panics
/// Where that does not hold.
pub fn process(bytes: &[u8]) {
    scratch::with(|folder| {
        let root = folder.join("process");
        let mut parts = parts(bytes).into_iter();
        for name in OF_PROCESS {
            scratch::write(&root, &format!("{PID}/{name}"), parts.next().unwrap_or_default());
        }
        let process = root.join(PID.to_string());
        let seen = Procfs::new(root.clone()).read(PID, &CgroupMounts::default());
        let cmdline = std::fs::read(process.join("cmdline")).unwrap_or_default();
        if let Ok(Some(seen)) = &seen {
            assert!(cmdline.starts_with(&seen.argv.bytes));
            let whole = u64::try_from(cmdline.len()).ok();
            assert!(seen.argv.true_length.is_none() || seen.argv.true_length == whole);
            // A process that has no arguments to be had is not one that has none.
            assert!(
                !cmdline.is_empty() || seen.is_kernel_thread || seen.argv.true_length.is_none()
            );
            if let Some(stat) = kernel::stat(&process) {
                assert_eq!(stat, (seen.parent, seen.start_ticks));
            }
        }
        kernel::procfs(&root, &process);
    });
}

/// Files of the host: devices, status, mounts, and the ticks of its processors.
pub fn host(bytes: &[u8]) {
    scratch::with(|folder| {
        let root = folder.join("host");
        let mut parts = parts(bytes).into_iter();
        for name in OF_HOST {
            scratch::write(&root, name, parts.next().unwrap_or_default());
        }
        ticks(parts.next().unwrap_or_default());
        kernel::procfs(&root, &root.join(PID.to_string()));
        let mounts = CgroupMounts::read(&root, &root.join("mounted"));
        let groups = std::fs::read(root.join("7/cgroup")).unwrap_or_default();
        if let Ok(mounts) = mounts {
            drop(mounts.groups_of(&groups));
        }
        crate::mode::fuzzing::name_of(&root, PID);
        crate::doctor::fuzzing::hidden_pids(Path::new(&root));
    });
}

fn ticks(stat: &[u8]) {
    let Ok(stat) = std::str::from_utf8(stat) else { return };
    if let Some(ticks) = cpu::parse(stat) {
        assert!(ticks.busy <= ticks.total, "{ticks:?}");
    }
}
