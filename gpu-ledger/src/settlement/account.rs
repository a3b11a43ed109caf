//! From a settlement to the line it stands on.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::{Ground, NamedBy};
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
    /// Identity known, no rule.
    Unclassified {
        /// What it is called.
        name: Arc<str>,
        /// What named it; `None` where that is not told.
        ground: Option<Ground>,
    },
    /// Identity not known: one line a reason.
    Unattributed(NamelessReason),
}

/// Which rule of a rule file made an account: its place in it, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(transparent)]
pub struct RuleId(pub u32);

impl Account {
    /// One that no rule named, but this.
    #[must_use]
    pub fn by(ground: Ground, name: impl Into<Arc<str>>) -> Self {
        Self::Unclassified { name: name.into(), ground: Some(ground) }
    }

    /// What named it; `None` where it has no name.
    #[must_use]
    pub fn named_by(&self) -> Option<NamedBy> {
        match self {
            Self::Ruled { .. } => Some(NamedBy::Rule),
            Self::Unclassified { ground, .. } => {
                Some(ground.map_or(NamedBy::Unknown, NamedBy::Ground))
            }
            Self::Unattributed(_) => None,
        }
    }

    /// The reason on whose line it stands, where it has no identity.
    #[must_use]
    pub const fn unattributed(&self) -> Option<NamelessReason> {
        match self {
            Self::Unattributed(reason) => Some(*reason),
            Self::Ruled { .. } | Self::Unclassified { .. } => None,
        }
    }
}

/// What stands where the name of a line does and is none: on bills, on the daemon's line, as a meter's label.
const OWN_WORDS: [&str; 23] = [
    "unattributed",
    "unclassified",
    "disputed",
    "TOTAL",
    "other",
    "other users",
    "account unknown",
    "program unknown",
    "user unknown",
    "gpu unknown",
    "no unit",
    "unit unknown",
    "no container",
    "container unknown",
    "no pod",
    "pod unknown",
    "no namespace",
    "namespace unknown",
    "no job",
    "job unknown",
    "no model",
    "service unknown",
    "kind unknown",
];

/// What stands on the daemon's line for that many accounts: `(34-more)`.
#[must_use]
pub fn more_accounts(count: usize) -> String {
    format!("({count}-more)")
}

/// Whether a word is one of [`more_accounts`].
fn is_more(word: &str) -> bool {
    let count = word.strip_prefix('(').and_then(|word| word.strip_suffix("-more)"));
    count.is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name of one of several accounts that are called alike, with what named it: `ollama (unit)`.
#[must_use]
pub fn marked(title: &str, named_by: NamedBy) -> String {
    format!("{title} ({named_by})")
}

/// What one of [`marked`] was made of.
#[must_use]
pub fn unmarked(word: &str) -> Option<(&str, NamedBy)> {
    let (title, mark) = word.strip_suffix(')')?.rsplit_once(" (")?;
    Some((title, NamedBy::of(mark)?))
}

/// A stranger's name as it stands beside our own words: one that is such a word is quoted, and so is one
/// that is quoted like that already, so that no two names become one.
#[must_use]
pub fn told_apart(name: &str) -> Cow<'_, str> {
    let mut core = name;
    loop {
        let bare = core.trim();
        let bare = bare.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(bare);
        if bare == core {
            break;
        }
        core = bare;
    }
    let is_reason = || NamelessReason::ALL.iter().any(|reason| reason.as_str() == core);
    if OWN_WORDS.contains(&core) || is_reason() || is_more(core) || unmarked(core).is_some() {
        Cow::Owned(format!("\"{name}\""))
    } else {
        Cow::Borrowed(name)
    }
}

impl Account {
    /// Its name where our own words stand beside it; of an unattributed one the word and the reason.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            Self::Ruled { name, .. } | Self::Unclassified { name, .. } => {
                told_apart(name).into_owned()
            }
            Self::Unattributed(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Account {
    /// Its name; of an unattributed one the word `unattributed` and the reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ruled { name, .. } | Self::Unclassified { name, .. } => f.pad(name),
            Self::Unattributed(reason) => f.pad(&format!("unattributed ({reason})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_name_that_is_a_word_of_ours_is_quoted_and_no_two_names_become_one() {
        let names = [
            "unattributed",
            "\"unattributed\"",
            "\"\"unattributed\"\"",
            " unattributed",
            "TOTAL",
            "total",
            "other users",
            "\"other users\"",
            "ollama",
            "\"ollama\"",
            "\"",
            "",
        ];
        let told: BTreeSet<String> = names.iter().map(|name| told_apart(name).into()).collect();
        assert_eq!(told.len(), names.len(), "{told:?}");
        assert!(OWN_WORDS.iter().all(|word| !told.contains(*word)), "{told:?}");
        assert_eq!(told_apart("unattributed"), "\"unattributed\"");
        assert_eq!(told_apart(&more_accounts(34)), "\"(34-more)\"");
        assert_eq!(told_apart("(-more)"), "(-more)");
        // As one of several accounts that are called alike is marked.
        for by in NamedBy::all() {
            let name = marked("ollama", by);
            assert_eq!(told_apart(&name), format!("\"{name}\""));
        }
        assert_eq!(told_apart("ollama (user@1000)"), "ollama (user@1000)");
        assert_eq!((&*told_apart("total"), &*told_apart("\"ollama\"")), ("total", "\"ollama\""));
        let nameless = Account::Unattributed(NamelessReason::EventLost);
        assert_eq!(nameless.title(), "unattributed (event-lost)");
    }
}
