//! `gpu-ledger residency` as it is built.
#![expect(clippy::disallowed_methods, reason = "tests start programs")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

#[path = "residency/verify.rs"]
mod verify;
