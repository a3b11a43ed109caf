//! Random journals in money: every split, every dimension, and a count of every millisecond.

use std::collections::{BTreeMap, BTreeSet};

use super::super::closing::random_journal;
use super::{ledger, made, moment, price, priced, prices, span};
use crate::bill::made::{DAY_MS, Journal, Row, program};
use crate::bill::report::{Priced, PricedLine, State};
use crate::bill::{By, SharePolicy};
use crate::journal::entry::OpenKind;
use crate::prices::{Exact, Meter, MeterBasis, PriceList, Rate};
use crate::random::{Random, histories};
use crate::unit::Span;
use crate::unknown::{DisputeReason, GapCause};

/// What is exact, by what it is of.
fn exact(priced: &Priced) -> BTreeMap<String, Exact> {
    let mut sums: BTreeMap<String, Exact> = BTreeMap::new();
    for line in priced.lines.iter().filter(|line| line.basis == MeterBasis::Exact) {
        if let Some(exact) = line.exact {
            let (meter, state, nameless) = (line.meter, line.state, line.nameless);
            let key =
                format!("{meter} {state:?} {:?} {nameless:?} {}", line.account, line.gpu_uuid);
            let sum = sums.entry(key).or_default();
            *sum = sum.checked_add(exact).unwrap();
        }
    }
    sums.retain(|_, exact| *exact != Exact::default());
    sums
}

/// Prices that change within a random journal: of the model, and of one GPU.
pub(in crate::bill::ledger::tests) fn random_prices(random: &mut Random, end_ms: u64) -> PriceList {
    let mut text = String::new();
    for (which, meter) in
        [("NVIDIA H200", "held"), ("GPU-0a2b3c4d", "held"), ("NVIDIA H200", "alone")]
    {
        let mut from = random.below(end_ms);
        for _ in 0..random.below(4) {
            let until = from + 1 + random.below(end_ms / 2 + 1);
            let rate = format!("{}.{:09}", random.below(50), random.below(1_000_000_000));
            let entry = format!(
                "[[price]]\ngpu = \"{which}\"\nmeter = \"{meter}\"\nper_hour = \"{rate}\"\n\
                 from = {}\nuntil = {}\n",
                moment(from),
                moment(until)
            );
            text.push_str(&entry);
            from = until + random.below(2) * random.below(2_000);
        }
    }
    if text.is_empty() {
        text = price("held", "0.123456789");
    }
    prices(&text)
}

#[test]
fn exact_amounts_of_any_split_are_those_of_the_whole_and_printed_lines_are_their_totals() {
    histories(120, |_, random| {
        let (journal, end_ms) = random_journal(random);
        let (ledger, list) = (ledger(&journal), random_prices(random, end_ms.max(2)));
        let dimensions = u64::try_from(By::ALL.len()).unwrap();
        let by = By::ALL[usize::try_from(random.below(dimensions)).unwrap()];
        let whole = span(0, end_ms.max(2));
        let bill = |span: Span| {
            made((&journal, &ledger), span, (by, SharePolicy::None), &list).priced.unwrap()
        };
        let mut edges: BTreeSet<u64> =
            (0..random.below(4)).map(|_| DAY_MS + 1 + random.below(end_ms.max(2) - 1)).collect();
        edges.insert(whole.to_ms());
        let (mut from, mut parts) = (whole.from_ms(), BTreeMap::new());
        for to in edges {
            for (key, more) in exact(&bill(Span::new(from, to).unwrap())) {
                let sum: &mut Exact = parts.entry(key).or_default();
                *sum = sum.checked_add(more).unwrap();
            }
            from = to;
        }
        let all = bill(whole);
        assert_eq!(exact(&all), parts, "by {by}");
        adds_up(&all);
    });
}

/// Whoever adds up the printed amounts gets the printed totals.
fn adds_up(priced: &Priced) {
    let digits = |amount: String| amount.replace('.', "").parse::<u128>().unwrap();
    let printed = |is: &dyn Fn(&&PricedLine) -> bool| {
        let lines = priced.lines.iter().filter(is).filter_map(|line| line.amount);
        lines.map(|amount| digits(amount.to_string())).sum::<u128>()
    };
    for total in &priced.totals {
        let sum = printed(&|line| line.meter == total.meter && line.state == total.state);
        assert_eq!(total.sum.amount.map_or(0, |amount| digits(amount.to_string())), sum);
    }
    let booked = priced.booked.amount.map_or(0, |amount| digits(amount.to_string()));
    assert_eq!(booked, printed(&|line| line.is_booked));
}

