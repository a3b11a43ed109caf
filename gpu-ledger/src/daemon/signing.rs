//! Checkpoints of the journal's tree: one a minute while entries come, one at the end, and none that does not continue
//! the last one. Part of the writer's thread, which owns the journal.

use std::sync::Arc;

use serde_json::{Value, json};

use super::anchors::{Anchors, one_line};
use super::request::VERSION;
use crate::clock::Stamp;
use crate::journal::entry::{BootId, Moment};
use crate::journal::store::{Signed, Signer, Store, StoreError};
use crate::unit::WallUs;

/// How often one is signed while entries come.
const INTERVAL_NS: u64 = 60_000_000_000;

/// What can be told of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Seal {
    /// The key, as a verifier key, and its id.
    pub(super) key: Option<(Arc<str>, Arc<str>)>,
    /// How far was signed last.
    pub(super) size: Option<u64>,
    /// When.
    pub(super) at: Option<WallUs>,
    /// Why nothing is signed.
    pub(super) lack: Option<Lack>,
}

/// Why nothing is signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Lack {
    /// Nothing may be: the journal does not continue what was signed, or with another key.
    Refused(Arc<str>),
    /// It cannot be at present, or nobody knows whether it may be.
    Unknown(Arc<str>),
}

impl Lack {
    fn of(error: &StoreError) -> Self {
        let told = error.to_string().into();
        match error {
            StoreError::Inconsistent { .. }
            | StoreError::Key { .. }
            | StoreError::Strange { .. } => Self::Refused(told),
            _ => Self::Unknown(told),
        }
    }

    /// In words.
    pub(super) fn why(&self) -> &Arc<str> {
        match self {
            Self::Refused(why) | Self::Unknown(why) => why,
        }
    }
}

/// When the next one is due. Pure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Pace {
    /// When it was last tried, by the clock that stands still while the machine sleeps.
    tried_ns: Option<u64>,
}

impl Pace {
    /// Whether a tree of `size` entries, of which `signed` are signed, is to be signed now.
    fn is_due(self, (size, signed): (u64, Option<u64>), now: Stamp, is_last: bool) -> bool {
        let is_new = size > 0 && signed != Some(size);
        let rested = |tried| now.mono_ns.saturating_sub(tried) >= INTERVAL_NS;
        is_new && (is_last || self.tried_ns.is_none_or(rested))
    }
}

/// Who signs, and how far that is.
#[derive(Debug)]
pub(super) struct Signing {
    boot: BootId,
    /// Of the machine, for the name of a key that is made.
    machine: Option<Vec<u8>>,
    signer: Option<Signer>,
    seal: Seal,
    pace: Pace,
    anchors: Anchors,
}

impl Signing {
    /// Opens the key; at the first start it is made and entered.
    pub(super) fn start(
        store: &mut Store,
        (boot, now): (BootId, Stamp),
        machine: Option<Vec<u8>>,
        anchors: Anchors,
    ) -> Self {
        let (signer, seal, pace) = (None, Seal::default(), Pace::default());
        let mut signing = Self { boot, machine, signer, seal, pace, anchors };
        signing.open(store, now);
        signing
    }

    fn open(&mut self, store: &mut Store, now: Stamp) {
        let at = Moment { boot: self.boot, stamp: now };
        match store.signer(at, self.machine.as_deref()) {
            Ok(signer) => self.take(signer),
            Err(error) => self.lacks(&error),
        }
    }

    fn take(&mut self, signer: Signer) {
        let public = signer.public();
        self.seal.key = Some((public.to_string().into(), public.id().to_string().into()));
        self.seal.lack = None;
        match signer.last_size() {
            Ok(Some((size, at))) => (self.seal.size, self.seal.at) = (Some(size), at.map(WallUs)),
            Ok(None) => {}
            Err(error) => self.lacks(&error),
        }
        self.signer = Some(signer);
    }

    /// Once for each reason.
    fn lacks(&mut self, error: &StoreError) {
        let lack = Lack::of(error);
        if self.seal.lack.as_ref() != Some(&lack) {
            match &lack {
                Lack::Refused(why) => tracing::error!("no checkpoint is signed: {why}"),
                Lack::Unknown(why) => tracing::warn!("no checkpoint is signed: {why}"),
            }
        }
        self.seal.lack = Some(lack);
    }

    /// What can be told of it.
    pub(super) const fn seal(&self) -> &Seal {
        &self.seal
    }

    /// Signs where that is due. Whether anything that can be told changed.
    pub(super) fn see_to(&mut self, store: &mut Store, now: Stamp, is_last: bool) -> bool {
        let head = store.end().head.seq;
        if !self.pace.is_due((head, self.seal.size), now, is_last) {
            return false;
        }
        self.pace.tried_ns = Some(now.mono_ns);
        if self.signer.is_none() {
            self.open(store, now);
        }
        let Some(signer) = &self.signer else { return true };
        match store.sign(signer) {
            Ok(note) => self.signed(&note, now),
            Err(error) => self.lacks(&error),
        }
        true
    }

    fn signed(&mut self, signed: &Signed, now: Stamp) {
        if self.seal.lack.take().is_some() {
            tracing::info!("checkpoints are signed again");
        }
        let size = signed.checkpoint.size;
        (self.seal.size, self.seal.at) = (Some(size), Some(now.wall));
        tracing::info!(checkpoint = %one_line(&signed.note), "a checkpoint was signed");
        self.anchors.send(signed, now.wall);
    }

    /// Lets another key sign from here on.
    ///
    /// # Errors
    /// What the asker is told.
    pub(super) fn rotate(
        &mut self,
        store: &mut Store,
        now: Stamp,
        is_lost: bool,
    ) -> Result<Value, StoreError> {
        let at = Moment { boot: self.boot, stamp: now };
        let signer = store.rotate_key(at, self.machine.as_deref(), is_lost)?;
        self.take(signer);
        // The new key's first word.
        self.pace = Pace::default();
        let key = self.seal.key.as_ref().map(|(key, _)| key.to_string());
        tracing::info!(key, "another key signs checkpoints");
        Ok(json!({ "version": VERSION, "key": key }))
    }

    /// The last word: waits a moment until it is where it must be.
    pub(super) fn finish(&mut self) {
        self.anchors.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::BootNs;

    #[test]
    fn one_is_due_a_minute_after_the_last_try_where_there_is_something_new() {
        let at = |seconds: u64| Stamp {
            boot: BootNs(0),
            mono_ns: seconds * 1_000_000_000,
            wall: WallUs(0),
        };
        let none = Pace::default();
        assert!(!none.is_due((0, None), at(5), true), "nothing was entered");
        assert!(none.is_due((1, None), at(5), false));
        assert!(!none.is_due((7, Some(7)), at(5), true), "it is signed");
        let tried = Pace { tried_ns: Some(at(100).mono_ns) };
        assert!(!tried.is_due((8, Some(7)), at(159), false));
        assert!(tried.is_due((8, Some(7)), at(160), false));
        assert!(tried.is_due((8, Some(7)), at(101), true), "the last word waits for nothing");
        assert!(!tried.is_due((7, Some(7)), at(900), false));
        // Of a journal that is shorter than what was signed it is told that it is.
        assert!(tried.is_due((6, Some(7)), at(160), false));
    }
}
