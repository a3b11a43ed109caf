//! Canonical bytes: what the journal and everything made of it is written in.

use crate::journal::canon::{Canonical, Texts, decode, decode_sharing, encode};
use crate::journal::chain::{Kept, read, read_evidence, sha256};
use crate::journal::entry::{ClosedPeriod, Evidence, Figures, Moment, OpenFigures};
use crate::journal::form::{ENTRY, EVIDENCE, Form, Printer};
use crate::journal::store::fuzzing::segment;
use crate::journal::{ChainError, Digest};

/// A body, evidence and all else that has canonical bytes: what is read is written again as the same bytes, shared texts
/// are the same texts, what is printed of it is JSON, and only what its hash covers is an entry.
///
/// # Panics
/// Where that does not hold.
pub fn entry(bytes: &[u8]) {
    let is_body = same::<(Moment, Figures)>(bytes);
    let is_evidence = same::<Evidence>(bytes);
    same::<OpenFigures>(bytes);
    same::<ClosedPeriod>(bytes);
    segment(bytes);
    printed(&ENTRY, bytes, is_body);
    printed(&EVIDENCE, bytes, is_evidence);
    let kept = Kept {
        seq: 1,
        body: bytes,
        evidence: Digest::NONE,
        previous: Digest::NONE,
        hash: Digest::NONE,
    };
    let Err(ChainError::Hash { computed, .. }) = read(kept) else { return };
    assert_eq!(read(Kept { hash: computed, ..kept }).is_ok(), is_body);
    assert_eq!(read_evidence(1, sha256(bytes), bytes).is_ok(), is_evidence);
    assert!(read_evidence(1, computed, bytes).is_err());
}

fn same<T: Canonical>(bytes: &[u8]) -> bool {
    let Ok(value) = decode::<T>(bytes) else {
        assert!(decode_sharing::<T>(bytes, &Texts::default()).is_err());
        return false;
    };
    assert_eq!(encode(&value).ok().as_deref(), Some(bytes));
    let shared = decode_sharing::<T>(bytes, &Texts::default());
    assert_eq!(shared.and_then(|value| encode(&value)).ok().as_deref(), Some(bytes));
    true
}

fn printed(form: &Form, bytes: &[u8], is_of_it: bool) {
    let mut text = String::new();
    let is_printed = Printer::default().print(form, bytes, &mut text).is_ok();
    assert_eq!(is_printed, is_of_it);
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
    assert_eq!(is_json, is_printed, "{text}");
}
