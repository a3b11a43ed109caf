use proptest::prelude::*;

use super::*;
use crate::unit::{Pid, WallUs};

fn gpu() -> GpuUuid {
    GpuUuid("GPU-a".into())
}

fn key(pid: u32) -> RowKey {
    RowKey { gpu: gpu(), pid: Pid(pid), start: WallUs(1) }
}

fn at(ms: u64) -> BootNs {
    BootNs(ms * MS)
}

fn account(name: &str) -> AccountLabel {
    AccountLabel { account: name.into(), named_by: Some(NamedBy::Rule) }
}

impl HeldMeter {
    fn count(&self, name: &str) -> HeldCount {
        let found = self.counts().find(|(_, label, _)| *label.account == *name);
        found.map_or_else(HeldCount::default, |(_, _, count)| count)
    }

    /// Advances with everything read.
    fn to(&mut self, now: u64) {
        self.advance(&gpu(), at(now), at(now));
    }
}

/// Late enough for every span.
const LATER: BootNs = BootNs(u64::MAX);

/// Counters of an earlier run.
fn had(held: u64) -> HeldCount {
    HeldCount { held: Ms(held), ..HeldCount::default() }
}

const HOUR: u64 = 3_600_000;

#[test]
fn a_process_of_an_hour_is_flat_and_nothing_arrives_at_its_exit() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    let (began, ended) = (60_300, 60_300 + HOUR);
    let (mut before, mut steps) = (0, BTreeMap::<u64, u64>::new());
    for now in (0..ended + 60_000).step_by(250) {
        // Seen open up to half a second late, booked two seconds after its end.
        if now == began + 450 {
            meter.open(&key(1), &account("train"), at(began));
        }
        if now == ended - 300 + 2_250 {
            meter.settle(&key(1), &account("train"), (at(began), Ms(HOUR)), LATER);
        }
        meter.to(now);
        if now % 15_000 == 0 {
            let held = meter.count("train").held.0;
            *steps.entry(held - before).or_default() += 1;
            before = held;
        }
    }
    assert_eq!(meter.count("train"), HeldCount { held: Ms(HOUR), ..HeldCount::default() });
    // Whole scrapes, one partial at either end, and nothing before and after.
    assert_eq!(steps.get(&15_000), Some(&239), "{steps:?}");
    assert!(steps.keys().all(|step| *step <= 15_000), "{steps:?}");
}

#[test]
fn many_processes_of_one_account_are_one_second_a_second() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    for pid in 0..50 {
        meter.open(&key(pid), &account("workers"), at(u64::from(pid)));
    }
    meter.to(10_000);
    meter.to(70_000);
    assert_eq!(meter.count("workers").held, Ms(60_000));
}

#[test]
fn short_jobs_that_are_learnt_after_their_end_are_counted_whole() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    for job in 0..1_000_u32 {
        let from = u64::from(job) * 50;
        meter.settle(&key(job), &account("whisper"), (at(from), Ms(5)), LATER);
        meter.to(from + 900);
    }
    meter.to(1_000_000);
    assert_eq!(meter.count("whisper"), HeldCount { held: Ms(5_000), ..HeldCount::default() });
}

#[test]
fn time_in_which_nothing_could_be_read_does_not_arrive_at_once() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    meter.open(&key(1), &account("a"), at(0));
    for now in (0..=20_000).step_by(250) {
        meter.to(now);
    }
    assert_eq!(meter.count("a").held, Ms(10_000));
    // The driver hangs for ten minutes.
    for now in (20_250..=620_000).step_by(250) {
        meter.advance(&gpu(), at(now), at(20_000));
    }
    assert_eq!(meter.count("a").held, Ms(20_000), "what is not seen is not counted");
    meter.to(620_250);
    let count = meter.count("a");
    assert_eq!(count.held, Ms(20_250));
    assert_eq!(count.adjusted_up, Ms(620_250 - 10_000 - 20_250));
}

