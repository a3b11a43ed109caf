//! Which rules are worth a look, given the values of a process.

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use foldhash::fast::FixedState;

use super::key::{Field, Key, Seen, Value};
use super::pattern::Anchor;
use super::{Condition, Pattern, Rule};

type Map<K, V> = HashMap<K, V, FixedState>;
/// Places of rules, ascending.
type Places = Vec<u32>;

/// That a text stands in a value is looked for in every byte of it, and is found by chance.
const LITERAL_WEIGHT: usize = 4;
/// A text as short as this is in many values.
const LITERAL_SHORT: usize = 3;
/// What that adds.
const LITERAL_SHORT_WEIGHT: usize = 64;

/// Every rule under one of its conditions.
pub(super) struct Index {
    fields: Vec<(Field, KeyIndex)>,
    labels: Map<Arc<str>, KeyIndex>,
    /// Rules that no value tells of.
    always: Places,
}

/// What is filed under one key.
struct KeyIndex {
    exact: Map<Box<[u8]>, Places>,
    /// `None` where there is no literal.
    literals: Option<AhoCorasick>,
    of_literal: Vec<Places>,
}

impl Index {
    pub(super) fn of(rules: &[Rule]) -> Self {
        // How crowded a place would be if everybody were filed everywhere: nobody knows what values will come.
        let mut crowd: Map<(&Key, Anchor), usize> = Map::default();
        for condition in rules.iter().flat_map(|rule| &rule.conditions) {
            let lists = condition.patterns.iter().flat_map(Pattern::anchors);
            for anchor in lists.flatten() {
                let count = crowd.entry((&condition.key, anchor)).or_default();
                *count = count.saturating_add(1);
            }
        }
        let mut filed: Map<&Key, Vec<(Anchor, u32)>> = Map::default();
        let mut always = Vec::new();
        for (place, rule) in (0_u32..).zip(rules) {
            // Most that is seen of containers is of the system's.
            let written = rule.conditions.iter().filter(|condition| !condition.is_implied);
            let under = written.filter_map(|condition| {
                let (cost, anchors) = least_crowded(condition, &crowd)?;
                Some((cost, &condition.key, anchors))
            });
            match under.min_by_key(|(cost, ..)| *cost) {
                Some((_, key, anchors)) => {
                    let under = filed.entry(key).or_default();
                    under.extend(anchors.into_iter().map(|anchor| (anchor, place)));
                }
                None => always.push(place),
            }
        }
        let mut index = Self { fields: Vec::new(), labels: Map::default(), always };
        for (key, under) in filed {
            match (KeyIndex::of(&under), key) {
                (Some(built), Key::Of(field)) => index.fields.push((*field, built)),
                (Some(built), Key::Label(name)) => {
                    index.labels.insert(Arc::clone(name), built);
                }
                // More texts than an automaton takes.
                (None, _) => index.always.extend(under.iter().map(|(_, place)| *place)),
            }
        }
        index.always.sort_unstable();
        index.always.dedup();
        index.fields.sort_by_key(|(field, _)| *field);
        index
    }

    /// The places of all rules that may match, ascending.
    pub(super) fn candidates(&self, seen: &Seen<'_>) -> impl Iterator<Item = usize> {
        let mut found = Vec::new();
        for (field, values) in seen.fields() {
            if let Some(index) = self.of_field(field) {
                index.look_up_all(values, &mut found);
            }
        }
        if !self.labels.is_empty() {
            for (name, values) in seen.labels() {
                if let Some(index) = self.labels.get(name) {
                    index.look_up_all(values, &mut found);
                }
            }
        }
        self.in_order(found)
    }

    /// The places of all rules that are filed under this value of a key, and of those that nothing tells of.
    pub(super) fn under(&self, key: &Key, value: &[u8]) -> Vec<u32> {
        let index = match key {
            Key::Of(field) => self.of_field(*field),
            Key::Label(name) => self.labels.get(name),
        };
        let mut found = Vec::new();
        if let Some(index) = index {
            index.look_up(value, &mut found);
        }
        found
    }

