//! One rule a test; histories that no rule foresaw are in `model.rs`.

use std::collections::BTreeSet;

use super::*;
use crate::identity::{SeenProcess, Snapshot};
use crate::kernel::{Argv, ArgvState, CgroupId, LoginUid};
use crate::unknown::NamelessReason;

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn key(pid: u32, start: u64) -> ProcessKey {
    ProcessKey { pid: Pid(pid), start: BootNs(start) }
}

pub(crate) fn subject(key: ProcessKey, parent: ProcessKey, at: u64) -> Subject {
    Subject {
        key,
        parent: Some(parent),
        uid: Some(1_000),
        euid: Some(1_000),
        login_uid: LoginUid::Unset,
        cgroups: Some(vec![CgroupId { hierarchy: 0, id: 7 }]),
        at: BootNs(at),
        cpu: 0,
        seq: 0,
    }
}

pub(crate) fn argv(line: &str) -> Argv {
    let mut bytes: Vec<u8> = line.replace(' ', "\0").into_bytes();
    bytes.push(0);
    let true_length = Some(u64::try_from(bytes.len()).unwrap());
    Argv { bytes: bytes.into(), true_length, state: ArgvState::Whole }
}

pub(crate) fn fork(child: ProcessKey, parent: ProcessKey) -> Event {
    Event::Fork(Fork { subject: subject(child, parent, child.start.0) })
}

pub(crate) fn exec(key: ProcessKey, parent: ProcessKey, at: u64, line: &str) -> Event {
    let filename = Bytes::copy_from_slice(line.split(' ').next().unwrap_or_default().as_bytes());
    let subject = subject(key, parent, at);
    Event::Exec(Exec { subject, argv: argv(line), filename, exe: Some((1, 2)) })
}

pub(crate) fn exit(key: ProcessKey, parent: ProcessKey, at: u64) -> Event {
    Event::Exit(Exit { subject: subject(key, parent, at), wait_status: Some(0) })
}

pub(crate) fn touch(key: ProcessKey, parent: ProcessKey, at: u64) -> Event {
    Event::DeviceTouch(DeviceTouch { subject: subject(key, parent, at), major: 195, minor: 0 })
}

pub(crate) fn seen(key: ProcessKey, parent: u32, line: &str) -> SeenProcess {
    SeenProcess {
        pid: key.pid,
        start_ticks: key.start.ticks(),
        parent: Pid(parent),
        comm: Bytes::new(),
        argv: argv(line),
        exe_path: Bytes::copy_from_slice(line.split(' ').next().unwrap_or_default().as_bytes()),
        exe: Some((1, 2)),
        user: User { uid: Some(1_000), euid: Some(1_000), login_uid: LoginUid::Unset },
        cgroups: Vec::new(),
        is_kernel_thread: false,
    }
}

pub(crate) fn snapshot(began: u64, ended: u64, processes: Vec<SeenProcess>) -> Snapshot {
    Snapshot { began: BootNs(began), ended: BootNs(ended), processes, unreadable: BTreeSet::new() }
}

/// The first word of what `key` ran at `at`.
pub(crate) fn ran(lifetimes: &Lifetimes, key: ProcessKey, at: u64) -> Option<String> {
    let image = lifetimes.get(&key)?.image_at(BootNs(at))?;
    let words = crate::identity::argv_words(&image.content.argv);
    Some(String::from_utf8_lossy(words.first().copied().unwrap_or_default()).into_owned())
}

fn basis(lifetimes: &Lifetimes, key: ProcessKey, at: u64) -> Option<Basis> {
    Some(lifetimes.get(&key)?.image_at(BootNs(at))?.basis)
}

pub(crate) fn all(events: &[Event]) -> Lifetimes {
    let mut lifetimes = Lifetimes::default();
    for event in events {
        lifetimes.apply(event);
    }
    lifetimes
}

pub(crate) fn nothing_listed(lifetimes: &mut Lifetimes, began: u64) {
    let listed_unbooked = BTreeSet::new();
    lifetimes.forget(&ForgetProof {
        reads_began: BootNs(began),
        listed_unbooked: &listed_unbooked,
        unproven_before: None,
    });
}

