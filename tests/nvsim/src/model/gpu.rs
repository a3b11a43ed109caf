//! One GPU: its device objects, its stores, its mode.

use std::collections::BTreeMap;

use super::entry::Entry;
use super::ring::{Demand, Ring, Step};
use super::stores::Stores;
use super::{Moment, Pid};

/// Pids of made-up entries begin here: the kernel gives out none above 2^22 (`PID_MAX_LIMIT`).
const PID_MADE_UP_MIN: Pid = 5_000_000;

/// Names a device object on one GPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectId(u64);

/// What a GPU begins with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether accounting is on at first.
    pub accounting: bool,
    /// Decides which of several busy processes a sample names.
    pub seed: u64,
}

/// Why an entry never became final.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Loss {
    /// Accounting was switched off meanwhile (rule 9).
    ModeOff,
    /// The driver's state for the GPU was torn down (rule 11).
    Teardown,
    /// 3,872 younger live entries came (rule 6).
    LiveEvicted,
    /// It opened the device while accounting was off (rule 12).
    NoEntry,
}

impl Loss {
    /// The cause as the truth log writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModeOff => "mode-off",
            Self::Teardown => "teardown",
            Self::LiveEvicted => "live-evicted",
            Self::NoEntry => "no-entry",
        }
    }
}

/// A span that is over, whether the driver will tell of it or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The process.
    pub pid: Pid,
    /// Microseconds since the epoch.
    pub start_us: u64,
    /// Microseconds since the epoch.
    pub end_us: u64,
    /// Whether it ever had a channel or memory.
    pub billable: bool,
    /// Why it never became final, if so.
    pub loss: Option<Loss>,
}

/// What opening the device did to the accounting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// An entry was born (rule 2).
    Born,
    /// The pid's live entry counts one object more (rules 2 and 19).
    Joined,
    /// Accounting is off: no entry (rule 12).
    NoEntry,
}

/// What the driver refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not supported on this GPU as it is set up: MIG is on, or it is a vGPU host")]
pub struct Refusal;

#[derive(Clone, Copy, Debug, Default)]
struct Object {
    pid: Pid,
    opened_us: u64,
    /// Whether accounting was on when it was opened.
    entered: bool,
    billable: bool,
    memory_bytes: u64,
    busy_percent: u32,
    memory_busy_percent: u32,
}

/// One GPU of the simulated driver.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(super) stores: Stores,
    pub(super) ring: Ring,
    objects: BTreeMap<ObjectId, Object>,
    accounting: bool,
    mig: bool,
    vgpu_host: bool,
    next_object: u64,
    next_made_up: Pid,
    ended: Vec<Ended>,
}

