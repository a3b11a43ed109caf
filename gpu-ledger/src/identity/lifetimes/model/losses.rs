//! Histories of which events were lost: what is named must be true, the rest unknown.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn after_a_loss_the_table_says_the_truth_or_that_it_does_not_know(
        steps in steps(80),
        losses in prop::collection::vec(loss(), 1..4),
        lost in any::<u64>(),
        late in any::<u64>(),
        lag in prop_oneof![Just(0), 0..30 * MS],
    ) {
        check_losses(&History::of(&steps), &losses, lost, (late, lag));
    }
}

/// A loss of events, and when it was noticed and procfs read.
#[derive(Clone, Copy, Debug)]
struct Loss {
    from: u64,
    to: u64,
    /// When the table is told of it, after events that came later.
    told: u64,
    /// When procfs was read after it; that it began inside the loss proves nothing.
    began: u64,
    ended: u64,
}

fn loss() -> impl Strategy<Value = Loss> {
    let span = |most: u64| prop_oneof![Just(0), 0..most];
    (0..400 * MS, 0..200 * MS, span(20 * MS), -5..20_i64, span(10 * MS)).prop_map(
        |(from, length, late, began, window)| {
            let (from, to) = (COVERED_FROM + from, COVERED_FROM + from + length);
            let began = to.saturating_add_signed(began * 1_000_000).max(COVERED_FROM);
            Loss { from, to, told: to + late, began, ended: began + window }
        },
    )
}

/// Tells a history with the events in `losses` left out where a bit of `lost` is set, and those with
/// a bit of `late` told by so many nanoseconds too late. Every name must be the true one.
fn check_losses(history: &History, losses: &[Loss], lost: u64, late: (u64, u64)) {
    let bit = |bits: u64, place: usize| bits >> (place % 64) & 1 == 1;
    let is_lost = |at: u64| losses.iter().any(|loss| (loss.from..=loss.to).contains(&at));
    let mut told: Vec<(u64, Told)> = Vec::new();
    for (place, (at, item)) in in_order(history).into_iter().enumerate() {
        let is_event = matches!(item, Told::Event(_));
        if is_event && is_lost(at) && bit(lost, place) {
            continue;
        }
        let lag = if is_event && bit(late.0, place) { late.1 } else { 0 };
        told.push((at + lag, item));
    }
    let mut scans = history.clone();
    scans.looks.clear();
    for loss in losses {
        scans.look(loss.began, loss.ended);
        told.push((loss.told, Told::Loss(BootNs(loss.from), BootNs(loss.to))));
        told.push((loss.told.max(loss.ended), Told::Look(scans.looks.last().unwrap().0.clone())));
    }
    told.sort_by_key(|(at, _)| *at);

    let mut lifetimes = Lifetimes::default();
    lifetimes.reseed(&history.at_the_start());
    for (_, item) in &told {
        tell(&mut lifetimes, item);
    }
    check_indices(&lifetimes);
    // One look after all: the living are found again, and known from then on.
    let end = told.iter().map(|(at, _)| *at).max().unwrap_or(COVERED_FROM) + MS;
    scans.look(end, end);
    let before = lifetimes.clone();
    lifetimes.reseed(&scans.looks.last().unwrap().0);
    check_indices(&lifetimes);
    for (place, truth) in history.processes.iter().enumerate() {
        let exit = truth.exit.unwrap_or(u64::MAX);
        let lived = |at: &u64| (truth.key.start.0..exit).contains(at);
        let moments: Vec<u64> = history.moments().into_iter().filter(lived).collect();
        for lifetimes in [&before, &lifetimes] {
            let Some(lifetime) = lifetimes.get(&truth.key) else { continue };
            for at in &moments {
                let (name, true_name) = (ran(lifetimes, truth.key, *at), history.name(place, *at));
                assert!(
                    name.is_none() || name == true_name,
                    "{at}: {name:?}, in truth {true_name:?}: {lifetime:#?}"
                );
            }
        }
        // Procfs does not tell apart who held a pid within one tick.
        if truth.exit.is_none() && !history.shares_a_tick(place) {
            let lifetime = lifetimes.get(&truth.key).expect("the living are found again");
            assert!(lifetime.ended.is_none(), "{lifetime:#?}");
            let name = ran(&lifetimes, truth.key, end);
            assert_eq!(name, history.name(place, end), "at the end: {lifetime:#?}");
        }
    }
}

