//! What can be asked of a watched host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::followed::Followed;
use super::note::Forgotten;
use super::{GpuRows, Host};
use crate::accounting::RowKey;
use crate::clock::{ClockHistory, Stamp};
use crate::coverage::Coverage;
use crate::identity::Lifetimes;
use crate::settlement::{Books, Named};
use crate::unit::{GpuUuid, Pid};
use crate::unknown::{Unknown, UnknownReason};

impl Host {
    /// The host's name.
    #[must_use]
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The number of the last note.
    #[must_use]
    pub const fn last_note(&self) -> u64 {
        self.numbered
    }

    /// Every GPU that is watched.
    #[must_use]
    pub const fn gpus(&self) -> &BTreeMap<GpuUuid, GpuRows> {
        &self.gpus
    }

    /// Wants a read of every GPU: with `sweep` of every row, with `processes` of who holds it too.
    pub fn want_reads(&mut self, sweep: bool, processes: bool) {
        for gpu in self.gpus.values_mut() {
            gpu.request(sweep, processes);
        }
    }

    /// That a process holds a GPU without a row did not get to where it is kept: it is told once more.
    pub(crate) fn tell_rowless_again(&mut self, gpu: &GpuUuid, pid: Pid) {
        if let Some(rows) = self.gpus.get_mut(gpu) {
            rows.rowless_told.remove(&pid);
            rows.request(false, true);
        }
    }

    /// When process events were received, and when not.
    #[must_use]
    pub const fn coverage(&self) -> &Coverage {
        &self.processes.coverage
    }

    /// The same with intervals whose lifetimes had to be forgotten early.
    #[must_use]
    pub fn coverage_in_all(&self) -> Coverage {
        let mut coverage = self.processes.coverage.clone();
        coverage.gaps.extend(self.processes.evictions.iter().cloned());
        coverage
    }

    /// What the wall clock showed when.
    #[must_use]
    pub const fn clock_history(&self) -> &ClockHistory {
        &self.processes.history
    }

    /// The newest moment that was observed.
    #[must_use]
    pub const fn now(&self) -> Stamp {
        self.processes.now
    }

    /// Every process that is known.
    #[must_use]
    pub const fn lifetimes(&self) -> &Lifetimes {
        &self.processes.lifetimes
    }

    /// What was settled of each GPU in this run.
    #[must_use]
    pub const fn books(&self) -> &Books {
        &self.books
    }

    /// Everything that could not be said in this run.
    #[must_use]
    pub const fn unknowns(&self) -> &BTreeSet<Unknown> {
        &self.unknowns
    }

    /// How much was dropped under each bound.
    #[must_use]
    pub const fn forgotten(&self) -> &BTreeMap<Forgotten, u64> {
        &self.forgotten
    }

    /// Whether opens of NVIDIA devices are watched.
    #[must_use]
    pub const fn touches_watched(&self) -> bool {
        self.processes.touches_watched
    }

    /// Processes seen to open an NVIDIA device, our own left out.
    #[must_use]
    pub const fn touched_count(&self) -> u64 {
        self.processes.touched_count
    }

    /// Whether any open of a GPU's device file was seen.
    #[must_use]
    pub fn saw_open_of(&self, minor: u32) -> bool {
        self.processes.minors_opened.contains(&minor)
    }

    /// Processes that touched a GPU and ended without a row.
    #[must_use]
    pub const fn touched_without_row(&self) -> u64 {
        self.touched_without_row
    }

    /// Ended processes that touched a GPU, and for whose rows is still waited.
    #[must_use]
    pub fn awaiting_row(&self) -> usize {
        self.awaiting_row.len()
    }

    /// Rows that an earlier run left open and that are not final yet.
    #[must_use]
    pub const fn journaled(&self) -> &BTreeMap<RowKey, Named> {
        &self.journaled
    }
}

/// What only a single trace needs.
impl Host {
    /// Follows one command: its processes are those of this pid, as soon as it is forked, and of all who
    /// descend from it. As long as its first argument is `launch_word` it is the launcher, and none of the
    /// command's programs.
    pub fn follow(&mut self, pid: Pid, launch_word: &'static str) {
        self.followed = Some(Followed::new(pid, launch_word));
    }

    /// Every program of the followed command, with how many of its processes ended and how many run.
    #[must_use]
    pub fn programs_of_command(&self) -> BTreeMap<String, (u64, u64)> {
        let lifetimes = &self.processes.lifetimes;
        self.followed.as_ref().map_or_else(BTreeMap::new, |followed| followed.programs(lifetimes))
    }

    /// Accounting was turned on for these GPUs after the watching began: what reads said before
    /// belongs to no period of it.
    pub fn forget_accounting_off(&mut self, gpus: &BTreeSet<GpuUuid>) {
        self.unknowns.retain(|unknown| {
            let of_them = unknown.gpu.as_ref().is_some_and(|gpu| gpus.contains(gpu));
            !(of_them && unknown.reason == UnknownReason::AccountingModeDisabled)
        });
        for gpu in self.gpus.values_mut().filter(|gpu| gpus.contains(&gpu.facts.uuid)) {
            gpu.begin_anew();
        }
    }
}
