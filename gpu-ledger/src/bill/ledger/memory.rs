//! Memory held, cut to a period: whole stretches of valid hours, and the size of everything that is not known.
//!
//! A stretch counts where all of it lies in the period: nothing is interpolated. Since stretches never cross a quarter
//! of an hour of UTC, periods that begin and end with quarters add up to the byte, whatever their time zone.

use std::collections::{BTreeMap, BTreeSet};

use super::cut::PENDING_MS_MAX;
use super::names::Names;
use super::{Ledger, Whose};
use crate::bill::LineKey;
use crate::bill::intervals::union;
use crate::memory::{
    Beyond, ByteMs, Device, HOUR_MS, Held, Pace, SLOT_MS, Sampling, Stretch, Voids, add_voids,
    hour_of,
};
use crate::unit::{BootNs, Ms, Pid, Span};

/// Who held memory, with names as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct MemoryHolder {
    pub(super) whose: Whose,
    pub(super) pid: Pid,
    pub(super) start: Option<BootNs>,
}

/// A stretch, as it is kept.
#[derive(Clone, Debug)]
struct Taken {
    gpu: u32,
    span: Span,
    pace: Pace,
    sampling: Sampling,
    device: Device,
    beyond: Option<Beyond>,
    holders: Vec<(u32, Held)>,
}

impl Taken {
    const fn hour(&self) -> (u32, u64) {
        (self.gpu, hour_of(self.span.from_ms()))
    }
}

/// Every stretch that was taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Memories {
    taken: Vec<Taken>,
    holders: Names<MemoryHolder>,
    /// Hours of a GPU that anything voids, and why, each with how often.
    void_hours: BTreeMap<(u32, u64), Voids>,
}

/// What of one line is known of one GPU's memory, and the size of what is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryOf {
    /// In valid hours.
    pub held: Held,
    /// The time that its processes were listed in void hours, of each.
    pub void_ms: u64,
    /// The time, at most, that they were listed in what the period cuts.
    pub cut_ms: u64,
}

impl MemoryOf {
    /// How much of their time has no figure.
    #[must_use]
    pub const fn unknown_ms(self) -> u64 {
        self.void_ms.saturating_add(self.cut_ms).saturating_add(self.held.unsaid_ms)
    }

    /// As a weight for dividing shared time, in MiB·ms; `None` where some of it is not known.
    #[must_use]
    pub fn weight(self) -> Option<u64> {
        let is_known = self.unknown_ms() == 0 && self.held.known_ms > 0;
        is_known.then(|| u64::try_from(self.held.memory.0 >> 20).unwrap_or(u64::MAX))
    }

    pub(in crate::bill) fn add(&mut self, other: Self) {
        self.held = self.held.plus(other.held);
        self.void_ms = self.void_ms.saturating_add(other.void_ms);
        self.cut_ms = self.cut_ms.saturating_add(other.cut_ms);
    }
}

/// The memory of one GPU within a period.
#[derive(Clone, Debug, Default)]
pub struct CutMemory {
    /// How the last stretch was sampled; `None` where there is none in the period.
    pub pace: Option<Pace>,
    /// Samples in all stretches, and the greatest age that counts: of valid hours.
    pub samples: u64,
    /// See [`Self::samples`].
    pub age_max_ms: Option<crate::residency::moment::Length>,
    /// The device, in valid hours.
    pub device: Device,
    /// By line.
    pub lines: BTreeMap<LineKey, MemoryOf>,
    /// By line and process, where the cut was asked for processes.
    pub processes: BTreeMap<(LineKey, Pid, Option<BootNs>), MemoryOf>,
    /// Holders without a line of their own.
    pub beyond: Option<Beyond>,
    /// Covered, and known.
    pub covered: Ms,
    /// Covered, in hours that are void.
    pub void: Ms,
    /// Hours that are.
    pub void_hours: u64,
    /// Why, each with how often.
    pub voids: Voids,
    /// Within the period, of stretches that it cuts.
    pub cut: Ms,
    /// The end of the period, which is not entered yet.
    pub pending: Ms,
    /// Nothing was sampled.
    pub uncovered: Ms,
    /// Up to when memory is known; `None` where it is not.
    pub known_until_ms: Option<u64>,
}

impl CutMemory {
    /// Whether used + excess = lines + beyond + unattributed.
    #[must_use]
    pub fn closes(&self) -> bool {
        let lines = self.lines.values().map(|of| of.held.memory);
        let beyond = self.beyond.iter().map(|beyond| beyond.held.memory);
        let all = lines.chain(beyond).fold(ByteMs::default(), ByteMs::plus);
        let Device { used, unattributed, excess } = self.device;
        used.plus(excess) == all.plus(unattributed)
    }
}

impl Ledger {
    pub(super) fn take_memory(&mut self, stretch: &Stretch) {
        let gpu = self.gpu(&stretch.gpu);
        let (from_ms, to_ms) = (stretch.from.ms(), stretch.to.ms());
        let Some(span) = Span::new(from_ms, to_ms) else { return };
        let holders = stretch
            .holders
            .iter()
            .map(|holding| {
                let holder = &holding.holder;
                let program = holder.program.as_ref();
                let user = (holder.pid, holder.uid);
                let whose = self.whose(gpu, &holder.account, program, &holder.labels, user);
                let of = MemoryHolder { whose, pid: holder.pid, start: holder.start };
                (self.memories.holders.number(&of), holding.held)
            })
            .collect();
        let taken = Taken {
            gpu,
            span,
            pace: stretch.pace,
            sampling: stretch.sampling,
            device: stretch.device,
            beyond: stretch.beyond,
            holders,
        };
        if !stretch.voids.is_empty() {
            let reasons = self.memories.void_hours.entry(taken.hour()).or_default();
            add_voids(reasons, stretch.voids.iter().copied());
        }
        self.memories.taken.push(taken);
    }

