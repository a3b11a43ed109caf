//! Places where a journal should not lie, and configurations that are wrong.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::asked::{Asked, state_dir};
use crate::support::skip;

fn nowhere() -> Asked {
    Asked::with_library("/nonexistent/libnvidia-ml.so.1")
}

#[test]
fn a_state_directory_on_tmpfs_is_warned_of() {
    let test = "a_state_directory_on_tmpfs_is_warned_of";
    let folder = state_dir();
    let place = folder.path().to_str().unwrap();
    let mount = format!("mount -t tmpfs -o mode=0700,size=32m none {place}");
    let tried = Command::new("unshare").args(["-m", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        return skip(test, "no mount namespace can be made here");
    }
    let doctor = nowhere().after_mounting(&mount).doctor(&["--state-dir", place]);
    doctor.finds("file-system", "warn", "is on tmpfs", "local disk");
    doctor.finds("free-space", "missing", "free at", "make room");
}

#[test]
fn a_state_directory_that_is_not_there_is_not_made() {
    let folder = state_dir();
    let place = folder.path().join("a/b");
    let doctor = nowhere().doctor(&["--state-dir", place.to_str().unwrap()]);
    doctor.finds("state-dir", "warn", "does not exist yet", "install -d -m 0700");
    let remedy = doctor.check("state-dir")["remedy"].as_str().unwrap();
    assert!(
        remedy.ends_with(&format!("-o gpu-ledger -g gpu-ledger {}", place.display())),
        "{remedy}"
    );
    assert_eq!(
        doctor.check("file-system")["cause"].as_str().map(|cause| cause.contains("a/b")),
        Some(false)
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_state_directory_that_anybody_may_write_is_refused() {
    let folder = state_dir();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let place = folder.path().to_str().unwrap();
    let doctor = nowhere().doctor(&["--state-dir", place]);
    doctor.finds("state-dir", "missing", "mode 0777", "chmod 0700");
    let mode = std::fs::metadata(folder.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o777, "the mode was changed");
}

#[test]
fn a_wrong_configuration_is_named_and_everything_else_is_looked_at() {
    let folder = state_dir();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "\nstate_dri = \"/x\"\n").unwrap();
    let doctor = nowhere().doctor(&["--config", file.to_str().unwrap()]);
    doctor.finds("configuration", "missing", ":2: unknown key `state_dri`", "correct the file");
    doctor.finds("library", "missing", "nvml-library-not-found", "install");
    std::fs::write(&file, "call_deadline = \"1s\"\n").unwrap();
    let right = nowhere().doctor(&["--config", file.to_str().unwrap()]);
    right.finds("configuration", "ok", "config.toml", "");
    let missing = nowhere().doctor(&["--config", "/nonexistent/config.toml"]);
    missing.finds("configuration", "missing", "/nonexistent/config.toml", "correct the file");
}

#[test]
fn rules_that_the_daemon_would_not_take_or_that_never_match_are_told() {
    let folder = state_dir();
    let (file, rules) = (folder.path().join("config.toml"), folder.path().join("rules.toml"));
    let socket = "[socket]\npath = \"/nonexistent/daemon.sock\"\n";
    let configure = |lines: &str| {
        std::fs::write(&file, format!("rules = {rules:?}\n{lines}{socket}")).unwrap();
    };
    configure("");
    let doctor = || nowhere().doctor(&["--config", file.to_str().unwrap()]);
    doctor().finds("rules", "missing", "rules.toml: No such file", "correct the file");
    let rule = "[[rule]]\naccount = \"a\"\nargv = \"x\"\n";
    std::fs::write(&rules, rule).unwrap();
    doctor().finds("rules", "ok", "1 in ", "");
    std::fs::write(&rules, rule.repeat(3)).unwrap();
    doctor().finds("rules", "warn", "2 of them never match", "gpu-ledger rules check");
    configure("cmdline = \"none\"\n");
    doctor().finds(
        "rules",
        "missing",
        "rules.toml:3:1: rule 1 looks at `argv`",
        "correct the file",
    );
}

#[test]
fn a_daemon_that_does_not_answer_is_told_with_its_place() {
    let folder = state_dir();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "[socket]\npath = \"/nonexistent/daemon.sock\"\n").unwrap();
    let doctor = nowhere().doctor(&["--config", file.to_str().unwrap()]);
    let cause = "no daemon answers at /nonexistent/daemon.sock";
    doctor.finds("daemon", "warn", cause, "systemctl start gpu-ledger");
}

/// A socket at which this is done with each connection, and a doctor who is sent there.
fn names_told_by(serves: impl Fn(UnixStream) + Send + 'static) -> crate::asked::Doctor {
    let folder = state_dir();
    let socket = folder.path().join("names.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serves));
    let file = folder.path().join("config.toml");
    std::fs::write(&file, format!("names_socket = {socket:?}\n")).unwrap();
    nowhere().doctor(&["--config", file.to_str().unwrap()])
}

#[test]
fn a_helper_that_tells_names_of_containers_is_tried() {
    // As systemd starts it: the connection is stdin and stdout.
    let doctor = names_told_by(|stream| {
        let mut helper = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        helper.arg("container-names").stdin(OwnedFd::from(stream.try_clone().unwrap()));
        assert!(helper.stdout(OwnedFd::from(stream)).status().unwrap().success());
    });
    doctor.finds("container-names", "ok", "are told at", "");
    let hanging = names_told_by(std::mem::forget);
    hanging.finds("container-names", "warn", "none in 500ms", "journalctl");
    let babbling = names_told_by(|stream| {
        let _ = std::io::Write::write_all(&mut &stream, b"hello\n");
    });
    babbling.finds("container-names", "warn", "go by their ids", "journalctl");
}

#[test]
fn a_helper_that_is_not_there_is_told_with_its_remedy() {
    let folder = state_dir();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, "names_socket = \"/nonexistent/names.sock\"\n").unwrap();
    let ask = || nowhere().doctor(&["--config", file.to_str().unwrap()]);
    let cause = "nobody answers at /nonexistent/names.sock";
    ask().finds("container-names", "warn", cause, "enable --now gpu-ledger-names.socket");
    std::fs::write(&file, "names_socket = \"\"\n").unwrap();
    ask().finds("container-names", "ok", "containers go by their ids", "");
}

#[test]
fn a_container_is_named_by_hand_as_it_is_for_the_daemon() {
    let helper = |words: &[&str]| {
        let mut helper = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        let output = helper.arg("container-names").args(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, answer) = helper(&["lxc", "web-1"]);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((code, answer["names"]["name"].as_str()), (Some(0), Some("web-1")));
    let nobodys = "0".repeat(64);
    assert_eq!(helper(&["lxc", "../x"]).0, Some(64));
    assert_eq!(helper(&["rkt", &nobodys]).0, Some(64));
    assert_eq!(helper(&["docker"]).0, Some(64));
    // Root alone can see that no runtime has it.
    if rustix::process::geteuid().is_root() {
        assert_eq!(
            helper(&["any", &nobodys]),
            (Some(2), "{\"names\":null,\"version\":1}\n".to_owned())
        );
    }
    // A short id is never taken for one that nobody has.
    let (code, answer) = helper(&["docker", "9a31de550975"]);
    let known = if rustix::process::geteuid().is_root() { 64 } else { 1 };
    assert_eq!(code, Some(known), "{answer}");
}

/// Whoever runs it by hand without a question, or with half of one, is told at once what to type.
#[test]
fn the_helper_never_waits_for_ever_for_its_question() {
    let began = Instant::now();
    let asked = |script: &str| {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_gpu-ledger"));
        let output = shell.output().unwrap();
        let [said, complained] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code(), said, complained)
    };
    let (code, said, _) = asked("printf '' | \"$0\" container-names");
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("ask with one line"), "{said}");
    // A line without its end is whole when stdin is.
    let (code, said, _) = asked("printf 'lxc web-1' | \"$0\" container-names");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("\"name\":\"web-1\""), "{said}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    // Somebody who holds the other end, and says no whole line.
    let mut helper = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    helper.arg("container-names").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = helper.stderr(Stdio::piped()).spawn().unwrap();
    let mut held = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut held, b"lxc web").unwrap();
    let output = child.wait_with_output().unwrap();
    drop(held);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{output:?}");
    let complained = String::from_utf8(output.stderr).unwrap();
    assert!(complained.contains("no answer in 2s: no whole line"), "{complained}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[test]
fn at_a_terminal_the_helper_tells_what_to_type() {
    let program = env!("CARGO_BIN_EXE_gpu-ledger");
    // util-linux, which gives it a terminal of its own.
    let mut script = Command::new("script");
    script.args(["-qec", &format!("'{program}' container-names"), "/dev/null"]);
    let Ok(output) = script.stdin(Stdio::null()).output() else {
        return skip("at_a_terminal_the_helper_tells_what_to_type", "there is no script(1)");
    };
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("container-names RUNTIME ID [OWNER_UID]"), "{said}");
}
