//! Random histories against a model that knows everything.
//!
//! The truth is made first: processes that fork, exec, exit and reuse pids. Then it is told to the
//! table in part and out of order, and what the table answers is compared with the truth.

mod losses;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::tests::{MS, exec, exit, fork, key, ran, seen, snapshot};
use super::*;
use crate::identity::Snapshot;

/// Coverage begins here; the first processes are older.
const COVERED_FROM: u64 = 1_000 * MS;

/// Execs of one process, few enough that no image is cut.
const EXECS_MAX: usize = IMAGES_MAX - 2;

#[derive(Clone, Copy, Debug)]
enum Step {
    Fork(usize),
    Exec(usize),
    Exit(usize),
    Look(u64),
}

/// One process as it really was.
#[derive(Clone, Debug)]
struct Truth {
    key: ProcessKey,
    parent: Option<usize>,
    execs: Vec<(u64, String)>,
    exit: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct History {
    processes: Vec<Truth>,
    events: Vec<Event>,
    /// When procfs was looked at, to when, and which processes (by place) showed what when.
    looks: Vec<(Snapshot, Vec<(usize, u64)>)>,
}

impl History {
    fn of(steps: &[(Step, u64)]) -> Self {
        let mut history = Self::default();
        for (pid, name) in [(1, "init"), (2, "bash"), (3, "daemon")] {
            history.processes.push(Truth {
                key: key(pid, u64::from(pid) * 17 * MS + 3),
                parent: (pid > 1).then_some(0),
                execs: vec![(0, name.into())],
                exit: None,
            });
        }
        let mut now = COVERED_FROM;
        let mut due: Option<(u64, u64)> = None;
        for (step, wait) in steps {
            now += 1 + wait;
            if let Some((began, ended)) = due.filter(|(_, ended)| *ended <= now) {
                history.look(began, ended);
                due = None;
            }
            history.step(*step, now, &mut due);
        }
        history
    }

    fn step(&mut self, step: Step, now: u64, due: &mut Option<(u64, u64)>) {
        let living: Vec<usize> = (0..self.processes.len())
            .filter(|place| self.processes[*place].exit.is_none())
            .collect();
        // The first one never ends, as on a real host.
        let pick = |n: usize| living[n % living.len()];
        match step {
            Step::Fork(n) => self.fork(pick(n), now),
            Step::Exec(n) => self.exec(pick(n), now),
            Step::Exit(n) if pick(n) > 0 => {
                let place = pick(n);
                self.processes[place].exit = Some(now);
                let (own, parent) = (self.processes[place].key, self.foster(place, now));
                self.events.push(exit(own, parent, now));
            }
            Step::Look(length) if due.is_none() => *due = Some((now, now + length)),
            Step::Exit(_) | Step::Look(_) => {}
        }
    }

    fn fork(&mut self, parent: usize, now: u64) {
        // A small pool of pids, each free again once its holder has ended.
        let free = (10..20).find(|pid| {
            let held = |truth: &Truth| truth.key.pid.0 == *pid && truth.exit.is_none();
            !self.processes.iter().any(held)
        });
        let Some(pid) = free else { return };
        let child = key(pid, now);
        self.events.push(fork(child, self.processes[parent].key));
        self.processes.push(Truth {
            key: child,
            parent: Some(parent),
            execs: Vec::new(),
            exit: None,
        });
    }

    fn exec(&mut self, place: usize, now: u64) {
        let name = format!("image{now}");
        if self.processes[place].execs.len() < EXECS_MAX {
            self.processes[place].execs.push((now, name.clone()));
            self.events.push(exec(self.processes[place].key, self.foster(place, now), now, &name));
        }
    }

    /// Who an event names as the parent: orphans go to init.
    fn foster(&self, place: usize, now: u64) -> ProcessKey {
        let parent = self.processes[place].parent.unwrap_or(0);
        let alive = self.processes[parent].exit.is_none_or(|exit| exit > now);
        self.processes[if alive { parent } else { 0 }].key
    }

