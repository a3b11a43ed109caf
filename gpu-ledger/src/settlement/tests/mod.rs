//! The join against made histories, with no root and no clock.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "made times are small and their sums are plain"
)]

mod books;
mod clocks;
mod flags;
mod made;
mod reasons;
mod truth;
