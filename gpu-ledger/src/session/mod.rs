//! One trace: start, watch, settle, print.
//!
//! Purpose: the shell of `gpu-ledger trace`. It knows every room and is known by the command line
//! alone. May touch: everything. May not: compute a number that a pure room could.

mod assemble;
pub mod launch;
mod output;
mod preflight;
mod processes;
pub mod report;
mod rows;
mod text;
mod watch;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use nix::unistd::User;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::accounting::FinalRow;
use crate::accounting::reading::Finding;
use crate::clock::Clock;
use crate::session::launch::STATUS_FAILED_BEFORE;
use crate::session::output::Output;
use crate::session::report::Report;
use crate::session::watch::Watch;
use crate::unit::{BootNs, Pid};

/// The ring is drained this often: quick enough for the driver's 128 dead rows, and a wake-up for
/// every event would cost more than the event (an interrupt to oneself, dear in a virtual machine).
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);
/// The first read of every GPU must be there within this time, or the trace begins without it.
const BASELINE_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit status: answered, but something is UNKNOWN.
const STATUS_UNKNOWN: u8 = 2;
/// Exit status: the report could not be written.
const STATUS_FAILED: u8 = 1;

/// What one trace is asked to do.
#[derive(Debug)]
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
    /// Give a driver call up after this long.
    pub call_deadline: Duration,
    /// The NVML library.
    pub nvml_library: Option<PathBuf>,
    /// The clocks.
    pub clock: Clock,
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
    let mut interrupts = Interrupts::listen()?;
    let (mut watch, mut missing) = preflight::begin(options).await;
    baseline(&mut watch).await?;
    missing.extend(preflight::missing_of_driver(&watch));
    for one in &missing {
        output::complain(&one.to_string());
    }
    if options.strict && !missing.is_empty() {
        output::complain("not started: --strict, and the lines above are missing");
        return Ok(STATUS_UNKNOWN);
    }
    let began = watch.clock.now();
    let mut traced = match start(options) {
        Ok(traced) => traced,
        Err(error) => {
            output::complain(&format!("{error:#}"));
            return Ok(STATUS_FAILED_BEFORE);
        }
    };
    watch.root_pid = traced.child.as_ref().map(|child| Pid(child.id()));
    watch_until_over(&mut watch, &mut traced, &mut interrupts).await?;
    settle(options, &mut watch, &mut interrupts).await?;
    let report = assemble::report(options, &mut watch, began, traced.status)?;
    deliver(options, output, &report, traced.status)
}

/// The traced command, or the time to watch for.
struct Traced {
    child: Option<Child>,
    until: Option<Instant>,
    status: Option<ExitStatus>,
}

fn start(options: &TraceOptions) -> anyhow::Result<Traced> {
    let child = if options.argv.is_empty() {
        None
    } else {
        Some(launch::start(&options.argv, options.run_as.as_ref())?)
    };
    let until = options.watch_for.map(|time| Instant::now() + time);
    Ok(Traced { child, until, status: None })
}

/// Reads every GPU once: what is dead by then belongs to nobody here, and what holds a GPU without
/// a row is known from the start.
async fn baseline(watch: &mut Watch) -> anyhow::Result<()> {
    // A worker reads once by itself, without asking who holds the GPU: that read is not enough.
    let asked = watch.clock.now().boot;
    for gpu in watch.gpus.values_mut() {
        gpu.request(true, true);
    }
    let deadline = Instant::now() + BASELINE_TIMEOUT;
    while watch.gpus.values().any(|gpu| !gpu.was_read_after(asked)) {
        tokio::select! {
            wake = watch.next() => watch.advance(Some(wake))?,
            () = sleep_until(deadline) => break,
        }
        if watch.gpus.values().all(|gpu| gpu.was_read_after(asked) || gpu.stalled) {
            break;
        }
    }
    watch.advance(None)?;
    Ok(())
}