pub(super) const INIT: ProcessKey = ProcessKey { pid: Pid(1), start: BootNs(MS) };
pub(super) const SHELL: ProcessKey = ProcessKey { pid: Pid(10), start: BootNs(100 * MS + 1) };
pub(super) const JOB: ProcessKey = ProcessKey { pid: Pid(20), start: BootNs(200 * MS + 2) };
pub(super) const WORKER: ProcessKey = ProcessKey { pid: Pid(30), start: BootNs(300 * MS + 3) };

#[test]
fn a_forked_child_shares_the_image_its_parent_bore_at_its_birth() {
    let lifetimes = all(&[
        exec(JOB, SHELL, 210 * MS, "server"),
        fork(WORKER, JOB),
        exec(JOB, SHELL, 400 * MS, "other"),
    ]);
    let worker = lifetimes.get(&WORKER).unwrap();
    let parent = &lifetimes.get(&JOB).unwrap().images[0];
    assert!(Arc::ptr_eq(&worker.images[0].content, &parent.content));
    assert_eq!(worker.images[0].basis, Basis::Fork);
    assert_eq!(worker.images[0].since, WORKER.start);
    assert_eq!(ran(&lifetimes, JOB, 399 * MS).unwrap(), "server");
    assert_eq!(ran(&lifetimes, JOB, 400 * MS).unwrap(), "other");
}

#[test]
fn the_child_of_an_unknown_image_invents_none() {
    let mut lifetimes = all(&[fork(WORKER, JOB)]);
    assert!(lifetimes.get(&WORKER).unwrap().images.is_empty());
    // … and gets it when the parent's history comes after all.
    lifetimes.apply(&exec(JOB, SHELL, 210 * MS, "server"));
    assert_eq!(ran(&lifetimes, WORKER, 300 * MS).unwrap(), "server");
}

#[test]
fn an_exec_or_exit_of_an_unknown_process_makes_it() {
    let mut lifetimes = Lifetimes::default();
    assert_eq!(lifetimes.apply(&exec(JOB, SHELL, 210 * MS, "a")), Applied::Executed(JOB));
    // What it ran before that exec nobody saw.
    assert_eq!(ran(&lifetimes, JOB, 205 * MS), None);
    assert_eq!(ran(&lifetimes, JOB, 210 * MS).unwrap(), "a");
    let exited = Applied::Exited { key: WORKER, touched: false };
    assert_eq!(lifetimes.apply(&exit(WORKER, JOB, 310 * MS)), exited);
    assert!(lifetimes.get(&WORKER).unwrap().images.is_empty());
}

#[test]
fn of_several_exits_the_first_counts_and_the_caller_hears_of_it_once() {
    let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a"), touch(JOB, SHELL, 215 * MS)]);
    let exited = Applied::Exited { key: JOB, touched: true };
    assert_eq!(lifetimes.apply(&exit(JOB, SHELL, 221 * MS)), exited);
    assert_eq!(lifetimes.apply(&exit(JOB, SHELL, 220 * MS)), Applied::Nothing);
    assert_eq!(lifetimes.apply(&exit(JOB, SHELL, 222 * MS)), Applied::Nothing);
    let ended = Ended { at: BootNs(220 * MS), is_seen: true, wait_status: Some(0) };
    assert_eq!(lifetimes.get(&JOB).unwrap().ended, Some(ended));
}

#[test]
fn the_first_touch_is_kept_and_told_once() {
    let mut lifetimes = Lifetimes::default();
    assert_eq!(lifetimes.apply(&touch(JOB, SHELL, 215 * MS)), Applied::Touched(JOB));
    assert_eq!(lifetimes.apply(&touch(JOB, SHELL, 212 * MS)), Applied::Nothing);
    assert_eq!(lifetimes.get(&JOB).unwrap().touched, Some(BootNs(212 * MS)));
}

#[test]
fn an_orphan_keeps_the_parent_it_was_born_under() {
    let lifetimes =
        all(&[exec(WORKER, INIT, 310 * MS, "w"), fork(WORKER, JOB), exit(WORKER, INIT, 320 * MS)]);
    assert_eq!(lifetimes.get(&WORKER).unwrap().parent, Some(JOB));
}

