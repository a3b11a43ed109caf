//! Hosts that hide something, and users who may not do what is needed.

use crate::asked::{Asked, state_dir};
use crate::support::{Sim, skip};

/// Whether mounts can be made here; where not, loudly.
fn can_mount(test: &str) -> bool {
    let tried = std::process::Command::new("unshare").args(["-m", "true"]).status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        skip(test, "no mount namespace can be made here");
    }
    can
}

#[test]
fn whoever_is_not_root_is_told_which_capabilities_are_missing() {
    let test = "whoever_is_not_root_is_told_which_capabilities_are_missing";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "only root can become somebody else");
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let doctor = Asked::on(&sim).by_nobody().doctor(&[]);
    doctor.finds("cap-bpf", "missing", "CAP_BPF is not held", "grant CAP_BPF");
    doctor.finds("cap-perfmon", "missing", "CAP_PERFMON is not held", "grant CAP_PERFMON");
    doctor.finds("device-touch", "warn", "CAP_NET_ADMIN", "device_touch = false");
    doctor.finds("locked-memory", "warn", "may be locked", "LimitMEMLOCK");
    assert_eq!(doctor.check("cap-bpf")["reason"], "process-events-unavailable");
    // Accounting is read without any privilege.
    doctor.finds("accounting-mode", "ok", "accounting is on", "");
    let config = sim.folder().join("config.toml");
    std::fs::write(&config, "device_touch = false\n").unwrap();
    let unwanted = Asked::on(&sim).by_nobody().doctor(&["--config", config.to_str().unwrap()]);
    unwanted.finds("device-touch", "ok", "not wanted", "");
}

#[test]
fn a_procfs_that_hides_processes_is_named_to_whom_it_hides_them_from() {
    let test = "a_procfs_that_hides_processes_is_named_to_whom_it_hides_them_from";
    if !can_mount(test) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let hiding = || Asked::on(&sim).after_mounting("mount -t proc -o hidepid=2 none /proc");
    let nobody = hiding().by_nobody().doctor(&[]);
    nobody.finds("hidepid", "missing", "hidepid=", "remount,hidepid=0");
    nobody.finds("procfs", "missing", "/proc/1/stat", "without hidepid");
    let root = hiding().doctor(&[]);
    root.finds("hidepid", "warn", "not from this user", "the group that gid= names");
    root.finds("procfs", "ok", "shows the host's processes", "");
}

#[test]
fn a_kernel_without_types_and_another_pid_namespace_are_named() {
    if !can_mount("a_kernel_without_types_and_another_pid_namespace_are_named") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let bare = Asked::on(&sim).after_mounting("mount -t tmpfs none /sys/kernel/btf").doctor(&[]);
    bare.finds("kernel-types", "missing", "/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF");
    sim.fault("container-view on");
    let inside = Asked::on(&sim).behind(&["unshare", "-p", "-f", "--mount-proc"]).doctor(&[]);
    inside.finds("pid-namespace", "missing", "runs in pid namespace", "--pid=host");
    inside.finds("read", "missing", "dead-rows-hidden-by-pid-namespace", "--pid=host");
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let sim = Sim::start(&["--gpus", "1"]);
    let folder = state_dir();
    let binary = env!("CARGO_BIN_EXE_gpu-ledger");
    let script = format!("{{ {binary} \"$@\"; echo $? >&2; }} | head -c 1");
    let output = std::process::Command::new("sh")
        .args(["-c", &script, "sh", "--nvml-library"])
        .arg(sim.library())
        .args(["doctor", "--json", "--state-dir"])
        .arg(folder.path())
        .env("NVSIM_SOCKET", sim.socket())
        .output()
        .unwrap();
    let status = String::from_utf8(output.stderr).unwrap();
    assert!(["0\n", "2\n"].contains(&status.as_str()), "{status}");
}
