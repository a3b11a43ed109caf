//! T1, T2, T13, T16 to T18: points, ages, order, beginnings, and all pairs of verdicts.

use super::bench::{BOOT, MS, Order, Paced, Sampler, VirtualClock, figures, run};
use crate::residency::events::{ClockFold, CpuFold, CpuInvalid, EndCause};
use crate::residency::moment::Length;
use crate::residency::probe::{self, Ended, Wanted};
use crate::residency::sample::Status;
use crate::residency::settings::Settings;
use crate::residency::tally::{Ending, Tally};
use crate::residency::verdict::{
    Backend, BackendReason, BackendSaid, Verdict, VerdictLine, Void, VoidReason,
};
use crate::unit::{BootNs, WallUs};

fn batch(latencies: &[[u64; 4]]) -> super::bench::Outcome {
    let clock = VirtualClock::new(&[0]);
    let mut paced = Paced::new(&clock, latencies, Order::MemoryLast);
    run(Sampler::CatchUp, 200, 2_000, &clock, &mut paced)
}

#[test]
fn t1_t2_points_and_ages_are_exact() {
    let outcome = batch(&[[1, 1, 1, 2]]);
    let settings = Settings::default();
    let mut tally = Tally::new(&settings, Some(Length::of_ms(2_000)));
    let mut points = Vec::new();
    let mut note = |point: &crate::residency::timeline::Point<'_>| {
        let held = point.held.unwrap();
        points.push((
            point.t.0,
            held.k,
            point.age.unwrap().0 / MS,
            point.age_lower.unwrap().0 / MS,
        ));
    };
    for sample in &outcome.samples {
        tally.sample(sample.clone(), &mut note);
    }
    tally.finish(None, &ClockFold::default(), &mut note);
    // Memory is asked for 3 ms into a pass and answers 2 ms later: T0 is 5 ms after the beginning.
    let t0 = BOOT + 5 * MS;
    assert_eq!(points.len(), 41);
    let first: Vec<_> =
        points[..6].iter().map(|(t, k, age, lower)| (t - t0, *k, *age, *lower)).collect();
    let expected = [
        (0, 0, 2, 0),
        (50 * MS, 0, 52, 50),
        (100 * MS, 0, 102, 100),
        (150 * MS, 0, 152, 150),
        // The next pass lands exactly at its point, which holds it.
        (200 * MS, 1, 2, 0),
        (250 * MS, 1, 52, 50),
    ];
    assert_eq!(first, expected);
}

#[test]
fn t13_memory_is_asked_for_last_in_every_pass() {
    let clock = VirtualClock::new(&[0]);
    let mut paced = Paced::new(&clock, &[[1, 1, 1, 1]], Order::MemoryLast);
    let outcome = run(Sampler::CatchUp, 200, 1_000, &clock, &mut paced);
    for pass in paced.calls.chunks(4) {
        assert_eq!(pass, ["utilization", "power", "temperature", "memory"]);
    }
    for sample in &outcome.samples {
        let memory = &sample.fields.memory;
        let others = sample.fields.asked().filter(|asked| asked.name.as_str() != "memory");
        assert!(others.into_iter().all(|asked| asked.after_ns <= memory.before_ns));
        assert_eq!(sample.sample_timestamp_ns, memory.after_ns);
    }
}

#[test]
fn t17_the_timeline_begins_with_the_first_landing() {
    let outcome = batch(&[[2_997, 1, 1, 1], [1, 1, 1, 1]]);
    let (figures, _) = figures(&outcome.samples, &Settings::default(), 2_000);
    assert_eq!(figures.t0_boottime_ns, Some(BootNs(BOOT + 3_000 * MS)));
    assert_eq!((figures.no_sample_point_count, figures.points_required), (0, Some(41)));
}

#[test]
fn t17_without_a_first_landing_the_window_never_begins() {
    let clock = VirtualClock::new(&[0]);
    let mut paced = Paced::new(&clock, &[[1, 1, 1, 1]], Order::MemoryLast);
    paced.memory_status = vec![Status::InvalidValue; 100];
    let wanted = Wanted {
        duration: Some(Length::of_ms(2_000)),
        period: Length::of_ms(200),
        start_timeout: Length::of_ms(10_000),
    };
    let mut samples = Vec::new();
    let ran = probe::run(&mut clock.clone(), &mut paced, wanted, |sample| samples.push(sample));
    assert_eq!((ran.ended, ran.t0), (Ended::NoFirstSample, None));
    assert_eq!(ran.at, BootNs(BOOT + 10_000 * MS));
    let settings = Settings::default();
    let mut tally = Tally::new(&settings, None);
    for sample in samples {
        tally.sample(sample, |_| {});
    }
    let ending = Ending {
        cause: EndCause::NoFirstSample,
        at: ran.at,
        in_flight_since: None,
        rows_not_written: 0,
    };
    let (figures, voids) = tally.finish(Some(ending), &ClockFold::default(), |_| {});
    assert_eq!(voids, [Void { reason: VoidReason::NoFirstSample, count: 1, first_point: None }]);
    assert_eq!((figures.points_required, figures.max_sample_age_ms), (None, None));
    assert_eq!(figures.gpu_query_error_count["memory:invalid_value/999"], 50);
}

