//! Rules that can never match, since an earlier one takes everything that they would.
//!
//! What is said is certain; what is not said is not. A rule is found where every condition of one earlier rule
//! follows from a condition of its own on the same key: the same text, a text that the earlier pattern takes, a longer
//! beginning or end, the same regular expression. Not found: what several earlier rules take together, a regular
//! expression that is part of another, and what follows across keys (a word of `argv` stands in `command_line` too).
//!
//! Rules that many others are filed beside, or that no value tells of, would be held against all of those: with
//! twenty thousand that is two hundred million times. After [`LOOKS_MAX`] the rest is counted as not looked at.

use super::{Condition, Pattern, Rule, RuleSet};
use crate::settlement::RuleId;

/// Shadowed rules told of one file; further ones are counted.
pub const SHADOWED_MAX: usize = 1_000;
/// Patterns of one file that are held against another one: a second's work or two.
pub const LOOKS_MAX: usize = 10_000_000;

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
    /// Rules of which it was not found out, since that would have taken too long.
    pub unlooked: usize,
}

impl Shadows {
    /// Those that are known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shadowed.len().saturating_add(self.more)
    }
}

/// What may still be looked at.
struct Looks(usize);

impl RuleSet {
    /// Every rule that is certain never to match.
    #[must_use]
    pub fn shadows(&self) -> Shadows {
        let (mut shadows, mut looks) = (Shadows::default(), Looks(LOOKS_MAX));
        for (place, rule) in self.rules.iter().enumerate() {
            let found = self.shadow_of(place, rule, &mut looks);
            if looks.0 == 0 {
                shadows.unlooked = self.rules.len().saturating_sub(place);
                break;
            }
            let Some(by) = found else { continue };
            if shadows.shadowed.len() < SHADOWED_MAX {
                let (line, by_line) = (rule.place.line, by.place.line);
                shadows.shadowed.push(Shadowed { rule: rule.id, line, by: by.id, by_line });
            } else {
                shadows.more = shadows.more.saturating_add(1);
            }
        }
        shadows
    }

    fn shadow_of(&self, place: usize, rule: &Rule, looks: &mut Looks) -> Option<&Rule> {
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
        rules.find(|earlier| looks.0 == 0 || earlier.takes_all_of(rule, looks))
    }
}

impl Rule {
    fn takes_all_of(&self, other: &Self, looks: &mut Looks) -> bool {
        self.conditions
            .iter()
            .all(|own| other.conditions.iter().any(|one| own.follows_from(one, looks)))
    }
}

impl Condition {
    /// Whether it holds wherever the other one does.
    fn follows_from(&self, other: &Self, looks: &mut Looks) -> bool {
        looks.0 = looks.0.saturating_sub(1);
        let mut covered = |pattern: &Pattern| {
            self.patterns.iter().any(|own| {
                looks.0 = looks.0.saturating_sub(pattern.covered_cost());
                own.covers(pattern)
            })
        };
        self.key == other.key && other.patterns.iter().all(&mut covered)
    }
}
