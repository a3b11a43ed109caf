//! Runs the built binary where something is wrong, and looks at all that it said.
//!
//! Whatever the surroundings, every run is checked for the same things: it ended in time, it did not
//! panic, its report fits the committed schema, every statement closes, and nothing that nobody could
//! know is a number.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs, and are told of them by the environment"
)]

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::privilege::UNDISTURBED;
use crate::support::{Sim, built};

/// Longer than any run here takes on a machine that does many other things.
const PATIENCE: Duration = Duration::from_mins(2);

/// Nobody in particular (`nobody` on Debian).
pub(crate) const NOBODY: &str = "65534";

/// One run of `gpu-ledger trace`, to be described and then started.
pub(crate) struct Trace {
    folder: tempfile::TempDir,
    before: Vec<OsString>,
    library: PathBuf,
    words: Vec<OsString>,
    command: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    stdout: Option<Stdio>,
    output: Option<PathBuf>,
}

impl Trace {
    /// Where the library is this file, and no simulated driver runs.
    pub(crate) fn with_library(library: impl Into<PathBuf>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let output = Some(folder.path().join("report.json"));
        Self {
            folder,
            before: Vec::new(),
            library: library.into(),
            words: Vec::new(),
            command: Vec::new(),
            environment: Vec::new(),
            stdout: None,
            output,
        }
    }

    /// With the simulated driver's own library.
    pub(crate) fn on(sim: &Sim) -> Self {
        Self::on_library(sim, sim.library())
    }

    /// With another library in front of the simulated driver.
    pub(crate) fn on_library(sim: &Sim, library: PathBuf) -> Self {
        open_to_all(sim.folder());
        open_to_all(&sim.socket());
        Self::with_library(library).env("NVSIM_SOCKET", sim.socket())
    }

    /// Options of `trace`, separated by spaces.
    pub(crate) fn words(mut self, words: &str) -> Self {
        self.words.extend(words.split(' ').map(OsString::from));
        self
    }

    /// The command to trace.
    pub(crate) fn command<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.command = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        self
    }

    /// A shell script to trace; `nvsim` in it is the simulated driver's program.
    pub(crate) fn script(self, script: &str) -> Self {
        let nvsim = built().program.display().to_string();
        self.env("NVSIM", nvsim).command(["sh", "-c", &script.replace("nvsim ", "\"$NVSIM\" ")])
    }

    /// Runs it behind this program and its arguments, separated by spaces.
    pub(crate) fn behind(mut self, words: &str) -> Self {
        self.before.extend(words.split(' ').map(OsString::from));
        self
    }

    /// One more word before it, spaces and all.
    pub(crate) fn behind_word(mut self, word: &str) -> Self {
        self.before.push(word.into());
        self
    }

    /// Runs it as another user with no more than these capabilities (`+bpf,+perfmon`).
    pub(crate) fn run_by_nobody_with(mut self, capabilities: &str) -> Self {
        let held = if capabilities.is_empty() {
            "-all".to_owned()
        } else {
            format!("-all,{capabilities}")
        };
        let words = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
        self.before.extend(words.map(OsString::from));
        for option in ["--inh-caps", "--ambient-caps"] {
            self.before.extend([OsString::from(option), OsString::from(&held)]);
        }
        self
    }

    /// Sets a variable of the environment.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Where the report goes instead of a file of the test's own; `None` gives no `--output`, hence
    /// the report for people.
    pub(crate) fn output(mut self, output: Option<PathBuf>) -> Self {
        self.output = output;
        self
    }

    /// Where its stdout goes instead of to the test.
    pub(crate) fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdout = Some(stdout.into());
        self
    }

    /// A folder that anybody may write to, and that is gone with this value.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Ended {
        self.start().ended()
    }

    /// Starts it, in a process group of its own.
    pub(crate) fn start(mut self) -> Running {
        let mut all: Vec<OsString> = UNDISTURBED.map(OsString::from).into();
        all.extend(self.before.iter().cloned());
        all.push(env!("CARGO_BIN_EXE_gpu-ledger").into());
        all.extend([OsString::from("--nvml-library"), self.library.clone().into(), "trace".into()]);
        all.extend(self.words.iter().cloned());
        if let Some(output) = &self.output {
            all.extend(["--json".into(), "--output".into(), output.clone().into_os_string()]);
        }
        if !self.command.is_empty() {
            all.push("--".into());
            all.extend(self.command.iter().cloned());
        }
        let (program, arguments) = all.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(arguments).env_remove("SUDO_UID").env_remove("NVSIM_SOCKET");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.process_group(0).stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(self.stdout.take().unwrap_or_else(Stdio::piped));
        Running::of(command.spawn().unwrap(), Some(self))
    }
}

/// What `nvsim fault` prints for these words.
pub(crate) fn asked(sim: &Sim, words: &str) -> String {
    let mut nvsim = Command::new(&built().program);
    nvsim.arg("fault").args(words.split(' ')).env("NVSIM_SOCKET", sim.socket());
    let output = nvsim.output().unwrap();
    assert!(output.status.success(), "nvsim fault {words}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whoever runs the binary must reach what is in a folder of the test's.
fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
}

/// The binary alone with these words, as the command line's tests need it.
pub(crate) fn words<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    command.args(words).env_remove("SUDO_UID").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::of(command.spawn().unwrap(), None).ended()
}

/// A run under way. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    trace: Option<Trace>,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    status: Option<ExitStatus>,
}

