//! Which rule a process falls under, and why no earlier one.

use serde::Serialize;

use super::key::Seen;
use super::{Condition, Rule, RuleSet, Ruled};
use crate::attribution::Subject;
use crate::settlement::RuleId;

/// Rules told of that did not match, and as many that could not be decided; further ones are counted.
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
    /// The rules before it that do not match whatever else were known, the nearest [`FAILED_MAX`] of them: those of
    /// which the fewest conditions do not hold first, then those of which the most do.
    pub failed: Vec<Failed>,
    /// How many more did not match.
    pub failed_more: usize,
    /// The rules before it that may match: nothing is known of what the conditions that do not hold look at. In the
    /// same order, and at most as many.
    pub undecided: Vec<Failed>,
    /// How many more there are.
    pub undecided_more: usize,
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
    /// How many of its conditions hold.
    pub holds: usize,
    /// Of how many.
    pub conditions: usize,
    /// The first of its conditions that does not hold; of a rule that does not match in any case, the first of
    /// which something is known.
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
        let seen = Seen::of(subject, &self.fields, &self.labels);
        let (mut matched, mut failed, mut undecided) = (None, Vec::new(), Vec::new());
        for rule in &self.rules {
            let Some(miss) = rule.miss(&seen) else {
                matched = rule.ruled(&seen).map(|ruled| rule.explain_match(&ruled, &seen));
                break;
            };
            if miss.is_decided { failed.push(miss) } else { undecided.push(miss) }
        }
        let (failed, failed_more) = nearest(failed, &seen);
        let (undecided, undecided_more) = nearest(undecided, &seen);
        Explanation { matched, failed, failed_more, undecided, undecided_more }
    }
}

/// A rule that does not match.
struct Miss<'r> {
    rule: &'r Rule,
    /// The condition that is told of.
    by: &'r Condition,
    /// Whether one of its conditions is known not to hold.
    is_decided: bool,
    /// How many of its conditions hold, and of how many: one that is not written counts where it is told of.
    holds: usize,
    conditions: usize,
}

impl Miss<'_> {
    /// The nearest first; of equals, the earlier rule.
    fn distance(&self) -> (usize, std::cmp::Reverse<usize>, usize) {
        let unmet = self.conditions.saturating_sub(self.holds);
        (unmet, std::cmp::Reverse(self.holds), self.rule.at)
    }
}

/// The nearest of them, told, and how many more there are.
fn nearest(mut missed: Vec<Miss<'_>>, seen: &Seen<'_>) -> (Vec<Failed>, usize) {
    missed.sort_by_key(Miss::distance);
    let told = missed.iter().take(FAILED_MAX).map(|miss| miss.rule.explain_failure(miss, seen));
    (told.collect(), missed.len().saturating_sub(FAILED_MAX))
}

impl Rule {
    fn explain_match(&self, ruled: &Ruled, seen: &Seen<'_>) -> Matched {
        let written = self.conditions.iter().filter(|condition| !condition.is_implied);
        let held = written.filter_map(|condition| {
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

    /// What keeps it from matching; `None` where nothing does.
    fn miss(&self, seen: &Seen<'_>) -> Option<Miss<'_>> {
        let unmet = || self.conditions.iter().filter(|condition| !condition.holds(seen));
        let known = unmet().find(|condition| !seen.values(&condition.key).is_empty());
        let by = known.or_else(|| unmet().next())?;
        let written = self.conditions.iter().filter(|condition| !condition.is_implied);
        let holds = written.filter(|condition| condition.holds(seen)).count();
        let written = self.conditions.iter().filter(|condition| !condition.is_implied);
        let conditions = written.count().saturating_add(usize::from(by.is_implied));
        Some(Miss { rule: self, by, is_decided: known.is_some(), holds, conditions })
    }

    fn explain_failure(&self, miss: &Miss<'_>, seen: &Seen<'_>) -> Failed {
        let condition = miss.by;
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
            holds: miss.holds,
            conditions: miss.conditions,
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
