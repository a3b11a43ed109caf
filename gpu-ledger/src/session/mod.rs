//! One trace: start, watch, settle, print.
//!
//! Purpose: the shell of `gpu-ledger trace`. It knows every room and is known by the command line
//! alone. May touch: everything. May not: compute a number that a pure room could.

mod assemble;
pub(crate) mod interrupts;
pub mod launch;
pub(crate) mod preflight;
pub mod report;
mod text;
mod watch;

use std::ffi::OsString;
use std::fmt;
use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

use nix::unistd::User;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::argv::{CmdlineMode, Printed};
use crate::clock::{Clock, Stamp};
use crate::observer::DRAIN_INTERVAL;
use crate::output::{self, Output};
use crate::rendering::json;
use crate::session::interrupts::Interrupts;
use crate::session::launch::{LAUNCH_WORD, STATUS_FAILED_BEFORE};
use crate::session::report::Report;
use crate::session::watch::Watch;
use crate::unit::{BootNs, GpuUuid, Pid};
use crate::unknown::{Unknown, UnknownReason};

/// The first read of every GPU must be there within this time, or the trace begins without it.
const BASELINE_TIMEOUT: Duration = Duration::from_secs(5);
/// A start that takes longer than this says that it is on its way.
const QUIET_START_MAX: Duration = Duration::from_secs(2);
/// The longest time that is reckoned with.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);
/// Exit status: answered, but something is UNKNOWN.
const STATUS_UNKNOWN: u8 = 2;
/// Exit status: the report could not be written.
const STATUS_FAILED: u8 = 1;

/// What one trace is asked to do.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct TraceOptions {
    /// The command and its arguments; empty to watch for a while.
    pub argv: Vec<OsString>,
    /// Run the command as this user.
    pub run_as: Option<User>,
    /// Watch for this long instead of running a command.
    pub watch_for: Option<Duration>,
    /// Wait at most this long for rows of dead processes to become final.
    pub settle_timeout: Duration,
    /// One JSON object instead of text.
    pub json: bool,
    /// Where the report goes.
    pub output: Option<PathBuf>,
    /// Refuse to start without a prerequisite; say 2 where anything is unknown.
    pub strict: bool,
    /// Turn accounting on first.
    pub enable_accounting: bool,
    /// Size of the event ring.
    pub ring_bytes: u32,
    /// Watch opens of NVIDIA devices.
    pub device_touch: bool,
    /// How much of command lines is shown.
    pub cmdline: CmdlineMode,
    /// Give a driver call up after this long.
    pub call_deadline: Duration,
    /// The NVML library.
    pub nvml_library: Option<PathBuf>,
    /// The clocks.
    pub clock: Clock,
}

impl fmt::Debug for TraceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&[u8]> = self.argv.iter().map(|word| word.as_bytes()).collect();
        let mut shown = f.debug_struct("TraceOptions");
        shown.field("argv", &Printed::words(&words)).finish_non_exhaustive()
    }
}

