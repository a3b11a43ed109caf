//! The bill: interval algebra over spans, and its closing check.
//!
//! Purpose: from spans to alone, shared, free and uncovered time, per GPU and account. May touch:
//! nothing. May not: read a source, use a float, round before text is rendered.
//! Invariant: per GPU and period, alone + shared + free + uncovered = period, to the millisecond.
#![deny(clippy::arithmetic_side_effects)]
