//! From a daemon that books to somebody who checks the bill without it: export, verification by two programs, replay,
//! single proofs, SQL, a witness, and what a person had erased.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gpu_ledger::journal::Figures;
use serde_json::Value;

use crate::asking::{ledger, text};
use crate::canary::job;
use crate::daemon::{Daemon, Setup, assert_sound};
use crate::privilege::can_trace;
use crate::python;
use crate::support::{Sim, skip};

/// What checks a bundle besides the product: the newest on PyPI.
const PACKAGES: [&str; 2] = ["duckdb==2.0.1", "cryptography==48.0.0"];

/// Runs every statement of a file and prints the rows as JSON.
const SQL: &str = r#"
import duckdb, json, os, sys
os.chdir(sys.argv[1])
connection, rows = duckdb.connect(), []
for statement in connection.extract_statements(open("checks.sql").read()):
    rows += connection.execute(statement).fetchall()
print(json.dumps(rows))
"#;

const RULES: &str = "[[rule]]\naccount = \"speech\"\nargv = \"--speak\"\n";

fn audit(words: &[&str]) -> Output {
    ledger(0, 0, &[&["audit"], words].concat())
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

struct Audit<'a> {
    folder: PathBuf,
    state: &'a str,
    python: Option<PathBuf>,
}

impl Audit<'_> {
    fn export(&self, name: &str, more: &[&str]) -> PathBuf {
        let bundle = self.folder.join(name);
        let words = ["export", "--utc", "--period", "all", "--state-dir", self.state, "--out"];
        let said = audit(&[&words[..], &[bundle.to_str().unwrap()], more].concat());
        assert!(matches!(said.status.code(), Some(0 | 2)), "{said:?}");
        bundle
    }

    /// The verdict, on which the binary and the program in the bundle agree.
    fn verdict(&self, bundle: &Path, more: &[&str]) -> (Value, i32) {
        let words = ["verify", bundle.to_str().unwrap(), "--json"];
        let said = audit(&[&words[..], more].concat());
        let verdict: Value = serde_json::from_slice(&said.stdout).unwrap();
        if let Some(python) = &self.python {
            let mut other = Command::new(python);
            let other = other.arg("-B").arg(bundle.join("verify.py")).arg("--json").args(more);
            let other = other.output().unwrap();
            assert_eq!(text(&other.stdout), text(&said.stdout), "{}", text(&other.stderr));
            assert_eq!(other.status.code(), said.status.code());
        }
        (verdict, said.status.code().unwrap())
    }

    fn replayed(bundle: &Path) -> (Value, Option<i32>) {
        let said = audit(&["replay", bundle.to_str().unwrap(), "--json"]);
        (serde_json::from_slice(&said.stdout).unwrap(), said.status.code())
    }
}

fn run(sim: &Sim, words: &str) {
    assert!(job(sim, "train.py", &[words.to_owned()]).status().unwrap().success());
}

/// So many settlements are booked, and a mark says that everything was seen up to then.
fn booked(sim: &Sim, daemon: &Daemon<'_>, count: usize) {
    daemon.until_booked(count);
    let note = format!("{count} are booked");
    let socket = sim.folder().join("run/daemon.sock");
    let said = ledger(0, 0, &["mark", &note, "--socket", socket.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let wanted = Some(note.as_str());
    daemon.until_entered(
        "the mark",
        |figures| matches!(figures, Figures::Mark(mark) if mark.note.as_deref() == wanted),
    );
}

#[test]
fn whoever_is_billed_can_check_it_without_the_host_that_billed_it() {
    let test = "whoever_is_billed_can_check_it_without_the_host_that_billed_it";
    if !can_trace(test) {
        return;
    }
    let python = python::environment("audit", &PACKAGES).map_err(|reason| skip(test, &reason)).ok();
    let sim = Sim::start(&["--gpus", "2"]);
    let rules = sim.folder().join("rules.toml");
    std::fs::write(&rules, RULES).unwrap();
    let daemon = Setup::on(&sim).config(&format!("rules = \"{}\"\n", rules.display())).start();
    let state = daemon.state().to_str().unwrap().to_owned();
    let checking = Audit { folder: sim.folder().join("audit"), state: &state, python };
    std::fs::create_dir(&checking.folder).unwrap();
    run(&sim, "--speak");
    run(&sim, "--other");
    booked(&sim, &daemon, 2);

    // Beside the running daemon, by root.
    let first = checking.export("first", &[]);
    let (verdict, _) = checking.verdict(&first, &[]);
    assert_eq!(verdict["integrity"]["verdict"], "good", "{verdict}");
    assert_eq!(verdict["key"]["verdict"], "not-given", "{verdict}");
    let (replayed, status) = Audit::replayed(&first);
    assert_eq!((replayed["verdict"].as_str(), status), (Some("same"), Some(0)), "{replayed}");
    let bill = read(&first.join("bill.json"));
    let accounts = bill["accounts"].as_array().unwrap();
    assert!(accounts.iter().any(|line| line["account"] == "speech"), "{accounts:?}");
    let kept: Vec<_> = std::fs::read_dir(first.join("rules")).unwrap().collect();
    assert_eq!(kept.len(), 1, "the rules that were in force");

    // The same bytes again, though the journal went on.
    let size = verdict["bundle"]["size"].as_u64().unwrap();
    run(&sim, "--third");
    booked(&sim, &daemon, 3);
    let again = checking.export("again", &["--checkpoint", &size.to_string()]);
    for file in std::fs::read_dir(&first).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            let (one, other) = (file.path(), again.join(file.file_name()));
            assert!(std::fs::read(&one).unwrap() == std::fs::read(other).unwrap(), "{one:?}");
        }
    }
    let later = checking.continued(&first);
    checking.alone();
    checking.erased(&sim, &first, &later);
    drop(daemon.stop());
    assert_sound(Path::new(&state));
}

