//! The harvest against random histories of the model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::model::{Key, Lost, Model, handed_out, harvest};
use crate::accounting::reading::{Finding, Observation};
use crate::coverage::Gap;
use crate::unit::BootNs;
use crate::unknown::GapCause;

#[derive(Clone, Debug)]
enum Step {
    Open(u32),
    Close(u32),
    Reopen(u32),
    Burst(u32),
    Clear,
    Mode(bool),
    RowsFail(bool),
    Read { sweep: bool, exits: bool, between: Vec<Step> },
}

fn pid() -> impl Strategy<Value = u32> {
    1_u32..8
}

fn quiet_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => pid().prop_map(Step::Open),
        6 => pid().prop_map(Step::Close),
        3 => pid().prop_map(Step::Reopen),
        2 => (1_u32..10).prop_map(Step::Burst),
        1 => (120_u32..140).prop_map(Step::Burst),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let read = (any::<bool>(), any::<bool>(), prop::collection::vec(quiet_step(), 0..4))
        .prop_map(|(sweep, exits, between)| Step::Read { sweep, exits, between });
    let still = (any::<bool>(), any::<bool>()).prop_map(|(sweep, exits)| Step::Read {
        sweep,
        exits,
        between: Vec::new(),
    });
    prop_oneof![
        16 => quiet_step(),
        1 => Just(Step::Clear),
        1 => any::<bool>().prop_map(Step::Mode),
        1 => any::<bool>().prop_map(Step::RowsFail),
        8 => still,
        4 => read,
    ]
}

/// Rows that come and go, before reads and between their questions, at a full store more often than not.
fn uncleared_step() -> impl Strategy<Value = Step> {
    let quiet = prop::collection::vec(quiet_step(), 0..4);
    let busy = prop::collection::vec((1_u32..4).prop_map(Step::Burst), 0..12);
    let read = |between| {
        (any::<bool>(), any::<bool>(), between).prop_map(|(sweep, exits, between)| Step::Read {
            sweep,
            exits,
            between,
        })
    };
    prop_oneof![
        6 => quiet_step(),
        2 => (1_u32..60).prop_map(Step::Burst),
        3 => read(quiet.boxed()),
        6 => read(busy.boxed()),
    ]
}

fn apply(model: &mut Model, step: &Step) {
    model.pass(300);
    match step {
        Step::Open(pid) => model.open(*pid),
        Step::Close(pid) => model.close(*pid),
        Step::Reopen(pid) => {
            model.close(*pid);
            model.pass(50);
            model.open(*pid);
        }
        Step::Burst(jobs) => model.burst(*jobs),
        Step::Clear => model.clear(),
        Step::Mode(on) => model.set_mode(*on),
        Step::RowsFail(fail) => model.rows_fail = *fail,
        Step::Read { .. } => {}
    }
}

/// What the history showed, next to what the harvest made of it.
#[derive(Default)]
struct Account {
    handed: BTreeMap<Key, u32>,
    /// Final at the list of some read and still at its end.
    visible: BTreeSet<Key>,
    /// Shown open, under its own start.
    opened: BTreeSet<Key>,
    gaps: Vec<Gap>,
    /// Boot µs between the list and the end of each read.
    reads: Vec<(u64, u64)>,
    /// When the harvest knew no dead row: a clear then leaves no trace.
    blind: Vec<(u64, u64)>,
    first_read_us: Option<u64>,
}

impl Account {
    fn take(&mut self, seen: &Observation, visible: BTreeSet<Key>) {
        for key in handed_out(seen) {
            *self.handed.entry(key).or_default() += 1;
        }
        self.visible.extend(visible);
        for finding in &seen.findings {
            match finding {
                Finding::Opened(row) => {
                    self.opened.extend(row.start.map(|start| (row.pid, start.0)));
                }
                Finding::Gap(gap) => self.gaps.push(gap.clone()),
                _ => {}
            }
        }
    }

    fn covered(&self, lost_us: u64) -> bool {
        let at = BootNs(lost_us * 1_000);
        self.gaps.iter().any(|gap| gap.from.boot <= at && at <= gap.to.boot)
    }
}

fn start_us(key: Key) -> u64 {
    key.1 - 1_700_000_000_000_000
}

