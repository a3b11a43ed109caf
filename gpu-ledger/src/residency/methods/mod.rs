//! `methods DIR`: the paragraph that a paper says of a batch, as text and as LaTeX.
//!
//! Purpose: what was measured, how, and with which limits, filled with the figures of this very batch.
//! May touch: nothing. May not: be had of a void batch; leave out a limit.

mod latex;

#[cfg(test)]
mod tests;

use super::claims::Claims;
use super::compare::gate;
use super::facts::{
    BatchFacts, CallCost, Cost, Extremes, Labels, fingerprint_said, in_flight_said,
    iterations_said, names, percent_of_ppm, programs_said, said, watts,
};
use super::moment::Length;
use super::pages::Page;
use super::reasons::VERIFIES;
use super::sample::FieldName;
use super::settings::AgeGate;
use super::statistics::bootstrap::{DRAWS, N_MIN};
use super::statistics::{Sound, VoidBatch};
use super::tally::Figures;
use super::verdict::{Verdict, or_unknown};
use crate::escape::escape;

/// What the paragraph is filled with.
#[derive(Debug)]
pub struct Methods<'batch> {
    facts: &'batch BatchFacts,
    verdict: &'batch Verdict,
    windows: &'batch [Window<'batch>],
    phases: &'batch [String],
    seed: u64,
}

/// An iteration that the paragraph speaks of.
#[derive(Clone, Copy, Debug)]
pub struct Window<'batch> {
    /// What it is of.
    pub labels: &'batch Labels,
    /// Its figures.
    pub figures: &'batch Figures,
    /// How it ended, where a reader has to know.
    pub notes: &'batch [String],
}

