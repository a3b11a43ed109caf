//! The packages on a fresh system: what a person does with the .deb from its installation to a first bill, an upgrade over
//! an older journal, and a removal that leaves the journal.
//!
//! The system is a folder of debootstrap without a running init. What is asked there is what a person would type.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::tool::{both, ran, told, tool};
use super::{Parts, Version, deb, rpm, say};
use crate::nvsim;

/// Where the simulated driver's program answers, inside.
const SIMULATED: &str = "/run/nvsim.socket";
/// Its library, inside.
const LIBRARY: &str = "/opt/nvsim/libnvidia-ml.so.1";
/// As the unit starts the daemon: its user, and three capabilities.
const AS_THE_UNIT: [&str; 6] = [
    "setpriv",
    "--reuid=gpu-ledger",
    "--regid=gpu-ledger",
    "--clear-groups",
    "--inh-caps=+bpf,+perfmon,+net_admin",
    "--ambient-caps=+bpf,+perfmon,+net_admin",
];
/// What makes a journal one of schema version 4, which had no keys and no closed periods; with the tests of the store.
const OLDER: &str = "DROP VIEW signing_keys; DROP VIEW closings; DROP TABLE signing_key; DROP TABLE closed; \
     DROP TABLE erased; DROP TABLE subtree; PRAGMA user_version = 4;";
const JOURNAL: &str = "var/lib/gpu-ledger/ledger.db";

pub(super) fn run(root: &Path, parts: &Parts, work: &Path) -> anyhow::Result<()> {
    let packages = work.join("packages");
    std::fs::create_dir(&packages)?;
    let package = deb::make(parts, &parts.version, &packages)?;
    deb::look(&package, parts)?;
    let rpm = rpm::make(root, parts, &packages)?;
    rpm::look(&rpm, root, parts)?;
    let before =
        Version { upstream: format!("{}~0", parts.version.upstream), ..parts.version.clone() };
    let older = deb::make(parts, &before, &packages)?;
    if !rustix::process::geteuid().is_root() {
        ensure!(
            std::env::var_os("GPU_LEDGER_REQUIRE_PRIVILEGED").is_none(),
            "to install the packages in a fresh root needs root"
        );
        return say(
            "SKIPPED: the packages were made and looked at, and NOT installed: that needs root",
        );
    }
    let system = System::fresh(root, work)?;
    for file in [&package, &older, &rpm] {
        system.bring(file, "/root", &name(file)?)?;
    }
    let (program, library) = nvsim::build(&[])?;
    system.bring(&program, "/usr/local/bin", "nvsim")?;
    system.bring(&library, "/opt/nvsim", "libnvidia-ml.so.1")?;

    system.install(&older)?;
    system.is_installed()?;
    system.doctor()?;
    let mut driver = system.driver()?;
    let outcome = system.books(&package);
    driver.kill()?;
    driver.wait()?;
    outcome?;
    system.removed()?;
    system.rpm(&rpm, parts)
}

fn name(file: &Path) -> anyhow::Result<String> {
    let name = file.file_name().context("a file without a name")?;
    Ok(name.to_string_lossy().into_owned())
}

/// A Debian system in a folder.
struct System(PathBuf);

impl System {
    fn fresh(root: &Path, work: &Path) -> anyhow::Result<Self> {
        let folder = work.join("system");
        // Packages that were fetched once are fetched no more.
        let cache = root.join("target/debootstrap");
        std::fs::create_dir_all(&cache)?;
        let mut debootstrap = tool("debootstrap");
        debootstrap.args(["--variant=minbase", "--include=systemd,procps"]);
        debootstrap.arg(format!("--cache-dir={}", cache.display()));
        told(debootstrap.arg("bookworm").arg(&folder).arg("http://deb.debian.org/debian"))?;
        Ok(Self(folder))
    }