#[test]
fn t18_the_first_share_of_the_processor_is_no_share() {
    let mut fold = CpuFold::default();
    // Poisoned: all ticks up to the first reading were busy ones.
    let first = fold.row(0, false, 1_000, 1_000);
    assert_eq!(first.invalid, Some(CpuInvalid::FirstSampleNoBaseline));
    assert_eq!(first.centipercent, None);
    assert_eq!(fold.row(1, false, 1_005, 1_010).centipercent, Some(5_000));
    assert_eq!(fold.row(2, true, 1_010, 1_020).invalid, Some(CpuInvalid::Late));
    // After a gap the next is a first one again.
    assert_eq!(fold.row(3, false, 1_010, 1_030).invalid, Some(CpuInvalid::FirstSampleNoBaseline));
    assert_eq!(fold.row(4, false, 1_010, 1_040).centipercent, Some(0));
    assert_eq!(fold.none().invalid, Some(CpuInvalid::NotRead));
    assert_eq!(fold.row(6, false, 1_010, 1_060).invalid, Some(CpuInvalid::FirstSampleNoBaseline));
    assert_eq!(fold.row(7, false, 1_010, 1_060).invalid, Some(CpuInvalid::NoTick));
}

#[test]
fn t16_every_pair_of_verdicts_has_a_status_of_its_own() {
    let said = |backend| BackendSaid { backend: Some(Ok(backend)), subprocess: Some(false) };
    let void = Void { reason: VoidReason::AgeOverCap, count: 3, first_point: Some(7) };
    let of = |backend, data: &[Void]| {
        let backend = Verdict::backend_reasons(&[said(backend); 3]);
        Verdict { backend, data: data.to_vec() }
    };
    let pairs = [
        (of(Backend::DirectNvml, &[]), 0),
        (of(Backend::Simulated, &[]), 3),
        (of(Backend::DirectNvml, &[void]), 4),
        (of(Backend::Unavailable, &[void]), 5),
    ];
    for (verdict, status) in &pairs {
        assert_eq!(verdict.exit_status(), *status);
        assert_eq!(verdict.accepted(), *status == 0);
    }
    let line = VerdictLine {
        verdict: &pairs[2].0,
        max_sample_age: Some(Length(712_549_000)),
        supremum: None,
        cap: Some(Length::of_ms(750)),
    };
    assert_eq!(
        line.to_string(),
        "GPU_LEDGER_VERDICT backend=pass data=void reasons=age_over_cap:3 \
         max_sample_age_ms=712.549 sup_ms=UNKNOWN cap_ms=750.000"
    );
}

#[test]
fn t6_every_file_must_say_the_same_backend() {
    let good = BackendSaid { backend: Some(Ok(Backend::DirectNvml)), subprocess: Some(false) };
    assert_eq!(Verdict::backend_reasons(&[good; 3]), []);
    assert_eq!(Verdict::backend_reasons(&[]), [BackendReason::KeyMissing]);
    for at in 0..3 {
        let mutants = [
            (BackendSaid { backend: None, ..good }, vec![BackendReason::KeyMissing]),
            (BackendSaid { subprocess: None, ..good }, vec![BackendReason::KeyMissing]),
            (BackendSaid { backend: Some(Err(())), ..good }, vec![BackendReason::Mismatch]),
            (
                BackendSaid { subprocess: Some(true), ..good },
                vec![BackendReason::Mismatch, BackendReason::CliSubprocessUsed],
            ),
            (
                BackendSaid { backend: Some(Ok(Backend::Simulated)), ..good },
                vec![BackendReason::Mismatch, BackendReason::Simulated],
            ),
        ];
        for (mutant, reasons) in mutants {
            let mut said = [good; 3];
            said[at] = mutant;
            assert_eq!(Verdict::backend_reasons(&said), reasons, "file {at}: {mutant:?}");
        }
    }
}

