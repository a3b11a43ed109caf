//! What an entry rests on, for those who ask why.

use super::JournalFiles;
use crate::journal::entry::{Evidence, KeptArgv, Moment};
use crate::journal::store::StoreError;

/// What one entry rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// When it was made.
    pub at: Moment,
    /// What named it, and what the driver said.
    pub evidence: Evidence,
    /// The arguments that it commits to; `None` where they are not stored, or not any more.
    pub argv: Option<KeptArgv>,
}

impl JournalFiles {
    /// What an entry rests on; `None` where it is not here.
    pub(crate) fn why(&self, seq: u64) -> Result<Option<Why>, StoreError> {
        let Some((at, evidence)) = self.evidence(seq)? else { return Ok(None) };
        let identity = match &evidence {
            Evidence::Settlement(evidence) => evidence.identity.as_ref(),
            Evidence::Open(evidence) => evidence.identity.as_ref(),
            Evidence::None
            | Evidence::Conflict { .. }
            | Evidence::Epoch(_)
            | Evidence::Coverage(_) => None,
        };
        let commitment = identity.and_then(|identity| identity.argv.commitment);
        let argv = commitment.map(|commitment| self.argv(commitment)).transpose()?.flatten();
        Ok(Some(Why { at, evidence, argv }))
    }
}
