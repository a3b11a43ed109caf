//! What a batch proves and what it does not: printed in every report, stored in `summary.json`.

use std::fmt;

use serde::Serialize;

use super::facts::Extremes;
use super::moment::Length;
use super::verdict::{Verdict, or_unknown};

/// The claims of a batch, with its own figures in them. Every report takes them from here, so that no two
/// say different things of one batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Claims {
    /// What it proves of its GPU; empty of a batch that is not accepted.
    pub proves: Vec<String>,
    /// Why it proves nothing of a GPU; null of one that is accepted.
    pub proves_nothing: Option<String>,
    /// What it does not prove.
    pub does_not_prove: Vec<String>,
}

impl Claims {
    /// Of a batch with these verdicts, whose iterations came to no worse than this, with its cap.
    #[must_use]
    pub fn of(verdict: &Verdict, worst: &Extremes, cap: Length) -> Self {
        let why_not = match (verdict.backend.as_slice(), verdict.data.is_empty()) {
            ([], true) => return Self { proves: near(worst), ..Self::of_none(None, worst, cap) },
            ([], false) => "its data are void, and no value of it may be used".to_owned(),
            (backend, is_valid) => {
                let reasons: Vec<&str> = backend.iter().map(|reason| reason.as_str()).collect();
                let reasons = reasons.join(", ");
                if is_valid {
                    format!(
                        "about a GPU: the backend verdict failed ({reasons}). Of what was asked instead, {}",
                        near(worst).pop().unwrap_or_else(|| "nothing is known".to_owned())
                    )
                } else {
                    format!(
                        "its data are void and its backend verdict failed ({reasons}), and no value of it \
                         may be used"
                    )
                }
            }
        };
        Self::of_none(Some(why_not), worst, cap)
    }

    /// Of one that is not as it was recorded.
    #[must_use]
    pub fn of_altered(worst: &Extremes, cap: Length) -> Self {
        let why_not = "it is not as it was recorded, and no value of it may be used";
        Self::of_none(Some(why_not.to_owned()), worst, cap)
    }

    fn of_none(proves_nothing: Option<String>, worst: &Extremes, cap: Length) -> Self {
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
        Self { proves: Vec::new(), proves_nothing, does_not_prove }
    }

    /// One sentence: what it proves, or why nothing.
    #[must_use]
    pub fn sentence(&self) -> String {
        match &self.proves_nothing {
            None => format!("proves: {}", self.proves.join("; ")),
            Some(why) if why.starts_with("about ") => format!("proves nothing {why}"),
            Some(why) => format!("proves nothing: {why}"),
        }
    }

    /// Both, in running text.
    #[must_use]
    pub fn paragraph(&self) -> String {
        let not = self.does_not_prove.join("; ");
        format!("This {}. It does not prove: {not}.", self.sentence())
    }
}

/// How near each value is to its moment.
fn near(worst: &Extremes) -> Vec<String> {
    let near = worst.supremum.map(|supremum| {
        format!(
            "each value of device memory was read within {supremum} ms of the instant it is drawn at, and \
             every other field of its pass at most {} ms before it",
            or_unknown(worst.pass_max)
        )
    });
    near.into_iter().collect()
}

impl fmt::Display for Claims {
    /// A line each, without wrapping.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sentence())?;
        for claim in &self.does_not_prove {
            writeln!(f, "does not prove: {claim}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::verdict::{BackendReason, Void, VoidReason};

    #[test]
    fn each_pair_of_verdicts_has_its_own_sentence() {
        let simulated = vec![BackendReason::Simulated];
        let void = vec![Void { reason: VoidReason::AgeOverCap, count: 1, first_point: Some(3) }];
        let worst = Extremes {
            supremum: Some(Length::of_ms(201)),
            pass_max: Some(Length::of_ms(2)),
            ..Extremes::default()
        };
        let said = |backend: &[BackendReason], data: &[Void]| {
            let verdict = Verdict { backend: backend.to_vec(), data: data.to_vec() };
            Claims::of(&verdict, &worst, Length::of_ms(750))
        };
        let near = "each value of device memory was read within 201.000 ms of the instant it is drawn at, and \
                    every other field of its pass at most 2.000 ms before it";
        let accepted = said(&[], &[]);
        assert_eq!(accepted.sentence(), format!("proves: {near}"));
        assert_eq!((accepted.proves.len(), accepted.proves_nothing.is_none()), (1, true));
        let failed = said(&simulated, &[]);
        assert_eq!(
            failed.sentence(),
            format!(
                "proves nothing about a GPU: the backend verdict failed (simulated). Of what was asked \
                 instead, {near}"
            )
        );
        assert_eq!(
            said(&[], &void).sentence(),
            "proves nothing: its data are void, and no value of it may be used"
        );
        assert_eq!(
            said(&simulated, &void).sentence(),
            "proves nothing: its data are void and its backend verdict failed (simulated), and no value of \
             it may be used"
        );
        for refused in [failed, said(&[], &void), said(&simulated, &void)] {
            assert!(refused.proves.is_empty(), "{refused}");
            assert!(!refused.does_not_prove.is_empty());
        }
    }
}
