//! `gpu-ledger daemon` under test: as its own user, with the capabilities it needs and no others.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpu_ledger::journal::store::{Reader, StateDir, check};
use gpu_ledger::journal::{Entry, Figures};

use crate::calls::{self, Change, Verdict};
use crate::privilege::UNDISTURBED;
use crate::support::{PATIENCE, Sim, poll};

/// Nobody in particular (`nobody` on Debian).
pub(crate) const NOBODY: u32 = 65_534;
/// What the unit grants.
const CAPABILITIES: &str = "-all,+bpf,+perfmon,+net_admin";

/// How to start one.
pub(crate) struct Setup<'sim> {
    sim: &'sim Sim,
    library: PathBuf,
    config: String,
    state: PathBuf,
    capabilities: &'static str,
    before: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

/// A running daemon. Dropping it kills it.
pub(crate) struct Daemon<'sim> {
    sim: &'sim Sim,
    child: Child,
    notified: UnixDatagram,
    state: PathBuf,
    log: PathBuf,
    config: PathBuf,
    told: String,
}

impl<'sim> Setup<'sim> {
    pub(crate) fn on(sim: &'sim Sim) -> Self {
        for path in [sim.folder().to_path_buf(), sim.socket()] {
            open_to_all(&path);
        }
        let state = sim.folder().join("state");
        for (folder, mode) in [(&state, 0o700), (&sim.folder().join("run"), 0o755)] {
            if !folder.exists() {
                std::fs::create_dir(folder).unwrap();
                std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
                std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        Self {
            sim,
            library: sim.library(),
            config: String::new(),
            state,
            capabilities: CAPABILITIES,
            before: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Lines of its configuration.
    pub(crate) fn config(mut self, lines: &str) -> Self {
        self.config.push_str(lines);
        self
    }

    /// Another library.
    pub(crate) fn library(mut self, path: PathBuf) -> Self {
        self.library = path;
        self
    }

    /// With these capabilities instead of its unit's.
    pub(crate) fn capabilities(mut self, capabilities: &'static str) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Behind these words, which root runs.
    pub(crate) fn behind(mut self, words: &[&str]) -> Self {
        self.before.extend(words.iter().map(OsString::from));
        self
    }

    /// Sets a variable of its environment.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    fn command(&self) -> Command {
        let mut words: Vec<OsString> = UNDISTURBED.map(OsString::from).into();
        words.extend(self.before.iter().cloned());
        let user = NOBODY.to_string();
        words.extend(
            ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"].map(Into::into),
        );
        for option in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
            words.extend([option, self.capabilities].map(OsString::from));
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_gpu-ledger"));
        command.arg("--nvml-library").arg(&self.library).arg("daemon");
        command.arg("--config").arg(self.config_file()).arg("--state-dir").arg(&self.state);
        command.arg("--socket").arg(self.sim.folder().join("run/daemon.sock"));
        command.env("NVSIM_SOCKET", self.sim.socket()).env_remove("SUDO_UID");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn config_file(&self) -> PathBuf {
        self.sim.folder().join("config.toml")
    }

    /// Starts it and waits until it says that it is ready.
    pub(crate) fn start(self) -> Daemon<'sim> {
        let mut daemon = self.spawn();
        daemon.until_told("READY=1");
        daemon
    }

    /// Starts it.
    pub(crate) fn spawn(self) -> Daemon<'sim> {
        self.spawn_with(|_| {})
    }

    /// Starts it with a log that takes nothing, and waits until it says that it is ready.
    pub(crate) fn start_with_a_full_log(self) -> Daemon<'sim> {
        let mut daemon = self.spawn_with(|command| {
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
            command.stderr(full);
        });
        daemon.until_told("READY=1");
        daemon
    }

    /// Starts it, with every change to its state directory judged before it is made.
    pub(crate) fn spawn_judged(
        self,
        judge: impl FnMut(Change) -> Verdict + Send + 'static,
    ) -> (Daemon<'sim>, JoinHandle<()>) {
        let daemon = self.spawn_with(calls::ask);
        let judging = calls::judge(&daemon.child, &daemon.state, judge);
        (daemon, judging)
    }

    fn spawn_with(self, complete: impl FnOnce(&mut Command)) -> Daemon<'sim> {
        let folder = self.sim.folder();
        std::fs::write(self.config_file(), &self.config).unwrap();
        let (notify, log) = (folder.join("notify"), folder.join("log"));
        let _ = std::fs::remove_file(&notify);
        let notified = UnixDatagram::bind(&notify).unwrap();
        notified.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        open_to_all(&notify);
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let mut command = self.command();
        command.env("NOTIFY_SOCKET", &notify).env("WATCHDOG_USEC", "1000000").stderr(file);
        complete(&mut command);
        let child = command.spawn().unwrap();
        let config = self.config_file();
        let Self { sim, state, .. } = self;
        Daemon { sim, child, notified, state, log, config, told: String::new() }
    }

    /// Runs it to its end; its status and what it said.
    pub(crate) fn run(self) -> (ExitStatus, String) {
        let out =
            self.command().stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        (out.status, String::from_utf8_lossy(&out.stderr).into_owned())
    }
}

impl Daemon<'_> {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn config_path(&self) -> &Path {
        &self.config
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// Everything that it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until it logs this.
    pub(crate) fn until_logged(&self, what: &str) {
        poll(what, || self.log().contains(what).then_some(()));
    }

