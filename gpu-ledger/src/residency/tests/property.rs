//! T3, T12 and the rest that must hold of any latencies.

use proptest::prelude::*;

use super::bench::{BOOT, MS, Order, Paced, Sampler, VirtualClock, figures, run};
use crate::residency::moment::Length;
use crate::residency::sample::Status;
use crate::residency::settings::Settings;
use crate::residency::verdict::VoidReason;

#[derive(Clone, Debug)]
struct Load {
    period: u64,
    latencies: Vec<[u64; 4]>,
    wake: Vec<u64>,
    errors: Vec<bool>,
}

fn loads() -> impl Strategy<Value = Load> {
    let call = || prop_oneof![8 => 0_u64..5, 2 => 0_u64..300, 1 => 0_u64..2_000];
    let pass = [call(), call(), call(), call()];
    let wake = prop_oneof![5 => Just(0_u64), 3 => 0_u64..10, 1 => 0_u64..400];
    (
        prop_oneof![Just(50_u64), Just(200), Just(250), 10_u64..600],
        prop::collection::vec(pass, 1..40),
        prop::collection::vec(wake, 1..40),
        prop::collection::vec(prop::bool::weighted(0.1), 0..40),
    )
        .prop_map(|(period, latencies, wake, errors)| Load { period, latencies, wake, errors })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn t12_every_missed_deadline_is_accounted_for(load in loads()) {
        let clock = VirtualClock::new(&load.wake);
        let mut paced = Paced::new(&clock, &load.latencies, Order::MemoryLast);
        paced.memory_status = load
            .errors
            .iter()
            .map(|error| if *error { Status::InvalidValue } else { Status::Ok })
            .collect();
        let outcome = run(Sampler::CatchUp, load.period, 4_000, &clock, &mut paced);
        let (samples, counts) = (&outcome.samples, outcome.counts);
        prop_assert!(counts.balance(), "{counts:?}");
        let recoveries = samples.iter().filter(|sample| sample.recovery).count();
        prop_assert_eq!(u64::try_from(recoveries).unwrap(), counts.recovery);
        let period = load.period * MS;
        for pair in samples.windows(2) {
            let [before, after] = pair else { unreachable!() };
            // At most one probe a deadline, and never two in flight.
            prop_assert!(after.k > before.k);
            prop_assert!(after.begin_ns >= before.completed());
            // Never waits for a later grid point than the next one.
            let duration = before.completed().0 - before.begin_ns.0;
            let gap = after.begin_ns.0 - before.begin_ns.0;
            let late = load.wake.iter().max().unwrap() * MS;
            prop_assert!(gap <= period.max(duration) + late, "{gap}");
            if after.recovery {
                prop_assert_eq!(after.begin_ns, before.completed());
            } else {
                // On the grid, whose phase is kept.
                let since = after.begin_ns.0 - BOOT;
                prop_assert!(since >= after.k * period && since <= after.k * period + late);
            }
        }
        // What is told again from the rows alone is the same.
        let settings = Settings { period: Length(period), cap: Length::of_ms(750), ..Settings::default() };
        let (figures, voids) = figures(samples, &settings, 4_000);
        prop_assert_eq!(figures.deadlines, counts);
        let mismatch = voids.iter().any(|void| void.reason == VoidReason::SampleAccountingMismatch);
        prop_assert!(!mismatch, "{voids:?}");
        // T3: no point is older than the supremum.
        prop_assert!(figures.max_sample_age_ms <= figures.max_sample_age_sup_ms);
    }

    #[test]
    fn rows_that_were_changed_do_not_account_for_themselves(load in loads(), at in 0_usize..40) {
        let clock = VirtualClock::new(&load.wake);
        let mut paced = Paced::new(&clock, &load.latencies, Order::MemoryLast);
        let mut samples = run(Sampler::CatchUp, load.period, 4_000, &clock, &mut paced).samples;
        let settings = Settings { period: Length::of_ms(load.period), ..Settings::default() };
        let at = at % samples.len();
        samples[at].recovery = !samples[at].recovery;
        let (_, voids) = figures(&samples, &settings, 4_000);
        prop_assert!(voids.iter().any(|void| void.reason == VoidReason::SampleAccountingMismatch));
    }
}

#[test]
fn t21_the_duty_cycle_is_what_the_driver_was_kept_busy() {
    let clock = VirtualClock::new(&[0]);
    let mut paced = Paced::new(&clock, &[[10, 5, 3, 2]], Order::MemoryLast);
    let outcome = run(Sampler::CatchUp, 200, 60_000, &clock, &mut paced);
    let (figures, _) = figures(&outcome.samples, &Settings::default(), 60_000);
    // 20 ms of every 200 ms.
    let ppm = figures.probe_duty_cycle_ppm.unwrap();
    assert!(ppm.abs_diff(100_000) <= 1_000, "{ppm}");
    // One that is busy all the time is so for all of the time, and never for more.
    let clock = VirtualClock::new(&[0]);
    let mut paced = Paced::new(&clock, &[[100, 50, 100, 50]], Order::MemoryLast);
    let outcome = run(Sampler::CatchUp, 200, 3_000, &clock, &mut paced);
    let (figures, _) = super::bench::figures(&outcome.samples, &Settings::default(), 3_000);
    assert_eq!(figures.probe_duty_cycle_ppm, Some(1_000_000));
}
