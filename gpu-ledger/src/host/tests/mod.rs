//! Made histories, without root and without a GPU.

mod bounds;
mod joining;
pub(crate) mod made;
mod memory;
mod order;
mod reach;
mod restart;
