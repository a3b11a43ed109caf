//! What the service manager is told: a datagram of text, as sd_notify(3) describes it.

use std::ffi::{OsStr, OsString};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, where there is one.
#[derive(Debug)]
pub(crate) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that we live.
    pub(crate) watchdog: Option<Duration>,
}

impl Manager {
    /// The one that these variables of the environment name (`NOTIFY_SOCKET`, `WATCHDOG_USEC`).
    pub(crate) fn of(socket: Option<&OsString>, watchdog: Option<Duration>) -> Self {
        let socket = socket.and_then(|path| match connect(path) {
            Ok(connected) => Some(connected),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "NOTIFY_SOCKET cannot be used");
                None
            }
        });
        // Twice as often as wanted, as sd_watchdog_enabled(3) advises.
        Self { socket, watchdog: watchdog.map(|every| every / 2) }
    }

    /// Tells it one thing.
    pub(crate) fn tell(&self, what: &str) {
        let Some((socket, address)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(what.as_bytes(), address) {
            tracing::warn!(%error, what, "the service manager cannot be told");
        }
    }
}

fn connect(path: &OsStr) -> std::io::Result<(UnixDatagram, SocketAddr)> {
    let address = match path.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not hold us up.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}
