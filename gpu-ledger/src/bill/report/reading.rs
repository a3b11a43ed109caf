//! How a bill's entries came to its reader, and what that reader could prove of them.

use serde::Serialize;

/// Who read the journal.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// The reader itself.
    #[default]
    Files,
    /// The daemon, for a reader who may not, or did not want to.
    Daemon,
    /// Audit bundles, each verified before anything of it was read.
    Bundle,
}

/// What the reader proved, most first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proven {
    /// Every figure, and that none is missing.
    #[default]
    Journal,
    /// Every figure; that none is missing is the daemon's word.
    Entries,
    /// Nothing: all of it is the daemon's word.
    Nothing,
}

/// How the entries came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Who read the journal.
    pub through: Through,
    /// What this reader proved.
    pub proven: Proven,
    /// The user who sees their own lines alone, others' being folded into one; `None` of who sees all.
    pub only_uid: Option<u32>,
    /// Whether something outside of the database says where it ends.
    pub witnessed: bool,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            through: Through::default(),
            proven: Proven::default(),
            only_uid: None,
            witnessed: true,
        }
    }
}

/// The same as a bill says it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ReadingLine {
    /// Who read the journal.
    pub through: Through,
    /// What this reader proved.
    pub proven: Proven,
    /// The only user whose lines are shown, others' being folded into one; null where all are.
    pub only_uid: Option<u32>,
    /// Their name, where this system knows it.
    pub only_user: Option<String>,
    /// Whether something outside of the database says where it ends: without it entries cut off its end
    /// would not be missed.
    pub end_witnessed: bool,
    /// Number of the last entry that was archived and is not here: what the entries up to it say is not on
    /// the bill. 0 where none is missing.
    pub missing_to: u64,
}
