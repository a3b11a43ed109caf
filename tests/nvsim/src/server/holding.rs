//! GPU processes: opening, use, and the long way to the end of a span.

use rustix::event::epoll::{self, EventData, EventFlags};

use super::truth::{Joined, Span};
use super::{Connection, Role, Server, complain};
use crate::model::{Loss, ObjectId, Opened};
use crate::protocol::{Answer, Use};

/// `NVML_ERROR_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: u32 = 2;
/// Hang-ups taken from the kernel at once.
const HANG_UPS_AT_ONCE: usize = 64;

/// What a process's connection holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    pub(super) gpu: usize,
    pub(super) object: ObjectId,
}

fn refused(text: &str) -> Answer {
    Answer { code: INVALID_ARGUMENT, numbers: Vec::new(), text: text.to_owned() }
}

impl Server {
    pub(super) fn open(&mut self, token: u64, gpu: u32, usage: Use) -> Answer {
        let index = usize::try_from(gpu).unwrap_or(usize::MAX);
        if index >= self.gpus.len() {
            return refused("there is no such GPU");
        }
        let Some(connection) = self.connections.get(&token) else { return Answer::default() };
        if !matches!(connection.role, Role::Silent) {
            return refused("one connection holds one device object");
        }
        let pid = connection.peer.pid;
        let image = connection.peer.image();
        self.finalise_hung_up(pid);
        let joins_stranger = self.is_held_by_dead(index, pid);
        let now = self.now();
        let Some(device) = self.gpus.get_mut(index) else { return Answer::default() };
        let (object, opened) = device.open(pid, now);
        device.set_use(object, usage, now);
        let key = (index, pid);
        match opened {
            Opened::Born => {
                self.spans.insert(key, Span { image, joined: Vec::new() });
            }
            Opened::Joined if joins_stranger => {
                if let Some(span) = self.spans.get_mut(&key) {
                    span.joined.push(Joined { joined_us: now.wall_us, image });
                }
            }
            Opened::Joined => {}
            Opened::NoEntry => {
                self.spans.entry(key).or_insert_with(|| Span { image, joined: Vec::new() });
            }
        }
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Process(Holding { gpu: index, object });
            if let Some(socket) = &connection.socket
                && let Err(errno) =
                    epoll::add(&self.hang_ups, socket, EventData::new_u64(token), EventFlags::RDHUP)
            {
                complain(&format!("epoll: {errno}"));
            }
        }
        self.holding.entry(pid).or_default().push(token);
        self.log_ended(index, None);
        Answer::of(vec![now.wall_us])
    }

    pub(super) fn set_use(&mut self, token: u64, usage: Use) -> Answer {
        let now = self.now();
        let Some(connection) = self.connections.get(&token) else { return Answer::default() };
        let Role::Process(holding) = connection.role else {
            return refused("this connection holds no GPU");
        };
        if let Some(device) = self.gpus.get_mut(holding.gpu) {
            device.set_use(holding.object, usage, now);
        }
        Answer::default()
    }

    /// Ends every span of `pid` whose last descriptor is closed, whatever delay it was to have:
    /// with a device file all this is over before the kernel hands the pid out again.
    fn finalise_hung_up(&mut self, pid: u32) {
        self.notice_hang_ups();
        let Some(tokens) = self.holding.get(&pid) else { return };
        let is_hung_up = |token: &&u64| {
            self.connections.get(token).is_some_and(|connection| connection.socket.is_none())
        };
        let hung_up: Vec<u64> = tokens.iter().filter(is_hung_up).copied().collect();
        for token in hung_up {
            self.finalise(token);
        }
    }

    /// Takes note of every process's connection that hung up by now.
    fn notice_hang_ups(&mut self) {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(HANG_UPS_AT_ONCE);
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            // Without an answer the main poll tells of the hang-ups a moment later.
            let count = epoll::wait(&self.hang_ups, spare, Some(&now)).unwrap_or(0);
            for event in &events {
                self.hung_up(event.data.u64());
            }
            if count < HANG_UPS_AT_ONCE {
                return;
            }
        }
    }

    /// Whether another process's descriptor still holds this GPU under the same pid: the youngest
    /// holder is either the process that asks, alive, or another that is dead.
    fn is_held_by_dead(&self, gpu: usize, pid: u32) -> bool {
        let tokens = self.holding.get(&pid).into_iter().flatten().rev();
        let mut connections = tokens.filter_map(|token| self.connections.get(token));
        let holds = |connection: &&Connection| matches!(&connection.role, Role::Process(holding) if holding.gpu == gpu);
        connections.find(holds).is_some_and(|connection| connection.peer.has_exited())
    }

    pub(super) fn begin_teardown(&mut self, token: u64) {
        // Its kernels stop at once; the contexts take the delay to go.
        let now = self.now();
        if let Some(connection) = self.connections.get(&token)
            && let Role::Process(holding) = connection.role
            && let Some(device) = self.gpus.get_mut(holding.gpu)
        {
            device.stop_work(holding.object, now);
        }
        let (low_ms, high_ms) = self.teardown_ms;
        let delay_us = self.random.between(low_ms * 1_000, high_ms * 1_000);
        if delay_us == 0 {
            self.finalise(token);
        } else {
            self.teardowns.add(now.mono_us.saturating_add(delay_us), token);
        }
    }

    pub(super) fn finalise(&mut self, token: u64) {
        self.finalise_with(token, None);
    }

    /// Ends a process's device object now. Does nothing for a connection that is none or that is
    /// finalised already.
    pub(super) fn finalise_with(&mut self, token: u64, lost: Option<&'static str>) {
        let Some(connection) = self.connections.remove(&token) else { return };
        let Role::Process(holding) = connection.role else { return };
        let pid = connection.peer.pid;
        if let Some(tokens) = self.holding.get_mut(&pid) {
            tokens.retain(|&held| held != token);
            if tokens.is_empty() {
                self.holding.remove(&pid);
            }
        }
        let now = self.now();
        if let Some(device) = self.gpus.get_mut(holding.gpu) {
            device.close(holding.object, now);
        }
        self.log_ended(holding.gpu, lost);
        if lost.is_none() {
            self.tear_down_deserted();
        }
    }

    /// Writes down the spans of a GPU that ended.
    pub(super) fn log_ended(&mut self, gpu: usize, lost: Option<&'static str>) {
        let Some(device) = self.gpus.get_mut(gpu) else { return };
        let Some(board) = self.boards.get(gpu) else { return };
        for ended in device.take_ended() {
            let span = self.spans.remove(&(gpu, ended.pid));
            if !ended.billable {
                continue;
            }
            let lost = lost.or_else(|| ended.loss.map(Loss::name));
            if let Err(error) = self.truth.write(&board.uuid, &ended, lost, span.as_ref()) {
                complain(&format!("truth log: {error}"));
            }
        }
    }

    /// With persistence off, a GPU that lost its last client loses its driver state.
    pub(super) fn tear_down_deserted(&mut self) {
        if !self.clients.is_empty() {
            return;
        }
        let now = self.now();
        for gpu in 0..self.gpus.len() {
            let persistent = self.boards.get(gpu).is_none_or(|board| board.persistence);
            let Some(device) = self.gpus.get_mut(gpu) else { continue };
            if !persistent && !device.is_held() {
                device.teardown(now);
                self.log_ended(gpu, None);
            }
        }
    }
}
