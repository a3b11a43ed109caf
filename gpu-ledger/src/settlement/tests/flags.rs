//! Every flag, and what does not deserve it.

use super::made::{Known, boot, found_gone, gap, lifetime, row, seen_at};
use crate::unknown::{Flag, GapCause};

fn flags(known: &Known, row: &crate::accounting::FinalRow) -> Vec<Flag> {
    known.settle(row).flags.into_iter().collect()
}

#[test]
fn below_1ms_where_the_driver_says_time_0() {
    let known = Known::of([lifetime("quick", 2_000_000, Some(2_000_700))]);
    assert_eq!(flags(&known, &row(2_000_300, 0)), [Flag::Below1Ms]);
    assert_eq!(flags(&known, &row(2_000_300, 1)), []);
}

#[test]
fn settled_while_alive_where_the_process_had_not_ended_by_the_end_of_the_read() {
    let settled = seen_at(2_100_000, 50, 2_200_000);
    let exits_at = |exit| Known::of([lifetime("context closed", 2_000_000, exit)]);
    assert_eq!(flags(&exits_at(None), &settled), [Flag::SettledWhileAlive]);
    // The read ends 200 us after it began.
    assert_eq!(flags(&exits_at(Some(2_200_201)), &settled), [Flag::SettledWhileAlive]);
    assert_eq!(flags(&exits_at(Some(2_200_200)), &settled), []);
}

#[test]
fn settled_while_alive_is_not_said_where_the_exit_may_have_been_missed() {
    let settled = seen_at(2_100_000, 50, 2_200_000);
    let mut gone = Known::of([lifetime("gone", 2_000_000, None)]);
    gone.lifetimes[0].ended = Some(found_gone(3_000_000));
    assert_eq!(flags(&gone, &settled), []);

    let alive = || Known::of([lifetime("unseen", 2_000_000, None)]);
    let in_gap = alive().with_gap(gap(GapCause::EventLost, 2_150_000, 2_250_000));
    assert_eq!(flags(&in_gap, &settled), []);
    let mut not_yet = alive();
    not_yet.coverage.end = super::made::stamp(2_150_000);
    assert_eq!(flags(&not_yet, &settled), []);
}

#[test]
fn started_before_accounting_where_it_held_the_gpu_without_a_row() {
    let mut known = Known::of([lifetime("resident", 2_000_000, Some(6_000_000))]);
    known.rowless_since = Some(boot(3_000_000));
    let late = row(5_000_000, 2_000);
    assert_eq!(flags(&known, &late), [Flag::StartedBeforeAccounting]);
    // Seen without a row only after this one had begun: says nothing about it.
    known.rowless_since = Some(boot(5_500_000));
    assert_eq!(flags(&known, &late), []);
    // An earlier process of the pid held it.
    known.rowless_since = Some(boot(1_500_000));
    assert_eq!(flags(&known, &late), []);
}