/// Who held the GPU at one millisecond, in the order of what counts.
#[derive(Clone, Default)]
struct Moment {
    settled: BTreeSet<usize>,
    open: BTreeSet<usize>,
    unbilled: BTreeSet<usize>,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const LENGTH_MS: u64 = 300;

impl Moment {
    fn present(&self) -> BTreeSet<usize> {
        self.settled.iter().chain(&self.open).chain(&self.unbilled).copied().collect()
    }

    /// As what an account is billed for it.
    fn state(&self, who: usize) -> Option<State> {
        match (self.settled.contains(&who), self.open.contains(&who)) {
            (true, _) => Some(State::Settled),
            (false, true) => Some(State::Open),
            (false, false) => None,
        }
    }
}

/// A journal of a few holders on one GPU, and what it says of every single millisecond.
fn counted_journal(random: &mut Random) -> (Journal, Vec<Moment>) {
    let mut journal = Journal::began(0, 1);
    let mut moments = vec![Moment::default(); usize::try_from(LENGTH_MS).unwrap()];
    for pid in 1..=u32::try_from(random.below(9)).unwrap() {
        let who = usize::try_from(random.below(4)).unwrap();
        let (from, length) = (random.below(LENGTH_MS - 20), 1 + random.below(120));
        let mut until = (from + length).min(LENGTH_MS);
        let mut row = Row::of(NAMES[who], pid, from, length);
        let set: fn(&mut Moment) -> &mut BTreeSet<usize> = match random.below(6) {
            0..=2 => {
                journal.settle(1_000, row);
                |moment| &mut moment.settled
            }
            3 => {
                row.dispute = Some(DisputeReason::ClockStep);
                journal.settle(1_000, row);
                |moment| &mut moment.unbilled
            }
            4 => {
                until = LENGTH_MS;
                journal.open(1_000, OpenKind::Row, 0, pid, from, program(NAMES[who]));
                |moment| &mut moment.open
            }
            _ => {
                until = LENGTH_MS;
                journal.open(from, OpenKind::NoDriverRow, 0, pid, from, program(NAMES[who]));
                |moment| &mut moment.unbilled
            }
        };
        for moment in &mut moments[usize::try_from(from).unwrap()..usize::try_from(until).unwrap()]
        {
            set(moment).insert(who);
        }
    }
    journal.mark(2_000, 1);
    (journal, moments)
}

/// The milliseconds of a meter and state, by account.
fn quantities(priced: &Priced, meter: Meter, state: State) -> BTreeMap<String, u128> {
    let lines = priced.lines.iter().filter(|line| (line.meter, line.state) == (meter, state));
    let name = |line: &PricedLine| line.account.clone().unwrap_or_default();
    lines.map(|line| (name(line), line.quantity_ms.unwrap())).collect()
}

/// The same, counted: `weight` of each millisecond in which an account was in that state.
fn counted(
    moments: &[Moment],
    state: State,
    weight: fn(&Moment) -> u128,
) -> BTreeMap<String, u128> {
    let mut sums = BTreeMap::new();
    for moment in moments {
        for who in moment.present() {
            if moment.state(who) == Some(state) {
                *sums.entry(NAMES[who].to_owned()).or_insert(0) += weight(moment);
            }
        }
    }
    sums.retain(|_, sum| *sum > 0);
    sums
}

#[test]
fn quantities_are_what_counting_milliseconds_says() {
    histories(150, |_, random| {
        let (journal, moments) = counted_journal(random);
        let list = prices(&format!("{}{}", price("held", "1"), price("alone", "1")));
        let found = priced(&journal, span(0, LENGTH_MS), SharePolicy::None, &list);
        for state in [State::Settled, State::Open] {
            let held = counted(&moments, state, |_| 1);
            assert_eq!(quantities(&found, Meter::Held, state), held, "{state:?}");
            let alone = counted(&moments, state, |moment| u128::from(moment.present().len() == 1));
            assert_eq!(quantities(&found, Meter::Alone, state), alone, "{state:?}");
        }
        let free = moments.iter().filter(|moment| moment.present().is_empty()).count();
        let billed: u128 = quantities(&found, Meter::Held, State::Free).values().sum();
        assert_eq!(billed, u128::try_from(free).unwrap());
    });
}

#[test]
fn divided_lines_add_up_to_what_was_held_and_each_has_its_part() {
    histories(150, |_, random| {
        let (journal, moments) = counted_journal(random);
        let list = prices(&price("held", "1"));
        let found = priced(&journal, span(0, LENGTH_MS), SharePolicy::Equal, &list);
        let states = [State::Settled, State::Open, State::Unbilled];
        let divided = states.map(|state| quantities(&found, Meter::Held, state));
        let all: u128 = divided.iter().flat_map(BTreeMap::values).sum();
        let held = moments.iter().filter(|moment| !moment.present().is_empty()).count();
        assert_eq!(all, u128::try_from(held).unwrap());
        assert!(quantities(&found, Meter::Held, State::Undivided).is_empty());
        // Up to four share, and a sixtieth is a whole part of each share: no more is off than the one millisecond
        // that cannot be halved, for each set of those who shared.
        let sets: BTreeSet<_> =
            moments.iter().map(|moment| (moment.present(), moment.settled.clone())).collect();
        let slack = 60 * i128::try_from(sets.len()).unwrap();
        for (state, got) in states.iter().zip(&divided).take(2) {
            let sixtieths = counted(&moments, *state, |moment| {
                60 / u128::try_from(moment.present().len()).unwrap()
            });
            for (name, wanted) in sixtieths {
                let got = 60 * got.get(&name).copied().unwrap_or(0);
                let off = i128::try_from(got).unwrap() - i128::try_from(wanted).unwrap();
                assert!(off.abs() <= slack, "{name} {state:?}: {got} and {wanted} sixtieths");
            }
        }
        adds_up(&found);
    });
}

#[test]
fn every_millisecond_of_a_gpu_is_priced_on_exactly_one_line() {
    histories(200, |_, random| {
        let (mut journal, _) = counted_journal(random);
        for _ in 0..random.below(3) {
            let from = random.below(LENGTH_MS);
            let to = from + random.below(120);
            journal.gap(GapCause::NvmlCallTimeout, Some(0), from, to, None);
            journal.mark(3_000, 1);
        }
        let (ledger, change) = (ledger(&journal), 1 + random.below(LENGTH_MS - 1));
        let list = prices(&format!(
            "{}until = {}\n{}from = {}\n",
            price("held", "0.37"),
            moment(change),
            price("held", "12.345678901"),
            moment(change)
        ));
        let dimensions = u64::try_from(By::ALL.len()).unwrap();
        let by = By::ALL[usize::try_from(random.below(dimensions)).unwrap()];
        for share in [SharePolicy::Equal, SharePolicy::Busy, SharePolicy::Memory] {
            let said = made((&journal, &ledger), span(0, LENGTH_MS), (by, share), &list);
            let found = said.priced.unwrap();
            // What is in dispute stands there as the driver gave it: in no sum.
            let lines = || found.lines.iter().filter(|line| line.state != State::Disputed);
            for stretch in [span(0, change), span(change, LENGTH_MS)] {
                let of = || lines().filter(|line| line.span == stretch);
                let sum: u128 = of().map(|line| line.quantity_ms.unwrap()).sum();
                assert_eq!(sum, u128::from(stretch.length().0), "{share} by {by}: {found:?}");
                let Some(rate) = of().find_map(|line| line.per_hour) else { continue };
                let unknown = of().filter(|line| line.exact.is_none());
                let unknown: u128 = unknown.map(|line| line.quantity_ms.unwrap()).sum();
                let exact = of()
                    .filter_map(|line| line.exact)
                    .try_fold(Exact::default(), Exact::checked_add);
                assert_eq!(exact, Exact::of(sum - unknown, rate));
            }
        }
    });
}

#[test]
fn every_dimension_and_policy_can_be_priced_and_a_gpus_lines_are_what_it_was_held() {
    let rate: Rate = prices(&price("held", "1")).prices()[0].per_hour;
    histories(40, |_, random| {
        let (journal, end_ms) = random_journal(random);
        let (ledger, list) = (ledger(&journal), prices(&price("held", "1")));
        let span = span(0, end_ms.max(2));
        for by in By::ALL {
            for share in SharePolicy::ALL {
                adds_up(&made((&journal, &ledger), span, (by, share), &list).priced.unwrap());
            }
        }
        // By GPU and without a policy the settled line is the union of everything that has a name.
        let by_gpu = made((&journal, &ledger), span, (By::Gpu, SharePolicy::None), &list);
        for line in &by_gpu.accounts {
            let of_line = by_gpu.priced.as_ref().unwrap().lines.iter().filter(|priced| {
                priced.account.as_deref() == Some(&*line.account) && priced.state == State::Settled
            });
            let sum = of_line
                .filter_map(|line| line.exact)
                .try_fold(Exact::default(), Exact::checked_add);
            assert_eq!(sum, Exact::of(line.held_ms.0.into(), rate));
        }
    });
}
