//! One iteration in real time: a probing thread for each GPU, the user's command, and one writer.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::unistd::User;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::cpu;
use super::gauges::Gauges;
use super::people::{People, Told as Known};
use super::progress::Progress;
use super::ticker::{BootTicker, Stop};
use crate::accounting::calls::{CallWatch, Calls};
use crate::accounting::nvml::Library;
use crate::clock::Clock;
use crate::observer::DRAIN_INTERVAL;
use crate::residency::events::{EndCause, Event};
use crate::residency::files::{FilesError, IterationWriter};
use crate::residency::moment::Length;
use crate::residency::probe::{self, Ended, Ran, Wanted};
use crate::residency::sample::Sample;
use crate::residency::settings::Settings;
use crate::residency::verdict::Backend;
use crate::session::interrupts::Interrupts;
use crate::session::{exit_status_of, launch};
use crate::unit::{BootNs, GpuUuid};

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
    /// Who is asked.
    pub backend: Backend,
    /// How often the user's command was started so far, in all windows.
    pub commands: &'options AtomicU64,
}

/// What a thread tells, and of which GPU.
struct Told {
    gpu: usize,
    what: What,
}

enum What {
    Sample(Box<Sample>),
    Event(Event),
    /// The probe's loop ended, or could not begin and says why.
    Over(Result<Ran, String>),
}

/// One GPU in this window.
struct Lane {
    stop: Stop,
    watch: CallWatch,
    writer: IterationWriter,
    /// The processes of its that were told.
    known: Known,
    t0: Option<BootNs>,
    over: Option<Ran>,
    /// When the command or somebody ended it.
    ended: Option<(BootNs, EndCause)>,
    stuck_told: Option<BootNs>,
    /// Rows that no room was left for.
    refused: Arc<AtomicU64>,
}

impl Lane {
    /// Whether nothing more is to come.
    const fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Notes what could not be written; the window ends by it.
    fn keep(&mut self, written: Result<(), FilesError>, now: BootNs) {
        if let Err(error) = written
            && !matches!(self.ended, Some((_, EndCause::NotWritten)))
        {
            tracing::error!(%error, "the window ends: its rows cannot be written");
            self.ended = Some((now, EndCause::NotWritten));
            self.stop.ask();
        }
    }

    fn event(&mut self, event: &Event, now: BootNs) {
        let written = self.writer.event(event);
        self.keep(written, now);
    }

    /// When the probe in flight began, where one is.
    fn in_flight_since(&self) -> Option<BootNs> {
        if self.is_over() {
            return None;
        }
        self.watch.in_flight().map(|flight| flight.since.boot)
    }

    fn end(mut self, now: BootNs, plan: &Plan<'_>) -> Ending {
        let in_flight_since_ns = self.in_flight_since();
        let (at_ns, cause) = match (self.ended, self.over) {
            (_, Some(Ran { ended: Ended::Lost, at, .. })) => (at, EndCause::DeviceLost),
            (_, Some(Ran { ended: Ended::NoFirstSample, at, .. })) => (at, EndCause::NoFirstSample),
            (Some((at, cause)), _) => (at, cause),
            (None, Some(Ran { ended: Ended::Duration, at, .. })) => (at, EndCause::Duration),
            (None, Some(Ran { at, .. })) => (at, EndCause::Stopped),
            // Its probe never came back, and the window was over.
            (None, None) if self.t0.is_some() => (now, EndCause::Duration),
            (None, None) => (now, EndCause::NoFirstSample),
        };
        let window = match cause {
            EndCause::Duration => plan.duration,
            EndCause::NoFirstSample => None,
            _ => self.t0.and_then(|t0| at_ns.since(t0)).map(Length),
        };
        let window = window.filter(|_| self.t0.is_some());
        // Programs that were started beside the user's own: a count, not a promise.
        let subprocesses = launch::started().saturating_sub(plan.commands.load(Ordering::Acquire));
        let backend = plan.backend;
        self.event(&Event::Backend { at_ns: now, backend, subprocesses }, now);
        let rows_not_written = self.refused.load(Ordering::Acquire);
        let event = Event::End {
            at_ns,
            cause,
            duration_ns: window.map(|window| window.0),
            in_flight_since_ns,
            rows_not_written,
        };
        Ending { writer: self.writer, event }
    }
}

/// A window that is over, to be derived from.
pub struct Ending {
    /// Its files.
    pub writer: IterationWriter,
    /// Its last row.
    pub event: Event,
}

/// How the iteration ended beside its curves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Somebody asked for the end of everything.
    pub interrupted: bool,
    /// The command's own status, as a shell says it.
    pub command_status: Option<i32>,
}

