//! Holding a GPU of the simulated driver: what the workload does, for other test programs.
//!
//! ```no_run
//! # fn main() -> Result<(), nvsim::client::Failure> {
//! let held = nvsim::client::Held::open("/run/nvsim.sock".as_ref(), 0, 1 << 30)?;
//! // … the driver has stamped the start; work …
//! drop(held); // the last duplicate of the descriptor closes: the driver stamps the end
//! # Ok(())
//! # }
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use crate::protocol::{Answer, Malformed, PACKET_BYTES_MAX, Request, Use};

/// Names the server's socket: read by the library, the workload and `nvsim fault`.
pub const SOCKET_VARIABLE: &str = "NVSIM_SOCKET";

/// Why the server could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No server listens there.
    #[error("no simulated driver listens at {path}: {source}; start `nvsim serve` first")]
    NotThere {
        /// The socket.
        path: String,
        /// What the kernel says.
        source: Errno,
    },
    /// It went away, or the connection broke.
    #[error("the simulated driver went away: {0}")]
    Gone(#[from] Errno),
    /// It sent what is no answer.
    #[error("the simulated driver's answer: {0}")]
    Malformed(#[from] Malformed),
    /// It said no.
    #[error("the simulated driver refuses: {0}")]
    Refused(String),
}

/// A connection to the server.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
}

impl Wire {
    /// Connects. The descriptor is closed by exec, as the driver's own are.
    pub fn connect(path: &Path) -> Result<Self, Failure> {
        let not_there = |source| Failure::NotThere { path: path.display().to_string(), source };
        let address = SocketAddrUnix::new(path).map_err(not_there)?;
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(not_there)?;
        // A storm may fill the server's queue; the kernel then says so instead of waiting when
        // the connect is interrupted.
        loop {
            match connect(&socket, &address) {
                Ok(()) => return Ok(Self { socket }),
                Err(Errno::INTR) => {}
                Err(source) => return Err(not_there(source)),
            }
        }
    }

    /// One round trip.
    pub fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        let packet = request.encode();
        while let Err(errno) = send(&self.socket, &packet, SendFlags::NOSIGNAL) {
            if errno != Errno::INTR {
                return Err(errno.into());
            }
        }
        let mut packet = Vec::with_capacity(PACKET_BYTES_MAX);
        loop {
            let spare = rustix::buffer::spare_capacity(&mut packet);
            match recv(&self.socket, spare, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Failure::Gone(Errno::CONNRESET)),
                Ok(_) => return Ok(Answer::decode(&packet)?),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A device object on one GPU, held until it is dropped and every duplicate of its descriptor
/// (inherited by a fork, passed over a socket) is closed.
#[derive(Debug)]
pub struct Held {
    wire: Wire,
}

impl Held {
    /// Opens a GPU and allocates `memory_bytes` and a channel, busy all the time. The driver has
    /// stamped the start when this returns.
    pub fn open(socket: &Path, gpu: u32, memory_bytes: u64) -> Result<Self, Failure> {
        let usage = Use { memory_bytes, channel: true, busy_percent: 100, memory_busy_percent: 50 };
        Self::open_with(socket, gpu, usage)
    }

    /// Opens a GPU and uses it as said; with [`Use::default`] as a monitor that allocates nothing.
    pub fn open_with(socket: &Path, gpu: u32, usage: Use) -> Result<Self, Failure> {
        let held = Self { wire: Wire::connect(socket)? };
        held.ask(&Request::Open { gpu, usage })?;
        Ok(held)
    }

    /// Changes what this object uses from now on.
    pub fn set_use(&self, usage: Use) -> Result<(), Failure> {
        self.ask(&Request::Use(usage))
    }

    fn ask(&self, request: &Request) -> Result<(), Failure> {
        let answer = self.wire.ask(request)?;
        if answer.code == 0 { Ok(()) } else { Err(Failure::Refused(answer.text)) }
    }
}

impl AsFd for Held {
    /// The descriptor whose last duplicate's closing ends the span.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}
