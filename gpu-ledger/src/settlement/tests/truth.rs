//! Random lives of one pid, of which the truth is known: what was seen of them is derived from it,
//! and every answer of the join is held against it. A wrong name is never right.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::made::{Known, answer, boot, exited, found_gone, gap, image, row, seen_at};
use crate::accounting::FinalRow;
use crate::coverage::Coverage;
use crate::identity::{Basis, Lifetime};
use crate::kernel::ProcessKey;
use crate::random::{Random, histories};
use crate::settlement::{Attribution, Eviction, Settlement, missed_in_coverage};
use crate::unit::BootNs;
use crate::unknown::{Flag, NamelessReason};

/// A process as it really was. Times are microseconds since boot.
struct Life {
    born: u64,
    /// (moment, program); the first one is inherited at birth.
    images: Vec<(u64, String)>,
    exit: u64,
}

/// A row as it really was.
struct Use {
    opener: usize,
    start: u64,
    /// To the microsecond; the driver drops the last fraction of a millisecond.
    end: u64,
}

struct World {
    lives: Vec<Life>,
    uses: Vec<Use>,
    coverage: Coverage,
}

impl World {
    fn random(random: &mut Random) -> Self {
        let mut known = Known::of([]);
        known.coverage.start = super::made::stamp(random.between(1, 400_000));
        known.coverage.end = super::made::stamp(3_000_000);
        for _ in 0..random.below(3) {
            let from = random.between(known.coverage.start.boot.0 / 1_000, 900_000);
            let cause = match random.below(3) {
                0 => crate::unknown::GapCause::AgentDown,
                1 => crate::unknown::GapCause::EventLost,
                _ => crate::unknown::GapCause::QueueOverflow,
            };
            let gap = gap(cause, from, from + random.between(1, 200_000));
            known.coverage.gaps.push(gap);
        }
        let mut world = Self { lives: Vec::new(), uses: Vec::new(), coverage: known.coverage };
        world.populate(random);
        world
    }

    fn populate(&mut self, random: &mut Random) {
        let mut now = random.between(1, 100_000);
        // The row of an earlier life that is still held by a duplicate of its descriptor.
        let mut held: Option<(usize, u64)> = None;
        for index in 0..random.between(1, 5) {
            let index = usize::try_from(index).unwrap();
            let born = now;
            let mut images = vec![(born, "inherited".to_owned())];
            for exec in 0..random.below(4) {
                now += random.between(1, 40_000);
                images.push((now, format!("program {index}.{exec}")));
            }
            for _ in 0..random.below(3) {
                let start = now + random.between(1, 30_000);
                now = start + random.between(0, 120_000);
                match held.take() {
                    // The store is keyed by pid: whoever opens while the old entry lives joins it.
                    Some((joined, until)) if start <= until => {
                        let end = until.max(now);
                        self.uses[joined].end = end;
                        held = Some((joined, end)).filter(|(_, end)| *end > now);
                    }
                    Some(_) | None => {
                        self.uses.push(Use { opener: index, start, end: now });
                        if random.one_in(4) {
                            let until = now + random.below(300_000);
                            let last = self.uses.len() - 1;
                            self.uses[last].end = until;
                            held = Some((last, until));
                        }
                    }
                }
            }
            let exit = now + random.below(30_000);
            self.lives.push(Life { born, images, exit });
            // Without a duplicate the entry is closed before the pid is given out again.
            // In sight it may be given out at once. Where only procfs will tell when the next one was
            // born, to the tick, it is not: the kernel hands pids out in turn.
            let at_once = random.one_in(2) && self.in_sight(exit) && self.in_sight(exit + 60);
            now = exit
                + if at_once { random.between(1, 60) } else { random.between(20_000, 200_000) };
        }
    }

    fn in_gap(&self, at: u64) -> bool {
        self.coverage.event_gap_at(boot(at)).is_some()
    }

    fn in_sight(&self, at: u64) -> bool {
        self.coverage.sees_processes_at(boot(at))
    }

