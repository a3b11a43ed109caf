//! `compare A B`: whether two batches differ, and by how much.
//!
//! ```text
//! facts, verdicts ─► admit ─► pairs ─► difference + interval ─► says
//!                    refusals  by labels  Wilcoxon, Holm
//! ```
//!
//! Purpose: a difference with its uncertainty, or that none was detected. May touch: nothing. May not:
//! compare what is void, pass over a difference in how the two were recorded, or rank one above the other.
//!
//! # What "differs" means
//! The 95 % interval of the mean difference of pairs leaves out 0, **and** the p of the signed-rank test,
//! corrected by Holm over its family, is at most 0.05. A family is the tests of memory, or of load, in one
//! stretch: with more tests in one, no few pairs could ever be told to differ. Where the two opinions
//! disagree, no difference is detected. Where so few pairs differ that no p could be so low, that is said and no more;
//! with fewer than [`super::statistics::bootstrap::N_MIN`] pairs the points speak alone.

mod admission;
pub mod holm;
mod pairs;
mod text;
pub mod wilcoxon;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use admission::{Admitted, Mismatch, Side, admit};
pub use pairs::{Across, Observation};
pub(super) use {admission::gate, pairs::shown, text::phase_title};

use super::claims::Claims;
use super::facts::{BatchFacts, Cost, Extremes, Labels};
use super::statistics::VoidBatch;
use super::statistics::bootstrap::{DRAWS, Interval, Method, SEED, interval};
use super::statistics::fixed::{Fixed, rounded};
use super::statistics::measure::{Family, Measure};
use super::statistics::window::{IterationStatistics, PhaseStretch, Stretch};
use crate::escape::escape;
use pairs::{Pair, pair};
use wilcoxon::signed_rank;

/// A corrected p up to here is a difference.
const ALPHA: f64 = 0.05;

/// Why two batches are not compared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// One is void.
    #[error("{side} cannot be compared: {void}")]
    Void {
        /// `A` or `B`.
        side: char,
        /// What it is void for.
        void: VoidBatch,
    },
    /// They were not recorded alike.
    #[error(
        "the batches were not recorded alike: {}; record them alike, or give --allow-mismatch, which \
             prints this in the title",
        admission::listed(.0)
    )]
    Mismatch(Vec<Mismatch>),
    /// Labels name two iterations.
    #[error(
        "{side} has two iterations labelled {labels}: which of them is the other's pair cannot be told; \
             give each its own --round"
    )]
    LabelledTwice {
        /// `A` or `B`.
        side: char,
        /// The labels.
        labels: String,
    },
    /// Nothing pairs.
    #[error(
        "no iteration of A has the labels of one of B: A has {a}, B has {b}; where they differ in what is \
             compared, name it: --across config or --across context"
    )]
    NoPair {
        /// Labels of A, as far as there is room.
        a: String,
        /// And of B.
        b: String,
    },
}

/// How to compare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Which label is what is compared, and so not part of a pair.
    pub across: Across,
    /// Of one batch compared within itself: the labels of A and of B.
    pub within: Option<[String; 2]>,
    /// Of the bootstrap.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { across: Across::Nothing, within: None, seed: SEED }
    }
}

/// The stretch of an iteration that is compared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(tag = "scope", rename_all = "snake_case")]
pub enum Scope {
    /// All of it.
    Window,
    /// A phase.
    Phase {
        /// What the user calls it; null: before any mark.
        name: Option<String>,
        /// The how many-th of its name.
        occurrence: u64,
    },
}

impl Scope {
    fn of<'iteration>(
        &self,
        iteration: &'iteration IterationStatistics,
    ) -> Option<&'iteration Stretch> {
        match self {
            Self::Window => Some(&iteration.window),
            Self::Phase { name, occurrence } => {
                let same =
                    |phase: &&PhaseStretch| (&phase.name, &phase.occurrence) == (name, occurrence);
                iteration.phases.iter().find(same).map(|phase| &phase.stretch)
            }
        }
    }
}

/// What may be said of a measure, in these words and no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Says {
    /// Both opinions find a difference.
    #[serde(rename = "differs")]
    Differs,
    /// They do not.
    #[serde(rename = "no difference detected")]
    NoDifferenceDetected,
    /// Both do, and the samples of the two sides allow that there is none: what was between two samples nobody saw.
    #[serde(rename = "within sampling")]
    WithinSampling,
    /// So few pairs differ that no test could find it, however much they do.
    #[serde(rename = "too few pairs")]
    TooFewPairs,
    /// Too few pairs to say anything.
    #[serde(rename = "points only")]
    PointsOnly,
}

