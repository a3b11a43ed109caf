//! The meter on a virtual clock.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{HOLDERS_MAX, HOUR_MS, Holder, Hours, Meter, Pace, SLOT_MS, Seen, Stretch};
use crate::clock::Stamp;
use crate::residency::moment::Length;
use crate::residency::sample::{DeviceMemory, Fields, ProcessMemory, Reading, Sample, Status};
use crate::residency::verdict::VoidReason;
use crate::settlement::{Account, Ground};
use crate::unit::{BootNs, GpuUuid, Pid, WallUs};
use crate::unknown::UnknownReason;

/// A whole hour of UTC, on the boot clock too: wall − boot is `OFFSET_MS`.
const HOUR: u64 = 500_000 * HOUR_MS;
const OFFSET_MS: u64 = 499_990 * HOUR_MS;
const GIB: u64 = 1 << 30;

/// Who holds how much; `None`: the driver does not say.
type List = [(u32, Option<u64>)];

/// Wall milliseconds after the hour, as a moment of the boot clock.
fn boot(ms: u64) -> BootNs {
    BootNs((HOUR + ms - OFFSET_MS) * 1_000_000)
}

fn holder(pid: u32) -> Holder {
    Holder {
        pid: Pid(pid),
        start: Some(BootNs(pid.into())),
        account: Account::by(Ground::Program, format!("p{pid}")),
        program: None,
        uid: None,
        basis: None,
        labels: Vec::new(),
    }
}

fn reading<T>(before_ns: BootNs, after_ns: BootNs, value: T) -> Reading<T> {
    Reading {
        before_ns,
        after_ns,
        value: Some(value),
        status: Status::Ok,
        code: None,
        driver_timestamp_us: None,
    }
}

/// A pass that takes a millisecond and lands at `ms`, with the clocks as far apart as said.
fn seen(ms: u64, used: u64, list: &List, (step_ms, asleep_ms): (u64, u64)) -> Seen {
    let (before_ns, after_ns) = (boot(ms - 1), boot(ms));
    let memory = DeviceMemory { used_bytes: used, total_bytes: 80 * GIB, reserved_bytes: Some(0) };
    let processes = list.iter().map(|(pid, memory_bytes)| ProcessMemory {
        pid: Pid(*pid),
        memory_bytes: *memory_bytes,
        compute: true,
        graphics: false,
    });
    let fields = Fields {
        utilization: None,
        power: None,
        temperature: None,
        process_utilization: None,
        processes: Some(reading(before_ns, before_ns, processes.collect())),
        memory: reading(before_ns, after_ns, memory),
    };
    let stamp = Stamp {
        boot: after_ns,
        mono_ns: after_ns.0 - asleep_ms * 1_000_000,
        wall: WallUs((HOUR + ms + step_ms) * 1_000),
    };
    let holders = list.iter().map(|(pid, bytes)| (holder(*pid), *bytes)).collect();
    Seen { sample: Sample::new(0, false, before_ns, fields), stamp, holders }
}

/// The same pass without an answer.
fn failed(ms: u64, reason: UnknownReason) -> Seen {
    let mut seen = seen(ms, 0, &[], (0, 0));
    let list = seen.sample.fields.processes.as_mut().unwrap();
    (list.value, list.status) = (None, Status::Unknown(reason));
    seen
}

fn meter() -> Meter {
    let gpu = GpuUuid(Arc::from("GPU-0"));
    Meter::new(gpu, Pace::of(Duration::from_secs(5)))
}

/// Samples every five seconds from `from_ms` up to `to_ms`.
fn run(meter: &mut Meter, from_ms: u64, to_ms: u64, used: u64, list: &List) {
    for ms in (from_ms..=to_ms).step_by(5_000) {
        meter.take(seen(ms, used, list, (0, 0)));
    }
}

fn at(wall: WallUs) -> u64 {
    wall.ms() - HOUR
}

fn spans(stretches: &[Stretch]) -> Vec<(u64, u64)> {
    stretches.iter().map(|one| (at(one.from), at(one.to))).collect()
}

fn voids(stretch: &Stretch) -> Vec<VoidReason> {
    stretch.voids.iter().map(|(reason, _)| *reason).collect()
}