#[test]
fn a_settlement_that_differs_from_what_accrued_is_an_adjustment() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    meter.open(&key(1), &account("a"), at(0));
    meter.to(30_000);
    meter.settle(&key(1), &account("a"), (at(0), Ms(12_000)), LATER);
    meter.to(40_000);
    let count = meter.count("a");
    assert_eq!((count.held, count.adjusted_down), (Ms(20_000), Ms(8_000)));
    // Another row fills time that the counter has passed without it.
    meter.settle(&key(2), &account("a"), (at(15_000), Ms(3_000)), LATER);
    meter.to(40_250);
    assert_eq!((meter.count("a").held, meter.count("a").adjusted_up), (Ms(20_000), Ms(3_000)));
}

#[test]
fn a_row_that_is_named_late_moves_to_its_account() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    meter.open(&key(1), &account(LABEL_UNATTRIBUTED), at(0));
    meter.to(30_000);
    meter.open(&key(1), &account("a"), at(0));
    meter.to(31_000);
    let nameless = meter.count(LABEL_UNATTRIBUTED);
    assert_eq!((nameless.held, nameless.adjusted_down), (Ms(20_000), Ms(20_000)));
    let named = meter.count("a");
    assert_eq!((named.held, named.adjusted_up), (Ms(1_000), Ms(20_000)));
}

#[test]
fn corrections_have_counters_of_their_own() {
    let mut meter = HeldMeter::default();
    meter.resume(&gpu(), (at(0), at(0)), [(account("a"), had(5_000)), (account("b"), had(1))]);
    meter.correct(&gpu(), &account("a"), Ms(700), Ms(0));
    meter.correct(&gpu(), &account("b"), Ms(0), Ms(700));
    meter.to(60_000);
    let (a, b) = (meter.count("a"), meter.count("b"));
    assert_eq!((a.held, a.adjusted_down, a.adjusted_up), (Ms(5_000), Ms(700), Ms(0)));
    assert_eq!((b.held, b.adjusted_down, b.adjusted_up), (Ms(1), Ms(0), Ms(700)));
}

#[test]
fn a_restart_goes_on_from_where_the_counters_stood() {
    let mut meter = HeldMeter::default();
    // Counted up to 100 s, started again at 160 s; the row has been open since 10 s.
    let before = HeldCount { held: Ms(90_020), adjusted_down: Ms(20), ..HeldCount::default() };
    meter.resume(&gpu(), (at(100_000), at(160_000)), [(account("a"), before)]);
    meter.open(&key(1), &account("a"), at(10_000));
    assert_eq!(meter.count("a"), before);
    meter.to(163_000);
    // Three seconds have passed on the counters; the rest was held while nobody counted.
    let count = meter.count("a");
    assert_eq!((count.held, count.adjusted_up), (Ms(90_020 + 3_000), Ms(50_000)));
    assert_eq!((count.adjusted_down, count.unplaced), (Ms(20), Ms(0)));
    meter.settle(&key(1), &account("a"), (at(10_000), Ms(145_000)), LATER);
    meter.to(200_000);
    let count = meter.count("a");
    assert_eq!(count.held.0 + count.adjusted_up.0 - count.adjusted_down.0, 145_000);
    assert_eq!(count.unplaced, Ms(0));
}

#[test]
fn what_was_held_before_metering_began_is_told_apart() {
    let mut meter = HeldMeter::default();
    meter.open(&key(1), &account("a"), at(0));
    meter.settle(&key(2), &account("b"), (at(0), Ms(5_000)), LATER);
    meter.to(HOUR);
    meter.to(HOUR + 1_000);
    assert_eq!(meter.count("a").held, Ms(1_000), "three thousand seconds did not arrive");
    assert_eq!(meter.count("b"), HeldCount { unplaced: Ms(5_000), ..HeldCount::default() });
}