impl<'batch> Methods<'batch> {
    /// Of a batch that is valid, with all its iterations and the names of its phases.
    pub fn new(
        facts: &'batch BatchFacts,
        verdict: &'batch Verdict,
        windows: &'batch [Window<'batch>],
        phases: &'batch [String],
        seed: u64,
    ) -> Result<Self, VoidBatch> {
        Sound::of_batch(verdict)?;
        Ok(Self { facts, verdict, windows, phases, seed })
    }

    /// As text, 80 columns wide: the paragraph and the facts.
    #[must_use]
    pub fn text(&self) -> String {
        let mut page = Page::default();
        page.wrapped(0, 0, &self.paragraph());
        page.blank();
        for (name, value) in self.facts() {
            page.fact(name, &value);
        }
        page.finish()
    }

    /// As LaTeX: the paragraph and a table of the facts. Needs no package.
    #[must_use]
    pub fn latex(&self) -> String {
        latex::document(&self.paragraph(), &self.facts())
    }

    /// The facts to cite, each with its name.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let (facts, settings, worst) = (self.facts, &self.facts.settings, self.extremes());
        let ms = |length: Length| format!("{length} ms");
        let known_ms = |length: Option<Length>| length.map_or_else(|| said(None), ms);
        let verdict = self.verdict.backend_verdict().as_str();
        let recorded = u64::try_from(self.windows.len()).unwrap_or(u64::MAX);
        let mut list = vec![
            ("batch", said(Some(&facts.batch_id))),
            (
                "GPU",
                format!("{}, {}", said(facts.gpu_name.as_deref()), said(Some(&facts.gpu_uuid.0))),
            ),
            ("power limit", watts(facts.power_limit_mw)),
            ("driver", said(facts.driver.as_deref())),
            ("kernel", said(facts.kernel.as_deref())),
            ("recorder", format!("gpu-ledger {}", said(Some(&facts.version)))),
            ("backend", format!("{} (verdict {verdict})", facts.backend.as_str())),
            ("clock", "CLOCK_BOOTTIME".to_owned()),
            ("period", ms(settings.period)),
            ("timeline", ms(settings.timeline_period)),
            ("cap", ms(settings.cap)),
            ("gate", gate(settings.age_gate).to_owned()),
            ("age max", known_ms(worst.max_sample_age)),
            ("age sup", known_ms(worst.supremum)),
            ("passes p99", known_ms(worst.interval_p99)),
            ("duty cycle", percent_of_ppm(worst.cost.probe_duty_cycle_ppm)),
            ("own CPU", format!("{} of a core", percent_of_ppm(worst.cost.recorder_cpu_ppm))),
            ("harness", if facts.harness_verified { "verified" } else { "unverified" }.to_owned()),
            ("command", facts.command_said().unwrap_or_else(|| "none".to_owned())),
            ("configs", labelled(self.windows, |labels| labels.config.as_deref())),
            ("contexts", labelled(self.windows, |labels| labels.context.as_deref())),
            ("rounds", labelled(self.windows, |labels| labels.round.as_deref())),
            ("phases", self.phases()),
            ("n", self.windows.len().to_string()),
            ("iterations", iterations_said(recorded, facts.iterations_planned)),
            ("proof", fingerprint_said(facts.fingerprint.as_deref())),
        ];
        list.extend(worst.in_flight_at_end.map(|flight| ("at the end", in_flight_said(flight))));
        list
    }

    fn phases(&self) -> String {
        if self.phases.is_empty() {
            return "none".to_owned();
        }
        self.phases.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ")
    }

    fn figures(&self) -> impl Iterator<Item = &'batch Figures> + use<'batch> {
        self.windows.iter().map(|window| window.figures)
    }

    fn extremes(&self) -> Extremes {
        Extremes::of(self.figures())
    }

    /// One paragraph without a line break.
    #[must_use]
    pub fn paragraph(&self) -> String {
        let warnings = self.warnings();
        [
            warnings,
            self.measured(),
            self.of(),
            self.aged(),
            self.went(),
            self.reckoned(),
            self.limits(),
        ]
        .into_iter()
        .filter(|sentences| !sentences.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
    }

    /// What forbids to cite it, before anything else.
    fn warnings(&self) -> String {
        let mut warnings = Vec::new();
        if !self.verdict.backend.is_empty() {
            let reasons: Vec<&str> =
                self.verdict.backend.iter().map(|reason| reason.as_str()).collect();
            warnings.push(format!(
                "NOT TO BE CITED: the backend verdict of this batch is fail ({}).",
                reasons.join(", ")
            ));
        }
        if !self.facts.harness_verified {
            warnings.push(format!(
                "UNVERIFIED HARNESS: no acceptance run of the recorder passed in these surroundings \
                 ({VERIFIES})."
            ));
        }
        warnings.join(" ")
    }

    fn measured(&self) -> String {
        let (facts, settings) = (self.facts, &self.facts.settings);
        let programs = programs_said(facts);
        format!(
            "The state of one GPU ({}, {}) was recorded with gpu-ledger {} (backend {}, driver {}, Linux \
             {}; {programs}). Every {} ms it read {}, one after another, each between two readings of \
             CLOCK_BOOTTIME; a pass that overran the next deadline was followed by another at once.",
            said(facts.gpu_name.as_deref()),
            said(Some(&facts.gpu_uuid.0)),
            escape(facts.version.as_bytes()),
            facts.backend.as_str(),
            said(facts.driver.as_deref()),
            said(facts.kernel.as_deref()),
            settings.period,
            names(&facts.field_order),
        )
    }

    /// What was recorded: the command, the labels of its iterations, the phases.
    fn of(&self) -> String {
        let mut sentences = vec![match self.facts.command_said() {
            Some(command) => format!(
                "It was recorded while this command ran, once in each iteration: {command}."
            ),
            None => "No command was run for it.".to_owned(),
        }];
        let labels: [(&str, LabelOf); 3] = [
            ("config", |labels| labels.config.as_deref()),
            ("context", |labels| labels.context.as_deref()),
            ("round", |labels| labels.round.as_deref()),
        ];
        let labels: Vec<String> = labels
            .iter()
            .filter(|(_, of)| self.windows.iter().any(|window| of(window.labels).is_some()))
            .map(|(name, of)| format!("{name} {}", labelled(self.windows, of)))
            .collect();
        if !labels.is_empty() {
            sentences.push(format!("Iterations were labelled by {}.", labels.join("; ")));
        }
        let recorded = u64::try_from(self.windows.len()).unwrap_or(u64::MAX);
        if recorded != self.facts.iterations_planned {
            let said = iterations_said(recorded, self.facts.iterations_planned);
            sentences.push(format!("Of its iterations, {said}."));
        }
        for (window, place) in self.windows.iter().zip(1_u64..) {
            for note in window.notes {
                sentences.push(format!("Iteration {place}: {note}."));
            }
        }
        if !self.phases.is_empty() {
            sentences.push(format!("Phases were marked by the user: {}.", self.phases()));
        }
        sentences.join(" ")
    }

    fn aged(&self) -> String {
        let (settings, worst) = (&self.facts.settings, self.extremes());
        let gate = match settings.age_gate {
            AgeGate::Both => "at the points and between them",
            AgeGate::Points => "at the points alone",
        };
        format!(
            "The curves have a point every {} ms that holds the newest sample which had been read by \
             then, without interpolation and without looking ahead. The age of a sample, from before its \
             memory was asked for, was at most {} ms at a point and {} ms between points; the cap was {} \
             ms, held against the age {gate}, and one sample above it would have voided the whole batch.",
            settings.timeline_period,
            or_unknown(worst.max_sample_age),
            or_unknown(worst.supremum),
            settings.cap,
        )
    }

    fn went(&self) -> String {
        let sum = |of: fn(&Figures) -> u64| {
            self.figures().fold(0_u64, |sum, figures| sum.saturating_add(of(figures)))
        };
        let required = self.figures().try_fold(0_u64, |sum, figures| {
            figures.points_required.and_then(|points| sum.checked_add(points))
        });
        let length = self.figures().try_fold(Length::default(), |sum, figures| {
            figures.duration_ms.map(|length| sum.plus(length))
        });
        let required = required.map_or_else(|| said(None), |points| points.to_string());
        let worst = self.extremes();
        format!(
            "The batch has n = {} iterations of together {} ms; {} of {required} points were available. \
             {} of {} passes were catch-ups; 99 % began within {} ms of the one before, and passes took \
             at most {} of an iteration's time.",
            self.windows.len(),
            or_unknown(length),
            sum(|figures| figures.points_available),
            sum(|figures| figures.deadlines.recovery),
            sum(|figures| figures.gpu_probe_count),
            or_unknown(worst.interval_p99),
            percent_of_ppm(worst.cost.probe_duty_cycle_ppm),
        ) + &format!(
            " The recorder took {} of one processor core; its calls of the driver took, as median and \
             99th percentile in ms of the worst iteration, {}.",
            percent_of_ppm(worst.cost.recorder_cpu_ppm),
            calls(&worst.cost),
        )
    }

    fn reckoned(&self) -> String {
        let (least, most) = FieldName::Utilization
            .source_window_ms()
            .map_or_else(|| (said(None), said(None)), |(a, b)| (a.to_string(), b.to_string()));
        format!(
            "Statistics of an iteration are weighted by time; a value holds from its landing until the next lands, and never \
             past the cap, and time without a value is left out and stated. Utilization is the driver's \
             mean over its own last {least} to {most} ms, which at the beginning of an iteration or a phase \
             reach back before it; of power and temperature the driver does not \
             state the window. The first processor reading is left out. Over iterations each contributes \
             one number; intervals are of 95 % (bootstrap, BCa, {DRAWS} draws, seed {}), and with fewer \
             than {N_MIN} iterations the points are given alone.",
            self.seed
        )
    }

    fn limits(&self) -> String {
        let worst = self.extremes();
        let cap = self.facts.settings.cap;
        Claims::of(self.verdict, &worst, cap).paragraph()
    }
}