#[test]
fn an_hour_is_four_quarters_and_adds_up_to_the_byte() {
    let mut meter = meter();
    run(&mut meter, 1_000, HOUR_MS + 1_000, 10 * GIB, &[(7, Some(8 * GIB)), (8, Some(GIB))]);
    let done = meter.take_done();
    let quarters = [1_000, SLOT_MS, 2 * SLOT_MS, 3 * SLOT_MS, HOUR_MS];
    assert_eq!(spans(&done), quarters.windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>());
    for stretch in &done {
        assert!(stretch.closes() && stretch.voids.is_empty());
        assert_eq!(stretch.hour_ms(), HOUR);
        let ms = u128::from(stretch.to.ms() - stretch.from.ms());
        assert_eq!(stretch.device.used.0, ms * u128::from(10 * GIB));
        assert_eq!(stretch.holders[0].held.memory.0, ms * u128::from(8 * GIB));
        assert_eq!(stretch.device.unattributed.0, ms * u128::from(GIB));
        assert_eq!(u128::from(stretch.holders[1].held.listed_ms()), ms);
    }
    // A pass takes a millisecond, and the next one lands five seconds later.
    assert_eq!(done[1].sampling.age_max, Length::of_ms(5_001));
    assert_eq!(done[1].sampling.samples, SLOT_MS / 5_000);
    assert_eq!(hours(&done), (1, 0));
}

fn hours(done: &[Stretch]) -> (u64, u64) {
    let mut hours = Hours::default();
    for stretch in done {
        hours.take(stretch);
    }
    (hours.valid(), hours.void())
}

/// However the stretches of an hour come, and whichever run sampled them.
#[test]
fn an_hour_that_one_run_voided_stays_void_in_the_next() {
    let quarter = |place: u64, voids: &[VoidReason]| {
        let mut meter = meter();
        let from_ms = place * SLOT_MS + 1;
        meter.take(seen(from_ms, GIB, &[(7, Some(GIB))], (0, 0)));
        meter.close(boot(from_ms + 1_000));
        let mut stretch = meter.take_done().remove(0);
        stretch.to = WallUs(stretch.from.0 + (SLOT_MS - 1) * 1_000);
        stretch.voids = voids.iter().map(|reason| (*reason, 1)).collect();
        stretch
    };
    let late = [VoidReason::AgeSupOverCap];
    let told = |quarters: &[(u64, &[VoidReason])]| {
        hours(&quarters.iter().map(|(place, voids)| quarter(*place, voids)).collect::<Vec<_>>())
    };
    assert_eq!(told(&[(0, &[]), (1, &[])]), (0, 0), "it is not over");
    assert_eq!(told(&[(0, &[]), (1, &late), (2, &[]), (3, &[])]), (0, 1));
    assert_eq!(told(&[(0, &[]), (1, &[]), (4, &[])]), (1, 0), "its last quarter never came");
    assert_eq!(told(&[(0, &late), (1, &late), (4, &late), (8, &[]), (11, &[])]), (1, 2));
}

#[test]
fn what_ended_or_began_counts_from_sample_to_sample() {
    let mut meter = meter();
    meter.take(seen(10_000, GIB, &[(7, Some(GIB))], (0, 0)));
    meter.take(seen(15_000, 2 * GIB, &[(8, Some(2 * GIB))], (0, 0)));
    meter.close(boot(18_000));
    let done = meter.take_done();
    assert_eq!(spans(&done), [(10_000, 18_000)]);
    let held: Vec<(u32, u64, u128)> = done[0]
        .holders
        .iter()
        .map(|one| (one.holder.pid.0, one.held.known_ms, one.held.memory.gib_s().0))
        .collect();
    assert_eq!(held, [(7, 5_000, 5), (8, 3_000, 6)]);
}

