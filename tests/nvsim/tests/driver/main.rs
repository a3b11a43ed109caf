//! The simulated driver from outside: real processes, the real nvml-wrapper, independent clients.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on must stop, and a missing field or row fails it"
)]
#![expect(clippy::disallowed_methods, reason = "these tests run programs and wait with a deadline")]

mod clients;
mod nvml;
mod processes;
#[path = "../../../support/python.rs"]
mod python;
mod support;
