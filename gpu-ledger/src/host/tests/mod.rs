//! Made histories, without root and without a GPU.

mod bounds;
mod joining;
mod made;
mod order;
mod reach;
mod restart;
