//! What fuzzing asks of the proof of a bundle (`fuzz/README.md`).

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::OnceLock;

use super::{Files, IntegrityWord, Known, Verdict, Wrong, proof, whole};
use crate::audit::layout::manifest_text;
use crate::audit::line::Parsed;
use crate::audit::manifest::Manifest;
use crate::audit::range::Range;
use crate::fuzzing::input::{changed, chosen, is_printable};
use crate::journal::chain::sha256;
use crate::journal::note::{SEED_LENGTH, SigningKey, VerifyingKey};

/// Names a file of the golden bundle (`tests/data/audit`), with its bytes.
macro_rules! golden {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../../tests/data/audit/v1/", $name)).as_slice())),*]
    };
}

const GOLDEN: [(&str, &[u8]); 18] = golden![
    "argv.jsonl",
    "bill.csv",
    "bill.focus.csv",
    "bill.json",
    "bill.txt",
    "bill.xlsx",
    "checkpoint",
    "checks.sql",
    "context.jsonl",
    "entries.jsonl",
    "entries.parquet",
    "key.pub",
    "manifest.json",
    "manifest.sig",
    "prices/5b5dcdc2817ed5e838db5d172fdba0776fc53eddba6501ec593b37c058f6b95e.toml",
    "range.json",
    "readme.md",
    "schema.json",
];
const SCRIPT: (&str, &[u8]) =
    ("verify.py", include_bytes!("../../../../tests/data/audit/v1/verify.py"));

/// Whose files prove each entry and each file, so that nobody who lacks their maker's key can change them, and nobody
/// who has it without changing what an older checkpoint said.
const PROVEN: [&str; 4] = ["checkpoint", "context.jsonl", "entries.jsonl", "range.json"];

/// A bundle in memory.
#[derive(Clone)]
struct Bundle(BTreeMap<&'static str, Vec<u8>>);

impl Files for Bundle {
    fn names(&self) -> Result<BTreeMap<Vec<u8>, bool>, Wrong> {
        Ok(self.0.keys().map(|name| (name.as_bytes().to_vec(), true)).collect())
    }

    fn open(&self, name: &str) -> io::Result<(Box<dyn Read + Send + '_>, u64)> {
        let bytes = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok((Box::new(bytes.as_slice()), u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
    }
}

impl Bundle {
    fn golden() -> Self {
        let files = GOLDEN.into_iter().chain([SCRIPT]);
        Self(files.map(|(name, bytes)| (name, bytes.to_vec())).collect())
    }

    fn of(&self, name: &str) -> &[u8] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Makes the manifest fit the files again, and signs it, as somebody would who has the journal's key.
    fn seal_again(&mut self) {
        let Ok(mut manifest) = Manifest::parse(self.of("manifest.json")) else { return };
        for file in &mut manifest.files {
            let bytes = self.of(&file.name);
            (file.bytes, file.sha256) = (bytes.len().to_string(), sha256(bytes).to_string());
        }
        let Ok(text) = manifest.text() else { return };
        let note = golden_key()
            .and_then(|key| key.sign_note(&manifest_text(sha256(text.as_bytes()))).ok());
        let Some(note) = note else { return };
        self.0.insert("manifest.json", text.into_bytes());
        self.0.insert("manifest.sig", note.into_bytes());
    }
}

/// The key of the golden bundle, which is that of a test.
fn golden_key() -> Option<SigningKey> {
    SigningKey::from_seed("gpu-ledger/0123456789abcdef", &[7; SEED_LENGTH]).ok()
}

/// A verdict of the golden bundle's files, some of which the input changes: never good where a file is not what it was,
/// whoever made the manifest fit; and nothing in it writes to a terminal.
///
/// # Panics
/// Where that does not hold.
pub fn bundle(bytes: &[u8]) {
    let (which, rest) = chosen(bytes);
    let (how, input) = chosen(rest);
    let mut bundle = Bundle::golden();
    let names: Vec<&'static str> = bundle.0.keys().copied().collect();
    let Some(name) = which.checked_rem(names.len()).and_then(|at| names.get(at)) else { return };
    let good = bundle.of(name).to_vec();
    let other = if how & 1 == 0 { changed(&good, input) } else { input.to_vec() };
    let is_changed = other != good;
    bundle.0.insert(name, other);
    let is_sealed = how & 2 != 0;
    if is_sealed {
        bundle.seal_again();
    }
    let verdict = told(whole::verify(&bundle, &known(), None));
    let is_good = verdict.integrity.verdict == IntegrityWord::Good;
    let may_be_good = !is_changed || is_sealed && !PROVEN.contains(name);
    assert!(!is_good || may_be_good, "{name} was changed, and the bundle is good");
    assert!(is_good || is_changed, "{name} is as it was: {verdict}");
}

fn known() -> Known {
    static KEY: OnceLock<Option<VerifyingKey>> = OnceLock::new();
    let key = || golden_key().map(|key| key.public().clone());
    Known { key: KEY.get_or_init(key).clone(), witness: None }
}

fn told(verdict: Verdict) -> Verdict {
    let text = verdict.to_string();
    assert!(is_printable(&text), "{text:?}");
    assert_eq!(
        verdict.integrity.verdict == IntegrityWord::Good,
        verdict.integrity.faults_total == 0
    );
    verdict
}

/// The files of `audit prove` of the golden bundle's entries beside its range, which bring their way to the root.
pub(crate) fn golden_proofs() -> &'static [String] {
    static PROOFS: OnceLock<Vec<String>> = OnceLock::new();
    PROOFS.get_or_init(|| {
        let golden = Bundle::golden();
        let text = |name: &str| String::from_utf8_lossy(golden.of(name)).into_owned();
        let (key, checkpoint, context) =
            (text("key.pub"), text("checkpoint"), text("context.jsonl"));
        let proof = |line: &str| crate::audit::prove::text(key.trim_end(), &checkpoint, line).ok();
        context.lines().filter_map(proof).collect()
    })
}

/// The file of one proven settlement: good with the journal's key only as it was written.
///
/// # Panics
/// Where that does not hold.
pub fn proof(bytes: &[u8]) {
    let verdict = told(proof::verify(Ok(bytes.to_vec()), &known()));
    let is_good = verdict.integrity.verdict == IntegrityWord::Good;
    let is_written = golden_proofs().iter().any(|proof| proof.as_bytes() == bytes);
    assert!(!is_good || is_written, "a proof that nobody wrote is good");
    told(proof::verify(Ok(bytes.to_vec()), &Known::default()));
}

/// The documents of a bundle as those read them who go on with them: written again they are the same bytes.
///
/// # Panics
/// Where that does not hold.
pub fn bundle_documents(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::parse(bytes) {
        assert_eq!(manifest.text().ok().as_deref().map(str::as_bytes), Some(bytes));
    }
    if let Ok(manifest) = Manifest::parse(Bundle::golden().of("manifest.json")) {
        drop(Range::parse(bytes, &manifest));
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(parsed) = Parsed::of(line) else { continue };
        let mut again = String::new();
        let raw = parsed.raw(sha256(&parsed.evidence));
        if crate::audit::line::LinePrinter::default().print(raw, None, &mut again).is_ok() {
            let same = Parsed::of(again.trim_end_matches('\n').as_bytes());
            assert_eq!(same, Some(parsed));
        }
    }
}