impl Audit<'_> {
    /// What is kept of the first proves that nothing up to there was changed since.
    fn continued(&self, first: &Path) -> PathBuf {
        let (key, witness) = (first.join("key.pub"), first.join("checkpoint"));
        let known = ["--key", key.to_str().unwrap(), "--witness", witness.to_str().unwrap()];
        let later = self.export("later", &["--witness", witness.to_str().unwrap()]);
        let (verdict, _) = self.verdict(&later, &known);
        assert_eq!(verdict["integrity"]["verdict"], "good", "{verdict}");
        assert_eq!(verdict["key"]["verdict"], "given", "{verdict}");
        assert_eq!(verdict["witness"], "consistent", "{verdict}");
        // And that the first is not all there is is found, or all that came after it would be gone.
        let newer = later.join("checkpoint");
        let (verdict, status) = self.verdict(first, &["--witness", newer.to_str().unwrap()]);
        assert_eq!((&verdict["witness"], status), (&"inconsistent".into(), 1), "{verdict}");
        if let Some(python) = &self.python {
            let mut sql = Command::new(python);
            let rows = python::output(sql.args(["-c", SQL]).arg(&later)).unwrap();
            let rows: Vec<(String, bool, String)> = serde_json::from_str(&rows).unwrap();
            assert_eq!(rows.len(), 8, "{rows:?}");
            assert!(rows.iter().all(|(_, is_ok, _)| *is_ok), "{rows:?}");
        }
        // A bill of bundles is the bill.
        let words = ["bill", "--period", "all", "--utc", "--format", "json", "--from"];
        let from = ledger(0, 0, &[&words[..], &[later.to_str().unwrap()]].concat());
        let from: Value = serde_json::from_slice(&from.stdout).unwrap();
        assert_eq!(from["accounts"], read(&later.join("bill.json"))["accounts"]);
        later
    }

    /// One settlement by itself.
    fn alone(&self) {
        let words = ["bill", "--by", "process", "--period", "all", "--format", "json"];
        let bill = ledger(0, 0, &[&words[..], &["--state-dir", self.state]].concat());
        let bill: Value = serde_json::from_slice(&bill.stdout).unwrap();
        let id = bill["settlements"][0]["id"].as_str().unwrap();
        let proof = self.folder.join("proof.json");
        let proof = proof.to_str().unwrap();
        let said = audit(&["prove", id, "--state-dir", self.state, "--out", proof]);
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        let said = audit(&["verify", proof]);
        assert_eq!(said.status.code(), Some(0), "{said:?}");
    }

    /// What a person had erased is no mismatch, and every proof stays.
    fn erased(&self, sim: &Sim, first: &Path, later: &Path) {
        let socket = sim.folder().join("run/daemon.sock");
        let place = ["--state-dir", self.state, "--socket", socket.to_str().unwrap()];
        let said = ledger(0, 0, &[&["journal", "redact", "--user", "0"], &place[..]].concat());
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        let witness = first.join("checkpoint");
        let known = ["--witness", witness.to_str().unwrap()];
        let erased = self.export("erased", &known);
        let (verdict, _) = self.verdict(&erased, &known);
        assert_eq!(verdict["integrity"]["verdict"], "good", "{verdict}");
        assert_eq!(verdict["witness"], "consistent");
        let (replayed, status) = Self::replayed(&erased);
        assert_eq!(status, Some(2), "{replayed}");
        assert!(replayed.to_string().contains("evidence-erased"), "{replayed}");
        // Those that were handed out before have it still.
        assert_eq!(Self::replayed(later).1, Some(0));
    }
}
