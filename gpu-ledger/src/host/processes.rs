//! The side that knows who: kernel events, applied to the table of lifetimes.

use std::collections::{BTreeMap, BTreeSet};

use super::gaps;
use super::note::{Forgotten, News};
use super::{Drained, HostSettings, Lost};
use crate::clock::{ClockHistory, Stamp};
use crate::coverage::{Coverage, Gap};
use crate::identity::{Applied, CgroupPaths, EvictedLately, ForgetProof, Lifetimes, Snapshot};
use crate::kernel::devices::NVIDIA_MAJOR;
use crate::kernel::{DeviceTouch, Event, ProcessKey};
use crate::unit::{BootNs, Pid};
use crate::unknown::GapCause;

/// Minor number of `/dev/nvidiactl`, the control device that every client opens
/// (open-gpu-kernel-modules 595.45.04, `kernel-open/common/inc/nv-chardev-numbers.h`).
const CONTROL_MINOR: u32 = 255;
/// Living processes whose opened devices are remembered: as many as a small host can have in all
/// (`pid_max` 32,768).
pub const TOUCHING_MAX: usize = 32_768;
/// Minor numbers remembered as opened: as many as the major can have GPUs
/// (open-gpu-kernel-modules 595.45.04, `nv-chardev-numbers.h`, up to the control device).
const MINORS_MAX: usize = 255;
/// Gaps that wait for a look at procfs; past it they become one.
const GAPS_OPEN_MAX: usize = 256;

/// A process that ended, for those who provoke reads.
#[derive(Debug)]
pub(super) struct Exited {
    pub(super) key: ProcessKey,
    /// Minor numbers of the GPUs it was seen to open; `None` where that is not known.
    pub(super) gpu_minors: Option<BTreeSet<u32>>,
}

/// Everything known of processes, and since when.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Processes {
    /// The newest moment that was observed.
    pub(super) now: Stamp,
    pub(super) history: ClockHistory,
    pub(super) lifetimes: Lifetimes,
    /// What the join goes by: intervals in which events were not received.
    pub(super) coverage: Coverage,
    /// Intervals in which lifetimes began that had to go early. No event was lost in them, so they cost
    /// nobody else a name.
    pub(super) evictions: Vec<Gap>,
    pub(super) cgroups: CgroupPaths,
    /// Which GPUs the living were seen to open, by minor number.
    touching: BTreeMap<ProcessKey, BTreeSet<u32>>,
    /// Some of that had to be dropped: who is not in it may have opened anything.
    touching_is_cut: bool,
    pub(super) touched_count: u64,
    /// Minor numbers of every GPU that anybody was seen to open, ourselves included.
    pub(super) minors_opened: BTreeSet<u32>,
    /// Events that were received and not applied yet, as they came.
    pending: Vec<Event>,
    exited: Vec<Exited>,
    /// Gaps at the end of the list that no look at procfs has closed yet.
    gaps_open: usize,
    blind: bool,
    /// Coverage began.
    begun: bool,
    pub(super) touches_watched: bool,
    own_pid: Option<Pid>,
    news: Vec<News>,
}

impl Processes {
    pub(super) fn new(now: Stamp, settings: &HostSettings) -> Self {
        let mut history = ClockHistory::default();
        history.observe(now);
        Self {
            now,
            history,
            lifetimes: Lifetimes::with_limits(settings.limits),
            coverage: Coverage { start: now, end: now, gaps: Vec::new() },
            evictions: Vec::new(),
            cgroups: CgroupPaths::default(),
            touching: BTreeMap::new(),
            touching_is_cut: false,
            touched_count: 0,
            minors_opened: BTreeSet::new(),
            pending: Vec::new(),
            exited: Vec::new(),
            gaps_open: 0,
            blind: !settings.events,
            begun: false,
            touches_watched: settings.touches_watched,
            own_pid: settings.own_pid,
            news: Vec::new(),
        }
    }

    /// What was learnt; nothing before coverage began, as that is told first.
    pub(super) fn take_news(&mut self) -> Vec<News> {
        if self.begun { std::mem::take(&mut self.news) } else { Vec::new() }
    }

    pub(super) fn observe_clock(&mut self, now: Stamp) {
        self.history.observe(now);
        self.now = self.now.max(now);
    }