/// Runs one trace and returns the exit status.
///
/// # Errors
/// What keeps the trace from its report. What keeps it from a *number* is in the report.
pub fn trace(options: &TraceOptions) -> anyhow::Result<u8> {
    let output = match Output::open(options.output.clone(), options.argv.is_empty()) {
        Ok(output) => output,
        Err(error) if !options.argv.is_empty() => {
            output::complain(&format!("{error:#}"));
            return Ok(STATUS_FAILED_BEFORE);
        }
        Err(error) => return Err(error.into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let status = runtime.block_on(run(options, output));
    // A driver call that hangs must not keep the process.
    runtime.shutdown_background();
    status
}

async fn run(options: &TraceOptions, output: Output) -> anyhow::Result<u8> {
    let starting = Starting::begin();
    let mut interrupts = Interrupts::listen()?;
    // This early it also undoes an ignored SIGCHLD, under which no child's status could be had.
    let mut children = signal(SignalKind::child())?;
    let (mut watch, mut missing) = preflight::begin(options).await;
    baseline(&mut watch).await?;
    drop(starting);
    missing.extend(preflight::missing_of_driver(&watch));
    for one in &missing {
        output::complain(&one.to_string());
    }
    if options.strict && !missing.is_empty() {
        output::complain("not started: --strict, and what the lines above name is missing");
        let nothing_ran = !options.argv.is_empty();
        return Ok(if nothing_ran { STATUS_FAILED_BEFORE } else { STATUS_UNKNOWN });
    }
    let began = watch.observer.clock().now();
    let mut traced = match start(options) {
        Ok(traced) => traced,
        Err(error) => {
            output::complain(&format!("{error:#}"));
            return Ok(STATUS_FAILED_BEFORE);
        }
    };
    if let Some(child) = &traced.child {
        watch.observer.host_mut().follow(Pid(child.id()), LAUNCH_WORD);
    }
    watch_until_over(&mut watch, &mut traced, &mut children, &mut interrupts).await?;
    let last_asked = settle(options, &mut watch, &mut interrupts).await?;
    let watched = Watched { began, last_asked };
    let report = assemble::report(options, &mut watch, watched, traced.status)?;
    deliver(options, output, &report, &traced)
}

/// A start that is under way. One that takes its time says so to whoever sits at the terminal, from a thread
/// of its own: on a loaded host the kernel's programs and procfs are waited for without a break.
struct Starting {
    _over: mpsc::Sender<()>,
}

impl Starting {
    fn begin() -> Self {
        let (sender, over) = mpsc::channel::<()>();
        let waits = move || {
            let is_slow =
                over.recv_timeout(QUIET_START_MAX) == Err(mpsc::RecvTimeoutError::Timeout);
            // A script that reads stderr must not find a line there only because the host is busy.
            if is_slow && std::io::stderr().is_terminal() {
                output::complain("starting still: waits for the kernel, procfs and the driver");
            }
        };
        let waiting = std::thread::Builder::new().name("starting".to_owned()).spawn(waits);
        if let Err(error) = waiting {
            tracing::debug!(%error, "a slow start will not be told");
        }
        Self { _over: sender }
    }
}

/// Between which moments everything was watched.
#[derive(Clone, Copy)]
struct Watched {
    began: Stamp,
    /// When the last read of every GPU was asked for: nothing was left to wait for.
    last_asked: Stamp,
}

/// The traced command, or the time to watch for.
struct Traced {
    child: Option<Child>,
    until: Option<Instant>,
    status: Option<ExitStatus>,
    /// The signal on which the command was left running.
    left_with: Option<rustix::process::Signal>,
}

fn start(options: &TraceOptions) -> anyhow::Result<Traced> {
    let child = if options.argv.is_empty() {
        None
    } else {
        Some(launch::start(&options.argv, options.run_as.as_ref(), &[])?)
    };
    let until = options.watch_for.map(after);
    Ok(Traced { child, until, status: None, left_with: None })
}

/// Reads every GPU once: what is dead by then belongs to nobody here, and what holds a GPU without
/// a row is known from the start.
async fn baseline(watch: &mut Watch) -> anyhow::Result<()> {
    // A worker reads once by itself, without asking who holds the GPU: that read is not enough.
    let asked = watch.observer.clock().now().boot;
    watch.observer.want_reads(true, true);
    let deadline = Instant::now() + BASELINE_TIMEOUT;
    while watch.host().gpus().values().any(|gpu| !gpu.was_read_after(asked)) {
        tokio::select! {
            wake = watch.next() => watch.advance(Some(wake))?,
            () = sleep_until(deadline) => break,
        }
        if watch.host().gpus().values().all(|gpu| gpu.was_read_after(asked) || gpu.is_stalled()) {
            break;
        }
    }
    watch.advance(None)?;
    Ok(())
}

/// The moment after `time`; one beyond all reckoning is a lifetime away.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time.min(LONGEST)).unwrap_or(now)
}

/// The watching itself, until the command ends, the time is over, or somebody interrupts.
async fn watch_until_over(
    watch: &mut Watch,
    traced: &mut Traced,
    children: &mut Signal,
    interrupts: &mut Interrupts,
) -> anyhow::Result<()> {
    let mut tick = interval(DRAIN_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let far = after(Duration::MAX);
    loop {
        tokio::select! {
            _ = tick.tick() => watch.advance(None)?,
            wake = watch.next() => watch.advance(Some(wake))?,
            _ = children.recv() => {}
            () = sleep_until(traced.until.unwrap_or(far)) => return Ok(()),
            interrupt = interrupts.next() => {
                let Some(child) = &traced.child else { return Ok(()) };
                if !interrupts.pass_on(interrupt, child) {
                    traced.left_with = Some(interrupt);
                    return Ok(());
                }
            }
        }
        let Some(child) = &mut traced.child else { continue };
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                traced.status = Some(status);
                return Ok(());
            }
            Err(error) => {
                output::complain(&format!("the command's status cannot be had: {error}"));
                return Ok(());
            }
        }
    }
}

