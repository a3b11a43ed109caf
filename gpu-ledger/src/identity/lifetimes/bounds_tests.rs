//! Who may be forgotten, and that memory stays bounded whatever comes.

use std::collections::BTreeSet;

use super::tests::{
    INIT, JOB, MS, SHELL, WORKER, all, exec, exit, fork, key, nothing_listed, ran, subject, touch,
};
use super::*;
use crate::identity::ARGV_KEPT_MAX;
use crate::kernel::{CgroupId, DeviceTouch};

#[test]
fn the_dead_are_forgotten_by_proof_only() {
    let events = || {
        [
            exec(SHELL, INIT, 110 * MS, "bash"),
            fork(JOB, SHELL),
            fork(WORKER, JOB),
            exit(JOB, SHELL, 400 * MS),
        ]
    };
    let listed = BTreeSet::from([JOB.pid, WORKER.pid]);
    let mut lifetimes = all(&events());
    let mut forget = |began: u64, listed_unbooked: &BTreeSet<Pid>| {
        lifetimes.forget(&ForgetProof {
            reads_began: BootNs(began),
            listed_unbooked,
            unproven_before: None,
        });
        lifetimes.len()
    };
    assert_eq!(forget(500 * MS, &BTreeSet::new()), 3, "an ancestor of the living stays");
    let mut lifetimes = all(&events());
    lifetimes.apply(&exit(WORKER, JOB, 450 * MS));
    let mut forget = |began: u64, listed_unbooked: &BTreeSet<Pid>| {
        lifetimes.forget(&ForgetProof {
            reads_began: BootNs(began),
            listed_unbooked,
            unproven_before: None,
        });
        lifetimes.len()
    };
    assert_eq!(forget(450 * MS, &BTreeSet::new()), 3, "the read began with the exit, not after");
    assert_eq!(forget(500 * MS, &listed), 3, "an unbooked row is listed");
    assert_eq!(forget(500 * MS, &BTreeSet::from([WORKER.pid])), 3, "its ancestor stays with it");
    assert_eq!(forget(500 * MS, &BTreeSet::new()), 1, "both go at once");
    assert_eq!(lifetimes.evicted(), 0);
}

#[test]
fn over_the_limit_the_oldest_dead_go_counted_and_those_that_touched_a_gpu_last() {
    let limits = Limits { dead_max: 4, ..Limits::default() };
    let mut lifetimes = Lifetimes::with_limits(limits);
    let job = |n: u32| key(100 + n, u64::from(n) * 10 * MS);
    for n in 1..=10 {
        lifetimes.apply(&exec(job(n), INIT, job(n).start.0 + 1, "j"));
        if n == 1 {
            lifetimes.apply(&touch(job(n), INIT, job(n).start.0 + 2));
        }
        lifetimes.apply(&exit(job(n), INIT, job(n).start.0 + 5 * MS));
    }
    let left: Vec<u32> = lifetimes.iter().map(|lifetime| lifetime.key.pid.0 - 100).collect();
    assert_eq!(left, [1, 8, 9, 10]);
    assert_eq!(lifetimes.evicted(), 6);
    assert!(lifetimes.evicted_at(Pid(102), BootNs(22 * MS)));
    assert!(!lifetimes.evicted_at(Pid(102), BootNs(29 * MS)));
    assert!(!lifetimes.evicted_at(Pid(101), BootNs(12 * MS)));
    nothing_listed(&mut lifetimes, 1_000 * MS);
    assert!(!lifetimes.evicted_at(Pid(102), BootNs(22 * MS)), "its row can no longer come");
}

#[test]
fn more_evicted_than_are_remembered_leave_their_interval() {
    let limits = Limits { dead_max: 1, ..Limits::default() };
    let mut lifetimes = Lifetimes::with_limits(limits);
    for n in 1..=20_000 {
        let job = key(100 + n, u64::from(n) * MS);
        lifetimes.apply(&exit(job, INIT, job.start.0 + 5));
    }
    assert_eq!(lifetimes.evicted(), 19_999);
    assert!(lifetimes.evicted_at(Pid(101), BootNs(MS)), "who was there then is not known any more");
    assert!(!lifetimes.evicted_at(Pid(101), BootNs(19_000 * MS)));
}