    /// Coverage begins: whoever lived when the first look ended is known by it, whoever came later
    /// by events. Time since an earlier run is one gap.
    pub(super) fn begin(&mut self, now: Stamp, earlier: Option<Coverage>) {
        self.apply_until(None);
        let blind = self.blind;
        // What an earlier run knew of the clocks goes before what this one observed.
        let earlier = earlier.filter(|earlier| earlier.end.boot <= now.boot);
        if let Some(earlier) = &earlier {
            let mut history = ClockHistory::default();
            let mut stamps: Vec<Stamp> = vec![earlier.start, earlier.end];
            stamps.extend(earlier.gaps.iter().flat_map(|gap| [gap.from, gap.to]));
            stamps.retain(|stamp| stamp.boot <= earlier.end.boot);
            stamps.sort_unstable();
            for stamp in stamps {
                history.observe(stamp);
            }
            history.append(&self.history);
            self.history = history;
        }
        self.observe_clock(now);
        let from = earlier.as_ref().map_or(now, |earlier| earlier.end);
        let down = Gap { cause: GapCause::AgentDown, gpu: None, from, to: now, size: None };
        let own = std::mem::take(&mut self.coverage.gaps);
        self.coverage = Coverage { start: now, end: now, gaps: Vec::new() };
        if let Some(earlier) = earlier {
            self.coverage.start = earlier.start;
            self.coverage.gaps = earlier.gaps;
            self.coverage.gaps.push(down.clone());
            // Ahead of everything: whoever keeps what is told knows by the last that it kept up to when
            // there was an agent, and may get no further than this.
            self.news.insert(0, News::Gap(down.clone()));
        }
        self.news.push(News::CoverageBegan { at: now, blind });
        self.begun = true;
        self.coverage.gaps.extend(own);
        if blind {
            // It grows with every moment.
            self.coverage.gaps.push(Gap { from: now, ..down });
        }
    }

    /// Takes in what was drained, and turns what was lost into gaps. Whether anything was.
    pub(super) fn drained(&mut self, drained: Drained) -> bool {
        let Drained { began, events, losses } = drained;
        self.observe_clock(began);
        self.pending.extend(events);
        if self.blind {
            self.coverage.end = began;
            if let Some(gap) = self.coverage.gaps.last_mut() {
                gap.to = began;
            }
            return false;
        }
        let since_last = self.coverage.end.boot;
        let lost = !losses.is_empty();
        for loss in losses {
            match loss {
                Lost::Between { after, before, size } => {
                    self.lose(after, before, Some(size), began);
                }
                Lost::SinceLastDrain { size } => self.lose(Some(since_last), None, size, began),
            }
        }
        self.coverage.end = began;
        if self.gaps_open > 0 {
            // Around a loss the order of what was received tells less than what procfs shows after it.
            self.apply_pending_at_once();
            for gap in self.coverage.gaps.iter().rev().take(self.gaps_open) {
                self.lifetimes.event_gap(gap.from.boot, gap.to.boot);
            }
        }
        lost
    }

    /// Whether a look at procfs is wanted: events were lost.
    pub(super) const fn wants_look(&self) -> bool {
        self.gaps_open > 0
    }

    /// Takes in a look at procfs. A loss ends with it: from then on what lives is known anew.
    pub(super) fn look(&mut self, snapshot: &Snapshot, now: Stamp) {
        for (cgroup, path) in snapshot.processes.iter().flat_map(|seen| &seen.cgroups) {
            self.cgroups.learn(*cgroup, path);
        }
        let seeded = self.lifetimes.reseed(snapshot);
        tracing::debug!(?seeded, "procfs read");
        self.observe_clock(now);
        // Those whose exit was lost open nothing any more.
        let lifetimes = &self.lifetimes;
        self.touching.retain(|key, _| lifetimes.get(key).is_some_and(|life| life.ended.is_none()));
        let open = std::mem::take(&mut self.gaps_open);
        for gap in self.coverage.gaps.iter_mut().rev().take(open).rev() {
            gap.to = now;
            self.news.push(News::Gap(gap.clone()));
        }
        self.bound_gaps();
    }

    /// Nothing follows: gaps that no look has closed end here.
    pub(super) fn end(&mut self, now: Stamp) {
        self.apply_until(None);
        self.observe_clock(now);
        let open = std::mem::take(&mut self.gaps_open) + usize::from(self.blind);
        for gap in self.coverage.gaps.iter().rev().take(open).rev() {
            self.news.push(News::Gap(gap.clone()));
        }
        self.news.push(News::CoverageEnded { at: self.coverage.end });
    }

