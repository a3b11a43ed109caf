//! The bill: interval algebra over spans, and its closing check.
//!
//! Purpose: from a journal's entries to spans, from spans to alone, shared, free and uncovered time per
//! GPU and account, and from there to a page. May touch: nothing. May not: read a source, use a float,
//! round before text is rendered.
//! Clocks: every interval and every moment of one bill is on one grid of milliseconds. A trace lies within one
//! boot and is drawn on the boot clock ([`crate::clock::Timeline`]), so a stepped wall clock moves
//! nothing in it. A journal spans boots, and people ask for hours and days of the wall clock: its bill is drawn
//! on the wall clock as it was noted; what contradicts it was disputed when it was settled.
//! Invariant: per GPU and period, alone + shared + free + uncovered = period, to the millisecond;
//! every settlement stands on exactly one line. Either failing is an error, never a printed figure.
#![deny(clippy::arithmetic_side_effects)]

pub mod adjusted;
mod blind;
mod by;
mod called;
mod chosen;
pub mod closed;
pub mod figures;
pub mod focus;
mod intervals;
pub mod ledger;
mod line;
mod lines;
#[cfg(test)]
pub(crate) mod made;
mod on_gpu;
pub mod period;
pub mod report;
mod share;
mod shown;
mod statement;
pub mod table;
#[cfg(test)]
mod tests;
pub mod text;

pub use blind::{blind_spans, gap_spans};
pub use by::{By, LineKey, LineName};
pub use called::{Called, Standing};
pub use chosen::chosen_gpus;
pub use closed::{Closing, Closings};
pub use ledger::Ledger;
pub use line::{LOGGED_ACCOUNTS_MAX, LOGGED_NAMES_MAX, Named, Totals, journal_line, logged_line};
pub use lines::{
    AccountLine, Bill, Booked, DisputedLine, GpuBooks, GpuLine, Line, Placing, Settlements,
    StartPlace, UnattributedLine, bill, booked, dispute_of,
};
pub use share::{Divided, SharePolicy, divide};
pub use shown::Shown;
pub use statement::{
    AccountStatement, Holding, Kind, Parts, Statement, accrued, over_at, sharers, statement,
};

use crate::unit::{GpuUuid, Ms, Pid, Span};

