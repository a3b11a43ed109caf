//! Files that people write, and texts that come back to us.

use std::path::Path;

use jiff::tz::TimeZone;

use super::input::is_printable;
use crate::argv::{REDACTED, redact};
use crate::attribution::rules::RuleSet;
use crate::bill::figures::Told;
use crate::config::Config;
use crate::journal::note::{Checkpoint, Note, SigningKey, VerifyingKey};
use crate::metrics::HeldPage;
use crate::place::{Place, without_secrets};
use crate::prices;

fn lines_of(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count()
}

/// A configuration, or what is wrong with it, in words that are safe to print.
///
/// # Panics
/// Where that does not hold.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = Config::parse(text, Path::new("gpu-ledger.toml")) {
        let told = error.to_string();
        assert!(is_printable(&told) && !told.contains('\n'), "{told:?}");
    }
}

/// Rules, or faults that lie in the file and are safe to print; the same bytes are the same rules.
///
/// # Panics
/// Where that does not hold.
pub fn rules(bytes: &[u8]) {
    match RuleSet::parse(bytes) {
        Ok(rules) => {
            assert_eq!(rules.digest(), crate::journal::chain::sha256(bytes));
            let _ = rules.looks_at_argv();
        }
        Err(faults) => {
            assert!(!faults.faults.is_empty());
            for fault in &faults.faults {
                assert!((1..=lines_of(bytes)).contains(&fault.line), "{fault}");
                assert!(is_printable(&fault.to_string()), "{fault:?}");
            }
        }
    }
}

/// Prices, or faults that lie in the file and are safe to print; no price is lost, and none is more than a price may be.
///
/// # Panics
/// Where that does not hold.
pub fn prices(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match prices::parse(text, &TimeZone::UTC) {
        Ok(list) => {
            assert_eq!(list.text(), text);
            for price in list.prices() {
                let again = price.per_hour.to_string().parse().ok().and_then(prices::Rate::new);
                assert_eq!(again, Some(price.per_hour));
                assert!(price.from_ms < price.until_ms, "{price:?}");
            }
        }
        Err(faults) => {
            assert!(!faults.shown().is_empty());
            for fault in faults.shown() {
                assert!((1..=lines_of(bytes)).contains(&fault.line), "{fault}");
                assert!(is_printable(&fault.to_string()), "{fault:?}");
            }
        }
    }
}

/// Paths of control groups, a line each: names that are not empty; what is stored of a path is stored again as it is.
///
/// # Panics
/// Where that does not hold.
pub fn cgroup_path(bytes: &[u8]) {
    let paths: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').take(8).collect();
    for path in &paths {
        let place = Place::of_path(path);
        for name in [&place.unit, &place.user_unit, &place.slice].into_iter().flatten() {
            assert!(!name.is_empty(), "{place:?}");
        }
        assert!(place.service().is_none_or(|service| !service.is_empty()));
        assert!(place.container.as_ref().is_none_or(|container| !container.id.is_empty()));
        let stored = without_secrets(path);
        assert_eq!(without_secrets(&stored), stored);
        // What a place is does not depend on a secret in its path, which nobody has after it was stored.
        let _ = Place::of_path(&stored).is_desktop();
    }
    let place = Place::of(paths.iter().copied());
    let units = paths.iter().any(|path| Place::of_path(path).unit.is_some());
    assert_eq!(place.unit.is_some(), units, "what some path names is lost");
}

/// Arguments: redacted once and for all, and no word more or less than there was.
///
/// # Panics
/// Where that does not hold.
pub fn argv(bytes: &[u8]) {
    let Some((first, words)) = bytes.split_first() else { return };
    let is_cut = first & 1 == 1;
    let once = redact(words, is_cut).unwrap_or_else(|| words.to_vec());
    let count = |bytes: &[u8]| bytes.split(|byte| *byte == 0).count();
    assert_eq!(count(&once), count(words));
    let marks = once.windows(REDACTED.len()).any(|window| window == REDACTED);
    assert!(marks || once == words, "something was taken out, and nothing says so");
    let twice = redact(&once, is_cut).unwrap_or_else(|| once.clone());
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(shown(&twice), shown(&once));
}

/// Signed notes, checkpoints and keys: what is read is written again as it was, and nothing is signed that the key
/// did not sign.
///
/// # Panics
/// Where that does not hold.
pub fn note(bytes: &[u8]) {
    let key = SigningKey::from_seed("gpu-ledger/0123456789abcdef", &[7; 32]);
    if let (Ok(note), Ok(key)) = (Note::parse(bytes), key) {
        let text = note.unproven_text();
        if note.verify(&[key.public()]).is_ok() {
            // Signatures are the same for a text whenever they are made; others may stand beside this one.
            let signed = key.sign_note(text).unwrap_or_default();
            let line = signed.trim_end().lines().next_back().unwrap_or_default();
            let is_there =
                std::str::from_utf8(bytes).is_ok_and(|note| note.lines().any(|one| one == line));
            assert!(is_there, "signed by nobody: {text:?}");
        }
        drop(Checkpoint::open(bytes, &[key.public()]));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(checkpoint) = Checkpoint::parse(text) {
        assert_eq!(Checkpoint::parse(&checkpoint.text()), Ok(checkpoint));
    }
    if let Ok(key) = text.parse::<VerifyingKey>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
    if let Ok(key) = SigningKey::from_secret_text(text) {
        let again = SigningKey::from_secret_text(&key.secret_text());
        assert_eq!(again.map(|key| key.public().clone()), Ok(key.public().clone()));
    }
}

/// What an earlier run counted, read off its page of meters; what does not say from where to go on says nothing.
///
/// # Panics
/// Where that does not hold.
pub fn meters(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let page = HeldPage::of(text);
    assert!(page.is_none() || text.contains("held_journal_head"));
}

/// A bill as JSON that somebody kept.
///
/// # Panics
/// Where that does not hold.
pub fn bill(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(told) = Told::read(text) {
        assert_eq!(Told::read(text).ok(), Some(told));
    }
}
