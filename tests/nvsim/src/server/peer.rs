//! Who is at the other end of a connection.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;

use super::truth::Image;

/// A peer as the kernel knew it when it connected.
#[derive(Debug)]
pub(super) struct Peer {
    /// In the server's pid namespace.
    pub(super) pid: u32,
    pub(super) is_root: bool,
    /// The very process: its pid may come to mean another.
    pidfd: Option<OwnedFd>,
    in_other_pid_namespace: bool,
}

impl Peer {
    pub(super) fn of(socket: &OwnedFd) -> Result<Self, Errno> {
        let credentials = socket_peercred(socket)?;
        let pid = credentials.pid.as_raw_nonzero().get().unsigned_abs();
        Ok(Self {
            pid,
            is_root: credentials.uid.is_root(),
            pidfd: crate::sys::peer_pidfd(std::os::fd::AsFd::as_fd(socket)),
            in_other_pid_namespace: false,
        })
    }

    /// Looks where the peer stands, once it is known to be an NVML client.
    pub(super) fn look_at_namespace(&mut self) {
        let own = std::fs::read_link("/proc/self/ns/pid");
        let theirs = std::fs::read_link(format!("/proc/{}/ns/pid", self.pid));
        // A peer that cannot be looked at is dead and asks nothing more.
        if let (Ok(own), Ok(theirs)) = (own, theirs) {
            self.in_other_pid_namespace = own != theirs;
        }
    }

    pub(super) const fn is_in_container(&self) -> bool {
        self.in_other_pid_namespace
    }

    /// Whether the process itself has exited, whoever holds its descriptors.
    pub(super) fn has_exited(&self) -> bool {
        self.pidfd.as_ref().is_none_or(is_readable)
    }

    /// What the process is now. It waits for our answer, so one consistent pair of readings is
    /// what it was when it asked; none if it died meanwhile.
    pub(super) fn image(&self) -> Image {
        let executable = || std::fs::read_link(format!("/proc/{}/exe", self.pid)).ok();
        for _ in 0..3 {
            let Some(before) = executable() else { break };
            let Ok(command_line) = std::fs::read(format!("/proc/{}/cmdline", self.pid)) else {
                break;
            };
            if executable().as_ref() != Some(&before) {
                continue;
            }
            if self.has_exited() {
                break;
            }
            return Image {
                exe: Some(before.to_string_lossy().into_owned()),
                argv: Some(arguments(&command_line)),
            };
        }
        Image { exe: None, argv: None }
    }
}

fn arguments(command_line: &[u8]) -> Vec<String> {
    let whole = command_line.strip_suffix(&[0]).unwrap_or(command_line);
    whole.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether a descriptor is readable or hung up at this moment.
pub(super) fn is_readable(fd: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(fd, PollFlags::IN | PollFlags::HUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut watched, Some(&now)), Ok(1..))
}