#[test]
fn a_walking_process_stays_bounded_and_its_descent_is_told_past_the_cut() {
    let limits = Limits { dead_max: 100, ..Limits::default() };
    let mut lifetimes = Lifetimes::with_limits(limits);
    let step = |n: u32| key(1_000 + n, u64::from(n) * MS);
    lifetimes.apply(&exec(step(0), INIT, 1, "walker"));
    lifetimes.pin(&step(0));
    for n in 1..=5_000 {
        lifetimes.apply(&fork(step(n), step(n - 1)));
        lifetimes.apply(&exit(step(n - 1), INIT, step(n).start.0 + 1));
    }
    assert!(lifetimes.len() <= 102, "{}", lifetimes.len());
    assert!(lifetimes.lineage_cut() > 4_000);
    assert!(lifetimes.descends_from(&step(5_000), &step(0)));
    assert_eq!(ran(&lifetimes, step(5_000), 5_000 * MS).unwrap(), "walker");
}

/// Own and shared bytes of everything kept, as far as they can be counted.
fn bytes_kept(lifetimes: &Lifetimes) -> usize {
    let table: usize = lifetimes
        .records
        .values()
        .map(|record| {
            size_of::<(ProcessKey, Record)>()
                + record.content_bytes()
                + size_of_val(record.life.images.as_slice())
        })
        .sum();
    let departed = lifetimes.departed.entries() * 3 * size_of::<ProcessKey>();
    table + departed + lifetimes.leaves.len() * 40 + lifetimes.children.len() * 24
}

#[test]
fn a_million_short_processes_stay_within_a_few_megabytes() {
    let mut lifetimes = all(&[exec(SHELL, INIT, 110 * MS, "bash")]);
    let made = |line: &str| match exec(SHELL, INIT, 0, line) {
        Event::Exec(exec) => exec,
        _ => unreachable!(),
    };
    let (short, long) = (made("job --gpu 0"), made(&"x".repeat(ARGV_KEPT_MAX - 1)));
    let mut most = 0;
    let mut begins = 1_000 * MS;
    for n in 0..1_000_000_u32 {
        // 10,000 a second; the driver is read every 250 ms, and once stalls for 20 s.
        begins += MS / 10;
        let job = key(1_000 + n % 30_000, begins);
        // Most by exec and exit alone: the test is long enough.
        if n % 10 == 0 {
            lifetimes.apply(&fork(job, SHELL));
        }
        let content = if n % 5 == 0 { &long } else { &short };
        let executed = Exec { subject: subject(job, SHELL, begins + 10), ..content.clone() };
        lifetimes.apply(&Event::Exec(executed));
        let exited = exit(job, SHELL, begins + 50);
        lifetimes.apply(&exited);
        if n % 10 == 0 {
            lifetimes.apply(&exited);
        }
        let stalled = (400_000..600_000).contains(&n);
        if n % 2_500 == 0 {
            most = most.max(bytes_kept(&lifetimes));
            if !stalled {
                nothing_listed(&mut lifetimes, begins);
            }
        }
    }
    assert!(most < 8 << 20, "{most}");
    assert!(lifetimes.evicted() > 150_000, "the stall is counted: {}", lifetimes.evicted());
    nothing_listed(&mut lifetimes, begins + MS);
    assert_eq!(lifetimes.len(), 1);
    assert_eq!((lifetimes.dead, lifetimes.dead_bytes, lifetimes.leaves.len()), (0, 0, 0));
}

#[test]
fn a_process_that_moves_on_and_on_in_one_hierarchy_is_still_known_in_the_others() {
    let group = |(hierarchy, id)| CgroupId { hierarchy, id };
    let mut lifetimes = all(&[fork(JOB, SHELL)]);
    for moved in 0..60 {
        let groups = [(0, 8), (3, 5), (5, 5), (6, 100 + moved), (4, 5), (8, 5)];
        let mut subject = subject(JOB, SHELL, (210 + moved) * MS);
        subject.cgroups = Some(groups.map(group).to_vec());
        lifetimes.apply(&Event::DeviceTouch(DeviceTouch { subject, major: 195, minor: 0 }));
    }
    let cgroups = &lifetimes.get(&JOB).unwrap().cgroups;
    for stayed in [(0, 7), (0, 8), (3, 5), (5, 5), (4, 5), (8, 5)] {
        assert!(cgroups.contains(&group(stayed)), "{stayed:?} in {cgroups:?}");
    }
    assert_eq!((cgroups.len(), cgroups.last()), (16, Some(&group((6, 159)))));
}
