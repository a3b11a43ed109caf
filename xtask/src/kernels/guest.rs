//! A machine without anything but a kernel and the tests: made, booted under emulation, and read by its console.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

const INIT: &str = include_str!("init.sh");
/// A guest that says nothing more for so long has stopped. Emulated, a storm of processes takes a minute.
const SILENCE_MAX: Duration = Duration::from_mins(5);
const MEMORY_MIB: u32 = 1_536;

/// What goes into a guest.
pub(super) struct Contents {
    /// The tests, as cargo built them.
    pub(super) tests: PathBuf,
    pub(super) product: PathBuf,
    /// The folder that the tests were told is theirs.
    pub(super) target_tmpdir: PathBuf,
    /// The C source of what acts in them.
    pub(super) actor: PathBuf,
}

/// How one test went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped(String),
}

/// What a guest said.
#[derive(Default)]
pub(super) struct Said {
    pub(super) release: String,
    /// Until its first process spoke.
    pub(super) boot: Duration,
    pub(super) whole: Duration,
    /// By the name of the suite and of the test.
    pub(super) tests: BTreeMap<(String, String), Outcome>,
    /// The last words of suites that ended otherwise than well.
    pub(super) complaints: Vec<String>,
    pub(super) doctor: Vec<String>,
    /// Whether it came to its end.
    pub(super) is_off: bool,
    pub(super) console: Vec<String>,
}

fn program(name: &str) -> Command {
    Command::new(name)
}

fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    Ok(output.stdout)
}

/// Makes the file system that a guest begins with: one for all kernels.
pub(super) fn image(contents: &Contents, folder: &Path) -> anyhow::Result<PathBuf> {
    let root = tempfile::tempdir_in(folder)?;
    let at = |name: &str| root.path().join(name);
    for name in ["bin", "dev", "proc", "sys", "tmp", "lib64"] {
        std::fs::create_dir(at(name))?;
    }
    let busybox = Path::new("/bin/busybox");
    ensure!(busybox.is_file(), "there is no busybox; apt-get install busybox-static");
    std::fs::copy(busybox, at("bin/busybox"))?;
    std::os::unix::fs::symlink("busybox", at("bin/sh"))?;
    for (from, to) in [(&contents.tests, "guest-tests"), (&contents.product, "gpu-ledger")] {
        // Whoever is emulated reads no debug information.
        run(program("strip").arg("-o").arg(at(to)).arg(from))?;
        for library in libraries(from)? {
            let to =
                at(library.strip_prefix("/").unwrap_or(&library).to_str().context("a name")?);
            std::fs::create_dir_all(to.parent().context("a library lies in a folder")?)?;
            std::fs::copy(&library, to)?;
        }
    }
    run(program("cc")
        .args(["-O1", "-static", "-pthread", "-o"])
        .arg(at("actor"))
        .arg(&contents.actor))?;
    let environment = format!(
        "export GPU_LEDGER_TEST_ACTOR=/actor TARGET_TMPDIR='{}' DOCTOR=1\n",
        contents.target_tmpdir.display()
    );
    std::fs::write(at("guest.env"), environment)?;
    std::fs::write(at("init"), INIT)?;
    run(program("chmod").arg("755").arg(at("init")))?;
    let file = folder.join("guest.cpio.gz");
    let pack = "cd \"$0\" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > \"$1\"";
    run(program("sh").args(["-c", pack]).arg(root.path()).arg(&file))?;
    Ok(file)
}

/// What a program is linked with.
fn libraries(of: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let said = String::from_utf8(run(program("ldd").arg(of))?).context("what ldd says")?;
    let paths = said.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}

