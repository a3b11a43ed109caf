//! How processes begin and end.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use gpu_ledger::kernel::TracerOptions;
use gpu_ledger::unit::Pid;

use crate::support::{Watch, actor, children, execs, exits, forks, watch};

fn watched(test: &str) -> Option<Watch> {
    watch(test, &TracerOptions::default())
}

/// The wait status of exit(2) with a code.
const fn exited(code: u32) -> u32 {
    code << 8
}

#[test]
fn an_exec_from_a_thread_keeps_the_process() {
    let Some(mut watch) = watched("an_exec_from_a_thread_keeps_the_process") else { return };
    let pid = watch.act(&["thread-exec"]);
    let exit = watch.exit_of(pid);
    assert_eq!(exit.wait_status, Some(exited(21)));
    let images: Vec<_> = execs(&watch.events).filter(|exec| exec.subject.key.pid == pid).collect();
    assert_eq!(images.len(), 2, "the actor, and the image its thread made");
    assert!(images.iter().all(|exec| exec.subject.key == exit.subject.key));
    assert!(images[1].argv.bytes.ends_with(b"\0exit\x0021\0"));
    assert_eq!(exits(&watch.events).filter(|it| it.subject.key.pid == pid).count(), 1);
    assert!(children(&watch.events, pid).is_empty(), "threads are no processes");
}

#[test]
fn a_leader_that_ends_first_does_not_end_the_process() {
    let Some(mut watch) = watched("a_leader_that_ends_first_does_not_end_the_process") else {
        return;
    };
    let pid = watch.act(&["leader-first"]);
    let exit = watch.exit_of(pid);
    let exec = watch.exec_of(pid);
    assert_eq!(exit.subject.key, exec.subject.key);
    assert_eq!(exit.wait_status, Some(exited(22)), "not the 5 that its leader's thread ended with");
    let lived = exit.subject.at.since(exec.subject.at).unwrap();
    assert!(lived >= 150_000_000, "reported when its leader ended, {lived} ns after exec");
}

#[test]
fn many_threads_that_leave_at_once_are_one_exit() {
    let Some(mut watch) = watched("many_threads_that_leave_at_once_are_one_exit") else { return };
    for _ in 0..20 {
        let pid = watch.act(&["many-threads", "24"]);
        let exit = watch.exit_of(pid);
        assert_eq!(exit.wait_status, Some(exited(23)));
        // Several threads may report it; all of them name the same process.
        watch.quiet();
        let mut reports = exits(&watch.events).filter(|it| it.subject.key.pid == pid);
        assert!(reports.all(|it| it.subject.key == exit.subject.key));
        assert!(children(&watch.events, pid).is_empty(), "threads are no processes");
    }
}

#[test]
fn a_fork_without_exec_is_a_process_of_its_own() {
    let Some(mut watch) = watched("a_fork_without_exec_is_a_process_of_its_own") else { return };
    let pid = watch.act(&["fork-only"]);
    let child = watch.until("the fork", |events| children(events, pid).first().copied());
    let exit = watch.exit_of(child.pid);
    assert_eq!((exit.subject.key, exit.wait_status), (child, Some(exited(24))));
    assert_eq!(exit.subject.parent.unwrap(), watch.exec_of(pid).subject.key);
    assert!(execs(&watch.events).all(|exec| exec.subject.key != child));
}

#[test]
fn vfork_and_exec_are_one_child_with_its_image() {
    let Some(mut watch) = watched("vfork_and_exec_are_one_child_with_its_image") else { return };
    let pid = watch.act(&["vfork-exec"]);
    let child = watch.until("the fork", |events| children(events, pid).first().copied());
    assert!(watch.exec_of(child.pid).argv.bytes.ends_with(b"\0exit\x0025\0"));
    let exit = watch.exit_of(child.pid);
    assert_eq!((exit.subject.key, exit.wait_status), (child, Some(exited(25))));
}

#[test]
fn posix_spawn_is_fork_exec_exit_in_that_order() {
    let Some(mut watch) = watched("posix_spawn_is_fork_exec_exit_in_that_order") else { return };
    let pid = watch.act(&["storm", "1"]);
    let child = watch.until("the fork", |events| children(events, pid).first().copied());
    let exit = watch.exit_of(child.pid);
    let exec = watch.exec_of(child.pid);
    let fork = forks(&watch.events).find(|it| it.subject.key == child).unwrap();
    assert_eq!((exec.subject.key, exit.subject.key), (child, child));
    assert!(fork.subject.at <= exec.subject.at && exec.subject.at <= exit.subject.at);
    assert!(child.start <= fork.subject.at);
}

#[test]
fn an_image_without_a_name_is_told_by_device_and_inode() {
    let Some(mut watch) = watched("an_image_without_a_name_is_told_by_device_and_inode") else {
        return;
    };
    let pid = watch.act(&["memfd-exec"]);
    assert_eq!(watch.exit_of(pid).wait_status, Some(exited(26)));
    let images: Vec<_> = execs(&watch.events).filter(|exec| exec.subject.key.pid == pid).collect();
    assert_eq!(images.len(), 2);
    assert_eq!(images[1].argv.bytes, b"ghost\0exit\x0026\0".as_slice());
    assert!(images[1].filename.starts_with(b"/dev/fd/"), "{:?}", images[1].filename);
    let (first, second) = (images[0], images[1]);
    assert_ne!(first.exe.unwrap(), second.exe.unwrap());
}

#[test]
fn an_exec_that_fails_is_no_event() {
    let Some(mut watch) = watched("an_exec_that_fails_is_no_event") else { return };
    let pid = watch.act(&["failed-exec"]);
    assert_eq!(watch.exit_of(pid).wait_status, Some(exited(27)));
    let images = execs(&watch.events).filter(|exec| exec.subject.key.pid == pid);
    assert_eq!(images.count(), 1, "the actor's own");
}

#[test]
fn a_killed_process_exits_with_its_signal() {
    let Some(mut watch) = watched("a_killed_process_exits_with_its_signal") else { return };
    let mut child = Command::new(actor()).arg("wait").spawn().unwrap();
    let pid = Pid(child.id());
    watch.exec_of(pid);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9));
    assert_eq!(watch.exit_of(pid).wait_status, Some(9));
}

#[test]
fn every_exit_status_is_what_wait_reports() {
    let Some(mut watch) = watched("every_exit_status_is_what_wait_reports") else { return };
    for code in [0, 1, 42, 255] {
        let pid = watch.act(&["exit", &code.to_string()]);
        assert_eq!(watch.exit_of(pid).wait_status, Some(exited(code)));
    }
}

#[test]
fn a_setuid_program_has_the_user_who_started_it_and_the_one_it_runs_as() {
    const NOBODY: u32 = 65_534;
    let name = "a_setuid_program_has_the_user_who_started_it_and_the_one_it_runs_as";
    let Some(mut watch) = watched(name) else { return };
    let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("kernel-events-setuid-{}", std::process::id()));
    std::fs::copy(actor(), &program).unwrap();
    // The mode after the owner: changing that takes the bit away.
    std::os::unix::fs::chown(&program, Some(NOBODY), None).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let mut child = Command::new(&program).args(["exit", "0"]).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let exec = watch.exec_of(Pid(child.id()));
    let exit = watch.exit_of(Pid(child.id()));
    std::fs::remove_file(&program).unwrap();
    let own = rustix::process::getuid().as_raw();
    assert_ne!(own, NOBODY, "this test is of two users");
    for subject in [&exec.subject, &exit.subject] {
        assert_eq!((subject.uid, subject.euid), (Some(own), Some(NOBODY)));
    }
}