/// Why there is no bill: figures that must agree do not, and none of them may be printed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BillError {
    /// A GPU's statement does not close.
    #[error(
        "the statement of {}..{} does not close: alone {} + shared {} + free {} + uncovered {} ms \
         is not its period of {} ms; this is a bug, please report it with the journal",
        period.from_ms(), period.to_ms(), alone.0, shared.0, free.0, uncovered.0, period.length().0
    )]
    Statement {
        /// Over which period.
        period: Span,
        /// Its parts.
        alone: Ms,
        /// Its parts.
        shared: Ms,
        /// Its parts.
        free: Ms,
        /// Its parts.
        uncovered: Ms,
    },
    /// A holding's parts are not its overlap with the period.
    #[error(
        "the holding of pid {pid} from {} to {} does not close: alone {} + shared {} + uncovered {} \
         ms is not its overlap of {} ms; this is a bug, please report it with the journal",
        span.from_ms(), span.to_ms(), parts.alone.0, parts.shared.0, parts.uncovered.0, overlap.0
    )]
    Holding {
        /// Whose.
        pid: Pid,
        /// Its whole span.
        span: Span,
        /// What of it lies in the period.
        overlap: Ms,
        /// What the sweep gave it.
        parts: Parts,
    },
    /// The bill's lines and the cumulative figures of what was booked differ.
    #[error(
        "the bill of gpu {gpu} does not agree with its books: the books say {books_count} \
         settlements of {books_held_ms} ms, the lines say {bill_count} of {bill_held_ms} ms; \
         this is a bug, please report it with the journal"
    )]
    Books {
        /// Which GPU.
        gpu: GpuUuid,
        /// Settlements booked.
        books_count: u64,
        /// Their milliseconds.
        books_held_ms: u128,
        /// Settlements on the bill.
        bill_count: u64,
        /// Their milliseconds.
        bill_held_ms: u128,
    },
    /// The lines of accounts, reasons and disputes are not all settlements, each once.
    #[error(
        "the bill's lines do not add up: accounts, reasons and disputes say {lines_count} \
         settlements of {lines_held_ms} ms, the GPUs say {gpus_count} of {gpus_held_ms} ms; this \
         is a bug, please report it with the journal"
    )]
    Lines {
        /// Settlements on the lines.
        lines_count: u64,
        /// Their milliseconds.
        lines_held_ms: u128,
        /// Settlements of the GPUs.
        gpus_count: u64,
        /// Their milliseconds.
        gpus_held_ms: u128,
    },
    /// Memory held does not add up.
    #[error(
        "the memory held on gpu {gpu} does not close: what its lines and nobody held is not what was in use; this \
         is a bug, please report it with the journal"
    )]
    Memory {
        /// Which GPU.
        gpu: GpuUuid,
    },
    /// A sum left 64 bits.
    #[error("{what} adds up to more than 2^64 - 1 ms; ask for a shorter period")]
    Overflow {
        /// Of what.
        what: &'static str,
    },
    /// Entries of a journal came in another order than that of their numbers.
    #[error("entry {seq} was handed over after entry {last}; entries are taken in their order")]
    Order {
        /// The last one taken.
        last: u64,
        /// The one that came then.
        seq: u64,
    },
    /// No GPU, or more than one, is called so.
    #[error(
        "{} of this journal {} called {name}; there are: {known}",
        if *are == 0 { "no GPU".to_owned() } else { format!("{are} GPUs") },
        if *are == 0 { "is" } else { "are" }
    )]
    NoSuchGpu {
        /// What was asked for, safe to print.
        name: String,
        /// How many are called so.
        are: usize,
        /// The GPUs there are.
        known: String,
    },
    /// No line is called so.
    #[error(
        "no line of this bill is called {name}{}; there are: {known}",
        likely.as_ref().map(|likely| format!(", did you mean {likely}?")).unwrap_or_default()
    )]
    NoSuchLine {
        /// What was asked for, safe to print.
        name: String,
        /// The line that is called almost so, safe to print.
        likely: Option<String>,
        /// The lines there are.
        known: String,
    },
    /// Several lines are called so, where one was cut.
    #[error(
        "several lines of this bill are called {name}: {known}; give the whole name of one, as \
         --format json has it"
    )]
    SeveralLines {
        /// What was asked for, safe to print.
        name: String,
        /// The lines that may be meant.
        known: String,
    },
    /// No entry was learnt by then.
    #[error(
        "the journal knew nothing at {0}: its first entry was learnt later; give --as-of a later moment"
    )]
    BeforeJournal(String),
    /// There is no such entry.
    #[error(
        "this journal has no entry {0}, so that it never ended with it; give --head a smaller number"
    )]
    NoSuchEntry(u64),
    /// A period was closed without this form of its bill.
    #[error(
        "{name} was closed without a bill as {form}{}; --as-of now makes it afresh",
        if form.starts_with("focus") { ", as it has no prices or is by process" } else { "" }
    )]
    NotClosedWith {
        /// The period.
        name: String,
        /// The form.
        form: &'static str,
    },
    /// A bill in money without prices.
    #[error(
        "--format focus is a bill in money, and no prices were given; give --prices FILE, or write \
         /etc/gpu-ledger/prices.toml"
    )]
    NoPrices,
    /// A dimension that does not exist.
    #[error("a bill cannot be made by {0:?}; use one of {words}", words = By::words())]
    UnknownDimension(String),
    /// A share policy that does not exist.
    #[error("no share policy is called {0:?}; use none, equal, busy or memory")]
    UnknownSharePolicy(String),
}

impl BillError {
    /// Whether what was asked for is what is wrong.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoSuchGpu { .. }
                | Self::NoSuchLine { .. }
                | Self::SeveralLines { .. }
                | Self::BeforeJournal(_)
                | Self::NotClosedWith { .. }
                | Self::NoSuchEntry(_)
                | Self::NoPrices
                | Self::UnknownDimension(_)
                | Self::UnknownSharePolicy(_)
        )
    }
}