    fn bring(&self, file: &Path, folder: &str, name: &str) -> anyhow::Result<()> {
        let folder = self.0.join(folder.trim_start_matches('/'));
        std::fs::create_dir_all(&folder)?;
        super::copy(file, &folder.join(name))
    }

    /// A command inside, which sees this machine's processes, kernel and devices.
    fn command(&self, words: &[&str]) -> Command {
        let script = r#"for folder in proc sys dev; do mount --rbind "/$folder" "$0/$folder"; done; exec chroot "$0" "$@""#;
        let mut command = tool("unshare");
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin");
        command.env("LC_ALL", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive").env("TZ", "UTC");
        command.env("NVSIM_SOCKET", SIMULATED).env("HOME", "/root").current_dir("/");
        command
            .args(["--mount", "--propagation=private", "sh", "-ec", script])
            .arg(&self.0)
            .args(words);
        command
    }

    /// What a command inside says; it must end with one of these statuses.
    fn says(&self, words: &[&str], statuses: &[i32]) -> anyhow::Result<String> {
        let output = ran(&mut self.command(words))?;
        let said = both(&output);
        let code = output.status.code();
        ensure!(
            code.is_some_and(|code| statuses.contains(&code)),
            "{words:?}: {}\n{said}",
            output.status
        );
        Ok(said)
    }

    /// Prints a command as a person types it, and what it says.
    fn shows(&self, words: &[&str], statuses: &[i32]) -> anyhow::Result<String> {
        let said = self.says(words, statuses)?;
        say(&format!("# {}\n{said}", words.join(" ")))?;
        Ok(said)
    }

    fn install(&self, package: &Path) -> anyhow::Result<()> {
        let file = format!("/root/{}", name(package)?);
        self.shows(&["apt-get", "install", "--yes", "-qq", "-o=Dpkg::Use-Pty=0", &file], &[0])?;
        Ok(())
    }

    fn is_installed(&self) -> anyhow::Result<()> {
        let user = self.says(&["getent", "passwd", "gpu-ledger"], &[0])?;
        ensure!(user.trim_end().ends_with(":/usr/sbin/nologin"), "{user}");
        let modes = ["stat", "--format=%a %U %n", "/var/lib/gpu-ledger", "/etc/gpu-ledger"];
        let folders = self.says(&modes, &[0])?;
        let wanted = "700 gpu-ledger /var/lib/gpu-ledger\n755 root /etc/gpu-ledger\n";
        ensure!(folders == wanted, "{folders}");
        for (unit, target) in [
            ("gpu-ledger.service", "multi-user.target"),
            ("gpu-ledger-accounting.service", "multi-user.target"),
            ("gpu-ledger-names.socket", "sockets.target"),
        ] {
            let link = self.0.join(format!("etc/systemd/system/{target}.wants/{unit}"));
            ensure!(link.is_symlink(), "{unit} is not enabled");
            self.says(&["systemd-analyze", "verify", "--man=no", unit], &[0])?;
        }
        for (shell, file) in [
            ("bash", "bash-completion/completions/gpu-ledger"),
            ("zsh", "zsh/vendor-completions/_gpu-ledger"),
            ("fish", "fish/vendor_completions.d/gpu-ledger.fish"),
        ] {
            let text = super::read(&self.0.join("usr/share").join(file))?;
            ensure!(
                text.contains("rotate-key"),
                "completions of {shell} know no `journal rotate-key`"
            );
        }
        ensure!(
            self.0.join("usr/share/man/man1/gpu-ledger-journal-rotate-key.1.gz").is_file(),
            "no page"
        );
        self.says(&["dpkg", "--verify", "gpu-ledger"], &[0])?;
        Ok(())
    }

    /// Without a driver it says so, with what to do, and that nothing else of it is missing.
    fn doctor(&self) -> anyhow::Result<()> {
        let said = self.shows(&["gpu-ledger", "doctor"], &[2])?;
        ensure!(
            said.contains("nvml-library-not-found") && said.contains("install the NVIDIA driver"),
            "{said}"
        );
        Ok(())
    }

    fn driver(&self) -> anyhow::Result<Child> {
        let mut serve = self.command(&["nvsim", "serve", "--socket", SIMULATED, "--gpus", "1"]);
        let driver = serve.stdout(Stdio::null()).spawn().context("start nvsim")?;
        let socket = self.0.join(SIMULATED.trim_start_matches('/'));
        until("the simulated driver answers", || Ok(socket.exists().then_some(())))?;
        // The daemon's user asks it too.
        std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
        Ok(driver)
    }

    /// A first answer, books, an upgrade over an older journal.
    fn books(&self, newer: &Path) -> anyhow::Result<()> {
        let simulated = ["gpu-ledger", "--nvml-library", LIBRARY];
        let doctor = self.says(&[&simulated[..], &["doctor"]].concat(), &[0, 2])?;
        ensure!(
            doctor.contains("SIMULATED") && !doctor.contains("nvml-library-not-found"),
            "{doctor}"
        );
        let work = ["trace", "--", "nvsim", "work", "--gpu", "0", "--ms", "300"];
        let traced = self.shows(&[&simulated[..], &work].concat(), &[0])?;
        ensure!(traced.contains("nvsim"), "the trace names no nvsim:\n{traced}");

        let config = self.0.join("etc/gpu-ledger/config.toml");
        let own = format!("{}\n# Ours.\n", super::read(&config)?);
        std::fs::write(&config, &own)?;
        let since = self.says(&["date", "--utc", "-Iseconds"], &[0])?;
        let ask = ["gpu-ledger", "bill", "--since", since.trim()];
        self.watched(|| {
            until("the bill has what ran", || {
                // What runs before the daemon has seen its first is on no account of its own.
                self.says(&["nvsim", "work", "--gpu", "0", "--ms", "300"], &[0])?;
                Ok(booked(&self.says(&ask, &[0, 2])?))
            })
        })?;
        let line = booked(&self.shows(&ask, &[0, 2])?)
            .context("no line of nvsim once the daemon ended")?;

        self.age_journal()?;
        self.install(newer)?;
        ensure!(
            super::read(&config)? == own,
            "the upgrade changed the administrator's configuration"
        );
        self.watched(|| Ok(()))?;
        let after = self.says(&ask, &[0, 2])?;
        ensure!(
            booked(&after).as_ref() == Some(&line),
            "before the upgrade: {line}\nafter it:\n{after}"
        );
        // The one entry here that version 4 had not is that of the key; its row went with the table that `OLDER` took.
        let checked = self.shows(&["gpu-ledger", "journal", "check"], &[1])?;
        let other = |line: &&str| {
            line.contains("says something else") && !line.contains(" table signing_key ")
        };
        let others = checked.lines().find(other);
        ensure!(
            others.is_none() && checked.contains(" 2 faults"),
            "the upgraded journal is not whole:\n{checked}"
        );
        ensure!(
            self.version()? == "5",
            "the journal is still of version {}:\n{checked}",
            self.version()?
        );
        Ok(())
    }

    /// Does something while the daemon watches, as its unit starts it.
    fn watched<T>(&self, what: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let daemon = ["gpu-ledger", "--nvml-library", LIBRARY, "daemon"];
        let mut daemon = self.command(&[&AS_THE_UNIT[..], &daemon].concat());
        let daemon = daemon.stderr(Stdio::piped()).spawn().context("start the daemon")?;
        let ready = until("the daemon answers", || {
            let asked = ran(&mut self.command(&["gpu-ledger", "status"]))?;
            Ok(matches!(asked.status.code(), Some(0 | 2)).then_some(()))
        });
        let done = ready.and_then(|()| what());
        let pid = rustix::process::Pid::from_child(&daemon);
        let ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(daemon.wait_with_output()?));
        let said = ended.map_or_else(|error| error.to_string(), |output| both(&output));
        done.with_context(|| format!("the daemon said:\n{said}"))
    }

