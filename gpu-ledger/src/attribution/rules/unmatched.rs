//! Conditions on GPUs that a host has none of: a rule with one takes nothing there, and is most often misspelt.

use std::fmt;

use super::key::{Field, Key};
use super::{Place, RuleSet};
use crate::likeness::nearest;
use crate::settlement::RuleId;
use crate::unit::GpuUuid;

/// Such rules that are told of; further ones are not.
pub const UNMATCHED_MAX: usize = 20;

/// One GPU of a host.
#[derive(Clone, Copy, Debug)]
pub struct HostGpu<'a> {
    /// Its UUID.
    pub uuid: &'a GpuUuid,
    /// Where it enumerates.
    pub index: u32,
    /// Its product name, where the driver said one.
    pub name: Option<&'a str>,
}

/// A rule whose condition on the GPU no GPU of the host meets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnmatchedGpu {
    /// Which rule.
    pub rule: RuleId,
    /// Where the condition stands.
    pub place: Place,
    /// What it wants.
    pub wants: String,
    /// The GPU that is called most like it, where one is.
    pub nearest: Option<String>,
}

impl fmt::Display for UnmatchedGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Place { line, column }, rule) = (self.place, self.rule.0);
        write!(f, "{line}:{column}: rule {rule} takes nothing here: no GPU is {}", self.wants)?;
        match &self.nearest {
            Some(name) => write!(f, "; there is {name:?}"),
            None => Ok(()),
        }
    }
}

impl RuleSet {
    /// The rules that no GPU of a host can fall under, the first [`UNMATCHED_MAX`] of them.
    #[must_use]
    pub fn unmatched_gpus(&self, gpus: &[HostGpu<'_>]) -> Vec<UnmatchedGpu> {
        let values: Vec<String> = gpus
            .iter()
            .flat_map(|gpu| {
                [
                    Some(gpu.index.to_string()),
                    Some(gpu.uuid.to_string()),
                    gpu.name.map(str::to_owned),
                ]
            })
            .flatten()
            .collect();
        let conditions = self.rules.iter().flat_map(|rule| {
            let of_gpu = rule.conditions.iter().filter(|one| one.key == Key::Of(Field::Gpu));
            of_gpu.map(move |condition| (rule.id, condition))
        });
        let unmet = conditions.filter(|(_, condition)| {
            let is_met = |value: &String| {
                condition.patterns.iter().any(|pattern| pattern.matches(value.as_bytes()))
            };
            !values.iter().any(is_met)
        });
        let told = unmet.map(|(rule, condition)| {
            let wants: Vec<String> = condition.patterns.iter().map(ToString::to_string).collect();
            let like = |wanted: &String| {
                nearest(wanted.trim_matches('"'), values.iter().map(String::as_str))
            };
            UnmatchedGpu {
                rule,
                place: condition.place,
                nearest: wants.iter().find_map(like).map(str::to_owned),
                wants: condition.key.shown(wants.join(" or ").as_bytes(), 120),
            }
        });
        told.take(UNMATCHED_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_a_gpu_that_is_not_there_is_told_with_the_one_that_was_meant() {
        let rule = |gpu: &str| format!("[[rule]]\naccount = \"a\"\ngpu = {gpu}\n");
        let written = [
            "\"NVIDIA H20O\"",
            "\"NVIDIA H200\"",
            "{ regex = 'Tesla.*' }",
            "\"GPU-1a2b3c4d\"",
            "[\"7\", \"1\"]",
            "\"2\"",
        ];
        let text: String = written.iter().map(|gpu| rule(gpu)).collect();
        let rules = RuleSet::parse(text.as_bytes()).unwrap();
        let (one, two) = (GpuUuid("GPU-0a2b3c4d".into()), GpuUuid("GPU-1a2b3c4d".into()));
        let gpus = [
            HostGpu { uuid: &one, index: 0, name: Some("NVIDIA H200") },
            HostGpu { uuid: &two, index: 1, name: None },
        ];
        let told: Vec<String> =
            rules.unmatched_gpus(&gpus).iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0]
                .starts_with("3:1: rule 1 takes nothing here: no GPU is \"NVIDIA H20O\"; there is")
                && told[0].ends_with("\"NVIDIA H200\""),
            "{told:?}"
        );
        assert!(told[1].contains("rule 3 ") && told[1].contains("Tesla"), "{told:?}");
        assert!(told[2].contains("rule 6 "), "{told:?}");
        let many = RuleSet::parse(rule("\"7\"").repeat(UNMATCHED_MAX + 1).as_bytes()).unwrap();
        assert_eq!(many.unmatched_gpus(&gpus).len(), UNMATCHED_MAX);
    }
}