/// Records one iteration.
pub async fn run(
    plan: &Plan<'_>,
    library: &Arc<Library>,
    gpus: Vec<(GpuUuid, IterationWriter)>,
    people: &mut People,
    progress: &mut Progress,
) -> anyhow::Result<(Vec<Ending>, Outcome)> {
    let (sender, receiver) = mpsc::channel(TOLD_MAX);
    let mut lanes = Vec::new();
    for (place, (uuid, writer)) in gpus.into_iter().enumerate() {
        let lane = Lane {
            stop: Stop::new()?,
            watch: CallWatch::default(),
            writer,
            known: Known::new(),
            t0: None,
            over: None,
            ended: None,
            stuck_told: None,
            refused: Arc::default(),
        };
        let teller = Teller { gpu: place, sender: sender.clone(), refused: lane.refused.clone() };
        probe_thread(plan, library, uuid, &lane, teller)?;
        lanes.push(lane);
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
        command_status: None,
        ended_at: None,
    };
    window.anchor();
    window.watch(progress).await?;
    window.anchor();
    let outcome =
        Outcome { interrupted: window.interrupted, command_status: window.command_status };
    let now = plan.clock.boot();
    let endings = window.lanes.into_iter().map(|lane| lane.end(now, plan));
    Ok((endings.collect(), outcome))
}

/// Tells the writer, and never waits for it.
#[derive(Clone)]
struct Teller {
    gpu: usize,
    sender: mpsc::Sender<Told>,
    refused: Arc<AtomicU64>,
}

impl Teller {
    fn tell(&self, what: What) {
        if self.sender.try_send(Told { gpu: self.gpu, what }).is_err() {
            self.refused.fetch_add(1, Ordering::AcqRel);
        }
    }
}

fn probe_thread(
    plan: &Plan<'_>,
    library: &Arc<Library>,
    uuid: GpuUuid,
    lane: &Lane,
    teller: Teller,
) -> std::io::Result<()> {
    let (clock, library, stop) = (plan.clock.clone(), Arc::clone(library), lane.stop.clone());
    let mut calls = Calls::new(clock.clone(), plan.call_deadline, lane.watch.clone());
    let wanted = Wanted {
        duration: plan.duration,
        period: plan.settings.period,
        start_timeout: plan.settings.start_timeout,
    };
    let name = format!("probe-{}", uuid.short());
    std::thread::Builder::new().name(name).spawn(move || {
        let over = match (library.gpu_of(&uuid, &mut calls), BootTicker::new(clock.clone(), stop)) {
            (Ok(gpu), Ok(mut ticker)) => {
                let mut gauges = Gauges::new(gpu, calls, clock);
                Ok(probe::run(&mut ticker, &mut gauges, wanted, |sample| {
                    teller.tell(What::Sample(Box::new(sample)));
                }))
            }
            (Err(unknown), _) => Err(unknown.to_string()),
            (_, Err(error)) => Err(format!("no timer of CLOCK_BOOTTIME can be made: {error}")),
        };
        teller.tell(What::Over(over));
    })?;
    Ok(())
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
    command_status: Option<i32>,
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
        let mut drain = interval(DRAIN_INTERVAL);
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
                for event in self.people.news(&sample, &mut lane.known) {
                    lane.event(&event, now);
                }
                progress.sample(told.gpu, &sample);
                let written = lane.writer.sample(&sample);
                lane.keep(written, now);
                if let (None, Some(landed)) = (lane.t0, sample.landed_at_ns) {
                    lane.t0 = Some(landed);
                    let stop = lane.stop.clone();
                    let refused = lane.refused.clone();
                    self.cpu_thread(told.gpu, landed, stop, refused)?;
                    self.begin_if_ready()?;
                }
            }
        }
        Ok(())
    }

    fn cpu_thread(
        &self,
        gpu: usize,
        t0: BootNs,
        stop: Stop,
        refused: Arc<AtomicU64>,
    ) -> anyhow::Result<()> {
        let teller = Teller { gpu, sender: self.sender.clone(), refused };
        let (clock, grid) = (self.plan.clock.clone(), (t0, self.plan.settings.timeline_period));
        std::thread::Builder::new().name("points".to_owned()).spawn(move || {
            let told = |event| teller.tell(What::Event(event));
            if let Err(error) = cpu::run(&clock, stop, Path::new("/proc/stat"), grid, told) {
                tracing::warn!(%error, "the processor's share is not recorded");
            }
        })?;
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
        let Some(child) = &mut self.child else { return Ok(()) };
        let Some(status) = child.try_wait()? else { return Ok(()) };
        self.child = None;
        self.command_status = Some(exit_status_of(status));
        let at_ns = self.plan.clock.boot();
        for lane in &mut self.lanes {
            let (status, signal) = (status.code(), status.signal());
            lane.event(&Event::CommandEnded { at_ns, status, signal }, at_ns);
        }
        self.end(EndCause::CommandEnded);
        Ok(())
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
        while let Some(child) = &mut self.child {
            if let Some(status) = child.try_wait()? {
                self.command_status = Some(exit_status_of(status));
                self.child = None;
                break;
            }
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