impl Gpu {
    /// A GPU that nobody has opened yet.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        Self {
            stores: Stores::default(),
            ring: Ring::new(setup.seed),
            objects: BTreeMap::new(),
            accounting: setup.accounting,
            mig: false,
            vgpu_host: false,
            next_object: 0,
            next_made_up: PID_MADE_UP_MIN,
            ended: Vec::new(),
        }
    }

    /// Plays samples and ticks up to `now`. Every other method that takes a moment does so first.
    pub fn advance(&mut self, now: Moment) {
        let demands: Vec<Demand> = self
            .objects
            .values()
            .filter(|object| object.busy_percent > 0 || object.memory_busy_percent > 0)
            .map(|object| Demand {
                pid: object.pid,
                gpu_percent: object.busy_percent,
                fb_percent: object.memory_busy_percent,
            })
            .collect();
        let watched = !self.objects.is_empty() || !self.stores.has_no_live();
        while let Step::Tick(samples) = self.ring.play(now, &demands, watched) {
            for entry in self.stores.live_mut() {
                for sample in &samples {
                    entry.fold(sample);
                }
            }
        }
    }

    /// A process allocates a device object (rules 1, 2, 12 and 19).
    pub fn open(&mut self, pid: Pid, now: Moment) -> (ObjectId, Opened) {
        self.advance(now);
        let id = ObjectId(self.next_object);
        self.next_object += 1;
        let entered = self.accounting_runs();
        let object = Object { pid, opened_us: now.wall_us, entered, ..Object::default() };
        self.objects.insert(id, object);
        if !entered {
            return (id, Opened::NoEntry);
        }
        if let Some(entry) = self.stores.live_of(pid) {
            entry.objects += 1;
            return (id, Opened::Joined);
        }
        let born = Entry::born(pid, now.wall_us, now.mono_us);
        if let Some(evicted) = self.stores.add_live(born) {
            self.lose(&evicted, now, Loss::LiveEvicted);
        }
        (id, Opened::Born)
    }

    /// The object's process allocates: sets what the object uses from now on (rules 3 and 8).
    /// An object that is closed already is left alone.
    pub fn set_use(&mut self, id: ObjectId, usage: crate::protocol::Use, now: Moment) {
        self.advance(now);
        let Some(object) = self.objects.get_mut(&id) else { return };
        object.memory_bytes = usage.memory_bytes;
        object.busy_percent = usage.busy_percent;
        object.memory_busy_percent = usage.memory_busy_percent;
        object.billable |= usage.channel || usage.memory_bytes > 0;
        let (pid, billable) = (object.pid, object.billable);
        let memory_bytes = self.memory_of(pid);
        if let Some(entry) = self.stores.live_of(pid) {
            entry.billable |= billable;
            entry.memory_peak_bytes = entry.memory_peak_bytes.max(memory_bytes);
        }
    }

    /// The object's kernels run no more; its memory is still held.
    pub fn stop_work(&mut self, id: ObjectId, now: Moment) {
        self.advance(now);
        if let Some(object) = self.objects.get_mut(&id) {
            (object.busy_percent, object.memory_busy_percent) = (0, 0);
        }
    }

    /// The object is gone. Whichever object of the pid it was, the entry's count falls: an object
    /// older than accounting thus closes a younger one's entry early (rules 4 and 12).
    pub fn close(&mut self, id: ObjectId, now: Moment) {
        self.advance(now);
        let Some(object) = self.objects.remove(&id) else { return };
        let Some(entry) = self.stores.live_of(object.pid) else {
            self.close_without_entry(&object, now);
            return;
        };
        entry.objects -= 1;
        if entry.objects > 0 {
            return;
        }
        let Some(mut entry) = self.stores.take_live(object.pid) else { return };
        self.ended.push(ended(&entry, now, None));
        if entry.billable {
            entry.end_us = Some(now.wall_us);
            self.stores.add_dead(entry);
        }
    }

    fn close_without_entry(&mut self, object: &Object, now: Moment) {
        if object.entered {
            // Its entry was lost earlier, and that was told then.
            return;
        }
        self.ended.push(Ended {
            pid: object.pid,
            start_us: object.opened_us,
            end_us: now.wall_us,
            billable: object.billable,
            loss: Some(Loss::NoEntry),
        });
    }

    /// Whether new objects get entries and live ones may be told of.
    const fn accounting_runs(&self) -> bool {
        self.vgpu_host || (self.accounting && !self.mig)
    }

    /// What `GetAccountingMode` says (rules 13 and 16).
    #[must_use]
    pub const fn accounting_mode(&self) -> bool {
        self.accounting_runs()
    }

    /// Switches accounting on or off (rules 9, 13 and 16).
    ///
    /// # Errors
    /// Under MIG and on a vGPU host the mode cannot be set.
    pub fn set_accounting(&mut self, on: bool, now: Moment) -> Result<(), Refusal> {
        if self.mig || self.vgpu_host {
            return Err(Refusal);
        }
        self.advance(now);
        if self.accounting && !on {
            self.lose_all_live(now, Loss::ModeOff);
        }
        self.accounting = on;
        Ok(())
    }

    /// Throws the dead entries away (rule 10).
    pub fn clear(&mut self) {
        self.stores.clear_dead();
    }

    /// The driver's state for the GPU goes: mode off, live entries lost, dead ones kept (rule 11).
    pub fn teardown(&mut self, now: Moment) {
        self.advance(now);
        self.lose_all_live(now, Loss::Teardown);
        self.accounting = false;
    }

    /// MIG on forces accounting off; off again leaves it off (rule 13).
    pub fn set_mig(&mut self, on: bool, now: Moment) {
        self.advance(now);
        self.mig = on;
        if on {
            self.lose_all_live(now, Loss::ModeOff);
            self.accounting = false;
        }
    }

    /// Makes it a vGPU host, or bare metal again (rule 16).
    pub const fn set_vgpu_host(&mut self, on: bool) {
        self.vgpu_host = on;
    }

    /// Whether MIG is on.
    #[must_use]
    pub const fn mig(&self) -> bool {
        self.mig
    }

    /// Whether this is a vGPU host.
    #[must_use]
    pub const fn vgpu_host(&self) -> bool {
        self.vgpu_host
    }

    /// Whether any process holds the GPU.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Adds finished entries of processes that never were, as strangers' deaths would.
    pub fn add_made_up_dead(&mut self, count: u64, now: Moment) {
        for _ in 0..count {
            let mut entry = self.made_up(now);
            entry.end_us = Some(now.wall_us);
            self.stores.add_dead(entry);
        }
    }

    /// Adds live entries of processes that never were.
    pub fn add_made_up_live(&mut self, count: u64, now: Moment) {
        for _ in 0..count {
            let entry = self.made_up(now);
            let id = ObjectId(self.next_object);
            self.next_object += 1;
            let object = Object {
                pid: entry.pid,
                opened_us: now.wall_us,
                entered: true,
                billable: true,
                memory_bytes: entry.memory_peak_bytes,
                ..Object::default()
            };
            self.objects.insert(id, object);
            if let Some(evicted) = self.stores.add_live(entry) {
                self.lose(&evicted, now, Loss::LiveEvicted);
            }
        }
    }

    /// Takes away the oldest dead entries and, when none is left, made-up live ones.
    pub fn shrink(&mut self, count: u64) {
        for _ in 0..count {
            if self.stores.drop_oldest_dead() {
                continue;
            }
            let made_up = self.objects.iter().find(|(_, object)| object.pid >= PID_MADE_UP_MIN);
            let Some((id, pid)) = made_up.map(|(id, object)| (*id, object.pid)) else { return };
            self.objects.remove(&id);
            self.stores.take_live(pid);
        }
    }

    fn made_up(&mut self, now: Moment) -> Entry {
        let mut entry = Entry::born(self.next_made_up, now.wall_us, now.mono_us);
        self.next_made_up += 1;
        entry.billable = true;
        entry.memory_peak_bytes = 1 << 20;
        entry
    }

    /// Spans that ended since the last call.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }

    /// Device memory of a pid over all its objects, in bytes.
    fn memory_of(&self, pid: Pid) -> u64 {
        let own = self.objects.values().filter(|object| object.pid == pid);
        own.map(|object| object.memory_bytes).sum()
    }

    /// What the billable objects hold: (pid, bytes) once per object.
    pub(super) fn held(&self) -> impl Iterator<Item = (Pid, u64)> {
        let billable = self.objects.values().filter(|object| object.billable);
        billable.map(|object| (object.pid, object.memory_bytes))
    }

    fn lose_all_live(&mut self, now: Moment, loss: Loss) {
        for entry in self.stores.take_all_live() {
            self.lose(&entry, now, loss);
        }
    }

    fn lose(&mut self, entry: &Entry, now: Moment, loss: Loss) {
        self.ended.push(ended(entry, now, Some(loss)));
    }
}

const fn ended(entry: &Entry, now: Moment, loss: Option<Loss>) -> Ended {
    Ended {
        pid: entry.pid,
        start_us: entry.start_us,
        end_us: now.wall_us,
        billable: entry.billable,
        loss,
    }
}
