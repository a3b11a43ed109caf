//! The built binary, run as its users run it, against a simulated driver.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use crate::privilege::UNDISTURBED;
use crate::support::{Sim, built, poll};
use crate::truth::{Fault, Row, compare};

const SOCKET: &str = "NVSIM_SOCKET";

impl Sim {
    /// `gpu-ledger trace` with these arguments, on this driver.
    pub(crate) fn trace(&self, arguments: &[&str]) -> Command {
        let [env, signals] = UNDISTURBED;
        let mut command = Command::new(env);
        command.arg(signals).arg(env!("CARGO_BIN_EXE_gpu-ledger"));
        command.arg("--nvml-library").arg(self.library()).arg("trace").args(arguments);
        // As root asks, whoever called the tests through sudo.
        command.env(SOCKET, self.socket()).env_remove("SUDO_UID").stdin(Stdio::null());
        command
    }

    /// Watches the host until told to stop. Returns when coverage has begun and two reads are over.
    pub(crate) fn watch(&self, arguments: &[&str]) -> Watching<'_> {
        self.watch_with(arguments, |command| command)
    }

    /// The same, with the command completed by the caller.
    pub(crate) fn watch_with(
        &self,
        arguments: &[&str],
        complete: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Watching<'_> {
        let file = self.folder().join("report.json");
        let mut command = self.trace(&["--for", "1h", "--json", "--output"]);
        command.arg(&file).args(arguments);
        let child = complete(&mut command).spawn().unwrap();
        self.reads_pass(2);
        Watching { sim: self, child, file }
    }

    /// Runs a command to its end; the report, and the status that came back.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[&str], command: &[S]) -> (Value, i32) {
        self.run_with(arguments, command, |command| command)
    }

    /// The same, with the command line's environment completed by the caller.
    pub(crate) fn run_with<S: AsRef<OsStr>>(
        &self,
        arguments: &[&str],
        command: &[S],
        complete: impl FnOnce(&mut Command) -> &mut Command,
    ) -> (Value, i32) {
        let file = self.folder().join("report.json");
        let mut trace = self.trace(&["--json", "--output"]);
        trace.arg(&file).args(arguments).arg("--").args(command);
        let status = complete(&mut trace).status().unwrap();
        let status = status.code().or_else(|| status.signal().map(|signal| -signal));
        (read_report(&file), status.unwrap())
    }

    /// The truth log as it stands.
    pub(crate) fn truth(&self) -> Vec<Row> {
        let text = std::fs::read_to_string(self.folder().join("truth")).unwrap();
        // Long lines are not written in one piece.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until the truth log has so many rows: their spans are over, teardown included.
    pub(crate) fn until_ended(&self, rows: usize) -> Vec<Row> {
        poll("the spans end", || {
            let truth = self.truth();
            (truth.len() >= rows).then_some(truth)
        })
    }

    /// In what a report differs from the truth log.
    pub(crate) fn faults_of(&self, report: &Value) -> Vec<Fault> {
        compare(report, &self.truth())
    }

    /// What the model holds of the first GPU.
    pub(crate) fn state(&self) -> Value {
        let all: Value = serde_json::from_str(&self.ask("state")).unwrap();
        all[0].clone()
    }

    /// The same as `nvsim fault` with these words, without a process for it.
    fn ask(&self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        nvsim::fault::ask(&self.socket(), &words).unwrap()
    }

    /// Waits until so many reads that began from now on are over, by whoever reads.
    ///
    /// Persistence mode serves as the mark: the server drops it right after its next answer to a
    /// call that each read makes twice, and as long as any client is connected nothing else follows.
    pub(crate) fn reads_pass(&self, reads: usize) {
        for _ in 0..2 * reads + 2 {
            self.ask("after nvmlDeviceGetAccountingMode persistence off");
            poll("the driver is read", || (self.state()["persistence"] == false).then_some(()));
            self.ask("persistence on");
        }
    }

    /// From now on, until healed, no list is read: every read fails, and those before are over.
    pub(crate) fn lists_fail(&self) {
        self.ask("code nvmlDeviceGetAccountingPids --code 999");
        self.reads_pass(1);
    }

    /// The workload under another name, as a program of its own.
    pub(crate) fn program_called(&self, name: &str) -> PathBuf {
        let path = self.folder().join(name);
        if !path.exists() && std::fs::hard_link(&built().program, &path).is_err() {
            // Across file systems there are no links. Another program does the copying: a child that
            // a test beside this one forks meanwhile would inherit the file open for writing, and
            // a file that anybody may write cannot be executed.
            let status = Command::new("cp").arg(&built().program).arg(&path).status();
            assert!(status.unwrap().success(), "{}", path.display());
        }
        path
    }

    /// A GPU process that does what it is told.
    pub(crate) fn actor(&self, script: &str) -> Actor {
        let path = self.script_called(script);
        let mut child = Command::new(python())
            .arg(&path)
            .env(SOCKET, self.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Actor { child, orders: Some(orders), answers: BufReader::new(answers) }
    }

    /// The actor's script under another name.
    pub(crate) fn script_called(&self, name: &str) -> PathBuf {
        let path = self.folder().join(name);
        std::fs::write(&path, include_str!("actor.py")).unwrap();
        path
    }
}

/// The interpreter itself, not a wrapper of it: the actor's pid is then the one that was started.
pub(crate) fn python() -> &'static Path {
    let system = Path::new("/usr/bin/python3");
    if system.exists() { system } else { Path::new("python3") }
}

pub(crate) fn read_report(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap();
    let harmful = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}');
    assert!(!text.trim_end().contains(harmful), "what a terminal would act on is in the JSON");
    serde_json::from_str(&text).unwrap()
}

/// A trace that watches the host.
pub(crate) struct Watching<'sim> {
    sim: &'sim Sim,
    child: Child,
    file: PathBuf,
}

impl Watching<'_> {
    /// Sends the tracer a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    /// Waits until a full read of what is now has been taken in, stops, and has the report.
    pub(crate) fn report(self) -> Value {
        self.sim.reads_pass(1);
        self.stop()
    }

    /// Stops at once, and has the report.
    pub(crate) fn stop(mut self) -> Value {
        self.signal(rustix::process::Signal::INT);
        let status = self.child.wait().unwrap();
        assert!([Some(0), Some(2)].contains(&status.code()), "{status}");
        read_report(&self.file)
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        // It has ended by itself, in the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that takes orders. Dropping it kills it.
pub(crate) struct Actor {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Actor {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order and waits until it is carried out; the answer.
    pub(crate) fn told(&mut self, order: &str) -> String {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert!(answer.ends_with('\n'), "the actor died at {order:?}");
        answer.trim_end().to_owned()
    }

    /// Gives an order that has no answer.
    pub(crate) fn sent(&mut self, order: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
    }

    /// Lets it come to its end.
    pub(crate) fn end(mut self) {
        drop(self.orders.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the actor: {status}");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // It has ended by itself, in the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asserts that a text report is fit for a terminal: nothing raw, no line wider than 80 columns.
pub(crate) fn assert_fits_a_terminal(text: &str) {
    for line in text.lines() {
        assert!(!line.contains(char::is_control), "a control character in {line:?}");
        if line.starts_with("GPU_LEDGER_UNKNOWN ") {
            // Of a fixed form for other programs, with a whole UUID in it.
            continue;
        }
        assert!(line.width() <= 80, "{} columns: {line}", line.width());
    }
}
