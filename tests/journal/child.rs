//! A process of its own that writes a journal: this test binary again, with one test and a role.
//!
//! It books rows 1, 2, 3, …, a row a pid, and goes on after what it finds booked; like a driver it offers
//! the last rows again at every start. What it is told is on the disk it says on its output.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use gpu_ledger::journal::store::{Outcome, Reader, StateDir, Store, StoreError};
use gpu_ledger::unknown::GapCause;

use crate::calls::{self, Change, Verdict};
use crate::made::{self, EPOCH_MS, Job};

const ROLE: &str = "GPU_LEDGER_TEST_ROLE";
const DIRECTORY: &str = "GPU_LEDGER_TEST_DIRECTORY";
/// Rows that a start offers again.
const OFFERED_AGAIN: u32 = 20;
/// Attempts after which a disk that stays full is given up.
const ATTEMPTS_MAX: u32 = 10_000;

/// The row of a pid.
pub(crate) fn job(pid: u32) -> Job {
    Job::of(pid, EPOCH_MS + u64::from(pid) * 1_000, u64::from(pid))
}

/// A child at work.
pub(crate) struct Writer {
    pub(crate) process: Child,
    pub(crate) lines: BufReader<ChildStdout>,
}

/// Starts a child in a role: `write` until killed, `forty` or `four` batches, `hold` until its input ends,
/// `all` that a writer can do, `long` until the log was moved, or `read`.
pub(crate) fn start(role: &str, directory: &Path, variables: &[(&str, &OsStr)]) -> Writer {
    spawn(command(role, directory, variables))
}

/// The same, with every change to the directory or the one above it judged before it is made.
pub(crate) fn start_judged(
    role: &str,
    directory: &Path,
    judge: impl FnMut(Change) -> Verdict + Send + 'static,
) -> (Writer, JoinHandle<()>) {
    let mut command = command(role, directory, &[]);
    calls::ask(&mut command);
    let writer = spawn(command);
    let judging = calls::judge(&writer.process, directory.parent().unwrap(), judge);
    (writer, judging)
}

fn command(role: &str, directory: &Path, variables: &[(&str, &OsStr)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child::works", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIRECTORY, directory)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

fn spawn(mut command: Command) -> Writer {
    let mut process = command.spawn().unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap());
    Writer { process, lines }
}

impl Writer {
    /// The next thing it says; `None` where it ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The harness speaks on the same output, in front of the first word too.
            if let Some((_, said)) = line.split_once("journal-child: ") {
                return Some(said.trim().to_owned());
            }
        }
    }

    /// Everything it still says, until it ends.
    pub(crate) fn rest(self) -> Vec<String> {
        self.ended().0
    }

    /// The same, and how it ended.
    pub(crate) fn ended(mut self) -> (Vec<String>, ExitStatus) {
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            lines.push(line);
        }
        (lines, self.process.wait().unwrap())
    }
}

fn say(what: &str) {
    // One write: a line is there whole or not at all when this process is killed.
    let line = format!("journal-child: {what}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}

#[test]
fn works() {
    let (Some(role), Some(directory)) = (std::env::var_os(ROLE), std::env::var_os(DIRECTORY))
    else {
        // Only started by other tests.
        return;
    };
    let (role, dir) = (role.to_str().unwrap(), StateDir::at(directory));
    if role == "read" {
        let end = Reader::open(&dir).and_then(|reader| reader.end());
        return say(&end.map_or_else(|error| format!("error {error}"), |_| "read".to_owned()));
    }
    let mut store = match Store::open(&dir) {
        Ok((store, _)) => store,
        Err(StoreError::Held { holder, .. }) => {
            return say(&format!("held {}", holder.map_or(0, |pid| pid)));
        }
        Err(error) => return say(&format!("error {error}")),
    };
    say(&format!("open {}", std::process::id()));
    match role {
        "hold" => {
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        }
        "write" => write(&mut store, u32::MAX, 7),
        "forty" => write(&mut store, 40, 20),
        "four" => write(&mut store, 4, 4),
        // So many pages that they are moved out of the log on the way, and some more.
        "long" => write(&mut store, 90, 20),
        "all" => {
            write(&mut store, 3, 3);
            let gap = made::gap(GapCause::DiskFull, EPOCH_MS, EPOCH_MS + 1);
            store.append_from_reserve(vec![gap]).unwrap();
            let key = store.commitment_key().clone();
            let kept = job(1).draft(Some(&key)).argv.unwrap();
            store.forget_argv(&[kept.commitment]).unwrap();
            write(&mut store, 2, 2);
            store.close().unwrap();
        }
        role => panic!("no role {role}"),
    }
}

fn write(store: &mut Store, batches: u32, batch_max: u32) {
    let booked: u64 = store.end().head.booked.values().map(|balance| balance.count).sum();
    let mut done = booked as u32;
    let key = store.commitment_key().clone();
    let again = (done.saturating_sub(OFFERED_AGAIN) + 1)..=done;
    let offered = again.map(|pid| job(pid).draft(Some(&key))).collect();
    let appended = store.append(offered).expect("what is offered again changes nothing");
    assert!(appended.outcomes.iter().all(|one| matches!(one, Outcome::Reoffered { .. })));
    let mut full = false;
    for number in 0..batches {
        let more = 1 + number % batch_max;
        let drafts = || (1..=more).map(|n| job(done + n).draft(Some(&key))).collect::<Vec<_>>();
        let mut attempts = 0;
        loop {
            match store.append(drafts()) {
                Ok(_) => break,
                Err(StoreError::Full { .. }) if attempts < ATTEMPTS_MAX => {
                    full = true;
                    attempts += 1;
                    say("full");
                }
                Err(error) => {
                    say(&format!("error {error}"));
                    // Whoever asks again gets no other answer.
                    let again = store.append(drafts());
                    assert!(matches!(again, Err(StoreError::Poisoned { .. })), "{again:?}");
                    return;
                }
            }
        }
        done += more;
        if std::mem::take(&mut full) {
            let gap = made::gap(GapCause::DiskFull, EPOCH_MS, EPOCH_MS + 1);
            store.append_from_reserve(vec![gap]).expect("there is room again");
        }
        say(&format!("ack {done}"));
    }
}
