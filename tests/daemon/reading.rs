//! Bills that the daemon reads for others: who sees what, when they speak of, and what of a broken stream.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use gpu_ledger::journal::Figures;
use serde_json::{Value, json};

use crate::daemon::{Daemon, NOBODY, Setup};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

/// A mark that is no older is good enough for a reader.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// Two users of the machine that have no name on it.
const ONE: u32 = 61_001;
const OTHER: u32 = 61_002;

/// A program, run by a user with this group and no capability; by root as root is.
fn as_user(uid: u32, gid: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
    if uid == 0 {
        let mut command = Command::new(program);
        command.env_remove("GPU_LEDGER_TEST_CLOCK");
        return command;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--clear-groups"]);
    command.args(["--inh-caps", "-all", "--ambient-caps", "-all", "--bounding-set", "-all"]);
    command.arg(program).env_remove("GPU_LEDGER_TEST_CLOCK");
    command
}

/// `gpu-ledger bill` by a user.
fn bill(uid: u32, gid: u32, words: &[&str]) -> Output {
    let mut command = as_user(uid, gid, env!("CARGO_BIN_EXE_gpu-ledger"));
    command.arg("bill").args(words).output().unwrap()
}

fn socket(sim: &Sim) -> PathBuf {
    sim.folder().join("run/daemon.sock")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn value(output: &Output) -> Value {
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr))
    });
    let schema = include_str!("../../gpu-ledger/schema/bill.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&bill).map(|error| error.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{bill}");
    bill
}

/// Runs a job of the workload under another name as a user; the command is over when it is.
fn job(sim: &Sim, uid: u32, name: &str, ms: u32) -> std::process::Child {
    let mut command = as_user(uid, uid, sim.program_called(name));
    command.args(["work", "--gpu", "0", "--ms", &ms.to_string()]);
    command.env("NVSIM_SOCKET", sim.socket()).stdout(std::process::Stdio::null());
    command.spawn().unwrap()
}

/// A daemon whose journal has rows of root, of one user and of another, two of them at one time; and the
/// words for a period that has them all and does not change any more.
fn booked<'sim>(sim: &'sim Sim, config: &str) -> (Daemon<'sim>, [String; 4]) {
    let daemon = Setup::on(sim).config(config).start();
    let since = jiff::Timestamp::now();
    let jobs = [(0, "whisper"), (OTHER, "train"), (ONE, "mine")];
    let children = jobs.map(|(uid, name)| job(sim, uid, name, 400));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    daemon.until_booked(3);
    let until = jiff::Timestamp::now();
    let words = ["--since", &since.to_string(), "--until", &until.to_string()].map(str::to_owned);
    // Up to its end it is only known by a mark.
    poll("a mark after it", || {
        let bill =
            value(&bill(0, 0, &["--socket", socket(sim).to_str().unwrap(), "--format", "json"]));
        let as_of: jiff::Timestamp = bill["as_of"].as_str().unwrap().parse().unwrap();
        (as_of > until).then_some(())
    });
    (daemon, words)
}

fn lines(bill: &Value) -> Vec<(String, u64)> {
    let lines = bill["accounts"].as_array().unwrap().iter();
    let mut lines: Vec<(String, u64)> = lines
        .map(|line| {
            (line["account"].as_str().unwrap().to_owned(), line["settlements"].as_u64().unwrap())
        })
        .collect();
    lines.sort();
    lines
}

