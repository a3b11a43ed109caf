//! One iteration in real time: a probing thread for each GPU, the user's command, and one writer.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::unistd::User;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::lane::{Lane, Told, What};
use super::people::People;
use super::progress::Progress;
use crate::accounting::nvml::Library;
use crate::clock::{Clock, process_cpu_ns};
use crate::notify::Manager;
use crate::residency::events::{EndCause, Event};
use crate::residency::files::IterationWriter;
use crate::residency::moment::Length;
use crate::residency::probe::{Ended, Ran};
use crate::residency::settings::Settings;
use crate::residency::verdict::Backend;
use crate::session::interrupts::Interrupts;
use crate::session::launch;
use crate::unit::GpuUuid;

pub use super::lane::Ending;

/// Process events are taken in with every sample, whose processes they name, and this often where samples are rare: no
/// dead row is to be caught here, as it is by [`crate::observer::DRAIN_INTERVAL`].
const DRAIN_EVERY: Duration = Duration::from_millis(250);

/// What probes have told and nobody has written yet; more would be a writer that stands still.
const TOLD_MAX: usize = 16_384;
/// How long a probe in flight is waited for when the window is over.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the clocks are read, the files flushed and progress is shown.
const TICK: Duration = Duration::from_secs(1);

/// What one iteration is to be. Cannot be printed: it holds the user's command as it was typed.
pub struct Plan<'options> {
    /// P, Q, cap and the rest.
    pub settings: &'options Settings,
    /// D; `None`: until the command ends or somebody asks for it.
    pub duration: Option<Length>,
    /// The user's command; empty: none.
    pub argv: &'options [OsString],
    /// Run it as this user.
    pub run_as: Option<&'options User>,
    /// Added to its environment.
    pub environment: Vec<(&'static str, OsString)>,
    /// The clocks.
    pub clock: &'options Clock,
    /// A driver call that takes longer is told.
    pub call_deadline: Duration,
    /// Whether its probing threads may start no program, by a filter of the kernel's.
    pub deny_exec: bool,
    /// Who is asked.
    pub backend: Backend,
    /// How often the user's command was started so far, in all windows.
    pub commands: &'options AtomicU64,
    /// Who is told when every curve has begun.
    pub(super) manager: &'options Manager,
}

/// Records one iteration. Whether somebody asked for the end of everything.
pub async fn run(
    plan: &Plan<'_>,
    library: &Arc<Library>,
    gpus: Vec<(GpuUuid, IterationWriter)>,
    people: &mut People,
    progress: &mut Progress,
) -> anyhow::Result<(Vec<Ending>, bool)> {
    let (sender, receiver) = mpsc::channel(TOLD_MAX);
    let mut lanes = Vec::new();
    let mut uuids = Vec::new();
    for (uuid, writer) in gpus {
        lanes.push(Lane::new(writer)?);
        uuids.push(uuid);
    }
    let mut window = Window {
        plan,
        people,
        lanes,
        receiver,
        sender,
        child: None,
        ready: false,
        interrupted: false,
        ended_at: None,
    };
    // Before any sample can land: the window lies between two readings of the clocks.
    window.anchor();
    window.cost();
    for (place, (lane, uuid)) in window.lanes.iter().zip(uuids).enumerate() {
        lane.probe(plan, library, uuid, (place, window.sender.clone()))?;
    }
    window.watch(progress).await?;
    let interrupted = window.interrupted;
    let now = plan.clock.boot();
    let endings = window.lanes.into_iter().map(|lane| lane.end(now, plan, interrupted));
    Ok((endings.collect(), interrupted))
}

struct Window<'plan> {
    plan: &'plan Plan<'plan>,
    people: &'plan mut People,
    lanes: Vec<Lane>,
    receiver: mpsc::Receiver<Told>,
    sender: mpsc::Sender<Told>,
    child: Option<Child>,
    /// Every GPU has landed, or never will.
    ready: bool,
    interrupted: bool,
    /// When every lane was asked to end.
    ended_at: Option<Instant>,
}

