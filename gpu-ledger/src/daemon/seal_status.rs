//! What is told of checkpoints: in a status, and on the page of meters.

use serde::Serialize;

use super::Daemon;
use super::anchors::{Outlet, Outlets};
use super::signing::{Lack, Seal};
use super::status::rfc3339;
use crate::clock::Stamp;
use crate::journal::store::{Signer, StateDir, StoreError};
use crate::metrics::CheckpointMeters;
use crate::unit::{Ms, WallUs};

/// How far the journal's tree is signed.
#[derive(Serialize, Debug)]
pub(crate) struct CheckpointStatus {
    /// The key that signs, as a verifier key; null where it is not known, as everything here.
    pub(crate) key: Option<String>,
    /// Its id, as in the lines of its signatures.
    pub(crate) key_id: Option<String>,
    /// Entries that the last checkpoint is of.
    pub(crate) size: Option<u64>,
    /// When it was signed.
    pub(crate) at: Option<String>,
    pub(crate) age_ms: Option<Ms>,
    /// Entries that no checkpoint is of.
    pub(crate) uncovered: Option<u64>,
    /// Why nothing is signed: the journal does not continue what was signed, or its key is another.
    pub(crate) refused: Option<String>,
    /// Why nothing can be signed.
    pub(crate) unknown: Option<String>,
    /// Where checkpoints go besides; null where no daemon answers.
    pub(crate) anchors: Option<AnchorsStatus>,
}

#[derive(Serialize, Debug)]
pub(crate) struct AnchorsStatus {
    pub(crate) syslog: OutletStatus,
    pub(crate) file: OutletStatus,
}

#[derive(Serialize, Debug)]
pub(crate) struct OutletStatus {
    /// Null before the first checkpoint.
    pub(crate) on: Option<bool>,
    /// Checkpoints of this run that did not get there.
    pub(crate) failed: u64,
    /// Why the last one did not; null where it did.
    pub(crate) lack: Option<String>,
}

impl OutletStatus {
    fn of(outlet: &Outlet) -> Self {
        Self { on: outlet.is_on, failed: outlet.failed, lack: outlet.lack.clone() }
    }
}

impl CheckpointStatus {
    fn of(seal: &Seal, head: u64, now: WallUs, outlets: Option<&Outlets>) -> Self {
        let why = |is_refused: bool| {
            let lack = seal.lack.as_ref();
            let lack = lack.filter(|lack| matches!(lack, Lack::Refused(_)) == is_refused);
            lack.map(|lack| lack.why().to_string())
        };
        Self {
            key: seal.key.as_ref().map(|(key, _)| key.to_string()),
            key_id: seal.key.as_ref().map(|(_, id)| id.to_string()),
            size: seal.size,
            at: seal.at.map(rfc3339),
            age_ms: seal.at.map(|at| Ms(now.ms().saturating_sub(at.ms()))),
            uncovered: uncovered(seal, head),
            refused: why(true),
            unknown: why(false),
            anchors: outlets.map(|outlets| AnchorsStatus {
                syslog: OutletStatus::of(&outlets.syslog),
                file: OutletStatus::of(&outlets.file),
            }),
        }
    }

    /// As the files of a directory have it.
    pub(super) fn of_files(dir: &StateDir, head: u64, now: WallUs) -> Self {
        let read = Signer::open(dir).and_then(|signer| {
            let Some(signer) = signer else { return Ok(Seal::default()) };
            let public = signer.public();
            let key = Some((public.to_string().into(), public.id().to_string().into()));
            let last = signer.last_size()?;
            let (size, at) = last.map_or((None, None), |(size, at)| (Some(size), at.map(WallUs)));
            Ok(Seal { key, size, at, lack: None })
        });
        let seal = read.unwrap_or_else(|error: StoreError| Seal {
            lack: Some(Lack::Unknown(error.to_string().into())),
            ..Seal::default()
        });
        Self::of(&seal, head, now, None)
    }
}

/// Entries that no checkpoint is of; `None` where that is not known.
fn uncovered(seal: &Seal, head: u64) -> Option<u64> {
    match (seal.size, &seal.key) {
        (Some(size), _) => Some(head.saturating_sub(size)),
        // Nothing was ever signed.
        (None, Some(_)) => Some(head),
        (None, None) => None,
    }
}

impl Daemon {
    pub(super) fn checkpoint_status(&self, now: Stamp) -> CheckpointStatus {
        let progress = self.writer.progress.borrow();
        let outlets = self.outlets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        CheckpointStatus::of(&progress.seal, progress.head.seq, now.wall, Some(&outlets))
    }

    pub(super) fn checkpoint_meters(&self) -> CheckpointMeters {
        let progress = self.writer.progress.borrow();
        let outlets = self.outlets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let seal = &progress.seal;
        let outlet = |name, outlet: &Outlet| {
            let is_on = outlet.is_on.map(|is_on| is_on && outlet.lack.is_none());
            (name, is_on, outlet.failed)
        };
        CheckpointMeters {
            key_id: seal.key.as_ref().map(|(_, id)| id.to_string()),
            size: seal.size,
            at: seal.at,
            uncovered: uncovered(seal, progress.head.seq),
            anchors: vec![outlet("syslog", &outlets.syslog), outlet("file", &outlets.file)],
        }
    }

    /// Why no checkpoint may be signed.
    pub(super) fn checkpoint_lack(&self) -> Option<String> {
        match &self.writer.progress.borrow().seal.lack {
            Some(Lack::Refused(why)) => Some(why.to_string()),
            _ => None,
        }
    }
}
