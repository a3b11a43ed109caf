//! The machine: processes, GPUs and clocks, moved by the steps of one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpu_ledger::accounting::driver::GpuFacts;
use gpu_ledger::identity::{SeenProcess, Snapshot, User};
use gpu_ledger::kernel::{LoginUid, ProcessKey};
use gpu_ledger::unit::{BootNs, GpuUuid, Pid};
use gpu_ledger::unknown::{Observed, UnknownReason};
use nvsim::model::{Gpu, Moment, ObjectId, Opened, Setup};
use nvsim::protocol::Use;
use nvsim::random::Random;

use super::clocks::Clocks;
use super::kernel::{About, Kernel, argv, exe_of, file_of};
use super::tally::{Kind, Tally};
use super::truth::{At, Fate, Life, Truth};

/// What processes run. None of them has a grammar of its own in the product.
const PROGRAMS: [&str; 6] = ["ollama", "xtts", "train", "serve", "render", "fold"];
/// The first pid that processes get.
const PID_MIN: u32 = 10;
/// Who forks what nobody else does.
pub(crate) const SHELL: u32 = 7;

/// A living process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) key: ProcessKey,
    parent: ProcessKey,
    uid: u32,
    program: Arc<str>,
}

/// A device object, and everybody who has a descriptor of it.
#[derive(Clone, Debug)]
struct Object {
    id: ObjectId,
    pid: u32,
    holders: BTreeSet<ProcessKey>,
    /// When the driver will have torn it down.
    closes_at_us: Option<u64>,
}

/// What goes wrong when a GPU is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Nothing,
    /// It fell off the bus.
    Lost,
    /// The list fails with a code.
    ListFails,
    /// No listed row is found.
    RowsGone,
    /// Some rows answer with a code.
    RowsFail,
    /// Some final rows read otherwise than before.
    RowsChange,
}

/// One GPU.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    pub(crate) uuid: GpuUuid,
    pub(crate) model: Gpu,
    pub(crate) fault: Fault,
    objects: Vec<Object>,
}