fn owned(lines: &[(&str, u64)]) -> Vec<(String, u64)> {
    lines.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// The four parts of each GPU's statement.
fn statements(bill: &Value) -> Vec<[u64; 5]> {
    let parts = ["alone_ms", "shared_ms", "free_ms", "uncovered_ms", "period_ms"];
    let gpus = bill["gpus"].as_array().unwrap().iter();
    gpus.map(|gpu| parts.map(|part| gpu[part].as_u64().unwrap())).collect()
}

/// Bills of one period that the daemon is asked for.
struct Asking {
    words: Vec<String>,
}

impl Asking {
    fn of(sim: &Sim, period: &[String]) -> Self {
        let mut words = vec!["--socket".to_owned(), socket(sim).to_str().unwrap().to_owned()];
        words.extend(period.iter().cloned());
        Self { words }
    }

    fn by(&self, (uid, gid): (u32, u32), more: &[&str]) -> Output {
        let words: Vec<&str> =
            self.words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        bill(uid, gid, &words)
    }

    fn json(&self, user: (u32, u32), more: &[&str]) -> Value {
        value(&self.by(user, &[&["--format", "json"], more].concat()))
    }
}

const ROOT: (u32, u32) = (0, 0);

#[test]
fn root_and_the_group_see_all_and_a_user_their_own_lines_and_every_statement_is_the_same() {
    const TEST: &str =
        "root_and_the_group_see_all_and_a_user_their_own_lines_and_every_statement_is_the_same";
    if !can_trace(TEST) {
        return;
    }
    let group = nix::unistd::Group::from_gid(60.into()).unwrap().expect("the group games");
    let sim = Sim::start(&["--gpus", "1"]);
    let config = format!("[socket]\ngroup = \"{}\"\n", group.name);
    let (daemon, period) = booked(&sim, &config);
    let asking = Asking::of(&sim, &period);

    let root = asking.json(ROOT, &[]);
    assert_eq!(lines(&root), owned(&[("mine", 1), ("train", 1), ("whisper", 1)]));
    assert_eq!(
        root["reading"],
        json!({
            "through": "daemon", "proven": "entries", "only_uid": null, "only_user": null,
            "end_witnessed": true,
        })
    );
    // Read by the files it is the same bill, with more of it proven.
    let mut files = vec!["--state-dir", daemon.state().to_str().unwrap(), "--format", "json"];
    files.extend(period.iter().map(String::as_str));
    let by_files = value(&bill(0, 0, &files));
    assert_eq!(by_files["reading"]["proven"], "journal");
    for part in ["bill_id", "accounts", "gpus", "unattributed", "driver", "host", "journal_head"] {
        assert_eq!(by_files[part], root[part], "{part}");
    }

    let member = asking.json((ONE, group.gid.as_raw()), &[]);
    assert_eq!((lines(&member), &member["reading"]), (lines(&root), &root["reading"]));

    let own = asking.json((ONE, ONE), &[]);
    assert_eq!(lines(&own), owned(&[("mine", 1), ("other users", 2)]));
    let reading = &own["reading"];
    assert_eq!((&reading["proven"], &reading["only_uid"]), (&json!("nothing"), &json!(ONE)));
    let mut folded = own["accounts"].as_array().unwrap().iter();
    let folded = folded.find(|line| line["account"] == "other users").unwrap();
    assert_eq!((&folded["classified"], &folded["uid"]), (&Value::Null, &Value::Null));
    assert_ne!(own["bill_id"], root["bill_id"]);
    let nobodys = asking.json((61_003, 61_003), &[]);
    assert_eq!(lines(&nobodys), owned(&[("other users", 3)]));
    // Three that held it at once are three for everybody: shared to the same millisecond.
    assert!(statements(&root)[0][1] > 0, "{root}");
    for other in [&member, &own, &nobodys] {
        assert_eq!(statements(other), statements(&root));
        assert_eq!(other["settlements_total"], root["settlements_total"]);
        assert_eq!(other["span_ms_total"], root["span_ms_total"]);
    }
    daemon.stop();
}

#[test]
fn in_no_form_does_a_bill_name_another_user_or_what_they_run() {
    if !can_trace("in_no_form_does_a_bill_name_another_user_or_what_they_run") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, period) = booked(&sim, "");
    let asking = Asking::of(&sim, &period);
    let me = (ONE, ONE);
    for by in ["account", "user", "program", "gpu", "process"] {
        for format in ["json", "csv", "table", "line"] {
            let said = text(&asking.by(me, &["--by", by, "--format", format]).stdout);
            assert!(!said.is_empty(), "{by} {format}");
            assert!(!said.contains("whisper") && !said.contains("train"), "{by} {format}: {said}");
            assert!(!said.contains(&OTHER.to_string()), "{by} {format}: {said}");
        }
    }
    let listed = asking.json(me, &["--by", "process"]);
    let settled = listed["settlements"].as_array().unwrap();
    assert_eq!((settled.len(), &settled[0]["uid"]), (1, &json!(ONE)));
    let users = asking.json(me, &["--by", "user"]);
    assert_eq!(lines(&users), owned(&[("other users", 2), ("uid 61001", 1)]));
    let page = text(&asking.by(me, &[]).stdout);
    assert!(page.contains("lines of uid 61001 alone"), "{page}");
    assert!(page.contains("its word, nothing of it was proven here"), "{page}");
    crate::ledger::assert_fits_a_terminal(&page);
    daemon.stop();
}