    /// The places of the rules that no value tells of.
    pub(super) fn always(&self) -> &[u32] {
        &self.always
    }

    fn of_field(&self, field: Field) -> Option<&KeyIndex> {
        let at = self.fields.binary_search_by_key(&field, |(one, _)| *one).ok()?;
        self.fields.get(at).map(|(_, index)| index)
    }

    fn in_order(&self, mut found: Places) -> impl Iterator<Item = usize> {
        found.sort_unstable();
        found.dedup();
        let mut found = found.into_iter().peekable();
        let mut always = self.always.iter().copied().peekable();
        let next = move || match (found.peek(), always.peek()) {
            (Some(one), Some(other)) if other < one => always.next(),
            (Some(_), _) => found.next(),
            (None, _) => always.next(),
        };
        std::iter::from_fn(next).filter_map(|place| usize::try_from(place).ok())
    }
}

impl KeyIndex {
    fn of(under: &[(Anchor, u32)]) -> Option<Self> {
        let mut exact: Map<Box<[u8]>, Places> = Map::default();
        let mut by_text: Map<&[u8], Places> = Map::default();
        for (anchor, place) in under {
            match anchor {
                Anchor::Exact(text) => exact.entry(text.clone()).or_default().push(*place),
                Anchor::Literal(text) => by_text.entry(text).or_default().push(*place),
            }
        }
        let (texts, of_literal): (Vec<&[u8]>, Vec<Places>) = by_text.into_iter().unzip();
        let literals = if texts.is_empty() {
            None
        } else {
            // Of texts that lie over each other every one counts.
            let builder = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&texts);
            Some(builder.ok()?)
        };
        Some(Self { exact, literals, of_literal })
    }

    fn look_up_all(&self, values: &[Value<'_>], found: &mut Places) {
        for value in values {
            self.look_up(value, found);
        }
    }

    fn look_up(&self, value: &[u8], found: &mut Places) {
        if let Some(places) = self.exact.get(value) {
            found.extend_from_slice(places);
        }
        let Some(literals) = &self.literals else { return };
        let mut was_found = vec![false; self.of_literal.len()];
        for hit in literals.find_overlapping_iter(value) {
            let literal = hit.pattern().as_usize();
            if let Some(was_found) = was_found.get_mut(literal)
                && !std::mem::replace(was_found, true)
                && let Some(places) = self.of_literal.get(literal)
            {
                found.extend_from_slice(places);
            }
        }
    }
}

/// What must be, or stand in, one of a condition's values, where the fewest rules want the same; and how much it
/// costs. `None` where nothing must.
fn least_crowded(
    condition: &Condition,
    crowd: &Map<(&Key, Anchor), usize>,
) -> Option<(usize, Vec<Anchor>)> {
    let cost_of = |anchors: &Vec<Anchor>| {
        let costs = anchors.iter().map(|anchor| {
            let count = crowd.get(&(&condition.key, anchor.clone())).copied().unwrap_or(0);
            count.saturating_mul(weight(anchor))
        });
        costs.fold(0_usize, usize::saturating_add)
    };
    let (mut cost, mut all) = (0_usize, Vec::new());
    for pattern in &condition.patterns {
        let lists = pattern.anchors().into_iter().map(|anchors| (cost_of(&anchors), anchors));
        let (of_pattern, anchors) = lists.min_by_key(|(cost, _)| *cost)?;
        cost = cost.saturating_add(of_pattern);
        all.extend(anchors);
    }
    all.sort();
    all.dedup();
    Some((cost, all))
}

fn weight(anchor: &Anchor) -> usize {
    match anchor {
        Anchor::Exact(_) => 1,
        Anchor::Literal(text) if text.len() < LITERAL_SHORT => LITERAL_SHORT_WEIGHT,
        Anchor::Literal(_) => LITERAL_WEIGHT,
    }
}