/// Boots it and reads its console to its end.
pub(super) fn boot(kernel: &Path, image: &Path) -> anyhow::Result<Said> {
    let began = Instant::now();
    let mut child = program("qemu-system-x86_64")
        .args([
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max",
            "-smp",
            "2",
            "-nographic",
            "-no-reboot",
        ])
        .args(["-m", &MEMORY_MIB.to_string(), "-nodefaults", "-serial", "stdio"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args(["-append", "console=ttyS0 quiet panic=-1 oops=panic"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .context("cannot start qemu-system-x86_64; apt-get install qemu-system-x86")?;
    let console = child.stdout.take().context("the console")?;
    let (to, lines) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if to.send(line).is_err() {
                break;
            }
        }
    });
    let mut reading = Reading::default();
    let mut is_silent = false;
    loop {
        match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => reading.take(&line, began),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                is_silent = true;
                child.kill().context("cannot end the guest")?;
                break;
            }
        }
    }
    child.wait().context("cannot wait for the guest")?;
    drop(lines);
    if reader.join().is_err() {
        bail!("the console could not be read");
    }
    let mut said = reading.said;
    said.whole = began.elapsed();
    if is_silent {
        said.complaints.push(format!("it said nothing for {} s", SILENCE_MAX.as_secs()));
    }
    Ok(said)
}

/// A console that is being read.
#[derive(Default)]
struct Reading {
    said: Said,
    suite: String,
}

impl Reading {
    fn take(&mut self, line: &str, began: Instant) {
        // The firmware clears the screen in front of the first line.
        let line = line.find("@@ ").and_then(|at| line.get(at..)).unwrap_or(line);
        if let Some(release) = line.strip_prefix("@@ kernel ") {
            self.said.boot = began.elapsed();
            release.clone_into(&mut self.said.release);
        } else if let Some(name) = line.strip_prefix("@@ begin ") {
            name.clone_into(&mut self.suite);
        } else if let Some(end) = line.strip_prefix("@@ end ") {
            if !end.ends_with(" 0") {
                self.said.complaints.push(format!("suite and exit status: {end}"));
            }
        } else if let Some(said) = line.strip_prefix("@@ doctor ") {
            self.said.doctor.push(said.to_owned());
        } else if let Some(said) = line.strip_prefix("@@ err SKIPPED (") {
            self.skipped(said);
        } else if line == "@@ off" {
            self.said.is_off = true;
        } else if let Some((name, how)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        {
            let outcome = if how == "ok" { Outcome::Passed } else { Outcome::Failed };
            // One that is ignored says so before its name ends.
            let name = name.split(" - ").next().unwrap_or(name).to_owned();
            self.said.tests.insert((self.suite.clone(), name), outcome);
        }
        self.said.console.push(line.to_owned());
    }

    /// `N so far) NAME: REASON` of a test that passed only because it did nothing.
    fn skipped(&mut self, said: &str) {
        let Some((name, reason)) =
            said.split_once(") ").and_then(|(_, rest)| rest.split_once(": "))
        else {
            return;
        };
        let tests = self.said.tests.iter_mut();
        for ((suite, test), outcome) in tests {
            if *suite == self.suite && test.rsplit("::").next() == Some(name) {
                *outcome = Outcome::Skipped(reason.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_read_test_by_test_and_a_skip_is_no_pass() {
        let mut reading = Reading::default();
        for line in [
            "[    0.1] a kernel's word",
            "\u{1b}c\u{1b}[2J@@ kernel 6.1.0-50-cloud-amd64",
            "@@ begin hybrid",
            "running 3 tests",
            "test argv::whole ... ok",
            "test cgroups::of_v1 ... ok",
            "test loss::paused ... FAILED",
            "@@ err SKIPPED (1 so far) of_v1: none is mounted: as v1",
            "@@ end hybrid 101",
            "@@ begin v2",
            "test cgroups::of_v1 ... ok",
            "@@ end v2 0",
            "@@ off",
        ] {
            reading.take(line, Instant::now());
        }
        let said = reading.said;
        let told =
            |suite: &str, test: &str| said.tests[&(suite.to_owned(), test.to_owned())].clone();
        assert_eq!(told("hybrid", "argv::whole"), Outcome::Passed);
        assert_eq!(told("hybrid", "loss::paused"), Outcome::Failed);
        let reason = "none is mounted: as v1".to_owned();
        assert_eq!(told("hybrid", "cgroups::of_v1"), Outcome::Skipped(reason));
        assert_eq!(told("v2", "cgroups::of_v1"), Outcome::Passed);
        assert_eq!(said.complaints, ["suite and exit status: hybrid 101"]);
        assert!(said.is_off && said.release == "6.1.0-50-cloud-amd64");
    }
}