fn run(steps: &[Step]) -> (Model, Account) {
    let (mut model, mut harvest) = (Model::on(), harvest());
    let mut account = Account::default();
    let mut blind_since = None;
    let first = Step::Read { sweep: false, exits: true, between: Vec::new() };
    let last = Step::Read { sweep: true, exits: true, between: Vec::new() };
    for step in [&first].into_iter().chain(steps).chain([&last]) {
        let Step::Read { sweep, exits, between } = step else {
            apply(&mut model, step);
            continue;
        };
        let deaths = std::mem::take(&mut model.deaths);
        let began = model.now_us;
        let mut rest = between.iter();
        let (seen, visible) = model.read(&mut harvest, exits.then_some(deaths), *sweep, |model| {
            if let Some(step) = rest.next() {
                apply(model, step);
            }
        });
        account.first_read_us.get_or_insert(began);
        account.take(&seen, visible);
        account.reads.push((began, model.now_us));
        if let Some(since) = blind_since.take() {
            account.blind.push((since, model.now_us));
        }
        if harvest.dead_rows() == Some(0) {
            blind_since = Some(began);
        }
    }
    let closing = Observation { findings: harvest.in_doubt(model.stamp()), unknowns: Vec::new() };
    account.take(&closing, BTreeSet::new());
    (model, account)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_row_twice_none_visible_missed_and_every_loss_covered(
        steps in prop::collection::vec(step(), 1..40)
    ) {
        let (model, account) = run(&steps);
        for (key, times) in &account.handed {
            prop_assert_eq!(*times, 1, "{:?} handed out {} times", key, times);
        }
        for key in &account.visible {
            prop_assert!(account.handed.contains_key(key), "{:?} was visible", key);
        }
        for (key, (how, at)) in &model.lost {
            if account.handed.contains_key(key) {
                continue;
            }
            // Opened after a list and lost before the read's end: no list could show it.
            let within = |(from, to): &(u64, u64)| *from <= start_us(*key) && *at <= *to;
            let within_a_read = account.reads.iter().any(within);
            // Cleared away, with all that was lost before, from a store in which no row was known.
            let cleared_unseen = account.blind.iter().any(|(from, to)| {
                let cleared = model.clears.iter().any(|clear| at <= clear && clear <= to);
                from <= at && at <= to && cleared
            });
            let invisible = match how {
                Lost::Replaced | Lost::ThrownAway => !account.opened.contains(key),
                Lost::Cleared | Lost::Evicted => {
                    cleared_unseen && !account.opened.contains(key)
                }
            };
            prop_assert!(
                invisible || within_a_read || account.covered(*at),
                "{:?} {:?} at {} is in no gap: {:?}", key, how, at, account.gaps
            );
        }
    }

    #[test]
    fn sizes_are_lower_bounds(steps in prop::collection::vec(step(), 1..40)) {
        let (model, account) = run(&steps);
        for gap in &account.gaps {
            let Some(size) = gap.size else { continue };
            let stored = model.unreadable().filter(|key| !account.handed.contains_key(key));
            let lost = model.lost.iter().filter(|(key, (_, at))| {
                let at = BootNs(at * 1_000);
                gap.from.boot <= at && at <= gap.to.boot && !account.handed.contains_key(key)
            });
            let lost = u64::try_from(lost.count() + stored.count()).unwrap();
            prop_assert!(size <= lost, "{gap:?} counts {size}, but {lost} were lost");
        }
    }

    #[test]
    fn a_row_is_counted_as_lost_once(steps in prop::collection::vec(step(), 1..40)) {
        let (model, account) = run(&steps);
        let counted: u64 = account.gaps.iter().filter_map(|gap| gap.size).sum();
        let unread = |key: &Key| !account.handed.contains_key(key);
        let lost = model.lost.keys().filter(|key| unread(key)).count();
        // What is still stored, and cannot be read when the last read is over, is lost as well.
        let stored = model.unreadable().filter(unread).count();
        let lost = u64::try_from(lost + stored).unwrap();
        prop_assert!(counted <= lost, "{:?} count {counted}, but {lost} were lost", account.gaps);
    }

    #[test]
    fn a_store_that_nobody_cleared_is_never_said_to_have_been(
        steps in prop::collection::vec(uncleared_step(), 1..40)
    ) {
        // One runs throughout: a list of which nothing at all is found looks like that of a reset driver.
        let steps: Vec<Step> = [Step::Open(999)].into_iter().chain(steps).collect();
        let (_, account) = run(&steps);
        let cleared = |gap: &&Gap| gap.cause == GapCause::ClearedOrReset;
        prop_assert_eq!(account.gaps.iter().find(cleared), None);
    }

    #[test]
    fn a_history_without_loss_has_no_gap(
        jobs in prop::collection::vec((1_u32..5, 1_u32..40), 1..40)
    ) {
        let (mut model, mut harvest) = (Model::on(), harvest());
        model.read_quietly(&mut harvest);
        let mut handed = 0;
        // At most 40 deaths between reads: one row of the last list always survives.
        for (_, burst) in &jobs {
            model.burst(*burst);
            let seen = model.read_quietly(&mut harvest);
            handed += handed_out(&seen).len();
            let gap = seen.findings.iter().find(|finding| matches!(finding, Finding::Gap(_)));
            prop_assert!(gap.is_none(), "{gap:?}");
        }
        let all: u32 = jobs.iter().map(|job| job.1).sum();
        prop_assert_eq!(handed, usize::try_from(all).unwrap());
    }
}
