//! What the driver answers when it is asked.

use std::collections::BTreeMap;

use super::{Gpu, Moment, Pid, Sample, Stats, Utilization};

/// From where a query comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// The initial pid namespace: everything is shown.
    Host,
    /// Any other pid namespace: dead entries are not shown (rule 14).
    Container,
}

/// A process that holds the GPU, as the lists of running processes have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The process.
    pub pid: Pid,
    /// Its device memory in bytes.
    pub memory_bytes: u64,
}

/// What the ring says of one process since a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessSample {
    /// The process.
    pub pid: Pid,
    /// Microseconds since the epoch of the latest sample that names it.
    pub wall_us: u64,
    /// Its samples' sum over the number of **all** samples, in whole percents.
    pub gpu_percent: u32,
    /// The same for device memory traffic.
    pub memory_percent: u32,
}

impl Gpu {
    /// The pids of the accounting list: dead ones oldest first, then billable live ones. A pid
    /// with an old entry and a new one is in it twice (rule 7).
    #[must_use]
    pub fn accounting_pids(&self, view: View) -> Vec<Pid> {
        let dead = self.stores.dead().filter(|_| view == View::Host);
        let live = self.stores.live().filter(|entry| entry.billable);
        dead.chain(live).map(|entry| entry.pid).collect()
    }

    /// What the driver says of a pid: of its dead entry if there is one (rule 7).
    #[must_use]
    pub fn accounting_stats(&self, pid: Pid, view: View) -> Option<Stats> {
        let dead = self.stores.dead().filter(|_| view == View::Host);
        let live = self.stores.live().filter(|entry| entry.billable);
        dead.chain(live).find(|entry| entry.pid == pid).map(super::entry::Entry::stats)
    }

    /// The processes that hold memory or a channel, whether accounting knows them or not. A
    /// monitor is not among them.
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        let mut bytes = BTreeMap::<Pid, u64>::new();
        for (pid, memory_bytes) in self.held() {
            *bytes.entry(pid).or_insert(0) += memory_bytes;
        }
        bytes.into_iter().map(|(pid, memory_bytes)| Holder { pid, memory_bytes }).collect()
    }

    /// Device memory in use, in bytes.
    #[must_use]
    pub fn memory_used_bytes(&self) -> u64 {
        self.held().map(|(_, bytes)| bytes).sum()
    }

    /// The ring's samples newer than a wall-clock time, oldest first.
    pub fn samples_since(&mut self, since_us: u64, now: Moment) -> Vec<Sample> {
        self.advance(now);
        self.ring.samples().filter(|sample| sample.wall_us > since_us).copied().collect()
    }

    /// What the ring says per process since a wall-clock time; nobody busy, nobody listed.
    pub fn process_samples(&mut self, since_us: u64, now: Moment) -> Vec<ProcessSample> {
        let samples = self.samples_since(since_us, now);
        let mut sums = BTreeMap::<Pid, (u64, u64, u64)>::new();
        for sample in &samples {
            let Some(pid) = sample.pid else { continue };
            let (wall_us, gpu, fb) = sums.entry(pid).or_insert((0, 0, 0));
            *wall_us = (*wall_us).max(sample.wall_us);
            *gpu += u64::from(sample.gpu_hundredths);
            *fb += u64::from(sample.fb_hundredths);
        }
        let all = u64::try_from(samples.len()).unwrap_or(u64::MAX).max(1);
        let percent = |sum: u64| u32::try_from(sum / all / 100).unwrap_or(u32::MAX);
        let rows = sums.into_iter().map(|(pid, (wall_us, gpu, fb))| ProcessSample {
            pid,
            wall_us,
            gpu_percent: percent(gpu),
            memory_percent: percent(fb),
        });
        rows.filter(|row| row.gpu_percent > 0 || row.memory_percent > 0).collect()
    }

    /// The latest sample, which carries no time.
    pub fn utilization(&mut self, now: Moment) -> Utilization {
        self.advance(now);
        let latest = self.ring.samples().last();
        // Before the first sample the device shows the zeros that it starts with.
        latest.map_or_else(Utilization::default, |sample| Utilization {
            gpu_percent: sample.gpu_hundredths / 100,
            memory_percent: sample.fb_hundredths / 100,
        })
    }
}