#[test]
fn a_seed_takes_the_exact_start_from_the_kernel_and_yields_to_its_images() {
    let mut lifetimes = Lifetimes::default();
    let seeds = vec![seen(SHELL, 1, "bash"), seen(JOB, 10, "server"), seen(INIT, 0, "init")];
    assert_eq!(lifetimes.reseed(&snapshot(250 * MS, 260 * MS, seeds)).added, 3);
    let floored = key(20, 200 * MS);
    let before = lifetimes.get(&floored).unwrap();
    assert!(!before.start_is_exact);
    assert_eq!(before.parent, Some(key(10, 100 * MS)));
    // An event of a child tells the parent's exact start.
    lifetimes.apply(&fork(WORKER, JOB));
    let exact = lifetimes.get(&JOB).unwrap();
    assert!(exact.start_is_exact && exact.key == JOB && exact.images[0].since == JOB.start);
    assert_eq!(lifetimes.get(&floored).unwrap().key, JOB);
    assert_eq!(ran(&lifetimes, WORKER, 300 * MS).unwrap(), "server");
    assert_eq!(basis(&lifetimes, JOB, 250 * MS), Some(Basis::Procfs));
    // The shell's exact start arrives: links to it follow.
    lifetimes.apply(&exit(SHELL, INIT, 320 * MS));
    assert_eq!(lifetimes.get(&JOB).unwrap().parent, Some(SHELL));
    assert!(lifetimes.descends_from(&WORKER, &SHELL) && lifetimes.descends_from(&WORKER, &INIT));
    let names: Vec<_> =
        lifetimes.ancestors(&WORKER).iter().map(|ancestor| ancestor.key.pid.0).collect();
    assert_eq!(names, [20, 10, 1]);
}

#[test]
fn an_exec_older_than_the_seeds_reading_is_what_the_seed_saw() {
    let seed = || snapshot(250 * MS, 260 * MS, vec![seen(JOB, 10, "new")]);
    for seed_first in [true, false] {
        let mut lifetimes = Lifetimes::default();
        if seed_first {
            lifetimes.reseed(&seed());
        }
        lifetimes.apply(&exec(JOB, SHELL, 240 * MS, "new"));
        if !seed_first {
            lifetimes.reseed(&seed());
        }
        assert_eq!(basis(&lifetimes, JOB, 245 * MS), Some(Basis::Exec), "{seed_first}");
        assert_eq!(ran(&lifetimes, JOB, 230 * MS), None, "before the exec nobody looked");
    }
}

#[test]
fn an_exec_after_the_seeds_reading_leaves_the_seed_its_time() {
    let seed = || snapshot(250 * MS, 260 * MS, vec![seen(JOB, 10, "old")]);
    // Inside the reading's window only the contents tell the order.
    for at in [255, 300] {
        for seed_first in [true, false] {
            let mut lifetimes = Lifetimes::default();
            if seed_first {
                lifetimes.reseed(&seed());
            }
            lifetimes.apply(&exec(JOB, SHELL, at * MS, "new"));
            if !seed_first {
                lifetimes.reseed(&seed());
            }
            assert_eq!(ran(&lifetimes, JOB, 230 * MS).unwrap(), "old");
            assert_eq!(ran(&lifetimes, JOB, at * MS).unwrap(), "new");
        }
    }
}

#[test]
fn a_seed_read_before_an_exit_was_told_does_not_raise_the_dead() {
    let seed = snapshot(250 * MS, 260 * MS, vec![seen(JOB, 10, "job")]);
    let mut lifetimes = all(&[exit(JOB, SHELL, 251 * MS)]);
    lifetimes.reseed(&seed);
    let job = lifetimes.get(&JOB).unwrap();
    assert!(job.ended.is_some() && job.start_is_exact);
    assert_eq!(lifetimes.len(), 1);
    assert_eq!(ran(&lifetimes, JOB, 240 * MS).unwrap(), "job");
    // The same after it was forgotten.
    nothing_listed(&mut lifetimes, 300 * MS);
    assert!(lifetimes.is_empty());
    assert_eq!(lifetimes.reseed(&seed).added, 0);
    assert_eq!(lifetimes.apply(&exec(JOB, SHELL, 220 * MS, "job")), Applied::Nothing);
    assert!(lifetimes.is_empty());
}

