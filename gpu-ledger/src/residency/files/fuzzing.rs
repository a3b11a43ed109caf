//! What fuzzing asks of a batch's files (`fuzz/README.md`).

use std::path::Path;

use super::manifest::Manifest;
use super::rows::Row;
use super::{MANIFEST, marks, verify};
use crate::fuzzing::input::{changed, chosen, is_printable};
use crate::fuzzing::scratch;
use crate::residency::events::Event;
use crate::residency::sample::Sample;

const BATCH: &str = "20260922T000000Z-00000000";

/// Names a file of the accepted batch (`tests/data/residency`), with its bytes.
macro_rules! golden {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!(
            "../../../../tests/data/residency/accepted/20260922T000000Z-00000000/", $name
        )).as_slice())),*]
    };
}

const GOLDEN: [(&str, &[u8]); 16] = golden![
    "SHA256SUMS",
    "manifest.json",
    "marks.jsonl",
    "summary.json",
    "iterations/0001/events.jsonl",
    "iterations/0001/iteration.json",
    "iterations/0001/samples.jsonl",
    "iterations/0001/timeline.csv",
    "iterations/0002/events.jsonl",
    "iterations/0002/iteration.json",
    "iterations/0002/samples.jsonl",
    "iterations/0002/timeline.csv",
    "iterations/0003/events.jsonl",
    "iterations/0003/iteration.json",
    "iterations/0003/samples.jsonl",
    "iterations/0003/timeline.csv",
];

/// The accepted batch, a file of which the input changes: it is found, and what is said of it is safe to print.
///
/// # Panics
/// Where that does not hold.
pub fn batch(bytes: &[u8]) {
    let (which, rest) = chosen(bytes);
    let (how, input) = chosen(rest);
    let Some((name, good)) = which.checked_rem(GOLDEN.len()).and_then(|at| GOLDEN.get(at)) else {
        return;
    };
    let other = if how & 1 == 0 { changed(good, input) } else { input.to_vec() };
    let is_changed = other != *good;
    scratch::with(|folder| {
        let batch = folder.join(BATCH);
        whole(&batch);
        scratch::write(&batch, name, &other);
        let report = verify(&batch);
        drop(marks(&batch));
        scratch::write(&batch, name, good);
        let text = report.to_string();
        assert!(is_printable(&text), "{text:?}");
        assert_eq!(
            report.as_recorded == Some(true) && report.accepted,
            !is_changed,
            "{name}: {text}"
        );
    });
}

/// Writes the batch where it is not there yet. Whoever changes a file of it makes it good again.
fn whole(batch: &Path) {
    if !batch.join("SHA256SUMS").exists() {
        for (name, bytes) in GOLDEN.iter().rev() {
            scratch::write(batch, name, bytes);
        }
    }
}

/// Rows and the manifest, each by itself: what is read is written again and is then the same.
///
/// # Panics
/// Where that does not hold.
pub fn rows(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        again::<Sample>(line);
        again::<Event>(line);
    }
    let path = Path::new(MANIFEST);
    if let Ok((manifest, _)) = Manifest::read(path, bytes) {
        let text = manifest.text(path).unwrap_or_default();
        let read = Manifest::read(path, text.as_bytes());
        assert_eq!(read.ok().map(|(manifest, _)| manifest.text(path).ok()), Some(Some(text)));
    }
}

fn again<T: Row + serde::Serialize + PartialEq + std::fmt::Debug>(line: &[u8]) {
    let Ok(row) = T::parse(line) else { return };
    let text = serde_json::to_vec(&row);
    let read = text.as_deref().map(T::parse);
    assert!(matches!(&read, Ok(Ok(read)) if *read == row), "{row:?} was read again as {read:?}");
}