/// The birth was lost and known to the tick only, which began before the loss; an exec before the
/// look was lost too.
#[test]
fn a_look_says_nothing_of_the_time_before_an_exec_that_may_have_been_lost_since_the_birth() {
    use Step::{Exec, Exit, Fork, Look};
    let steps = [
        (Fork(0), 37_639_565),
        (Exec(0), 7_436_333),
        (Exec(0), 790_665),
        (Fork(0), 15_983_312),
        (Exec(0), 858_600),
        (Exit(0), 854_386),
        (Exec(0), 760_449),
        (Exec(0), 774_551),
        (Exec(0), 131_728),
        (Fork(0), 825_307),
        (Look(0), 37_333_333),
        (Fork(0), 379_249),
        (Exit(1), 31_126_342),
        (Fork(0), 6_494_233),
        (Fork(0), 969_597),
        (Exec(0), 157_899),
        (Exec(30_937), 39_102_793),
        (Fork(0), 906_809),
        (Exit(1_045), 994_209),
        (Fork(0), 858_222),
        (Exec(0), 0),
        (Exec(10_781), 0),
        (Fork(0), 0),
        (Fork(0), 0),
        (Fork(0), 0),
    ];
    let (from, to) = (COVERED_FROM + 180_000_001, COVERED_FROM + 184_377_604);
    let loss = Loss { from, to, told: to, began: to, ended: to };
    check_losses(&History::of(&steps), &[loss], 1_394_102_961_612_980_224, (0, 0));
}

/// A loss that was told late, and so the look after it: another look, after a later loss, had been told before.
#[test]
fn a_look_that_is_told_after_a_later_one_says_nothing_of_the_time_after_that() {
    use Step::{Exec, Exit, Fork, Look};
    let steps = [
        (Fork(0), 6_031_454),
        (Fork(0), 30_927_646),
        (Exec(0), 29_013_302),
        (Exit(0), 36_344_865),
        (Fork(0), 19_275_442),
        (Exec(0), 24_337_499),
        (Fork(0), 173_460),
        (Exit(11_320), 28_951_027),
        (Exec(0), 14_392_405),
        (Fork(0), 609_777),
        (Exec(0), 24_793_353),
        (Look(0), 503_241),
        (Exit(37_755), 33_681_663),
        (Exec(0), 396_810),
        (Exec(0), 12_199_876),
        (Exec(0), 31_519_040),
        (Exit(26_281), 3_131_928),
        (Fork(0), 35_153_022),
        (Exec(26_311), 37_726_614),
        (Exec(0), 38_811_537),
        (Fork(0), 4_228_279),
        (Exit(367), 342_991),
        (Exec(4261), 12_520_909),
        (Fork(0), 11_715_487),
        (Look(0), 6_002_908),
        (Exec(23_934), 34_650_524),
        (Fork(0), 0),
    ];
    let losses = [
        Loss {
            from: 1_288_821_734,
            to: 1_473_017_519,
            told: 1_491_760_510,
            began: 1_473_017_519,
            ended: 1_473_017_519,
        },
        Loss {
            from: 1_310_715_342,
            to: 1_477_435_086,
            told: 1_477_435_086,
            began: 1_477_435_086,
            ended: 1_477_435_086,
        },
    ];
    check_losses(&History::of(&steps), &losses, 0, (3_782_388_322_788_179_968, 14_325_426));
}
