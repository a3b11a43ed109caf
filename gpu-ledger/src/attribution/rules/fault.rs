//! What is wrong with a file of rules, and where.

use std::fmt;

/// Faults told of one file; further ones are counted.
pub const FAULTS_MAX: usize = 50;
/// With so many a file is not looked into any further: to find out that something is wrong may take long (a regular
/// expression that is too large is known as such when it is compiled that far), and nobody reads more of them.
pub const FAULTS_LOOKED_MAX: usize = 200;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1.
    pub column: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// Everything that is wrong with a file, in its order; never empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Faults {
    /// The first [`FAULTS_MAX`] of them.
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more: usize,
    /// There may be others: [`FAULTS_LOOKED_MAX`] were found before the end of the file.
    pub is_cut: bool,
}

impl fmt::Display for Faults {
    /// The first one, and how many others there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.faults.first() {
            first.fmt(f)?;
        }
        match self.faults.len().saturating_sub(1).saturating_add(self.more) {
            0 => Ok(()),
            others if self.is_cut => {
                write!(f, " (and at least {others} more: gpu-ledger rules check)")
            }
            others => write!(f, " (and {others} more: gpu-ledger rules check)"),
        }
    }
}

/// Where lines begin.
#[derive(Debug)]
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = ends.map(|(at, _)| at.saturating_add(1));
        Self { text, starts: std::iter::once(0).chain(starts).collect() }
    }

    /// Line and column of a byte, both from 1; the column counts characters.
    pub(super) fn place(&self, at: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= at);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..at).unwrap_or("");
        Place { line, column: before.chars().count().saturating_add(1) }
    }

    pub(super) fn text(&self) -> &'t str {
        self.text
    }
}

/// A place in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The character in it, from 1.
    pub column: usize,
}

/// Collects faults, bounded.
#[derive(Debug)]
pub(super) struct Collector<'t> {
    pub(super) lines: Lines<'t>,
    faults: Vec<Fault>,
    more: usize,
    is_cut: bool,
}

impl<'t> Collector<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { lines: Lines::of(text), faults: Vec::new(), more: 0, is_cut: false }
    }

    /// Whether what comes next is to be left alone, since enough is wrong. Asked where something comes.
    pub(super) const fn is_enough(&mut self) -> bool {
        self.is_cut |= self.count() >= FAULTS_LOOKED_MAX;
        self.is_cut
    }

    /// A fault at a byte of the file.
    pub(super) fn add(&mut self, at: usize, what: impl Into<String>) {
        let Place { line, column } = self.lines.place(at);
        self.faults.push(Fault { line, column, what: what.into() });
        // Not one by one: a table's keys come in another order than the file's.
        if self.faults.len() >= FAULTS_MAX.saturating_mul(4) {
            self.shorten();
        }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.faults.len().saturating_add(self.more)
    }

    fn shorten(&mut self) {
        self.faults.sort();
        self.more = self.more.saturating_add(self.faults.len().saturating_sub(FAULTS_MAX));
        self.faults.truncate(FAULTS_MAX);
    }

    /// `value`, where nothing was wrong.
    pub(super) fn finish<T>(mut self, value: T) -> Result<T, Faults> {
        if self.faults.is_empty() {
            return Ok(value);
        }
        self.shorten();
        Err(Faults { faults: self.faults, more: self.more, is_cut: self.is_cut })
    }
}
