//! One seed: one whole life of a host, and what must hold after every step of it.

use std::collections::VecDeque;
use std::io::Write as _;

use gpu_ledger::identity::Limits;

use super::agent::{Agent, Death, Habits};
use super::audit::Audit;
use super::bugs::Bug;
use super::disk::{Disk, Luck};
use super::tally::{Kind, Tally};
use super::truth::Fate;
use super::world::{Fault, SHELL, World};

/// Steps of a life, at least.
pub(crate) const STEPS_MIN: u64 = 200;
/// Drafts that go into one transaction, as in the daemon.
const BATCH_MAX: usize = 2_048;
/// Steps that are told of a life that failed.
const TRACE_MAX: usize = 40;
/// Rounds of the end, so long that holders are asked for once more.
const ROUNDS_MIN: u64 = 20;
const SECOND_US: u64 = 1_000_000;

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Pass(u64),
    /// Read, turn, write and acknowledge.
    Crank,
    Turn,
    Read,
    Write,
    Mark,
    Start(u32),
    Fork,
    Exec,
    Exit,
    Open(usize),
    Close,
    Storm(u64),
    Cgroup,
    Mode(usize, bool),
    Reset(usize),
    Clear(usize),
    Fault(usize, Fault),
    Hang(usize),
    Return,
    Clock(i64),
    Sleep(u64),
    Crash,
    Luck(Luck),
    Stop,
    Begin,
    Boot,
    DiskFull,
    DiskRoom,
    Release(usize),
    Regain,
}

/// A life that went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) what: String,
    trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, step, what, trace } = self;
        for line in trace {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "seed {seed} failed at step {step}: {what}")?;
        write!(
            f,
            "replay it: GPU_LEDGER_SIM_SEED={seed} cargo test -p gpu-ledger --test simulation"
        )
    }
}

struct Sim {
    world: World,
    disk: Disk,
    agent: Option<Agent>,
    audit: Audit,
    habits: Habits,
    trace: VecDeque<(u64, u64, Step)>,
    steps: u64,
}

/// Lives through one seed.
pub(crate) fn live(seed: u64, bug: Option<Bug>) -> Result<Tally, Failure> {
    let mut sim = Sim::new(seed, bug);
    let mut step = 0;
    let lived = sim.run(&mut step);
    match lived {
        Ok(()) => Ok(sim.world.tally),
        Err(what) => {
            if std::env::var_os("GPU_LEDGER_SIM_JOURNAL").is_some() {
                sim.tell_journal();
            }
            let told = |(number, at_us, step): &(u64, u64, Step)| {
                format!("{number:>4} {at_us:>14} µs {step:?}")
            };
            let trace = sim.trace.iter().map(told).collect();
            Err(Failure { seed, step, what, trace })
        }
    }
}

