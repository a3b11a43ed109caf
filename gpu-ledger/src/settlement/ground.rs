//! What names an account.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::unknown::closed_list;

closed_list! {
    /// What names an account where no rule does, in the order in which it decides.
    Ground {
        /// The batch job.
        Job = "job",
        /// The pod.
        Pod = "pod",
        /// The container.
        Container = "container",
        /// Its program is part of a desktop.
        Desktop = "desktop",
        /// The systemd unit.
        Unit = "unit",
        /// The command that a scheduler (cron, at) started.
        Scheduler = "scheduler",
        /// Its program.
        Program = "program",
    }
}

impl Ground {
    /// The one of this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.as_str() == word)
    }
}

/// What named an account. Two accounts of one name that were named otherwise are two: whoever can call a program
/// what they like cannot put it on a service's line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NamedBy {
    /// A rule.
    Rule,
    /// No rule, and this.
    Ground(Ground),
    /// No rule; what else is not in its entry.
    Unknown,
}

impl NamedBy {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Ground(ground) => ground.as_str(),
            Self::Unknown => "unknown",
        }
    }

    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Rule, Self::Unknown].into_iter().chain(Ground::ALL.iter().copied().map(Self::Ground))
    }

    /// The one of this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::all().find(|one| one.as_str() == word)
    }

    /// Whether a rule did.
    #[must_use]
    pub const fn is_rule(self) -> bool {
        matches!(self, Self::Rule)
    }
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for NamedBy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
