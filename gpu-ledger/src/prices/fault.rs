//! What is wrong with a price file: every fault, with its place and what to do.

use std::fmt;

/// Faults that are told; the rest is counted.
pub const FAULTS_SHOWN_MAX: usize = 20;

/// One fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its line, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
    /// What is wrong, safe to print.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// All of them, in the order of the file; never none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Faults {
    shown: Vec<Fault>,
    more: usize,
}

impl Faults {
    /// `None` where there is no fault.
    #[must_use]
    pub fn of(mut all: Vec<Fault>) -> Option<Self> {
        all.sort_by_key(|fault| (fault.line, fault.column));
        let more = all.len().saturating_sub(FAULTS_SHOWN_MAX);
        all.truncate(FAULTS_SHOWN_MAX);
        (!all.is_empty()).then_some(Self { shown: all, more })
    }

    /// Those that are told.
    #[must_use]
    pub fn shown(&self) -> &[Fault] {
        &self.shown
    }

    /// As text, a line each, `path` in front.
    #[must_use]
    pub fn told(&self, path: &str) -> String {
        let lines = self.shown.iter().map(|fault| format!("{path}:{fault}"));
        let more = (self.more > 0).then(|| format!("{path}: and {} more", self.more));
        lines.chain(more).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.line, self.column, self.what, self.remedy)
    }
}