/// A stranger's text, safe to print.
fn shown(text: &str) -> String {
    escape(text.as_bytes()).to_string()
}

/// One of the labels of an iteration.
type LabelOf = fn(&Labels) -> Option<&str>;

/// Labels named before "and N more".
const LABELS_SHOWN: usize = 8;

/// `fp8 (n 5), bf16 (n 5)`: each value with how many iterations have it, in the order they came.
fn labelled(windows: &[Window<'_>], of: impl Fn(&Labels) -> Option<&str>) -> String {
    let mut counts: Vec<(Option<&str>, usize)> = Vec::new();
    for window in windows {
        let label = of(window.labels);
        match counts.iter_mut().find(|(known, _)| *known == label) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => counts.push((label, 1)),
        }
    }
    if counts.iter().all(|(label, _)| label.is_none()) {
        return "none".to_owned();
    }
    let one = |(label, count): &(Option<&str>, usize)| {
        format!("{} (n {count})", label.map_or_else(|| "none".to_owned(), shown))
    };
    let mut named: Vec<String> = counts.iter().take(LABELS_SHOWN).map(one).collect();
    let rest = counts.len().saturating_sub(LABELS_SHOWN);
    if rest > 0 {
        named.push(format!("and {rest} more"));
    }
    named.join(", ")
}

/// `utilization 0.012 and 0.034, memory 0.010 and 0.020`.
fn calls(cost: &Cost) -> String {
    let of = |(name, cost): (&FieldName, &CallCost)| {
        format!("{name} {} and {}", or_unknown(cost.p50_ms), or_unknown(cost.p99_ms))
    };
    cost.fields.iter().map(of).collect::<Vec<_>>().join(", ")
}
