//! A secret in a command line that used a GPU is found nowhere afterwards: by the search of its bytes in everything that the
//! daemon and a trace beside it wrote, said and answered.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpu_ledger::argv::{CmdlineMode, StoredText};
use gpu_ledger::identity::ARGV_KEPT_MAX;
use gpu_ledger::journal::CommitmentKey;
use gpu_ledger::journal::entry::ArgvPlace;
use gpu_ledger::journal::store::{Reader, StateDir, check};
use gpu_ledger::kernel::{Argv, ArgvState};

use crate::asking::{Asking, ROOT, socket};
use crate::daemon::{Daemon, NOBODY, Setup, assert_sound};
use crate::ledger::python;
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// What is searched for: every secret has it in its middle.
const CANARY: &str = "C4naryQz7Xw";
/// It stands in nothing that a redactor takes for a secret.
const PLAIN: &str = "Pl4inQz7Xw";

/// Arguments that hold the canary, in the forms in which people give secrets.
fn forms() -> Vec<Vec<String>> {
    let forms = [
        "--api-key|k@9",
        "--password=k@9 with blanks",
        "HF_TOKEN=k@9",
        "--db|postgres://u:k@9@h/db",
        "-H|Authorization: Bearer k@9",
        "hf_AbCdEf@0123456789abcdef",
        "--kwargs|{\"api_key\": \"k@9\", \"n\": 1}",
        "sh -c 'run --token k@9 --n 1'",
        "-----BEGIN PRIVATE KEY-----|MIIE@9|-----END PRIVATE KEY-----",
    ];
    let words = |form: &str| form.split('|').map(|word| word.replacen('@', CANARY, 1)).collect();
    let mut forms: Vec<Vec<String>> = forms.into_iter().map(words).collect();
    // The capture ends within it.
    forms.push(vec!["x".repeat(3_900), "y".repeat(60), "--api-key".into(), CANARY.repeat(200)]);
    forms
}

/// A GPU job with these arguments, as a script of this name.
pub(crate) fn job(sim: &Sim, script: &str, arguments: &[String]) -> Command {
    let path = sim.script_called(script);
    let orders = sim.folder().join("orders");
    std::fs::write(&orders, "open 0\n").unwrap();
    let mut job = Command::new(python());
    job.arg(&path).args(arguments).env("NVSIM_SOCKET", sim.socket());
    job.stdin(File::open(&orders).unwrap()).stdout(Stdio::null());
    job
}

/// Runs one of each form, and one whose script is called by a secret.
fn run_all(sim: &Sim) -> usize {
    let forms = forms();
    for form in &forms {
        assert!(job(sim, "train.py", form).status().unwrap().success());
    }
    let named = format!("--token={CANARY}9.py");
    assert!(job(sim, &named, &[PLAIN.to_owned()]).status().unwrap().success());
    forms.len() + 1
}

fn has(bytes: &[u8], wanted: &str) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes())
}

/// The files under a folder that hold a text, and how many files there are.
pub(crate) fn files_with(folder: &Path, wanted: &str) -> (Vec<PathBuf>, usize) {
    let (mut found, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let (inner, more) = files_with(&path, wanted);
            found.extend(inner);
            count += more;
        } else {
            count += 1;
            if has(&std::fs::read(&path).unwrap(), wanted) {
                found.push(path);
            }
        }
    }
    (found, count)
}

/// Everything that the daemon answers, in every form, to root.
fn answers(sim: &Sim) -> Vec<u8> {
    let mut said = Vec::new();
    let period = ["--since", "1h"].map(str::to_owned);
    for form in [&["--format", "json"][..], &["--format", "csv"], &["--format", "line"], &[]] {
        let output = Asking::of(sim, &period).by(ROOT, form);
        said.extend(output.stdout);
        said.extend(output.stderr);
    }
    for more in [&["--json"][..], &[]] {
        let mut status = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        let output = status.arg("status").args(more).arg("--socket").arg(socket(sim)).output();
        let output = output.unwrap();
        assert!(!output.stdout.is_empty(), "{output:?}");
        said.extend(output.stdout);
        said.extend(output.stderr);
    }
    said
}

/// Everything that can be made of the journal's files.
fn exports(sim: &Sim, state: &Path) -> Vec<u8> {
    let prices = sim.folder().join("prices.toml");
    let price =
        "[[price]]\ngpu = \"NVIDIA Simulated GPU\"\nmeter = \"held\"\nper_hour = \"1.25\"\n";
    std::fs::write(&prices, format!("currency = \"EUR\"\n{price}")).unwrap();
    let rules = sim.folder().join("rules.toml");
    let words = r"regex = '.*(?P<word>\S{9,}).*'";
    let rule = format!("[[rule]]\naccount = \"of ${{word}}\"\ncommand_line = {{ {words} }}\n");
    std::fs::write(&rules, rule).unwrap();
    let (prices, rules) = (prices.to_str().unwrap(), rules.to_str().unwrap());
    let bill = ["bill", "--period", "all"];
    let focus = ["--prices", prices, "--format", "focus"];
    let commands = [
        [&bill[..], &["--by", "process", "--format", "json"]].concat(),
        [&bill[..], &["--by", "process", "--format", "csv"]].concat(),
        [&bill[..], &["--by", "model"]].concat(),
        [&bill[..], &focus].concat(),
        vec!["explain", "--account", "train.py"],
        vec!["explain", "--account", "train.py", "--json"],
        vec!["rules", "replay", rules],
        vec!["rules", "replay", rules, "--json"],
        vec!["journal", "check"],
    ];
    let mut said = Vec::new();
    for words in commands {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        let output = command.args(&words).arg("--state-dir").arg(state).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 2)), "{words:?}: {output:?}");
        assert!(!output.stdout.is_empty(), "{words:?}: {output:?}");
        said.extend(output.stdout);
        said.extend(output.stderr);
    }
    said
}

