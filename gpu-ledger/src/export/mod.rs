//! Bills and settlements for other programs and for people elsewhere.
//!
//! Purpose: a bill as a workbook, as a page for a browser; settlements as rows. May touch: nothing; what is written
//! goes where the shell says. May not: compute a figure that the bill has, use a float, put a zero where
//! nothing is known, or let a stranger's name be anything but text. The same report gives the same bytes.
#![deny(clippy::arithmetic_side_effects)]

#[cfg(test)]
pub(crate) mod made;
pub mod words;
#[cfg(feature = "xlsx")]
pub mod xlsx;
