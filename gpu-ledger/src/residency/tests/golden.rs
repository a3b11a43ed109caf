//! Golden vectors G1 to G12, in ms.

use super::bench::{MS, Order, Paced, Sampler, VirtualClock, figures, run};
use crate::residency::moment::Length;
use crate::residency::settings::{AgeGate, Settings};
use crate::residency::timeline::Window;
use crate::residency::verdict::VoidReason;
use crate::unit::BootNs;

fn settings(period_ms: u64) -> Settings {
    Settings { period: Length::of_ms(period_ms), ..Settings::default() }
}

/// All of a pass's latency in its first field, none in memory, so that gaps are those of the loop alone.
fn latencies(ms: &[u64]) -> Vec<[u64; 4]> {
    ms.iter().map(|ms| [*ms, 0, 0, 0]).collect()
}

fn gaps(sampler: Sampler, period: u64, duration: u64, lat: &[u64], wake: &[u64]) -> Vec<u64> {
    let clock = VirtualClock::new(wake);
    let mut paced = Paced::new(&clock, &latencies(lat), Order::MemoryLast);
    run(sampler, period, duration, &clock, &mut paced).gaps()
}

#[test]
fn t10_g1_one_stall_of_512_ms() {
    let (lat, wake) = ([512, 4], [0, 6, 0]);
    assert_eq!(gaps(Sampler::Naive, 250, 1_500, &lat, &wake)[..3], [756, 244, 250]);
    assert_eq!(gaps(Sampler::Burst, 250, 1_500, &lat, &[0])[..3], [512, 4, 234]);
    let clock = VirtualClock::new(&[0]);
    let mut paced = Paced::new(&clock, &latencies(&lat), Order::MemoryLast);
    let outcome = run(Sampler::CatchUp, 250, 1_500, &clock, &mut paced);
    assert_eq!(outcome.gaps()[..3], [512, 238, 250]);
    let counts = outcome.counts;
    assert_eq!((counts.recovery, counts.missed, counts.coalesced), (1, 2, 1));
}

#[test]
fn g2_the_same_interval_by_completion_stamps() {
    let lat = [256, 512, 256];
    let outcome = |sampler| {
        let clock = VirtualClock::new(&[0]);
        let mut paced = Paced::new(&clock, &latencies(&lat), Order::MemoryLast);
        run(sampler, 500, 2_500, &clock, &mut paced)
    };
    assert_eq!(outcome(Sampler::Naive).stamps()[..3], [756, 744, 500]);
    let catch_up = outcome(Sampler::CatchUp);
    assert_eq!(catch_up.stamps()[..3], [756, 256, 488]);
    let counts = catch_up.counts;
    assert_eq!((counts.recovery, counts.missed, counts.coalesced), (1, 1, 0));
}

#[test]
fn t11_g3_sustained_stalls_of_512_ms() {
    for (period, naive, missed, coalesced) in [(250, 750, 24, 12), (500, 1_000, 12, 0)] {
        let clock = VirtualClock::new(&[0]);
        let mut paced = Paced::new(&clock, &latencies(&[512]), Order::MemoryLast);
        // Six seconds from the first beginning.
        let outcome = run(Sampler::CatchUp, period, 6_000 - 512, &clock, &mut paced);
        assert_eq!(outcome.samples.len(), 12);
        assert!(outcome.gaps().iter().all(|gap| *gap == 512));
        let counts = outcome.counts;
        assert_eq!(
            (counts.recovery, counts.missed, counts.coalesced, counts.cut),
            (11, missed, coalesced, 1)
        );
        let gaps = gaps(Sampler::Naive, period, 6_000, &[512], &[0]);
        assert!(gaps.iter().all(|gap| *gap == naive), "{gaps:?}");
    }
}

#[test]
fn g5_a_healthy_driver() {
    let clock = VirtualClock::new(&[0]);
    let mut paced = Paced::new(&clock, &[[1, 1, 1, 1]], Order::MemoryLast);
    let outcome = run(Sampler::CatchUp, 250, 2_000, &clock, &mut paced);
    let (figures, voids) = figures(&outcome.samples, &settings(250), 2_000);
    assert_eq!(voids, []);
    assert_eq!((figures.points_required, figures.points_available), (Some(41), 41));
    assert_eq!(figures.max_sample_age_ms, Some(Length(201 * MS)));
    assert_eq!((figures.deadlines.recovery, figures.gpu_probe_count), (0, 9));
}