#[test]
fn a_row_that_reaches_into_the_future_does_not_count_for_ever() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    meter.to(50_000);
    meter.settle(&key(1), &account("a"), (at(45_000), Ms(u64::MAX)), at(59_999));
    for now in (50_250..200_000).step_by(250) {
        meter.to(now);
    }
    assert_eq!(meter.count("a").held, Ms(15_000));
    assert!(meter.count("a").unplaced > Ms(1 << 60));
}

#[test]
fn a_row_counts_whole_however_long_ago_the_last_page_was() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    meter.to(15_000);
    // Pages are made every quarter of a minute, which is longer than the counters trail.
    meter.settle(&key(1), &account("a"), (at(26_000), Ms(3_000)), at(29_100));
    meter.to(30_000);
    meter.to(45_000);
    assert_eq!(meter.count("a"), HeldCount { held: Ms(3_000), ..HeldCount::default() });
}

#[test]
fn two_hundred_accounts_have_a_label_and_keep_it() {
    let mut meter = HeldMeter::default();
    meter.begin(&gpu(), at(0));
    for pid in 1..=300 {
        meter.settle(
            &key(pid),
            &account(&format!("a{pid}")),
            (at(u64::from(pid) * 10), Ms(5)),
            LATER,
        );
    }
    meter.settle(&key(301), &account("a3"), (at(3_500), Ms(5)), LATER);
    meter.settle(&key(302), &AccountLabel::own(LABEL_UNATTRIBUTED), (at(3_600), Ms(5)), LATER);
    meter.to(60_000);
    assert_eq!(meter.count("a3").held, Ms(10));
    assert_eq!(meter.count(LABEL_UNATTRIBUTED).held, Ms(5));
    let labels: BTreeSet<_> = meter.counts().map(|(_, label, _)| label.clone()).collect();
    assert_eq!(labels.len(), ACCOUNT_LABELS_MAX + 1);
    assert_eq!(meter.count(LABEL_OTHER).held, Ms((300 - 199) * 5));
    assert_eq!(meter.folded_accounts(), 300 - 199);
}

#[test]
fn intervals_that_are_summed_up_change_no_count() {
    let run = |intervals_max| {
        let mut meter = HeldMeter { intervals_max, ..HeldMeter::default() };
        meter.begin(&gpu(), at(0));
        meter.open(&key(9_999), &account("a"), at(70_000));
        for job in 0..5_000_u32 {
            meter.settle(&key(job), &account("a"), (at(u64::from(job) * 20), Ms(7)), LATER);
            meter.to(u64::from(job) * 20 + 8);
        }
        meter.settle(&key(9_999), &account("a"), (at(70_000), Ms(25_000)), LATER);
        meter.to(200_000);
        meter.count("a")
    };
    let expected = Ms(3_500 * 7 + 25_000 + 250 * 7);
    assert_eq!(run(INTERVALS_MAX).held, expected);
    assert_eq!(run(3), run(INTERVALS_MAX));
}