/// The watching itself, until the command ends, the time is over, or somebody interrupts.
async fn watch_until_over(
    watch: &mut Watch,
    traced: &mut Traced,
    interrupts: &mut Interrupts,
) -> anyhow::Result<()> {
    let mut children = signal(SignalKind::child())?;
    let mut tick = interval(DRAIN_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let far = Instant::now() + Duration::from_secs(u64::from(u32::MAX));
    loop {
        tokio::select! {
            _ = tick.tick() => watch.advance(None)?,
            wake = watch.next() => watch.advance(Some(wake))?,
            _ = children.recv() => {}
            () = sleep_until(traced.until.unwrap_or(far)) => return Ok(()),
            interrupt = interrupts.next() => {
                let Some(child) = &traced.child else { return Ok(()) };
                if !interrupts.pass_on(interrupt, child) {
                    return Ok(());
                }
            }
        }
        let Some(child) = &mut traced.child else { continue };
        if let Some(status) = child.try_wait()? {
            traced.status = Some(status);
            return Ok(());
        }
    }
}

/// Waits until the driver has finished the rows of what ended, or for as long as was asked.
async fn settle(
    options: &TraceOptions,
    watch: &mut Watch,
    interrupts: &mut Interrupts,
) -> anyhow::Result<()> {
    watch.advance(None)?;
    let ended: BootNs = watch.clock.now().boot;
    let deadline = Instant::now() + options.settle_timeout;
    let mut tick = interval(DRAIN_INTERVAL);
    for gpu in watch.gpus.values_mut() {
        gpu.request(true, true);
    }
    while watch.awaits_command(ended) {
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
async fn finish(watch: &mut Watch) -> anyhow::Result<()> {
    let asked = watch.clock.now().boot;
    for gpu in watch.gpus.values_mut() {
        gpu.request(true, true);
        gpu.worker().finish();
    }
    let deadline = Instant::now() + BASELINE_TIMEOUT;
    while watch.gpus.values().any(|gpu| !gpu.was_read_after(asked) && !gpu.stalled) {
        tokio::select! {
            wake = watch.next() => watch.advance(Some(wake))?,
            () = sleep_until(deadline) => break,
        }
    }
    watch.advance(None)?;
    Ok(())
}

fn deliver(
    options: &TraceOptions,
    output: Output,
    report: &Report,
    status: Option<ExitStatus>,
) -> anyhow::Result<u8> {
    let page = if options.json { assemble::json(report)? } else { text::render(report) };
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
    Ok(match status.map(exit_status_of) {
        Some(0) | None => own,
        // The command's own failure is what its caller asked about.
        Some(status) => u8::try_from(status).unwrap_or(u8::MAX),
    })
}

/// The status as a shell would give it: 128 + n after signal n.
fn exit_status_of(status: ExitStatus) -> i32 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => i32::from(u8::MAX),
    }
}

/// The row that a finding brings.
fn row_of(finding: &Finding) -> Option<&FinalRow> {
    match finding {
        Finding::AlreadyDead(row) | Finding::Final(row) | Finding::NoStartTime(row) => Some(row),
        Finding::Opened(_)
        | Finding::Masked(_)
        | Finding::OpenLost { .. }
        | Finding::Conflict { .. }
        | Finding::Gap(_)
        | Finding::EpochBegan { .. }
        | Finding::EpochEnded { .. }
        | Finding::ObservedIdle { .. }
        | Finding::JunkPids { .. }
        | Finding::KeysForgotten { .. } => None,
    }
}

/// Requests to stop: the first is the command's business, the next ends the waiting.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    passed_on: bool,
}

impl Interrupts {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            passed_on: false,
        })
    }

    async fn next(&mut self) -> rustix::process::Signal {
        tokio::select! {
            _ = self.interrupt.recv() => rustix::process::Signal::INT,
            _ = self.terminate.recv() => rustix::process::Signal::TERM,
            _ = self.hangup.recv() => rustix::process::Signal::HUP,
        }
    }

    /// Passes a signal on to the command, unless the terminal gave it to the command already.
    /// Whether the command is still to be waited for: it is, the first time.
    fn pass_on(&mut self, kind: rustix::process::Signal, child: &Child) -> bool {
        if std::mem::replace(&mut self.passed_on, true) {
            return false;
        }
        let by_terminal = kind == rustix::process::Signal::INT && we_are_in_the_foreground();
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let (false, Some(pid)) = (by_terminal, pid)
            && let Err(error) = rustix::process::kill_process(pid, kind)
        {
            tracing::debug!(%error, "the command was gone before the signal");
        }
        true
    }
}

/// Whether a key pressed at the terminal signals us, and then the command as well.
fn we_are_in_the_foreground() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdin())
        .is_ok_and(|foreground| foreground == rustix::process::getpgrp())
}
