//! A command that only asks, run to its end.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use crate::support::{Sim, built};

/// Nobody in particular (`nobody` on Debian).
const NOBODY: &str = "65534";

/// One run, to be described and then made.
pub(crate) struct Asked {
    before: Vec<OsString>,
    library: Option<PathBuf>,
    socket: Option<PathBuf>,
}

/// What came of it.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Asked {
    pub(crate) fn with_library(library: impl Into<PathBuf>) -> Self {
        Self { before: Vec::new(), library: Some(library.into()), socket: None }
    }

    pub(crate) fn on(sim: &Sim) -> Self {
        Self::on_library(sim, sim.library())
    }

    pub(crate) fn on_library(sim: &Sim, library: PathBuf) -> Self {
        for path in [sim.folder(), &sim.socket()] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        Self { socket: Some(sim.socket()), ..Self::with_library(library) }
    }

    /// Of a command that reads no driver.
    pub(crate) fn without_library() -> Self {
        Self { before: Vec::new(), library: None, socket: None }
    }

    /// Where the command line names no library.
    pub(crate) fn by_configuration(sim: &Sim) -> Self {
        Self { library: None, ..Self::on(sim) }
    }

    /// Runs it behind these words.
    pub(crate) fn behind(mut self, words: &[&str]) -> Self {
        self.before.extend(words.iter().map(OsString::from));
        self
    }

    /// In a mount namespace of its own, after this script.
    pub(crate) fn after_mounting(self, script: &str) -> Self {
        let script = format!("{script} && exec \"$0\" \"$@\"");
        self.behind(&["unshare", "-m", "sh", "-c", &script])
    }

    /// As another user without any capability.
    pub(crate) fn by_nobody(self) -> Self {
        let words = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
        self.behind(&words).behind(&["--inh-caps", "-all", "--ambient-caps", "-all"])
    }

    /// Runs it with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Answer {
        let mut all = self.before.clone();
        all.push(env!("CARGO_BIN_EXE_gpu-ledger").into());
        if let Some(library) = &self.library {
            all.extend(["--nvml-library".into(), library.clone().into_os_string()]);
        }
        all.extend(words.iter().map(OsString::from));
        let (program, arguments) = all.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(arguments).env_remove("NVSIM_SOCKET").stdin(Stdio::null());
        if let Some(socket) = &self.socket {
            command.env("NVSIM_SOCKET", socket);
        }
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert!(!err.contains("panicked"), "{err}");
        Answer { code: output.status.code().unwrap(), out, err }
    }

    /// `doctor` over a good state directory, as JSON and as text: the report.
    pub(crate) fn doctor(&self, words: &[&str]) -> Doctor {
        let folder = state_dir();
        let words: Vec<&str> = if words.contains(&"--state-dir") {
            words.to_vec()
        } else {
            ["--state-dir", folder.path().to_str().unwrap()].iter().chain(words).copied().collect()
        };
        let json = self.run(&[&["doctor", "--json"], words.as_slice()].concat());
        let text = self.run(&[&["doctor"], words.as_slice()].concat());
        assert_eq!(json.code, text.code, "{}", text.err);
        for line in text.out.lines() {
            assert!(!line.contains(char::is_control), "a control character in {line:?}");
            assert!(line.width() <= 80, "{} columns: {line}", line.width());
        }
        let report: Value = serde_json::from_str(&json.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", json.out, json.err));
        check(&report, json.code);
        Doctor { report, text: text.out }
    }
}

/// A folder as the daemon has it.
pub(crate) fn state_dir() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// What holds of every report.
fn check(report: &Value, code: i32) {
    static SCHEMA: OnceLock<jsonschema::Validator> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        let text = include_str!("../../gpu-ledger/schema/doctor.v1.schema.json");
        jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
    });
    let wrong: Vec<String> = schema
        .iter_errors(report)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let checks = report["checks"].as_array().unwrap();
    for status in ["ok", "warn", "missing", "unknown"] {
        let count = checks.iter().filter(|check| check["status"] == status).count();
        assert_eq!(report["counts"][status], count, "{status}");
    }
    let well = report["counts"]["missing"] == 0 && report["counts"]["unknown"] == 0;
    assert_eq!(code, if well { 0 } else { 2 }, "{report:#}");
}

/// A doctor's report.
pub(crate) struct Doctor {
    pub(crate) report: Value,
    pub(crate) text: String,
}

impl Doctor {
    /// The first check of this name.
    pub(crate) fn check(&self, name: &str) -> &Value {
        let checks = self.report["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["check"] == name);
        found.unwrap_or_else(|| panic!("no check {name}: {:#}", self.report))
    }

    /// Asserts how a check stands, and that cause and remedy say these words, in the text as well.
    pub(crate) fn finds(&self, name: &str, status: &str, cause: &str, remedy: &str) -> &Self {
        let check = self.check(name);
        assert_eq!(check["status"], status, "{check:#}");
        assert!(check["cause"].as_str().unwrap().contains(cause), "{cause}: {check:#}");
        if remedy.is_empty() {
            assert!(check["remedy"].is_null(), "{check:#}");
        } else {
            assert!(check["remedy"].as_str().unwrap().contains(remedy), "{remedy}: {check:#}");
        }
        let line = format!("  {status:<8} {name:<16} ");
        assert!(self.text.contains(&line), "{line:?} is not in {}", self.text);
        self
    }
}

/// A file's name, mode, owner, times and contents.
pub(crate) type Seen = Vec<(PathBuf, u32, u32, i64, Vec<u8>)>;

/// Everything in a folder, itself included.
pub(crate) fn everything_in(folder: &Path) -> Seen {
    use std::os::unix::fs::MetadataExt as _;
    let mut seen = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        let contents = if found.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        if found.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|entry| entry.unwrap().path()));
        }
        let changed = found.mtime() * 1_000_000_000 + found.mtime_nsec();
        seen.push((path, found.mode(), found.uid(), changed, contents));
    }
    seen.sort();
    seen
}

/// What the simulated driver holds, and what it was asked for.
pub(crate) fn state_of(sim: &Sim) -> Value {
    let answer = nvsim::fault::ask(&sim.socket(), &["state"]).unwrap();
    serde_json::from_str(&answer).unwrap()
}

/// The workload's program.
pub(crate) fn program() -> &'static Path {
    &built().program
}