/// What may happen between two advances.
#[derive(Clone, Debug)]
enum Step {
    Open { pid: u32, account: u8, age: u64 },
    Settle { pid: u32, account: u8, age: u64, held: u64 },
    Lose { pid: u32 },
    Correct { account: u8, from: u64, to: u64 },
    Advance { pass: u64, unread: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (pid, account) = (0_u32..6, 0_u8..3);
    prop_oneof![
        3 => (pid.clone(), account.clone(), 0_u64..40_000)
            .prop_map(|(pid, account, age)| Step::Open { pid, account, age }),
        4 => (pid.clone(), account.clone(), 0_u64..60_000, 0_u64..50_000)
            .prop_map(|(pid, account, age, held)| Step::Settle { pid, account, age, held }),
        1 => pid.prop_map(|pid| Step::Lose { pid }),
        1 => (account, 0_u64..900, 0_u64..900)
            .prop_map(|(account, from, to)| Step::Correct { account, from, to }),
        9 => (0_u64..8_000, prop_oneof![4 => Just(0_u64), 1 => 0_u64..40_000])
            .prop_map(|(pass, unread)| Step::Advance { pass, unread }),
    ]
}

/// The same, kept as what was said and measured millisecond by millisecond (in steps of 100 ms, to be
/// quick: every moment of a step is rounded to one).
#[derive(Default)]
struct Model {
    settled: [Vec<(u64, u64)>; 3],
    open: BTreeMap<u32, (usize, u64)>,
    base: [i128; 3],
    frontier: u64,
}

impl Model {
    fn union(&self, account: usize, began: u64) -> i128 {
        let held = |ms: u64| {
            self.settled[account].iter().any(|(from, to)| (*from..*to).contains(&ms))
                || self.open.values().any(|(of, from)| *of == account && ms >= *from)
        };
        let count = (began..self.frontier).step_by(100).filter(|ms| held(*ms)).count();
        self.base[account] + i128::try_from(count).unwrap() * 100
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn counters_rise_by_no_more_than_time_passes_and_add_up_to_the_union(
        steps in prop::collection::vec(step(), 1..60),
        sums in prop::array::uniform3(0_u64..100_000),
    ) {
        let began = 50_000_u64;
        let names = ["a", "b", "c"];
        let mut meter = HeldMeter::default();
        let mut model = Model { frontier: began, ..Model::default() };
        let known = names.iter().zip(sums).map(|(name, sum)| (account(name), had(sum)));
        meter.resume(&gpu(), (at(began), at(began)), known);
        for (base, sum) in model.base.iter_mut().zip(sums) {
            *base = i128::from(sum);
        }
        let mut now = began;
        let mut before = names.map(|name| meter.count(name));
        for step in steps {
            let mut passed = 0;
            match step {
                Step::Open { pid, account: of, age } => {
                    let from = (now - age.min(now)) / 100 * 100;
                    meter.open(&key(pid), &account(names[usize::from(of)]), at(from));
                    model.open.insert(pid, (usize::from(of), from));
                }
                Step::Settle { pid, account: of, age, held } => {
                    let (from, held) = ((now - age.min(now)) / 100 * 100, held / 100 * 100);
                    meter.settle(&key(pid), &account(names[usize::from(of)]), (at(from), Ms(held)), at(now + DELAY_MS - 1));
                    model.open.remove(&pid);
                    let to = (from + held).min(now + DELAY_MS);
                    model.settled[usize::from(of)].push((from, to));
                }
                Step::Lose { pid } => {
                    meter.lose(&key(pid));
                    model.open.remove(&pid);
                }
                Step::Correct { account: of, from, to } => {
                    meter.correct(&gpu(), &account(names[usize::from(of)]), Ms(from), Ms(to));
                    model.base[usize::from(of)] += i128::from(to) - i128::from(from);
                }
                Step::Advance { pass, unread } => {
                    passed = pass / 100 * 100;
                    now += passed;
                    let read = (now - unread.min(now)) / 100 * 100;
                    meter.advance(&gpu(), at(now), at(read));
                    let wanted = now.saturating_sub(DELAY_MS).min(read);
                    model.frontier = model.frontier.max(wanted);
                }
            }
            for (index, name) in names.into_iter().enumerate() {
                let count = meter.count(name);
                let last = std::mem::replace(&mut before[index], count);
                prop_assert!(count.held >= last.held && count.held.0 - last.held.0 <= passed);
                prop_assert!(count.adjusted_up >= last.adjusted_up);
                prop_assert!(count.adjusted_down >= last.adjusted_down);
                prop_assert!(count.unplaced >= last.unplaced);
            }
        }
        // What was said since the last advance is counted with the next.
        meter.advance(&gpu(), at(now), at(0));
        for (index, name) in names.into_iter().enumerate() {
            let count = meter.count(name);
            let sum = i128::from(count.held.0) + i128::from(count.adjusted_up.0)
                - i128::from(count.adjusted_down.0);
            prop_assert_eq!(sum, model.union(index, began), "{}: {:?}", name, count);
        }
    }
}
