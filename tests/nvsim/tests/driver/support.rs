//! What the tests of the simulated driver share: a server of their own, real processes, patience.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "../../../support/skip.rs"]
mod skip;

pub(crate) use self::skip::skip;

/// How long a condition may take to come true on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The program under test.
pub(crate) fn nvsim() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nvsim"))
}

/// A simulated driver, stopped when dropped.
pub(crate) struct Driver {
    pub(crate) folder: tempfile::TempDir,
    server: Child,
}

impl Driver {
    /// Starts a server with these arguments and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, |_| {})
    }

    /// The same, with the command completed by the caller.
    pub(crate) fn start_with(arguments: &[&str], complete: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = nvsim();
        command.arg("serve").arg("--socket").arg(folder.path().join("driver.sock"));
        command.arg("--truth").arg(folder.path().join("truth"));
        command.args(["--gpus", "2"]).args(arguments).stdout(Stdio::piped());
        complete(&mut command);
        let mut server = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { folder, server }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("driver.sock")
    }

    pub(crate) fn fault(&self, words: &[&str]) -> String {
        nvsim::fault::ask(&self.socket(), words).unwrap()
    }

    /// What the model holds of a GPU.
    pub(crate) fn state(&self, gpu: usize) -> Value {
        let all: Value = serde_json::from_str(&self.fault(&["state"])).unwrap();
        all[gpu].clone()
    }

    pub(crate) fn pids(&self, gpu: usize) -> Vec<u64> {
        let pids = self.state(gpu)["accounting_pids"].clone();
        pids.as_array().unwrap().iter().map(|pid| pid.as_u64().unwrap()).collect()
    }

    /// What the model says of a pid first; null if nothing.
    pub(crate) fn stats(&self, gpu: usize, pid: u32) -> Value {
        let stats = self.state(gpu)["stats"].clone();
        let mut rows = stats.as_array().unwrap().iter();
        rows.find(|row| row["pid"] == pid).cloned().unwrap_or(Value::Null)
    }

    /// `nvsim work` on this driver.
    pub(crate) fn work(&self, arguments: &[&str]) -> Command {
        let mut command = nvsim();
        command.arg("work").args(arguments).env("NVSIM_SOCKET", self.socket());
        command
    }

    /// The truth log as it stands.
    pub(crate) fn truth(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("truth")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server.id()
    }

    /// Asks the server to end, and waits until it has.
    pub(crate) fn stop(&mut self) -> std::process::ExitStatus {
        if let Some(ended) = self.server.try_wait().unwrap() {
            return ended;
        }
        let pid = rustix::process::Pid::from_child(&self.server);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.server.wait().unwrap()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The NVML library, built once, in a folder under the name that programs look for.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvml");
        std::fs::create_dir_all(&folder).unwrap();
        let library = folder.join("libnvidia-ml.so.1");
        let fresh = folder.join(format!("fresh-{}", std::process::id()));
        std::fs::copy(built_library(), &fresh).unwrap();
        std::fs::rename(&fresh, &library).unwrap();
        library
    })
}

fn built_library() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "-p", "nvsim-nvml", "--message-format=json-render-diagnostics"]);
    let output = build.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "cargo build -p nvsim-nvml");
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut libraries = messages.filter(|message| message["target"]["name"] == "nvsim_nvml");
    let library = libraries.next_back().unwrap()["filenames"][0].clone();
    PathBuf::from(library.as_str().unwrap())
}

/// A copy of the library that lacks symbols.
pub(crate) fn library_without(folder: &Path, symbols: &[&str]) -> PathBuf {
    let whole = std::fs::read(library()).unwrap();
    let patched = folder.join("libnvidia-ml.so.1");
    std::fs::write(&patched, nvsim::library::without(&whole, symbols).unwrap()).unwrap();
    patched
}

/// Whether the body of a test runs here. The library reads its socket from the environment, which
/// a test must not change for others: so each such test runs once more, alone, in a process that
/// was started with it, while this one keeps the driver.
pub(crate) fn in_own_process(test: &str, arguments: &[&str], body: impl FnOnce(&Client)) {
    const WITHIN: &str = "NVSIM_TEST_WITHIN";
    if std::env::var_os(WITHIN).is_some() {
        let socket = PathBuf::from(std::env::var_os("NVSIM_SOCKET").unwrap());
        return body(&Client { socket });
    }
    let driver = Driver::start(arguments);
    library();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", &format!("nvml::{test}"), "--nocapture", "--test-threads=1"]);
    again.env(WITHIN, "1").env("NVSIM_SOCKET", driver.socket());
    let output = again.output().unwrap();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("{test}: {}\n{errors}", String::from_utf8_lossy(&output.stdout));
    }
    // A name that fits no test would pass without having run.
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{test} did not run");
}

/// The driver as a test's own process sees it.
pub(crate) struct Client {
    pub(crate) socket: PathBuf,
}

impl Client {
    pub(crate) fn fault(&self, words: &[&str]) -> String {
        nvsim::fault::ask(&self.socket, words).unwrap()
    }

    pub(crate) fn work(&self, arguments: &[&str]) -> Command {
        let mut command = nvsim();
        command.arg("work").args(arguments).env("NVSIM_SOCKET", &self.socket);
        command
    }

    /// A process that has come and gone; its pid.
    pub(crate) fn gone(&self, arguments: &[&str]) -> u32 {
        let mut child = self.work(arguments).spawn().unwrap();
        assert!(child.wait().unwrap().success());
        let pid = child.id();
        until("its entry is final", || {
            let text = self.fault(&["state"]);
            let state: Value = serde_json::from_str(&text).unwrap();
            let gpus = state.as_array().unwrap().iter();
            let rows: Vec<&Value> = gpus.flat_map(|gpu| gpu["stats"].as_array().unwrap()).collect();
            !rows.iter().any(|row| row["pid"] == pid && row["running"] == true)
        });
        pid
    }
}
