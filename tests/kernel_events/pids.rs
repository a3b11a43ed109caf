//! Numbers that say less than they seem to: a pid of a namespace, and one that is given out again.

use std::collections::BTreeSet;
use std::path::Path;

use gpu_ledger::kernel::{ProcessKey, TracerOptions};
use gpu_ledger::unit::Pid;

use crate::support::{children, execs, exits, watch};

#[test]
fn the_first_process_of_a_pid_namespace_is_told_by_its_pid_outside() {
    let name = "the_first_process_of_a_pid_namespace_is_told_by_its_pid_outside";
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    let pid = watch.act(&["into-pid-namespace"]);
    let child = watch.until("the fork", |events| children(events, pid).first().copied());
    assert_ne!(child.pid, Pid(1));
    let exit = watch.exit_of(child.pid);
    assert_eq!(exit.subject.key, child);
    assert_eq!(exit.wait_status, Some(29 << 8), "29: inside it is the first");
    assert_eq!(watch.exec_of(child.pid).subject.key, child);
    assert_eq!(exit.subject.parent.unwrap().pid, pid);
}

/// The pid space of a machine, small for a while.
struct PidSpace(String);

const PID_MAX: &str = "/proc/sys/kernel/pid_max";

impl PidSpace {
    fn of(pids: usize) -> Self {
        let before = std::fs::read_to_string(PID_MAX).unwrap();
        std::fs::write(PID_MAX, pids.to_string()).unwrap();
        Self(before)
    }
}

impl Drop for PidSpace {
    fn drop(&mut self) {
        // Nothing is left to do where even that fails.
        drop(std::fs::write(PID_MAX, &self.0));
    }
}

#[test]
#[ignore = "makes the pid space of the whole machine small: `cargo xtask kernels` runs it in machines of its own"]
fn a_pid_that_is_given_out_again_is_another_process_each_time() {
    const SPAWNED: usize = 1_500;
    const PIDS: usize = 400;
    let name = "a_pid_that_is_given_out_again_is_another_process_each_time";
    assert!(Path::new(PID_MAX).exists());
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    let space = PidSpace::of(PIDS);
    let pid = watch.act(&["storm", &SPAWNED.to_string()]);
    drop(space);
    let counts = watch.quiet();
    assert_eq!(counts.lost().total(), 0);
    let born = children(&watch.events, pid);
    let keys: BTreeSet<ProcessKey> = born.iter().copied().collect();
    assert_eq!((born.len(), keys.len()), (SPAWNED, SPAWNED), "each is itself");
    let pids: BTreeSet<Pid> = born.iter().map(|key| key.pid).collect();
    assert!(pids.len() < PIDS, "{} pids for all of them", pids.len());
    let images: BTreeSet<ProcessKey> = execs(&watch.events).map(|it| it.subject.key).collect();
    let ended: BTreeSet<ProcessKey> = exits(&watch.events).map(|it| it.subject.key).collect();
    assert!(keys.is_subset(&images) && keys.is_subset(&ended), "none took another's place");
}