#[test]
fn who_may_not_open_the_journal_asks_the_daemon_by_themselves_or_is_told_how() {
    const TEST: &str = "who_may_not_open_the_journal_asks_the_daemon_by_themselves_or_is_told_how";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, _) = booked(&sim, "");
    let state = daemon.state().to_str().unwrap().to_owned();
    let config = sim.folder().join("reader.toml");
    let lines = format!(
        "state_dir = \"{state}\"\n[socket]\npath = \"{}\"\n",
        socket(&sim).to_str().unwrap()
    );
    std::fs::write(&config, lines).unwrap();
    let config = config.to_str().unwrap();
    let own = value(&bill(ONE, ONE, &["--config", config, "--format", "json"]));
    assert_eq!(
        (&own["reading"]["through"], &own["reading"]["only_uid"]),
        (&json!("daemon"), &json!(ONE))
    );
    let root = value(&bill(0, 0, &["--config", config, "--format", "json"]));
    assert_eq!(root["reading"]["through"], "files", "who may read the files reads them");
    let refused = bill(ONE, ONE, &["--state-dir", &state]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("gpu-ledger bill --socket /"), "{said}");
    assert_eq!(said.matches("ermission denied").count(), 1, "said once: {said}");
    assert!(refused.stdout.is_empty());
    daemon.stop();
    let nobody = bill(ONE, ONE, &["--config", config]);
    let said = text(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(said.contains(&state) && said.contains("no daemon answers"), "{said}");
    // A journal in a folder that lets everybody in is as closed as its file.
    let folder = sim.folder().join("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("ledger.db"), "x").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(folder.join("ledger.db"), mode).unwrap();
    let refused = bill(ONE, ONE, &["--state-dir", folder.to_str().unwrap()]);
    let said = text(&refused.stderr);
    assert!(said.contains("ermission denied") && said.contains("--socket"), "{said}");
}

/// Hands a request on to the daemon, and of its answer what `change` leaves.
fn between(
    sim: &Sim,
    name: &str,
    change: impl Fn(Vec<String>) -> Vec<String> + Send + 'static,
) -> PathBuf {
    let path = sim.folder().join(name);
    let listener = UnixListener::bind(&path).unwrap();
    let daemon = socket(sim);
    std::thread::spawn(move || {
        for asking in listener.incoming().map_while(Result::ok) {
            let mut request = String::new();
            BufReader::new(&asking).read_line(&mut request).unwrap();
            let mut asked = UnixStream::connect(&daemon).unwrap();
            asked.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            asked.read_to_string(&mut answer).unwrap();
            let lines = answer.split_inclusive('\n').map(str::to_owned).collect();
            let left = change(lines).concat();
            // Whoever reads may have had enough.
            let _ = (&asking).write_all(left.as_bytes());
        }
    });
    path
}

#[test]
fn of_a_stream_that_is_not_whole_nothing_is_used() {
    if !can_trace("of_a_stream_that_is_not_whole_nothing_is_used") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, _) = booked(&sim, "");
    let asked = |path: &Path| bill(0, 0, &["--socket", path.to_str().unwrap(), "--period", "all"]);
    let whole = between(&sim, "whole", |lines| lines);
    let output = asked(&whole);
    assert!(text(&output.stdout).contains("mine"), "{}", text(&output.stderr));
    let refused = |name: &str, why: &str, change: fn(Vec<String>) -> Vec<String>| {
        let output = asked(&between(&sim, name, change));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(output.stdout.is_empty(), "{name}: {}", text(&output.stdout));
        assert!(said.contains(why), "{name}: {said}");
    };
    refused("in-the-middle", "broke off after", |lines| lines[..lines.len() / 2].to_vec());
    refused("before-the-end", "broke off after", |lines| lines[..lines.len() - 1].to_vec());
    refused("in-the-last-line", "broke off after", |mut lines| {
        let last = lines.last_mut().unwrap();
        last.pop();
        lines
    });
    refused("at-once", "broke off after 0 entries", |_| Vec::new());
    refused("a-line-less", "entries were sent, and", |mut lines| {
        lines.remove(lines.len() / 2);
        lines
    });
    refused("changed", "was changed", |mut lines| {
        let place = lines.len() / 2;
        let mut line: Value = serde_json::from_str(&lines[place]).unwrap();
        let (body, other) = (line["body"].clone(), &lines[place - 1]);
        line["body"] = serde_json::from_str::<Value>(other).unwrap()["body"].clone();
        assert_ne!(line["body"], body);
        lines[place] = format!("{line}\n");
        lines
    });
    refused("without-seals", "without its seal", |lines| {
        let unsealed = |line: &String| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("seal");
            format!("{line}\n")
        };
        lines.iter().map(unsealed).collect()
    });
    refused("refused", "ask again", |_| {
        vec!["{\"version\":1,\"error\":\"the journal is being read; ask again\"}\n".to_owned()]
    });
    daemon.stop();
}

