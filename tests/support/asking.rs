//! Bills that the daemon is asked for, by whom it may be.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::daemon::{Daemon, Setup};
use crate::support::{Sim, poll};

/// Two users of the machine that have no name on it.
pub(crate) const ONE: u32 = 61_001;
pub(crate) const OTHER: u32 = 61_002;

/// A program, run by a user with this group and no capability; by root as root is.
pub(crate) fn as_user(uid: u32, gid: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
    if uid == 0 {
        let mut command = Command::new(program);
        command.env_remove("GPU_LEDGER_TEST_CLOCK");
        return command;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups"]);
    command.args(["--inh-caps", "-all", "--ambient-caps", "-all", "--bounding-set", "-all"]);
    command.arg(program).env_remove("GPU_LEDGER_TEST_CLOCK");
    command
}

/// `gpu-ledger` by a user.
pub(crate) fn ledger(uid: u32, gid: u32, words: &[&str]) -> Output {
    as_user(uid, gid, env!("CARGO_BIN_EXE_gpu-ledger")).args(words).output().unwrap()
}

/// `gpu-ledger bill` by a user.
pub(crate) fn bill(uid: u32, gid: u32, words: &[&str]) -> Output {
    ledger(uid, gid, &[&["bill"], words].concat())
}

pub(crate) fn socket(sim: &Sim) -> PathBuf {
    sim.folder().join("run/daemon.sock")
}

/// What the daemon answers to a line of this user's.
pub(crate) fn answer(uid: u32, sim: &Sim, request: &Value) -> String {
    let (place, request) = (socket(sim), request.to_string());
    let asked = std::thread::spawn(move || {
        // This thread's alone: the kernel says of a connection whose the thread was that made it.
        let user = rustix::process::Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let mut stream = UnixStream::connect(place).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut lines = String::new();
        stream.read_to_string(&mut lines).unwrap();
        lines
    });
    asked.join().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn value(output: &Output) -> Value {
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr))
    });
    let schema = include_str!("../../gpu-ledger/schema/bill.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&bill).map(|error| error.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{bill}");
    bill
}

/// Runs a job of the workload under another name as a user; the command is over when it is.
pub(crate) fn job(sim: &Sim, uid: u32, name: &str, ms: u32) -> std::process::Child {
    let mut command = as_user(uid, uid, sim.program_called(name));
    command.args(["work", "--gpu", "0", "--ms", &ms.to_string()]);
    command.env("NVSIM_SOCKET", sim.socket()).stdout(std::process::Stdio::null());
    command.spawn().unwrap()
}

/// A daemon whose journal has rows of root, of one user and of another, two of them at one time; and the
/// words for a period that has them all and does not change any more.
pub(crate) fn booked<'sim>(sim: &'sim Sim, config: &str) -> (Daemon<'sim>, [String; 4]) {
    let daemon = Setup::on(sim).config(config).start();
    let since = jiff::Timestamp::now();
    let jobs = [(0, "whisper"), (OTHER, "train"), (ONE, "mine")];
    let children = jobs.map(|(uid, name)| job(sim, uid, name, 400));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    daemon.until_booked(3);
    let until = jiff::Timestamp::now();
    let words = ["--since", &since.to_string(), "--until", &until.to_string()].map(str::to_owned);
    // Up to its end it is only known by a mark.
    poll("a mark after it", || {
        let bill =
            value(&bill(0, 0, &["--socket", socket(sim).to_str().unwrap(), "--format", "json"]));
        let as_of: jiff::Timestamp = bill["as_of"].as_str().unwrap().parse().unwrap();
        (as_of > until).then_some(())
    });
    (daemon, words)
}

pub(crate) fn lines(bill: &Value) -> Vec<(String, u64)> {
    let lines = bill["accounts"].as_array().unwrap().iter();
    let mut lines: Vec<(String, u64)> = lines
        .map(|line| {
            (line["account"].as_str().unwrap().to_owned(), line["settlements"].as_u64().unwrap())
        })
        .collect();
    lines.sort();
    lines
}

pub(crate) fn owned(lines: &[(&str, u64)]) -> Vec<(String, u64)> {
    lines.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// The four parts of each GPU's statement.
pub(crate) fn statements(bill: &Value) -> Vec<[u64; 5]> {
    let parts = ["alone_ms", "shared_ms", "free_ms", "uncovered_ms", "period_ms"];
    let gpus = bill["gpus"].as_array().unwrap().iter();
    gpus.map(|gpu| parts.map(|part| gpu[part].as_u64().unwrap())).collect()
}

/// Bills of one period that the daemon is asked for.
pub(crate) struct Asking {
    words: Vec<String>,
}

impl Asking {
    pub(crate) fn of(sim: &Sim, period: &[String]) -> Self {
        let mut words = vec!["--socket".to_owned(), socket(sim).to_str().unwrap().to_owned()];
        words.extend(period.iter().cloned());
        Self { words }
    }

    pub(crate) fn by(&self, (uid, gid): (u32, u32), more: &[&str]) -> Output {
        let words: Vec<&str> =
            self.words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        bill(uid, gid, &words)
    }

    pub(crate) fn json(&self, user: (u32, u32), more: &[&str]) -> Value {
        value(&self.by(user, &[&["--format", "json"], more].concat()))
    }
}

pub(crate) const ROOT: (u32, u32) = (0, 0);
