//! What a batch proves and what it does not: printed in every report, stored in `summary.json`.

use std::fmt;

use serde::Serialize;

use super::facts::Extremes;
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
    /// Of a valid batch whose iterations came to no worse than this, with its cap.
    #[must_use]
    pub fn of_valid(worst: &Extremes, cap: Length) -> Self {
        let proves = worst.supremum.map(|supremum| {
            format!(
                "each value of device memory was read within {supremum} ms of the instant it is drawn at, and \
                 every other field of its pass at most {} ms before it",
                or_unknown(worst.pass_max)
            )
        });
        Self { proves: proves.into_iter().collect(), ..Self::of_void(worst, cap) }
    }

    /// Of a void one: it proves nothing.
    #[must_use]
    pub fn of_void(worst: &Extremes, cap: Length) -> Self {
        let interval = or_unknown(worst.interval_p99);
        let does_not_prove = vec![
            "that one configuration is to be preferred to another".to_owned(),
            format!("that events shorter than {interval} ms are visible"),
            format!(
                "anything about the GPU by its cap: {cap} ms is a trade-off, not its behaviour"
            ),
            "that utilization is of its instant: the driver's own window, 167 to 1000 ms, lies behind it"
                .to_owned(),
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
