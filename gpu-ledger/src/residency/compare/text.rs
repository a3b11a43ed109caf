//! A comparison as a page of text.

use super::{Across, Comparison, Row, Says, Scope, SecondOpinion};
use crate::escape::escape;
use crate::residency::compare::pairs::shown;
use crate::residency::pages::Page;
use crate::residency::statistics::bootstrap::{DRAWS, N_MIN};
use crate::residency::statistics::measure::Measure;
use crate::residency::statistics::normal::decimal;

impl Comparison {
    /// The page, 80 columns wide.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = Page::default();
        page.line(&self.title);
        page.blank();
        self.paired(&mut page);
        let mut scope = None;
        for row in &self.rows {
            if scope != Some(&row.scope) {
                page.blank();
                page.line(&title(&row.scope));
                scope = Some(&row.scope);
            }
            told(&mut page, row);
        }
        page.blank();
        self.method(&mut page);
        page.blank();
        page.line("The probe's own cost, the worst iteration of either");
        page.wrapped(2, 4, &self.cost.parts().join("; "));
        page.blank();
        page.line("Claims");
        for claim in self.claims.to_string().lines() {
            page.wrapped(2, 4, claim);
        }
        page.finish()
    }

    fn paired(&self, page: &mut Page) {
        let labels = match self.across {
            Across::Nothing => "config, context and round",
            Across::Config => "context and round, across config",
            Across::Context => "config and round, across context",
        };
        page.fact("pairs", &format!("{}, by {labels}", self.pairs.len()));
        for (side, unpaired) in [("only in A", &self.unpaired_a), ("only in B", &self.unpaired_b)] {
            for labels in unpaired {
                page.fact(side, &shown(labels));
            }
        }
        for note in &self.notes {
            page.fact("note", note);
        }
        if !self.unknown_of_both.is_empty() {
            let what = self.unknown_of_both.join(", ");
            page.fact("UNKNOWN", &format!("of both, and so not known to be alike: {what}"));
        }
    }

    fn method(&self, page: &mut Page) {
        page.line("How");
        let how = format!(
            "One number per iteration; B - A of each pair. Interval: 95 %, bootstrap over pairs, {DRAWS} \
             draws, seed {}. Second opinion: Wilcoxon signed-rank, two-sided, Holm over the tests of \
             memory and over those of load in each stretch. \"differs\": the interval leaves out 0 and \
             the corrected p is at most 0.05. \"within sampling\": both hold, and the samples of the two \
             sides allow that nothing differs, as nobody saw what was between them: probes begin with the \
             command, so that this is alike in every round. \"too few pairs\": so few could not reach it, however much they differ. \
             Fewer than {N_MIN} pairs: points only. The numbers are \
             deterministic for a seed; what was measured is not.",
            self.seed
        );
        page.wrapped(2, 2, &how);
    }
}

fn title(scope: &Scope) -> String {
    match scope {
        Scope::Window => "Whole window".to_owned(),
        Scope::Phase { name, occurrence } => phase_title(name.as_deref(), *occurrence),
    }
}

/// `Phase decode`, `Phase decode (2)`, `Before any mark`.
pub(in crate::residency) fn phase_title(name: Option<&str>, occurrence: u64) -> String {
    match (name, occurrence) {
        (None, _) => "Before any mark".to_owned(),
        (Some(name), 1) => format!("Phase {}", escape(name.as_bytes())),
        (Some(name), again) => format!("Phase {} ({again})", escape(name.as_bytes())),
    }
}

fn told(page: &mut Page, row: &Row) {
    let measure = row.measure;
    let unknown = match row.pairs_unknown {
        0 => String::new(),
        pairs => format!(", {pairs} UNKNOWN"),
    };
    let lacks = row.second_opinion.filter(|_| row.says == Says::TooFewPairs).map(|opinion| {
        format!(": {} that differ, of at least {}", opinion.n_differing, opinion.pairs_needed)
    });
    page.wrapped(
        2,
        4,
        &format!(
            "{}: {}{} (n {}{unknown})",
            measure.title(),
            row.says.as_str(),
            lacks.unwrap_or_default(),
            row.n
        ),
    );
    if let Some(effect) = row.effect {
        let percent = effect
            .percent_of_a
            .map(|percent| format!("; {} % of A", plus(percent.value, &percent)));
        page.wrapped(
            4,
            8,
            &format!(
                "B - A {}, 95 % interval {} to {} ({}), n {}{}",
                signed(measure, effect.mean_difference.value),
                plus(effect.low.value, &measure.bare(effect.low.value)),
                plus(effect.high.value, &measure.bare(effect.high.value)),
                effect.method.as_str(),
                row.n,
                percent.unwrap_or_default(),
            ),
        );
    }
    if let Some([low, high]) = row.by_samples {
        let (low, high) = (signed(measure, low.value), signed(measure, high.value));
        page.wrapped(4, 8, &format!("its samples allow {low} to {high}"));
    }
    if let Some(opinion) = row.second_opinion {
        let mut said = second(&opinion);
        if row.effect.is_some_and(|effect| {
            effect.leaves_out_zero() && row.says == Says::NoDifferenceDetected
        }) {
            said.push_str("; the two opinions disagree");
        }
        page.wrapped(4, 8, &said);
    }
    if row.says == Says::PointsOnly {
        let joined = |of: &dyn Fn(&super::PairPoint) -> String| {
            row.points.iter().map(of).collect::<Vec<_>>().join(", ")
        };
        page.wrapped(4, 10, &format!("A     {}", joined(&|point| measure.show(point.a.value))));
        page.wrapped(4, 10, &format!("B     {}", joined(&|point| measure.show(point.b.value))));
        let differences = joined(&|point| signed(measure, point.difference.value));
        page.wrapped(4, 10, &format!("B - A {differences}"));
    }
}

fn second(opinion: &SecondOpinion) -> String {
    let SecondOpinion { p, p_holm, family_size, n_differing, .. } = opinion;
    let Some(correlation) = opinion.rank_biserial.and_then(|r| decimal(r, 2)) else {
        return "Wilcoxon: no pair differs".to_owned();
    };
    let how = if opinion.is_exact { "exact" } else { "approximate" };
    format!(
        "Wilcoxon p {} ({how}, {n_differing} differing), Holm over {family_size} p {}; rank-biserial \
         {correlation}",
        short(*p),
        short(*p_holm),
    )
}

fn short(p: f64) -> String {
    match decimal(p, 4) {
        None => "UNKNOWN".to_owned(),
        Some(text) if text == "0.0000" => "<0.0001".to_owned(),
        Some(text) => text,
    }
}

fn signed(measure: Measure, value: i128) -> String {
    plus(value, &measure.show(value))
}

fn plus(value: i128, text: &dyn std::fmt::Display) -> String {
    if value > 0 { format!("+{text}") } else { text.to_string() }
}
