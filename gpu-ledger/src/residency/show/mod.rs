//! `show DIR`: a batch on a page of text.
//!
//! Purpose: what was recorded, what it may be trusted for, what it cost, what it says. May touch: nothing.
//! May not: show a statistic of a void batch, whatever it is handed.

mod brief;
mod cost;
mod json;
mod stretch;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::claims::Claims;
use super::compare::{gate, shown};
use super::facts::{
    BatchFacts, Extremes, Labels, fingerprint_said, in_flight_said, iterations_said, names,
    programs_said, said, watts,
};
use super::pages::Page;
use super::reasons::{explained, unverified_said};
use super::statistics::bootstrap::{DRAWS, N_MIN, interval};
use super::statistics::measure::Measure;
use super::statistics::reasons;
use super::statistics::window::IterationStatistics;
use super::tally::Figures;
use super::verdict::{DataVerdict, Verdict, VerdictLine, or_unknown};
use crate::escape::escape;

/// One iteration of the page.
#[derive(Clone, Copy, Debug)]
pub struct Iteration<'batch> {
    /// Its number.
    pub number: u64,
    /// What the user calls it.
    pub labels: &'batch Labels,
    /// Its figures.
    pub figures: &'batch Figures,
    /// How it ended, where a reader has to know.
    pub notes: &'batch [String],
    /// Its statistics, where the batch is valid.
    pub statistics: Option<&'batch IterationStatistics>,
}

/// How much of a batch is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// What fits on a screen.
    #[default]
    Brief,
    /// Everything.
    All,
    /// Everything of the iteration with this number.
    Iteration(u64),
}

impl Detail {
    /// Whether an iteration is asked for.
    const fn is_of(self, number: u64) -> bool {
        match self {
            Self::Brief | Self::All => true,
            Self::Iteration(asked) => asked == number,
        }
    }
}

/// So many iterations have a line in a brief page.
const ITERATIONS_SHOWN: usize = 12;

/// What the page is about.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'batch> {
    /// What it was recorded with.
    pub facts: &'batch BatchFacts,
    /// Both verdicts.
    pub verdict: &'batch Verdict,
    /// Its iterations, in order.
    pub iterations: &'batch [Iteration<'batch>],
    /// Of the bootstrap over iterations.
    pub seed: u64,
    /// How much of it.
    pub detail: Detail,
}