    /// What process events and procfs leave of a life; `None` where it was never noticed.
    fn observed(&self, life: &Life, random: &mut Random) -> Option<Lifetime> {
        let coverage_from = self.coverage.start.boot.0 / 1_000;
        if life.exit < coverage_from {
            return None;
        }
        let received = |at: u64, random: &mut Random| {
            at >= coverage_from && (!self.in_gap(at) || random.one_in(2))
        };
        let mut seen = Lifetime {
            key: ProcessKey { pid: super::made::PID, start: boot(life.born) },
            start_is_exact: true,
            parent: None,
            images: Vec::new(),
            images_forgotten: 0,
            image_gaps: Vec::new(),
            cgroups: Vec::new(),
            cgroups_stood: 0,
            touched: None,
            ended: None,
        };
        let mut noticed = false;
        // The seed is a look at procfs like the scan at the end of every gap.
        let mut looks: Vec<u64> =
            self.coverage.gaps.iter().map(|gap| gap.to.boot.0 / 1_000).collect();
        looks.push(coverage_from);
        looks.sort_unstable();
        let mut looks = looks.into_iter().peekable();
        let mut scan_until = |until: u64, seen: &mut Lifetime, noticed: &mut bool| {
            while let Some(at) = looks.next_if(|at| *at < until) {
                scan(life, at, seen, noticed);
            }
        };
        for (index, (since, program)) in life.images.iter().enumerate() {
            scan_until(*since, &mut seen, &mut noticed);
            if received(*since, random) {
                let basis = if index == 0 { Basis::Fork } else { Basis::Exec };
                noticed = true;
                seen.images.push(image(program, *since, basis));
            }
        }
        scan_until(u64::MAX, &mut seen, &mut noticed);
        if seen.ended.is_none_or(|gone| boot(life.exit) <= gone.at) && received(life.exit, random) {
            noticed = true;
            seen.ended = Some(exited(life.exit));
        }
        noticed.then_some(seen)
    }
}

/// One look at procfs: what lives is known from then on, what does not is found gone.
fn scan(life: &Life, at: u64, seen: &mut Lifetime, noticed: &mut bool) {
    let alive = life.born <= at && at < life.exit;
    if !alive {
        if *noticed && life.exit <= at && seen.ended.is_none() {
            seen.ended = Some(found_gone(at));
        }
        return;
    }
    let (_, program) = life.images.iter().rev().find(|(since, _)| *since <= at).unwrap();
    if !*noticed {
        *noticed = true;
        seen.start_is_exact = false;
        seen.key.start = BootNs(seen.key.start.ticks() * BootNs::PER_TICK);
        seen.images = vec![image(program, seen.key.start.0 / 1_000, Basis::Procfs)];
        return;
    }
    let newest = seen.images.last().map(|image| image.content.filename.clone());
    if newest.as_deref() != Some(program.as_bytes()) {
        let since = if seen.images.is_empty() { seen.key.start.0 / 1_000 } else { at };
        seen.images.push(image(program, since, Basis::Procfs));
    }
}

fn read(used: &Use, random: &mut Random) -> FinalRow {
    let held_ms = (used.end - used.start) / 1_000;
    seen_at(used.start, held_ms, used.end + random.below(100_000))
}

/// Holds one settlement against the truth.
fn judge(settlement: &Settlement, used: &Use, world: &World, known: &Known) {
    let opener = &world.lives[used.opener];
    let (_, program) = opener.images.iter().rev().find(|(since, _)| *since <= used.start).unwrap();
    let proven_end = used.start + settlement.row.held.0 * 1_000;
    let later = |from: u64| from > used.start && from < proven_end;
    let known_later = known
        .lifetimes
        .iter()
        .any(|other| other.key.start.0 > opener.born * 1_000 && later(other.key.start.0 / 1_000));
    let forgotten_later = known.evictions.iter().any(|gone| later(gone.born.0 / 1_000));
    let forgotten = known
        .evictions
        .iter()
        .any(|gone| gone.born <= boot(used.start) && boot(used.start) <= gone.ended);
    match &settlement.attribution {
        Attribution::Named(named) => {
            let ticks = |ns: BootNs| if named.start_is_exact { ns.0 } else { ns.ticks() };
            assert_eq!(ticks(named.key.start), ticks(boot(opener.born)), "a wrong process");
            assert!(!known_later && !forgotten_later, "a second lifetime was reached");
            // Procfs says what a process ran when it was looked at; of what it ran before anybody
            // looked there is no witness, and the basis says so.
            if named.image.basis != Basis::Procfs || world.in_sight(used.start) {
                assert_eq!(answer(settlement).as_ref(), Ok(program), "a wrong program");
            }
            if world.in_sight(settlement.seen.ended.boot.0 / 1_000) {
                let alive = opener.exit > settlement.seen.ended.boot.0 / 1_000;
                let seen_to_end = named.ended.is_none_or(|ended| ended.is_seen);
                let flagged = settlement.flags.contains(&Flag::SettledWhileAlive);
                assert!(flagged == alive || !seen_to_end, "alive {alive}, flagged {flagged}");
            }
        }
        Attribution::Nameless(nameless) => {
            let excused = match nameless.reason {
                NamelessReason::RowSpansTwoLifetimes => known_later || forgotten_later,
                NamelessReason::IdentityEvicted => forgotten,
                NamelessReason::PidAmbiguous => !known.evictions.is_empty() || tick(known, used),
                NamelessReason::PredatesCoverage => boot(used.start) < world.coverage.start.boot,
                NamelessReason::EventLost => world.in_gap(used.start),
                // Over before the next agent looked: procfs does not witness what ran then.
                NamelessReason::AgentDown => {
                    let down = world.coverage.agent_down_after(boot(used.start));
                    let unwitnessed = down.is_some_and(|gap| boot(proven_end) < gap.to.boot);
                    world.in_gap(used.start) || unwitnessed
                }
                NamelessReason::NoStartTime => false,
            };
            assert!(excused, "{nameless:?}");
        }
    }
    assert_eq!(settlement.dispute, None);
}