/// A folder to which the daemon may write its meters.
fn meters(sim: &Sim) -> (PathBuf, String) {
    let folder = sim.folder().join("meters");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let config = format!(
        "[metrics]\ntextfile = \"{}\"\ninterval = \"100ms\"\n",
        folder.join("ledger.prom").display()
    );
    (folder, config)
}

/// Stops the daemon; what it logged.
fn log_of(daemon: Daemon<'_>) -> Vec<u8> {
    daemon.stop().into_bytes()
}

#[test]
fn a_secret_in_a_command_line_is_in_no_file_log_answer_or_report() {
    if !can_trace("a_secret_in_a_command_line_is_in_no_file_log_answer_or_report") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (meters, config) = meters(&sim);
    let daemon = Setup::on(&sim).config("log = \"trace\"\n").config(&config).start();
    let watching = sim.watch(&[]);
    // One that stays open, so that status and the meters of what is open have it.
    let mut open = job(&sim, "server.py", &["--api-key".to_owned(), format!("k{CANARY}9")]);
    let mut open = open.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(open.stdin.as_mut().unwrap(), b"open 0\n").unwrap();
    let count = run_all(&sim);
    daemon.until_booked(count);
    let page = poll("the meters are written", || std::fs::read(meters.join("ledger.prom")).ok());
    let said = answers(&sim);
    // While it runs: the log of the database holds what is not yet in it.
    let state = daemon.state().to_path_buf();
    let (found, files) = files_with(&state, CANARY);
    assert_eq!(found, Vec::<PathBuf>::new());
    assert!(files >= 5, "{files} files were searched");
    drop(open.stdin.take());
    open.wait().unwrap();
    daemon.until_booked(count + 1);
    let report = watching.report().to_string().into_bytes();
    let log = log_of(daemon);
    let exports = exports(&sim, &state);
    for (what, bytes) in [
        ("meters", &page),
        ("answers", &said),
        ("report", &report),
        ("log", &log),
        ("exports", &exports),
    ] {
        assert!(
            bytes.len() > 500 && !has(bytes, CANARY),
            "{what}: {}",
            String::from_utf8_lossy(bytes)
        );
    }
    assert_eq!(files_with(&state, CANARY).0, Vec::<PathBuf>::new());
    // And all of it was there to be found: what is no secret is kept and shown.
    assert_eq!(files_with(&state, PLAIN).0, [state.join("ledger.db")]);
    assert!(has(&report, PLAIN) && has(&report, "[redacted]") && has(&said, "train.py"));
    assert!(has(&exports, "--api-key [redacted]") && has(&exports, "train.py"));
    assert_sound(&state);
    let checked = check(&StateDir::at(&state)).unwrap();
    // The script that is called by a secret, and the server, beside the forms.
    assert_eq!((checked.argv_redacted, checked.argv_kept), (12, 12));
    commitments_are_over_what_was_captured(&sim, &state);
}

/// The commitments in the chain are over whole captures, which the test alone still knows.
fn commitments_are_over_what_was_captured(sim: &Sim, state: &Path) {
    let key = std::fs::read(state.join("argv.key")).unwrap();
    let key = CommitmentKey::new(key.try_into().unwrap());
    let script = sim.folder().join("train.py").into_os_string();
    let committed = |form: &Vec<String>| {
        let words = [python().as_os_str().to_owned(), script.clone()].into_iter();
        let words = words.chain(form.iter().map(OsString::from));
        let mut bytes: Vec<u8> = Vec::new();
        for word in words {
            bytes.extend_from_slice(word.as_encoded_bytes());
            bytes.push(0);
        }
        let true_length = u64::try_from(bytes.len()).ok();
        let state =
            if bytes.len() > ARGV_KEPT_MAX { ArgvState::Truncated } else { ArgvState::Whole };
        bytes.truncate(ARGV_KEPT_MAX);
        key.commit(&Argv { bytes: bytes.into(), true_length, state }).unwrap()
    };
    let reader = Reader::open(&StateDir::at(state)).unwrap();
    for form in forms() {
        let commitment = committed(&form);
        let mode = Some(CmdlineMode::Redacted);
        let kept = reader.argv(ArgvPlace { commitment, mode }).unwrap();
        let kept = kept.unwrap_or_else(|| panic!("nothing is committed to of {form:?}"));
        assert_eq!(kept.text, StoredText::Redacted, "{form:?}");
        assert!(!has(&kept.argv.bytes, CANARY) && has(&kept.argv.bytes, "[redacted]"));
    }
}