impl Says {
    /// The words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::NoDifferenceDetected => "no difference detected",
            Self::WithinSampling => "within sampling",
            Self::TooFewPairs => "too few pairs",
            Self::PointsOnly => "points only",
        }
    }
}

/// The mean difference of pairs, B − A.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Effect {
    /// Its mean over the pairs.
    pub mean_difference: Fixed,
    /// The lower end of its 95 % interval.
    pub low: Fixed,
    /// The upper.
    pub high: Fixed,
    /// How the interval was found.
    pub method: Method,
    /// In % of the mean of A; null where that is 0.
    pub percent_of_a: Option<Fixed>,
}

impl Effect {
    /// Whether its interval does.
    #[must_use]
    pub const fn leaves_out_zero(&self) -> bool {
        self.low.value > 0 || self.high.value < 0
    }
}

/// What Wilcoxon's test says.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SecondOpinion {
    /// Pairs that differ.
    pub n_differing: usize,
    /// Two-sided.
    pub p: f64,
    /// Corrected for the tests of its family.
    pub p_holm: f64,
    /// How many those are.
    pub family_size: usize,
    /// Whether all signs were counted.
    pub is_exact: bool,
    /// From −1 to 1; null where no pair differs.
    pub rank_biserial: Option<f64>,
    /// Whether so few pairs could not have had a p that counts, however much they differ.
    pub is_beyond_reach: bool,
    /// How many pairs have to differ before a p can count, with so many tests in the family.
    pub pairs_needed: usize,
}

/// A pair's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PairPoint {
    /// Which pair: its place in [`Comparison::pairs`].
    pub pair: usize,
    /// Of A.
    pub a: Fixed,
    /// Of B.
    pub b: Fixed,
    /// B − A.
    pub difference: Fixed,
}

/// One measure of one scope.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Of which stretch.
    #[serde(flatten)]
    pub scope: Scope,
    /// Which measure.
    pub measure: Measure,
    /// What its numbers count.
    pub unit: &'static str,
    /// With which others it was tested.
    pub family: Family,
    /// Pairs in which both sides know it.
    pub n: usize,
    /// Pairs in which a side does not: in no figure.
    pub pairs_unknown: usize,
    /// What may be said.
    pub says: Says,
    /// How much; null where the points speak alone.
    pub effect: Option<Effect>,
    /// Between which the mean difference lies by the samples of both sides: `[least, most]`; null where they do not
    /// say.
    pub by_samples: Option<[Fixed; 2]>,
    /// The second opinion; null as well.
    pub second_opinion: Option<SecondOpinion>,
    /// Every pair.
    pub points: Vec<PairPoint>,
}

/// Two batches compared: the document of `compare --format json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// What the document is.
    pub format: &'static str,
    /// Its version.
    pub version: u32,
    /// Its title, with every mismatch that was allowed and every backend that fails.
    pub title: String,
    /// The batch called A.
    pub a: String,
    /// The batch called B.
    pub b: String,
    /// In what they were not recorded alike, although it was demanded to compare them.
    pub mismatches: Vec<Mismatch>,
    /// What is unknown of both, and so not known to be alike.
    pub unknown_of_both: Vec<&'static str>,
    /// Which label was left out of the pairs.
    pub across: Across,
    /// Of one batch compared within itself: the label of A and that of B; null of two batches.
    pub within: Option<[String; 2]>,
    /// How often the bootstrap drew.
    pub draws: u32,
    /// Its seed.
    pub seed: u64,
    /// The labels of each pair, as A has them.
    pub pairs: Vec<Labels>,
    /// How iterations ended, where a reader has to know.
    pub notes: Vec<String>,
    /// Iterations of A without a pair.
    pub unpaired_a: Vec<Labels>,
    /// And of B.
    pub unpaired_b: Vec<Labels>,
    /// What was compared.
    pub rows: Vec<Row>,
    /// What probing took, the worst of both.
    pub cost: Cost,
    /// What it proves, and what not.
    pub claims: Claims,
}