#[test]
fn a_bill_through_the_daemon_speaks_of_now_and_no_reader_makes_marks_without_end() {
    const TEST: &str =
        "a_bill_through_the_daemon_speaks_of_now_and_no_reader_makes_marks_without_end";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let began = Instant::now();
    let path = socket(&sim);
    let words = ["--socket", path.to_str().unwrap(), "--format", "json"];
    // Until the first mark is too old, so that one is needed.
    let now = poll("time passes", || (began.elapsed() > FRESH_FOR).then(jiff::Timestamp::now));
    let bill_now = value(&bill(ONE, ONE, &words));
    let as_of: jiff::Timestamp = bill_now["as_of"].as_str().unwrap().parse().unwrap();
    assert!(as_of >= now, "{as_of} was before {now}");
    // So nothing of it is unseen, nor left to the next read.
    let gpu = &bill_now["gpus"][0];
    assert_eq!((&gpu["alone_ms"], &gpu["shared_ms"]), (&json!(0), &json!(0)));
    for _ in 0..20 {
        value(&bill(ONE, ONE, &words));
    }
    let marks =
        daemon.journal().into_iter().filter(|entry| matches!(entry.figures, Figures::Mark(_)));
    let most = 2 + began.elapsed().as_secs() / FRESH_FOR.as_secs();
    assert!(u64::try_from(marks.count()).unwrap() <= most, "more than {most} marks");
    daemon.stop();
}

