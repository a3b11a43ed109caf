//! Which keys signed for a journal, one after the other.

use std::sync::Arc;

use super::Wrong;
use super::books::Stands;
use crate::journal::note::{VerifyingKey, key_change_text};

/// An entry that says which key signs from there on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyEntry {
    pub(super) seq: u64,
    pub(super) stands: Stands,
    pub(super) key: Arc<str>,
    pub(super) previous: Option<Arc<str>>,
    pub(super) signature: Option<bytes::Bytes>,
}

/// The keys that entries name, as far as each was signed by the one before it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Keys {
    entries: Vec<KeyEntry>,
}

/// What no key is.
const NO_KEY: &str = "is not a key: name+id+base64";

/// A key, written as keys are and not otherwise.
pub(super) fn key(text: &str) -> Result<VerifyingKey, Wrong> {
    let key: VerifyingKey = text.parse().map_err(|_| NO_KEY)?;
    if key.to_string() == text { Ok(key) } else { Err(NO_KEY.into()) }
}

impl Keys {
    pub(super) fn take(&mut self, entry: KeyEntry) {
        self.entries.push(entry);
    }

    /// What is wrong with them, by entry; and what they come to.
    pub(super) fn chained(
        mut self,
        own: &VerifyingKey,
        mut fault: impl FnMut(Option<(Stands, u64)>, Wrong),
    ) -> Chained {
        self.entries.sort_by_key(|entry| entry.seq);
        let mut before: Option<Arc<str>> = None;
        let mut chained = Chained { all: vec![own.clone()], leading: vec![own.clone()], lost: 0 };
        for entry in &self.entries {
            match entry.follows(before.as_ref()) {
                Ok(follows) => {
                    before = Some(Arc::clone(&entry.key));
                    chained.take(follows);
                }
                Err(wrong) => fault(Some((entry.stands, entry.seq)), wrong),
            }
        }
        if before.is_some_and(|last| *last != *own.to_string()) {
            fault(None, "is not the key that the entries name last".into());
        }
        chained
    }
}

/// The keys of a journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Chained {
    /// Each that signed for it.
    pub(super) all: Vec<VerifyingKey>,
    /// Those that lead to the bundle's, each signed for by the one before it.
    pub(super) leading: Vec<VerifyingKey>,
    /// How often one was lost.
    pub(super) lost: u64,
}

impl Chained {
    fn take(&mut self, follows: Follows) {
        let Follows { previous, next, is_signed } = follows;
        if let Some(previous) = previous {
            self.all.push(previous.clone());
            if is_signed {
                self.leading.push(previous);
            } else {
                self.lost = self.lost.saturating_add(1);
                self.leading.truncate(1);
            }
        }
        self.all.push(next.clone());
        self.leading.push(next);
    }
}

/// A key, and the one before it.
struct Follows {
    previous: Option<VerifyingKey>,
    next: VerifyingKey,
    is_signed: bool,
}

impl KeyEntry {
    /// The keys that it names, where it follows.
    fn follows(&self, before: Option<&Arc<str>>) -> Result<Follows, Wrong> {
        let next = key(&self.key)?;
        if before.is_some() && self.previous.as_ref() != before {
            return Err("does not name the key before it".into());
        }
        let Some(previous) = &self.previous else {
            return Ok(Follows { previous: None, next, is_signed: false });
        };
        let previous = key(previous)?;
        if let Some(signature) = &self.signature {
            previous
                .check(&key_change_text(&previous, &next), signature)
                .map_err(|_| "is a key that the one before it did not sign")?;
        }
        Ok(Follows { previous: Some(previous), next, is_signed: self.signature.is_some() })
    }
}
