//! Asking the helper: one line there, one line back, within a deadline.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::answer::{ANSWER_BYTES_MAX, read_answer};
use super::asked::Question;
use crate::attribution::ContainerNames;
use crate::clock::Clock;
use crate::unit::BootNs;

/// The helper's socket, as its unit makes it.
pub const SOCKET_DEFAULT: &str = "/run/gpu-ledger-names/names.sock";
/// How long all of a question may take: the helper is started for it, and reads some files.
pub const DEADLINE: Duration = Duration::from_millis(500);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens there.
    #[error(
        "nobody tells names of containers at {}: {cause}; systemctl enable --now gpu-ledger-names.socket",
        path.display()
    )]
    Absent {
        /// Where.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It is there, and this user may not ask.
    #[error("{} is open to root and the group gpu-ledger alone", path.display())]
    Denied {
        /// Where.
        path: PathBuf,
    },
    /// It did not answer, or not with an answer.
    #[error("the helper at {} gave no answer: {what}; see journalctl -u 'gpu-ledger-names@*'", path.display())]
    Broken {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Asks once. `None`: no runtime has names for it.
///
/// # Errors
/// Why there is no answer within [`DEADLINE`].
pub fn ask(
    path: &Path,
    question: &Question,
    clock: &Clock,
) -> Result<Option<ContainerNames>, AskError> {
    let patience = u64::try_from(DEADLINE.as_nanos()).unwrap_or(u64::MAX);
    let until = clock.now().boot.plus_ns(patience);
    let broken = |what: String| AskError::Broken { path: path.to_path_buf(), what };
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => broken(format!("none in {DEADLINE:?}")),
        _ => broken(error.to_string()),
    };
    let mut stream = connected(path).map_err(|cause| match cause.kind() {
        ErrorKind::PermissionDenied => AskError::Denied { path: path.to_path_buf() },
        ErrorKind::WouldBlock | ErrorKind::TimedOut => failed(cause),
        _ => AskError::Absent { path: path.to_path_buf(), cause },
    })?;
    stream.write_all(format!("{question}\n").as_bytes()).map_err(failed)?;
    let line = read_line(&mut stream, until, clock).map_err(failed)?;
    read_answer(&line).map_err(broken)
}

/// Connected; a listener whose backlog is full does not hold us either.
fn connected(path: &Path) -> std::io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(DEADLINE))?;
    connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

/// Up to the end of the line or of the stream. Whoever sends a byte now and then gains no time by it.
fn read_line(stream: &mut UnixStream, until: BootNs, clock: &Clock) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut piece = [0; 4_096];
    loop {
        let left = until.0.saturating_sub(clock.now().boot.0);
        if left == 0 {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(Duration::from_nanos(left)))?;
        let read = match stream.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        let bytes = piece.get(..read).unwrap_or_default();
        line.extend_from_slice(bytes);
        if u64::try_from(line.len()).map_or(true, |length| length > ANSWER_BYTES_MAX) {
            return Err(std::io::Error::other("it is longer than any answer"));
        }
        if bytes.is_empty() || bytes.ends_with(b"\n") {
            return Ok(line);
        }
    }
}