    fn look(&mut self, began: u64, ended: u64) {
        let mut read = Vec::new();
        let mut shown = Vec::new();
        for (place, truth) in self.processes.iter().enumerate() {
            // Each was read at a moment of its own inside the window.
            let at = began + u64::try_from(place).unwrap() * 7 % (ended - began + 1);
            let lives = truth.key.start.0 <= at && truth.exit.is_none_or(|exit| at < exit);
            if lives {
                let parent = self.foster(place, at).pid.0;
                let name = self.name(place, at).unwrap();
                read.push(seen(truth.key, if place == 0 { 0 } else { parent }, &name));
                shown.push((place, at));
            }
        }
        self.looks.push((snapshot(began, ended, read), shown));
    }

    /// What a process really ran.
    fn name(&self, place: usize, at: u64) -> Option<String> {
        let truth = &self.processes[place];
        let at = at.max(truth.key.start.0);
        let own = truth.execs.iter().rev().find(|(since, _)| *since <= at);
        own.map(|(_, name)| name.clone()).or_else(|| self.name(truth.parent?, truth.key.start.0))
    }

    /// What can be known of it from every event in coverage and every look.
    fn knowable(&self, place: usize, at: u64) -> Option<String> {
        let truth = &self.processes[place];
        let at = at.max(truth.key.start.0);
        let mut told = truth.execs.iter().filter(|(since, _)| *since >= COVERED_FROM);
        if let Some((_, name)) = told.clone().rfind(|(since, _)| *since <= at) {
            return Some(name.clone());
        }
        let inherited = if truth.key.start.0 >= COVERED_FROM {
            truth.parent.and_then(|parent| self.knowable(parent, truth.key.start.0))
        } else {
            None
        };
        inherited.or_else(|| {
            let sights = self.looks.iter().flat_map(|(_, shown)| shown);
            let first = sights.filter(|(seen, _)| *seen == place).map(|(_, at)| *at).min()?;
            let untouched = !told.any(|(since, _)| *since <= first);
            untouched.then(|| self.name(place, first)).flatten()
        })
    }

    /// Moments at which anything changes, and just before.
    fn moments(&self) -> BTreeSet<u64> {
        let changes = self.processes.iter().flat_map(|truth| {
            let execs = truth.execs.iter().map(|(since, _)| *since);
            execs.chain([truth.key.start.0]).chain(truth.exit)
        });
        changes.flat_map(|at| [at.saturating_sub(1), at]).collect()
    }

    /// Whether it, or one it inherits from, had its pid after or before another in the same tick.
    fn shares_a_tick(&self, place: usize) -> bool {
        let own = self.processes[place].key;
        let twins = self.processes.iter().filter(|truth| floor(&truth.key) == floor(&own));
        twins.count() > 1
            || self.processes[place].parent.is_some_and(|parent| self.shares_a_tick(parent))
    }

    /// The look that a tracer begins with.
    fn at_the_start(&self) -> Snapshot {
        let mut start = self.clone();
        start.processes.retain(|truth| truth.key.start.0 < COVERED_FROM);
        for truth in &mut start.processes {
            truth.exit = None;
            truth.execs.truncate(1);
        }
        start.look(COVERED_FROM, COVERED_FROM);
        start.looks.pop().unwrap().0
    }

    fn ancestors(&self, place: usize) -> Vec<usize> {
        std::iter::successors(self.processes[place].parent, |above| self.processes[*above].parent)
            .collect()
    }
}

fn steps(length: usize) -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        4 => any::<u16>().prop_map(|n| Step::Fork(n.into())),
        3 => any::<u16>().prop_map(|n| Step::Exec(n.into())),
        3 => any::<u16>().prop_map(|n| Step::Exit(n.into())),
        1 => prop_oneof![Just(0), 0..20 * MS].prop_map(Step::Look),
    ];
    // Often within one tick of procfs, sometimes far apart.
    let wait = prop_oneof![0..MS, 0..40 * MS];
    prop::collection::vec((step, wait), 1..length)
}

