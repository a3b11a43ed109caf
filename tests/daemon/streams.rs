//! What the daemon streams to a reader: whole or not at all, archives with it, and for nobody at others' cost.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use gpu_ledger::coverage::Gap;
use gpu_ledger::journal::Figures;
use gpu_ledger::journal::entry::{Draft, Evidence};
use gpu_ledger::journal::store::{StateDir, Store};
use gpu_ledger::unknown::GapCause;
use serde_json::{Value, json};

use crate::asking::{
    Asking, ONE, OTHER, ROOT, as_user, bill, booked, lines, owned, socket, text, value,
};
use crate::daemon::{NOBODY, Setup};
use crate::privilege::can_trace;
use crate::support::{Sim, poll};

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

/// Enters more gaps than a segment has entries, so that what was before them can be archived.
fn enter_a_segment(state: &Path) {
    let belongs_to = |user: u32| {
        let files = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
        for path in files.chain([state.to_path_buf()]) {
            std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
        }
    };
    // A writer wants to own what it writes.
    belongs_to(0);
    let (mut store, end) = Store::open(&StateDir::at(state)).unwrap();
    let at = end.last.unwrap();
    let (from, to) = (at.stamp, at.stamp);
    let gap = Gap { cause: GapCause::QueueOverflow, gpu: None, from, to, size: Some(0) };
    let draft = Draft { at, figures: Figures::Gap(gap), evidence: Evidence::None, argv: None };
    for _ in 0..3 {
        store.append(vec![draft.clone(); 2_000]).unwrap();
    }
    store.close().unwrap();
    belongs_to(NOBODY);
}

#[test]
fn what_was_archived_is_on_the_bill_and_what_is_gone_is_said() {
    if !can_trace("what_was_archived_is_on_the_bill_and_what_is_gone_is_said") {
        return;
    }
    let sim = Sim::start(&["--gpus", "1"]);
    let (daemon, _) = booked(&sim, "");
    let state = daemon.state().to_path_buf();
    daemon.stop();
    enter_a_segment(&state);
    archived(&state);
    let daemon = Setup::on(&sim).start();
    let all = Asking::of(&sim, &["--period".to_owned(), "all".to_owned()]);
    for (user, seen) in [
        (ROOT, owned(&[("mine", 1), ("train", 1), ("whisper", 1)])),
        ((ONE, ONE), owned(&[("mine", 1), ("other users", 2)])),
    ] {
        let whole = all.json(user, &[]);
        assert_eq!(lines(&whole), seen);
        assert_eq!(whole["driver"], "simulated");
    }
    // What the daemon logs of everything booked is what a bill of everything says.
    sim.work("--ms 10").wait();
    daemon.until_booked(1);
    let figures = |line: &str| line.split_once(" gpu-ledger: ").unwrap().1.trim().to_owned();
    let logged = poll("its line", || {
        let log = daemon.log();
        let line = log.lines().rfind(|line| line.contains(" TOTAL "));
        line.map(figures).filter(|line| line.contains("nvsim "))
    });
    let billed = text(&all.by(ROOT, &["--format", "line"]).stdout);
    assert_eq!(logged, figures(&billed));
    let archives = archives_of(&state);
    assert!(!archives.is_empty());
    let check = journal_command(0, &["check", "--state-dir", state.to_str().unwrap()]);
    let said = text(&check.stdout);
    assert_eq!(check.status.code(), Some(0), "{said}");
    for path in &archives {
        let line = format!("{}: 4096 entries, 1 to 4096, ", path.display());
        assert!(said.contains(&line), "{line}: {said}");
        let alone = journal_command(0, &["check", path.to_str().unwrap()]);
        assert_eq!(alone.status.code(), Some(0), "{}", text(&alone.stderr));
        assert!(text(&alone.stdout).contains("3 settlements, all of it proven"), "{said}");
    }
    for path in archives {
        std::fs::remove_file(path).unwrap();
    }
    says_what_is_gone(&all);
    let check = journal_command(0, &["check", "--state-dir", state.to_str().unwrap()]);
    let said = text(&check.stdout);
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(said.contains("NOT HERE: entries 1 to 4096 were archived"), "{said}");
    daemon.stop();
}

/// Every archive beside a journal.
fn archives_of(state: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let is_archive = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("archive-")
    };
    files.filter(is_archive).collect()
}

/// Every form of a bill says that entries were archived and that the archive is not here.
fn says_what_is_gone(all: &Asking) {
    let rest = all.json((ONE, ONE), &[]);
    assert_eq!(rest["settlements_total"], 1, "what was booked since");
    let said = rest["unknown"].to_string();
    assert!(said.contains("archived, and no archive is here"), "{said}");
    assert!(rest["reading"]["missing_to"].as_u64() >= Some(4_096), "{rest}");
    let page = text(&all.by(ROOT, &[]).stdout);
    let (head, _) = page.split_once("\n\n").unwrap();
    assert!(
        head.contains("WARNING entries 1 to ") && head.contains(" is not on this bill"),
        "{page}"
    );
    crate::ledger::assert_fits_a_terminal(&page);
    for form in ["csv", "line"] {
        let output = all.by((ONE, ONE), &["--format", form]);
        let said = text(&output.stderr);
        assert!(said.contains("were archived, and no archive is here"), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

fn journal_command(uid: u32, words: &[&str]) -> std::process::Output {
    let mut command = as_user(uid, uid, env!("CARGO_BIN_EXE_gpu-ledger"));
    command.arg("journal").args(words).output().unwrap()
}

/// Archives what there is, as the daemon's user; everybody else is told how.
fn archived(state: &Path) {
    let folder = state.to_str().unwrap();
    let archive =
        |uid, before| journal_command(uid, &["archive", "--before", before, "--state-dir", folder]);
    let root = archive(0, "now");
    let said = text(&root.stderr);
    assert_eq!(root.status.code(), Some(1), "{said}");
    assert!(said.contains("belongs to user 65534, and this is user 0"), "{said}");
    assert!(said.contains("`sudo -u nobody gpu-ledger …`"), "{said}");
    let stranger = journal_command(ONE, &["check", "--state-dir", folder]);
    let said = text(&stranger.stderr);
    assert_eq!(stranger.status.code(), Some(1), "{said}");
    assert!(said.contains("ermission denied") && said.contains("run it under sudo"), "{said}");
    // Words as a bill has them; that nothing is old enough is no failure.
    for before in ["2026-01", "yesterday", "2026-01-31", "30d"] {
        let nothing = archive(NOBODY, before);
        let said = text(&nothing.stdout);
        assert_eq!(nothing.status.code(), Some(0), "{before}: {}", text(&nothing.stderr));
        assert!(
            said.contains("nothing to archive: entries are archived in whole runs of 4096"),
            "{said}"
        );
    }
    let refused = archive(NOBODY, "soon");
    assert_eq!(refused.status.code(), Some(64), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("--before \"soon\" is no moment"));
    let output = archive(NOBODY, "now");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("entries 1 to 4096"), "{}", text(&output.stdout));
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
