//! From samples to stretches: the fold of one GPU.

use super::{
    Beyond, ByteMs, Device, HOLDERS_MAX, Held, Holder, Holding, Pace, SLOT_MS, Sampling, Stretch,
    Voids, add_voids,
};
use crate::clock::{STEP_US_MIN, Stamp};
use crate::residency::moment::Length;
use crate::residency::sample::{Sample, Status};
use crate::residency::verdict::VoidReason;
use crate::unit::{BootNs, GpuUuid, WallUs};
use crate::unknown::UnknownReason;

/// How long a sample that landed may take to be told. Later than that it is not waited for: the one before it is
/// over its age.
const TELLING: Length = Length::of_ms(2_000);
/// The boot clock may lead the monotonic one by this much more without the machine having slept: they are read one
/// after the other.
const ASLEEP_NS_MIN: u64 = 1_000_000;

/// A sample, and who its processes are.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The sample.
    pub sample: Sample,
    /// All clocks, read after it.
    pub stamp: Stamp,
    /// Each process of its list, with its memory in bytes where the driver said it.
    pub holders: Vec<(Holder, Option<u64>)>,
}

/// How the meter does in this run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tallied {
    /// The newest sample: before it was asked for, and when it landed.
    pub newest: Option<(BootNs, BootNs)>,
    /// Why the last pass brought none; `None` where it did.
    pub lack: Option<UnknownReason>,
    /// Samples that landed.
    pub samples: u64,
    /// Passes that brought none.
    pub failed: u64,
}

/// The sample that holds.
#[derive(Debug)]
struct Current {
    /// Before the first of its fields was asked for.
    before: BootNs,
    landed: BootNs,
    asleep_ns: u64,
    used: u64,
    unattributed: u64,
    excess: u64,
    holders: Vec<(Holder, Option<u64>)>,
}

/// The stretch that is being filled.
#[derive(Debug)]
struct Filling {
    from_ms: u64,
    reached_ms: u64,
    sampling: Sampling,
    device: Device,
    holders: Vec<Holding>,
    beyond: Option<Beyond>,
    voids: Voids,
}

impl Filling {
    const fn at(from_ms: u64) -> Self {
        Self {
            from_ms,
            reached_ms: from_ms,
            sampling: Sampling { samples: 0, failed: 0, recoveries: 0, age_max: Length(0) },
            device: Device { used: ByteMs(0), unattributed: ByteMs(0), excess: ByteMs(0) },
            holders: Vec::new(),
            beyond: None,
            voids: Voids::new(),
        }
    }

    fn void(&mut self, reason: VoidReason) {
        add_voids(&mut self.voids, [(reason, 1)]);
    }

    /// What holds, for `ms` more.
    fn hold(&mut self, current: &Current, ms: u64) {
        self.reached_ms = self.reached_ms.saturating_add(ms);
        let add = |sum: &mut ByteMs, bytes| *sum = sum.plus(ByteMs::of(bytes, ms));
        add(&mut self.device.used, current.used);
        add(&mut self.device.unattributed, current.unattributed);
        add(&mut self.device.excess, current.excess);
        let mut without_room = 0_u64;
        for (holder, bytes) in &current.holders {
            let known = self.holders.iter_mut().find(|known| known.holder == *holder);
            if let Some(known) = known {
                known.held.add(*bytes, ms);
            } else if self.holders.len() < HOLDERS_MAX {
                let mut held = Held::default();
                held.add(*bytes, ms);
                self.holders.push(Holding { holder: holder.clone(), held });
            } else {
                without_room = without_room.saturating_add(1);
                let beyond =
                    self.beyond.get_or_insert(Beyond { holders: 0, held: Held::default() });
                beyond.held.add(*bytes, ms);
            }
        }
        if let Some(beyond) = &mut self.beyond {
            beyond.holders = beyond.holders.max(without_room);
        }
    }
}

/// Folds the samples of one GPU.
#[derive(Debug)]
pub struct Meter {
    gpu: GpuUuid,
    pace: Pace,
    current: Option<Current>,
    filling: Option<Filling>,
    /// Wall − boot in µs, as long as nobody steps the wall clock.
    offset_us: i64,
    /// The last sample got over its age: the hour in which the next one lands is void as well.
    was_late: bool,
    /// Passes without a sample since the last that landed.
    failed: Voids,
    tallied: Tallied,
    done: Vec<Stretch>,
}

