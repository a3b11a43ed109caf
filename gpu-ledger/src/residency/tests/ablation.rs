//! T14: remove any one of the three layers and the batch is refused.

use super::bench::{MS, Order, Paced, Sampler, VirtualClock, figures, run};
use crate::residency::moment::Length;
use crate::residency::settings::Settings;
use crate::residency::verdict::{Backend, BackendReason, BackendSaid, Verdict, VoidReason};

struct Row {
    sampler: Sampler,
    order: Order,
    available: u64,
    max_ms: u64,
    sup_ms: u64,
    /// The longest from one beginning to the next.
    interval_ms: u64,
    valid: bool,
}

/// 2 s, queries of 509 + 1 + 1 + 1 ms, P = 250, Q = 50, cap = 750, the first wake-up 6 ms late.
fn batch(sampler: Sampler, order: Order) -> super::bench::Outcome {
    let clock = VirtualClock::new(&[0, 6, 0]);
    // Memory first still takes 512 ms in all, of which memory takes 1.
    let mut paced = Paced::new(&clock, &[[509, 1, 1, 1]], order);
    run(sampler, 250, 2_000, &clock, &mut paced)
}

#[test]
fn t14_each_layer_alone_is_not_enough() {
    let rows = [
        Row {
            sampler: Sampler::CatchUp,
            order: Order::MemoryLast,
            available: 41,
            max_ms: 501,
            sup_ms: 513,
            interval_ms: 512,
            valid: true,
        },
        Row {
            sampler: Sampler::Naive,
            order: Order::MemoryLast,
            available: 40,
            max_ms: 751,
            sup_ms: 757,
            interval_ms: 756,
            valid: false,
        },
        Row {
            sampler: Sampler::CatchUp,
            order: Order::MemoryFirst,
            available: 20,
            max_ms: 1_012,
            sup_ms: 1_024,
            interval_ms: 512,
            valid: false,
        },
        Row {
            sampler: Sampler::Naive,
            order: Order::MemoryFirst,
            available: 14,
            max_ms: 1_262,
            sup_ms: 1_268,
            interval_ms: 756,
            valid: false,
        },
    ];
    let settings = Settings { period: Length::of_ms(250), ..Settings::default() };
    for row in rows {
        let outcome = batch(row.sampler, row.order);
        let (figures, voids) = figures(&outcome.samples, &settings, 2_000);
        let name = format!("{:?} {:?}", row.sampler, row.order);
        assert_eq!(figures.points_required, Some(41), "{name}");
        assert_eq!(figures.points_available, row.available, "{name}");
        assert_eq!(figures.max_sample_age_ms, Some(Length(row.max_ms * MS)), "{name}");
        assert_eq!(figures.max_sample_age_sup_ms, Some(Length(row.sup_ms * MS)), "{name}");
        // The stall itself, or the stall and the rest of the grid.
        let interval = figures.effective_interval_ms.max;
        assert_eq!(interval, Some(Length(row.interval_ms * MS)), "{name}");
        let over = [VoidReason::AgeOverCap, VoidReason::AgeSupOverCap];
        let is_over = voids.iter().any(|void| over.contains(&void.reason));
        assert_eq!(!is_over, row.valid, "{name}: {voids:?}");
        if row.sampler == Sampler::CatchUp && row.valid {
            assert_eq!(voids, [], "{name}");
        }
    }
}

#[test]
fn t14_the_valid_batch_counts_its_recoveries() {
    let counts = batch(Sampler::CatchUp, Order::MemoryLast).counts;
    assert_eq!((counts.recovery, counts.missed, counts.coalesced, counts.cut), (4, 10, 5, 1));
}

#[test]
fn t14_valid_data_of_a_wrong_backend_is_refused() {
    let outcome = batch(Sampler::CatchUp, Order::MemoryLast);
    let settings = Settings { period: Length::of_ms(250), ..Settings::default() };
    let (_, data) = figures(&outcome.samples, &settings, 2_000);
    for (backend, subprocess, reason) in [
        (Backend::Simulated, false, BackendReason::Simulated),
        (Backend::DirectNvml, true, BackendReason::CliSubprocessUsed),
    ] {
        let said = BackendSaid { backend: Some(Ok(backend)), subprocess: Some(subprocess) };
        let verdict = Verdict { backend: Verdict::backend_reasons(&[said; 3]), data: data.clone() };
        assert_eq!(verdict.backend, [reason]);
        assert_eq!(verdict.exit_status(), 3);
        assert!(!verdict.accepted());
    }
}
