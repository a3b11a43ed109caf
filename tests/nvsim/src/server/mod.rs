//! The server: owns the model, and is asked by processes, NVML clients and tests.
//!
//! Purpose: everything that the driver would do between a process, its device file and NVML. May
//! touch: one socket, the clocks, /proc of the peers, the truth log. Single-threaded: what it
//! answers is what the model holds at one moment.
//!
//! A "GPU process" holds a connection as a real one holds the device file. The end of its last
//! descriptor is seen as a hang-up. One difference from a file is made good here: closing a socket
//! never delays the reaping, so before an open by a pid is answered, older connections of that pid
//! that hung up are finalised first.

mod answers;
mod calls;
mod device;
mod events;
mod faults;
mod holding;
mod lists;
mod peer;
mod replies;
mod truth;

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen, recv, send, socket_with,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock::Clock;
use crate::model::{Gpu, Moment, Setup};
use crate::protocol::{Answer, PACKET_BYTES_MAX, Request};
use crate::random::Random;
use device::Board;
use faults::Faults;
use holding::Holding;
use peer::Peer;
use replies::Waiting;
use truth::Truth;

/// Descriptors that the server asks for: one connection and one pidfd a process.
const DESCRIPTORS_WANTED: u64 = 20_000;
/// How many processes may be about to connect; the kernel lowers it to its own bound.
const BACKLOG: i32 = 4_096;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

