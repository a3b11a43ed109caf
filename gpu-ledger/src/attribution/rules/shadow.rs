//! Rules that can never match, since an earlier one takes everything that they would.
//!
//! What is said is certain; what is not said is not. A rule is found where every condition of one earlier rule
//! follows from a condition of its own on the same key: the same text, a text that the earlier pattern takes, a longer
//! beginning or end, the same regular expression. Not found: what several earlier rules take together, a regular
//! expression that is part of another, and what follows across keys (a word of `argv` stands in `command_line` too).

use super::{Condition, Pattern, Rule, RuleSet};
use crate::settlement::RuleId;

/// Shadowed rules told of one file; further ones are counted.
pub const SHADOWED_MAX: usize = 1_000;

/// A rule that never matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Shadowed {
    /// Which.
    pub rule: RuleId,
    /// Where it begins.
    pub line: usize,
    /// Which earlier one takes everything that it would.
    pub by: RuleId,
    /// Where that begins.
    pub by_line: usize,
}

/// The rules that never match.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shadows {
    /// The first [`SHADOWED_MAX`] of them, in the file's order.
    pub shadowed: Vec<Shadowed>,
    /// How many more there are.
    pub more: usize,
}

impl RuleSet {
    /// Every rule that is certain never to match.
    #[must_use]
    pub fn shadows(&self) -> Shadows {
        let mut shadows = Shadows::default();
        for (place, rule) in self.rules.iter().enumerate() {
            let Some(by) = self.shadow_of(place, rule) else { continue };
            if shadows.shadowed.len() < SHADOWED_MAX {
                let (line, by_line) = (rule.place.line, by.place.line);
                shadows.shadowed.push(Shadowed { rule: rule.id, line, by: by.id, by_line });
            } else {
                shadows.more = shadows.more.saturating_add(1);
            }
        }
        shadows
    }

    fn shadow_of(&self, place: usize, rule: &Rule) -> Option<&Rule> {
        // Whoever takes all that a condition's first pattern takes is filed under what is in that; or nowhere.
        let mut earlier = Vec::new();
        for condition in &rule.conditions {
            let samples = condition.patterns.first().map(Pattern::samples).unwrap_or_default();
            let under = samples.iter().map(|sample| self.index.under(&condition.key, sample));
            earlier.extend(under.flatten());
        }
        earlier.extend_from_slice(self.index.always());
        earlier.sort_unstable();
        earlier.dedup();
        let places = earlier.into_iter().filter_map(|one| usize::try_from(one).ok());
        let mut rules = places.take_while(|one| *one < place).filter_map(|one| self.rules.get(one));
        rules.find(|earlier| earlier.takes_all_of(rule))
    }
}

impl Rule {
    fn takes_all_of(&self, other: &Self) -> bool {
        let follows = |own: &Condition| other.conditions.iter().any(|one| own.follows_from(one));
        self.conditions.iter().all(follows)
    }
}

impl Condition {
    /// Whether it holds wherever the other one does.
    fn follows_from(&self, other: &Self) -> bool {
        let covered = |pattern| self.patterns.iter().any(|own| own.covers(pattern));
        self.key == other.key && other.patterns.iter().all(covered)
    }
}