/// Compares the iterations of two batches that were admitted; `worst` is that of the figures of both.
pub fn compare(
    admitted: &Admitted<'_>,
    a: &[Observation<'_>],
    b: &[Observation<'_>],
    options: Options,
    worst: Extremes,
) -> Result<Comparison, Refusal> {
    let paired = pair(a, b, options.across)?;
    let scopes = scopes(&paired.pairs);
    let mut rows: Vec<Row> = scopes
        .iter()
        .flat_map(|scope| {
            Measure::ALL.map(|measure| row(scope, measure, &paired.pairs, options.seed))
        })
        .filter(|row| row.n > 0)
        .collect();
    correct(&mut rows);
    let mut notes = recorded_notes(admitted, options.within.is_some());
    notes.extend(noted('A', a).chain(noted('B', b)));
    notes.extend(unpaired_phases('A', a, &scopes));
    notes.extend(unpaired_phases('B', b, &scopes));
    Ok(Comparison {
        format: "gpu-ledger-residency-comparison",
        version: 1,
        title: match &options.within {
            Some(labels) => {
                let [a, b] = labels.each_ref().map(|label| escape(label.as_bytes()).to_string());
                let word = options.across.word();
                format!("{}; A is {word} {a}, B is {word} {b}", admitted.title())
            }
            None => admitted.title(),
        },
        a: admitted.a.batch_id.clone(),
        b: admitted.b.batch_id.clone(),
        mismatches: admitted.mismatches.clone(),
        unknown_of_both: admitted.unknown_of_both.clone(),
        across: options.across,
        within: options.within,
        draws: DRAWS,
        seed: options.seed,
        pairs: paired.pairs.iter().map(|pair| pair.labels.clone()).collect(),
        notes,
        unpaired_a: paired.unpaired_a,
        unpaired_b: paired.unpaired_b,
        rows,
        claims: Claims::of(
            &admitted.verdict(),
            &worst,
            admitted.a.settings.cap.max(admitted.b.settings.cap),
        ),
        cost: worst.cost,
    })
}

/// What a reader must know of how the two were recorded, and what no mismatch is.
fn recorded_notes(admitted: &Admitted<'_>, is_one: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for (side, facts) in [("A", admitted.a), ("B", admitted.b)] {
        let is_told = is_one && side == "B";
        if !facts.harness_verified && !is_told {
            notes.push(format!(
                "UNVERIFIED HARNESS of {side}: no acceptance run passed in its surroundings"
            ));
        }
    }
    if admitted.a.command != admitted.b.command {
        let typed = |facts: &BatchFacts| facts.command_said().unwrap_or_else(|| "none".to_owned());
        let (a, b) = (typed(admitted.a), typed(admitted.b));
        notes.push(format!("they ran different commands: A {a}; B {b}"));
    }
    notes
}

/// Phases of a side that no pair has in common.
fn unpaired_phases(side: char, all: &[Observation<'_>], scopes: &[Scope]) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    for phase in all.iter().flat_map(|one| &one.statistics.phases) {
        let scope = Scope::Phase { name: phase.name.clone(), occurrence: phase.occurrence };
        let title = phase_title(phase.name.as_deref(), phase.occurrence);
        let note = format!("only in {side}, and compared with nothing: {title}");
        if !scopes.contains(&scope) && !named.contains(&note) {
            named.push(note);
        }
    }
    named
}

/// `A config=fp8 context=- round=1: the command exited with status 3`.
fn noted<'all>(
    side: char,
    all: &'all [Observation<'_>],
) -> impl Iterator<Item = String> + use<'all> {
    let notes = all.iter().flat_map(|one| one.notes.iter().map(|note| (&one.labels, note)));
    notes.map(move |(labels, note)| format!("{side} {}: {note}", shown(labels)))
}

