//! The start-up self-test: what the programs report of a known child is what procfs says of it.
//!
//! Purpose: until it passes no coverage is claimed. It catches what no probe can: a wrong offset
//! that lands on another number, a foreign procfs or pid namespace, a lockdown. May touch: the
//! tracer, procfs of the child, and the one program it starts. Records of others that come
//! meanwhile are handed on, never dropped.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::witness::{self, Witness};
use super::{ArgvState, Event, Exec, Exit, Fork, KernelError, Subject, Tracer, WireError};
use crate::clock::Clock;
use crate::unit::{BootNs, Pid};

/// How long the child's events may take: they are in the ring before spawn returns, and the exit
/// follows the end of its input.
const WAIT_NS_MAX: u64 = 5_000_000_000;
const POLL: Duration = Duration::from_millis(2);
/// How many children are tried where a crowd of other processes fills the ring, so that argv is shed.
const CHILDREN_MAX: u32 = 20;

/// The child to run: any program that reads its standard input to the end and then exits with
/// status 0. Usually this very program with a hidden argument.
#[derive(Clone, Debug)]
pub struct KnownChild {
    /// Absolute path.
    pub program: PathBuf,
    /// Arguments after the program's name.
    pub arguments: Vec<OsString>,
}

/// A field in which kernel and procfs disagree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// `fork`, `exec` or `exit`.
    pub event: &'static str,
    /// Which field.
    pub field: &'static str,
    /// What the record says.
    pub recorded: String,
    /// What procfs says.
    pub expected: String,
}

/// The result.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SelfTest {
    /// Events that never came.
    pub absent: Vec<&'static str>,
    /// Fields that disagree.
    pub mismatches: Vec<Mismatch>,
    /// Fields that procfs could not confirm here, with the reason.
    pub unconfirmed: Vec<(&'static str, String)>,
}

impl SelfTest {
    /// Whether coverage may be claimed.
    #[must_use]
    pub const fn passed(&self) -> bool {
        self.absent.is_empty() && self.mismatches.is_empty()
    }
}

/// The child's own records.
#[derive(Default)]
struct Seen {
    fork: Option<Fork>,
    exec: Option<Exec>,
    exit: Option<Exit>,
}

impl Seen {
    fn note(&mut self, event: &Event, child: Pid) {
        match event {
            Event::Fork(fork) if fork.subject.key.pid == child => self.fork = Some(fork.clone()),
            Event::Exec(exec) if exec.subject.key.pid == child => self.exec = Some(exec.clone()),
            Event::Exit(exit) if exit.subject.key.pid == child => self.exit = Some(exit.clone()),
            _ => {}
        }
    }
}

/// Runs the test. Every record drained meanwhile goes to `each`, the child's own among them.
pub fn run(
    tracer: &mut Tracer,
    known: &KnownChild,
    proc_root: &Path,
    mut each: impl FnMut(Result<Event, WireError>),
) -> Result<SelfTest, KernelError> {
    for _ in 1..CHILDREN_MAX {
        let (test, was_shed) = run_one(tracer, known, proc_root, &mut each)?;
        if !was_shed || !test.passed() {
            return Ok(test);
        }
    }
    run_one(tracer, known, proc_root, &mut each).map(|(test, _)| test)
}

/// Runs one child; whether its arguments were left out for want of room.
fn run_one(
    tracer: &mut Tracer,
    known: &KnownChild,
    proc_root: &Path,
    each: &mut impl FnMut(Result<Event, WireError>),
) -> Result<(SelfTest, bool), KernelError> {
    let clock = Clock::system();
    let begun = clock.now().boot;
    // Room for the child's records.
    tracer.drain(&mut *each);
    let mut child = spawn(known)?;
    let pid = Pid(child.id());
    let mut seen = Seen::default();
    let mut drain = |seen: &mut Seen| {
        tracer.drain(|record| {
            if let Ok(event) = &record {
                seen.note(event, pid);
            }
            each(record);
        });
    };
    let deadline = begun.plus_ns(WAIT_NS_MAX);
    wait_until(&clock, deadline, || {
        drain(&mut seen);
        seen.fork.is_some() && seen.exec.is_some()
    });
    // While it lives: it waits for the end of its input.
    let witness = Witness::read(proc_root, pid);
    drop(child.stdin.take());
    let status = child.wait().map_err(|cause| child_error(known, cause))?;
    wait_until(&clock, deadline, || {
        drain(&mut seen);
        seen.exit.is_some()
    });
    let interval = (begun, clock.now().boot);
    let raw_status = std::os::unix::process::ExitStatusExt::into_raw(status);
    let was_shed = seen.exec.as_ref().is_some_and(|exec| exec.argv.state == ArgvState::Shed);
    Ok((judge(&seen, &witness?, known, interval, raw_status), was_shed))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the self-test must see a process of its own begin: the only other program started"
)]
fn spawn(known: &KnownChild) -> Result<Child, KernelError> {
    Command::new(&known.program)
        .args(&known.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|cause| child_error(known, cause))
}