    /// Waits until it has told the service manager this; everything that it told since this was last asked.
    pub(crate) fn until_told(&mut self, what: &str) -> String {
        let began = Instant::now();
        let mut buffer = [0; 4_096];
        while !self.told.contains(what) {
            if let Ok(length) = self.notified.recv(&mut buffer) {
                self.told.push_str(&String::from_utf8_lossy(&buffer[..length]));
                self.told.push('\n');
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(self.told.contains(what), "it ended with {status}:\n{}", self.log());
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}:\n{}", self.log());
        }
        std::mem::take(&mut self.told)
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        self.try_signal(signal).unwrap();
    }

    /// Where it still runs.
    pub(crate) fn try_signal(&self, signal: rustix::process::Signal) -> rustix::io::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal)
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and its end in order.
    pub(crate) fn stop(mut self) -> String {
        self.signal(rustix::process::Signal::TERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}:\n{}", self.log());
        self.log()
    }

    /// How it ended, as soon as it has.
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Whether it still runs.
    pub(crate) fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The journal as it stands.
    pub(crate) fn journal(&self) -> Vec<Entry> {
        journal(&self.state)
    }

    /// Waits until an entry is such.
    pub(crate) fn until_entered(&self, what: &str, fits: impl Fn(&Figures) -> bool) -> Entry {
        poll(what, || self.journal().into_iter().find(|entry| fits(&entry.figures)))
    }

    /// Waits until so many rows are booked.
    pub(crate) fn until_booked(&self, count: usize) {
        let booked = || {
            let entries = self.journal();
            entries.iter().filter(|entry| matches!(entry.figures, Figures::Settlement(_))).count()
        };
        let began = Instant::now();
        while booked() < count {
            assert!(
                began.elapsed() < PATIENCE,
                "{} of {count} are booked:\n{}\n{:?}",
                booked(),
                self.log(),
                self.sim.truth().len()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        // It has ended by itself, in the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every entry of a journal, proven; none where there is no journal yet.
pub(crate) fn journal(state: &Path) -> Vec<Entry> {
    let Ok(reader) = Reader::open(&StateDir::at(state)) else { return Vec::new() };
    let mut entries = Vec::new();
    match reader.period(0, u64::MAX, |entry| entries.push(entry.clone())) {
        Ok(_) => entries,
        // Somebody is making it.
        Err(_) => Vec::new(),
    }
}

/// Everything that `journal check` looks at is right.
pub(crate) fn assert_sound(state: &Path) {
    let report = check(&StateDir::at(state)).unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    if !path.is_dir() {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    }
}