    fn sqlite(&self, statements: &str) -> anyhow::Result<String> {
        let script = "import sqlite3, sys; base = sqlite3.connect(sys.argv[1]); base.executescript(sys.argv[2]); \
                      print(base.execute('PRAGMA user_version').fetchone()[0])";
        told(tool("python3").args(["-c", script]).arg(self.0.join(JOURNAL)).arg(statements))
    }

    fn age_journal(&self) -> anyhow::Result<()> {
        self.sqlite(OLDER)?;
        ensure!(self.version()? == "4", "the journal could not be made older");
        Ok(())
    }

    fn version(&self) -> anyhow::Result<String> {
        Ok(self.sqlite("")?.trim().to_owned())
    }

    /// The journal is what it was after the package is gone, and after it is purged.
    fn removed(&self) -> anyhow::Result<()> {
        let journal = self.0.join(JOURNAL);
        let before = std::fs::read(&journal).context("the journal before the removal")?;
        self.shows(&["apt-get", "remove", "--yes", "-qq", "gpu-ledger"], &[0])?;
        ensure!(!self.0.join("usr/bin/gpu-ledger").exists(), "the program is still there");
        ensure!(
            self.0.join("etc/gpu-ledger/config.toml").exists(),
            "configuration goes by purge alone"
        );
        ensure!(std::fs::read(&journal)? == before, "removal changed the journal");
        let said = self.shows(&["apt-get", "purge", "--yes", "-qq", "gpu-ledger"], &[0])?;
        ensure!(
            said.contains("were kept in /var/lib/gpu-ledger"),
            "purge does not say what stays:\n{said}"
        );
        ensure!(!self.0.join("etc/gpu-ledger").exists(), "purge leaves configuration");
        ensure!(std::fs::read(&journal)? == before, "purge changed the journal");
        let links = self.says(&["find", "/etc/systemd", "-name", "gpu-ledger*"], &[0])?;
        ensure!(links.is_empty(), "purge leaves {links}");
        // Of one who never kept books nothing is left.
        for file in super::names(journal.parent().context("a folder")?)? {
            std::fs::remove_file(self.0.join("var/lib/gpu-ledger").join(file))?;
        }
        Ok(())
    }

