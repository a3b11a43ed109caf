//! `gpu-ledger bill` from end to end: the built binary on journals that the store really wrote.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use gpu_ledger::accounting::{Row, Window};
use gpu_ledger::clock::{Clock, Stamp};
use gpu_ledger::identity::Basis;
use gpu_ledger::journal::Digest;
use gpu_ledger::journal::entry::{
    AgentFacts, BootId, CoverageEdge, Draft, DriverSaid, Epoch, EpochEdge, Evidence, Figures,
    GpuMark, Mark, Moment, NamelessEvidence, SettlementEvidence, SettlementFigures,
};
use gpu_ledger::journal::store::{StateDir, Store};
use gpu_ledger::settlement::{Account, Balance, Ground};
use gpu_ledger::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use gpu_ledger::unknown::{NamelessReason, Observed, UnknownReason};
use tempfile::TempDir;

// The attributes say to the lints what cargo already knows.
#[cfg(test)]
#[path = "bill/browser.rs"]
mod browser;
#[cfg(test)]
#[path = "bill/closed.rs"]
mod closed;
#[cfg(test)]
#[path = "bill/focus.rs"]
mod focus;
#[cfg(test)]
#[path = "bill/page.rs"]
mod page;
#[cfg(test)]
#[path = "support/python.rs"]
mod python;
#[cfg(test)]
#[path = "bill/rows.rs"]
mod rows;
#[cfg(test)]
#[path = "support/skip.rs"]
mod skip;

const HOUR_MS: u64 = 3_600_000;

/// A journal of the last four hours: an hour of `ollama`, ten minutes of `whisper`, and what else is
/// asked for.
struct Host {
    folder: TempDir,
    now: Stamp,
    name: Arc<str>,
    uid: u32,
}

impl Host {
    fn with(nameless: bool) -> Self {
        Self::of(nameless, "gpuhost", 1_000)
    }

    /// On a host of this name, of this user.
    fn of(nameless: bool, name: &str, uid: u32) -> Self {
        Self::made(nameless, name, uid, "whisper")
    }

    /// With another program than `whisper`.
    fn made(nameless: bool, name: &str, uid: u32, second: &str) -> Self {
        Self::made_at(Clock::system().now(), nameless, (name, uid), second)
    }

    /// With everything so long before another moment.
    fn made_at(now: Stamp, nameless: bool, (name, uid): (&str, u32), second: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Self { folder, now, name: Arc::from(name), uid };
        let mut drafts = vec![host.agent(), host.epoch()];
        drafts.push(host.settlement(1, 3 * HOUR_MS, HOUR_MS, Some("ollama")));
        drafts.push(host.settlement(2, HOUR_MS, HOUR_MS / 6, Some(second)));
        if nameless {
            drafts.push(host.settlement(3, HOUR_MS, 5, None));
        }
        drafts.push(host.mark());
        let (mut store, _) = Store::open(&StateDir::at(host.folder.path())).unwrap();
        store.append(drafts).unwrap();
        host
    }

    /// So long before now.
    fn ago(&self, ms: u64) -> Stamp {
        let wall = WallUs(self.now.wall.0 - ms * 1_000);
        // A boot that is older than everything here, wherever the test runs.
        let ns = 1_000_000_000_000_000 - ms * 1_000_000;
        Stamp { boot: BootNs(ns), mono_ns: ns, wall }
    }

    fn draft(&self, ago_ms: u64, figures: Figures, evidence: Evidence) -> Draft {
        let at = Moment { boot: BootId(7), stamp: self.ago(ago_ms) };
        Draft { at, figures, evidence, argv: None }
    }

    fn agent(&self) -> Draft {
        let began = CoverageEdge::Began {
            at: self.ago(4 * HOUR_MS),
            host: Arc::clone(&self.name),
            device_touch: true,
            process_events: true,
        };
        let facts = AgentFacts {
            version: Arc::from("0.1.0"),
            object: Digest([1; 32]),
            kernel: Arc::from("6.12"),
        };
        self.draft(4 * HOUR_MS, Figures::Coverage(began), Evidence::Coverage(facts))
    }

    fn epoch(&self) -> Draft {
        let edge = EpochEdge::Began { index: 0, name: Some(Arc::from("NVIDIA H200")) };
        let epoch = Epoch { gpu: gpu(), at: self.ago(4 * HOUR_MS), edge };
        self.draft(4 * HOUR_MS, Figures::Epoch(epoch), Evidence::Epoch(said()))
    }