    /// Applies what was received, up to a moment or all of it, and tells who ended.
    pub(super) fn apply_until(&mut self, until: Option<BootNs>) -> Vec<Exited> {
        let (due, later): (Vec<Event>, Vec<Event>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|event| until.is_none_or(|until| event.at() <= until));
        self.pending = later;
        for event in &due {
            let exited = self.apply(event);
            self.exited.extend(exited);
        }
        self.note_evicted();
        std::mem::take(&mut self.exited)
    }

    fn apply_pending_at_once(&mut self) {
        for event in std::mem::take(&mut self.pending) {
            let exited = self.apply(&event);
            self.exited.extend(exited);
        }
    }

    fn apply(&mut self, event: &Event) -> Option<Exited> {
        if let Event::CgroupMade(made) = event {
            self.cgroups.apply(made);
        }
        if let Event::DeviceTouch(touch) = event {
            self.note_touch(touch);
        }
        match self.lifetimes.apply(event) {
            Applied::Exited { key, .. } => {
                let minors = self.touching.remove(&key);
                let known = self.touches_watched && !(minors.is_none() && self.touching_is_cut);
                Some(Exited { key, gpu_minors: known.then(|| minors.unwrap_or_default()) })
            }
            Applied::Touched(key) => {
                let ours = self.own_pid == Some(key.pid);
                self.touched_count = self.touched_count.saturating_add(u64::from(!ours));
                None
            }
            Applied::Nothing | Applied::Forked(_) | Applied::Executed(_) => None,
        }
    }

    fn note_touch(&mut self, touch: &DeviceTouch) {
        if touch.minor == CONTROL_MINOR {
            return;
        }
        if touch.major == NVIDIA_MAJOR && self.minors_opened.len() < MINORS_MAX {
            self.minors_opened.insert(touch.minor);
        }
        self.touching.entry(touch.subject.key).or_default().insert(touch.minor);
        if self.touching.len() > TOUCHING_MAX {
            self.touching.pop_first();
            if !std::mem::replace(&mut self.touching_is_cut, true) {
                let what = Forgotten::Touches;
                self.news.push(News::Forgotten { what, gpu: None, count: 1 });
            }
        }
    }

    /// Lifetimes that had to go before their rows were read are a gap: their names are lost.
    fn note_evicted(&mut self) {
        let Some(EvictedLately { from, to, count }) = self.lifetimes.take_evicted() else { return };
        let stamps = self.history.stamp_of(from).zip(self.history.stamp_of(to));
        let Some((from, to)) = stamps else { return };
        let cause = GapCause::QueueOverflow;
        let gap = Gap { cause, gpu: None, from, to, size: Some(count) };
        self.news.push(News::Gap(gap.clone()));
        match self.evictions.last_mut().filter(|last| from <= last.to) {
            Some(last) => gaps::cover(last, &gap),
            None => self.evictions.push(gap),
        }
        self.bound_gaps();
    }

    /// One loss becomes one gap; what lived in it is in doubt until procfs was read again.
    fn lose(
        &mut self,
        after: Option<BootNs>,
        before: Option<BootNs>,
        size: Option<u64>,
        now: Stamp,
    ) {
        let from = after.and_then(|at| self.history.stamp_of(at)).unwrap_or(self.coverage.start);
        let to = before.and_then(|at| self.history.stamp_of(at)).unwrap_or(now);
        let gap = Gap { cause: GapCause::EventLost, gpu: None, from, to, size };
        // Where procfs cannot be read, the gaps that wait for it become one.
        let full = self.gaps_open >= GAPS_OPEN_MAX;
        if let Some(last) = self.coverage.gaps.last_mut().filter(|_| full) {
            gaps::cover(last, &gap);
            return;
        }
        self.coverage.gaps.push(gap);
        self.gaps_open = self.gaps_open.saturating_add(1);
    }

    fn bound_gaps(&mut self) {
        let open = self.gaps_open + usize::from(self.blind);
        let merged = gaps::bound(&mut self.coverage.gaps, open)
            .saturating_add(gaps::bound(&mut self.evictions, 0));
        if merged > 0 {
            self.news.push(News::Forgotten { what: Forgotten::Gaps, gpu: None, count: merged });
        }
    }

    /// Forgets the dead whose rows can no longer come.
    pub(super) fn forget(
        &mut self,
        reads_began: BootNs,
        listed_unbooked: &BTreeSet<Pid>,
        unproven_before: Option<BootNs>,
    ) {
        self.lifetimes.forget(&ForgetProof { reads_began, listed_unbooked, unproven_before });
    }
}
