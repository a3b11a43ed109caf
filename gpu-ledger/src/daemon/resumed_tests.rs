//! Random histories of one GPU over many runs of the daemon, on a clock of their own.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::tally::{News, wall_of};
use super::*;
use crate::metrics::HeldGpu;
use crate::metrics::held::{AccountLabel, HeldCount};
use crate::settlement::{Account, Ground};
use crate::unit::{GpuUuid, Ms, Pid, WallUs};

const MS: u64 = 1_000_000;
const EPOCH_US: u64 = 1_700_000_000_000_000;

fn gpu() -> GpuUuid {
    GpuUuid("GPU-a".into())
}

fn stamp(ms: u64) -> Stamp {
    let boot = BootNs(ms * MS);
    Stamp { boot, mono_ns: boot.0, wall: WallUs(EPOCH_US + ms * 1_000) }
}

fn account(number: u8) -> Account {
    Account::by(Ground::Program, ["train", "serve"][usize::from(number)])
}

/// One process on the GPU.
#[derive(Clone, Debug)]
struct Life {
    pid: u32,
    account: u8,
    from: u64,
    /// Its end, once it is over.
    to: Option<u64>,
    /// Its open entry, where it was seen open.
    opened: Option<u64>,
    is_booked: bool,
}

impl Life {
    fn key(&self) -> RowKey {
        RowKey { gpu: gpu(), pid: Pid(self.pid), start: stamp(self.from).wall }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Start(u8),
    /// Over before a read showed it open.
    Short(u8, u64),
    End(usize),
    Book,
    Pass(u64),
    Publish(u64),
    /// `ends` while nobody watches.
    Restart {
        with_file: bool,
        is_killed: bool,
        down: u64,
        ends: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let restart = (prop::bool::weighted(0.8), any::<bool>(), 0_u64..40_000, any::<usize>());
    prop_oneof![
        3 => (0_u8..2).prop_map(Step::Start),
        2 => (0_u8..2, 1_u64..3_000).prop_map(|(account, held)| Step::Short(account, held)),
        3 => any::<usize>().prop_map(Step::End),
        1 => Just(Step::Book),
        3 => (1_u64..9_000).prop_map(Step::Pass),
        6 => (1_u64..16_000).prop_map(Step::Publish),
        2 => restart.prop_map(|(with_file, is_killed, down, ends)| {
            Step::Restart { with_file, is_killed, down, ends }
        }),
    ]
}

/// The host, its journal, and the daemon's counters.
struct World {
    now: u64,
    seq: u64,
    lives: Vec<Life>,
    booked: Vec<(u64, Later)>,
    tally: Tally,
    page: Option<HeldPage>,
    published: u64,
    /// Since when this history of counters is.
    began: u64,
}

impl World {
    fn new() -> Self {
        let mut tally = Tally::default();
        tally.held.begin(&gpu(), BootNs(100_000 * MS));
        Self {
            now: 100_000,
            seq: 0,
            lives: Vec::new(),
            booked: Vec::new(),
            tally,
            page: None,
            published: 100_000,
            began: 100_000,
        }
    }

    fn entered(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn start(&mut self, account: u8) {
        let seq = self.entered();
        let pid = u32::try_from(self.lives.len()).unwrap();
        let from = self.now;
        let life = Life { pid, account, from, to: None, opened: Some(seq), is_booked: false };
        self.see_open(&life);
        self.tally.held_head = seq;
        self.lives.push(life);
    }

    fn see_open(&mut self, life: &Life) {
        let label = AccountLabel::of(&account(life.account));
        self.tally.held.open(&life.key(), &label, BootNs(life.from * MS));
    }

    fn book(&mut self) {
        for place in 0..self.lives.len() {
            let life = self.lives[place].clone();
            let Some(to) = life.to.filter(|_| !life.is_booked) else { continue };
            let seq = self.entered();
            let booked = Booked {
                gpu: gpu(),
                key: Some(life.key()),
                read_at: stamp(self.now),
                account: account(life.account),
                held: Ms(to - life.from),
                dispute: None,
            };
            let later = Later { seq, opened: life.opened, booked: booked.clone() };
            self.booked.push((self.now, later));
            self.tally.take(stamp(self.now), seq, &[News::Booked(booked)]);
            self.lives[place].is_booked = true;
        }
    }

    fn counts(&self) -> BTreeMap<AccountLabel, HeldCount> {
        let counts = self.tally.held.counts();
        counts.map(|(_, label, count)| (label.clone(), count)).collect()
    }

    /// A page, after a read that showed what has ended: reads are far closer together than the counters trail.
    fn publish(&mut self) -> Result<(), TestCaseError> {
        self.book();
        let now = stamp(self.now);
        self.tally.held.advance(&gpu(), now.boot, now.boot);
        let counts = self.counts();
        let before = self.page.as_ref().map(|page| &page.gpus[&gpu()].counts);
        for (label, count) in &counts {
            let had = before.and_then(|before| before.get(label)).copied().unwrap_or_default();
            let passed = self.now - self.published;
            let grown = count.held.0.checked_sub(had.held.0);
            prop_assert!(
                grown.is_some_and(|grown| grown <= passed),
                "{label:?}: {had:?} {count:?}"
            );
            prop_assert!(count.adjusted_up >= had.adjusted_up);
            prop_assert!(count.adjusted_down >= had.adjusted_down);
            prop_assert!(count.unplaced >= had.unplaced);
        }
        let frontier = self.tally.held.frontiers().next().unwrap().1;
        for number in 0..2 {
            let label = AccountLabel::of(&account(number));
            let count = counts.get(&label).copied().unwrap_or_default();
            let sum = count.held.0 + count.adjusted_up.0 - count.adjusted_down.0;
            let union = self.union(number, frontier.0 / MS);
            prop_assert_eq!(sum, union, "{:?} at {}: {:?}", label, self.now, count);
        }
        let until = wall_of(frontier, now);
        let gpus = BTreeMap::from([(gpu(), HeldGpu { until, counts })]);
        self.page = Some(HeldPage { journal_head: self.tally.held_head, gpus });
        self.published = self.now;
        Ok(())
    }

    /// What the journal says that an account held, in this history of counters. What is not booked is open.
    fn union(&self, number: u8, frontier: u64) -> u64 {
        let lives = self.lives.iter().filter(|life| life.account == number);
        // One that was never seen open is known by its settlement alone.
        let known = lives.filter(|life| life.is_booked || life.opened.is_some());
        let mut spans: Vec<(u64, u64)> = known
            .map(|life| {
                let to = life.to.filter(|_| life.is_booked).unwrap_or(u64::MAX);
                (life.from.max(self.began), to.min(frontier))
            })
            .collect();
        spans.sort_unstable();
        let (mut sum, mut end) = (0, self.began);
        for (from, to) in spans {
            sum += to.saturating_sub(from.max(end));
            end = end.max(to);
        }
        sum
    }

    fn end(&mut self, which: usize) {
        let running = self.lives.iter_mut().filter(|life| life.to.is_none());
        let mut running: Vec<&mut Life> = running.collect();
        let length = running.len().max(1);
        if let Some(life) = running.get_mut(which % length) {
            life.to = Some(self.now);
        }
    }

    /// The last page of the run before stays in its file.
    fn restart(&mut self, with_file: bool, down: u64, ends: usize) {
        self.now += down / 2;
        self.end(ends);
        self.now += down - down / 2;
        self.tally = Tally::default();
        self.tally.held_head = self.seq;
        let now = stamp(self.now);
        if let Some(page) = self.page.clone().filter(|_| with_file) {
            let counted = page.journal_head;
            let until = boot_of(page.gpus[&gpu()].until, now).minus_ns(LEARNT_BEFORE_NS);
            let told = |(at, later): &&(u64, Later)| later.seq > counted || at * MS >= until.0;
            let booked = self.booked.iter().filter(told).map(|(_, later)| later.clone());
            let open = self.lives.iter().filter(|life| !life.is_booked).filter_map(|life| {
                let (label, from) =
                    (AccountLabel::of(&account(life.account)), BootNs(life.from * MS));
                Some(OpenRow { seq: life.opened?, key: life.key(), label, from })
            });
            let (open, booked) = (open.collect(), booked.collect());
            ResumedMeters { page, open, booked }.apply(&mut self.tally, now);
        } else {
            self.tally.held.begin(&gpu(), now.boot);
            (self.page, self.published, self.began) = (None, self.now, self.now);
        }
        // The first reads show what runs, again; what ended meanwhile is booked later.
        for life in self.lives.clone().iter().filter(|life| life.opened.is_some()) {
            if life.to.is_none() || (!life.is_booked && !with_file) {
                self.see_open(life);
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Start(account) => self.start(account),
            Step::Short(account, held) => {
                let pid = u32::try_from(self.lives.len()).unwrap();
                let (from, to) = (self.now - held, Some(self.now));
                self.lives.push(Life { pid, account, from, to, opened: None, is_booked: false });
            }
            Step::End(which) => self.end(which),
            Step::Book => self.book(),
            Step::Pass(ms) => self.now += ms,
            Step::Publish(ms) => {
                self.now += ms;
                self.publish()?;
            }
            Step::Restart { with_file, is_killed, down, ends } => {
                if !is_killed {
                    self.publish()?;
                }
                self.restart(with_file, down, ends);
            }
        }
        Ok(())
    }
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut world = World::new();
    for step in steps {
        world.take(step)?;
    }
    world.now += 30_000;
    world.publish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn counters_go_on_over_restarts_and_add_up_to_what_the_journal_says(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        run(steps)?;
    }
}

#[test]
fn an_open_job_over_a_restart_falls_nowhere_and_is_no_adjustment() {
    let mut world = World::new();
    world.start(0);
    world.start(1);
    world.now += 15_020;
    world.publish().unwrap();
    let held = |world: &World| world.counts()[&AccountLabel::of(&account(0))];
    assert_eq!(held(&world), HeldCount { held: Ms(5_020), ..HeldCount::default() });
    // The other one ends meanwhile.
    world.restart(true, 2_000, 1);
    world.now += 2_000;
    world.publish().unwrap();
    let count = held(&world);
    // What it was, two seconds that passed on the counters, and two that passed while nobody counted.
    assert_eq!((count.held, count.adjusted_up), (Ms(7_020), Ms(2_000)));
    assert_eq!((count.adjusted_down, count.unplaced), (Ms(0), Ms(0)));
}
