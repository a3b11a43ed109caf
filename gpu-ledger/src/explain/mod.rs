//! Why a settlement stands where it does: everything that it rests on, or what would have named it.
//!
//! Purpose: what the journal says of chosen settlements, as a value ([`Explanation`]) and for people
//! ([`render`]). May touch: the journal's files, through [`JournalFiles`]. May not: attribute anew, or leave
//! out what speaks against it.

mod evidence;
mod page;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

pub use evidence::{Driver, Explained, Nameless, Weighed, Who};
pub use page::render;

use crate::attribution::{Label, label_of};
use crate::bill::{BillError, Called, Standing, dispute_of};
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
    /// Those that `bill --account` shows by this name.
    Account(String),
}

/// Why nothing is explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The journal cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The name of an account means several.
    #[error(transparent)]
    Name(#[from] BillError),
}

impl Choice {
    fn holds(&self, seq: u64, figures: &SettlementFigures, accounts: Option<&Accounts>) -> bool {
        match self {
            Self::Id(id) => {
                let own = SettlementId::of_parts(&figures.gpu, figures.pid, figures.start);
                own.as_str() == id || seq.to_string() == *id
            }
            Self::Account(_) => accounts.is_some_and(|accounts| accounts.hold(seq, figures)),
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
                    // `ollama.service (user@1000)`, or of whoever's manager.
                    Label::Unit => {
                        let manager = of(Label::UserManager);
                        let named = manager.and_then(|manager| {
                            value.strip_suffix(')')?.strip_suffix(&**manager)?.strip_suffix(" (")
                        });
                        let unit = named.unwrap_or(value);
                        **own == *unit || own.strip_suffix(".service") == Some(unit)
                    }
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

/// The settlements of an account, as bills have them: after every correction and conflict.
struct Accounts {
    called: Called<String>,
    moved: BTreeMap<u64, Account>,
    conflicts: BTreeSet<u64>,
}

impl Accounts {
    fn of(files: &JournalFiles, period: Span, word: &str) -> Result<Self, ExplainError> {
        let mut titles: BTreeSet<String> = BTreeSet::new();
        let (mut moved, mut conflicts) = (BTreeMap::new(), BTreeSet::new());
        files.visit(
            (period.from_ms(), period.to_ms()),
            &mut |entry: &Entry| match &entry.figures {
                Figures::Settlement(figures) if bears_on(figures, period) => {
                    titles.insert(figures.account.title());
                }
                Figures::Correction(correction) => {
                    if let Change::Account(account) = &correction.change {
                        titles.insert(account.title());
                        moved.insert(correction.of, account.clone());
                    }
                }
                Figures::Conflict(conflict) => {
                    conflicts.insert(conflict.of);
                }
                _ => {}
            },
        )?;
        let names: Vec<(String, String)> =
            titles.into_iter().map(|title| (title.clone(), title)).collect();
        Ok(Self { called: Called::of(&[word.to_owned()], &names)?, moved, conflicts })
    }

    fn hold(&self, seq: u64, figures: &SettlementFigures) -> bool {
        let account = self.moved.get(&seq).unwrap_or(&figures.account);
        let conflict = self.conflicts.contains(&seq).then_some(DisputeReason::Conflict);
        let nameless = account.unattributed();
        let is_ruled = matches!(account, Account::Ruled { .. });
        let standing = Standing {
            nameless,
            is_classified: nameless.is_none().then_some(is_ruled),
            dispute: conflict.or_else(|| dispute_of(figures.start, figures.held, figures.dispute)),
        };
        self.called.holds(&account.title(), standing)
    }
}

/// Explains the chosen settlements of a period.
///
/// # Errors
/// Those of reading the journal; [`ExplainError::Name`] where a name means several accounts.
pub fn explain(
    files: &JournalFiles,
    period: Span,
    choice: &Choice,
) -> Result<Explanation, ExplainError> {
    let accounts = match choice {
        Choice::Account(word) => Some(Accounts::of(files, period, word)?),
        Choice::Id(_) | Choice::Labelled(..) => None,
    };
    let mut chosen: BTreeMap<u64, Chosen> = BTreeMap::new();
    let mut more: u64 = 0;
    files.visit((period.from_ms(), period.to_ms()), &mut |entry: &Entry| match &entry.figures {
        Figures::Settlement(figures)
            if bears_on(figures, period) && choice.holds(entry.seq, figures, accounts.as_ref()) =>
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
