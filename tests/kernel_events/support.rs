//! A watched stretch of time, and the processes that act in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use gpu_ledger::kernel::preflight::{self, Need, Outcome};
use gpu_ledger::kernel::{
    Counts, Event, Exec, Exit, Fork, KernelError, Loss, ProcessKey, Subject, Tracer, TracerOptions,
};
use gpu_ledger::unit::Pid;

#[path = "../support/skip.rs"]
mod skip;

pub(crate) use self::skip::skip;

const DEADLINE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(5);

/// One watch at a time: a storm in one test must not fill the ring of another.
static ALONE: Mutex<()> = Mutex::new(());

/// An attached tracer and everything it has said.
pub(crate) struct Watch {
    pub(crate) tracer: Tracer,
    pub(crate) events: Vec<Event>,
    pub(crate) losses: Vec<Loss>,
    _alone: MutexGuard<'static, ()>,
}

/// Attaches, or says loudly why this test is skipped.
pub(crate) fn watch(test: &str, options: &TracerOptions) -> Option<Watch> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = preflight::findings(Path::new("/proc"), Path::new("/sys"));
    for finding in found.iter().filter(|finding| finding.need == Need::Tracing) {
        if let Outcome::Missing { cause, .. } = &finding.outcome {
            skip(test, cause);
            return None;
        }
    }
    let tracer = attach(options).unwrap_or_else(|error| panic!("{error}"));
    Some(Watch { tracer, events: Vec::new(), losses: Vec::new(), _alone: alone })
}

/// The embedded object, or the one that `cargo xtask ebpf --check` has just built.
fn attach(options: &TracerOptions) -> Result<Tracer, KernelError> {
    match std::env::var_os("GPU_LEDGER_TEST_OBJECT") {
        Some(path) => Tracer::attach_object(options, &std::fs::read(path).unwrap()),
        None => Tracer::attach(options),
    }
}

impl Watch {
    /// Takes what is in the ring.
    pub(crate) fn drain(&mut self) {
        let events = &mut self.events;
        let losses = self.tracer.drain_and_confirm(|record| {
            events.push(record.expect("every record of our own object can be read"));
        });
        self.losses.extend(losses.unwrap());
    }

    /// Polls until `find` finds something in all that has come.
    pub(crate) fn until<T>(&mut self, what: &str, find: impl Fn(&[Event]) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            self.drain();
            if let Some(found) = find(&self.events) {
                return found;
            }
            assert!(begun.elapsed() < DEADLINE, "{what} did not come");
            std::thread::sleep(POLL);
        }
    }

    /// Runs an act to its end; its pid.
    pub(crate) fn act(&mut self, arguments: &[&str]) -> Pid {
        let mut child = Command::new(actor()).args(arguments).spawn().unwrap();
        loop {
            self.drain();
            if child.try_wait().unwrap().is_some() {
                return Pid(child.id());
            }
            std::thread::sleep(POLL);
        }
    }

    /// The exit of the process that was last seen with this pid.
    pub(crate) fn exit_of(&mut self, pid: Pid) -> Exit {
        self.until("the exit", |events| exits(events).find(|it| it.subject.key.pid == pid).cloned())
    }

    /// The last image of this pid.
    pub(crate) fn exec_of(&mut self, pid: Pid) -> Exec {
        self.until("the exec", |events| {
            execs(events).filter(|it| it.subject.key.pid == pid).last().cloned()
        })
    }

    /// Drains until a moment in which nothing was produced; what was counted then.
    pub(crate) fn quiet(&mut self) -> Counts {
        let begun = Instant::now();
        loop {
            let before = self.tracer.counts().unwrap();
            self.drain();
            let after = self.tracer.counts().unwrap();
            if before == after {
                return after;
            }
            assert!(begun.elapsed() < DEADLINE, "this machine is never quiet");
            std::thread::sleep(POLL);
        }
    }
}

pub(crate) fn forks(events: &[Event]) -> impl Iterator<Item = &Fork> {
    events.iter().filter_map(|event| if let Event::Fork(it) = event { Some(it) } else { None })
}

pub(crate) fn execs(events: &[Event]) -> impl Iterator<Item = &Exec> {
    events.iter().filter_map(|event| if let Event::Exec(it) = event { Some(it) } else { None })
}

pub(crate) fn exits(events: &[Event]) -> impl Iterator<Item = &Exit> {
    events.iter().filter_map(|event| if let Event::Exit(it) = event { Some(it) } else { None })
}

/// Keys of the processes that `parent` forked.
pub(crate) fn children(events: &[Event], parent: Pid) -> Vec<ProcessKey> {
    let of_parent = |subject: &Subject| subject.parent.is_some_and(|it| it.pid == parent);
    forks(events).map(|it| &it.subject).filter(|it| of_parent(it)).map(|it| it.key).collect()
}

/// The C program of this folder: compiled once, or the one that somebody compiled for a machine without a compiler.
pub(crate) fn actor() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(built) = std::env::var_os("GPU_LEDGER_TEST_ACTOR") {
            return built.into();
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kernel_events/actor.c");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("kernel-events-actor-{}", std::process::id()));
        let compiler = Command::new("cc")
            .args(["-O1", "-Wall", "-static", "-pthread", "-o"])
            .args([&built, &source])
            .status()
            .expect("a C compiler is one of this project's requirements");
        assert!(compiler.success(), "the actor compiles");
        built
    })
}