#[test]
fn each_mode_keeps_as_much_of_a_command_line_as_it_says() {
    if !can_trace("each_mode_keeps_as_much_of_a_command_line_as_it_says") {
        return;
    }
    for (mode, has_secret, has_plain) in [
        ("none", false, false),
        ("exe", false, false),
        ("redacted", false, true),
        ("full", true, true),
    ] {
        let sim = Sim::start(&["--gpus", "1"]);
        let daemon = Setup::on(&sim).config(&format!("cmdline = \"{mode}\"\n")).start();
        let watching = sim.watch(&["--cmdline", mode]);
        let words = ["--token", &format!("k{CANARY}9"), PLAIN].map(str::to_owned);
        assert!(job(&sim, "train.py", &words).status().unwrap().success());
        daemon.until_booked(1);
        let report = watching.report().to_string().into_bytes();
        let state = daemon.state().to_path_buf();
        daemon.stop();
        assert_eq!((has(&report, CANARY), has(&report, PLAIN)), (has_secret, has_plain), "{mode}");
        let found = |wanted| !files_with(&state, wanted).0.is_empty();
        assert_eq!((found(CANARY), found(PLAIN)), (has_secret, has_plain), "{mode}");
        let report = check(&StateDir::at(&state)).unwrap();
        assert!(report.is_whole(), "{mode}: {:?}", report.faults);
        let kept = (report.argv_kept, report.argv_redacted, report.argv_absent);
        let wanted = match mode {
            "none" => (0, 0, 1),
            "full" => (1, 0, 0),
            _ => (1, 1, 0),
        };
        assert_eq!(kept, wanted, "{mode}");
    }
}

/// What is kept from then on, and nothing that was kept before.
#[test]
fn a_reload_changes_how_much_is_kept_from_then_on() {
    if !can_trace("a_reload_changes_how_much_is_kept_from_then_on") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).config("cmdline = \"full\"\n").start();
    let run = |first: &str| {
        let words = [first, "--token", &format!("k{CANARY}9")].map(str::to_owned);
        assert!(job(&sim, "train.py", &words).status().unwrap().success());
    };
    run("before");
    daemon.until_booked(1);
    std::fs::write(daemon.config_path(), "cmdline = \"redacted\"\n").unwrap();
    daemon.signal(rustix::process::Signal::HUP);
    daemon.until_logged("in force now");
    run("after");
    daemon.until_booked(2);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let texts = |wanted: &str| {
        let bytes = std::fs::read(state.join("ledger.db")).unwrap();
        bytes.windows(wanted.len()).filter(|window| *window == wanted.as_bytes()).count()
    };
    let secret = format!("--token\0k{CANARY}9");
    assert_eq!((texts(&format!("before\0{secret}")), texts(CANARY)), (1, 1));
    assert_eq!(texts("after\0--token\0[redacted]"), 1);
    assert_sound(&state);
}

/// What is kept of one command line follows the mode in force, in either direction, and each settlement is told with its
/// own and no other.
#[test]
fn the_same_command_line_is_kept_anew_under_each_mode() {
    if !can_trace("the_same_command_line_is_kept_anew_under_each_mode") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let modes = ["exe", "full", "redacted", "none", "full", "exe"];
    let daemon = Setup::on(&sim).config(&format!("cmdline = \"{}\"\n", modes[0])).start();
    let secret = format!("k{CANARY}9");
    for (at, mode) in modes.iter().enumerate() {
        if at > 0 {
            std::fs::write(daemon.config_path(), format!("cmdline = \"{mode}\"\n")).unwrap();
            daemon.signal(rustix::process::Signal::HUP);
            let in_force = || daemon.log().matches("in force now").count() >= at;
            poll("the mode is in force", || in_force().then_some(()));
        }
        let words = ["--token", &secret].map(str::to_owned);
        assert!(job(&sim, "train.py", &words).status().unwrap().success());
        daemon.until_booked(at + 1);
    }
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let mut explain = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    let output = explain.args(["explain", "--account", "train.py", "--json", "--state-dir"]);
    let output = output.arg(&state).output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = told["settlements"].as_array().unwrap();
    assert_eq!(told.len(), modes.len());
    for (one, mode) in told.iter().zip(modes) {
        let who = &one["who"];
        assert_eq!(who["argv_mode"], mode, "{one}");
        let words = who["argv"]
            .as_array()
            .map(|words| words.iter().skip(1).filter_map(|word| word.as_str()));
        let words = words.map(|words| words.skip(1).collect::<Vec<_>>());
        let wanted = match mode {
            "none" => None,
            "exe" => Some(vec![]),
            "redacted" => Some(vec!["--token", "[redacted]"]),
            _ => Some(vec!["--token", secret.as_str()]),
        };
        assert_eq!(words, wanted, "{mode}: {one}");
    }
    assert_sound(&state);
}