#[test]
fn a_pid_used_twice_within_one_tick_is_two_lifetimes() {
    let (first, second) = (key(50, 500 * MS + 1), key(50, 500 * MS + 4 * MS));
    let mut lifetimes = all(&[
        fork(first, SHELL),
        exec(first, SHELL, 501 * MS, "one"),
        exit(first, SHELL, 502 * MS),
        fork(second, SHELL),
        exec(second, SHELL, 505 * MS, "two"),
    ]);
    lifetimes.reseed(&snapshot(506 * MS, 507 * MS, vec![seen(second, 10, "two")]));
    let keys: Vec<_> = lifetimes.of_pid(Pid(50)).map(|lifetime| lifetime.key).collect();
    assert_eq!(keys, [first, second]);
    assert_eq!(ran(&lifetimes, first, 501 * MS).unwrap(), "one");
    assert_eq!(ran(&lifetimes, second, 505 * MS).unwrap(), "two");
    assert!(lifetimes.get(&second).unwrap().ended.is_none());
}

#[test]
fn a_new_holder_of_a_pid_means_that_the_old_one_ended() {
    let next = key(20, 400 * MS);
    for events in [
        [exec(JOB, SHELL, 210 * MS, "a"), fork(next, SHELL)],
        [fork(next, SHELL), exec(JOB, SHELL, 210 * MS, "a")],
    ] {
        let mut lifetimes = all(&events);
        let inferred = Ended { at: next.start, is_seen: false, wait_status: None };
        assert_eq!(lifetimes.get(&JOB).unwrap().ended, Some(inferred));
        assert_eq!(lifetimes.get(&next).unwrap().ended, None);
        // The exit that comes late knows better.
        lifetimes.apply(&exit(JOB, SHELL, 390 * MS));
        assert_eq!(lifetimes.get(&JOB).unwrap().ended.unwrap().at, BootNs(390 * MS));
    }
}

#[test]
fn a_chain_of_execs_keeps_the_first_and_the_last_and_says_where_it_does_not_know() {
    let mut lifetimes = all(&[exec(SHELL, INIT, 110 * MS, "bash"), fork(JOB, SHELL)]);
    for step in 1..=20 {
        lifetimes.apply(&exec(JOB, SHELL, (200 + 10 * step) * MS, &format!("step{step}")));
    }
    // Twice changes nothing, of those that were cut too.
    for step in 1..=20 {
        let again = exec(JOB, SHELL, (200 + 10 * step) * MS, &format!("step{step}"));
        lifetimes.apply(&again);
    }
    let job = lifetimes.get(&JOB).unwrap();
    assert_eq!((job.images.len(), job.images_forgotten), (IMAGES_MAX, 13));
    assert_eq!(ran(&lifetimes, JOB, 205 * MS).unwrap(), "bash");
    for step in 1..=20 {
        let expected = (step >= 14).then(|| format!("step{step}"));
        assert_eq!(ran(&lifetimes, JOB, (205 + 10 * step) * MS), expected, "step {step}");
    }
    let reason = job.image_gap_at(BootNs(300 * MS)).unwrap().reason;
    assert_eq!(reason, NamelessReason::IdentityEvicted);
    // A child of that time inherits nothing new.
    lifetimes.apply(&fork(key(60, 300 * MS), JOB));
    assert!(lifetimes.get(&key(60, 300 * MS)).unwrap().images.is_empty());
}

#[test]
fn a_row_that_begins_within_the_clocks_error_of_the_birth_gets_the_first_image() {
    let lifetimes = all(&[exec(SHELL, INIT, 110 * MS, "bash"), fork(JOB, SHELL)]);
    assert_eq!(ran(&lifetimes, JOB, JOB.start.0 - 3 * MS).unwrap(), "bash");
}

