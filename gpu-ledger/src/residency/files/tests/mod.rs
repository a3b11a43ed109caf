//! Batches made on the virtual clock, as they are written, changed and proven.

mod accepted;
mod cut;
mod forged;
mod full;
mod halted;
mod killed;
pub(crate) mod made;
mod rules;
mod tampered;
mod work;
