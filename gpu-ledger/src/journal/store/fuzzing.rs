//! What fuzzing asks of a journal's file (`fuzz/README.md`).

use std::fs;
use std::sync::OnceLock;

use super::reader::Reader;
use super::segment::Segment;
use super::{StoreError, check_file};
use crate::fuzzing::input::{changed, chosen, is_printable};
use crate::fuzzing::scratch;
use crate::journal::Head;
use crate::journal::canon::{decode, encode};

/// A journal of some entries, as an archive has them: a file by itself.
const GOLDEN: &[u8] = include_bytes!("../../../../fuzz/golden/journal.sqlite");
const FILE: &str = "journal.sqlite";

/// The file, some pages of which the input changes: opened or refused in words that are safe to print, and whole only
/// where its entries are those that it had.
///
/// # Panics
/// Where that does not hold.
pub fn journal(bytes: &[u8]) {
    let (how, input) = chosen(bytes);
    let file = if how & 1 == 0 { changed(GOLDEN, input) } else { input.to_vec() };
    let golden = golden();
    scratch::with(|folder| {
        let checked = of_file(folder, &file);
        if checked.as_ref().is_ok_and(Option::is_some) {
            assert_eq!(checked.ok().flatten().as_ref(), golden.as_ref());
        }
        let Ok(reader) = Reader::open_file(&folder.join(FILE)) else { return };
        drop(reader.end());
        drop(reader.notes(8));
        drop(reader.gaps(8, |_| ()));
        drop(reader.open_identities());
        drop(reader.period(0, u64::MAX, |_| ()));
        for seq in [1, 2, 7] {
            drop(reader.entry(seq));
            drop(reader.evidence(seq));
        }
    });
}

/// The head of the golden file; that it is whole is what everything here rests on.
fn golden() -> Option<Head> {
    static HEAD: OnceLock<Option<Head>> = OnceLock::new();
    let head = HEAD.get_or_init(|| scratch::with(|folder| of_file(folder, GOLDEN).ok().flatten()));
    assert!(head.as_ref().is_some_and(|head| head.seq > 0), "the golden journal is not whole");
    head.clone()
}

/// The head of a file; none where something is wrong with it.
fn of_file(folder: &std::path::Path, bytes: &[u8]) -> Result<Option<Head>, StoreError> {
    // What SQLite left of the file before this one is none of this one's.
    for beside in ["-wal", "-shm", "-journal"] {
        drop(fs::remove_file(folder.join(format!("{FILE}{beside}"))));
    }
    scratch::write(folder, FILE, bytes);
    let checked = check_file(&folder.join(FILE));
    match &checked {
        Err(error) => assert!(is_printable(&error.to_string()), "{error:?}"),
        Ok(report) => {
            assert!(report.faults.iter().all(|fault| is_printable(&fault.what)), "{report:?}");
        }
    }
    checked.map(|report| report.is_whole().then_some(report.head))
}

/// A segment's bytes: written again they are the same.
pub(crate) fn segment(bytes: &[u8]) {
    if let Ok(segment) = decode::<Segment>(bytes) {
        assert_eq!(encode(&segment).ok().as_deref(), Some(bytes));
    }
}
