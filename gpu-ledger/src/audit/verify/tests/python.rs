//! `assets/verify.py` on what is made here: the same words, byte for byte.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::made::Bundle;
use crate::audit::verify::{Known, Verdict};
use crate::journal::chain::sha256;
use crate::journal::form::schema;
use crate::support::skip;

/// Something that both are asked.
pub(super) struct Asked(Vec<Value>);

impl Asked {
    /// Of this bundle first.
    pub(super) fn of(bundle: &Bundle) -> Self {
        Self(vec![json!({ "bundle": files(bundle.0.iter()) })])
    }

    /// The verdict on a bundle, told as what it has that the first one has not.
    pub(super) fn verdict(&mut self, first: &Bundle, bundle: &Bundle, known: &Known) {
        let other = bundle.0.iter().filter(|(name, bytes)| first.0.get(*name) != Some(bytes));
        let without: Vec<&String> =
            first.0.keys().filter(|name| !bundle.0.contains_key(*name)).collect();
        let key = known.key.as_ref().map(ToString::to_string);
        let witness = known.witness.as_ref().map(|note| String::from_utf8(note.clone()).unwrap());
        self.0.push(
            json!({ "files": files(other), "without": without, "key": key, "witness": witness }),
        );
    }

    pub(super) fn proof(&mut self, proof: &[u8], known: &Known) {
        let key = known.key.as_ref().map(ToString::to_string);
        let witness = known.witness.as_ref().map(|note| String::from_utf8(note.clone()).unwrap());
        let proof = STANDARD.encode(proof);
        self.0.push(json!({ "proof_file": proof, "key": key, "witness": witness }));
    }

    pub(super) fn flips(&mut self, name: &str) {
        self.0.push(json!({ "flips": name }));
    }

    pub(super) fn line(&mut self, line: &str, proof: bool) {
        self.0.push(json!({ "line": line, "proof": proof }));
    }

    /// What verify.py answers; `None`, said loudly, where there is no Python that can.
    pub(super) fn answers(&self, test: &str) -> Option<Vec<String>> {
        let python = match python() {
            Ok(python) => python,
            Err(reason) => {
                skip(test, &reason);
                return None;
            }
        };
        let mut lines = String::new();
        for case in &self.0 {
            writeln!(lines, "{case}").unwrap();
        }
        let cases = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(cases.path(), lines).unwrap();
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/audit");
        let form = sha256(schema().unwrap().as_bytes()).to_string();
        let output = Command::new(python)
            .arg("-B")
            .arg(source.join("verify/tests/against.py"))
            .args([source.join("assets/verify.py").into_os_string(), form.into()])
            .arg(cases.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let printed = String::from_utf8(output.stdout).unwrap();
        // The first one is about the bundle as it is.
        Some(printed.lines().map(str::to_owned).collect())
    }
}

/// A Python that has `cryptography`.
pub(super) fn python() -> Result<PathBuf, String> {
    let has = |python: &str| {
        let run = Command::new(python).args(["-c", "import cryptography"]).output();
        run.is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(|python| has(python));
    found.map(PathBuf::from).ok_or_else(|| {
        "no python3 has the package cryptography: apt-get install python3-cryptography".to_owned()
    })
}

fn files<'f>(files: impl Iterator<Item = (&'f String, &'f Vec<u8>)>) -> Value {
    files
        .map(|(name, bytes)| (name.clone(), Value::from(STANDARD.encode(bytes))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// As `--json` prints it.
pub(super) fn told(verdict: &Verdict) -> String {
    serde_json::to_string(verdict).unwrap()
}