    fn mark(&self) -> Draft {
        let seen = Window { began: self.ago(0), ended: self.ago(0) };
        let of_gpu =
            GpuMark { gpu: gpu(), last_good: Some(seen), dead_rows: Some(2), doubted_since: None };
        let mark = Mark {
            processes_until: self.ago(0),
            gpus: vec![of_gpu],
            unresolved: Vec::new(),
            note: None,
        };
        self.draft(0, Figures::Mark(mark), Evidence::None)
    }

    fn settlement(&self, pid: u32, ago_ms: u64, held_ms: u64, name: Option<&str>) -> Draft {
        let (start, read) = (self.ago(ago_ms), self.ago(ago_ms - held_ms));
        let account = match name {
            Some(name) => Account::by(Ground::Program, name),
            None => Account::Unattributed(NamelessReason::EventLost),
        };
        let figures = SettlementFigures {
            gpu: gpu(),
            pid: Pid(pid),
            start: Some(start.wall),
            held: Ms(held_ms),
            read_at: read,
            account,
            program: name.map(Arc::from),
            uid: name.map(|_| self.uid),
            basis: name.map(|_| Basis::Exec),
            flags: BTreeSet::new(),
            dispute: None,
            asleep: Some(Ms(0)),
            busy: None,
            memory_peak: Some(Bytes(1 << 30)),
            opened: None,
            labels: Vec::new(),
            booked: Balance::default(),
        };
        let row = Row {
            gpu: gpu(),
            pid: Pid(pid),
            start: Some(start.wall),
            held: Ms(held_ms),
            running: false,
            memory_peak: Observed::Known(Bytes(1 << 30)),
            utilization: Observed::Unknown(UnknownReason::ValueNotAvailable),
            sums: None,
        };
        let evidence = SettlementEvidence {
            host: Arc::from("gpuhost"),
            driver: said(),
            row,
            seen: Window { began: read, ended: read },
            identity: None,
            nameless: Some(NamelessEvidence { gap: None, candidates: Vec::new() }),
            provenance: None,
        };
        let evidence = Evidence::Settlement(Box::new(evidence));
        self.draft(ago_ms - held_ms, Figures::Settlement(Box::new(figures)), evidence)
    }

    fn command(&self, words: &[&str]) -> Command {
        self.of_command("bill", words)
    }

    fn of_command(&self, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        command.arg(name).arg("--state-dir").arg(self.folder.path()).args(words);
        command.env_remove("GPU_LEDGER_TEST_CLOCK").stdin(Stdio::null());
        command
    }

    fn bill(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }
}

fn gpu() -> GpuUuid {
    GpuUuid(Arc::from("GPU-0a2b3c4d-0000-0000-0000-000000000001"))
}