const LISTENER: u64 = 0;
const TERMINATION: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen. A stale socket there is replaced.
    pub socket: PathBuf,
    /// How many GPUs.
    pub gpus: u32,
    /// Shortest and longest time from a hang-up to the entry's end, in milliseconds.
    pub teardown_ms: (u64, u64),
    /// Whether accounting is on at first.
    pub accounting: bool,
    /// Whether the driver's state outlives its last client.
    pub persistence: bool,
    /// Where to write what really happened.
    pub truth: Option<PathBuf>,
    /// Faults with times: JSON lines `{"at_ms": 500, "fault": ["mig", "on"]}`.
    pub script: Option<PathBuf>,
    /// Decides teardown delays and samples.
    pub seed: u64,
    /// What the GPUs are called.
    pub gpu_name: String,
}

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket, the poll or the truth log.
    #[error("{what}: {source}")]
    System {
        /// What was being done, and to what.
        what: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The script.
    #[error("script {path}, line {line}: {problem}")]
    Script {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

fn system(what: impl Into<String>) -> impl FnOnce(Errno) -> ServerError {
    let what = what.into();
    |errno| ServerError::System { what, source: errno.into() }
}

/// What a connection has turned out to be.
enum Role {
    /// It has said nothing yet.
    Silent,
    /// It holds a GPU.
    Process(Holding),
    /// It calls NVML, or asks for faults.
    Caller,
}

struct Connection {
    /// None once it hung up: a process's then waits for its teardown.
    socket: Option<OwnedFd>,
    peer: Peer,
    role: Role,
}

struct Server {
    clock: Clock,
    poll: OwnedFd,
    /// Watches the processes' connections for hang-ups alone, so that all of them can be had at
    /// once before an open is answered.
    hang_ups: OwnedFd,
    listener: OwnedFd,
    connections: HashMap<u64, Connection>,
    next_connection: u64,
    /// Which connections hold GPUs for a pid.
    holding: HashMap<u32, Vec<u64>>,
    spans: HashMap<(usize, u32), truth::Span>,
    gpus: Vec<Gpu>,
    boards: Vec<Board>,
    teardowns: replies::Timers<u64>,
    waiting: Waiting,
    faults: Faults,
    script: replies::Timers<Vec<String>>,
    events: events::Sets,
    /// NVML clients that have initialised, by connection.
    clients: HashMap<u64, u32>,
    teardown_ms: (u64, u64),
    random: Random,
    truth: Truth,
}

/// Serves until SIGTERM or SIGINT. `ready` is called once, when the socket is listened on.
pub fn serve(options: &Options, ready: impl FnOnce()) -> Result<(), ServerError> {
    let termination = crate::sys::termination_descriptor()
        .map_err(|source| ServerError::System { what: "signals".to_owned(), source })?;
    let mut server = Server::start(options)?;
    server.watch(&termination, TERMINATION)?;
    ready();
    let outcome = server.run();
    server.end();
    // The socket may be gone already, with its folder: that is what was wanted.
    let _ = std::fs::remove_file(&options.socket);
    outcome
}

impl Server {
    fn start(options: &Options) -> Result<Self, ServerError> {
        raise_descriptor_limit();
        let truth_file = options.truth.as_deref();
        let truth = Truth::create(truth_file).map_err(|source| ServerError::System {
            what: format!("truth log {}", truth_file.unwrap_or(Path::new("")).display()),
            source,
        })?;
        let clock = Clock::from_environment();
        let now = clock.now();
        let mut script = replies::Timers::default();
        if let Some(path) = &options.script {
            for (at_ms, words) in faults::read_script(path)? {
                script.add(now.mono_us.saturating_add(at_ms.saturating_mul(1_000)), words);
            }
        }
        let mut random = Random::seeded(options.seed);
        let gpus = (0..options.gpus)
            .map(|_| Gpu::new(&Setup { accounting: options.accounting, seed: random.word() }))
            .collect();
        let boards = (0..options.gpus).map(|index| Board::new(index, options)).collect();
        let listener = listen_at(&options.socket)?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll"))?;
        let hang_ups = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll"))?;
        let server = Self {
            clock,
            poll,
            hang_ups,
            listener,
            connections: HashMap::new(),
            next_connection: FIRST_CONNECTION,
            holding: HashMap::new(),
            spans: HashMap::new(),
            gpus,
            boards,
            teardowns: replies::Timers::default(),
            waiting: Waiting::default(),
            faults: Faults::default(),
            script,
            events: events::Sets::default(),
            clients: HashMap::new(),
            teardown_ms: options.teardown_ms,
            random,
            truth,
        };
        server.watch(&server.listener, LISTENER)?;
        Ok(server)
    }

    fn watch(&self, fd: &OwnedFd, token: u64) -> Result<(), ServerError> {
        epoll::add(&self.poll, fd, EventData::new_u64(token), EventFlags::IN | EventFlags::RDHUP)
            .map_err(system("epoll"))
    }

    fn run(&mut self) -> Result<(), ServerError> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        let mut packet = vec![0; PACKET_BYTES_MAX];
        loop {
            let timeout = self.time_to_next_timer();
            events.clear();
            match epoll::wait(
                &self.poll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(system("epoll")(errno)),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    TERMINATION => return Ok(()),
                    token => self.read(token, &mut packet),
                }
            }
            self.run_timers();
        }
    }

    /// How long the poll may sleep.
    fn time_to_next_timer(&self) -> Option<rustix::event::Timespec> {
        let next = [
            self.teardowns.next_us(),
            self.waiting.next_us(),
            self.script.next_us(),
            self.events.next_us(),
        ];
        let next_us = next.into_iter().flatten().min()?;
        let wait_us = next_us.saturating_sub(self.clock.now().mono_us);
        let seconds = i64::try_from(wait_us / 1_000_000).unwrap_or(i64::MAX);
        let nanos = i64::try_from(wait_us % 1_000_000 * 1_000).unwrap_or(0);
        Some(rustix::event::Timespec { tv_sec: seconds, tv_nsec: nanos })
    }

    fn run_timers(&mut self) {
        let now = self.clock.now();
        while let Some(token) = self.teardowns.due(now.mono_us) {
            self.finalise(token);
        }
        while let Some(words) = self.script.due(now.mono_us) {
            if let Err(problem) = self.apply_words(&words) {
                complain(&format!("script: {problem}"));
            }
        }
        while let Some((token, call)) = self.waiting.due(now.mono_us) {
            self.answer_call(token, &call);
        }
        for (token, answer) in self.events.due(now.mono_us) {
            self.send(token, &answer);
        }
    }

    fn accept(&mut self) -> Result<(), ServerError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&self.listener, flags) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
            Err(errno) => return Err(system("accept")(errno)),
        };
        let token = self.next_connection;
        self.next_connection += 1;
        let peer = Peer::of(&socket).map_err(system("peer credentials"))?;
        self.watch(&socket, token)?;
        self.connections
            .insert(token, Connection { socket: Some(socket), peer, role: Role::Silent });
        Ok(())
    }

    fn read(&mut self, token: u64, packet: &mut [u8]) {
        let Some(connection) = self.connections.get(&token) else { return };
        let Some(socket) = &connection.socket else { return };
        match recv(socket, &mut *packet, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((0, _)) | Err(_) => self.hung_up(token),
            Ok((count, _)) => match Request::decode(packet.get(..count).unwrap_or_default()) {
                Ok(request) => self.obey(token, request),
                Err(malformed) => {
                    complain(&malformed.to_string());
                    self.hung_up(token);
                }
            },
        }
    }

    fn obey(&mut self, token: u64, request: Request) {
        match request {
            Request::Open { gpu, usage } => {
                let answer = self.open(token, gpu, usage);
                self.send(token, &answer);
            }
            Request::Use(usage) => {
                let answer = self.set_use(token, usage);
                self.send(token, &answer);
            }
            Request::Call { symbol, gpu, arguments, text } => {
                self.become_caller(token);
                self.call(token, calls::Call { symbol, gpu, arguments, text });
            }
            Request::Fault(words) => {
                self.become_caller(token);
                let answer = match self.apply_words(&words) {
                    Ok(text) => Answer::text(text),
                    Err(problem) => Answer { code: 2, numbers: Vec::new(), text: problem },
                };
                self.send(token, &answer);
            }
        }
    }

    fn become_caller(&mut self, token: u64) {
        if let Some(connection) = self.connections.get_mut(&token)
            && matches!(connection.role, Role::Silent)
        {
            connection.role = Role::Caller;
        }
    }

    /// Sends an answer. A peer that is gone, or that never reads, is dropped: the poll says so.
    fn send(&mut self, token: u64, answer: &Answer) {
        let Some(connection) = self.connections.get(&token) else { return };
        let Some(socket) = &connection.socket else { return };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if send(socket, &answer.encode(), flags).is_err() {
            self.hung_up(token);
        }
    }

    fn hung_up(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        // Closing takes it out of the poll as well.
        drop(connection.socket.take());
        if matches!(connection.role, Role::Process(_)) {
            self.begin_teardown(token);
            return;
        }
        self.connections.remove(&token);
        self.waiting.forget(token);
        self.events.forget_connection(token);
        if let Some(pid) = self.clients.remove(&token) {
            if !self.clients.values().any(|&other| other == pid) {
                self.events.forget_process(pid);
            }
            self.tear_down_deserted();
        }
    }

    fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Writes what is still open to the truth log, as lost with the server.
    fn end(&mut self) {
        let mut tokens: Vec<u64> = self.connections.keys().copied().collect();
        tokens.sort_unstable();
        for token in tokens {
            self.finalise_with(token, Some("server-stopped"));
        }
    }
}

fn listen_at(path: &Path) -> Result<OwnedFd, ServerError> {
    let what = || format!("socket {}", path.display());
    let address = SocketAddrUnix::new(path).map_err(system(what()))?;
    // Whatever a killed server left there: two servers at one path are the caller's mistake.
    let _ = std::fs::remove_file(path);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(system(what()))?;
    bind(&socket, &address).map_err(system(what()))?;
    // Any user may hold a GPU or read the accounting, as with the real device files.
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o666)).map_err(system(what()))?;
    listen(&socket, BACKLOG).map_err(system(what()))?;
    Ok(socket)
}

fn complain(what: &str) {
    // Nothing is left to do when even stderr is gone.
    let _ = writeln!(io::stderr(), "nvsim: {what}");
}

fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let current =
        limit.maximum.map_or(DESCRIPTORS_WANTED, |maximum| maximum.min(DESCRIPTORS_WANTED));
    // A lower bound than wished for is met by an error of accept, not silently.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
}