/// Waits until the driver has finished the rows of what ended, or for as long as was asked. Returns when
/// the waiting was over.
async fn settle(
    options: &TraceOptions,
    watch: &mut Watch,
    interrupts: &mut Interrupts,
) -> anyhow::Result<Stamp> {
    watch.advance(None)?;
    let ended: BootNs = watch.observer.clock().now().boot;
    let deadline = after(options.settle_timeout);
    let mut tick = interval(DRAIN_INTERVAL);
    watch.observer.want_reads(true, true);
    while watch.host().awaits_command(ended) {
        tokio::select! {
            _ = tick.tick() => watch.advance(None)?,
            wake = watch.next() => watch.advance(Some(wake))?,
            () = sleep_until(deadline) => break,
            _ = interrupts.next() => break,
        }
    }
    finish(watch).await
}

/// One last read of everything, so that every GPU's period ends with a list.
async fn finish(watch: &mut Watch) -> anyhow::Result<Stamp> {
    let last_asked = watch.observer.clock().now();
    let asked = last_asked.boot;
    watch.observer.finish_reads();
    let deadline = Instant::now() + BASELINE_TIMEOUT;
    while watch.host().gpus().values().any(|gpu| !gpu.was_read_after(asked) && !gpu.is_stalled()) {
        tokio::select! {
            wake = watch.next() => watch.advance(Some(wake))?,
            () = sleep_until(deadline) => break,
        }
    }
    watch.advance(None)?;
    let told = |gpu: &GpuUuid| {
        let mut unknowns = watch.host().unknowns().iter();
        unknowns.any(|unknown| {
            unknown.reason == UnknownReason::NvmlCallTimeout && unknown.gpu.as_ref() == Some(gpu)
        })
    };
    // A call that hangs was told by its name; many slow ones together have none.
    let unread =
        watch.host().gpus().iter().filter(|(uuid, gpu)| !gpu.was_read_after(asked) && !told(uuid));
    let unread: Vec<GpuUuid> = unread.map(|(uuid, _)| uuid.clone()).collect();
    for gpu in unread {
        let timeout = Unknown::of(UnknownReason::NvmlCallTimeout);
        watch.note_unknown(&Unknown { gpu: Some(gpu), ..timeout });
    }
    Ok(last_asked)
}

fn deliver(
    options: &TraceOptions,
    output: Output,
    report: &Report,
    traced: &Traced,
) -> anyhow::Result<u8> {
    let command = report.command.as_ref().and_then(|command| command.processes.as_ref());
    let signal = traced.status.and_then(|status| status.signal());
    if let (Some([]), Some(signal)) = (command.map(Vec::as_slice), signal) {
        output::complain(&format!("the command did not run: signal {signal} came before it began"));
    }
    let page = if options.json { json(report)? } else { text::render(report) };
    let written = output.write(&page);
    if let Err(error) = &written {
        // The figures must not be lost with the file.
        output::complain(&format!("{error:#}; the report follows here"));
        output::to_stderr(&page);
    }
    let own = match (&written, report.is_known()) {
        (Err(_), _) => STATUS_FAILED,
        (Ok(()), false) if options.strict || options.argv.is_empty() => STATUS_UNKNOWN,
        (Ok(()), _) => 0,
    };
    // A command that runs on has no status; a shell would give that of the signal.
    let left = traced.left_with.map(|signal| 128 + signal.as_raw());
    Ok(match traced.status.map(exit_status_of).or(left) {
        Some(0) | None => own,
        // The command's own failure is what its caller asked about.
        Some(status) => u8::try_from(status).unwrap_or(u8::MAX),
    })
}

/// The status as a shell would give it: 128 + n after signal n.
pub(crate) fn exit_status_of(status: ExitStatus) -> i32 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => i32::from(u8::MAX),
    }
}
