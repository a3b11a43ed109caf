//! Pictures of batches made by hand.

mod gallery;
mod kept;
mod made;
mod page;
mod stack;
mod void;
