//! What a batch proves and what it does not: said in every report, so that nobody reads more into a curve.

use std::fmt;

use serde::Serialize;

use super::iteration::Iteration;
use super::manifest::Manifest;
use crate::residency::moment::Length;
use crate::residency::verdict::or_unknown;

/// Both lists, as sentences without an end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Claims {
    /// What it proves.
    pub proves: Vec<String>,
    /// What it does not prove.
    pub does_not_prove: Vec<String>,
}

impl Claims {
    /// Of these windows, with this run's figures.
    pub(super) fn of(manifest: &Manifest, iterations: &[Iteration], is_accepted: bool) -> Self {
        let figures =
            || iterations.iter().filter_map(|one| one.derived.as_ref()).map(|one| &one.figures);
        let supremum = figures().filter_map(|one| one.max_sample_age_sup_ms).max();
        let pass = figures().filter_map(|one| one.probe_duration_ms.max).max();
        let interval = figures().filter_map(|one| one.effective_interval_ms.p99).max();
        let proves = if is_accepted {
            format!(
                "each value of device memory was read within {} ms of the instant it is drawn at, and every \
                 other field of its pass at most {} ms before it",
                or_unknown(supremum),
                or_unknown(pass)
            )
        } else {
            "nothing: the batch is not accepted".to_owned()
        };
        let cap: Length = manifest.settings.cap;
        let does_not_prove = vec![
            "a ranking of configurations: nearness in time is all that is claimed".to_owned(),
            format!("that events shorter than {} ms are visible (effective interval, p99)", or_unknown(interval)),
            format!("that {cap} ms describes the GPU: the cap is a trade-off that was chosen"),
            "that a fresh utilization is of its instant: the driver's own window, 167 to 1000 ms, lies behind it"
                .to_owned(),
        ];
        Self { proves: vec![proves], does_not_prove }
    }
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "proves")?;
        self.proves.iter().try_for_each(|claim| writeln!(f, "  {claim}"))?;
        writeln!(f, "does not prove")?;
        self.does_not_prove.iter().try_for_each(|claim| writeln!(f, "  {claim}"))
    }
}