#[test]
fn lost_events_put_the_image_in_doubt_until_procfs_confirms_it() {
    let mut lifetimes =
        all(&[exec(JOB, SHELL, 210 * MS, "server -v"), exec(WORKER, JOB, 310 * MS, "w")]);
    lifetimes.event_gap(BootNs(400 * MS), BootNs(500 * MS));
    assert_eq!(ran(&lifetimes, JOB, 399 * MS).unwrap(), "server");
    assert_eq!(ran(&lifetimes, JOB, 600 * MS), None);
    let reason = lifetimes.get(&JOB).unwrap().image_gap_at(BootNs(600 * MS)).unwrap().reason;
    assert_eq!(reason, NamelessReason::EventLost);
    // A reading that began inside the gap proves nothing.
    let same = || vec![seen(JOB, 10, "server -v"), seen(WORKER, 20, "changed")];
    let early = lifetimes.reseed(&snapshot(450 * MS, 470 * MS, same()));
    assert_eq!((early.confirmed, early.changed), (0, 0));
    let seeded = lifetimes.reseed(&snapshot(510 * MS, 520 * MS, same()));
    assert_eq!((seeded.confirmed, seeded.changed, seeded.vanished), (1, 1, 0));
    assert_eq!(ran(&lifetimes, JOB, 450 * MS).unwrap(), "server");
    assert_eq!(ran(&lifetimes, WORKER, 399 * MS).unwrap(), "w");
    assert_eq!(ran(&lifetimes, WORKER, 450 * MS), None);
    assert_eq!(ran(&lifetimes, WORKER, 500 * MS).unwrap(), "changed");
    assert_eq!(basis(&lifetimes, WORKER, 500 * MS), Some(Basis::Procfs));
}

#[test]
fn after_a_loss_an_exec_or_the_end_closes_the_doubt() {
    let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a"), exec(WORKER, JOB, 310 * MS, "w")]);
    lifetimes.event_gap(BootNs(400 * MS), BootNs(500 * MS));
    // One that came through inside the gap may have had a lost one after it.
    lifetimes.apply(&exec(JOB, SHELL, 450 * MS, "b"));
    assert_eq!(ran(&lifetimes, JOB, 460 * MS), None);
    lifetimes.apply(&exec(JOB, SHELL, 600 * MS, "c"));
    assert_eq!(ran(&lifetimes, JOB, 599 * MS), None);
    assert_eq!(ran(&lifetimes, JOB, 600 * MS).unwrap(), "c");
    lifetimes.apply(&exit(WORKER, JOB, 700 * MS));
    assert_eq!(ran(&lifetimes, WORKER, 399 * MS).unwrap(), "w");
    assert_eq!(ran(&lifetimes, WORKER, 700 * MS), None);
}

#[test]
fn a_rewritten_title_is_no_missed_exec() {
    let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "/usr/bin/python3 -m vllm.server")]);
    lifetimes.event_gap(BootNs(400 * MS), BootNs(500 * MS));
    let mut titled = seen(JOB, 10, "VLLM::EngineCore");
    titled.exe_path = Bytes::from_static(b"/usr/bin/python3.12");
    let seeded = lifetimes.reseed(&snapshot(510 * MS, 520 * MS, vec![titled]));
    assert_eq!((seeded.confirmed, seeded.changed), (1, 0));
    let program = lifetimes.program_at(&JOB, BootNs(450 * MS)).unwrap();
    assert_eq!(program.to_string(), "vllm.server");
}

#[test]
fn a_child_forked_in_doubt_is_in_doubt_itself() {
    let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a")]);
    lifetimes.event_gap(BootNs(250 * MS), BootNs(290 * MS));
    lifetimes.apply(&fork(WORKER, JOB));
    assert_eq!(ran(&lifetimes, WORKER, 310 * MS), None);
    lifetimes.reseed(&snapshot(
        320 * MS,
        330 * MS,
        vec![seen(JOB, 10, "a"), seen(WORKER, 20, "a")],
    ));
    assert_eq!(ran(&lifetimes, WORKER, 310 * MS).unwrap(), "a");
}

#[test]
fn a_rescan_ends_the_vanished_and_adds_the_missed() {
    let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a"), exec(WORKER, JOB, 310 * MS, "w")]);
    let newborn = key(70, 505 * MS);
    lifetimes.apply(&fork(newborn, JOB));
    let mut look = snapshot(500 * MS, 520 * MS, vec![seen(key(80, 450 * MS + 9), 20, "missed")]);
    look.unreadable.insert(WORKER.pid);
    let seeded = lifetimes.reseed(&look);
    assert_eq!((seeded.added, seeded.vanished), (1, 1));
    let gone = Ended { at: BootNs(520 * MS), is_seen: false, wait_status: None };
    assert_eq!(lifetimes.get(&JOB).unwrap().ended, Some(gone));
    // Born while procfs was read, or not shown by it: that is no proof of an end.
    assert_eq!(lifetimes.get(&newborn).unwrap().ended, None);
    assert_eq!(lifetimes.get(&WORKER).unwrap().ended, None);
    assert_eq!(basis(&lifetimes, key(80, 450 * MS), 460 * MS), Some(Basis::Procfs));
}

