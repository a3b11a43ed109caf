//! Why a settlement stands where it does: everything that it rests on, or what would have named it.
//!
//! Purpose: what the journal says of chosen settlements, as a value ([`Explanation`]) and for people
//! ([`render`]). May touch: the journal's files, through [`JournalFiles`]. May not: attribute anew, or leave
//! out what speaks against it.

mod evidence;
mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

pub use evidence::{Driver, Explained, Nameless, Weighed, Who};
pub use page::render;

use crate::attribution::{Label, label_of};
use crate::billing::JournalFiles;
use crate::journal::entry::{Change, Figures, SettlementFigures};
use crate::journal::store::StoreError;
use crate::journal::{Digest, Entry};
use crate::settlement::{Account, SettlementId};
use crate::unit::{Span, WallUs};
use crate::unknown::DisputeReason;

/// Settlements that are explained at once; further ones are counted.
pub const EXPLAINED_MAX: usize = 100;
/// The name of the format.
pub const FORMAT: &str = "gpu-ledger-explain";
/// Its version.
pub const VERSION: u32 = 1;

/// Which settlements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The one of this id, or of this number in the journal.
    Id(String),
    /// Those with this label.
    Labelled(Label, String),
    /// Those of this account.
    Account(String),
}

impl Choice {
    fn holds(&self, seq: u64, figures: &SettlementFigures, account: &Account) -> bool {
        match self {
            Self::Id(id) => {
                let own = SettlementId::of_parts(&figures.gpu, figures.pid, figures.start);
                own.as_str() == id || seq.to_string() == *id
            }
            Self::Account(name) => account.title() == *name || account.to_string() == *name,
            Self::Labelled(label, value) => {
                let of = |label| label_of(&figures.labels, label);
                let is = |own: &Arc<str>| match label {
                    // As people write it: without the scheduler, the namespace, the rest of an id.
                    Label::Job => **own == **value || own.split(' ').next_back() == Some(value),
                    // `docker 3f2a9c0d1e4b` is how a bill has it.
                    Label::Container => {
                        let id = value.split(' ').next_back().unwrap_or(value);
                        own.starts_with(id) && id.len() >= 12 || **own == *id
                    }
                    Label::Unit => **own == **value || own.strip_suffix(".service") == Some(value),
                    _ => **own == **value,
                };
                let by_name = match label {
                    Label::Container => of(Label::ContainerName),
                    Label::PodUid => of(Label::Pod),
                    _ => None,
                };
                of(*label).is_some_and(is) || by_name.is_some_and(|own| **own == **value)
            }
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
}

/// A settlement as it was entered, and what later entries say of it.
struct Chosen {
    seq: u64,
    hash: Digest,
    figures: SettlementFigures,
    dispute: Option<DisputeReason>,
}

/// Whether it held its GPU in the period, or, without a start, was read in it.
fn bears_on(figures: &SettlementFigures, period: Span) -> bool {
    let from_ms = figures.start.map_or(figures.read_at.wall.ms(), WallUs::ms);
    let to_ms = from_ms.saturating_add(figures.held.0);
    from_ms < period.to_ms() && period.from_ms() <= to_ms
}

/// Explains the chosen settlements of a period.
///
/// # Errors
/// Those of reading the journal.
pub fn explain(
    files: &JournalFiles,
    period: Span,
    choice: &Choice,
) -> Result<Explanation, StoreError> {
    let mut chosen: BTreeMap<u64, Chosen> = BTreeMap::new();
    let mut more: u64 = 0;
    files.visit((period.from_ms(), period.to_ms()), &mut |entry: &Entry| match &entry.figures {
        Figures::Settlement(figures)
            if bears_on(figures, period) && choice.holds(entry.seq, figures, &figures.account) =>
        {
            if chosen.len() < EXPLAINED_MAX {
                let (seq, hash, dispute) = (entry.seq, entry.hash, figures.dispute);
                let figures = (**figures).clone();
                chosen.insert(seq, Chosen { seq, hash, figures, dispute });
            } else {
                more = more.saturating_add(1);
            }
        }
        Figures::Correction(correction) => {
            if let (Some(one), Change::Account(account)) =
                (chosen.get_mut(&correction.of), &correction.change)
            {
                one.figures.account = account.clone();
            }
        }
        Figures::Conflict(conflict) => {
            if let Some(one) = chosen.get_mut(&conflict.of) {
                one.dispute = Some(DisputeReason::Conflict);
            }
        }
        _ => {}
    })?;
    let mut settlements = Vec::with_capacity(chosen.len());
    for one in chosen.values() {
        settlements.push(evidence::of(one, files.evidence(one.seq)?, |argv| files.argv(argv))?);
    }
    Ok(Explanation { format: FORMAT, version: VERSION, settlements, more })
}
