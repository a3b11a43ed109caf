//! Memory held: its lines, the device they add up to, and the size of what is not known.

use serde::Serialize;

use super::UNATTRIBUTED;
use super::coverage::moment;
use crate::bill::ledger::{Cut, CutGpu, CutMemory, MemoryOf};
use crate::bill::{BillError, By, LineKey};
use crate::memory::{ByteMs, Device, HOUR_MS, SLOT_MS, hour_of, voids_said};
use crate::residency::moment::Length;
use crate::residency::verdict::VoidReason;
use crate::settlement::NamedBy;
use crate::unit::{BootNs, GpuUuid, Ms, Pid};
use crate::unknown::NamelessReason;

/// The third meter: sampled, in no total of any other.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryHeld {
    /// Periods that begin and end with multiples of this since 1970 add up to the byte.
    pub slot_ms: u64,
    /// Each GPU: used and excess are what its lines, those beyond and unattributed add up to.
    pub gpus: Vec<MemoryGpu>,
    /// One line each and GPU, those that held most first.
    pub lines: Vec<MemoryLine>,
    /// Every process; null unless the bill is made by process.
    pub processes: Option<Vec<MemoryProcess>>,
}

/// One GPU. What is counted in bytes × milliseconds is decimal text: more than 64 bits.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryGpu {
    /// Which.
    pub gpu_uuid: GpuUuid,
    /// From one sample to the next, as it was last sampled; null where it was not.
    pub period_ms: Option<Length>,
    /// The greatest age of a sample that voids nothing.
    pub cap_ms: Option<Length>,
    /// Samples in everything that meets the period.
    pub samples: u64,
    /// The greatest age of any that counts.
    pub age_max_ms: Option<Length>,
    /// Memory in use, where it is known; null, as the next two, where it is at no moment.
    pub used_byte_ms: Option<String>,
    /// Of that, what no process of the driver's list explains: its own, and what it does not tell.
    pub unattributed_byte_ms: Option<String>,
    /// What the list said beyond what was in use.
    pub excess_byte_ms: Option<String>,
    /// What holders held that had no line of their own; null where every one had.
    pub beyond_byte_ms: Option<String>,
    /// Of the period, known.
    pub covered_ms: Ms,
    /// Of the period, in hours that are void.
    pub void_ms: Ms,
    /// Such hours.
    pub void_hours: u64,
    /// Why they are.
    pub voids: Vec<MemoryVoid>,
    /// Of the period, in quarters of an hour that it cuts.
    pub cut_ms: Ms,
    /// The end of the period, which is not entered yet.
    pub pending_ms: Ms,
    /// Of the period, not sampled.
    pub uncovered_ms: Ms,
    /// Up to when memory is known (RFC 3339); null where it is not.
    pub known_until: Option<String>,
    /// Whether the hour of the last that is known is not over: it may yet become void.
    pub is_hour_open: bool,
    /// What is in use and what no process explains, for people.
    #[serde(skip)]
    pub device: Option<Device>,
    /// What holders without a line held, for people.
    #[serde(skip)]
    pub beyond: Option<ByteMs>,
}

/// Why hours are void.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct MemoryVoid {
    /// The word.
    pub reason: VoidReason,
    /// How often.
    pub count: u64,
}

/// What a line held of one GPU's memory.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryLine {
    /// On which line of the bill.
    #[serde(skip)]
    pub line: LineKey,
    /// Its name; `unattributed` where nobody knows whose it was.
    pub account: String,
    /// Named by a rule; null where the line is no account.
    pub classified: Option<bool>,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Why nobody knows.
    pub nameless: Option<NamelessReason>,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// `sampled`.
    pub basis: &'static str,
    /// Memory held, as far as it is known; null where nothing of it is.
    pub byte_ms: Option<String>,
    /// The same in GiB·s, cut to three digits.
    pub gib_s: Option<String>,
    /// For how long it is known, of each process.
    pub known_ms: Ms,
    /// Listed in void hours, of each process.
    pub void_ms: Ms,
    /// Listed in quarters that the period cuts, at most.
    pub cut_ms: Ms,
    /// Listed, and the driver did not say with how much.
    pub unsaid_ms: Ms,
    /// For people.
    #[serde(skip)]
    pub of: MemoryOf,
}

/// What a process held of one GPU's memory.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryProcess {
    /// On which line of the bill.
    #[serde(skip)]
    pub line: LineKey,
    /// Whose.
    pub account: String,
    /// What gave it that name; null where it has none.
    pub named_by: Option<NamedBy>,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// The driver's pid; null where it is another user's.
    pub pid: Option<Pid>,
    /// When it started, in ns since boot; null where nobody knows.
    pub start_ns: Option<BootNs>,
    /// Memory held, as far as it is known; null where nothing of it is.
    pub byte_ms: Option<String>,
    /// For how long it is known.
    pub known_ms: Ms,
    /// For how long it has no figure.
    pub unknown_ms: Ms,
}

impl MemoryGpu {
    /// `age_sup_over_cap 1, device_lost 3`.
    #[must_use]
    pub fn void_reasons(&self) -> String {
        voids_said(self.voids.iter().map(|void| (void.reason, void.count)))
    }
}