#[test]
fn a_user_who_asks_for_everything_at_once_keeps_nobody_else_out() {
    if !can_trace("a_user_who_asks_for_everything_at_once_keeps_nobody_else_out") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let python = "import socket,sys,time\n\
        held=[]\n\
        for _ in range(200):\n\
        \x20 s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); held.append(s)\n\
        \x20 try: s.sendall(sys.argv[2].encode()+b'\\n')\n\
        \x20 except OSError: pass\n\
        print('asked', flush=True)\n\
        sys.stdin.read()\n";
    // They ask for the whole journal two hundred times, and take nothing of it.
    let rows = json!({ "version": 1, "request": "rows", "from_ms": 0, "to_ms": u64::MAX });
    let mut greedy = as_user(ONE, ONE, crate::ledger::python());
    greedy.args(["-c", python]).arg(socket(&sim)).arg(rows.to_string());
    greedy.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut greedy = greedy.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(greedy.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "asked\n");
    let path = socket(&sim);
    for (uid, of) in [(0, "root"), (OTHER, "another user"), (NOBODY, "the daemon's user")] {
        let words = ["--socket", path.to_str().unwrap(), "--format", "json"];
        let bill = value(&bill(uid, uid, &words));
        assert_eq!(bill["settlements_total"], 1, "{of}");
    }
    greedy.kill().unwrap();
    greedy.wait().unwrap();
    daemon.stop();
}

#[test]
fn an_idle_gpu_is_not_called_free_before_its_empty_list_can_be_believed() {
    if !can_trace("an_idle_gpu_is_not_called_free_before_its_empty_list_can_be_believed") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    // Nobody sees who opens a GPU: an empty list is then all that is known, and a mode that was reset looks
    // the same.
    let daemon =
        Setup::on(&sim).config("device_touch = false\nmark_interval = \"100ms\"\n").start();
    let path = socket(&sim);
    let asked = || value(&bill(0, 0, &["--socket", path.to_str().unwrap(), "--format", "json"]));
    let marks =
        || daemon.journal().into_iter().filter(|entry| matches!(entry.figures, Figures::Mark(_)));
    poll("marks", || (marks().count() > 5).then_some(()));
    let idle = asked();
    let gpu = &idle["gpus"][0];
    assert_eq!(gpu["free_ms"], 0, "{gpu}");
    assert!(gpu["uncovered_ms"].as_u64() > Some(0) && gpu["unread_ms"] == 0, "{gpu}");
    let why = |bill: &Value| {
        let unknown = bill["unknown"].as_array().unwrap().iter();
        unknown.filter(|line| line["reason"] == "empty-accounted-list").count()
    };
    assert_eq!(why(&idle), 1, "{idle}");
    // A row that is listed proves that nothing was reset before it.
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let seen = marks().count();
    poll("a mark after it", || (marks().count() > seen + 1).then_some(()));
    let proven = asked();
    assert!(proven["gpus"][0]["free_ms"].as_u64() > Some(0), "{}", proven["gpus"]);
    assert_eq!(why(&proven), 0, "{proven}");
    daemon.stop();
}

#[test]
fn what_comes_into_sight_is_marked_at_once_and_not_after_a_whole_interval() {
    if !can_trace("what_comes_into_sight_is_marked_at_once_and_not_after_a_whole_interval") {
        return;
    }
    let sim = Sim::start(&["--gpus", "2", "--accounting", "off"]);
    let daemon = Setup::on(&sim).config("mark_interval = \"1h\"\n").start();
    let first =
        daemon.until_entered("the first mark", |figures| matches!(figures, Figures::Mark(_)));
    let Figures::Mark(mark) = &first.figures else { unreachable!() };
    // That it is off is an answer: nothing was missed of a GPU that keeps no rows.
    assert!(
        mark.gpus.len() == 2 && mark.gpus.iter().all(|gpu| gpu.last_good.is_some()),
        "{mark:?}"
    );
    sim.fault("accounting on");
    let began =
        daemon.until_entered("the epoch begins", |figures| matches!(figures, Figures::Epoch(_)));
    poll("it is marked", || {
        let entries = daemon.journal();
        let mut later = entries.iter().filter(|entry| entry.seq > began.seq);
        later.any(|entry| matches!(entry.figures, Figures::Mark(_))).then_some(())
    });
    daemon.stop();
}
