//! What fuzzing asks of bundles (`fuzz/README.md`).

pub use super::verify::fuzzing::{bundle, bundle_documents, proof};