    /// The .rpm brings the same files and makes the same folders; the database of packages is one of its own.
    fn rpm(&self, package: &Path, parts: &Parts) -> anyhow::Result<()> {
        // Debian has no packages of these names that this database knew.
        let mut install = tool("rpm");
        install.args(["--install", "--nodeps", "--root"]).arg(&self.0).arg(package);
        told(&mut install)?;
        for (place, file) in &parts.tree.0 {
            let installed = self.0.join(rpm::moved(place));
            let bytes =
                std::fs::read(&installed).with_context(|| installed.display().to_string())?;
            ensure!(bytes == file.bytes, "{place} is another file in the .rpm");
        }
        self.says(&["gpu-ledger", "doctor"], &[2])?;
        let mut erase = tool("rpm");
        told(erase.args(["--erase", "--nodeps", "--root"]).arg(&self.0).arg("gpu-ledger"))?;
        ensure!(!self.0.join("usr/bin/gpu-ledger").exists(), "the .rpm leaves its program");
        ensure!(self.0.join("var/lib/gpu-ledger").exists(), "the .rpm takes the journal's folder");
        say("the .rpm installs the same files, and goes again")
    }
}

/// How often and how long the simulator's work is on a bill. What follows depends on when the bill is made.
fn booked(bill: &str) -> Option<String> {
    let line = bill.lines().find(|line| line.trim_start().starts_with("nvsim "))?;
    Some(line.split_whitespace().take(4).collect::<Vec<_>>().join(" "))
}

/// Asks until there is an answer, for a minute.
fn until<T>(what: &str, mut ask: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    for _ in 0..300 {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    bail!("{what}: not within a minute")
}
