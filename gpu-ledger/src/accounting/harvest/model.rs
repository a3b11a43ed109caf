//! A small model of the driver's stores, as the tests' truth: one live and one dead entry per pid,
//! 128 dead ones in a queue, a later span of a pid replaces the earlier, a query looks in the dead store
//! first, mode off throws live entries away, clear the dead ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{DEAD_ROWS_MAX, Harvest};
use crate::accounting::reading::{Answer, Finding, GpuRead, Listing, Observation, ReadContent};
use crate::accounting::{Row, Window};
use crate::clock::Stamp;
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::Observed;

pub(super) const GPU: &str = "GPU-00000000-model";
const EPOCH_US: u64 = 1_700_000_000_000_000;

pub(super) type Key = (Pid, u64);

/// How a span left the stores without being there any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    Evicted,
    Replaced,
    Cleared,
    ThrownAway,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) now_us: u64,
    pub(super) on: bool,
    live: Vec<Key>,
    dead: VecDeque<(Key, u64)>,
    pub(super) deaths: u64,
    /// Every span that left the stores, and when.
    pub(super) lost: BTreeMap<Key, (Lost, u64)>,
    /// When the dead store was cleared.
    pub(super) clears: Vec<u64>,
    /// Every question about a row is answered with NOT_FOUND.
    pub(super) rows_fail: bool,
    next_burst_pid: u32,
}

impl Model {
    pub(super) fn on() -> Self {
        Self { on: true, ..Self::default() }
    }

    pub(super) fn pass(&mut self, us: u64) {
        self.now_us += us;
    }

    pub(super) fn stamp(&self) -> Stamp {
        let boot = BootNs(self.now_us * 1_000);
        Stamp { boot, mono_ns: boot.0, wall: WallUs(EPOCH_US + self.now_us) }
    }

    pub(super) fn open(&mut self, pid: u32) {
        self.pass(10);
        let key = (Pid(pid), self.stamp().wall.0);
        if self.on && !self.live.iter().any(|live| live.0 == Pid(pid)) {
            self.live.push(key);
        }
    }

    pub(super) fn close(&mut self, pid: u32) {
        self.pass(10);
        let Some(place) = self.live.iter().position(|live| live.0 == Pid(pid)) else { return };
        let key = self.live.remove(place);
        self.deaths += 1;
        if let Some(old) = self.dead.iter().position(|dead| dead.0.0 == Pid(pid)) {
            let (old, _) = self.dead.remove(old).unwrap();
            self.lose(old, Lost::Replaced);
        }
        if self.dead.len() == DEAD_ROWS_MAX {
            let (oldest, _) = self.dead.pop_front().unwrap();
            self.lose(oldest, Lost::Evicted);
        }
        let held_ms = (self.stamp().wall.0 - key.1) / 1_000;
        self.dead.push_back((key, held_ms));
    }

    /// Short jobs, one after another, of pids that come round again.
    pub(super) fn burst(&mut self, jobs: u32) {
        for _ in 0..jobs {
            let pid = 1_000 + self.next_burst_pid;
            self.next_burst_pid = (self.next_burst_pid + 1) % 400;
            self.open(pid);
            self.pass(700);
            self.close(pid);
        }
    }

    pub(super) fn clear(&mut self) {
        self.pass(10);
        self.clears.push(self.now_us);
        for (key, _) in std::mem::take(&mut self.dead) {
            self.lose(key, Lost::Cleared);
        }
    }

    pub(super) fn set_mode(&mut self, on: bool) {
        self.pass(10);
        if !on {
            for key in std::mem::take(&mut self.live) {
                self.lose(key, Lost::ThrownAway);
            }
        }
        self.on = on;
    }

    fn lose(&mut self, key: Key, how: Lost) {
        self.lost.insert(key, (how, self.now_us));
    }

    pub(super) fn dead_keys(&self) -> BTreeSet<Key> {
        self.dead.iter().map(|dead| dead.0).collect()
    }

    pub(super) fn list(&self) -> Vec<Pid> {
        let dead = self.dead.iter().map(|dead| dead.0.0);
        dead.chain(self.live.iter().map(|live| live.0)).collect()
    }

    /// Every row that is in a store now and that nobody can read as things stand.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = Key> {
        let stored = self.dead.iter().map(|dead| dead.0).chain(self.live.iter().copied());
        stored.filter(|_| self.rows_fail || !self.on)
    }

    pub(super) fn ask(&self, pid: Pid) -> Answer {
        if self.rows_fail {
            return Answer::Gone;
        }
        let dead = self.dead.iter().find(|dead| dead.0.0 == pid);
        let dead = dead.map(|(key, held)| row(*key, *held, false));
        let live = self.live.iter().find(|live| live.0 == pid).map(|key| row(*key, 0, true));
        dead.or(live).map_or(Answer::Gone, Answer::Row)
    }

    /// One read as the worker makes it; `between` is called before each question.
    pub(super) fn read(
        &mut self,
        harvest: &mut Harvest,
        exits: Option<u64>,
        sweep: bool,
        mut between: impl FnMut(&mut Self),
    ) -> (Observation, BTreeSet<Key>) {
        self.pass(1_000);
        let began = self.stamp();
        self.pass(10);
        let mut visible = self.dead_keys();
        let content = if self.on {
            let pids = self.list();
            let mut answers = BTreeMap::new();
            loop {
                let asked = harvest.plan(&pids, &answers, sweep);
                if asked.is_empty() {
                    break;
                }
                for pid in asked {
                    between(self);
                    answers.insert(pid, self.ask(pid));
                    self.pass(5);
                }
            }
            ReadContent::Listed(Listing { pids, junk_pids: 0, answers })
        } else {
            visible.clear();
            ReadContent::AccountingOff
        };
        let still = self.dead_keys();
        visible.retain(|key| still.contains(key) && !self.rows_fail);
        let window = Window { began, ended: self.stamp() };
        self.pass(1_000);
        (harvest.observe(&GpuRead { window, touching_exits: exits, content }), visible)
    }

    /// A read of a list that does not change under it, with every exit counted.
    pub(super) fn read_quietly(&mut self, harvest: &mut Harvest) -> Observation {
        let deaths = std::mem::take(&mut self.deaths);
        self.read(harvest, Some(deaths), false, |_| {}).0
    }
}

pub(super) fn row((pid, start): Key, held_ms: u64, running: bool) -> Row {
    Row {
        gpu: GpuUuid(GPU.into()),
        pid,
        start: Some(WallUs(start)),
        held: Ms(held_ms),
        running,
        memory_peak: Observed::Known(Bytes(1 << 20)),
        utilization: Observed::Known(0),
        sums: None,
    }
}

pub(super) fn harvest() -> Harvest {
    Harvest::new(GpuUuid(GPU.into()), false)
}

/// The keys that a read handed out.
pub(super) fn handed_out(seen: &Observation) -> Vec<Key> {
    let rows = seen.findings.iter().filter_map(|finding| match finding {
        Finding::Final(row) | Finding::AlreadyDead(row) => Some(&row.row),
        _ => None,
    });
    rows.map(|row| (row.pid, row.start.unwrap().0)).collect()
}
