//! Attribution: from what is stored of a process to the account that pays.
//!
//! Purpose: one account a settlement, and the labels by which it can be billed otherwise. May touch: nothing;
//! files of rules are read by the shell; `ollama`: manifests under the folder it is given. May not: see anything
//! of a process that is not stored as well, change a figure, or answer with nothing.

mod model;
mod ollama;
mod subject;

pub use model::model_of;
pub use ollama::{Blobs, MANIFESTS_MAX, OllamaError};
pub use subject::{AncestorSubject, ContainerNames, Subject, Users};
