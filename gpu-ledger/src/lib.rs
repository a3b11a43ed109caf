//! gpu-ledger: who spent the GPU, how much, and what could not be seen.
//!
//! ```text
//! kernel events ─► identity ─┐
//!                            ├─► settlement ─► bill
//! NVML rows ────► accounting ┘
//! ```
//!
//! Pure rooms take values, shell rooms take handles. A number that was not observed is
//! [`unknown::Observed::Unknown`], never a zero.

pub mod accounting;
pub mod bill;
pub mod cli;
pub mod clock;
pub mod coverage;
pub mod escape;
pub mod identity;
pub mod kernel;
#[cfg(test)]
mod random;
pub mod session;
pub mod settlement;
pub mod unit;
pub mod unknown;
