//! The settlements of an account, as bills have them: after every correction and conflict.

use std::collections::{BTreeMap, BTreeSet};

use super::ExplainError;
use super::sought::bears_on;
use crate::bill::{Called, Named, Standing, dispute_of};
use crate::journal::Entry;
use crate::journal::entry::{Change, Figures, SettlementFigures};
use crate::settlement::{Account, marked};
use crate::unit::Span;
use crate::unknown::DisputeReason;

/// Every account that there is, and what was said of settlements later.
#[derive(Default)]
pub(super) struct Titles {
    known: BTreeSet<Named>,
    moved: BTreeMap<u64, Account>,
    conflicts: BTreeSet<u64>,
}

/// What an account is called, and what named it.
fn named(account: &Account) -> Named {
    (account.title(), account.named_by())
}

/// Those that a word means.
pub(super) struct Accounts {
    called: Called<Named>,
    moved: BTreeMap<u64, Account>,
    conflicts: BTreeSet<u64>,
}

impl Titles {
    pub(super) fn see(&mut self, entry: &Entry, period: Span) {
        match &entry.figures {
            Figures::Settlement(figures) if bears_on(figures, period) => {
                self.known.insert(named(&figures.account));
            }
            Figures::Correction(correction) => {
                if let Change::Account(account) = &correction.change {
                    self.known.insert(named(account));
                    self.moved.insert(correction.of, account.clone());
                }
            }
            Figures::Conflict(conflict) => {
                self.conflicts.insert(conflict.of);
            }
            _ => {}
        }
    }

    /// What a word means among them.
    ///
    /// # Errors
    /// [`ExplainError::Name`] where it means several.
    pub(super) fn called(self, word: &str) -> Result<Accounts, ExplainError> {
        let Self { known, moved, conflicts } = self;
        let mut names = Vec::with_capacity(known.len());
        for one in known {
            let (title, named_by) = &one;
            names.extend(named_by.map(|named_by| (marked(title, named_by), one.clone())));
            names.push((title.clone(), one));
        }
        Ok(Accounts { called: Called::of(&[word.to_owned()], &names)?, moved, conflicts })
    }
}

impl Accounts {
    pub(super) fn hold(&self, seq: u64, figures: &SettlementFigures) -> bool {
        let account = self.moved.get(&seq).unwrap_or(&figures.account);
        let conflict = self.conflicts.contains(&seq).then_some(DisputeReason::Conflict);
        let nameless = account.unattributed();
        let is_ruled = matches!(account, Account::Ruled { .. });
        let standing = Standing {
            nameless,
            is_classified: nameless.is_none().then_some(is_ruled),
            dispute: conflict.or_else(|| dispute_of(figures.start, figures.held, figures.dispute)),
        };
        self.called.holds(&named(account), standing)
    }
}
