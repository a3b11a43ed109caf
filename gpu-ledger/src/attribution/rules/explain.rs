//! Which rule a process falls under, and why no earlier one.

use serde::Serialize;

use super::key::Seen;
use super::{Condition, Rule, RuleSet, Ruled};
use crate::attribution::Subject;
use crate::settlement::RuleId;

/// Rules told of that did not match; further ones are counted.
pub const FAILED_MAX: usize = 100;
/// Values shown of one key.
const VALUES_MAX: usize = 4;
/// Characters shown of one value or pattern.
const CHARS_MAX: usize = 120;

/// Why a process stands where it does.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// The rule that matched; `None` where none does.
    pub matched: Option<Matched>,
    /// The rules before it, the first [`FAILED_MAX`] of them.
    pub failed: Vec<Failed>,
    /// How many more did not match.
    pub failed_more: usize,
}

/// The rule that matched.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Matched {
    /// The account that it makes.
    pub account: String,
    /// Which rule.
    pub rule: RuleId,
    /// The line at which it begins.
    pub line: usize,
    /// Its conditions, in the file's order.
    pub held: Vec<Held>,
}

/// A condition that held.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Held {
    /// What it looks at.
    pub key: String,
    /// The value that matched, escaped and bounded.
    pub value: String,
    /// By which pattern.
    pub pattern: String,
}

/// A rule that did not match.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failed {
    /// Which rule.
    pub rule: RuleId,
    /// The line at which it begins.
    pub line: usize,
    /// The account it would have made, as it is written.
    pub account: String,
    /// The first of its conditions that does not hold.
    pub key: String,
    /// What that wants.
    pub wants: String,
    /// What stands there, escaped and bounded; empty where nothing is known.
    pub seen: Vec<String>,
    /// How many values more stand there.
    pub seen_more: usize,
    /// It would hold, but for a capture that took nothing.
    pub capture_is_empty: bool,
}

impl RuleSet {
    /// Which rule a process falls under, and what kept the earlier ones from it. Looks at every rule.
    #[must_use]
    pub fn explain(&self, subject: &Subject<'_>) -> Explanation {
        let seen = Seen::of(subject, &self.fields);
        let mut explanation = Explanation { matched: None, failed: Vec::new(), failed_more: 0 };
        for rule in &self.rules {
            match rule.conditions.iter().find(|condition| !condition.holds(&seen)) {
                None => {
                    explanation.matched =
                        rule.ruled(&seen).map(|ruled| rule.explain_match(&ruled, &seen));
                    break;
                }
                Some(condition) if explanation.failed.len() < FAILED_MAX => {
                    explanation.failed.push(rule.explain_failure(condition, &seen));
                }
                Some(_) => {
                    explanation.failed_more = explanation.failed_more.saturating_add(1);
                }
            }
        }
        explanation
    }
}

impl Rule {
    fn explain_match(&self, ruled: &Ruled, seen: &Seen<'_>) -> Matched {
        let held = self.conditions.iter().filter_map(|condition| {
            let found = condition.find(seen)?;
            Some(Held {
                key: condition.key.to_string(),
                value: condition.key.shown(found.value, CHARS_MAX),
                pattern: bounded(&found.pattern.to_string()),
            })
        });
        Matched {
            account: ruled.account.to_string(),
            rule: self.id,
            line: self.place.line,
            held: held.collect(),
        }
    }

    fn explain_failure(&self, condition: &Condition, seen: &Seen<'_>) -> Failed {
        let values = seen.values(&condition.key);
        let shown = values.iter().take(VALUES_MAX);
        let but_for_captures = |value: &[u8]| {
            condition.patterns.iter().any(|pattern| pattern.matches_without_groups(value))
        };
        let patterns = condition.patterns.iter().take(VALUES_MAX).map(ToString::to_string);
        let mut wants = patterns.collect::<Vec<_>>().join(" or ");
        match condition.patterns.len().saturating_sub(VALUES_MAX) {
            0 => {}
            more => wants = format!("{wants} or {more} others"),
        }
        Failed {
            rule: self.id,
            line: self.place.line,
            account: self.account.as_str().to_owned(),
            key: condition.key.to_string(),
            wants: bounded(&wants),
            seen: shown.map(|value| condition.key.shown(value, CHARS_MAX)).collect(),
            seen_more: values.len().saturating_sub(VALUES_MAX),
            capture_is_empty: values.iter().any(|value| but_for_captures(value)),
        }
    }
}

/// The operator's own text, which may have line ends in it.
fn bounded(text: &str) -> String {
    let flat: String = text.chars().filter(|c| !crate::escape::is_unprintable(*c)).collect();
    if flat.chars().count() <= CHARS_MAX {
        return flat;
    }
    flat.chars().take(CHARS_MAX.saturating_sub(1)).chain(['…']).collect()
}