impl MemoryHeld {
    /// Whether every moment of the period is either known or told with its holders: what was not sampled has none.
    #[must_use]
    pub fn is_told(&self) -> bool {
        let is_told = |gpu: &MemoryGpu| gpu.uncovered_ms == Ms::ZERO && gpu.pending_ms == Ms::ZERO;
        self.gpus.iter().all(is_told)
    }

    /// Whether any sample was entered that bears on the period.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.gpus.iter().any(|gpu| gpu.period_ms.is_some())
    }
}

pub(super) fn memory(
    cut: &Cut<'_>,
    by: By,
    as_of_ms: Option<u64>,
) -> Result<MemoryHeld, BillError> {
    let mut held =
        MemoryHeld { slot_ms: SLOT_MS, gpus: Vec::new(), lines: Vec::new(), processes: None };
    let mut processes = Vec::new();
    for gpu in &cut.gpus {
        let memory = &gpu.memory;
        if !memory.closes() {
            return Err(BillError::Memory { gpu: gpu.sight.gpu.clone() });
        }
        held.gpus.push(of_gpu(gpu, as_of_ms));
        held.lines.extend(memory.lines.iter().map(|(key, of)| line(cut, gpu, *key, *of)));
        processes.extend(memory.processes.iter().map(|((key, pid, start), of)| MemoryProcess {
            line: *key,
            account: name(cut, *key),
            named_by: named_by(cut, *key),
            gpu_uuid: gpu.sight.gpu.clone(),
            pid: pid.shown(),
            start_ns: *start,
            byte_ms: known(*of).map(|memory| memory.0.to_string()),
            known_ms: Ms(of.held.known_ms),
            unknown_ms: Ms(of.unknown_ms()),
        }));
    }
    most_first(&mut held.lines);
    held.processes = (by == By::Process).then_some(processes);
    Ok(held)
}

/// The order of the lines on a bill.
pub(super) fn most_first(lines: &mut [MemoryLine]) {
    lines.sort_by(|a, b| {
        let most = |line: &MemoryLine| (line.of.held.memory, line.of.unknown_ms());
        most(b).cmp(&most(a)).then_with(|| a.account.cmp(&b.account))
    });
}

fn of_gpu(gpu: &CutGpu<'_>, as_of_ms: Option<u64>) -> MemoryGpu {
    let memory: &CutMemory = &gpu.memory;
    let text = |of: ByteMs| of.0.to_string();
    let is_known = memory.covered > Ms::ZERO;
    let device = is_known.then_some(memory.device);
    let beyond = memory.beyond.map(|beyond| beyond.held.memory);
    MemoryGpu {
        gpu_uuid: gpu.sight.gpu.clone(),
        period_ms: memory.pace.map(|pace| pace.period),
        cap_ms: memory.pace.map(|pace| pace.cap),
        samples: memory.samples,
        age_max_ms: memory.age_max_ms,
        used_byte_ms: device.map(|device| text(device.used)),
        unattributed_byte_ms: device.map(|device| text(device.unattributed)),
        excess_byte_ms: device.map(|device| text(device.excess)),
        beyond_byte_ms: beyond.map(text),
        covered_ms: memory.covered,
        void_ms: memory.void,
        void_hours: memory.void_hours,
        voids: memory
            .voids
            .iter()
            .map(|(reason, count)| MemoryVoid { reason: *reason, count: *count })
            .collect(),
        cut_ms: memory.cut,
        pending_ms: memory.pending,
        uncovered_ms: memory.uncovered,
        known_until: memory.known_until_ms.map(moment),
        is_hour_open: memory.known_until_ms.is_some_and(|until| {
            let end = hour_of(until.saturating_sub(1)).saturating_add(HOUR_MS);
            as_of_ms.is_some_and(|as_of| as_of < end)
        }),
        device,
        beyond,
    }
}

fn line(cut: &Cut<'_>, gpu: &CutGpu<'_>, key: LineKey, of: MemoryOf) -> MemoryLine {
    let memory = known(of);
    MemoryLine {
        line: key,
        account: name(cut, key),
        classified: cut
            .line(key)
            .filter(|_| key.reason.is_none())
            .and_then(|line| line.is_classified),
        named_by: named_by(cut, key),
        nameless: key.reason,
        gpu_uuid: gpu.sight.gpu.clone(),
        basis: "sampled",
        byte_ms: memory.map(|memory| memory.0.to_string()),
        gib_s: memory.map(|memory| memory.to_string()),
        known_ms: Ms(of.held.known_ms),
        void_ms: Ms(of.void_ms),
        cut_ms: Ms(of.cut_ms),
        unsaid_ms: Ms(of.held.unsaid_ms),
        of,
    }
}

/// What is known, where anything is.
pub(super) fn known(of: MemoryOf) -> Option<ByteMs> {
    (of.held.known_ms > 0).then_some(of.held.memory)
}

fn named_by(cut: &Cut<'_>, key: LineKey) -> Option<NamedBy> {
    cut.line(key).filter(|_| key.reason.is_none()).and_then(|line| line.named_by)
}

fn name(cut: &Cut<'_>, key: LineKey) -> String {
    if key.reason.is_some() {
        return UNATTRIBUTED.to_owned();
    }
    cut.line(key).map_or(UNATTRIBUTED, |line| &*line.text).to_owned()
}
