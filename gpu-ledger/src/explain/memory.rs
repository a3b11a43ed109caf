//! What of the GPU's memory the process behind a settlement was seen to hold: the third meter, beside what is booked.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Explained;
use crate::journal::Entry;
use crate::journal::entry::Figures;
use crate::memory::{ByteMs, Held, Pace, Stretch, Voids, add_voids, voids_said};
use crate::residency::moment::Length;
use crate::unit::{BootNs, GpuUuid, Ms, Pid, WallUs};

/// Memory held, by samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MemoryExplained {
    /// In bytes × milliseconds, as decimal text; null where no sample tells it.
    pub byte_ms: Option<String>,
    /// The same in GiB·s, cut to three digits.
    pub gib_s: Option<String>,
    /// For how long it is known.
    pub known_ms: Ms,
    /// For how long it was listed in hours that are void.
    pub void_ms: Ms,
    /// Why those are.
    pub void_reasons: Voids,
    /// For how long it was listed, and the driver did not say with how much.
    pub unsaid_ms: Ms,
    /// From one sample to the next, as it was last sampled; null where none showed it.
    pub period_ms: Option<Length>,
    /// The greatest age of a sample that counts.
    pub age_max_ms: Option<Length>,
    /// Whether it was looked for: a row without a start has no span in which samples could be its.
    #[serde(skip)]
    pub is_sought: bool,
}

/// What one process was listed with, by hour.
#[derive(Debug)]
struct Sought {
    gpu: GpuUuid,
    pid: Pid,
    born: Option<BootNs>,
    /// The row's span, in ms since 1970; `None` where the driver gave no start.
    span: Option<(u64, u64)>,
    held: BTreeMap<u64, (Held, Length)>,
    pace: Option<Pace>,
}

/// Gathers the memory of chosen settlements.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    sought: Vec<Sought>,
    voids: BTreeMap<(GpuUuid, u64), Voids>,
}

impl Gathered {
    /// Of these.
    pub(super) fn of(all: &[Explained]) -> Self {
        let sought = all.iter().map(|one| Sought {
            gpu: one.gpu_uuid.clone(),
            pid: one.pid,
            born: one.who.as_ref().map(|who| BootNs(who.born_boot_ns)),
            span: one.start_time_us.map(|WallUs(start)| {
                let from = start / 1_000;
                (from, from.saturating_add(one.held_ms.0))
            }),
            held: BTreeMap::new(),
            pace: None,
        });
        Self { sought: sought.collect(), voids: BTreeMap::new() }
    }

    /// The next entry.
    pub(super) fn take(&mut self, entry: &Entry) {
        let Figures::Memory(stretch) = &entry.figures else { return };
        if !self.sought.iter().any(|one| one.gpu == stretch.gpu) {
            return;
        }
        if !stretch.voids.is_empty() {
            let voids = self.voids.entry((stretch.gpu.clone(), stretch.hour_ms())).or_default();
            add_voids(voids, stretch.voids.iter().copied());
        }
        for one in self.sought.iter_mut().filter(|one| one.gpu == stretch.gpu) {
            one.take(stretch);
        }
    }

    /// What was found, in the order of those it was asked for.
    pub(super) fn told(self) -> Vec<MemoryExplained> {
        let voids = self.voids;
        self.sought.into_iter().map(|one| one.told(&voids)).collect()
    }
}

impl Sought {
    fn take(&mut self, stretch: &Stretch) {
        let Some((from, to)) = self.span else { return };
        // A row may begin after its process did, and a sample holds until the next.
        if stretch.from.ms() >= to || stretch.to.ms() <= from {
            return;
        }
        for holding in &stretch.holders {
            let holder = &holding.holder;
            let is_another = matches!((holder.start, self.born), (Some(a), Some(b)) if a != b);
            if holder.pid != self.pid || is_another {
                continue;
            }
            self.pace = Some(stretch.pace);
            let (held, age) = self.held.entry(stretch.hour_ms()).or_default();
            *held = held.plus(holding.held);
            *age = (*age).max(stretch.sampling.age_max);
        }
    }

    fn told(self, voids: &BTreeMap<(GpuUuid, u64), Voids>) -> MemoryExplained {
        let mut known = Held::default();
        let (mut void_ms, mut reasons, mut age_max) = (0_u64, Voids::new(), None);
        for (hour, (held, age)) in self.held {
            if let Some(why) = voids.get(&(self.gpu.clone(), hour)) {
                void_ms = void_ms.saturating_add(held.listed_ms());
                add_voids(&mut reasons, why.iter().map(|(reason, count)| (*reason, *count)));
                continue;
            }
            known = known.plus(held);
            age_max = age_max.max(Some(age));
        }
        let memory: Option<ByteMs> = (known.known_ms > 0).then_some(known.memory);
        MemoryExplained {
            byte_ms: memory.map(|memory| memory.0.to_string()),
            gib_s: memory.map(|memory| memory.to_string()),
            known_ms: Ms(known.known_ms),
            void_ms: Ms(void_ms),
            void_reasons: reasons,
            unsaid_ms: Ms(known.unsaid_ms),
            period_ms: self.pace.map(|pace| pace.period),
            age_max_ms: age_max,
            is_sought: self.span.is_some(),
        }
    }
}

impl std::fmt::Display for MemoryExplained {
    /// `7200.000 GiB·s over 00:15:00.000, sampled every 5000.000 ms; UNKNOWN for …`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.is_sought {
            return f.write_str(
                "UNKNOWN: the driver gave no start, and which samples are of this row cannot be told",
            );
        }
        let Some(period) = self.period_ms else {
            return f.write_str(
                "UNKNOWN: no sample showed it (it lived between two of them, its quarter of an hour is not entered \
                 yet, memory was not sampled, or its entries are not here)",
            );
        };
        match &self.gib_s {
            Some(gib_s) => write!(f, "{gib_s} GiB·s over {}", self.known_ms)?,
            None => f.write_str("UNKNOWN")?,
        }
        write!(f, ", sampled every {period} ms: beginning and end may be off by as much")?;
        if self.void_ms > Ms::ZERO {
            let reasons = self.void_reasons.iter().map(|(reason, count)| (*reason, *count));
            let reasons = voids_said(reasons);
            write!(f, "; UNKNOWN for {} in hours that are void ({reasons})", self.void_ms)?;
        }
        if self.unsaid_ms > Ms::ZERO {
            write!(f, "; UNKNOWN for {}, of which the driver did not say it", self.unsaid_ms)?;
        }
        Ok(())
    }
}