#[test]
fn contradictory_parents_make_no_endless_chain() {
    let mut lifetimes = Lifetimes::default();
    let (a, b) = (key(5, 50 * MS), key(6, 50 * MS));
    let seeds = vec![seen(a, 6, "a"), seen(b, 5, "b"), seen(key(7, 60 * MS), 7, "own")];
    lifetimes.reseed(&snapshot(90 * MS, 99 * MS, seeds));
    assert!(!lifetimes.descends_from(&a, &INIT));
    assert!(lifetimes.ancestors(&a).len() <= 4);
    assert_eq!(lifetimes.get(&key(7, 60 * MS)).unwrap().parent, None);
    assert_eq!(lifetimes.program_at(&a, BootNs(60 * MS)).unwrap().to_string(), "a");
}

#[test]
fn a_worker_started_by_multiprocessing_runs_its_parents_program() {
    let (server, child) = (key(40, 410 * MS), key(41, 420 * MS));
    let mut lifetimes =
        all(&[exec(server, SHELL, 411 * MS, "python3 -m vllm.server"), fork(child, server)]);
    let Event::Exec(mut spawn) = exec(child, server, 421 * MS, "python3") else { unreachable!() };
    let text = b"python3\0-c\0from multiprocessing.spawn import spawn_main; spawn_main()\0";
    spawn.argv.bytes = Bytes::from_static(text);
    lifetimes.apply(&Event::Exec(spawn));
    let program = lifetimes.program_at(&child, BootNs(430 * MS)).unwrap();
    assert_eq!(program.to_string(), "vllm.server");
}

#[test]
fn kept_arguments_do_not_hold_the_buffer_they_came_in() {
    let ring = Bytes::from(vec![b'x'; 1 << 20]);
    let Event::Exec(mut event) = exec(JOB, SHELL, 210 * MS, "a") else { unreachable!() };
    event.argv.bytes = ring.slice(10..20);
    event.filename = ring.slice(30..40);
    let mut lifetimes = Lifetimes::default();
    lifetimes.apply(&Event::Exec(event));
    assert!(ring.is_unique());
}

#[test]
fn a_fork_by_nobody_known_leaves_the_first_image_in_doubt_until_an_exec() {
    let mut born = subject(WORKER, JOB, WORKER.start.0);
    born.parent = None;
    let orphaned = Event::Fork(Fork { subject: born });
    let mut lifetimes = all(&[
        exec(INIT, SHELL, 110 * MS, "init"),
        orphaned.clone(),
        // Handed to init since: not who it inherited from.
        touch(WORKER, INIT, 310 * MS),
    ]);
    let worker = lifetimes.get(&WORKER).unwrap();
    assert_eq!((worker.images.len(), worker.parent), (0, Some(INIT)));
    let gap = worker.image_gap_at(BootNs(350 * MS)).unwrap();
    assert_eq!((gap.from, gap.to, gap.reason), (WORKER.start, None, NamelessReason::EventLost));
    lifetimes.apply(&exec(WORKER, INIT, 400 * MS, "server"));
    assert_eq!(ran(&lifetimes, WORKER, 350 * MS), None);
    assert_eq!(ran(&lifetimes, WORKER, 400 * MS).as_deref(), Some("server"));
    let before = lifetimes.get(&WORKER).cloned();
    assert_eq!(lifetimes.apply(&orphaned), Applied::Nothing);
    assert_eq!(lifetimes.get(&WORKER).cloned(), before);
}

#[test]
fn what_an_event_could_not_read_takes_nothing_away_from_what_is_known() {
    let mut lifetimes = all(&[fork(JOB, SHELL), exec(JOB, SHELL, 210 * MS, "server")]);
    let known = lifetimes.get(&JOB).cloned().unwrap();
    let mut unread = subject(JOB, SHELL, 250 * MS);
    (unread.parent, unread.cgroups) = (None, None);
    lifetimes.apply(&Event::Exit(Exit { subject: unread, wait_status: None }));
    let after = lifetimes.get(&JOB).cloned().unwrap();
    let ended = Ended { at: BootNs(250 * MS), is_seen: true, wait_status: None };
    assert_eq!(after, Lifetime { ended: Some(ended), ..known });
}
