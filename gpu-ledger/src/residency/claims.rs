//! What a batch proves and what it does not: printed in every report, stored in `summary.json`.

use std::fmt;

use serde::Serialize;

use super::moment::Length;
use super::verdict::or_unknown;

/// The claims of a batch, with its own figures in them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Claims {
    /// What its verdicts prove; empty of a batch that is void.
    pub proves: Vec<String>,
    /// What they do not.
    pub does_not_prove: Vec<String>,
}

impl Claims {
    /// Of a valid batch with this supremum of the age, 99th percentile of the interval between two passes,
    /// and cap.
    #[must_use]
    pub fn of_valid(
        max_sample_age_sup: Option<Length>,
        effective_interval_p99: Option<Length>,
        cap: Length,
    ) -> Self {
        let proves = max_sample_age_sup.map(|supremum| {
            format!("each value was read within {supremum} ms of the instant it is drawn at")
        });
        Self { proves: proves.into_iter().collect(), ..Self::of_void(effective_interval_p99, cap) }
    }

    /// Of a void one: it proves nothing.
    #[must_use]
    pub fn of_void(effective_interval_p99: Option<Length>, cap: Length) -> Self {
        let interval = or_unknown(effective_interval_p99);
        let does_not_prove = vec![
            "that one configuration is to be preferred to another".to_owned(),
            format!("that events shorter than {interval} ms are visible"),
            format!(
                "anything about the GPU by its cap: {cap} ms is a trade-off, not its behaviour"
            ),
        ];
        Self { proves: Vec::new(), does_not_prove }
    }
}

impl fmt::Display for Claims {
    /// A line each, without wrapping.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.proves.is_empty() {
            writeln!(f, "proves nothing: no value of it may be used")?;
        }
        for claim in &self.proves {
            writeln!(f, "proves: {claim}")?;
        }
        for claim in &self.does_not_prove {
            writeln!(f, "does not prove: {claim}")?;
        }
        Ok(())
    }
}
