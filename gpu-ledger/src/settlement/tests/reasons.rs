//! Every way of having a name, and every reason for having none.

use super::made::{
    Known, PID, answer, boot, exited, found_gone, gap, image, lifetime, row, seen_at,
};
use crate::identity::{Basis, ImageGap};
use crate::settlement::{
    Attribution, Eviction, Fit, JOIN_TOLERANCE_NS, SettlementError, missed_in_coverage, settle,
};
use crate::unit::{BootNs, Pid};
use crate::unknown::{GapCause, NamelessReason};

const TOLERANCE_US: u64 = JOIN_TOLERANCE_NS / 1_000;

/// The answer of a row that has this name.
#[expect(clippy::unnecessary_wraps, reason = "it is one side of a comparison of two answers")]
fn named(name: &str) -> Result<String, NamelessReason> {
    Ok(name.to_owned())
}

#[test]
fn a_row_is_named_by_the_lifetime_that_contains_its_start() {
    let known = Known::of([
        lifetime("first", 2_000_000, Some(3_000_000)),
        lifetime("second", 4_000_000, Some(5_000_000)),
    ]);
    assert_eq!(known.answer(&row(2_500_000, 100)), named("first"));
    assert_eq!(known.answer(&row(4_500_000, 100)), named("second"));
    let settlement = known.settle(&row(4_500_000, 100));
    assert_eq!(settlement.id.as_str(), "2f9a1b3c-4242-1790000004500000");
    assert_eq!(settlement.attribution.basis(), Some(Basis::Exec));
}

#[test]
fn billed_is_the_image_in_force_when_the_row_begins() {
    let mut shell = lifetime("sh", 2_000_000, Some(9_000_000));
    shell.images.push(image("python", 3_000_000, Basis::Exec));
    shell.images.push(image("cleanup", 5_000_000, Basis::Exec));
    let known = Known::of([shell]);
    assert_eq!(known.answer(&row(2_900_000, 5_000)), named("sh"));
    assert_eq!(known.answer(&row(3_000_000, 5_000)), named("python"));
    assert_eq!(known.answer(&row(5_100_000, 1)), named("cleanup"));
}

#[test]
fn a_lifetime_within_the_tolerance_loses_to_one_that_contains_the_start() {
    let known = Known::of([
        lifetime("near", 2_000_000, Some(2_990_000)),
        lifetime("right", 2_991_000, Some(5_000_000)),
    ]);
    assert_eq!(known.answer(&row(2_991_001, 10)), named("right"));
}

#[test]
fn a_start_just_outside_the_only_lifetime_is_within_the_tolerance() {
    let known = Known::of([lifetime("only", 2_000_000, Some(3_000_000))]);
    assert_eq!(known.answer(&row(2_000_000 - TOLERANCE_US, 10)), named("only"));
    assert_eq!(known.answer(&row(3_000_000 + TOLERANCE_US, 10)), named("only"));
    let outside = Err(NamelessReason::EventLost);
    assert_eq!(known.answer(&row(2_000_000 - TOLERANCE_US - 1, 10)), outside);
    assert_eq!(known.answer(&row(3_000_000 + TOLERANCE_US + 1, 10)), outside);
}

#[test]
fn predates_coverage_before_coverage_began() {
    let known = Known::of([lifetime("later", 2_000_000, None)]);
    let settlement = known.settle(&row(500_000, 100));
    assert_eq!(answer(&settlement), Err(NamelessReason::PredatesCoverage));
    assert_eq!(missed_in_coverage([&settlement], &known.coverage), 0);
}

#[test]
fn near_the_beginning_of_coverage_an_unseen_predecessor_may_be_meant() {
    let known = Known::of([lifetime("later", 1_001_000, None)]);
    assert_eq!(known.answer(&row(999_000, 100)), Err(NamelessReason::PredatesCoverage));
}

#[test]
fn a_process_older_than_coverage_is_named_from_procfs() {
    let mut server = lifetime("server", 500_000, None);
    server.start_is_exact = false;
    server.images = vec![image("server", 500_000, Basis::Procfs)];
    let known = Known::of([server]);
    let settlement = known.settle(&row(600_000, 5_000));
    assert_eq!(answer(&settlement), named("server"));
    assert_eq!(settlement.attribution.basis(), Some(Basis::Procfs));
}

