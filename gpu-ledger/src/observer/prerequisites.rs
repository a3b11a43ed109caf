//! What watching processes needs, and going on without names where it is not there.

use std::fmt;
use std::path::Path;

use super::{Observer, Setup};
use crate::kernel::TracerOptions;
use crate::kernel::preflight::{self, Need, Outcome};
use crate::unknown::{Unknown, UnknownReason};

/// A prerequisite that is missing, and what to do about it.
pub(crate) struct Missing {
    pub(crate) unknown: Unknown,
    /// What was seen, and the remedy, for people.
    pub(crate) advice: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}", self.unknown, self.advice)
    }
}

impl Observer {
    /// Watches, or sees no process where a prerequisite is missing: what it is comes with it.
    pub(crate) fn watch_or_blind(setup: Setup, tracer: &TracerOptions) -> (Self, Vec<Missing>) {
        let mut missing = Vec::new();
        for finding in preflight::findings(Path::new("/proc"), Path::new("/sys")) {
            if let (Need::Tracing, Outcome::Missing { cause, remedy }) =
                (finding.need, finding.outcome)
            {
                let detail = Some(token(&finding.prerequisite.to_string()));
                let unknown =
                    Unknown { detail, ..Unknown::of(UnknownReason::ProcessEventsUnavailable) };
                missing.push(Missing { unknown, advice: format!("no names: {cause}; {remedy}") });
            }
        }
        if !missing.is_empty() {
            return (Self::blind(setup), missing);
        }
        preflight::raise_locked_memory();
        let observer = Self::watch(setup.clone(), tracer).unwrap_or_else(|error| {
            missing.push(Missing {
                unknown: Unknown::of(UnknownReason::ProcessEventsUnavailable),
                advice: format!("no names: {error}"),
            });
            Self::blind(setup)
        });
        (observer, missing)
    }
}

/// A prerequisite's name as one word of a machine-readable line.
fn token(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-")
}