/// The window, and every phase that both sides of some pair have.
fn scopes(pairs: &[Pair<'_>]) -> Vec<Scope> {
    let mut scopes = vec![Scope::Window];
    for pair in pairs {
        for phase in &pair.a.phases {
            let scope = Scope::Phase { name: phase.name.clone(), occurrence: phase.occurrence };
            if !scopes.contains(&scope) && scope.of(pair.b).is_some() {
                scopes.push(scope);
            }
        }
    }
    scopes
}

fn row(scope: &Scope, measure: Measure, pairs: &[Pair<'_>], seed: u64) -> Row {
    let number = |side: &IterationStatistics| measure.of(scope.of(side)?);
    let numbers: Vec<(usize, i128, i128)> = pairs
        .iter()
        .enumerate()
        .filter_map(|(place, pair)| Some((place, number(pair.a)?, number(pair.b)?)))
        .collect();
    let points = numbers.iter().map(|(pair, a, b)| PairPoint {
        pair: *pair,
        a: measure.fixed(*a),
        b: measure.fixed(*b),
        difference: measure.fixed(b.saturating_sub(*a)),
    });
    let points: Vec<PairPoint> = points.collect();
    let differences: Vec<i128> = points.iter().map(|point| point.difference.value).collect();
    let told = interval(&differences, seed);
    let ranges = numbers.iter().filter_map(|(place, ..)| {
        let pair = pairs.get(*place)?;
        let (a_low, a_high) = measure.range(scope.of(pair.a)?)?;
        let (b_low, b_high) = measure.range(scope.of(pair.b)?)?;
        Some((b_low.saturating_sub(a_high), b_high.saturating_sub(a_low)))
    });
    let ranges: Vec<(i128, i128)> = ranges.collect();
    let mean = |of: fn(&(i128, i128)) -> i128| {
        let sum = ranges.iter().fold(0_i128, |sum, range| sum.saturating_add(of(range)));
        rounded(sum, u128::try_from(ranges.len()).ok()?).map(|mean| measure.fixed(mean))
    };
    let by_samples = if ranges.len() == numbers.len() {
        mean(|(low, _)| *low).zip(mean(|(_, high)| *high)).map(|(low, high)| [low, high])
    } else {
        None
    };
    Row {
        by_samples,
        scope: scope.clone(),
        measure,
        unit: measure.unit(),
        family: measure.family(),
        n: points.len(),
        pairs_unknown: pairs.len().saturating_sub(points.len()),
        says: Says::PointsOnly,
        effect: told.map(|told| effect(measure, told, &points)),
        second_opinion: told.map(|_| second_opinion(&differences)),
        points,
    }
}

fn effect(measure: Measure, told: Interval, points: &[PairPoint]) -> Effect {
    let sum = |of: fn(&PairPoint) -> Fixed| {
        points.iter().fold(0, |sum: i128, point| sum.saturating_add(of(point).value))
    };
    let (difference, a) = (sum(|point| point.difference), sum(|point| point.a));
    let percent = Fixed::quotient(difference.saturating_mul(100), a.unsigned_abs(), 1);
    Effect {
        mean_difference: measure.fixed(told.mean),
        low: measure.fixed(told.low),
        high: measure.fixed(told.high),
        method: told.method,
        percent_of_a: percent,
    }
}

/// Not corrected yet.
fn second_opinion(differences: &[i128]) -> SecondOpinion {
    let tested = signed_rank(differences);
    SecondOpinion {
        n_differing: tested.map_or(0, |tested| tested.n),
        // Where no pair differs, every way of giving signs is as extreme.
        p: tested.map_or(1.0, |tested| tested.p),
        p_holm: 1.0,
        family_size: 0,
        is_exact: tested.is_none_or(|tested| tested.is_exact),
        rank_biserial: tested.map(|tested| tested.rank_biserial()),
        is_beyond_reach: false,
        pairs_needed: 0,
    }
}

/// Holm over each family, and then what may be said. Rows of one family come one after another.
fn correct(rows: &mut [Row]) {
    let alike = |row: &Row, next: &Row| (&row.scope, row.family) == (&next.scope, next.family);
    for family in rows.chunk_by_mut(alike) {
        let mut opinions: Vec<&mut SecondOpinion> =
            family.iter_mut().filter_map(|row| row.second_opinion.as_mut()).collect();
        let p: Vec<f64> = opinions.iter().map(|opinion| opinion.p).collect();
        let family_size = p.len();
        for (opinion, p_holm) in opinions.iter_mut().zip(holm::adjusted(&p)) {
            opinion.p_holm = p_holm;
            opinion.family_size = family_size;
            let least = holm::least(opinion.n_differing, family_size);
            opinion.is_beyond_reach = opinion.n_differing > 0 && least > ALPHA;
            opinion.pairs_needed = holm::needed(family_size, ALPHA);
        }
    }
    for row in rows {
        let (Some(effect), Some(opinion)) = (row.effect, row.second_opinion) else { continue };
        let allows_none =
            row.by_samples.is_some_and(|[low, high]| low.value <= 0 && high.value >= 0);
        row.says = if effect.leaves_out_zero() && opinion.p_holm <= ALPHA {
            if allows_none { Says::WithinSampling } else { Says::Differs }
        } else if opinion.is_beyond_reach {
            Says::TooFewPairs
        } else {
            Says::NoDifferenceDetected
        };
    }
}
