//! Who the pids of a GPU are: looked up beside the probe, when a pid is new or has become another.
//!
//! By the kernel's process events where they can be had, which know a process also after its end, and
//! what it had executed at the very moment. Without them by procfs, for as long as it lives.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::clock::Clock;
use crate::host::{HostSettings, Resumed};
use crate::identity::{CgroupMounts, ImageContent, Procfs, Program};
use crate::kernel::TracerOptions;
use crate::observer::{Observer, Setup};
use crate::residency::events::Event;
use crate::residency::sample::Sample;
use crate::session::launch::PROBE_WORD;
use crate::session::preflight::host_name;
use crate::unit::{BootNs, Pid};

/// Where names come from. One for all GPUs of a recorder.
pub struct People {
    clock: Clock,
    /// Outside the initial pid namespace the driver's pids are not those of `/proc`.
    may_look: bool,
    /// The watched process events.
    observer: Option<Box<Observer>>,
    procfs: Procfs,
    mounts: CgroupMounts,
}

/// What of it was told in one GPU's iteration: by pid, when it started.
pub type Told = BTreeMap<Pid, Option<BootNs>>;

impl People {
    /// Names by procfs alone.
    #[must_use]
    pub fn of_procfs(clock: Clock, may_look: bool) -> Self {
        let procfs = Procfs::new(PathBuf::from("/proc"));
        Self { clock, may_look, observer: None, procfs, mounts: CgroupMounts::default() }
    }

    /// Names by process events, where this process may watch them; why not, otherwise.
    #[must_use]
    pub fn watch(clock: Clock, may_look: bool) -> (Self, Option<String>) {
        let mut people = Self::of_procfs(clock.clone(), may_look);
        if !may_look {
            let why = "pids of the driver are not those of this pid namespace".to_owned();
            return (people, Some(why));
        }
        let setup = Setup {
            clock,
            host_name: host_name(),
            probe_arguments: vec![OsString::from(PROBE_WORD)],
            settings: HostSettings::of_trace(true, false),
            resumed: Resumed::default(),
            naming: None,
        };
        let tracer = TracerOptions { device_touch: false, ..TracerOptions::default() };
        let (observer, missing) = Observer::watch_or_blind(setup, &tracer);
        if let Some(missing) = missing.into_iter().next() {
            return (people, Some(missing.advice));
        }
        people.observer = Some(Box::new(observer));
        (people, None)
    }

    /// Whether there are events to be taken.
    #[must_use]
    pub const fn watches_events(&self) -> bool {
        self.observer.is_some()
    }

    /// Takes the events that wait, so that the ring has room and the newest processes are known.
    pub fn advance(&mut self) {
        let Some(observer) = &mut self.observer else { return };
        if let Err(error) = observer.advance(None) {
            tracing::warn!(%error, "process events end here; names come from procfs");
            self.observer = None;
            return;
        }
        // Nothing of it is journaled here.
        for note in observer.host_mut().take_notes() {
            observer.host_mut().acknowledged(note.number);
        }
    }

    /// The processes of a sample that are news.
    pub fn news(&self, sample: &Sample, told: &mut Told) -> Vec<Event> {
        let Some(listed) = sample.fields.processes.as_ref().and_then(|list| list.known()) else {
            return Vec::new();
        };
        // A pid that is not listed any more may come back as another process.
        told.retain(|pid, _| listed.iter().any(|process| process.pid == *pid));
        let at = sample.sample_timestamp_ns;
        listed.iter().filter_map(|process| self.news_of(process.pid, at, told)).collect()
    }

    fn news_of(&self, pid: Pid, at: BootNs, told: &mut Told) -> Option<Event> {
        let by_events = self.by_events(pid, at);
        let start = match &by_events {
            Some(Who { start, .. }) => Some(*start),
            None => self.procfs_start(pid),
        };
        match told.get(&pid) {
            Some(known) if *known == start => return None,
            // It ended, and is listed still: it is who it was.
            Some(Some(_)) if start.is_none() => return None,
            _ => {}
        }
        told.insert(pid, start);
        let who = by_events.or_else(|| self.by_procfs(pid, start?));
        let (program, basis, uid) = match who {
            Some(Who { program, basis, uid, .. }) => (program, Some(basis), uid),
            None => (None, None, None),
        };
        let program = program.map(|program| program.to_string());
        let basis = basis.filter(|_| program.is_some()).map(str::to_owned);
        Some(Event::Process { at_ns: self.clock.boot(), pid, start_ns: start, program, basis, uid })
    }

    fn by_events(&self, pid: Pid, at: BootNs) -> Option<Who> {
        let (key, image) = self.observer.as_ref()?.host().who_at(pid, at)?;
        let (program, uid) = (Program::of(&image.content), image.user.uid);
        Some(Who { start: key.start, program, basis: image.basis.as_str(), uid })
    }

    /// When the living bearer of a pid started; floored to the clock tick.
    fn procfs_start(&self, pid: Pid) -> Option<BootNs> {
        let ticks = self.may_look.then(|| self.procfs.start_ticks(pid)).flatten()?;
        Some(BootNs(ticks.saturating_mul(BootNs::PER_TICK)))
    }

    fn by_procfs(&self, pid: Pid, start: BootNs) -> Option<Who> {
        let seen = self.procfs.read(pid, &self.mounts).ok().flatten()?;
        if seen.start_ticks != start.ticks() {
            return None;
        }
        let uid = seen.user.uid;
        let content = ImageContent { argv: seen.argv, filename: seen.exe_path, exe: seen.exe };
        Some(Who { start, program: Program::of(&content), basis: "procfs", uid })
    }
}

/// What is known of a process.
struct Who {
    start: BootNs,
    program: Option<Program>,
    basis: &'static str,
    uid: Option<u32>,
}