impl Running {
    fn of(mut child: Child, trace: Option<Trace>) -> Self {
        let stdout = child.stdout.take().map(read_all);
        let stderr = child.stderr.take().map(read_all);
        Self { child, trace, stdout, stderr, status: None }
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Signals it alone.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Signals it and all that it started, as a terminal does.
    pub(crate) fn signal_group(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process_group(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Ended {
        let started = std::time::Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "gpu-ledger did not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        self.status = Some(status);
        let text = |reader: Option<JoinHandle<Vec<u8>>>| {
            reader.map_or(String::new(), |reader| {
                String::from_utf8_lossy(&reader.join().unwrap()).into_owned()
            })
        };
        let (out, err) = (text(self.stdout.take()), text(self.stderr.take()));
        let trace = self.trace.take();
        let file = trace.as_ref().and_then(|trace| trace.output.clone());
        let report = file.filter(|file| file.is_file()).map(|file| {
            let text = std::fs::read_to_string(&file).unwrap();
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
        });
        let code = status.code().unwrap_or_else(|| 1_000 + status.signal().unwrap());
        let ended = Ended { code, out, err, report, _trace: trace };
        ended.check();
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            // It may be gone already, which is what is wanted.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn read_all(mut from: impl std::io::Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// What came of a run.
pub(crate) struct Ended {
    /// Its exit status; 1000 + n where signal n killed it.
    pub(crate) code: i32,
    /// What stood on stdout, the command's included.
    pub(crate) out: String,
    /// What stood on stderr, the command's included.
    pub(crate) err: String,
    report: Option<Value>,
    _trace: Option<Trace>,
}

impl Ended {
    fn check(&self) {
        for text in [&self.out, &self.err] {
            assert!(!text.contains("panicked"), "{text}");
        }
        if let Some(report) = &self.report {
            check_report(report);
        }
    }

    /// The report as JSON.
    pub(crate) fn report(&self) -> &Value {
        self.report.as_ref().unwrap_or_else(|| panic!("no report: {}", self.err))
    }

    /// Whether a report was written to its file.
    pub(crate) fn has_report(&self) -> bool {
        self.report.is_some()
    }

    /// Asserts the exit status.
    pub(crate) fn exited(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "stderr: {}", self.err);
        self
    }

    /// Asserts that stderr holds this text.
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.err.contains(text), "{text:?} is not in: {}", self.err);
        self
    }

    /// Asserts that before the command started one line named the reason and the next the remedy.
    pub(crate) fn names(&self, reason: &str, remedy: &str) -> &Self {
        let mut lines = self.err.lines();
        let word = format!("reason={reason} ");
        let cause = lines.find(|line| line.starts_with("gpu-ledger:") && line.contains(&word));
        assert!(cause.is_some(), "no line gives {reason}: {}", self.err);
        let advice = lines.next().unwrap_or_default();
        assert!(
            advice.starts_with("    ") && advice.contains(remedy),
            "{reason} comes without the remedy {remedy:?}: {}",
            self.err
        );
        self
    }

    /// Asserts that the report lists this reason, and returns the entry.
    pub(crate) fn unknown(&self, reason: &str) -> &Value {
        let all = self.report()["unknown"].as_array().unwrap();
        let found = all.iter().find(|one| one["reason"] == reason);
        found.unwrap_or_else(|| panic!("{reason} is not in {all:?}; {}", self.err))
    }

    /// The programs that the command's settlements are named after.
    pub(crate) fn programs(&self) -> Vec<&str> {
        let settlements = self.report()["command"]["settlements"].as_array().unwrap();
        settlements.iter().map(|one| one["program"].as_str().unwrap_or("(none)")).collect()
    }

    /// The gaps' causes, in order.
    pub(crate) fn gaps(&self) -> Vec<&str> {
        let gaps = self.report()["coverage"]["gaps"].as_array().unwrap();
        gaps.iter().map(|gap| gap["cause"].as_str().unwrap()).collect()
    }

    /// A number of the first GPU's statement.
    pub(crate) fn gpu_ms(&self, field: &str) -> u64 {
        self.report()["gpus"][0][field].as_u64().unwrap_or_else(|| panic!("{field} is no number"))
    }
}

fn schema() -> &'static jsonschema::Validator {
    static SCHEMA: OnceLock<jsonschema::Validator> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let text = include_str!("../../gpu-ledger/schema/trace.v1.schema.json");
        jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
    })
}

/// What holds of every report.
fn check_report(report: &Value) {
    let wrong: Vec<String> = schema()
        .iter_errors(report)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for gpu in report["gpus"].as_array().unwrap() {
        let of = |field: &str| gpu[field].as_u64().unwrap();
        let parts = of("alone_ms") + of("shared_ms") + of("free_ms") + of("uncovered_ms");
        assert_eq!(parts, of("period_ms"), "the statement does not close: {gpu}");
    }
    assert_eq!(crate::explained::contradictions(report), Vec::<String>::new(), "{report}");
    if report["driver"].is_null() {
        assert_eq!(report["gpus"], serde_json::json!([]), "figures without a driver");
    }
    if report["events"].is_null() {
        let blank = report["missed_in_coverage"].is_null() && report["coverage"]["covered_ms"] == 0;
        assert!(blank, "numbers without coverage: {report}");
    } else {
        // Where no row was ever read there was nothing to miss: a GPU whose rows were has a count of them.
        let was_read = |gpu: &Value| !gpu["dead_rows_seen_max"].is_null();
        let read = report["gpus"].as_array().unwrap().iter().any(was_read);
        let missed = if read { Value::from(0) } else { Value::Null };
        assert_eq!(report["missed_in_coverage"], missed, "{report}");
        let events = &report["events"];
        let sum = events["received"].as_u64().unwrap() + events["lost"].as_u64().unwrap();
        assert_eq!(events["produced"], sum, "{events}");
    }
    if report["device_touch"]["on"] == false {
        for field in ["touched", "without_row", "rows_untouched"] {
            assert!(report["device_touch"][field].is_null(), "{field} while device touch is off");
        }
    }
}
