//! The systemd units: as little privilege as they can do with, measured by systemd itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::skip;

/// All of them.
const UNITS: [&str; 4] = [
    "gpu-ledger.service",
    "gpu-ledger-accounting.service",
    "gpu-ledger-names.socket",
    "gpu-ledger-names@.service",
];

/// Where they are shipped.
fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("units")
}

/// A folder with the units and these drop-ins of the daemon's, and a file for its program.
fn installed(drop_ins: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for unit in UNITS {
        let text = std::fs::read_to_string(units().join(unit)).unwrap();
        // The program need not be installed to have its unit read.
        let text = text.replace("/usr/bin/gpu-ledger ", "/bin/true ");
        std::fs::write(folder.path().join(unit), text).unwrap();
    }
    let places = folder.path().join("gpu-ledger.service.d");
    std::fs::create_dir(&places).unwrap();
    for drop_in in drop_ins {
        std::fs::copy(units().join(drop_in), places.join(drop_in)).unwrap();
    }
    folder
}

/// `systemd-analyze` over installed units; `None`, loudly, where it is not there.
fn analyze(test: &str, words: &[&str], unit: &Path) -> Option<Output> {
    match Command::new("systemd-analyze").args(words).arg(unit).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skip(test, &format!("systemd-analyze: {error}"));
            None
        }
    }
}

/// Asserts that a unit is exposed by no more than this many tenths.
fn exposed_at_most(test: &str, drop_ins: &[&str], unit: &str, tenths: u32) {
    let folder = installed(drop_ins);
    let threshold = format!("--threshold={tenths}");
    let words = ["security", "--offline=true", "--no-pager", &threshold];
    let Some(output) = analyze(test, &words, &folder.path().join(unit)) else { return };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("Overall exposure level"), "{said}");
    let amiss: Vec<&str> = said.lines().filter(|line| !line.starts_with('✓')).collect();
    assert!(output.status.success(), "{unit} with {drop_ins:?}: {amiss:#?}");
    // A threshold that nothing exceeds would prove nothing.
    let strict = ["security", "--offline=true", "--no-pager", "--threshold=1"];
    let strict = analyze(test, &strict, &folder.path().join(unit)).unwrap();
    assert!(!strict.status.success(), "the threshold is not looked at");
}

#[test]
fn the_daemon_is_exposed_by_1_5_at_most() {
    let test = "the_daemon_is_exposed_by_1_5_at_most";
    exposed_at_most(test, &[], "gpu-ledger.service", 15);
    exposed_at_most(test, &["no-device-touch.conf"], "gpu-ledger.service", 15);
}

#[test]
fn the_daemon_with_its_listener_is_exposed_by_1_8_at_most() {
    let test = "the_daemon_with_its_listener_is_exposed_by_1_8_at_most";
    exposed_at_most(test, &["listener.conf"], "gpu-ledger.service", 18);
}

#[test]
fn the_one_shot_that_sets_the_mode_is_exposed_by_1_5_at_most() {
    let test = "the_one_shot_that_sets_the_mode_is_exposed_by_1_5_at_most";
    exposed_at_most(test, &[], "gpu-ledger-accounting.service", 15);
}

#[test]
fn the_helper_that_knows_containers_is_exposed_by_1_2_at_most() {
    let test = "the_helper_that_knows_containers_is_exposed_by_1_2_at_most";
    exposed_at_most(test, &[], "gpu-ledger-names@.service", 12);
}

/// The daemon may not read what the helper reads, and the helper may not do what the daemon does.
#[test]
fn the_helper_may_read_files_and_nothing_else() {
    let text = |unit: &str| std::fs::read_to_string(units().join(unit)).unwrap();
    let (helper, socket) = (text("gpu-ledger-names@.service"), text("gpu-ledger-names.socket"));
    for line in [
        "CapabilityBoundingSet=CAP_DAC_READ_SEARCH",
        "StandardInput=socket",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        "PrivateNetwork=yes",
        "RuntimeMaxSec=5s",
    ] {
        assert!(helper.lines().any(|found| found == line), "{line}");
    }
    assert!(!helper.contains("AmbientCapabilities") && !helper.contains("[Install]"));
    for line in ["Accept=yes", "SocketUser=root", "SocketGroup=gpu-ledger", "SocketMode=0660"] {
        assert!(socket.lines().any(|found| found == line), "{line}");
    }
    let place = format!("ListenStream={}", gpu_ledger::naming::SOCKET_DEFAULT);
    assert!(socket.lines().any(|found| found == place), "{place}");
    let daemon = text("gpu-ledger.service");
    assert!(daemon.lines().any(|found| found == "Wants=gpu-ledger-names.socket"));
    assert!(!daemon.contains("CAP_DAC") && daemon.contains("ProtectHome=yes"));
}