    /// Everybody who held memory in the period.
    pub(super) fn memory_holders(&self, period: Span) -> impl Iterator<Item = Whose> {
        let taken =
            self.memories.taken.iter().filter(move |one| one.span.overlap(period).is_some());
        let numbers: BTreeSet<u32> =
            taken.flat_map(|one| one.holders.iter().map(|(number, _)| *number)).collect();
        numbers
            .into_iter()
            .filter_map(|number| self.memories.holders.name(number))
            .map(|of| of.whose)
    }

    /// Whose the memory was, users by the real user id.
    pub(super) fn memory_uids(&self) -> impl Iterator<Item = u32> {
        self.memories.holders.all().filter_map(|of| of.whose.uid)
    }

    /// The memory of one GPU within the period. `key`: on which line somebody's stands.
    pub(super) fn cut_memory(
        &self,
        gpu: u32,
        period: Span,
        by_process: bool,
        key: impl Fn(Whose) -> LineKey,
    ) -> CutMemory {
        let mut cut = CutMemory::default();
        let of_gpu = || self.memories.taken.iter().filter(|one| one.gpu == gpu);
        let mut void_hours: BTreeSet<u64> = BTreeSet::new();
        let (mut known, mut void, mut in_part) = (Vec::new(), Vec::new(), Vec::new());
        for one in of_gpu() {
            let is_empty = one.span.length() == Ms::ZERO;
            let Some(overlap) = one.span.overlap(period).or(is_empty.then_some(one.span)) else {
                continue;
            };
            let (_, hour) = one.hour();
            let is_void = self.memories.void_hours.contains_key(&one.hour());
            let is_met = Span::new(hour, hour.saturating_add(HOUR_MS))
                .is_some_and(|hour| hour.overlap(period).is_some());
            if is_void && is_met {
                void_hours.insert(hour);
            }
            if is_empty {
                continue;
            }
            let is_whole = overlap == one.span;
            cut.pace = Some(one.pace);
            cut.samples = cut.samples.saturating_add(one.sampling.samples);
            if is_void {
                void.push(overlap);
            } else if is_whole {
                known.push(overlap);
                cut.known_until_ms = cut.known_until_ms.max(Some(overlap.to_ms()));
                cut.age_max_ms = cut.age_max_ms.max(Some(one.sampling.age_max));
                let Device { used, unattributed, excess } = one.device;
                cut.device.used = cut.device.used.plus(used);
                cut.device.unattributed = cut.device.unattributed.plus(unattributed);
                cut.device.excess = cut.device.excess.plus(excess);
                add_beyond(&mut cut.beyond, one.beyond);
            } else {
                in_part.push(overlap);
            }
            for (number, held) in &one.holders {
                let Some(holder) = self.memories.holders.name(*number) else { continue };
                let listed_ms = held.listed_ms().min(overlap.length().0);
                let of = match (is_void, is_whole) {
                    (true, _) => MemoryOf { void_ms: listed_ms, ..MemoryOf::default() },
                    (false, true) => MemoryOf { held: *held, ..MemoryOf::default() },
                    (false, false) => MemoryOf { cut_ms: listed_ms, ..MemoryOf::default() },
                };
                let line = key(holder.whose);
                cut.lines.entry(line).or_default().add(of);
                if by_process {
                    let process = (line, holder.pid, holder.start);
                    cut.processes.entry(process).or_default().add(of);
                }
            }
        }
        // What voids an hour may lie outside the period.
        let why = void_hours.iter().filter_map(|hour| self.memories.void_hours.get(&(gpu, *hour)));
        add_voids(&mut cut.voids, why.flatten().map(|(reason, count)| (*reason, *count)));
        cut.void_hours = u64::try_from(void_hours.len()).unwrap_or(u64::MAX);
        self.sizes(&mut cut, period, (known, void, in_part), of_gpu().map(|one| one.span));
        cut
    }

    /// How much of the period each kind of stretch covers: the wall clock may show an hour twice.
    fn sizes(
        &self,
        cut: &mut CutMemory,
        period: Span,
        (known, void, in_part): (Vec<Span>, Vec<Span>, Vec<Span>),
        all: impl Iterator<Item = Span>,
    ) {
        let less = |all: Ms, part: Ms| Ms(all.0.saturating_sub(part.0));
        let covered = union(period, known.iter().copied());
        let with_void = union(period, known.iter().chain(&void).copied());
        let with_cut = union(period, known.iter().chain(&void).chain(&in_part).copied());
        (cut.covered, cut.void) = (covered, less(with_void, covered));
        cut.cut = less(with_cut, with_void);
        let last_ms = all.map(Span::to_ms).max();
        let as_of_ms = self.as_of_ms().unwrap_or(0);
        let waits_ms = SLOT_MS.saturating_add(PENDING_MS_MAX);
        let awaited = last_ms
            .filter(|last| self.is_running() && as_of_ms.saturating_sub(*last) <= waits_ms)
            .and_then(|last| Span::new(last.max(period.from_ms()), period.to_ms()))
            // No stretch will come of what is not here.
            .filter(|tail| self.not_here(*tail).is_empty());
        cut.pending = awaited.map_or(Ms::ZERO, Span::length);
        cut.uncovered = less(less(period.length(), with_cut), cut.pending);
    }
}

fn add_beyond(sum: &mut Option<Beyond>, more: Option<Beyond>) {
    let Some(more) = more else { return };
    let beyond = sum.get_or_insert(Beyond { holders: 0, held: Held::default() });
    beyond.holders = beyond.holders.max(more.holders);
    beyond.held = beyond.held.plus(more.held);
}