fn child_error(known: &KnownChild, cause: std::io::Error) -> KernelError {
    KernelError::File { path: known.program.display().to_string(), cause }
}

fn wait_until(clock: &Clock, deadline: BootNs, mut done: impl FnMut() -> bool) {
    while !done() && clock.now().boot < deadline {
        std::thread::sleep(POLL);
    }
}

fn judge(
    seen: &Seen,
    witness: &Witness,
    known: &KnownChild,
    interval: (BootNs, BootNs),
    raw_status: i32,
) -> SelfTest {
    let mut test = SelfTest::default();
    match &seen.fork {
        // Forked with the parent's image, in the parent's cgroup: the same until exec.
        Some(fork) => compare_subject(&mut test, "fork", &fork.subject, witness, interval),
        None => test.absent.push("fork"),
    }
    match &seen.exec {
        Some(exec) => {
            compare_subject(&mut test, "exec", &exec.subject, witness, interval);
            compare_image(&mut test, exec, witness, known);
        }
        None => test.absent.push("exec"),
    }
    match &seen.exit {
        Some(exit) => {
            compare_subject(&mut test, "exit", &exit.subject, witness, interval);
            let expected = u32::try_from(raw_status).ok();
            compare(&mut test, "exit", "wait status", &exit.wait_status, &expected);
        }
        None => test.absent.push("exit"),
    }
    test
}

fn compare_subject(
    test: &mut SelfTest,
    event: &'static str,
    subject: &Subject,
    witness: &Witness,
    (begun, ended): (BootNs, BootNs),
) {
    compare(test, event, "start time", &subject.key.start.ticks(), &witness.start_ticks);
    let parent = subject.parent;
    compare(test, event, "parent pid", &parent.map(|it| it.pid), &Some(witness.parent));
    let parent_ticks = parent.map(|it| it.start.ticks());
    compare(test, event, "parent start time", &parent_ticks, &Some(witness.parent_start_ticks));
    compare(test, event, "uid", &subject.uid, &Some(witness.uid));
    compare(test, event, "euid", &subject.euid, &Some(witness.euid));
    compare(test, event, "login uid", &subject.login_uid, &witness.login_uid);
    let in_time = begun <= subject.at && subject.at <= ended;
    compare(test, event, "event time inside the test", &in_time, &true);
    match &witness.cgroups {
        Ok(expected) => {
            let mut recorded = subject.cgroups.clone();
            if let Some(recorded) = &mut recorded {
                recorded.sort_unstable();
            }
            compare(test, event, "cgroups", &recorded.as_ref(), &Some(expected));
        }
        Err(reason) => note_unconfirmed(test, "cgroups", reason),
    }
}

fn compare_image(test: &mut SelfTest, exec: &Exec, witness: &Witness, known: &KnownChild) {
    if exec.argv.state == ArgvState::Shed {
        note_unconfirmed(test, "argv", "the ring was nearly full, and arguments are shed first");
    } else {
        compare(test, "exec", "argv", &exec.argv.bytes.as_ref(), &witness.argv.as_slice());
        let length = u64::try_from(witness.argv.len()).ok();
        compare(test, "exec", "argv length", &exec.argv.true_length, &length);
    }
    let filename = known.program.as_os_str().as_bytes();
    compare(test, "exec", "file name", &exec.filename.as_ref(), &filename);
    let recorded = exec.exe.map(|(device, inode)| witness::FileIdentity { device, inode });
    match &witness.executables {
        // A stacked file system may show one file under two identities.
        Ok(shown) if recorded.is_some_and(|recorded| shown.contains(&recorded)) => {}
        Ok(shown) => test.mismatches.push(Mismatch {
            event: "exec",
            field: "executable",
            recorded: format!("{recorded:?}"),
            expected: format!("one of {shown:?}"),
        }),
        Err(reason) => note_unconfirmed(test, "executable", reason),
    }
}

fn note_unconfirmed(test: &mut SelfTest, field: &'static str, reason: &str) {
    if test.unconfirmed.iter().all(|(known, _)| *known != field) {
        test.unconfirmed.push((field, reason.to_owned()));
    }
}