/// Whether a birth that is only known to the tick lies around the start of a row.
fn tick(known: &Known, used: &Use) -> bool {
    known.lifetimes.iter().any(|lifetime| {
        !lifetime.start_is_exact && lifetime.key.start.ticks() == boot(used.start).ticks()
    })
}

#[test]
fn no_random_history_ever_gives_a_wrong_name_and_in_sight_every_row_has_one() {
    let answers: Mutex<BTreeMap<&str, u64>> = Mutex::default();
    histories(200_000, |_, random| {
        let world = World::random(random);
        let mut known = Known::of([]);
        known.coverage = world.coverage.clone();
        for life in &world.lives {
            let Some(seen) = world.observed(life, random) else { continue };
            // A limit was reached: of a dead lifetime only its bounds are left.
            match seen.ended {
                Some(ended) if seen.start_is_exact && random.one_in(12) => {
                    known.evictions.push(Eviction { born: seen.key.start, ended: ended.at });
                }
                Some(_) | None => known.lifetimes.push(seen),
            }
        }
        let settle = |used: &Use| {
            let settlement = known.settle(&read(used, &mut Random::seeded(used.start)));
            judge(&settlement, used, &world, &known);
            settlement
        };
        let settlements: Vec<_> = world.uses.iter().map(settle).collect();
        if known.evictions.is_empty() {
            assert_eq!(missed_in_coverage(&settlements, &world.coverage), 0);
        }
        let mut answers = answers.lock().unwrap();
        for settlement in &settlements {
            let reason = settlement.attribution.reason().map(NamelessReason::as_str);
            let basis = settlement.attribution.basis().map(Basis::as_str);
            *answers.entry(reason.or(basis).unwrap()).or_insert(0) += 1;
        }
    });
    // A history in which nothing happens proves nothing: every answer has to occur.
    let answers = answers.into_inner().unwrap();
    println!("{answers:?}");
    let possible = [
        "agent-down",
        "event-lost",
        "exec",
        "fork",
        "identity-evicted",
        "pid-ambiguous",
        "predates-coverage",
        "procfs",
        "row-spans-two-lifetimes",
    ];
    if std::env::var_os("GPU_LEDGER_SEED").is_none() {
        assert_eq!(answers.keys().copied().collect::<Vec<_>>(), possible);
    }
}

#[test]
fn a_clock_that_is_off_by_the_tolerance_costs_no_name() {
    let tolerance_us = crate::settlement::JOIN_TOLERANCE_NS / 1_000;
    histories(20_000, |_, random| {
        let mut now = 1_100_000;
        let mut known = Known::of([]);
        let mut starts = Vec::new();
        for index in 0..random.between(1, 5) {
            let exit = now + random.below(50_000);
            let program = format!("program {index}");
            starts.push((random.between(now, exit), program.clone()));
            known.lifetimes.push(super::made::lifetime(&program, now, Some(exit)));
            // So far apart that no error of the clock reaches another one.
            now = exit + 2 * tolerance_us + random.between(1, 50_000);
        }
        for (start, program) in starts {
            let shown = start + random.below(2 * tolerance_us + 1) - tolerance_us;
            assert_eq!(known.answer(&row(shown, 0)), Ok(program));
        }
    });
}
