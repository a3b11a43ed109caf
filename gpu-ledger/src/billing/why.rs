//! What an entry rests on, for those who ask why.

use super::JournalFiles;
use crate::argv::{CmdlineMode, StoredText, stored};
use crate::journal::entry::{Evidence, KeptArgv, Moment};
use crate::journal::store::StoreError;

/// What one entry rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// When it was made.
    pub at: Moment,
    /// What named it, and what the driver said.
    pub evidence: Evidence,
    /// What is kept, by its mode, of the arguments that it commits to; `None` where they are not stored, or not any
    /// more. Of an entry that does not say its mode it is without secrets.
    pub argv: Option<KeptArgv>,
}

impl JournalFiles {
    /// What an entry rests on; `None` where it is not here.
    pub(crate) fn why(&self, seq: u64) -> Result<Option<Why>, StoreError> {
        let Some((at, evidence)) = self.evidence(seq)? else { return Ok(None) };
        let place = evidence.argv_place().filter(|place| {
            // With the mode `none` no file name was entered either: what another mode then kept is not told.
            place.mode.is_some() || evidence.identity().is_some_and(|one| !one.filename.is_empty())
        });
        let argv = place.map(|place| self.argv(place)).transpose()?.flatten().map(as_allowed);
        Ok(Some(Why { at, evidence, argv }))
    }
}

/// What may be told of kept arguments. Where it is not known which mode kept them, it may have been a lesser one than
/// that of the text, which then was stored for another entry: no secret of it is told.
fn as_allowed(mut kept: KeptArgv) -> KeptArgv {
    if kept.mode.is_none() && kept.text == StoredText::Captured {
        let stored = stored(&kept.argv, CmdlineMode::Redacted);
        kept.text = stored.text;
        kept.argv.bytes = stored.bytes.unwrap_or_default();
    }
    kept
}