#[test]
fn g7_one_stall_of_ten_seconds_is_one_catch_up() {
    let outcome = |sampler| {
        let clock = VirtualClock::new(&[0]);
        let lat = latencies(&[10_000, 3]);
        let mut paced = Paced::new(&clock, &lat, Order::MemoryLast);
        run(sampler, 50, 2_000, &clock, &mut paced)
    };
    let back_to_back = |gaps: Vec<u64>| gaps.into_iter().filter(|gap| *gap == 3).count();
    let catch_up = outcome(Sampler::CatchUp);
    let counts = catch_up.counts;
    assert_eq!((counts.recovery, counts.missed, counts.coalesced), (1, 200, 199));
    assert_eq!(back_to_back(catch_up.gaps()[1..].to_vec()), 0);
    // Why not: every missed deadline made up for, without the driver getting any rest.
    assert!(back_to_back(outcome(Sampler::Burst).gaps()) > 200);
}

#[test]
fn t15_g8_a_full_count_of_stale_samples_is_void() {
    let clock = VirtualClock::new(&[0]);
    let mut paced = Paced::new(&clock, &[[0, 0, 0, 800]], Order::MemoryLast);
    let outcome = run(Sampler::CatchUp, 250, 2_000, &clock, &mut paced);
    let (figures, voids) = figures(&outcome.samples, &settings(250), 2_000);
    let counts = outcome.counts;
    assert_eq!(
        (outcome.samples.len(), counts.recovery, counts.missed, counts.coalesced, counts.cut),
        (4, 3, 12, 8, 1)
    );
    assert_eq!(figures.points_available, 0);
    assert_eq!(figures.max_sample_age_sup_ms, Some(Length(1_600 * MS)));
    assert!(voids.iter().any(|void| void.reason == VoidReason::AllSamplesStale));
}

#[test]
fn g9_both_ends_of_the_window_are_points() {
    for (duration, timeline, points) in [
        (2_000, 50, 41),
        (2_000, 49, 41),
        (2_000, 48, 42),
        (2_000, 51, 40),
        (1_999, 50, 40),
        (50, 50, 2),
        (49, 50, 1),
    ] {
        let window = Window {
            t0: BootNs(7),
            timeline_period: Length::of_ms(timeline),
            duration: Length::of_ms(duration),
        };
        assert_eq!(window.points(), points, "{duration} {timeline}");
        assert!(window.at(points - 1) <= window.end());
    }
}

#[test]
fn t5_g10_an_age_of_the_cap_itself_is_available() {
    for (late_ns, available) in [(0, true), (1, false)] {
        let clock = VirtualClock::new(&[0]);
        let mut paced = Paced::new(&clock, &[[0, 0, 0, 0]], Order::MemoryLast);
        let outcome = run(Sampler::CatchUp, 200, 0, &clock, &mut paced);
        let settings = Settings { cap: Length(750 * MS - late_ns), ..settings(200) };
        // One sample, landed at T0, and a point exactly 750 ms later.
        let (figures, voids) = figures(&outcome.samples[..1], &settings, 750);
        assert_eq!(figures.max_sample_age_ms, Some(Length(750 * MS)));
        assert_eq!(voids.is_empty(), available, "{voids:?}");
    }
}

#[test]
fn g12_a_grid_steps_over_the_worst_moment_in_eight_phases_of_ten() {
    let mut passed = Vec::new();
    for phase in (0..50).step_by(5) {
        let clock = VirtualClock::new(&[0, 6]);
        let mut paced = Paced::new(&clock, &[[509, 1, 1, 1]], Order::MemoryLast);
        let outcome = run(Sampler::Naive, 250, 4_100, &clock, &mut paced);
        let literal = Settings { age_gate: AgeGate::Points, ..settings(250) };
        // The grid begins `phase` after the first landing.
        let (figures, voids) = shifted(&outcome.samples, &literal, phase, 4_000);
        let over = voids.iter().any(|void| void.reason == VoidReason::AgeOverCap);
        if !over {
            assert_eq!(figures.points_available, 81);
            passed.push(phase);
        }
        let both = settings(250);
        let (figures, voids) = shifted(&outcome.samples, &both, phase, 4_000);
        assert_eq!(figures.max_sample_age_sup_ms, Some(Length(757 * MS)), "phase {phase}");
        assert!(voids.iter().any(|void| void.reason == VoidReason::AgeSupOverCap));
    }
    assert_eq!(passed, [10, 15, 20, 25, 30, 35, 40, 45]);
}

/// The figures of a window whose first sample is taken to have landed `phase` later: a grid that is not
/// tied to it.
fn shifted(
    samples: &[crate::residency::sample::Sample],
    settings: &Settings,
    phase_ms: u64,
    duration_ms: u64,
) -> (crate::residency::tally::Figures, Vec<crate::residency::verdict::Void>) {
    let mut samples = samples.to_vec();
    let first = &mut samples[0];
    let shift = phase_ms * MS;
    first.fields.memory.after_ns = first.fields.memory.after_ns.plus_ns(shift);
    first.sample_timestamp_ns = first.sample_timestamp_ns.plus_ns(shift);
    first.landed_at_ns = first.landed_at_ns.map(|landed| landed.plus_ns(shift));
    figures(&samples, settings, duration_ms)
}