impl Shown<'_> {
    /// The page, 80 columns wide.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = Page::default();
        title(&mut page, self.facts, self.verdict);
        self.verdicts(&mut page);
        self.recorded(&mut page);
        self.windows(&mut page);
        match self.detail {
            Detail::Brief => brief::cost(&mut page, self),
            Detail::All | Detail::Iteration(_) => cost::cost(&mut page, self.iterations),
        }
        if self.is_valid() {
            self.statistics(&mut page);
        }
        page.blank();
        page.line("Claims");
        for claim in self.claims().to_string().lines() {
            page.wrapped(2, 4, claim);
        }
        brief::more(&mut page, self);
        page.finish()
    }

    fn statistics(&self, page: &mut Page) {
        let asked = self.iterations.iter().filter(|one| self.detail.is_of(one.number));
        let of_each = asked.filter_map(|one| Some((one, one.statistics?)));
        match (self.detail, self.iterations) {
            (Detail::Brief, [_]) => {
                of_each.for_each(|(one, statistics)| brief::iteration(page, one, statistics));
            }
            (Detail::Brief, _) => {}
            (Detail::All | Detail::Iteration(_), _) => {
                of_each.for_each(|(one, statistics)| stretch::iteration(page, one, statistics));
            }
        }
        if !matches!(self.detail, Detail::Iteration(_)) {
            self.over_iterations(page);
        }
    }

    fn is_valid(&self) -> bool {
        self.verdict.data_verdict() == DataVerdict::Valid
    }

    fn extremes(&self) -> Extremes {
        Extremes::of(self.iterations.iter().map(|iteration| iteration.figures))
    }

    fn claims(&self) -> Claims {
        Claims::of(self.verdict, &self.extremes(), self.facts.settings.cap)
    }

    fn recorded(&self, page: &mut Page) {
        let (facts, settings) = (self.facts, &self.facts.settings);
        page.blank();
        page.line("Recorded");
        page.fact("when", &said(facts.created_wall.as_deref()));
        let uuid = escape(facts.gpu_uuid.0.as_bytes());
        page.fact("GPU", &format!("{}, {uuid}", said(facts.gpu_name.as_deref())));
        page.fact("power limit", &watts(facts.power_limit_mw));
        page.fact(
            "with",
            &format!(
                "gpu-ledger {}, driver {}, kernel {}",
                escape(facts.version.as_bytes()),
                said(facts.driver.as_deref()),
                said(facts.kernel.as_deref())
            ),
        );
        let programs = programs_said(facts);
        page.fact("backend", &format!("{}; {programs}", facts.backend.as_str()));
        let (period, points) = (settings.period, settings.timeline_period);
        page.fact("periods", &format!("probe (P) {period} ms, timeline (Q) {points} ms"));
        page.fact(
            "age",
            &format!(
                "cap {} ms, gate {}; a lone stall of up to {} ms leaves it valid",
                settings.cap,
                gate(settings.age_gate),
                settings.stall_budget()
            ),
        );
        page.fact("fields", &format!("{}, in this order", names(&facts.field_order)));
        page.fact("required", &names(&settings.required_fields));
        let harness = if facts.harness_verified {
            "verified by an acceptance run".to_owned()
        } else {
            unverified_said()
        };
        page.fact("harness", &harness);
        let clock = said(facts.clock_sync.as_deref());
        page.fact("clock", &format!("CLOCK_BOOTTIME; wall clock: {clock}"));
        if let Some(command) = facts.command_said() {
            page.fact("command", &command);
        }
        let recorded = u64::try_from(self.iterations.len()).unwrap_or(u64::MAX);
        page.fact("iterations", &iterations_said(recorded, facts.iterations_planned));
        page.fact("proof", &fingerprint_said(facts.fingerprint.as_deref()));
    }

    fn verdicts(&self, page: &mut Page) {
        let extremes = self.extremes();
        let line = VerdictLine {
            verdict: self.verdict,
            max_sample_age: extremes.max_sample_age,
            supremum: extremes.supremum,
            cap: Some(self.facts.settings.cap),
        };
        page.blank();
        page.line("Verdicts");
        page.wrapped(2, 4, &line.to_string());
        for reason in explained(self.verdict, &self.facts.settings, &extremes) {
            page.wrapped(2, 4, &reason);
        }
    }

    fn windows(&self, page: &mut Page) {
        page.blank();
        page.line("Iterations (ms)");
        page.line("   #         points         length    age max    age sup   samples  recoveries");
        let (shown_here, rest) = self.windows_shown();
        for iteration in shown_here {
            let figures = iteration.figures;
            let required =
                figures.points_required.map_or_else(|| "?".to_owned(), |all| all.to_string());
            let points = format!("{}/{required}", figures.points_available);
            let row = format!(
                "{:>4} {points:>14} {:>14} {:>10} {:>10} {:>9} {:>11}",
                iteration.number,
                or_unknown(figures.duration_ms),
                or_unknown(figures.max_sample_age_ms),
                or_unknown(figures.max_sample_age_sup_ms),
                figures.gpu_sample_count,
                figures.deadlines.recovery,
            );
            page.line(&row);
            page.line(&format!("        {}", shown(iteration.labels)));
            if let Some(step) = figures.wall_clock_step_ms.filter(|step| step.0 > 0) {
                page.line(&format!("        wall clock stepped by {step} ms: ages are unchanged"));
            }
            for note in iteration.notes {
                page.wrapped(8, 10, note);
            }
            if let Some(flight) = figures.probe_in_flight_at_end_ms {
                page.wrapped(8, 10, &in_flight_said(flight));
            }
        }
        if rest > 0 {
            page.line(&format!("     and {rest} more: --all prints them"));
        }
    }

    /// The iterations that have a line, and how many have none.
    fn windows_shown(&self) -> (Vec<&Iteration<'_>>, usize) {
        let asked = self.iterations.iter().filter(|one| self.detail.is_of(one.number));
        let mut shown: Vec<&Iteration<'_>> = asked.collect();
        let asked = shown.len();
        if self.detail == Detail::Brief {
            shown.truncate(ITERATIONS_SHOWN);
        }
        let rest = asked.saturating_sub(shown.len());
        (shown, rest)
    }

    /// One number per iteration, with how sure one may be of their mean; configs and contexts each by themselves.
    fn over_iterations(&self, page: &mut Page) {
        let mut groups: BTreeMap<(Option<&str>, Option<&str>), Vec<&IterationStatistics>> =
            BTreeMap::new();
        for one in self.iterations {
            let Some(statistics) = one.statistics else { continue };
            let Labels { config, context, .. } = one.labels;
            groups.entry((config.as_deref(), context.as_deref())).or_default().push(statistics);
        }
        if groups.values().all(|group| group.len() < 2) && groups.len() < 2 {
            return;
        }
        page.blank();
        page.line(&format!(
            "Over iterations (95 % interval by bootstrap, {DRAWS} draws, seed {}; fewer than {N_MIN}: \
             points)",
            self.seed
        ));
        let is_one = groups.len() == 1;
        for ((config, context), group) in groups {
            if !is_one {
                let named = [("config", config), ("context", context)];
                let named = named.iter().filter_map(|(name, value)| Some((name, (*value)?)));
                let named: Vec<String> = named
                    .map(|(name, value)| format!("{name} {}", escape(value.as_bytes())))
                    .collect();
                let title =
                    if named.is_empty() { "unlabelled".to_owned() } else { named.join(", ") };
                page.wrapped(2, 4, &title);
            }
            self.over(page, &group, if is_one { 2 } else { 4 });
        }
    }

    fn over(&self, page: &mut Page, group: &[&IterationStatistics], indent: usize) {
        for measure in Measure::ALL {
            let values: Vec<i128> =
                group.iter().filter_map(|statistics| measure.of(&statistics.window)).collect();
            let title = format!("{} (n {})", measure.title(), values.len());
            let told = match interval(&values, self.seed) {
                _ if values.is_empty() => "UNKNOWN".to_owned(),
                Some(told) => format!(
                    "mean {}, {} to {} ({})",
                    measure.show(told.mean),
                    measure.show(told.low),
                    measure.show(told.high),
                    told.method.as_str()
                ),
                None => values.iter().map(|one| measure.show(*one)).collect::<Vec<_>>().join(", "),
            };
            page.wrapped(indent, indent.saturating_add(4), &format!("{title}: {told}"));
        }
    }
}

/// The first lines: whatever forbids to use the batch stands above its name.
fn title(page: &mut Page, facts: &BatchFacts, verdict: &Verdict) {
    if !verdict.data.is_empty() {
        page.wrapped(0, 2, &format!("VOID: {}", reasons(&verdict.data)));
    }
    if !verdict.backend.is_empty() {
        let reasons: Vec<&str> = verdict.backend.iter().map(|reason| reason.as_str()).collect();
        page.wrapped(0, 2, &format!("BACKEND FAIL: {}", reasons.join(", ")));
    }
    page.wrapped(0, 2, &format!("residency batch {}", escape(facts.batch_id.as_bytes())));
}