#[test]
fn sleep_and_steps_of_the_wall_clock_are_told_apart() {
    let mut clocks = ClockFold::default();
    let wall = 1_700_000_000_000_000;
    clocks.anchor(BootNs(10_000 * MS), 9_000 * MS, WallUs(wall));
    clocks.anchor(BootNs(11_000 * MS), 10_000 * MS, WallUs(wall + 1_000_000));
    assert_eq!((clocks.wall_step_us, clocks.suspend), (0, Length(0)));
    // The wall clock alone goes an hour ahead.
    clocks.anchor(BootNs(12_000 * MS), 11_000 * MS, WallUs(wall + 3_602_000_000));
    assert_eq!((clocks.wall_step_us, clocks.suspend), (3_600_000_000, Length(0)));
    // Ten minutes of sleep: the wall clock goes on, the monotonic one does not.
    clocks.anchor(BootNs(613_000 * MS), 12_000 * MS, WallUs(wall + 4_203_000_000));
    assert_eq!((clocks.wall_step_us, clocks.suspend), (3_600_000_000, Length::of_ms(600_000)));
    assert!(!clocks.went_back);
    clocks.anchor(BootNs(612_000 * MS), 12_000 * MS, WallUs(wall + 4_203_000_000));
    assert!(clocks.went_back);
}

#[test]
fn a_probe_that_never_returns_a_lost_gpu_and_unwritten_rows_are_void_for_that() {
    let settings = Settings::default();
    let outcome = batch(&[[1, 1, 1, 1]]);
    let end = outcome.samples.last().unwrap().completed();
    let with = |ending: Option<Ending>| {
        let mut tally = Tally::new(&settings, Some(Length::of_ms(2_000)));
        for sample in &outcome.samples {
            tally.sample(sample.clone(), |_| {});
        }
        let (_, voids) = tally.finish(ending, &ClockFold::default(), |_| {});
        voids.iter().map(|void| (void.reason, void.count)).collect::<Vec<_>>()
    };
    let good =
        Ending { cause: EndCause::Duration, at: end, in_flight_since: None, rows_not_written: 0 };
    assert_eq!(with(Some(good)), []);
    assert_eq!(with(None), [(VoidReason::Incomplete, 1)]);
    let stuck = |ms| Ending { in_flight_since: Some(end.minus_ns(ms * MS)), ..good };
    assert_eq!(with(Some(stuck(5_000))), []);
    assert_eq!(with(Some(stuck(5_001))), [(VoidReason::ProbeStuck, 1)]);
    // One that is no reason is told all the same.
    let told = |ending| {
        let tally = Tally::new(&settings, Some(Length::of_ms(2_000)));
        let (figures, _) = tally.finish(Some(ending), &ClockFold::default(), |_| {});
        figures.probe_in_flight_at_end_ms
    };
    assert_eq!(told(good), None);
    assert_eq!(told(stuck(2_400)), Some(Length::of_ms(2_400)));
    let lost = Ending { cause: EndCause::DeviceLost, ..good };
    assert_eq!(with(Some(lost)), [(VoidReason::DeviceLost, 1)]);
    assert_eq!(with(Some(Ending { rows_not_written: 9, ..good })), [(VoidReason::Incomplete, 9)]);
}

#[test]
fn t4_one_point_over_the_cap_voids_every_iteration() {
    let clean = figures(&batch(&[[1, 1, 1, 1]]).samples, &Settings::default(), 2_000).1;
    let stalled = batch(&[[1, 1, 1, 1], [1, 1, 1, 1], [700, 1, 1, 1], [1, 1, 1, 1]]);
    let (_, bad) = figures(&stalled.samples, &Settings::default(), 2_000);
    assert_eq!(clean, []);
    let twelve = (1..=12).map(|iteration| if iteration == 7 { bad.clone() } else { clean.clone() });
    let merged = Verdict::merged(twelve);
    let verdict = Verdict { backend: Vec::new(), data: merged };
    assert_eq!(verdict.exit_status(), 4);
    assert!(verdict.data.iter().any(|void| void.reason == VoidReason::AgeOverCap));
}

#[test]
fn a_driver_that_is_gone_is_a_lost_device_and_one_that_errs_is_not() {
    use crate::residency::sample::{FieldName, Status};
    use crate::unknown::UnknownReason as R;
    let of = |reason, field: FieldName| {
        let mut fields = batch(&[[1, 1, 1, 1]]).samples[0].fields.clone();
        let status = Status::Unknown(reason);
        if field == FieldName::Memory {
            (fields.memory.value, fields.memory.status) = (None, status);
        } else {
            let power = fields.power.as_mut().unwrap();
            (power.value, power.status) = (None, status);
        }
        fields.asked().any(|asked| asked.is_device_gone())
    };
    for gone in [
        R::GpuLost,
        R::GpuResetRequired,
        R::DriverNotLoaded,
        R::DriverLibraryVersionMismatch,
        R::NvmlUninitialized,
    ] {
        assert!(of(gone, FieldName::Memory) && of(gone, FieldName::Power), "{gone:?}");
    }
    assert!(of(R::NvmlInvalidArgument, FieldName::Memory));
    assert!(!of(R::NvmlInvalidArgument, FieldName::Power));
    for errs in [R::NvmlUnknownError, R::ValueNotAvailable, R::NoPermission] {
        assert!(!of(errs, FieldName::Memory), "{errs:?}");
    }
}
