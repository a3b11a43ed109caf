//! What somebody asks by signal.

use nix::sys::signal::SigSet;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::output::complain;

/// Puts off requests to read the configuration again until somebody listens for them: one that comes before that would
/// end this process. For its first thread, before there is another one.
pub(crate) fn hold_reloads() {
    if let Err(error) = reloads().thread_block() {
        complain(&format!("SIGHUP cannot be put off: {error}"));
    }
}

fn reloads() -> SigSet {
    let mut reloads = SigSet::empty();
    reloads.add(nix::sys::signal::Signal::SIGHUP);
    reloads
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// End in order.
    Stop,
    /// Read the configuration again.
    Reload,
}

/// The signals that are heeded.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// A file-size limit then fails the write, as a full disk does, and kills nobody.
    _file_size: Signal,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Self> {
        let listening = Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?,
        };
        // One that came since this process began is heard now.
        reloads().thread_unblock()?;
        Ok(listening)
    }

    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}