/// What is told to the table, in which order.
#[derive(Clone, Debug)]
enum Told {
    Event(Event),
    Look(Snapshot),
    Loss(BootNs, BootNs),
}

fn in_order(history: &History) -> Vec<(u64, Told)> {
    let events = history.events.iter().map(|event| (at_of(event), Told::Event(event.clone())));
    let looks = history.looks.iter().map(|(look, _)| (look.ended.0, Told::Look(look.clone())));
    let mut told: Vec<_> = events.chain(looks).collect();
    told.sort_by_key(|(at, _)| *at);
    told
}

fn at_of(event: &Event) -> u64 {
    match event {
        Event::Fork(fork) => fork.subject.at.0,
        Event::Exec(exec) => exec.subject.at.0,
        Event::Exit(exit) => exit.subject.at.0,
        Event::CgroupMade(_) | Event::DeviceTouch(_) => unreachable!(),
    }
}

fn tell(lifetimes: &mut Lifetimes, told: &Told) {
    match told {
        Told::Event(event) => {
            lifetimes.apply(event);
        }
        Told::Look(look) => {
            lifetimes.reseed(look);
        }
        Told::Loss(from, to) => lifetimes.event_gap(*from, *to),
    }
}

/// The lifetimes as values; where the same evidence came in another order the control groups and
/// the ends that were only inferred may differ.
fn picture(lifetimes: &Lifetimes) -> Vec<Lifetime> {
    let comparable = |lifetime: &Lifetime| Lifetime {
        cgroups: Vec::new(),
        cgroups_stood: 0,
        ended: lifetime.ended.filter(|ended| ended.is_seen),
        ..lifetime.clone()
    };
    lifetimes.iter().map(comparable).collect()
}

/// Every index says what a recount says.
fn check_indices(lifetimes: &Lifetimes) {
    let mut children: BTreeMap<ProcessKey, usize> = BTreeMap::new();
    for link in lifetimes.records.values().filter_map(|record| record.link) {
        *children.entry(link).or_insert(0) += 1;
    }
    assert_eq!(children, lifetimes.children);
    let dead = lifetimes.records.values().filter(|record| record.life.ended.is_some());
    assert_eq!(dead.clone().count(), lifetimes.dead);
    assert_eq!(dead.clone().map(Record::content_bytes).sum::<usize>(), lifetimes.dead_bytes);
    let leaves: BTreeSet<_> = dead
        .map(|record| record.life.key)
        .filter(|key| !children.contains_key(key))
        .map(|key| lifetimes.leaf_place(&key).unwrap())
        .collect();
    assert_eq!(leaves, lifetimes.leaves);
}

