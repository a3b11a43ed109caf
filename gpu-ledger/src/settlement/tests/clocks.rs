//! Rows against a wall clock that is stepped, and a machine that sleeps.

use super::made::{Known, OFFSET_US, answer, boot, lifetime, row, seen_at};
use crate::clock::{BootPlace, Stamp};
use crate::settlement::missed_in_coverage;
use crate::unit::{Ms, WallUs};
use crate::unknown::{DisputeReason, NamelessReason, Observed, UnknownReason};

const STEPPED: Option<DisputeReason> = Some(DisputeReason::ClockStep);

/// A reading at `us` after boot of a wall clock that is off by `step_us` by then.
fn stepped(us: u64, step_us: i64) -> Stamp {
    let wall = WallUs((OFFSET_US + us).saturating_add_signed(step_us));
    Stamp { boot: boot(us), mono_ns: us * 1_000, wall }
}

fn known() -> Known {
    Known::of([lifetime("job", 2_000_000, Some(9_000_000))])
}

#[test]
fn an_ordinary_row_is_not_disputed() {
    let settlement = known().settle(&row(3_000_000, 4_000));
    assert_eq!(settlement.dispute, None);
    assert_eq!(settlement.started, Some(BootPlace::Once(boot(3_000_000))));
}

#[test]
fn clock_step_where_the_row_ends_after_the_read_that_showed_it_final() {
    // The read ends at 4 000 200 us.
    assert_eq!(known().settle(&seen_at(3_000_200, 1_000, 4_000_000)).dispute, None);
    let beyond = known().settle(&seen_at(3_000_201, 1_000, 4_000_000));
    assert_eq!((beyond.dispute, beyond.row.held), (STEPPED, Ms(1_000)));
    assert_eq!(answer(&beyond), Ok("job".to_owned()), "whose it was is not in dispute");
}

#[test]
fn clock_step_where_the_row_begins_after_the_read() {
    assert_eq!(known().settle(&seen_at(5_000_000, 0, 4_000_000)).dispute, STEPPED);
}

#[test]
fn clock_step_where_time_wrapped() {
    // End before start, in milliseconds of 64 bits.
    let wrapped = known().settle(&seen_at(3_000_000, u64::MAX - 59_999, 9_000_000));
    assert_eq!((wrapped.dispute, wrapped.span), (STEPPED, None));
    assert_eq!(wrapped.row.held, Ms(u64::MAX - 59_999), "the raw figure stays in the total");
    assert_eq!(wrapped.asleep, Observed::Unknown(UnknownReason::ClockStep));
}

#[test]
fn clock_step_where_a_step_was_observed_inside_the_span() {
    let mut known = known();
    known.clock.observe(stepped(4_000_000, 60_000_000));
    // Really 3.0 s to 5.0 s; the driver says a minute more.
    let mut inside = seen_at(3_000_000, 62_000, 6_000_000);
    inside.seen.ended = stepped(6_000_000, 60_000_000);
    let settlement = known.settle(&inside);
    assert_eq!((settlement.dispute, answer(&settlement)), (STEPPED, Ok("job".to_owned())));
    // One that ended before the step is sound.
    assert_eq!(known.settle(&row(3_000_000, 900)).dispute, None);
}

#[test]
fn clock_step_where_no_moment_showed_the_start() {
    let mut known = known();
    known.clock.observe(stepped(4_000_000, 60_000_000));
    let mut skipped = seen_at(30_000_000, 10, 6_000_000);
    skipped.seen.ended = stepped(6_000_000, 60_000_000);
    let settlement = known.settle(&skipped);
    assert_eq!(settlement.started, Some(BootPlace::Skipped));
    assert_eq!(settlement.dispute, STEPPED);
    assert_eq!(answer(&settlement), Err(NamelessReason::PidAmbiguous));
    assert_eq!(missed_in_coverage([&settlement], &known.coverage), 0);
}

#[test]
fn clock_step_where_two_moments_showed_the_start_and_the_name_only_if_both_agree() {
    let mut known = known();
    known.clock.observe(stepped(4_000_000, -500_000));
    let mut twice = seen_at(3_700_000, 10, 8_000_000);
    twice.seen.ended = stepped(8_000_000, -500_000);
    let settlement = known.settle(&twice);
    let places = BootPlace::Twice(boot(3_700_000), boot(4_200_000));
    assert_eq!((settlement.started, settlement.dispute), (Some(places), STEPPED));
    assert_eq!(answer(&settlement), Ok("job".to_owned()));

    known.lifetimes = vec![
        lifetime("one", 2_000_000, Some(3_900_000)),
        lifetime("other", 4_100_000, Some(9_000_000)),
    ];
    let settlement = known.settle(&twice);
    assert_eq!(answer(&settlement), Err(NamelessReason::PidAmbiguous));
    assert_eq!(missed_in_coverage([&settlement], &known.coverage), 1);
}

#[test]
fn a_disputed_end_reaches_nobody() {
    let mut known = Known::of([
        lifetime("first", 2_000_000, Some(3_500_000)),
        lifetime("second", 4_500_000, Some(9_000_000)),
    ]);
    known.clock.observe(stepped(3_200_000, 60_000_000));
    // Really 3.0 s to 3.4 s.
    let mut inside = seen_at(3_000_000, 60_400, 6_000_000);
    inside.seen.ended = stepped(6_000_000, 60_000_000);
    assert_eq!(known.answer(&inside), Ok("first".to_owned()));
}

#[test]
fn without_a_reading_of_the_clocks_no_row_is_placed() {
    let mut known = known();
    known.clock = crate::clock::ClockHistory::default();
    let settlement = known.settle(&row(3_000_000, 10));
    assert_eq!(answer(&settlement), Err(NamelessReason::PidAmbiguous));
    assert_eq!(settlement.started, None);
}

/// A reading at `us` after boot of a machine that has slept for `asleep_us` of them.
fn slept(us: u64, asleep_us: u64) -> Stamp {
    Stamp { boot: boot(us), mono_ns: (us - asleep_us) * 1_000, wall: WallUs(OFFSET_US + us) }
}

#[test]
fn sleep_inside_a_span_is_shown_and_sleep_that_nobody_watched_is_unknown() {
    let mut known = known();
    known.clock.observe(slept(6_000_000, 1_500_000));
    assert_eq!(known.settle(&row(3_000_000, 4_000)).asleep, Observed::Known(Ms(1_500)));
    assert_eq!(known.settle(&row(3_000_000, 1_000)).asleep, Observed::Known(Ms::ZERO));

    // It had slept before the first reading, and the span began before that.
    let mut late = self::known();
    late.clock = crate::clock::ClockHistory::default();
    late.clock.observe(slept(5_000_000, 1_500_000));
    let settlement = late.settle(&row(3_000_000, 4_000));
    assert_eq!(settlement.asleep, Observed::Unknown(UnknownReason::SleepNotObserved));
    let mut startless = row(3_000_000, 4_000);
    startless.row.start = None;
    let unplaced = late.settle(&startless).asleep;
    assert_eq!(unplaced, Observed::Unknown(UnknownReason::NoStartTime));
}
