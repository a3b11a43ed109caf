//! Places where a journal should not lie, and configurations that are wrong.

use std::os::unix::fs::PermissionsExt as _;

use crate::asked::{Asked, state_dir};
use crate::support::skip;

fn nowhere() -> Asked {
    Asked::with_library("/nonexistent/libnvidia-ml.so.1")
}

#[test]
fn a_state_directory_on_tmpfs_is_warned_of() {
    let test = "a_state_directory_on_tmpfs_is_warned_of";
    let folder = state_dir();
    let place = folder.path().to_str().unwrap();
    let mount = format!("mount -t tmpfs -o mode=0700,size=32m none {place}");
    let tried = std::process::Command::new("unshare").args(["-m", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        return skip(test, "no mount namespace can be made here");
    }
    let doctor = nowhere().after_mounting(&mount).doctor(&["--state-dir", place]);
    doctor.finds("file-system", "warn", "is on tmpfs", "local disk");
    doctor.finds("free-space", "missing", "free at", "make room");
}

#[test]
fn a_state_directory_that_is_not_there_is_not_made() {
    let folder = state_dir();
    let place = folder.path().join("a/b");
    let doctor = nowhere().doctor(&["--state-dir", place.to_str().unwrap()]);
    doctor.finds("state-dir", "warn", "does not exist yet", "install -d -m 0700");
    let remedy = doctor.check("state-dir")["remedy"].as_str().unwrap();
    assert!(
        remedy.ends_with(&format!("-o gpu-ledger -g gpu-ledger {}", place.display())),
        "{remedy}"
    );
    assert_eq!(
        doctor.check("file-system")["cause"].as_str().map(|cause| cause.contains("a/b")),
        Some(false)
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_state_directory_that_anybody_may_write_is_refused() {
    let folder = state_dir();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let place = folder.path().to_str().unwrap();
    let doctor = nowhere().doctor(&["--state-dir", place]);
    doctor.finds("state-dir", "missing", "mode 0777", "chmod 0700");
    let mode = std::fs::metadata(folder.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o777, "the mode was changed");
}

#[test]
fn a_wrong_configuration_is_named_and_everything_else_is_looked_at() {
    let folder = state_dir();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "\nstate_dri = \"/x\"\n").unwrap();
    let doctor = nowhere().doctor(&["--config", file.to_str().unwrap()]);
    doctor.finds("configuration", "missing", ":2: unknown key `state_dri`", "correct the file");
    doctor.finds("library", "missing", "nvml-library-not-found", "install");
    std::fs::write(&file, "call_deadline = \"1s\"\n").unwrap();
    let right = nowhere().doctor(&["--config", file.to_str().unwrap()]);
    right.finds("configuration", "ok", "config.toml", "");
    let missing = nowhere().doctor(&["--config", "/nonexistent/config.toml"]);
    missing.finds("configuration", "missing", "/nonexistent/config.toml", "correct the file");
}

#[test]
fn a_daemon_that_does_not_answer_is_told_with_its_place() {
    let folder = state_dir();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "[socket]\npath = \"/nonexistent/daemon.sock\"\n").unwrap();
    let doctor = nowhere().doctor(&["--config", file.to_str().unwrap()]);
    let cause = "no daemon answers at /nonexistent/daemon.sock";
    doctor.finds("daemon", "warn", cause, "systemctl start gpu-ledger");
}