#[test]
fn a_sample_just_as_old_as_the_cap_is_good_and_an_older_one_voids_its_hour_and_is_not_carried_on() {
    // Asked for at 9,999 ms: 5,550 ms later the next may land.
    let mut good = meter();
    good.take(seen(10_000, GIB, &[(7, Some(GIB))], (0, 0)));
    good.take(seen(15_549, GIB, &[(7, Some(GIB))], (0, 0)));
    good.close(boot(16_000));
    let done = good.take_done();
    assert_eq!((spans(&done), voids(&done[0])), (vec![(10_000, 16_000)], vec![]));
    assert_eq!(done[0].sampling.age_max, Length::of_ms(5_550));

    let mut late = meter();
    late.take(seen(10_000, GIB, &[(7, Some(GIB))], (0, 0)));
    late.take(seen(15_550, GIB, &[(7, Some(GIB))], (0, 0)));
    late.close(boot(16_000));
    let done = late.take_done();
    assert_eq!(spans(&done), [(10_000, 15_549), (15_550, 16_000)]);
    assert_eq!(voids(&done[0]), [VoidReason::AgeSupOverCap]);
    assert_eq!(voids(&done[1]), [VoidReason::AgeSupOverCap], "the hour in which it came back");
    assert_eq!(hours(&done), (0, 1));
}

#[test]
fn a_stall_over_an_hour_voids_both_hours_that_it_touches_and_covers_nothing_between() {
    let mut meter = meter();
    let list = [(7, Some(GIB))];
    run(&mut meter, HOUR_MS - 20_000, HOUR_MS - 10_000, GIB, &list);
    // Nothing comes; what is in flight hangs.
    meter.until(boot(HOUR_MS - 5_000), Some(boot(HOUR_MS - 5_100)));
    assert!(meter.take_done().is_empty(), "it may still be told");
    meter.until(boot(HOUR_MS + 30_000), Some(boot(HOUR_MS - 5_100)));
    run(&mut meter, HOUR_MS + 60_000, HOUR_MS + 90_000, GIB, &list);
    meter.close(boot(HOUR_MS + 91_000));
    let done = meter.take_done();
    let over = HOUR_MS - 10_000 - 1 + 5_550;
    let wanted = [(HOUR_MS - 20_000, over), (HOUR_MS + 60_000, HOUR_MS + 91_000)];
    assert_eq!(spans(&done), wanted);
    assert_eq!(voids(&done[0]), [VoidReason::AgeSupOverCap, VoidReason::ProbeStuck]);
    assert_eq!(voids(&done[1]), [VoidReason::AgeSupOverCap]);
    assert_eq!(hours(&done), (0, 2));
}

#[test]
fn a_pass_without_a_list_does_not_land_and_says_why_the_hour_is_void() {
    for (reason, void) in [
        (UnknownReason::ProcessListNotSupported, VoidReason::RequiredFieldMissing),
        (UnknownReason::GpuLost, VoidReason::DeviceLost),
    ] {
        let mut meter = meter();
        meter.take(seen(10_000, GIB, &[(7, Some(GIB))], (0, 0)));
        meter.take(failed(15_000, reason));
        assert_eq!(meter.tallied().lack, Some(reason));
        meter.take(seen(20_000, GIB, &[(7, Some(GIB))], (0, 0)));
        assert_eq!(meter.tallied().lack, None);
        let done = meter.take_done();
        assert_eq!(done[0].sampling.failed, 1);
        assert!(voids(&done[0]).contains(&void), "{:?}", done[0].voids);
    }
}

#[test]
fn a_step_of_the_wall_clock_ends_a_stretch_and_voids_nothing() {
    let mut meter = meter();
    meter.take(seen(10_000, GIB, &[(7, Some(GIB))], (0, 0)));
    meter.take(seen(15_000, GIB, &[(7, Some(GIB))], (3 * HOUR_MS, 0)));
    meter.take(seen(20_000, GIB, &[(7, Some(GIB))], (3 * HOUR_MS, 0)));
    meter.close(boot(21_000));
    let done = meter.take_done();
    let step = 3 * HOUR_MS;
    assert_eq!(spans(&done), [(10_000, 15_000), (15_000 + step, 21_000 + step)]);
    assert!(done[0].is_cut_by_step && !done[1].is_cut_by_step);
    assert!(done.iter().all(|stretch| stretch.voids.is_empty()));
}