impl Sim {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut world = World::new(seed);
        let needs_overflow = matches!(bug, Some(Bug::MarkedBeyondTheQueue | Bug::QueueGapLost));
        let queue_length = match world.random.below(4) {
            _ if needs_overflow => 4,
            0 => world.random.between(4, 24) as usize,
            1 => world.random.between(24, 200) as usize,
            _ => 4_096,
        };
        let limits = match world.random.below(4) {
            0 => Limits { dead_max: 32, ..Limits::default() },
            _ => Limits::default(),
        };
        let habits = Habits { queue_length, limits, bug };
        let disk = Disk::new(bug);
        let mut audit = Audit::default();
        audit.agent_is(None, world.at());
        Self { world, disk, agent: None, audit, habits, trace: VecDeque::new(), steps: 0 }
    }

    fn run(&mut self, number: &mut u64) -> Result<(), String> {
        self.steps = STEPS_MIN + self.world.random.below(60);
        for count in 1..=self.steps {
            *number = count;
            let step = self.choose();
            self.take(count, step)?;
        }
        self.finish(number)
    }

    fn take(&mut self, number: u64, step: Step) -> Result<(), String> {
        if self.trace.len() == trace_max() {
            self.trace.pop_front();
        }
        // The rounds of the end say nothing.
        if number <= self.steps {
            self.trace.push_back((number, self.world.clocks.boot_us, step));
        }
        match self.act(step) {
            Ok(()) => {}
            Err(Death::Restart) => self.dies(),
            Err(Death::Wrong(what)) => return Err(what),
        }
        self.audit.after_step(&mut self.world, &self.disk, self.agent.as_mut())
    }

    /// Every entry as it is on the disk, for whoever looks for what went wrong.
    fn tell_journal(&self) {
        for bytes in &self.disk.entries {
            if let Ok(entry) = self.disk.read_figures(bytes.seq) {
                let at = entry.at.stamp.boot.0 / 1_000;
                let _ =
                    writeln!(std::io::stderr(), "{:>4} {at:>14} µs {:?}", entry.seq, entry.figures);
            }
        }
    }

    fn dies(&mut self) {
        self.agent = None;
        self.world.kernel.detach();
        self.disk.crash();
        self.world.tally.count(Kind::AgentCrashed);
        let now = self.world.at();
        self.audit.agent_is(None, now);
    }

    fn choose(&mut self) -> Step {
        let random = &mut self.world.random;
        let card = random.below(self.world.cards.len() as u64) as usize;
        if self.agent.is_none() && random.below(3) == 0 {
            return Step::Begin;
        }
        match random.below(1_000) {
            0..330 => Step::Crank,
            330..370 => Step::Turn,
            370..410 => Step::Read,
            410..440 => Step::Write,
            440..455 => Step::Mark,
            455..520 => Step::Pass(random.between(20, 30_000)),
            520..560 => Step::Pass(random.between(30_000, SECOND_US)),
            560..575 => Step::Pass(random.between(SECOND_US, 9 * SECOND_US)),
            575..665 => Step::Start(random.between(1, 3) as u32),
            665..700 => Step::Fork,
            700..715 => Step::Exec,
            715..785 => Step::Exit,
            785..840 => Step::Open(card),
            840..870 => Step::Close,
            870..873 => Step::Storm(random.between(20, 150)),
            873..876 => Step::Cgroup,
            876..881 => Step::Mode(card, false),
            881..893 => Step::Mode(card, true),
            893..896 => Step::Reset(card),
            896..899 => Step::Clear(card),
            899..908 => {
                let all = [
                    Fault::Lost,
                    Fault::ListFails,
                    Fault::RowsGone,
                    Fault::RowsFail,
                    Fault::RowsChange,
                ];
                Step::Fault(card, all[random.below(all.len() as u64) as usize])
            }
            908..922 => Step::Fault(card, Fault::Nothing),
            922..925 => Step::Hang(card),
            925..935 => Step::Return,
            935..938 => Step::Clock(-(random.between(10_000, 4_000 * SECOND_US) as i64)),
            938..941 => Step::Clock(random.between(10_000, 4_000 * SECOND_US) as i64),
            941..944 => Step::Sleep(random.between(SECOND_US, 400 * SECOND_US)),
            944..951 => Step::Crash,
            951..961 => {
                let kept = random.below(2) == 0;
                let all = [Luck::CrashBefore, Luck::CrashAfter, Luck::Failure { kept }];
                Step::Luck(all[random.below(3) as usize])
            }
            961..966 => Step::Stop,
            966..968 => Step::Boot,
            968..972 => Step::DiskFull,
            972..986 => Step::DiskRoom,
            986..991 => Step::Release(card),
            _ => Step::Regain,
        }
    }

    fn act(&mut self, step: Step) -> Result<(), Death> {
        self.world.pass(3);
        let world = &mut self.world;
        match step {
            Step::Pass(us) => world.pass(us),
            Step::Start(opens) => start(world, opens),
            Step::Fork => {
                let parent = world.any_process().filter(|_| world.random.below(2) == 0);
                world.fork(parent.unwrap_or(SHELL));
            }
            Step::Exec => world.any_process().into_iter().for_each(|pid| world.exec(pid)),
            Step::Exit => world.any_process().into_iter().for_each(|pid| world.exit(pid)),
            Step::Open(card) => {
                world.any_process().into_iter().for_each(|pid| world.open(pid, card));
            }
            Step::Close => world.any_process().into_iter().for_each(|pid| world.close(pid)),
            Step::Storm(count) => world.storm(count),
            Step::Cgroup => world.make_cgroup(),
            Step::Mode(card, on) => world.set_mode(card, on),
            Step::Reset(card) => world.reset(card),
            Step::Clear(card) => world.clear(card),
            Step::Fault(card, fault) => {
                if world.cards[card].fault == Fault::Lost {
                    world.reset(card);
                }
                if fault == Fault::Lost {
                    world.tally.count(Kind::GpuLost);
                }
                world.cards[card].fault = fault;
            }
            Step::Clock(us) => return self.set_clock(us),
            Step::Sleep(us) => {
                world.sleep(us);
                world.tally.count(Kind::Sleep);
            }
            Step::Boot => {
                if self.agent.is_some() {
                    self.dies();
                }
                self.world.reboot();
            }
            Step::DiskFull => {
                self.disk.full = true;
                world.tally.count(Kind::DiskFull);
            }
            Step::DiskRoom => self.disk.make_room(),
            Step::Luck(luck) => {
                self.disk.luck = luck;
                world.tally.count(match luck {
                    Luck::CrashAfter => Kind::CrashAfterCommit,
                    Luck::Failure { .. } => Kind::DiskFailed,
                    _ => Kind::CrashBeforeCommit,
                });
            }
            Step::Crash => {
                if self.agent.is_some() {
                    return Err(Death::Restart);
                }
            }
            Step::Begin => return self.begin(),
            Step::Stop => return self.stop(),
            of_agent => return self.act_of_agent(of_agent),
        }
        Ok(())
    }

    fn set_clock(&mut self, us: i64) -> Result<(), Death> {
        // The daemon looks at the clocks fifty times a second.
        if let Some(agent) = &mut self.agent {
            agent.turn(&mut self.world)?;
        }
        self.world.step_clock(us);
        if let Some(agent) = &mut self.agent {
            agent.turn(&mut self.world)?;
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Death> {
        let Some(agent) = self.agent.take() else { return Ok(()) };
        let mut agent = agent.stop(&mut self.world, &mut self.disk)?;
        self.audit.after_step(&mut self.world, &self.disk, Some(&mut agent))?;
        let now = self.world.at();
        self.audit.agent_is(None, now);
        Ok(())
    }

    fn act_of_agent(&mut self, step: Step) -> Result<(), Death> {
        let Some(agent) = &mut self.agent else { return Ok(()) };
        let (world, disk) = (&mut self.world, &mut self.disk);
        match step {
            Step::Crank => {
                agent.turn(world)?;
                agent.read(world);
                agent.turn(world)?;
                if world.random.below(4) > 0 {
                    agent.write(BATCH_MAX, world, disk)?;
                }
                let us = world.random.between(1, 20_000);
                world.pass(us);
                Ok(())
            }
            Step::Turn => agent.turn(world),
            Step::Read => {
                agent.read(world);
                Ok(())
            }
            Step::Write => agent.write(BATCH_MAX, world, disk),
            Step::Mark => agent.mark(world),
            Step::Hang(card) => {
                agent.hang(card, world);
                Ok(())
            }
            Step::Return => {
                agent.return_from_hang(world);
                Ok(())
            }
            Step::Release(card) => agent.release(card, world),
            Step::Regain => agent.regain(world),
            _ => Ok(()),
        }
    }

    fn begin(&mut self) -> Result<(), Death> {
        if self.agent.is_some() {
            return Ok(());
        }
        if !self.disk.entries.is_empty() {
            self.world.tally.count(Kind::StartedAnew);
        }
        let agent = Agent::start(&mut self.world, &mut self.disk, self.habits)?;
        self.audit.agent_is(Some(agent.began), self.world.at());
        self.agent = Some(agent);
        Ok(())
    }

    /// Everything is well again, all is read and written, and the agent ends in order: then every row is
    /// booked or lies in a gap.
    fn finish(&mut self, number: &mut u64) -> Result<(), String> {
        self.world.is_still = true;
        let heal: Vec<Step> = (0..self.world.cards.len())
            .flat_map(|card| [Step::Fault(card, Fault::Nothing), Step::Mode(card, true)])
            .collect();
        let all = [Step::DiskRoom, Step::Luck(Luck::Good), Step::Begin, Step::Return, Step::Regain];
        for step in heal.into_iter().chain(all) {
            *number += 1;
            self.take(*number, step)?;
        }
        for round in 0..200 {
            for step in [Step::Pass(300_000), Step::Turn, Step::Read, Step::Turn, Step::Write] {
                *number += 1;
                self.take(*number, step)?;
            }
            if self.agent.as_ref().is_some_and(Agent::is_quiet) && round > ROUNDS_MIN {
                break;
            }
        }
        *number += 1;
        self.take(*number, Step::Stop)?;
        let World { kernel, truth, tally, .. } = &mut self.world;
        tally.add(Kind::ArgvShed, kernel.shed);
        for row in truth.rows.values() {
            match row.fate {
                Fate::Evicted => tally.count(Kind::RowEvicted),
                Fate::Replaced => tally.count(Kind::RowReplaced),
                _ => {}
            }
        }
        self.audit.all_untouched(&mut self.world, &self.disk)?;
        self.audit.downs_are_gaps()?;
        self.audit.nothing_is_missing(&self.world, &self.disk)
    }
}

/// `GPU_LEDGER_SIM_TRACE` in the environment: how many of the last steps are told.
fn trace_max() -> usize {
    let wanted = std::env::var("GPU_LEDGER_SIM_TRACE");
    wanted.ok().and_then(|text| text.parse().ok()).unwrap_or(TRACE_MAX)
}

/// A process that uses the GPU.
fn start(world: &mut World, opens: u32) {
    let Some(pid) = world.fork(SHELL) else { return };
    if world.random.below(5) > 0 {
        world.exec(pid);
    }
    for _ in 0..opens {
        let us = world.random.between(1, 5_000);
        world.pass(us);
        let card = world.random.below(world.cards.len() as u64) as usize;
        world.open(pid, card);
    }
}