/// The machine.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) clocks: Clocks,
    pub(crate) kernel: Kernel,
    pub(crate) living: BTreeMap<u32, Process>,
    pub(crate) cards: Vec<Card>,
    pub(crate) truth: Truth,
    pub(crate) tally: Tally,
    pids: u32,
    pid_last: u32,
    cgroups: u64,
    /// When the wall clock was set.
    pub(crate) steps: Vec<At>,
    /// Nothing happens by itself any more.
    pub(crate) is_still: bool,
    /// Teardown takes up to so long.
    teardown_us_max: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let clocks = Clocks::new(random.between(100, 100_000) * 1_000_000);
        let pids = [12, 40, 400][random.below(3) as usize];
        let ring = [24, 200, 100_000][random.below(3) as usize];
        let cpus = random.between(1, 4) as usize;
        let teardown_us_max = [300, 20_000, 900_000][random.below(3) as usize];
        let cards = random.between(1, 2) as usize;
        let mut world = Self {
            kernel: Kernel::new(cpus, ring),
            living: BTreeMap::new(),
            cards: Vec::new(),
            truth: Truth::default(),
            tally: Tally::default(),
            pids,
            pid_last: 0,
            cgroups: 100,
            steps: Vec::new(),
            is_still: false,
            teardown_us_max,
            clocks,
            random,
        };
        for place in 0..cards {
            let accounting = world.random.below(8) > 0;
            world.cards.push(Card {
                uuid: GpuUuid(format!("GPU-{place:08x}-0000-0000-0000-000000000000").into()),
                model: Gpu::new(&Setup { accounting, seed }),
                fault: Fault::Nothing,
                objects: Vec::new(),
            });
            if !accounting {
                let now = world.at();
                world.truth.off.push((place, now, None));
            }
        }
        world.populate();
        world
    }

    /// Init and the shell.
    fn populate(&mut self) {
        self.pass(10);
        let idle = ProcessKey { pid: Pid(0), start: BootNs(0) };
        for (pid, program) in [(1, "init"), (SHELL, "shell")] {
            self.pass(5);
            let key = ProcessKey { pid: Pid(pid), start: self.clocks.now() };
            let parent = self.living.get(&1).map_or(idle, |init| init.key);
            let program: Arc<str> = Arc::from(program);
            self.live(Process { key, parent, uid: 0, program });
        }
    }

    fn live(&mut self, process: Process) {
        let who = (self.clocks.boot, process.key);
        let images = vec![(process.key.start, Arc::clone(&process.program))];
        self.truth.lives.insert(who, Life { images, ended: None });
        self.living.insert(process.key.pid.0, process);
    }

    pub(crate) fn at(&self) -> At {
        (self.clocks.boot, self.clocks.now())
    }

    fn moment(&self) -> Moment {
        // Utilization is not what is simulated here: no sample is ever due.
        Moment { mono_us: 0, wall_us: self.clocks.wall_us() }
    }

    /// Time passes, and contexts are torn down in it.
    pub(crate) fn pass(&mut self, us: u64) {
        let until = self.clocks.boot_us + us;
        self.tear_down(until);
        self.clocks.pass(until - self.clocks.boot_us);
    }

    /// The machine sleeps; nothing happens meanwhile.
    pub(crate) fn sleep(&mut self, us: u64) {
        self.clocks.sleep(us);
        self.tear_down(self.clocks.boot_us);
    }

    fn tear_down(&mut self, until_us: u64) {
        loop {
            let due = self.cards.iter().enumerate().flat_map(|(card, one)| {
                let objects = one.objects.iter().enumerate();
                objects.filter_map(move |(place, object)| Some((object.closes_at_us?, card, place)))
            });
            let Some((at_us, card, place)) = due.min().filter(|(at, ..)| *at <= until_us) else {
                return;
            };
            self.clocks.pass(at_us.saturating_sub(self.clocks.boot_us));
            let object = self.cards[card].objects.remove(place);
            let now = self.moment();
            self.cards[card].model.close(object.id, now);
            self.take_ended(card);
        }
    }

    fn take_ended(&mut self, card: usize) {
        let now = self.at();
        for ended in self.cards[card].model.take_ended() {
            self.truth.ended(card, ended, now);
        }
    }

    fn about(&self, process: &Process) -> About {
        let Process { key, parent, uid, .. } = *process;
        About { key, parent, uid, at: self.clocks.now() }
    }

    /// A pid that nobody has. A process that is gone keeps its own until its descriptors are closed,
    /// unless somebody else has duplicates of them.
    fn free_pid(&mut self) -> Option<u32> {
        for next in 1..=self.pids {
            let pid = PID_MIN + (self.pid_last + next) % self.pids;
            let objects = self.cards.iter().flat_map(|card| &card.objects);
            let closing = objects.into_iter().any(|one| one.pid == pid && one.holders.is_empty());
            if !self.living.contains_key(&pid) && !closing {
                self.pid_last = pid - PID_MIN;
                let used = |(_, key): &(_, ProcessKey)| key.pid.0 == pid;
                if self.truth.lives.keys().any(used) {
                    self.tally.count(Kind::PidReused);
                }
                return Some(pid);
            }
        }
        None
    }

    /// A process of the machine that does something, the shell left out.
    pub(crate) fn any_process(&mut self) -> Option<u32> {
        let count = self.living.range(PID_MIN..).count() as u64;
        let place = self.random.below(count) as usize;
        self.living.range(PID_MIN..).nth(place).map(|(pid, _)| *pid)
    }

    /// A new process.
    pub(crate) fn fork(&mut self, parent: u32) -> Option<u32> {
        let pid = self.free_pid()?;
        let from = self.living.get(&parent)?.clone();
        let us = self.random.between(1, 300);
        self.pass(us);
        let key = ProcessKey { pid: Pid(pid), start: self.clocks.now() };
        let uid =
            if from.uid == 0 { 1_000 + u32::from(key.start.0.is_multiple_of(2)) } else { from.uid };
        let child = Process { key, parent: from.key, uid, program: from.program };
        self.kernel.fork(self.about(&child), &mut self.random);
        self.live(child);
        self.tally.count(Kind::Fork);
        if self.random.below(4) == 0 {
            for (place, card) in self.cards.iter_mut().enumerate() {
                let theirs = |one: &&mut Object| one.holders.contains(&from.key);
                for object in card.objects.iter_mut().filter(theirs) {
                    object.holders.insert(key);
                    self.truth.duplicated(place, object.pid);
                    self.tally.count(Kind::DescriptorInherited);
                }
            }
        }
        Some(pid)
    }

    /// A new image; descriptors of the driver are closed by it.
    pub(crate) fn exec(&mut self, pid: u32) {
        let us = self.random.between(1, 100);
        self.pass(us);
        let program = PROGRAMS[self.random.below(PROGRAMS.len() as u64) as usize];
        // The driver's descriptors are closed by it, and what they held is gone when the new image runs.
        let Some(key) = self.living.get(&pid).map(|process| process.key) else { return };
        self.drop_descriptors(key, 1);
        self.pass(2);
        let now = self.clocks.now();
        let Some(process) = self.living.get_mut(&pid) else { return };
        process.program = Arc::from(program);
        let process = process.clone();
        let life = self.truth.lives.get_mut(&(self.clocks.boot, process.key)).unwrap();
        life.images.push((now, Arc::clone(&process.program)));
        self.kernel.exec(self.about(&process), program, &mut self.random);
        self.tally.count(Kind::Exec);
    }

    pub(crate) fn exit(&mut self, pid: u32) {
        let us = self.random.between(1, 50);
        self.pass(us);
        let Some(process) = self.living.remove(&pid) else { return };
        let now = self.clocks.now();
        self.truth.lives.get_mut(&(self.clocks.boot, process.key)).unwrap().ended = Some(now);
        self.kernel.exit(self.about(&process), &mut self.random);
        let init = self.living[&1].key;
        for orphan in self.living.values_mut().filter(|one| one.parent == process.key) {
            orphan.parent = init;
        }
        self.drop_descriptors(process.key, self.teardown_us_max);
        self.tally.count(Kind::Exit);
    }

    fn drop_descriptors(&mut self, key: ProcessKey, teardown_us_max: u64) {
        let now_us = self.clocks.boot_us;
        for object in self.cards.iter_mut().flat_map(|card| &mut card.objects) {
            if object.holders.remove(&key) && object.holders.is_empty() {
                let delay = 1 + self.random.below(teardown_us_max);
                object.closes_at_us = Some(now_us + delay);
                self.tally.count(Kind::TeardownDelayed);
            } else if object.holders.len() == 1 && object.pid == key.pid.0 {
                self.tally.count(Kind::HeldByADuplicate);
            }
        }
    }

    /// A process opens a GPU.
    pub(crate) fn open(&mut self, pid: u32, card: usize) {
        self.pass(2);
        let Some(process) = self.living.get(&pid).cloned() else { return };
        self.kernel.touch(self.about(&process), 255, &mut self.random);
        self.kernel.touch(self.about(&process), u32::try_from(card).unwrap(), &mut self.random);
        self.pass(2);
        // Two spans of one pid never begin in one microsecond, whatever was done to the clock.
        while self.truth.rows.contains_key(&(card, pid, self.clocks.wall_us())) {
            self.pass(1);
        }
        let (now, at) = (self.moment(), self.at());
        let who = (self.clocks.boot, process.key);
        let (id, opened) = self.cards[card].model.open(pid, now);
        match opened {
            Opened::Born => self.truth.opened((card, pid, now.wall_us), who, at, true),
            Opened::NoEntry => self.truth.opened((card, pid, now.wall_us), who, at, false),
            Opened::Joined => {
                let live = self.truth.rows.iter_mut().rev();
                let joined = live.filter(|((of, by, _), row)| {
                    *of == card && *by == pid && row.fate == Fate::Live
                });
                for (_, row) in joined {
                    if row.opener != who {
                        row.joined.push(who);
                        self.tally.count(Kind::RowJoinedByAnother);
                    }
                }
            }
        }
        let holders = BTreeSet::from([process.key]);
        self.cards[card].objects.push(Object { id, pid, holders, closes_at_us: None });
        let usage = Use { memory_bytes: 1 << 20, channel: true, ..Use::default() };
        if self.random.below(8) > 0 {
            self.cards[card].model.set_use(id, usage, now);
            self.truth.used(card, pid, at);
        } else {
            self.tally.count(Kind::MonitorOpened);
        }
        self.take_ended(card);
        self.tally.count(Kind::Open);
    }

    /// A process closes one of its contexts.
    pub(crate) fn close(&mut self, pid: u32) {
        self.pass(1);
        let Some(key) = self.living.get(&pid).map(|process| process.key) else { return };
        let now_us = self.clocks.boot_us;
        let mut objects = self.cards.iter_mut().flat_map(|card| &mut card.objects);
        let Some(object) = objects.find(|one| one.holders.contains(&key)) else { return };
        object.holders.remove(&key);
        if object.holders.is_empty() {
            object.closes_at_us = Some(now_us);
        }
        self.tear_down(now_us);
        self.tally.count(Kind::Close);
    }

    /// Many short processes one after another.
    pub(crate) fn storm(&mut self, count: u64) {
        for _ in 0..count {
            let Some(pid) = self.fork(SHELL) else { return };
            self.exec(pid);
            self.open(pid, 0);
            self.exit(pid);
            self.pass(self.teardown_us_max.min(1_000));
        }
        self.tally.count(Kind::Storm);
    }

    pub(crate) fn set_mode(&mut self, card: usize, on: bool) {
        self.pass(1);
        let (now, at) = (self.moment(), self.at());
        let was = self.cards[card].model.accounting_mode();
        if self.cards[card].model.set_accounting(on, now).is_err() || was == on {
            return;
        }
        self.mode_is(card, on, at);
        self.take_ended(card);
        self.tally.count(if on { Kind::ModeOn } else { Kind::ModeOff });
    }

    fn mode_is(&mut self, card: usize, on: bool, at: At) {
        let open = self.truth.off.iter_mut().find(|(of, _, to)| *of == card && to.is_none());
        match (open, on) {
            (Some((_, _, to)), true) => *to = Some(at),
            (None, false) => self.truth.off.push((card, at, None)),
            _ => {}
        }
    }

    /// The GPU is reset: live rows go, the mode with them.
    pub(crate) fn reset(&mut self, card: usize) {
        self.pass(1);
        let (now, at) = (self.moment(), self.at());
        self.cards[card].model.teardown(now);
        self.take_ended(card);
        self.cards[card].fault = Fault::Nothing;
        self.mode_is(card, false, at);
        self.tally.count(Kind::Reset);
    }

    pub(crate) fn clear(&mut self, card: usize) {
        self.pass(1);
        let at = self.at();
        self.cards[card].model.clear();
        self.truth.empty_store(card, Fate::Cleared, at);
        self.truth.clears.push((card, at));
        self.tally.count(Kind::Clear);
    }

    pub(crate) fn step_clock(&mut self, us: i64) {
        self.clocks.step(us);
        let at = self.at();
        self.steps.push(at);
        self.tally.count(if us < 0 { Kind::ClockBack } else { Kind::ClockForward });
    }

    /// Everything of the machine is new.
    pub(crate) fn reboot(&mut self) {
        let at = self.at();
        self.truth.unload(at);
        for (card, _, to) in &mut self.truth.off {
            let _ = card;
            to.get_or_insert(at);
        }
        let ends: Vec<ProcessKey> = self.living.values().map(|one| one.key).collect();
        for key in ends {
            self.truth.lives.get_mut(&(self.clocks.boot, key)).unwrap().ended = Some(at.1);
        }
        self.living.clear();
        let (off, up) = (self.random.between(1, 600), self.random.between(5, 60));
        self.clocks.reboot(off * 1_000_000, up * 1_000_000);
        self.kernel.detach();
        let now = self.at();
        for (place, card) in self.cards.iter_mut().enumerate() {
            // A unit turns accounting on at boot, most of the time.
            let accounting = self.random.below(6) > 0;
            card.model = Gpu::new(&Setup { accounting, seed: 1 });
            (card.objects, card.fault) = (Vec::new(), Fault::Nothing);
            if !accounting {
                self.truth.off.push((place, now, None));
            }
        }
        self.pid_last = 0;
        self.populate();
        self.tally.count(Kind::Boot);
    }

    pub(crate) fn make_cgroup(&mut self) {
        self.pass(1);
        self.cgroups += 1;
        let about = self.about(&self.living[&SHELL]);
        self.kernel.cgroup(about, self.cgroups, &mut self.random);
    }

    /// What procfs shows, between two moments.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        let began = self.clocks.now();
        self.pass(200);
        let seen = self.living.values().map(|process| SeenProcess {
            pid: process.key.pid,
            start_ticks: process.key.start.ticks(),
            parent: process.parent.pid,
            comm: process.program.as_bytes().to_vec().into(),
            argv: argv(&process.program),
            exe_path: file_of(&process.program),
            exe: Some(exe_of(&process.program)),
            user: User {
                uid: Some(process.uid),
                euid: Some(process.uid),
                login_uid: LoginUid::Set(process.uid),
            },
            cgroups: Vec::new(),
            is_kernel_thread: false,
        });
        let processes = seen.collect();
        self.pass(200);
        Snapshot { began, ended: self.clocks.now(), processes, unreadable: BTreeSet::new() }
    }

    pub(crate) fn facts(&self, card: usize) -> GpuFacts {
        let unknown = UnknownReason::ValueNotAvailable;
        let index = u32::try_from(card).unwrap();
        GpuFacts {
            uuid: self.cards[card].uuid.clone(),
            index,
            name: Observed::Known("made".to_owned()),
            minor: Observed::Known(index),
            pci_bus_id: Observed::Unknown(unknown),
            persistence: Observed::Known(true),
            mig: Observed::Unknown(unknown),
            vgpu_host: Observed::Unknown(unknown),
            accounting: Ok(self.cards[card].model.accounting_mode()),
            buffer_size: Observed::Known(4_000),
        }
    }

    /// Whatever a machine does by itself in a moment.
    pub(crate) fn stir(&mut self) {
        if self.is_still {
            return;
        }
        let card = self.random.below(self.cards.len() as u64) as usize;
        match (self.random.below(6), self.any_process()) {
            (0, _) => {
                self.fork(SHELL);
            }
            (1, Some(pid)) => self.exec(pid),
            (2, Some(pid)) => self.exit(pid),
            (3, Some(pid)) => self.close(pid),
            (_, Some(pid)) => self.open(pid, card),
            _ => {}
        }
    }
}