#[test]
fn a_sleep_voids_and_so_does_a_clock_that_goes_back() {
    let mut meter = meter();
    meter.take(seen(10_000, GIB, &[], (0, 0)));
    meter.take(seen(15_000, GIB, &[], (0, 2)));
    meter.take(seen(14_000, GIB, &[], (0, 2)));
    meter.close(boot(14_500));
    let done = meter.take_done();
    let wanted = [VoidReason::SuspendDetected, VoidReason::ClockUnusable];
    assert_eq!(voids(&done[0]), wanted);
}

#[test]
fn memory_that_the_driver_does_not_tell_is_of_its_time_and_stays_in_the_band() {
    let mut meter = meter();
    meter.take(seen(10_000, 5 * GIB, &[(7, None), (8, Some(GIB))], (0, 0)));
    meter.take(seen(15_000, GIB, &[(7, Some(2 * GIB))], (0, 0)));
    meter.close(boot(16_000));
    let done = meter.take_done();
    let held = done[0].holders[0].held;
    assert_eq!((held.unsaid_ms, held.known_ms, held.memory.gib_s().0), (5_000, 1_000, 2));
    assert_eq!(done[0].device.unattributed.gib_s().0, 20);
    // A list that says more than is used is an excess, and takes nothing off the band.
    assert_eq!(done[0].device.excess.gib_s().0, 1);
    assert!(done[0].closes());
}

#[test]
fn holders_beyond_the_bound_stand_in_one_sum() {
    let mut meter = meter();
    let many = u32::try_from(HOLDERS_MAX).unwrap() + 3;
    let list: Vec<(u32, Option<u64>)> = (0..many).map(|pid| (pid, Some(1))).collect();
    meter.take(seen(10_000, u64::from(many), &list, (0, 0)));
    meter.close(boot(11_000));
    let done = meter.take_done();
    assert_eq!(done[0].holders.len(), HOLDERS_MAX);
    let beyond = done[0].beyond.unwrap();
    assert_eq!((beyond.holders, beyond.held.memory.0, beyond.held.known_ms), (3, 3_000, 3_000));
    assert!(done[0].closes());
}

#[test]
fn a_pid_that_became_another_process_is_two_holders() {
    let mut meter = meter();
    meter.take(seen(10_000, GIB, &[(7, Some(GIB))], (0, 0)));
    let mut other = seen(15_000, GIB, &[(7, Some(GIB))], (0, 0));
    other.holders[0].0.start = Some(BootNs(99));
    meter.take(other);
    meter.close(boot(16_000));
    assert_eq!(meter.take_done()[0].holders.len(), 2);
}

proptest! {
    /// Whatever the gaps between samples are: every millisecond counts once, with the sample that held at it, up to
    /// the cap; and every stretch lies within a quarter.
    #[test]
    fn every_millisecond_counts_once(
        first in 1_u64..2 * SLOT_MS,
        steps in prop::collection::vec((1_u64..9_000, 0_u64..5, prop::option::of(0_u64..5)), 1..60),
    ) {
        let mut meter = meter();
        let mut ms = first;
        let mut naive: std::collections::BTreeMap<u64, u128> = std::collections::BTreeMap::new();
        let mut last: Option<(u64, u64)> = None;
        for (step, used, held) in steps {
            ms += step;
            meter.take(seen(ms, used, &[(7, held)], (0, 0)));
            if let Some((since, used)) = last {
                for at in since..ms.min(since - 1 + 5_550) {
                    *naive.entry(at / SLOT_MS).or_default() += u128::from(used);
                }
            }
            last = Some((ms, used));
        }
        meter.close(boot(ms));
        let mut found = std::collections::BTreeMap::new();
        let mut reached = 0;
        for stretch in meter.take_done() {
            prop_assert!(stretch.closes());
            let (from, to) = (at(stretch.from), at(stretch.to));
            prop_assert!(from >= reached && to >= from && to <= (from / SLOT_MS + 1) * SLOT_MS);
            reached = to;
            *found.entry(from / SLOT_MS).or_default() += stretch.device.used.0;
        }
        found.retain(|_, sum| *sum > 0);
        naive.retain(|_, sum| *sum > 0);
        prop_assert_eq!(found, naive);
    }
}
