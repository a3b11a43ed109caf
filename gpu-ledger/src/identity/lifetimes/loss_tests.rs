//! What a loss of events leaves in doubt, in whatever order the loss, the looks and the events come.

use super::tests::{JOB, MS, SHELL, WORKER, all, exec, exit, fork, key, ran, seen, snapshot};
use super::*;
use crate::unknown::NamelessReason;

fn is_lost(lifetimes: &Lifetimes, key: ProcessKey, at: u64) -> bool {
    let gap = lifetimes.get(&key).unwrap().image_gap_at(BootNs(at));
    gap.is_some_and(|gap| gap.reason == NamelessReason::EventLost)
}

#[test]
fn a_process_whose_birth_was_lost_is_known_from_the_end_of_the_loss() {
    let mut lifetimes = all(&[exec(SHELL, JOB, 110 * MS, "bash")]);
    lifetimes.event_gap(BootNs(190 * MS), BootNs(250 * MS));
    lifetimes.reseed(&snapshot(260 * MS, 270 * MS, vec![seen(JOB, 10, "job")]));
    assert!(is_lost(&lifetimes, JOB, 205 * MS) && is_lost(&lifetimes, JOB, 249 * MS));
    assert_eq!(ran(&lifetimes, JOB, 250 * MS).unwrap(), "job");
    // An exec that comes late was what the look saw.
    lifetimes.apply(&exec(JOB, SHELL, 255 * MS, "job"));
    assert!(is_lost(&lifetimes, JOB, 254 * MS));
    assert_eq!(ran(&lifetimes, JOB, 255 * MS).unwrap(), "job");
}

#[test]
fn a_look_that_a_loss_fell_into_proves_nothing_whichever_is_told_first() {
    for loss_first in [true, false] {
        let mut lifetimes = Lifetimes::default();
        let look = snapshot(240 * MS, 270 * MS, vec![seen(JOB, 10, "job")]);
        if loss_first {
            lifetimes.event_gap(BootNs(250 * MS), BootNs(260 * MS));
        }
        lifetimes.reseed(&look);
        if !loss_first {
            assert_eq!(ran(&lifetimes, JOB, 245 * MS).unwrap(), "job");
            lifetimes.event_gap(BootNs(250 * MS), BootNs(260 * MS));
        }
        for at in [205, 245, 255, 300] {
            assert!(is_lost(&lifetimes, JOB, at * MS), "{loss_first} {at}");
        }
        lifetimes.reseed(&snapshot(280 * MS, 290 * MS, vec![seen(JOB, 10, "job")]));
        assert!(is_lost(&lifetimes, JOB, 245 * MS), "{loss_first}");
        assert_eq!(ran(&lifetimes, JOB, 285 * MS).unwrap(), "job", "{loss_first}");
    }
}

#[test]
fn children_forked_before_a_loss_was_told_are_in_doubt_with_their_parent() {
    let child = key(40, 310 * MS);
    let mut lifetimes =
        all(&[exec(JOB, SHELL, 210 * MS, "a"), fork(WORKER, JOB), fork(child, WORKER)]);
    assert_eq!(ran(&lifetimes, child, 320 * MS).unwrap(), "a");
    lifetimes.event_gap(BootNs(250 * MS), BootNs(290 * MS));
    assert!(is_lost(&lifetimes, WORKER, 305 * MS) && is_lost(&lifetimes, child, 320 * MS));
    // Told again, it changes nothing of what was settled.
    let all_seen = || vec![seen(JOB, 10, "a"), seen(WORKER, 20, "a"), seen(child, 30, "a")];
    lifetimes.reseed(&snapshot(330 * MS, 340 * MS, all_seen()));
    assert_eq!(ran(&lifetimes, child, 320 * MS).unwrap(), "a");
}

#[test]
fn a_child_of_a_parent_in_doubt_is_known_from_its_own_exec_on_whenever_the_parent_is_again() {
    // The parent is never known again: a later look finds it gone, and the child's fork is told after that.
    for fork_is_late in [false, true] {
        let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a")]);
        lifetimes.event_gap(BootNs(250 * MS), BootNs(290 * MS));
        if !fork_is_late {
            lifetimes.apply(&fork(WORKER, JOB));
        }
        lifetimes.apply(&exec(WORKER, JOB, 320 * MS, "b"));
        assert_eq!(ran(&lifetimes, WORKER, 330 * MS).unwrap(), "b", "{fork_is_late}");
        lifetimes.reseed(&snapshot(400 * MS, 410 * MS, vec![seen(WORKER, 1, "b")]));
        if fork_is_late {
            lifetimes.apply(&fork(WORKER, JOB));
        }
        assert!(is_lost(&lifetimes, WORKER, 310 * MS), "{fork_is_late}");
        assert_eq!(ran(&lifetimes, WORKER, 330 * MS).unwrap(), "b", "{fork_is_late}");
        assert_eq!(ran(&lifetimes, WORKER, 420 * MS).unwrap(), "b", "{fork_is_late}");
    }
}

