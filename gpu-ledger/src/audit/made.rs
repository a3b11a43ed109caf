//! Made bundles for the tests of those who read them: every file but what only verification looks at.

use std::collections::BTreeMap;
use std::path::Path;

use super::layout::{
    ARGV, BILL_CSV, BILL_JSON, BILL_TXT, CHECKPOINT, CONTEXT, ENTRIES, KEY, MANIFEST, MANIFEST_SIG,
    RANGE,
};
use super::line::{LinePrinter, Raw};
use super::manifest::{Listed, Manifest, ManifestBill, ManifestPeriod, Of};
use super::range::Range;
use crate::journal::Digest;
use crate::journal::chain::{Kept, Sealed, sha256};
use crate::journal::note::{Checkpoint, SigningKey};
use crate::journal::tree::subtrees;
use crate::rendering::rfc3339;
use crate::unit::WallUs;

const ORIGIN: &str = "gpu-ledger/0011223344556677";

/// A bundle in the making.
pub(crate) struct MadeBundle<'s> {
    /// All of its entries, ascending: the last is the one that its checkpoint covers.
    pub(crate) entries: Vec<&'s Sealed>,
    /// Which journal.
    pub(crate) id: char,
    /// Its period.
    pub(crate) span_ms: (u64, u64),
    /// Further files, in place of those that are empty otherwise.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

fn moment(ms: u64) -> String {
    rfc3339(WallUs(ms * 1_000))
}

impl<'s> MadeBundle<'s> {
    pub(crate) fn of(
        entries: impl IntoIterator<Item = &'s Sealed>,
        id: char,
        span_ms: (u64, u64),
    ) -> Self {
        Self { entries: entries.into_iter().collect(), id, span_ms, files: BTreeMap::new() }
    }

    fn lines(&self, first: u64) -> (String, String) {
        let (mut entries, mut context) = (String::new(), String::new());
        let mut printer = LinePrinter::default();
        for Sealed { entry, body, evidence } in self.entries.iter().copied() {
            let (seq, previous, hash) = (entry.seq, entry.previous, entry.hash);
            let kept = Kept { seq, body, evidence: entry.evidence, previous, hash };
            let (proof, out) = if seq >= first {
                (None, &mut entries)
            } else {
                (Some([].as_slice()), &mut context)
            };
            printer.print(Raw { kept, evidence }, proof, out).unwrap();
        }
        (entries, context)
    }

    /// Writes it.
    pub(crate) fn write(&self, path: &Path) {
        let size = self.entries.last().unwrap().entry.seq;
        let has = |seq| self.entries.iter().any(|sealed| sealed.entry.seq == seq);
        // The longest run of numbers up to the last is the range, the others are beside it.
        let mut first = size;
        while has(first - 1) {
            first -= 1;
        }
        let (entries, context) = self.lines(first);
        let zeros = |from, to| subtrees(from, to).map(|_| Digest([0; 32])).collect();
        let range = Range {
            of: (first, size, size),
            left: zeros(0, first - 1),
            right: zeros(size, size),
            booked: BTreeMap::new(),
            unresolved: Vec::new(),
            consistency: Vec::new(),
        };
        let (since_ms, until_ms) = self.span_ms;
        let [since, until] = [since_ms, until_ms].map(moment);
        let own = serde_json::json!({"bill_id": "x", "period": {"since": since, "until": until}});
        let key = SigningKey::from_seed(ORIGIN, &[7; 32]).unwrap();
        let root = Digest([u8::try_from(self.id).unwrap(); 32]);
        let checkpoint = Checkpoint { origin: ORIGIN.into(), size, root };
        let mut files: BTreeMap<String, Vec<u8>> = [
            (ARGV, String::new()),
            (BILL_CSV, String::new()),
            (BILL_JSON, own.to_string()),
            (BILL_TXT, String::new()),
            (CHECKPOINT, checkpoint.sign(&key).unwrap()),
            (CONTEXT, context),
            (ENTRIES, entries),
            (KEY, format!("{}\n", key.public())),
            (RANGE, range.text().unwrap()),
        ]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text.into_bytes()))
        .collect();
        files.extend(self.files.clone());
        let listed = files.iter().map(|(name, bytes)| {
            Listed::new(name, u64::try_from(bytes.len()).unwrap(), sha256(bytes))
        });
        let bill = ManifestBill {
            by: "account".to_owned(),
            share: "none".to_owned(),
            prices: None,
            now_ms: until_ms.to_string(),
            users: [(1_000, format!("user-of-{}", self.id))].into(),
        };
        let (since_ms, until_ms) = (since_ms.to_string(), until_ms.to_string());
        let zone = "UTC".to_owned();
        let period = ManifestPeriod { since_ms, until_ms, since, until, zone };
        let manifest = Of {
            origin: ORIGIN.to_owned(),
            journal: format!("{0}{0}", self.id),
            host: "gpuhost".to_owned(),
            period,
            bill,
            range: (first, size, size),
        };
        let manifest = Manifest::new(manifest, listed.collect());
        std::fs::create_dir_all(path).unwrap();
        for (name, bytes) in &files {
            let file = path.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, bytes).unwrap();
        }
        std::fs::write(path.join(MANIFEST), manifest.text().unwrap()).unwrap();
        std::fs::write(path.join(MANIFEST_SIG), "").unwrap();
    }
}
