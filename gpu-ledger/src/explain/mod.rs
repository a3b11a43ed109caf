//! Why a settlement stands where it does: everything that it rests on, or what would have named it.
//!
//! Purpose: what the journal says of chosen settlements, as a value ([`Explanation`]) and for people
//! ([`render`]). May touch: a journal, through a `Source` of [`crate::billing`]. May not: put
//! anything on another account than it is booked on, or leave out what speaks against it.

mod accounts;
mod choice;
mod evidence;
mod grounds;
mod memory;
mod nameless;
mod page;
mod sought;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::Serialize;

pub use choice::{Choice, IdWord};
pub use evidence::{Driver, Explained, Group, Who};
pub use grounds::{NEAR_MAX, Near, RulesAtHand, RulesLack, Ruling};
pub use memory::MemoryExplained;
pub use nameless::{Nameless, NotSeen, Weighed};
pub use page::render;

use self::accounts::Titles;
use self::sought::Sought;
use crate::bill::BillError;
use crate::bill::ledger::Ledger;
use crate::billing::{Source, WHY_MAX};
use crate::clock::Stamp;
use crate::journal::Digest;
use crate::journal::entry::SettlementFigures;
use crate::journal::store::Extent;
use crate::unit::Span;
use crate::unknown::DisputeReason;

/// Settlements that are explained at once; further ones are counted.
pub const EXPLAINED_MAX: usize = WHY_MAX;
/// The name of the format.
pub const FORMAT: &str = "gpu-ledger-explain";
/// Its version.
pub const VERSION: u32 = 1;

/// Why nothing is explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// No id begins like that.
    #[error(
        "\"{word}\" is no id of a settlement: one is the first 8 of the GPU's UUID, the pid and startTime in \
         microseconds, as in 0a2b3c4d-4711-1795996800001000; its beginning, a pid or the number of an entry will do \
         where that means one; names go with --account, --job, --pod, --container, --unit"
    )]
    NoId {
        /// What was typed, safe to print.
        word: String,
    },
    /// An option without a name.
    #[error(
        "--{option} is empty; give the name of one, as `gpu-ledger bill --by {option}` has them, or the ID of a \
         settlement"
    )]
    Empty {
        /// Which.
        option: &'static str,
    },
    /// It means more than one.
    #[error("{what}")]
    Several {
        /// Which.
        what: String,
    },
    /// The name of an account means several.
    #[error(transparent)]
    Name(#[from] BillError),
    /// There is none.
    #[error("{what}")]
    None {
        /// What was looked for, and what there is.
        what: String,
    },
}

impl ExplainError {
    /// Whether something else has to be typed.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::NoId { .. } | Self::Empty { .. } | Self::Several { .. } => true,
            Self::Name(error) => error.is_usage(),
            Self::None { .. } => false,
        }
    }
}

/// What the journal says of chosen settlements.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// [`FORMAT`].
    pub format: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Each, in the order in which they were booked; at most [`EXPLAINED_MAX`].
    pub settlements: Vec<Explained>,
    /// How many more there are.
    pub more: u64,
    /// The only user whose settlements were looked through, since the daemon shows this reader no other's; null
    /// where all were.
    pub only_uid: Option<u32>,
}

/// A settlement as it was entered, and what later entries say of it.
struct Chosen {
    seq: u64,
    hash: Digest,
    figures: SettlementFigures,
    dispute: Option<DisputeReason>,
    /// When the agent that booked it began to watch; `None` where no entry says.
    began: Option<Stamp>,
}

/// What was read up to.
struct ReadEnd {
    /// Number of the last entry that was archived and is not here.
    missing: u64,
    /// The only user whose settlements this reader sees.
    only_uid: Option<u32>,
    /// Numbers of what is open.
    unresolved: BTreeSet<u64>,
}

/// Explains the chosen settlements of a period. `rules`: those at hand; what is told of rules are those that were in
/// force, where these are the same.
///
/// # Errors
/// Those of reading the journal; an [`ExplainError`] where there is none, or an id means several.
pub(crate) fn explain(
    source: &mut dyn Source,
    period: Span,
    choice: &Choice,
    rules: Option<&RulesAtHand>,
) -> anyhow::Result<Explanation> {
    let accounts = match choice {
        Choice::Account(word) => {
            let mut titles = Titles::default();
            source
                .visit_entries(period, Extent::default(), &mut |entry| titles.see(entry, period))?;
            Some(titles.called(word)?)
        }
        Choice::Id(_) | Choice::Labelled(..) => None,
    };
    let mut sought = Sought::new(choice, accounts.as_ref(), period);
    let end = source.visit_entries(period, Extent::default(), &mut |entry| sought.take(entry))?;
    let outside = source.outside(&Ledger::new())?;
    let (missing, only_uid) = (outside.missing, outside.reading.only_uid);
    let unresolved = end.unresolved.keys().copied().collect();
    let found = sought.found(&ReadEnd { missing, only_uid, unresolved })?;
    let of: Vec<(u64, Digest)> = found.chosen.values().map(|one| (one.seq, one.hash)).collect();
    let mut why = source.why_of(&of)?;
    let settlements = found.chosen.values();
    let settlements = settlements.map(|one| evidence::of(one, why.remove(&one.seq), rules));
    let mut settlements: Vec<Explained> = settlements.collect();
    let mut memory = memory::Gathered::of(&settlements);
    source.visit_entries(period, Extent::default(), &mut |entry| memory.take(entry))?;
    for (one, memory) in settlements.iter_mut().zip(memory.told()) {
        one.memory = Some(memory);
    }
    Ok(Explanation { format: FORMAT, version: VERSION, settlements, more: found.more, only_uid })
}
