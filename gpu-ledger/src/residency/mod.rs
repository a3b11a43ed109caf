//! Residency curves that prove how near each number was to the moment it claims.
//!
//! ```text
//! schedule ─► probe (a thread per GPU) ─► samples ─► timeline ─► tally ─► verdict
//!   when         brackets around calls      raw        points     figures    backend, data
//!                                                        └─► statistics ─► show, compare, methods
//!                                                             of a valid batch alone
//! ```
//!
//! Purpose: device memory and utilization over time, read at a fixed period, with the age of the sample
//! that stands behind every point. Everything after the raw samples is a pure function of them, so that
//! whoever has a batch's folder can compute every figure and both verdicts again, byte for byte. Books
//! nothing. May touch: nothing in the pure files; `probe` the clock and the driver, `files` a folder.
//! May not: interpolate, look ahead, repeat a number that could not be read, start a program.
//!
//! # Words
//! - **sample**: one pass over the fields of a GPU, each field with the bracket of clock readings around
//!   its driver call. It *lands* when its last field, device memory, was read; one whose memory could not
//!   be read does not land, and the one before it keeps ageing.
//! - **held sample** at t: the newest that had landed by t. **Age** at t: from before its memory was asked
//!   for to t, the upper bound of the true distance.
//! - **supremum age**: the age an instant before the next sample lands, which a grid of points can miss.
//! - **window**: T0, the landing of the first sample, and N points from there at the timeline's period.
//! - **iteration**: one window of one (config, context, round). **batch**: the iterations of one GPU in
//!   one folder: one over-age sample voids all of it.

pub mod claims;
pub mod compare;
pub mod counts;
pub mod ending;
pub mod events;
#[cfg(feature = "parquet")]
pub mod export;
pub mod facts;
pub mod files;
pub mod methods;
pub mod moment;
pub mod pages;
pub mod plot;
pub mod probe;
pub mod reading;
pub mod reasons;
pub mod recorder;
pub mod sample;
pub mod schedule;
pub mod settings;
pub mod show;
pub mod spread;
pub mod statistics;
pub mod tally;
pub mod timeline;
pub mod verdict;

#[cfg(test)]
mod tests;
