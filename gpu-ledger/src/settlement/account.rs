//! From a settlement to the line it stands on.

use std::fmt;
use std::sync::Arc;

use super::{Attribution, Named};
use crate::unknown::NamelessReason;

/// A line of the bill.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Account {
    /// By a rule.
    Ruled {
        /// What the rule calls it.
        name: Arc<str>,
        /// Which rule.
        rule: RuleId,
    },
    /// Identity known, no rule: the program's name.
    Unclassified(Arc<str>),
    /// Identity not known: one line a reason.
    Unattributed(NamelessReason),
}

/// Which rule of a rule file made an account: its place in it, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(transparent)]
pub struct RuleId(pub u32);

impl Account {
    /// The reason on whose line it stands, where it has no identity.
    #[must_use]
    pub const fn unattributed(&self) -> Option<NamelessReason> {
        match self {
            Self::Unattributed(reason) => Some(*reason),
            Self::Ruled { .. } | Self::Unclassified(_) => None,
        }
    }
}

impl fmt::Display for Account {
    /// Its name; of an unattributed one the word `unattributed` and the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ruled { name, .. } | Self::Unclassified(name) => f.pad(name),
            Self::Unattributed(reason) => f.pad(&format!("unattributed ({reason})")),
        }
    }
}

/// The account of an attribution. What an identity is called is not this room's matter:
/// `classify` sees the identity and answers with a rule's account or the program's name.
/// What has no identity never reaches it.
pub fn account_of(attribution: &Attribution, classify: impl FnOnce(&Named) -> Account) -> Account {
    match attribution {
        Attribution::Named(named) => classify(named),
        Attribution::Nameless(nameless) => Account::Unattributed(nameless.reason),
    }
}
