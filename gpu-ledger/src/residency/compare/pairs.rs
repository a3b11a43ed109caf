//! Which iteration of A goes with which of B.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Refusal;
use crate::escape::escape;
use crate::residency::facts::Labels;
use crate::residency::statistics::window::IterationStatistics;

/// The label in which A and B differ because it is what is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Across {
    /// None: pairs have all three labels in common.
    #[default]
    Nothing,
    /// The config: pairs have context and round in common.
    Config,
    /// The context: pairs have config and round in common.
    Context,
}

impl Across {
    /// The word of the label.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nothing => "label",
            Self::Config => "config",
            Self::Context => "context",
        }
    }

    /// The label of an iteration that is what is compared.
    #[must_use]
    pub fn of(self, labels: &Labels) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Config => labels.config.as_deref(),
            Self::Context => labels.context.as_deref(),
        }
    }
}

/// An iteration with its labels.
#[derive(Clone, Debug)]
pub struct Observation<'iteration> {
    /// What the user calls it.
    pub labels: Labels,
    /// How it ended, where a reader has to know.
    pub notes: &'iteration [String],
    /// Its statistics.
    pub statistics: &'iteration IterationStatistics,
}

/// Two iterations with the same labels.
#[derive(Clone, Debug)]
pub(super) struct Pair<'iteration> {
    pub(super) labels: Labels,
    pub(super) a: &'iteration IterationStatistics,
    pub(super) b: &'iteration IterationStatistics,
}

#[derive(Clone, Debug)]
pub(super) struct Paired<'iteration> {
    pub(super) pairs: Vec<Pair<'iteration>>,
    pub(super) unpaired_a: Vec<Labels>,
    pub(super) unpaired_b: Vec<Labels>,
}

/// Pairs in the order of their labels.
pub(super) fn pair<'iteration>(
    a: &[Observation<'iteration>],
    b: &[Observation<'iteration>],
    across: Across,
) -> Result<Paired<'iteration>, Refusal> {
    let no_pair = || Refusal::NoPair { a: listed(a), b: listed(b) };
    let keyed_a = keyed('A', a, across)?;
    let mut keyed_b = keyed('B', b, across)?;
    let (mut pairs, mut unpaired_a) = (Vec::new(), Vec::new());
    for (key, one) in keyed_a {
        let labels = one.labels.clone();
        match keyed_b.remove(&key) {
            Some(other) => pairs.push(Pair { labels, a: one.statistics, b: other.statistics }),
            None => unpaired_a.push(labels),
        }
    }
    if pairs.is_empty() {
        return Err(no_pair());
    }
    let unpaired_b = keyed_b.into_values().map(|other| other.labels.clone()).collect();
    Ok(Paired { pairs, unpaired_a, unpaired_b })
}

/// Labels that are named where nothing pairs.
const LISTED_MAX: usize = 4;

pub(super) fn listed(observations: &[Observation<'_>]) -> String {
    let named = observations.iter().take(LISTED_MAX).map(|one| shown(&one.labels));
    let named = named.collect::<Vec<_>>().join("; ");
    match observations.len().saturating_sub(LISTED_MAX) {
        0 => named,
        rest => format!("{named} and {rest} more"),
    }
}

fn keyed<'all, 'iteration>(
    side: char,
    observations: &'all [Observation<'iteration>],
    across: Across,
) -> Result<BTreeMap<Labels, &'all Observation<'iteration>>, Refusal> {
    let mut keyed = BTreeMap::new();
    for observation in observations {
        let mut key = observation.labels.clone();
        match across {
            Across::Nothing => {}
            Across::Config => key.config = None,
            Across::Context => key.context = None,
        }
        if keyed.insert(key, observation).is_some() {
            let labels = shown(&observation.labels);
            return Err(Refusal::LabelledTwice { side, labels });
        }
    }
    Ok(keyed)
}

/// `config=a context=4096 round=1`; what has none says `-`.
pub(in crate::residency) fn shown(labels: &Labels) -> String {
    let word = |label: &Option<String>| {
        label
            .as_deref()
            .map_or_else(|| "-".to_owned(), |label| escape(label.as_bytes()).to_string())
    };
    let Labels { config, context, round } = labels;
    format!("config={} context={} round={}", word(config), word(context), word(round))
}
