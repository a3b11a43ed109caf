//! Samples of memory: who holds it, by the events up to the sample's landing, and the meters they go into.

use std::sync::Arc;

use super::Host;
use super::note::News;
use crate::accounting::calls::{InFlight, timed_out};
use crate::accounting::driver::CALL_DEADLINE;
use crate::accounting::sampler::MemorySample;
use crate::memory::{Holder, Meter, Seen};
use crate::unit::{BootNs, GpuUuid, Pid};
use crate::unknown::NamelessReason;

impl Host {
    /// The meter of a GPU's memory; `None` where none was sampled yet.
    #[must_use]
    pub fn memory_of(&self, gpu: &GpuUuid) -> Option<&Meter> {
        self.memory.get(gpu)
    }

    /// The driver call that samples a GPU's memory is under way: since when.
    pub fn samples_memory(&mut self, gpu: &GpuUuid, call: InFlight) {
        let Some(meter) = self.memory.get_mut(gpu) else { return };
        let now = self.processes.now;
        meter.until(now.boot, Some(call.since.boot));
        let deadline = u64::try_from(CALL_DEADLINE.as_nanos()).unwrap_or(u64::MAX);
        let late = now.boot.since(call.since.boot).is_some_and(|flight| flight > deadline);
        if late {
            self.note_unknown(&timed_out(call.call, Some(gpu)));
        }
    }

    pub(super) fn take_memory(&mut self, told: MemorySample) {
        let Some(pace) = self.settings.memory else { return };
        let MemorySample { gpu, sample, stamp, cost } = told;
        let listed = sample.fields.processes.as_ref().and_then(|list| list.known());
        if let Some(rows) = self.gpus.get_mut(&gpu) {
            rows.cost.add(&cost);
            for one in listed.into_iter().flatten() {
                rows.note_kind(one.pid, one.compute, one.graphics);
            }
        }
        let at = sample.completed();
        let holders = listed
            .into_iter()
            .flatten()
            .map(|one| (self.holder_at(&gpu, one.pid, at), one.memory_bytes))
            .collect();
        let meter = self.memory.entry(gpu.clone()).or_insert_with(|| Meter::new(gpu, pace));
        meter.take(Seen { sample, stamp, holders });
        self.tell_memory();
    }

    /// Time has passed.
    pub(super) fn memory_until(&mut self, now: BootNs) {
        for meter in self.memory.values_mut() {
            meter.until(now, None);
        }
        self.tell_memory();
    }

    /// Nobody samples a GPU any more, or none at all.
    pub(super) fn end_memory(&mut self, gpu: Option<&GpuUuid>, at: BootNs) {
        for (of, meter) in &mut self.memory {
            if gpu.is_none_or(|gpu| gpu == of) {
                meter.close(at);
            }
        }
        self.tell_memory();
    }

    fn tell_memory(&mut self) {
        let done: Vec<_> = self.memory.values_mut().flat_map(Meter::take_done).collect();
        for stretch in done {
            self.push(Some(News::MemoryHeld(Box::new(stretch))));
        }
    }

    /// Who bore a pid then, on the line on which its row stands where it has one: memory and held of a process are
    /// one account's.
    fn holder_at(&self, gpu: &GpuUuid, pid: Pid, at: BootNs) -> Holder {
        let borne = self.whose_at(gpu, pid, at);
        let open = self.gpus.get(gpu).and_then(|rows| {
            let mut open = rows.open.iter().filter(|open| open.pid == pid);
            open.find(|open| open.start.is_some())
        });
        if let Some(open) = open {
            let (attribution, whose) = self.whose_open(open);
            let named = attribution.named();
            let is_same = |named: &crate::settlement::Named| {
                borne.as_ref().is_none_or(|(key, _, _)| *key == named.key)
            };
            if let Some(named) = named.filter(|named| is_same(named)) {
                return Holder {
                    pid,
                    start: Some(named.key.start),
                    account: whose.account,
                    program: whose.program.map(|program| Arc::from(program.to_string())),
                    uid: named.image.user.uid,
                    basis: attribution.basis(),
                    labels: whose.labels,
                };
            }
        }
        match borne {
            Some((key, image, whose)) => Holder {
                pid,
                start: Some(key.start),
                account: whose.account,
                program: whose.program.map(|program| Arc::from(program.to_string())),
                uid: image.user.uid,
                basis: Some(image.basis),
                labels: whose.labels,
            },
            None => Holder {
                pid,
                start: None,
                account: crate::settlement::Account::Unattributed(NamelessReason::AgentDown),
                program: None,
                uid: None,
                basis: None,
                labels: Vec::new(),
            },
        }
    }
}