impl Window<'_> {
    /// Takes what is told until every lane is over, or is waited for no longer.
    async fn watch(&mut self, progress: &mut Progress) -> anyhow::Result<()> {
        let mut interrupts = Interrupts::listen()?;
        let mut children = signal(SignalKind::child())?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut drain = interval(DRAIN_EVERY);
        drain.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pace = interval(PATIENCE / 10);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.lanes.iter().any(|lane| !lane.is_over()) {
            tokio::select! {
                Some(told) = self.receiver.recv() => self.take(told, progress)?,
                _ = children.recv() => self.reap()?,
                signal = interrupts.next() => {
                    // A command is given the chance to end by itself; the second time it is left behind.
                    let waits = self.child.as_ref().is_some_and(|child| interrupts.pass_on(signal, child));
                    self.interrupted = true;
                    if !waits {
                        self.end(EndCause::Stopped);
                    }
                }
                _ = tick.tick() => {
                    self.anchor();
                    self.flush();
                    progress.show(self.plan.clock.boot());
                }
                _ = drain.tick(), if self.people.watches_events() => self.people.advance(),
                _ = pace.tick() => {
                    self.note_stuck();
                    if self.is_patience_over() {
                        break;
                    }
                }
            }
        }
        // What was told before the last lane ended.
        while let Ok(told) = self.receiver.try_recv() {
            self.take(told, progress)?;
        }
        progress.clear();
        // What the clocks and the processor do while a command is waited for is not the window's.
        self.anchor();
        self.cost();
        self.flush();
        self.wait_for_command(&mut children, &mut interrupts).await
    }

    fn take(&mut self, told: Told, progress: &mut Progress) -> anyhow::Result<()> {
        let Some(lane) = self.lanes.get_mut(told.gpu) else { return Ok(()) };
        match told.what {
            What::Event(event) => lane.event(&event, self.plan.clock.boot()),
            What::Over(Ok(ran)) => {
                lane.over = Some(ran);
                lane.stop.ask();
                self.begin_if_ready()?;
            }
            What::Over(Err(why)) => {
                let at = self.plan.clock.boot();
                tracing::error!(why, "the GPU cannot be probed");
                let counts = crate::residency::counts::DeadlineCounts::default();
                lane.over = Some(Ran { ended: Ended::NoFirstSample, at, t0: None, counts });
                self.begin_if_ready()?;
            }
            What::Sample(sample) => {
                self.people.advance();
                let now = self.plan.clock.boot();
                self.people.advance();
                for event in self.people.news(&sample, &mut lane.known) {
                    lane.event(&event, now);
                }
                progress.sample(told.gpu, &sample);
                let written = lane.writer.sample(&sample);
                lane.keep(written, now);
                if let (None, Some(landed)) = (lane.t0, sample.landed_at_ns) {
                    lane.t0 = Some(landed);
                    // Whoever marks a phase looks whether the window has begun.
                    let flushed = lane.writer.flush();
                    lane.keep(flushed, now);
                    lane.points(self.plan, landed, (told.gpu, self.sender.clone()))?;
                    self.begin_if_ready()?;
                }
            }
        }
        Ok(())
    }

    /// The command begins when every curve has: a workload must not begin before it can be seen.
    fn begin_if_ready(&mut self) -> anyhow::Result<()> {
        let settled = |lane: &Lane| lane.t0.is_some() || lane.is_over();
        if self.ready || !self.lanes.iter().all(settled) {
            return Ok(());
        }
        self.ready = true;
        if !self.lanes.iter().any(|lane| lane.t0.is_some()) {
            return Ok(());
        }
        self.plan.manager.tell("READY=1");
        if self.plan.argv.is_empty() {
            let t0s = self.lanes.iter().filter_map(|lane| lane.t0).map(|t0| t0.0.to_string());
            crate::output::complain(&format!("READY t0={}", t0s.collect::<Vec<_>>().join(",")));
        } else {
            let plan = self.plan;
            self.child = Some(launch::start(plan.argv, plan.run_as, &plan.environment)?);
            plan.commands.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Whether the command has ended, and the curves with it.
    fn reap(&mut self) -> anyhow::Result<()> {
        if self.has_command_ended()? {
            self.end(EndCause::CommandEnded);
        }
        Ok(())
    }

    /// Whether it has, which is told once.
    fn has_command_ended(&mut self) -> anyhow::Result<bool> {
        let Some(child) = &mut self.child else { return Ok(false) };
        let Some(status) = child.try_wait()? else { return Ok(false) };
        self.child = None;
        let at_ns = self.plan.clock.boot();
        for lane in &mut self.lanes {
            let (status, signal) = (status.code(), status.signal());
            lane.event(&Event::CommandEnded { at_ns, status, signal }, at_ns);
        }
        Ok(true)
    }

    /// Asks every lane to end.
    fn end(&mut self, cause: EndCause) {
        let at = self.plan.clock.boot();
        for lane in self.lanes.iter_mut().filter(|lane| !lane.is_over()) {
            lane.ended.get_or_insert((at, cause));
            lane.stop.ask();
        }
        self.ended_at.get_or_insert_with(Instant::now);
    }

    /// A window that was over for so long that its probe will not come back.
    fn is_patience_over(&mut self) -> bool {
        let now = self.plan.clock.boot();
        let (duration, start) = (self.plan.duration, self.plan.settings.start_timeout);
        let is_past = |lane: &Lane| {
            let end = match (lane.t0, duration) {
                (Some(t0), Some(duration)) => t0.plus_ns(duration.0),
                (Some(_), None) => return false,
                (None, _) => match lane.in_flight_since() {
                    Some(since) => since.plus_ns(start.0),
                    None => return false,
                },
            };
            now >= end
        };
        let mut running = self.lanes.iter().filter(|lane| !lane.is_over());
        if self.ended_at.is_none() && running.all(is_past) {
            self.ended_at = Some(Instant::now());
        }
        self.ended_at.is_some_and(|ended| ended.elapsed() >= PATIENCE)
    }

    fn note_stuck(&mut self) {
        let at_ns = self.plan.clock.boot();
        let deadline = u64::try_from(self.plan.call_deadline.as_nanos()).unwrap_or(u64::MAX);
        for lane in &mut self.lanes {
            let Some(begin_ns) = lane.in_flight_since() else { continue };
            let is_late = at_ns.since(begin_ns).is_some_and(|flight| flight > deadline);
            if is_late && lane.stuck_told != Some(begin_ns) {
                lane.stuck_told = Some(begin_ns);
                lane.event(&Event::Stuck { at_ns, begin_ns }, at_ns);
            }
        }
    }

    fn anchor(&mut self) {
        let now = self.plan.clock.now();
        let anchor = Event::Anchor { boot_ns: now.boot, mono_ns: now.mono_ns, wall_us: now.wall };
        // Of ended ones too: a window's end lies between two anchors.
        for lane in &mut self.lanes {
            lane.event(&anchor, now.boot);
        }
    }

    /// What recording took so far.
    fn cost(&mut self) {
        let (at_ns, cpu_ns) = (self.plan.clock.boot(), process_cpu_ns());
        for lane in &mut self.lanes {
            lane.event(&Event::RecorderCpu { at_ns, cpu_ns }, at_ns);
        }
    }

    fn flush(&mut self) {
        let now = self.plan.clock.boot();
        for lane in &mut self.lanes {
            let written = lane.writer.flush();
            lane.keep(written, now);
        }
    }

    /// A window may end before its command: that is the user's, and is waited for.
    async fn wait_for_command(
        &mut self,
        children: &mut tokio::signal::unix::Signal,
        interrupts: &mut Interrupts,
    ) -> anyhow::Result<()> {
        if self.child.is_some() {
            crate::output::complain("the window is over; the command runs on, and is waited for");
        }
        while !self.has_command_ended()? {
            let Some(child) = &self.child else { break };
            tokio::select! {
                _ = children.recv() => {}
                signal = interrupts.next() => {
                    self.interrupted = true;
                    if !interrupts.pass_on(signal, child) {
                        self.child = None;
                    }
                }
            }
        }
        Ok(())
    }
}