fn said() -> DriverSaid {
    DriverSaid {
        kind: Arc::from("simulated"),
        version: Some(Arc::from("595.45.04")),
        stats_v2: true,
        gpu_index: 0,
        gpu_name: Some(Arc::from("NVIDIA H200")),
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_bill_whose_every_figure_is_known_exits_with_0_and_closes() {
    let host = Host::with(false);
    let said = host.bill(&["--since", "4h", "--format", "json"]);
    let bill: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let lines: Vec<_> = bill["accounts"].as_array().unwrap().iter().collect();
    assert_eq!((&lines[0]["account"], &lines[0]["held_ms"]), (&"ollama".into(), &HOUR_MS.into()));
    assert_eq!(lines[1]["held_ms"], HOUR_MS / 6);
    let gpu = &bill["gpus"][0];
    let part = |name: &str| gpu[name].as_u64().unwrap();
    let parts = part("alone_ms") + part("shared_ms") + part("free_ms") + part("uncovered_ms");
    assert_eq!(parts, part("period_ms"));
    assert_eq!(bill["driver"], "simulated");
    assert_eq!(bill["host"], "gpuhost");
    // Since the agent began less than the period's four hours ago, by the time the bill was made.
    let status = said.status.code();
    let known = host.bill(&["--since", "3h", "--format", "json"]);
    assert_eq!(known.status.code(), Some(0), "{} {status:?}", text(&known.stdout));
}

#[test]
fn a_bill_with_a_nameless_row_exits_with_2_and_says_so() {
    let host = Host::with(true);
    let said = host.bill(&["--since", "3h"]);
    assert_eq!(said.status.code(), Some(2));
    let page = text(&said.stdout);
    assert!(page.contains("SIMULATED DRIVER: no GPU was used"), "{page}");
    assert!(page.contains("event-lost") && page.contains("ollama"), "{page}");
}

#[test]
fn two_bills_of_the_same_moment_have_the_same_id_and_the_line_form_is_cumulative() {
    let host = Host::with(true);
    let since = |words: &[&str]| {
        let said = host.bill(words);
        let bill: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        bill["bill_id"].clone()
    };
    let words = ["--since", "2026-01-01", "--format", "json", "--utc"];
    assert_eq!(since(&words), since(&words));
    let line = host.bill(&["--format", "line"]);
    let held = HOUR_MS / 6;
    let expected = format!(
        " gpu-ledger: ollama {HOUR_MS} whisper {held} unattributed 5 TOTAL {}\n",
        HOUR_MS + held + 5
    );
    assert!(text(&line.stdout).ends_with(&expected), "{}", text(&line.stdout));
}

#[test]
fn in_the_line_form_a_program_called_like_a_word_of_ours_is_quoted() {
    for word in ["unattributed", "TOTAL", "disputed"] {
        let host = Host::made(true, "gpuhost", 1_000, word);
        let line = host.bill(&["--format", "line"]);
        let expected = format!(
            " gpu-ledger: ollama {HOUR_MS} \"{word}\" {} unattributed 5 TOTAL {}\n",
            HOUR_MS / 6,
            HOUR_MS + HOUR_MS / 6 + 5
        );
        assert!(text(&line.stdout).ends_with(&expected), "{}", text(&line.stdout));
    }
}

#[test]
fn csv_has_a_head_and_a_row_a_line() {
    let host = Host::with(false);
    let said = host.bill(&["--since", "4h", "--format", "csv"]);
    let page = text(&said.stdout);
    assert!(page.starts_with("line,uid,user,gpu_uuid,reason,"), "{page}");
    assert_eq!(page.lines().count(), 3, "{page}");
}

#[test]
fn what_a_form_of_rows_has_no_place_for_is_said_on_stderr() {
    const SIMULATED: &str = "gpu-ledger: SIMULATED DRIVER: no GPU was used\n";
    const UNKNOWN: &str = "gpu-ledger: not everything is known, or was seen; --format table and json \
                           say what and why\n";
    for form in ["csv", "line"] {
        let known = Host::with(false).bill(&["--since", "3h", "--format", form]);
        let (notes, version) = without_version(&known);
        assert_eq!((known.status.code(), notes.as_str()), (Some(0), SIMULATED), "{form}");
        let nameless = Host::with(true).bill(&["--since", "3h", "--format", form]);
        assert_eq!(nameless.status.code(), Some(2), "{form}");
        assert_eq!(without_version(&nameless).0, format!("{SIMULATED}{UNKNOWN}"), "{form}");
        // The line's moment is its version.
        assert_eq!(version.is_some(), form == "csv", "{version:?}");
        let tells =
            |line: String| [", as of 20", ", journal 5:", ", tree "].map(|of| line.contains(of));
        assert!(version.is_none_or(|line| tells(line) == [true; 3]), "{form}");
    }
}

/// What is said on stderr, and of that the line which says which bill it is.
fn without_version(said: &Output) -> (String, Option<String>) {
    let (version, rest): (Vec<_>, Vec<_>) = text(&said.stderr)
        .split_inclusive('\n')
        .partition(|line| line.starts_with("gpu-ledger: bill "));
    (rest.concat(), version.first().map(|line| (*line).to_owned()))
}

#[test]
fn csv_and_line_say_on_stderr_what_was_left_out() {
    let host = Host::with(true);
    for form in ["csv", "line"] {
        let said = host.bill(&["--since", "3h", "--format", form, "--account", "whisper"]);
        let notes = text(&said.stderr);
        let left =
            "gpu-ledger: left out as asked: 0 GPUs, 1 lines; on the GPUs shown 2 settlements";
        assert!(notes.contains(left), "{form}: {notes}");
        assert!(notes.contains("1 of them unattributed and 0 disputed"), "{form}: {notes}");
        assert!(!text(&said.stdout).contains("ollama"), "{form}: {}", text(&said.stdout));
        assert_eq!(said.status.code(), Some(2), "whose the nameless one is nobody knows");
        let whole = host.bill(&["--since", "3h", "--format", form]);
        assert!(!text(&whole.stderr).contains("left out"), "{form}: {}", text(&whole.stderr));
    }
}

#[test]
fn what_cannot_be_asked_exits_with_64_and_the_remedy() {
    let host = Host::with(false);
    for (words, remedy) in [
        (&["--since", "soon"][..], "give a moment such as"),
        (&["--since", "-1h"], "give a moment such as"),
        (&["--since", "2999"], "lies in the future"),
        (&["--until", "2999-01-01"], "leave it out"),
        (&["--since", "2026-10-02", "--until", "2026-10-01"], "reversed"),
        (&["--since", "now"], "give --since an earlier moment, such as 1h"),
        (&["--until", "yesterday"], "give --since too: without it the period begins with today"),
        (&["--period", "2999-12"], "the period from 2999-12-01"),
        (&["--period", "7d"], "is no period"),
        (&["--period", "0000"], "the calendar of a journal begins"),
        (
            &["--gpu", "nosuch"],
            "no GPU of this journal is called nosuch; there are: 0 (GPU-0a2b3c4d",
        ),
        (&["--gpu", "1"], "no GPU of this journal is called 1; there are: 0 (GPU-0a2b3c4d"),
        (
            &["--since", "4h", "--account", "nosuch"],
            "no line of this bill is called nosuch; there are: ollama, whisper",
        ),
        (
            &["--since", "4h", "--account", "ollama", "--account", "\"unattributed\""],
            "no line of this bill is called \"unattributed\"; there are: ollama, whisper",
        ),
        (
            &["--by", "colour"],
            "use one of account, user, program, gpu, process, service, unit, container",
        ),
        (&["--share", "fair"], "use none, equal, busy or memory"),
        (&["--csv-raw"], "add --format csv"),
        (&["--prices", "/nowhere", "--format", "csv"], "take --format focus, json or table"),
        (&["--socket", "/nowhere"], "leave --state-dir out beside it"),
        (&["--format", "xml"], "possible values"),
        (&["--head", "99"], "this journal has no entry 99"),
        (&["--as-of", "2999"], "lies in the future"),
        (&["--as-of", "2001"], "the journal knew nothing at 2001-01-01"),
        (&["--as-of", "soon"], "give a moment such as"),
        (&["--as-of", "1h", "--head", "3"], "cannot be used with"),
    ] {
        let said = host.bill(words);
        assert_eq!(said.status.code(), Some(64), "{words:?}");
        assert!(text(&said.stderr).contains(remedy), "{words:?}: {}", text(&said.stderr));
        assert!(said.stdout.is_empty(), "{words:?}");
    }
    let said = host.command(&[]).env("TZ", "Nowhere/Atall").output().unwrap();
    assert_ne!(said.status.code(), Some(0));
}

#[test]
fn a_directory_without_a_journal_fails_with_its_name() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    let said = command.arg("bill").arg("--state-dir").arg(empty.path()).output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    let name = empty.path().display().to_string();
    assert!(text(&said.stderr).contains(&name), "{}", text(&said.stderr));
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}

#[test]
fn a_reader_that_closed_its_end_is_no_failure_and_a_full_disk_is_one() {
    let host = Host::with(false);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = host.command(&["--since", "3h"]).stdout(writer).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let full = host.bill(&["--since", "3h", "--output", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1));
}

#[test]
fn the_time_zone_is_the_systems_or_utc_and_is_printed() {
    let host = Host::with(false);
    let zone = |words: &[&str], tz: &str| {
        let mut words = words.to_vec();
        words.extend(["--format", "json", "--since", "2h"]);
        let said = host.command(&words).env("TZ", tz).output().unwrap();
        let bill: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        bill["period"]["zone"].as_str().unwrap().to_owned()
    };
    assert_eq!(zone(&[], "Europe/Berlin"), "Europe/Berlin");
    assert_eq!(zone(&["--utc"], "Europe/Berlin"), "UTC");
}

#[test]
fn a_gpu_is_chosen_by_index_uuid_or_the_beginning_of_one_and_a_line_by_its_name() {
    let host = Host::with(true);
    let whole = gpu().to_string();
    let bill = |words: &[&str]| {
        let mut words = words.to_vec();
        words.extend(["--since", "4h", "--format", "json"]);
        let said = host.bill(&words);
        let bill: serde_json::Value = serde_json::from_slice(&said.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&said.stderr)));
        bill
    };
    for word in ["0", &*whole, "GPU-0a2b", "0a2b3c4d"] {
        let bill = bill(&["--gpu", word]);
        assert_eq!(bill["gpus"][0]["gpu_uuid"], whole, "{word}");
        assert_eq!(bill["left_out"]["gpus"], 0, "{word}");
    }
    let whisper = bill(&["--account", "whisper"]);
    assert_eq!(whisper["accounts"].as_array().unwrap().len(), 1);
    let nameless = bill(&["--account", "unattributed"]);
    assert_eq!(
        (nameless["accounts"].as_array().unwrap().len(), nameless["left_out"]["accounts"].as_u64()),
        (0, Some(2))
    );
}

