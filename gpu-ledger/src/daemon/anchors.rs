//! Where checkpoints go so that whoever can rewrite the journal cannot take them back: the system's log, and a file that
//! somebody else owns. A thread of its own: a log or a disk that hangs keeps nobody waiting, and no failure of it is one
//! of the journal.

use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::tz::TimeZone;
use rustix::fs::{FileType, Mode, OFlags};

use crate::journal::store::Signed;
use crate::unit::WallUs;

/// Where the system's log is written to (syslog(3)).
pub(super) const SYSLOG: &str = "/dev/log";
/// What a line of it begins with: facility daemon, severity notice (RFC 5424, 6.2.1).
const PRIORITY: u32 = 3 * 8 + 5;
/// Its identifier there.
const IDENTIFIER: &str = "gpu-ledger-checkpoint";
/// Mode of the file, where it is made here.
const FILE_MODE: u32 = 0o640;
/// Checkpoints that may wait for a place that hangs.
const WAITING_MAX: usize = 16;
/// How long the end waits for the last one.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// How one of these places is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Outlet {
    /// Checkpoints go there; `None` before the first.
    pub(super) is_on: Option<bool>,
    /// Those that did not get there.
    pub(super) failed: u64,
    /// Why the last one did not; `None` where it did.
    pub(super) lack: Option<String>,
}

impl Outlet {
    fn reached(&mut self, name: &str, reached: Result<bool, String>) {
        match reached {
            Ok(is_on) => {
                self.is_on = Some(is_on);
                if self.lack.take().is_some() && is_on {
                    tracing::info!("checkpoints reach the {name} again");
                }
            }
            Err(why) => {
                self.failed = self.failed.saturating_add(1);
                if self.lack.as_ref() != Some(&why) {
                    tracing::error!("a checkpoint did not reach the {name}: {why}");
                }
                (self.is_on, self.lack) = (Some(true), Some(why));
            }
        }
    }
}

/// How they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Outlets {
    /// The system's log.
    pub(super) syslog: Outlet,
    /// The configured file.
    pub(super) file: Outlet,
}

/// Shared with whoever tells of them.
pub(super) type SharedOutlets = Arc<Mutex<Outlets>>;

/// The thread that sends them.
#[derive(Debug)]
pub(super) struct Anchors {
    sender: Option<SyncSender<(Signed, WallUs)>>,
    ended: Receiver<()>,
    outlets: SharedOutlets,
}

impl Anchors {
    /// Starts it.
    pub(super) fn start(syslog: PathBuf, file: Option<PathBuf>, outlets: SharedOutlets) -> Self {
        let (sender, signed) = sync_channel::<(Signed, WallUs)>(WAITING_MAX);
        let (end, ended) = sync_channel(1);
        let shared = Arc::clone(&outlets);
        let thread = std::thread::Builder::new().name("checkpoints".to_owned());
        let started = thread.spawn(move || {
            for (signed, at) in signed {
                let log = to_syslog(&syslog, &signed.note, at);
                let kept = file.as_ref().map_or(Ok(false), |file| to_file(file, &signed.note));
                let mut outlets = shared.lock().unwrap_or_else(PoisonError::into_inner);
                outlets.syslog.reached("system log", log);
                outlets.file.reached("file of checkpoints", kept);
            }
            // Nobody waits where the process does not end.
            let _ = end.send(());
        });
        let started = started.inspect_err(|error| {
            tracing::error!(%error, "no thread sends checkpoints out of reach of this host's root");
        });
        Self { sender: started.is_ok().then_some(sender), ended, outlets }
    }

    /// Sends one, without waiting.
    pub(super) fn send(&self, signed: &Signed, at: WallUs) {
        let lost = match self.sender.as_ref().map(|sender| sender.try_send((signed.clone(), at))) {
            Some(Ok(())) => return,
            Some(Err(TrySendError::Full(_))) => "those before it are not there yet",
            Some(Err(TrySendError::Disconnected(_))) | None => "nobody sends them",
        };
        let mut outlets = self.outlets.lock().unwrap_or_else(PoisonError::into_inner);
        outlets.syslog.reached("system log", Err(lost.to_owned()));
        outlets.file.reached("file of checkpoints", Err(lost.to_owned()));
    }

    /// Waits a moment for the last one.
    pub(super) fn finish(&mut self) {
        if self.sender.take().is_some() {
            // Whoever hangs is left behind.
            let _ = self.ended.recv_timeout(LAST_PATIENCE);
        }
    }
}

/// Sends a checkpoint that another program of ours signed to the same places; what it did not reach, and why.
pub(crate) fn send_checkpoint(note: &str, file: Option<&Path>, at: WallUs) -> Vec<String> {
    let to_log = to_syslog(Path::new(SYSLOG), note, at);
    let kept = file.map_or(Ok(false), |file| to_file(file, note));
    [to_log, kept].into_iter().filter_map(Result::err).collect()
}

/// One line, from which the note can be made again; whether there is such a log.
fn to_syslog(path: &Path, note: &str, at: WallUs) -> Result<bool, String> {
    let line = syslog_line(note, at);
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(line.as_bytes(), path)
    });
    match sent {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// As syslog(3) writes it.
fn syslog_line(note: &str, at: WallUs) -> String {
    let ms = i64::try_from(at.ms()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    let time = time.to_zoned_datetime(zone).strftime("%b %e %H:%M:%S").to_string();
    let pid = std::process::id();
    format!("<{PRIORITY}>{time} {IDENTIFIER}[{pid}]: {}", one_line(note))
}

/// The parts of the note, in its order.
pub(super) fn one_line(note: &str) -> String {
    let part = |line: usize| note.lines().nth(line).unwrap_or_default();
    let signature = part(4).rsplit(' ').next().unwrap_or_default();
    format!("origin={} size={} root={} signature={signature}", part(0), part(1), part(2))
}

/// The note and an empty line, at the end of a file that may be another user's.
fn to_file(path: &Path, note: &str) -> Result<bool, String> {
    let failed = |cause: &dyn std::fmt::Display| format!("{}: {cause}", path.display());
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(FILE_MODE));
    let opened = opened.map_err(|errno| failed(&errno))?;
    let found = rustix::fs::fstat(&opened).map_err(|errno| failed(&errno))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(failed(&"it is no regular file"));
    }
    let mut file = std::fs::File::from(opened);
    let text = format!("{note}\n");
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
    written.map(|()| true).map_err(|error| failed(&error))
}

#[cfg(test)]
#[path = "anchors_tests.rs"]
mod tests;
