//! The simulated driver, started for one test.
//!
//! Its library finds the server by an environment variable and keeps one state per process, so a test
//! that opens it runs in a process of its own: [`with_simulator`] starts the server and this very
//! test binary again, with the one test, and there calls the test's body.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs, and are told of them by the environment"
)]

pub(crate) mod opened;
mod skip;

pub(crate) use self::skip::skip;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long anything in a test may take before it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

const SOCKET: &str = "NVSIM_SOCKET";
const IN_CHILD: &str = "GPU_LEDGER_TEST_CHILD";

/// What was built of the simulated driver.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// The `nvsim` program.
    pub(crate) program: PathBuf,
    /// The NVML library.
    pub(crate) library: PathBuf,
}

/// Builds the simulated driver, once per process.
pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        // target/PROFILE/deps/THIS
        let this = std::env::current_exe().unwrap();
        let target = this.ancestors().nth(3).unwrap();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "-p", "nvsim", "-p", "nvsim-nvml", "--target-dir"])
            .arg(target)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .status()
            .unwrap();
        assert!(status.success(), "the simulated driver does not build");
        let debug = target.join("debug");
        Built { program: debug.join("nvsim"), library: debug.join("libnvsim_nvml.so") }
    })
}

/// A running simulated driver. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) server: Option<Child>,
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Sim {
    /// Starts `nvsim serve` with these arguments beside `--socket`, and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    /// As [`Sim::start`], with variables of the server's environment.
    pub(crate) fn start_with(arguments: &[&str], environment: &[(&str, &OsStr)]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().to_path_buf();
        let server = Command::new(&built().program)
            .arg("serve")
            .arg("--socket")
            .arg(folder.join("socket"))
            .arg("--truth")
            .arg(folder.join("truth"))
            .args(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let sim = Self { server: Some(server), folder, _temporary: Some(temporary) };
        poll("the simulated driver listens", || {
            let mut asks = sim.program("fault");
            let status = asks.arg("clients").stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.unwrap().success().then_some(())
        });
        sim
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// A folder that lives as long as the test.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its NVML library.
    #[expect(clippy::unused_self, reason = "a library without a server answers nothing")]
    pub(crate) fn library(&self) -> PathBuf {
        built().library.clone()
    }

    /// A copy of the library that lacks symbols.
    pub(crate) fn library_without(&self, symbols: &str) -> PathBuf {
        let copy = self.folder.join("libnvidia-ml-older.so.1");
        let mut program = self.program("library");
        program.arg("--from").arg(self.library()).arg("--to").arg(&copy);
        run(program.arg("--without").arg(symbols));
        copy
    }

    /// `nvsim fault` with these words, separated by spaces.
    pub(crate) fn fault(&self, words: &str) {
        run(self.program("fault").args(words.split(' ')));
    }

    /// Starts `nvsim work` with these words.
    pub(crate) fn work(&self, words: &str) -> Job {
        let mut work = self.program("work");
        // A job that outlives its test must not hold the pipe that the test's output is read from.
        Job(work.args(words.split(' ')).stdout(Stdio::null()).spawn().unwrap())
    }

    /// A command of `nvsim` that asks this server.
    pub(crate) fn program(&self, command: &str) -> Command {
        let mut program = Command::new(&built().program);
        program.arg(command).env(SOCKET, self.socket());
        program
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // It may be gone already, which is what is wanted.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// A running GPU job. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Job(Child);

impl Job {
    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Kills it and waits for its end.
    pub(crate) fn end(self) {
        drop(self);
    }

    /// Waits until it is done.
    pub(crate) fn wait(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "the job failed: {status}");
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(program: &mut Command) {
    let status = program.stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{program:?}: {status}");
}

/// Runs `body` against a simulated driver, in a process of its own that has nothing else in it.
/// `test` is the name of the calling test.
pub(crate) fn with_simulator(test: &str, arguments: &[&str], body: impl FnOnce(&Sim)) {
    if let Some(folder) = std::env::var_os(IN_CHILD) {
        body(&Sim { server: None, folder: folder.into(), _temporary: None });
        return;
    }
    let sim = Sim::start(arguments);
    in_child(test, &sim);
}

fn in_child(test: &str, sim: &Sim) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(IN_CHILD, sim.folder())
        .env(SOCKET, sim.socket())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > 2 * PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{test} did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
    assert!(status.success(), "{test} failed in its own process: {said}");
    assert!(said.contains("1 passed"), "{test} is not the test's name: {said}");
}

/// Waits for something to become so.
pub(crate) fn poll<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(so) = is_so() {
            return so;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Debian's own `libnvidia-ml.so.1`, fetched once into the target folder; `Err` says why not.
pub(crate) fn real_library() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = this.ancestors().nth(3).ok_or("no target folder")?;
    let folder = target.join("libnvidia-ml1");
    if let Some(library) = find_library(&folder) {
        return Ok(library);
    }
    fetch_library(&folder)?;
    find_library(&folder).ok_or_else(|| "the package holds no libnvidia-ml.so.1".to_owned())
}

fn find_library(folder: &Path) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).ok()?.flatten() {
            let (path, kind) = (entry.path(), entry.file_type().ok()?);
            if kind.is_dir() {
                folders.push(path);
            } else if path.file_name() == Some(OsStr::new("libnvidia-ml.so.1")) {
                return Some(path);
            }
        }
    }
    None
}

/// `apt-get download` with a copy of the machine's own sources to which `non-free` is added.
fn fetch_library(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let state = tempfile::tempdir().map_err(failed)?;
    let parts = state.path().join("sources.list.d");
    let lists = state.path().join("lists/partial");
    for made in [&parts, &lists, &state.path().to_path_buf(), &folder.to_path_buf()] {
        std::fs::create_dir_all(made).map_err(failed)?;
    }
    let mut sources = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(more) = std::fs::read_dir("/etc/apt/sources.list.d") {
        sources.extend(more.flatten().map(|entry| entry.path()));
    }
    for source in sources {
        let Ok(text) = std::fs::read_to_string(&source) else { continue };
        let Some(name) = source.file_name() else { continue };
        let widened: Vec<String> = text.lines().map(with_non_free).collect();
        let to = if name == OsStr::new("sources.list") { state.path() } else { &parts };
        std::fs::write(to.join(name), widened.join("\n") + "\n").map_err(failed)?;
    }
    let option = |name: &str, path: &Path| format!("{name}={}", path.display());
    let options = [
        option("Dir::Etc::sourcelist", &state.path().join("sources.list")),
        option("Dir::Etc::sourceparts", &parts),
        option("Dir::State::lists", &state.path().join("lists")),
    ];
    for words in [&["update"][..], &["download", "libnvidia-ml1"]] {
        let mut apt = Command::new("apt-get");
        apt.arg("-q").args(options.iter().flat_map(|option| ["-o", option])).args(words);
        apt.current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        let status = apt.status().map_err(|error| format!("apt-get: {error}"))?;
        if !status.success() {
            return Err(format!("apt-get {}: {status}", words.join(" ")));
        }
    }
    let packages = std::fs::read_dir(folder).map_err(failed)?.flatten().map(|entry| entry.path());
    let package = packages.into_iter().find(|path| path.extension() == Some(OsStr::new("deb")));
    let package = package.ok_or("apt-get left no package")?;
    let mut dpkg = Command::new("dpkg");
    let status = dpkg.arg("-x").arg(package).arg(folder).status().map_err(failed)?;
    status.success().then_some(()).ok_or_else(|| format!("dpkg -x: {status}"))
}

/// One line of apt sources, in either format, with the component added.
fn with_non_free(line: &str) -> String {
    let plain = line.starts_with("deb ") || line.starts_with("Components:");
    let has = line.split_whitespace().any(|word| word == "non-free");
    if plain && !has { format!("{line} non-free") } else { line.to_owned() }
}
