//! What a bill's lines are: one per account, or per something else that a settlement says.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{BillError, Line};
use crate::attribution::Dimension;
use crate::settlement::NamedBy;
use crate::unknown::NamelessReason;

/// What one line of a bill stands for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum By {
    /// An account.
    #[default]
    Account,
    /// A user, by the real user id.
    User,
    /// A program.
    Program,
    /// A GPU.
    Gpu,
    /// An account, and below it every process and span.
    Process,
    /// Where it ran, or what else its settlements are labelled with.
    Label(Dimension),
}

impl By {
    /// Every dimension, in the order of the help text.
    pub const ALL: [Self; 13] = [
        Self::Account,
        Self::User,
        Self::Program,
        Self::Gpu,
        Self::Process,
        Self::Label(Dimension::Service),
        Self::Label(Dimension::Unit),
        Self::Label(Dimension::Container),
        Self::Label(Dimension::Pod),
        Self::Label(Dimension::Namespace),
        Self::Label(Dimension::Job),
        Self::Label(Dimension::Kind),
        Self::Label(Dimension::Model),
    ];

    /// All their words, as a person may type them.
    pub(super) fn words() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// The word on the command line and in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::User => "user",
            Self::Program => "program",
            Self::Gpu => "gpu",
            Self::Process => "process",
            Self::Label(dimension) => dimension.as_str(),
        }
    }

    /// What a line of it is called in a table.
    #[must_use]
    pub const fn line_word(self) -> &'static str {
        match self {
            Self::Process => Self::Account.as_str(),
            by => by.as_str(),
        }
    }

    /// Whether a bill that is made by it looks at labels, or shows them.
    #[must_use]
    pub const fn needs_labels(self) -> bool {
        matches!(self, Self::Label(_) | Self::Process)
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for By {
    type Err = BillError;

    fn from_str(word: &str) -> Result<Self, BillError> {
        let known = Self::ALL.into_iter().find(|by| by.as_str() == word);
        known.ok_or_else(|| BillError::UnknownDimension(word.to_owned()))
    }
}

/// A line's place among the lines of one bill: ascending by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LineKey {
    /// Its rank among the names; those without an identity come last.
    pub rank: u32,
    /// The reason on whose line it stands, where it has no identity.
    pub reason: Option<NamelessReason>,
}

impl LineKey {
    /// No line: of whoever is not on the bill.
    pub(super) const NOWHERE: Self = Self { rank: u32::MAX, reason: None };

    /// The line of a reason.
    #[must_use]
    pub const fn nameless(reason: NamelessReason) -> Self {
        Self { rank: u32::MAX, reason: Some(reason) }
    }
}

impl Line for LineKey {
    fn unattributed(&self) -> Option<NamelessReason> {
        self.reason
    }
}

/// A line's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LineName {
    /// As it is printed.
    pub text: Arc<str>,
    /// By a rule; `None` where the line is no account.
    pub is_classified: Option<bool>,
    /// What names it: lines of one name are several where it differs. `None` where it is neither an account nor a
    /// service.
    pub named_by: Option<NamedBy>,
    /// The identity is known, what this bill is made by is not (a user, a program).
    pub is_unknown: bool,
    /// The user that it stands for, by the real user id.
    pub uid: Option<u32>,
}