#[test]
fn an_exec_told_after_the_look_that_seemed_to_confirm_the_image_brings_the_doubt_back() {
    for (at, line, certain_again) in [(300, "a", 300), (270, "b", 290)] {
        let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a")]);
        lifetimes.event_gap(BootNs(250 * MS), BootNs(290 * MS));
        let seeded = lifetimes.reseed(&snapshot(310 * MS, 320 * MS, vec![seen(JOB, 10, "a")]));
        assert_eq!(seeded.confirmed, 1);
        assert_eq!(ran(&lifetimes, JOB, 260 * MS).unwrap(), "a");
        lifetimes.apply(&exec(JOB, SHELL, at * MS, line));
        assert_eq!(ran(&lifetimes, JOB, 249 * MS).unwrap(), "a");
        for doubted in [250, 280, certain_again - 1] {
            assert!(is_lost(&lifetimes, JOB, doubted * MS), "{line} {doubted}");
        }
        assert_eq!(ran(&lifetimes, JOB, certain_again * MS).unwrap(), "a", "{line}");
    }
}

#[test]
fn a_lifetime_found_by_a_look_is_not_that_of_who_was_born_after_it_in_the_same_tick() {
    let (first, second) = (key(20, 200 * MS + 1), key(20, 208 * MS));
    let mut lifetimes = all(&[exec(SHELL, JOB, 110 * MS, "bash")]);
    lifetimes.reseed(&snapshot(203 * MS, 204 * MS, vec![seen(first, 10, "one")]));
    lifetimes.apply(&fork(second, SHELL));
    assert_eq!(lifetimes.of_pid(Pid(20)).count(), 2);
    assert_eq!(ran(&lifetimes, second, 209 * MS).unwrap(), "bash");
    // The exit of the first comes late and finds it.
    lifetimes.apply(&exit(first, SHELL, 206 * MS));
    assert_eq!(lifetimes.get(&first).unwrap().ended.unwrap().at, BootNs(206 * MS));
    assert_eq!(ran(&lifetimes, first, 205 * MS).unwrap(), "one");
}

#[test]
fn a_loss_within_a_doubt_that_a_look_has_ended_takes_nothing_away() {
    let mut lifetimes = all(&[exec(SHELL, JOB, 110 * MS, "bash")]);
    lifetimes.event_gap(BootNs(190 * MS), BootNs(250 * MS));
    lifetimes.reseed(&snapshot(250 * MS, 250 * MS, vec![seen(JOB, 10, "job")]));
    let before = lifetimes.get(&JOB).cloned();
    lifetimes.event_gap(BootNs(220 * MS), BootNs(230 * MS));
    lifetimes.event_gap(BootNs(220 * MS), BootNs(230 * MS));
    assert_eq!(lifetimes.get(&JOB).cloned(), before);
    assert_eq!(ran(&lifetimes, JOB, 250 * MS).unwrap(), "job");
}

#[test]
fn a_fork_told_only_after_a_loss_that_came_after_it_is_in_doubt_from_the_loss_on() {
    let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a")]);
    lifetimes.event_gap(BootNs(350 * MS), BootNs(360 * MS));
    lifetimes.apply(&fork(WORKER, JOB));
    assert_eq!(ran(&lifetimes, WORKER, 349 * MS).unwrap(), "a");
    assert!(is_lost(&lifetimes, WORKER, 350 * MS));
    // The same of one that only a look before the loss showed.
    let other = key(40, 310 * MS);
    lifetimes.reseed(&snapshot(320 * MS, 330 * MS, vec![seen(JOB, 10, "a"), seen(other, 20, "o")]));
    assert_eq!(ran(&lifetimes, other, 349 * MS).unwrap(), "o");
    assert!(is_lost(&lifetimes, other, 350 * MS));
}

#[test]
fn a_child_told_before_its_parent_inherits_the_parents_doubt_with_the_image() {
    let child = key(40, 310 * MS);
    let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a")]);
    lifetimes.event_gap(BootNs(250 * MS), BootNs(290 * MS));
    lifetimes.apply(&fork(child, WORKER));
    lifetimes.apply(&fork(WORKER, JOB));
    assert!(is_lost(&lifetimes, WORKER, 305 * MS) && is_lost(&lifetimes, child, 320 * MS));
}

#[test]
fn a_look_confirms_nothing_where_the_next_holder_of_the_pid_may_have_been_born_in_the_same_tick() {
    let (first, born) = (key(40, 310 * MS), 310 * MS);
    let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a"), fork(first, JOB)]);
    // Lost: an exec of the first, its end, and the fork of the second, which bears what it did.
    lifetimes.event_gap(BootNs(born + 1), BootNs(350 * MS));
    lifetimes.reseed(&snapshot(360 * MS, 370 * MS, vec![seen(JOB, 10, "a"), seen(first, 20, "a")]));
    assert_eq!(ran(&lifetimes, first, born).unwrap(), "a");
    assert!(is_lost(&lifetimes, first, 315 * MS));
    assert_eq!(ran(&lifetimes, first, 350 * MS).unwrap(), "a");
}

#[test]
fn what_was_read_after_an_end_that_is_told_late_was_of_another_holder_of_the_pid() {
    for bears in ["a", "b"] {
        let first = key(40, 310 * MS);
        let mut lifetimes = all(&[exec(JOB, SHELL, 210 * MS, "a")]);
        lifetimes.event_gap(BootNs(250 * MS), BootNs(290 * MS));
        lifetimes.apply(&fork(first, JOB));
        // The second one was born in the same tick, and is seen before either is told.
        let look = vec![seen(JOB, 10, "a"), seen(first, 20, bears)];
        lifetimes.reseed(&snapshot(330 * MS, 340 * MS, look));
        lifetimes.apply(&exit(first, JOB, 315 * MS));
        assert!(is_lost(&lifetimes, first, 312 * MS), "{bears}");
    }
}
