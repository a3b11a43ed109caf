//! Versions of bills, end to end: as the journal stood at an entry, closed, adjusted and compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gpu_ledger::clock::Stamp;
use gpu_ledger::journal::canon;
use gpu_ledger::journal::entry::{BootId, Change, Correction, Draft, Evidence, Figures, Moment};
use gpu_ledger::journal::store::{Extent, Files, Reader, StateDir, Store};
use gpu_ledger::settlement::{Account, Ground};
use gpu_ledger::unit::{BootNs, WallUs};
use serde_json::Value;

use crate::{HOUR_MS, Host, text};

/// Every form that a bill with prices is closed in.
const FORMS: [&str; 7] = ["csv", "csv-raw", "focus", "focus-raw", "json", "line", "table"];

const PRICES: &str =
    "currency = \"EUR\"\n[[price]]\ngpu = \"NVIDIA H200\"\nmeter = \"held\"\nper_hour = \"3.60\"\n";

/// A journal of the four hours before now, whose first hours, with all of `ollama`, can be closed.
struct Closable {
    host: Host,
    since: String,
    until: String,
}

impl Closable {
    fn new(nameless: bool) -> Self {
        Self::of(Host::with(nameless), 3 * HOUR_MS / 2)
    }

    /// What can be closed ends so long before now.
    fn of(host: Host, until_ago_ms: u64) -> Self {
        // Whole milliseconds, as periods are.
        let at = |ago: u64| {
            let ms = (host.now.wall.0 / 1_000 - ago).cast_signed();
            jiff::Timestamp::from_millisecond(ms).unwrap().to_string()
        };
        let (since, until) = (at(7 * HOUR_MS / 2), at(until_ago_ms));
        Self { host, since, until }
    }

    fn command(&self, words: &[&str], more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        command.arg("bill").args(words).arg("--state-dir").arg(self.host.folder.path());
        command.args(more).env_remove("GPU_LEDGER_TEST_CLOCK").stdin(Stdio::null());
        command.output().unwrap()
    }

    fn close(&self, more: &[&str]) -> Output {
        self.command(&["close", "--since", &self.since, "--until", &self.until, "--utc"], more)
    }

    /// The bill of the period that can be closed.
    fn bill(&self, more: &[&str]) -> Output {
        self.command(&["--since", &self.since, "--until", &self.until, "--utc"], more)
    }

    /// The bill of the time after it.
    fn next(&self, more: &[&str]) -> Output {
        self.command(&["--since", &self.until, "--utc"], more)
    }

    fn append(&self, drafts: Vec<Draft>) {
        let (mut store, _) = Store::open(&StateDir::at(self.host.folder.path())).unwrap();
        store.append(drafts).unwrap();
        store.close().unwrap();
    }

    /// A row of the closed period that is learnt now.
    fn late(&self, pid: u32) -> Draft {
        let mut draft = self.host.settlement(pid, 5 * HOUR_MS / 2, HOUR_MS / 4, Some("late"));
        draft.at.stamp = self.host.ago(0);
        draft
    }

    fn prices(&self, text: &str) -> PathBuf {
        let path = self.host.folder.path().join("prices.toml");
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn value(said: &Output) -> Value {
    serde_json::from_slice(&said.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&said.stdout), text(&said.stderr)))
}

fn faults(schema: &str, value: &Value) -> Vec<String> {
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    schema.iter_errors(value).map(|fault| fault.to_string()).collect()
}

fn held(bill: &Value, account: &str) -> Option<u64> {
    let lines = bill["accounts"].as_array().unwrap();
    let line = lines.iter().find(|line| line["account"] == account)?;
    line["held_ms"].as_u64()
}

/// The words of a form on the command line.
fn form(word: &str) -> Vec<&str> {
    match word.strip_suffix("-raw") {
        Some(form) => vec!["--format", form, "--csv-raw"],
        None => vec!["--format", word],
    }
}

