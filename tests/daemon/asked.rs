//! What clients ask: status, release, mark; who may; and clients that mean no good.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};

use gpu_ledger::journal::Figures;
use gpu_ledger::unknown::GapCause;
use serde_json::{Value, json};

use crate::booked::Books;
use crate::daemon::{NOBODY, Setup, assert_sound, journal};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

pub(crate) fn ledger(sim: &Sim, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    command.args(words);
    if words[0] != "journal" {
        command.arg("--socket").arg(socket(sim));
    }
    if ["journal", "status"].contains(&words[0]) {
        command.arg("--state-dir").arg(sim.folder().join("state"));
    }
    command.output().unwrap()
}

fn socket(sim: &Sim) -> PathBuf {
    sim.folder().join("run/daemon.sock")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn status(sim: &Sim) -> Value {
    let output = ledger(sim, &["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr))
    });
    let schema = include_str!("../../gpu-ledger/schema/status.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema.iter_errors(&status).map(|error| error.to_string()).collect();
    assert_eq!(faults, Vec::<String>::new(), "{status}");
    status
}

fn ask(sim: &Sim, request: &Value) -> Value {
    let mut stream = UnixStream::connect(socket(sim)).unwrap();
    stream.write_all(format!("{request}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.lines().last().unwrap()).unwrap()
}

#[test]
fn status_says_since_when_this_run_watches_and_every_gap_of_the_journal() {
    if !can_trace("status_says_since_when_this_run_watches_and_every_gap_of_the_journal") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    for _ in 0..2 {
        Setup::on(&sim).start().stop();
    }
    let third = jiff::Timestamp::now().to_string();
    let daemon = Setup::on(&sim).start();
    let coverage = poll("the journal is summed", || {
        let coverage = status(&sim)["coverage"].clone();
        coverage["journal_gaps"].is_array().then_some(coverage)
    });
    let gaps = poll("both times without a daemon are on the disk", || {
        let gaps = status(&sim)["coverage"]["journal_gaps"].clone();
        (gaps[0]["count"] == 2).then_some(gaps)
    });
    assert_eq!(gaps[0]["cause"], "agent-down", "{gaps}");
    let began = coverage["began"].as_str().unwrap();
    assert!(began > third.as_str(), "{coverage}: the third run began after {third}");
    assert_eq!(coverage["event_gaps"], 0, "{coverage}: no event was missed since then");
    let page = text(&ledger(&sim, &["status"]).stdout);
    assert!(page.contains("  gaps in the journal: 2 agent-down ("), "{page}");
    crate::ledger::assert_fits_a_terminal(&page);
    daemon.stop();
    let offline = status(&sim);
    let began = offline["coverage"]["began"].as_str().unwrap();
    assert!(began > third.as_str(), "{offline}: the last run began after {third}");
    assert_eq!(offline["coverage"]["journal_gaps"], gaps, "the journal alone says it too");
}

#[test]
fn status_says_what_is_open_and_what_the_journal_alone_says() {
    if !can_trace("status_says_what_is_open_and_what_the_journal_alone_says") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    poll("it is open", || (status(&sim)["open"][0]["account"] == "server.py").then_some(()));
    let now = status(&sim);
    assert_eq!(now["health"], json!({ "well": true, "reasons": [] }), "{now}");
    assert_eq!(now["open"][0]["pid"], server.pid());
    assert_eq!(now["driver"]["kind"], "simulated");
    assert!(now["open"][0]["accrued_ms"].is_u64() && now["open"][0]["start"].is_string());
    poll("its memory is known", || {
        (status(&sim)["open"][0]["memory_bytes"] == 64 << 20).then_some(())
    });
    let page = ledger(&sim, &["status"]);
    let said = text(&page.stdout);
    assert!(said.contains("  OPEN          server.py"), "{said}");
    assert!(said.contains("memory 64 MiB"), "{said}");
    crate::ledger::assert_fits_a_terminal(&said);
    // A range, of what was sampled: the sums of version 2 here.
    let busy = poll("its busy range is known", || {
        let open = status(&sim)["open"][0].clone();
        open["busy_source"].is_string().then_some(open)
    });
    assert!(busy["busy_ms_low"].as_u64() <= busy["busy_ms_high"].as_u64(), "{busy}");
    assert!(busy["busy_ms_high"].as_u64() <= busy["accrued_ms"].as_u64(), "{busy}");
    server.end();
    daemon.until_booked(1);
    let marked = ledger(&sim, &["mark", "new rack"]);
    assert!(marked.status.success(), "{}", text(&marked.stderr));
    daemon.until_entered("the mark", |figures| {
        matches!(figures, Figures::Mark(mark) if mark.note.as_deref() == Some("new rack"))
    });
    let is_shown = |status: &Value| {
        let note = &status["notes"][0];
        note["note"] == "new rack" && note["at"].as_str().is_some_and(|at| at.starts_with("20"))
    };
    assert!(is_shown(&status(&sim)), "{}", status(&sim)["notes"]);
    let page = text(&ledger(&sim, &["status"]).stdout);
    assert!(page.contains(" new rack\n"), "{page}");
    daemon.stop();
    assert!(!socket(&sim).exists());
    assert!(is_shown(&status(&sim)), "the journal alone says it too");
    let again = Setup::on(&sim).start();
    assert!(is_shown(&status(&sim)), "the next daemon knows it");
    again.stop();
    let output = ledger(&sim, &["status", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let alone = status(&sim);
    assert_eq!((&alone["daemon"], &alone["journal"]["settlements"]), (&Value::Null, &json!(1)));
    assert_eq!(alone["health"]["reasons"][0]["reason"], "no-daemon");
    let check = ledger(&sim, &["journal", "check"]);
    assert!(check.status.success(), "{}", text(&check.stdout));
}

#[test]
fn released_the_driver_has_no_client_left_and_comes_back() {
    if !can_trace("released_the_driver_has_no_client_left_and_comes_back") {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let daemon = Setup::on(&sim).start();
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let clients = || {
        let asked = nvsim::fault::ask(&sim.socket(), &["clients"]).unwrap();
        asked.trim().to_owned()
    };
    assert_ne!(clients(), "0");
    let released = ledger(&sim, &["release", "--for", "1h"]);
    assert!(released.status.success(), "{}", text(&released.stderr));
    assert_eq!(clients(), "0");
    assert!(status(&sim)["gpus"].as_array().unwrap().iter().all(|gpu| gpu["released"] == true));
    let ended = ledger(&sim, &["release", "--end"]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    sim.work("--ms 10").wait();
    daemon.until_booked(2);
    daemon.until_entered(
        "the time is a gap",
        |figures| matches!(figures, Figures::Gap(gap) if gap.cause == GapCause::Released),
    );
    one_gpu_by_its_words(&sim);
    // After a time it comes back alone.
    let released = ledger(&sim, &["release", "--for", "300ms"]);
    assert!(released.status.success(), "{}", text(&released.stderr));
    sim.work("--ms 10").wait();
    daemon.until_booked(3);
    let state = daemon.state().to_path_buf();
    daemon.stop();
    let books = Books::of(&journal(&state));
    assert_eq!(books.faults(&sim.truth()), Vec::<String>::new());
    assert_sound(&state);
}

/// By index and by the beginning of its UUID; a name of none is refused with those there are.
fn one_gpu_by_its_words(sim: &Sim) {
    let gpus = status(sim)["gpus"].clone();
    let uuid = gpus[1]["uuid"].as_str().unwrap();
    for word in ["1", uuid, uuid.trim_start_matches("GPU-")] {
        let released = ledger(sim, &["release", "--for", "1d", "--gpu", word]);
        let said = text(&released.stdout);
        assert!(released.status.success(), "{word}: {}", text(&released.stderr));
        assert!(said.starts_with(&format!("released for 24h: {uuid}\n")), "{said}");
        let ended = ledger(sim, &["release", "--end", "--gpu", word]);
        assert_eq!(text(&ended.stdout), "every handle is taken up again\n");
    }
    for words in [&["release", "--gpu", "7"][..], &["release", "--end", "--gpu", "7"]] {
        let refused = ledger(sim, words);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(64), "{said}");
        assert!(said.contains("no GPU is called 7; there are: 0 (GPU-"), "{said}");
    }
}

#[test]
fn a_status_is_about_the_journal_that_was_named() {
    if !can_trace("a_status_is_about_the_journal_that_was_named") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let config = sim.folder().join("reader.toml");
    std::fs::write(&config, format!("[socket]\npath = {:?}\n", socket(&sim))).unwrap();
    let config = config.to_str().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        command.args(words).args(["--config", config]).output().unwrap()
    };
    let of = |folder: &str| run(&["status", "--json", "--state-dir", folder]);
    let own: Value = serde_json::from_slice(&of(daemon.state().to_str().unwrap()).stdout).unwrap();
    assert_eq!(own["daemon"]["pid"], daemon.pid());
    // Of another one this daemon says nothing.
    let other = of("/nonexistent/journal");
    let said = text(&other.stderr);
    assert_eq!((other.status.code(), &*other.stdout), (Some(1), &b""[..]), "{said}");
    assert!(said.contains("writes the journal of") && said.contains("/nonexistent"), "{said}");
    let path = socket(&sim);
    let both = ["status", "--socket", path.to_str().unwrap(), "--state-dir", "/nonexistent"];
    assert_eq!(run(&both).status.code(), Some(64));
    let doctor = run(&["doctor", "--json", "--state-dir", daemon.state().to_str().unwrap()]);
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let checks = doctor["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == "daemon").unwrap();
    let cause = found["cause"].as_str().unwrap();
    assert!(cause.starts_with(&format!("process {} answers at", daemon.pid())), "{cause}");
    daemon.stop();
}

#[test]
fn device_touch_that_lacks_its_capability_says_so() {
    if !can_trace("device_touch_that_lacks_its_capability_says_so") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).capabilities("-all,+bpf,+perfmon").start();
    let off = status(&sim)["coverage"]["device_touch_off_because"].clone();
    let why = off.as_str().unwrap();
    assert!(why.starts_with("CAP_NET_ADMIN is not held"), "{why}");
    assert!(why.contains("grant CAP_NET_ADMIN") && !why.contains("Verifier"), "{why}");
    let log = daemon.stop();
    assert!(log.contains("device-touch off: CAP_NET_ADMIN is not held"), "{log}");
}

/// No read shows that it is over; its process is known to be.
#[test]
fn what_ended_while_the_driver_hangs_accrues_no_more() {
    if !can_trace("what_ended_while_the_driver_hangs_accrues_no_more") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let mut server = sim.actor("server.py");
    server.told("open 0");
    let accrued = || status(&sim)["open"][0]["accrued_ms"].as_u64();
    poll("it is open and accrues", || {
        let before = accrued()?;
        accrued().filter(|after| *after > before)
    });
    sim.fault("hang nvmlDeviceGetAccountingPids");
    server.end();
    poll("its end was seen", || {
        let before = accrued()?;
        accrued().filter(|after| *after == before)
    });
    sim.fault("heal");
    daemon.until_booked(1);
    daemon.stop();
}

/// Whoever was promised a GPU for an hour has it for an hour, whatever else is given back beside it.
#[test]
fn a_release_ends_no_other_one() {
    if !can_trace("a_release_ends_no_other_one") {
        return;
    }
    let sim = Sim::start(&["--gpus", "2"]);
    let daemon = Setup::on(&sim).start();
    sim.work("--gpu 1 --ms 10").wait();
    daemon.until_booked(1);
    let gpus = status(&sim)["gpus"].clone();
    let first = gpus[0]["uuid"].as_str().unwrap().to_owned();
    let is_released = || {
        let gpus = status(&sim)["gpus"].clone();
        [0, 1].map(|gpu| gpus[gpu]["released"].as_bool().unwrap())
    };
    for asked in [["--gpu", &first, "--for", "1h"].as_slice(), &["--for", "300ms"]] {
        let released = ledger(&sim, &[&["release"], asked].concat());
        assert!(released.status.success(), "{}", text(&released.stderr));
    }
    poll("the second one comes back", || (!is_released()[1]).then_some(()));
    assert_eq!(is_released(), [true, false]);
    sim.work("--gpu 1 --ms 10").wait();
    daemon.until_booked(2);
    // The other way round, and one alone is wanted back.
    for asked in [["--for", "1h"].as_slice(), &["--gpu", &first, "--end"]] {
        let asked = ledger(&sim, &[&["release"], asked].concat());
        assert!(asked.status.success(), "{}", text(&asked.stderr));
    }
    assert_eq!(is_released(), [false, true]);
    let ended = ledger(&sim, &["release", "--end"]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_eq!(is_released(), [false, false]);
    daemon.stop();
}

#[test]
fn everybody_may_connect_and_strangers_see_no_more_than_sums() {
    const TEST: &str = "everybody_may_connect_and_strangers_see_no_more_than_sums";
    if !can_trace(TEST) {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let meta = std::fs::metadata(socket(&sim)).unwrap();
    assert_eq!((meta.mode() & 0o777, meta.uid()), (0o666, NOBODY));
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let python = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                  s.sendall(sys.argv[2].encode()+b'\\n'); \
                  sys.stdout.write(b''.join(iter(lambda: s.recv(65536), b'')).decode())";
    let as_stranger = |request: &Value| {
        let user = ["--reuid", "1", "--regid", "1", "--clear-groups"];
        let mut command = Command::new("setpriv");
        command
            .args(user)
            .arg(crate::ledger::python())
            .args(["-c", python])
            .arg(socket(&sim))
            .arg(request.to_string());
        text(&command.output().unwrap().stdout)
    };
    let rows = json!({ "version": 1, "request": "rows", "from_ms": 0, "to_ms": u64::MAX });
    let own = ask(&sim, &rows);
    assert_eq!(
        (&own["end"]["sees_all"], own["end"]["booked"][0]["count"].as_u64()),
        (&json!(true), Some(1))
    );
    let theirs = as_stranger(&rows);
    let last: Value = serde_json::from_str(theirs.lines().last().unwrap()).unwrap();
    assert_eq!(last["end"]["sees_all"], false, "{theirs}");
    assert!(theirs.lines().count() > 3);
    for privileged in [
        json!({ "version": 1, "request": "release" }),
        json!({ "version": 1, "request": "release", "end": true }),
        json!({ "version": 1, "request": "mark", "note": "mine" }),
    ] {
        let refused = as_stranger(&privileged);
        assert!(refused.contains("only root and members"), "{refused}");
        assert!(refused.contains("(gpu-ledger)") && refused.contains("sudo"), "{refused}");
    }
    let noted = ledger(&sim, &["mark", "of root"]);
    assert!(noted.status.success(), "{}", text(&noted.stderr));
    let theirs = as_stranger(&json!({ "version": 1, "request": "status" }));
    assert!(theirs.contains("\"notes\":[]") && !theirs.contains("of root"), "{theirs}");
    // What the socket asks of the loop is nobody's to ask.
    let internal = as_stranger(&json!({ "version": 1, "request": "freshen", "to_ms": 1 }));
    assert!(internal.contains("no request"), "{internal}");
    let mut server = sim.actor("server.py");
    server.told("open 0");
    poll("it is open", || (status(&sim)["open"][0]["account"] == "server.py").then_some(()));
    let live = as_stranger(&json!({ "version": 1, "request": "live" }));
    let live: Value = serde_json::from_str(&live).unwrap();
    let open = &live["live"]["open"][0];
    assert_eq!((&open["account"], &open["pid"]), (&json!("other users"), &Value::Null), "{live}");
    daemon.stop();
}

#[test]
fn hostile_clients_hold_up_nobody() {
    if !can_trace("hostile_clients_hold_up_nobody") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let daemon = Setup::on(&sim).start();
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = resident();
    let long = vec![b'a'; 100_000];
    for garbage in [&b"\n"[..], b"{}\n", b"\xff\xfe\n", &long, b"{\"version\":2}\n"] {
        let mut stream = UnixStream::connect(socket(&sim)).unwrap();
        // It may be refused before all of it is taken.
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.contains("error"), "{answer}");
    }
    let silent: Vec<UnixStream> =
        (0..1_000).filter_map(|_| UnixStream::connect(socket(&sim)).ok()).collect();
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    assert!(resident() < before + 8 * 1_024, "{} KiB, then {}", before, resident());
    drop(silent);
    poll("it answers again", || {
        let output = ledger(&sim, &["status", "--json"]);
        output.status.success().then_some(())
    });
    daemon.stop();
}