#[test]
fn what_procfs_shows_is_not_believed_of_a_row_whose_end_nobody_can_place() {
    let mut server = lifetime("later image", 500_000, None);
    server.start_is_exact = false;
    server.images = vec![image("later image", 500_000, Basis::Procfs)];
    let mut known = Known::of([server]);
    known.coverage.end = super::made::stamp(10_000_000);
    // The clock was set forward while nobody looked: by it the row ends ten minutes from now.
    let ahead = seen_at(600_000, 600_000, 9_000_000);
    assert_eq!(known.answer(&ahead), Err(NamelessReason::PredatesCoverage));
    assert_eq!(known.answer(&row(600_000, 5_000)), named("later image"));
}

#[test]
fn a_start_floored_to_the_tick_may_contain_what_lies_in_that_tick() {
    let mut server = lifetime("server", 500_000, None);
    server.start_is_exact = false;
    let known = Known::of([server]);
    let fit = |start| match known.settle(&row(start, 10)).attribution {
        Attribution::Named(named) => Some(named.fit),
        Attribution::Nameless(_) => None,
    };
    assert_eq!(fit(509_999), Some(Fit::MayContain));
    assert_eq!(fit(510_000), Some(Fit::Contains));
    assert_eq!(fit(499_999), None);
}

#[test]
fn agent_down_where_the_process_lived_in_a_gap_of_the_agent() {
    let known = Known::of([]).with_gap(gap(GapCause::AgentDown, 2_000_000, 4_000_000));
    assert_eq!(known.answer(&row(3_000_000, 100)), Err(NamelessReason::AgentDown));
    // And after the agent has ended.
    assert_eq!(known.answer(&row(1_000_000_001, 100)), Err(NamelessReason::AgentDown));
}

#[test]
fn event_lost_where_the_ring_or_a_queue_overflowed() {
    for cause in [GapCause::EventLost, GapCause::QueueOverflow] {
        let known = Known::of([]).with_gap(gap(cause, 2_000_000, 4_000_000));
        let settlement = known.settle(&row(3_000_000, 100));
        assert_eq!(answer(&settlement), Err(NamelessReason::EventLost));
        assert_eq!(missed_in_coverage([&settlement], &known.coverage), 0);
        let Attribution::Nameless(nameless) = settlement.attribution else { unreachable!() };
        assert_eq!(nameless.gap.unwrap().cause, cause);
    }
}

#[test]
fn a_gap_in_driver_rows_hides_no_process() {
    let known = Known::of([lifetime("seen", 2_000_000, Some(3_000_000))]);
    let known = known.with_gap(gap(GapCause::NvmlCallTimeout, 2_000_000, 4_000_000));
    assert_eq!(known.answer(&row(2_500_000, 100)), named("seen"));
}

#[test]
fn in_a_gap_only_what_is_found_again_after_it_keeps_its_name() {
    let lossy = gap(GapCause::EventLost, 2_000_000, 4_000_000);
    let of = |lifetime| Known::of([lifetime]).with_gap(lossy.clone()).answer(&row(3_000_000, 9));
    assert_eq!(of(lifetime("lives on", 1_500_000, None)), named("lives on"));
    assert_eq!(of(lifetime("exits later", 1_500_000, Some(4_000_001))), named("exits later"));
    // Its exec was received, a second one may not have been.
    assert_eq!(of(lifetime("exits", 2_500_000, Some(3_500_000))), Err(NamelessReason::EventLost));
    let mut gone = lifetime("gone", 1_500_000, None);
    gone.ended = Some(found_gone(4_000_000));
    assert_eq!(of(gone), Err(NamelessReason::EventLost));
    let mut other_image = lifetime("before", 1_500_000, None);
    other_image.images.push(image("after", 4_000_000, Basis::Procfs));
    assert_eq!(of(other_image), Err(NamelessReason::EventLost));
}