#[test]
fn a_closed_bill_is_the_same_bytes_whatever_comes_later() {
    let host = Closable::new(false);
    let prices = host.prices(PRICES);
    let prices = prices.to_str().unwrap();
    let said = host.close(&["--prices", prices]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let told = text(&said.stdout);
    for word in FORMS {
        assert!(told.lines().any(|line| line.starts_with(&format!("{word} "))), "{word}: {told}");
    }
    // Without naming them: what the usual place has now is nothing to it.
    let all = || FORMS.map(|word| host.bill(&form(word)));
    let before = all();
    for (word, said) in FORMS.iter().zip(&before) {
        let digest = told.lines().find_map(|line| line.strip_prefix(&format!("{word} "))).unwrap();
        let kept = std::fs::read(host.host.folder.path().join("files").join(digest)).unwrap();
        assert_eq!(said.stdout, kept, "{word}");
        assert_eq!(said.status.code(), Some(0), "{word}: {}", text(&said.stderr));
        assert!(text(&said.stderr).contains("was closed at"), "{word}: {}", text(&said.stderr));
    }
    let bill = value(&before[4]);
    assert_eq!(faults(include_str!("../../gpu-ledger/schema/bill.v1.schema.json"), &bill), [""; 0]);
    assert_eq!((held(&bill, "ollama"), held(&bill, "late")), (Some(HOUR_MS), None));
    assert_eq!(bill["priced"]["booked"]["amount"], "3.6000");
    assert!(bill["journal_head"]["tree"].is_string(), "{}", bill["journal_head"]);
    // A late row, a row on another account, and other prices in the same file.
    let moved =
        Correction { of: 3, change: Change::Account(Account::by(Ground::Program, "moved")) };
    let moved = host.host.draft(0, Figures::Correction(moved), Evidence::None);
    host.append(vec![host.late(41), moved]);
    let after = all();
    for ((word, before), after) in FORMS.iter().zip(&before).zip(&after) {
        assert_eq!(before.stdout, after.stdout, "{word}");
    }
    let afresh = value(&host.bill(&["--format", "json", "--as-of", "now", "--prices", prices]));
    assert_eq!(held(&afresh, "late"), Some(HOUR_MS / 4));
    assert_eq!((held(&afresh, "moved"), held(&afresh, "ollama")), (Some(HOUR_MS), None));
    assert_eq!(afresh["closed_periods"][0]["is_as_closed"], false);
    // In another way, of the same entries and with the same prices.
    let by = host.bill(&["--format", "json", "--by", "program"]);
    let by = value(&by);
    assert_eq!((held(&by, "ollama"), held(&by, "late")), (Some(HOUR_MS), None));
    assert_eq!(by["closed_periods"][0]["is_as_closed"], true);
    assert_eq!(by["priced"]["booked"]["amount"], "3.6000");
    assert_eq!(by["journal_head"], bill["journal_head"]);
    let page = host.bill(&["--by", "program"]);
    assert!(text(&page.stdout).contains("--as-of now takes"), "{}", text(&page.stdout));
    // Prices that are named, and are not those.
    let cheap = host.host.folder.path().join("cheap.toml");
    std::fs::write(&cheap, PRICES.replace("3.60", "1.80")).unwrap();
    let cheap = value(&host.bill(&["--format", "json", "--prices", cheap.to_str().unwrap()]));
    assert_eq!(cheap["priced"]["booked"]["amount"], "1.8000");
    assert_eq!(cheap["closed_periods"][0]["is_as_closed"], true);
}

#[test]
fn the_next_bill_tells_what_came_since_and_the_one_after_that_does_not_tell_it_again() {
    let host = Closable::new(false);
    let prices = host.prices(PRICES);
    let prices = prices.to_str().unwrap();
    assert_eq!(host.close(&["--prices", prices]).status.code(), Some(0));
    let quiet = value(&host.next(&["--format", "json"]));
    assert_eq!(quiet["adjustments"]["periods"], Value::Array(Vec::new()));
    let closed = value(&host.bill(&["--format", "json"]));
    host.append(vec![host.late(41)]);
    let said = host.next(&["--format", "json"]);
    let next = value(&said);
    assert_eq!(faults(include_str!("../../gpu-ledger/schema/bill.v1.schema.json"), &next), [""; 0]);
    let told = &next["adjustments"]["periods"][0];
    assert_eq!(told["entries"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!(told["entries"][0]["kind"], "settled-late");
    // The closing is entry 6.
    assert_eq!((&told["entry"], &told["entries"][0]["seq"]), (&6.into(), &7.into()));
    assert_eq!(told["total"]["held_ms"], HOUR_MS / 4);
    assert_eq!(told["total"]["booked"], "0.9000");
    assert_eq!(held(&next, "late"), None, "it is on no line of this one");
    // Closed and adjusted, it is what it is afresh.
    let afresh = value(&host.bill(&["--format", "json", "--as-of", "now"]));
    let sum = |bill: &Value| -> u64 {
        bill["accounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["held_ms"].as_u64().unwrap())
            .sum()
    };
    assert_eq!(sum(&closed) + HOUR_MS / 4, sum(&afresh));
    let page = host.next(&[]);
    let page = text(&page.stdout);
    for words in ["adjustments to closed periods", "settled late", "booked in all +0.9000 EUR"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let csv = host.next(&["--format", "csv"]);
    assert!(text(&csv.stderr).contains("1 adjustments to closed periods"), "{}", text(&csv.stderr));
    // The next period is closed: it has told that entry, and what follows it tells later ones alone.
    let between = (host.host.now.wall.0 / 1_000 - HOUR_MS / 2).cast_signed();
    let between = jiff::Timestamp::from_millisecond(between).unwrap().to_string();
    let words = ["close", "--since", &host.until, "--until", &between, "--utc"];
    let said = host.command(&words, &[]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let after = |host: &Closable| {
        value(&host.command(&["--since", &between, "--utc", "--format", "json"], &[]))
    };
    assert_eq!(after(&host)["adjustments"]["periods"], Value::Array(Vec::new()));
    host.append(vec![host.late(42)]);
    let later = after(&host);
    let told = &later["adjustments"]["periods"][0];
    // On one line with the other: of the time that both held it is there once.
    assert_eq!(told["entries"].as_array().unwrap().len(), 1, "{told}");
    assert_eq!((&told["entry"], &told["total"]["settlements"]), (&6.into(), &1.into()));
    assert_eq!(told["total"]["held_ms"], 0);
}

#[test]
fn what_cannot_be_closed_is_refused_and_what_is_closed_is_told() {
    let host = Closable::new(true);
    let refused = |words: &[&str], status: i32, told: &str| {
        let said = host.command(words, &[]);
        let why = text(&said.stderr);
        assert_eq!(said.status.code(), Some(status), "{words:?}: {why}");
        assert!(why.contains(told), "{words:?}: {why}");
    };
    refused(&["close", "today"], 64, "is not over");
    refused(&["close", "all"], 64, "is not over");
    refused(&["close", "2999-10"], 64, "give one that has begun");
    refused(&["close", "7d"], 64, "is no period");
    refused(&["close"], 64, "PERIOD");
    // The journal ends before.
    let now = jiff::Timestamp::now();
    let beyond = format!("{now:.3}");
    std::thread::sleep(std::time::Duration::from_millis(20));
    refused(
        &["close", "--since", &host.since, "--until", &beyond, "--utc"],
        1,
        "marks once a minute",
    );
    // What nobody can name is closed as such.
    let said = host.close(&[]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let again = host.close(&[]);
    assert_eq!(again.status.code(), Some(0));
    assert!(text(&again.stdout).contains("is closed already: entry 7"), "{}", text(&again.stdout));
    let (since, until) = (host.since.clone(), host.until.clone());
    let period = ["close", "--since", &since, "--until", &until, "--utc"];
    refused(&[&period[..], &["--by", "user"]].concat(), 64, "closed already (entry 7)");
    refused(&["close", "--since", &since, "--until", "2h", "--utc"], 64, "has time of");
    // Forms that it was not closed with.
    let said = host.bill(&["--format", "focus"]);
    assert_eq!(said.status.code(), Some(64));
    assert!(
        text(&said.stderr).contains("closed without a bill as focus"),
        "{}",
        text(&said.stderr)
    );
}

#[test]
fn a_document_that_was_damaged_or_is_gone_is_an_error_and_never_another_bill() {
    let host = Closable::new(false);
    let said = host.close(&[]);
    let told = text(&said.stdout).to_owned();
    let digest = told.lines().find_map(|line| line.strip_prefix("csv ")).unwrap();
    let path = host.host.folder.path().join("files").join(digest);
    let kept = std::fs::read(&path).unwrap();
    let words = ["--format", "csv"];
    assert_eq!(host.bill(&words).stdout, kept);
    std::fs::write(&path, [&kept[..], b"x"].concat()).unwrap();
    let said = host.bill(&words);
    assert_eq!((said.status.code(), said.stdout.len()), (Some(1), 0));
    assert!(text(&said.stderr).contains("not those that its name says"), "{}", text(&said.stderr));
    std::fs::remove_file(&path).unwrap();
    let said = host.bill(&words);
    assert_eq!((said.status.code(), said.stdout.len()), (Some(1), 0));
    assert!(text(&said.stderr).contains("is not in files/"), "{}", text(&said.stderr));
    assert_eq!(host.bill(&["--format", "csv", "--as-of", "now"]).status.code(), Some(0));
}

#[test]
fn a_bill_of_an_earlier_version_is_made_of_the_entries_of_then() {
    let host = Closable::new(false);
    host.append(vec![host.late(41)]);
    let all = |more: &[&str]| value(&host.bill(&[&["--format", "json"], more].concat()));
    assert_eq!(held(&all(&[]), "late"), Some(HOUR_MS / 4));
    // Entry 5 is the mark, at the moment at which the late row was learnt too.
    let then = all(&["--head", "5"]);
    assert_eq!((held(&then, "late"), held(&then, "ollama")), (None, Some(HOUR_MS)));
    assert_eq!(then["journal_head"]["seq"], 5);
    // Between the settlements of ollama and of whisper.
    let ago = (host.host.now.wall.0 / 1_000 - 3 * HOUR_MS / 2).cast_signed();
    let moment = jiff::Timestamp::from_millisecond(ago).unwrap().to_string();
    let then = all(&["--as-of", &moment]);
    assert_eq!(then["journal_head"]["seq"], 3);
    // What has no end asked for ends with that moment, and by either name it is the same version.
    for version in [["--as-of", &moment], ["--head", "3"]] {
        let words = ["--since", &host.since, "--format", "json"];
        let open = value(&host.command(&[&words[..], &version].concat(), &[]));
        let until = open["period"]["until"].as_str().unwrap();
        assert!(until.parse::<jiff::Timestamp>().unwrap().as_millisecond() <= ago, "{until}");
        assert_eq!(then["journal_head"], open["journal_head"]);
    }
    // An end that was still to come then is refused, as it would have been.
    assert_eq!(host.bill(&["--head", "3"]).status.code(), Some(64));
}

#[test]
fn two_bills_are_compared_by_figure_and_by_entry() {
    let host = Closable::new(false);
    assert_eq!(host.close(&[]).status.code(), Some(0));
    let closed = host.bill(&["--format", "json"]);
    let id = value(&closed)["bill_id"].as_str().unwrap().to_owned();
    host.append(vec![host.late(41)]);
    let diff = |a: &str, b: &str, more: &[&str]| {
        let said = host.command(&["diff", a, b, "--json", "--utc"], more);
        let value = value(&said);
        let schema = include_str!("../../gpu-ledger/schema/bill-diff.v1.schema.json");
        assert_eq!(faults(schema, &value), [""; 0]);
        (value, said.status.code())
    };
    let (answer, status) = diff(&id, "now", &[]);
    assert_eq!((status, &answer["differ"], &answer["later"]), (Some(0), &true.into(), &"b".into()));
    assert_eq!(answer["a"]["is"], "closed");
    let entries = answer["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{answer}");
    assert_eq!((&entries[0]["seq"], &entries[0]["kind"]), (&7.into(), &"settled-late".into()));
    let lines = answer["lines"].as_array().unwrap();
    let late =
        lines.iter().find(|one| one["line"] == "late" && one["figure"] == "held_ms").unwrap();
    assert_eq!((&late["before"], &late["difference"]), (&Value::Null, &(HOUR_MS / 4).into()));
    // Files say the same, and with the journal which entries it was.
    let (a, b) = (host.host.folder.path().join("a.json"), host.host.folder.path().join("b.json"));
    std::fs::write(&a, &closed.stdout).unwrap();
    std::fs::write(&b, host.bill(&["--format", "json", "--as-of", "now"]).stdout).unwrap();
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let (of_files, status) = diff(a, b, &[]);
    assert_eq!((status, &of_files["lines"]), (Some(0), &answer["lines"]));
    assert_eq!(of_files["entries"], answer["entries"]);
    // The other way round, of heads over a period, and of a bill with itself.
    let period = ["--since", &host.since, "--until", &host.until];
    let (heads, _) = diff("7", "5", &period);
    assert_eq!((&heads["later"], heads["entries"].as_array().unwrap().len()), (&"a".into(), 1));
    let (same, status) = diff(a, &id, &[]);
    assert_eq!(
        (status, &same["differ"], &same["lines"]),
        (Some(0), &false.into(), &Value::Array(Vec::new()))
    );
    // Without the journal: which entries is UNKNOWN, and said to be.
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
    let nowhere =
        command.args(["bill", "diff", a, b, "--state-dir", "/nonexistent"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2), "{}", text(&nowhere.stderr));
    assert!(text(&nowhere.stdout).contains("UNKNOWN which entries"), "{}", text(&nowhere.stdout));
    let words = host.command(&["diff", a, "now", "--utc"], &[]);
    assert!(text(&words.stdout).contains("entry 7: settled late"), "{}", text(&words.stdout));
    for (a, b, told) in
        [("5", "7", "give --period"), ("nosuch", "7", "is no file"), ("99", "7", "no entry 99")]
    {
        let said = host.command(&["diff", a, b], &[]);
        assert_eq!(said.status.code(), Some(64), "{a} {b}: {}", text(&said.stderr));
        assert!(text(&said.stderr).contains(told), "{a} {b}: {}", text(&said.stderr));
    }
}

/// A closed bill that an earlier version of this program made: its journal, entry by entry, and its documents.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/closed")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |place: usize| u8::from_str_radix(&text[place..place + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// 2025-11-03T12:00:00Z, a boot that began long before.
fn then() -> Stamp {
    let ns = 2_000_000_000_000_000;
    Stamp { boot: BootNs(ns), mono_ns: ns, wall: WallUs(1_762_171_200_000_000) }
}

/// Makes the golden bill anew: only where a bill of this version is to be kept beside the older ones.
fn make_golden() {
    let host =
        Closable::of(Host::made_at(then(), true, ("gpuhost", 1_000), "whisper"), HOUR_MS / 2);
    let prices = host.prices(PRICES);
    let said = host.close(&["--prices", prices.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let dir = StateDir::at(host.host.folder.path());
    let reader = Reader::open(&dir).unwrap();
    let mut lines = String::new();
    let mut take = |figures: &Figures, at: Moment, evidence: &Evidence| {
        let body = canon::encode(&(at, figures.clone())).unwrap();
        let evidence = hex(&canon::encode(evidence).unwrap());
        lines.push_str(&[hex(&body).as_str(), " ", &evidence, "\n"].concat());
    };
    let mut entries = Vec::new();
    reader.period(0, u64::MAX, |entry| entries.push(entry.clone())).unwrap();
    for entry in entries {
        let evidence = reader.evidence(entry.seq).unwrap().unwrap();
        let at = match entry.figures {
            // At a moment of its own, whenever this is made.
            Figures::Closed(_) => Moment { boot: BootId(7), stamp: host.host.ago(0) },
            _ => entry.at,
        };
        take(&entry.figures, at, &evidence);
    }
    let late = host.late(41);
    take(&late.figures, late.at, &late.evidence);
    std::fs::create_dir_all(golden().join("files")).unwrap();
    std::fs::write(golden().join("entries"), lines).unwrap();
    for file in std::fs::read_dir(host.host.folder.path().join("files")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), golden().join("files").join(file.file_name())).unwrap();
    }
}

#[test]
fn a_bill_that_an_earlier_version_closed_is_still_the_same_bytes() {
    if std::env::var_os("GPU_LEDGER_MAKE_GOLDEN").is_some() {
        make_golden();
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = StateDir::at(folder.path());
    let (mut store, _) = Store::open(&dir).unwrap();
    let mut closed = None;
    for line in std::fs::read_to_string(golden().join("entries")).unwrap().lines() {
        let (body, evidence) = line.split_once(' ').unwrap();
        let (at, figures): (Moment, Figures) = canon::decode(&unhex(body)).unwrap();
        let evidence: Evidence = canon::decode(&unhex(evidence)).unwrap();
        if let Figures::Closed(period) = &figures {
            closed = Some((**period).clone());
        }
        store.append(vec![Draft { at, figures, evidence, argv: None }]).unwrap();
    }
    store.close().unwrap();
    let closed = closed.unwrap();
    let files = Files::of_writer(&dir).unwrap();
    for file in std::fs::read_dir(golden().join("files")).unwrap() {
        files.keep(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
    }
    // The entries are those that it was closed with, by the tree that it names.
    let extent = Extent::at(closed.through);
    let read = Reader::open(&dir).unwrap().period_within((0, u64::MAX), extent, |_| {}).unwrap();
    assert_eq!(read.end.head.seq, closed.through);
    let at =
        |wall: WallUs| jiff::Timestamp::from_microsecond(wall.0.cast_signed()).unwrap().to_string();
    let (since, until) = (at(closed.from), at(closed.to));
    let bill = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        command.args(["bill", "--utc", "--since", &since, "--until", &until, "--state-dir"]);
        command.arg(folder.path()).args(more).stdin(Stdio::null()).output().unwrap()
    };
    assert_eq!(closed.documents.len(), FORMS.len());
    for (word, digest) in &closed.documents {
        let said = bill(&form(word));
        let kept = std::fs::read(golden().join("files").join(digest.to_string())).unwrap();
        assert_eq!(said.stdout, kept, "{word}: {}", text(&said.stderr));
        assert_eq!(said.status.code(), Some(2), "whose a row is nobody knows");
    }
    // Made of the same entries by this version: their root is looked at, and the figures are the same.
    let now = value(&bill(&["--format", "json", "--share", "equal"]));
    let json = closed.documents.iter().find(|(word, _)| **word == *"json").unwrap().1.to_string();
    let kept = std::fs::read(golden().join("files").join(json)).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    // A later version may say more of a GPU, and nothing else than was said.
    let (gpus, of_now) = (kept["gpus"].as_array().unwrap(), now["gpus"].as_array().unwrap());
    assert!(gpus.len() == of_now.len() && !gpus.is_empty());
    for (gpu, now) in gpus.iter().zip(of_now) {
        for (field, said) in gpu.as_object().unwrap() {
            assert_eq!(now[field], *said, "{field}");
        }
    }
    assert_eq!(now["journal_head"], kept["journal_head"]);
    assert_eq!(held(&now, "ollama"), held(&kept, "ollama"));
    let afresh = value(&bill(&["--format", "json", "--as-of", "now"]));
    assert_eq!((held(&kept, "late"), held(&afresh, "late")), (None, Some(HOUR_MS / 4)));
}
