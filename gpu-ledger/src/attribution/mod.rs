//! Attribution: from what is stored of a process to the account that pays.
//!
//! Purpose: one account a settlement, and the labels by which it can be billed otherwise. May touch: nothing;
//! files of rules are read by the shell. May not: see anything of a process that is not stored as well, change
//! a figure, or answer with nothing.

mod process;
pub mod rules;
mod subject;

pub use process::Process;
pub use subject::{AncestorSubject, ContainerNames, Subject, Users};