#[test]
fn a_process_that_was_found_gone_keeps_the_rows_it_began_before_the_gap() {
    let mut gone = lifetime("gone", 1_500_000, None);
    gone.ended = Some(found_gone(4_000_000));
    let known = Known::of([gone]).with_gap(gap(GapCause::AgentDown, 2_000_000, 4_000_000));
    assert_eq!(known.answer(&row(1_600_000, 1_000)), named("gone"));
}

#[test]
fn identity_evicted_where_the_lifetime_was_forgotten() {
    let mut known = Known::of([lifetime("other", 5_000_000, None)]);
    known.evictions.push(Eviction { born: boot(2_000_000), ended: boot(3_000_000) });
    let settlement = known.settle(&row(2_500_000, 100));
    assert_eq!(answer(&settlement), Err(NamelessReason::IdentityEvicted));
    assert_eq!(missed_in_coverage([&settlement], &known.coverage), 1);
    assert_eq!(known.answer(&row(5_500_000, 1)), named("other"));
}

#[test]
fn identity_evicted_where_the_image_was_forgotten() {
    let mut known = Known::of([lifetime("late", 2_000_000, None)]);
    known.lifetimes[0].images = vec![image("late", 4_000_000, Basis::Exec)];
    let gap =
        |reason, from_us, to_us| ImageGap { from: boot(from_us), to: Some(boot(to_us)), reason };
    known.lifetimes[0].image_gaps =
        vec![gap(NamelessReason::IdentityEvicted, 2_000_000, 4_000_000)];
    assert_eq!(known.answer(&row(3_000_000, 1)), Err(NamelessReason::IdentityEvicted));
    assert_eq!(known.answer(&row(4_000_000, 1)), named("late"));
}

#[test]
fn pid_ambiguous_where_two_lifetimes_fit_equally_well() {
    // Two within the tolerance and none around the start.
    let near = Known::of([
        lifetime("before", 2_000_000, Some(3_000_000)),
        lifetime("after", 3_004_000, Some(4_000_000)),
    ]);
    let settlement = near.settle(&row(3_002_000, 10));
    assert_eq!(answer(&settlement), Err(NamelessReason::PidAmbiguous));
    assert_eq!(missed_in_coverage([&settlement], &near.coverage), 1);
    // Two that claim to contain it, which cannot be.
    let both = Known::of([
        lifetime("one", 2_000_000, Some(4_000_000)),
        lifetime("other", 3_000_000, Some(5_000_000)),
    ]);
    assert_eq!(both.answer(&row(3_500_000, 10)), Err(NamelessReason::PidAmbiguous));
    let Attribution::Nameless(nameless) = both.settle(&row(3_500_000, 10)).attribution else {
        unreachable!()
    };
    assert!(nameless.candidates.iter().all(|candidate| candidate.fit == Fit::Contains));
    assert_eq!(nameless.candidates.len(), 2);
}

#[test]
fn the_birth_of_the_next_one_ends_a_life_whose_exit_was_not_seen() {
    let known = Known::of([
        lifetime("first", 2_000_000, None),
        lifetime("second", 4_000_000, Some(5_000_000)),
    ]);
    assert_eq!(known.answer(&row(3_000_000, 10)), named("first"));
    assert_eq!(known.answer(&row(4_000_000, 10)), named("second"));
}

#[test]
fn row_spans_two_lifetimes_where_the_second_was_born_before_the_proven_end() {
    let born_at = |second_us| {
        Known::of([
            lifetime("first", 2_000_000, Some(2_500_000)),
            lifetime("second", second_us, Some(9_000_000)),
        ])
    };
    let row = row(2_100_000, 900);
    assert_eq!(born_at(2_999_999).answer(&row), Err(NamelessReason::RowSpansTwoLifetimes));
    // The entry was closed when the pid was given out again: 3.0 s and a fraction of a millisecond.
    assert_eq!(born_at(3_000_000).answer(&row), named("first"));
    let settlement = born_at(2_600_000).settle(&row);
    let Attribution::Nameless(nameless) = &settlement.attribution else { unreachable!() };
    assert_eq!(nameless.candidates.len(), 2);
    // Both are known, so it is an answer and not a miss.
    assert_eq!(missed_in_coverage([&settlement], &born_at(2_600_000).coverage), 0);
}