#[test]
fn bill_and_explain_mean_the_same_by_the_name_of_an_account() {
    let host = Host::made(true, "gpuhost", 1_000, r"we\x1b\\ird");
    let ids = |settlements: &serde_json::Value| -> BTreeSet<String> {
        let all = settlements.as_array().unwrap().iter();
        all.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    for (word, count) in [
        ("ollama", 1),
        (r"we\x1b\\ird", 1),
        ("we\u{1b}\\ird", 1),
        ("we\\x1b…", 1),
        ("unattributed", 1),
        ("event-lost", 1),
        ("unattributed (event-lost)", 1),
        ("unclassified", 2),
        ("agent-down", 0),
        ("disputed", 0),
        ("\"unattributed\"", 0),
        ("nosuch", 0),
    ] {
        let words = ["--period", "all", "--by", "process", "--format", "json", "--account", word];
        let billed = host.bill(&words);
        let explained =
            host.of_command("explain", &["--json", "--account", word]).output().unwrap();
        if count == 0 {
            // That there is nothing that is disputed or went so is an answer; a line that is not there is none.
            if matches!(word, "agent-down" | "disputed") {
                let billed: serde_json::Value = serde_json::from_slice(&billed.stdout).unwrap();
                assert_eq!(ids(&billed["settlements"]).len(), 0, "{word}");
            } else {
                assert_eq!(billed.status.code(), Some(64), "{word}");
            }
            assert_eq!(explained.status.code(), Some(1), "{word}");
            continue;
        }
        let billed: serde_json::Value = serde_json::from_slice(&billed.stdout).unwrap();
        let explained: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
        let billed = ids(&billed["settlements"]);
        assert_eq!(billed.len(), count, "{word}");
        assert_eq!(ids(&explained["settlements"]), billed, "{word}");
    }
}

#[test]
fn users_have_their_names_where_the_journal_is_this_systems_and_their_ids_always() {
    let uname = rustix::system::uname();
    let here = uname.nodename().to_str().unwrap();
    for (name, uid, title, user) in [
        (here, 0, "root (0)", Some("root")),
        // Nobody here is called so.
        (here, 61_004, "uid 61004", None),
        // Of another host: whoever has that number here is somebody else.
        ("elsewhere", 0, "uid 0", None),
    ] {
        let host = Host::of(false, name, uid);
        let words = ["--since", "4h", "--by", "user"];
        let page = host.bill(&words);
        let page = text(&page.stdout);
        assert!(page.contains(&format!("  {title:<17} ")), "{title}: {page}");
        let json = host.bill(&[&words[..], &["--format", "json"]].concat());
        let bill: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        let line = &bill["accounts"][0];
        assert_eq!(line["account"], format!("uid {uid}"));
        assert_eq!((line["uid"].as_u64(), line["user"].as_str()), (Some(uid.into()), user));
        let by_name = host.bill(&[&words[..], &["--account", title]].concat());
        assert!(text(&by_name.stdout).contains(title), "{}", text(&by_name.stderr));
    }
}

#[test]
fn a_journal_whose_end_nothing_vouches_for_says_so_on_its_bill() {
    let host = Host::with(false);
    let whole = host.bill(&["--since", "3h"]);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stdout));
    std::fs::remove_file(host.folder.path().join("ledger.head")).unwrap();
    let said = host.bill(&["--since", "3h"]);
    assert_eq!(said.status.code(), Some(2));
    let page = text(&said.stdout);
    assert!(page.contains("WARNING ledger.head is missing beside the journal"), "{page}");
    let json = host.bill(&["--since", "3h", "--format", "json"]);
    let bill: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(bill["reading"]["end_witnessed"], false);
    assert_eq!(bill["reading"]["proven"], "journal");
}