#[test]
fn systemd_reads_every_line_of_the_units() {
    let folder = installed(&["listener.conf", "no-device-touch.conf"]);
    for unit in UNITS {
        let path = folder.path().join(unit);
        let words = ["verify", "--recursive-errors=no"];
        let test = "systemd_reads_every_line_of_the_units";
        let Some(output) = analyze(test, &words, &path) else { return };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // What is said of other units of this machine is not about ours.
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("gpu-ledger")).collect();
        assert!(ours.is_empty(), "{ours:#?}");
    }
}

#[test]
fn only_the_one_shot_may_set_anything_on_a_gpu() {
    let capabilities = |unit: &str| {
        let text = std::fs::read_to_string(units().join(unit)).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(capabilities("gpu-ledger.service"), ["CAP_BPF CAP_PERFMON CAP_NET_ADMIN"]);
    assert_eq!(capabilities("gpu-ledger-accounting.service"), ["CAP_SYS_ADMIN"]);
    let daemon = std::fs::read_to_string(units().join("gpu-ledger.service")).unwrap();
    for line in [
        "User=gpu-ledger",
        "Type=notify",
        "StateDirectoryMode=0700",
        // Everybody may ask: the daemon tells them apart.
        "RuntimeDirectoryMode=0755",
        "NoNewPrivileges=yes",
        "UMask=0077",
        "LimitCORE=0",
        "DevicePolicy=closed",
        "Restart=on-failure",
    ] {
        assert!(daemon.lines().any(|found| found == line), "{line}");
    }
    // These would hide the GPUs, the processes, or their owners.
    for line in ["PrivateDevices=", "ProtectProc=invisible", "PrivateUsers=", "ProcSubset="] {
        assert!(!daemon.lines().any(|found| found.starts_with(line)), "{line}");
    }
}

/// The lines of the first block of commands after a heading, without their prompts and comments.
fn commands_of(page: &str, heading: &str) -> Vec<String> {
    let (_, after) = page.split_once(heading).unwrap();
    let (_, block) = after.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let block = block.replace("\\\n", " ");
    let lines = block.lines().filter_map(|line| line.strip_prefix("$ "));
    lines.map(|line| line.split('#').next().unwrap().trim().to_owned()).collect()
}

#[test]
fn the_documented_commands_install_everything_where_the_units_look_for_it() {
    let test = "the_documented_commands_install_everything_where_the_units_look_for_it";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "files of other owners are made by root alone");
    }
    let root = tempfile::tempdir().unwrap();
    let place = root.path().to_str().unwrap();
    std::fs::create_dir(root.path().join("etc")).unwrap();
    let page = std::fs::read_to_string(units().join("README.md")).unwrap();
    let (mut installed, mut made) = (0, 0);
    for line in commands_of(&page, "## Install") {
        let words: Vec<&str> = line.trim_start_matches("sudo ").split_whitespace().collect();
        let words: Vec<String> = match words[0] {
            "install" => {
                installed += 1;
                let into = |word: &&str| match *word {
                    "target/release/gpu-ledger" => env!("CARGO_BIN_EXE_gpu-ledger").to_owned(),
                    absolute if absolute.starts_with('/') => format!("{place}{absolute}"),
                    other => other.to_owned(),
                };
                words.iter().map(into).collect()
            }
            tool @ ("systemd-sysusers" | "systemd-tmpfiles") => {
                if Command::new(tool).arg("--version").output().is_err() {
                    skip(test, &format!("there is no {tool}"));
                    continue;
                }
                made += 1;
                let rest = words[1..].iter().map(|word| (*word).to_owned());
                [tool.to_owned(), format!("--root={place}")].into_iter().chain(rest).collect()
            }
            // What it starts or builds is not for a test.
            "cargo" | "systemctl" | "usermod" => continue,
            other => panic!("{other} is in no test: {line}"),
        };
        std::fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let done = Command::new(&words[0]).args(&words[1..]).current_dir(workspace).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    }
    assert!(installed >= 5, "{installed} install lines were found");
    for unit in UNITS {
        let path = root.path().join("etc/systemd/system").join(unit);
        let lines = std::fs::read_to_string(path).unwrap();
        for line in lines.lines() {
            let path = line
                .strip_prefix("ExecStart=")
                .and_then(|words| words.split(' ').next())
                .or_else(|| line.strip_prefix("Documentation=file://"));
            if let Some(path) = path {
                let path = root.path().join(path.trim_start_matches('/'));
                assert!(path.is_file(), "{unit} names {}", path.display());
            }
        }
        assert!(lines.contains("Documentation=file:///") && !lines.contains("man:"), "{unit}");
    }
    if made == 2 {
        let passwd = std::fs::read_to_string(root.path().join("etc/passwd")).unwrap();
        assert!(passwd.contains("gpu-ledger:"), "{passwd}");
        for (folder, mode) in [("var/lib/gpu-ledger", 0o700), ("var/lib/gpu-ledger-metrics", 0o755)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let found = std::fs::metadata(root.path().join(folder)).unwrap();
            assert_eq!(found.mode() & 0o777, mode, "{folder}");
            assert_ne!(found.uid(), 0, "{folder}");
        }
    }
}