impl Meter {
    /// Of a GPU that is sampled so.
    #[must_use]
    pub fn new(gpu: GpuUuid, pace: Pace) -> Self {
        Self {
            gpu,
            pace,
            current: None,
            filling: None,
            offset_us: 0,
            was_late: false,
            failed: Voids::new(),
            tallied: Tallied::default(),
            done: Vec::new(),
        }
    }

    /// How it is sampled.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// How it does.
    #[must_use]
    pub const fn tallied(&self) -> Tallied {
        self.tallied
    }

    /// The next sample. Samples are to be given in the order they were made.
    pub fn take(&mut self, seen: Seen) {
        let Seen { sample, stamp, holders } = seen;
        let list = sample.fields.processes.as_ref().filter(|list| list.known().is_some());
        let memory = sample.fields.memory.known();
        let (Some(list), Some(memory), Some(landed)) = (list, memory, sample.landed_at_ns) else {
            return self.note_failed(&sample);
        };
        let before = list.before_ns.min(sample.fields.memory.before_ns);
        let listed =
            holders.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(bytes.unwrap_or(0)));
        let current = Current {
            before,
            landed,
            asleep_ns: stamp.asleep_since_boot_ns(),
            used: memory.used_bytes,
            unattributed: memory.used_bytes.saturating_sub(listed),
            excess: listed.saturating_sub(memory.used_bytes),
            holders,
        };
        let offset_us = offset_us(stamp);
        self.reach(&current);
        if self.offset_us.abs_diff(offset_us) >= STEP_US_MIN {
            self.close_stretch(true);
            self.offset_us = offset_us;
        }
        let from_ms = self.ms_of(landed);
        let late = std::mem::take(&mut self.was_late);
        let filling = self.filling.get_or_insert_with(|| Filling::at(from_ms));
        if late {
            filling.void(VoidReason::AgeSupOverCap);
        }
        filling.sampling.samples = filling.sampling.samples.saturating_add(1);
        let recoveries = filling.sampling.recoveries;
        filling.sampling.recoveries = recoveries.saturating_add(u64::from(sample.recovery));
        let age = Length(landed.0.saturating_sub(before.0));
        filling.sampling.age_max = filling.sampling.age_max.max(age);
        self.tallied.samples = self.tallied.samples.saturating_add(1);
        (self.tallied.newest, self.tallied.lack) = (Some((before, landed)), None);
        self.failed.clear();
        self.current = Some(current);
    }

    /// What holds, up to the landing of the next sample.
    fn reach(&mut self, next: &Current) {
        let Some(current) = self.current.take() else { return };
        if next.landed < current.landed {
            // No age means anything any more: what held ends where it was.
            self.void(VoidReason::ClockUnusable);
            self.close_stretch(false);
            return;
        }
        let over = current.before.plus_ns(self.pace.cap.0);
        if next.landed > over {
            self.get_late(&current, over, None);
            return;
        }
        let slept = next.asleep_ns.saturating_sub(current.asleep_ns) > ASLEEP_NS_MIN;
        self.hold(&current, next.landed);
        if slept {
            self.void(VoidReason::SuspendDetected);
        }
    }

    /// Time passes: a sample whose successor did not come gets over its age. `in_flight_since`: the driver call that is
    /// under way.
    pub fn until(&mut self, now: BootNs, in_flight_since: Option<BootNs>) {
        let Some(over) = self.current.as_ref().map(|one| one.before.plus_ns(self.pace.cap.0))
        else {
            return;
        };
        if now > over.plus_ns(TELLING.0)
            && let Some(current) = self.current.take()
        {
            self.get_late(&current, over, in_flight_since.and_then(|since| now.since(since)));
        }
    }

    /// Nobody samples any more: given back, or the end.
    pub fn close(&mut self, at: BootNs) {
        if let Some(current) = self.current.take() {
            let over = current.before.plus_ns(self.pace.cap.0);
            if at > over {
                self.get_late(&current, over, None);
            } else {
                self.hold(&current, at.max(current.landed));
            }
        }
        self.close_stretch(false);
        self.was_late = false;
        self.failed.clear();
    }

    /// Stretches that are over, in their order.
    pub fn take_done(&mut self) -> Vec<Stretch> {
        std::mem::take(&mut self.done)
    }

    fn note_failed(&mut self, sample: &Sample) {
        let lack = sample.fields.asked().find(|asked| !asked.known).map(|asked| asked.status);
        let is_gone = sample.fields.asked().any(|asked| asked.is_device_gone());
        let reason =
            if is_gone { VoidReason::DeviceLost } else { VoidReason::RequiredFieldMissing };
        add_voids(&mut self.failed, [(reason, 1)]);
        self.tallied.failed = self.tallied.failed.saturating_add(1);
        self.tallied.lack = Some(match lack {
            Some(Status::Unknown(reason)) => reason,
            // A value that no GPU can have.
            _ => UnknownReason::ValueNotAvailable,
        });
        if let Some(filling) = &mut self.filling {
            filling.sampling.failed = filling.sampling.failed.saturating_add(1);
        }
    }

    /// What holds is over its age from `over` on.
    fn get_late(&mut self, current: &Current, over: BootNs, in_flight_ns: Option<u64>) {
        /// A call that takes longer is no matter of lateness (`residency::settings`, `hard_timeout`).
        const STUCK_NS: u64 = 5_000_000_000;
        self.hold(current, over);
        self.void(VoidReason::AgeSupOverCap);
        if in_flight_ns.is_some_and(|flight| flight > STUCK_NS) {
            self.void(VoidReason::ProbeStuck);
        }
        let failed = std::mem::take(&mut self.failed);
        if let Some(filling) = &mut self.filling {
            add_voids(&mut filling.voids, failed);
        }
        self.close_stretch(false);
        self.was_late = true;
    }

    fn void(&mut self, reason: VoidReason) {
        if let Some(filling) = &mut self.filling {
            filling.void(reason);
        }
    }

    /// Holds on to `to`, in pieces that end with quarters.
    fn hold(&mut self, current: &Current, to: BootNs) {
        let to_ms = self.ms_of(to);
        loop {
            let offset_us = self.offset_us;
            let Some(filling) = &mut self.filling else { return };
            let from_ms = filling.reached_ms;
            let into = from_ms.checked_rem(SLOT_MS).unwrap_or(0);
            let edge_ms = from_ms.saturating_add(SLOT_MS.saturating_sub(into));
            let end_ms = to_ms.min(edge_ms);
            filling.hold(current, end_ms.saturating_sub(from_ms));
            // Up to the instant itself, where that is not a later quarter's.
            let end = if to_ms < edge_ms { to } else { boot_of(end_ms, offset_us) };
            let age = Length(end.0.saturating_sub(current.before.0));
            filling.sampling.age_max = filling.sampling.age_max.max(age);
            if to_ms < edge_ms {
                return;
            }
            self.close_stretch(false);
            self.filling = Some(Filling::at(edge_ms));
        }
    }

    fn close_stretch(&mut self, is_cut_by_step: bool) {
        let Some(filling) = self.filling.take() else { return };
        let wall = |ms: u64| WallUs(ms.saturating_mul(1_000));
        if filling.reached_ms <= filling.from_ms && filling.voids.is_empty() {
            return;
        }
        let stretch = Stretch {
            gpu: self.gpu.clone(),
            from: wall(filling.from_ms),
            to: wall(filling.reached_ms.max(filling.from_ms)),
            pace: self.pace,
            sampling: filling.sampling,
            device: filling.device,
            holders: filling.holders,
            beyond: filling.beyond,
            voids: filling.voids.into_iter().collect(),
            is_cut_by_step,
        };
        self.done.push(stretch);
    }

    const fn ms_of(&self, at: BootNs) -> u64 {
        WallUs((at.0 / 1_000).saturating_add_signed(self.offset_us)).ms()
    }
}

/// Wall − boot.
fn offset_us(stamp: Stamp) -> i64 {
    let wall = i64::try_from(stamp.wall.0).unwrap_or(i64::MAX);
    let boot = i64::try_from(stamp.boot.0 / 1_000).unwrap_or(i64::MAX);
    wall.saturating_sub(boot)
}

/// Where a millisecond of the wall clock begins on the boot clock.
const fn boot_of(ms: u64, offset_us: i64) -> BootNs {
    let us = ms.saturating_mul(1_000).saturating_add_signed(offset_us.saturating_neg());
    BootNs(us.saturating_mul(1_000))
}