/// Four hundred cases, or as many more as `PROPTEST_CASES` asks for.
fn cases() -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig { cases: asked.cases.max(400), ..asked }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn in_any_order_and_any_number_of_times_the_images_are_the_true_ones(
        steps in steps(60),
        mut order in any::<u32>(),
        repeats in any::<u64>(),
    ) {
        let history = History::of(&steps);
        let mut told: Vec<Told> = in_order(&history).into_iter().map(|(_, told)| told).collect();
        let twice = |place: usize| repeats >> (place % 64) & 1 == 1;
        let again: Vec<Told> =
            told.iter().enumerate().filter(|(place, _)| twice(*place)).map(|(_, told)| told.clone()).collect();
        told.extend(again);
        // Order 0 is the order of time, which a failure shrinks to.
        let mut shuffled: Vec<(u32, Told)> = Vec::new();
        for told in told {
            order = order.wrapping_mul(1_664_525).wrapping_add(if order == 0 { 0 } else { 1_013_904_223 });
            shuffled.push((order, told));
        }
        shuffled.sort_by_key(|(place, _)| *place);

        let mut lifetimes = Lifetimes::default();
        for (_, told) in &shuffled {
            tell(&mut lifetimes, told);
        }
        check_indices(&lifetimes);
        for (place, truth) in history.processes.iter().enumerate() {
            let Some(lifetime) = lifetimes.get(&truth.key) else {
                prop_assert!(truth.key.start.0 < COVERED_FROM, "{:?} is missing", truth.key);
                continue;
            };
            for at in history.moments() {
                let (ran, known) = (ran(&lifetimes, truth.key, at), history.knowable(place, at));
                // Which of two holders of a pid within one tick procfs showed cannot always be told.
                let sound = history.shares_a_tick(place) && (ran.is_none() || ran == history.name(place, at));
                prop_assert!(sound || ran == known, "{:?} at {at}: {ran:?}, not {known:?}", truth.key);
            }
            if truth.key.start.0 >= COVERED_FROM {
                let parent = &history.processes[truth.parent.unwrap()];
                prop_assert_eq!(lifetime.parent.unwrap().pid, parent.key.pid);
                prop_assert_eq!(lifetime.parent.unwrap().start.ticks(), parent.key.start.ticks());
            }
            prop_assert_eq!(lifetime.ended.filter(|end| end.is_seen).map(|end| end.at.0), truth.exit);
        }
        // Whatever was told once more changes nothing.
        let before = picture(&lifetimes);
        for (_, told) in &shuffled {
            if let Told::Event(event) = told {
                prop_assert_eq!(lifetimes.apply(event), Applied::Nothing);
            }
        }
        prop_assert_eq!(picture(&lifetimes), before);
    }

    #[test]
    fn forgetting_never_takes_the_living_their_ancestors_or_a_listed_pid(
        steps in steps(120),
        listed in prop::collection::btree_set(10_u32..20, 0..4),
        every in 1_usize..12,
        dead_max in 2_usize..40,
    ) {
        let history = History::of(&steps);
        let listed_unbooked: BTreeSet<Pid> = listed.into_iter().map(Pid).collect();
        let limits = Limits { dead_max, ..Limits::default() };
        let mut lifetimes = Lifetimes::with_limits(limits);
        lifetimes.reseed(&history.at_the_start());
        for (count, (at, told)) in in_order(&history).iter().enumerate() {
            tell(&mut lifetimes, told);
            if count % every == 0 {
                let proof = ForgetProof { reads_began: BootNs(*at), listed_unbooked: &listed_unbooked, unproven_before: None };
                lifetimes.forget(&proof);
                tell(&mut lifetimes, told);
            }
            prop_assert!(lifetimes.dead <= dead_max);
        }
        check_indices(&lifetimes);
        for (place, truth) in history.processes.iter().enumerate() {
            let kept = lifetimes.get(&truth.key);
            if truth.exit.is_none() {
                prop_assert!(kept.is_some());
                for above in history.ancestors(place) {
                    let above = &history.processes[above].key;
                    let known = lifetimes.get(above).is_some();
                    prop_assert!(known || lifetimes.lineage_cut() > 0);
                    prop_assert!(!known || lifetimes.descends_from(&truth.key, above));
                }
            }
            let listed = listed_unbooked.contains(&truth.key.pid);
            if let Some(exit) = truth.exit.filter(|_| listed && truth.key.start.0 >= COVERED_FROM) {
                prop_assert!(kept.is_some() || lifetimes.evicted_at(truth.key.pid, BootNs(exit)));
            }
            if kept.is_some() {
                for at in history.moments() {
                    let ran = ran(&lifetimes, truth.key, at);
                    prop_assert!(ran.is_none() || ran == history.name(place, at));
                    prop_assert!(ran.is_some() || truth.key.start.0 < COVERED_FROM || lifetimes.evicted() > 0);
                }
            }
        }
    }
}