#[test]
fn a_forgotten_second_lifetime_is_reached_as_well() {
    let mut known = Known::of([lifetime("first", 2_000_000, Some(2_500_000))]);
    known.evictions.push(Eviction { born: boot(2_600_000), ended: boot(2_700_000) });
    let spanning = row(2_100_000, 900);
    assert_eq!(known.answer(&spanning), Err(NamelessReason::RowSpansTwoLifetimes));
    assert_eq!(known.answer(&row(2_100_000, 450)), named("first"));
}

#[test]
fn a_span_that_outlives_its_process_alone_is_normal() {
    let known = Known::of([lifetime("closes late", 2_000_000, Some(2_500_000))]);
    assert_eq!(known.answer(&row(2_100_000, 60_000)), named("closes late"));
}

#[test]
fn two_rows_of_a_reused_pid_each_get_their_own_name() {
    let known = Known::of([
        lifetime("first", 2_000_000, Some(2_500_000)),
        lifetime("second", 2_500_200, Some(2_600_000)),
    ]);
    // Teardown ends at 2 500 150 us: the driver says 400 ms.
    assert_eq!(known.answer(&row(2_100_000, 400)), named("first"));
    assert_eq!(known.answer(&row(2_500_900, 99)), named("second"));
}

#[test]
fn no_start_time_where_the_driver_gave_none() {
    let known = Known::of([lifetime("someone", 2_000_000, None)]);
    let mut startless = row(2_500_000, 70);
    startless.row.start = None;
    let settlement = known.settle(&startless);
    assert_eq!(answer(&settlement), Err(NamelessReason::NoStartTime));
    assert_eq!(settlement.id.as_str(), "2f9a1b3c-4242-none");
    assert_eq!((settlement.span, settlement.dispute), (None, None));
    assert_eq!(missed_in_coverage([&settlement], &known.coverage), 0);
}

#[test]
fn a_child_of_an_unseen_parent_has_an_identity_and_no_image() {
    let mut orphan = lifetime("", 2_000_000, Some(3_000_000));
    orphan.images.clear();
    let known = Known::of([orphan.clone()]);
    assert_eq!(known.answer(&row(2_500_000, 1)), Err(NamelessReason::PredatesCoverage));
    let known = Known::of([orphan]).with_gap(gap(GapCause::EventLost, 1_100_000, 1_200_000));
    assert_eq!(known.answer(&row(2_500_000, 1)), Err(NamelessReason::EventLost));
}

#[test]
fn an_exec_does_not_name_what_came_before_it() {
    let mut orphan = lifetime("", 2_000_000, Some(3_000_000));
    orphan.images = vec![image("python", 2_600_000, Basis::Exec)];
    let known = Known::of([orphan]);
    assert_eq!(known.answer(&row(2_500_000, 1)), Err(NamelessReason::PredatesCoverage));
    assert_eq!(known.answer(&row(2_600_000, 1)), named("python"));
}

#[test]
fn a_lifetime_of_another_pid_never_names_a_row() {
    let mut stranger = lifetime("stranger", 2_000_000, None);
    stranger.key.pid = Pid(PID.0 + 1);
    let known = Known::of([stranger]);
    assert_eq!(known.answer(&row(2_500_000, 1)), Err(NamelessReason::EventLost));
}

#[test]
fn a_row_that_still_runs_is_refused() {
    let known = Known::of([lifetime("runs", 2_000_000, None)]);
    let mut running = seen_at(2_500_000, 0, 3_000_000);
    running.row.running = true;
    let refused = settle(&running, &known.evidence()).unwrap_err();
    assert!(matches!(refused, SettlementError::NotFinal { pid: PID, .. }));
}

#[test]
fn an_exit_at_the_very_moment_still_contains_it() {
    let known = Known::of([lifetime("exact", 2_000_000, Some(3_000_000))]);
    let fit = |at: BootNs| known.settle(&row(at.0 / 1_000, 1)).attribution;
    let Attribution::Named(named) = fit(boot(3_000_000)) else { unreachable!() };
    assert_eq!((named.fit, named.ended), (Fit::Contains, Some(exited(3_000_000))));
}
