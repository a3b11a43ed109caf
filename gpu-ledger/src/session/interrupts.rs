//! Signals that end a watch, passed on to the command it is for.

use std::process::Child;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Requests to stop: the first is the command's business, the next ends the waiting.
pub(crate) struct Interrupts {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hangup: Option<Signal>,
    /// A file-size limit then fails the write, as a full disk does, and kills nobody.
    _file_size: Signal,
    passed_on: bool,
}

impl Interrupts {
    pub(crate) fn listen() -> std::io::Result<Self> {
        // What the caller had ignored (nohup, a background job) stays ignored, for us and the command.
        let ignored = ignored_signals()?;
        let unless_ignored = |kind: SignalKind| {
            let bit = u32::try_from(kind.as_raw_value()).unwrap_or(0).saturating_sub(1);
            let is_ignored = ignored.checked_shr(bit).is_some_and(|mask| mask & 1 == 1);
            if is_ignored { Ok(None) } else { signal(kind).map(Some) }
        };
        Ok(Self {
            interrupt: unless_ignored(SignalKind::interrupt())?,
            terminate: unless_ignored(SignalKind::terminate())?,
            hangup: unless_ignored(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
            passed_on: false,
        })
    }

    pub(crate) async fn next(&mut self) -> rustix::process::Signal {
        tokio::select! {
            () = received(&mut self.interrupt) => rustix::process::Signal::INT,
            () = received(&mut self.terminate) => rustix::process::Signal::TERM,
            () = received(&mut self.hangup) => rustix::process::Signal::HUP,
        }
    }

    /// Passes a signal on to the command, unless the terminal gave it to the command already.
    /// Whether the command is still to be waited for: it is, the first time.
    pub(crate) fn pass_on(&mut self, kind: rustix::process::Signal, child: &Child) -> bool {
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

/// The next signal of a kind; none ever comes of one that is ignored.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// The signals that are ignored now, a bit a signal (`SigIgn` in proc(5)); none where procfs does not tell.
fn ignored_signals() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| {
        let kind = error.kind();
        std::io::Error::new(kind, format!("cannot read /proc/self/status ({error}): mount /proc"))
    })?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.ok_or_else(|| std::io::Error::other("/proc/self/status has no SigIgn"))
}

/// Whether a key pressed at the terminal signals us, and then the command as well.
fn we_are_in_the_foreground() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdin())
        .is_ok_and(|foreground| foreground == rustix::process::getpgrp())
}