fn compare<T: PartialEq + std::fmt::Debug>(
    test: &mut SelfTest,
    event: &'static str,
    field: &'static str,
    recorded: &T,
    expected: &T,
) {
    if recorded != expected {
        let (recorded, expected) = (format!("{recorded:?}"), format!("{expected:?}"));
        test.mismatches.push(Mismatch { event, field, recorded, expected });
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::witness::FileIdentity;
    use super::*;
    use crate::kernel::{Argv, ArgvState, CgroupId, LoginUid, ProcessKey};

    const INTERVAL: (BootNs, BootNs) = (BootNs(100_000_000), BootNs(900_000_000));

    fn known() -> KnownChild {
        KnownChild { program: PathBuf::from("/bin/x"), arguments: Vec::new() }
    }

    fn witness() -> Witness {
        Witness {
            start_ticks: 12,
            parent: Pid(7),
            parent_start_ticks: 3,
            uid: 1_000,
            euid: 0,
            login_uid: LoginUid::Set(1_000),
            argv: b"x\0".to_vec(),
            executables: Ok(vec![FileIdentity { device: 9, inode: 8 }]),
            cgroups: Ok(vec![CgroupId { hierarchy: 0, id: 5 }]),
        }
    }

    fn seen() -> Seen {
        let subject = Subject {
            key: ProcessKey { pid: Pid(8), start: BootNs(125_000_000) },
            parent: Some(ProcessKey { pid: Pid(7), start: BootNs(39_999_999) }),
            uid: Some(1_000),
            euid: Some(0),
            login_uid: LoginUid::Set(1_000),
            cgroups: Some(vec![CgroupId { hierarchy: 0, id: 5 }]),
            at: BootNs(200_000_000),
            cpu: 0,
            seq: 0,
        };
        let bytes = Bytes::from_static(b"x\0");
        Seen {
            fork: Some(Fork { subject: subject.clone() }),
            exec: Some(Exec {
                subject: subject.clone(),
                argv: Argv { bytes, true_length: Some(2), state: ArgvState::Whole },
                filename: Bytes::from_static(b"/bin/x"),
                exe: Some((9, 8)),
            }),
            exit: Some(Exit { subject, wait_status: Some(0) }),
        }
    }

    fn fields(test: &SelfTest) -> Vec<(&'static str, &'static str)> {
        test.mismatches.iter().map(|it| (it.event, it.field)).collect()
    }

    #[test]
    fn agreement_in_every_field_passes() {
        let test = judge(&seen(), &witness(), &known(), INTERVAL, 0);
        assert_eq!(test, SelfTest::default());
        assert!(test.passed());
    }

    #[test]
    fn an_event_that_never_came_fails() {
        let test = judge(&Seen::default(), &witness(), &known(), INTERVAL, 0);
        assert_eq!(test.absent, ["fork", "exec", "exit"]);
        assert!(!test.passed());
    }

    #[test]
    fn each_wrong_field_of_an_image_is_named() {
        let mut seen = seen();
        let exec = seen.exec.as_mut().unwrap();
        exec.argv.bytes = Bytes::from_static(b"y\0");
        exec.argv.true_length = Some(3);
        exec.filename = Bytes::new();
        exec.exe = Some((9, 1));
        let test = judge(&seen, &witness(), &known(), INTERVAL, 0);
        let expected = ["argv", "argv length", "file name", "executable"];
        assert_eq!(fields(&test), expected.map(|field| ("exec", field)));
    }

    #[test]
    fn each_wrong_field_of_a_subject_is_named() {
        let mut seen = seen();
        seen.fork.as_mut().unwrap().subject.uid = Some(1);
        let subject = &mut seen.exit.as_mut().unwrap().subject;
        subject.key.start = BootNs(0);
        subject.parent = Some(ProcessKey { pid: Pid(1), start: BootNs(0) });
        subject.euid = Some(1);
        subject.login_uid = LoginUid::Unset;
        subject.at = BootNs(0);
        subject.cgroups = Some(Vec::new());
        let test = judge(&seen, &witness(), &known(), INTERVAL, 256);
        let exit = [
            "start time",
            "parent pid",
            "parent start time",
            "euid",
            "login uid",
            "event time inside the test",
            "cgroups",
            "wait status",
        ];
        let expected: Vec<_> =
            [("fork", "uid")].into_iter().chain(exit.map(|field| ("exit", field))).collect();
        assert_eq!(fields(&test), expected);
    }

    #[test]
    fn what_procfs_cannot_say_is_listed_once_and_fails_nothing() {
        let witness = Witness { cgroups: Err("no mount".to_owned()), ..witness() };
        let test = judge(&seen(), &witness, &known(), INTERVAL, 0);
        assert_eq!(test.unconfirmed, [("cgroups", "no mount".to_owned())]);
        assert!(test.passed());
    }
}
